/* What a graft and a shift change: the KL divergence of the next 64 tokens from those of a session that computed everything.
 *
 *     bench_graft MODEL TEXT [DOCUMENT PREFIX ROUNDS]
 *
 * Graft: PREFIX tokens of one place of the text, then DOCUMENT tokens of another, whose state is grafted from a session that began with them
 * (with BOS where the model has one), then the 64 tokens that follow them in the text. Beside it for scale: the same without the document, and
 * with f16 instead of f32 KV. Shift: PREFIX + DOCUMENT tokens of one place, of which half of those behind the first 4 are dropped. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/state.h"

enum { NEXT = 64 };

static infer_error error;
static infer_model *model;
static uint32_t vocab;
static int32_t *tokens;
static uint64_t n_tokens;

static void ok(infer_status st)
{
    if (st == INFER_OK)
        return;
    fprintf(stderr, "bench_graft: %s: %s\n", infer_status_name(st), error.text);
    exit(1);
}

static char *read_text(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *p = malloc(1 << 22);
    if (!f || !p) {
        fprintf(stderr, "bench_graft: %s: cannot be read\n", path);
        exit(1);
    }
    *len = fread(p, 1, 1 << 22, f);
    fclose(f);
    return p;
}

static infer_session *new_session(int32_t kv_type)
{
    infer_session_options so;
    infer_session *s;
    INFER_INIT(&so);
    so.n_ctx = 16384;
    so.kv_type = kv_type;
    ok(infer_session_create(model, &so, &s, &error));
    return s;
}

static void feed(infer_session *s, const int32_t *ids, uint64_t n, int32_t logits)
{
    infer_step_item it;
    ok(infer_session_append(s, ids, n, &error));
    INFER_INIT(&it);
    it.session = s;
    it.logits = logits;
    ok(infer_step(&it, 1, NULL, &error));
}

/* Logits after each of the NEXT tokens; releases s. */
static float *answer(infer_session *s, const int32_t *ids)
{
    float *out = malloc((size_t)NEXT * vocab * sizeof *out);
    feed(s, ids, NEXT, INFER_ROWS_ALL);
    for (uint64_t i = 0; i < NEXT; i++) {
        const float *row;
        ok(infer_session_logits(s, i, &row, NULL, &error));
        memcpy(out + i * vocab, row, vocab * sizeof *row);
    }
    infer_session_release(s);
    return out;
}

static double log_sum(const float *x)
{
    double max = x[0], sum = 0;
    for (uint32_t i = 0; i < vocab; i++)
        max = x[i] > max ? x[i] : max;
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp(x[i] - max);
    return max + log(sum);
}

static uint32_t best(const float *x)
{
    uint32_t b = 0;
    for (uint32_t i = 1; i < vocab; i++)
        b = x[i] > x[b] ? i : b;
    return b;
}

struct score {
    const char *what;
    double kl, agree;
    uint64_t n;
};

/* got against want; frees got. */
static void add(struct score *s, const char *what, const float *want, float *got)
{
    s->what = what;
    for (uint64_t i = 0; i < NEXT; i++) {
        const float *p = want + i * vocab, *q = got + i * vocab;
        double lp = log_sum(p), lq = log_sum(q), kl = 0;
        for (uint32_t v = 0; v < vocab; v++)
            kl += exp(p[v] - lp) * ((p[v] - lp) - (q[v] - lq));
        s->kl += kl;
        s->agree += best(p) == best(q);
        s->n++;
    }
    free(got);
}

static float *grafted(int32_t type, const infer_checkpoint *c, const int32_t *prefix, uint64_t n_prefix, uint64_t first, uint64_t n,
                      uint64_t recompute, const int32_t *next)
{
    infer_session *s = new_session(type);
    feed(s, prefix, n_prefix, INFER_ROWS_NONE);
    ok(infer_session_graft(s, c, first, n, recompute, NULL, NULL, &error));
    return answer(s, next);
}

