/* Attention, the variant that defines the bits: see attn.h for the order. */
#include <string.h>

#include "base/half.h"
#include "kernels/attn.h"
#include "kernels/attn_round.h"
#include "kernels/math_scalar.h"

static float load(const void *p, int32_t type, size_t i)
{
    if (type == INFER_KV_F32)
        return ((const float *)p)[i];
    if (dev_kv_group(type))
        return ((const int8_t *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return type == INFER_KV_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

/* The scale of position j's dimension d. */
static float scale_of(const struct attn_block_args *a, const void *p, uint32_t j, uint32_t d)
{
    uint32_t group = dev_kv_group(a->kv_type);
    if (!group)
        return 1.0f;
    const uint16_t *scales = (const uint16_t *)((const char *)p + (size_t)a->head_dim * ATTN_BLOCK);
    return f16_to_f32(scales[d / group * ATTN_BLOCK + j]);
}

static float key(const struct attn_block_args *a, uint32_t j, uint32_t d)
{
    return load(a->k, a->kv_type, (size_t)d * ATTN_BLOCK + j) * scale_of(a, a->k, j, d);
}

static float value(const struct attn_block_args *a, uint32_t j, uint32_t d)
{
    return load(a->v, a->kv_type, (size_t)j * a->head_dim + d) * scale_of(a, a->v, j, d);
}

static float score(const struct attn_block_args *a, const float *q, uint32_t j)
{
    float dot = 0;
    for (uint32_t d = 0; d < a->head_dim; d++)
        dot = fma_f32(q[d], key(a, j, d), dot);
    float s = dot * a->scale;
    return a->softcap != 0 ? math_softcap(s, a->softcap) : s;
}

static void one_query(const struct attn_block_args *a, const struct attn_query *q)
{
    float p[ATTN_BLOCK], *state = q->state, *l = state + ATTN_STATE_L, *o = state + ATTN_STATE_O;
    float m = state[ATTN_STATE_M];
    for (uint32_t j = q->j0; j < q->j1; j++) {
        p[j] = score(a, q->q, j);
        m = p[j] > m ? p[j] : m;
    }
    float c = math_exp(state[ATTN_STATE_M] - m);
    state[ATTN_STATE_M] = m;
    for (uint32_t i = 0; i < 16; i++)
        l[i] *= c;
    for (uint32_t d = 0; d < a->head_dim; d++)
        o[d] *= c;
    for (uint32_t j = q->j0; j < q->j1; j++) {
        p[j] = math_exp(p[j] - m);
        l[j % 16] += p[j];
        for (uint32_t d = 0; d < a->head_dim; d++)
            o[d] = fma_f32(p[j], value(a, j, d), o[d]);
    }
}

void attn_block_scalar(const struct attn_block_args *a)
{
    for (uint32_t i = 0; i < a->n_query; i++)
        one_query(a, &a->queries[i]);
}

void attn_widen_scalar(float *k, float *v, const struct attn_block_args *a)
{
    for (uint32_t d = 0; d < a->head_dim; d++)
        for (uint32_t j = 0; j < ATTN_BLOCK; j++) {
            k[(size_t)d * ATTN_BLOCK + j] = key(a, j, d);
            v[(size_t)j * a->head_dim + d] = value(a, j, d);
        }
}

void attn_round8_scalar(int8_t *codes, uint16_t *scales, const float *x, uint32_t n, uint32_t group)
{
    attn_round8(codes, scales, x, n, group);
}

static void merge_one(float *into, const float *part, uint32_t head_dim)
{
    if (attn_is_empty(part))
        return;
    if (attn_is_empty(into)) {
        memcpy(into, part, attn_state_floats(head_dim) * sizeof *into);
        return;
    }
    float m0 = into[ATTN_STATE_M], m1 = part[ATTN_STATE_M], m = m1 > m0 ? m1 : m0;
    float a = math_exp(m0 - m), b = math_exp(m1 - m);
    into[ATTN_STATE_M] = m;
    into[ATTN_STATE_SUM] = fma_f32(into[ATTN_STATE_SUM], a, part[ATTN_STATE_SUM] * b);
    float *o = into + ATTN_STATE_O;
    const float *p = part + ATTN_STATE_O;
    for (uint32_t d = 0; d < head_dim; d++)
        o[d] = fma_f32(o[d], a, p[d] * b);
}

void attn_merge_scalar(float *into, const float *parts, uint32_t head_dim, uint32_t n)
{
    size_t step = attn_state_floats(head_dim);
    for (uint32_t i = 0; i < n; i++)
        merge_one(into + i * step, parts + i * step, head_dim);
}

void attn_finish_scalar(float *dst, const float *state, uint32_t head_dim)
{
    float sum = state[ATTN_STATE_SUM];
    for (uint32_t d = 0; d < head_dim; d++)
        dst[d] = state[ATTN_STATE_O + d] / sum;
}
