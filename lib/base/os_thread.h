/* Threads, locks and condition variables. In a build without threads (INFER_NO_THREADS) os_thread_start always fails, so that callers
 * do all work themselves, and locks do nothing. */
#ifndef BASE_OS_THREAD_H
#define BASE_OS_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#ifdef INFER_NO_THREADS
struct os_mutex {
    int unused;
};
struct os_cond {
    int unused;
};
struct os_thread {
    int unused;
};
#elif defined(_WIN32)
struct os_mutex {
    void *native; /* SRWLOCK */
};
struct os_cond {
    void *native; /* CONDITION_VARIABLE */
};
struct os_thread {
    void *native; /* HANDLE */
};
#else
#include <pthread.h>
struct os_mutex {
    pthread_mutex_t native;
};
struct os_cond {
    pthread_cond_t native;
};
struct os_thread {
    pthread_t native;
};
#endif

bool os_mutex_init(struct os_mutex *m); /* false: no memory */
void os_mutex_destroy(struct os_mutex *m);
void os_mutex_lock(struct os_mutex *m);
void os_mutex_unlock(struct os_mutex *m);

bool os_cond_init(struct os_cond *c);
void os_cond_destroy(struct os_cond *c);
void os_cond_wait(struct os_cond *c, struct os_mutex *m); /* may return without a signal */
void os_cond_signal(struct os_cond *c);
void os_cond_broadcast(struct os_cond *c);

/* The thread starts with all signals blocked but those that a fault raises, so that the host's handlers run on the host's threads. */
bool os_thread_start(struct os_thread *t, void (*fn)(void *arg), void *arg);
void os_thread_join(struct os_thread *t);
void os_thread_yield(void);

/* Differs from an earlier value after fork(): threads that were started before do not exist in this process. Locks may then be in any
 * state and are to be initialised anew. */
uint64_t os_process_id(void);

/* Inside a loop that waits for another thread. */
static inline void os_spin_pause(void)
{
#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#endif
}

#endif
