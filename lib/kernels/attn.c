#include "kernels/attn.h"

#include <string.h>

#include "kernels/cpu.h"
#include "kernels/math_scalar.h"

infer_status attn_kernels_init(struct attn_kernels *k, int32_t level, infer_error *err)
{
    k->block = NULL;
#define SET(name, required)                                                                                            \
    if (cpu_level_includes(level, required))                                                                           \
        k->block = attn_block_##name;
    ATTN_VARIANTS(SET)
#undef SET
    return k->block ? INFER_OK : err_set(err, INFER_ERROR_INTERNAL, "the attention kernel is missing");
}

void attn_begin(float *state, uint32_t head_dim)
{
    memset(state, 0, attn_state_floats(head_dim) * sizeof *state);
    state[ATTN_STATE_M] = -__builtin_inff();
}

void attn_close(float *state)
{
    float l[16];
    memcpy(l, state + ATTN_STATE_L, sizeof l);
    state[ATTN_STATE_SUM] = math_tree(l);
}

/* A part with a visible position has a sum of at least 1, or NaN. */
static bool is_empty(const float *state)
{
    return state[ATTN_STATE_SUM] == 0;
}

void attn_merge(float *into, const float *part, uint32_t head_dim)
{
    if (is_empty(part))
        return;
    if (is_empty(into)) {
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

void attn_finish(float *dst, const float *state, uint32_t head_dim)
{
    float sum = state[ATTN_STATE_SUM];
    for (uint32_t d = 0; d < head_dim; d++)
        dst[d] = state[ATTN_STATE_O + d] / sum;
}
