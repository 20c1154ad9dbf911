/* The row kernels that define the bits: see vec.h for the orders. */
#include "base/half.h"
#include "kernels/math_scalar.h"
#include "kernels/vec.h"

void vec_rms_norm_scalar(float *dst, const float *x, const float *weight, uint32_t n, float eps)
{
    float p[16] = {0};
    for (uint32_t i = 0; i < n; i++)
        p[i % 16] = fma_f32(x[i], x[i], p[i % 16]);
    float s = 1.0f / math_sqrt(math_tree(p) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++)
        dst[i] = (x[i] * s) * weight[i];
}

void vec_layer_norm_scalar(float *dst, const float *x, const float *weight, const float *bias, uint32_t n, float eps)
{
    float p[16] = {0}, q[16] = {0};
    for (uint32_t i = 0; i < n; i++)
        p[i % 16] += x[i];
    float mean = math_tree(p) / (float)n;
    for (uint32_t i = 0; i < n; i++) {
        float d = x[i] - mean;
        q[i % 16] = fma_f32(d, d, q[i % 16]);
    }
    float s = 1.0f / math_sqrt(math_tree(q) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++) {
        float d = (x[i] - mean) * s;
        dst[i] = bias ? fma_f32(d, weight[i], bias[i]) : d * weight[i];
    }
}

void vec_rope_table_scalar(float *table, const float *inv_freq, uint32_t n_half, uint32_t position, float mscale)
{
    for (uint32_t i = 0; i < n_half; i++) {
        float s, c;
        math_sincos((float)position * inv_freq[i], &s, &c);
        table[2 * i] = c * mscale;
        table[2 * i + 1] = s * mscale;
    }
}

static void rotate(float *a, float *b, const float *cos_sin)
{
    float x = *a, y = *b, c = cos_sin[0], s = cos_sin[1];
    *a = fma_f32(x, c, -(y * s));
    *b = fma_f32(y, c, x * s);
}

void vec_rope_pairs_scalar(float *x, const float *table, uint32_t n_rot)
{
    for (uint32_t i = 0; i + 1 < n_rot; i += 2)
        rotate(x + i, x + i + 1, table + i);
}

void vec_rope_halves_scalar(float *x, const float *table, uint32_t n_rot)
{
    uint32_t half = n_rot / 2;
    for (uint32_t i = 0; i < half; i++)
        rotate(x + i, x + i + half, table + 2 * i);
}

#define ACT(name)                                                                                                      \
    void vec_##name##_scalar(float *dst, const float *gate, const float *up, size_t n)                                 \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            float y = math_##name(gate[i]);                                                                            \
            dst[i] = up ? y * up[i] : y;                                                                               \
        }                                                                                                              \
    }
ACT(silu)
ACT(gelu_tanh)
ACT(gelu_erf)
ACT(relu)
ACT(relu2)

void vec_add_scalar(float *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] += src[i];
}

void vec_scale_scalar(float *x, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
}

void vec_softcap_scalar(float *x, size_t n, float cap)
{
    for (size_t i = 0; i < n; i++)
        x[i] = math_softcap(x[i], cap);
}

void vec_expand_scalar(float *y, const float *w, size_t stride, const float *t, uint32_t rank, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float a = 0;
        for (uint32_t k = 0; k < rank; k++)
            a = fma_f32(w[k * stride + i], t[k], a);
        y[i] += a;
    }
}

float vec_max_scalar(const float *x, size_t n)
{
    float p[16];
    for (int l = 0; l < 16; l++)
        p[l] = -__builtin_inff();
    for (size_t i = 0; i < n; i++)
        p[i % 16] = x[i] > p[i % 16] ? x[i] : p[i % 16];
    for (int step = 8; step; step /= 2)
        for (int l = 0; l < step; l++)
            p[l] = p[l + step] > p[l] ? p[l + step] : p[l];
    return p[0];
}

void vec_f32_to_f16_scalar(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = f32_to_f16(src[i]);
}

void vec_f32_to_bf16_scalar(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = f32_to_bf16(src[i]);
}

void vec_f16_to_f32_scalar(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = f16_to_f32(src[i]);
}

void vec_bf16_to_f32_scalar(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = bf16_to_f32(src[i]);
}
