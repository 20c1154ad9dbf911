#include "reasoning.h"

#include <string.h>

static const struct {
    const char *open, *close;
} known[] = { /* the first whose closing tag the template has */
    {"<think>", "</think>"},
    {"<seed:think>", "</seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"[THINK]", "[/THINK]"},
    {"<thinking>", "</thinking>"},
    {"<thought>", "</thought>"},
    {"<reasoning>", "</reasoning>"},
};

static bool has(const char *text, size_t len, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = text, *end = text + len; (size_t)(end - at) >= n; at++) {
        at = memchr(at, word[0], (size_t)(end - at) - n + 1);
        if (!at)
            return false;
        if (memcmp(at, word, n) == 0)
            return true;
    }
    return false;
}

struct reasoning_tags reasoning_find(const char *template_text, size_t len)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (has(template_text, len, known[i].close))
            return (struct reasoning_tags){known[i].open, known[i].close, -1, -1};
    return (struct reasoning_tags){NULL, NULL, -1, -1};
}

/* The id of a control token with this spelling; -1: there is none. */
static int32_t control_id(const infer_tokenizer *tokenizer, const char *spelling)
{
    int32_t id;
    uint64_t n;
    infer_token_info info;
    INFER_INIT(&info);
    if (infer_tokenize(tokenizer, spelling, INFER_ZSTR, INFER_TOKENIZE_PARSE_SPECIAL, &id, 1, &n, NULL) != INFER_OK || n != 1 ||
        infer_tokenizer_token(tokenizer, id, &info, NULL) != INFER_OK || info.kind != INFER_TOKEN_CONTROL)
        return -1;
    return id;
}

struct reasoning_tags reasoning_of(const infer_template *tmpl, const infer_tokenizer *tokenizer)
{
    const char *text;
    uint64_t len;
    infer_template_text(tmpl, &text, &len);
    struct reasoning_tags tags = reasoning_find(text, (size_t)len);
    if (tags.open && tokenizer) {
        tags.open_id = control_id(tokenizer, tags.open);
        tags.close_id = control_id(tokenizer, tags.close);
    }
    return tags;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

bool reasoning_opened(const struct reasoning_tags *tags, const char *prompt, size_t len)
{
    if (!tags->open)
        return false;
    size_t n = strlen(tags->open);
    while (len && is_space(prompt[len - 1]))
        len--;
    return len >= n && memcmp(prompt + len - n, tags->open, n) == 0;
}

void reasoning_begin(struct reasoning *r, struct reasoning_tags tags, bool inside)
{
    *r = (struct reasoning){.tags = tags, .state = !tags.open ? REASONING_ANSWER : inside ? REASONING_SKIP : REASONING_BEGIN};
}

static void give(const struct reasoning *r, const char *text, size_t len, reasoning_fn fn, void *user)
{
    if (len)
        fn(user, r->state == REASONING_INSIDE ? PART_REASONING : PART_ANSWER, text, len);
}

static void give_held(struct reasoning *r, size_t n, reasoning_fn fn, void *user)
{
    give(r, r->held, n, fn, user);
    memmove(r->held, r->held + n, r->n_held - n);
    r->n_held -= n;
}

/* With c behind what is held: how long the longest end is that begins the tag. */
static size_t tag_begun(struct reasoning *r, const char *tag, char c)
{
    size_t n = r->n_tag + 1;
    r->held[r->n_held] = c;
    while (n && memcmp(r->held + r->n_held + 1 - n, tag, n) != 0)
        n--;
    return n;
}

/* Before an answer: white space, and perhaps the opening tag. Anything else shows that there is no reasoning. false: c is not taken. */
static bool take_begin(struct reasoning *r, char c, reasoning_fn fn, void *user)
{
    const char *tag = r->tags.open;
    bool tag_goes_on = c == tag[r->n_tag];
    if (!tag_goes_on && (r->n_tag || !is_space(c) || r->n_held + strlen(tag) >= sizeof r->held)) {
        r->state = REASONING_ANSWER;
        r->n_tag = 0;
        give_held(r, r->n_held, fn, user);
        return false;
    }
    r->held[r->n_held++] = c;
    r->n_tag += tag_goes_on;
    if (!tag[r->n_tag]) {
        r->n_held = r->n_tag = 0;
        r->state = REASONING_SKIP;
    }
    return true;
}

/* Inside a block: white space is held with the tag that may follow it. false: c is not taken. */
static bool take_inside(struct reasoning *r, char c, reasoning_fn fn, void *user)
{
    const char *tag = r->tags.close;
    if (r->n_held + 1 == sizeof r->held)
        give_held(r, r->n_held - r->n_tag, fn, user);
    size_t begun = tag_begun(r, tag, c);
    if (!tag[begun]) {
        r->n_held = r->n_tag = 0;
        r->state = REASONING_AFTER;
        return true;
    }
    bool taken = begun || is_space(c);
    size_t given = r->n_held + taken - begun; /* but for the white space at its end, and the tag that has begun */
    while (taken && given && is_space(r->held[given - 1]))
        given--;
    r->n_held += taken;
    r->n_tag = begun;
    give_held(r, given, fn, user);
    return taken;
}

/* How much of the text can be given as it is: no white space, nothing that begins a tag. */
static size_t plain(const struct reasoning *r, const char *text, size_t len)
{
    size_t n = 0;
    while (!r->n_held && n < len && text[n] != r->tags.close[0] && !is_space(text[n]))
        n++;
    return n;
}

static size_t feed_inside(struct reasoning *r, const char *text, size_t len, reasoning_fn fn, void *user)
{
    size_t n = plain(r, text, len);
    give(r, text, n, fn, user);
    return n ? n : take_inside(r, *text, fn, user);
}

/* Takes some of the text; 0: only the state has changed. */
static size_t feed_some(struct reasoning *r, const char *text, size_t len, reasoning_fn fn, void *user)
{
    switch (r->state) {
    case REASONING_BEGIN: return take_begin(r, *text, fn, user);
    case REASONING_INSIDE: return feed_inside(r, text, len, fn, user);
    case REASONING_SKIP:
    case REASONING_AFTER:
        if (is_space(*text))
            return 1;
        r->state = r->state == REASONING_SKIP ? REASONING_INSIDE : REASONING_ANSWER;
        return 0;
    default: give(r, text, len, fn, user); return len;
    }
}

void reasoning_feed(struct reasoning *r, const char *text, size_t len, reasoning_fn fn, void *user)
{
    for (size_t i = 0; i < len;)
        i += feed_some(r, text + i, len - i, fn, user);
}

void reasoning_token(struct reasoning *r, int32_t id, const char *text, size_t len, reasoning_fn fn, void *user)
{
    if (!len && id >= 0 && id == r->tags.open_id && r->state == REASONING_BEGIN)
        reasoning_feed(r, r->tags.open, strlen(r->tags.open), fn, user);
    else if (!len && id >= 0 && id == r->tags.close_id && (r->state == REASONING_INSIDE || r->state == REASONING_SKIP))
        reasoning_feed(r, r->tags.close, strlen(r->tags.close), fn, user);
    else
        reasoning_feed(r, text, len, fn, user);
}

void reasoning_end(struct reasoning *r, reasoning_fn fn, void *user)
{
    give_held(r, r->n_held, fn, user);
    r->n_tag = 0;
}
