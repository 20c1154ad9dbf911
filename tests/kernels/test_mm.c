/* The quantised matrix product: every variant against scalar, to the bit; scalar against the definition. */
#include "kernels/dequant.h"
#include "mm_data.h"
#include "parity.h"

static const int32_t levels[] = {
#define LEVEL(level, name) level,
    CPU_LEVELS(LEVEL)};
#define N_LEVELS (sizeof levels / sizeof levels[0])

/* The same on x86-64 and, under emulation, AArch64. It changes only with INFER_NUMERICS_VERSION. */
#define MM_GOLDEN 0x65d634188e40bc4fu

static struct mm_kernels kernels(int32_t level)
{
    struct mm_kernels k;
    infer_error err = {.size = sizeof err};
    assert_int_equal(mm_kernels_init(&k, level, &err), INFER_OK);
    return k;
}

static void *aligned(size_t bytes)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, 64, bytes ? bytes : 64), 0);
    memset(p, 0xA5, bytes);
    return p;
}

/* ---- activations ---- */

static void quantise_rules(void **state)
{
    (void)state;
    struct mm_kernels k = kernels(INFER_CPU_SCALAR);
    struct mm_xblock b;
    float x[32] = {0};
    x[3] = -0.0f;
    k.quantise(x, 32, &b);
    struct mm_xblock zero = {0};
    assert_memory_equal(&b, &zero, sizeof b);
    for (int i = 0; i < 32; i++)
        x[i] = (float)(i - 16);
    x[0] = -127.0f; /* d = 1: halves round to even */
    x[1] = 0.5f;
    x[2] = 1.5f;
    x[3] = -2.5f;
    k.quantise(x, 32, &b);
    assert_true(b.d == 1.0f);
    assert_int_equal(b.q[0], -127);
    assert_int_equal(b.q[1], 0);
    assert_int_equal(b.q[2], 2);
    assert_int_equal(b.q[3], -2);
    assert_int_equal(b.q[31], 15);
    int s[2] = {0, 0};
    for (int i = 0; i < 32; i++)
        s[i / 16] += b.q[i];
    assert_int_equal(b.s[0], s[0]);
    assert_int_equal(b.s[1], s[1]);
    assert_true(b.dsum == (float)(s[0] + s[1]));
    assert_int_equal(b.nz[0], -8 * (s[0] + s[1]));
    assert_int_equal(b.nz[1], -16 * (s[0] + s[1]));
    assert_int_equal(b.nz[2], -128 * (s[0] + s[1]));
    assert_int_equal(b.nz32[0], -32 * s[0]);
    assert_int_equal(b.nz32[1], -32 * s[1]);

    memset(x, 0, sizeof x);
    x[5] = 0x1p-100f; /* the least block that counts */
    k.quantise(x, 32, &b);
    assert_int_equal(b.q[5], 127);
    x[5] = nextafterf(0x1p-100f, 0.0f);
    k.quantise(x, 32, &b);
    assert_memory_equal(&b, &zero, sizeof b);
    x[5] = 3.4028234e38f;
    k.quantise(x, 32, &b);
    assert_int_equal(b.q[5], 127);
    assert_true(isfinite(b.d));

    static const float bad[3] = {INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 3; i++) {
        x[31] = bad[i];
        k.quantise(x, 32, &b);
        assert_true(isnan(b.d));
        for (int j = 0; j < 32; j++)
            assert_int_equal(b.q[j], 0);
    }
}

