/* POST /infer: vectors in, vectors out. What goes in: token ids and embedding rows, in any order. What comes out: logits and hidden states of the elements
 * and layers that are asked for. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoints.h"
#include "metrics.h"
#include "native.h"

enum {
    MAX_NUMBERS = 1 << 20, /* floats in an answer, written as numbers */
    MAX_BASE64 = 1 << 24,  /* ... and as base64 */
    MAX_PARTS = 4096,
    MAX_LAYERS = 1024
};

struct job {
    struct server *server;
    struct call *call;
    struct params params;
    infer_session *session;
    uint64_t held;   /* elements before the input */
    uint64_t count;  /* of the input */
    bool base64;
    uint8_t *logits, *hidden; /* [count]: 1 for what is asked; NULL: nothing is */
    uint64_t n_logits, n_hidden;
    int32_t layers[MAX_LAYERS];
    uint32_t n_layers;
    float *states;   /* [n_hidden][n_layers][n_embd] */
    const char *save;
    bool replace;
};

/* ---- Input ---- */

static bool append_ids(struct job *j, const json_t *list, const char *param)
{
    struct native_ids ids;
    infer_error err;
    INFER_INIT(&err);
    if (!native_ids_list(j->server, j->call, list, param, &ids))
        return false;
    infer_status st = infer_session_append(j->session, ids.ids, ids.n, &err);
    free(ids.ids);
    j->count += ids.n;
    if (st != INFER_OK)
        call_status(j->call, st, &err, "input");
    return st == INFER_OK;
}

/* Base64 of little-endian floats, or [[...], ...]: [*n][width], free(). NULL: answered. */
static float *read_rows(struct job *j, const json_t *v, const char *param, uint64_t *n)
{
    size_t width = j->server->info.n_embd, floats = 0;
    float *rows;
    if (json_is_string(v)) {
        size_t bytes = 0, most = json_string_length(v) / 4 * 3 + 3;
        rows = malloc(most);
        if (rows && sodium_base642bin((unsigned char *)rows, most, json_string_value(v), json_string_length(v), NULL, &bytes, NULL,
                                      sodium_base64_VARIANT_ORIGINAL) != 0)
            bytes = 1;
        floats = bytes / sizeof *rows;
        if (rows && (bytes % sizeof *rows || floats % width)) {
            free(rows);
            (void)param_wrong(j->call, param, "expected base64 of rows of %zu floats of 4 bytes", width);
            return NULL;
        }
    } else {
        *n = json_array_size(v);
        rows = malloc((*n ? *n : 1) * width * sizeof *rows);
        for (size_t r = 0; rows && r < *n; r++) {
            const json_t *row = json_array_get(v, r);
            bool ok = json_array_size(row) == width;
            for (size_t i = 0; ok && i < width; i++, floats++) {
                ok = json_is_number(json_array_get(row, i));
                rows[floats] = (float)json_number_value(json_array_get(row, i));
            }
            if (!ok) {
                free(rows);
                (void)param_wrong(j->call, param, "row %zu is not a list of %zu numbers", r, width);
                return NULL;
            }
        }
    }
    if (!rows)
        call_error(j->call, 500, NULL, NULL, NULL, "out of memory");
    *n = floats / width;
    return rows;
}

/* A row's key: 32 hexadecimal digits, or a hash of its bytes. false: answered. */
static bool read_keys(struct job *j, const json_t *list, const char *param, const float *rows, uint64_t n, uint64_t *keys)
{
    size_t width = j->server->info.n_embd;
    if (list && json_array_size(list) != n)
        return param_wrong(j->call, param, "keys: expected one for each of the %llu rows", (unsigned long long)n);
    for (size_t i = 0; i < n; i++) {
        const char *text = list ? json_string_value(json_array_get(list, i)) : NULL;
        size_t len = 0;
        if (!list)
            (void)crypto_generichash((unsigned char *)&keys[2 * i], 16, (const unsigned char *)(rows + i * width), width * sizeof *rows, NULL, 0);
        else if (!text || strlen(text) != 32 || sodium_hex2bin((unsigned char *)&keys[2 * i], 16, text, 32, NULL, &len, NULL) != 0 || len != 16)
            return param_wrong(j->call, param, "keys: key %zu is not a string of 32 hexadecimal digits", i);
    }
    return true;
}

