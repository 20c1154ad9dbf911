#include "start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "adapters.h"
#include "bytes.h"
#include "call.h"
#include "metrics.h"
#include "native.h"
#include "responses.h"

#define EXIT_USAGE 2
#define EXIT_MODEL 3
#define EXIT_FAILURE_START 1
#define CACHE_MOST ((uint64_t)8 << 30)

static int fail(int code, const char *what, const infer_error *err)
{
    const char *file = err->file[0] ? err->file : what;
    fprintf(stderr, "infer-server: %s: %s%s%s\n", file, err->name[0] ? err->name : "", err->name[0] ? ": " : "", err->text);
    return code;
}

/* ---- Memory and folders ---- */

/* Bytes of memory that could be had now; 0: the system does not say. */
static uint64_t available_memory(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib << 10;
}

/* Of what keeps memory beside the answers; none of it shall take all that --memory leaves. */
static uint64_t at_most_quarter(const struct server *s, uint64_t bytes)
{
    return s->memory_limit && bytes > s->memory_limit / 4 ? s->memory_limit / 4 : bytes;
}

static uint64_t cache_bytes(const struct server *s, const struct options *o)
{
    if (o->cache_bytes != SIZE_DEFAULT)
        return o->cache_bytes;
    uint64_t quarter = available_memory() / 4;
    uint64_t bytes = at_most_quarter(s, quarter == 0 || quarter > CACHE_MOST ? CACHE_MOST : quarter);
    return o->kv_budget && bytes > o->kv_budget / 2 ? o->kv_budget / 2 : bytes;
}

/* DIR/name, or NULL: nothing is kept there. */
static char *kv_folder(const struct options *o, const char *name)
{
    struct bytes path = {0};
    if (!o->kv_dir)
        return NULL;
    bytes_printf(&path, "%s/%s", o->kv_dir, name);
    if (!path.failed)
        return path.data;
    bytes_free(&path);
    return NULL;
}

static int make_kv_dir(const struct options *o)
{
    struct stat st;
    if (!o->kv_dir || mkdir(o->kv_dir, 0700) == 0 || (errno == EEXIST && stat(o->kv_dir, &st) == 0 && S_ISDIR(st.st_mode)))
        return 0;
    fprintf(stderr, "infer-server: --kv-dir %s: %s\n", o->kv_dir, errno == EEXIST ? "is no folder" : strerror(errno));
    return EXIT_FAILURE_START;
}

/* Clients would otherwise be the first to hear that it is not there. */
static int check_lora_dir(const struct options *o)
{
    struct stat st;
    if (!o->lora_dir || (stat(o->lora_dir, &st) == 0 && S_ISDIR(st.st_mode)))
        return 0;
    fprintf(stderr, "infer-server: --lora-dir %s: %s\n", o->lora_dir, stat(o->lora_dir, &st) == 0 ? "is no folder" : strerror(errno));
    return EXIT_FAILURE_START;
}

/* ---- Engine, model, scheduler ---- */

static void log_line(void *user, int32_t level, const char *text, uint64_t len)
{
    (void)user;
    fprintf(stderr, "infer-server: %s%.*s\n", level == INFER_LOG_WARNING ? "warning: " : "", (int)len, text);
}

static infer_engine_options engine_options(const struct options *o)
{
    infer_engine_options eo;
    INFER_INIT(&eo);
    eo.threads = o->threads ? o->threads : o->isolate ? 1 : 0; /* children share the cores by being many */
    eo.kv_budget = o->kv_budget;
    eo.log = log_line;
    return eo;
}