static void quantise_parity(void **state)
{
    int32_t level = *(const int32_t *)*state;
    if (!cpu_level_supported(level))
        skip();
    struct mm_kernels k = kernels(level), ref = kernels(INFER_CPU_SCALAR);
    uint64_t seed = 1;
    for (int kind = 0; kind < INPUTS_KINDS + 1; kind++)
        for (uint32_t n = 32; n <= 32 * 40; n += 32) {
            size_t room = n % 64 ? n * sizeof(float) : 8192; /* ends at an unmapped page, or begins right after one */
            float *x = test_guard_alloc(room);
            mm_data_inputs(x, n, kind == INPUTS_KINDS ? INPUTS_USUAL : (enum mm_inputs)kind, &seed);
            if (kind == INPUTS_KINDS) /* any finite or non-finite bits */
                for (uint32_t i = 0; i < n; i++)
                    x[i] = f32_of_bits((uint32_t)(test_rand(&seed) >> 16) & (i % 64 < 32 ? 0xBFFFFFFF : 0xFFFFFFFF));
            struct mm_xblock *a = aligned(n * 2), *b = aligned(n * 2);
            k.quantise(x, n, a);
            ref.quantise(x, n, b);
            assert_memory_equal(a, b, n * 2);
            parity_case();
            free(a);
            free(b);
            test_guard_free(x, room);
        }
    parity_report("quantise", level);
}

/* ---- tiles ---- */

static void decode_case(const struct mm_data_type *t, const struct mm_kernels *k, const struct mm_kernels *ref, uint32_t n_block,
                        int fill, enum mm_scales scales, uint64_t *seed)
{
    const struct dtype *d = dtype_of(t->type);
    uint64_t row_blocks = n_block * 32 / d->block, n = 16 * row_blocks;
    size_t bytes = (size_t)n * d->bytes;
    if (fill % 2 == 0) /* begins right after an unmapped page rather than end at one */
        bytes = (bytes + 4095) / 4096 * 4096;
    uint8_t *w = test_guard_alloc(bytes);
    mm_data_weights(t, w, n, fill, scales, seed);
    struct mm_tile *a = aligned(sizeof *a), *b = aligned(sizeof *b);
    ref->decode[t->type](w, row_blocks * d->bytes, n_block, a);
    k->decode[t->type](w, row_blocks * d->bytes, n_block, b);
    assert_memory_equal(a, b, sizeof *a);
    parity_case();
    free(a);
    free(b);
    test_guard_free(w, bytes);
}

static void decode_parity(void **state)
{
    int32_t level = *(const int32_t *)*state;
    if (!cpu_level_supported(level))
        skip();
    struct mm_kernels k = kernels(level), ref = kernels(INFER_CPU_SCALAR);
    static const int fills[] = {-1, 0, 255, 0x80, 0x7f, 0x88};
    uint64_t seed = 2;
    for (size_t i = 0; i < MM_DATA_TYPES; i++) {
        uint32_t step = dtype_of(mm_data_types[i].type)->block / 32;
        for (uint32_t n = step; n <= MM_TILE_BLOCKS; n += n < 4 * step || n + step * 5 > MM_TILE_BLOCKS ? step : step * 5)
            for (int f = 0; f < 6; f++)
                for (int s = 0; s < SCALES_KINDS; s++)
                    decode_case(&mm_data_types[i], &k, &ref, n, fills[f], (enum mm_scales)s, &seed);
    }
    parity_report("decode", level);
}

/* ---- tiles times columns ---- */

static const struct {
    const char *name;
    int zero, max;
} classes[MM_N_CLASSES] = {
#define CLASS(id, name, form, zero, max, v) {#name, zero, max},
    MM_CLASSES(CLASS, )};

static void *guarded(size_t bytes, bool at_start, size_t *room)
{
    *room = at_start ? (bytes + 4095) / 4096 * 4096 : bytes;
    void *p = test_guard_alloc(*room);
    assert_non_null(p);
    return p;
}