static bool append_rows(struct job *j, const json_t *part, const char *param)
{
    uint64_t n = 0;
    infer_error err;
    INFER_INIT(&err);
    const json_t *list = json_object_get(part, "keys");
    float *rows = read_rows(j, json_object_get(part, "rows"), param, &n);
    if (!rows)
        return false;
    uint64_t *keys = malloc((n ? n : 1) * 2 * sizeof *keys);
    bool ok = keys && read_keys(j, json_is_null(list) ? NULL : list, param, rows, n, keys);
    infer_status st = ok ? infer_session_append_rows(j->session, rows, keys, n, &err) : INFER_OK;
    free(keys);
    free(rows);
    j->count += n;
    if (!keys)
        call_error(j->call, 500, NULL, NULL, NULL, "out of memory");
    else if (st != INFER_OK)
        call_status(j->call, st, &err, "input");
    return ok && st == INFER_OK;
}

/* {"ids": [...]} or {"rows": ..., "keys": [...]}. */
static bool append_part(struct job *j, const json_t *part, size_t number)
{
    static const char *const known[] = {"ids", "rows", "keys"};
    char param[64], name[32];
    const char *key;
    json_t *value;
    (void)snprintf(param, sizeof param, "input[%zu]", number);
    if (!json_is_object(part))
        return param_wrong(j->call, param, "expected {\"ids\": [...]} or {\"rows\": [[...]]}");
    json_object_foreach ((json_t *)(uintptr_t)part, key, value) {
        bool is_known = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            is_known |= !strcmp(key, known[i]);
        if (!is_known)
            return param_wrong(j->call, param, "unknown key %.64s", key);
    }
    const json_t *ids = json_object_get(part, "ids"), *rows = json_object_get(part, "rows");
    if (!ids == !rows || (rows && !json_is_array(rows) && !json_is_string(rows)) || (ids && !json_is_array(ids)))
        return param_wrong(j->call, param, "expected {\"ids\": [...]} or {\"rows\": [[...]]}");
    (void)snprintf(name, sizeof name, ".%s", ids ? "ids" : "rows");
    (void)strncat(param, name, sizeof param - strlen(param) - 1);
    return ids ? append_ids(j, ids, param) : append_rows(j, part, param);
}

/* A list of parts, or of ids. */
static bool append_input(struct job *j, const json_t *body)
{
    const json_t *input = native_required(j->call, body, "input");
    if (!input)
        return false;
    if (!json_is_array(input) || !json_array_size(input))
        return param_wrong(j->call, "input", "expected a list of token ids, or of {\"ids\": [...]} and {\"rows\": [[...]]}");
    if (json_is_integer(json_array_get(input, 0)))
        return append_ids(j, input, "input");
    if (json_array_size(input) > MAX_PARTS)
        return param_wrong(j->call, "input", "at most %d parts are taken", MAX_PARTS);
    for (size_t i = 0; i < json_array_size(input); i++)
        if (!append_part(j, json_array_get(input, i), i))
            return false;
    return j->count ? true : param_wrong(j->call, "input", "is empty");
}

/* ---- Output ---- */

/* "none", "last", "all" or numbers of elements, from 0 at the input's first. */
static bool read_positions(struct job *j, const json_t *v, const char *param, const char *otherwise, uint8_t **mask, uint64_t *n)
{
    const char *word = json_is_string(v) ? json_string_value(v) : !v || json_is_null(v) ? otherwise : NULL;
    *mask = calloc(j->count, 1);
    *n = 0;
    if (!*mask) {
        call_error(j->call, 500, NULL, NULL, NULL, "out of memory");
        return false;
    }
    if (word && !strcmp(word, "all"))
        memset(*mask, 1, j->count);
    else if (word && !strcmp(word, "last"))
        (*mask)[j->count - 1] = 1;
    else if ((!word && !json_is_array(v)) || (word && strcmp(word, "none") != 0))
        return param_wrong(j->call, param, "expected \"none\", \"last\", \"all\" or a list of elements");
    for (size_t i = 0; !word && i < json_array_size(v); i++) {
        const json_t *at = json_array_get(v, i);
        json_int_t k = json_is_integer(at) ? json_integer_value(at) : -1;
        if (k < 0 || (uint64_t)k >= j->count)
            return param_wrong(j->call, param, "item %zu is not an element of the input: expected 0 to %llu", i, (unsigned long long)j->count - 1);
        (*mask)[k] = 1;
    }
    for (uint64_t i = 0; i < j->count; i++)
        *n += (*mask)[i];
    return true;
}

static bool read_layers(struct job *j, const json_t *list)
{
    j->n_layers = 1;
    j->layers[0] = INFER_HIDDEN_FINAL;
    if (!list)
        return true;
    j->n_layers = (uint32_t)json_array_size(list);
    if (!j->n_layers || json_array_size(list) > MAX_LAYERS)
        return param_wrong(j->call, "layers", "expected 1 to %d layers", MAX_LAYERS);
    for (uint32_t i = 0; i < j->n_layers; i++) {
        const json_t *v = json_array_get(list, i);
        bool final = json_is_string(v) && !strcmp(json_string_value(v), "final");
        json_int_t k = json_is_integer(v) ? json_integer_value(v) : -1;
        if (!final && (k < 0 || k >= (json_int_t)j->server->info.n_layer))
            return param_wrong(j->call, "layers", "item %u: expected 0 to %u, or \"final\"", i, j->server->info.n_layer - 1);
        j->layers[i] = final ? INFER_HIDDEN_FINAL : (int32_t)k;
    }
    return true;
}

