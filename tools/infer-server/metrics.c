#include "metrics.h"

#include <pthread.h>
#include <string.h>

#include "call.h"
#include "options.h"
#include "shared.h"

static const double bounds[] = {0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5};
#define N_BOUNDS (sizeof bounds / sizeof bounds[0])
#define MAX_COUNTS 512 /* routes times statuses; what goes beyond is counted under the last */

struct histogram {
    uint64_t counts[N_BOUNDS + 1];
    double sum;
};
struct count {
    const char *route; /* of a table: static */
    int status;
    uint64_t n;
};

struct metrics {
    pthread_mutex_t lock;
    struct count counts[MAX_COUNTS];
    size_t n_counts;
    struct histogram latency, first_token;
    uint64_t prompt, cached, generated;
    uint32_t running;       /* children of --isolate fork */
    uint64_t started, lost;
};

struct metrics *metrics_create(void)
{
    struct metrics *m = shared_alloc(sizeof *m);
    if (m && shared_lock_init(&m->lock))
        return m;
    metrics_free(m);
    return NULL;
}

void metrics_free(struct metrics *m)
{
    shared_free(m, sizeof *m);
}

void metrics_children(struct metrics *m, uint32_t running, uint64_t started, uint64_t lost)
{
    shared_lock(&m->lock);
    m->running = running;
    m->started = started;
    m->lost = lost;
    shared_unlock(&m->lock);
}

static void observe(struct histogram *h, double seconds)
{
    size_t i = 0;
    while (i < N_BOUNDS && seconds > bounds[i])
        i++;
    h->counts[i]++;
    h->sum += seconds;
}

void metrics_tokens(struct server *server, struct call *call, uint64_t prompt, uint64_t cached, uint64_t generated)
{
    struct metrics *m = server->metrics;
    shared_lock(&m->lock);
    m->prompt += prompt;
    m->cached += cached;
    m->generated += generated;
    shared_unlock(&m->lock);
    if (!call)
        return;
    pthread_mutex_lock(&call->lock);
    call->prompt_tokens += prompt;
    call->cached_tokens += cached;
    call->generated_tokens += generated;
    pthread_mutex_unlock(&call->lock);
}

void metrics_request(struct server *server, struct call *call, const infer_request_info *info)
{
    struct metrics *m = server->metrics;
    metrics_tokens(server, call, info->prompt_tokens, info->cached_tokens, info->generated_tokens);
    if (info->first_token < info->submitted || info->first_token == 0)
        return;
    shared_lock(&m->lock);
    observe(&m->first_token, (double)(info->first_token - info->submitted) * 1e-6);
    shared_unlock(&m->lock);
}

void metrics_answered(struct metrics *m, const char *route, int status, double seconds)
{
    size_t i = 0;
    shared_lock(&m->lock);
    while (i < m->n_counts && (m->counts[i].status != status || strcmp(m->counts[i].route, route) != 0))
        i++;
    if (i == m->n_counts && m->n_counts < MAX_COUNTS)
        m->counts[m->n_counts++] = (struct count){route, status, 0};
    m->counts[i < MAX_COUNTS ? i : MAX_COUNTS - 1].n++;
    observe(&m->latency, seconds);
    shared_unlock(&m->lock);
}

/* ---- Text ---- */

static void put_value(struct bytes *out, const char *name, const char *type, const char *help, uint64_t v)
{
    bytes_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", name, help, name, type, name, (unsigned long long)v);
}

static void put_histogram(struct bytes *out, const char *name, const char *help, const struct histogram *h)
{
    uint64_t sum = 0;
    bytes_printf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (size_t i = 0; i <= N_BOUNDS; i++) {
        sum += h->counts[i];
        if (i < N_BOUNDS)
            bytes_printf(out, "%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)sum);
        else
            bytes_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)sum);
    }
    bytes_printf(out, "%s_sum %.6f\n%s_count %llu\n", name, h->sum, name, (unsigned long long)sum);
}

