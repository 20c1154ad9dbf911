#include "text/tokjson.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "formats/tokenizer_json.h"

#define TREE_LIMIT ((size_t)64 << 20) /* memory of the tree of one part that is not a long list */

/* ---- The reader: paths, errors, members */

infer_status tj_fail(struct tj_reader *r, infer_status code, const struct json *at, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    uint64_t offset = at ? r->base + at->offset : r->base;
    err_at(r->err, code, r->path, strlen(r->path), offset, "tokenizer.json: %s: %s", r->path, text);
    return file_failed(r->t->file, r->err, code);
}

size_t tj_enter(struct tj_reader *r, const char *member, size_t index)
{
    size_t len = strlen(r->path), room = sizeof r->path - len;
    if (index != SIZE_MAX)
        snprintf(r->path + len, room, "[%zu]", index);
    else
        snprintf(r->path + len, room, "%s%s", len ? "." : "", member);
    return len;
}

void tj_leave(struct tj_reader *r, size_t len)
{
    r->path[len] = 0;
}

static infer_status wrong_member(struct tj_reader *r, const struct json *v, const char *key, const char *what)
{
    size_t len = tj_enter(r, key, SIZE_MAX);
    infer_status st = tj_fail(r, INFER_ERROR_VALUE, v, "%s is expected", what);
    tj_leave(r, len);
    return st;
}

infer_status tj_bool(struct tj_reader *r, const struct json *o, const char *key, bool absent, bool *out)
{
    const struct json *v = json_get(o, key);
    *out = absent;
    if (!v || v->type == JSON_NULL)
        return INFER_OK;
    if (v->type != JSON_BOOL)
        return wrong_member(r, v, key, "true or false");
    *out = v->u.boolean;
    return INFER_OK;
}

infer_status tj_u32(struct tj_reader *r, const struct json *o, const char *key, uint32_t absent, uint32_t *out)
{
    const struct json *v = json_get(o, key);
    *out = absent;
    if (!v || v->type == JSON_NULL)
        return INFER_OK;
    if (v->type != JSON_INT || v->u.integer < 0 || v->u.integer > INT32_MAX)
        return wrong_member(r, v, key, "a number from 0 to 2147483647");
    *out = (uint32_t)v->u.integer;
    return INFER_OK;
}

infer_status tj_string(struct tj_reader *r, const struct json *o, const char *key, const char *absent, struct json_text *out)
{
    const struct json *v = json_get(o, key);
    if (!v || v->type == JSON_NULL) {
        if (!absent)
            return wrong_member(r, o, key, "a string");
        *out = (struct json_text){absent, strlen(absent)};
        return INFER_OK;
    }
    if (v->type != JSON_STRING)
        return wrong_member(r, v, key, "a string");
    if (v->u.text.len > TJ_MAX_STRING) {
        size_t len = tj_enter(r, key, SIZE_MAX);
        infer_status st = tj_fail(r, INFER_ERROR_LIMIT, v, "longer than %d bytes", TJ_MAX_STRING);
        tj_leave(r, len);
        return st;
    }
    *out = v->u.text;
    return INFER_OK;
}

bool tj_type_is(const struct json *o, const char *type)
{
    const struct json *v = json_get(o, "type");
    return v && v->type == JSON_STRING && json_text_is(v->u.text, type);
}

infer_status tj_unsupported(struct tj_reader *r, const struct json *step, const char *what)
{
    const struct json *v = json_get(step, "type");
    if (!v || v->type != JSON_STRING)
        return tj_fail(r, INFER_ERROR_VALUE, step, "an object with a type is expected");
    return tj_fail(r, INFER_ERROR_UNSUPPORTED, step, "the %s \"%.*s\" is not supported", what,
                   (int)(v->u.text.len > 64 ? 64 : v->u.text.len), v->u.text.p);
}

static infer_status compile_regex(struct tj_reader *r, const struct json *regex, struct pattern *out)
{
    char why[160] = "";
    if (regex->type != JSON_STRING || regex->u.text.len > 8192)
        return tj_fail(r, INFER_ERROR_VALUE, regex, "an expression of at most 8192 bytes is expected");
    infer_status st = pattern_compile(out, &r->t->env->alloc, regex->u.text.p, regex->u.text.len, why, sizeof why);
    if (st == INFER_OK)
        return st;
    if (st == INFER_ERROR_NO_MEMORY)
        return err_no_memory(r->err);
    return tj_fail(r, st, regex, "the expression \"%.*s\" %s", (int)(regex->u.text.len > 80 ? 80 : regex->u.text.len), regex->u.text.p,
                   why);
}

