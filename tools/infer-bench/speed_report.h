/* Printing what speed.h measured. */
#ifndef BENCH_SPEED_REPORT_H
#define BENCH_SPEED_REPORT_H

#include "speed.h"

/* Everything about a run but the combinations. */
struct run_info {
    const struct options *o;
    const struct model *m;
    struct start start;
    struct series load_ms;
};

/* All combinations. False: no memory. */
bool speed_report(const struct run_info *info, const struct speed *speeds, uint32_t n);

#endif
