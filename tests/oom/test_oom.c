/* The host's allocator fails at every allocation: see oom.h. With the argument "short" a part of the runs, spread over all allocations. */
#include "oom.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenes.h"

/* ---- An allocator that fails on order, counts, and checks what it is given back. Blocks hold no zeros when they are new, and nothing that was in them
 * when they are freed: who relies on either gets other results. */

struct head {
    uint64_t magic, bytes, align;
};
#define MAGIC 0x6f6f6d2d626c6f6bu

static atomic_uint_fast64_t calls, fail_at;
static atomic_bool fail_rest, paused;
static atomic_int_fast64_t blocks, bytes_live;

static void *give(void *user, uint64_t bytes, uint64_t align)
{
    (void)user;
    uint64_t n = paused ? 0 : ++calls, at = paused ? 0 : fail_at;
    if (at && (n == at || (fail_rest && n > at)))
        return NULL;
    uint64_t room = align < sizeof(struct head) ? (sizeof(struct head) + align - 1) / align * align : align;
    void *base = NULL;
    if (posix_memalign(&base, align < sizeof(void *) ? sizeof(void *) : align, room + bytes) != 0)
        return NULL;
    char *p = (char *)base + room;
    struct head h = {MAGIC, bytes, align};
    memcpy(p - sizeof h, &h, sizeof h);
    memset(p, 0xa5, bytes);
    blocks++;
    bytes_live += (int64_t)bytes;
    return p;
}

static void take(void *user, void *block, uint64_t bytes, uint64_t align)
{
    struct head h;
    char *p = block;
    (void)user;
    memcpy(&h, p - sizeof h, sizeof h);
    if (h.magic != MAGIC || h.bytes != bytes || h.align != align)
        fail_msg("a block of %llu bytes (alignment %llu) was freed as one of %llu (%llu)", (unsigned long long)h.bytes, (unsigned long long)h.align,
                 (unsigned long long)bytes, (unsigned long long)align);
    uint64_t room = align < sizeof(struct head) ? (sizeof(struct head) + align - 1) / align * align : align;
    memset(p - sizeof h, 0x5a, sizeof h + bytes);
    free(p - room);
    blocks--;
    bytes_live -= (int64_t)bytes;
}

static const infer_allocator allocator = {.size = sizeof allocator, .alloc = give, .free = take};

static void arm(uint64_t at, bool rest)
{
    calls = 0;
    fail_at = at;
    fail_rest = rest;
}

static uint64_t calls_made(void)
{
    return calls;
}

static void pause_(bool on)
{
    paused = on;
}

static void check(const char *when)
{
    if (blocks || bytes_live)
        fail_msg("%s: %lld blocks of %lld bytes are left", when, (long long)blocks, (long long)bytes_live);
}

static void forget(void)
{
    blocks = bytes_live = 0;
}

static const struct seam seam = {.name = "allocation", .arm = arm, .pause = pause_, .calls = calls_made, .check = check, .forget = forget, .allocator = &allocator,
                                 .errors = {INFER_ERROR_NO_MEMORY}};

/* ---- one test for each scenario */

static struct oom_plan plan;
static uint64_t tried, points;

static void test_scenario(void **state)
{
    if (!oom_can_run(*state))
        skip();
    uint64_t of, n = oom_loop(*state, &seam, &plan, &of);
    print_message("# %s: %llu of %llu failing points\n", ((const struct scenario *)*state)->name, (unsigned long long)n, (unsigned long long)of);
    assert_true(n >= 20 || n == of);
    tried += n;
    points += of;
}

static void test_sum(void **state)
{
    (void)state;
    print_message("# in all %llu of %llu failing points\n", (unsigned long long)tried, (unsigned long long)points);
    assert_true(tried > 2000);
}

int main(int argc, char **argv)
{
    const struct scenario *const groups[] = {oom_files, oom_sessions, oom_state, oom_more};
    struct CMUnitTest tests[80];
    size_t n = 0;
    const char *only = NULL;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "short") == 0)
            plan.most = 60;
        else
            only = argv[i];
    scenes_make();
    oom_folder_make();
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
        for (const struct scenario *s = groups[g]; s->name; s++)
            if (strcmp(s->name, "without an engine") != 0 && (!only || strstr(s->name, only)))
                tests[n++] = (struct CMUnitTest){s->name, test_scenario, NULL, NULL, (void *)(uintptr_t)s};
    if (!only)
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_sum);
    int failed = _cmocka_run_group_tests("oom", tests, n, NULL, NULL);
    oom_folder_remove();
    return failed;
}
