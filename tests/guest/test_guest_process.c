/* A host's forks and small stacks. */
#define _GNU_SOURCE
#include "guest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Fork while idle ---- */

static infer_engine *engine;
static infer_model *model;
static infer_session *session;
static char told[2][512];

static int32_t collect(void *user, const infer_event *event)
{
    strncat(user, event->text, (size_t)event->text_len);
    return 0;
}

static const char *go_on(char *text)
{
    infer_generate_options o = {.size = sizeof o, .max_tokens = 20};
    infer_error err = {.size = sizeof err};
    infer_status st = infer_generate(session, &o, collect, text, NULL, &err);
    CHECK(st == INFER_OK, "%s", err.text);
    return NULL;
}

static infer_session *kept;

/* Everything that holds the engine: the parent's threads, which are not here, are not waited for. */
static const char *releases_only(void)
{
    (void)alarm(60); /* where it would wait for ever */
    infer_session_release(session);
    infer_session_release(kept);
    infer_model_release(model);
    infer_engine_release(engine);
    return NULL;
}

static const char *in_the_child(void)
{
    char text[512] = "";
    struct guest_text all = {NULL, 0, 0};
    struct guest_setup s = {.api = &guest_linked, .folder = guest_folder()};
    RUN(go_on(text));
    RUN(guest_scenario(&s, &all)); /* and a model of its own */
    guest_text_free(&all);
    RUN(releases_only());
    return strcmp(text, told[0]) == 0 ? NULL : "the child says something else";
}

static const char *forks(void)
{
    infer_engine_options o = {.size = sizeof o, .threads = 3};
    infer_error err = {.size = sizeof err};
    infer_status st = infer_engine_create(&o, &engine, &err);
    st = st ? st : infer_model_open_path(engine, guest_model(), &model, &err);
    st = st ? st : infer_session_create(model, NULL, &kept, &err);
    st = st ? st : infer_session_append_text(kept, "Once upon a time", INFER_ZSTR, INFER_TOKENIZE_ADD_SPECIAL, &err);
    st = st ? st : infer_session_fork(kept, &session, &err);
    CHECK(st == INFER_OK, "%s", err.text);
    RUN(go_on(told[0])); /* the pool's threads are there now */
    infer_session_release(session);
    for (int i = 0; i < 3; i++) {
        CHECK(infer_session_fork(kept, &session, &err) == INFER_OK, "%s", err.text);
        int status = guest_child(i == 1 ? releases_only : in_the_child);
        CHECK(status == 0, "the child ended with %d", status);
        told[1][0] = 0;
        RUN(go_on(told[1])); /* the parent's threads are still there */
        CHECK(strcmp(told[0], told[1]) == 0, "the parent says something else");
        infer_session_release(session);
    }
    infer_session_release(kept);
    infer_model_release(model);
    infer_engine_release(engine);
    CHECK(guest_threads() == 1, "threads are left");
    return NULL;
}

/* ---- Small stacks: a thread whose stack is filled with a pattern, to see how far down it was used. ---- */

enum { STACK = 8 << 20, PATTERN = 0xA5 };

static struct {
    const char *(*work)(void);
    const char *why;
} job;

static void *run_job(void *arg)
{
    (void)arg;
    job.why = job.work();
    return NULL;
}

/* Runs work with this stack. *used: bytes of it that were written. */
static const char *with_stack(size_t size, const char *(*work)(void), size_t *used)
{
    pthread_attr_t attr;
    pthread_t thread;
    unsigned char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED, "no memory");
    memset(stack, PATTERN, size);
    job.work = work;
    job.why = "the thread did not run";
    CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstack(&attr, stack, size) == 0, "no such stack: %zu", size);
    CHECK(pthread_create(&thread, &attr, run_job, NULL) == 0, "no thread");
    (void)pthread_join(thread, NULL);
    (void)pthread_attr_destroy(&attr);
    size_t untouched = 0;
    while (untouched < size && stack[untouched] == PATTERN)
        untouched++;
    *used = size - untouched;
    (void)munmap(stack, size);
    return job.why;
}

static const char *everything(void)
{
    struct guest_text out = {NULL, 0, 0};
    struct guest_setup s = {.api = &guest_linked, .folder = guest_folder()};
    const char *why = guest_scenario(&s, &out);
    guest_text_free(&out);
    return why;
}

/* Templates and JSON as deeply nested as their limits allow; deeper ones are refused. *ok: how many of them rendered. */
static int rendered;