/* Codes random or at an end of their range, scales of any size. */
static void fill_tiles(struct mm_tile *t, uint32_t n_tile, uint32_t n_block, int class, uint64_t *seed)
{
    uint64_t kind = test_rand(seed) >> 40;
    for (uint32_t i = 0; i < n_tile; i++)
        for (uint32_t b = 0; b < n_block; b++)
            for (uint32_t r = 0; r < MM_TILE_ROWS; r++) {
                for (int h = 0; h < 2; h++) {
                    t[i].d[b][h][r] = test_rand_f32(seed) * 0.01f;
                    t[i].n[b][r][h] = (int16_t)(test_rand(seed) >> 60);
                }
                t[i].m[b][r] = test_rand_f32(seed) * 0.01f;
                for (uint32_t j = 0; j < 32; j++) {
                    uint64_t u = test_rand(seed) >> 33;
                    t[i].codes[b][j / 4][r][j % 4] = (uint8_t)(kind % 4 == 0   ? (uint64_t)classes[class].max
                                                               : kind % 4 == 1 ? (u & 1) * (uint64_t)classes[class].max
                                                                               : u % ((uint64_t)classes[class].max + 1));
                }
            }
}

struct dot_shape {
    uint32_t n_tile, n_block, n_col, x_stride;
    bool first, at_start;
};

static void dot_case(const struct mm_kernels *k, const struct mm_kernels *ref, int class, struct dot_shape s, uint64_t *seed)
{
    size_t tile_room, x_room, acc_room, n_x = (size_t)s.x_stride * (s.n_col - 1) + s.n_block, stride = (s.n_col + 1) * MM_TILE_ROWS;
    size_t acc_bytes = (stride * (s.n_tile - 1) + s.n_col * MM_TILE_ROWS) * sizeof(float);
    struct mm_tile *t = guarded(s.n_tile * sizeof *t, s.at_start, &tile_room);
    struct mm_xblock *x = guarded(n_x * sizeof *x, s.at_start, &x_room);
    float *acc = guarded(acc_bytes, s.at_start, &acc_room), *want = aligned(acc_bytes), in[32];
    fill_tiles(t, s.n_tile, s.n_block, class, seed);
    for (size_t i = 0; i < n_x; i++) {
        mm_data_inputs(in, 32, i % 3 ? INPUTS_USUAL : INPUTS_EXTREME, seed);
        ref->quantise(in, 32, x + i);
    }
    for (size_t i = 0; i < acc_bytes / sizeof(float); i++)
        acc[i] = want[i] = test_rand_f32(seed);
    struct mm_dot d = {.tile = t, .n_tile = s.n_tile, .n_block = s.n_block, .x = x, .x_stride = s.x_stride, .n_col = s.n_col,
                       .first = s.first, .acc = want, .acc_stride = stride};
    ref->dot[class](&d);
    d.acc = acc;
    k->dot[class](&d);
    if (memcmp(acc, want, acc_bytes) != 0)
        fail_msg("%s: %u tiles, %u blocks, %u columns differ from scalar", classes[class].name, s.n_tile, s.n_block, s.n_col);
    parity_case();
    free(want);
    test_guard_free(t, tile_room);
    test_guard_free(x, x_room);
    test_guard_free(acc, acc_room);
}

static void dot_parity(void **state)
{
    int32_t level = *(const int32_t *)*state;
    if (!cpu_level_supported(level))
        skip();
    struct mm_kernels k = kernels(level), ref = kernels(INFER_CPU_SCALAR);
    static const uint32_t blocks[] = {1, 2, 3, 8, MM_TILE_BLOCKS};
    uint64_t seed = 8;
    for (int class = 0; class < MM_N_CLASSES; class ++)
        for (uint32_t c = 1; c <= 35; c += c < 20 ? 1 : 5)
            for (uint32_t i = 0; i < 2; i++) {
                uint32_t n_block = blocks[(c + 3 * i) % 5];
                struct dot_shape s = {1 + (c + i) % 4, n_block, c, n_block + (c + i) % 3, i == 0, (c / 2 + i) % 2 == 0};
                dot_case(&k, &ref, class, s, &seed);
            }
    parity_report("tiles times columns", level);
}

/* ---- products ---- */

struct product {
    const struct mm_data_type *t;
    uint32_t n_in, n_out, n_col;
    int fill;
    enum mm_scales scales;
    enum mm_inputs inputs;
    bool at_start; /* weights begin right after an unmapped page rather than end at one */
};

