/* What a request gives does not depend on what runs beside it: 32 mixed requests, in any order, with pieces of any size, with and without the prefix
 * cache, set aside for want of memory or places, on models with sliding windows and with adapters, always have the bits that a session alone gives. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "sched_util.h"
#include "tempdir.h"

enum { N = 32 };

static struct sched_case cases[N];
static struct sched_answer want[N], got[N];

/* growing: short prompts with long answers */
static void make_cases(infer_model *m, bool growing)
{
    for (uint32_t k = 0; k < N; k++) {
        sched_case_of(&cases[k], k, sched_vocab(m));
        if (growing) {
            cases[k].n_ids = cases[k].n_ids < 30 + k ? cases[k].n_ids : 30 + k;
            cases[k].generate.max_tokens = 60;
            cases[k].flags = INFER_REQUEST_IGNORE_EOS;
        }
        sched_alone(m, &cases[k], 0, &want[k]);
    }
}

/* Submits all, some of them while others run, in an order that `order` decides; and compares. */
static infer_scheduler_info run_all(infer_model *m, const infer_scheduler_options *o, uint64_t order)
{
    infer_scheduler *s = sched_new(m, o);
    uint32_t at[N];
    memset(got, 0, sizeof got);
    for (uint32_t i = 0; i < N; i++)
        at[i] = i;
    for (uint32_t i = N - 1; i > 0; i--) {
        uint32_t j = (uint32_t)(test_rand(&order) % (i + 1)), t = at[i];
        at[i] = at[j];
        at[j] = t;
    }
    for (uint32_t i = 0; i < N; i++) {
        infer_request_release(sched_submit(s, &cases[at[i]], &got[at[i]]));
        for (uint64_t n = test_rand(&order) % 4; n-- > 2;)
            ok(infer_scheduler_step(s, NULL, NULL, &error));
    }
    sched_run(s);
    infer_scheduler_info info = sched_info(s);
    infer_scheduler_release(s);
    for (uint32_t k = 0; k < N; k++) {
        assert_int_equal(got[k].started, 1);
        assert_int_equal(got[k].ended, 1);
        sched_same(&want[k], &got[k]);
    }
    assert_int_equal(info.finished, N);
    assert_int_equal(info.active + info.suspended + info.waiting, 0);
    assert_int_equal(info.kv_bytes, 0);
    return info;
}

static void test_any_order_and_pieces(void **state)
{
    (void)state;
    static const uint32_t pieces[] = {1, 7, 64, 256};
    for (int cache = 0; cache < 2; cache++) {
        infer_model *m = sched_model(cache ? 64u << 20 : 0, 0);
        if (!cache)
            make_cases(m, false);
        for (uint64_t i = 0; i < 4; i++) {
            infer_scheduler_options o;
            INFER_INIT(&o);
            o.step_elements = pieces[i];
            o.max_active = i % 2 ? 32 : 5;
            infer_scheduler_info info = run_all(m, &o, 1 + i);
            assert_true(info.cached_tokens > 0); /* every other prompt begins like others */
        }
        infer_model_release(m);
    }
}

/* So little memory that answers are set aside again and again; with the scheduler's own budget, or the engine's. */
static void test_short_of_memory(void **state)
{
    (void)state;
    const char *folder = tempdir_make();
    infer_model *plain = sched_model(0, 0);
    uint64_t page_bytes = sched_page_bytes(plain);
    make_cases(plain, true);
    infer_model_release(plain);
    for (int way = 0; way < 8; way++) {
        infer_scheduler_options o;
        INFER_INIT(&o);
        uint64_t budget = 12 * page_bytes;
        infer_model *m = sched_model(way & 1 ? 64u << 20 : 0, way & 2 ? budget : 0);
        o.kv_budget = way & 2 ? 0 : budget;
        o.reserve_tokens = 1;
        if (way & 4) {
            o.spill_path = folder;
            o.spill_path_len = INFER_ZSTR;
        }
        infer_scheduler_info info = run_all(m, &o, 10);
        assert_true(info.preemptions > 0);
        assert_int_equal(info.kv_budget, budget);
        infer_model_release(m);
    }
    assert_int_equal(tempdir_count("aside"), 0);
    tempdir_remove();
}

/* Sliding windows, and adapters that change from request to request, in one batch. */
static void test_windows_and_adapters(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        infer_model *m = sched_model_of(fixture_path("gemma3"), 1, way & 1 ? 64u << 20 : 0, 0);
        infer_adapter *lora;
        infer_scheduler_options o;
        INFER_INIT(&o);
        o.step_elements = way & 2 ? 5 : 0;
        o.kv_budget = way & 2 ? 40 * sched_page_bytes(m) : 0;
        ok(infer_adapter_open_path(m, INFER_SOURCE_DIR "/tests/data/adapters/lora-gemma3", &lora, &error));
        for (uint32_t k = 0; k < N; k++) {
            sched_case_of(&cases[k], k, sched_vocab(m));
            cases[k].generate.max_tokens *= 2;
            cases[k].session.n_ctx = 512;
            cases[k].session.kv_type = k % 4 == 3 ? INFER_KV_MIXED_F16 : INFER_KV_F16;
            cases[k].adapter = k % 3 ? lora : NULL;
            cases[k].scale = k % 3 == 1 ? 1.0f : 0.5f;
            if (!way)
                sched_alone(m, &cases[k], 0, &want[k]);
        }
        run_all(m, &o, 77 + (uint64_t)way);
        infer_adapter_release(lora);
        infer_model_release(m);
    }
}

