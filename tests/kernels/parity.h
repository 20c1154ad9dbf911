/* Counting what the parity tests compared: cases of a test, and at the end a table by variant. A variant that the machine or the build lacks
 * is skipped visibly in every test, and has its line in the table. */
#ifndef PARITY_H
#define PARITY_H

#include "infer/infer.h"
#include "kernels/cpu.h"
#include "testutil.h"

static const struct {
    int32_t level;
    const char *name;
} parity_levels[] = {
#define PARITY_LEVEL(level, name) {level, name},
    CPU_LEVELS(PARITY_LEVEL)
#undef PARITY_LEVEL
};
#define PARITY_LEVELS (sizeof parity_levels / sizeof parity_levels[0])

static struct {
    uint64_t now; /* compared by the running test */
    uint64_t total[PARITY_LEVELS];
} parity_cases;

static inline void parity_case(void)
{
    parity_cases.now++;
}

/* At the end of a test: says how many cases it compared; none is a failure. */
static inline void parity_report(const char *what, int32_t level)
{
    for (size_t i = 0; i < PARITY_LEVELS; i++)
        if (parity_levels[i].level == level) {
            print_message("# %s: %llu cases compared on %s\n", what, (unsigned long long)parity_cases.now, parity_levels[i].name);
            parity_cases.total[i] += parity_cases.now;
        }
    assert_true(parity_cases.now > 0);
    parity_cases.now = 0;
}

/* The group's teardown. */
static int parity_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < PARITY_LEVELS; i++) {
        if (cpu_level_supported(parity_levels[i].level))
            print_message("# variant %-10s %8llu cases\n", parity_levels[i].name, (unsigned long long)parity_cases.total[i]);
        else
            print_message("# variant %-10s skipped: not on this machine or not in this build\n", parity_levels[i].name);
    }
    return 0;
}

#endif
