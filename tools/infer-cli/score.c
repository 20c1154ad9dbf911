#include "score.h"

#include <math.h>
#include <stdlib.h>

#include "adapters.h"
#include "conversation.h"
#include "output.h"

/* A text that the context has no room for is scored in windows: each begins with the half of a window that was scored last. */
struct scoring {
    struct cli *c;
    const int32_t *ids;
    uint64_t count;
    float *logprobs;  /* of a window */
    uint64_t tokens;  /* scored so far */
    double sum;
};

static void put_tokens(const struct scoring *s, uint64_t from, uint64_t n, uint64_t first)
{
    infer_detokenizer d; /* one for each: halves of characters are shown as such */
    struct text t = {0};
    char piece[4096];
    for (uint64_t i = first; i < n; i++) {
        uint64_t len = 0, end = 0;
        INFER_INIT(&d);
        d.flags = INFER_DETOKENIZE_SHOW_SPECIAL;
        d.started = 1;
        if (infer_detokenizer_next(s->c->tokenizer, &d, s->ids[from + i], piece, sizeof piece, &len, NULL) == INFER_OK
            && infer_detokenizer_next(s->c->tokenizer, &d, -1, piece + len, sizeof piece - len, &end, NULL) == INFER_OK)
            len += end;
        text_putf(&t, "{\"event\":\"token\",\"id\":%d,\"text\":", (int)s->ids[from + i]);
        text_put_json(&t, piece, (size_t)len);
        text_putf(&t, ",\"logprob\":%.9g}\n", (double)s->logprobs[i]);
    }
    out_text(&t);
    text_free(&t);
}

/* Scores ids [from, from + n) behind the `before` ids before them. */
static infer_status score_window(struct scoring *s, uint64_t from, uint64_t n, uint64_t before, infer_cancel *cancel, infer_error *err)
{
    infer_session *session = s->c->session;
    infer_score o;
    INFER_INIT(&o);
    o.logprobs = s->logprobs;
    infer_status st = infer_session_truncate(session, 0, NULL, err);
    if (st == INFER_OK)
        st = adapters_append_rows(s->c, session, err);
    if (st == INFER_OK)
        st = infer_session_append(session, s->ids + from - before, before, err);
    if (st == INFER_OK)
        st = infer_session_score(session, s->ids + from, n, &o, cancel, err);
    if (st != INFER_OK)
        return st;
    s->sum += o.sum;
    s->tokens += n - o.first;
    if (s->c->opt.json)
        put_tokens(s, from, n, o.first);
    return INFER_OK;
}

static infer_status score_all(struct scoring *s, uint64_t room, infer_error *err)
{
    infer_cancel *cancel = interrupt_arm();
    infer_status st = INFER_OK;
    for (uint64_t at = 0; at < s->count && st == INFER_OK && !out_failed();) {
        uint64_t before = at < room / 2 ? at : room / 2, n = s->count - at;
        n = n > room - before ? room - before : n;
        st = score_window(s, at, n, before, cancel, err);
        at += n;
        progress_show("scoring", at, s->count);
    }
    interrupt_disarm();
    progress_clear();
    return st;
}

static void put_result(const struct scoring *s)
{
    struct text t = {0};
    double perplexity = exp(-s->sum / (double)s->tokens);
    if (s->c->opt.json)
        text_putf(&t, "{\"event\":\"score\",\"tokens\":%llu,\"logprob\":%.12g,\"perplexity\":%.9g}\n", (unsigned long long)s->tokens, s->sum, perplexity);
    else
        text_putf(&t, "tokens         %llu\nlog-likelihood %.6f\nperplexity     %.6g\n", (unsigned long long)s->tokens, s->sum, perplexity);
    out_text(&t);
    text_free(&t);
}

static int score_ids(struct cli *c, const int32_t *ids, uint64_t count)
{
    infer_error err;
    infer_session_info info;
    INFER_INIT(&err);
    INFER_INIT(&info);
    (void)infer_session_get_info(c->session, &info, NULL);
    uint64_t room = info.n_ctx > c->n_rows ? info.n_ctx - c->n_rows : 0;
    if (room < 2 || count < 2) {
        complain(INFER_ERROR_ARGUMENT, "%s", room < 2 ? "the context has no room for a text" : "a text of less than two tokens has no likelihood");
        return EXIT_USAGE;
    }
    struct scoring s = {.c = c, .ids = ids, .count = count, .logprobs = malloc((size_t)(count < room ? count : room) * sizeof *s.logprobs)};
    if (!s.logprobs) {
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
        return EXIT_LIMIT;
    }
    infer_status st = score_all(&s, room, &err);
    if (st == INFER_OK)
        put_result(&s);
    free(s.logprobs);
    if (st == INFER_ERROR_CANCELLED)
        return EXIT_INTERRUPTED;
    if (st != INFER_OK) {
        note_error(NULL, &err);
        return exit_code(st, true);
    }
    return out_failed() ? EXIT_GENERATION : EXIT_OK;
}

int run_score(struct cli *c, const char *text, size_t len)
{
    int32_t *ids = NULL;
    uint64_t count = 0;
    int code = encode_text(c, text, len, true, &ids, &count);
    if (code == EXIT_OK)
        code = score_ids(c, ids, count);
    free(ids);
    return code;
}
