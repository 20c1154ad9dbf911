#include "text/vocab.h"

#include <string.h>

#include "base/utf8.h"

#define KEY_TOKENS "tokenizer.ggml.tokens"
#define KEY_TYPES  "tokenizer.ggml.token_type"
#define KEY_SCORES "tokenizer.ggml.scores"

#define FAIL(f, err, code, key, ...)                                                                                   \
    (err_at(err, code, key, sizeof(key) - 1, ERR_NO_OFFSET, __VA_ARGS__), file_failed(f, err, code))

/* ---- GPT-2's table of bytes: printable Latin-1 characters stand for themselves, the 68 others for U+0100 on, in order
 * (bytes_to_unicode in openai/gpt-2, src/encoder.py). */

static int byte_of_char(uint32_t cp)
{
    if ((cp >= 0x21 && cp <= 0x7E) || (cp >= 0xA1 && cp <= 0xFF && cp != 0xAD))
        return (int)cp;
    if (cp < 0x100 || cp >= 0x100 + 68)
        return -1;
    cp -= 0x100;
    if (cp <= 0x20)
        return (int)cp;
    return cp == 67 ? 0xAD : (int)(cp - 0x21 + 0x7F);
}

bool byte_level_decode(const char *s, size_t len, char *out, size_t *out_len)
{
    size_t n = 0, used;
    for (size_t i = 0; i < len; i += used) {
        uint32_t cp = utf8_decode(s + i, len - i, &used);
        int b = cp == UTF8_BAD ? -1 : byte_of_char(cp);
        if (b < 0)
            return false;
        out[n++] = (char)b;
    }
    *out_len = n;
    return true;
}

/* ---- Loading */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that <0xHH> names, or -1. */
static int byte_of_spelling(const char *s, size_t len)
{
    if (len != 6 || memcmp(s, "<0x", 3) || s[5] != '>' || hex_digit(s[3]) < 0 || hex_digit(s[4]) < 0)
        return -1;
    return hex_digit(s[3]) * 16 + hex_digit(s[4]);
}

static infer_status load_pieces(struct vocab *v, const struct infer_file *f, infer_error *err)
{
    struct file_strings it;
    infer_status st = file_get_strings(f, KEY_TOKENS, &it, err);
    if (st != INFER_OK)
        return st;
    if (!it.left)
        return FAIL(f, err, INFER_ERROR_VALUE, KEY_TOKENS, "the vocabulary is empty");
    if (it.left > VOCAB_MAX_TOKENS)
        return FAIL(f, err, INFER_ERROR_LIMIT, KEY_TOKENS, "%llu tokens: at most %u are supported",
                    (unsigned long long)it.left, VOCAB_MAX_TOKENS);
    v->n = (uint32_t)it.left;
    v->pieces.at = mem_array(v->alloc, v->n, sizeof *v->pieces.at);
    v->attr = mem_alloc(v->alloc, v->n);
    if (!v->pieces.at || !v->attr)
        return err_no_memory(err);
    struct file_str s;
    for (uint32_t i = 0; i < v->n && file_strings_next(&it, &s); i++) {
        if (!i)
            v->pieces.base = s.data;
        uint64_t off = (uint64_t)(s.data - v->pieces.base);
        if (s.len > VOCAB_MAX_PIECE || off > UINT32_MAX)
            return FAIL(f, err, INFER_ERROR_LIMIT, KEY_TOKENS, "token %u is longer than %d bytes", i, VOCAB_MAX_PIECE);
        v->pieces.at[i] = (struct str_at){(uint32_t)off, (uint32_t)s.len};
        if (s.len > v->max_piece)
            v->max_piece = (uint32_t)s.len;
    }
    return INFER_OK;
}

