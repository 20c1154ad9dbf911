#include "engine/engine.h"

#include <string.h>

#include "base/budget.h"
#include "base/os_file.h"
#include "base/pool.h"

static void *host_get(void *user, size_t size, size_t align)
{
    const infer_allocator *a = user;
    return a->alloc(a->user, size, align);
}

static void host_put(void *user, void *block, size_t size, size_t align)
{
    const infer_allocator *a = user;
    a->free(a->user, block, size, align);
}

/* An env with room behind it for what its allocator needs: the host's struct, and the count of what it gave out. */
struct host_env {
    struct env env;
    infer_allocator allocator;
    struct budget budget;
};

/* from: where all memory comes from, the env's own too. limit 0: none. */
static struct host_env *host_env_create(const struct alloc *from, uint64_t limit, infer_error *err)
{
    struct budget first; /* counts for h, which it cannot lie in yet */
    budget_init(&first, from, limit);
    struct alloc a = budget_alloc(&first);
    struct host_env *h = mem_zalloc(&a, sizeof *h);
    if (!h) {
        (void)err_no_memory(err);
        budget_explain(&first, err);
        return NULL;
    }
    budget_init(&h->budget, from, limit);
    atomic_init(&h->budget.used, budget_used(&first));
    atomic_init(&h->budget.peak, budget_used(&first));
    h->env.alloc = budget_alloc(&h->budget);
    h->env.budget = &h->budget;
    h->env.io = &os_io_default;
    ref_init(&h->env.ref);
    return h;
}

static const struct env *env_of_options(const infer_engine_options *o, infer_error *err)
{
    infer_allocator a = o->allocator ? *o->allocator : (infer_allocator){0};
    struct alloc first = o->allocator ? (struct alloc){&a, host_get, host_put} : env_default.alloc;
    struct host_env *h = host_env_create(&first, o->memory_limit, err);
    if (!h)
        return NULL;
    h->allocator = a;
    if (o->allocator)
        h->budget.from.user = &h->allocator;
    h->env.log = o->log;
    h->env.log_user = o->log_user;
    h->env.log_level = o->log_level ? o->log_level : INFER_LOG_WARNING;
    return &h->env;
}

static bool stop(void *user)
{
    return turns_stop(&((infer_engine *)user)->step_lock);
}

static infer_status engine_make(const struct env *env, struct device *dev, uint64_t kv_budget, infer_engine **out,
                                infer_error *err)
{
    infer_engine *e = mem_zalloc(&env->alloc, sizeof *e);
    struct batch_arrays *batch = mem_zalloc(&env->alloc, sizeof *batch);
    if (!e || !batch || !turns_hall_init(&e->hall)) {
        mem_free(&env->alloc, e);
        mem_free(&env->alloc, batch);
        return err_no_memory(err);
    }
    infer_status st = kv_pool_create(env, dev, kv_budget, &e->kv, err);
    if (st != INFER_OK) {
        turns_hall_destroy(&e->hall);
        mem_free(&env->alloc, e);
        mem_free(&env->alloc, batch);
        return st;
    }
    ref_init(&e->ref);
    e->env = env;
    e->dev = dev;
    e->step_lock = turns_in(&e->hall);
    dev->ops->watch(dev, stop, e);
    e->batch = batch;
    e->kv_budget = kv_budget;
    e->threads = 1;
    *out = e;
    return INFER_OK;
}

infer_status engine_create_on(const struct env *env, struct device *dev, uint64_t kv_budget, infer_engine **out,
                              infer_error *err)
{
    const struct env *own = env_create(env);
    infer_status st = own ? engine_make(own, dev, kv_budget, out, err) : err_no_memory(err);
    if (st != INFER_OK) {
        dev->ops->destroy(dev);
        env_release(own);
    }
    return st;
}

/* On an env, which it then owns (also when this fails). */
static infer_status engine_create_in(const struct env *env, const struct cpu_device_options *d, uint64_t kv_budget, infer_engine **out,
                                     infer_error *err)
{
    struct device *dev = NULL;
    infer_status st = cpu_device_create(&env->alloc, d, &dev, err);
    if (st == INFER_OK) {
        st = engine_make(env, dev, kv_budget, out, err);
        if (st != INFER_OK)
            dev->ops->destroy(dev);
    }
    if (st != INFER_OK) {
        if (st == INFER_ERROR_NO_MEMORY)
            budget_explain(env->budget, err);
        env_release(env);
        return st;
    }
    (*out)->numerics = d->numerics;
    (*out)->threads = d->threads;
    (*out)->own_threads = !d->executor;
    return INFER_OK;
}

infer_status engine_create(const infer_engine_options *options, infer_engine **out, infer_error *err)
{
    struct cpu_device_options d = {.cpu = options->cpu, .numerics = options->numerics, .threads = options->threads,
                                   .executor = options->executor};
    if (d.executor)
        d.threads = d.executor->concurrency;
    else if (!d.threads)
        d.threads = pool_default_threads();
    if (options->threads > POOL_MAX_THREADS)
        return err_at(err, INFER_ERROR_ARGUMENT, "threads", 7, ERR_NO_OFFSET, "at most %u threads", POOL_MAX_THREADS);
    if (options->numerics < INFER_NUMERICS_EXACT || options->numerics > INFER_NUMERICS_FAST)
        return err_at(err, INFER_ERROR_ARGUMENT, "numerics", 8, ERR_NO_OFFSET, "unknown numerics mode %d",
                      (int)options->numerics);
    const struct env *env = env_of_options(options, err);
    if (!env)
        return INFER_ERROR_NO_MEMORY;
    infer_status st = engine_create_in(env, &d, options->kv_budget, out, err);
    if (st != INFER_OK)
        return st;
    st = prefix_setup(*out, options, err);
    if (st != INFER_OK) {
        if (st == INFER_ERROR_NO_MEMORY)
            budget_explain(env->budget, err);
        engine_release(*out);
        *out = NULL;
    }
    return st;
}

infer_status engine_take(infer_engine *e, const infer_cancel *cancel, infer_error *err)
{
    return turns_take(&e->step_lock, cancel) ? INFER_OK : err_set(err, INFER_ERROR_CANCELLED, "cancelled");
}

infer_status engine_create_plan(const infer_engine *like, uint32_t threads, infer_engine **out, infer_error *err)
{
    const struct env *from = engine_env(like);
    struct host_env *h = host_env_create(&from->alloc, 0, err);
    if (!h)
        return INFER_ERROR_NO_MEMORY;
    h->env.io = from->io;
    struct cpu_device_options d = {.cpu = like ? cpu_device_level(like->dev) : INFER_CPU_AUTO,
                                   .numerics = like ? like->numerics : INFER_NUMERICS_EXACT,
                                   .threads = threads ? threads : like ? like->threads : pool_default_threads(), .plan = &h->budget};
    return engine_create_in(&h->env, &d, 0, out, err);
}

infer_engine *engine_ref(infer_engine *e)
{
    ref_get(&e->ref);
    return e;
}

void engine_release(infer_engine *e)
{
    if (!e || !ref_put(&e->ref))
        return;
    const struct env *env = e->env;
    adapter_workspace_free(&e->ws.adapt, e->dev, &env->alloc);
    workspace_free(&e->ws, e->dev);
    prefix_teardown(e);
    kv_pool_destroy(e->kv);
    e->dev->ops->destroy(e->dev);
    turns_hall_destroy(&e->hall);
    mem_free(&env->alloc, e->batch);
    mem_free(&env->alloc, e);
    env_release(env);
}

const struct env *engine_env(const infer_engine *e)
{
    return e ? e->env : &env_default;
}
