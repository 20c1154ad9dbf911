/* The scalar matrix product: the definition of the bits (see mm.h). */
#include <string.h>

#include "base/half.h"
#include "kernels/fma.h"
#include "kernels/mm.h"
#include "kernels/mm_list.h"

enum form { K32, K32M, K32P, K16 };

/* Σ code * q of `n` groups of 4 inputs, per row. */
static void sums(const uint8_t codes[][MM_TILE_ROWS][4], const int8_t *q, uint32_t n, int32_t out[MM_TILE_ROWS])
{
    for (uint32_t r = 0; r < MM_TILE_ROWS; r++)
        out[r] = 0;
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t r = 0; r < MM_TILE_ROWS; r++)
            for (uint32_t i = 0; i < 4; i++)
                out[r] += (int32_t)codes[j][r][i] * q[4 * j + i];
}

static void block32(enum form form, int zero, const struct mm_tile *t, uint32_t b, const struct mm_xblock *x, float *acc)
{
    int32_t s[MM_TILE_ROWS], sum = x->s[0] + x->s[1];
    sums(t->codes[b], x->q, 8, s);
    for (uint32_t r = 0; r < MM_TILE_ROWS; r++) {
        acc[r] = fma_f32(t->d[b][0][r] * x->d, (float)(s[r] - zero * sum), acc[r]);
        if (form == K32M)
            acc[r] = fma_f32(t->m[b][r], x->d * (float)sum, acc[r]);
        if (form == K32P) {
            int32_t min = t->n[b][r][0] * x->s[0] + t->n[b][r][1] * x->s[1];
            acc[r] = fma_f32(t->m[b][r] * x->d, (float)min, acc[r]);
        }
    }
}

static void block16(int zero, const struct mm_tile *t, uint32_t b, const struct mm_xblock *x, float *acc)
{
    for (uint32_t h = 0; h < 2; h++) {
        int32_t s[MM_TILE_ROWS];
        sums(t->codes[b] + 4 * h, x->q + 16 * h, 4, s);
        for (uint32_t r = 0; r < MM_TILE_ROWS; r++)
            acc[r] = fma_f32(t->d[b][h][r] * x->d, (float)(s[r] - zero * x->s[h]), acc[r]);
    }
}

static void dot_tile(enum form form, int zero, const struct mm_dot *a, const struct mm_tile *t, float *acc)
{
    for (uint32_t c = 0; c < a->n_col; c++, acc += MM_TILE_ROWS) {
        const struct mm_xblock *x = a->x + c * a->x_stride;
        if (a->first)
            memset(acc, 0, MM_TILE_ROWS * sizeof *acc);
        for (uint32_t b = 0; b < a->n_block; b++)
            if (form == K16)
                block16(zero, t, b, x + b, acc);
            else
                block32(form, zero, t, b, x + b, acc);
    }
}

static void dot(enum form form, int zero, const struct mm_dot *a)
{
    for (uint32_t t = 0; t < a->n_tile; t++)
        dot_tile(form, zero, a, a->tile + t, a->acc + t * a->acc_stride);
}

#define MM_DEFINE(id, name, form, zero, max, v)                                                                           \
    void mm_dot_##name##_scalar(const struct mm_dot *a)                                                                \
    {                                                                                                                  \
        dot(form, zero, a);                                                                                            \
    }
MM_CLASSES(MM_DEFINE, )

/* Round to nearest, ties to even, for |v| < 2^22: adding 1.5 * 2^23 leaves no room for a fraction. */
static int32_t round_even(float v)
{
    float t = v + 12582912.0f;
    return (int32_t)(t - 12582912.0f);
}

static inline uint32_t amax_bits(const float *x)
{
    uint32_t amax = 0;
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t bits = f32_bits(x[i]) & 0x7FFFFFFF;
        amax = bits > amax ? bits : amax;
    }
    return amax;
}

static inline void codes32(const float *x, float inverse, int8_t *q, int32_t s[2])
{
    s[0] = s[1] = 0;
    for (uint32_t i = 0; i < 32; i++) {
        q[i] = (int8_t)round_even(x[i] * inverse);
        s[i / 16] += q[i];
    }
}

#define MM_QUANTISE mm_quantise_scalar
#include "kernels/mm_quantise.h"
