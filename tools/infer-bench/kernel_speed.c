/* The operations of the CPU device, alone. The one file of the tools that sees the library's inside: kernels have no public
 * interface, and need none but this. It goes through the device seam, so what is measured is what a model gets: threads, tiles,
 * quantising of activations and all.
 *
 * Weights are bytes 0x28 .. 0x2f, so that a scale is an ordinary number whatever the format keeps there. Products of one column take
 * another part of a large buffer each time, so that weights come from memory; all else works in place, from caches. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "kernel_speed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "kernels/cpu.h"
#include "kernels/device.h"
#include "kernels/mm.h"

#include "host.h"
#include "limits.h"
#include "options.h"
#include "report.h"

#define N_IN 2048u       /* inputs of a product, width of a row */
#define ONE_BYTES ((size_t)32 << 20) /* of weights for one column */
#define MANY_ROWS 2048u  /* of weights for many columns */
#define SLOW_ROWS 256u   /* the same for the scalar variant */
#define ROWS 64u         /* of activations, for all but products */
#define MAX_COLUMNS 512u
#define HEADS 32u
#define KV_HEADS 8u
#define HEAD_DIM 128u
#define DECODE_DEPTH 4096u
#define PREFILL_DEPTH 2048u
#define MIN_SECONDS 0.010

/* A device at one CPU level, and its buffers. */
struct place {
    struct device *dev;
    int32_t level;
    struct mm_kernels mm;
    struct dev_ref weights, x, y, z, table, kv; /* x, y, z: f32 [MAX_COLUMNS][N_IN * 2] */
    size_t weight_bytes;
    uint32_t turn;
};

struct work {
    const char *family;  /* "matmul" */
    const char *what;    /* "Q4_0", "silu" */
    uint32_t columns;    /* of products; rows else */
    uint32_t threads;    /* 0: all */
    enum limit limit;
    int32_t type;        /* a storage type, a KV type, or the operation's own number */
    void (*run)(struct place *p, const struct work *w);
    double (*amount)(const struct place *p, const struct work *w); /* of one run: bytes or multiply-adds, as the limit counts */
};

/* ---- Products ---- */

static uint32_t product_rows(const struct place *p, const struct work *w)
{
    uint64_t bytes = 0;
    if (w->columns > 1)
        return p->level == INFER_CPU_SCALAR ? SLOW_ROWS : MANY_ROWS;
    (void)dtype_size(w->type, N_IN, &bytes);
    return (uint32_t)(ONE_BYTES / bytes / 64 * 64);
}

static void run_matmul(struct place *p, const struct work *w)
{
    uint64_t row_bytes = 0;
    (void)dtype_size(w->type, N_IN, &row_bytes);
    uint32_t rows = product_rows(p, w);
    size_t parts = p->weight_bytes / ONE_BYTES;
    struct dev_matmul op = {.w = {.data = p->weights, .type = w->type, .n_in = N_IN, .n_out = rows, .row_bytes = row_bytes}};
    if (w->columns == 1)
        op.w.data = dev_at(p->weights, p->turn++ % parts * ONE_BYTES);
    op.dst = p->y;
    op.dst_stride = rows;
    p->dev->ops->matmul(p->dev, p->x, N_IN, w->columns, &op, 1);
}

static double matmul_amount(const struct place *p, const struct work *w)
{
    uint64_t row_bytes = 0;
    uint32_t rows = product_rows(p, w);
    (void)dtype_size(w->type, N_IN, &row_bytes);
    return w->columns == 1 ? (double)rows * (double)row_bytes : (double)rows * N_IN * w->columns;
}

static void run_embed(struct place *p, const struct work *w)
{
    uint64_t row_bytes = 0;
    uint32_t ids[ROWS];
    (void)dtype_size(w->type, N_IN, &row_bytes);
    struct dev_weight m = {.data = p->weights, .type = w->type, .n_in = N_IN, .n_out = ROWS, .row_bytes = row_bytes};
    for (uint32_t i = 0; i < ROWS; i++)
        ids[i] = i;
    p->dev->ops->embed(p->dev, p->y, &m, ids, ROWS, 1, 0);
}

/* ---- Attention ---- */

