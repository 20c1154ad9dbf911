/* Processors on Windows: those of the process's affinity mask, which has at most 64. */
#include "base/os_cpu.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

const struct os_cpu_paths os_cpu_paths_default = {"", "", ""};

static uint64_t affinity(void)
{
    DWORD_PTR mine = 0, all = 0;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &mine, &all) || mine == 0)
        return 1; /* in several processor groups: the system gives no mask */
    return mine;
}

static uint32_t count(uint64_t mask)
{
    uint32_t n = 0;
    for (; mask; mask &= mask - 1)
        n++;
    return n;
}

uint32_t os_cpu_logical(void)
{
    return count(affinity());
}

uint32_t os_cpu_cores(const struct os_cpu_paths *paths)
{
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION info[256];
    DWORD bytes = (DWORD)sizeof info;
    uint64_t mine = affinity();
    uint32_t cores = 0;
    (void)paths;
    if (!GetLogicalProcessorInformation(info, &bytes))
        return count(mine); /* unknown topology: each is a core */
    for (DWORD i = 0; i < bytes / sizeof info[0]; i++)
        cores += info[i].Relationship == RelationProcessorCore && (info[i].ProcessorMask & mine) != 0;
    return cores ? cores : 1;
}

uint32_t os_cpu_quota(const struct os_cpu_paths *paths)
{
    (void)paths;
    return UINT32_MAX;
}
