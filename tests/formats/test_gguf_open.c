/* Opening GGUF files: every kind of source, mapped and read, split files, the cancel flag; and each allocation and each file call failing
 * in turn. */
#define _XOPEN_SOURCE 700
#include "testutil.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/os_file.h"
#include "formats/gguf.h"
#include "formats/gguf_build.h"

static char dir[256];

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void write_file(const char *name, const struct buf *b)
{
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
    fclose(f);
}

static infer_source path_source(const char *name)
{
    const char *p = path_of(name);
    return (infer_source){.size = sizeof(infer_source), .kind = INFER_SOURCE_PATH, .name = p, .name_len = strlen(p)};
}

/* A host's callback: files of the test's folder, through read or as memory. */
struct host {
    int as_memory;
    int opened, released;
    int fail_open;      /* this open, from 1, fails */
    int fail_read;
};
struct host_file {
    struct host *host;
    char *data;
    size_t len;
};

static infer_status host_read(void *user, uint64_t offset, void *dst, uint64_t bytes)
{
    struct host_file *f = user;
    if (f->host->fail_read || offset > f->len || bytes > f->len - offset)
        return INFER_ERROR_IO;
    memcpy(dst, f->data + offset, bytes);
    return INFER_OK;
}

static void host_release(void *user)
{
    struct host_file *f = user;
    f->host->released++;
    free(f->data);
    free(f);
}

static infer_status host_open(void *user, const char *name, uint64_t name_len, infer_stream *out)
{
    struct host *h = user;
    char path[512];
    if (++h->opened == h->fail_open)
        return INFER_ERROR_IO;
    snprintf(path, sizeof path, "%s/%.*s", dir, (int)name_len, name);
    struct host_file *f = malloc(sizeof *f);
    f->host = h;
    f->data = test_read_file(path, &f->len);
    if (!f->data) {
        free(f);
        h->opened--;
        return INFER_ERROR_NOT_FOUND;
    }
    out->length = f->len;
    out->user = f;
    out->release = host_release;
    if (h->as_memory)
        out->data = f->data;
    else
        out->read = host_read;
    return INFER_OK;
}

static infer_source host_source(struct host *h, const char *name)
{
    return (infer_source){.size = sizeof(infer_source), .kind = INFER_SOURCE_CALLBACK, .name = name,
                          .name_len = strlen(name), .user = h, .open = host_open};
}

/* The same tensors, metadata and bytes. */
static void assert_same(const struct infer_file *a, const struct infer_file *b)
{
    assert_int_equal(a->n_tensors, b->n_tensors);
    assert_int_equal(a->n_meta, b->n_meta);
    for (uint64_t i = 0; i < a->n_tensors; i++) {
        const struct file_tensor *t = &a->tensors[i], *u = &b->tensors[i];
        assert_true(t->type == u->type && t->bytes == u->bytes && t->offset == u->offset && t->part == u->part);
        assert_memory_equal(t->data, u->data, t->bytes);
        assert_memory_equal(t->name.data, u->name.data, t->name.len);
        assert_int_equal((uintptr_t)t->data % FILE_MIN_ALIGNMENT, 0);
    }
}

static void test_sources(void **state)
{
    (void)state;
    struct buf b;
    struct infer_file *files[8] = {0};
    infer_error err;
    int n = 0;
    gb_sample(&b, 3);
    write_file("sample", &b);
    infer_source path = path_source("sample");
    for (int32_t map = INFER_MAP_AUTO; map <= INFER_MAP_READ; map++)
        assert_int_equal(file_open(&env_default, &path, map, NULL, &files[n++], &err), INFER_OK);
    int fd = open(path_of("sample"), O_RDONLY);
    infer_source descriptor = {.size = sizeof descriptor, .kind = INFER_SOURCE_DESCRIPTOR, .descriptor = fd};
    assert_int_equal(lseek(fd, 7, SEEK_SET), 7);
    assert_int_equal(file_open(&env_default, &descriptor, INFER_MAP_MMAP, NULL, &files[n++], &err), INFER_OK);
    assert_int_equal(file_open(&env_default, &descriptor, INFER_MAP_READ, NULL, &files[n++], &err), INFER_OK);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 7);
    close(fd);
    char *odd = malloc(b.len + 1); /* misaligned: is copied */
    memcpy(odd + 1, b.data, b.len);
    infer_source memory = {.size = sizeof memory, .kind = INFER_SOURCE_MEMORY, .data = odd + 1, .length = b.len};
    assert_int_equal(file_open(&env_default, &memory, INFER_MAP_AUTO, NULL, &files[n++], &err), INFER_OK);
    struct host hosts[2] = {{.as_memory = 0}, {.as_memory = 1}};
    for (int i = 0; i < 2; i++) {
        infer_source callback = host_source(&hosts[i], "sample");
        assert_int_equal(file_open(&env_default, &callback, INFER_MAP_AUTO, NULL, &files[n++], &err), INFER_OK);
    }
    for (int i = 0; i < n; i++) {
        assert_same(files[0], files[i]);
        if (i)
            file_release(files[i]);
    }
    file_release(files[0]);
    assert_true(hosts[0].released == 1 && hosts[1].released == 1);
    free(odd);
    buf_free(&b);
}

