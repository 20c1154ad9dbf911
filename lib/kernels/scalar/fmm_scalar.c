/* Products with float weights, the variant that defines the bits: see vec.h. */
#include "base/half.h"
#include "kernels/math_scalar.h"
#include "kernels/vec.h"

typedef void load_fn(float w[16], const uint8_t *row, uint32_t i, uint32_t n);

/* w = elements i .. i + n - 1 of the row; the row may be unaligned. */
static void load_f32(float w[16], const uint8_t *row, uint32_t i, uint32_t n)
{
    memcpy(w, row + (size_t)i * 4, (size_t)n * 4);
}

static void load_f16(float w[16], const uint8_t *row, uint32_t i, uint32_t n)
{
    uint16_t h[16];
    memcpy(h, row + (size_t)i * 2, (size_t)n * 2);
    for (uint32_t l = 0; l < n; l++)
        w[l] = f16_to_f32(h[l]);
}

static void load_bf16(float w[16], const uint8_t *row, uint32_t i, uint32_t n)
{
    uint16_t h[16];
    memcpy(h, row + (size_t)i * 2, (size_t)n * 2);
    for (uint32_t l = 0; l < n; l++)
        w[l] = bf16_to_f32(h[l]);
}

static float dot(const uint8_t *row, const float *x, uint32_t n_in, load_fn *load)
{
    float p[16] = {0};
    for (uint32_t i = 0; i < n_in; i += 16) {
        float w[16] = {0}, v[16] = {0};
        uint32_t n = n_in - i < 16 ? n_in - i : 16;
        load(w, row, i, n);
        memcpy(v, x + i, n * sizeof *v);
        for (int l = 0; l < 16; l++)
            p[l] = fma_f32(w[l], v[l], p[l]);
    }
    return math_tree(p);
}

static void matmul(const struct fmm_args *a, load_fn *load)
{
    for (uint32_t r = a->row0; r < a->row1; r++) {
        const uint8_t *row = (const uint8_t *)a->w + r * a->row_bytes;
        for (uint32_t c = 0; c < a->n_col; c++)
            a->y[c * a->y_stride + r] = dot(row, a->x + c * a->x_stride, a->n_in, load);
    }
}

void vec_matmul_f32_scalar(const struct fmm_args *a)
{
    matmul(a, load_f32);
}

void vec_matmul_f16_scalar(const struct fmm_args *a)
{
    matmul(a, load_f16);
}

void vec_matmul_bf16_scalar(const struct fmm_args *a)
{
    matmul(a, load_bf16);
}
