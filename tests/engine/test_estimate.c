/* What a model takes, estimated before it is opened and counted while it runs: sessions are filled to their last element and generate. The estimate is
 * never below, and with itself as the limit everything runs. */
#if !defined(_WIN32)
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#endif
#include "testutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if !defined(_WIN32)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "formats/gguf_build.h"
#include "golden.h"
#include "infer/infer.h"
#include "ok.h"

#define TINY INFER_SOURCE_DIR "/models/tiny.gguf"
#define MAX_SESSIONS 8

struct trial {
    const char *path;
    int32_t kv_type;
    uint32_t n_ctx, sessions, threads, kv_recent;
    int32_t map, quantise;
    bool turns; /* sessions grow token by token, one after the other in turn, instead of by whole prompts */
};

static infer_estimate estimate_of(const struct trial *t)
{
    infer_source src;
    infer_open_options open;
    infer_estimate_options o;
    infer_estimate e;
    INFER_INIT(&error);
    INFER_INIT(&open);
    INFER_INIT(&o);
    INFER_INIT(&e);
    open.map = t->map;
    open.quantise = t->quantise;
    o.kv_type = t->kv_type;
    o.n_ctx = t->n_ctx;
    o.sessions = t->sessions;
    o.threads = t->threads;
    o.kv_recent = t->kv_recent;
    infer_source_path(&src, t->path, INFER_ZSTR);
    ok(infer_model_estimate(NULL, &src, &open, &o, &e, &error));
    return e;
}

static infer_model *open_trial(const struct trial *t, infer_engine *engine)
{
    infer_source src;
    infer_open_options open;
    infer_model *m;
    INFER_INIT(&open);
    open.map = t->map;
    open.quantise = t->quantise;
    infer_source_path(&src, t->path, INFER_ZSTR);
    ok(infer_model_open(engine, &src, &open, &m, &error));
    return m;
}

/* Sampling that uses every list there is. */
static void sample_all(infer_session *s)
{
    infer_sampling set;
    INFER_INIT(&set);
    set.temperature = 1.5f;
    set.typical_p = 0.9f;
    set.repetition_penalty = 1.1f;
    set.logprobs = 1;
    set.top_logprobs = 5;
    ok(infer_session_set_sampling(s, &set, &error));
}

static void append_some(infer_session *s, uint32_t n, uint32_t vocab)
{
    int32_t ids[256];
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)((i * 37 + n * 11) % vocab);
    ok(infer_session_append(s, ids, n, &error));
}

static void generate_to_end(infer_session *s)
{
    infer_generate_options g;
    infer_event ev;
    INFER_INIT(&g);
    INFER_INIT(&ev);
    g.flags = INFER_GENERATE_IGNORE_EOS;
    ok(infer_generate_begin(s, &g, &error));
    do
        ok(infer_generate_next(s, &ev, NULL, &error));
    while (ev.kind != INFER_EVENT_DONE);
    assert_int_equal(ev.finish_reason, INFER_FINISH_CONTEXT);
}

/* All sessions, to their last element. */
static void fill(const struct trial *t, infer_session **s, uint32_t vocab)
{
    uint32_t prompt = t->n_ctx > 24 ? t->n_ctx - 20 : t->n_ctx / 2;
    infer_step_item it[MAX_SESSIONS];
    if (t->turns)
        for (uint32_t n = 0; n < prompt; n++) {
            for (uint32_t i = 0; i < t->sessions; i++) {
                append_some(s[i], 1, vocab);
                INFER_INIT(&it[i]);
                it[i].session = s[i];
            }
            ok(infer_step(it, t->sessions, NULL, &error));
        }
    for (uint32_t i = 0; i < t->sessions; i++) {
        for (uint32_t n = 0, k; !t->turns && n < prompt; n += k) {
            k = prompt - n < 200 ? prompt - n : 200;
            append_some(s[i], k, vocab);
        }
        sample_all(s[i]);
        generate_to_end(s[i]);
    }
}

static infer_engine_info info_of(infer_engine *e)
{
    infer_engine_info i;
    INFER_INIT(&i);
    ok(infer_engine_get_info(e, &i, &error));
    return i;
}

