#include "generate.h"

#include <stdlib.h>
#include <string.h>

#include "adapters.h"
#include "output.h"

/* How many of the session's elements behind the first `skip` equal ids. */
static uint64_t common_prefix(infer_session *s, uint64_t skip, const int32_t *ids, uint64_t count)
{
    infer_session_info info;
    INFER_INIT(&info);
    if (infer_session_get_info(s, &info, NULL) != INFER_OK || info.length <= skip)
        return 0;
    info.length -= skip;
    uint64_t n = info.length < count ? info.length : count, same = 0;
    int32_t *have = malloc((size_t)n * sizeof *have);
    if (have && infer_session_tokens(s, skip, n, have, NULL) == INFER_OK)
        while (same < n && have[same] == ids[same])
            same++;
    free(have);
    return same;
}

/* The session then begins with the soft prompts. */
static infer_status begin(const struct cli *c, infer_session *s, infer_error *err)
{
    infer_session_info info;
    INFER_INIT(&info);
    infer_status st = infer_session_get_info(s, &info, err);
    if (st != INFER_OK || info.length >= c->n_rows)
        return st;
    st = infer_session_truncate(s, 0, NULL, err);
    return st == INFER_OK ? adapters_append_rows(c, s, err) : st;
}

static infer_status feed(const struct cli *c, infer_session *s, const int32_t *ids, uint64_t count, infer_error *err)
{
    infer_status st = begin(c, s, err);
    uint64_t same = st == INFER_OK ? common_prefix(s, c->n_rows, ids, count) : 0;
    if (same == count && same > 0)
        same--; /* logits of the last one are needed */
    if (st == INFER_OK)
        st = infer_session_truncate(s, c->n_rows + same, NULL, err);
    return st == INFER_OK ? infer_session_append(s, ids + same, count - same, err) : st;
}

static infer_status count_pending(const infer_session *s, struct answer *a, infer_error *err)
{
    infer_session_info info;
    INFER_INIT(&info);
    infer_status st = infer_session_get_info(s, &info, err);
    if (st == INFER_OK)
        a->computed_tokens = info.length - info.computed;
    return st;
}

static const char *finish_name(const struct answer *a)
{
    switch (a->finish) {
    case INFER_FINISH_STOP: return "stop";
    case INFER_FINISH_LENGTH: return "length";
    case INFER_FINISH_CONTEXT: return "context";
    case INFER_FINISH_STOP_STRING: return "stop_string";
    case INFER_FINISH_REPETITION: return "repetition";
    default: return "interrupted";
    }
}

static double rate(uint64_t tokens, double s)
{
    return tokens && s > 0 ? (double)tokens / s : 0;
}

/* The first token comes out of the prompt's computation. */
static double gen_rate(const struct answer *a)
{
    return a->completion_tokens > 1 ? rate(a->completion_tokens - 1, a->gen_s) : 0;
}

static void json_token(const infer_event *ev)
{
    struct text t = {0};
    text_putf(&t, "{\"event\":\"token\",\"id\":%d,\"text\":", (int)ev->id);
    text_put_json(&t, ev->text, (size_t)ev->text_len);
    text_puts(&t, "}\n");
    out_text(&t);
    text_free(&t);
}

static void json_done(const struct answer *a, const infer_event *ev)
{
    struct text t = {0};
    text_putf(&t, "{\"event\":\"done\",\"finish_reason\":\"%s\",\"prompt_tokens\":%llu,\"completion_tokens\":%llu,",
              finish_name(a), (unsigned long long)a->prompt_tokens, (unsigned long long)a->completion_tokens);
    text_putf(&t, "\"prompt_tps\":%.2f,\"gen_tps\":%.2f", rate(a->computed_tokens, a->prompt_s), gen_rate(a));
    if (ev && ev->stop_index >= 0)
        text_putf(&t, ",\"stop_index\":%d", (int)ev->stop_index);
    if (ev && ev->text_len) { /* what might have become a stop string, or half a character that was never finished */
        text_puts(&t, ",\"text\":");
        text_put_json(&t, ev->text, (size_t)ev->text_len);
    }
    text_puts(&t, "}\n");
    out_text(&t);
    text_free(&t);
}

static void take_event(const struct cli *c, const infer_event *ev, bool quiet, struct answer *a)
{
    if (ev->kind == INFER_EVENT_PREFILL) {
        if (!quiet)
            progress_show("reading the prompt", ev->done, ev->total);
        return;
    }
    progress_clear();
    text_put(&a->text, ev->text, (size_t)ev->text_len);
    if (ev->kind == INFER_EVENT_TOKEN)
        a->completion_tokens++;
    else
        a->finish = ev->finish_reason;
    if (quiet)
        return;
    if (!c->opt.json)
        out_write(ev->text, (size_t)ev->text_len);
    else if (ev->kind == INFER_EVENT_TOKEN)
        json_token(ev);
}

static int failed(const infer_session *session, uint64_t count, const infer_error *err)
{
    infer_session_info info;
    INFER_INIT(&info);
    if (err->code == INFER_ERROR_CONTEXT_FULL && infer_session_get_info(session, &info, NULL) == INFER_OK)
        complain(err->code, "the prompt has %llu tokens, the context room for %u", (unsigned long long)count, info.n_ctx);
    else
        note_error(NULL, err);
    return exit_code(err->code, true);
}

