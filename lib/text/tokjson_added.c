/* Added tokens, and what the post-processor puts around a text. Added tokens are found before anything else: those that are not
 * "normalized" in the text as it is, the others, in their own normalised spelling, in the normalised text between them. */
#include <string.h>

#include "base/utf8.h"
#include "text/tokjson.h"
#include "text/unicode.h"

/* ---- The post-processor: ids in front and behind. Of TemplateProcessing the template of a single text counts. */

static infer_status put_affix(struct tj_reader *r, struct affix *a, const struct json *id)
{
    const struct vocab *v = &r->t->v;
    if (!id || id->type != JSON_INT || id->u.integer < 0 || id->u.integer >= v->n)
        return tj_fail(r, INFER_ERROR_VALUE, id, "a token id of the vocabulary is expected");
    if (a->n == TJ_MAX_AFFIX)
        return tj_fail(r, INFER_ERROR_LIMIT, id, "more than %d tokens in front or behind", TJ_MAX_AFFIX);
    a->ids[a->n++] = (uint32_t)id->u.integer;
    return INFER_OK;
}

static const struct json *member_of(const struct json *object, struct json_text key)
{
    if (object && object->type == JSON_OBJECT)
        for (size_t i = 0; i < object->n; i++)
            if (object->u.members[i].key.len == key.len && !memcmp(object->u.members[i].key.p, key.p, key.len))
                return &object->u.members[i].value;
    return NULL;
}

static infer_status add_template_token(struct tj_reader *r, const struct json *step, const struct json *token, struct affix *a)
{
    const struct json *name = json_get(token, "id");
    const struct json *known = name && name->type == JSON_STRING ? member_of(json_get(step, "special_tokens"), name->u.text) : NULL;
    const struct json *ids = json_get(known, "ids");
    if (!ids || ids->type != JSON_ARRAY)
        return tj_fail(r, INFER_ERROR_VALUE, token, "a token that special_tokens does not explain");
    infer_status st = INFER_OK;
    for (size_t i = 0; st == INFER_OK && i < ids->n; i++)
        st = put_affix(r, a, &ids->u.items[i]);
    return st;
}

static infer_status add_template(struct tj_reader *r, const struct json *step)
{
    struct tokjson *j = r->j;
    const struct json *single = json_get(step, "single");
    bool behind = false;
    infer_status st = INFER_OK;
    if (!single || single->type != JSON_ARRAY)
        return tj_fail(r, INFER_ERROR_VALUE, step, "a list \"single\" is expected");
    struct affix outer = j->before;
    j->before.n = 0;
    for (size_t i = 0; st == INFER_OK && i < single->n; i++) {
        const struct json *token = json_get(&single->u.items[i], "SpecialToken");
        if (!token && (behind || !json_get(&single->u.items[i], "Sequence")))
            return tj_fail(r, INFER_ERROR_VALUE, &single->u.items[i], "one Sequence and SpecialTokens are expected");
        behind = behind || !token;
        if (token)
            st = add_template_token(r, step, token, behind ? &j->after : &j->before);
    }
    if (st == INFER_OK && !behind)
        return tj_fail(r, INFER_ERROR_VALUE, single, "the template leaves the text out");
    for (uint32_t i = 0; st == INFER_OK && i < outer.n; i++) { /* what an earlier processor put nearer to the text */
        const struct json id = {.type = JSON_INT, .u.integer = outer.ids[i]};
        st = put_affix(r, &j->before, &id);
    }
    return st;
}

/* ["[SEP]", 102] */
static const struct json *pair_id(const struct json *step, const char *key)
{
    const struct json *pair = json_get(step, key);
    return pair && pair->type == JSON_ARRAY && pair->n == 2 ? &pair->u.items[1] : NULL;
}

static infer_status affix_add(struct tj_reader *r, const struct json *step)
{
    if (tj_type_is(step, "ByteLevel"))
        return INFER_OK; /* changes offsets only */
    if (tj_type_is(step, "TemplateProcessing"))
        return add_template(r, step);
    if (tj_type_is(step, "BertProcessing") || tj_type_is(step, "RobertaProcessing")) {
        infer_status st = put_affix(r, &r->j->before, pair_id(step, "cls"));
        return st == INFER_OK ? put_affix(r, &r->j->after, pair_id(step, "sep")) : st;
    }
    return tj_unsupported(r, step, "post-processor");
}

