/* The long lists of tokenizer.json: vocabulary, added tokens, merges. They are read in place, a few bytes of memory for each item. */
#include <string.h>

#include "text/tokjson.h"

/* An item of the vocabulary or of added_tokens, before ids are known to be in order. */
struct entry {
    uint32_t off, len; /* in the pool of spellings */
    uint32_t id, flags;
    uint32_t at; /* in the file, for messages */
};

struct lists {
    struct tj_reader *r;
    struct json_scan s;
    struct buf pool, entries, added, scores; /* struct entry, struct entry, double */
    uint32_t n_ids;                          /* the greatest id + 1 */
    bool by_place;                           /* a Unigram list: ids are places */
};

static infer_status list_fail(struct lists *l, infer_status code, const char *what)
{
    (void)json_scan_fail(&l->s, code, what);
    return file_failed(l->r->t->file, l->r->err, l->s.st);
}

static bool too_big(const struct json_scan *s)
{
    return s->len > UINT32_MAX - 1;
}

/* Keeps a spelling. */
static bool put_piece(struct lists *l, struct json_text t, struct entry *e)
{
    if (t.len > VOCAB_MAX_PIECE) {
        (void)list_fail(l, INFER_ERROR_LIMIT, "the spelling of a token is too long");
        return false;
    }
    e->off = (uint32_t)l->pool.len;
    e->len = (uint32_t)t.len;
    e->at = (uint32_t)l->s.at;
    buf_put(&l->pool, t.p, t.len);
    return true;
}

static bool take_id(struct lists *l, int64_t id, struct entry *e)
{
    if (id < 0 || id >= VOCAB_MAX_TOKENS) {
        (void)list_fail(l, INFER_ERROR_VALUE, "a token id is out of range");
        return false;
    }
    e->id = (uint32_t)id;
    if (e->id >= l->n_ids)
        l->n_ids = e->id + 1;
    return true;
}

/* {"spelling": id, ...} */
static void scan_vocab_object(struct lists *l)
{
    struct json_text key;
    int64_t id;
    for (json_scan_open(&l->s, '{'); json_scan_more(&l->s, '}');) {
        struct entry e = {0};
        if (!json_scan_key(&l->s, &key) || !put_piece(l, key, &e) || !json_scan_int(&l->s, &id) || !take_id(l, id, &e))
            return;
        buf_put(&l->entries, &e, sizeof e);
    }
}

/* [["spelling", score], ...] */
static void scan_vocab_list(struct lists *l)
{
    struct json_text piece;
    double score;
    int64_t id = 0;
    for (json_scan_open(&l->s, '['); json_scan_more(&l->s, ']'); id++) {
        struct entry e = {0};
        if (!json_scan_open(&l->s, '[') || !json_scan_more(&l->s, ']') || !json_scan_string(&l->s, &piece) || !put_piece(l, piece, &e) ||
            !json_scan_more(&l->s, ']') || !json_scan_double(&l->s, &score) || !take_id(l, id, &e))
            break;
        if (!(score - score == 0)) {
            (void)list_fail(l, INFER_ERROR_VALUE, "a score is not finite");
            break;
        }
        if (json_scan_more(&l->s, ']')) {
            (void)list_fail(l, INFER_ERROR_VALUE, "a spelling and its score are expected");
            break;
        }
        buf_put(&l->entries, &e, sizeof e);
        buf_put(&l->scores, &score, sizeof score);
    }
    if (l->s.st == INFER_OK && l->s.depth) /* an item that ended early */
        (void)list_fail(l, INFER_ERROR_VALUE, "a spelling and its score are expected");
}

static uint32_t scan_flag(struct json_scan *s, uint32_t flag)
{
    bool on = json_scan_peek(s) == 't';
    (void)json_scan_skip(s, NULL);
    return on ? flag : 0;
}