static void test_missing_sources(void **state)
{
    (void)state;
    struct infer_file *f = NULL;
    infer_error err;
    struct host h = {0};
    infer_source s = path_source("nothing here");
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err), INFER_ERROR_NOT_FOUND);
    assert_string_equal(err.file, s.name);
    s = path_source("."); /* a folder */
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err), INFER_ERROR_UNSUPPORTED);
    (void)unlink(path_of("fifo"));
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0); /* nobody writes: opening must not wait */
    s = path_source("fifo");
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err), INFER_ERROR_UNSUPPORTED);
    (void)unlink(s.name);
    s.name = "/dev/zero";
    s.name_len = 9;
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err), INFER_ERROR_UNSUPPORTED);
    s.name = "sam\0ple";
    s.name_len = 7;
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err), INFER_ERROR_ARGUMENT);
    s = host_source(&h, "nothing here");
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err), INFER_ERROR_NOT_FOUND);
    s.open = NULL;
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err), INFER_ERROR_ARGUMENT);
    s = (infer_source){.size = sizeof s, .kind = INFER_SOURCE_DESCRIPTOR, .descriptor = -1};
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err), INFER_ERROR_ARGUMENT);
    s.descriptor = 987654;
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err), INFER_ERROR_IO);
    s.kind = 0;
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err), INFER_ERROR_ARGUMENT);
    h = (struct host){.fail_read = 1};
    struct buf b;
    gb_sample(&b, 3);
    write_file("sample", &b);
    s = host_source(&h, "sample");
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err), INFER_ERROR_IO);
    assert_int_equal(h.released, 1);
    assert_null(f);
    buf_free(&b);
}

/* ---- Split files ---- */

struct part {
    uint32_t no, count, total; /* as written; total 0: no such key */
    const char *tensor;
};

static void write_part(const char *name, struct part p)
{
    struct buf b;
    gb_header(&b, 3, 1, p.total ? 4 : 3);
    gb_meta_str(&b, "general.architecture", "test");
    gb_key(&b, "split.no", FILE_U16), buf_put(&b, &p.no, 2);
    gb_key(&b, "split.count", FILE_U16), buf_put(&b, &p.count, 2);
    if (p.total)
        gb_key(&b, "split.tensors.count", FILE_I32), gb_u32(&b, p.total);
    gb_tensor(&b, p.tensor, INFER_TYPE_F32, 1, (uint64_t[]){2}, 0);
    gb_align(&b, 32);
    gb_u64(&b, p.no);
    write_file(name, &b);
    buf_free(&b);
}

#define PART(i) "m-0000" #i "-of-00003.gguf"

static void write_good_parts(void)
{
    write_part(PART(1), (struct part){0, 3, 3, "a"});
    write_part(PART(2), (struct part){1, 3, 3, "b"});
    write_part(PART(3), (struct part){2, 3, 3, "c"});
}

static void test_split(void **state)
{
    (void)state;
    struct infer_file *f;
    infer_error err;
    write_good_parts();
    for (int way = 0; way < 4; way++) {
        struct host h = {.as_memory = way == 3};
        infer_source s = way < 2 ? path_source(PART(1)) : host_source(&h, PART(1));
        assert_int_equal(file_open(&env_default, &s, way == 1 ? INFER_MAP_READ : INFER_MAP_MMAP, NULL, &f, &err), INFER_OK);
        assert_int_equal(f->n_tensors, 3);
        assert_int_equal(f->n_parts, 3);
        for (uint32_t i = 0; i < 3; i++) {
            const struct file_tensor *t = file_find_tensor(f, &"abc"[i], 1);
            assert_true(t && t->part == i && *(const uint64_t *)t->data == i);
        }
        assert_int_equal(file_check(f, &err), INFER_OK);
        file_release(f);
        assert_int_equal(h.opened, h.released);
    }
}