static infer_status load_types(struct vocab *v, const struct infer_file *f, infer_error *err)
{
    struct file_array types;
    memset(v->attr, INFER_TOKEN_NORMAL, v->n);
    if (!file_has(f, KEY_TYPES)) {
        for (uint32_t i = 0; v->form == FORM_SPACED && i < v->n; i++)
            if (byte_of_spelling(str_of(&v->pieces, i), v->pieces.at[i].len) >= 0)
                v->attr[i] = INFER_TOKEN_BYTE;
        return INFER_OK;
    }
    infer_status st = file_get_ints(f, KEY_TYPES, &types, err);
    if (st != INFER_OK)
        return st;
    if (types.count != v->n)
        return FAIL(f, err, INFER_ERROR_VALUE, KEY_TYPES, "%llu types for %u tokens", (unsigned long long)types.count,
                    v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        int64_t t = file_array_int(&types, i);
        if (t < 0 || t > INFER_TOKEN_BYTE)
            return FAIL(f, err, INFER_ERROR_VALUE, KEY_TYPES, "token %u has the unknown type %lld", i, (long long)t);
        v->attr[i] = (uint8_t)(t ? t : INFER_TOKEN_NORMAL); /* 0: "undefined" */
    }
    return INFER_OK;
}

static infer_status load_scores(struct vocab *v, const struct infer_file *f, bool need, infer_error *err)
{
    if (!need && !file_has(f, KEY_SCORES))
        return INFER_OK;
    infer_status st = file_get_floats(f, KEY_SCORES, &v->scores, err);
    if (st != INFER_OK)
        return st;
    if (v->scores.count != v->n)
        return FAIL(f, err, INFER_ERROR_VALUE, KEY_SCORES, "%llu scores for %u tokens",
                    (unsigned long long)v->scores.count, v->n);
    for (uint32_t i = 0; need && i < v->n; i++) {
        float x = file_array_f32(&v->scores, i);
        if (!(x - x == 0))
            return FAIL(f, err, INFER_ERROR_VALUE, KEY_SCORES, "the score of token %u is not finite", i);
    }
    return INFER_OK;
}

infer_status vocab_load(struct vocab *v, const struct alloc *alloc, const struct infer_file *f, enum vocab_form form,
                        bool need_scores, infer_error *err)
{
    *v = (struct vocab){.alloc = alloc, .form = form};
    infer_status st = load_pieces(v, f, err);
    if (st == INFER_OK)
        st = load_types(v, f, err);
    if (st == INFER_OK)
        st = load_scores(v, f, need_scores, err);
    return st;
}

void vocab_free(struct vocab *v)
{
    if (!v->alloc)
        return;
    mem_free(v->alloc, v->pieces.at);
    mem_free(v->alloc, v->bytes.at);
    mem_free(v->alloc, v->byte_pool);
    mem_free(v->alloc, v->attr);
    mem_free(v->alloc, v->table.slots);
    *v = (struct vocab){.alloc = NULL};
}

/* ---- The bytes that tokens stand for */

static size_t replace_mark(const char *s, size_t len, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        if (len - i >= 3 && !memcmp(s + i, SPACE_MARK, 3)) {
            out[n++] = ' ';
            i += 3;
        } else
            out[n++] = s[i++];
    }
    return n;
}

/* WordPiece: a word begins with a space, but for punctuation and endings that the official decoder joins
 * (cleanup in huggingface/tokenizers, decoders/wordpiece.rs). */
static size_t word_bytes(const char *s, size_t len, uint8_t *attr, char *out)
{
    static const char *const joined[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};
    if (len < 3 || memcmp(s, SPACE_MARK, 3)) {
        memcpy(out, s, len);
        return len;
    }
    s += 3;
    len -= 3;
    *attr |= ATTR_WORD_START;
    bool space = true;
    for (size_t i = 0; i < sizeof joined / sizeof *joined; i++) {
        size_t n = strlen(joined[i]);
        if (len >= n && !memcmp(s, joined[i], n))
            space = false;
    }
    if (space)
        *out++ = ' ';
    memcpy(out, s, len);
    return len + space;
}

