/* Memory that forked children share with their parent (--isolate fork), and locks in it, which survive whoever is killed while holding one: what they guard must make
 * sense at every moment. */
#ifndef SERVER_SHARED_H
#define SERVER_SHARED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

void *shared_alloc(size_t bytes); /* zeroed; pages that nobody touches cost nothing. NULL: out of memory */
void shared_free(void *p, size_t bytes);
bool shared_lock_init(pthread_mutex_t *lock);
void shared_lock(pthread_mutex_t *lock);
void shared_unlock(pthread_mutex_t *lock);

#endif
