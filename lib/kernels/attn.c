#include "kernels/attn.h"

#include <string.h>

#include "kernels/cpu.h"
#include "kernels/math_scalar.h"

infer_status attn_kernels_init(struct attn_kernels *k, int32_t level, infer_error *err)
{
    *k = (struct attn_kernels){0};
#define SET(name, required)                                                                                            \
    if (cpu_level_includes(level, required))                                                                           \
        *k = (struct attn_kernels){attn_block_##name, attn_widen_##name, attn_round8_##name, attn_merge_##name, attn_finish_##name};
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
