/* Pre-tokenizers: each cuts the pieces that the one before it made, and may change their text. Pieces are handed on one by one, so that
 * no list of them is kept. */
#include <string.h>

#include "base/utf8.h"
#include "text/pretok_impl.h"
#include "text/tokjson.h"
#include "text/unicode_hf.h"

/* ---- Reading the declaration */

static infer_status read_behavior(struct tj_reader *r, const struct json *step, const char *absent, enum cut_behavior *out)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    struct json_text name;
    infer_status st = tj_string(r, step, "behavior", absent, &name);
    if (st != INFER_OK)
        return st;
    for (int i = 0; i < 5; i++)
        if (json_text_is(name, names[i])) {
            *out = (enum cut_behavior)i;
            return INFER_OK;
        }
    return tj_fail(r, INFER_ERROR_VALUE, step, "unknown behavior \"%.*s\"", (int)(name.len > 32 ? 32 : name.len), name.p);
}

static infer_status read_split(struct tj_reader *r, const struct json *step, struct cut_step *c)
{
    infer_status st = tj_pattern(r, step, "pattern", &c->pattern);
    if (st == INFER_OK)
        st = read_behavior(r, step, NULL, &c->behavior);
    return st == INFER_OK ? tj_bool(r, step, "invert", false, &c->invert) : st;
}

static infer_status read_byte_level(struct tj_reader *r, const struct json *step, struct cut_step *c)
{
    infer_status st = tj_bool(r, step, "add_prefix_space", true, &c->prefix_space);
    return st == INFER_OK ? tj_bool(r, step, "use_regex", true, &c->use_regex) : st;
}

infer_status tj_metaspace(struct tj_reader *r, const struct json *step, struct json_text *mark, enum prepend *prepend)
{
    struct json_text scheme;
    bool legacy;
    infer_status st = tj_string(r, step, "replacement", SPACE_MARK, mark);
    if (st == INFER_OK)
        st = tj_bool(r, step, "add_prefix_space", true, &legacy);
    if (st == INFER_OK)
        st = tj_string(r, step, "prepend_scheme", legacy ? "always" : "never", &scheme);
    if (st != INFER_OK)
        return st;
    size_t used = 0;
    if (!mark->len || utf8_decode(mark->p, mark->len, &used) == UTF8_BAD || used != mark->len)
        return tj_fail(r, INFER_ERROR_VALUE, step, "replacement is not one character");
    *prepend = json_text_is(scheme, "always") ? PREPEND_ALWAYS : json_text_is(scheme, "first") ? PREPEND_FIRST : PREPEND_NEVER;
    if (*prepend == PREPEND_NEVER && !json_text_is(scheme, "never"))
        return tj_fail(r, INFER_ERROR_VALUE, step, "unknown prepend_scheme \"%.*s\"", (int)(scheme.len > 32 ? 32 : scheme.len), scheme.p);
    return INFER_OK;
}

static infer_status read_metaspace(struct tj_reader *r, const struct json *step, struct cut_step *c)
{
    infer_status st = tj_metaspace(r, step, &c->mark, &c->prepend);
    c->pattern.text = c->mark;
    c->behavior = CUT_MERGED_WITH_NEXT;
    return st == INFER_OK ? tj_bool(r, step, "split", true, &c->split) : st;
}

static infer_status read_digits(struct tj_reader *r, const struct json *step, struct cut_step *c)
{
    bool each;
    infer_status st = tj_bool(r, step, "individual_digits", false, &each);
    c->behavior = each ? CUT_ISOLATED : CUT_CONTIGUOUS;
    return st;
}

static infer_status read_char(struct tj_reader *r, const struct json *step, struct cut_step *c)
{
    struct json_text t;
    size_t used = 0;
    infer_status st = tj_string(r, step, "delimiter", NULL, &t);
    if (st != INFER_OK)
        return st;
    c->cp = t.len ? utf8_decode(t.p, t.len, &used) : UTF8_BAD;
    if (c->cp == UTF8_BAD || used != t.len)
        return tj_fail(r, INFER_ERROR_VALUE, step, "delimiter is not one character");
    return INFER_OK;
}

