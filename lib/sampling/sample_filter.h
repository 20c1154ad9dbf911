/* Steps 5 to 10 of sampler.h, and log-probabilities: everything that reads a finished row of logits. */
#ifndef SAMPLING_SAMPLE_FILTER_H
#define SAMPLING_SAMPLE_FILTER_H

#include <stdbool.h>

#include "sampling/sampler.h"

/* The id of the largest logit, ties to the lower; -1 when all are -inf. */
int32_t sample_best(const float *logits, uint32_t n);

/* The logarithm of the sum of exp(logit - max); terms below exp(-40) count as nothing. */
double sample_log_sum(const float *logits, uint32_t n, float max);

/* The count most likely ids, most likely first; returns how many there are (forbidden ones are left out). */
uint32_t sample_top(const float *logits, uint32_t n, uint32_t count, infer_logprob *out, float max, double log_sum);

/* Steps 5 to 9: leaves the survivors, at least one, in w->ids and w->weight. w->row holds n logits whose largest, max, is
 * finite. false: no memory. */
bool sample_filter(const struct alloc *alloc, struct sample_work *w, const infer_sampling *set, uint32_t n, float max,
                   uint32_t *survivors);

/* Step 10: uniform in [0, 1). */
int32_t sample_draw(const struct sample_work *w, uint32_t survivors, double uniform);

#endif