/* Opens, fills and gives back; the peak, which both the library and the host have counted. limit: memory_limit. */
static uint64_t peak_of(const struct trial *t, uint64_t limit)
{
    struct test_alloc count = {0};
    infer_allocator a = test_infer_allocator(&count);
    infer_engine_options o;
    infer_engine *engine;
    infer_model_info mi;
    infer_session *s[MAX_SESSIONS];
    infer_session_options so;
    INFER_INIT(&error);
    INFER_INIT(&o);
    INFER_INIT(&mi);
    INFER_INIT(&so);
    o.allocator = &a;
    o.threads = t->threads;
    o.memory_limit = limit;
    so.kv_type = t->kv_type;
    so.n_ctx = t->n_ctx;
    so.kv_recent = t->kv_recent;
    ok(infer_engine_create(&o, &engine, &error));
    uint64_t at_first = info_of(engine).memory_bytes;
    infer_model *m = open_trial(t, engine);
    ok(infer_model_get_info(m, &mi, &error));
    for (uint32_t i = 0; i < t->sessions; i++)
        ok(infer_session_create(m, &so, &s[i], &error));
    fill(t, s, mi.vocab_size < 100 ? mi.vocab_size : 100);
    for (uint32_t i = 0; i < t->sessions; i++)
        infer_session_release(s[i]);
    infer_model_release(m);
    infer_engine_info end = info_of(engine);
    assert_int_equal(end.memory_limit, limit);
    assert_int_equal(end.memory_bytes, count.live_bytes);
    assert_int_equal(end.memory_peak, count.peak_bytes);
    assert_int_equal(end.kv_bytes, 0);
    assert_true(end.memory_bytes >= at_first);
    infer_engine_release(engine);
    assert_int_equal(count.live, 0);
    assert_int_equal(count.live_bytes, 0);
    return end.memory_peak;
}

/* Returns the peak in per cent of the estimate. */
static double check(const struct trial *t)
{
    infer_estimate e = estimate_of(t);
    uint64_t peak = peak_of(t, e.memory_bytes); /* nothing is refused */
    double share = 100.0 * (double)peak / (double)e.memory_bytes;
    const char *name = strrchr(t->path, '/') + 1;
    assert_int_equal(e.total_bytes, e.mapped_bytes + e.memory_bytes);
    assert_true(e.memory_bytes >= e.own_bytes + e.kv_bytes + e.scratch_bytes);
    assert_true(e.memory_bytes >= e.open_bytes);
    print_message("%-24s kv %d ctx %5u x%u threads %u%s: %9llu of %9llu (own %llu kv %llu scratch %llu open %llu): %.0f %%\n", name, (int)t->kv_type, t->n_ctx, t->sessions,
                  t->threads, t->turns ? " turns" : "", (unsigned long long)peak, (unsigned long long)e.memory_bytes,
                  (unsigned long long)e.own_bytes, (unsigned long long)e.kv_bytes, (unsigned long long)e.scratch_bytes, (unsigned long long)e.open_bytes, share);
    if (peak > e.memory_bytes)
        fail_msg("%s: the estimate is %llu bytes too low", name, (unsigned long long)(peak - e.memory_bytes));
    return share;
}

/* Each architecture's own parts, with short contexts. */
static void test_upper_bound(void **state)
{
    static const char *const names[] = {"llama", "gemma3", "gpt2", "qwen3moe", "deepseek2", "deepseek2-kv_b", "phi3-window", "llama-q4_0", "gemma2"};
    static const uint32_t sessions[] = {1, 3}, threads[] = {1, 2, 4};
    (void)state;
    for (uint32_t n = 0; n < sizeof names / sizeof *names; n++)
        for (uint32_t i = 0; i < 3; i++) {
            struct trial t = {.path = fixture_path(names[n]), .kv_type = (int32_t)(n + i) % 7, .n_ctx = 96, .sessions = sessions[(n + i) % 2],
                              .threads = threads[i], .turns = (n + i) % 3 == 2};
            double share = check(&t);
            if (t.sessions == 1 && !t.turns && strcmp(names[n], "llama-q4_0")) /* that one is small beside the scratch that it might need */
                assert_true(share >= 80);
        }
}