static infer_status read_length(struct tj_reader *r, const struct json *step, struct cut_step *c)
{
    infer_status st = tj_u32(r, step, "length", 5, &c->length);
    return st == INFER_OK && !c->length ? tj_fail(r, INFER_ERROR_VALUE, step, "length is 0") : st;
}

static infer_status read_punctuation(struct tj_reader *r, const struct json *step, struct cut_step *c)
{
    return read_behavior(r, step, "Isolated", &c->behavior);
}

static const struct {
    const char *type;
    enum cut_kind kind;
    infer_status (*read)(struct tj_reader *r, const struct json *step, struct cut_step *c);
} kinds[] = {{"ByteLevel", CUT_BYTE_LEVEL, read_byte_level}, {"Split", CUT_SPLIT, read_split}, {"Metaspace", CUT_METASPACE, read_metaspace},
             {"Whitespace", CUT_WHITESPACE, NULL}, {"WhitespaceSplit", CUT_WHITESPACE_SPLIT, NULL},
             {"Punctuation", CUT_PUNCTUATION, read_punctuation}, {"Digits", CUT_DIGITS, read_digits},
             {"BertPreTokenizer", CUT_BERT, NULL}, {"CharDelimiterSplit", CUT_CHAR, read_char}, {"FixedLength", CUT_FIXED_LENGTH, read_length}};

infer_status cut_add(struct tj_reader *r, const struct json *step)
{
    struct tokjson *j = r->j;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!tj_type_is(step, kinds[i].type))
            continue;
        if (j->n_cuts == TJ_MAX_STEPS)
            return tj_fail(r, INFER_ERROR_LIMIT, step, "more than %d pre-tokenizers", TJ_MAX_STEPS);
        struct cut_step *c = &j->cuts[j->n_cuts++];
        c->kind = kinds[i].kind;
        return kinds[i].read ? kinds[i].read(r, step, c) : INFER_OK;
    }
    return tj_unsupported(r, step, "pre-tokenizer");
}

/* ---- Putting matches and what lies between them together, as the behavior says */

static void run_step(struct tj_run *run, uint32_t k, const char *s, size_t len, bool first);

struct cutter {
    struct tj_run *run;
    uint32_t next;  /* the step that pieces go to */
    const char *s;
    bool first;     /* s begins the whole text */
    enum cut_behavior behavior;
    bool invert;
    size_t from, to; /* the piece that is kept back: it may grow */
    bool kept, kept_match;
    size_t done;     /* what lies before it was given to put_part */
};

static void put_piece(struct cutter *c, size_t from, size_t to)
{
    if (to > from)
        run_step(c->run, c->next, c->s + from, to - from, c->first && !from);
}

static void flush(struct cutter *c)
{
    if (c->kept)
        put_piece(c, c->from, c->to);
    c->kept = false;
}

/* The next part of the text: a match or what is not one. Empty matches cut. */
static void put_part(struct cutter *c, size_t from, size_t to, bool match)
{
    match = match != c->invert;
    bool grows = false;
    switch (c->behavior) {
    case CUT_REMOVED:
        if (!match)
            put_piece(c, from, to);
        return;
    case CUT_ISOLATED: put_piece(c, from, to); return;
    case CUT_CONTIGUOUS: grows = c->kept && c->kept_match == match; break;
    case CUT_MERGED_WITH_PREVIOUS: grows = c->kept && match && !c->kept_match; break;
    case CUT_MERGED_WITH_NEXT: grows = c->kept && !match && c->kept_match; break;
    }
    if (!grows) {
        flush(c);
        c->from = from;
        c->kept = true;
    }
    c->to = to;
    c->kept_match = match;
}

