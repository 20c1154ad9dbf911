/* The choice of experts: a router's products to the numbers and weights of the experts that are used. All in f32, on the host. */
#ifndef MODEL_ROUTER_H
#define MODEL_ROUTER_H

#include "model/arch.h"

/* products [n_expert]; bias [n_expert] or NULL: added to the scores for the choice alone. chosen, weights [n_expert_used]: by rank, the best first.
 *
 * Scores s: softmax over all products x, exp(x - max) / sum (SOFTMAX); 1 / (1 + exp(-x)) (SIGMOID); x (SOFTMAX_LAST). The order of experts is that of
 * s + bias, for softmax without a bias that of x, which is the same but for rounding; ties go to the lower index, NaN is last. Where any product is not
 * finite, the first weight is NaN, so that the row ends as an error. With groups (consecutive experts, equally many)
 * only those of the n_groups_used best groups take part: a group counts as its best expert for softmax, and as the sum of its best two for sigmoid.
 * Weights: s of the chosen; SOFTMAX_LAST: softmax over the chosen. norm_experts: divided by their sum (added in rank order; SIGMOID: + 1e-20). Then times expert_scale.
 * Softmax with norm_experts is computed as softmax over the chosen, which is the same function. Sums of softmax: 16 strided partials and the tree, or, over the
 * chosen, in rank order. */
void router_choose(const struct hparams *h, const float *products, const float *bias, uint16_t *chosen, float *weights);

/* 1 / (1 + exp(-x)) */
float router_sigmoid(float x);

#endif
