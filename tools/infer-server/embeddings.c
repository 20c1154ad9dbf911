/* POST /v1/embeddings (OpenAI's shape) and POST /embeddings. Computed on the worker, outside the scheduler. */
#include <stdlib.h>
#include <string.h>

#include "metrics.h"
#include "native.h"

enum {
    MAX_TEXTS = 2048,    /* OpenAI's limits */
    MAX_TOKENS = 300000,
    MAX_FLOATS = 1 << 24 /* of vectors for each token */
};

struct job {
    struct server *server;
    struct call *call;
    infer_embed_options options;
    infer_embed_item *items; /* [n]: text or ids */
    int32_t **ids;           /* [n]: owned, or NULL */
    size_t n;
    uint64_t width, tokens;
    bool base64, native;
};

static void free_job(struct job *j)
{
    for (size_t i = 0; j->ids && i < j->n; i++)
        free(j->ids[i]);
    free(j->ids);
    free(j->items);
}

/* ---- What is asked ---- */

static bool add_text(struct job *j, size_t i, const json_t *v)
{
    infer_embed_item *it = &j->items[i];
    it->text = json_string_value(v);
    it->text_len = json_string_length(v);
    if (!it->text_len)
        return param_wrong(j->call, "input", "text %zu is empty", i);
    if (!native_needs_tokenizer(j->server, j->call))
        return false;
    /* What the text would be in tokens is the need; a text longer than any tokenizer takes is refused here too. */
    uint64_t count = 0;
    infer_error err;
    INFER_INIT(&err);
    infer_status st = infer_tokenize(j->server->tokenizer, it->text, it->text_len, j->options.flags & INFER_EMBED_NO_SPECIAL ? 0 : INFER_TOKENIZE_ADD_SPECIAL, NULL, 0,
                                     &count, &err);
    if (st != INFER_OK && st != INFER_ERROR_BUFFER) {
        call_status(j->call, st, &err, "input");
        return false;
    }
    j->tokens += count;
    return true;
}

static bool add_ids(struct job *j, size_t i, const json_t *v)
{
    struct native_ids ids;
    if (!json_array_size(v))
        return param_wrong(j->call, "input", "text %zu is empty", i);
    if (!native_ids_list(j->server, j->call, v, "input", &ids))
        return false;
    j->ids[i] = ids.ids;
    j->items[i].ids = ids.ids;
    j->items[i].id_count = ids.n;
    j->tokens += ids.n;
    return true;
}

/* A string, a list of ids, or a list of either. */
static bool read_input(struct job *j, const json_t *input)
{
    bool one = json_is_string(input) || (json_is_array(input) && json_is_integer(json_array_get(input, 0)));
    if (!one && !json_is_array(input))
        return param_wrong(j->call, "input", "expected a string, a list of strings, a list of token ids, or a list of such lists");
    j->n = one ? 1 : json_array_size(input);
    if (!j->n || j->n > MAX_TEXTS)
        return param_wrong(j->call, "input", "expected 1 to %d texts, not %zu", MAX_TEXTS, j->n);
    j->items = calloc(j->n, sizeof *j->items);
    j->ids = calloc(j->n, sizeof *j->ids);
    if (!j->items || !j->ids) {
        call_error(j->call, 500, NULL, NULL, NULL, "out of memory");
        return false;
    }
    for (size_t i = 0; i < j->n; i++) {
        const json_t *v = one ? input : json_array_get(input, i);
        INFER_INIT(&j->items[i]);
        if (!json_is_string(v) && !json_is_array(v))
            return param_wrong(j->call, "input", "item %zu is neither a string nor a list of token ids", i);
        if (!(json_is_string(v) ? add_text(j, i, v) : add_ids(j, i, v)))
            return false;
    }
    if (j->tokens > MAX_TOKENS)
        return param_wrong(j->call, "input", "%llu tokens in all; at most %d are taken at once", (unsigned long long)j->tokens, MAX_TOKENS);
    if (j->options.pooling == INFER_POOLING_NONE && j->tokens > MAX_FLOATS / j->width)
        return param_wrong(j->call, "input", "%llu tokens with a vector each; at most %llu are taken at once", (unsigned long long)j->tokens,
                           (unsigned long long)(MAX_FLOATS / j->width));
    return true;
}

