/* PyTorch files: what torch.save wrote (tests/data/torch), and hostile ones (N12 of hostile-inputs). */
#include "testutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "failing_io.h"
#include "formats/torch.h"
#include "formats/zip.h"
#include "formats/zip_build.h"
#include "kernels/dequant.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define DATA INFER_SOURCE_DIR "/tests/data/torch/"
#define MEMORY_BOUND(n) ((int64_t)(n) * 200 + 400000) /* stated in torch.h; an arena's block, the smallest tables */

static infer_status try_path(const char *path, int32_t map, const struct env *env, struct infer_file **out, infer_error *err)
{
    infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_PATH, .name = path, .name_len = strlen(path)};
    return file_open(env, &s, map, NULL, out, err);
}

static struct infer_file *open_path(const char *path, int32_t map)
{
    struct infer_file *f = NULL;
    infer_error err;
    if (try_path(path, map, &env_default, &f, &err) != INFER_OK)
        fail_msg("%s: %s: %s", path, err.name, err.text);
    return f;
}

static const struct file_tensor *tensor(const struct infer_file *f, const char *name)
{
    const struct file_tensor *t = file_find_tensor(f, name, strlen(name));
    if (!t)
        fail_msg("no tensor %s", name);
    return t;
}

/* Every tensor NAME with a NAME.f32 decodes to it, and has its shape. Returns how many there are. */
static int check_twins(const struct infer_file *f)
{
    int n = 0;
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        const struct file_tensor *t = &f->tensors[i];
        char other[256];
        (void)snprintf(other, sizeof other, "%.*s.f32", (int)t->name.len, t->name.data);
        const struct file_tensor *want = file_find_tensor(f, other, strlen(other));
        if (!want)
            continue;
        assert_int_equal((uintptr_t)t->data % dtype_of(t->type)->bytes, 0);
        assert_true(t->n == want->n && t->n_dims == want->n_dims && want->type == INFER_TYPE_F32);
        assert_memory_equal(t->dims, want->dims, sizeof t->dims);
        float *x = calloc(t->n + 1, sizeof *x);
        dequant_row(t->type, t->data, x, t->n);
        if (memcmp(x, want->data, (size_t)t->n * sizeof *x))
            fail_msg("%s: other numbers", other);
        free(x);
        n++;
    }
    return n;
}

static void test_types(void **state)
{
    (void)state;
    struct infer_file *f = open_path(DATA "types.pt", INFER_MAP_AUTO);
    assert_int_equal(check_twins(f), 15);
    assert_int_equal(f->n_parts, 1); /* all in place */
    assert_int_equal(tensor(f, "bfloat16")->type, INFER_TYPE_BF16);
    assert_int_equal(tensor(f, "float8_e4m3fn")->type, INFER_TYPE_F8_E4M3);
    assert_int_equal(tensor(f, "uint32")->type, INFER_TYPE_U32);
    assert_int_equal(tensor(f, "bool")->type, INFER_TYPE_BOOL);
    assert_true(tensor(f, "int8")->dims[0] == 5 && tensor(f, "int8")->dims[1] == 3);
    file_release(f);
}

static void test_views(void **state)
{
    (void)state;
    static const char *const names[] = {DATA "views.pt", DATA "unaligned.pt"};
    for (size_t i = 0; i < COUNT(names); i++)
        for (int32_t map = INFER_MAP_AUTO; map <= INFER_MAP_READ; map++) {
            struct infer_file *f = open_path(names[i], map);
            assert_int_equal(check_twins(f), 14);
            assert_int_equal(f->n_parts, 2); /* the turned ones were copied */
            if (i == 0) {
                assert_ptr_equal(tensor(f, "tied")->data, tensor(f, "whole")->data); /* one storage, in place */
                assert_ptr_equal(tensor(f, "part")->data, (const float *)tensor(f, "whole")->data + 5);
                assert_int_equal(tensor(f, "turned")->part, 1);
            }
            assert_true(tensor(f, "five")->n_dims == 4 && tensor(f, "five")->dims[3] == 4);
            assert_true(tensor(f, "empty")->n == 0 && tensor(f, "empty")->dims[0] == 5);
            assert_true(tensor(f, "one")->n_dims == 1 && tensor(f, "one")->n == 1);
            file_release(f);
        }
}

