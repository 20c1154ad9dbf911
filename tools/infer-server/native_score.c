/* POST /score: how likely a text is, token by token, behind a context. On the worker: contexts come from the prefix cache, as many texts are scored behind
 * the same one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "metrics.h"
#include "native.h"

struct job {
    struct server *server;
    struct call *call;
    struct params params;
    infer_session *session;
    struct native_ids context, text;
    uint64_t held;       /* elements of the checkpoint and of soft prompts */
    uint64_t top;        /* alternatives */
    float *logprobs;     /* [text.n] */
    infer_logprob *tops; /* [text.n][top] */
    infer_score score;
};

/* A text without context stands behind BOS, where the model has one: it is the context then. Ids stand as they are. */
static bool read_texts(struct job *j, const json_t *body, uint32_t flags)
{
    json_t *text = native_required(j->call, body, "text"), *context = json_object_get(body, "context");
    bool first = !j->params.checkpoint && !j->params.n_prompts;
    uint32_t begin = first ? flags : flags & ~(uint32_t)INFER_TOKENIZE_ADD_SPECIAL, go_on = flags & ~(uint32_t)INFER_TOKENIZE_ADD_SPECIAL;
    if (!text)
        return false;
    if (context && !json_is_null(context)) {
        if (!native_ids_read(j->server, j->call, context, "context", begin, &j->context))
            return false;
    } else if (json_is_string(text) && (begin & INFER_TOKENIZE_ADD_SPECIAL)) {
        infer_tokenizer_info info;
        INFER_INIT(&info);
        if (j->server->tokenizer && infer_tokenizer_get_info(j->server->tokenizer, &info, NULL) == INFER_OK && info.add_bos && info.bos >= 0) {
            j->context.ids = malloc(sizeof *j->context.ids);
            if (!j->context.ids) {
                call_error(j->call, 500, NULL, NULL, NULL, "out of memory");
                return false;
            }
            j->context.ids[0] = info.bos;
            j->context.n = 1;
        }
    }
    if (!native_ids_read(j->server, j->call, text, "text", go_on, &j->text))
        return false;
    return j->text.n ? true : param_wrong(j->call, "text", "has no tokens");
}

static bool compute(struct job *j)
{
    infer_step_item item;
    infer_error err;
    INFER_INIT(&item);
    INFER_INIT(&err);
    INFER_INIT(&j->score);
    infer_cancel *cancel = native_cancel(j->call);
    if (!cancel)
        return false;
    j->logprobs = malloc(j->text.n * sizeof *j->logprobs);
    j->tops = malloc((j->text.n * j->top + 1) * sizeof *j->tops);
    if (!j->logprobs || !j->tops) {
        call_error(j->call, 500, NULL, NULL, NULL, "out of memory");
        return false;
    }
    j->score.top_logprobs = (uint32_t)j->top;
    j->score.logprobs = j->logprobs;
    j->score.top = j->top ? j->tops : NULL;
    item.session = j->session;
    infer_status st = infer_session_append(j->session, j->context.ids, j->context.n, &err);
    if (st == INFER_OK && j->context.n + j->held) /* looks into the cache, and leaves the context there */
        st = infer_step(&item, 1, cancel, &err);
    if (st == INFER_OK)
        st = infer_session_score(j->session, j->text.ids, j->text.n, &j->score, cancel, &err);
    if (st != INFER_OK)
        call_status(j->call, st, &err, "text");
    return st == INFER_OK;
}

static void answer(struct job *j)
{
    struct bytes out = {0};
    uint64_t length = j->held + j->context.n + j->text.n, counted = j->text.n - j->score.first;
    json_t *cache = native_session_cache(j->call, j->session, j->held, length);
    json_int_t cached = json_integer_value(json_object_get(cache, "reused"));
    metrics_tokens(j->server, j->call, length, (uint64_t)cached, 0);
    bytes_puts(&out, "{\"tokens\":[");
    for (uint64_t i = 0; i < j->text.n; i++) {
        bool has = i >= j->score.first;
        bytes_puts(&out, i ? "," : "");
        native_put_json(&out, native_token_logprob(j->server, j->text.ids[i], has, j->logprobs[i], j->tops + i * j->top, has ? (uint32_t)j->top : 0));
    }
    bytes_printf(&out, "],\"logprob\":%.9g,\"count\":%llu,\"perplexity\":", j->score.sum, (unsigned long long)counted);
    double perplexity = counted ? exp(-j->score.sum / (double)counted) : HUGE_VAL;
    if (isfinite(perplexity))
        bytes_printf(&out, "%.9g", perplexity);
    else
        bytes_puts(&out, "null");
    bytes_puts(&out, ",\"usage\":");
    native_put_json(&out, json_pack("{s:I,s:I,s:I}", "prompt_tokens", (json_int_t)length, "cached_tokens", cached, "total_tokens", (json_int_t)length));
    bytes_puts(&out, ",\"cache\":");
    native_put_json(&out, cache);
    bytes_puts(&out, "}");
    native_answer(j->call, &out);
}

static void score(struct server *server, struct call *call)
{
    static const struct param table[] = {{"model", PARAM_TAKEN},       {"text", PARAM_TAKEN},          {"context", PARAM_TAKEN},  {"alternatives", PARAM_TAKEN},
                                         {"add_special", PARAM_TAKEN}, {"parse_special", PARAM_TAKEN}, {"adapters", PARAM_TAKEN}, {"checkpoint", PARAM_TAKEN},
                                         {"salt", PARAM_TAKEN},        {0}};
    struct job j = {.server = server, .call = call};
    infer_session_info info;
    uint32_t flags;
    INFER_INIT(&info);
    json_t *body = call_json_body(call);
    if (!body || !native_needs_decoder(server, call) || !params_check(call, body, table, false) || !native_text_flags(call, body, &flags) ||
        !param_uint(call, body, "alternatives", 0, 20, &j.top) || !params_read(server, call, body, &j.params))
        return;
    j.session = native_session(server, call, &j.params);
    if (j.session && infer_session_get_info(j.session, &info, NULL) == INFER_OK) {
        j.held = info.length;
        if (read_texts(&j, body, flags) && compute(&j))
            answer(&j);
    }
    infer_session_release(j.session);
    params_free(&j.params);
    free(j.context.ids);
    free(j.text.ids);
    free(j.logprobs);
    free(j.tops);
}

const struct route native_score_routes[] = {
    {"POST", "/score", API_NATIVE, ROUTE_GENERATES | ROUTE_LONG | ROUTE_PURE, score},
    {0},
};
