/* Checkpoint files that are damaged, foreign, forged, cut short or change under us; memory and disks that fail (hostile inputs N14, N15, N30). */
#define _DEFAULT_SOURCE
#include "ckpt_tests.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "kv_seal.h"

static uint8_t *image(const char *name, size_t *n)
{
    uint8_t *data = (uint8_t *)test_read_file(tempdir_path(name), n);
    assert_non_null(data);
    return data;
}

static infer_status load(const struct ckpt_model *m, const char *name, infer_checkpoint **c)
{
    return ckpt_load(m, name, INFER_MAP_AUTO, INFER_VERIFY_FIRST_USE, c);
}

/* Saves a session of some length under this name. */
static infer_session *sample(const struct ckpt_model *m, int32_t kv_type, const char *name)
{
    infer_session *s = ckpt_session(m, kv_type);
    ckpt_append(m, s, 0, 200);
    ckpt_step(s);
    ok(ckpt_save(s, name, 0, NULL));
    return s;
}

static void refused(const struct ckpt_model *m, const char *name, infer_status want, const char *text)
{
    infer_checkpoint *c = NULL;
    infer_status st = load(m, name, &c);
    if (st != want || (text && !strstr(error.text, text)))
        fail_msg("%s: %s: %s", name, infer_status_name(st), st == INFER_OK ? "" : error.text);
    assert_null(c);
    assert_string_equal(error.file, tempdir_path(name));
}

/* Opens damaged bytes. 0: refused; 1: the damage is in a page, and the step that meets it fails and leaves the session as it was; a good
 * checkpoint then still restores into it. */
static int try_damaged(const struct ckpt_model *m, const uint8_t *data, size_t n, size_t at, const infer_checkpoint *good,
                       const infer_session *want)
{
    infer_checkpoint *c;
    infer_session *s;
    tempdir_write("hurt", data, n);
    if (load(m, "hurt", &c) != INFER_OK)
        return 0;
    ok(infer_checkpoint_session(c, &s, &error));
    ckpt_append(m, s, 3, 5);
    for (int i = 0; i < 2; i++) { /* and again: it stays wrong */
        infer_status st = ckpt_try_step(s);
        if (st != INFER_ERROR_FORMAT)
            fail_msg("damage at byte %zu of %zu: %s", at, n, infer_status_name(st));
        assert_string_equal(error.file, tempdir_path("hurt"));
        assert_int_equal(s->length, 205);
        assert_int_equal(s->computed, 200);
    }
    assert_int_equal(ckpt_save(s, "laundered", 0, NULL), INFER_ERROR_FORMAT);
    assert_int_equal(tempdir_size("laundered"), -1);
    ok(infer_session_restore(s, good, &error));
    ckpt_append(m, s, 3, 5);
    ckpt_step(s);
    ckpt_same_logits(s, want);
    infer_session_release(s);
    infer_checkpoint_release(c);
    assert_int_equal(ckpt_load(m, "hurt", INFER_MAP_READ, INFER_VERIFY_LOAD, &c), INFER_ERROR_FORMAT);
    return 1;
}

static void test_damage(void **state)
{
    (void)state;
    NEEDS_HASH();
    static const char *const fixtures[] = {"llama", "gemma3"};
    for (int f = 0; f < 2; f++) {
        struct ckpt_model m = ckpt_open(fixtures[f]);
        infer_session *s = sample(&m, INFER_KV_MIXED_F16, "whole");
        infer_checkpoint *good;
        size_t n;
        int in_pages = 0, refusals = 0;
        ok(load(&m, "whole", &good));
        ckpt_append(&m, s, 3, 5);
        ckpt_step(s);
        uint8_t *data = image("whole", &n);
        const struct kv_file_header *h = (const struct kv_file_header *)data;
        const struct kv_section *t = (const struct kv_section *)(data + h->table_offset);
        for (uint32_t i = 0; i < h->n_sections + 2; i++) { /* sections; header; table */
            uint64_t from = i < h->n_sections ? t[i].offset : i == h->n_sections ? 0 : h->table_offset;
            uint64_t bytes = i < h->n_sections ? t[i].stored : i == h->n_sections ? KV_FILE_HEADER : n - h->table_offset;
            for (int k = 0; k < 8 && bytes; k++) {
                size_t at = (size_t)(from + (k == 7 ? bytes - 1 : bytes * (uint64_t)k / 7));
                data[at] ^= (uint8_t)(1 << k);
                int met = try_damaged(&m, data, n, at, good, s);
                data[at] ^= (uint8_t)(1 << k);
                in_pages += met;
                refusals += !met;
                assert_true(!met || (i < h->n_sections && t[i].kind == KV_SECTION_PAGES));
            }
        }
        print_message("# %d damages found when the file was opened, %d when the page was used\n", refusals, in_pages);
        assert_true(in_pages >= 7 && refusals > 40);
        free(data);
        infer_checkpoint_release(good);
        infer_session_release(s);
        ckpt_close(&m);
    }
}