static void expect_split(infer_source s, infer_status status, const char *file, const char *says)
{
    struct test_alloc ta = {0};
    struct env env = test_env_of(&ta);
    struct infer_file *f = NULL;
    infer_error err;
    infer_status st = file_open(&env, &s, INFER_MAP_AUTO, NULL, &f, &err);
    if (st != status || !strstr(err.text, says) || !strstr(err.file, file))
        fail_msg("status %d, file '%s', text '%s'; not %d, '%s', '%s'", st, err.file, err.text, status, file, says);
    assert_null(f);
    assert_int_equal(ta.live, 0);
}

static void test_split_refused(void **state)
{
    (void)state;
    struct host h = {0};
    write_good_parts();
    expect_split(path_source(PART(2)), INFER_ERROR_ARGUMENT, PART(2), "/" PART(1));
    expect_split(host_source(&h, PART(3)), INFER_ERROR_ARGUMENT, PART(3), "first part, " PART(1));
    size_t len;
    char *data = test_read_file(path_of(PART(1)), &len);
    infer_source memory = {.size = sizeof memory, .kind = INFER_SOURCE_MEMORY, .name = PART(1),
                           .name_len = strlen(PART(1)), .data = data, .length = len};
    expect_split(memory, INFER_ERROR_UNSUPPORTED, PART(1), "by path or callback");
    free(data);
    write_part(PART(2), (struct part){2, 3, 3, "b"});
    expect_split(path_source(PART(1)), INFER_ERROR_FORMAT, PART(2), "it is part 3 of 3; expected part 2 of 3");
    write_part(PART(2), (struct part){1, 4, 3, "b"});
    expect_split(path_source(PART(1)), INFER_ERROR_FORMAT, PART(2), "part 2 of 4");
    write_part(PART(2), (struct part){1, 3, 3, "a"});
    expect_split(path_source(PART(1)), INFER_ERROR_FORMAT, PART(2), "two parts");
    struct buf b;
    gb_sample(&b, 3); /* a file of its own */
    write_file(PART(2), &b);
    expect_split(path_source(PART(1)), INFER_ERROR_MISSING, PART(2), "absent");
    b.len -= 3;
    write_file(PART(2), &b);
    expect_split(path_source(PART(1)), INFER_ERROR_TRUNCATED, PART(2), "ends at byte");
    b.data[0] = 'X';
    write_file(PART(2), &b);
    expect_split(path_source(PART(1)), INFER_ERROR_FORMAT, PART(2), "part 2");
    buf_free(&b);
    write_good_parts();
    write_part(PART(1), (struct part){0, 3, 4, "a"});
    expect_split(path_source(PART(1)), INFER_ERROR_FORMAT, PART(1), "hold 3 tensors");
    write_part("other.gguf", (struct part){0, 3, 3, "a"});
    expect_split(path_source("other.gguf"), INFER_ERROR_NOT_FOUND, "other.gguf", "does not end in -00001-of-00003.gguf");
    write_part("other.gguf", (struct part){7, 3, 3, "a"});
    expect_split(path_source("other.gguf"), INFER_ERROR_ARGUMENT, "other.gguf", "open its first part (...-00001");
    write_part("n-00001-of-60000.gguf", (struct part){0, 60000, 0, "a"});
    expect_split(path_source("n-00001-of-60000.gguf"), INFER_ERROR_LIMIT, "n-00001", "60000 parts");
    write_part(PART(1), (struct part){0, 3, 0, "a"});
    unlink(path_of(PART(3)));
    expect_split(path_source(PART(1)), INFER_ERROR_NOT_FOUND, PART(3), "no such file");
    write_part(PART(1), (struct part){0, 1, 0, "a"}); /* one part is no split */
    infer_source s = path_source(PART(1));
    struct infer_file *f;
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, NULL), INFER_OK);
    file_release(f);
}

