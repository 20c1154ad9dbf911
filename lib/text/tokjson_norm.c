/* Normalizers: each reads a text and writes another. */
#include <string.h>

#include "base/utf8.h"
#include "text/tokjson.h"
#include "text/unicode_hf.h"

/* ---- Reading the declaration */

static const struct {
    const char *type;
    enum norm_kind kind;
} kinds[] = {{"NFC", NORM_NFC}, {"NFD", NORM_NFD}, {"NFKC", NORM_NFKC}, {"NFKD", NORM_NFKD}, {"Lowercase", NORM_LOWERCASE},
             {"StripAccents", NORM_STRIP_ACCENTS}, {"Strip", NORM_STRIP}, {"Prepend", NORM_PREPEND}, {"Replace", NORM_REPLACE},
             {"BertNormalizer", NORM_BERT}, {"Precompiled", NORM_PRECOMPILED}, {"Nmt", NORM_NMT}, {"ByteLevel", NORM_BYTE_LEVEL}};

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* The character map, base64. It stays in the arena. */
static infer_status read_charsmap(struct tj_reader *r, const struct json *step, struct charsmap *out)
{
    const struct json *v = json_get(step, "precompiled_charsmap");
    if (!v || v->type != JSON_STRING)
        return tj_fail(r, INFER_ERROR_VALUE, step, "precompiled_charsmap is expected");
    struct json_text t = v->u.text;
    while (t.len && t.p[t.len - 1] == '=')
        t.len--;
    if (!t.len)
        return INFER_OK;
    uint8_t *data = arena_alloc(&r->j->arena, t.len / 4 * 3 + 3);
    size_t n = 0;
    uint32_t bits = 0;
    if (!data)
        return err_no_memory(r->err);
    for (size_t i = 0; i < t.len; i++) {
        int d = base64_digit(t.p[i]);
        if (d < 0)
            return tj_fail(r, INFER_ERROR_VALUE, v, "not base64");
        bits = bits << 6 | (uint32_t)d;
        if (i % 4)
            data[n++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return charsmap_open(out, data, n) ? INFER_OK : tj_fail(r, INFER_ERROR_VALUE, v, "malformed character map");
}

static infer_status read_bert(struct tj_reader *r, const struct json *step, struct norm_step *n)
{
    infer_status st = tj_bool(r, step, "clean_text", true, &n->clean);
    if (st == INFER_OK)
        st = tj_bool(r, step, "handle_chinese_chars", true, &n->ideographs);
    if (st == INFER_OK)
        st = tj_bool(r, step, "lowercase", true, &n->lower);
    return st == INFER_OK ? tj_bool(r, step, "strip_accents", n->lower, &n->accents) : st;
}

static infer_status read_step(struct tj_reader *r, const struct json *step, struct norm_step *n)
{
    infer_status st;
    switch (n->kind) {
    case NORM_BERT: return read_bert(r, step, n);
    case NORM_PRECOMPILED: return read_charsmap(r, step, &n->charsmap);
    case NORM_PREPEND: return tj_string(r, step, "prepend", NULL, &n->content);
    case NORM_STRIP:
        st = tj_bool(r, step, "strip_left", true, &n->left);
        return st == INFER_OK ? tj_bool(r, step, "strip_right", true, &n->right) : st;
    case NORM_REPLACE:
        st = tj_pattern(r, step, "pattern", &n->pattern);
        return st == INFER_OK ? tj_string(r, step, "content", NULL, &n->content) : st;
    default: return INFER_OK;
    }
}

infer_status norm_add(struct tj_reader *r, const struct json *step)
{
    struct tokjson *j = r->j;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!tj_type_is(step, kinds[i].type))
            continue;
        if (j->n_norms == TJ_MAX_STEPS)
            return tj_fail(r, INFER_ERROR_LIMIT, step, "more than %d normalizers", TJ_MAX_STEPS);
        struct norm_step *n = &j->norms[j->n_norms++];
        n->kind = kinds[i].kind;
        return read_step(r, step, n);
    }
    return tj_unsupported(r, step, "normalizer");
}

