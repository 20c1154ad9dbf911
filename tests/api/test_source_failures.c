/* A host's source that fails: whatever is opened, and at whichever call of the host's functions, that failure is what is told, with its place, and the
 * library asks for nothing more. NOT_FOUND is no failure but an answer. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/gguf_build.h"
#include "ok.h"
#include "tempdir.h"

#define DATA INFER_SOURCE_DIR "/tests/data/"

static infer_engine *engine;
static infer_model *llama;

/* ---- The source: files of the disk by their whole names */

static struct {
    uint64_t calls, fails_at; /* of open and read */
    infer_status with;
    int streams; /* not yet released */
    /* of the call that failed */
    char name[512];
    uint64_t offset;
} host;

struct stream {
    char *data, name[512];
    size_t len;
};

static bool fails(const char *name, uint64_t offset)
{
    if (++host.calls != host.fails_at)
        return false;
    (void)snprintf(host.name, sizeof host.name, "%s", name);
    host.offset = offset;
    return true;
}

static infer_status read_stream(void *user, uint64_t offset, void *dst, uint64_t bytes)
{
    const struct stream *s = user;
    if (fails(s->name, offset))
        return host.with;
    if (offset > s->len || bytes > s->len - offset)
        return INFER_ERROR_TRUNCATED;
    memcpy(dst, s->data + offset, bytes);
    return INFER_OK;
}

static void release_stream(void *user)
{
    struct stream *s = user;
    host.streams--;
    free(s->data);
    free(s);
}

static infer_status open_stream(void *user, const char *name, uint64_t len, infer_stream *out)
{
    char path[512];
    struct stat about;
    (void)user;
    (void)snprintf(path, sizeof path, "%.*s", (int)len, name);
    if (fails(path, UINT64_MAX))
        return host.with;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode))
        return INFER_ERROR_NOT_FOUND;
    struct stream *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->data = test_read_file(path, &s->len);
    assert_non_null(s->data);
    (void)snprintf(s->name, sizeof s->name, "%s", path);
    host.streams++;
    *out = (infer_stream){.size = out->size, .length = s->len, .user = s, .read = read_stream, .release = release_stream};
    return INFER_OK;
}

/* ---- What is opened */

static infer_status open_model(const infer_source *s)
{
    infer_model *m = NULL;
    infer_status st = infer_model_open(engine, s, NULL, &m, &error);
    assert_true(!m == (st != INFER_OK));
    infer_model_release(m);
    return st;
}

static infer_status open_file(const infer_source *s)
{
    infer_file *f = NULL;
    infer_status st = infer_file_open(engine, s, NULL, &f, &error);
    assert_true(!f == (st != INFER_OK));
    infer_file_release(f);
    return st;
}

static infer_status open_tokenizer(const infer_source *s)
{
    infer_tokenizer *t = NULL;
    infer_status st = infer_tokenizer_open(engine, s, NULL, &t, &error);
    assert_true(!t == (st != INFER_OK));
    infer_tokenizer_release(t);
    return st;
}

static infer_status open_adapter(const infer_source *s)
{
    infer_adapter *a = NULL;
    infer_status st = infer_adapter_open(llama, s, NULL, &a, &error);
    assert_true(!a == (st != INFER_OK));
    infer_adapter_release(a);
    return st;
}

static infer_status estimate(const infer_source *s)
{
    infer_estimate e;
    INFER_INIT(&e);
    return infer_model_estimate(engine, s, NULL, NULL, &e, &error);
}

static const char *first_part;

static void write_parts(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct buf b;
        char name[32];
        (void)snprintf(name, sizeof name, "m-%05u-of-00003.gguf", (unsigned)i + 1);
        gb_header(&b, 3, 1, 4);
        gb_meta_str(&b, "general.architecture", "test");
        gb_key(&b, "split.no", FILE_U16), buf_put(&b, &i, 2);
        gb_key(&b, "split.count", FILE_U16), buf_put(&b, &(uint16_t){3}, 2);
        gb_key(&b, "split.tensors.count", FILE_I32), gb_u32(&b, 3);
        gb_tensor(&b, (const char *const[]){"a", "b", "c"}[i], INFER_TYPE_F32, 1, (uint64_t[]){2}, 0);
        gb_align(&b, 32);
        gb_u64(&b, i);
        tempdir_write(name, b.data, b.len);
        buf_free(&b);
    }
}