static void test_split_names(void **state)
{
    (void)state;
    char out[64] = {0};
    assert_true(gguf_split_name("x/m-00001-of-00012.gguf", 23, 11, 12, out));
    assert_string_equal(out, "x/m-00012-of-00012.gguf");
    assert_true(gguf_split_name("-00007-of-00009.gguf", 20, 0, 9, out));
    assert_false(gguf_split_name("m-00001-of-00012.gguf", 21, 1, 11, out));
    assert_false(gguf_split_name("m-0000x-of-00012.gguf", 21, 1, 12, out));
    assert_false(gguf_split_name("m-00001-of-00012.bin", 20, 1, 12, out));
    assert_false(gguf_split_name("0001-of-00012.gguf", 18, 1, 12, out));
    assert_false(gguf_split_name(NULL, 0, 1, 12, out));
}

/* ---- Cancel ---- */

static void test_cancel(void **state)
{
    (void)state;
    struct buf b;
    struct infer_file *f = NULL;
    infer_error err;
    struct infer_cancel cancel;
    ref_init(&cancel.ref);
    atomic_init(&cancel.flag, 1);
    gb_header(&b, 3, 0, 1);
    gb_meta_array(&b, "tokens", FILE_STRING, 10000);
    for (int i = 0; i < 10000; i++)
        gb_str(&b, "token");
    infer_source memory = {.size = sizeof memory, .kind = INFER_SOURCE_MEMORY, .data = b.data, .length = b.len};
    assert_int_equal(file_open(&env_default, &memory, INFER_MAP_AUTO, &cancel, &f, &err), INFER_ERROR_CANCELLED);
    write_file("tokens", &b);
    infer_source path = path_source("tokens");
    assert_int_equal(file_open(&env_default, &path, INFER_MAP_READ, &cancel, &f, &err), INFER_ERROR_CANCELLED);
    assert_null(f);
    atomic_store(&cancel.flag, 0);
    assert_int_equal(file_open(&env_default, &path, INFER_MAP_READ, &cancel, &f, &err), INFER_OK);
    file_release(f);
    buf_free(&b);
}

/* ---- Failing allocations and file calls ---- */

/* Opens once with the n-th allocation failing; true when all went well. */
static bool open_failing(const infer_source *s, int32_t map, uint64_t fail_at, bool rest)
{
    struct test_alloc ta = {.fail_at = fail_at, .fail_rest = rest};
    struct env env = test_env_of(&ta);
    struct infer_file *f = NULL;
    infer_error err;
    infer_status st = file_open(&env, s, map, NULL, &f, &err);
    if (st == INFER_OK)
        file_release(f);
    else
        assert_true(st == INFER_ERROR_NO_MEMORY && err.code == st && !f);
    assert_int_equal(ta.live, 0);
    return st == INFER_OK;
}

static void test_failing_allocations(void **state)
{
    (void)state;
    struct buf b;
    uint64_t total = 0;
    gb_sample(&b, 3);
    write_file("sample", &b);
    char *odd = malloc(b.len + 1); /* misaligned, so that it is copied */
    memcpy(odd + 1, b.data, b.len);
    write_good_parts();
    for (int way = 0; way < 5; way++) {
        struct host h = {.as_memory = way == 4};
        infer_source s = way < 2 ? path_source(way ? PART(1) : "sample") : host_source(&h, PART(1));
        if (way == 2)
            s = (infer_source){.size = sizeof s, .kind = INFER_SOURCE_MEMORY, .data = odd + 1, .length = b.len};
        for (int rest = 0; rest < 2; rest++) {
            uint64_t n = 1;
            while (!open_failing(&s, INFER_MAP_READ, n, rest))
                n++;
            assert_true(n > 5);
            total += n - 1;
        }
        assert_int_equal(h.opened, h.released);
    }
    free(odd);
    print_message("# %d allocations failed in turn\n", (int)total);
    buf_free(&b);
}

static int io_calls, io_fail_at, io_live;

static bool io_fails(int *os_error)
{
    *os_error = 5;
    return ++io_calls == io_fail_at;
}