/* ---- Characters one by one: each becomes nothing or others */

static void put_cp(struct buf *out, uint32_t cp)
{
    char utf8[4];
    if (cp < 0x80)
        buf_putc(out, (char)cp);
    else
        buf_put(out, utf8, utf8_encode(cp, utf8));
}

static void put_lower(struct buf *out, uint32_t cp)
{
    put_cp(out, hf_lower(cp));
    if (cp == 0x130) /* the one letter whose lower case is two characters */
        put_cp(out, 0x307);
}

/* Control characters go, more than Unicode's own become spaces. */
static void put_nmt(struct buf *out, uint32_t c)
{
    bool gone = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                 c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    if (!gone)
        put_cp(out, space ? ' ' : c);
}

static void put_clean(struct buf *out, uint32_t cp)
{
    bool space = cp == '\t' || cp == '\n' || cp == '\r';
    uint32_t props = uc_props(cp);
    if (!space && (!cp || cp == 0xFFFD || hf_is_control(cp)))
        return;
    put_cp(out, space || (props & UC_SPACE) ? ' ' : cp);
}

static void put_spaced_ideograph(struct buf *out, uint32_t cp)
{
    bool ideograph = hf_is_ideograph(cp);
    if (ideograph)
        buf_putc(out, ' ');
    put_cp(out, cp);
    if (ideograph)
        buf_putc(out, ' ');
}

static void put_unaccented(struct buf *out, uint32_t cp)
{
    if (!hf_is_nonspacing(cp))
        put_cp(out, cp);
}

static void put_unmarked(struct buf *out, uint32_t cp)
{
    if (!hf_is_mark(cp))
        put_cp(out, cp);
}

static void each_char(struct tj_run *run, const char *s, size_t len, struct buf *out, void (*put)(struct buf *out, uint32_t cp))
{
    size_t used;
    for (size_t i = 0; i < len && buf_ok(out); i += used) {
        used = 1;
        put(out, (uint8_t)s[i] < 0x80 ? (uint8_t)s[i] : utf8_decode(s + i, len - i, &used));
        run->dropped = run->dropped || !out->len;
    }
}

/* ---- Whole texts */

static void replace(struct tj_run *run, const struct norm_step *n, const char *s, size_t len, struct buf *out)
{
    struct pattern_walk w;
    size_t from, to, done = 0;
    pattern_begin(&w, &n->pattern, &run->patterns, s, len);
    while (pattern_next(&w, &from, &to) && buf_ok(out)) {
        buf_put(out, s + done, from - done);
        buf_put(out, n->content.p, n->content.len);
        run->dropped = run->dropped || (to && !out->len);
        done = to;
    }
    if (w.st != INFER_OK)
        run->st = w.st;
    buf_put(out, s + done, len - done);
}

/* SentencePiece's map, applied to characters as people see them and, where that finds nothing, to code points; a sequence is replaced by
 * what its shortest mapped beginning stands for. */
static void precompiled(struct tj_run *run, const struct charsmap *m, const char *s, size_t len, struct buf *out)
{
    const char *to;
    size_t used, n;
    for (size_t i = 0; i < len && buf_ok(out);) {
        size_t cluster = hf_cluster(s + i, len - i);
        if (cluster < 6 && charsmap_shortest(m, s + i, cluster, &to, &n)) {
            buf_put(out, to, n);
            i += cluster;
            run->dropped = run->dropped || !out->len;
            continue;
        }
        for (size_t end = i + cluster; i < end; i += used) {
            (void)utf8_decode(s + i, end - i, &used);
            if (charsmap_shortest(m, s + i, used, &to, &n))
                buf_put(out, to, n);
            else
                buf_put(out, s + i, used);
            run->dropped = run->dropped || !out->len;
        }
    }
}