/* What both have: the vectors' form. */
static bool read_form(struct job *j, const json_t *body)
{
    const infer_model_info *m = &j->server->info;
    uint64_t full = j->options.pooling == INFER_POOLING_NONE ? m->n_embd : m->embedding_width, dimensions = 0;
    if (!native_encoding(j->call, body, &j->base64) || !param_uint(j->call, body, "dimensions", 1, full, &dimensions))
        return false;
    j->options.dimensions = (uint32_t)dimensions;
    j->width = dimensions ? dimensions : full;
    return true;
}

static bool read_native(struct job *j, const json_t *body)
{
    static const struct { const char *name; int32_t pooling; } poolings[] = {
        {"model", INFER_POOLING_MODEL}, {"none", INFER_POOLING_NONE}, {"mean", INFER_POOLING_MEAN}, {"cls", INFER_POOLING_CLS}, {"last", INFER_POOLING_LAST}};
    const char *pooling = "model";
    bool normalize = true, truncate = false, add = true, parse = false, known = false;
    if (!param_string(j->call, body, "pooling", &pooling) || !param_bool(j->call, body, "normalize", &normalize) ||
        !param_bool(j->call, body, "truncate", &truncate) || !param_bool(j->call, body, "add_special", &add) ||
        !param_bool(j->call, body, "parse_special", &parse) || !param_uint(j->call, body, "max_tokens", 1, 1u << 24, &j->options.max_tokens))
        return false;
    for (size_t i = 0; i < sizeof poolings / sizeof *poolings; i++)
        if (!strcmp(pooling, poolings[i].name)) {
            j->options.pooling = poolings[i].pooling;
            known = true;
        }
    if (!known)
        return param_wrong(j->call, "pooling", "expected \"model\", \"none\", \"mean\", \"cls\" or \"last\"");
    j->options.flags = (normalize ? 0 : INFER_EMBED_RAW) | (truncate ? INFER_EMBED_TRUNCATE : 0) | (add ? 0 : INFER_EMBED_NO_SPECIAL) |
                       (parse ? INFER_EMBED_PARSE_SPECIAL : 0);
    return true;
}

/* ---- What is answered ---- */

static void put_item(struct job *j, struct bytes *out, const infer_embed_item *it, size_t index)
{
    bool rows = j->options.pooling == INFER_POOLING_NONE;
    bytes_printf(out, "%s{%s\"index\":%zu,", index ? "," : "", j->native ? "" : "\"object\":\"embedding\",", index);
    if (j->native)
        bytes_printf(out, "\"tokens\":%llu,\"truncated\":%s,", (unsigned long long)it->tokens, it->truncated ? "true" : "false");
    bytes_printf(out, "\"%s\":%s", rows ? "embeddings" : "embedding", rows ? "[" : "");
    for (uint64_t r = 0; r < it->rows; r++) {
        bytes_puts(out, r ? "," : "");
        native_put_floats(out, it->out + r * j->width, (size_t)j->width, j->base64);
    }
    bytes_puts(out, rows ? "]}" : "}");
}

/* The first text that failed, by its number. */
static void answer_failure(struct job *j, infer_status st, const infer_error *err, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        const infer_embed_item *it = &j->items[i];
        uint64_t most = j->options.max_tokens ? j->options.max_tokens : j->server->info.embed_tokens;
        if (it->status == INFER_ERROR_CONTEXT_FULL) {
            call_error(j->call, 400, NULL, "context_length_exceeded", "input", "text %zu of input has %llu tokens; at most %llu are taken", i,
                       (unsigned long long)it->tokens, (unsigned long long)most);
            return;
        }
        if (it->status == INFER_ERROR_VALUE) {
            (void)param_wrong(j->call, "input", "text %zu has no tokens", i);
            return;
        }
    }
    call_status(j->call, st, err, "input");
}

