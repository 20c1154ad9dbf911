#define _DEFAULT_SOURCE
#include "testutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os_file.h"

char *test_read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *data = NULL;
    size_t n = 0, cap = 0;
    for (;;) {
        if (cap - n < 65536) {
            cap = cap ? cap * 2 : 131072;
            data = realloc(data, cap + 1);
            if (!data)
                break;
        }
        size_t got = fread(data + n, 1, cap - n, f);
        if (!got)
            break;
        n += got;
    }
    fclose(f);
    if (data)
        data[n] = 0;
    if (len)
        *len = n;
    return data;
}

int test_has_shared(void)
{
    struct stat st;
    return stat(INFER_SHARED_DIR "/data", &st) == 0;
}

static void *counting_get(void *user, size_t size, size_t align)
{
    struct test_alloc *t = user;
    t->calls++;
    if (t->fail_at && (t->calls == t->fail_at || (t->fail_rest && t->calls > t->fail_at)))
        return NULL;
    void *p = alloc_default.get(NULL, size, align);
    if (p) {
        t->live++;
        t->live_bytes += (int64_t)size;
        if (t->live_bytes > t->peak_bytes)
            t->peak_bytes = t->live_bytes;
    }
    return p;
}

static void counting_put(void *user, void *block, size_t size, size_t align)
{
    struct test_alloc *t = user;
    t->live--;
    t->live_bytes -= (int64_t)size;
    alloc_default.put(NULL, block, size, align);
}

struct alloc test_alloc_of(struct test_alloc *t)
{
    return (struct alloc){t, counting_get, counting_put};
}

static void *host_alloc(void *user, uint64_t bytes, uint64_t align)
{
    return counting_get(user, (size_t)bytes, (size_t)align);
}

static void host_free(void *user, void *block, uint64_t bytes, uint64_t align)
{
    counting_put(user, block, (size_t)bytes, (size_t)align);
}

infer_allocator test_infer_allocator(struct test_alloc *t)
{
    return (infer_allocator){.size = (uint32_t)sizeof(infer_allocator), .user = t, .alloc = host_alloc, .free = host_free};
}

struct env test_env_of(struct test_alloc *t)
{
    return (struct env){.alloc = test_alloc_of(t), .io = &os_io_default};
}

uint64_t test_rand(uint64_t *state)
{
    uint64_t x = *state ? *state : 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * 0x2545F4914F6CDD1Du;
}

float test_rand_f32(uint64_t *state)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (double)(test_rand(state) >> 11) / 9007199254740992.0;
    return (float)(sum - 6.0);
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

void *test_guard_alloc(size_t n)
{
    size_t page = page_size(), body = (n + page - 1) / page * page;
    char *p = mmap(NULL, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || (body && mprotect(p + page, body, PROT_READ | PROT_WRITE)))
        return NULL;
    return p + page + body - n;
}

void test_guard_free(void *p, size_t n)
{
    size_t page = page_size(), body = (n + page - 1) / page * page;
    munmap((char *)p + n - body - page, body + 2 * page);
}
