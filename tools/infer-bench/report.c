#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cell *row_add(struct row *r, const char *name, enum cell_kind kind)
{
    if (r->n == r->cap) {
        uint32_t cap = r->cap ? r->cap * 2 : 32;
        struct cell *cells = realloc(r->cells, cap * sizeof *cells);
        if (!cells) {
            r->failed = true;
            return NULL;
        }
        r->cells = cells;
        r->cap = cap;
    }
    struct cell *c = &r->cells[r->n++];
    memset(c, 0, sizeof *c);
    c->name = name;
    c->kind = kind;
    return c;
}

void row_text(struct row *r, const char *name, const char *text)
{
    struct cell *c = row_add(r, name, CELL_TEXT);
    if (c)
        c->text = text;
}

void row_json(struct row *r, const char *name, const char *json)
{
    struct cell *c = row_add(r, name, CELL_JSON);
    if (c)
        c->text = json;
}

void row_number(struct row *r, const char *name, double number, int decimals)
{
    struct cell *c = row_add(r, name, CELL_NUMBER);
    if (c) {
        c->number = number;
        c->decimals = decimals;
    }
}

void row_series(struct row *r, const char *name, const struct series *s, double scale, int decimals)
{
    struct cell *c = row_add(r, name, CELL_SERIES);
    if (!c)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        series_add(&c->series, s->v[i] * scale);
    c->number = series_median(&c->series);
    c->decimals = decimals;
}

void row_free(struct row *r)
{
    free(r->cells);
    memset(r, 0, sizeof *r);
}

/* JSON knows neither infinity nor NaN. */
static void print_number(double v, int decimals)
{
    if (isfinite(v))
        printf("%.*f", decimals, v);
    else
        printf("null");
}

static void print_json_text(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void print_rounds(const struct row *r)
{
    const char *comma = "";
    printf(",\n  \"rounds\": {");
    for (uint32_t i = 0; i < r->n; i++) {
        const struct cell *c = &r->cells[i];
        if (c->kind != CELL_SERIES)
            continue;
        printf("%s\n    \"%s\": [", comma, c->name);
        for (uint32_t k = 0; k < c->series.n; k++) {
            printf("%s", k ? ", " : "");
            print_number(c->series.v[k], c->decimals);
        }
        printf("]");
        comma = ",";
    }
    printf("\n  }");
}

void row_print_json(const struct row *r)
{
    bool series = false;
    printf("{");
    for (uint32_t i = 0; i < r->n; i++) {
        const struct cell *c = &r->cells[i];
        printf("%s\n  \"%s\": ", i ? "," : "", c->name);
        if (c->kind == CELL_TEXT)
            print_json_text(c->text);
        else if (c->kind == CELL_JSON)
            printf("%s", c->text);
        else
            print_number(c->number, c->decimals);
        series = series || c->kind == CELL_SERIES;
    }
    if (series)
        print_rounds(r);
    printf("\n}");
}

void row_print_csv_header(const struct row *r)
{
    const char *comma = "";
    for (uint32_t i = 0; i < r->n; i++) {
        const struct cell *c = &r->cells[i];
        if (c->kind == CELL_JSON)
            continue;
        printf("%s%s", comma, c->name);
        if (c->kind == CELL_SERIES)
            printf(",%s_min,%s_max", c->name, c->name);
        comma = ",";
    }
    printf("\n");
}

static void print_csv_text(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        if (*s == '"')
            putchar('"');
        putchar(*s == '\n' ? ' ' : *s);
    }
    putchar('"');
}

void row_print_csv(const struct row *r)
{
    const char *comma = "";
    for (uint32_t i = 0; i < r->n; i++) {
        const struct cell *c = &r->cells[i];
        if (c->kind == CELL_JSON)
            continue;
        printf("%s", comma);
        comma = ",";
        if (c->kind == CELL_TEXT)
            print_csv_text(c->text);
        else
            printf("%.*f", c->decimals, c->number);
        if (c->kind == CELL_SERIES)
            printf(",%.*f,%.*f", c->decimals, series_min(&c->series), c->decimals, series_max(&c->series));
    }
    printf("\n");
}

void row_print_lines(const struct row *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        const struct cell *c = &r->cells[i];
        if (c->kind == CELL_JSON)
            continue;
        printf("%-24s ", c->name);
        if (c->kind == CELL_TEXT)
            printf("%s\n", c->text);
        else if (c->kind == CELL_NUMBER)
            printf("%.*f\n", c->decimals, c->number);
        else
            printf("%.*f (%.*f to %.*f)\n", c->decimals, c->number, c->decimals, series_min(&c->series), c->decimals,
                   series_max(&c->series));
    }
}
