/* Activations to 8 bits: the text of every variant, which defines before it includes this
 *
 *   MM_QUANTISE                      its name
 *   amax_bits(x)                     the largest of the bits of |x[0..31]|, which compare like the magnitudes, a NaN above infinity
 *   codes32(x, inverse, q, s)        q = x * inverse to nearest, ties to even; s: the sums of q[0..15] and q[16..31] */
#include <string.h>

#include "base/half.h"
#include "kernels/mm_list.h"

static inline void quantise_block(const float *x, struct mm_xblock *out)
{
    uint32_t amax = amax_bits(x);
    if (amax >= 0x7F800000 || amax < 0x0D800000) { /* not finite, or below 2^-100 */
        memset(out, 0, sizeof *out);
        if (amax >= 0x7F800000)
            out->d = out->dsum = f32_of_bits(0x7FC00000);
        return;
    }
    int32_t s[2];
    codes32(x, 127.0f / f32_of_bits(amax), out->q, s);
    int32_t sum = s[0] + s[1];
    out->d = f32_of_bits(amax) / 127.0f;
    out->dsum = out->d * (float)sum;
    out->s[0] = (int16_t)s[0];
    out->s[1] = (int16_t)s[1];
    out->nz[0] = -8 * sum;
    out->nz[1] = -16 * sum;
    out->nz[2] = -128 * sum;
    out->nz32[0] = -32 * s[0];
    out->nz32[1] = -32 * s[1];
}

void MM_QUANTISE(const float *x, uint32_t n, struct mm_xblock *out)
{
    for (uint32_t b = 0; b < n / 32; b++)
        quantise_block(x + 32 * b, out + b);
}
