#include "sampling/sampler.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/fpenv.h"
#include "sampling/sample_filter.h"
#include "sampling/sample_random.h"

/* ---- Settings ---- */

static infer_status bad(infer_error *err, const char *field, const char *allowed)
{
    return err_at(err, INFER_ERROR_ARGUMENT, field, strlen(field), ERR_NO_OFFSET, "%s must be %s", field, allowed);
}

/* NaN fails every comparison. */
static bool between(float v, float lo, float hi)
{
    return v >= lo && v <= hi;
}

static infer_status check_numbers(const infer_sampling *s, infer_error *err)
{
    if (!between(s->temperature, 0, SAMPLER_MAX_TEMPERATURE))
        return bad(err, "temperature", "between 0 and 1000");
    if (!between(s->top_p, 0, 1))
        return bad(err, "top_p", "between 0 and 1");
    if (!between(s->min_p, 0, 1))
        return bad(err, "min_p", "between 0 and 1");
    if (!between(s->typical_p, 0, 1))
        return bad(err, "typical_p", "between 0 and 1");
    if (s->repetition_penalty != 0 && !between(s->repetition_penalty, 1 / SAMPLER_MAX_PENALTY, SAMPLER_MAX_PENALTY))
        return bad(err, "repetition_penalty", "0 or between 0.001 and 1000");
    if (!between(s->presence_penalty, -SAMPLER_MAX_PENALTY, SAMPLER_MAX_PENALTY))
        return bad(err, "presence_penalty", "between -1000 and 1000");
    if (!between(s->frequency_penalty, -SAMPLER_MAX_PENALTY, SAMPLER_MAX_PENALTY))
        return bad(err, "frequency_penalty", "between -1000 and 1000");
    if (s->top_logprobs > SAMPLER_MAX_TOP)
        return bad(err, "top_logprobs", "at most 20");
    if (s->logprobs != 0 && s->logprobs != 1)
        return bad(err, "logprobs", "0 or 1");
    return INFER_OK;
}

static infer_status check_bias(const struct sampler *s, const infer_sampling *set, infer_error *err)
{
    if (set->bias_count > SAMPLER_MAX_BIAS)
        return bad(err, "bias_count", "at most 4194304");
    if (set->bias_count && !set->bias)
        return bad(err, "bias", "a list when bias_count is not 0");
    for (uint64_t i = 0; i < set->bias_count; i++) {
        float b = set->bias[i].bias;
        int32_t id = set->bias[i].id;
        if (b != -INFINITY && !between(b, -SAMPLER_MAX_LOGIT_BIAS, SAMPLER_MAX_LOGIT_BIAS))
            return bad(err, "bias", "-infinity or between -1000000 and 1000000");
        if (id < 0 || (uint32_t)id >= s->n_usable)
            return err_at(err, INFER_ERROR_TOKEN, "bias", 4, ERR_NO_OFFSET, "bias: id %d is not a token; ids are 0 to %u",
                          (int)id, (unsigned)s->n_usable - 1);
    }
    return INFER_OK;
}

infer_status sampler_init(struct sampler *s, const struct alloc *alloc, uint32_t n_vocab, uint32_t n_usable,
                          infer_error *err)
{
    if (n_vocab < 1 || n_vocab > SAMPLER_MAX_VOCAB)
        return bad(err, "n_vocab", "between 1 and 4194304");
    if (n_usable < 1 || n_usable > n_vocab)
        return bad(err, "n_usable", "between 1 and n_vocab");
    memset(s, 0, sizeof *s);
    s->alloc = alloc;
    s->n_vocab = n_vocab;
    s->n_usable = n_usable;
    s->set.size = (uint32_t)sizeof s->set;
    return INFER_OK;
}

infer_status sampler_set(struct sampler *s, const infer_sampling *set, infer_error *err)
{
    infer_bias *bias = NULL;
    infer_status st = check_numbers(set, err);
    if (st == INFER_OK)
        st = check_bias(s, set, err);
    if (st != INFER_OK)
        return st;
    if (set->bias_count) {
        bias = mem_array(s->alloc, (size_t)set->bias_count, sizeof *bias);
        if (!bias)
            return err_no_memory(err);
        memcpy(bias, set->bias, (size_t)set->bias_count * sizeof *bias);
    }
    mem_free(s->alloc, (void *)(uintptr_t)s->set.bias);
    s->set = *set;
    s->set.bias = bias;
    return INFER_OK;
}

infer_status sampler_copy(struct sampler *dst, const struct sampler *src, infer_error *err)
{
    infer_status st = sampler_init(dst, src->alloc, src->n_vocab, src->n_usable, err);
    return st == INFER_OK ? sampler_set(dst, &src->set, err) : st;
}

