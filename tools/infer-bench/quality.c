#include "quality.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "options.h"
#include "report.h"
#include "windows.h"

#define BLOCK 32 /* positions whose mean counts as one sample: neighbours are alike */

/* Values, one a position. */
struct sample {
    double *v;
    uint64_t n, cap;
};

static bool sample_init(struct sample *s, uint64_t cap)
{
    *s = (struct sample){.v = malloc((size_t)(cap ? cap : 1) * sizeof *s->v), .cap = cap};
    return s->v != NULL;
}

static void sample_add(struct sample *s, double v)
{
    if (s->n < s->cap)
        s->v[s->n++] = v;
}

static double mean_of(const double *v, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += v[i];
    return n ? sum / (double)n : 0;
}

/* Standard error of the mean, from the means of blocks of neighbours; NaN with fewer than two blocks. */
static double block_error(const struct sample *s)
{
    uint64_t blocks = s->n / BLOCK;
    double mean = mean_of(s->v, blocks * BLOCK), sum = 0;
    for (uint64_t b = 0; b < blocks; b++) {
        double d = mean_of(s->v + b * BLOCK, BLOCK) - mean;
        sum += d * d;
    }
    return blocks > 1 ? sqrt(sum / (double)(blocks - 1) / (double)blocks) : (double)NAN;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* log of the sum of exp(x). */
static double log_sum_exp(const float *x, uint32_t n)
{
    double sum = 0;
    float max = x[0];
    for (uint32_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)max);
    return (double)max + log(sum);
}

static uint32_t argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

struct quality {
    uint32_t n_vocab;
    struct sample nll, ref_nll, kl, same;
    struct logits_file file;
    float *ref; /* [n_vocab] */
};

static bool quality_init(struct quality *q, const struct model *m, const struct windows *w)
{
    uint64_t n = windows_rows(w);
    q->n_vocab = m->info.vocab_size;
    q->ref = malloc(q->n_vocab * sizeof *q->ref);
    if (q->ref && sample_init(&q->nll, n) && sample_init(&q->ref_nll, n) && sample_init(&q->kl, n) && sample_init(&q->same, n))
        return true;
    complain("out of memory");
    return false;
}

static void quality_free(struct quality *q)
{
    free(q->nll.v);
    free(q->ref_nll.v);
    free(q->kl.v);
    free(q->same.v);
    free(q->ref);
}

static void fill_settings(struct row *r, const struct options *o, const struct model *m, const struct windows *w)
{
    row_text(r, "model", o->model);
    row_text(r, "version", infer_version());
    row_text(r, "cpu", infer_cpu_name(m->engine_info.cpu));
    row_text(r, "kv", kv_type_name(o->kv_type));
    row_text(r, "numerics", numerics_name(m->engine_info.numerics));
    row_number(r, "window", w->window, 0);
    row_number(r, "windows", (double)windows_count(w), 0);
    row_number(r, "first", w->first, 0);
}

static void fill_nll(struct row *r, const struct sample *nll)
{
    double mean = mean_of(nll->v, nll->n), error = block_error(nll);
    row_number(r, "scored", (double)nll->n, 0);
    row_number(r, "ppl", exp(mean), 6);
    row_number(r, "ppl_stderr", exp(mean) * error, 6); /* of the mean, times the slope of exp */
    row_number(r, "nll", mean, 8);
    row_number(r, "nll_stderr", error, 8);
}

static int print_row(const struct options *o, struct row *r)
{
    bool failed = r->failed;
    if (o->csv)
        row_print_csv_header(r);
    (o->json ? row_print_json : o->csv ? row_print_csv : row_print_lines)(r);
    printf("%s", o->json ? "\n" : "");
    row_free(r);
    if (failed)
        complain("out of memory");
    return failed ? EXIT_FAILED : EXIT_OK;
}

/* What a mode makes of the windows and their logits. */
struct mode {
    int (*open)(struct quality *q, const struct options *o, const struct model *m, struct windows *w);
    row_fn *row;
    void (*fill)(struct row *r, const struct options *o, struct quality *q); /* NULL: nothing to print */
    bool writes;
};