static infer_status bad_open(const char *path, int *fd, int *os_error)
{
    infer_status st = io_fails(os_error) ? INFER_ERROR_IO : os_io_default.open(path, fd, os_error);
    io_live += st == INFER_OK;
    return st;
}
static infer_status bad_dup(int fd, int *copy, int *os_error)
{
    infer_status st = io_fails(os_error) ? INFER_ERROR_IO : os_io_default.dup(fd, copy, os_error);
    io_live += st == INFER_OK;
    return st;
}
static void bad_close(int fd)
{
    io_live--;
    os_io_default.close(fd);
}
static infer_status bad_stat(int fd, struct os_stat *out, int *os_error)
{
    return io_fails(os_error) ? INFER_ERROR_IO : os_io_default.stat(fd, out, os_error);
}
static infer_status bad_read(int fd, uint64_t offset, void *dst, size_t n, int *os_error)
{
    return io_fails(os_error) ? INFER_ERROR_IO : os_io_default.read(fd, offset, dst, n, os_error);
}
static infer_status bad_map(int fd, size_t n, const void **out, int *os_error)
{
    infer_status st = io_fails(os_error) ? INFER_ERROR_IO : os_io_default.map(fd, n, out, os_error);
    io_live += st == INFER_OK;
    return st;
}
static void bad_unmap(const void *p, size_t n)
{
    io_live--;
    os_io_default.unmap(p, n);
}

static void test_failing_io(void **state)
{
    (void)state;
    static const struct os_io bad = {.open = bad_open, .dup = bad_dup, .close = bad_close, .stat = bad_stat, .read = bad_read,
                                     .map = bad_map, .unmap = bad_unmap};
    int total = 0;
    write_good_parts();
    infer_source s = path_source(PART(1));
    for (int32_t map = INFER_MAP_MMAP; map <= INFER_MAP_READ; map++) {
        for (io_fail_at = 1;; io_fail_at++) {
            struct test_alloc ta = {0};
            struct env env = test_env_of(&ta);
            struct infer_file *f = NULL;
            infer_error err;
            env.io = &bad;
            io_calls = 0;
            infer_status st = file_open(&env, &s, map, NULL, &f, &err);
            if (st == INFER_OK)
                file_release(f);
            else
                assert_true(st == INFER_ERROR_IO && strstr(err.text, "5") && strstr(err.file, "-of-00003.gguf"));
            assert_int_equal(ta.live, 0);
            assert_int_equal(io_live, 0);
            if (st == INFER_OK)
                break;
            total++;
        }
        assert_int_equal(io_fail_at, 10); /* open, stat, read or map for each part */
    }
    print_message("# %d file calls failed in turn\n", total);
}

/* With READ a file that changes after the open does not matter; with MMAP file_check notices that it shrank. */
static void test_shrinking(void **state)
{
    (void)state;
    struct buf b;
    struct infer_file *mapped, *read, *by_fd;
    infer_error err;
    gb_sample(&b, 3);
    write_file("shrinks", &b);
    infer_source s = path_source("shrinks");
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_MMAP, NULL, &mapped, &err), INFER_OK);
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_READ, NULL, &read, &err), INFER_OK);
    s = (infer_source){.size = sizeof s, .kind = INFER_SOURCE_DESCRIPTOR, .descriptor = open(path_of("shrinks"), O_RDONLY)};
    assert_int_equal(file_open(&env_default, &s, INFER_MAP_MMAP, NULL, &by_fd, &err), INFER_OK);
    close((int)s.descriptor); /* the host's own; the map lives on */
    assert_int_equal(file_check(by_fd, &err), INFER_OK);
    assert_int_equal(truncate(path_of("shrinks"), 100), 0);
    assert_int_equal(file_check(by_fd, &err), INFER_ERROR_CHANGED);
    file_release(by_fd);
    assert_int_equal(file_check(read, &err), INFER_OK);
    assert_int_equal(file_check(mapped, &err), INFER_ERROR_CHANGED);
    assert_string_equal(err.file, path_of("shrinks"));
    const struct file_tensor *t = file_find_tensor(read, "matrix", 6);
    assert_true(((const float *)t->data)[5] == 5.25f);
    file_release(mapped);
    file_release(read);
    buf_free(&b);
}

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "%s", INFER_BUILD_DIR "/gguf-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    static const char *names[] = {"sample", "shrinks", "tokens", "other.gguf", "n-00001-of-60000.gguf", PART(1), PART(2),
                                  PART(3)};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_of(names[i]));
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources),       cmocka_unit_test(test_missing_sources),
        cmocka_unit_test(test_split),         cmocka_unit_test(test_split_refused),
        cmocka_unit_test(test_split_names),   cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_shrinking),     cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_failing_io),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
