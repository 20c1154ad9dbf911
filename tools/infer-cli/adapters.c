#include "adapters.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "output.h"

/* ---- What an argument says ---- */

static bool is_number(const char *s, size_t len, double *out)
{
    char copy[32], *end;
    if (!len || len >= sizeof copy)
        return false;
    memcpy(copy, s, len);
    copy[len] = 0;
    *out = strtod(copy, &end);
    return !*end && (copy[0] == '-' || copy[0] == '+' || copy[0] == '.' || (copy[0] >= '0' && copy[0] <= '9'));
}

/* "3" or "3-7": layers from the first to the last. */
static bool is_layers(const char *s, size_t len, uint32_t *first, uint32_t *count)
{
    const char *dash = memchr(s, '-', len);
    double a, b;
    size_t n = dash ? (size_t)(dash - s) : len;
    if (!is_number(s, n, &a) || !is_number(dash ? dash + 1 : s, dash ? len - n - 1 : n, &b))
        return false;
    if (!(a >= 0 && b >= a && b < 100000) || floor(a) < a || floor(b) < b)
        return false;
    *first = (uint32_t)a;
    *count = (uint32_t)(b - a) + 1;
    return true;
}

/* The last field before `len`, behind a colon; NULL: there is none. */
static const char *last_field(const char *arg, size_t len)
{
    for (size_t i = len; i > 1; i--)
        if (arg[i - 1] == ':')
            return arg + i;
    return NULL;
}

char *adapter_parse(const char *arg, bool steer, infer_adapter_use *u)
{
    size_t len = strlen(arg);
    const char *f = last_field(arg, len);
    double scale = 1, ignored;
    INFER_INIT(u);
    if (steer && f && len - (size_t)(f - arg) == 7 && !memcmp(f, "project", 7)) {
        u->mode = INFER_ADAPTER_PROJECT;
        len = (size_t)(f - arg) - 1;
        f = last_field(arg, len);
    }
    size_t flen = f ? len - (size_t)(f - arg) : 0;
    const char *before = f ? last_field(arg, (size_t)(f - arg) - 1) : NULL;
    if (steer && before && is_number(before, (size_t)(f - before) - 1, &ignored) && is_layers(f, flen, &u->first_layer, &u->layer_count)) {
        len = (size_t)(f - arg) - 1;
        f = before;
        flen = len - (size_t)(f - arg);
    }
    if (f && is_number(f, flen, &scale))
        len = (size_t)(f - arg) - 1;
    u->scale = (float)scale;
    char *path = malloc(len + 1);
    if (path) {
        memcpy(path, arg, len);
        path[len] = 0;
    }
    return path;
}

/* ---- Opening ---- */

static int failed(const char *path, const infer_error *err)
{
    note_error(path, err);
    return err->code == INFER_ERROR_NO_MEMORY ? EXIT_LIMIT : EXIT_MODEL;
}

static bool is_attached(const infer_adapter_use *u)
{
    infer_adapter_info info;
    INFER_INIT(&info);
    return infer_adapter_get_info(u->adapter, &info, NULL) == INFER_OK && (info.kind == INFER_ADAPTER_LORA || info.kind == INFER_ADAPTER_STEERING);
}

static infer_status apply(const struct cli *c, infer_error *err)
{
    infer_adapter_use uses[CLI_MAX_ADAPTERS];
    uint64_t n = 0;
    for (uint32_t i = 0; i < c->n_adapters; i++)
        if (is_attached(&c->adapters[i].use))
            uses[n++] = c->adapters[i].use;
    return infer_session_set_adapters(c->session, uses, n, err);
}

/* Whether the file is of the kind that the option is for. */
static bool fits(const struct adapter_arg *a, infer_adapter *opened)
{
    infer_adapter_info info;
    INFER_INIT(&info);
    (void)infer_adapter_get_info(opened, &info, NULL);
    return a->kind == ARG_LORA ? info.kind == INFER_ADAPTER_LORA
           : a->kind == ARG_STEER ? info.kind == INFER_ADAPTER_STEERING : info.kind == INFER_ADAPTER_SOFT_PROMPT || info.kind == INFER_ADAPTER_PREFIX;
}

/* Adds one to the list. An exit code. */
static int open_one(struct cli *c, const struct adapter_arg *arg)
{
    infer_error err;
    struct cli_adapter *a = &c->adapters[c->n_adapters];
    INFER_INIT(&err);
    if (c->n_adapters == CLI_MAX_ADAPTERS) {
        complain(INFER_ERROR_LIMIT, "at most %d adapters", CLI_MAX_ADAPTERS);
        return EXIT_USAGE;
    }
    a->kind = arg->kind;
    a->path = adapter_parse(arg->value, arg->kind == ARG_STEER, &a->use);
    if (!a->path) {
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
        return EXIT_LIMIT;
    }
    if (infer_adapter_open_path(c->model, a->path, &a->use.adapter, &err) != INFER_OK) {
        int code = failed(a->path, &err);
        free(a->path);
        return code;
    }
    c->n_adapters++;
    if (fits(arg, a->use.adapter))
        return EXIT_OK;
    complain(INFER_ERROR_ARGUMENT, "%s: not %s", a->path,
             arg->kind == ARG_LORA ? "a LoRA adapter" : arg->kind == ARG_STEER ? "a steering vector" : "a soft prompt or prefix");
    return EXIT_USAGE;
}