static int run(const struct options *o, const struct mode *mode)
{
    struct model m;
    struct windows w = {0};
    struct quality q = {0};
    struct row r = {0};
    int code = model_open(&m, o);
    if (code != EXIT_OK)
        return code;
    code = mode->open(&q, o, &m, &w);
    if (code == EXIT_OK && !quality_init(&q, &m, &w))
        code = EXIT_FAILED;
    if (code == EXIT_OK)
        code = windows_run(&m, o, &w, mode->row, &q);
    if (code == EXIT_OK && mode->fill) {
        fill_settings(&r, o, &m, &w);
        mode->fill(&r, o, &q);
        code = print_row(o, &r);
    }
    int closed = logits_close(&q.file, mode->writes, code == EXIT_OK);
    quality_free(&q);
    windows_free(&w);
    model_close(&m);
    return code == EXIT_OK ? closed : code;
}

/* ---- Perplexity ---- */

static int ppl_open(struct quality *q, const struct options *o, const struct model *m, struct windows *w)
{
    (void)q;
    return windows_from_text(m, o->ppl, o->window, o->score_all, o->windows, w);
}

static int ppl_row(void *user, const float *logits, int32_t next)
{
    struct quality *q = user;
    if (next >= 0)
        sample_add(&q->nll, log_sum_exp(logits, q->n_vocab) - (double)logits[next]);
    return EXIT_OK;
}

static void ppl_fill(struct row *r, const struct options *o, struct quality *q)
{
    row_text(r, "text", o->ppl);
    fill_nll(r, &q->nll);
}

int quality_ppl(const struct options *o)
{
    return run(o, &(struct mode){ppl_open, ppl_row, ppl_fill, false});
}

/* ---- KL divergence ---- */

static int kl_open(struct quality *q, const struct options *o, const struct model *m, struct windows *w)
{
    return logits_open(&q->file, o->kl, m->info.vocab_size, w);
}

static int kl_row(void *user, const float *logits, int32_t next)
{
    struct quality *q = user;
    int code = logits_read_row(&q->file, q->ref);
    if (code != EXIT_OK)
        return code;
    double a = log_sum_exp(q->ref, q->n_vocab), b = log_sum_exp(logits, q->n_vocab), kl = 0;
    for (uint32_t i = 0; i < q->n_vocab; i++) {
        double p = (double)q->ref[i] - a;
        kl += exp(p) * (p - ((double)logits[i] - b));
    }
    sample_add(&q->kl, kl);
    sample_add(&q->same, argmax(q->ref, q->n_vocab) == argmax(logits, q->n_vocab));
    if (next >= 0) {
        sample_add(&q->nll, b - (double)logits[next]);
        sample_add(&q->ref_nll, a - (double)q->ref[next]);
    }
    return EXIT_OK;
}

static void kl_fill(struct row *r, const struct options *o, struct quality *q)
{
    double mean = mean_of(q->kl.v, q->kl.n), error = block_error(&q->kl);
    row_text(r, "reference", o->kl);
    row_number(r, "positions", (double)q->kl.n, 0);
    row_number(r, "kl_mean", mean, 9);
    row_number(r, "kl_stderr", error, 9);
    row_number(r, "kl_low", mean - 1.96 * error, 9);
    row_number(r, "kl_high", mean + 1.96 * error, 9);
    row_number(r, "top1_agreement", mean_of(q->same.v, q->same.n), 6);
    row_number(r, "top1_stderr", block_error(&q->same), 6);
    qsort(q->kl.v, q->kl.n, sizeof *q->kl.v, by_value); /* the order is not needed any more */
    row_number(r, "kl_median", q->kl.v[q->kl.n / 2], 9);
    row_number(r, "kl_p99", q->kl.v[q->kl.n - 1 - q->kl.n / 100], 9);
    row_number(r, "kl_max", q->kl.v[q->kl.n - 1], 9);
    fill_nll(r, &q->nll);
    row_number(r, "ref_ppl", exp(mean_of(q->ref_nll.v, q->ref_nll.n)), 6);
}

int quality_kl(const struct options *o)
{
    return run(o, &(struct mode){kl_open, kl_row, kl_fill, false});
}

/* ---- Saving ---- */

static int save_open(struct quality *q, const struct options *o, const struct model *m, struct windows *w)
{
    int code = windows_from_text(m, o->text, o->window, o->score_all, o->windows, w);
    return code == EXIT_OK ? logits_create(&q->file, o->save_logits, m->info.vocab_size, w) : code;
}

static int save_row(void *user, const float *logits, int32_t next)
{
    struct quality *q = user;
    (void)next;
    return logits_write_row(&q->file, logits);
}

int quality_save(const struct options *o)
{
    return run(o, &(struct mode){save_open, save_row, NULL, true});
}
