/* Older and newer callers: each public struct that begins with its size is given as a shorter and as a longer one, with fields that this library does
 * not know, with sizes that cannot be, and with a reserved field that is set. An older program's struct ends early: what lies behind it is not the
 * library's to read or write. A newer program's goes on: as long as that is zero, it works. */
#include "testutil.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "callers_calls.h"
#include "golden.h"
#include "ok.h"

enum { ROOM = API_MAX_STRUCT + 256, BEHIND = 0xFF };

static _Alignas(16) unsigned char room[ROOM];
static infer_error err;

static int setup(void **state)
{
    (void)state;
    INFER_INIT(&error);
    callers_open();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    callers_close();
    return 0;
}

/* The first `size` bytes of the filled struct, zeros where it is longer, BEHIND in all bytes that follow. Its size field says `size`. */
static void *lay_out(const struct caller *c, uint32_t size)
{
    uint64_t full[128] = {0};
    assert_true(c->size <= sizeof full);
    if (c->fill)
        c->fill(full);
    memset(room, BEHIND, sizeof room);
    memset(room, 0, size < sizeof room ? size : sizeof room);
    memcpy(room, full, size < c->size ? size : c->size);
    memcpy(room, &size, sizeof size);
    return room;
}

/* Nothing was written behind the struct, and its size is what it was. */
static void check_behind(const struct caller *c, uint32_t size)
{
    uint32_t now;
    memcpy(&now, room, sizeof now);
    if (now != size)
        fail_msg("%s: the size field of %u became %u", c->type, size, now);
    for (uint32_t i = size; i < sizeof room; i++)
        if (room[i] != BEHIND)
            fail_msg("%s of %u bytes: byte %u behind it was written", c->type, size, i);
}

static void call_ok(const struct caller *c, uint32_t size, const char *what)
{
    INFER_INIT(&err);
    infer_status st = c->call(lay_out(c, size), &err);
    if (st != INFER_OK)
        fail_msg("%s of %u bytes (%s): %s: %s (%s)", c->type, size, what, infer_status_name(st), err.text, err.name);
    check_behind(c, size);
}

static void check_refused(const struct caller *c, infer_status st, const char *name, const char *what)
{
    if (st != INFER_ERROR_ARGUMENT)
        fail_msg("%s: %s: %s", c->type, what, infer_status_name(st));
    if (err.code != INFER_ERROR_ARGUMENT || strcmp(err.name, name) || !strstr(err.text, c->type))
        fail_msg("%s: %s: the error names '%s': %s", c->type, what, err.name, err.text);
}

/* A struct of any size that an older program may have behaves as one whose further fields are zero. */
static void test_older_options(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_callers; i++)
        if (callers[i].kind & CALLER_OPTIONS)
            for (uint32_t size = callers[i].min; size <= callers[i].size; size += 4)
                call_ok(&callers[i], size, "older");
}

/* The same, with a page behind the struct that cannot be read. */
static void test_older_options_are_not_read_past_their_end(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_callers; i++) {
        const struct caller *c = &callers[i];
        for (uint32_t size = (c->min + 7) / 8 * 8; size <= c->size; size += 8) {
            void *x = test_guard_alloc(size);
            memcpy(x, lay_out(c, size), size);
            INFER_INIT(&err);
            infer_status st = c->call(x, &err);
            test_guard_free(x, size);
            if (st != INFER_OK)
                fail_msg("%s of %u bytes: %s (%s)", c->type, size, err.text, err.name);
        }
    }
}

static void test_newer_options_of_zeros(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_callers; i++) {
        call_ok(&callers[i], callers[i].size + 4, "newer");
        call_ok(&callers[i], callers[i].size + 8, "newer");
        call_ok(&callers[i], callers[i].size + 64, "newer");
        call_ok(&callers[i], API_MAX_STRUCT, "newer");
    }
}

/* A field that the library does not know is set: it cannot do what it asks for, and says so. */
static void test_newer_options_with_a_field(void **state)
{
    (void)state;
    static const uint32_t more[] = {1, 4, 8, 24, 300};
    for (uint32_t i = 0; i < n_callers; i++) {
        const struct caller *c = &callers[i];
        if (!(c->kind & CALLER_OPTIONS))
            continue;
        for (uint32_t k = 0; k < sizeof more / sizeof *more; k++)
            for (int last = 0; last < 2; last++) {
                unsigned char before[1024], *x = lay_out(c, c->size + more[k]);
                x[last ? c->size + more[k] - 1 : c->size] = 1;
                memcpy(before, x, sizeof before);
                INFER_INIT(&err);
                check_refused(c, c->call(x, &err), c->type, "a field that is not known");
                assert_memory_equal(before, x, sizeof before);
            }
    }
}