/* Writes at most len bytes; SIZE_MAX: a byte token that names no byte. */
static size_t text_bytes(struct vocab *v, uint32_t id, char *out)
{
    const char *s = str_of(&v->pieces, id);
    size_t len = v->pieces.at[id].len, n;
    int32_t kind = vocab_kind(v, id);
    if (kind == INFER_TOKEN_BYTE) {
        int b = byte_of_spelling(s, len);
        out[0] = (char)b;
        return b < 0 ? SIZE_MAX : 1;
    }
    bool text = kind == INFER_TOKEN_NORMAL || kind == INFER_TOKEN_UNUSED;
    if (text && v->form == FORM_BYTE_LEVEL && byte_level_decode(s, len, out, &n))
        return n;
    if (v->form == FORM_SPACED && (text || kind == INFER_TOKEN_USER_DEFINED))
        return replace_mark(s, len, out);
    if (text && v->form == FORM_WORDPIECE)
        return word_bytes(s, len, &v->attr[id], out);
    memcpy(out, s, len);
    return len;
}

static infer_status make_bytes(struct vocab *v, const struct infer_file *f, infer_error *err)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < v->n; i++)
        total += v->pieces.at[i].len;
    if (total > UINT32_MAX)
        return FAIL(f, err, INFER_ERROR_LIMIT, KEY_TOKENS, "the spellings take more than 4 GiB");
    char *pool = v->byte_pool = mem_alloc(v->alloc, (size_t)total + 1);
    v->bytes.at = mem_array(v->alloc, v->n, sizeof *v->bytes.at);
    if (!pool || !v->bytes.at)
        return err_no_memory(err);
    uint32_t off = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        size_t len = text_bytes(v, i, pool + off);
        if (len == SIZE_MAX)
            return FAIL(f, err, INFER_ERROR_VALUE, KEY_TOKENS, "token %u is a byte token but is not spelled <0xHH>", i);
        v->bytes.at[i] = (struct str_at){off, (uint32_t)len};
        off += (uint32_t)len;
    }
    v->bytes.base = pool;
    return INFER_OK;
}

/* ---- Finding tokens. Probes are limited so that a file made to collide cannot cost quadratic time. */

#define MAX_PROBES 1024

static const struct strs *table_keys(const struct vocab *v)
{
    return v->form == FORM_BYTE_LEVEL ? &v->bytes : &v->pieces;
}

static bool table_add(struct vocab *v, uint32_t id, uint64_t h)
{
    const struct strs *k = table_keys(v);
    const char *s = str_of(k, id);
    uint32_t len = k->at[id].len;
    uint64_t tag = h >> 32;
    uint32_t at = (uint32_t)h & v->table.mask;
    for (int probes = 0; probes < MAX_PROBES; probes++, at = (at + 1) & v->table.mask) {
        uint64_t slot = v->table.slots[at];
        if (!slot) {
            v->table.slots[at] = tag << 32 | (id + 1);
            return true;
        }
        uint32_t other = (uint32_t)slot - 1;
        if (slot >> 32 == tag && k->at[other].len == len && !memcmp(str_of(k, other), s, len)) {
            v->duplicates = true;
            return true;
        }
    }
    return false;
}

static uint32_t find_hashed(const struct vocab *v, const char *s, size_t len, uint64_t h)
{
    const struct strs *k = table_keys(v);
    uint64_t tag = h >> 32;
    for (uint32_t at = (uint32_t)h & v->table.mask;; at = (at + 1) & v->table.mask) {
        uint64_t slot = v->table.slots[at];
        if (!slot)
            return VOCAB_NONE;
        uint32_t id = (uint32_t)slot - 1;
        if (slot >> 32 == tag && k->at[id].len == len && !memcmp(str_of(k, id), s, len))
            return id;
    }
}

uint32_t vocab_find(const struct vocab *v, const char *s, size_t len)
{
    return len > v->max_piece || !len ? VOCAB_NONE : find_hashed(v, s, len, hash_bytes(s, len));
}

