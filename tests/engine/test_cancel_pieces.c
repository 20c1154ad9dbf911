/* Where cancel_tests.h sees no moments by itself, since what the fixtures have is done in one piece: between the tasks of a conversion, and between the
 * pieces of one write. */
#define _DEFAULT_SOURCE
#include "cancel_tests.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/outfile.h"
#include "formats/gguf_build.h"
#include "model/quantise_file.h"

static infer_engine *engine;

static int setup(void **state)
{
    (void)cancel_setup(state);
    engine = watched_engine();
    return 0;
}

/* ---- A conversion. Nothing of the host's is called in it; but it reads the weights, which here lie in memory of the host's: a page in the midst of each
 * task is unreadable until the fault's handler, which is the moment, makes it readable. ---- */

enum { WIDTH = 256, INNER = 1024, VOCAB = 64 };
static const struct tensor {
    const char *name;
    uint64_t cols, rows; /* rows 1: a vector of F32 */
} tensors[] = {
    {"token_embd.weight", WIDTH, VOCAB},      {"output_norm.weight", WIDTH, 1},       {"blk.0.attn_norm.weight", WIDTH, 1},
    {"blk.0.ffn_norm.weight", WIDTH, 1},      {"blk.0.attn_q.weight", WIDTH, WIDTH},  {"blk.0.attn_k.weight", WIDTH, WIDTH},
    {"blk.0.attn_v.weight", WIDTH, WIDTH},    {"blk.0.attn_output.weight", WIDTH, WIDTH}, {"blk.0.ffn_gate.weight", WIDTH, INNER},
    {"blk.0.ffn_up.weight", WIDTH, INNER},    {"blk.0.ffn_down.weight", INNER, WIDTH}, /* the last one: of several tasks */
};
#define N_TENSORS (sizeof tensors / sizeof *tensors)

static struct {
    uint8_t *data;
    size_t size, page;
    uint8_t *guards[64];
    int n, touched, too_late; /* pages; since they were made unreadable; and of those, while the flag was set */
    infer_model *model;
    float logits[VOCAB];
    bool have_logits;
} w;

static uint64_t bytes_of(const struct tensor *t)
{
    return t->cols * t->rows * (t->rows == 1 ? 4 : 2);
}

static void put_weights(uint8_t *to, const struct tensor *t)
{
    static uint64_t seed = 11;
    for (uint64_t i = 0; i < t->cols * t->rows; i++) {
        uint16_t half = (uint16_t)(0x2400 | (test_rand(&seed) & 0x83ff)); /* 2^-6 to 2^-5, of either sign */
        if (t->rows == 1)
            memcpy(to + i * 4, &(float){1.0f}, 4);
        else
            memcpy(to + i * 2, &half, 2);
    }
}

/* A page that lies within the task, if one does. */
static void add_guard(uint8_t *begin, uint64_t bytes)
{
    uint8_t *page = w.data + ((size_t)(begin - w.data) + w.page - 1) / w.page * w.page;
    if (page + w.page > begin + bytes)
        return;
    assert_true(w.n < (int)(sizeof w.guards / sizeof *w.guards));
    w.guards[w.n++] = page;
}

