/* Engines and models. */
#include "api/api.h"
#include "base/budget.h"
#include "base/os_memory.h"
#include "base/pool.h"
#include "engine/engine.h"
#include "kernels/cpu.h"

#include <string.h>

static infer_status check_executor(const infer_engine_options *o, infer_executor *full, infer_error *err)
{
    infer_status st = API_IN(o->executor, full, infer_executor, err);
    if (st != INFER_OK)
        return st;
    if (!full->run)
        return err_at(err, INFER_ERROR_ARGUMENT, "executor", 8, ERR_NO_OFFSET, "run is required");
    if (full->concurrency < 1 || full->concurrency > POOL_MAX_THREADS)
        return err_at(err, INFER_ERROR_ARGUMENT, "concurrency", 11, ERR_NO_OFFSET, "must be 1 to %u", POOL_MAX_THREADS);
    if (o->threads)
        return err_at(err, INFER_ERROR_ARGUMENT, "threads", 7, ERR_NO_OFFSET, "must be 0 when there is an executor");
    return INFER_OK;
}

static infer_status create_engine(const infer_engine_options *options, infer_engine **out, infer_error *err)
{
    infer_engine_options o;
    infer_allocator a;
    infer_executor x;
    infer_status st = api_not_null(out, "out", err);
    if (st == INFER_OK)
        st = API_IN(options, &o, infer_engine_options, err);
    if (st != INFER_OK)
        return st;
    if (o.log_level < 0 || o.log_level > INFER_LOG_DEBUG)
        return err_at(err, INFER_ERROR_ARGUMENT, "log_level", 9, ERR_NO_OFFSET, "unknown log level");
    if (o.cache_dir && !o.cache_bytes)
        return err_at(err, INFER_ERROR_ARGUMENT, "cache_dir", 9, ERR_NO_OFFSET, "needs cache_bytes");
    if (o.cache_dir)
        st = api_text(o.cache_dir, o.cache_dir_len, &o.cache_dir_len, "cache_dir", err);
    if (st != INFER_OK)
        return st;
    if (o.allocator) {
        st = API_IN(o.allocator, &a, infer_allocator, err);
        if (st != INFER_OK)
            return st;
        if (!a.alloc || !a.free)
            return err_at(err, INFER_ERROR_ARGUMENT, "allocator", 9, ERR_NO_OFFSET, "alloc and free are both required");
        o.allocator = &a;
    }
    if (o.executor) {
        st = check_executor(&o, &x, err);
        if (st != INFER_OK)
            return st;
        o.executor = &x;
    }
    return engine_create(&o, out, err);
}

infer_status infer_engine_create(const infer_engine_options *options, infer_engine **out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, create_engine(options, out, &e));
}

infer_engine *infer_engine_ref(infer_engine *engine)
{
    return engine ? engine_ref(engine) : NULL;
}

void infer_engine_release(infer_engine *engine)
{
    engine_release(engine);
}

static infer_status engine_info(infer_engine *engine, infer_engine_info *out, infer_error *err)
{
    infer_status st = api_not_null(engine, "engine", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_engine_info, err);
    if (st != INFER_OK)
        return st;
    infer_engine_info info = {.cpu = cpu_device_level(engine->dev), .numerics = engine->numerics,
                              .threads = engine->threads, .kv_bytes = kv_pool_bytes(engine->kv),
                              .kv_budget = engine->kv_budget};
    struct budget *b = engine->env->budget;
    if (b) {
        info.memory_bytes = budget_used(b);
        info.memory_peak = budget_peak(b);
        info.memory_limit = b->limit;
    }
    API_PUT_OUT(out, &info);
    return INFER_OK;
}

infer_status infer_engine_get_info(infer_engine *engine, infer_engine_info *out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, engine_info(engine, out, &e));
}

const char *infer_cpu_name(int32_t cpu)
{
    return cpu_level_name(cpu);
}

int32_t infer_cpu_from_name(const char *name, uint64_t name_len)
{
    uint64_t len;
    return api_text(name, name_len, &len, "name", NULL) == INFER_OK ? cpu_level_from_name(name, (size_t)len) : -1;
}

static infer_status open_model(infer_engine *engine, const infer_source *source, const infer_open_options *options,
                               infer_model **out, infer_error *err)
{
    infer_source s;
    infer_open_options o;
    infer_status st = api_not_null(out, "out", err);
    if (st == INFER_OK)
        st = api_open_args(source, options, &s, &o, err);
    if (st != INFER_OK)
        return st;
    infer_engine_options defaults = {.size = (uint32_t)sizeof defaults};
    infer_engine *own = NULL;
    if (!engine) {
        st = engine_create(&defaults, &own, err);
        if (st != INFER_OK)
            return st;
    }
    st = model_open(engine ? engine : own, &s, &o, out, err);
    engine_release(own); /* the model holds it */
    return st;
}