void vocab_find_many(const struct vocab *v, struct vocab_query *q, size_t n)
{
    const struct strs *k = table_keys(v);
    for (size_t i = 0; i < n; i++)
        q[i].hash = hash_bytes(q[i].s, q[i].len);
    for (size_t i = 0; i < n; i++) { /* a guess from the first slot: these loads do not wait for each other */
        uint64_t slot = v->table.slots[(uint32_t)q[i].hash & v->table.mask];
        q[i].id = slot && slot >> 32 == q[i].hash >> 32 ? (uint32_t)slot - 1 : VOCAB_NONE;
    }
    for (size_t i = 0; i < n; i++)
        if (q[i].id != VOCAB_NONE && k->at[q[i].id].len != q[i].len)
            q[i].id = VOCAB_NONE;
    for (size_t i = 0; i < n; i++)
        if (q[i].id == VOCAB_NONE || memcmp(str_of(k, q[i].id), q[i].s, q[i].len))
            q[i].id = q[i].len && q[i].len <= v->max_piece ? find_hashed(v, q[i].s, q[i].len, q[i].hash) : VOCAB_NONE;
}

#define BATCH 64

static bool table_add_batch(struct vocab *v, const uint32_t *ids, uint32_t n)
{
    const struct strs *k = table_keys(v);
    uint64_t hash[BATCH], touched = 0;
    for (uint32_t i = 0; i < n; i++)
        hash[i] = hash_bytes(str_of(k, ids[i]), k->at[ids[i]].len);
    for (uint32_t i = 0; i < n; i++) /* brings the slots into the cache, all at a time */
        touched |= v->table.slots[(uint32_t)hash[i] & v->table.mask];
    for (uint32_t i = 0; i < n; i++)
        if (!table_add(v, ids[i], hash[i]))
            return false;
    return touched != UINT64_MAX; /* always: no id + 1 has all bits set. It keeps the loads from being optimised away */
}

static bool fill_table(struct vocab *v, bool normal)
{
    uint32_t ids[BATCH], n = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        int32_t kind = vocab_kind(v, i);
        if (kind == INFER_TOKEN_BYTE || !table_keys(v)->at[i].len || (kind == INFER_TOKEN_NORMAL) != normal)
            continue;
        ids[n++] = i;
        if (n == BATCH) {
            if (!table_add_batch(v, ids, n))
                return false;
            n = 0;
        }
    }
    return table_add_batch(v, ids, n);
}

static bool alloc_table(struct vocab *v)
{
    uint32_t cap = 16;
    while (cap < v->n + v->n / 2)
        cap *= 2;
    v->table.slots = mem_zarray(v->alloc, cap, sizeof *v->table.slots);
    v->table.mask = cap - 1;
    return v->table.slots != NULL;
}

infer_status vocab_make_table(struct vocab *v)
{
    uint32_t ids[BATCH], n = 0;
    if (!alloc_table(v))
        return INFER_ERROR_NO_MEMORY;
    for (uint32_t i = v->n; i-- > 0;) {
        if (!v->pieces.at[i].len)
            continue;
        ids[n++] = i;
        if (n == BATCH) {
            if (!table_add_batch(v, ids, n))
                return INFER_ERROR_LIMIT;
            n = 0;
        }
    }
    return table_add_batch(v, ids, n) ? INFER_OK : INFER_ERROR_LIMIT;
}

static void find_bytes(struct vocab *v)
{
    for (int b = 0; b < 256; b++)
        v->byte_id[b] = VOCAB_NONE;
    for (uint32_t i = v->n; i-- > 0;) {
        int32_t kind = vocab_kind(v, i);
        const struct str_at *s = &v->bytes.at[i];
        int b = -1;
        if (kind == INFER_TOKEN_BYTE || (v->form == FORM_BYTE_LEVEL && kind == INFER_TOKEN_NORMAL && s->len == 1))
            b = (uint8_t)v->bytes.base[s->off];
        if (b >= 0)
            v->byte_id[b] = i;
    }
}

infer_status vocab_index(struct vocab *v, const struct infer_file *f, infer_error *err)
{
    infer_status st = make_bytes(v, f, err);
    if (st != INFER_OK)
        return st;
    if (!alloc_table(v))
        return err_no_memory(err);
    /* Normal tokens first: they win over control tokens that are spelled like their bytes. */
    if (!fill_table(v, true) || !fill_table(v, false))
        return FAIL(f, err, INFER_ERROR_LIMIT, KEY_TOKENS, "the spellings collide: not a vocabulary");
    find_bytes(v);
    return INFER_OK;
}
