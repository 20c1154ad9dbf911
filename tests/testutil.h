/* What tests share. Paths: INFER_SOURCE_DIR (the checkout), INFER_SHARED_DIR (extra data that a user may lack), INFER_BUILD_DIR. */
#ifndef TESTUTIL_H
#define TESTUTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/env.h"
#include "infer/state.h"

/* The whole file, zero-terminated, malloc'ed; NULL when it cannot be read. */
char *test_read_file(const char *path, size_t *len);

/* Skips the running test, visibly, when the extra data is absent. */
#define TEST_NEEDS_SHARED()                                                                                            \
    do {                                                                                                               \
        if (!test_has_shared())                                                                                        \
            skip();                                                                                                    \
    } while (0)
int test_has_shared(void);

/* An allocator that counts, and that fails the fail_at-th allocation (from 1; 0: none) and every later one when fail_rest is set. */
struct test_alloc {
    uint64_t calls;
    uint64_t fail_at;
    int fail_rest;
    int64_t live; /* blocks not yet freed */
    int64_t live_bytes, peak_bytes;
};
struct alloc test_alloc_of(struct test_alloc *t);
infer_allocator test_infer_allocator(struct test_alloc *t); /* as a host gives it */
struct env test_env_of(struct test_alloc *t); /* the same with the default files and no log */

/* A small xorshift generator with a stated seed. */
uint64_t test_rand(uint64_t *state);
float test_rand_f32(uint64_t *state); /* roughly normal, sd 1 */

/* n bytes that end exactly at an unmapped page (and begin right after one when n is a multiple of the page size). */
void *test_guard_alloc(size_t n);
void test_guard_free(void *p, size_t n);

#endif
