/* The text side of a folder: tokenizer.json and the chat template as they are, and what the other files say about special tokens. */
#include <string.h>

#include "model/hf_read.h"

#define MAX_IDS 256 /* ids that end a turn */

/* Texts of special tokens, and the ids they have, by the names of both worlds. */
static const struct {
    const char *config; /* in tokenizer_config.json; with _id in config.json and generation_config.json */
    const char *text, *id;
} specials[] = {
    {"bos_token", "tokenizer.huggingface.bos_token", "tokenizer.ggml.bos_token_id"},
    {"eos_token", "tokenizer.huggingface.eos_token", "tokenizer.ggml.eos_token_id"},
    {"unk_token", "tokenizer.huggingface.unk_token", "tokenizer.ggml.unknown_token_id"},
    {"sep_token", "tokenizer.huggingface.sep_token", "tokenizer.ggml.seperator_token_id"},
    {"pad_token", "tokenizer.huggingface.pad_token", "tokenizer.ggml.padding_token_id"},
    {"cls_token", "tokenizer.huggingface.cls_token", "tokenizer.ggml.cls_token_id"},
    {"mask_token", "tokenizer.huggingface.mask_token", "tokenizer.ggml.mask_token_id"},
};

/* "<s>", or an object that describes it. */
static const struct json *token_text(const struct json *v)
{
    if (v && v->type == JSON_OBJECT)
        v = hf_member(v, "content");
    return v && v->type == JSON_STRING ? v : NULL;
}

/* The id that tokenizer_config.json's list of added tokens gives a text; -1: none. */
static int64_t id_of_text(const struct hf_reader *r, const struct json *text)
{
    const struct json *added = hf_member(&r->tokenizer, "added_tokens_decoder");
    for (size_t i = 0; text && added && added->type == JSON_OBJECT && i < added->n; i++) {
        const struct json_member *m = &added->u.members[i];
        const struct json *content = hf_member(&m->value, "content");
        int64_t id = 0;
        if (!content || content->type != JSON_STRING || content->u.text.len != text->u.text.len ||
            memcmp(content->u.text.p, text->u.text.p, text->u.text.len))
            continue;
        for (size_t k = 0; k < m->key.len; k++) {
            if (m->key.p[k] < '0' || m->key.p[k] > '9' || id > UINT32_MAX)
                return -1;
            id = id * 10 + (m->key.p[k] - '0');
        }
        return id <= UINT32_MAX ? id : -1;
    }
    return -1;
}

/* A number, or the first of a list. */
static int64_t id_in(const struct json *object, const char *key)
{
    const struct json *v = hf_member(object, key);
    if (v && v->type == JSON_ARRAY && v->n)
        v = &v->u.items[0];
    return v && v->type == JSON_INT && v->u.integer >= 0 && v->u.integer <= UINT32_MAX ? v->u.integer : -1;
}

static void put_special(struct hf_reader *r, size_t i)
{
    char key[32];
    const struct json *text = token_text(hf_member(&r->tokenizer, specials[i].config));
    size_t n = strlen(specials[i].config);
    memcpy(key, specials[i].config, n);
    memcpy(key + n, "_id", 4);
    if (text)
        hf_put_text(r, specials[i].text, text->u.text.p, text->u.text.len);
    int64_t id = id_of_text(r, text);
    if (id < 0 && text)
        return; /* tokenizer.json knows */
    if (id < 0)
        id = id_in(&r->generation, key);
    if (id < 0)
        id = id_in(r->model, key);
    if (id < 0)
        id = id_in(&r->config, key);
    if (id >= 0)
        hf_put_u32(r, specials[i].id, (uint32_t)id);
}

/* All ids that end a turn, as generation_config.json and config.json list them. */
static void put_ends(struct hf_reader *r)
{
    const struct json *places[] = {hf_member(&r->generation, "eos_token_id"), hf_member(r->model, "eos_token_id"),
                                   hf_member(&r->config, "eos_token_id")};
    uint32_t ids[MAX_IDS], n = 0;
    for (size_t p = 0; p < 3; p++) {
        const struct json *v = places[p];
        size_t count = !v ? 0 : v->type == JSON_ARRAY ? v->n : 1;
        for (size_t i = 0; i < count; i++) {
            const struct json *id = v->type == JSON_ARRAY ? &v->u.items[i] : v;
            bool fresh = id->type == JSON_INT && id->u.integer >= 0 && id->u.integer <= UINT32_MAX && n < MAX_IDS;
            for (uint32_t k = 0; k < n && fresh; k++)
                fresh = ids[k] != (uint32_t)id->u.integer;
            if (fresh)
                ids[n++] = (uint32_t)id->u.integer;
        }
    }
    if (!n)
        return;
    hf_put_array(r, "tokenizer.huggingface.eos_token_ids", FILE_U32, n);
    buf_put(&r->meta, ids, n * sizeof *ids);
}

static void put_flags(struct hf_reader *r)
{
    static const struct {
        const char *config, *key;
    } flags[] = {{"add_bos_token", "tokenizer.ggml.add_bos_token"},
                 {"add_eos_token", "tokenizer.ggml.add_eos_token"},
                 {"add_prefix_space", "tokenizer.ggml.add_space_prefix"},
                 {"clean_up_tokenization_spaces", "tokenizer.huggingface.clean_up_tokenization_spaces"}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const struct json *v = hf_member(&r->tokenizer, flags[i].config);
        if (v && v->type == JSON_BOOL)
            hf_put_bool(r, flags[i].key, v->u.boolean);
    }
}

/* chat_template: a string, or a list of named ones of which "default" is meant. */
static const struct json *config_template(const struct hf_reader *r)
{
    const struct json *v = hf_member(&r->tokenizer, "chat_template");
    if (!v || v->type == JSON_STRING)
        return v;
    for (size_t i = 0; v->type == JSON_ARRAY && i < v->n; i++)
        if (hf_text_is(hf_member(&v->u.items[i], "name"), "default"))
            return token_text(hf_member(&v->u.items[i], "template"));
    return NULL;
}

static infer_status put_file(struct hf_reader *r, const char *name, const char *key, bool *found)
{
    struct blob b;
    infer_status st = hf_open_companion(r, name, &b, found);
    if (st != INFER_OK || !*found)
        return st;
    if (b.size > FILE_MAX_STRING) {
        st = err_set(r->err, INFER_ERROR_LIMIT, "more than %llu bytes", (unsigned long long)FILE_MAX_STRING);
        hf_err_file(r, name);
    } else {
        hf_put_text(r, key, (const char *)b.data, (size_t)b.size);
    }
    blob_close(&b);
    return st;
}

infer_status hf_read_text(struct hf_reader *r)
{
    bool found;
    infer_status st = put_file(r, "tokenizer.json", "tokenizer.huggingface.json", &found);
    if (st != INFER_OK)
        return st;
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        put_special(r, i);
    put_ends(r);
    put_flags(r);
    const struct json *name = hf_member(&r->tokenizer, "tokenizer_class");
    if (name && name->type == JSON_STRING)
        hf_put_text(r, "tokenizer.huggingface.class", name->u.text.p, name->u.text.len);
    st = put_file(r, "chat_template.jinja", "tokenizer.chat_template", &found);
    const struct json *tmpl = config_template(r);
    if (st == INFER_OK && !found && tmpl)
        hf_put_text(r, "tokenizer.chat_template", tmpl->u.text.p, tmpl->u.text.len);
    return st;
}