static void make_model(void)
{
    static const struct {
        const char *key;
        uint32_t value;
    } keys[] = {
        {"llama.context_length", 64}, {"llama.embedding_length", WIDTH}, {"llama.block_count", 1}, {"llama.feed_forward_length", INNER},
        {"llama.attention.head_count", 4}, {"llama.attention.head_count_kv", 4}, {"llama.rope.dimension_count", 64},
    };
    const uint64_t n_keys = sizeof keys / sizeof *keys;
    struct buf b;
    uint64_t at = 0;
    gb_header(&b, 3, N_TENSORS, n_keys + 2);
    gb_meta_str(&b, "general.architecture", "llama");
    gb_key(&b, "llama.attention.layer_norm_rms_epsilon", FILE_F32);
    buf_put(&b, &(float){1e-5f}, sizeof(float));
    for (uint64_t i = 0; i < n_keys; i++)
        gb_meta_u32(&b, keys[i].key, keys[i].value);
    for (size_t i = 0; i < N_TENSORS; i++) {
        const uint64_t dims[] = {tensors[i].cols, tensors[i].rows};
        gb_tensor(&b, tensors[i].name, tensors[i].rows == 1 ? INFER_TYPE_F32 : INFER_TYPE_F16, tensors[i].rows == 1 ? 1 : 2, dims, at);
        at += bytes_of(&tensors[i]); /* a multiple of 32 */
    }
    size_t head = (b.len + 31) / 32 * 32;
    w.page = (size_t)sysconf(_SC_PAGESIZE);
    w.size = (head + (size_t)at + w.page - 1) / w.page * w.page;
    w.data = mmap(NULL, w.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(w.data != MAP_FAILED);
    memcpy(w.data, b.data, b.len);
    buf_free(&b);
    uint8_t *p = w.data + head;
    for (size_t i = 0; i < N_TENSORS; p += bytes_of(&tensors[i++])) {
        const struct tensor *t = &tensors[i];
        put_weights(p, t);
        for (uint64_t n = t->cols * t->rows, from = 0; t->rows > 1 && from < n; from += QUANTISE_TASK)
            add_guard(p + from * 2, (n - from < QUANTISE_TASK ? n - from : QUANTISE_TASK) * 2);
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    for (int i = 0; i < w.n; i++)
        if ((uint8_t *)info->si_addr >= w.guards[i] && (uint8_t *)info->si_addr < w.guards[i] + w.page) {
            w.touched++;
            w.too_late += infer_cancel_is_set(moments.flag);
            (void)mprotect(w.guards[i], w.page, PROT_READ);
            moments_pass();
            return;
        }
    (void)signal(number, SIG_DFL); /* a fault of its own: again, and the end */
}

static void guard_pages(void)
{
    w.touched = w.too_late = 0;
    for (int i = 0; i < w.n; i++)
        assert_int_equal(mprotect(w.guards[i], w.page, PROT_NONE), 0);
}

static infer_status call_open(infer_cancel *cancel)
{
    infer_source source;
    infer_open_options o;
    INFER_INIT(&o);
    o.quantise = INFER_TYPE_Q8_0;
    o.cancel = cancel;
    infer_source_memory(&source, w.data, w.size);
    w.model = NULL;
    return infer_model_open(engine, &source, &o, &w.model, &error);
}

/* OK: every task has been run. Else a second call runs them all. */
static void check_open(infer_status st)
{
    const float *row;
    assert_int_equal(w.too_late, 0);
    if (st != INFER_OK) {
        assert_null(w.model);
        guard_pages();
        ok(call_open(NULL));
    }
    assert_int_equal(w.touched, w.n);
    infer_session *s = cancel_session(w.model, 40, 0);
    int32_t ids[20];
    for (int i = 0; i < 20; i++)
        ids[i] = cancel_ids()[i] % VOCAB;
    ok(infer_session_append(s, ids, 20, &error));
    ok(cancel_step(s, NULL));
    ok(infer_session_logits(s, 0, &row, NULL, &error));
    if (!w.have_logits)
        memcpy(w.logits, row, sizeof w.logits);
    w.have_logits = true;
    assert_memory_equal(row, w.logits, sizeof w.logits);
    infer_session_release(s);
    infer_model_release(w.model);
}

static void nothing(void)
{
}

static void test_conversion(void **state)
{
    (void)state;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before[2];
    make_model();
    assert_true(w.n >= 16);
    assert_int_equal(sigaction(SIGSEGV, &action, &before[0]), 0);
    assert_int_equal(sigaction(SIGBUS, &action, &before[1]), 0);
    run_scene(&(struct scene){"open, several tasks", guard_pages, call_open, check_open, nothing, .least = (uint64_t)w.n + 20, .after = 20});
    (void)sigaction(SIGSEGV, &before[0], NULL);
    (void)sigaction(SIGBUS, &before[1], NULL);
    (void)munmap(w.data, w.size);
}

/* ---- One long write */

static struct outfile out;
static uint8_t written[((size_t)6 << 20) + 100];

static void begin_write(void)
{
    const char *path = tempdir_path("file");
    tempdir_write("file", "old", 3);
    ok(outfile_begin(&out, engine->env, path, strlen(path), &error));
}

static infer_status call_write(infer_cancel *cancel)
{
    out.cancel = cancel;
    infer_status st = outfile_put(&out, written, sizeof written, &error);
    if (st == INFER_OK)
        return outfile_commit(&out, true, &error);
    outfile_abort(&out);
    return st;
}

static void check_write(infer_status st)
{
    assert_int_equal(tempdir_size("file"), st == INFER_OK ? (int64_t)sizeof written : 3);
    assert_int_equal(tempdir_count(OUTFILE_PREFIX), 0);
}

static void test_write(void **state)
{
    (void)state;
    run_scene(&(struct scene){"write, several pieces", begin_write, call_write, check_write, nothing, .least = 12, .after = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_conversion), cmocka_unit_test(test_write)};
    return cmocka_run_group_tests(tests, setup, cancel_teardown);
}