/* Bytes of a key or a value in one head. */
static uint64_t kv_vector_bytes(int32_t type)
{
    return dev_kv_head_bytes(type, HEAD_DIM) / DEV_KV_PAGE;
}

static struct dev_kv kv_layout(int32_t type)
{
    return (struct dev_kv){.type = type, .n_head_kv = KV_HEADS, .head_dim = HEAD_DIM, .k_off = 0,
                           .v_off = KV_HEADS * DEV_KV_PAGE * kv_vector_bytes(type)};
}

/* Pages of consecutive memory. */
static void kv_pages(const struct place *p, const struct dev_kv *kv, struct dev_ref *pages, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        pages[i] = dev_at(p->kv, i * kv->v_off * 2);
}

static void run_kv_write(struct place *p, const struct work *w)
{
    struct dev_kv kv = kv_layout(w->type);
    struct dev_ref pages[1];
    struct dev_seq seq = {.n_row = ROWS, .pages = pages};
    kv_pages(p, &kv, pages, 1);
    p->dev->ops->kv_write(p->dev, &kv, p->x, N_IN, p->y, N_IN, &seq, 1);
}

static void run_attention(struct place *p, const struct work *w)
{
    uint64_t lo[ROWS] = {0}, hi[ROWS];
    struct dev_ref pages[DECODE_DEPTH / DEV_KV_PAGE];
    uint32_t depth = w->columns == 1 ? DECODE_DEPTH : PREFILL_DEPTH;
    struct dev_seq seq = {.n_row = w->columns, .index = depth - w->columns, .pages = pages};
    struct dev_attention op = {.dst = p->y, .q = p->x, .q_stride = HEADS * HEAD_DIM, .dst_stride = HEADS * HEAD_DIM, .n_head = HEADS,
                               .scale = 0.088f, .kv = kv_layout(w->type), .seqs = &seq, .n_seq = 1, .lo = lo, .hi = hi};
    for (uint32_t i = 0; i < w->columns; i++)
        hi[i] = seq.index + i + 1;
    kv_pages(p, &op.kv, pages, depth / DEV_KV_PAGE);
    p->dev->ops->attention(p->dev, &op);
}

static double attention_amount(const struct place *p, const struct work *w)
{
    (void)p;
    if (w->columns == 1)
        return 2.0 * DECODE_DEPTH * KV_HEADS * (double)kv_vector_bytes(w->type);
    double seen = w->columns * (PREFILL_DEPTH - (w->columns - 1) / 2.0);
    return 2.0 * seen * HEADS * HEAD_DIM;
}

/* ---- Rows ---- */

/* The first part of a quantised product, which the device seam does not show. On this thread. */
static void run_quantise(struct place *p, const struct work *w)
{
    static _Alignas(64) uint8_t column[4 * N_IN];
    static float x[N_IN];
    for (uint32_t i = 0; i < w->columns; i++) {
        x[i] = (float)i - 32;
        mm_quantise(&p->mm, x, N_IN, column, 0, 1);
    }
}

static void run_norm(struct place *p, const struct work *w)
{
    struct dev_norm op = {.kind = (enum dev_norm_kind)w->type, .dst = p->y, .src = p->x, .weight = p->z, .n_outer = ROWS, .n_inner = 1,
                          .width = N_IN, .dst_stride = N_IN, .src_stride = N_IN, .eps = 1e-5f};
    p->dev->ops->norm(p->dev, &op);
}

static void run_rope(struct place *p, const struct work *w)
{
    struct dev_rope op = {.kind = (enum dev_rope_kind)w->type, .x = p->y, .table = p->table, .n_row = ROWS, .n_head = N_IN / HEAD_DIM,
                          .head_dim = HEAD_DIM, .n_rot = HEAD_DIM, .stride = N_IN};
    p->dev->ops->rope(p->dev, &op);
}

static void run_rope_table(struct place *p, const struct work *w)
{
    uint32_t positions[ROWS];
    (void)w;
    for (uint32_t i = 0; i < ROWS; i++)
        positions[i] = 1000 + i;
    p->dev->ops->rope_table(p->dev, p->table, p->z, HEAD_DIM / 2, positions, ROWS, 1);
}

