#include "speed_report.h"

#include <stdio.h>
#include <string.h>

#include "options.h"
#include "report.h"

#define MIB (1.0 / 1048576)
#define GIGA 1e-9

/* {"Q4_0": {"bytes": 1, "macs": 1}, ...} */
static void types_json(const struct model *m, char *out, size_t cap)
{
    size_t at = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < m->n_types && at < cap; i++) {
        const struct type_work *w = &m->types[i];
        const char *name = infer_type_name(w->type);
        at += (size_t)snprintf(out + at, cap - at, "%s\"%s\": {\"bytes\": %llu, \"macs\": %llu}", i ? ", " : "{", name ? name : "?",
                               (unsigned long long)w->bytes, (unsigned long long)w->macs);
    }
    (void)snprintf(out + (at < cap ? at : 0), at < cap ? cap - at : cap, at < cap && m->n_types ? "}" : "{}");
}

/* The type that most of the weights have. */
static const char *main_type(const struct model *m)
{
    const struct type_work *best = NULL;
    for (uint32_t i = 0; i < m->n_types; i++)
        if (!best || m->types[i].bytes > best->bytes)
            best = &m->types[i];
    const char *name = best ? infer_type_name(best->type) : NULL;
    return name ? name : "?";
}

static void fill_settings(struct row *r, const struct run_info *info, const struct speed *s, const char *types)
{
    const struct model *m = info->m;
    row_text(r, "model", info->o->model);
    row_text(r, "architecture", m->info.architecture);
    row_text(r, "weights", main_type(m));
    row_json(r, "types", types);
    row_text(r, "version", infer_version());
    row_text(r, "cpu", infer_cpu_name(m->engine_info.cpu));
    row_number(r, "threads", m->engine_info.threads, 0);
    row_text(r, "kv", kv_type_name(info->o->kv_type));
    row_text(r, "numerics", numerics_name(m->engine_info.numerics));
    row_number(r, "prompt", s->prompt, 0);
    row_number(r, "generate", info->o->generate, 0);
    row_number(r, "depth", s->depth, 0);
    row_number(r, "batch", s->batch, 0);
    row_number(r, "repeats", info->o->rounds, 0);
}

static void fill_speeds(struct row *r, const struct run_info *info, const struct speed *s)
{
    row_series(r, "prompt_tps", &s->prompt_tps, 1, 2);
    row_series(r, "gen_tps", &s->gen_tps, 1, 3);
    row_series(r, "ttft_ms", &s->ttft_ms, 1, 3);
    row_series(r, "load_ms", &info->load_ms, 1, 3);
    row_number(r, "first_load_ms", info->m->load_ms, 3);
    row_number(r, "first_ttft_ms", info->start.first_ttft_ms, 3);
    row_number(r, "start_ms", info->start.start_ms, 3);
    row_series(r, "cpu_share", &s->cpu_share, 1, 4);
    row_number(r, "depth_tps", s->depth_tps, 2);
}

static void fill_limits(struct row *r, const struct speed *s)
{
    row_series(r, "limit_read_gbs", &s->limit[LIMIT_READ], GIGA, 3);
    row_series(r, "limit_reread_gbs", &s->limit[LIMIT_REREAD], GIGA, 3);
    row_series(r, "limit_int8_gmacs", &s->limit[LIMIT_INT8], GIGA, 2);
    row_series(r, "limit_f32_gmacs", &s->limit[LIMIT_F32], GIGA, 2);
    row_text(r, "limit_read_loop", s->how[LIMIT_READ]);
    row_text(r, "limit_reread_loop", s->how[LIMIT_REREAD]);
    row_text(r, "limit_int8_loop", s->how[LIMIT_INT8]);
    row_text(r, "limit_f32_loop", s->how[LIMIT_F32]);
    row_series(r, "read_share", &s->read_share, 1, 6);
    row_series(r, "reread_share", &s->reread_share, 1, 6);
    row_series(r, "int8_share", &s->int8_share, 1, 6);
    row_series(r, "f32_share", &s->f32_share, 1, 6);
}

static void fill_costs(struct row *r, const struct model *m, const struct speed *s)
{
    row_number(r, "weight_bytes_per_token", (double)m->bytes, 0);
    row_number(r, "kv_bytes_per_token", (double)s->kv_bytes_token, 0);
    row_number(r, "int8_macs_per_prompt_token", (double)m->int8_macs, 0);
    row_number(r, "f32_macs_per_prompt_token", (double)m->f32_macs, 0);
    row_number(r, "attention_macs_per_prompt_token", (double)s->attention_macs, 0);
    row_number(r, "file_mb", (double)m->file_bytes * MIB, 2);
    row_number(r, "kv_mb", (double)s->kv_bytes * MIB, 2);
    row_number(r, "peak_rss_mb", (double)s->memory.peak * MIB, 2);
    row_number(r, "rss_anon_mb", (double)s->memory.anon * MIB, 2);
    row_number(r, "rss_file_mb", (double)s->memory.file * MIB, 2);
}