infer_status infer_model_open(infer_engine *engine, const infer_source *source, const infer_open_options *options,
                              infer_model **out, infer_error *err)
{
    infer_error e;
    infer_engine *held = infer_engine_ref(engine); /* a source's callback may release it */
    infer_status st = open_model(engine, source, options, out, &e);
    st = api_done_in(api_env(held), err, &e, st);
    infer_engine_release(held);
    return st;
}

infer_status infer_model_open_path(infer_engine *engine, const char *path, infer_model **out, infer_error *err)
{
    infer_error e;
    infer_source source;
    if (!path)
        return api_done(err, &e, api_not_null(path, "path", &e));
    infer_source_path(&source, path, INFER_ZSTR);
    return infer_model_open(engine, &source, NULL, out, err);
}

infer_model *infer_model_ref(infer_model *model)
{
    return model ? model_ref(model) : NULL;
}

void infer_model_release(infer_model *model)
{
    model_release(model);
}

infer_tokenizer *infer_model_tokenizer(const infer_model *model)
{
    return model ? model->tokenizer : NULL;
}

infer_template *infer_model_template(const infer_model *model)
{
    return model ? model->tmpl : NULL;
}

infer_file *infer_model_file(const infer_model *model)
{
    return model ? model->file : NULL;
}

infer_engine *infer_model_engine(const infer_model *model)
{
    return model ? model->engine : NULL;
}

static void copy_string(char *dst, size_t cap, const char *src, size_t len)
{
    len = len < cap ? len : cap - 1;
    if (len)
        memcpy(dst, src, len);
    dst[len] = 0;
}

static infer_status model_info(const infer_model *m, infer_model_info *out, infer_error *err)
{
    infer_status st = api_not_null(m, "model", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_model_info, err);
    if (st != INFER_OK)
        return st;
    const struct hparams *h = &m->net->h;
    infer_model_info i = {.vocab_size = h->n_logits, .n_layer = h->n_layer, .n_embd = h->n_embd, .n_head = h->n_head,
                          .n_head_kv = h->n_head_kv, .head_dim = h->head_dim, .n_ctx_train = h->n_ctx_train,
                          .window = h->window, .embedding_width = net_embedding_width(m->net), .pooling = h->pooling,
                          .encoder = h->encoder, .embed_tokens = h->embed_tokens};
    for (uint64_t t = 0; t < m->file->n_tensors; t++) {
        i.n_params += m->file->tensors[t].n;
        i.weight_bytes += m->file->tensors[t].bytes;
    }
    struct file_str name;
    if (file_get_string_or(m->file, "general.name", "", &name, NULL) == INFER_OK)
        copy_string(i.name, sizeof i.name, name.data, (size_t)name.len);
    copy_string(i.architecture, sizeof i.architecture, m->net->arch->name, strlen(m->net->arch->name));
    copy_string(i.tokenizer_problem, sizeof i.tokenizer_problem, m->tokenizer_problem, strlen(m->tokenizer_problem));
    copy_string(i.template_problem, sizeof i.template_problem, m->template_problem, strlen(m->template_problem));
    API_PUT_OUT(out, &i);
    return INFER_OK;
}

infer_status infer_model_get_info(const infer_model *model, infer_model_info *out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, model_info(model, out, &e));
}

static infer_status model_memory(const infer_model *m, infer_model_memory *out, infer_error *err)
{
    infer_status st = api_not_null(m, "model", err);
    if (st == INFER_OK)
        st = API_CHECK_OUT(out, infer_model_memory, err);
    if (st != INFER_OK)
        return st;
    infer_model_memory i = {.n_expert = m->net->h.n_expert, .n_expert_used = m->net->h.n_expert_used, .own_bytes = m->net->own_bytes};
    for (uint64_t t = 0; t < m->file->n_tensors; t++) {
        const struct file_tensor *f = &m->file->tensors[t];
        uint64_t resident = os_memory_resident(f->data, f->bytes);
        bool experts = m->net->h.n_expert && net_tensor_is_experts(f);
        i.weight_bytes += f->bytes;
        i.resident_bytes += resident;
        i.expert_bytes += experts ? f->bytes : 0;
        i.expert_resident_bytes += experts ? resident : 0;
    }
    API_PUT_OUT(out, &i);
    return INFER_OK;
}

infer_status infer_model_get_memory(const infer_model *model, infer_model_memory *out, infer_error *err)
{
    infer_error e;
    return api_done(err, &e, model_memory(model, out, &e));
}
