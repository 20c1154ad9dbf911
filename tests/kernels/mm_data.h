/* Weights and activations for the tests of the matrix product. */
#ifndef MM_DATA_H
#define MM_DATA_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "kernels/cpu.h"
#include "kernels/mm.h"
#include "testutil.h"

/* Where a type keeps half-precision scales inside its block; 0xffff ends the list. */
static const struct mm_data_type {
    int32_t type;
    const char *name;
    uint16_t half[3];
} mm_data_types[] = {
    {INFER_TYPE_Q4_0, "q4_0", {0, 0xffff}},     {INFER_TYPE_Q4_1, "q4_1", {0, 2, 0xffff}},
    {INFER_TYPE_Q5_0, "q5_0", {0, 0xffff}},     {INFER_TYPE_Q5_1, "q5_1", {0, 2, 0xffff}},
    {INFER_TYPE_Q8_0, "q8_0", {0, 0xffff}},     {INFER_TYPE_Q8_1, "q8_1", {0, 2, 0xffff}},
    {INFER_TYPE_Q2_K, "q2_k", {80, 82, 0xffff}}, {INFER_TYPE_Q3_K, "q3_k", {108, 0xffff}},
    {INFER_TYPE_Q4_K, "q4_k", {0, 2, 0xffff}},  {INFER_TYPE_Q5_K, "q5_k", {0, 2, 0xffff}},
    {INFER_TYPE_Q6_K, "q6_k", {208, 0xffff}},   {INFER_TYPE_Q8_K, "q8_k", {0xffff}},
    {INFER_TYPE_IQ1_S, "iq1_s", {0, 0xffff}},   {INFER_TYPE_IQ1_M, "iq1_m", {0xffff}},
    {INFER_TYPE_IQ2_XXS, "iq2_xxs", {0, 0xffff}}, {INFER_TYPE_IQ2_XS, "iq2_xs", {0, 0xffff}},
    {INFER_TYPE_IQ2_S, "iq2_s", {0, 0xffff}},   {INFER_TYPE_IQ3_XXS, "iq3_xxs", {0, 0xffff}},
    {INFER_TYPE_IQ3_S, "iq3_s", {0, 0xffff}},   {INFER_TYPE_IQ4_NL, "iq4_nl", {0, 0xffff}},
    {INFER_TYPE_IQ4_XS, "iq4_xs", {0, 0xffff}}, {INFER_TYPE_TQ1_0, "tq1_0", {52, 0xffff}},
    {INFER_TYPE_TQ2_0, "tq2_0", {64, 0xffff}},  {INFER_TYPE_MXFP4, "mxfp4", {0xffff}},
    {INFER_TYPE_NVFP4, "nvfp4", {0xffff}},      {INFER_TYPE_Q1_0, "q1_0", {0, 0xffff}},
    {INFER_TYPE_Q2_0, "q2_0", {0, 0xffff}},
};
#define MM_DATA_TYPES (sizeof mm_data_types / sizeof mm_data_types[0])

/* What the scales of a block look like. */
enum mm_scales { SCALES_USUAL, SCALES_ZERO, SCALES_SUBNORMAL, SCALES_HUGE, SCALES_KINDS };

static inline uint16_t mm_data_half(enum mm_scales kind, uint64_t *seed)
{
    uint64_t r = test_rand(seed);
    uint16_t sign = (uint16_t)(r >> 20 & 1 ? 0x8000 : 0), man = (uint16_t)(r & 0x3ff);
    switch (kind) {
    case SCALES_ZERO:
        return sign;
    case SCALES_SUBNORMAL:
        return (uint16_t)(sign | man);
    case SCALES_HUGE:
        return (uint16_t)(sign | 0x7800 | man);
    default:
        return (uint16_t)(sign | (7 + (r >> 30) % 4) << 10 | man); /* about 2^-8 .. 2^-4 */
    }
}

/* n blocks with codes from `fill` (0 .. 255: that byte everywhere; -1: random) and finite scales. */
static inline void mm_data_weights(const struct mm_data_type *t, uint8_t *w, uint64_t n_block, int fill, enum mm_scales kind,
                                   uint64_t *seed)
{
    const struct dtype *d = dtype_of(t->type);
    for (uint64_t b = 0; b < n_block; b++, w += d->bytes) {
        for (uint32_t i = 0; i < d->bytes; i++)
            w[i] = (uint8_t)(fill < 0 ? (int)(test_rand(seed) >> 24 & 255) : fill);
        for (int i = 0; i < 3 && t->half[i] != 0xffff; i++) {
            uint16_t h = mm_data_half(kind, seed);
            memcpy(w + t->half[i], &h, 2);
        }
        if (t->type == INFER_TYPE_Q8_K) {
            float f = f16_to_f32(mm_data_half(kind, seed)) * (kind == SCALES_SUBNORMAL ? 0x1p-115f : 1.0f);
            memcpy(w, &f, 4);
        }
        if (t->type == INFER_TYPE_IQ1_M) { /* the half's top nibble: sign and exponent */
            static const uint8_t top[SCALES_KINDS] = {0x20, 0x00, 0x80, 0x70};
            w[55] = (uint8_t)((w[55] & 15) | top[kind]);
            if (kind == SCALES_HUGE)
                w[53] &= 0x7f; /* not the last exponent */
        }
        if (t->type == INFER_TYPE_MXFP4) {
            static const uint8_t base[SCALES_KINDS] = {118, 90, 0, 150};
            w[0] = (uint8_t)(base[kind] + (test_rand(seed) >> 30) % 5);
        }
    }
}

/* What activations look like. */
enum mm_inputs { INPUTS_USUAL, INPUTS_ZERO, INPUTS_EXTREME, INPUTS_TINY, INPUTS_HUGE, INPUTS_KINDS };

static inline void mm_data_inputs(float *x, size_t n, enum mm_inputs kind, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++) {
        float v = test_rand_f32(seed);
        switch (kind) {
        case INPUTS_ZERO: /* whole blocks of zeros of both signs among others */
            x[i] = (i / 32) % 2 ? v : (v < 0 ? -0.0f : 0.0f);
            break;
        case INPUTS_EXTREME: /* all codes +-127 */
            x[i] = (i / 32) % 3 == 0 ? 2.5f : (i / 32) % 3 == 1 ? -2.5f : (v < 0 ? -2.5f : 2.5f);
            break;
        case INPUTS_TINY: /* around the limit of 2^-100, and subnormal */
            x[i] = v * ((i / 32) % 2 ? 0x1p-101f : 0x1p-140f);
            break;
        case INPUTS_HUGE:
            x[i] = v * 0x1p90f;
            break;
        default:
            x[i] = v;
        }
    }
}

#endif