static void test_sizes_that_cannot_be(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_callers; i++) {
        const struct caller *c = &callers[i];
        const uint32_t sizes[] = {0, 1, 3, 4, c->min - 1, API_MAX_STRUCT + 1, (uint32_t)INT32_MAX, (uint32_t)INT32_MAX + 1, UINT32_MAX};
        for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            unsigned char before[1024], *x = lay_out(c, c->size);
            memcpy(x, &sizes[k], 4);
            memcpy(before, x, sizeof before);
            INFER_INIT(&err);
            check_refused(c, c->call(x, &err), c->type, "a size that cannot be");
            assert_memory_equal(before, x, sizeof before); /* an output was not begun */
        }
    }
}

static void test_reserved_fields(void **state)
{
    (void)state;
    uint32_t tried = 0;
    for (uint32_t i = 0; i < n_callers; i++) {
        const struct caller *c = &callers[i];
        if (!(c->kind & CALLER_OPTIONS) || !c->reserved)
            continue;
        for (uint32_t byte = 0; byte < 4; byte++) {
            unsigned char *x = lay_out(c, c->size);
            x[c->reserved + byte] = 0x80;
            INFER_INIT(&err);
            check_refused(c, c->call(x, &err), "reserved", "reserved is set");
            tried++;
        }
    }
    assert_true(tried > 30);
}

/* An older program gets the fields that it has, a newer one zeros in those that are not known, and nobody more than fits. */
static void test_outputs(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_callers; i++) {
        const struct caller *c = &callers[i];
        unsigned char want[1024];
        if (!(c->kind & CALLER_OUTPUT))
            continue;
        call_ok(c, c->size, "output");
        memcpy(want, room, c->size);
        for (uint32_t size = c->min; size <= c->size + 64; size += 4) {
            call_ok(c, size, "output");
            if (c->kind & CALLER_VARIES)
                continue;
            for (uint32_t at = 4; at < size && at < c->size; at++)
                if (room[at] != want[at] && !(c->pointer && at >= c->pointer && at < c->pointer + sizeof(void *)))
                    fail_msg("%s of %u bytes: byte %u differs from that of the whole struct", c->type, size, at);
            for (uint32_t at = c->size; at < size; at++)
                if (room[at])
                    fail_msg("%s of %u bytes: byte %u, which is not known, was set", c->type, size, at);
        }
    }
}

/* The outputs that the case before compares say something. */
static void test_outputs_are_written(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_callers; i++) {
        const struct caller *c = &callers[i];
        if (!(c->kind & CALLER_OUTPUT) || !strcmp(c->type, "infer_cache_stats")) /* all zero without a cache */
            continue;
        unsigned char before[1024];
        memcpy(before, lay_out(c, c->size), c->size);
        call_ok(c, c->size, "output");
        if (!memcmp(before, room, c->size) && strcmp(c->type, "infer_cache_report"))
            fail_msg("%s: nothing was written", c->type);
    }
}

static void test_every_struct_is_tried(void **state)
{
    (void)state;
#define NAME(type, last, reserved) #type,
    static const char *const types[] = {API_STRUCTS(NAME)};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        bool found = !strcmp(types[i], "infer_error") || !strcmp(types[i], "infer_stream"); /* have cases of their own */
        for (uint32_t k = 0; k < n_callers; k++)
            found |= !strcmp(types[i], callers[k].type);
        if (!found)
            fail_msg("%s has no row in callers_calls.c", types[i]);
    }
}

/* ---- Arrays: items lie as far apart as the caller's own struct is long ---- */