static void test_cut(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("gemma3");
    infer_session *s = sample(&m, INFER_KV_F16, "whole");
    size_t n;
    uint8_t *data = image("whole", &n);
    const struct kv_file_header *h = (const struct kv_file_header *)data;
    const struct kv_section *t = (const struct kv_section *)(data + h->table_offset);
    for (uint32_t i = 0; i <= h->n_sections; i++) {
        uint64_t at = i < h->n_sections ? t[i].offset : h->table_offset;
        for (uint64_t k = at - 1; k <= at + 1; k++) {
            tempdir_write("cut", data, (size_t)k);
            refused(&m, "cut", INFER_ERROR_TRUNCATED, "cut short");
        }
    }
    free(data);
    infer_session_release(s);
    ckpt_close(&m);
}

struct forgery {
    size_t at, width; /* in the state record */
    uint64_t value;
    infer_status st;
    const char *text;
};

#define FIELD(field) offsetof(struct ckpt_state, field), sizeof(((struct ckpt_state *)0)->field)

/* Fields of the state, with good checksums. */
static void test_forged_state(void **state)
{
    (void)state;
    NEEDS_HASH();
    static const struct forgery forgeries[] = {
        {FIELD(numerics_version), INFER_NUMERICS_VERSION + 1, INFER_ERROR_VALUE, "numerics version"},
        {FIELD(numerics), INFER_NUMERICS_PRECISE, INFER_ERROR_VALUE, "numerics mode"},
        {FIELD(kv_type), INFER_KV_F32, INFER_ERROR_VALUE, "layout"},
        {FIELD(kv_type), 99, INFER_ERROR_VALUE, "KV type"},
        {FIELD(kv_recent), 64, INFER_ERROR_FORMAT, "KV mode"},
        {FIELD(adapters), 77, INFER_ERROR_FORMAT, "adapters"},
        {FIELD(model[0].lo), 1, INFER_ERROR_VALUE, "another model"},
        {FIELD(model[1].hi), 1, INFER_ERROR_VALUE, "another model"},
        {FIELD(tokenizer.lo), 1, INFER_ERROR_VALUE, "tokenizer"},
        {FIELD(page_elements), 32, INFER_ERROR_VALUE, "layout"},
        {FIELD(n_groups), 2, INFER_ERROR_VALUE, "layout"},
        {FIELD(page_bytes[0]), 4096, INFER_ERROR_VALUE, "layout"},
        {FIELD(window[1]), 5, INFER_ERROR_VALUE, "layout"},
        {FIELD(n_ctx), 0, INFER_ERROR_FORMAT, "impossible"},
        {FIELD(n_ctx), UINT32_MAX, INFER_ERROR_FORMAT, "impossible"},
        {FIELD(n_embd), 1, INFER_ERROR_VALUE, "layout"},
        {FIELD(n_logits), 1, INFER_ERROR_VALUE, "layout"},
        {FIELD(length), 199, INFER_ERROR_FORMAT, "impossible"},
        {FIELD(length), 201, INFER_ERROR_FORMAT, "length"},
        {FIELD(length), UINT64_MAX, INFER_ERROR_FORMAT, "impossible"},
        {FIELD(computed), 100, INFER_ERROR_FORMAT, "number of elements"},
        {FIELD(computed), 201, INFER_ERROR_FORMAT, "impossible"},
        {FIELD(computed), UINT64_MAX, INFER_ERROR_FORMAT, "impossible"},
        {FIELD(n_rows), 1, INFER_ERROR_FORMAT, NULL},
        {FIELD(n_rows), (uint64_t)1 << 63, INFER_ERROR_FORMAT, "impossible"},
        {FIELD(logits_rows), 2, INFER_ERROR_FORMAT, "logits"},
        {FIELD(logits_rows), (uint64_t)1 << 62, INFER_ERROR_FORMAT, "impossible"},
        {FIELD(bias_count), 1, INFER_ERROR_FORMAT, "biases"},
        {FIELD(bias_count), (uint64_t)1 << 61, INFER_ERROR_FORMAT, "impossible"},
        {FIELD(first_element), 10, INFER_ERROR_FORMAT, "impossible"},
        {FIELD(first_row), UINT64_MAX, INFER_ERROR_FORMAT, "impossible"},
        {FIELD(temperature), 0x7FC00000, INFER_ERROR_FORMAT, "sampling"},
        {FIELD(top_p), 0xBF800000, INFER_ERROR_FORMAT, "sampling"},
        {FIELD(top_logprobs), 21, INFER_ERROR_FORMAT, "sampling"},
        {FIELD(logprobs), 2, INFER_ERROR_FORMAT, "sampling"},
        {FIELD(gen_flags), 64, INFER_ERROR_FORMAT, "generation"},
        {FIELD(finish_reason), 9, INFER_ERROR_FORMAT, "generation"},
        {FIELD(shift_drop), UINT64_MAX, INFER_ERROR_FORMAT, "generation"},
        {FIELD(detok_pending_len), 17, INFER_ERROR_FORMAT, "impossible"},
        {FIELD(finish_reason), INFER_FINISH_STOP_STRING, INFER_ERROR_FORMAT, "generation"}, /* without stop strings */
        {FIELD(finish_reason), INFER_FINISH_REPETITION, INFER_ERROR_FORMAT, "generation"},
        {FIELD(detok_started), 256, INFER_ERROR_FORMAT, "generation"},
        {FIELD(flags), 8, INFER_ERROR_FORMAT, "impossible"},
        {FIELD(flags), CKPT_FULL_MODEL, INFER_ERROR_VALUE, "weights"},
        {FIELD(reserved), 1, INFER_ERROR_FORMAT, "impossible"},
    };
    struct ckpt_model m = ckpt_open("gemma3");
    infer_session *s = sample(&m, INFER_KV_F16, "whole");
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        const struct forgery *f = &forgeries[i];
        size_t n;
        uint8_t *data = image("whole", &n);
        memcpy(data + kv_seal_find(data, n, CKPT_STATE, 0)->offset + f->at, &f->value, f->width);
        kv_seal(data, n);
        tempdir_write("forged", data, n);
        refused(&m, "forged", f->st, f->text);
        free(data);
    }
    infer_session_release(s);
    ckpt_close(&m);
}