static void put_scheduler(struct server *server, struct bytes *out)
{
    infer_scheduler_info s;
    INFER_INIT(&s);
    if (!server->scheduler || infer_scheduler_get_info(server->scheduler, &s, NULL) != INFER_OK)
        return;
    put_value(out, "infer_sessions_active", "gauge", "Answers that are being computed.", s.active);
    put_value(out, "infer_requests_waiting", "gauge", "Requests that wait for their first step.", s.waiting);
    put_value(out, "infer_sessions_suspended", "gauge", "Answers that were set aside because memory was short.", s.suspended);
    put_value(out, "infer_preemptions_total", "counter", "How often an answer was set aside.", s.preemptions);
    put_value(out, "infer_steps_total", "counter", "Batches that were computed.", s.steps);
    put_value(out, "infer_requests_cancelled_total", "counter", "Requests that were cancelled, as when their clients went.", s.cancelled);
    put_value(out, "infer_requests_failed_total", "counter", "Requests that failed.", s.failed);
    put_value(out, "infer_session_kv_bytes", "gauge", "Attention state of active and suspended answers, bytes.", s.kv_bytes);
}

static void put_engine(struct server *server, struct bytes *out)
{
    infer_engine_info e;
    infer_cache_stats c;
    INFER_INIT(&e);
    INFER_INIT(&c);
    if (infer_engine_get_info(server->engine, &e, NULL) == INFER_OK)
        put_value(out, "infer_kv_bytes", "gauge", "Memory taken for attention state, the cache's included, bytes.", e.kv_bytes);
    if (infer_engine_cache_stats(server->engine, &c, NULL) != INFER_OK)
        return;
    put_value(out, "infer_cache_lookups_total", "counter", "Look-ups in the prefix cache.", c.lookups);
    put_value(out, "infer_cache_hits_total", "counter", "Look-ups that gave all they could.", c.hits);
    put_value(out, "infer_cache_partial_hits_total", "counter", "Look-ups that gave something.", c.partial_hits);
    put_value(out, "infer_cache_saved_tokens_total", "counter", "Prompt tokens that were not computed.", c.saved);
    put_value(out, "infer_cache_evictions_total", "counter", "Pieces of prefixes that were dropped.", c.evictions);
    put_value(out, "infer_cache_bytes", "gauge", "What the prefix cache keeps, bytes.", c.bytes);
    put_value(out, "infer_cache_disk_bytes", "gauge", "What the prefix cache keeps on disk, bytes.", c.disk_bytes);
}

void metrics_text(struct server *server, struct bytes *out)
{
    struct metrics *m = server->metrics;
    shared_lock(&m->lock);
    bytes_puts(out, "# HELP infer_http_requests_total Requests that were answered, by route and status.\n# TYPE infer_http_requests_total counter\n");
    for (size_t i = 0; i < m->n_counts; i++)
        bytes_printf(out, "infer_http_requests_total{route=\"%s\",status=\"%d\"} %llu\n", m->counts[i].route, m->counts[i].status,
                     (unsigned long long)m->counts[i].n);
    put_histogram(out, "infer_http_request_seconds", "From the end of a request's headers to the end of its answer, seconds.", &m->latency);
    put_histogram(out, "infer_time_to_first_token_seconds", "From a request's submission to its first token, seconds.", &m->first_token);
    put_value(out, "infer_prompt_tokens_total", "counter", "Tokens of prompts.", m->prompt);
    put_value(out, "infer_cached_tokens_total", "counter", "Tokens of prompts that were in the cache.", m->cached);
    put_value(out, "infer_generated_tokens_total", "counter", "Tokens that were generated.", m->generated);
    if (m->started) {
        put_value(out, "infer_children", "gauge", "Processes that serve a connection.", m->running);
        put_value(out, "infer_children_started_total", "counter", "Processes that were started for a connection.", m->started);
        put_value(out, "infer_children_lost_total", "counter", "Of these, those that crashed or were killed.", m->lost);
    }
    shared_unlock(&m->lock);
    if (server->options->isolate)
        return; /* schedulers and caches are each child's own: this one's tell nothing */
    put_scheduler(server, out);
    put_engine(server, out);
}