void sampler_free(struct sampler *s)
{
    if (!s->alloc)
        return;
    mem_free(s->alloc, (void *)(uintptr_t)s->set.bias);
    mem_free(s->alloc, s->work.row);
    mem_free(s->alloc, s->work.seen);
    mem_free(s->alloc, s->work.ids);
    mem_free(s->alloc, s->work.x);
    mem_free(s->alloc, s->work.key);
    mem_free(s->alloc, s->work.weight);
    memset(s, 0, sizeof *s);
}

void sampler_default(infer_sampling *set)
{
    uint32_t size = set->size;
    memset(set, 0, sizeof *set);
    set->size = size;
    set->temperature = 0.7f;
    set->top_k = 40;
    set->top_p = 0.95f;
    set->min_p = 0.05f;
}

/* ---- The row: steps 1 to 4 ---- */

static infer_status check_row(const float *row, uint32_t n, infer_status code, const char *who, infer_error *err)
{
    uint32_t i = 0;
    int bad_values = 0; /* counted without a branch: compilers make this wide */
    for (i = 0; i < n; i++)
        bad_values += !(row[i] <= FLT_MAX); /* NaN or +inf */
    if (bad_values == 0)
        return INFER_OK;
    for (i = 0; row[i] <= FLT_MAX; i++)
        ;
    return err_set(err, code, "%s for token %u that is not finite", who, (unsigned)i);
}

/* -inf stays; other results are kept finite. */
static float saturate(float v)
{
    return v > FLT_MAX ? FLT_MAX : v < -FLT_MAX ? -FLT_MAX : v;
}

static void forbid(const struct sampler *s, const uint32_t *allowed, float *row)
{
    for (uint32_t i = 0; allowed && i < s->n_usable; i++)
        if (!(allowed[i / 32] >> (i % 32) & 1))
            row[i] = -INFINITY;
    for (uint32_t i = s->n_usable; i < s->n_vocab; i++)
        row[i] = -INFINITY;
}

static infer_status call_host(const struct sampler *s, const struct sample_input *in, float *row, infer_error *err)
{
    infer_status st = s->set.callback(s->set.callback_user, row, s->n_vocab, in->ids, in->count);
    if (st != INFER_OK)
        return err_set(err, st < 0 ? st : INFER_ERROR_HOST, "the host's logits callback returned %d", (int)st);
    st = check_row(row, s->n_vocab, INFER_ERROR_HOST, "the host's logits callback wrote a value", err);
    if (st == INFER_OK)
        forbid(s, in->allowed, row); /* what is forbidden stays so */
    return st;
}

static void add_bias(const infer_sampling *set, float *row)
{
    for (uint64_t i = 0; i < set->bias_count; i++) {
        float *l = &row[set->bias[i].id];
        if (set->bias[i].bias == -INFINITY)
            *l = -INFINITY;
        else if (*l != -INFINITY)
            *l = saturate(*l + set->bias[i].bias);
    }
}

static float penalised(const infer_sampling *set, float logit, uint32_t times)
{
    float r = set->repetition_penalty;
    if (logit == -INFINITY)
        return logit;
    if (r != 0 && r != 1)
        logit = saturate(logit > 0 ? logit / r : logit * r);
    return saturate(logit - set->presence_penalty - set->frequency_penalty * (float)times);
}

static bool penalises(const infer_sampling *set)
{
    return (set->repetition_penalty != 0 && set->repetition_penalty != 1) || set->presence_penalty != 0 ||
           set->frequency_penalty != 0;
}

/* seen is all zero before and after. */
static void penalise(const struct sampler *s, const struct sample_input *in, float *row)
{
    uint64_t last = s->set.penalty_last_n;
    uint64_t first = last && last < in->count ? in->count - last : 0;
    uint32_t *seen = s->work.seen;
    for (uint64_t i = first; i < in->count; i++) {
        uint32_t id = (uint32_t)in->ids[i];
        if (id < s->n_usable && seen[id] < UINT32_MAX)
            seen[id]++;
    }
    for (uint64_t i = first; i < in->count; i++) {
        uint32_t id = (uint32_t)in->ids[i];
        if (id < s->n_usable && seen[id]) {
            row[id] = penalised(&s->set, row[id], seen[id]);
            seen[id] = 0;
        }
    }
}

/* ---- One token ---- */

static bool reserve_row(struct sampler *s)
{
    struct sample_work *w = &s->work;
    if (!w->row)
        w->row = mem_array(s->alloc, s->n_vocab, sizeof *w->row);
    if (!w->seen && penalises(&s->set))
        w->seen = mem_zarray(s->alloc, s->n_usable, sizeof *w->seen);
    return w->row && (w->seen || !penalises(&s->set));
}

