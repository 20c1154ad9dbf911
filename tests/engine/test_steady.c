/* Decoding takes nothing from the allocator but what has to grow: a slab of KV pages when the pages are used up, the list of elements and
 * the page table when they double. Every allocation is accounted for by the element at which it happens. */
#include "testutil.h"

#include <string.h>

#include "golden.h"
#include "infer/infer.h"
#include "ok.h"

#define TINY INFER_SOURCE_DIR "/models/tiny.gguf"
#define PAGE 64u
#define LEN 1200u

static infer_model *open_on(struct test_alloc *t, const char *path, uint32_t threads)
{
    infer_allocator a = test_infer_allocator(t);
    infer_engine_options o;
    infer_engine *e;
    infer_model *m;
    INFER_INIT(&error);
    INFER_INIT(&o);
    o.allocator = &a;
    o.threads = threads;
    ok(infer_engine_create(&o, &e, &error));
    ok(infer_model_open_path(e, path, &m, &error));
    infer_engine_release(e);
    return m;
}

static infer_session *session_of(infer_model *m)
{
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = LEN + 1;
    ok(infer_session_create(m, &o, &s, &error));
    return s;
}

static uint64_t kv_bytes(infer_model *m)
{
    infer_engine_info i;
    INFER_INIT(&i);
    ok(infer_engine_get_info(infer_model_engine(m), &i, &error));
    return i.kv_bytes;
}

/* Sessions of one token each grow to LEN, all in one step. */
static void test_step(void **state)
{
    enum { N = 16 };
    (void)state;
    struct test_alloc t = {0};
    infer_model *m = open_on(&t, fixture_path("llama"), 2);
    infer_session *s[N];
    infer_step_item it[N];
    uint64_t slabs = 0, grown = 0, quiet = 0, kv = 0;
    for (int i = 0; i < N; i++)
        s[i] = session_of(m);
    for (uint32_t len = 1; len <= LEN; len++) {
        uint64_t before = t.calls;
        for (int i = 0; i < N; i++) {
            int32_t id = (int32_t)((len * 7 + (uint32_t)i * 13) % 160);
            ok(infer_session_append(s[i], &id, 1, &error));
            INFER_INIT(&it[i]);
            it[i].session = s[i];
        }
        ok(infer_step(it, N, NULL, &error));
        if (len <= 2)
            continue; /* workspace, logits */
        uint64_t calls = t.calls - before, now = kv_bytes(m);
        bool page = len % PAGE == 1, doubled = len > 256 && ((len - 1) & (len - 2)) == 0;
        if (calls && !page && !doubled)
            fail_msg("%llu allocations at element %u", (unsigned long long)calls, len);
        if (page && now == kv && !doubled && len < 16 * PAGE)
            assert_int_equal(calls, 0); /* pages of a slab that is there */
        slabs += page && now != kv;
        grown += calls;
        quiet += calls == 0;
        kv = now;
    }
    assert_true(slabs > 0 && quiet > LEN - LEN / PAGE - 8);
    print_message("# %u tokens of %d sessions: %llu steps allocated nothing, %llu took new slabs, %llu allocations in all\n", LEN, N,
                  (unsigned long long)quiet, (unsigned long long)slabs, (unsigned long long)grown);
    for (int i = 0; i < N; i++)
        infer_session_release(s[i]);
    infer_model_release(m);
    assert_int_equal(t.live, 0);
}

/* The same through infer_generate_next, which samples and decodes text too. */
static void test_generate(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct test_alloc t = {0};
        infer_model *m = open_on(&t, TINY, threads);
        infer_session *s = session_of(m);
        infer_sampling sampling;
        infer_generate_options o;
        infer_event ev;
        uint64_t quiet = 0, tokens = 0, length;
        infer_session_info info;
        INFER_INIT(&sampling);
        ok(infer_sampling_default(&sampling, &error));
        sampling.repetition_penalty = 1.1f;
        sampling.top_logprobs = 3;
        sampling.logprobs = 1;
        ok(infer_session_set_sampling(s, &sampling, &error));
        ok(infer_session_append_text(s, "Once upon a time", INFER_ZSTR, INFER_TOKENIZE_ADD_SPECIAL, &error));
        INFER_INIT(&o);
        o.flags = INFER_GENERATE_IGNORE_EOS;
        ok(infer_generate_begin(s, &o, &error));
        INFER_INIT(&info);
        do {
            uint64_t before = t.calls;
            ok(infer_session_get_info(s, &info, &error));
            length = info.length;
            INFER_INIT(&ev);
            ok(infer_generate_next(s, &ev, NULL, &error));
            if (ev.kind != INFER_EVENT_TOKEN || ++tokens <= 3)
                continue;
            /* elements below `length` were computed; one was appended. The history doubles with the elements, one token later. */
            uint64_t calls = t.calls - before;
            bool page = length % PAGE == 1, doubled = length >= 256 && ((length & (length - 1)) == 0 || ((length - 1) & (length - 2)) == 0);
            if (calls && !page && !doubled)
                fail_msg("%llu allocations at element %llu", (unsigned long long)calls, (unsigned long long)length);
            quiet += calls == 0;
        } while (ev.kind != INFER_EVENT_DONE);
        assert_true(tokens > LEN / 2 && quiet > tokens - tokens / PAGE - 12);
        print_message("# %u threads: %llu tokens, %llu of them allocated nothing\n", threads, (unsigned long long)tokens,
                      (unsigned long long)quiet);
        infer_session_release(s);
        infer_model_release(m);
        assert_int_equal(t.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_step), cmocka_unit_test(test_generate)};
    return cmocka_run_group_tests_name("steady", tests, NULL, NULL);
}