static void test_nested(void **state)
{
    (void)state;
    static const char *const files[] = {DATA "nested.pt", DATA "nested-p4.pt"};
    static const char *const names[] = {"model.weight", "model.bias", "layers.0", "layers.1.w", "pair.0", "7"};
    for (size_t i = 0; i < COUNT(files); i++) {
        struct infer_file *f = open_path(files[i], INFER_MAP_AUTO);
        assert_int_equal(f->n_tensors, COUNT(names));
        for (size_t k = 0; k < COUNT(names); k++)
            assert_ptr_equal(tensor(f, names[k]), &f->tensors[k]);
        assert_true(((const float *)tensor(f, "7")->data)[0] == 4.0f);
        assert_int_equal(f->n_meta, 0);
        assert_false(file_has(f, "general.architecture"));
        file_release(f);
    }
    struct infer_file *f = open_path(DATA "alone.pt", INFER_MAP_AUTO);
    assert_true(f->n_tensors == 1 && tensor(f, "tensor")->dims[0] == 3 && tensor(f, "tensor")->dims[1] == 2);
    file_release(f);
}

/* Content decides, not the name. */
static void test_safetensors(void **state)
{
    (void)state;
    static const char *const names[] = {DATA "safetensors.pt", DATA "safetensors-0.zip", DATA "safetensors-1.zip"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct infer_file *f = open_path(names[i], INFER_MAP_AUTO);
        assert_true(f->n_tensors == 2 && tensor(f, "b")->type == INFER_TYPE_I64);
        assert_int_equal((uintptr_t)tensor(f, "b")->data % 8, 0);
        assert_true(((const float *)tensor(f, "a")->data)[5] == 5.0f);
        assert_true(file_has(f, "format"));
        file_release(f);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        infer_status st;
        const char *says;
    } cases[] = {
        {DATA "legacy.pt", INFER_ERROR_FORMAT, "old format"},
        {DATA "optimizer.pt", INFER_ERROR_UNSUPPORTED, "argparse.Namespace"},
        {DATA "big-endian.pt", INFER_ERROR_UNSUPPORTED, "big-endian"},
        {DATA "compressed.pt", INFER_ERROR_UNSUPPORTED, "compressed"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct infer_file *f;
        infer_error err;
        assert_int_equal(try_path(cases[i].name, INFER_MAP_AUTO, &env_default, &f, &err), cases[i].st);
        if (!strstr(err.text, cases[i].says) || strcmp(err.file, cases[i].name))
            fail_msg("%s: '%s' does not say '%s'", err.file, err.text, cases[i].says);
    }
}

/* ---- Hostile ---- */

static infer_status open_bytes(const void *data, size_t len, infer_error *err, int64_t *peak)
{
    struct test_alloc ta = {0};
    struct env env = test_env_of(&ta);
    struct infer_file *f = NULL;
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, 32, len ? len : 1), 0); /* of the exact size, so that ASan sees a read past the end */
    memcpy(p, data, len);
    infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_MEMORY, .name = "bad.pt", .name_len = 6, .data = p, .length = len};
    infer_status st = file_open(&env, &s, INFER_MAP_AUTO, NULL, &f, err);
    if (st == INFER_OK) {
        for (uint64_t i = 0; i < f->n_tensors; i++) { /* all of it can be read */
            volatile uint8_t sum = 0;
            for (uint64_t k = 0; k < f->tensors[i].bytes; k++)
                sum = (uint8_t)(sum + ((const uint8_t *)f->tensors[i].data)[k]);
        }
        file_release(f);
    }
    free(p);
    assert_int_equal(ta.live, 0);
    if (ta.peak_bytes > MEMORY_BOUND(len))
        fail_msg("%lld bytes of memory for %zu", (long long)ta.peak_bytes, len);
    if (peak)
        *peak = ta.peak_bytes;
    return st;
}

static void expect(struct buf *b, infer_status status, const char *name, const char *says)
{
    infer_error err = {.text = ""};
    assert_true(buf_ok(b));
    infer_status st = open_bytes(b->data, b->len, &err, NULL);
    if (st != status || (st != INFER_OK && (strcmp(err.name, name) || !strstr(err.text, says) || strcmp(err.file, "bad.pt"))))
        fail_msg("status %d, '%s': '%s' is not %d, '%s': '%s'", st, err.name, err.text, status, name, says);
    buf_free(b);
}