/* All rows of all columns by k, quantising included; y [n_col][n_out + 3], the gaps untouched and none after the last. Columns and scratch touch
 * unmapped pages as the weights do. */
static void run_rows(const struct mm_kernels *k, const struct product *p, const uint8_t *w, const float *x, uint32_t row0,
                     uint32_t row1, float *y)
{
    size_t q_room, scratch_room;
    uint8_t *q = guarded(mm_columns_bytes(p->n_in, p->n_col), p->at_start, &q_room);
    void *scratch = guarded(MM_SCRATCH_BYTES, true, &scratch_room);
    for (uint32_t c = 0; c < p->n_col; c++)
        mm_quantise(k, x + (size_t)c * p->n_in, p->n_in, q, c, p->n_col);
    uint64_t row_bytes = 0;
    assert_true(dtype_size(p->t->type, p->n_in, &row_bytes));
    struct mm_args a = {
        .type = p->t->type, .w = w, .row_bytes = row_bytes, .n_in = p->n_in, .row0 = row0, .row1 = row1,
        .x = q, .x_cols = p->n_col, .n_col = p->n_col, .y = y, .y_stride = p->n_out + 3, .scratch = scratch,
    };
    mm_rows(k, &a);
    test_guard_free(q, q_room);
    test_guard_free(scratch, scratch_room);
}

struct buffers {
    uint8_t *w;
    size_t w_room;
    float *x, *y[2];
    size_t y_bytes, y_room;
};

static struct buffers make_buffers(const struct product *p, uint64_t *seed)
{
    struct buffers b = {0};
    uint64_t row_bytes = 0;
    assert_true(dtype_size(p->t->type, p->n_in, &row_bytes));
    b.w = guarded((size_t)row_bytes * p->n_out, p->at_start, &b.w_room);
    mm_data_weights(p->t, b.w, (uint64_t)p->n_in / dtype_of(p->t->type)->block * p->n_out, p->fill, p->scales, seed);
    b.x = malloc(sizeof *b.x * p->n_in * p->n_col);
    mm_data_inputs(b.x, (size_t)p->n_in * p->n_col, p->inputs, seed);
    b.y_bytes = sizeof(float) * ((size_t)(p->n_out + 3) * p->n_col - 3);
    for (int i = 0; i < 2; i++) {
        b.y[i] = guarded(b.y_bytes, p->at_start, &b.y_room);
        memset(b.y[i], 0xA5, b.y_bytes);
    }
    return b;
}

static void free_buffers(struct buffers *b)
{
    test_guard_free(b->w, b->w_room);
    free(b->x);
    for (int i = 0; i < 2; i++)
        test_guard_free(b->y[i], b->y_room);
}

static void product_case(const struct mm_kernels *k, const struct mm_kernels *ref, const struct product *p, uint64_t *seed)
{
    struct buffers b = make_buffers(p, seed);
    run_rows(ref, p, b.w, b.x, 0, p->n_out, b.y[0]);
    run_rows(k, p, b.w, b.x, 0, p->n_out, b.y[1]);
    if (memcmp(b.y[0], b.y[1], b.y_bytes) != 0) {
        for (size_t i = 0; i < b.y_bytes / 4; i++)
            if (f32_bits(b.y[0][i]) != f32_bits(b.y[1][i]))
                fail_msg("%s n_in %u n_out %u n_col %u fill %d scales %d inputs %d: [%zu] scalar %a, variant %a", p->t->name,
                         p->n_in, p->n_out, p->n_col, p->fill, (int)p->scales, (int)p->inputs, i, (double)b.y[0][i],
                         (double)b.y[1][i]);
    }
    parity_case();
    free_buffers(&b);
}