/* Values in the other sections, with good checksums. */
static void test_forged_sections(void **state)
{
    (void)state;
    NEEDS_HASH();
    static const struct {
        uint32_t kind;
        uint64_t tag;
        size_t at;
        uint64_t value;
        size_t width;
        const char *text;
    } forgeries[] = {
        {CKPT_ELEMENTS, 0, 5 * 24, UINT32_MAX, 4, "rows"},            /* a row where there are none */
        {CKPT_ELEMENTS, 0, 5 * 24, 0x7FFFFFFF, 4, "element"},         /* an id out of range */
        {CKPT_ELEMENTS, 0, 5 * 24, 0x80000000, 4, "element"},
        {CKPT_ELEMENTS, 0, 5 * 24 + 4, UINT32_MAX, 4, "element"},     /* a position */
        {CKPT_ELEMENTS, 0, 5 * 24 + 16, 3, 4, "element"},             /* a token's row */
        {CKPT_ELEMENTS, 0, 5 * 24 + 20, 1, 4, "element"},
        {CKPT_LOGITS_POS, 0, 0, 200, 8, "logits"},
        {CKPT_LOGITS_POS, 0, 0, UINT64_MAX, 8, "logits"},
        {CKPT_PLACES, 0, 0, 1, 8, "page"},                            /* misaligned */
        {CKPT_PLACES, 0, 0, 0, 8, "page"},                            /* the header as a page */
        {CKPT_PLACES, 0, 0, UINT64_MAX - 63, 8, "page"},
        {CKPT_PLACES, 0, 8, UINT64_MAX - 63, 8, "page"},
        {CKPT_PLACES, 0, 8, 64, 8, "page"},
        {CKPT_PLACES, 0, 32, 1, 4, "page"},                           /* an ancestor that is not there */
        {CKPT_PLACES, 0, 36, 2, 4, "page"},
    };
    struct ckpt_model m = ckpt_open("llama");
    infer_session *s = sample(&m, INFER_KV_F16, "whole");
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        size_t n;
        uint8_t *data = image("whole", &n);
        memcpy(data + kv_seal_find(data, n, forgeries[i].kind, forgeries[i].tag)->offset + forgeries[i].at, &forgeries[i].value,
               forgeries[i].width);
        kv_seal(data, n);
        tempdir_write("forged", data, n);
        refused(&m, "forged", INFER_ERROR_FORMAT, forgeries[i].text);
        free(data);
    }
    /* holes where there may be none */
    size_t n;
    uint8_t *data = image("whole", &n);
    struct kv_place none = {.source = KV_PLACE_NONE};
    memcpy(data + kv_seal_find(data, n, CKPT_PLACES, 0)->offset, &none, sizeof none);
    kv_seal(data, n);
    tempdir_write("forged", data, n);
    refused(&m, "forged", INFER_ERROR_FORMAT, "missing");
    free(data);
    infer_session_release(s);
    ckpt_close(&m);
}