static void put_match(struct cutter *c, size_t from, size_t to)
{
    if (from > c->done)
        put_part(c, c->done, from, false);
    put_part(c, from, to, true);
    c->done = to;
}

static void finish(struct cutter *c, size_t len)
{
    if (len > c->done)
        put_part(c, c->done, len, false);
    flush(c);
}

static void cut_pattern(struct cutter *c, const struct pattern *p, size_t len)
{
    struct pattern_walk w;
    size_t from, to;
    pattern_begin(&w, p, &c->run->patterns, c->s, len);
    while (!tj_failed(c->run) && pattern_next(&w, &from, &to))
        put_match(c, from, to);
    if (w.st != INFER_OK)
        c->run->st = w.st;
    else
        finish(c, len);
}

/* ---- Classes of characters */

static bool is_match(const struct cut_step *step, uint32_t cp)
{
    switch (step->kind) {
    case CUT_DIGITS: return hf_is_number(cp);
    case CUT_PUNCTUATION: return hf_is_punct(cp);
    case CUT_CHAR: return cp == step->cp;
    default: return (uc_props(cp) & UC_SPACE) != 0;
    }
}

static void cut_chars(struct cutter *c, const struct cut_step *step, size_t len)
{
    const char *s = c->s, *end = s + len;
    while (s < end && !tj_failed(c->run)) {
        const char *at = s;
        if (is_match(step, next_cp(&s)))
            put_match(c, (size_t)(at - c->s), (size_t)(s - c->s));
    }
    finish(c, len);
}

/* \w+|[^\w\s]+ */
static void cut_whitespace(struct cutter *c, size_t len)
{
    const char *s = c->s, *end = s + len, *begin = s;
    int before = 0; /* 0: white space, 1: \w, 2: others */
    while (s < end && !tj_failed(c->run)) {
        const char *at = s;
        uint32_t cp = next_cp(&s);
        int class = uc_props(cp) & UC_SPACE ? 0 : uc_is_word(cp) ? 1 : 2;
        if (class == before)
            continue;
        if (before)
            put_piece(c, (size_t)(begin - c->s), (size_t)(at - c->s));
        begin = at;
        before = class;
    }
    if (before)
        put_piece(c, (size_t)(begin - c->s), len);
}

/* White space goes; punctuation stands alone. */
static void cut_bert(struct cutter *c, size_t len)
{
    const char *s = c->s, *end = s + len, *begin = s;
    while (s < end && !tj_failed(c->run)) {
        const char *at = s;
        uint32_t cp = next_cp(&s);
        bool space = (uc_props(cp) & UC_SPACE) != 0;
        if (!space && !hf_is_punct(cp))
            continue;
        put_piece(c, (size_t)(begin - c->s), (size_t)(at - c->s));
        if (!space)
            put_piece(c, (size_t)(at - c->s), (size_t)(s - c->s));
        begin = s;
    }
    put_piece(c, (size_t)(begin - c->s), len);
}

static void cut_length(struct cutter *c, uint32_t length, size_t len)
{
    const char *s = c->s, *end = s + len;
    while (s < end && !tj_failed(c->run)) {
        const char *at = s;
        for (uint32_t n = 0; n < length && s < end; n++)
            (void)next_cp(&s);
        put_piece(c, (size_t)(at - c->s), (size_t)(s - c->s));
    }
}

/* ---- Steps that change the text */

/* Bytes as GPT-2's characters, for the next step. */
static void put_bytes(struct tj_run *run, uint32_t k, const char *s, size_t len, bool first)
{
    const struct tokjson *j = run->j;
    struct buf *b = &run->level[k][1];
    b->len = 0;
    if (len > SIZE_MAX / 2 || !buf_reserve(b, 2 * len))
        return;
    char *to = b->data;
    for (size_t i = 0; i < len; i++) {
        const char *from = j->byte_char[(uint8_t)s[i]];
        to[0] = from[0];
        to[1] = from[1];
        to += j->byte_char_len[(uint8_t)s[i]];
    }
    b->len = (size_t)(to - b->data);
    run_step(run, k + 1, b->data, b->len, first);
}

