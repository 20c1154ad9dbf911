#include "engine/engine.h"

#include <string.h>

#include "base/fpenv.h"
#include "model/hf.h"
#include "model/quantise_file.h"

/* Keeps the reason why a part of the file is not used. */
static void keep_problem(char dst[256], const infer_error *e)
{
    size_t n = strlen(e->text);
    n = n < 255 ? n : 255;
    memcpy(dst, e->text, n);
    dst[n] = 0;
}

/* Memory and cancellation fail the model; anything else only means that it has no tokenizer of a known kind. */
static bool fatal(infer_status st)
{
    return st == INFER_ERROR_NO_MEMORY || st == INFER_ERROR_CANCELLED;
}

static infer_status open_text(infer_model *m, const infer_cancel *cancel, infer_error *err)
{
    infer_error e = {0};
    infer_status st = tokenizer_create(m->engine->env, m->file, cancel, &m->tokenizer, &e);
    if (st != INFER_OK) {
        keep_problem(m->tokenizer_problem, &e);
        if (fatal(st)) {
            if (err)
                *err = e;
            return st;
        }
    }
    st = template_create_from_file(m->engine->env, m->file, &m->tmpl, &e);
    if (st != INFER_OK && !fatal(st)) {
        keep_problem(m->template_problem, &e);
        st = template_create_chatml(m->engine->env, &m->tmpl, &e);
    }
    if (st != INFER_OK && err)
        *err = e;
    return st;
}

static infer_status open_net(infer_model *m, const infer_cancel *cancel, infer_error *err)
{
    infer_status st = engine_take(m->engine, cancel, err); /* the device is used by one thread at a time */
    if (st != INFER_OK)
        return st;
    struct fpenv fp = fpenv_enter();
    st = net_open(m->engine->env, m->engine->dev, m->file, m->n_ctx, &m->net, err);
    fpenv_leave(fp);
    engine_give(m->engine);
    return st;
}

struct opening {
    infer_engine *engine;
    const infer_cancel *cancel;
};

/* Tasks that are left when the flag is set. */
struct conversion {
    infer_engine *engine;
    pool_fn fn;
    void *job;
    atomic_bool left; /* one of them */
};

static void convert(void *arg, uint32_t worker, uint64_t task)
{
    struct conversion *c = arg;
    if (turns_stop(&c->engine->step_lock))
        atomic_store_explicit(&c->left, true, memory_order_relaxed);
    else
        c->fn(c->job, worker, task);
}

/* One tensor on the threads of the engine's device, if it has any; sessions may step in between. */
static infer_status run_tasks(void *arg, uint64_t n_tasks, pool_fn fn, void *job, infer_error *err)
{
    const struct opening *o = arg;
    struct conversion c = {o->engine, fn, job, false};
    infer_status st = engine_take(c.engine, o->cancel, err);
    if (st != INFER_OK)
        return st;
    struct fpenv fp = fpenv_enter();
    struct pool *pool = cpu_device_pool(c.engine->dev);
    if (pool)
        st = pool_run(pool, n_tasks, convert, &c);
    if (st != INFER_OK)
        err_set(err, st, st == INFER_ERROR_HOST ? "the host's executor failed" : "none of the engine's threads could be started");
    for (uint64_t i = 0; i < n_tasks && !pool; i++)
        convert(&c, 0, i);
    fpenv_leave(fp);
    engine_give(c.engine);
    return st == INFER_OK && atomic_load_explicit(&c.left, memory_order_relaxed) ? err_set(err, INFER_ERROR_CANCELLED, "cancelled while quantising") : st;
}

static infer_status open_file(infer_model *m, const infer_source *source, const infer_open_options *o, struct budget *plan, infer_error *err)
{
    struct hf_options how = {HF_AS_MODEL, o->map, o->cancel, plan};
    struct opening opening = {m->engine, o->cancel};
    struct quantise_run run = {run_tasks, &opening};
    infer_status st = hf_open(m->engine->env, source, &how, &m->file, err);
    return st == INFER_OK && o->quantise ? quantise_file(m->file, o->quantise, plan ? NULL : &run, plan, err) : st;
}

static infer_status open_as(infer_engine *engine, const infer_source *source, const infer_open_options *options, struct budget *plan,
                            infer_model **out, infer_error *err)
{
    infer_model *m = mem_zalloc(&engine->env->alloc, sizeof *m);
    bool one = m && os_mutex_init(&m->fingerprint_lock);
    if (!one || !os_mutex_init(&m->adapters.lock)) {
        if (one)
            os_mutex_destroy(&m->fingerprint_lock);
        mem_free(&engine->env->alloc, m);
        return err_no_memory(err);
    }
    ref_init(&m->ref);
    m->engine = engine_ref(engine);
    m->n_ctx = options->n_ctx;
    infer_status st = open_file(m, source, options, plan, err);
    if (st == INFER_OK)
        st = open_net(m, options->cancel, err);
    if (st == INFER_OK)
        st = open_text(m, options->cancel, err);
    if (st != INFER_OK) {
        model_release(m);
        return st;
    }
    *out = m;
    return INFER_OK;
}

infer_status model_open(infer_engine *engine, const infer_source *source, const infer_open_options *options,
                        infer_model **out, infer_error *err)
{
    return open_as(engine, source, options, NULL, out, err);
}

infer_status model_open_plan(infer_engine *engine, const infer_source *source, const infer_open_options *options, infer_model **out,
                             infer_error *err)
{
    return open_as(engine, source, options, engine->env->budget, out, err);
}

infer_model *model_ref(infer_model *m)
{
    ref_get(&m->ref);
    return m;
}

void model_release(infer_model *m)
{
    if (!m || !ref_put(&m->ref))
        return;
    infer_engine *engine = m->engine;
    prefix_model_gone(m);
    tokenizer_release(m->tokenizer);
    template_release(m->tmpl);
    net_close(m->net);
    file_release(m->file);
    os_mutex_destroy(&m->fingerprint_lock);
    os_mutex_destroy(&m->adapters.lock);
    mem_free(&engine->env->alloc, m);
    engine_release(engine);
}
