#include "memory.h"

#include "output.h"

#define MAX_CONTEXTS 3

static const struct {
    const char *name;
    int32_t type;
} kv_types[] = {{"f32", INFER_KV_F32}, {"f16", INFER_KV_F16}, {"mixed-f16", INFER_KV_MIXED_F16}, {"int8", INFER_KV_INT8}};
#define N_KV_TYPES (sizeof kv_types / sizeof *kv_types)

static infer_status estimate(const struct options *o, infer_engine *engine, const infer_source *source, int32_t kv_type, uint32_t n_ctx, uint64_t budget,
                             infer_estimate *out, infer_error *err)
{
    infer_open_options open;
    infer_estimate_options eo;
    INFER_INIT(&open);
    INFER_INIT(&eo);
    INFER_INIT(out);
    INFER_INIT(err);
    open.quantise = o->quantise;
    eo.kv_type = kv_type;
    eo.n_ctx = n_ctx;
    eo.threads = engine ? 0 : o->threads;
    eo.budget = budget;
    return infer_model_estimate(engine, source, &open, &eo, out, err);
}

int memory_plan(struct cli *c)
{
    infer_error err;
    infer_estimate e;
    infer_source source;
    infer_engine_options eo;
    infer_engine *like = NULL; /* what --cpu and --numerics make of the working memory */
    if (!c->opt.memory)
        return EXIT_OK;
    INFER_INIT(&err);
    INFER_INIT(&eo);
    eo.cpu = c->opt.cpu;
    eo.numerics = c->opt.numerics;
    eo.threads = c->opt.threads;
    infer_source_path(&source, c->model_path, INFER_ZSTR);
    infer_status st = infer_engine_create(&eo, &like, &err);
    if (st == INFER_OK)
        st = estimate(&c->opt, like, &source, c->opt.kv_type, c->opt.ctx, c->opt.memory, &e, &err);
    infer_engine_release(like);
    if (st != INFER_OK) {
        note_error(st == INFER_ERROR_LIMIT ? "--memory" : err.file[0] ? NULL : c->model_path, &err);
        return st == INFER_ERROR_ARGUMENT ? EXIT_USAGE : exit_code(st, false);
    }
    c->memory_limit = c->opt.memory - e.mapped_bytes;
    c->opt.ctx = e.n_ctx;
    return EXIT_OK;
}

/* Contexts worth showing: --ctx, else the model's own and what is often asked for below it. */
static uint32_t contexts(const struct options *o, uint32_t own, uint32_t out[MAX_CONTEXTS])
{
    static const uint32_t usual[] = {2048, 8192, 32768};
    uint32_t n = 0;
    if (o->ctx) {
        out[n++] = o->ctx;
        return n;
    }
    for (uint32_t i = 0; i < sizeof usual / sizeof *usual && n + 1 < MAX_CONTEXTS; i++)
        if (usual[i] < own)
            out[n++] = usual[i];
    out[n++] = own;
    return n;
}

static void put_mib(struct text *t, int width, uint64_t bytes)
{
    text_putf(t, "%*.1f", width, (double)bytes / 1048576);
}

void memory_put(struct text *t, const struct options *o, const infer_source *source)
{
    uint32_t ctx[MAX_CONTEXTS];
    infer_error err;
    infer_estimate e;
    if (estimate(o, NULL, source, INFER_KV_F16, 0, 0, &e, &err) != INFER_OK)
        return;
    uint32_t n = contexts(o, e.n_ctx, ctx);
    text_puts(t, "memory          MiB at most, of these ");
    put_mib(t, 0, e.mapped_bytes);
    text_puts(t, " mapped\n");
    text_putf(t, "  %-14s", "context");
    for (uint32_t i = 0; i < n; i++)
        text_putf(t, "%10u", ctx[i]);
    text_puts(t, o->memory ? "  fits into --memory\n" : "\n");
    for (size_t k = 0; k < N_KV_TYPES; k++) {
        text_putf(t, "  --kv %-9s", kv_types[k].name);
        for (uint32_t i = 0; i < n; i++) {
            if (estimate(o, NULL, source, kv_types[k].type, ctx[i], 0, &e, &err) == INFER_OK)
                put_mib(t, 10, e.total_bytes);
            else
                text_putf(t, "%10s", "-");
        }
        if (o->memory && estimate(o, NULL, source, kv_types[k].type, 0, o->memory, &e, &err) == INFER_OK)
            text_putf(t, "  %u tokens", e.n_ctx);
        else if (o->memory)
            text_puts(t, "  none");
        text_puts(t, "\n");
    }
}

static void put_event(struct text *t, const char *kv, const infer_estimate *e, uint64_t budget)
{
    text_putf(t, "{\"event\":\"estimate\",\"kv\":\"%s\",\"n_ctx\":%u,", kv, e->n_ctx);
    text_putf(t, "\"weight_bytes\":%llu,\"mapped_bytes\":%llu,\"own_bytes\":%llu,\"kv_bytes\":%llu,", (unsigned long long)e->weight_bytes,
              (unsigned long long)e->mapped_bytes, (unsigned long long)e->own_bytes, (unsigned long long)e->kv_bytes);
    text_putf(t, "\"scratch_bytes\":%llu,\"memory_bytes\":%llu,\"total_bytes\":%llu", (unsigned long long)e->scratch_bytes,
              (unsigned long long)e->memory_bytes, (unsigned long long)e->total_bytes);
    if (budget)
        text_putf(t, ",\"budget\":%llu", (unsigned long long)budget);
    text_puts(t, "}\n");
}

void memory_put_json(struct text *t, const struct options *o, const infer_source *source)
{
    uint32_t ctx[MAX_CONTEXTS];
    infer_error err;
    infer_estimate e;
    if (estimate(o, NULL, source, INFER_KV_F16, 0, 0, &e, &err) != INFER_OK)
        return;
    uint32_t n = contexts(o, e.n_ctx, ctx);
    for (size_t k = 0; k < N_KV_TYPES; k++) {
        for (uint32_t i = 0; i < n; i++)
            if (estimate(o, NULL, source, kv_types[k].type, ctx[i], 0, &e, &err) == INFER_OK)
                put_event(t, kv_types[k].name, &e, 0);
        if (o->memory && estimate(o, NULL, source, kv_types[k].type, 0, o->memory, &e, &err) == INFER_OK)
            put_event(t, kv_types[k].name, &e, o->memory);
    }
}
