#include "model/router.h"

#include "kernels/math_scalar.h"

float router_sigmoid(float x)
{
    return 1.0f / (1.0f + math_exp(-x));
}

static float max_of(const float *x, uint32_t n)
{
    float m = x[0];
    for (uint32_t i = 1; i < n; i++)
        m = x[i] > m ? x[i] : m;
    return m;
}

static void softmax(float *s, const float *x, uint32_t n)
{
    float m = max_of(x, n), part[16] = {0};
    for (uint32_t i = 0; i < n; i++) {
        s[i] = math_exp(x[i] - m);
        part[i % 16] += s[i];
    }
    float sum = math_tree(part);
    for (uint32_t i = 0; i < n; i++)
        s[i] /= sum;
}

/* The largest of x [n] that is not taken; NaN and, among equals, the later come last. */
static uint32_t best_of(const float *x, uint32_t n, const bool *taken)
{
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++)
        if (!taken[i] && (best == n || x[i] > x[best] || (x[best] != x[best] && x[i] == x[i])))
            best = i;
    return best;
}

/* The sum of the two best of a group, or the best one. */
static float group_score(const struct hparams *h, const float *x, uint32_t n)
{
    bool taken[MODEL_MAX_EXPERTS] = {false};
    uint32_t first = best_of(x, n, taken);
    if (h->router != ROUTER_SIGMOID || n < 2)
        return x[first];
    taken[first] = true;
    return x[first] + x[best_of(x, n, taken)];
}

/* Marks the experts of all groups but the best. */
static void limit_groups(const struct hparams *h, const float *order, bool *taken)
{
    float scores[MODEL_MAX_EXPERTS];
    bool used[MODEL_MAX_EXPERTS] = {false};
    uint32_t n = h->n_expert / h->n_expert_groups;
    for (uint32_t g = 0; g < h->n_expert_groups; g++)
        scores[g] = group_score(h, order + g * n, n);
    for (uint32_t k = 0; k < h->n_groups_used; k++)
        used[best_of(scores, h->n_expert_groups, used)] = true;
    for (uint32_t i = 0; i < h->n_expert; i++)
        taken[i] = !used[i / n];
}

/* exp(x - the first one's x), the largest. */
static void softmax_chosen(const float *x, const uint16_t *chosen, float *weights, uint32_t n)
{
    float sum = 0;
    for (uint32_t k = 0; k < n; k++) {
        weights[k] = math_exp(x[chosen[k]] - x[chosen[0]]);
        sum += weights[k];
    }
    for (uint32_t k = 0; k < n; k++)
        weights[k] /= sum;
}

static void weigh(const struct hparams *h, const float *scores, const uint16_t *chosen, float *weights)
{
    float sum = 0;
    for (uint32_t k = 0; k < h->n_expert_used; k++) {
        weights[k] = scores[chosen[k]];
        sum += weights[k];
    }
    if (h->router == ROUTER_SIGMOID)
        sum += 1e-20f;
    for (uint32_t k = 0; k < h->n_expert_used && h->norm_experts; k++)
        weights[k] /= sum;
}

/* What experts are ordered by. */
static void order_experts(const struct hparams *h, const float *products, const float *scores, const float *bias, float *order)
{
    const float *base = h->router == ROUTER_SIGMOID || (h->router == ROUTER_SOFTMAX && bias) ? scores : products;
    for (uint32_t i = 0; i < h->n_expert; i++)
        order[i] = bias ? base[i] + bias[i] : base[i];
}

void router_choose(const struct hparams *h, const float *products, const float *bias, uint16_t *chosen, float *weights)
{
    float scores[MODEL_MAX_EXPERTS], order[MODEL_MAX_EXPERTS];
    bool taken[MODEL_MAX_EXPERTS] = {false};
    bool late = h->router == ROUTER_SOFTMAX_LAST || (h->router == ROUTER_SOFTMAX && h->norm_experts && !bias);
    for (uint32_t i = 0; i < h->n_expert && h->router == ROUTER_SIGMOID; i++)
        scores[i] = router_sigmoid(products[i]);
    if (h->router == ROUTER_SOFTMAX && !late)
        softmax(scores, products, h->n_expert);
    order_experts(h, products, scores, bias, order);
    if (h->n_expert_groups > 1)
        limit_groups(h, order, taken);
    for (uint32_t k = 0; k < h->n_expert_used; k++) {
        chosen[k] = (uint16_t)best_of(order, h->n_expert, taken);
        taken[chosen[k]] = true;
    }
    if (late)
        softmax_chosen(products, chosen, weights, h->n_expert_used);
    else
        weigh(h, scores, chosen, weights);
    for (uint32_t k = 0; k < h->n_expert_used; k++)
        weights[k] *= h->expert_scale;
    for (uint32_t i = 0; i < h->n_expert; i++) {
        float none = order[i] - order[i] + (products[i] - products[i]);
        if (none != 0) /* not finite: the row ends as NaN, which is told, not as one with an expert less, which nobody would see */
            weights[0] = none;
    }
}
