#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "shared.h"

#include <errno.h>
#include <sys/mman.h>

void *shared_alloc(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void shared_free(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}

bool shared_lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t a;
    if (pthread_mutexattr_init(&a) != 0)
        return false;
    bool ok = pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED) == 0 && pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST) == 0 &&
              pthread_mutex_init(lock, &a) == 0;
    pthread_mutexattr_destroy(&a);
    return ok;
}

void shared_lock(pthread_mutex_t *lock)
{
    if (pthread_mutex_lock(lock) == EOWNERDEAD)
        pthread_mutex_consistent(lock);
}

void shared_unlock(pthread_mutex_t *lock)
{
    pthread_mutex_unlock(lock);
}
