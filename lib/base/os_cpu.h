/* How many processors this process may use. */
#ifndef BASE_OS_CPU_H
#define BASE_OS_CPU_H

#include <stdint.h>

/* Where the system describes itself; tests give other places. */
struct os_cpu_paths {
    const char *cpu_dir;     /* "/sys/devices/system/cpu" */
    const char *cgroup_file; /* "/proc/self/cgroup" */
    const char *cgroup_root; /* "/sys/fs/cgroup" */
};

extern const struct os_cpu_paths os_cpu_paths_default;

/* Logical processors in the affinity mask, at least 1. */
uint32_t os_cpu_logical(void);
/* Of those, one a physical core, at least 1. */
uint32_t os_cpu_cores(const struct os_cpu_paths *paths);
/* Processors that the CPU quotas of this process's control groups (v1 or v2) and their parents allow, a part of one counted as one, at
 * least 1; UINT32_MAX: no quota. */
uint32_t os_cpu_quota(const struct os_cpu_paths *paths);

#endif
