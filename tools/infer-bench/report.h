/* What is printed. Every row is a list of named cells, filled in one place; the writers for JSON, CSV and the table go over them. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "series.h"

enum cell_kind { CELL_TEXT, CELL_NUMBER, CELL_SERIES, CELL_JSON };

struct cell {
    const char *name; /* static */
    enum cell_kind kind;
    int decimals;
    double number;        /* CELL_SERIES: the median */
    const char *text;     /* CELL_TEXT; CELL_JSON: as it is, nothing in CSV */
    struct series series; /* CELL_SERIES: scaled as the number */
};

struct row {
    struct cell *cells;
    uint32_t n, cap;
    bool failed; /* no memory */
};

void row_text(struct row *r, const char *name, const char *text);
void row_json(struct row *r, const char *name, const char *json);
void row_number(struct row *r, const char *name, double number, int decimals);
void row_series(struct row *r, const char *name, const struct series *s, double scale, int decimals);
void row_free(struct row *r);

/* One object; its series as medians, and all their values in "rounds". */
void row_print_json(const struct row *r);
/* The header, or the values; a series is its median, least and largest value. */
void row_print_csv_header(const struct row *r);
void row_print_csv(const struct row *r);
/* name: value lines. */
void row_print_lines(const struct row *r);

#endif
