/* A program of libinfer 1.0: it is kept as it is, compiled with the headers of 1.0 (tests/abi/headers-1.0) and with those of today, and must run on
 * every later 1.x. It tries what docs/abi.md promises: statuses, defaults, values of constants as built into it, the bits of numerics version 1.
 * Prints TAP. program_1_0 MODEL: models/tiny.gguf. Lines may be added to it for 1.0's functions, none changed. */
#include <infer/infer.h>
#include <infer/scheduler.h>
#include <infer/state.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of numerics version 1: the logits behind the prompt, as bytes, and the 12 likeliest tokens that follow. */
static const uint64_t logits_digest = UINT64_C(3763425489832603199);
#define ANSWER ", the little girls came to the little Red H"

static int number, failed;
static infer_error err;

static void check(int good, const char *what)
{
    failed += !good;
    printf("%sok %d - %s\n", good ? "" : "not ", ++number, what);
    if (!good && err.code)
        printf("# %s: %s (%s)\n", infer_status_name(err.code), err.text, err.name);
}

/* FNV-1a. */
static uint64_t digest(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(1099511628211);
    return h;
}

static infer_engine *engine;
static infer_model *model;

static void try_versions_and_statuses(void)
{
    check(infer_abi_version() == 1, "the ABI is 1");
    check(!strncmp(infer_version(), "1.", 2), "the version is 1.x");
    check(!strcmp(infer_status_name(-22), "INFER_ERROR_FORMAT") && !strcmp(infer_status_name(-80), "INFER_ERROR_CONTEXT_FULL"), "statuses have their names");
    check(!strcmp(infer_status_message(INFER_OK), "success"), "statuses have their messages");
    check(infer_cpu_from_name("scalar", INFER_ZSTR) == 1 && infer_cpu_from_name("avx2", 4) == 10, "processors have their numbers");
    check(!strcmp(infer_type_name(12), "Q4_K"), "types have their numbers");
}

static void try_opening(const char *path)
{
    infer_engine_options options;
    infer_engine_info info;
    infer_model_info model_info;
    infer_model *none = NULL;
    INFER_INIT(&options);
    options.threads = 2;
    check(infer_engine_create(&options, &engine, &err) == 0, "an engine is made");
    INFER_INIT(&info);
    check(infer_engine_get_info(engine, &info, &err) == 0 && info.threads == 2 && info.cpu > 0 && info.numerics == 0 && info.kv_budget == 0,
          "its defaults: the processor's best, exact numerics, no KV budget");
    options.log_level = 99;
    check(infer_engine_create(&options, &engine, &err) == -1 && !strcmp(err.name, "log_level"), "an unknown log level is ARGUMENT, which names the field");
    check(infer_model_open_path(engine, "no such file", &none, &err) == -21 && err.code == -21 && !none, "a file that is not there is NOT_FOUND");
    check(infer_model_open_path(engine, path, &model, &err) == 0, "the model opens");
    INFER_INIT(&model_info);
    check(infer_model_get_info(model, &model_info, &err) == 0 && model_info.size == sizeof model_info && model_info.n_ctx_train == 512
              && !strcmp(model_info.architecture, "llama") && model_info.encoder == 0,
          "it tells what it is");
    check(infer_template_is_fallback(infer_model_template(model)) == 1, "it has no template of its own: ChatML");
}

static void try_text(void)
{
    const infer_tokenizer *t = infer_model_tokenizer(model);
    int32_t ids[64];
    char text[64];
    uint64_t n = 0, len = 0;
    check(infer_tokenize(t, "Once upon a time", INFER_ZSTR, 0, ids, 64, &n, &err) == 0 && n > 0, "text becomes ids");
    check(infer_detokenize(t, ids, n, 0, text, sizeof text, &len, &err) == 0 && len >= 16 && !memcmp(text + len - 16, "Once upon a time", 16), "ids become the text");
    uint64_t need = n;
    check(infer_tokenize(t, "Once upon a time", INFER_ZSTR, 0, ids, 1, &n, &err) == -7 && n == need, "too small a buffer is BUFFER and tells the need");
    check(infer_tokenize(t, "x", 1, 1u << 30, ids, 64, &n, &err) == -1, "an unknown flag is ARGUMENT");
}

static infer_session *new_session(void)
{
    infer_session *s = NULL;
    check(infer_session_create(model, NULL, &s, &err) == 0, "a session is made");
    check(infer_session_append_text(s, "Once upon a time", INFER_ZSTR, INFER_TOKENIZE_ADD_SPECIAL, &err) == 0, "it takes a prompt");
    return s;
}

static int32_t collect(void *user, const infer_event *event)
{
    char **at = user;
    memcpy(*at, event->text, (size_t)event->text_len);
    *at += event->text_len;
    return 0;
}

/* Greedy, 12 tokens. */
static void generate(infer_session *s, char out[512])
{
    infer_generate_options options;
    char *at = out;
    INFER_INIT(&options);
    options.max_tokens = 12;
    check(infer_generate(s, &options, collect, &at, NULL, &err) == 0, "an answer is generated");
    *at = 0;
}