infer_status tj_pattern(struct tj_reader *r, const struct json *o, const char *key, struct pattern *out)
{
    const struct json *v = json_get(o, key), *regex = json_get(v, "Regex");
    size_t len = tj_enter(r, key, SIZE_MAX);
    infer_status st;
    if (regex)
        st = compile_regex(r, regex, out);
    else if (json_get(v, "String"))
        st = tj_string(r, v, "String", NULL, &out->text);
    else
        st = tj_fail(r, INFER_ERROR_VALUE, v ? v : o, "{\"String\": ...} or {\"Regex\": ...} is expected");
    tj_leave(r, len);
    return st;
}

infer_status tj_each(struct tj_reader *r, const struct json *o, const char *list, tj_add add)
{
    if (!o || o->type == JSON_NULL)
        return INFER_OK;
    if (!tj_type_is(o, "Sequence"))
        return add(r, o);
    const struct json *steps = json_get(o, list);
    if (!steps || steps->type != JSON_ARRAY)
        return tj_fail(r, INFER_ERROR_VALUE, o, "a Sequence needs a list \"%s\"", list);
    size_t outer = tj_enter(r, list, SIZE_MAX);
    infer_status st = INFER_OK;
    for (size_t i = 0; st == INFER_OK && i < steps->n; i++) {
        size_t len = tj_enter(r, NULL, i);
        st = tj_each(r, &steps->u.items[i], list, add); /* as deep as the text is nested: limited by the parser */
        tj_leave(r, len);
    }
    tj_leave(r, outer);
    return st;
}

/* ---- The parts of the file */

#define MODEL_MEMBERS 24

struct parts {
    struct json_text normalizer, pre_tokenizer, post_processor, decoder;
    struct tj_lists lists;
    struct json_member model[MODEL_MEMBERS]; /* the model's short members */
    size_t n_model, model_at;
    bool has_model;
};

/* Parses a part of the file into a tree in the arena. An empty part is null. */
static infer_status parse_part(struct tj_reader *r, struct json_text part, struct json *out)
{
    static const struct json_limits limits = {.max_depth = JSON_SCAN_DEPTH};
    *out = (struct json){.type = JSON_NULL};
    r->base = part.len ? (size_t)(part.p - r->text) : 0;
    if (!part.len)
        return INFER_OK;
    r->j->arena.limit = r->j->arena.used + TREE_LIMIT;
    infer_status st = json_parse(&r->j->arena, part.p, part.len, &limits, out, r->err);
    return st == INFER_OK ? st : file_failed(r->t->file, r->err, st);
}

static infer_status scan_failed(struct tj_reader *r, const struct json_scan *s)
{
    return s->st == INFER_OK ? INFER_OK : file_failed(r->t->file, r->err, s->st);
}

static infer_status scan_model(struct tj_reader *r, struct json_scan *s, struct parts *p)
{
    struct json_text key, value;
    infer_status st = INFER_OK;
    p->has_model = true;
    p->model_at = s->pos;
    for (json_scan_open(s, '{'); st == INFER_OK && json_scan_more(s, '}');) {
        if (!json_scan_key(s, &key))
            break;
        bool vocab = json_text_is(key, "vocab"), merges = json_text_is(key, "merges");
        char *name = vocab || merges ? NULL : arena_strdup(&r->j->arena, key.p, key.len);
        size_t name_len = key.len;
        if (!vocab && !merges && !name)
            return err_no_memory(r->err);
        if (!json_scan_skip(s, &value))
            break;
        if (vocab)
            p->lists.vocab = value;
        else if (merges)
            p->lists.merges = value;
        else if (p->n_model < MODEL_MEMBERS && value.len < 4096) {
            struct json_member *m = &p->model[p->n_model++];
            m->key = (struct json_text){name, name_len};
            st = parse_part(r, value, &m->value);
            m->value.offset = r->base - p->model_at;
        }
    }
    return st == INFER_OK ? scan_failed(r, s) : st;
}

static infer_status scan_file(struct tj_reader *r, struct json_scan *s, struct parts *p)
{
    const struct {
        const char *key;
        struct json_text *value;
    } wanted[] = {{"added_tokens", &p->lists.added}, {"normalizer", &p->normalizer}, {"pre_tokenizer", &p->pre_tokenizer},
                  {"post_processor", &p->post_processor}, {"decoder", &p->decoder}};
    struct json_text key, value;
    for (json_scan_open(s, '{'); json_scan_more(s, '}');) {
        size_t i = 0;
        if (!json_scan_key(s, &key))
            break;
        if (json_text_is(key, "model") && json_scan_peek(s) == '{') {
            infer_status st = scan_model(r, s, p);
            if (st != INFER_OK)
                return st;
            continue;
        }
        while (i < 5 && !json_text_is(key, wanted[i].key))
            i++;
        if (json_scan_skip(s, &value) && i < 5)
            *wanted[i].value = value;
    }
    (void)json_scan_end(s);
    return scan_failed(r, s);
}