/* Cut at every byte, and every byte changed to some others: refused or read, never worse. */
static void test_damage(void **state)
{
    (void)state;
    size_t len;
    char *data = test_read_file(DATA "unaligned.pt", &len);
    infer_error err;
    for (size_t n = 0; n < len; n++)
        assert_int_not_equal(open_bytes(data, n, &err, NULL), INFER_OK);
    static const uint8_t others[] = {0, 0xFF, 0x80, '(', 'R', 0x7F};
    for (size_t at = 0; at < len; at++)
        for (size_t k = 0; k < COUNT(others); k++) {
            char was = data[at];
            data[at] = (char)others[k];
            (void)open_bytes(data, len, &err, NULL);
            data[at] = was;
        }
    free(data);
}

#define STORAGE(type, key, n) "(X\7\0\0\0storagectorch\n" type "\nX\1\0\0\0" key "X\3\0\0\0cpuK" n "tQ"
#define TENSOR(storage, offset, sizes, strides) "ctorch._utils\n_rebuild_tensor_v2\n(" storage "K" offset sizes strides "\x89}tR"
#define NAMED(tensor) "\x80\2}X\1\0\0\0w" tensor "s."
#define FLOATS STORAGE("FloatStorage", "0", "\x10") /* 16 */
#define GOOD TENSOR(FLOATS, "\0", "K\4\x85", "K\1\x85")

static void expect_pickle(const char *pickle, size_t len, infer_status status, const char *name, const char *says)
{
    struct buf b;
    zb_torch(&b, pickle, len, 64);
    expect(&b, status, name, says);
}

