/* Quantisers: Q8_0 and Q4_0 against the gguf package, all by what decoding gives back. */
#include "testutil.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "kernels/dequant.h"
#include "kernels/quantise.h"

static size_t unhex(const char **at, uint8_t *out)
{
    size_t n = 0;
    for (; **at && **at != ' ' && **at != '\n'; *at += 2, n++) {
        char digits[3] = {(*at)[0], (*at)[1], 0};
        out[n] = (uint8_t)strtoul(digits, NULL, 16);
    }
    *at += **at != 0;
    return n;
}

static void test_golden(void **state)
{
    (void)state;
    size_t len;
    char *text = test_read_file(INFER_SOURCE_DIR "/tests/data/quantise.golden", &len);
    assert_non_null(text);
    int lines = 0;
    for (const char *at = text; *at; lines++) {
        uint8_t x[128], want[64], got[64];
        int32_t type = (int32_t)strtol(at, (char **)(uintptr_t)&at, 10);
        at++;
        assert_int_equal(unhex(&at, x), 128);
        size_t n = unhex(&at, want);
        float values[32];
        memcpy(values, x, 128);
        assert_int_equal(n, dtype_of(type)->bytes);
        assert_true(quantise_of(type)(values, got, 32));
        if (memcmp(got, want, n))
            fail_msg("line %d differs", lines + 1);
    }
    assert_int_equal(lines, 24);
    free(text);
}

/* Root of the mean squared error of n normal values, as a share of theirs. */
static double rms_error(int32_t type, float scale, float offset)
{
    enum { N = 256 * 200 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    uint8_t *q = malloc(N * 2);
    uint64_t seed = 77;
    double err = 0, all = 0;
    for (int i = 0; i < N; i++)
        x[i] = test_rand_f32(&seed) * scale + offset;
    assert_true(quantise_of(type)(x, q, N));
    dequant_row(type, q, y, N);
    for (int i = 0; i < N; i++) {
        err += pow((double)x[i] - (double)y[i], 2);
        all += pow((double)x[i], 2);
    }
    free(x);
    free(y);
    free(q);
    return sqrt(err / all);
}

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        int32_t type;
        double most;
    } types[] = {{INFER_TYPE_Q8_0, 0.006}, {INFER_TYPE_Q6_K, 0.018}, {INFER_TYPE_Q4_K, 0.076}, {INFER_TYPE_Q4_0, 0.095}};
    for (size_t i = 0; i < 4; i++)
        for (int s = 0; s < 3; s++) {
            double e = rms_error(types[i].type, (float[]){1, 0.02f, 100}[s], 0);
            print_message("# %s: error %.5f\n", dtype_of(types[i].type)->name, e);
            assert_true(e < types[i].most);
        }
    assert_true(rms_error(INFER_TYPE_Q4_K, 0.1f, -1) < 0.012); /* it has minima */
}

static void test_edges(void **state)
{
    (void)state;
    for (int32_t type = -1; type < DTYPE_END; type++) {
        float x[256] = {0}, y[256];
        uint8_t q[512];
        quantise_fn fn = quantise_of(type);
        if (!fn)
            continue;
        assert_true(fn(x, q, 256)); /* zeros */
        dequant_row(type, q, y, 256);
        for (int i = 0; i < 256; i++)
            assert_true(y[i] == 0.0f);
        for (int k = 0; k < 4; k++) { /* what cannot be stored */
            x[100] = (float[]){NAN, INFINITY, -INFINITY, 3e38f}[k];
            assert_false(fn(x, q, 256));
        }
        for (int i = 0; i < 256; i++) /* the smallest */
            x[i] = i % 2 ? 1e-40f : -1e-44f;
        assert_true(fn(x, q, 256));
        dequant_row(type, q, y, 256);
        for (int i = 0; i < 256; i++)
            assert_true(fabsf(y[i]) < 1e-6f);
        for (int i = 0; i < 256; i++) /* constants are kept well */
            x[i] = 0.75f;
        assert_true(fn(x, q, 256));
        dequant_row(type, q, y, 256);
        for (int i = 0; i < 256; i++)
            assert_true(fabsf(y[i] - 0.75f) < 0.01f);
    }
    assert_null(quantise_of(INFER_TYPE_F32));
    assert_null(quantise_of(INFER_TYPE_Q2_K));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_errors), cmocka_unit_test(test_edges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