infer_status affix_open(struct tj_reader *r, const struct json *post_processor)
{
    struct infer_tokenizer *t = r->t;
    const struct tokjson *j = r->j;
    size_t len = tj_enter(r, "post_processor", SIZE_MAX);
    infer_status st = tj_each(r, post_processor, "processors", affix_add);
    tj_leave(r, len);
    t->bos = j->before.n ? j->before.ids[0] : VOCAB_NONE;
    t->eos = j->after.n ? j->after.ids[j->after.n - 1] : VOCAB_NONE;
    t->sep = t->eot = t->pad = t->mask = VOCAB_NONE;
    if (t->kind == INFER_TOKENIZER_WORDPIECE) {
        t->sep = t->eos;
        t->eos = VOCAB_NONE;
    }
    t->add_bos = j->before.n != 0;
    t->add_eos = t->add_sep = j->after.n != 0;
    return st;
}

uint32_t tokjson_find_added(const struct infer_tokenizer *t, const char *s, size_t len)
{
    const struct tokjson *j = t->json;
    for (uint32_t i = 0; i < j->n_added; i++)
        if (j->added[i].len == len && !memcmp(j->pool + j->added[i].off, s, len))
            return j->added[i].id;
    return vocab_find(&t->v, s, len);
}

/* ---- Building the sets */

static bool is_spelled(const struct tokjson *j, const struct added_token *a, const char *zstr)
{
    return json_text_is((struct json_text){j->pool + a->off, a->len}, zstr);
}

/* The metadata may add or take away BOS and EOS; roles that have a usual name. */
static void settle_roles(struct infer_tokenizer *t)
{
    struct tokjson *j = t->json;
    if (!t->add_bos)
        j->before.n = 0;
    else if (!j->before.n && t->bos != VOCAB_NONE)
        j->before.ids[j->before.n++] = t->bos;
    if (!t->add_eos)
        j->after.n = 0;
    else if (!j->after.n && t->eos != VOCAB_NONE)
        j->after.ids[j->after.n++] = t->eos;
    for (uint32_t i = 0; i < j->n_added; i++) {
        const struct added_token *a = &j->added[i];
        if (!(a->flags & ADDED_SPECIAL))
            continue;
        if (t->mask == VOCAB_NONE && (is_spelled(j, a, "[MASK]") || is_spelled(j, a, "<mask>")))
            t->mask = a->id;
        if (t->pad == VOCAB_NONE && (is_spelled(j, a, "[PAD]") || is_spelled(j, a, "<pad>")))
            t->pad = a->id;
    }
    if (t->unk == VOCAB_NONE)
        return;
    if (vocab_kind(&t->v, t->unk) != INFER_TOKEN_CONTROL)
        t->v.attr[t->unk] |= ATTR_SHOWN;
    vocab_set_kind(&t->v, t->unk, INFER_TOKEN_UNKNOWN);
}

/* The keys of a set; their texts are in `texts` when they are normalised. */
static bool collect(struct infer_tokenizer *t, bool normalized, bool control, struct trie_key *keys, uint32_t *n, struct buf *texts)
{
    const struct tokjson *j = t->json;
    *n = 0;
    for (uint32_t i = 0; i < j->n_added && buf_ok(texts); i++) {
        const struct added_token *a = &j->added[i];
        const char *s = a->shown.p ? a->shown.p : j->pool + a->off;
        size_t len = a->shown.p ? a->shown.len : a->len;
        bool user = vocab_kind(&t->v, a->id) == INFER_TOKEN_USER_DEFINED;
        if (!len || !(a->flags & ADDED_NORMALIZED) == normalized || (!user && !control))
            continue;
        keys[(*n)++] = (struct trie_key){NULL, (uint32_t)len, i};
        buf_put(texts, s, len);
    }
    bool ok = buf_ok(texts);
    size_t at = 0;
    for (uint32_t i = 0; ok && i < *n; at += keys[i++].len) /* only now does the buffer stay where it is */
        keys[i].text = texts->data + at;
    return ok;
}

static bool build_set(struct infer_tokenizer *t, bool normalized, bool control)
{
    struct tokjson *j = t->json;
    const struct alloc *a = &t->env->alloc;
    struct special_set *set = &j->found[normalized][control];
    struct trie_key *keys = mem_array(a, j->n_added ? j->n_added : 1, sizeof *keys);
    struct buf texts;
    uint32_t n;
    buf_init(&texts, a, 0);
    bool ok = keys && collect(t, normalized, control, keys, &n, &texts);
    for (uint32_t i = 0; ok && i < n; i++) {
        uint8_t c = (uint8_t)*keys[i].text;
        set->first[c >> 3] |= (uint8_t)(1 << (c & 7));
    }
    ok = ok && trie_build(&set->trie, a, keys, n);
    mem_free(a, keys);
    buf_free(&texts);
    return ok;
}