static void test_pickles(void **state)
{
    (void)state;
#define CASE(text, st, name, says) {text, sizeof text - 1, st, name, says}
    static const struct {
        const char *pickle;
        size_t len;
        infer_status st;
        const char *name, *says;
    } cases[] = {
        CASE(NAMED(GOOD), INFER_OK, "", ""),
        CASE(NAMED(TENSOR(FLOATS, "\0", "K\2K\2\x86", "K\1K\2\x86")), INFER_OK, "", ""),
        /* globals and opcodes */
        CASE("\x80\2cos\nsystem\nX\4\0\0\0trueR.", INFER_ERROR_UNSUPPORTED, "", "'os.system'"),
        CASE("\x80\2ctorch\nload\n.", INFER_ERROR_UNSUPPORTED, "", "'torch.load'"),
        CASE("\x80\4\x8c\2os\x8c\6system\x93)R.", INFER_ERROR_UNSUPPORTED, "", "'os.system'"),
        CASE("\x80\2c__builtin__\neval\n(X\1\0\0\0xtR.", INFER_ERROR_UNSUPPORTED, "", "'__builtin__.eval'"),
        CASE("\x80\2ccollections\nOrderedDict\n)\x81.", INFER_ERROR_UNSUPPORTED, "", "NEWOBJ"),
        CASE("\x80\2(ios\nsystem\n.", INFER_ERROR_UNSUPPORTED, "", "INST"),
        CASE("\x80\2\x82\1.", INFER_ERROR_UNSUPPORTED, "", "EXT1"),
        CASE("\x80\2\xff.", INFER_ERROR_UNSUPPORTED, "", "0xff"),
        CASE("\x80\6.", INFER_ERROR_UNSUPPORTED, "", "protocol 6"),
        CASE("\x80\2]}b.", INFER_ERROR_UNSUPPORTED, "", "BUILD"),
        CASE("\x80\2K\1)R.", INFER_ERROR_FORMAT, "", "cannot be called"),
        CASE("\x80\2ctorch\nFloatStorage\n)R.", INFER_ERROR_FORMAT, "", "cannot be called"),
        CASE("\x80\2ctorch._utils\n_rebuild_parameter\n(K\1\x89}tR.", INFER_ERROR_FORMAT, "", "parameter"),
        CASE("\x80\2X\1\0\0\0xQ.", INFER_ERROR_FORMAT, "", "storage"),
        /* the machine */
        CASE("\x80\2", INFER_ERROR_TRUNCATED, "", "ends early"),
        CASE("\x80\2.", INFER_ERROR_FORMAT, "", "one value"),
        CASE("\x80\2((.", INFER_ERROR_FORMAT, "", "one value"),
        CASE("\x80\2NN.", INFER_ERROR_FORMAT, "", "one value"),
        CASE("\x80\2\x85.", INFER_ERROR_FORMAT, "", "not there"),
        CASE("\x80\2N(\x86.", INFER_ERROR_FORMAT, "", "not there"),
        CASE("\x80\2s.", INFER_ERROR_FORMAT, "", "not there"),
        CASE("\x80\2(Nu.", INFER_ERROR_FORMAT, "", "not there"),
        CASE("\x80\2}(Nu.", INFER_ERROR_FORMAT, "", "without a value"),
        CASE("\x80\2NNNs.", INFER_ERROR_FORMAT, "", "no dictionary"),
        CASE("\x80\2NNa.", INFER_ERROR_FORMAT, "", "no list"),
        CASE("\x80\2h\0.", INFER_ERROR_FORMAT, "", "not remembered"),
        CASE("\x80\2q\0.", INFER_ERROR_FORMAT, "", "not there"),
        CASE("\x80\2Nr\xff\xff\xff\xff.", INFER_ERROR_LIMIT, "", "remembers"),
        CASE("\x80\2X\xff\xff\xff\xff.", INFER_ERROR_TRUNCATED, "", "ends early"),
        CASE("\x80\4\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", INFER_ERROR_TRUNCATED, "", "ends early"),
        CASE("\x80\2X\1\0\0\0\xff.", INFER_ERROR_FORMAT, "", "UTF-8"),
        CASE("\x80\2\x8a\x9" "123456789.", INFER_ERROR_UNSUPPORTED, "", "9 bytes"),
        CASE("\x80\2N.", INFER_ERROR_MISSING, "archive/data.pkl", "no tensors"),
        CASE("\x80\2]q\0h\0a.", INFER_ERROR_LIMIT, "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0", "deep"), /* a list in itself */
        CASE("\x80\2}N" GOOD "s.", INFER_ERROR_FORMAT, "", "key"),
        CASE("\x80\2}\x8a\1\xff" GOOD "s.", INFER_ERROR_FORMAT, "", "key"),
        CASE("\x80\2}X\0\0\0\0" GOOD "s.", INFER_ERROR_FORMAT, "", "key"),
        CASE("\x80\2}(X\1\0\0\0w" GOOD "q\0X\1\0\0\0wh\0u.", INFER_ERROR_FORMAT, "w", "two tensors"),
        /* tensors */
        CASE(NAMED(TENSOR(STORAGE("FloatStorage", "0", "\x11"), "\0", "K\4\x85", "K\1\x85")), INFER_ERROR_TRUNCATED, "w", "too few"),
        CASE(NAMED(TENSOR(STORAGE("DoubleStorage", "0", "\x10"), "\0", "K\4\x85", "K\1\x85")), INFER_ERROR_TRUNCATED, "w", "too few"),
        CASE(NAMED(TENSOR(STORAGE("FloatStorage", "1", "\x10"), "\0", "K\4\x85", "K\1\x85")), INFER_ERROR_MISSING, "w", "no storage '1'"),
        CASE(NAMED(TENSOR(STORAGE("UntypedStorage", "0", "\x10"), "\0", "K\4\x85", "K\1\x85")), INFER_ERROR_FORMAT, "w", "untyped"),
        CASE(NAMED(TENSOR(FLOATS, "\0", "K\x11\x85", "K\1\x85")), INFER_ERROR_FORMAT, "w", "past its storage"),
        CASE(NAMED(TENSOR(FLOATS, "\x0d", "K\4\x85", "K\1\x85")), INFER_ERROR_FORMAT, "w", "past its storage"),
        CASE(NAMED(TENSOR(FLOATS, "\0", "K\4\x85", "K\6\x85")), INFER_ERROR_FORMAT, "w", "past its storage"),
        CASE(NAMED(TENSOR(FLOATS, "\0", "K\4\x85", "\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7f\x85")), INFER_ERROR_FORMAT, "w", "too many"),
        CASE(NAMED(TENSOR(FLOATS, "\0", "\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7f\x85", "K\1\x85")), INFER_ERROR_FORMAT, "w", "past its storage"),
        CASE(NAMED(TENSOR(FLOATS, "\0", "J\xff\xff\xff\xff\x85", "K\1\x85")), INFER_ERROR_FORMAT, "", "other arguments"), /* -1 */
        CASE(NAMED(TENSOR(FLOATS, "\0", "K\4\x85", "J\xff\xff\xff\xff\x85")), INFER_ERROR_FORMAT, "", "other arguments"),
        CASE(NAMED(TENSOR(FLOATS, "\0", "K\4\x85", "K\1K\1\x86")), INFER_ERROR_FORMAT, "", "other arguments"),
        CASE(NAMED(TENSOR(FLOATS, "\0", "K\x20\x85", "K\0\x85")), INFER_ERROR_UNSUPPORTED, "w", "expanded"),
        CASE(NAMED(TENSOR(FLOATS, "\0", "M\xff\xffM\xff\xff\x86", "K\0K\0\x86")), INFER_ERROR_UNSUPPORTED, "w", "expanded"),
        CASE(NAMED(TENSOR(FLOATS, "\0", "(K\1K\1K\2K\2K\2t", "(K\1K\1K\1K\2K\4t")), INFER_ERROR_UNSUPPORTED, "w", "5 dimensions"),
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect_pickle(cases[i].pickle, cases[i].len, cases[i].st, cases[i].name, cases[i].says);
}

/* Few bytes that would be many: lists that hold one list twice, 30 levels deep; copies of one storage by the thousand; a long stack. */
static void test_bombs(void **state)
{
    (void)state;
    struct buf p, b;
    buf_init(&p, &alloc_default, 0);
    buf_put(&p, "\x80\2" GOOD "q\0", sizeof "\x80\2" GOOD "q\0" - 1);
    for (int i = 0; i < 15; i++) { /* [x] * 16 */
        buf_putc(&p, '0'), buf_puts(&p, "](");
        for (int k = 0; k < 16; k++)
            buf_putc(&p, 'h'), buf_putc(&p, (char)i);
        buf_puts(&p, "eq"), buf_putc(&p, (char)(i + 1));
    }
    buf_putc(&p, '.');
    zb_torch(&b, p.data, p.len, 64);
    infer_error err;
    assert_int_equal(open_bytes(b.data, b.len, &err, NULL), INFER_ERROR_LIMIT);
    buf_free(&b);
    buf_free(&p);
    buf_puts(&p, "\x80\2](");
    for (int i = 0; i < 20000; i++)
        buf_put(&p, TENSOR(FLOATS, "\0", "K\4K\4\x86", "K\1K\4\x86"), sizeof TENSOR(FLOATS, "\0", "K\4K\4\x86", "K\1K\4\x86") - 1);
    buf_puts(&p, "e.");
    zb_torch(&b, p.data, p.len, 64);
    (void)open_bytes(b.data, b.len, &err, NULL); /* within the bound of memory */
    buf_free(&b);
    buf_free(&p);
    buf_puts(&p, "\x80\2");
    for (int i = 0; i < 100000; i++)
        buf_putc(&p, 'N');
    zb_torch(&b, p.data, p.len, 64);
    expect(&b, INFER_ERROR_LIMIT, "", "stack");
    buf_free(&p);
}

static void expect_names(const char *name, infer_status st, const char *where, const char *says)
{
    struct zip_build z;
    zb_begin(&z);
    zb_entry(&z, name, "x", 1);
    zb_entry(&z, "archive/data.pkl", NAMED(GOOD), sizeof NAMED(GOOD) - 1);
    zb_entry(&z, "archive/data/0", "0123456789012345678901234567890123456789012345678901234567890123", 64);
    zb_end(&z);
    expect(&z.b, st, where, says);
}

static void test_zip_names(void **state)
{
    (void)state;
    static const char *const bad[] = {"../x", "a/../../x", "/x", "..", "a//x", "a/./x", "a\\x", "a/..", "."};
    static const char *const good[] = {"x", "a/b", "a/", "..x", "a/...", ".hidden", "a/.x"};
    for (size_t i = 0; i < COUNT(bad); i++)
        expect_names(bad[i], INFER_ERROR_FORMAT, bad[i], "leaves its folder");
    for (size_t i = 0; i < COUNT(good); i++)
        expect_names(good[i], INFER_OK, "", "");
    expect_names("archive/data/0", INFER_ERROR_FORMAT, "archive/data/0", "two zip entries");
    expect_names("other/data.pkl", INFER_ERROR_FORMAT, "archive/data.pkl", "second data.pkl");
    expect_names("archive/constants.pkl", INFER_ERROR_UNSUPPORTED, "", "TorchScript");
}

static void test_zip_headers(void **state)
{
    (void)state;
    struct zip_build z;
    zb_begin(&z); /* two entries of one local header */
    zb_entry(&z, "data.pkl", "abcd", 4);
    zb_header(&z.central, 1, "data.pkl", 0, 0, 4, 0), z.n++;
    zb_end(&z);
    expect(&z.b, INFER_ERROR_FORMAT, "data.pkl", "two zip entries");
    zb_begin(&z); /* one within the other */
    zb_entry(&z, "a", "0123456789012345678901234567890123456789", 40);
    zb_header(&z.b, 0, "b", 0, 0, 1, 0), buf_puts(&z.b, "x");
    zb_header(&z.central, 1, "b", 0, 0, 1, 71), z.n++;
    memcpy(z.b.data + 18, &(uint32_t){72}, 4), memcpy(z.central.data + 20, &(uint32_t){72}, 4), memcpy(z.central.data + 24, &(uint32_t){72}, 4);
    zb_end(&z);
    expect(&z.b, INFER_ERROR_FORMAT, "b", "overlaps 'a'");
    zb_begin(&z);
    zb_entry(&z, "a", "x", 1);
    zb_header(&z.central, 1, "b", 0, 0, 1, 0xFFFFFF00), z.n++;
    zb_end(&z);
    expect(&z.b, INFER_ERROR_FORMAT, "b", "not where");
    zb_begin(&z); /* data into the directory */
    zb_header(&z.b, 0, "a", 0, 0, 100, 0);
    zb_header(&z.central, 1, "a", 0, 0, 100, 0), z.n++;
    zb_end(&z);
    expect(&z.b, INFER_ERROR_TRUNCATED, "a", "directory");
    zb_begin(&z);
    zb_header(&z.b, 0, "a", 1, 0, 0, 0);
    zb_header(&z.central, 1, "a", 1, 0, 0, 0), z.n++;
    zb_end(&z);
    expect(&z.b, INFER_ERROR_UNSUPPORTED, "a", "encrypted");
    zb_begin(&z); /* an empty archive */
    zb_end(&z);
    expect(&z.b, INFER_ERROR_FORMAT, "", "without data.pkl");
    zb_begin(&z); /* the size -1 of 32 bits without its 64 */
    zb_header(&z.b, 0, "a", 0, 0, 0xFFFFFFFF, 0);
    zb_header(&z.central, 1, "a", 0, 0, 0xFFFFFFFF, 0), z.n++;
    zb_end(&z);
    expect(&z.b, INFER_ERROR_FORMAT, "a", "malformed");
}

static void test_failures(void **state)
{
    (void)state;
    static const char *const names[] = {DATA "views.pt", DATA "unaligned.pt", DATA "safetensors-1.zip"};
    for (size_t i = 0; i < COUNT(names); i++)
        for (uint64_t k = 1;; k++) {
            struct test_alloc ta = {.fail_at = k};
            struct env env = test_env_of(&ta);
            struct infer_file *f;
            infer_error err;
            infer_status st = try_path(names[i], INFER_MAP_AUTO, &env, &f, &err);
            if (st == INFER_OK)
                file_release(f);
            assert_int_equal(ta.live, 0);
            if (ta.calls < k) {
                assert_int_equal(st, INFER_OK);
                assert_true(k > 8);
                break;
            }
            assert_int_equal(st, INFER_ERROR_NO_MEMORY);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),       cmocka_unit_test(test_views),   cmocka_unit_test(test_nested),
        cmocka_unit_test(test_safetensors), cmocka_unit_test(test_refused), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_pickles),     cmocka_unit_test(test_bombs),   cmocka_unit_test(test_zip_names),
        cmocka_unit_test(test_zip_headers), cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests_name("torch", tests, NULL, NULL);
}