static void test_step_items(void **state)
{
    (void)state;
    const uint32_t full = (uint32_t)sizeof(infer_step_item), sizes[] = {API_MIN_infer_step_item, full, full + 8, full + 64};
    for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        infer_step_item it = {.size = sizes[k], .status = -99};
        infer_session *s[3];
        memset(room, BEHIND, sizeof room);
        memset(room, 0, 3 * sizes[k]);
        for (uint32_t i = 0; i < 3; i++) {
            int32_t ids[] = {8, 9, 10};
            s[i] = it.session = callers_session();
            ok(infer_session_append(s[i], ids, i + 1, &error));
            memcpy(room + i * sizes[k], &it, sizes[k] < full ? sizes[k] : full);
        }
        ok(infer_step((infer_step_item *)(void *)room, 3, NULL, &error));
        for (uint32_t i = 0; i < 3; i++) {
            memcpy(&it, room + i * sizes[k], API_MIN_infer_step_item);
            assert_int_equal(it.size, sizes[k]);
            assert_int_equal(it.status, INFER_OK);
            assert_ptr_equal(it.session, s[i]);
            assert_int_equal(it.done, i + 1);
            infer_session_release(s[i]);
        }
        for (uint32_t i = 3 * sizes[k]; i < sizeof room; i++)
            assert_int_equal(room[i], BEHIND);
    }
}

static void test_embed_items(void **state)
{
    (void)state;
    const uint32_t full = (uint32_t)sizeof(infer_embed_item), sizes[] = {API_MIN_infer_embed_item, full, full + 8, full + 64};
    static const int32_t ids[] = {5, 6, 7};
    infer_model_info info;
    INFER_INIT(&info);
    ok(infer_model_get_info(callers_model(), &info, &error));
    float *out = calloc(3 * (size_t)info.embedding_width, sizeof *out);
    assert_non_null(out);
    for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        infer_embed_item it = {.size = sizes[k], .status = -99, .ids = ids, .capacity = info.embedding_width};
        memset(room, BEHIND, sizeof room);
        memset(room, 0, 3 * sizes[k]);
        for (uint32_t i = 0; i < 3; i++) {
            it.id_count = i + 1;
            it.out = out + i * (size_t)info.embedding_width;
            memcpy(room + i * sizes[k], &it, sizes[k] < full ? sizes[k] : full);
        }
        ok(infer_embed(callers_model(), (infer_embed_item *)(void *)room, 3, NULL, NULL, &error));
        for (uint32_t i = 0; i < 3; i++) {
            memcpy(&it, room + i * sizes[k], API_MIN_infer_embed_item);
            assert_int_equal(it.size, sizes[k]);
            assert_int_equal(it.status, INFER_OK);
            assert_int_equal(it.rows, 1);
            assert_int_equal(it.tokens, i + 1);
        }
        for (uint32_t i = 3 * sizes[k]; i < sizeof room; i++)
            assert_int_equal(room[i], BEHIND);
    }
    free(out);
}

static void test_adapter_uses(void **state)
{
    (void)state;
    static const float scales[] = {0.25f, 0.5f, 0.75f};
    const uint32_t full = (uint32_t)sizeof(infer_adapter_use), sizes[] = {API_MIN_infer_adapter_use, full, full + 8, full + 64};
    for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        infer_session *s = callers_session();
        memset(room, 0, sizeof room);
        for (uint32_t i = 0; i < 3; i++) {
            infer_adapter_use u = {.size = sizes[k], .adapter = callers_adapter(), .scale = scales[i]};
            memcpy(room + i * sizes[k], &u, sizes[k] < full ? sizes[k] : full);
        }
        ok(infer_session_set_adapters(s, (const infer_adapter_use *)(const void *)room, 3, &error));
        for (uint32_t i = 0; i < 3; i++) {
            infer_adapter_use u;
            INFER_INIT(&u);
            ok(infer_session_adapter(s, i, &u, &error));
            assert_ptr_equal(u.adapter, callers_adapter());
            assert_float_equal(u.scale, scales[i], 0);
        }
        infer_session_release(s);
    }
}