static void run_act(struct place *p, const struct work *w)
{
    p->dev->ops->act(p->dev, (enum dev_act)w->type, p->y, p->x, p->z, ROWS, N_IN, N_IN);
}

static void run_add(struct place *p, const struct work *w)
{
    (void)w;
    p->dev->ops->add(p->dev, p->y, p->x, (uint64_t)ROWS * N_IN);
}

static void run_scale(struct place *p, const struct work *w)
{
    (void)w;
    p->dev->ops->scale(p->dev, p->y, (uint64_t)ROWS * N_IN, 1);
}

static void run_softcap(struct place *p, const struct work *w)
{
    (void)w;
    p->dev->ops->softcap(p->dev, p->y, (uint64_t)ROWS * N_IN, 30);
}

/* Bytes that go in and out, in floats for an output float. */
static double row_bytes(double floats)
{
    return floats * ROWS * N_IN * sizeof(float);
}

static double bytes_2(const struct place *p, const struct work *w)
{
    (void)p;
    (void)w;
    return row_bytes(2);
}

static double bytes_3(const struct place *p, const struct work *w)
{
    (void)p;
    (void)w;
    return row_bytes(3);
}

static double bytes_quantise(const struct place *p, const struct work *w)
{
    (void)p;
    return (double)w->columns * (N_IN * sizeof(float) + (double)mm_columns_bytes(N_IN, 1));
}

static double bytes_table(const struct place *p, const struct work *w)
{
    (void)p;
    (void)w;
    return (double)ROWS * HEAD_DIM * sizeof(float);
}

static double bytes_kv(const struct place *p, const struct work *w)
{
    (void)p;
    return 2.0 * ROWS * KV_HEADS * (HEAD_DIM * sizeof(float) + (double)kv_vector_bytes(w->type));
}

static double bytes_embed(const struct place *p, const struct work *w)
{
    uint64_t packed = 0;
    (void)p;
    (void)dtype_size(w->type, N_IN, &packed);
    return row_bytes(1) + (double)packed * ROWS;
}

static const struct work row_works[] = {
    {"quantise", "int8", ROWS, 1, LIMIT_READ, 0, run_quantise, bytes_quantise},
    {"norm", "rms", ROWS, 0, LIMIT_READ, DEV_NORM_RMS, run_norm, bytes_2},
    {"norm", "layer", ROWS, 0, LIMIT_READ, DEV_NORM_LAYER, run_norm, bytes_2},
    {"rope", "pairs", ROWS, 0, LIMIT_READ, DEV_ROPE_PAIRS, run_rope, bytes_2},
    {"rope", "halves", ROWS, 0, LIMIT_READ, DEV_ROPE_HALVES, run_rope, bytes_2},
    {"rope", "table", ROWS, 0, LIMIT_READ, 0, run_rope_table, bytes_table},
    {"act", "silu", ROWS, 0, LIMIT_READ, DEV_ACT_SILU, run_act, bytes_3},
    {"act", "gelu_tanh", ROWS, 0, LIMIT_READ, DEV_ACT_GELU_TANH, run_act, bytes_3},
    {"act", "gelu_erf", ROWS, 0, LIMIT_READ, DEV_ACT_GELU_ERF, run_act, bytes_3},
    {"act", "relu", ROWS, 0, LIMIT_READ, DEV_ACT_RELU, run_act, bytes_3},
    {"rows", "add", ROWS, 0, LIMIT_READ, 0, run_add, bytes_3},
    {"rows", "scale", ROWS, 0, LIMIT_READ, 0, run_scale, bytes_2},
    {"rows", "softcap", ROWS, 0, LIMIT_READ, 0, run_softcap, bytes_2},
    {"kv_write", "f16", ROWS, 0, LIMIT_READ, INFER_KV_F16, run_kv_write, bytes_kv},
    {"kv_write", "bf16", ROWS, 0, LIMIT_READ, INFER_KV_BF16, run_kv_write, bytes_kv},
    {"kv_write", "f32", ROWS, 0, LIMIT_READ, INFER_KV_F32, run_kv_write, bytes_kv},
    {"attention", "f16", 1, 0, LIMIT_READ, INFER_KV_F16, run_attention, attention_amount},
    {"attention", "f16", ROWS, 0, LIMIT_F32, INFER_KV_F16, run_attention, attention_amount},
    {"attention", "bf16", 1, 0, LIMIT_READ, INFER_KV_BF16, run_attention, attention_amount},
    {"attention", "bf16", ROWS, 0, LIMIT_F32, INFER_KV_BF16, run_attention, attention_amount},
    {"attention", "f32", 1, 0, LIMIT_READ, INFER_KV_F32, run_attention, attention_amount},
    {"attention", "f32", ROWS, 0, LIMIT_F32, INFER_KV_F32, run_attention, attention_amount},
    {"kv_write", "int8", ROWS, 0, LIMIT_READ, INFER_KV_INT8, run_kv_write, bytes_kv},
    {"attention", "int8", 1, 0, LIMIT_READ, INFER_KV_INT8, run_attention, attention_amount},
    {"attention", "int8", ROWS, 0, LIMIT_F32, INFER_KV_INT8, run_attention, attention_amount},
    {"kv_write", "int8-64", ROWS, 0, LIMIT_READ, INFER_KV_INT8_64, run_kv_write, bytes_kv},
    {"attention", "int8-64", 1, 0, LIMIT_READ, INFER_KV_INT8_64, run_attention, attention_amount},
    {"attention", "int8-64", ROWS, 0, LIMIT_F32, INFER_KV_INT8_64, run_attention, attention_amount},
};
#define N_ROW_WORKS (sizeof row_works / sizeof *row_works)