static bool scan_added_token(struct lists *l)
{
    static const struct {
        const char *key;
        uint32_t flag;
    } flags[] = {{"special", ADDED_SPECIAL}, {"single_word", ADDED_SINGLE_WORD}, {"lstrip", ADDED_LSTRIP}, {"rstrip", ADDED_RSTRIP},
                 {"normalized", ADDED_NORMALIZED}};
    struct json_text key, content;
    struct entry e = {.id = VOCAB_NONE};
    bool normalized = false, has_content = false;
    int64_t id;
    for (json_scan_open(&l->s, '{'); json_scan_more(&l->s, '}');) {
        size_t i = 0;
        if (!json_scan_key(&l->s, &key))
            return false;
        while (i < 5 && !json_text_is(key, flags[i].key))
            i++;
        if (i < 5) {
            normalized = normalized || i == 4;
            e.flags = (e.flags & ~flags[i].flag) | scan_flag(&l->s, flags[i].flag);
        } else if (json_text_is(key, "content")) {
            has_content = json_scan_string(&l->s, &content) && put_piece(l, content, &e);
        } else if (json_text_is(key, "id")) {
            if (!json_scan_int(&l->s, &id) || !take_id(l, id, &e))
                return false;
        } else
            (void)json_scan_skip(&l->s, NULL);
    }
    if (l->s.st == INFER_OK && (!has_content || e.id == VOCAB_NONE))
        (void)list_fail(l, INFER_ERROR_VALUE, "an added token needs id and content");
    if (!normalized && !(e.flags & ADDED_SPECIAL)) /* the library's default */
        e.flags |= ADDED_NORMALIZED;
    buf_put(&l->added, &e, sizeof e);
    return l->s.st == INFER_OK;
}

static infer_status scan_list(struct lists *l, struct json_text span, void (*scan)(struct lists *l))
{
    struct tj_reader *r = l->r;
    if (!span.len)
        return INFER_OK;
    size_t at = (size_t)(span.p - r->text);
    json_scan_init(&l->s, &r->t->env->alloc, r->text, at + span.len, at, r->err);
    l->s.cancel = r->t->cancel;
    if (too_big(&l->s))
        (void)list_fail(l, INFER_ERROR_LIMIT, "files of 4 GiB are not supported");
    scan(l);
    infer_status st = l->s.st;
    json_scan_free(&l->s);
    if (st == INFER_OK && (l->entries.len / sizeof(struct entry) > VOCAB_MAX_TOKENS || l->pool.len > UINT32_MAX / 2))
        st = tj_fail(r, INFER_ERROR_LIMIT, NULL, "more than %u tokens, or more than 2 GiB of spellings", VOCAB_MAX_TOKENS);
    if (st == INFER_OK && !(buf_ok(&l->pool) && buf_ok(&l->entries) && buf_ok(&l->added) && buf_ok(&l->scores)))
        st = err_no_memory(r->err);
    return st == INFER_OK ? st : file_failed(r->t->file, r->err, st);
}

static void scan_added(struct lists *l)
{
    if (json_scan_peek(&l->s) == 'n')
        return; /* null */
    for (json_scan_open(&l->s, '['); json_scan_more(&l->s, ']');)
        if (!scan_added_token(l))
            return;
}

/* ---- Putting tokens where their ids say */

static infer_status entry_fail(struct lists *l, const struct entry *e, infer_status code, const char *what)
{
    const struct json at = {.offset = e->at};
    l->r->base = 0;
    return tj_fail(l->r, code, &at, "token %u \"%.*s\" %s", e->id, (int)(e->len > 64 ? 64 : e->len), l->pool.data + e->off, what);
}

static infer_status place(struct lists *l, const struct entry *e, int32_t kind)
{
    struct vocab *v = &l->r->t->v;
    if (v->attr[e->id] & ATTR_KIND)
        return entry_fail(l, e, INFER_ERROR_VALUE, "has the id of another token");
    v->pieces.at[e->id] = (struct str_at){e->off, e->len};
    v->attr[e->id] = (uint8_t)kind;
    if (e->len > v->max_piece)
        v->max_piece = e->len;
    return INFER_OK;
}

static infer_status place_vocab(struct lists *l)
{
    const struct entry *e = (const struct entry *)(const void *)l->entries.data;
    size_t n = l->entries.len / sizeof *e;
    infer_status st = INFER_OK;
    for (size_t i = 0; st == INFER_OK && i < n; i++)
        st = place(l, &e[i], INFER_TOKEN_NORMAL);
    if (st != INFER_OK)
        return st;
    st = vocab_make_table(&l->r->t->v);
    if (st == INFER_ERROR_NO_MEMORY)
        return err_no_memory(l->r->err);
    if (st != INFER_OK)
        return tj_fail(l->r, st, NULL, "the spellings collide: not a vocabulary");
    for (size_t i = 0; l->r->t->v.duplicates && !l->by_place && i < n; i++)
        if (e[i].len && vocab_find(&l->r->t->v, l->pool.data + e[i].off, e[i].len) != e[i].id)
            return entry_fail(l, &e[i], INFER_ERROR_VALUE, "is in the vocabulary twice");
    return INFER_OK;
}

