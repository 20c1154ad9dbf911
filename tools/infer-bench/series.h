/* One quantity over the rounds. */
#ifndef BENCH_SERIES_H
#define BENCH_SERIES_H

#include "bench.h"

struct series {
    uint32_t n;
    double v[MAX_ROUNDS];
};

void series_add(struct series *s, double value);
double series_median(const struct series *s); /* 0 without values */
double series_min(const struct series *s);
double series_max(const struct series *s);

#endif
