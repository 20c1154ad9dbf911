/* Every decoder against independent ones: tests/data/dequant.golden, made by scripts/make_dequant_golden.py, equal to the bit. */
#include "testutil.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "kernels/dequant.h"

/* The generator of the script. */
static void fill(uint8_t *out, int32_t type, size_t block_bytes, size_t n_blocks)
{
    static const uint8_t patterns[] = {0x00, 0xFF, 0x80, 0x7F, 0x01, 0x55, 0xAA};
    uint64_t state = (uint64_t)type * 1000003 + 1;
    size_t n = block_bytes * n_blocks, at = 0;
    for (; at < sizeof patterns * block_bytes; at++)
        out[at] = patterns[at / block_bytes];
    while (at < n) {
        uint64_t draw = test_rand(&state);
        size_t k = n - at < 8 ? n - at : 8;
        memcpy(out + at, &draw, k);
        at += k;
    }
}

static uint32_t canonical(float f)
{
    return isnan(f) ? 0x7FC00000 : f32_bits(f);
}

static void check_line(char *line, uint8_t seen[DTYPE_COUNT])
{
    char *at;
    int32_t type = (int32_t)strtol(line, &at, 10);
    at = strchr(at + 1, ' ');
    size_t n_blocks = strtoul(at, &at, 10);
    uint64_t want = strtoull(at, &at, 16), h = 0xCBF29CE484222325u;
    const struct dtype *d = dtype_of(type);
    assert_non_null(d);
    seen[type] = 1;
    size_t n = n_blocks * d->block;
    uint8_t *src = test_guard_alloc(n_blocks * d->bytes); /* a read past the end faults */
    float *dst = test_guard_alloc(n * sizeof *dst);
    fill(src, type, d->bytes, n_blocks);
    dequant_row(type, src, dst, n);
    for (size_t i = n - d->block; i < n; i++) {
        uint32_t bits = (uint32_t)strtoul(at, &at, 16);
        if (canonical(dst[i]) != bits)
            print_error("%s: element %zu is %08x, not %08x\n", d->name, i, (unsigned)canonical(dst[i]), (unsigned)bits);
        assert_int_equal(canonical(dst[i]), bits);
    }
    for (size_t i = 0; i < n; i++)
        h = (h ^ canonical(dst[i])) * 0x100000001B3u;
    if (h != want)
        print_error("%s: hash differs\n", d->name);
    assert_int_equal(h, want);
    test_guard_free(src, n_blocks * d->bytes);
    test_guard_free(dst, n * sizeof *dst);
}

static void test_golden(void **state)
{
    (void)state;
    size_t len;
    char *text = test_read_file(INFER_SOURCE_DIR "/tests/data/dequant.golden", &len);
    uint8_t seen[DTYPE_COUNT] = {0};
    assert_non_null(text);
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        *end = 0;
        check_line(line, seen);
        line = end + 1;
    }
    for (int32_t t = 0; t < DTYPE_COUNT; t++) /* no type without a golden */
        assert_int_equal(seen[t], dtype_of(t) != NULL);
    free(text);
}

/* Blocks are independent, and a row may begin at any block and any address. */
static void test_parts(void **state)
{
    (void)state;
    for (int32_t t = 0; t < DTYPE_COUNT; t++) {
        const struct dtype *d = dtype_of(t);
        assert_int_equal(dequant_of(t) != NULL, d != NULL);
        if (!d)
            continue;
        enum { BLOCKS = 20 };
        uint8_t *src = malloc((size_t)BLOCKS * d->bytes + 1);
        float *all = malloc(sizeof *all * BLOCKS * d->block), *one = malloc(sizeof *one * d->block);
        fill(src + 1, t, d->bytes, BLOCKS);
        dequant_row(t, src + 1, all, (uint64_t)BLOCKS * d->block);
        for (int b = 0; b < BLOCKS; b++) {
            dequant_row(t, src + 1 + b * d->bytes, one, d->block);
            for (int i = 0; i < d->block; i++)
                assert_int_equal(canonical(one[i]), canonical(all[b * d->block + i]));
        }
        free(src);
        free(all);
        free(one);
    }
    float untouched = 5;
    dequant_row(-1, &untouched, &untouched, 1);
    dequant_row(4, &untouched, &untouched, 1);
    assert_true(untouched == 5.0f);
    assert_null(dequant_of(INT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