/* An added token is one of the vocabulary or has an id of its own. */
static infer_status place_added(struct lists *l)
{
    struct vocab *v = &l->r->t->v;
    struct tokjson *j = l->r->j;
    const struct entry *e = (const struct entry *)(const void *)l->added.data;
    size_t n = l->added.len / sizeof *e;
    j->added = mem_array(v->alloc, n ? n : 1, sizeof *j->added);
    if (!j->added)
        return err_no_memory(l->r->err);
    for (size_t i = 0; i < n; i++) {
        uint32_t id = vocab_find(v, l->pool.data + e[i].off, e[i].len);
        bool again = false;
        if (id == VOCAB_NONE && (v->attr[e[i].id] & ATTR_KIND)) /* listed twice? */
            again = v->pieces.at[e[i].id].len == e[i].len &&
                    !memcmp(l->pool.data + v->pieces.at[e[i].id].off, l->pool.data + e[i].off, e[i].len);
        infer_status st = INFER_OK;
        if (id == VOCAB_NONE && !again)
            st = place(l, &e[i], INFER_TOKEN_USER_DEFINED);
        else if (id != VOCAB_NONE && id != e[i].id)
            st = entry_fail(l, &e[i], INFER_ERROR_VALUE, "has another id in the vocabulary");
        if (st != INFER_OK)
            return st;
        vocab_set_kind(v, e[i].id, e[i].flags & ADDED_SPECIAL ? INFER_TOKEN_CONTROL : INFER_TOKEN_USER_DEFINED);
        j->added[j->n_added++] = (struct added_token){.id = e[i].id, .flags = e[i].flags, .off = e[i].off, .len = e[i].len};
    }
    return INFER_OK;
}

static infer_status place_all(struct lists *l)
{
    struct infer_tokenizer *t = l->r->t;
    struct vocab *v = &t->v;
    uint64_t n = (l->entries.len + l->added.len) / sizeof(struct entry);
    *v = (struct vocab){.alloc = &t->env->alloc, .form = FORM_JSON, .n = l->n_ids};
    if (!l->entries.len)
        return tj_fail(l->r, INFER_ERROR_VALUE, NULL, "the vocabulary is empty");
    if (l->n_ids > 4 * n + 65536)
        return tj_fail(l->r, INFER_ERROR_VALUE, NULL, "the greatest id is %u but there are only %llu tokens", l->n_ids - 1,
                       (unsigned long long)n);
    t->json->pool = l->pool.data; /* of the tokenizer from now on */
    t->json->pool_len = (uint32_t)l->pool.len;
    v->pieces.base = l->pool.data ? l->pool.data : "";
    v->pieces.at = mem_zarray(v->alloc, v->n, sizeof *v->pieces.at);
    v->attr = mem_zarray(v->alloc, v->n, 1);
    if (!v->pieces.at || !v->attr)
        return err_no_memory(l->r->err);
    infer_status st = place_vocab(l);
    if (st == INFER_OK)
        st = place_added(l);
    for (uint32_t i = 0; i < v->n; i++)
        if (!(v->attr[i] & ATTR_KIND))
            v->attr[i] = INFER_TOKEN_UNUSED;
    return st;
}

/* What the model needs to find tokens quickly. */
static infer_status index_model(struct tj_reader *r, struct buf *scores)
{
    struct tokjson *j = r->j;
    struct vocab *v = &r->t->v;
    char utf8[4], hex[8] = "<0x00>";
    for (uint32_t b = 0; b < 256; b++) {
        hex[3] = "0123456789ABCDEF"[b >> 4];
        hex[4] = "0123456789ABCDEF"[b & 15];
        v->byte_id[b] = j->byte_fallback ? vocab_find(v, hex, 6) : VOCAB_NONE;
        if (v->byte_id[b] != VOCAB_NONE && vocab_kind(v, v->byte_id[b]) == INFER_TOKEN_NORMAL)
            vocab_set_kind(v, v->byte_id[b], INFER_TOKEN_BYTE);
    }
    for (uint32_t c = 0; c < 512; c++) {
        size_t n = 1;
        utf8[0] = (char)c;
        if (c >= 0x80) {
            utf8[0] = (char)(0xC0 | c >> 6);
            utf8[1] = (char)(0x80 | (c & 63));
            n = 2;
        }
        j->low_id[c] = vocab_find(v, utf8, n);
    }
    if (j->model == TJ_UNIGRAM) {
        j->scores = mem_zarray(v->alloc, v->n, sizeof *j->scores);
        if (!j->scores)
            return err_no_memory(r->err);
        memcpy(j->scores, scores->data, scores->len);
        j->n_scores = (uint32_t)(scores->len / sizeof *j->scores);
        v->scores = (struct file_array){(const uint8_t *)j->scores, v->n, FILE_F64};
    }
    return INFER_OK;
}

