#define _GNU_SOURCE
#include "base/os_cpu.h"
#include "base/os_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif

const struct os_cpu_paths os_cpu_paths_default = {
    "/sys/devices/system/cpu",
    "/proc/self/cgroup",
    "/sys/fs/cgroup",
};

#define MAX_CPUS 8192u
#define WORD_BITS (8 * sizeof(unsigned long))
#define PATH_SIZE 768

struct cpu_mask {
    unsigned long words[MAX_CPUS / WORD_BITS];
};

static bool mask_has(const struct cpu_mask *m, uint32_t cpu)
{
    return cpu < MAX_CPUS && (m->words[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1);
}

static uint32_t mask_count(const struct cpu_mask *m)
{
    uint32_t n = 0;
    for (uint32_t cpu = 0; cpu < MAX_CPUS; cpu++)
        n += mask_has(m, cpu);
    return n;
}

/* The affinity mask; where there is none, the processors that are online. */
static void mask_get(struct cpu_mask *m)
{
    memset(m, 0, sizeof *m);
#ifdef __linux__
    if (sched_getaffinity(0, sizeof m->words, (cpu_set_t *)(void *)m->words) == 0 && mask_count(m) > 0)
        return;
#endif
    long online = 1;
#ifdef _SC_NPROCESSORS_ONLN
    online = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    for (uint32_t cpu = 0; cpu < MAX_CPUS && (cpu == 0 || (long)cpu < online); cpu++)
        m->words[cpu / WORD_BITS] |= 1ul << (cpu % WORD_BITS);
}

/* The beginning of a small text file, zero-terminated; false when it cannot be read or is empty. */
static bool read_text(const char *path, char *out, size_t size)
{
    int fd = os_open_file(path, O_RDONLY);
    if (fd < 0)
        return false;
    size_t n = 0;
    while (n + 1 < size) {
        ssize_t got = read(fd, out + n, size - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    (void)close(fd);
    out[n] = 0;
    return n > 0;
}

/* Decimal digits at *p, which moves past them; false when there are none or too many. */
static bool read_number(const char **p, uint64_t *out)
{
    const char *s = *p;
    uint64_t v = 0;
    if (*s < '0' || *s > '9')
        return false;
    for (; *s >= '0' && *s <= '9'; s++) {
        if (v > UINT64_MAX / 10 - 1)
            return false;
        v = v * 10 + (uint64_t)(*s - '0');
    }
    *p = s;
    *out = v;
    return true;
}

/* The first number of a list such as "0-1,8" that is in the mask, or -1. */
static int64_t list_first(const char *list, const struct cpu_mask *m)
{
    for (;;) {
        uint64_t lo, hi;
        if (!read_number(&list, &lo))
            return -1;
        hi = lo;
        if (*list == '-') {
            list++;
            if (!read_number(&list, &hi))
                return -1;
        }
        for (uint64_t cpu = lo; cpu <= hi && cpu < MAX_CPUS; cpu++)
            if (mask_has(m, (uint32_t)cpu))
                return (int64_t)cpu;
        if (*list != ',')
            return -1;
        list++;
    }
}

uint32_t os_cpu_logical(void)
{
    struct cpu_mask m;
    mask_get(&m);
    return mask_count(&m);
}

uint32_t os_cpu_cores(const struct os_cpu_paths *paths)
{
    struct cpu_mask m;
    mask_get(&m);
    uint32_t cores = 0;
    for (uint32_t cpu = 0; cpu < MAX_CPUS; cpu++) {
        if (!mask_has(&m, cpu))
            continue;
        char path[PATH_SIZE], text[1024];
        snprintf(path, sizeof path, "%s/cpu%u/topology/thread_siblings_list", paths->cpu_dir, (unsigned)cpu);
        /* Of the threads of a core that we may use, the first stands for it. Unknown topology: each is a core. */
        int64_t first = read_text(path, text, sizeof text) ? list_first(text, &m) : -1;
        cores += first < 0 || first == (int64_t)cpu;
    }
    return cores ? cores : 1;
}

static void take_quota(uint64_t quota, uint64_t period, uint32_t *least)
{
    if (period == 0)
        return;
    /* Rounded up: with a quota of 1.5, two threads compute half as much again as one. */
    uint64_t cpus = quota / period + (quota % period != 0);
    cpus = cpus ? cpus : 1;
    if (cpus < *least)
        *least = (uint32_t)cpus;
}

static bool read_file_number(const char *dir, const char *name, uint64_t *out)
{
    char path[PATH_SIZE + 64], text[64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    const char *p = text;
    return read_text(path, text, sizeof text) && read_number(&p, out); /* "-1": no quota */
}

static void quota_of_dir(const char *dir, uint32_t *least)
{
    uint64_t quota, period;
    if (read_file_number(dir, "cpu.cfs_quota_us", &quota) && read_file_number(dir, "cpu.cfs_period_us", &period))
        take_quota(quota, period, least);
    char path[PATH_SIZE + 64], text[64];
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    if (!read_text(path, text, sizeof text))
        return;
    const char *p = text; /* "max 100000" or "QUOTA PERIOD" */
    if (read_number(&p, &quota) && *p++ == ' ' && read_number(&p, &period))
        take_quota(quota, period, least);
}

/* The quotas of root/mount/group and of every folder above it up to root/mount. A container may see a group's name but not its folder: absent files
 * set no limit. */
static void quota_of_group(const char *root, const char *mount, const char *group, uint32_t *least)
{
    char dir[PATH_SIZE];
    int base = snprintf(dir, sizeof dir, "%s%s", root, mount);
    if (base < 0 || (size_t)base >= sizeof dir || strlen(group) >= sizeof dir - (size_t)base)
        return;
    memcpy(dir + base, group, strlen(group) + 1);
    for (;;) {
        quota_of_dir(dir, least);
        char *slash = strrchr(dir + base, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

/* Is "cpu" one of the comma-separated controllers? */
static bool names_cpu(const char *list)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n == 3 && memcmp(list, "cpu", 3) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

/* A line of /proc/self/cgroup: "id:controllers:/group"; version 2 is "0::/group". See cgroups(7). */
static void quota_of_line(char *line, const char *root, uint32_t *least)
{
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return;
    *controllers++ = 0;
    *group++ = 0;
    if (strstr(group, ".."))
        return;
    if (!*controllers) {
        quota_of_group(root, "", group, least);
        quota_of_group(root, "/unified", group, least);
    } else if (names_cpu(controllers)) {
        quota_of_group(root, "/cpu", group, least);
        quota_of_group(root, "/cpu,cpuacct", group, least);
    }
}

uint32_t os_cpu_quota(const struct os_cpu_paths *paths)
{
    char text[4096];
    uint32_t least = UINT32_MAX;
    if (!read_text(paths->cgroup_file, text, sizeof text))
        return least;
    for (char *line = text; line && *line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = 0;
        quota_of_line(line, paths->cgroup_root, &least);
        line = end;
    }
    return least;
}