/* Pulls events until the end, Ctrl-C, an error or a lost output. */
static infer_status pull(struct cli *c, infer_session *s, bool quiet, struct answer *a, infer_error *err)
{
    double start = seconds_now(), first = start;
    infer_status st = INFER_OK;
    infer_event ev;
    infer_cancel *cancel = interrupt_arm();
    do {
        INFER_INIT(&ev);
        st = infer_generate_next(s, &ev, cancel, err);
        if (st != INFER_OK)
            break;
        take_event(c, &ev, quiet, a);
        if (ev.kind == INFER_EVENT_TOKEN && a->completion_tokens == 1)
            first = seconds_now();
        if (interrupted() && ev.kind != INFER_EVENT_DONE)
            st = INFER_ERROR_CANCELLED;
    } while (st == INFER_OK && ev.kind != INFER_EVENT_DONE && !out_failed());
    interrupt_disarm();
    progress_clear();
    a->interrupted = st == INFER_ERROR_CANCELLED;
    a->prompt_s = first - start;
    a->gen_s = seconds_now() - first;
    if (c->opt.json && !quiet && !out_failed() && (st == INFER_OK || a->interrupted))
        json_done(a, st == INFER_OK ? &ev : NULL);
    return a->interrupted ? INFER_OK : st;
}

int generate(struct cli *c, infer_session *session, const int32_t *ids, uint64_t count, uint64_t max_tokens, bool quiet,
             struct answer *a)
{
    infer_error err;
    infer_generate_options go;
    INFER_INIT(&err);
    INFER_INIT(&go);
    go.max_tokens = max_tokens;
    go.flags = c->opt.ignore_eos ? INFER_GENERATE_IGNORE_EOS : 0;
    go.stops = c->opt.stops;
    go.stop_count = c->opt.n_stops;
    go.repeat_guard = c->opt.repeat_guard;
    *a = (struct answer){.prompt_tokens = count};
    infer_status st = feed(c, session, ids, count, &err);
    if (st == INFER_OK)
        st = count_pending(session, a, &err);
    if (st == INFER_OK)
        st = infer_generate_begin(session, &go, &err);
    if (st == INFER_OK)
        st = pull(c, session, quiet, a, &err);
    if (st != INFER_OK)
        return failed(session, count, &err);
    if (a->text.failed) {
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
        return EXIT_LIMIT;
    }
    return out_failed() ? EXIT_GENERATION : EXIT_OK;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576;
}

static const char *cache_reason(int32_t reason)
{
    static const char *const names[] = {
        [INFER_CACHE_REASON_OFF] = "nothing was looked up",
        [INFER_CACHE_REASON_HIT] = "found",
        [INFER_CACHE_REASON_ENDS] = "what is stored ends there",
        [INFER_CACHE_REASON_DIFFERS] = "what is stored goes on differently",
        [INFER_CACHE_REASON_EVICTED] = "more was evicted",
        [INFER_CACHE_REASON_OTHER_ADAPTERS] = "stored under other adapters",
        [INFER_CACHE_REASON_OTHER_SALT] = "stored under another salt",
        [INFER_CACHE_REASON_OTHER_KV_TYPE] = "stored in another KV type",
        [INFER_CACHE_REASON_EMPTY] = "nothing is stored",
        [INFER_CACHE_REASON_FAILED] = "out of memory",
    };
    return reason >= 0 && (size_t)reason < sizeof names / sizeof names[0] && names[reason] ? names[reason] : "unknown";
}

static void show_cache(const struct cli *c)
{
    infer_cache_report r;
    infer_cache_stats s;
    INFER_INIT(&r);
    INFER_INIT(&s);
    if (infer_session_cache_report(c->session, &r, NULL) != INFER_OK || infer_engine_cache_stats(c->engine, &s, NULL) != INFER_OK)
        return;
    remark("cache    %llu of %llu tokens reused: %s; %.1f MiB kept, %llu tokens saved so far", (unsigned long long)r.reused,
           (unsigned long long)r.wanted, cache_reason(r.reason), mib(s.bytes), (unsigned long long)s.saved);
    if (r.near_length)
        remark("         a stored prompt of %llu tokens differs from token %llu on", (unsigned long long)r.near_length,
               (unsigned long long)r.difference);
}

void show_stats(const struct cli *c, const struct answer *a)
{
    infer_engine_info e;
    infer_session_info s;
    INFER_INIT(&e);
    INFER_INIT(&s);
    (void)infer_engine_get_info(c->engine, &e, NULL);
    (void)infer_session_get_info(c->session, &s, NULL);
    if (a) {
        remark("prompt   %llu tokens, %llu computed in %.2f s: %.1f tokens/s", (unsigned long long)a->prompt_tokens,
               (unsigned long long)a->computed_tokens, a->prompt_s, rate(a->computed_tokens, a->prompt_s));
        remark("answer   %llu tokens in %.2f s: %.1f tokens/s; ended by %s", (unsigned long long)a->completion_tokens,
               a->gen_s, gen_rate(a), finish_name(a));
    } else {
        remark("no answer yet");
    }
    remark("context  %llu of %u tokens, %.1f MiB of state: %.1f shared, %.1f mapped%s", (unsigned long long)s.length, s.n_ctx,
           mib(s.kv_bytes), mib(s.kv_shared_bytes), mib(s.kv_mapped_bytes), s.approximate ? "; approximate" : "");
    if (c->opt.cache_mib)
        show_cache(c);
    remark("machine  cpu %s, %u threads; the model opened in %.2f s", infer_cpu_name(e.cpu), e.threads, c->load_s);
}