/* ---- The model's options */

static infer_status open_bpe(struct tj_reader *r, const struct json *m)
{
    struct tokjson *j = r->j;
    const struct json *dropout = json_get(m, "dropout");
    bool none = !dropout || dropout->type == JSON_NULL || (dropout->type == JSON_INT && !dropout->u.integer) ||
                (dropout->type == JSON_DOUBLE && dropout->u.number == 0);
    if (!none)
        return tj_fail(r, INFER_ERROR_UNSUPPORTED, dropout, "dropout is not supported: ids would be random");
    infer_status st = tj_string(r, m, "continuing_subword_prefix", "", &j->prefix);
    if (st == INFER_OK)
        st = tj_string(r, m, "end_of_word_suffix", "", &j->suffix);
    if (st == INFER_OK)
        st = tj_bool(r, m, "fuse_unk", false, &j->fuse_unk);
    if (st == INFER_OK)
        st = tj_bool(r, m, "ignore_merges", false, &j->ignore_merges);
    return st == INFER_OK ? tj_bool(r, m, "byte_fallback", false, &j->byte_fallback) : st;
}

/* Old files have no type: the members tell. */
static infer_status open_model(struct tj_reader *r, const struct json *m, const struct tj_lists *lists)
{
    struct tokjson *j = r->j;
    bool typed = json_get(m, "type") != NULL;
    if (tj_type_is(m, "BPE") || (!typed && lists->merges.len)) {
        r->t->kind = INFER_TOKENIZER_BPE;
        j->model = TJ_BPE;
        return open_bpe(r, m);
    }
    if (tj_type_is(m, "Unigram") || (!typed && json_get(m, "unk_id"))) {
        r->t->kind = INFER_TOKENIZER_UNIGRAM;
        j->model = TJ_UNIGRAM;
        return tj_bool(r, m, "byte_fallback", false, &j->byte_fallback);
    }
    if (tj_type_is(m, "WordPiece") || (!typed && json_get(m, "max_input_chars_per_word"))) {
        r->t->kind = INFER_TOKENIZER_WORDPIECE;
        j->model = TJ_WORDPIECE;
        infer_status st = tj_string(r, m, "continuing_subword_prefix", "##", &j->prefix);
        return st == INFER_OK ? tj_u32(r, m, "max_input_chars_per_word", 100, &j->max_chars) : st;
    }
    if (tj_type_is(m, "WordLevel") || !typed) {
        r->t->kind = INFER_TOKENIZER_WORDLEVEL;
        j->model = TJ_WORDLEVEL;
        return INFER_OK;
    }
    return tj_unsupported(r, m, "model");
}

/* The token that stands for what has none: an id, or a spelling that the vocabulary must have. */
static infer_status find_unknown(struct tj_reader *r, const struct json *m)
{
    struct infer_tokenizer *t = r->t;
    t->unk = VOCAB_NONE;
    if (r->j->model == TJ_UNIGRAM) {
        infer_status st = tj_u32(r, m, "unk_id", VOCAB_NONE, &t->unk);
        if (st == INFER_OK && t->unk != VOCAB_NONE && (t->unk >= t->v.n || !t->v.pieces.at[t->unk].len))
            return tj_fail(r, INFER_ERROR_VALUE, json_get(m, "unk_id"), "unk_id %u is not in the vocabulary", t->unk);
        return st;
    }
    struct json_text unk;
    infer_status st = tj_string(r, m, "unk_token", "", &unk);
    if (st != INFER_OK || !unk.len)
        return st;
    t->unk = vocab_find(&t->v, unk.p, unk.len);
    if (t->unk == VOCAB_NONE && r->j->model != TJ_BPE)
        return tj_fail(r, INFER_ERROR_VALUE, json_get(m, "unk_token"), "unk_token is not in the vocabulary");
    return INFER_OK;
}

/* ---- Opening */

static void make_byte_chars(struct tokjson *j)
{
    uint32_t next = 0x100;
    for (uint32_t b = 0; b < 256; b++) {
        bool own = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
        char utf8[4];
        j->byte_char_len[b] = (uint8_t)utf8_encode(own ? b : next, utf8);
        next += own ? 0 : 1;
        memcpy(j->byte_char[b], utf8, 2);
    }
}