static void test_window_holes(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("gemma3");
    infer_session *s = sample(&m, INFER_KV_F16, "whole");
    size_t n;
    uint8_t *data = image("whole", &n);
    struct kv_place none = {.source = KV_PLACE_NONE};
    uint64_t offset = kv_seal_find(data, n, CKPT_PLACES, 1)->offset;
    memcpy(data + offset + 3 * sizeof none, &none, sizeof none); /* the last page */
    kv_seal(data, n);
    tempdir_write("forged", data, n);
    refused(&m, "forged", INFER_ERROR_FORMAT, "window");
    free(data);
    infer_session_release(s);
    ckpt_close(&m);
}

static void test_foreign(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("llama"), other = ckpt_open("llama-bias");
    infer_session *s = sample(&m, INFER_KV_F16, "mine"), *o;
    infer_checkpoint *c;
    infer_load_options lo;
    refused(&other, "mine", INFER_ERROR_VALUE, "another model");
    o = ckpt_session(&m, INFER_KV_F32);
    ckpt_append(&m, o, 0, 200);
    ckpt_step(o);
    assert_int_equal(ckpt_save(o, "delta", 0, "mine"), INFER_ERROR_ARGUMENT); /* another KV type */
    assert_non_null(strstr(error.text, "KV type"));
    assert_int_equal(tempdir_size("delta"), -1);
    INFER_INIT(&lo);
    lo.adapters = 78; /* it has none: more in test_adapter_state */
    assert_int_equal(infer_checkpoint_open(m.m, tempdir_path("mine"), INFER_ZSTR, &lo, NULL, &c, &error), INFER_ERROR_VALUE);
    tempdir_write("text", "just some text", 14);
    refused(&m, "text", INFER_ERROR_FORMAT, NULL);
    tempdir_write("nothing", "", 0);
    refused(&m, "nothing", INFER_ERROR_FORMAT, NULL);
    assert_int_equal(infer_checkpoint_open(m.m, fixture_path("llama"), INFER_ZSTR, NULL, NULL, &c, &error), INFER_ERROR_FORMAT);
    assert_int_equal(infer_checkpoint_open(m.m, tempdir_path("."), INFER_ZSTR, NULL, NULL, &c, &error), INFER_ERROR_UNSUPPORTED);
    infer_session_release(s);
    infer_session_release(o);
    ckpt_close(&m);
    ckpt_close(&other);
}