static void try_steps(char answer[512])
{
    infer_session *s = new_session();
    infer_session_info info;
    infer_step_item item;
    const float *logits = NULL;
    uint64_t position = 0;
    INFER_INIT(&info);
    check(infer_session_get_info(s, &info, &err) == 0 && info.n_ctx == 512 && info.computed == 0 && info.length > 0, "n_ctx 0 is the model's own");
    INFER_INIT(&item);
    item.session = s;
    check(infer_step(&item, 1, NULL, &err) == 0 && item.status == 0 && item.done == info.length, "a step computes what is pending");
    check(infer_session_logits(s, 0, &logits, &position, &err) == 0 && position == info.length - 1, "the last element has logits");
    infer_model_info m;
    INFER_INIT(&m);
    check(infer_model_get_info(model, &m, &err) == 0, "the model has a vocabulary");
    if (infer_numerics_version() == 1) {
        uint64_t h = logits ? digest(logits, m.vocab_size * sizeof *logits) : 0;
        check(h == logits_digest, "numerics version 1 has the same bits as ever");
        if (h != logits_digest)
            printf("# digest %llu\n", (unsigned long long)h);
    }
    check(infer_session_logits(s, 1, &logits, NULL, &err) == -1, "a row that is not there is ARGUMENT");
    generate(s, answer);
    check(strlen(answer) > 0, "the default of sampling is greedy, and gives text");
    if (infer_numerics_version() == 1)
        check(!strcmp(answer, ANSWER), "numerics version 1 gives the same answer as ever");
    int32_t bad = -5;
    check(infer_session_append(s, &bad, 1, &err) == -60, "a bad id is TOKEN");
    infer_session_release(s);
}

static void try_state(const char *answer)
{
    infer_session *s = new_session(), *fork = NULL, *again = NULL;
    infer_checkpoint *c = NULL, *got = NULL;
    infer_store *store = NULL;
    char text[512];
    check(infer_checkpoint_create(s, &c, &err) == 0, "a checkpoint is made");
    check(infer_session_fork(s, &fork, &err) == 0, "a session forks");
    generate(fork, text);
    check(!strcmp(text, answer), "a fork gives the same answer");
    check(infer_store_open(engine, NULL, 0, NULL, &store, &err) == 0 && infer_store_put(store, "a", 1, c, 0, NULL, &err) == 0, "a store keeps it");
    check(infer_store_put(store, "a", 1, c, 0, NULL, &err) == -25, "the same name again is EXISTS");
    check(infer_store_get(store, model, "a", 1, NULL, &got, &err) == 0 && infer_checkpoint_session(got, &again, &err) == 0, "and gives it back");
    generate(again, text);
    check(!strcmp(text, answer), "what is restored gives the same answer");
    infer_store_release(store);
    infer_checkpoint_release(got);
    infer_checkpoint_release(c);
    infer_session_release(again);
    infer_session_release(fork);
    infer_session_release(s);
}

struct heard {
    char text[512], *at;
    int started, tokens, done, end;
};

static void hear(void *user, infer_request *request, const infer_request_event *event)
{
    struct heard *h = user;
    (void)request;
    memcpy(h->at, event->text, (size_t)event->text_len);
    h->at += event->text_len;
    *h->at = 0;
    h->started += event->kind == INFER_REQUEST_EVENT_STARTED;
    h->tokens += event->kind == INFER_REQUEST_EVENT_TOKEN;
    h->done += event->kind == INFER_REQUEST_EVENT_DONE;
    h->end += event->kind == INFER_REQUEST_EVENT_END;
}

static void try_scheduler(const char *answer)
{
    static struct heard h;
    infer_scheduler *scheduler = NULL;
    infer_generate_options generate_options;
    infer_request_options options;
    int32_t more = 1;
    h.at = h.text;
    INFER_INIT(&generate_options);
    generate_options.max_tokens = 12;
    INFER_INIT(&options);
    options.text = "Once upon a time";
    options.text_len = INFER_ZSTR;
    options.text_flags = INFER_TOKENIZE_ADD_SPECIAL;
    options.generate = &generate_options;
    options.callback = hear;
    options.callback_user = &h;
    check(infer_scheduler_create(model, NULL, &scheduler, &err) == 0, "a scheduler is made");
    check(infer_scheduler_submit(scheduler, &options, NULL, &err) == 0, "it takes a request");
    while (more && infer_scheduler_step(scheduler, &more, NULL, &err) == 0)
        continue;
    check(!more && h.started == 1 && h.tokens == 12 && h.done == 1 && h.end == 1, "each event is told as often as it should be");
    check(!strcmp(h.text, answer), "the answer is the same");
    infer_scheduler_release(scheduler);
}

/* A struct of a program that is older than 1.0's own, and of one that is newer. */
static void try_sizes(void)
{
    struct {
        infer_open_options known;
        uint64_t unknown[4];
    } newer;
    infer_source source;
    infer_file *file = NULL;
    infer_source_path(&source, "no such file", INFER_ZSTR);
    infer_init(&newer, sizeof newer);
    check(infer_file_open(NULL, &source, &newer.known, &file, &err) == -21, "a longer struct of zeros is taken");
    newer.unknown[3] = 1;
    check(infer_file_open(NULL, &source, &newer.known, &file, &err) == -1, "a field that is not known is ARGUMENT");
    newer.known.size = 0;
    check(infer_file_open(NULL, &source, &newer.known, &file, &err) == -1, "a size of 0 is ARGUMENT");
}

int main(int argc, char **argv)
{
    char answer[512] = "";
    INFER_INIT(&err);
    if (argc != 2)
        return 2;
    try_versions_and_statuses();
    try_opening(argv[1]);
    if (model) {
        try_text();
        try_steps(answer);
        try_state(answer);
        try_scheduler(answer);
    }
    try_sizes();
    infer_model_release(model);
    infer_engine_release(engine);
    printf("1..%d\n", number);
    return failed != 0;
}