static bool read_output(struct job *j, const json_t *body)
{
    json_t *layers = NULL;
    const infer_model_info *m = &j->server->info;
    if (!native_encoding(j->call, body, &j->base64) || !param_array(j->call, body, "layers", &layers) || !read_layers(j, layers) ||
        !read_positions(j, json_object_get(body, "logits"), "logits", "last", &j->logits, &j->n_logits) ||
        !read_positions(j, json_object_get(body, "hidden"), "hidden", "none", &j->hidden, &j->n_hidden))
        return false;
    if (layers && !j->n_hidden)
        return param_wrong(j->call, "layers", "needs hidden: which elements");
    uint64_t floats = j->n_logits * m->vocab_size + j->n_hidden * j->n_layers * m->n_embd, most = j->base64 ? MAX_BASE64 : MAX_NUMBERS;
    if (floats > most)
        return param_wrong(j->call, j->n_logits * m->vocab_size > floats / 2 ? "logits" : "hidden", "the answer would have %llu numbers; at most %llu are given%s",
                           (unsigned long long)floats, (unsigned long long)most, j->base64 ? "" : " (base64 takes more)");
    j->states = malloc((j->n_hidden * j->n_layers * m->n_embd + 1) * sizeof *j->states);
    if (!j->states)
        call_error(j->call, 500, NULL, NULL, NULL, "out of memory");
    return j->states != NULL;
}

static void put_positions(struct bytes *out, const uint8_t *mask, uint64_t n)
{
    bool first = true;
    bytes_puts(out, "\"positions\":[");
    for (uint64_t i = 0; i < n; i++)
        if (mask[i]) {
            bytes_printf(out, "%s%llu", first ? "" : ",", (unsigned long long)i);
            first = false;
        }
    bytes_puts(out, "]");
}

static void put_logits(struct job *j, struct bytes *out)
{
    const float *row;
    bytes_puts(out, ",\"logits\":{");
    put_positions(out, j->logits, j->count);
    bytes_puts(out, ",\"data\":[");
    for (uint64_t i = 0; i < j->n_logits; i++) {
        if (infer_session_logits(j->session, i, &row, NULL, NULL) != INFER_OK) {
            out->failed = true;
            return;
        }
        bytes_puts(out, i ? "," : "");
        native_put_floats(out, row, j->server->info.vocab_size, j->base64);
    }
    bytes_puts(out, "]}");
}

static void put_hidden(struct job *j, struct bytes *out)
{
    size_t width = j->server->info.n_embd;
    bytes_puts(out, ",\"hidden\":{");
    put_positions(out, j->hidden, j->count);
    bytes_puts(out, ",\"layers\":[");
    for (uint32_t i = 0; i < j->n_layers; i++)
        if (j->layers[i] == INFER_HIDDEN_FINAL)
            bytes_puts(out, i ? ",\"final\"" : "\"final\"");
        else
            bytes_printf(out, "%s%d", i ? "," : "", j->layers[i]);
    bytes_puts(out, "],\"data\":[");
    for (uint64_t r = 0; r < j->n_hidden; r++) {
        bytes_puts(out, r ? ",[" : "[");
        for (uint32_t i = 0; i < j->n_layers; i++) {
            bytes_puts(out, i ? "," : "");
            native_put_floats(out, j->states + (r * j->n_layers + i) * width, width, j->base64);
        }
        bytes_puts(out, "]");
    }
    bytes_puts(out, "]}");
}

/* ---- The work ---- */

static bool compute(struct job *j, infer_cancel *cancel)
{
    infer_step_item item;
    infer_hidden hidden;
    infer_error err;
    infer_session_info info;
    INFER_INIT(&item);
    INFER_INIT(&hidden);
    INFER_INIT(&err);
    INFER_INIT(&info);
    (void)infer_session_get_info(j->session, &info, NULL);
    /* A checkpoint may end with pending elements (an answer's last token): those go before what is asked. */
    uint64_t pending = info.length - info.computed, before = pending - j->count;
    item.session = j->session;
    item.max_elements = before;
    item.logits = INFER_ROWS_NONE;
    infer_status st = before ? infer_step(&item, 1, cancel, &err) : INFER_OK;
    item.max_elements = 0;
    item.logits = j->n_logits ? INFER_ROWS_MASK : INFER_ROWS_NONE;
    item.mask = j->logits;
    hidden.elements = INFER_ROWS_MASK;
    hidden.mask = j->hidden;
    hidden.layers = j->layers;
    hidden.layer_count = j->n_layers;
    hidden.out = j->states;
    hidden.capacity = j->n_hidden * j->n_layers * j->server->info.n_embd;
    item.hidden = j->n_hidden ? &hidden : NULL;
    if (st == INFER_OK)
        st = infer_step(&item, 1, cancel, &err);
    if (st != INFER_OK)
        call_status(j->call, st, &err, NULL);
    return st == INFER_OK;
}