/* ---- Places ---- */

static bool make(struct place *p, struct dev_ref *out, uint64_t bytes)
{
    *out = (struct dev_ref){0};
    return p->dev->ops->alloc(p->dev, bytes, &out->buf, NULL) == INFER_OK;
}

static void fill(struct place *p, struct dev_ref at, uint64_t floats)
{
    float part[1024];
    uint32_t seed = 1;
    for (uint32_t i = 0; i < 1024; i++) {
        seed = seed * 1664525u + 1013904223u;
        part[i] = (float)(int32_t)seed * 0x1p-31f;
    }
    for (uint64_t i = 0; i + 1024 <= floats; i += 1024)
        p->dev->ops->write(p->dev, dev_at(at, i * sizeof(float)), part, sizeof part);
}

static void place_close(struct place *p)
{
    struct dev_ref *all[] = {&p->weights, &p->x, &p->y, &p->z, &p->table, &p->kv};
    for (size_t i = 0; p->dev && i < sizeof all / sizeof *all; i++)
        p->dev->ops->free(p->dev, all[i]->buf);
    if (p->dev)
        p->dev->ops->destroy(p->dev);
    p->dev = NULL;
}

static bool place_open(struct place *p, int32_t level, const struct options *o, uint32_t threads, const void *weights, size_t bytes)
{
    struct cpu_device_options d = {.cpu = level, .numerics = o->numerics, .threads = threads};
    uint64_t floats = (uint64_t)MAX_COLUMNS * N_IN * 2, kv = (uint64_t)DECODE_DEPTH * 2 * KV_HEADS * HEAD_DIM;
    *p = (struct place){.level = level, .weight_bytes = bytes};
    if (cpu_device_create(&alloc_default, &d, &p->dev, NULL) != INFER_OK || mm_kernels_init(&p->mm, level, NULL) != INFER_OK)
        return false;
    bool ok = p->dev->ops->import(p->dev, weights, bytes, &p->weights.buf, NULL) == INFER_OK && make(p, &p->x, floats * 4) &&
              make(p, &p->y, floats * 4) && make(p, &p->z, (uint64_t)ROWS * N_IN * 4) && make(p, &p->table, (uint64_t)ROWS * N_IN * 4) &&
              make(p, &p->kv, kv * 4);
    if (!ok)
        return false;
    fill(p, p->x, floats);
    fill(p, p->y, floats);
    fill(p, p->z, (uint64_t)ROWS * N_IN);
    struct work table = {.columns = ROWS};
    run_rope_table(p, &table);
    return p->dev->ops->sync(p->dev, NULL) == INFER_OK;
}