struct drawn {
    int32_t id;
    float logprob;
    uint32_t top_count;
    infer_logprob top[SAMPLER_MAX_TOP];
};

static infer_status none_left(infer_error *err)
{
    return err_set(err, INFER_ERROR_STATE, "every token is forbidden: nothing can be sampled");
}

/* Steps 3 to 10, computed under the floating-point guard. */
static infer_status choose(struct sampler *s, const struct sample_input *in, struct drawn *d, infer_error *err)
{
    const infer_sampling *set = &s->set;
    float *row = s->work.row;
    uint32_t n = s->n_usable, survivors;
    add_bias(set, row);
    if (penalises(set))
        penalise(s, in, row);
    d->id = sample_best(row, n);
    if (d->id < 0)
        return none_left(err);
    float max = row[d->id];
    double log_sum = 0;
    if (set->logprobs || set->top_logprobs)
        log_sum = sample_log_sum(row, n, max);
    if (set->top_logprobs)
        d->top_count = sample_top(row, n, set->top_logprobs, d->top, max, log_sum);
    if (set->logprobs)
        d->logprob = (float)-log_sum;
    if (set->temperature == 0)
        return INFER_OK;
    if (!sample_filter(s->alloc, &s->work, set, n, max, &survivors))
        return err_no_memory(err);
    d->id = sample_draw(&s->work, survivors, sample_uniform(set->seed, SAMPLE_STREAM_TOKEN, in->position));
    if (set->logprobs)
        d->logprob = (float)((double)row[d->id] - (double)max - log_sum);
    return INFER_OK;
}

/* Greedy with nothing that changes the row: no copy is needed. */
static bool plain_greedy(const struct sampler *s, const struct sample_input *in)
{
    const infer_sampling *set = &s->set;
    return set->temperature == 0 && !in->allowed && !set->callback && !set->bias_count && !set->logprobs &&
           !set->top_logprobs && !penalises(set);
}

static infer_status choose_from_copy(struct sampler *s, const struct sample_input *in, struct drawn *d, infer_error *err)
{
    if (!reserve_row(s))
        return err_no_memory(err);
    memcpy(s->work.row, in->logits, s->n_vocab * sizeof *s->work.row);
    forbid(s, in->allowed, s->work.row);
    if (s->set.callback) {
        infer_status st = call_host(s, in, s->work.row, err);
        if (st != INFER_OK)
            return st;
    }
    struct fpenv guard = fpenv_enter();
    infer_status st = choose(s, in, d, err);
    fpenv_leave(guard);
    return st;
}

infer_status sampler_sample(struct sampler *s, const struct sample_input *in, infer_sample_result *out, infer_error *err)
{
    struct drawn d = {.id = -1};
    infer_status st = check_row(in->logits, s->n_usable, INFER_ERROR_NONFINITE, "the model produced a logit", err);
    if (st != INFER_OK)
        return st;
    if (plain_greedy(s, in)) {
        d.id = sample_best(in->logits, s->n_usable);
        st = d.id < 0 ? none_left(err) : INFER_OK;
    } else {
        st = choose_from_copy(s, in, &d, err);
    }
    if (st != INFER_OK)
        return st;
    memcpy(s->top, d.top, sizeof s->top);
    out->id = d.id;
    out->logprob = d.logprob;
    out->top_count = d.top_count;
    out->top = d.top_count ? s->top : NULL;
    return INFER_OK;
}

double sampler_logprob(const float *row, uint32_t n, int32_t id, uint32_t n_top, infer_logprob *top)
{
    float max = row[sample_best(row, n)];
    double log_sum = sample_log_sum(row, n, max);
    uint32_t found = n_top ? sample_top(row, n, n_top, top, max, log_sum) : 0;
    for (uint32_t i = found; i < n_top; i++)
        top[i] = (infer_logprob){-1, 0};
    return (double)row[id] - (double)max - log_sum;
}

infer_status sampler_score(const float *logits, uint32_t n_usable, int32_t id, uint32_t top_count, infer_logprob *top,
                           infer_sample_result *out, infer_error *err)
{
    infer_status st = check_row(logits, n_usable, INFER_ERROR_NONFINITE, "the model produced a logit", err);
    if (st == INFER_OK && sample_best(logits, n_usable) < 0)
        st = none_left(err);
    if (st != INFER_OK)
        return st;
    struct fpenv guard = fpenv_enter();
    out->id = id;
    out->logprob = (float)sampler_logprob(logits, n_usable, id, top_count, top);
    fpenv_leave(guard);
    for (out->top_count = 0; out->top_count < top_count && top[out->top_count].id >= 0;)
        out->top_count++;
    out->top = out->top_count ? top : NULL;
    return INFER_OK;
}