struct json_text added_shown(const struct infer_tokenizer *t, uint32_t id)
{
    const struct tokjson *j = t->json;
    int32_t kind = vocab_kind(&t->v, id);
    bool added = kind == INFER_TOKEN_CONTROL || kind == INFER_TOKEN_USER_DEFINED || kind == INFER_TOKEN_UNKNOWN;
    for (uint32_t i = 0; added && i < j->n_added; i++)
        if (j->added[i].id == id && j->added[i].shown.p)
            return j->added[i].shown;
    return (struct json_text){str_of(&t->v.pieces, id), t->v.pieces.at[id].len};
}

/* What normalizers make of the added tokens that go through them. */
static bool normalize_added(struct infer_tokenizer *t, struct tj_run *run)
{
    struct tokjson *j = t->json;
    for (uint32_t i = 0; i < j->n_added && !tj_failed(run); i++) {
        struct added_token *a = &j->added[i];
        const char *s = j->pool + a->off;
        size_t len = a->len;
        if (!(a->flags & ADDED_NORMALIZED) || !len || !j->n_norms)
            continue;
        tj_normalize(run, &s, &len);
        if (len == a->len && !memcmp(s, j->pool + a->off, len))
            continue;
        a->shown = (struct json_text){arena_strdup(&j->arena, s, len), len};
        if (!a->shown.p)
            return false;
    }
    return !tj_failed(run);
}

/* The text that a token stands for in the middle of a text. */
static infer_status make_texts(struct infer_tokenizer *t, infer_error *err)
{
    struct vocab *v = &t->v;
    const struct tokjson *j = t->json;
    struct buf out;
    uint32_t *shown = mem_zarray(v->alloc, v->n, sizeof *shown); /* place in added + 1, of those that normalizers change */
    for (uint32_t i = 0; shown && i < j->n_added; i++)
        if (j->added[i].shown.p)
            shown[j->added[i].id] = i + 1;
    buf_init(&out, v->alloc, 16 * ((size_t)j->pool_len + v->n) + TJ_MAX_TEXT);
    v->bytes.at = mem_array(v->alloc, v->n, sizeof *v->bytes.at);
    (void)buf_reserve(&out, v->n);
    for (uint32_t i = 0; shown && v->bytes.at && i < v->n && buf_ok(&out) && out.len < UINT32_MAX; i++) {
        size_t from = out.len;
        struct json_text s = {str_of(&v->pieces, i), v->pieces.at[i].len};
        if (shown[i])
            s = j->added[shown[i] - 1].shown;
        if (s.len)
            tj_token_text(j, s.p, s.len, false, &out);
        v->bytes.at[i] = (struct str_at){(uint32_t)from, (uint32_t)(out.len - from)};
    }
    v->byte_pool = out.data;
    v->bytes.base = out.data ? out.data : "";
    bool ok = v->bytes.at && shown && !out.no_memory;
    mem_free(v->alloc, shown);
    if (!ok)
        return err_no_memory(err);
    return out.len < UINT32_MAX && buf_ok(&out) ? INFER_OK
                                                : file_failed(t->file, err, err_set(err, INFER_ERROR_LIMIT, "decoders make the tokens' texts too long"));
}

infer_status added_build(struct tj_reader *r)
{
    struct infer_tokenizer *t = r->t;
    struct encoder e = {.t = t};
    struct token_ids none;
    struct tj_run run;
    settle_roles(t);
    token_ids_init(&none, &t->env->alloc);
    e.ids = &none;
    tj_run_init(&run, t, &e);
    run.norm[0].limit = run.norm[1].limit = TJ_MAX_TEXT;
    bool ok = normalize_added(t, &run);
    infer_status st = run.st;
    tj_run_free(&run);
    if (st == INFER_ERROR_LIMIT)
        return tj_fail(r, st, NULL, "normalizers make an added token too long");
    if (!ok)
        return err_no_memory(r->err);
    for (int i = 0; i < 4; i++)
        if (!build_set(t, i / 2, i % 2))
            return err_no_memory(r->err);
    return make_texts(t, r->err);
}

/* ---- Encoding */

/* \w of the expression engine. */
static bool is_word(uint32_t cp)
{
    return uc_is_word(cp);
}

static bool begins_with_word(const char *s, size_t len)
{
    size_t used;
    return len && is_word(utf8_decode(s, len, &used));
}

static bool ends_with_word(const char *s, size_t len)
{
    size_t at = len, used;
    while (at && ((uint8_t)s[--at] & 0xC0) == 0x80)
        ;
    return len && is_word(utf8_decode(s + at, len - at, &used));
}