/* Keys and values of this type in every page: zeros would do, but for subnormals of other types' bits. */
static void fill_kv(struct place *p, int32_t type)
{
    struct dev_kv kv = kv_layout(type);
    struct dev_ref pages[DECODE_DEPTH / DEV_KV_PAGE];
    struct dev_seq seq = {.n_row = DEV_KV_PAGE, .pages = pages};
    kv_pages(p, &kv, pages, DECODE_DEPTH / DEV_KV_PAGE);
    for (seq.index = 0; seq.index < DECODE_DEPTH; seq.index += DEV_KV_PAGE)
        p->dev->ops->kv_write(p->dev, &kv, p->x, N_IN, p->x, N_IN, &seq, 1);
}

/* ---- Measuring ---- */

/* Bytes or multiply-adds a second; 0: the device failed. */
static double rate_of(struct place *p, const struct work *w)
{
    double done = 0, start, seconds;
    if (w->run == run_attention)
        fill_kv(p, w->type);
    w->run(p, w);
    if (p->dev->ops->sync(p->dev, NULL) != INFER_OK)
        return 0;
    start = bench_seconds();
    do {
        w->run(p, w);
        if (p->dev->ops->sync(p->dev, NULL) != INFER_OK)
            return 0;
        done += w->amount(p, w);
        seconds = bench_seconds() - start;
    } while (seconds < MIN_SECONDS);
    return done / seconds;
}

#define MAX_LEVELS 16

struct session {
    const struct options *o;
    struct limits *limits;
    struct place places[MAX_LEVELS];
    uint32_t n, threads, printed;
    uint64_t read_bytes;
};

static void fill_row(struct row *r, const struct session *s, const struct work *w, const struct place *p, const struct series *rate,
                     const struct series *share)
{
    const char *unit = w->limit == LIMIT_READ ? "GB/s" : "G multiply-adds/s";
    row_text(r, "kernel", w->family);
    row_text(r, "what", w->what);
    row_number(r, "columns", w->columns, 0);
    row_text(r, "cpu", cpu_level_name(p->level));
    row_number(r, "threads", w->threads ? w->threads : s->threads, 0);
    row_text(r, "unit", unit);
    row_series(r, "rate", rate, 1e-9, 3);
    row_text(r, "limit", w->limit == LIMIT_READ ? "read" : w->limit == LIMIT_INT8 ? "int8" : "f32");
    row_series(r, "share", share, 1, 6);
}

static void print_result(struct session *s, const struct work *w, const struct place *p, const struct series *rate,
                         const struct series *share)
{
    struct row r = {0};
    fill_row(&r, s, w, p, rate, share);
    if (s->o->json) {
        printf("%s", s->printed ? ",\n" : "[");
        row_print_json(&r);
    } else if (s->o->csv) {
        if (!s->printed)
            row_print_csv_header(&r);
        row_print_csv(&r);
    } else {
        printf("%-10s %-10s %5u  %-11s %9.2f %-18s %6.1f%% of %s\n", w->family, w->what, (unsigned)w->columns, cpu_level_name(p->level),
               series_median(rate) * 1e-9, r.cells[5].text, 100 * series_median(share), r.cells[7].text);
        (void)fflush(stdout);
    }
    s->printed++;
    row_free(&r);
}

static bool is_wanted(const struct options *o, const struct work *w)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s %s %u", w->family, w->what, (unsigned)w->columns);
    return !o->only || strstr(name, o->only) != NULL;
}

/* Limit and variants take turns. */
static int measure(struct session *s, const struct work *w)
{
    struct series rate[MAX_LEVELS], share[MAX_LEVELS];
    if (!is_wanted(s->o, w))
        return EXIT_OK;
    memset(rate, 0, sizeof rate);
    memset(share, 0, sizeof share);
    for (uint32_t i = 0; i < s->o->rounds; i++) {
        struct limit_result limit = {0};
        if (s->limits && !limits_measure(s->limits, w->limit, w->threads ? w->threads : s->threads, s->read_bytes, &limit))
            limit.rate = 0;
        for (uint32_t k = 0; k < s->n; k++) {
            if (infer_cancel_is_set(bench_cancel)) {
                complain("interrupted");
                return EXIT_INTERRUPTED;
            }
            double now = rate_of(&s->places[k], w);
            series_add(&rate[k], now);
            series_add(&share[k], limit.rate > 0 ? now / limit.rate : 0);
        }
    }
    for (uint32_t k = 0; k < s->n; k++)
        print_result(s, w, &s->places[k], &rate[k], &share[k]);
    return EXIT_OK;
}

