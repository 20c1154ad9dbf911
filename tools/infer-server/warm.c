#include "warm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

enum { CACHED_FROM = 64 /* shorter prompts are not kept */, MAX_MESSAGES = 256, MAX_FILE = 64 << 20 };

static bool fail(const char *file, const char *what)
{
    fprintf(stderr, "infer-server: --warm %s: %s\n", file, what);
    return false;
}

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? malloc(MAX_FILE + 1) : NULL; /* pages that the file does not fill cost nothing */
    if (text) {
        *len = fread(text, 1, MAX_FILE + 1, f);
        if (ferror(f) || *len > MAX_FILE) {
            errno = ferror(f) ? errno : EFBIG;
            free(text);
            text = NULL;
        }
    }
    if (f)
        fclose(f);
    return text;
}

static bool append_messages(infer_session *session, const char *file, const char *text, size_t len, infer_error *err)
{
    json_error_t where;
    infer_message messages[MAX_MESSAGES];
    char what[256];
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where), *list = json_is_object(root) ? json_object_get(root, "messages") : root, *m;
    size_t i;
    bool ok = json_is_array(list) && json_array_size(list) > 0 && json_array_size(list) <= MAX_MESSAGES;
    if (!root)
        snprintf(what, sizeof what, "line %d, column %d: %s", where.line, where.column, where.text);
    else
        snprintf(what, sizeof what, "1 to %d messages are wanted, each with a role and a text as content", MAX_MESSAGES);
    json_array_foreach(list, i, m) {
        const char *role = json_string_value(json_object_get(m, "role"));
        json_t *content = json_object_get(m, "content");
        ok = ok && role && json_is_string(content);
        if (ok)
            messages[i] = (infer_message){role, strlen(role), json_string_value(content), json_string_length(content)};
    }
    if (!ok)
        fail(file, what);
    else if (infer_session_append_chat(session, messages, json_array_size(list), NULL, err) != INFER_OK)
        ok = fail(file, err->text);
    json_decref(root);
    return ok;
}

static bool append(infer_session *session, const char *file, infer_error *err)
{
    size_t len = 0, n = strlen(file);
    char *text = read_file(file, &len);
    if (!text)
        return fail(file, strerror(errno ? errno : ENOMEM));
    bool ok;
    if (n > 5 && strcmp(file + n - 5, ".json") == 0)
        ok = append_messages(session, file, text, len, err);
    else
        ok = infer_session_append_text(session, text, len, INFER_TOKENIZE_ADD_SPECIAL, err) == INFER_OK || fail(file, err->text);
    free(text);
    return ok;
}

static bool begin(struct server *server, const char *file, infer_session **out)
{
    infer_error err;
    infer_session_options so;
    infer_session_info info;
    INFER_INIT(&err);
    INFER_INIT(&so);
    INFER_INIT(&info);
    so.kv_type = server->options->kv_type;
    so.n_ctx = server->options->ctx;
    if (infer_session_create(server->model, &so, out, &err) != INFER_OK)
        return fail(file, err.text);
    if (!append(*out, file, &err))
        return false;
    if (infer_session_get_info(*out, &info, NULL) == INFER_OK && info.length < CACHED_FROM)
        fprintf(stderr, "infer-server: warning: --warm %s: %llu tokens; prompts of fewer than %d are not kept\n", file, (unsigned long long)info.length,
                CACHED_FROM);
    return true;
}

static bool compute(const char *file, infer_session *session)
{
    infer_error err;
    infer_step_item item;
    INFER_INIT(&err);
    INFER_INIT(&item);
    item.session = session;
    return infer_step(&item, 1, NULL, &err) == INFER_OK || fail(file, err.text);
}

bool warm_read(struct server *server, struct warm *warm)
{
    const struct text_list *files = &server->options->warms;
    *warm = (struct warm){.files = files, .sessions = calloc(files->n + 1, sizeof(infer_session *))};
    if (!warm->sessions)
        return fail("", strerror(ENOMEM));
    for (uint32_t i = 0; i < files->n; i++) {
        if (server->encoder || !server->tokenizer)
            return fail(files->items[i], "this model has no prompts");
        if (!begin(server, files->items[i], &warm->sessions[i]))
            return false;
    }
    return true;
}

bool warm_compute(struct warm *warm)
{
    bool ok = true;
    for (uint32_t i = 0; i < warm->files->n && ok; i++)
        ok = compute(warm->files->items[i], warm->sessions[i]);
    return ok;
}

void warm_free(struct warm *warm)
{
    for (uint32_t i = 0; warm->sessions && i < warm->files->n; i++)
        infer_session_release(warm->sessions[i]); /* the prefix cache keeps what it computed */
    free(warm->sessions);
}