static void shapes_parity(void **state)
{
    int32_t level = *(const int32_t *)*state;
    if (!cpu_level_supported(level))
        skip();
    struct mm_kernels k = kernels(level), ref = kernels(INFER_CPU_SCALAR);
    static const uint32_t outs[] = {16, 1, 17, 31, 53}, cols[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 17};
    uint64_t seed = 3;
    for (size_t i = 0; i < MM_DATA_TYPES; i++) {
        uint32_t block = dtype_of(mm_data_types[i].type)->block;
        for (size_t c = 0; c < sizeof cols / sizeof *cols; c++) {
            uint32_t ins[] = {block, 512 + block, 1280};
            for (size_t j = 0; j < 3; j++) {
                struct product p = {&mm_data_types[i], ins[j], outs[(c + j) % 5], cols[c], -1, SCALES_USUAL, INPUTS_USUAL, c & 1};
                product_case(&k, &ref, &p, &seed);
            }
        }
        struct product wide = {&mm_data_types[i], 768, 17, 259, -1, SCALES_USUAL, INPUTS_USUAL, i & 1}; /* more than a panel of columns */
        product_case(&k, &ref, &wide, &seed);
    }
    parity_report("products by shape", level);
}

/* One column has kernels of its own: every number of rows left over, on either side of an unmapped page. */
static void one_column_parity(void **state)
{
    int32_t level = *(const int32_t *)*state;
    if (!cpu_level_supported(level))
        skip();
    struct mm_kernels k = kernels(level), ref = kernels(INFER_CPU_SCALAR);
    uint64_t seed = 10;
    for (size_t i = 0; i < MM_DATA_TYPES; i++)
        for (uint32_t n_out = 1; n_out <= 37; n_out++)
            for (int at_start = 0; at_start < 2; at_start++) {
                uint32_t block = dtype_of(mm_data_types[i].type)->block, n_in = (uint32_t[]){block, 512 + block, 1280}[n_out % 3];
                struct product p = {&mm_data_types[i], n_in, n_out, 1, -1, SCALES_USUAL, INPUTS_USUAL, at_start};
                product_case(&k, &ref, &p, &seed);
            }
    parity_report("one column", level);
}

static void extremes_parity(void **state)
{
    int32_t level = *(const int32_t *)*state;
    if (!cpu_level_supported(level))
        skip();
    struct mm_kernels k = kernels(level), ref = kernels(INFER_CPU_SCALAR);
    static const int fills[] = {-1, 0, 255, 0x80, 0x7f};
    uint64_t seed = 4;
    for (size_t i = 0; i < MM_DATA_TYPES; i++)
        for (int f = 0; f < 5; f++)
            for (int s = 0; s < SCALES_KINDS; s++)
                for (int x = 0; x < INPUTS_KINDS; x++) {
                    if (s == SCALES_HUGE && x == INPUTS_HUGE)
                        continue; /* overflows */
                    struct product p = {&mm_data_types[i], 256, 16, (f + s + x) % 2 ? 1 : 9, fills[f], (enum mm_scales)s,
                                        (enum mm_inputs)x, false};
                    product_case(&k, &ref, &p, &seed);
                }
    parity_report("products at extremes", level);
}

/* Rows in pieces, columns one by one: the same bits as the whole. */
static void splits(void **state)
{
    (void)state;
    struct mm_kernels k = kernels(cpu_best_level());
    uint64_t seed = 5;
    for (size_t i = 0; i < MM_DATA_TYPES; i++) {
        struct product p = {&mm_data_types[i], 1536, 50, 9, -1, SCALES_USUAL, INPUTS_USUAL, false};
        struct buffers b = make_buffers(&p, &seed);
        run_rows(&k, &p, b.w, b.x, 0, p.n_out, b.y[0]);
        for (uint32_t r = 0; r < p.n_out; r += 16)
            run_rows(&k, &p, b.w, b.x, r, r + 16 < p.n_out ? r + 16 : p.n_out, b.y[1]);
        assert_memory_equal(b.y[0], b.y[1], b.y_bytes);
        memset(b.y[1], 0xA5, b.y_bytes);
        struct product alone = p;
        alone.n_col = 1;
        for (uint32_t c = 0; c < p.n_col; c++)
            run_rows(&k, &alone, b.w, b.x + c * p.n_in, 0, p.n_out, b.y[1] + c * (p.n_out + 3));
        assert_memory_equal(b.y[0], b.y[1], b.y_bytes);
        free_buffers(&b);
    }
}

