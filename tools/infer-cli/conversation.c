#include "conversation.h"

#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "system.h"

bool conversation_add(struct conversation *v, const char *role, const char *content, size_t len)
{
    if (v->count == v->cap) {
        size_t cap = v->cap ? 2 * v->cap : 16;
        struct message *m = realloc(v->messages, cap * sizeof *m);
        if (!m)
            return false;
        v->messages = m;
        v->cap = cap;
    }
    char *copy = malloc(len + 1);
    if (!copy)
        return false;
    if (len)
        memcpy(copy, content, len);
    copy[len] = 0;
    v->messages[v->count++] = (struct message){role, copy, len};
    return true;
}

void conversation_cut(struct conversation *v, size_t count)
{
    while (v->count > count)
        free(v->messages[--v->count].content);
}

void conversation_free(struct conversation *v)
{
    conversation_cut(v, 0);
    free(v->messages);
    *v = (struct conversation){0};
}

static int no_memory(void)
{
    complain(INFER_ERROR_NO_MEMORY, "out of memory");
    return EXIT_LIMIT;
}

static void put_token(const struct cli *c, struct text *json, const char *key, int32_t id)
{
    infer_token_info info;
    INFER_INIT(&info);
    if (id < 0 || infer_tokenizer_token(c->tokenizer, id, &info, NULL) != INFER_OK)
        return;
    text_putf(json, ",\"%s\":", key);
    text_put_json(json, info.piece, info.piece_len);
}

static void put_arg(struct text *json, const char *arg)
{
    const char *eq = strchr(arg, '=');
    text_put_json(json, arg, (size_t)(eq - arg));
    text_puts(json, ":");
    text_puts(json, eq + 1);
}

/* The template's variables. */
static void put_variables(const struct cli *c, const struct conversation *v, struct text *json)
{
    text_puts(json, "{\"messages\":[");
    for (size_t i = 0; i < v->count; i++) {
        text_putf(json, "%s{\"role\":\"%s\",\"content\":", i ? "," : "", v->messages[i].role);
        text_put_json(json, v->messages[i].content, v->messages[i].len);
        text_puts(json, "}");
    }
    text_puts(json, "],\"add_generation_prompt\":true");
    put_token(c, json, "bos_token", c->tok.bos);
    put_token(c, json, "eos_token", c->tok.eos);
    for (uint32_t i = 0; i < c->opt.n_template_args; i++) {
        text_puts(json, ",");
        put_arg(json, c->opt.template_args[i]);
    }
    text_puts(json, "}");
}

/* Renders json into out, which grows as needed. */
static infer_status render(const infer_template *t, const struct text *json, struct text *out, infer_error *err)
{
    infer_render_options ro;
    uint64_t need = 0;
    INFER_INIT(&ro);
    ro.now = system_local_time();
    infer_status st = infer_template_render(t, json->data, json->len, &ro, NULL, 0, &need, err);
    if (st != INFER_ERROR_BUFFER)
        return st;
    char *data = malloc((size_t)need + 1);
    if (!data)
        return INFER_ERROR_NO_MEMORY;
    st = infer_template_render(t, json->data, json->len, &ro, data, need, &need, err);
    if (st == INFER_OK) {
        data[need] = 0;
        out->data = data;
        out->len = (size_t)need;
        out->cap = (size_t)need + 1;
    } else {
        free(data);
    }
    return st;
}

static int render_failed(const struct conversation *v, const infer_error *err)
{
    note_error("chat template", err);
    if (err->code == INFER_ERROR_TEMPLATE && v->count && strcmp(v->messages[0].role, "system") == 0)
        note("the template may not know system messages: try without --system");
    return exit_code(err->code, true);
}

int conversation_encode(const struct cli *c, const struct conversation *v, int32_t **ids, uint64_t *count)
{
    infer_error err;
    struct text json = {0}, out = {0};
    INFER_INIT(&err);
    put_variables(c, v, &json);
    if (json.failed) {
        text_free(&json);
        return no_memory();
    }
    infer_status st = render(infer_model_template(c->model), &json, &out, &err);
    text_free(&json);
    if (st == INFER_ERROR_NO_MEMORY)
        return no_memory();
    if (st != INFER_OK)
        return render_failed(v, &err);
    int code = encode_text(c, out.data, out.len, true, ids, count);
    text_free(&out);
    return code;
}

int encode_text(const struct cli *c, const char *text, size_t len, bool bos, int32_t **ids, uint64_t *count)
{
    infer_error err;
    uint64_t n = 0;
    INFER_INIT(&err);
    /* INFER_TOKENIZE_ADD_SPECIAL is not used: it would also end the text where a model asks for that. */
    infer_status st = infer_tokenize(c->tokenizer, text, len, INFER_TOKENIZE_PARSE_SPECIAL, NULL, 0, &n, &err);
    if (st != INFER_OK && st != INFER_ERROR_BUFFER) {
        note_error(NULL, &err);
        return exit_code(st, true);
    }
    int32_t *list = malloc((size_t)(n + 1) * sizeof *list);
    if (!list)
        return no_memory();
    st = infer_tokenize(c->tokenizer, text, len, INFER_TOKENIZE_PARSE_SPECIAL, list + 1, n, &n, &err);
    if (st != INFER_OK) {
        free(list);
        note_error(NULL, &err);
        return exit_code(st, true);
    }
    if (bos && c->tok.add_bos && c->tok.bos >= 0 && (n == 0 || list[1] != c->tok.bos)) {
        list[0] = c->tok.bos;
        n++;
    } else {
        memmove(list, list + 1, (size_t)n * sizeof *list);
    }
    *ids = list;
    *count = n;
    return EXIT_OK;
}

/* The library's own reader judges: a text that is valid both as {"a":TEXT} and as {"a":[TEXT]} is exactly one value. */
static bool one_value(const infer_template *empty, const char *value, infer_error *err)
{
    static const char *const around[2][2] = {{"{\"a\":", "}"}, {"{\"a\":[", "]}"}};
    for (int i = 0; i < 2; i++) {
        struct text json = {0};
        uint64_t len = 0;
        text_puts(&json, around[i][0]);
        text_puts(&json, value);
        text_puts(&json, around[i][1]);
        infer_status st = json.failed ? INFER_ERROR_NO_MEMORY
                                      : infer_template_render(empty, json.data, json.len, NULL, NULL, 0, &len, err);
        text_free(&json);
        if (st != INFER_OK)
            return false;
    }
    return true;
}

int check_template_args(const struct options *o)
{
    infer_error err;
    infer_template *empty = NULL;
    int code = EXIT_OK;
    INFER_INIT(&err);
    if (o->n_template_args == 0)
        return EXIT_OK;
    if (infer_template_parse(NULL, "", 0, &empty, &err) != INFER_OK) {
        note_error(NULL, &err);
        return exit_code(err.code, true);
    }
    for (uint32_t i = 0; i < o->n_template_args && code == EXIT_OK; i++) {
        const char *value = strchr(o->template_args[i], '=') + 1;
        if (!one_value(empty, value, &err)) {
            complain(INFER_ERROR_ARGUMENT, "--template-arg: %s is not JSON (text needs quotes: 'KEY=\"text\"')", value);
            code = EXIT_USAGE;
        }
    }
    infer_template_release(empty);
    return code;
}