/* With --memory: the context that fits when so many are full at once, unless --ctx says one, and what the engine may take. An exit status. */
static int plan_memory(struct server *s, struct options *o, uint32_t sessions)
{
    infer_error err;
    infer_estimate e;
    infer_source source;
    infer_open_options oo;
    infer_estimate_options want;
    infer_engine *like = NULL;
    infer_engine_options eo = engine_options(o);
    if (o->memory == SIZE_DEFAULT)
        return 0;
    eo.log = NULL; /* what there is to say is said when the model is opened */
    INFER_INIT(&err);
    INFER_INIT(&e);
    INFER_INIT(&oo);
    INFER_INIT(&want);
    want.kv_type = o->kv_type;
    want.n_ctx = o->ctx;
    want.sessions = sessions;
    want.budget = o->memory;
    infer_source_path(&source, o->model, INFER_ZSTR);
    infer_status st = infer_engine_create(&eo, &like, &err);
    if (st == INFER_OK)
        st = infer_model_estimate(like, &source, &oo, &want, &e, &err);
    infer_engine_release(like);
    if (st != INFER_OK)
        return fail(st == INFER_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_MODEL, st == INFER_ERROR_LIMIT ? "--memory" : o->model, &err);
    o->ctx = e.n_ctx;
    s->memory_limit = o->memory - e.mapped_bytes;
    return 0;
}

static int open_engine(struct server *s, const struct options *o)
{
    infer_error err;
    infer_engine_options eo = engine_options(o);
    char *cache = kv_folder(o, "cache");
    INFER_INIT(&err);
    eo.cache_bytes = cache_bytes(s, o);
    eo.memory_limit = s->memory_limit;
    if (cache && eo.cache_bytes) {
        eo.cache_dir = cache;
        eo.cache_dir_len = strlen(cache);
        eo.cache_dir_bytes = o->kv_dir_bytes;
    }
    infer_status st = infer_engine_create(&eo, &s->engine, &err);
    free(cache);
    return st == INFER_OK ? 0 : fail(EXIT_FAILURE_START, "engine", &err);
}

/* "/models/llama-3.gguf" is called "llama-3". */
static char *name_of(const char *path)
{
    const char *end = path + strlen(path);
    while (end > path + 1 && end[-1] == '/')
        end--;
    const char *begin = end;
    while (begin > path && begin[-1] != '/')
        begin--;
    if (end - begin > 5 && strncmp(end - 5, ".gguf", 5) == 0)
        end -= 5;
    return strndup(begin, (size_t)(end - begin));
}

static int open_model(struct server *s, const struct options *o)
{
    infer_error err;
    infer_open_options oo;
    infer_source source;
    INFER_INIT(&err);
    INFER_INIT(&oo);
    oo.n_ctx = o->ctx;
    infer_source_path(&source, o->model, INFER_ZSTR);
    if (infer_model_open(s->engine, &source, &oo, &s->model, &err) != INFER_OK)
        return fail(EXIT_MODEL, o->model, &err);
    INFER_INIT(&s->info);
    (void)infer_model_get_info(s->model, &s->info, NULL);
    s->tokenizer = infer_model_tokenizer(s->model);
    s->tmpl = infer_model_template(s->model);
    s->encoder = s->info.encoder != 0;
    s->name = o->alias ? strdup(o->alias) : name_of(o->model);
    s->created = (int64_t)time(NULL);
    return s->name ? 0 : fail(EXIT_FAILURE_START, "out of memory", &err);
}

static uint64_t clock_us(void *user)
{
    (void)user;
    return now_us();
}

static int open_scheduler(struct server *s, const struct options *o)
{
    infer_error err;
    infer_scheduler_options so;
    INFER_INIT(&err);
    INFER_INIT(&so);
    so.max_active = o->parallel;
    so.max_waiting = o->max_queue ? o->max_queue : 1;
    so.clock = clock_us;
    if (s->encoder || infer_scheduler_create(s->model, &so, &s->scheduler, &err) == INFER_OK)
        return 0;
    return fail(EXIT_FAILURE_START, "scheduler", &err);
}

static int open_store(struct server *s, const struct options *o)
{
    infer_error err;
    infer_store_options so;
    char *path = kv_folder(o, "checkpoints");
    INFER_INIT(&err);
    INFER_INIT(&so);
    so.max_bytes = o->checkpoint_bytes != SIZE_DEFAULT ? o->checkpoint_bytes : path ? 0 : at_most_quarter(s, available_memory() / 2);
    infer_status st = infer_store_open(s->engine, path, path ? strlen(path) : 0, &so, &s->store, &err);
    int code = st == INFER_OK ? 0 : fail(EXIT_FAILURE_START, path ? path : "store", &err);
    free(path);
    return code;
}