/* Windows that slide, and lists that grow. */
static void test_long(void **state)
{
    (void)state;
    struct trial windows = {.path = fixture_path("phi3-window"), .n_ctx = 2500, .sessions = 2, .threads = 2, .kv_type = INFER_KV_F32};
    check(&windows);
    for (int32_t kv = INFER_KV_F16; kv <= INFER_KV_MIXED_F32; kv++) {
        struct trial t = {.path = TINY, .kv_type = kv, .n_ctx = 700, .sessions = kv % 2 ? 1 : 3, .threads = 1u << (uint32_t)kv % 3, .turns = kv % 3 == 2,
                          .kv_recent = kv >= INFER_KV_MIXED_F16 ? 128 : 0};
        double share = check(&t);
        assert_true(t.turns || share >= 60);
    }
}

/* What is not mapped, or not as the file has it. */
static void test_weights(void **state)
{
    (void)state;
    struct trial mapped = {.path = TINY, .n_ctx = 64, .sessions = 1, .threads = 1}, read = mapped, quantised = mapped;
    read.map = INFER_MAP_READ;
    quantised.path = fixture_path("llama-mix32-f32");
    quantised.quantise = INFER_TYPE_Q8_0;
    infer_estimate e = estimate_of(&mapped), r = estimate_of(&read), q = estimate_of(&quantised);
    assert_true(e.mapped_bytes >= e.weight_bytes && e.weight_bytes > 1000000);
    assert_int_equal(r.mapped_bytes, 0);
    assert_true(r.own_bytes >= e.own_bytes + e.mapped_bytes);
    assert_true(q.own_bytes > q.weight_bytes / 2 && q.mapped_bytes > q.weight_bytes);
    check(&mapped);
    check(&read);
    check(&quantised);
    /* folders of Hugging Face: computed tensors (gpt2's are all turned round), the tokenizer's JSON */
    static const char *const folders[] = {"gpt2", "gemma3", "llama", "deepseek2-kv_b", "mixtral"};
    for (uint32_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/tests/data/fixtures/%s", INFER_SOURCE_DIR, folders[i]);
        struct trial t = {.path = path, .n_ctx = 96, .sessions = 1, .threads = 1};
        assert_true(check(&t) >= 80);
    }
}

/* No byte of a tensor is read: the pages behind the directory cannot be. */
static void test_reads_no_weights(void **state)
{
#if defined(_WIN32)
    (void)state;
    skip();
#else
    (void)state;
    static const char *const names[] = {"llama-q8_0", "llama3-rope", "deepseek2-kv_b", "gpt2", "qwen3moe", "tiny"};
    for (uint32_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t len, page = (size_t)sysconf(_SC_PAGESIZE);
        char *bytes = test_read_file(strcmp(names[n], "tiny") ? fixture_path(names[n]) : TINY, &len);
        infer_source src;
        infer_file *file;
        infer_estimate before, after;
        infer_open_options open;
        INFER_INIT(&error);
        INFER_INIT(&open);
        INFER_INIT(&before);
        INFER_INIT(&after);
        size_t room = (len + page - 1) / page * page;
        char *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(p != MAP_FAILED);
        memcpy(p, bytes, len);
        free(bytes);
        open.quantise = n == 1 || n == 3 ? INFER_TYPE_Q8_0 : 0; /* nor for this */
        infer_source_memory(&src, p, len);
        ok(infer_model_estimate(NULL, &src, &open, NULL, &before, &error));
        ok(infer_file_open(NULL, &src, NULL, &file, &error));
        uint64_t first = UINT64_MAX;
        for (uint64_t i = 0; i < infer_file_tensor_count(file); i++) {
            infer_tensor_info t;
            INFER_INIT(&t);
            ok(infer_file_tensor(file, i, &t, &error));
            first = t.offset < first ? t.offset : first;
        }
        infer_file_release(file);
        size_t from = (size_t)(first + page - 1) / page * page;
        assert_true(from < len);
        assert_int_equal(mprotect(p + from, room - from, PROT_NONE), 0);
        ok(infer_model_estimate(NULL, &src, &open, NULL, &after, &error));
        assert_memory_equal(&before, &after, sizeof before);
        assert_true(before.total_bytes > before.weight_bytes);
        munmap(p, room);
    }
#endif
}