static void byte_level(struct tj_run *run, uint32_t k, const char *s, size_t len, bool first)
{
    const struct cut_step *step = &run->j->cuts[k];
    if (step->prefix_space && *s != ' ') {
        struct buf *b = &run->level[k][0];
        b->len = 0;
        buf_putc(b, ' ');
        buf_put(b, s, len);
        if (!buf_ok(b))
            return;
        s = b->data;
        len = b->len;
    }
    if (!step->use_regex) {
        put_bytes(run, k, s, len, first);
        return;
    }
    struct pretok_memo memo = {0};
    const char *at = s, *end = s + len, *stop;
    while (!tj_failed(run) && (at = pretok_next(pretok_gpt2(), &memo, at, end, &stop)) != NULL) {
        put_bytes(run, k, at, (size_t)(stop - at), first && at == s); /* GPT-2's expression leaves nothing between its matches */
        at = stop;
    }
}

static void metaspace(struct tj_run *run, uint32_t k, const char *s, size_t len, bool first)
{
    const struct cut_step *step = &run->j->cuts[k];
    struct buf *b = &run->level[k][0];
    size_t n = step->mark.len;
    b->len = 0;
    bool marked = *s == ' ' || (len >= n && !memcmp(s, step->mark.p, n));
    if (!marked && (step->prepend == PREPEND_ALWAYS || (step->prepend == PREPEND_FIRST && first)))
        buf_put(b, step->mark.p, n);
    for (size_t i = 0; i < len && buf_ok(b);) {
        const char *space = memchr(s + i, ' ', len - i);
        size_t plain = space ? (size_t)(space - s) - i : len - i;
        buf_put(b, s + i, plain);
        if (space)
            buf_put(b, step->mark.p, n);
        i += plain + (space != NULL);
    }
    if (!buf_ok(b))
        return;
    if (!step->split) {
        run_step(run, k + 1, b->data, b->len, first);
        return;
    }
    struct cutter c = {.run = run, .next = k + 1, .s = b->data, .first = first, .behavior = CUT_MERGED_WITH_NEXT};
    cut_pattern(&c, &step->pattern, b->len);
}

/* Step k of a piece; behind the last one is the model. At most TJ_MAX_STEPS deep. */
static void run_step(struct tj_run *run, uint32_t k, const char *s, size_t len, bool first)
{
    if (tj_failed(run))
        return;
    if (k == run->j->n_cuts) {
        tj_model_encode(run, s, len);
        return;
    }
    const struct cut_step *step = &run->j->cuts[k];
    struct cutter c = {.run = run, .next = k + 1, .s = s, .first = first, .behavior = step->behavior, .invert = step->invert};
    switch (step->kind) {
    case CUT_BYTE_LEVEL: byte_level(run, k, s, len, first); break;
    case CUT_METASPACE: metaspace(run, k, s, len, first); break;
    case CUT_SPLIT: cut_pattern(&c, &step->pattern, len); break;
    case CUT_WHITESPACE: cut_whitespace(&c, len); break;
    case CUT_BERT: cut_bert(&c, len); break;
    case CUT_FIXED_LENGTH: cut_length(&c, step->length, len); break;
    default: cut_chars(&c, step, len); break;
    }
    for (int i = 0; i < 2; i++)
        if (!buf_ok(&run->level[k][i]))
            run->st = run->level[k][i].over_limit ? INFER_ERROR_LIMIT : INFER_ERROR_NO_MEMORY;
}

void tj_cut(struct tj_run *run, const char *s, size_t len, bool first)
{
    if (len)
        run_step(run, 0, s, len, first);
}