static void graft_round(const int32_t *prefix, uint64_t n_prefix, const int32_t *doc, uint64_t n, int32_t bos, struct score *scores)
{
    static const uint64_t recompute[] = {0, 16, 64, 256};
    static const char *const names[] = {"graft, recompute 0", "graft, recompute 16", "graft, recompute 64", "graft, recompute 256"};
    infer_session *s = new_session(INFER_KV_F32), *alone = new_session(INFER_KV_F32), *half = new_session(INFER_KV_F16),
                  *without = new_session(INFER_KV_F32);
    infer_checkpoint *c;
    feed(s, prefix, n_prefix, INFER_ROWS_NONE), feed(s, doc, n, INFER_ROWS_NONE);
    float *want = answer(s, doc + n);
    feed(half, prefix, n_prefix, INFER_ROWS_NONE), feed(half, doc, n, INFER_ROWS_NONE);
    add(&scores[0], "computed, f16 KV", want, answer(half, doc + n));
    feed(without, prefix, n_prefix, INFER_ROWS_NONE);
    add(&scores[1], "without the document", want, answer(without, doc + n));
    if (bos >= 0)
        feed(alone, &bos, 1, INFER_ROWS_NONE);
    feed(alone, doc, n, INFER_ROWS_NONE);
    ok(infer_checkpoint_create(alone, &c, &error));
    infer_session_release(alone);
    for (int r = 0; r < 4; r++)
        add(&scores[2 + r], names[r], want, grafted(INFER_KV_F32, c, prefix, n_prefix, bos >= 0, n, recompute[r], doc + n));
    infer_checkpoint_release(c);
    free(want);
}

static void shift_round(const int32_t *doc, uint64_t n, struct score *scores)
{
    enum { KEEP = 4 };
    uint64_t drop = (n - KEEP) / 2;
    infer_session *whole = new_session(INFER_KV_F32), *cold = new_session(INFER_KV_F32), *s;
    feed(whole, doc, n, INFER_ROWS_NONE);
    ok(infer_session_fork(whole, &s, &error));
    feed(cold, doc, KEEP, INFER_ROWS_NONE), feed(cold, doc + KEEP + drop, n - KEEP - drop, INFER_ROWS_NONE);
    float *all = answer(whole, doc + n), *want = answer(cold, doc + n);
    ok(infer_session_shift(s, KEEP, drop, &error));
    float *got = answer(s, doc + n), *copy = malloc((size_t)NEXT * vocab * sizeof *copy);
    memcpy(copy, got, (size_t)NEXT * vocab * sizeof *copy);
    add(&scores[6], "shift, against what is left computed anew", want, got);
    add(&scores[7], "shift, against the whole", all, copy);
    add(&scores[8], "what is left computed anew, against the whole", all, want);
    free(all);
}

int main(int argc, char **argv)
{
    struct score scores[9] = {{0}};
    infer_tokenizer_info ti;
    infer_model_info mi;
    if (argc < 3) {
        fprintf(stderr, "usage: bench_graft MODEL TEXT [DOCUMENT PREFIX ROUNDS]\n");
        return 2;
    }
    uint64_t n = argc > 3 ? strtoull(argv[3], NULL, 10) : 1000, n_prefix = argc > 4 ? strtoull(argv[4], NULL, 10) : 300,
             rounds = argc > 5 ? strtoull(argv[5], NULL, 10) : 4;
    size_t len;
    INFER_INIT(&error);
    INFER_INIT(&ti);
    INFER_INIT(&mi);
    ok(infer_model_open_path(NULL, argv[1], &model, &error));
    ok(infer_model_get_info(model, &mi, &error));
    ok(infer_tokenizer_get_info(infer_model_tokenizer(model), &ti, &error));
    vocab = mi.vocab_size;
    char *text = read_text(argv[2], &len);
    tokens = malloc((len + 16) * sizeof *tokens);
    ok(infer_tokenize(infer_model_tokenizer(model), text, len, 0, tokens, len + 16, &n_tokens, &error));
    if (n_tokens < n + n_prefix + NEXT + rounds) {
        fprintf(stderr, "bench_graft: %llu tokens are too few\n", (unsigned long long)n_tokens);
        return 1;
    }
    for (uint64_t r = 0; r < rounds; r++) { /* the prefix begins where the text is farthest from the document */
        uint64_t room = n_tokens - n - NEXT, at = rounds > 1 ? room * r / (rounds - 1) : 0, other = (at + n_tokens / 2) % (n_tokens - n_prefix);
        graft_round(tokens + other, n_prefix, tokens + at, n, ti.add_bos ? ti.bos : -1, scores);
        shift_round(tokens + at, n, scores);
    }
    printf("%llu rounds, document %llu, prefix %llu\n", (unsigned long long)rounds, (unsigned long long)n, (unsigned long long)n_prefix);
    for (int i = 0; i < 9; i++)
        printf("%-46s KL %.6f  top-1 %.2f %%\n", scores[i].what, scores[i].kl / (double)scores[i].n,
               100 * scores[i].agree / (double)scores[i].n);
    free(text), free(tokens);
    infer_model_release(model);
    return 0;
}
