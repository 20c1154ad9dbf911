/* The sampler: from a row of logits to a token id. Pure: it knows rows, ids and positions, not sessions or models.
 *
 * Steps, in this order (each acts on the result of those before it):
 *   1. constraint: ids outside `allowed` and ids >= n_usable are forbidden (logit -inf);
 *   2. the host's callback;
 *   3. bias: added to the logit; -inf forbids;
 *   4. penalties of each id among the last penalty_last_n elements: positive logits divided by repetition_penalty, negative ones
 *      multiplied by it; then presence_penalty subtracted once and frequency_penalty once per occurrence;
 *      (log-probabilities are those of this stage)
 *   5. temperature: x = (logit - largest logit) / temperature; 0 takes the largest logit and skips the rest;
 *   6. top_k: the k largest logits (temperature keeps their order);
 *   7. top_p: in decreasing order of x, the shortest run with at least top_p of the probability of what top_k left;
 *   8. min_p: what has at least min_p times the probability of the most likely;
 *   9. typical_p: in increasing order of |-log p - entropy|, the shortest run with at least typical_p of the probability;
 *  10. the draw: survivors in increasing order of id, one uniform number.
 * Every tie goes to the lower id.
 *
 * Probabilities are whole numbers: round(2^40 * exp(x)). Their sums are exact in any order, so every cut is a function of the
 * row alone; a token less likely than 2^-41 of the most likely one is never drawn. Logits never overflow: bias and penalties
 * saturate at the largest finite float.
 *
 * The uniform number of position p is a function of (seed, stream, p) alone (sample_random.h), so that fork, rollback and replay
 * agree by construction. */
#ifndef SAMPLING_SAMPLER_H
#define SAMPLING_SAMPLER_H

#include "base/alloc.h"
#include "base/err.h"

#define SAMPLER_MAX_VOCAB ((uint32_t)1 << 22)   /* keeps sums of probabilities below 2^63 */
#define SAMPLER_MAX_BIAS ((uint64_t)SAMPLER_MAX_VOCAB)
#define SAMPLER_MAX_TOP 20
/* Bounds of the settings; beyond them lies no use, only overflow. */
#define SAMPLER_MAX_TEMPERATURE 1000.0f
#define SAMPLER_MAX_PENALTY 1000.0f /* of presence and frequency either way; of repetition with its inverse as the lower bound */
#define SAMPLER_MAX_LOGIT_BIAS 1e6f

/* One slot of survivors. */
struct sample_work {
    float *row;       /* [n_vocab] logits after steps 1 to 4 */
    uint32_t *seen;   /* [n_usable] all zero between calls */
    int32_t *ids;     /* [n] survivors in increasing order */
    float *x;         /* [n] */
    float *key;       /* [n] typical's order */
    uint64_t *weight; /* [n] round(2^40 * exp(x)) */
    uint32_t cap;
};

struct sampler {
    const struct alloc *alloc;
    uint32_t n_vocab, n_usable;
    struct infer_sampling set; /* bias: own copy */
    struct infer_logprob top[SAMPLER_MAX_TOP];
    struct sample_work work;   /* grows to what the settings need, then stays */
};

struct sample_input {
    const float *logits;     /* [n_vocab], not changed */
    const uint32_t *allowed; /* a bit for each id < n_usable, lowest bit first; NULL: all */
    const int32_t *ids;      /* [count] the elements so far; negative: not a token */
    uint64_t count;
    uint64_t position;       /* index of the element that is to be drawn */
};

/* The most memory that a sampler takes, whatever its settings but for the list of biases. */
static inline uint64_t sampler_most_bytes(uint32_t n_vocab)
{
    return n_vocab * (uint64_t)(2 * sizeof(float) + sizeof(int32_t) + 2 * sizeof(float) + sizeof(uint64_t)) + 6 * 16;
}

/* n_vocab: floats in a row, 1 .. SAMPLER_MAX_VOCAB. n_usable: ids from it on have no token (1 .. n_vocab). The settings are greedy. */
infer_status sampler_init(struct sampler *s, const struct alloc *alloc, uint32_t n_vocab, uint32_t n_usable,
                          infer_error *err);
/* Checks and copies; on failure the old settings stay. set is full-size. Errors: ARGUMENT (names the field), TOKEN (an id of
 * the bias list), NO_MEMORY. */
infer_status sampler_set(struct sampler *s, const infer_sampling *set, infer_error *err);
/* Draws one token. Errors: NONFINITE (NaN or +inf in the row), HOST (the callback failed, or wrote NaN or +inf), STATE (every
 * token is forbidden), NO_MEMORY. out is full-size and written only on success; out->top is valid until the next call. */
infer_status sampler_sample(struct sampler *s, const struct sample_input *in, infer_sample_result *out,
                            infer_error *err);
/* The log-probability of id under a row of n finite logits as it is, without any settings, and the n_top (at most 20) most likely ids; with fewer than
 * n_top ids the rest is -1. Under the caller's floating-point guard. */
double sampler_logprob(const float *row, uint32_t n, int32_t id, uint32_t n_top, infer_logprob *top);
/* dst becomes an independent sampler with the settings of src (scratch is not copied). dst is not initialised before. */
infer_status sampler_copy(struct sampler *dst, const struct sampler *src, infer_error *err);
void sampler_free(struct sampler *s);

/* The log-probability of an id that is given, not drawn, in a row of logits [n_usable] as the model made it; and into top [top_count, at most
 * SAMPLER_MAX_TOP] the most likely ones, which out->top then is. Errors: NONFINITE, STATE (every logit is -inf). */
infer_status sampler_score(const float *logits, uint32_t n_usable, int32_t id, uint32_t top_count, infer_logprob *top,
                           infer_sample_result *out, infer_error *err);

/* The defaults of infer-cli: temperature 0.7, top_k 40, top_p 0.95, min_p 0.05. set->size stays. */
void sampler_default(infer_sampling *set);

#endif