/* The state's checkpoint, described; "save" was asked for. NULL: answered. */
static json_t *keep(struct job *j)
{
    infer_error err;
    infer_checkpoint *checkpoint = NULL;
    json_t *description = NULL;
    INFER_INIT(&err);
    infer_status st = infer_checkpoint_create(j->session, &checkpoint, &err);
    if (st != INFER_OK) {
        call_status(j->call, st, &err, NULL);
    } else if ((st = checkpoints_put(j->server, j->call, j->save, checkpoint, j->replace, &err)) != INFER_OK) {
        checkpoints_put_error(j->call, j->save, st, &err);
    } else {
        description = checkpoints_describe(j->save, checkpoint);
    }
    infer_checkpoint_release(checkpoint);
    return description;
}

static void answer(struct job *j)
{
    struct bytes out = {0};
    const infer_model_info *m = &j->server->info;
    json_t *checkpoint = j->save ? keep(j) : NULL;
    if (j->save && !checkpoint)
        return;
    uint64_t length = j->held + j->count;
    json_t *cache = native_session_cache(j->call, j->session, j->held, length);
    metrics_tokens(j->server, j->call, length, (uint64_t)json_integer_value(json_object_get(cache, "reused")), 0);
    bytes_printf(&out, "{\"n_vocab\":%u,\"n_embd\":%u,\"n_layer\":%u,\"encoding_format\":\"%s\"", m->vocab_size, m->n_embd, m->n_layer,
                 j->base64 ? "base64" : "float");
    if (j->n_logits)
        put_logits(j, &out);
    if (j->n_hidden)
        put_hidden(j, &out);
    bytes_printf(&out, ",\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu},\"cache\":", (unsigned long long)length, (unsigned long long)length);
    native_put_json(&out, cache);
    if (checkpoint) {
        bytes_puts(&out, ",\"checkpoint\":");
        native_put_json(&out, checkpoint);
    }
    bytes_puts(&out, "}");
    native_answer(j->call, &out);
}

static void run(struct job *j, const json_t *body)
{
    infer_session_info info;
    INFER_INIT(&info);
    if (!param_string(j->call, body, "save", &j->save) || !param_bool(j->call, body, "replace", &j->replace) ||
        (j->save && !checkpoints_may_put(j->server, j->call, j->save, j->replace, "save")))
        return;
    infer_cancel *cancel = native_cancel(j->call);
    j->session = cancel ? native_session(j->server, j->call, &j->params) : NULL;
    if (!j->session || infer_session_get_info(j->session, &info, NULL) != INFER_OK)
        return;
    j->held = info.length;
    if (append_input(j, body) && read_output(j, body) && compute(j, cancel))
        answer(j);
}

static void infer(struct server *server, struct call *call)
{
    static const struct param table[] = {{"model", PARAM_TAKEN},      {"input", PARAM_TAKEN}, {"logits", PARAM_TAKEN},  {"hidden", PARAM_TAKEN},
                                         {"layers", PARAM_TAKEN},     {"save", PARAM_TAKEN},  {"replace", PARAM_TAKEN}, {"encoding_format", PARAM_TAKEN},
                                         {"adapters", PARAM_TAKEN},   {"salt", PARAM_TAKEN},  {"checkpoint", PARAM_TAKEN}, {0}};
    json_t *body = call_json_body(call);
    if (!body || !native_needs_decoder(server, call) || !params_check(call, body, table, false))
        return;
    struct job *j = calloc(1, sizeof *j);
    if (!j) {
        call_error(call, 500, NULL, NULL, NULL, "out of memory");
        return;
    }
    j->server = server;
    j->call = call;
    if (params_read(server, call, body, &j->params)) {
        run(j, body);
        params_free(&j->params);
    }
    infer_session_release(j->session);
    free(j->logits);
    free(j->hidden);
    free(j->states);
    free(j);
}

const struct route native_infer_routes[] = {
    {"POST", "/infer", API_NATIVE, ROUTE_GENERATES | ROUTE_LONG | ROUTE_PURE, infer},
    {0},
};
