#include "series.h"

#include <stdlib.h>
#include <string.h>

void series_add(struct series *s, double value)
{
    if (s->n < MAX_ROUNDS)
        s->v[s->n++] = value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double series_median(const struct series *s)
{
    double v[MAX_ROUNDS];
    if (!s->n)
        return 0;
    memcpy(v, s->v, s->n * sizeof *v);
    qsort(v, s->n, sizeof *v, by_value);
    return s->n % 2 ? v[s->n / 2] : (v[s->n / 2 - 1] + v[s->n / 2]) / 2;
}

double series_min(const struct series *s)
{
    double m = s->n ? s->v[0] : 0;
    for (uint32_t i = 1; i < s->n; i++)
        m = s->v[i] < m ? s->v[i] : m;
    return m;
}

double series_max(const struct series *s)
{
    double m = s->n ? s->v[0] : 0;
    for (uint32_t i = 1; i < s->n; i++)
        m = s->v[i] > m ? s->v[i] : m;
    return m;
}