infer_status adapters_append_rows(const struct cli *c, infer_session *s, infer_error *err)
{
    infer_status st = INFER_OK;
    for (uint32_t i = 0; i < c->n_adapters && st == INFER_OK; i++)
        if (!is_attached(&c->adapters[i].use))
            st = infer_session_append_adapter(s, c->adapters[i].use.adapter, err);
    return st;
}

int adapters_start(struct cli *c)
{
    infer_error err;
    infer_adapter_info info;
    INFER_INIT(&err);
    for (uint32_t i = 0; i < c->opt.n_adapters; i++) {
        int code = open_one(c, &c->opt.adapters[i]);
        if (code != EXIT_OK)
            return code;
        INFER_INIT(&info);
        (void)infer_adapter_get_info(c->adapters[c->n_adapters - 1].use.adapter, &info, NULL);
        c->n_rows += info.rows;
    }
    if (apply(c, &err) != INFER_OK) {
        note_error(NULL, &err);
        return err.code == INFER_ERROR_NO_MEMORY ? EXIT_LIMIT : EXIT_USAGE;
    }
    return EXIT_OK;
}

void adapters_close(struct cli *c)
{
    for (uint32_t i = 0; i < c->n_adapters; i++) {
        infer_adapter_release(c->adapters[i].use.adapter);
        free(c->adapters[i].path);
    }
    c->n_adapters = 0;
}

/* ---- Commands ---- */

static void drop(struct cli *c, uint32_t i)
{
    infer_adapter_release(c->adapters[i].use.adapter);
    free(c->adapters[i].path);
    memmove(&c->adapters[i], &c->adapters[i + 1], (c->n_adapters - i - 1) * sizeof c->adapters[i]);
    c->n_adapters--;
}

static void list(const struct cli *c, int32_t kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_adapters; i++) {
        const infer_adapter_use *u = &c->adapters[i].use;
        if (c->adapters[i].kind != kind)
            continue;
        n++;
        if (u->layer_count)
            remark("%s at %g%s in layers %u to %u", c->adapters[i].path, (double)u->scale, u->mode == INFER_ADAPTER_PROJECT ? " (projected out)" : "",
                   u->first_layer, u->first_layer + u->layer_count - 1);
        else
            remark("%s at %g%s", c->adapters[i].path, (double)u->scale, u->mode == INFER_ADAPTER_PROJECT ? " (projected out)" : "");
    }
    if (!n)
        remark("none");
}

/* The number of an open one of this path, n_adapters: none. */
static uint32_t find(const struct cli *c, int32_t kind, const char *path)
{
    uint32_t i = 0;
    while (i < c->n_adapters && (c->adapters[i].kind != kind || strcmp(c->adapters[i].path, path) != 0))
        i++;
    return i;
}

/* Attaches, or changes what is attached. */
static void change(struct cli *c, const struct adapter_arg *arg)
{
    infer_error err;
    infer_adapter_use u;
    char *path = adapter_parse(arg->value, arg->kind == ARG_STEER, &u);
    uint32_t i = path ? find(c, arg->kind, path) : 0, before = c->n_adapters;
    free(path);
    INFER_INIT(&err);
    if (path && i < before) {
        infer_adapter_use old = c->adapters[i].use;
        u.adapter = old.adapter;
        c->adapters[i].use = u;
        if (apply(c, &err) != INFER_OK) {
            c->adapters[i].use = old;
            note_error(NULL, &err);
            return;
        }
    } else if (open_one(c, arg) != EXIT_OK || apply(c, &err) != INFER_OK) {
        if (err.text[0])
            note_error(NULL, &err);
        if (c->n_adapters > before)
            drop(c, before);
        return;
    }
    remark("in force for what comes next");
}

static void command(struct cli *c, int32_t kind, const char *arg)
{
    infer_error err;
    INFER_INIT(&err);
    if (!arg[0]) {
        list(c, kind);
    } else if (strcmp(arg, "off") == 0) {
        for (uint32_t i = c->n_adapters; i--;)
            if (c->adapters[i].kind == kind)
                drop(c, i);
        if (apply(c, &err) != INFER_OK)
            note_error(NULL, &err);
        else
            remark("none in force for what comes next");
    } else {
        change(c, &(struct adapter_arg){kind, arg});
    }
}

/* What was said under other adapters stays as it is: such a state is no other prompt's. */
void chat_lora(struct chat *ch, const char *arg)
{
    ch->cache.on = ch->cache.on && !arg[0];
    command(ch->c, ARG_LORA, arg);
}

void chat_steer(struct chat *ch, const char *arg)
{
    ch->cache.on = ch->cache.on && !arg[0];
    command(ch->c, ARG_STEER, arg);
}