infer_status tj_read_vocab(struct tj_reader *r, const struct tj_lists *lists)
{
    const struct alloc *a = &r->t->env->alloc;
    struct lists l = {.r = r, .by_place = r->j->model == TJ_UNIGRAM};
    buf_init(&l.pool, a, 0);
    buf_init(&l.entries, a, 0);
    buf_init(&l.added, a, 0);
    buf_init(&l.scores, a, 0);
    size_t path = tj_enter(r, "model.vocab", SIZE_MAX);
    r->base = (size_t)(lists->vocab.p - r->text);
    infer_status st = scan_list(&l, lists->vocab, l.by_place ? scan_vocab_list : scan_vocab_object);
    tj_leave(r, path);
    path = tj_enter(r, "added_tokens", SIZE_MAX);
    if (st == INFER_OK)
        st = scan_list(&l, lists->added, scan_added);
    if (st == INFER_OK)
        st = place_all(&l);
    tj_leave(r, path);
    if (st == INFER_OK)
        st = index_model(r, &l.scores);
    if (r->j->pool != l.pool.data)
        buf_free(&l.pool);
    buf_free(&l.entries);
    buf_free(&l.added);
    buf_free(&l.scores);
    return st;
}

/* ---- Merges */

#define BATCH 32

/* Merges are read a few at a time, so that their look-ups overlap. */
struct merge_batch {
    struct tj_reader *r;
    struct json_scan s;
    char *text;     /* [BATCH][stride]: left, right, and the result */
    size_t stride;
    uint32_t n, rank; /* rank of the first */
    uint32_t at[BATCH];
    uint32_t touched; /* see flush */
    struct vocab_query q[BATCH * 3];
};

static bool put_merge(struct merge_batch *b, struct json_text left, struct json_text right)
{
    const struct vocab *v = &b->r->t->v;
    size_t skip = b->r->j->prefix.len;
    if (left.len > v->max_piece || right.len > v->max_piece || right.len < skip || !left.len || right.len == skip) {
        (void)json_scan_fail(&b->s, INFER_ERROR_VALUE, "a merge is not two tokens");
        return false;
    }
    char *text = b->text + b->n * b->stride;
    uint32_t n_left = (uint32_t)left.len, n_right = (uint32_t)right.len, n_skip = (uint32_t)skip;
    memmove(text, left.p, n_left);
    memmove(text + n_left, right.p, n_right);
    struct vocab_query *q = b->q + b->n * 3;
    q[0] = (struct vocab_query){.s = text, .len = n_left};
    q[1] = (struct vocab_query){.s = text + n_left, .len = n_right};
    q[2] = (struct vocab_query){.s = text, .len = n_left + n_right};
    if (skip) { /* the second part's prefix is not part of the result */
        char *joined = text + n_left + n_right;
        memcpy(joined, text, n_left);
        memcpy(joined + n_left, text + n_left + n_skip, n_right - n_skip);
        q[2] = (struct vocab_query){.s = joined, .len = n_left + n_right - n_skip};
    }
    b->at[b->n++] = (uint32_t)b->s.at;
    return true;
}

static bool scan_merge_string(struct merge_batch *b)
{
    struct json_text t;
    if (!json_scan_string(&b->s, &t))
        return false;
    const char *gap = t.len ? memchr(t.p, ' ', t.len) : NULL;
    size_t left = gap ? (size_t)(gap - t.p) : 0;
    if (!gap || memchr(gap + 1, ' ', t.len - left - 1)) {
        (void)json_scan_fail(&b->s, INFER_ERROR_VALUE, "a merge is not two tokens with a space between");
        return false;
    }
    return put_merge(b, (struct json_text){t.p, left}, (struct json_text){gap + 1, t.len - left - 1});
}

static bool scan_merge_pair(struct merge_batch *b)
{
    struct json_text left, right;
    char *room = b->text + BATCH * b->stride; /* the next string may use the scanner's scratch */
    if (!json_scan_open(&b->s, '[') || !json_scan_more(&b->s, ']') || !json_scan_string(&b->s, &left))
        return false;
    if (left.len <= b->r->t->v.max_piece) {
        memcpy(room, left.p, left.len);
        left.p = room;
    }
    if (!json_scan_more(&b->s, ']') || !json_scan_string(&b->s, &right) || !put_merge(b, left, right))
        return false;
    return !json_scan_more(&b->s, ']');
}

