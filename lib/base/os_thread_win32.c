/* Threads on Windows: slim locks and condition variables, which need no destruction. */
#include "base/os_thread.h"

#include <process.h>
#include <stdatomic.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

uint64_t os_process_id(void)
{
    return GetCurrentProcessId();
}

_Static_assert(sizeof(SRWLOCK) == sizeof(struct os_mutex) && sizeof(CONDITION_VARIABLE) == sizeof(struct os_cond),
               "os_thread.h holds them without windows.h");

static SRWLOCK *lock_of(struct os_mutex *m)
{
    return (SRWLOCK *)(void *)m;
}

static CONDITION_VARIABLE *cond_of(struct os_cond *c)
{
    return (CONDITION_VARIABLE *)(void *)c;
}

bool os_mutex_init(struct os_mutex *m)
{
    InitializeSRWLock(lock_of(m));
    return true;
}

void os_mutex_destroy(struct os_mutex *m)
{
    (void)m;
}

void os_mutex_lock(struct os_mutex *m)
{
    AcquireSRWLockExclusive(lock_of(m));
}

void os_mutex_unlock(struct os_mutex *m)
{
    ReleaseSRWLockExclusive(lock_of(m));
}

bool os_cond_init(struct os_cond *c)
{
    InitializeConditionVariable(cond_of(c));
    return true;
}

void os_cond_destroy(struct os_cond *c)
{
    (void)c;
}

void os_cond_wait(struct os_cond *c, struct os_mutex *m)
{
    (void)SleepConditionVariableSRW(cond_of(c), lock_of(m), INFINITE, 0);
}

void os_cond_signal(struct os_cond *c)
{
    WakeConditionVariable(cond_of(c));
}

void os_cond_broadcast(struct os_cond *c)
{
    WakeAllConditionVariable(cond_of(c));
}

/* Carries fn and arg into the thread without an allocation: the creator waits until the thread has read them. */
struct start {
    void (*fn)(void *arg);
    void *arg;
    atomic_int taken;
};

static unsigned __stdcall thread_main(void *p)
{
    struct start *s = p;
    void (*fn)(void *arg) = s->fn;
    void *arg = s->arg;
    atomic_store_explicit(&s->taken, 1, memory_order_release);
    fn(arg);
    return 0;
}

bool os_thread_start(struct os_thread *t, void (*fn)(void *arg), void *arg)
{
    struct start s = {.fn = fn, .arg = arg};
    atomic_init(&s.taken, 0);
    t->native = (void *)_beginthreadex(NULL, 0, thread_main, &s, 0, NULL);
    while (t->native && !atomic_load_explicit(&s.taken, memory_order_acquire))
        (void)SwitchToThread();
    return t->native != NULL;
}

void os_thread_join(struct os_thread *t)
{
    (void)WaitForSingleObject((HANDLE)t->native, INFINITE);
    (void)CloseHandle((HANDLE)t->native);
}

void os_thread_yield(void)
{
    (void)SwitchToThread();
}