static infer_status open_steps(struct tj_reader *r, const struct parts *p)
{
    struct json tree;
    const struct {
        const char *name, *list;
        struct json_text part;
        tj_add add;
    } steps[] = {{"normalizer", "normalizers", p->normalizer, norm_add}, {"pre_tokenizer", "pretokenizers", p->pre_tokenizer, cut_add}};
    infer_status st = INFER_OK;
    for (int i = 0; st == INFER_OK && i < 2; i++) {
        size_t len = tj_enter(r, steps[i].name, SIZE_MAX);
        st = parse_part(r, steps[i].part, &tree);
        if (st == INFER_OK)
            st = tj_each(r, &tree, steps[i].list, steps[i].add);
        tj_leave(r, len);
    }
    if (st == INFER_OK)
        st = parse_part(r, p->decoder, &tree);
    return st == INFER_OK ? decode_open(r, &tree) : st;
}

static infer_status open_parts(struct tj_reader *r, struct parts *p)
{
    const struct json model = {.type = JSON_OBJECT, .n = p->n_model, .u.members = p->model};
    struct json post;
    r->base = p->model_at;
    size_t len = tj_enter(r, "model", SIZE_MAX);
    infer_status st = open_model(r, &model, &p->lists);
    tj_leave(r, len);
    if (st == INFER_OK)
        st = open_steps(r, p);
    if (st == INFER_OK)
        st = tj_read_vocab(r, &p->lists);
    if (st == INFER_OK)
        st = tokenizer_goes_on(r->t, r->err);
    if (st != INFER_OK)
        return st;
    r->base = p->model_at;
    len = tj_enter(r, "model", SIZE_MAX);
    st = find_unknown(r, &model);
    tj_leave(r, len);
    if (st == INFER_OK)
        st = parse_part(r, p->post_processor, &post);
    if (st == INFER_OK)
        st = affix_open(r, &post);
    if (st == INFER_OK)
        st = special_load_json(r->t, r->err);
    if (st == INFER_OK)
        st = added_build(r);
    if (st == INFER_OK)
        st = tj_model_open(r->t, r->err);
    if (st == INFER_OK)
        st = tokenizer_goes_on(r->t, r->err);
    return st == INFER_OK ? tj_read_merges(r, p->lists.merges) : st;
}

infer_status tokjson_open(struct infer_tokenizer *t, infer_error *err)
{
    struct file_str text;
    infer_status st = file_get_string(t->file, FILE_KEY_TOKENIZER_JSON, &text, err);
    if (st != INFER_OK)
        return st;
    struct tokjson *j = t->json = mem_zalloc(&t->env->alloc, sizeof *j);
    if (!j)
        return err_no_memory(err);
    arena_init(&j->arena, &t->env->alloc, 0);
    j->norms = arena_zarray(&j->arena, TJ_MAX_STEPS, sizeof *j->norms);
    j->cuts = arena_zarray(&j->arena, TJ_MAX_STEPS, sizeof *j->cuts);
    j->decodes = arena_zarray(&j->arena, TJ_MAX_STEPS, sizeof *j->decodes);
    if (!j->norms || !j->cuts || !j->decodes)
        return err_no_memory(err);
    make_byte_chars(j);
    struct tj_reader r = {.t = t, .j = j, .text = text.data, .len = (size_t)text.len, .err = err};
    struct parts p = {.has_model = false};
    struct json_scan s;
    json_scan_init(&s, &t->env->alloc, r.text, r.len, 0, err);
    s.cancel = t->cancel;
    st = json_scan_utf8(&s) ? scan_file(&r, &s, &p) : scan_failed(&r, &s);
    json_scan_free(&s);
    if (st == INFER_OK && (!p.has_model || !p.lists.vocab.len))
        st = tj_fail(&r, INFER_ERROR_MISSING, NULL, "no model with a vocabulary");
    return st == INFER_OK ? open_parts(&r, &p) : st;
}

void tokjson_free(struct infer_tokenizer *t)
{
    struct tokjson *j = t->json;
    const struct alloc *a = &t->env->alloc;
    if (!j)
        return;
    for (uint32_t i = 0; i < j->n_norms; i++)
        pattern_free(&j->norms[i].pattern, a);
    for (uint32_t i = 0; i < j->n_cuts; i++)
        pattern_free(&j->cuts[i].pattern, a);
    for (uint32_t i = 0; i < j->n_decodes; i++)
        pattern_free(&j->decodes[i].pattern, a);
    for (int i = 0; i < 4; i++)
        trie_free(&j->found[i / 2][i % 2].trie);
    mem_free(a, j->scores);
    mem_free(a, j->pool);
    mem_free(a, j->added);
    arena_free(&j->arena);
    mem_free(a, j);
    t->json = NULL;
}