/* A non-finite activation makes its own column NaN and no other. */
static void non_finite(void **state)
{
    int32_t level = *(const int32_t *)*state;
    if (!cpu_level_supported(level))
        skip();
    struct mm_kernels k = kernels(level);
    uint64_t seed = 6;
    for (size_t i = 0; i < MM_DATA_TYPES; i++) {
        struct product p = {&mm_data_types[i], 512, 20, 5, -1, SCALES_USUAL, INPUTS_USUAL, false};
        struct buffers b = make_buffers(&p, &seed);
        b.x[p.n_in * 2 + 77] = i % 2 ? NAN : INFINITY;
        run_rows(&k, &p, b.w, b.x, 0, p.n_out, b.y[0]);
        for (uint32_t c = 0; c < p.n_col; c++)
            for (uint32_t r = 0; r < p.n_out; r++)
                assert_int_equal(isnan(b.y[0][c * (p.n_out + 3) + r]) != 0, c == 2);
        free_buffers(&b);
    }
}

/* ---- the definition: against decoders and sums in double ---- */

/* y and the sum of absolute terms of one output, from decoded weights and quantised activations. */
static double reference(const float *w, const struct mm_xblock *x, uint32_t n, double *magnitude)
{
    double y = 0;
    *magnitude = 0;
    for (uint32_t i = 0; i < n; i++) {
        double term = (double)w[i] * (double)x[i / 32].d * x[i / 32].q[i % 32];
        y += term;
        *magnitude += fabs(term);
    }
    return y;
}

/* Scalar equals decoded weights times rounded activations up to f32 rounding, and weights times the activations themselves up to their
 * 8 bits. */
static void definition(void **state)
{
    (void)state;
    struct mm_kernels k = kernels(INFER_CPU_SCALAR);
    uint64_t seed = 7;
    for (size_t i = 0; i < MM_DATA_TYPES; i++) {
        struct product p = {&mm_data_types[i], 1024, 19, 2, -1, SCALES_USUAL, INPUTS_USUAL, false};
        struct buffers b = make_buffers(&p, &seed);
        run_rows(&k, &p, b.w, b.x, 0, p.n_out, b.y[0]);
        float *w = malloc(sizeof *w * p.n_in);
        struct mm_xblock *x = aligned(mm_columns_bytes(p.n_in, 1));
        double err2 = 0, ref2 = 0;
        for (uint32_t c = 0; c < p.n_col; c++) {
            mm_quantise(&k, b.x + c * p.n_in, p.n_in, x, 0, 1);
            for (uint32_t r = 0; r < p.n_out; r++) {
                uint64_t row_bytes = 0;
                assert_true(dtype_size(p.t->type, p.n_in, &row_bytes));
                dequant_row(p.t->type, b.w + r * row_bytes, w, p.n_in);
                double magnitude, y = reference(w, x, p.n_in, &magnitude), exact = 0;
                double got = (double)b.y[0][c * (p.n_out + 3) + r];
                if (!(fabs(got - y) <= 2e-6 * magnitude + 1e-30))
                    fail_msg("%s row %u: %g, not %g (terms %g)", p.t->name, r, got, y, magnitude);
                for (uint32_t j = 0; j < p.n_in; j++)
                    exact += (double)w[j] * (double)b.x[c * p.n_in + j];
                err2 += (got - exact) * (got - exact);
                ref2 += exact * exact;
            }
        }
        double error = sqrt(err2 / ref2);
        print_message("# %-8s relative error by 8-bit activations %.5f\n", p.t->name, error);
        assert_true(error < 0.02);
        free(w);
        free(x);
        free_buffers(&b);
    }
}

