#include "model.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapters.h"
#include "output.h"
#include "memory.h"
#include "system.h"

#define DEFAULT_MODEL "SmolLM2-135M-Instruct.Q4_1.gguf" /* as scripts/quickstart stores it */
#define BUNDLED_MODEL "tiny.gguf"

static bool readable(const struct text *path)
{
    return !path->failed && path->len && access(path->data, R_OK) == 0;
}

/* $XDG_CACHE_HOME/infer/models, by the XDG base directory specification: relative values count as unset. */
static bool cached_model(struct text *path)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/') {
        text_puts(path, cache);
    } else if (home && home[0]) {
        text_puts(path, home);
        text_puts(path, "/.cache");
    } else {
        return false;
    }
    text_puts(path, "/infer/models/" DEFAULT_MODEL);
    return readable(path);
}

/* Where the bundled model may lie, seen from the folder of the executable: in a build tree, and installed. */
static bool beside_executable(struct text *path, const char *relative)
{
    char exe[4096];
    if (!system_executable(exe, sizeof exe))
        return false;
    size_t n = strlen(exe);
    while (n > 0 && exe[n - 1] != '/')
        n--;
    text_clear(path);
    text_put(path, exe, n);
    text_puts(path, relative);
    return readable(path);
}

static bool bundled_model(struct text *path)
{
    if (beside_executable(path, "../../models/" BUNDLED_MODEL) ||
        beside_executable(path, "../share/infer/models/" BUNDLED_MODEL))
        return true;
    text_clear(path);
    text_puts(path, CLI_DATADIR "/infer/models/" BUNDLED_MODEL);
    return readable(path);
}

int cli_model_find(struct cli *c)
{
    struct text path = {0};
    if (c->opt.model) {
        text_puts(&path, c->opt.model);
    } else if (!cached_model(&path)) {
        c->bundled = bundled_model(&path);
        if (!c->bundled) {
            complain(INFER_ERROR_NOT_FOUND, "no model: give one with -m FILE, or fetch the default one with scripts/quickstart");
            text_free(&path);
            return EXIT_MODEL;
        }
        note("no model in the cache; using the small bundled one, which only continues text in the manner of old books");
    }
    if (path.failed) {
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
        text_free(&path);
        return EXIT_LIMIT;
    }
    c->model_path = path.data;
    return EXIT_OK;
}

static int failed_to_open(const struct cli *c, const infer_error *err)
{
    if (interrupted())
        return EXIT_INTERRUPTED;
    note_error(err->file[0] ? NULL : c->model_path, err);
    return exit_code(err->code, false);
}

static int open_engine(struct cli *c)
{
    infer_error err;
    infer_engine_options eo;
    INFER_INIT(&err);
    INFER_INIT(&eo);
    eo.cpu = c->opt.cpu;
    eo.numerics = c->opt.numerics;
    eo.threads = c->opt.threads;
    eo.cache_bytes = (uint64_t)c->opt.cache_mib << 20;
    eo.memory_limit = c->memory_limit;
    if (infer_engine_create(&eo, &c->engine, &err) == INFER_OK)
        return EXIT_OK;
    note_error(NULL, &err);
    return err.code == INFER_ERROR_NO_MEMORY ? EXIT_LIMIT : EXIT_USAGE; /* --cpu, --threads or --numerics */
}

static int open_session(struct cli *c)
{
    infer_error err;
    infer_session_options so;
    INFER_INIT(&err);
    INFER_INIT(&so);
    so.n_ctx = c->opt.ctx;
    so.kv_type = c->opt.kv_type;
    so.kv_recent = c->opt.kv_recent;
    if (infer_session_create(c->model, &so, &c->session, &err) != INFER_OK) {
        note_error(NULL, &err);
        return err.code == INFER_ERROR_ARGUMENT || err.code == INFER_ERROR_UNSUPPORTED ? EXIT_USAGE
                                                                                     : exit_code(err.code, false);
    }
    if (infer_session_set_sampling(c->session, &c->opt.sampling, &err) != INFER_OK) {
        note_error(NULL, &err);
        return err.code == INFER_ERROR_NO_MEMORY ? EXIT_LIMIT : EXIT_USAGE;
    }
    return EXIT_OK;
}

static int need_tokenizer(struct cli *c)
{
    infer_model_info info;
    INFER_INIT(&info);
    INFER_INIT(&c->tok);
    c->tokenizer = infer_model_tokenizer(c->model);
    if (c->tokenizer)
        return infer_tokenizer_get_info(c->tokenizer, &c->tok, NULL) == INFER_OK ? EXIT_OK : EXIT_MODEL;
    (void)infer_model_get_info(c->model, &info, NULL);
    complain(INFER_ERROR_UNSUPPORTED, "%s: its tokenizer cannot be used: %s", c->model_path, info.tokenizer_problem);
    return EXIT_MODEL;
}

/* Without a template of its own a model was not made for conversation: it continues text. */
static void choose_mode(struct cli *c)
{
    infer_model_info info;
    INFER_INIT(&info);
    c->raw = c->opt.raw || c->opt.score;
    if (c->raw || !infer_template_is_fallback(infer_model_template(c->model)))
        return;
    c->raw = true;
    (void)infer_model_get_info(c->model, &info, NULL);
    if (info.template_problem[0])
        note("the model's chat template cannot be used (%s); continuing the text as it is", info.template_problem);
    else if (!c->bundled)
        note("the model has no chat template; continuing the text as it is");
    if (c->opt.system || c->opt.n_template_args)
        note("--system and --template-arg have no effect without one");
}

int cli_model_open(struct cli *c)
{
    infer_error err;
    infer_source source;
    infer_open_options oo;
    double start = seconds_now();
    int code = memory_plan(c);
    if (code == EXIT_OK)
        code = open_engine(c);
    if (code != EXIT_OK)
        return code;
    INFER_INIT(&err);
    INFER_INIT(&oo);
    oo.cancel = interrupt_arm();
    oo.quantise = c->opt.quantise;
    oo.n_ctx = c->opt.ctx;
    infer_source_path(&source, c->model_path, INFER_ZSTR);
    infer_status st = infer_model_open(c->engine, &source, &oo, &c->model, &err);
    interrupt_disarm();
    if (st != INFER_OK)
        return failed_to_open(c, &err);
    code = need_tokenizer(c);
    if (code == EXIT_OK && !c->opt.embed)
        code = open_session(c);
    if (code == EXIT_OK && !c->opt.embed)
        code = adapters_start(c);
    if (code == EXIT_OK && !c->opt.embed)
        choose_mode(c);
    c->load_s = seconds_now() - start;
    return code;
}

void cli_model_close(struct cli *c)
{
    infer_session_release(c->session);
    adapters_close(c);
    infer_model_release(c->model);
    infer_engine_release(c->engine);
    free(c->model_path);
}
