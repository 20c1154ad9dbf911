#include "model/rope_freqs.h"

#include "kernels/math_scalar.h"

#define TWO_PI 6.283185307179586

/* YaRN (Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models"): the dimension whose wavelength fits
 * `rotations` times into the original context. */
static double yarn_dim(const struct hparams *h, double rotations)
{
    return h->n_rot * math_log_d(h->rope_orig_ctx / (rotations * TWO_PI)) / (2 * math_log_d(h->rope_base));
}

/* x of any value: a file may name betas and bases that give an infinite dimension, or none. */
static double floor_d(double x)
{
    const double far = 1 << 30; /* beyond every dimension */
    x = x > -far ? x : -far; /* NaN too */
    x = x < far ? x : far;
    double t = (double)(int64_t)x;
    return t > x ? t - 1 : t;
}

/* How much of dimension pair i is extrapolated (1: unchanged, 0: fully interpolated). */
static double yarn_keep(const struct hparams *h, uint32_t i)
{
    double last = h->n_rot - 1;
    double low = floor_d(yarn_dim(h, h->yarn_beta_fast)), high = -floor_d(-yarn_dim(h, h->yarn_beta_slow));
    low = low < 0 ? 0 : low;
    high = high > last ? last : high;
    double width = high - low < 0.001 ? 0.001 : high - low;
    double ramp = ((double)i - low) / width;
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return (1 - ramp) * h->yarn_ext_factor;
}

void rope_frequencies(const struct hparams *h, const float *factors, bool local, float *inv_freq, float *mscale)
{
    bool plain = local && (h->rope_local_plain || h->rope_base_local != h->rope_base);
    double base = local ? h->rope_base_local : h->rope_base;
    enum rope_scaling scaling = plain ? ROPE_SCALING_NONE : h->rope_scaling;
    double magnitude = plain ? 1.0 : h->rope_attn_factor;
    if (scaling == ROPE_SCALING_YARN && h->yarn_ext_factor != 0)
        magnitude *= h->yarn_log_mul != 0 ? 1.0 : 1.0 + 0.1 * math_log_d(h->rope_factor);
    *mscale = (float)magnitude;
    for (uint32_t i = 0; i < h->n_rot / 2; i++) {
        double f = math_pow(base, -2.0 * i / h->n_rot);
        if (factors)
            f /= (double)factors[i];
        double interpolated = f / h->rope_factor, keep = scaling == ROPE_SCALING_YARN ? yarn_keep(h, i) : 0;
        if (scaling != ROPE_SCALING_NONE)
            f = interpolated * (1 - keep) + f * keep;
        inv_freq[i] = (float)f;
    }
}