/* Adds what the batch holds. A merge that makes a control token is left out. */
static infer_status flush(struct merge_batch *b)
{
    struct infer_tokenizer *t = b->r->t;
    uint32_t touched = 0;
    vocab_find_many(&t->v, b->q, (size_t)b->n * 3);
    for (uint32_t i = 0; i < b->n; i++)
        touched |= t->pairs.slots[pair_hash(b->q[i * 3].id, b->q[i * 3 + 1].id) & t->pairs.mask].rank;
    for (uint32_t i = 0; i < b->n; i++) {
        const struct vocab_query *q = b->q + i * 3;
        const struct json at = {.offset = b->at[i]};
        b->r->base = 0;
        for (int k = 0; k < 3; k++)
            if (q[k].id == VOCAB_NONE)
                return tj_fail(b->r, INFER_ERROR_VALUE, &at, "merge %u: \"%.*s\" is not in the vocabulary", b->rank + i,
                               (int)(q[k].len > 64 ? 64 : q[k].len), q[k].s);
        if (tj_is_text(&t->v, q[2].id) &&
            !pair_add(&t->pairs, (struct pair_slot){q[0].id, q[1].id, b->rank + i, q[2].id}, true))
            return tj_fail(b->r, INFER_ERROR_LIMIT, &at, "the merges collide: not a vocabulary");
    }
    b->rank += b->n;
    b->n = 0;
    b->touched = touched; /* keeps the loads above, which bring the slots into the cache */
    return INFER_OK;
}

static infer_status scan_merges(struct merge_batch *b)
{
    infer_status st = INFER_OK;
    for (json_scan_open(&b->s, '['); st == INFER_OK && json_scan_more(&b->s, ']');) {
        bool ok = json_scan_peek(&b->s) == '[' ? scan_merge_pair(b) : scan_merge_string(b);
        if (ok && b->n == BATCH)
            st = flush(b);
        if (!ok)
            break;
    }
    if (st == INFER_OK && b->s.st == INFER_OK && b->s.depth)
        (void)json_scan_fail(&b->s, INFER_ERROR_VALUE, "a merge is not two tokens");
    if (st == INFER_OK && b->s.st != INFER_OK)
        st = file_failed(b->r->t->file, b->r->err, b->s.st);
    return st == INFER_OK ? flush(b) : st;
}

static void open_merges(struct merge_batch *b, struct json_text merges)
{
    const struct tj_reader *r = b->r;
    size_t at = (size_t)(merges.p - r->text);
    json_scan_init(&b->s, &r->t->env->alloc, r->text, at + merges.len, at, r->err);
    b->s.cancel = r->t->cancel;
}

/* How many merges there are, so that the table has the right size. */
static infer_status count_merges(struct merge_batch *b, struct json_text merges, uint32_t *count)
{
    *count = 0;
    if (!merges.len)
        return INFER_OK;
    open_merges(b, merges);
    for (json_scan_open(&b->s, '['); json_scan_more(&b->s, ']'); ++*count)
        if (!json_scan_skip(&b->s, NULL) || *count == VOCAB_MAX_MERGES)
            break;
    infer_status st = b->s.st;
    if (st == INFER_OK && b->s.depth)
        st = tj_fail(b->r, INFER_ERROR_LIMIT, NULL, "more than %u merges", VOCAB_MAX_MERGES);
    json_scan_free(&b->s);
    return st == INFER_OK ? st : file_failed(b->r->t->file, b->r->err, st);
}

static infer_status read_merges(struct merge_batch *b, struct json_text merges)
{
    struct infer_tokenizer *t = b->r->t;
    const struct alloc *a = &t->env->alloc;
    uint32_t count;
    infer_status st = count_merges(b, merges, &count);
    if (st != INFER_OK)
        return st;
    b->stride = 4 * (size_t)t->v.max_piece + 4;
    b->text = mem_array(a, BATCH + 1, b->stride);
    if (!b->text || !pair_table_init(&t->pairs, a, count))
        return err_no_memory(b->r->err);
    if (!count)
        return INFER_OK;
    open_merges(b, merges);
    st = scan_merges(b);
    json_scan_free(&b->s);
    return st;
}

infer_status tj_read_merges(struct tj_reader *r, struct json_text merges)
{
    const struct alloc *a = &r->t->env->alloc;
    if (r->j->model != TJ_BPE)
        return INFER_OK;
    struct merge_batch *b = mem_zalloc(a, sizeof *b);
    if (!b)
        return err_no_memory(r->err);
    b->r = r;
    size_t path = tj_enter(r, "model.merges", SIZE_MAX);
    infer_status st = read_merges(b, merges);
    tj_leave(r, path);
    mem_free(a, b->text);
    mem_free(a, b);
    return st;
}