/* ---- The table for people ---- */

static void print_rate(const struct series *s, int decimals)
{
    if (!s->n) {
        printf(" %27s", "-");
        return;
    }
    char range[48];
    (void)snprintf(range, sizeof range, "(%.*f-%.*f)", decimals, series_min(s), decimals, series_max(s));
    printf(" %10.*f %-16s", decimals, series_median(s), range);
}

static void print_share(const struct series *s)
{
    if (s->n && series_median(s) > 0)
        printf(" %6.1f%%", 100 * series_median(s));
    else
        printf(" %7s", "-");
}

/* The larger part of the arithmetic decides which limit is shown. */
static const struct series *compute_share(const struct model *m, const struct speed *s)
{
    return m->int8_macs >= m->f32_macs ? &s->int8_share : &s->f32_share;
}

static void print_limit(const struct speed *speeds, uint32_t n, enum limit what, const char *name, const char *unit)
{
    struct series all = {0};
    const char *how = "";
    double best = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct series *s = &speeds[i].limit[what];
        for (uint32_t k = 0; k < s->n; k++)
            series_add(&all, s->v[k] * GIGA);
        if (series_max(s) > best) {
            best = series_max(s);
            how = speeds[i].how[what];
        }
    }
    if (all.n)
        printf("  %-22s %8.1f %s (%.1f-%.1f; %s)\n", name, series_median(&all), unit, series_min(&all), series_max(&all), how);
}

static void print_table(const struct run_info *info, const struct speed *speeds, uint32_t n)
{
    const struct model *m = info->m;
    bool int8 = m->int8_macs >= m->f32_macs;
    printf("%s: %s, %s, %.1f MB read and %.3f G multiply-adds per token\n", info->o->model, m->info.architecture, main_type(m),
           (double)m->bytes / 1e6, (double)(m->int8_macs + m->f32_macs) * GIGA);
    printf("%s, %u threads, KV %s, %s; medians of %u rounds (least-largest)\n\n", infer_cpu_name(m->engine_info.cpu),
           (unsigned)m->engine_info.threads, kv_type_name(info->o->kv_type), numerics_name(m->engine_info.numerics),
           (unsigned)info->o->rounds);
    printf("%7s %7s %6s %27s %7s %27s %7s %10s %9s\n", "prompt", "depth", "batch", "prompt tokens/s", int8 ? "of int8" : "of f32",
           "generated tokens/s", "of read", "TTFT ms", "peak MiB");
    for (uint32_t i = 0; i < n; i++) {
        const struct speed *s = &speeds[i];
        printf("%7u %7u %6u", (unsigned)s->prompt, (unsigned)s->depth, (unsigned)s->batch);
        print_rate(&s->prompt_tps, 1);
        print_share(compute_share(m, s));
        print_rate(&s->gen_tps, 2);
        print_share(&s->read_share);
        printf(" %10.1f %9.0f\n", series_median(&s->ttft_ms), (double)s->memory.peak * MIB);
    }
    double had = 0;
    for (uint32_t i = 0; i < n; i++)
        had += series_median(&speeds[i].cpu_share) / n;
    printf("\nprocessor time: %.0f%% of the threads' time\n", 100 * had);
    printf("limits of the machine, with as many threads, before each measurement\n");
    print_limit(speeds, n, LIMIT_READ, "read", "GB/s");
    print_limit(speeds, n, LIMIT_REREAD, "the weights again", "GB/s");
    print_limit(speeds, n, LIMIT_INT8, "int8 multiply-adds", "G/s");
    print_limit(speeds, n, LIMIT_F32, "f32 multiply-adds", "G/s");
    printf("start\n  %-22s %8.1f ms (again: %.1f)\n  %-22s %8.1f ms (from the start of the process: %.1f)\n", "open", m->load_ms,
           series_median(&info->load_ms), "then to a first token", info->start.first_ttft_ms, info->start.start_ms);
}

bool speed_report(const struct run_info *info, const struct speed *speeds, uint32_t n)
{
    char types[4096];
    bool ok = true;
    types_json(info->m, types, sizeof types);
    if (!info->o->json && !info->o->csv) {
        print_table(info, speeds, n);
        return true;
    }
    printf("%s", info->o->json && n > 1 ? "[" : "");
    for (uint32_t i = 0; i < n; i++) {
        struct row r = {0};
        fill_settings(&r, info, &speeds[i], types);
        fill_speeds(&r, info, &speeds[i]);
        fill_limits(&r, &speeds[i]);
        fill_costs(&r, info->m, &speeds[i]);
        if (info->o->json) {
            printf("%s", i ? ",\n" : "");
            row_print_json(&r);
        } else {
            if (i == 0)
                row_print_csv_header(&r);
            row_print_csv(&r);
        }
        ok = ok && !r.failed;
        row_free(&r);
    }
    printf("%s", info->o->csv ? "" : n > 1 ? "]\n" : "\n");
    return ok;
}