/* One pass of the model over several texts. false: answered. */
static bool run_batch(struct job *j, struct bytes *out, size_t first, size_t n, infer_cancel *cancel)
{
    infer_error err;
    INFER_INIT(&err);
    uint64_t floats = 0;
    infer_status st = INFER_OK;
    if (j->options.pooling == INFER_POOLING_NONE) /* a first call tells how many rows each has */
        (void)infer_embed(j->server->model, j->items + first, n, &j->options, cancel, NULL);
    for (size_t i = first; i < first + n; i++) {
        j->items[i].capacity = (j->items[i].rows ? j->items[i].rows : 1) * j->width;
        floats += j->items[i].capacity;
    }
    float *vectors = malloc((size_t)floats * sizeof *vectors), *at = vectors;
    if (!vectors) {
        call_error(j->call, 500, NULL, NULL, NULL, "out of memory");
        return false;
    }
    for (size_t i = first; i < first + n; i++) {
        j->items[i].out = at;
        at += j->items[i].capacity;
    }
    st = infer_embed(j->server->model, j->items + first, n, &j->options, cancel, &err);
    if (st != INFER_OK)
        answer_failure(j, st, &err, first, n);
    for (size_t i = first; st == INFER_OK && i < first + n; i++)
        put_item(j, out, &j->items[i], i);
    free(vectors);
    return st == INFER_OK;
}

static void answer(struct job *j)
{
    struct bytes out = {0};
    uint64_t tokens = 0;
    infer_cancel *cancel = native_cancel(j->call);
    if (!cancel)
        return;
    bytes_puts(&out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < j->n; i += EMBEDDINGS_BATCH)
        if (!run_batch(j, &out, i, j->n - i < EMBEDDINGS_BATCH ? j->n - i : EMBEDDINGS_BATCH, cancel)) {
            bytes_free(&out);
            return;
        }
    for (size_t i = 0; i < j->n; i++)
        tokens += j->items[i].tokens;
    bytes_puts(&out, "],\"model\":");
    bytes_json_string(&out, j->server->name, strlen(j->server->name));
    if (j->native)
        bytes_printf(&out, ",\"width\":%llu", (unsigned long long)j->width);
    bytes_printf(&out, ",\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu}}", (unsigned long long)tokens, (unsigned long long)tokens);
    metrics_tokens(j->server, j->call, tokens, 0, 0);
    native_answer(j->call, &out);
}

static void embed(struct server *server, struct call *call, const struct param *table, bool native)
{
    struct job j = {.server = server, .call = call, .native = native};
    INFER_INIT(&j.options);
    json_t *body = call_json_body(call), *input;
    if (!body || !params_check(call, body, table, false) || !native_model(server, call, body) || !(input = native_required(call, body, "input")))
        return;
    if ((!native || read_native(&j, body)) && read_form(&j, body) && read_input(&j, input))
        answer(&j);
    free_job(&j);
}

static void embed_openai(struct server *server, struct call *call)
{
    static const struct param table[] = {{"model", PARAM_TAKEN}, {"input", PARAM_TAKEN}, {"encoding_format", PARAM_TAKEN}, {"dimensions", PARAM_TAKEN},
                                         {"user", PARAM_NO_EFFECT}, {0}};
    embed(server, call, table, false);
}

static void embed_native(struct server *server, struct call *call)
{
    static const struct param table[] = {{"model", PARAM_TAKEN},      {"input", PARAM_TAKEN},     {"encoding_format", PARAM_TAKEN}, {"dimensions", PARAM_TAKEN},
                                         {"pooling", PARAM_TAKEN},    {"normalize", PARAM_TAKEN}, {"truncate", PARAM_TAKEN},        {"max_tokens", PARAM_TAKEN},
                                         {"add_special", PARAM_TAKEN}, {"parse_special", PARAM_TAKEN}, {0}};
    embed(server, call, table, true);
}

const struct route embeddings_routes[] = {
    {"POST", "/v1/embeddings", API_OPENAI, ROUTE_GENERATES | ROUTE_LONG | ROUTE_PURE, embed_openai},
    {"POST", "/embeddings", API_NATIVE, ROUTE_GENERATES | ROUTE_LONG | ROUTE_PURE, embed_native},
    {0},
};