static void byte_chars(const struct tokjson *j, const char *s, size_t len, struct buf *out)
{
    for (size_t i = 0; i < len; i++)
        buf_put(out, j->byte_char[(uint8_t)s[i]], j->byte_char_len[(uint8_t)s[i]]);
}

/* Applies a step to *s, whose result goes into run->norm[*side], the other buffer than the one *s lies in. */
static void apply(struct tj_run *run, const char **s, size_t *len, int *side, const struct norm_step *n)
{
    struct buf *out = &run->norm[*side];
    out->len = 0;
    switch (n->kind) {
    case NORM_NFC: uc_normalize_old(UC_FORM_C, *s, *len, out); break;
    case NORM_NFD: uc_normalize_old(UC_FORM_D, *s, *len, out); break;
    case NORM_NFKC: uc_normalize_old(UC_FORM_KC, *s, *len, out); break;
    case NORM_NFKD: uc_normalize_old(UC_FORM_KD, *s, *len, out); break;
    case NORM_LOWERCASE: each_char(run, *s, *len, out, put_lower); break;
    case NORM_STRIP_ACCENTS: each_char(run, *s, *len, out, put_unmarked); break;
    case NORM_NMT: each_char(run, *s, *len, out, put_nmt); break;
    case NORM_REPLACE: replace(run, n, *s, *len, out); break;
    case NORM_PRECOMPILED: precompiled(run, &n->charsmap, *s, *len, out); break;
    case NORM_BYTE_LEVEL: byte_chars(run->j, *s, *len, out); break;
    default:
        buf_put(out, n->content.p, n->content.len);
        buf_put(out, *s, *len);
        break;
    }
    *s = out->data ? out->data : "";
    *len = out->len;
    *side ^= 1;
}

static void apply_bert(struct tj_run *run, const char **s, size_t *len, int *side, const struct norm_step *n)
{
    void (*const puts[])(struct buf *, uint32_t) = {n->clean ? put_clean : NULL, n->ideographs ? put_spaced_ideograph : NULL,
                                                    n->accents ? put_unaccented : NULL, n->lower ? put_lower : NULL};
    for (int i = 0; i < 4; i++) {
        struct buf *out = &run->norm[*side];
        if (!puts[i])
            continue;
        if (i == 2) {
            const struct norm_step nfd = {.kind = NORM_NFD};
            apply(run, s, len, side, &nfd);
            out = &run->norm[*side];
        }
        out->len = 0;
        each_char(run, *s, *len, out, puts[i]);
        *s = out->data ? out->data : "";
        *len = out->len;
        *side ^= 1;
    }
}

static bool changes_nothing(const struct norm_step *n, const char *s, size_t len)
{
    return (n->kind == NORM_NFC && uc_is_plain_nfc(s, len)) || (n->kind == NORM_PRECOMPILED && !n->charsmap.units) ||
           (n->kind == NORM_REPLACE && n->pattern.text.len == 1 && !memchr(s, n->pattern.text.p[0], len));
}

void tj_normalize(struct tj_run *run, const char **s, size_t *len)
{
    int side = 0;
    run->dropped = false;
    for (uint32_t i = 0; i < run->j->n_norms && *len; i++) {
        const struct norm_step *n = &run->j->norms[i];
        if (changes_nothing(n, *s, *len))
            continue;
        if (n->kind == NORM_STRIP) {
            size_t end = n->right ? strip_end(*s, 0, *len) : *len, begin = n->left ? strip_begin(*s, 0, end) : 0;
            run->dropped = run->dropped || begin;
            *s += begin;
            *len = end - begin;
        } else if (n->kind == NORM_BERT)
            apply_bert(run, s, len, &side, n);
        else
            apply(run, s, len, &side, n);
    }
    for (int i = 0; i < 2; i++) {
        if (run->norm[i].over_limit)
            run->st = INFER_ERROR_LIMIT;
        else if (!buf_ok(&run->norm[i]))
            run->e->no_memory = true;
    }
}