static int setup(void **state)
{
    infer_engine_options o;
    (void)state;
    INFER_INIT(&error);
    INFER_INIT(&o);
    o.threads = 1;
    ok(infer_engine_create(&o, &engine, &error));
    ok(infer_model_open_path(engine, DATA "fixtures/llama.gguf", &llama, &error));
    tempdir_make();
    write_parts();
    first_part = tempdir_path("m-00001-of-00003.gguf");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    infer_model_release(llama);
    infer_engine_release(engine);
    tempdir_remove();
    return 0;
}

static infer_status call(infer_status (*open)(const infer_source *), const char *name, uint64_t fails_at, infer_status with)
{
    infer_source s;
    memset(&host, 0, sizeof host);
    host.fails_at = fails_at;
    host.with = with;
    infer_source_callback(&s, name, INFER_ZSTR, open_stream, NULL);
    infer_status st = open(&s);
    assert_int_equal(host.streams, 0);
    return st;
}

static void fails_everywhere(infer_status (*open)(const infer_source *), const char *name, uint64_t least)
{
    static const infer_status statuses[] = {INFER_ERROR_IO, INFER_ERROR_HOST, INFER_ERROR_UNSUPPORTED, INFER_ERROR_CHANGED, INFER_ERROR_CANCELLED, 7};
    ok(call(open, name, 0, INFER_OK));
    uint64_t all = host.calls;
    assert_true(all >= least);
    for (uint64_t at = 1; at <= all; at++)
        for (size_t i = 0; i <= sizeof statuses / sizeof *statuses; i++) {
            infer_status with = i < sizeof statuses / sizeof *statuses ? statuses[i] : INFER_ERROR_NOT_FOUND;
            infer_status st = call(open, name, at, with);
            bool answer = with == INFER_ERROR_NOT_FOUND && host.offset == UINT64_MAX; /* of open: it may go on without that file */
            if (answer)
                continue;
            if (host.calls != at)
                fail_msg("%s: after call %llu failed (%s), %llu more were made", name, (unsigned long long)at, host.name, (unsigned long long)(host.calls - at));
            assert_int_equal(st, with > 0 || with == INFER_ERROR_NOT_FOUND ? INFER_ERROR_HOST : with);
            assert_int_equal(error.code, st);
            assert_memory_equal(error.file, host.name, strlen(error.file)); /* which is cut when it is long */
            assert_true(strlen(error.file) == strlen(host.name) || strlen(error.file) == sizeof error.file - 1);
            assert_true(error.offset == host.offset);
            assert_non_null(strstr(error.text, host.offset == UINT64_MAX ? "open function failed" : "read function failed"));
        }
    print_message("%-90s %3llu calls\n", name, (unsigned long long)all);
}

static void test_first_failure(void **state)
{
    (void)state;
    fails_everywhere(open_model, INFER_SOURCE_DIR "/models/tiny.gguf", 3); /* 1.9 MB: read in two pieces */
    fails_everywhere(open_model, DATA "fixtures/llama", 8);
    fails_everywhere(open_model, DATA "fixtures/llama/model.safetensors", 8);
    fails_everywhere(open_model, DATA "fixtures/llama/config.json", 8);
    fails_everywhere(open_file, DATA "fixtures/llama", 8);
    fails_everywhere(open_file, DATA "fixtures/llama.gguf", 2);
    fails_everywhere(open_file, first_part, 6);
    fails_everywhere(open_tokenizer, DATA "fixtures/bert", 6);
    fails_everywhere(open_adapter, DATA "adapters/lora-r4/", 4);
    fails_everywhere(open_adapter, DATA "adapters/lora-bin/", 5);
    fails_everywhere(open_adapter, DATA "adapters/lora-r4/adapter_model.safetensors", 4);
    fails_everywhere(open_adapter, DATA "adapters/steering.safetensors", 3);
    fails_everywhere(estimate, INFER_SOURCE_DIR "/models/tiny.gguf", 3);
    fails_everywhere(estimate, DATA "fixtures/llama", 8);
}

/* Nothing has the name: that of the file is told, not that of what a folder would hold. */
static void test_nothing_there(void **state)
{
    (void)state;
    assert_int_equal(call(open_model, DATA "nothing", 0, INFER_OK), INFER_ERROR_NOT_FOUND);
    assert_string_equal(error.file, DATA "nothing");
    assert_int_equal(host.calls, 2);
    assert_int_equal(call(open_model, DATA "nothing", 2, INFER_ERROR_IO), INFER_ERROR_IO); /* whether it is a folder cannot be told */
    assert_string_equal(error.file, DATA "nothing/config.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_failure), cmocka_unit_test(test_nothing_there)};
    return cmocka_run_group_tests_name("source failures", tests, setup, teardown);
}