/* A file that shrinks, is replaced or is removed while something restored from it lives. */
static void test_changes(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("llama");
    for (int32_t map = INFER_MAP_AUTO; map <= INFER_MAP_READ; map += 2)
        for (int what = 0; what < 3; what++) {
            infer_session *s = sample(&m, INFER_KV_F16, "f"), *r;
            infer_checkpoint *c;
            ok(ckpt_load(&m, "f", map, INFER_VERIFY_FIRST_USE, &c));
            ok(infer_checkpoint_session(c, &r, &error));
            bool mapped = failing_io.maps > 1; /* the model is one */
            ckpt_append(&m, r, 0, 3);
            if (what == 0)
                assert_int_equal(truncate(tempdir_path("f"), 9000), 0);
            else if (what == 1)
                assert_int_equal(unlink(tempdir_path("f")), 0);
            else
                ok(ckpt_save(r, "f", 0, NULL)); /* over itself */
            infer_status st = ckpt_try_step(r);
            assert_int_equal(st, what == 0 && map == INFER_MAP_AUTO && mapped ? INFER_ERROR_CHANGED : INFER_OK);
            ckpt_append(&m, s, 0, 3);
            ckpt_step(s);
            if (st == INFER_OK)
                ckpt_same_logits(r, s);
            else
                assert_string_equal(error.file, tempdir_path("f"));
            infer_session_release(r);
            infer_session_release(s);
            infer_checkpoint_release(c);
        }
    ckpt_close(&m);
}

/* Every allocation and every file call fails in turn, for saving (whole and delta, packed or not) and for opening with restoring. What was
 * there before stays, and the session goes on as if nothing had been. */
static void test_failures(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("gemma3");
    infer_session *s = sample(&m, INFER_KV_F16, "parent"), *t = ckpt_session(&m, INFER_KV_F16), *again;
    ckpt_append(&m, s, 1, 60);
    ckpt_step(s);
    ok(ckpt_save(s, "old", 0, "parent"));
    ckpt_append(&m, t, 2, 33);
    ckpt_step(t);
    again = ckpt_session(&m, INFER_KV_F16);
    int files = tempdir_count(""), failures = 0;
    for (int what = 0; what < 8; what++) /* 1: allocations, else file calls; 2: read, else write; 4: packed */
        for (uint64_t at = 1;; at++) {
            uint32_t flags = what & 4 && pack_available() ? INFER_SAVE_ZSTD : 0;
            infer_checkpoint *c = NULL;
            infer_session *r = NULL;
            infer_status st;
            if (what & 2 && at == 1)
                ok(ckpt_save(s, "old", flags, "parent"));
            failing_io_set(what & 1 ? 0 : at, at % 2 ? EIO : ENOSPC);
            counted.calls = 0;
            counted.fail_at = what & 1 ? at : 0;
            if (what & 2) {
                st = ckpt_load(&m, "old", at % 3 ? INFER_MAP_AUTO : INFER_MAP_READ, INFER_VERIFY_FIRST_USE, &c);
                if (st == INFER_OK)
                    st = infer_session_restore(t, c, &error);
            } else {
                st = ckpt_save(s, "old", flags, "parent");
            }
            bool reached = what & 1 ? counted.calls >= at : failing_io.calls >= at;
            counted.fail_at = 0;
            failing_io_set(0, 0);
            failures += st != INFER_OK;
            infer_checkpoint_release(c);
            assert_int_equal(tempdir_count(""), files);
            if (st != INFER_OK && what & 2) /* the session is as it was */
                assert_int_equal(t->length, 33);
            if (st == INFER_OK && what & 2) {
                ckpt_same_logits(t, s);
                infer_session_release(t);
                t = ckpt_session(&m, INFER_KV_F16);
                ckpt_append(&m, t, 2, 33);
                ckpt_step(t);
            }
            r = ckpt_restored(&m, "old"); /* old or new: whole */
            assert_int_equal(r->length, 260);
            infer_session_release(r);
            if (!reached)
                break;
        }
    ckpt_append(&m, again, 2, 33);
    ckpt_append(&m, again, 0, 5);
    ckpt_append(&m, t, 0, 5);
    ckpt_step(t);
    ckpt_step(again);
    ckpt_same_logits(t, again);
    print_message("# %d failures\n", failures);
    assert_true(failures > 100);
    infer_session *const all[] = {s, t, again};
    for (int i = 0; i < 3; i++)
        infer_session_release(all[i]);
    ckpt_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage), cmocka_unit_test(test_cut), cmocka_unit_test(test_forged_state),
        cmocka_unit_test(test_forged_sections), cmocka_unit_test(test_window_holes), cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_changes), cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests_name("checkpoint_bad", tests, ckpt_setup, ckpt_teardown);
}