/* The template is begin, open so many times, middle, close so many times, end; the value x of its JSON is made likewise. */
static const char *nested(const char *const parts[5], const char *json_open, const char *json_close, int depth)
{
    size_t size = (size_t)depth * 64 + 256;
    char *text = malloc(size), *json = malloc(size), *t = text, *j = json, *out = malloc(1 << 16);
    uint64_t len;
    infer_template *tmpl = NULL;
    infer_error err = {.size = sizeof err};
    CHECK(text && json && out, "no memory");
    t = stpcpy(t, parts[0]);
    for (int i = 0; i < depth; i++)
        t = stpcpy(t, parts[1]);
    t = stpcpy(t, parts[2]);
    for (int i = 0; i < depth; i++)
        t = stpcpy(t, parts[3]);
    t = stpcpy(t, parts[4]);
    j = stpcpy(j, "{\"x\":");
    for (int i = 0; i < depth; i++)
        j = stpcpy(j, json_open);
    j = stpcpy(j, "1");
    for (int i = 0; i < depth; i++)
        j = stpcpy(j, json_close);
    j = stpcpy(j, "}");
    infer_status st = infer_template_parse(NULL, text, (uint64_t)(t - text), &tmpl, &err);
    if (st == INFER_OK)
        st = infer_template_render(tmpl, json, (uint64_t)(j - json), NULL, out, 1 << 16, &len, &err);
    rendered += st == INFER_OK;
    infer_template_release(tmpl);
    free(text);
    free(json);
    free(out);
    CHECK(st == INFER_OK || st == INFER_ERROR_LIMIT || st == INFER_ERROR_SYNTAX || st == INFER_ERROR_TEMPLATE || st == INFER_ERROR_BUFFER, "depth %d: %s: %s", depth,
          infer_status_name(st), err.text);
    return NULL;
}

static const char *deepest(void)
{
    static const char *const templates[][5] = {
        {"", "", "{{ x | tojson }}{{ x == x }}{{ x | string | length }}{{ x }}", "", ""},
        {"", "", "{{ x | tojson(indent=1) }}{{ x | list }}", "", ""},
        {"{{ ", "(", "1", ")", " }}"},
        {"{{ ", "[", "1", "]", " }}"},
        {"{{ ", "{'a': ", "1", "}", " }}"},
        {"{{ ", "-(", "1", ")", " }}"},
        {"{{ ", "not (", "1", ")", " }}"},
        {"{{ ", "1 + (", "1", ")", " }}"},
        {"{{ ", "1 if 0 else (", "1", ")", " }}"},
        {"{{ ", "x[", "0", "]", " }}"},
        {"{{ ", "'a' ~ (", "1", ")", " }}"},
        {"{{ ", "range(", "1", ")", " }}"},
        {"{{ ", "", "1", "|string", " }}"},
        {"{{ ", "", "x", "[0]", " }}"},
        {"", "{% if 1 %}", "{{ 1 }}", "{% endif %}", ""},
        {"", "{% for i in [1] %}", "{{ i }}", "{% endfor %}", ""},
        {"", "{% set a %}", "{{ 1 }}", "{% endset %}", ""},
        {"", "{% filter upper %}", "{{ 1 }}", "{% endfilter %}", ""},
        {"", "{% macro m() %}", "{{ 1 }}", "{% endmacro %}", "{{ m() }}"},
        {"{% macro m(n) %}{{ m(n + 1) if n < 150 }}{% endmacro %}{{ m(0) }}", "", "", "", ""},
        {"{% macro m(n) %}{{ m(n + 1) if n < 1000000 }}{% endmacro %}{{ m(0) }}", "", "", "", ""},
        {"{% macro m(n) %}{% for i in [1] %}{% if true %}{{ [m(n + 1)] | join }}{% endif %}{% endfor %}{% endmacro %}{{ m(0) }}", "", "", "", ""},
    };
    for (int depth = 4; depth < 20000; depth += depth / 3 + 1)
        for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
            RUN(nested(templates[i], "[", "]", depth));
            RUN(nested(templates[i], "{\"a\":", "}", depth));
        }
    CHECK(rendered > 100, "%d of the templates rendered", rendered);
    return NULL;
}

/* What the header says is enough; not with sanitizers, whose frames are larger. */
enum { PROMISED = 128 << 10, PROMISED_TEMPLATES = 512 << 10 };

static const char *small(const char *(*work)(void), size_t promised, const char *what)
{
    size_t used = 0;
    RUN(with_stack(STACK, work, &used));
    printf("# %s: %zu KiB of stack\n", what, used >> 10);
    (void)fflush(stdout);
#if GUEST_SANITIZED
    (void)promised;
#else
    CHECK(used <= promised, "%s: %zu bytes of stack", what, used);
    RUN(with_stack(promised, work, &used));
#endif
    return NULL;
}

static const char *small_scenario(void)
{
    return small(everything, PROMISED, "the scenario");
}

static const char *small_templates(void)
{
    return small(deepest, PROMISED_TEMPLATES, "nested templates");
}

static const struct guest_case cases[] = {
    {"forks while idle", forks},
    {"a small stack", small_scenario},
    {"a small stack, deeply nested templates", small_templates},
};
GUEST_MAIN(cases)