static int open_adapters(struct server *s, const char *option, const struct text_list *list)
{
    for (uint32_t i = 0; i < list->n; i++) {
        const char *equals = strchr(list->items[i], '=');
        char name[80];
        infer_error err;
        INFER_INIT(&err);
        if (!equals || equals == list->items[i] || !equals[1] || (size_t)(equals - list->items[i]) >= sizeof name) {
            fprintf(stderr, "infer-server: --%s %s: NAME=FILE is wanted, NAME of 1 to 64 letters, digits, '_', '-', '.' and ':'\n", option, list->items[i]);
            return EXIT_USAGE;
        }
        (void)snprintf(name, sizeof name, "%.*s", (int)(equals - list->items[i]), list->items[i]);
        if (adapters_load(s, name, equals + 1, &err) != INFER_OK)
            return fail(EXIT_MODEL, equals + 1, &err);
    }
    return 0;
}

static int open_responses(struct server *s, const struct options *o)
{
    infer_error err;
    struct responses_options ro = {.dir = kv_folder(o, "responses"), .max_count = o->max_responses, .max_bytes = o->responses_bytes,
                                   .max_state_bytes = o->response_states_bytes};
    INFER_INIT(&err);
    if (ro.max_state_bytes == SIZE_DEFAULT) {
        ro.max_state_bytes = ro.dir ? (uint64_t)8 << 30 : (uint64_t)1 << 30;
        if (!ro.dir && o->kv_budget && ro.max_state_bytes > o->kv_budget / 4)
            ro.max_state_bytes = o->kv_budget / 4;
        if (!ro.dir)
            ro.max_state_bytes = at_most_quarter(s, ro.max_state_bytes);
    }
    infer_status st = responses_open(s, &ro, &s->responses, &err);
    int code = st == INFER_OK ? 0 : fail(EXIT_FAILURE_START, ro.dir ? ro.dir : "responses", &err);
    free((char *)(uintptr_t)ro.dir);
    return code;
}

int server_open(struct server *server, struct options *o)
{
    uint32_t ctx = o->ctx;
    server->options = o;
    int code = make_kv_dir(o);
    if (code == 0)
        code = check_lora_dir(o);
    if (code == 0)
        code = plan_memory(server, o, 1);
    if (code == 0)
        code = open_engine(server, o);
    if (code == 0)
        code = open_model(server, o);
    if (code == 0 && server->encoder) { /* not of one answer, but of all texts that are computed at once */
        o->ctx = ctx ? ctx : server->info.embed_tokens;
        code = plan_memory(server, o, EMBEDDINGS_BATCH);
    }
    if (code == 0 && !(server->adapters = adapters_create())) {
        fputs("infer-server: out of memory\n", stderr);
        code = EXIT_FAILURE_START;
    }
    if (code == 0)
        code = open_adapters(server, "lora", &o->loras);
    if (code == 0)
        code = open_adapters(server, "steer", &o->steers);
    if (code == 0)
        code = open_scheduler(server, o);
    if (code == 0)
        code = open_store(server, o);
    if (code == 0)
        code = open_responses(server, o);
    if (code == 0 && !(server->metrics = metrics_create())) {
        fputs("infer-server: out of memory\n", stderr);
        code = EXIT_FAILURE_START;
    }
    return code;
}

void server_close(struct server *server)
{
    infer_error err;
    INFER_INIT(&err);
    if (server->engine && server->options->kv_dir && infer_engine_cache_flush(server->engine, NULL, &err) != INFER_OK)
        fail(0, server->options->kv_dir, &err);
    infer_scheduler_release(server->scheduler);
    responses_close(server->responses);
    infer_store_release(server->store);
    adapters_free(server->adapters);
    infer_model_release(server->model);
    infer_engine_release(server->engine);
    metrics_free(server->metrics);
    free((char *)(uintptr_t)server->name);
}