/* Priorities and too little memory at once. */
static void test_windows_short_of_memory(void **state)
{
    (void)state;
    const char *folder = tempdir_make();
    for (int way = 0; way < 4; way++) {
        infer_model *m = sched_model_of(fixture_path("gemma3"), 1, way & 1 ? 64u << 20 : 0, 0);
        infer_scheduler_options o;
        INFER_INIT(&o);
        o.max_active = 4;
        o.kv_budget = 16 * sched_page_bytes(m);
        o.reserve_tokens = 1;
        if (way & 2) {
            o.spill_path = folder;
            o.spill_path_len = INFER_ZSTR;
        }
        for (uint32_t k = 0; k < N; k++) {
            sched_case_of(&cases[k], k, sched_vocab(m));
            cases[k].flags = INFER_REQUEST_IGNORE_EOS;
            cases[k].generate.max_tokens = 60;
            cases[k].session.n_ctx = 512;
            cases[k].priority = (int32_t)(k % 5);
            if (!way)
                sched_alone(m, &cases[k], 0, &want[k]);
        }
        assert_true(run_all(m, &o, 5).preemptions > 0);
        infer_model_release(m);
    }
    assert_int_equal(tempdir_count("aside"), 0);
    tempdir_remove();
}

/* Answers whose context was shifted: what they hold cannot be computed again. With a folder they go there and come back, without one they stay. */
static void test_shifted_answers(void **state)
{
    (void)state;
    enum { SHIFTED = 6 };
    const char *folder = tempdir_make();
    for (int way = 0; way < 2; way++) {
        infer_model *m = sched_model(0, 0);
        infer_scheduler_options o;
        int most_files = 0;
        INFER_INIT(&o);
        o.kv_budget = 8 * sched_page_bytes(m);
        o.max_active = SHIFTED;
        o.reserve_tokens = 1;
        if (way) {
            o.spill_path = folder;
            o.spill_path_len = INFER_ZSTR;
        }
        infer_scheduler *s = sched_new(m, &o);
        memset(got, 0, sizeof got);
        for (uint32_t k = 0; k < SHIFTED; k++) {
            sched_case_of(&cases[k], k, sched_vocab(m));
            cases[k].n_ids = 60;
            cases[k].session.n_ctx = way ? 110 : 64;
            cases[k].generate.shift_keep = 4;
            cases[k].generate.shift_drop = way ? 100 : 30; /* down to one page, and up to two again */
            cases[k].generate.max_tokens = 60;
            cases[k].flags = INFER_REQUEST_IGNORE_EOS;
            sched_alone(m, &cases[k], 0, &want[k]);
        }
        for (uint32_t k = 0; k < SHIFTED; k++)
            infer_request_release(sched_submit(s, &cases[k], &got[k]));
        for (int32_t more = 1; more;) {
            ok(infer_scheduler_step(s, &more, NULL, &error));
            int files = tempdir_count("");
            most_files = files > most_files ? files : most_files;
        }
        assert_true(!way || (sched_info(s).preemptions > 0 && most_files > 0));
        infer_scheduler_release(s);
        infer_model_release(m);
        for (uint32_t k = 0; k < SHIFTED; k++)
            sched_same(&want[k], &got[k]);
        assert_int_equal(tempdir_count(""), 0);
    }
    tempdir_remove();
}

/* A file in which an answer waits is damaged while it waits. */
static void damage(const char *path)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long size = ftell(f);
    for (long at = size / 4; at < size; at += 97) {
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        assert_int_equal(fputc(0x5A, f), 0x5A);
    }
    assert_int_equal(fclose(f), 0);
}

/* Files that cannot be written, or are damaged or gone when they are wanted back: what they held is computed again. */
static void test_spill_fails(void **state)
{
    (void)state;
    const char *folder = tempdir_make();
    static char path[512], file[1024];
    for (int way = 0; way < 3; way++) {
        infer_model *m = sched_model(0, 0);
        infer_scheduler_options o;
        int spoilt = 0;
        (void)snprintf(path, sizeof path, "%s/way%d", folder, way);
        INFER_INIT(&o);
        o.kv_budget = 6 * sched_page_bytes(m);
        o.reserve_tokens = 1;
        o.spill_path = path;
        o.spill_path_len = INFER_ZSTR;
        if (!way)
            make_cases(m, true);
        infer_scheduler *s = sched_new(m, &o);
        if (way == 0)
            assert_int_equal(rmdir(path), 0);
        memset(got, 0, sizeof got);
        for (uint32_t k = 0; k < N; k++)
            infer_request_release(sched_submit(s, &cases[k], &got[k]));
        for (int32_t more = 1; more;) {
            ok(infer_scheduler_step(s, &more, NULL, &error));
            DIR *d = way ? opendir(path) : NULL;
            for (struct dirent *e; d && (e = readdir(d)) != NULL;)
                if (e->d_name[0] != '.') {
                    (void)snprintf(file, sizeof file, "%s/%s", path, e->d_name);
                    spoilt++;
                    if (way == 1)
                        damage(file);
                    else
                        assert_int_equal(unlink(file), 0);
                }
            if (d)
                (void)closedir(d);
        }
        assert_true(sched_info(s).preemptions > 0 && (spoilt > 0 || !way));
        infer_scheduler_release(s);
        infer_model_release(m);
        for (uint32_t k = 0; k < N; k++)
            sched_same(&want[k], &got[k]);
    }
    tempdir_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order_and_pieces),
        cmocka_unit_test(test_short_of_memory),
        cmocka_unit_test(test_windows_and_adapters),
        cmocka_unit_test(test_windows_short_of_memory),
        cmocka_unit_test(test_shifted_answers),
        cmocka_unit_test(test_spill_fails),
    };
    return cmocka_run_group_tests_name("scheduler_mixed", tests, NULL, NULL);
}