/* Text and added tokens in turn. Matches are looked for behind the token itself, its stripped space included: as the library does it. */
struct finder {
    struct tj_run *run;
    const struct special_set *set;
    void (*text)(struct tj_run *run, const char *s, size_t len, uint32_t flags, bool first);
    uint32_t flags;
    bool first;
};

static void find_added(const struct finder *f, const char *s, size_t len)
{
    const struct tokjson *j = f->run->j;
    size_t done = 0, from = 0, white = 0, at, n; /* white: where the white space ends that was looked through last */
    uint32_t i;
    while (!tj_failed(f->run) && special_find(f->set, s, len, from, &at, &n, &i)) {
        const struct added_token *a = &j->added[i];
        size_t to = at + n;
        from = to;
        if ((a->flags & ADDED_SINGLE_WORD) && (ends_with_word(s, at) || begins_with_word(s + to, len - to)))
            continue;
        if ((a->flags & ADDED_LSTRIP) && at > done)
            at = strip_end(s, done, at);
        else if (a->flags & ADDED_LSTRIP)
            at = done;
        if (a->flags & ADDED_RSTRIP)
            to = white = to > white ? strip_begin(s, to, len) : white;
        if (at > done)
            f->text(f->run, s + done, at - done, f->flags, f->first && !done);
        emit(f->run->e, a->id);
        done = to;
    }
    if (!tj_failed(f->run) && len > done)
        f->text(f->run, s + done, len - done, f->flags, f->first && !done);
}

static void cut_text(struct tj_run *run, const char *s, size_t len, uint32_t flags, bool first)
{
    (void)flags;
    tj_cut(run, s, len, first);
}

static void normalize_text(struct tj_run *run, const char *s, size_t len, uint32_t flags, bool first)
{
    tj_normalize(run, &s, &len);
    if (!len || tj_failed(run))
        return;
    const struct finder f = {run, &run->j->found[1][flags & INFER_TOKENIZE_PARSE_SPECIAL ? 1 : 0], cut_text, flags, first && !run->dropped};
    find_added(&f, s, len);
}

void tj_run_init(struct tj_run *run, const struct infer_tokenizer *t, struct encoder *e)
{
    const struct alloc *a = &t->env->alloc;
    memset(run, 0, sizeof *run);
    run->j = t->json;
    run->t = t;
    run->e = e;
    for (int i = 0; i < 2; i++)
        buf_init(&run->norm[i], a, (size_t)INFER_MAX_TEXT);
    for (int i = 0; i < 2 * TJ_MAX_STEPS; i++)
        buf_init(&run->level[i / 2][i % 2], a, (size_t)INFER_MAX_TEXT);
    pattern_scratch_init(&run->patterns, a);
}

void tj_run_free(struct tj_run *run)
{
    for (int i = 0; i < 2; i++)
        buf_free(&run->norm[i]);
    for (int i = 0; i < 2 * TJ_MAX_STEPS; i++)
        buf_free(&run->level[i / 2][i % 2]);
    pattern_scratch_free(&run->patterns);
}

/* Steps that make more than this of a text are not meant for texts: no real one comes near it. */
static void limit_growth(struct tj_run *run, size_t len)
{
    size_t limit = len < ((size_t)INFER_MAX_TEXT - TJ_MAX_TEXT) / 64 ? 64 * len + TJ_MAX_TEXT : (size_t)INFER_MAX_TEXT;
    for (int i = 0; i < 2; i++)
        run->norm[i].limit = limit;
    for (int i = 0; i < 2 * TJ_MAX_STEPS; i++)
        run->level[i / 2][i % 2].limit = limit;
}

infer_status tokjson_encode(struct encoder *e, const char *s, size_t len, uint32_t flags, infer_error *err)
{
    const struct tokjson *j = e->t->json;
    struct tj_run run;
    tj_run_init(&run, e->t, e);
    limit_growth(&run, len);
    for (uint32_t i = 0; (flags & INFER_TOKENIZE_ADD_SPECIAL) && i < j->before.n; i++)
        emit(e, j->before.ids[i]);
    if (len) {
        const struct finder f = {&run, &j->found[0][flags & INFER_TOKENIZE_PARSE_SPECIAL ? 1 : 0], normalize_text, flags, true};
        find_added(&f, s, len);
    }
    for (uint32_t i = 0; (flags & INFER_TOKENIZE_ADD_SPECIAL) && i < j->after.n; i++)
        emit(e, j->after.ids[i]);
    infer_status st = run.st;
    tj_run_free(&run);
    if (st == INFER_ERROR_LIMIT)
        return err_set(err, st, "the text becomes too long, or an expression of the tokenizer takes too long with it");
    return st == INFER_OK ? st : err_no_memory(err);
}