/* Items of a call have one size, and in an array one that keeps pointers straight; what lies behind a field that is not known counts. */
static void test_bad_arrays(void **state)
{
    (void)state;
    infer_step_item it[3];
    infer_session *s[3];
    for (int i = 0; i < 3; i++) {
        INFER_INIT(&it[i]);
        it[i].session = s[i] = callers_session();
    }
    it[1].size -= 8;
    assert_int_equal(infer_step(it, 3, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "size");
    it[1].size = it[0].size;
    it[0].size -= 4;
    assert_int_equal(infer_step(it, 3, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "size");
    it[0].size += 4;
    it[2].reserved = 1;
    assert_int_equal(infer_step(it, 3, NULL, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "reserved");
    it[2].reserved = 0;
    ok(infer_step(it, 3, NULL, &error));
    for (int i = 0; i < 3; i++)
        infer_session_release(s[i]);
}

/* ---- Structs that the library hands out, and errors ---- */

static struct {
    uint32_t size, set_size, set_reserved;
    int released;
} stream;

static void release_stream(void *user)
{
    (void)user;
    stream.released++;
}

static infer_status open_stream(void *user, const char *name, uint64_t name_len, infer_stream *out)
{
    (void)name, (void)name_len;
    stream.size = out->size;
    out->data = user;
    out->length = 4;
    out->release = release_stream;
    if (stream.set_size)
        out->size = stream.set_size;
    out->reserved = stream.set_reserved;
    return INFER_OK;
}

static infer_status open_with(uint32_t set_size, uint32_t set_reserved)
{
    infer_source source;
    infer_file *f = NULL;
    static const char not_a_model[32] = "?";
    stream.set_size = set_size;
    stream.set_reserved = set_reserved;
    stream.released = 0;
    infer_source_callback(&source, "x", 1, open_stream, (void *)(uintptr_t)not_a_model);
    infer_status st = infer_file_open(NULL, &source, NULL, &f, &error);
    assert_null(f);
    return st;
}

static void test_streams(void **state)
{
    (void)state;
    infer_status read = open_with(0, 0); /* was read, and is no model */
    assert_true(read == INFER_ERROR_FORMAT || read == INFER_ERROR_TRUNCATED || read == INFER_ERROR_UNSUPPORTED);
    assert_int_equal(stream.size, sizeof(infer_stream));
    assert_int_equal(open_with((uint32_t)sizeof(infer_stream), 0), read);
    assert_int_equal(open_with((uint32_t)sizeof(infer_stream) + 8, 0), INFER_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "infer_stream"));
    assert_int_equal(stream.released, 1);
    assert_int_equal(open_with(0, 1), INFER_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "infer_stream"));
    assert_int_equal(stream.released, 1);
}

/* An error goes into what the caller has room for; its texts end in a zero wherever they are cut. A size that cannot be: nothing is written. */
static void test_errors(void **state)
{
    (void)state;
    infer_error full;
    INFER_INIT(&full);
    assert_int_equal(infer_model_open_path(NULL, "no such file.gguf", NULL, &full), INFER_ERROR_ARGUMENT);
    for (uint32_t size = 0; size < sizeof full + 64; size++) {
        memset(room, BEHIND, sizeof room);
        memset(room, 0, size > 4 ? size : 4);
        memcpy(room, &size, 4);
        assert_int_equal(infer_model_open_path(NULL, "no such file.gguf", NULL, (infer_error *)(void *)room), INFER_ERROR_ARGUMENT);
        for (uint32_t i = size > 4 ? size : 4; i < sizeof full + 128; i++)
            assert_int_equal(room[i], BEHIND);
        uint32_t now, code;
        memcpy(&now, room, 4);
        memcpy(&code, room + 4, 4);
        assert_int_equal(now, size);
        if (size >= 8)
            assert_int_equal((int32_t)code, INFER_ERROR_ARGUMENT);
        if (size >= sizeof full) {
            assert_memory_equal(room + 4, (char *)&full + 4, sizeof full - 4);
        } else if (size > offsetof(infer_error, text)) {
            assert_int_equal(room[size - 1], 0);
            assert_memory_equal(room + offsetof(infer_error, text), full.text, strlen((char *)room + offsetof(infer_error, text)));
        }
    }
    static const uint32_t absurd[] = {API_MAX_STRUCT + 1, UINT32_MAX};
    for (int k = 0; k < 2; k++) {
        memset(room, BEHIND, sizeof room);
        memcpy(room, &absurd[k], 4);
        assert_int_equal(infer_model_open_path(NULL, "no such file.gguf", NULL, (infer_error *)(void *)room), INFER_ERROR_ARGUMENT);
        for (uint32_t i = 4; i < sizeof room; i++)
            assert_int_equal(room[i], BEHIND);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_struct_is_tried),
        cmocka_unit_test(test_older_options),
        cmocka_unit_test(test_older_options_are_not_read_past_their_end),
        cmocka_unit_test(test_newer_options_of_zeros),
        cmocka_unit_test(test_newer_options_with_a_field),
        cmocka_unit_test(test_sizes_that_cannot_be),
        cmocka_unit_test(test_reserved_fields),
        cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_outputs_are_written),
        cmocka_unit_test(test_step_items),
        cmocka_unit_test(test_embed_items),
        cmocka_unit_test(test_adapter_uses),
        cmocka_unit_test(test_bad_arrays),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
