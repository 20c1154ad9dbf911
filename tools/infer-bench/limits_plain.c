/* Any processor. */
#define LIMITS_VECTOR 16
#include "limits_read.h"

enum { N = 4096 };

/* The compiler makes of these what the base instruction set allows. */
static double peak_int8(uint64_t repeats)
{
    static const int8_t a[N] = {1, 2, 3}, b[N] = {3, 2, 1};
    const int8_t *x = a, *y = b;
    int32_t sum = 0;
    for (uint64_t r = 0; r < repeats; r++) {
        __asm__ __volatile__("" : "+r"(x), "+r"(y));
        for (int i = 0; i < N; i++)
            sum += x[i] * y[i];
    }
    __asm__ __volatile__("" : : "r"(sum));
    return (double)repeats * N;
}

static double peak_f32(uint64_t repeats)
{
    float sum[64] = {0};
    static const float a[N] = {1, 2, 3}, b[N] = {3, 2, 1};
    const float *x = a, *y = b;
    for (uint64_t r = 0; r < repeats; r++) {
        __asm__ __volatile__("" : "+r"(x), "+r"(y));
        for (int i = 0; i < N; i += 64)
            for (int k = 0; k < 64; k++)
                sum[k] += x[i + k] * y[i + k];
    }
    float *keep = sum;
    __asm__ __volatile__("" : : "r"(keep) : "memory");
    return (double)repeats * N;
}

const struct limit_variant limits_plain = {"plain", INFER_CPU_SCALAR, READ_ENTRIES, peak_int8, peak_f32};
