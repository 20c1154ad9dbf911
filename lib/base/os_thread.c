#include "base/os_thread.h"

#include <unistd.h>

uint64_t os_process_id(void)
{
    return (uint64_t)getpid();
}

#ifdef INFER_NO_THREADS

bool os_mutex_init(struct os_mutex *m)
{
    m->unused = 0;
    return true;
}

void os_mutex_destroy(struct os_mutex *m)
{
    (void)m;
}

void os_mutex_lock(struct os_mutex *m)
{
    (void)m;
}

void os_mutex_unlock(struct os_mutex *m)
{
    (void)m;
}

bool os_cond_init(struct os_cond *c)
{
    c->unused = 0;
    return true;
}

void os_cond_destroy(struct os_cond *c)
{
    (void)c;
}

void os_cond_wait(struct os_cond *c, struct os_mutex *m)
{
    (void)c;
    (void)m;
}

void os_cond_signal(struct os_cond *c)
{
    (void)c;
}

void os_cond_broadcast(struct os_cond *c)
{
    (void)c;
}

bool os_thread_start(struct os_thread *t, void (*fn)(void *arg), void *arg)
{
    (void)t;
    (void)fn;
    (void)arg;
    return false;
}

void os_thread_join(struct os_thread *t)
{
    (void)t;
}

void os_thread_yield(void)
{
}

#else

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

bool os_mutex_init(struct os_mutex *m)
{
    return pthread_mutex_init(&m->native, NULL) == 0;
}

void os_mutex_destroy(struct os_mutex *m)
{
    (void)pthread_mutex_destroy(&m->native);
}

void os_mutex_lock(struct os_mutex *m)
{
    (void)pthread_mutex_lock(&m->native);
}

void os_mutex_unlock(struct os_mutex *m)
{
    (void)pthread_mutex_unlock(&m->native);
}

bool os_cond_init(struct os_cond *c)
{
    return pthread_cond_init(&c->native, NULL) == 0;
}

void os_cond_destroy(struct os_cond *c)
{
    (void)pthread_cond_destroy(&c->native);
}

void os_cond_wait(struct os_cond *c, struct os_mutex *m)
{
    (void)pthread_cond_wait(&c->native, &m->native);
}

void os_cond_signal(struct os_cond *c)
{
    (void)pthread_cond_signal(&c->native);
}

void os_cond_broadcast(struct os_cond *c)
{
    (void)pthread_cond_broadcast(&c->native);
}

/* Carries fn and arg through pthread_create without an allocation: the creator waits until the thread has read them. */
struct start {
    void (*fn)(void *arg);
    void *arg;
    atomic_int taken;
};

static void *thread_main(void *p)
{
    struct start *s = p;
    void (*fn)(void *arg) = s->fn;
    void *arg = s->arg;
    atomic_store_explicit(&s->taken, 1, memory_order_release);
    fn(arg);
    return NULL;
}

bool os_thread_start(struct os_thread *t, void (*fn)(void *arg), void *arg)
{
    struct start s = {.fn = fn, .arg = arg};
    atomic_init(&s.taken, 0);
    sigset_t blocked, old;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGBUS);
    sigdelset(&blocked, SIGFPE);
    sigdelset(&blocked, SIGILL);
    sigdelset(&blocked, SIGTRAP);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, &old);
    bool ok = pthread_create(&t->native, NULL, thread_main, &s) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    while (ok && !atomic_load_explicit(&s.taken, memory_order_acquire))
        (void)sched_yield();
    return ok;
}

void os_thread_join(struct os_thread *t)
{
    (void)pthread_join(t->native, NULL);
}

void os_thread_yield(void)
{
    (void)sched_yield();
}

#endif