/* One number for all formats: the bits of numerics version 1, on every machine. */
static void golden(void **state)
{
    int32_t level = *(const int32_t *)*state;
    if (!cpu_level_supported(level))
        skip();
    struct mm_kernels k = kernels(level);
    enum { N_IN = 1024, N_OUT = 40, N_COL = 3 };
    uint64_t seed = 12345, hash = 1469598103934665603u; /* FNV-1a over words */
    float *x = aligned(sizeof *x * N_IN * N_COL), *y = aligned(sizeof *y * N_OUT * N_COL);
    uint8_t *q = aligned(mm_columns_bytes(N_IN, N_COL)), *w = aligned(2 * N_IN * N_OUT);
    void *scratch = aligned(MM_SCRATCH_BYTES);
    for (int32_t t = 0; t < DTYPE_COUNT; t++) {
        uint64_t row_bytes = 0;
        if (!mm_supports(t))
            continue;
        assert_true(dtype_size(t, N_IN, &row_bytes) && row_bytes <= 2 * N_IN);
        for (size_t i = 0; i < row_bytes * N_OUT; i++)
            w[i] = (uint8_t)(test_rand(&seed) >> 30);
        for (size_t i = 0; i < N_IN * N_COL; i++)
            x[i] = (float)(int32_t)(test_rand(&seed) >> 40) * 1e-6f;
        for (uint32_t c = 0; c < N_COL; c++)
            mm_quantise(&k, x + c * N_IN, N_IN, q, c, N_COL);
        struct mm_args a = {.type = t, .w = w, .row_bytes = row_bytes, .n_in = N_IN, .row1 = N_OUT, .x = q, .x_cols = N_COL, .n_col = N_COL,
                            .y = y, .y_stride = N_OUT, .scratch = scratch};
        mm_rows(&k, &a);
        for (size_t i = 0; i < N_OUT * N_COL; i++) /* random scales are sometimes not finite */
            hash = (hash ^ (isfinite(y[i]) ? f32_bits(y[i]) : 1)) * 1099511628211u;
    }
    print_message("# %016llx on %s\n", (unsigned long long)hash, cpu_level_name(level));
    assert_true(hash == MM_GOLDEN);
    free(x);
    free(y);
    free(q);
    free(w);
    free(scratch);
}

static void table(void **state)
{
    (void)state;
    int n = 0;
    for (int32_t t = -1; t < DTYPE_COUNT + 1; t++)
        n += mm_supports(t);
    assert_int_equal(n, MM_DATA_TYPES);
    assert_false(mm_supports(INFER_TYPE_F32));
    assert_false(mm_supports(INFER_TYPE_I8));
    for (size_t i = 0; i < MM_DATA_TYPES; i++)
        assert_true(mm_supports(mm_data_types[i].type));
    for (size_t i = 0; i < N_LEVELS; i++)
        if (cpu_level_supported(levels[i]))
            (void)kernels(levels[i]);
}

int main(void)
{
#define PER_LEVEL(level, name)                                                                                         \
    {"quantise " name, quantise_parity, NULL, NULL, (void *)&(const int32_t){level}},                                  \
        {"decode " name, decode_parity, NULL, NULL, (void *)&(const int32_t){level}},                                  \
        {"dot " name, dot_parity, NULL, NULL, (void *)&(const int32_t){level}},                                        \
        {"shapes " name, shapes_parity, NULL, NULL, (void *)&(const int32_t){level}},                                  \
        {"one column " name, one_column_parity, NULL, NULL, (void *)&(const int32_t){level}},                          \
        {"extremes " name, extremes_parity, NULL, NULL, (void *)&(const int32_t){level}},                              \
        {"non-finite " name, non_finite, NULL, NULL, (void *)&(const int32_t){level}},                                 \
        {"golden " name, golden, NULL, NULL, (void *)&(const int32_t){level}},
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(quantise_rules),
        cmocka_unit_test(definition),
        cmocka_unit_test(splits),
        CPU_LEVELS(PER_LEVEL)
    };
    return cmocka_run_group_tests(tests, NULL, parity_table);
}
