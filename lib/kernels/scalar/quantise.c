/* Dispatch, and the types with one scale for 32 elements. Layouts: as in dequant_small.c. */
#include "kernels/quantise.h"

#include "kernels/scalar/quantise_round.h"

quantise_fn quantise_of(int32_t type)
{
#define QUANTISE_ENTRY(id, fn)                                                                                         \
    if (type == INFER_TYPE_##id)                                                                                       \
        return fn;
    QUANTISE_LIST(QUANTISE_ENTRY)
#undef QUANTISE_ENTRY
    return NULL;
}

/* The element of the largest magnitude, the first of equals. */
static float largest(const float *x, int n)
{
    float best = 0;
    for (int i = 0; i < n; i++)
        if (magnitude(x[i]) > magnitude(best))
            best = x[i];
    return best;
}

/* 1 / d as the reference has it: 0 for 0. A scale so small that its inverse overflows is taken for 0 too. */
static float inverse(float d)
{
    float id = d == 0 ? 0 : 1 / d;
    return magnitude(id) <= 3e38f ? id : 0;
}

/* d f16, codes 32 i8, rounded half away from zero */
bool quantise_q8_0(const float *src, uint8_t *dst, uint64_t n)
{
    for (; n >= 32; n -= 32, src += 32, dst += 34) {
        float d = magnitude(largest(src, 32)) / 127, id = inverse(d);
        if (!all_finite(src, 32) || !put_f16(dst, d))
            return false;
        for (int i = 0; i < 32; i++)
            dst[2 + i] = (uint8_t)round_away(src[i] * id);
    }
    return true;
}

/* d f16, codes 16: byte j holds elements j and j + 16. The largest element gets code 0, which stands for -8. */
bool quantise_q4_0(const float *src, uint8_t *dst, uint64_t n)
{
    for (; n >= 32; n -= 32, src += 32, dst += 18) {
        float d = largest(src, 32) / -8, id = inverse(d);
        if (!all_finite(src, 32) || !put_f16(dst, d))
            return false;
        for (int i = 0; i < 16; i++) {
            int a = (int)(src[i] * id + 8.5f), b = (int)(src[i + 16] * id + 8.5f);
            dst[2 + i] = (uint8_t)((a > 15 ? 15 : a) | (b > 15 ? 15 : b) << 4);
        }
    }
    return true;
}