static infer_status estimate_within(const struct trial *t, infer_engine *engine, uint64_t budget, infer_estimate *e)
{
    infer_source src;
    infer_estimate_options o;
    INFER_INIT(&error);
    INFER_INIT(&o);
    INFER_INIT(e);
    o.kv_type = t->kv_type;
    o.n_ctx = t->n_ctx;
    o.sessions = t->sessions;
    o.threads = t->threads;
    o.budget = budget;
    infer_source_path(&src, t->path, INFER_ZSTR);
    return infer_model_estimate(engine, &src, NULL, &o, e, &error);
}

/* The context that a budget allows: the most, in steps of 64. */
static void test_budget(void **state)
{
    (void)state;
    struct trial t = {.path = TINY, .sessions = 3, .threads = 2};
    infer_estimate all, e, more;
    ok(estimate_within(&t, NULL, 0, &all));
    assert_int_equal(all.n_ctx, 512); /* the training context */
    ok(estimate_within(&t, NULL, all.total_bytes, &e));
    assert_int_equal(e.n_ctx, 512);
    for (uint64_t less = 1; less < all.total_bytes / 2; less = less * 3 + 10000) {
        struct trial fixed = t;
        infer_status st = estimate_within(&t, NULL, all.total_bytes - less, &e);
        if (st != INFER_OK) {
            assert_int_equal(st, INFER_ERROR_LIMIT);
            assert_string_equal(error.name, "budget");
            char text[512];
            memcpy(text, error.text, sizeof text);
            fixed.n_ctx = 64;
            ok(estimate_within(&fixed, NULL, 0, &more));
            assert_true(more.total_bytes > all.total_bytes - less);
            char need[32];
            snprintf(need, sizeof need, "%llu bytes are needed", (unsigned long long)more.total_bytes);
            assert_non_null(strstr(text, need));
            continue;
        }
        assert_true(e.total_bytes <= all.total_bytes - less);
        assert_true(e.n_ctx >= 64 && e.n_ctx < 512 && e.n_ctx % 64 == 0);
        fixed.n_ctx = e.n_ctx + 64;
        ok(estimate_within(&fixed, NULL, 0, &more));
        assert_true(more.total_bytes > all.total_bytes - less);
        fixed.n_ctx = e.n_ctx;
        ok(estimate_within(&fixed, NULL, 0, &more));
        assert_memory_equal(&more, &e, sizeof e);
    }
    t.n_ctx = 512; /* asked for, and too much */
    assert_int_equal(estimate_within(&t, NULL, all.total_bytes - 1, &e), INFER_ERROR_LIMIT);
    /* an engine's KV budget holds too */
    infer_engine *engine;
    infer_engine_options o;
    INFER_INIT(&o);
    o.kv_budget = all.kv_bytes / 2;
    ok(infer_engine_create(&o, &engine, &error));
    assert_int_equal(estimate_within(&t, engine, 0, &e), INFER_ERROR_LIMIT);
    assert_string_equal(error.name, "kv_budget");
    t.n_ctx = 0;
    ok(estimate_within(&t, engine, all.total_bytes, &e));
    assert_true(e.n_ctx < 512 && e.kv_bytes <= o.kv_budget);
    infer_engine_release(engine);
}

static infer_status estimate_with(const char *path, const infer_estimate_options *o)
{
    infer_source src;
    infer_estimate e;
    INFER_INIT(&e);
    infer_source_path(&src, path, INFER_ZSTR);
    return infer_model_estimate(NULL, &src, NULL, o, &e, &error);
}