static int measure_types(struct session *s)
{
    static const uint32_t columns[] = {1, 16, MAX_COLUMNS};
    int code = EXIT_OK;
    for (int32_t type = 0; type < DTYPE_COUNT && code == EXIT_OK; type++) {
        const struct dtype *t = dtype_of(type);
        if (!t || !cpu_device_can_multiply(type))
            continue;
        bool floats = !mm_supports(type) || s->o->numerics == INFER_NUMERICS_PRECISE;
        for (size_t i = 0; i < sizeof columns / sizeof *columns && code == EXIT_OK; i++) {
            enum limit limit = columns[i] == 1 ? LIMIT_READ : floats ? LIMIT_F32 : LIMIT_INT8;
            struct work w = {"matmul", t->name, columns[i], 0, limit, type, run_matmul, matmul_amount};
            code = measure(s, &w);
        }
        struct work w = {"embed", t->name, ROWS, 0, LIMIT_READ, type, run_embed, bytes_embed};
        if (code == EXIT_OK)
            code = measure(s, &w);
    }
    for (size_t i = 0; i < N_ROW_WORKS && code == EXIT_OK; i++)
        code = measure(s, &row_works[i]);
    return code;
}

/* ---- Start ---- */

/* Pages are huge ones if the system gives them: rows are then as easy to find as in a mapped file that it caches well. */
static void *make_weights(size_t bytes)
{
    uint8_t *w = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t some = (size_t)1 << 20;
    uint32_t seed = 7;
    if (w == MAP_FAILED)
        return NULL;
#ifdef MADV_HUGEPAGE
    (void)madvise(w, bytes, MADV_HUGEPAGE);
#endif
    for (size_t i = 0; i < some; i++) {
        seed = seed * 1664525u + 1013904223u;
        w[i] = (uint8_t)(0x28 | seed >> 29);
    }
    for (size_t i = some; i < bytes; i += some)
        memcpy(w + i, w, some);
    return w;
}

static uint32_t thread_count(const struct options *o)
{
    infer_engine *e = NULL;
    infer_engine_info info;
    INFER_INIT(&info);
    if (o->threads)
        return o->threads;
    if (infer_engine_create(NULL, &e, NULL) != INFER_OK || infer_engine_get_info(e, &info, NULL) != INFER_OK)
        info.threads = 1;
    infer_engine_release(e);
    return info.threads;
}

static bool open_places(struct session *s, const void *weights, size_t bytes)
{
    static const int32_t levels[] = {
#define LEVEL(level, name) level,
        CPU_LEVELS(LEVEL)
#undef LEVEL
    };
    for (size_t i = 0; i < sizeof levels / sizeof *levels && s->n < MAX_LEVELS; i++) {
        if (!cpu_level_supported(levels[i]) || (s->o->cpu && s->o->cpu != levels[i]))
            continue;
        if (!place_open(&s->places[s->n++], levels[i], s->o, s->threads, weights, bytes))
            return false;
    }
    return true;
}

int kernel_speed(const struct options *o)
{
    struct session *s = calloc(1, sizeof *s);
    size_t bytes = (size_t)(memory_to_read(o->limit_mib, 0) / ONE_BYTES * ONE_BYTES);
    struct limits *limits = o->no_limits ? NULL : limits_start();
    void *weights = make_weights(bytes);
    int code = EXIT_FAILED;
    if (!s || !weights) {
        complain("out of memory");
    } else {
        s->o = o;
        s->limits = limits;
        s->threads = thread_count(o);
        s->read_bytes = bytes;
        if (!open_places(s, weights, bytes))
            complain("out of memory");
        else if (!s->n)
            complain("--cpu: this processor or this build lacks %s", cpu_level_name(o->cpu));
        else
            code = measure_types(s);
        if (o->json)
            printf("%s]\n", s->printed ? "" : "[");
        for (uint32_t i = 0; i < s->n; i++)
            place_close(&s->places[i]);
    }
    limits_stop(limits);
    if (weights)
        munmap(weights, bytes);
    free(s);
    return code;
}
