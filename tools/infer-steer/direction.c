/* From what two groups of prompts leave in a layer to the direction between them. Sums in double. */
#include <math.h>
#include <stdlib.h>

#include "steer.h"

#define MAX_STEPS 20000 /* of the power iteration: enough for a ratio of eigenvalues of 0.999 */

static void finish(double *v, uint32_t width, double length, bool unit, float *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < width; i++)
        sum += v[i] * v[i];
    double by = sum > 0 ? (unit ? 1 : length) / sqrt(sum) : 0;
    for (uint32_t i = 0; i < width; i++)
        out[i] = (float)(v[i] * by);
}

static double length_of(const double *v, uint32_t width)
{
    double sum = 0;
    for (uint32_t i = 0; i < width; i++)
        sum += v[i] * v[i];
    return sqrt(sum);
}

/* out += by * mean of rows */
static void add_mean(const float *rows, uint32_t n, size_t stride, uint32_t width, double by, double *out)
{
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t i = 0; i < width; i++)
            out[i] += by * rows[r * stride + i] / n;
}

bool direction_mean(const float *a, uint32_t n_a, const float *b, uint32_t n_b, size_t stride, uint32_t width, bool unit, float *out)
{
    double *v = calloc(width, sizeof *v);
    if (!v)
        return false;
    add_mean(a, n_a, stride, width, 1, v);
    add_mean(b, n_b, stride, width, -1, v);
    finish(v, width, length_of(v, width), unit, out);
    free(v);
    return true;
}

/* The eigenvector w of the greatest eigenvalue of g [n][n], symmetric and positive. tmp [n]. */
static void power(const double *g, uint32_t n, double *w, double *tmp)
{
    for (uint32_t i = 0; i < n; i++)
        w[i] = 1 + 1e-3 * i; /* near the mean, and not at right angles to anything likely */
    for (int step = 0; step < MAX_STEPS; step++) {
        double sum = 0, moved = 0;
        for (uint32_t i = 0; i < n; i++) {
            tmp[i] = 0;
            for (uint32_t k = 0; k < n; k++)
                tmp[i] += g[(size_t)i * n + k] * w[k];
            sum += tmp[i] * tmp[i];
        }
        if (!(sum > 0))
            return;
        sum = 1 / sqrt(sum);
        for (uint32_t i = 0; i < n; i++) {
            moved += fabs(tmp[i] * sum - w[i]);
            w[i] = tmp[i] * sum;
        }
        if (moved < 1e-14 * n)
            return;
    }
}

/* The first right singular vector of the differences d = a - b [n][width], found by their products [n][n]: not centred, so that what all
 * differences have in common counts. It points where their mean does, and is as long as the mean's shadow on it. */
bool direction_pca(const float *a, const float *b, uint32_t n, size_t stride, uint32_t width, bool unit, float *out)
{
    double *d = malloc((size_t)n * width * sizeof *d), *g = malloc((size_t)n * n * sizeof *g);
    double *w = calloc(2 * (size_t)n, sizeof *w), *v = calloc(2 * (size_t)width, sizeof *v), *mean = v + width, along = 0;
    bool ok = d && g && w && v;
    for (uint32_t r = 0; ok && r < n; r++)
        for (uint32_t i = 0; i < width; i++)
            d[(size_t)r * width + i] = (double)a[r * stride + i] - b[r * stride + i];
    for (uint32_t r = 0; ok && r < n; r++)
        for (uint32_t s = 0; s <= r; s++) {
            double sum = 0;
            for (uint32_t i = 0; i < width; i++)
                sum += d[(size_t)r * width + i] * d[(size_t)s * width + i];
            g[(size_t)r * n + s] = g[(size_t)s * n + r] = sum;
        }
    if (ok) {
        power(g, n, w, w + n);
        for (uint32_t r = 0; r < n; r++)
            for (uint32_t i = 0; i < width; i++) {
                v[i] += w[r] * d[(size_t)r * width + i];
                mean[i] += d[(size_t)r * width + i] / n;
            }
        double length = length_of(v, width);
        for (uint32_t i = 0; i < width; i++)
            along += length > 0 ? mean[i] * v[i] / length : 0;
        for (uint32_t i = 0; along < 0 && i < width; i++)
            v[i] = -v[i];
        finish(v, width, fabs(along), unit, out);
    }
    free(d);
    free(g);
    free(w);
    free(v);
    return ok;
}