static void test_refusals(void **state)
{
    (void)state;
    infer_estimate_options o;
    INFER_INIT(&error);
    INFER_INIT(&o);
    assert_int_equal(infer_model_estimate(NULL, NULL, NULL, NULL, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_int_equal(estimate_with("no-such-file.gguf", NULL), INFER_ERROR_NOT_FOUND);
    assert_int_equal(estimate_with(INFER_SOURCE_DIR "/README.md", NULL), INFER_ERROR_FORMAT);
    o.kv_type = 99;
    assert_int_equal(estimate_with(TINY, &o), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "kv_type");
    error.name[0] = 0;
    assert_int_equal(estimate_with(fixture_path("bert"), &o), INFER_ERROR_ARGUMENT); /* which has none */
    assert_string_equal(error.name, "kv_type");
    o.kv_type = INFER_KV_F16;
    o.kv_recent = 64;
    assert_int_equal(estimate_with(TINY, &o), INFER_ERROR_ARGUMENT);
    o.kv_recent = 0;
    o.n_ctx = (1u << 24) + 1;
    assert_int_equal(estimate_with(TINY, &o), INFER_ERROR_ARGUMENT);
    o.n_ctx = 1u << 24;
    o.sessions = (1u << 20) + 1;
    assert_int_equal(estimate_with(TINY, &o), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "sessions");
    o.sessions = 1u << 20; /* sums far beyond any machine do not wrap */
    infer_source src;
    infer_estimate e;
    INFER_INIT(&e);
    infer_source_path(&src, TINY, INFER_ZSTR);
    ok(infer_model_estimate(NULL, &src, NULL, &o, &e, &error));
    assert_true(e.kv_bytes / e.n_ctx / o.sessions > 100 && e.total_bytes > e.kv_bytes);
    o.threads = 257;
    assert_int_equal(estimate_with(TINY, &o), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "threads");
}

/* One layer whose keys and values are as wide as can be: 2 MiB an element, more than 2^64 bytes for the most sessions of the longest context. */
static void test_too_much(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t dims;
        uint64_t shape[2];
    } tensors[] = {
        {"token_embd.weight", 2, {32, 64}}, {"output_norm.weight", 1, {32, 1}}, {"blk.0.attn_norm.weight", 1, {32, 1}},
        {"blk.0.ffn_norm.weight", 1, {32, 1}}, {"blk.0.attn_q.weight", 2, {32, 1 << 19}}, {"blk.0.attn_k.weight", 2, {32, 1 << 19}},
        {"blk.0.attn_v.weight", 2, {32, 1 << 19}}, {"blk.0.attn_output.weight", 2, {1 << 19, 32}}, {"blk.0.ffn_gate.weight", 2, {32, 32}},
        {"blk.0.ffn_up.weight", 2, {32, 32}}, {"blk.0.ffn_down.weight", 2, {32, 32}},
    };
    static const struct {
        const char *key;
        uint32_t value;
    } keys[] = {
        {"llama.context_length", 1 << 24}, {"llama.embedding_length", 32}, {"llama.block_count", 1}, {"llama.feed_forward_length", 32},
        {"llama.attention.head_count", 1024}, {"llama.attention.head_count_kv", 1024}, {"llama.attention.key_length", 512},
        {"llama.attention.value_length", 512}, {"llama.rope.dimension_count", 512},
    };
    const uint64_t n_tensors = sizeof tensors / sizeof *tensors, n_keys = sizeof keys / sizeof *keys;
    const float epsilon = 1e-5f;
    struct buf b;
    uint64_t at = 0;
    gb_header(&b, 3, n_tensors, n_keys + 2);
    gb_meta_str(&b, "general.architecture", "llama");
    gb_key(&b, "llama.attention.layer_norm_rms_epsilon", FILE_F32);
    buf_put(&b, &epsilon, sizeof epsilon);
    for (uint64_t i = 0; i < n_keys; i++)
        gb_meta_u32(&b, keys[i].key, keys[i].value);
    for (uint64_t i = 0; i < n_tensors; i++) {
        uint64_t n = tensors[i].shape[0] * tensors[i].shape[1];
        gb_tensor(&b, tensors[i].name, tensors[i].dims == 1 ? INFER_TYPE_F32 : INFER_TYPE_Q4_0, tensors[i].dims, tensors[i].shape, at);
        at += ((tensors[i].dims == 1 ? n * 4 : n / 32 * 18) + 31) / 32 * 32;
    }
    uint64_t head = (b.len + 31) / 32 * 32;
    char *bytes = calloc(1, head + at); /* the weights are never looked at */
    memcpy(bytes, b.data, b.len);
    buf_free(&b);
    infer_source src;
    infer_estimate_options o;
    infer_estimate e;
    INFER_INIT(&error);
    INFER_INIT(&o);
    INFER_INIT(&e);
    infer_source_memory(&src, bytes, head + at);
    o.threads = 1;
    o.n_ctx = 1 << 24;
    o.sessions = 64;
    ok(infer_model_estimate(NULL, &src, NULL, &o, &e, &error));
    assert_true(e.kv_bytes >= (uint64_t)1 << 51);
    o.sessions = 1 << 20;
    assert_int_equal(infer_model_estimate(NULL, &src, NULL, &o, &e, &error), INFER_ERROR_LIMIT);
    assert_string_equal(error.name, "sessions");
    o.budget = (uint64_t)1 << 50; /* a sum that wraps would fit */
    assert_int_equal(infer_model_estimate(NULL, &src, NULL, &o, &e, &error), INFER_ERROR_LIMIT);
    o.n_ctx = 0;
    ok(infer_model_estimate(NULL, &src, NULL, &o, &e, &error));
    assert_true(e.n_ctx < 1024 && e.total_bytes <= o.budget);
    free(bytes);
}

/* Every allocation of an estimate fails once; nothing is kept. */
static void test_no_memory(void **state)
{
    (void)state;
    static const char *const paths[] = {TINY, INFER_SOURCE_DIR "/tests/data/fixtures/gpt2"};
    for (uint32_t n = 0; n < 2; n++) {
        uint64_t points = 0;
        infer_status st = INFER_ERROR_NO_MEMORY;
        for (uint64_t at = 1; st != INFER_OK; at++) {
            struct test_alloc t = {0};
            infer_allocator a = test_infer_allocator(&t);
            infer_engine_options o;
            infer_engine *engine;
            infer_estimate e;
            infer_source src;
            INFER_INIT(&error);
            INFER_INIT(&o);
            INFER_INIT(&e);
            o.allocator = &a;
            o.threads = 1;
            ok(infer_engine_create(&o, &engine, &error));
            int64_t before = t.live_bytes;
            t.fail_at = t.calls + at;
            infer_source_path(&src, paths[n], INFER_ZSTR);
            st = infer_model_estimate(engine, &src, NULL, NULL, &e, &error);
            if (st != INFER_OK)
                assert_int_equal(st, INFER_ERROR_NO_MEMORY);
            assert_int_equal(t.live_bytes, before);
            infer_engine_release(engine);
            assert_int_equal(t.live, 0);
            points++;
        }
        assert_true(points > 50);
    }
}

/* Texts of encoders. */
static void test_encoder(void **state)
{
    static const char *const names[] = {"bert", "nomic-bert", "gemma-embedding"};
    static const uint32_t counts[] = {1, 5, 90};
    (void)state;
    for (uint32_t n = 0; n < 3; n++)
        for (uint32_t i = 0; i < 3; i++) {
            struct trial t = {.path = fixture_path(names[n]), .n_ctx = i ? 40 : 0, .sessions = counts[i], .threads = 1u << i};
            infer_estimate e = estimate_of(&t);
            infer_engine_options o;
            infer_engine *engine;
            infer_embed_item items[90];
            float *out = calloc(90, 4096 * sizeof *out);
            int32_t ids[4096];
            INFER_INIT(&o);
            o.threads = t.threads;
            o.memory_limit = e.memory_bytes;
            ok(infer_engine_create(&o, &engine, &error));
            infer_model *m = open_trial(&t, engine);
            assert_true(e.n_ctx <= 4096);
            for (uint32_t k = 0; k < e.n_ctx; k++)
                ids[k] = (int32_t)(k % 50);
            for (uint32_t k = 0; k < counts[i]; k++) {
                INFER_INIT(&items[k]);
                items[k].ids = ids;
                items[k].id_count = e.n_ctx;
                items[k].out = out + k * 4096;
                items[k].capacity = 4096;
            }
            ok(infer_embed(m, items, counts[i], NULL, NULL, &error));
            double share = 100.0 * (double)info_of(engine).memory_peak / (double)e.memory_bytes;
            print_message("%s: %u texts of %u tokens: %.0f %% of %llu\n", names[n], counts[i], e.n_ctx, share, (unsigned long long)e.memory_bytes);
            assert_true(share <= 100);
            infer_model_release(m);
            infer_engine_release(engine);
            free(out);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upper_bound), cmocka_unit_test(test_long), cmocka_unit_test(test_weights), cmocka_unit_test(test_reads_no_weights),
        cmocka_unit_test(test_budget), cmocka_unit_test(test_refusals), cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_encoder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
