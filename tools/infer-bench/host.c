#include "host.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double bench_seconds(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double bench_cpu_seconds(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* The lines "key: N kB" of a file in /proc, into bytes [n]. */
static void read_proc(const char *path, const char *const *keys, uint64_t *bytes, int n)
{
    char line[256];
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        for (int i = 0; i < n; i++) {
            size_t len = strlen(keys[i]);
            unsigned long long kib;
            if (strncmp(line, keys[i], len) == 0 && line[len] == ':' && sscanf(line + len + 1, "%llu", &kib) == 1)
                bytes[i] = (uint64_t)kib * 1024;
        }
    }
    if (f)
        fclose(f);
}

struct memory_use memory_now(void)
{
    static const char *const keys[] = {"VmHWM", "RssAnon", "RssFile"};
    uint64_t v[3] = {0};
    struct rusage ru;
    read_proc("/proc/self/status", keys, v, 3);
    if (!v[0] && getrusage(RUSAGE_SELF, &ru) == 0) /* counts what the process was before exec too: second choice */
        v[0] = (uint64_t)ru.ru_maxrss * 1024;
    return (struct memory_use){v[0], v[1], v[2]};
}

void memory_reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f)
        return;
    (void)fputs("5\n", f);
    fclose(f);
}

uint64_t memory_available(void)
{
    static const char *const key[] = {"MemAvailable"};
    uint64_t v = 0;
    read_proc("/proc/meminfo", key, &v, 1);
    return v;
}

uint64_t memory_to_read(uint32_t mib, uint64_t want)
{
    const uint64_t least = (uint64_t)1 << 30, most = (uint64_t)4 << 30, half = memory_available() / 2;
    if (mib)
        return (uint64_t)mib << 20;
    want = want < least ? least : want > most ? most : want;
    return half && want > half ? half : want;
}
