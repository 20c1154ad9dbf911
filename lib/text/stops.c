#include "text/stops.h"

#include <string.h>

#include "base/ref.h"
#include "base/utf8.h"
#include "text/trie.h"

struct stops {
    struct ref ref;
    const struct alloc *alloc;
    uint32_t n_texts, n_ids;
    infer_text texts[STOPS_MAX];
    int32_t ids[STOPS_MAX];
    char *bytes;      /* of all texts */
    struct trie trie; /* in breadth-first order: a node's parent and what it falls back to come before it */
    /* [trie.n] */
    uint32_t *parent;
    uint32_t *fall;   /* the longest proper end of the node's string that is a node too */
    uint16_t *depth;
    int8_t *found;    /* the longest stop string that the node's string ends with, or -1 */
};

/* The node of the longest end of (the node's string, c). */
static uint32_t step(const struct stops *s, uint32_t node, uint8_t c)
{
    uint32_t child;
    while ((child = trie_child(&s->trie, node, c)) == TRIE_NONE && node)
        node = s->fall[node];
    return child == TRIE_NONE ? 0 : child;
}

static infer_status link_nodes(struct stops *s, infer_error *err)
{
    const struct trie *t = &s->trie;
    s->parent = mem_zarray(s->alloc, t->n, sizeof *s->parent);
    s->fall = mem_zarray(s->alloc, t->n, sizeof *s->fall);
    s->depth = mem_zarray(s->alloc, t->n, sizeof *s->depth);
    s->found = mem_zarray(s->alloc, t->n, sizeof *s->found);
    if (!s->parent || !s->fall || !s->depth || !s->found)
        return err_no_memory(err);
    s->found[0] = -1;
    for (uint32_t node = 0; node < t->n; node++)
        for (uint32_t child = t->first[node]; child < t->first[node + 1]; child++) {
            s->parent[child] = node;
            s->depth[child] = (uint16_t)(s->depth[node] + 1);
            s->fall[child] = node ? step(s, s->fall[node], t->label[child]) : 0;
            s->found[child] = t->value[child] != TRIE_NONE ? (int8_t)t->value[child] : s->found[s->fall[child]];
        }
    return INFER_OK;
}

static infer_status bad(infer_error *err, const char *field, const char *problem)
{
    return err_at(err, INFER_ERROR_ARGUMENT, field, strlen(field), ERR_NO_OFFSET, "%s: %s", field, problem);
}

/* Lengths of the texts into s, and their sum. */
static infer_status measure(struct stops *s, const infer_text *texts, size_t *sum, infer_error *err)
{
    *sum = 0;
    for (uint32_t i = 0; i < s->n_texts; i++) {
        if (!texts[i].text)
            return bad(err, "stops", "a text is NULL");
        s->texts[i].text_len = texts[i].text_len == INFER_ZSTR ? strlen(texts[i].text) : texts[i].text_len;
        if (!s->texts[i].text_len || s->texts[i].text_len > STOPS_MAX_TEXT)
            return bad(err, "stops", "a text must have 1 to 1024 bytes");
        *sum += (size_t)s->texts[i].text_len;
    }
    return INFER_OK;
}

static infer_status take_texts(struct stops *s, const infer_text *texts, infer_error *err)
{
    struct trie_key keys[STOPS_MAX];
    size_t sum, at = 0;
    infer_status st = measure(s, texts, &sum, err);
    if (st != INFER_OK || !s->n_texts)
        return st;
    s->bytes = mem_alloc(s->alloc, sum);
    if (!s->bytes)
        return err_no_memory(err);
    for (uint32_t i = 0; i < s->n_texts; i++) {
        size_t len = (size_t)s->texts[i].text_len;
        memcpy(s->bytes + at, texts[i].text, len);
        s->texts[i].text = s->bytes + at;
        keys[i] = (struct trie_key){s->bytes + at, (uint32_t)len, i};
        at += len;
    }
    if (!trie_build(&s->trie, s->alloc, keys, s->n_texts))
        return err_no_memory(err);
    return link_nodes(s, err);
}

infer_status stops_create(const struct alloc *a, const infer_text *texts, uint64_t n_texts, const int32_t *ids, uint64_t n_ids, struct stops **out,
                          infer_error *err)
{
    if (n_texts > STOPS_MAX)
        return bad(err, "stop_count", "at most 64");
    if (n_ids > STOPS_MAX)
        return bad(err, "stop_id_count", "at most 64");
    if (n_texts && !texts)
        return bad(err, "stops", "is NULL, but stop_count is not 0");
    if (n_ids && !ids)
        return bad(err, "stop_ids", "is NULL, but stop_id_count is not 0");
    struct stops *s = mem_zalloc(a, sizeof *s);
    if (!s)
        return err_no_memory(err);
    ref_init(&s->ref);
    s->alloc = a;
    s->trie.alloc = a;
    s->n_texts = (uint32_t)n_texts;
    s->n_ids = (uint32_t)n_ids;
    if (n_ids)
        memcpy(s->ids, ids, (size_t)n_ids * sizeof *ids);
    infer_status st = take_texts(s, texts, err);
    if (st != INFER_OK) {
        stops_release(s);
        return st;
    }
    *out = s;
    return INFER_OK;
}

struct stops *stops_ref(struct stops *s)
{
    if (s)
        ref_get(&s->ref);
    return s;
}

void stops_release(struct stops *s)
{
    if (!s || !ref_put(&s->ref))
        return;
    trie_free(&s->trie);
    mem_free(s->alloc, s->bytes);
    mem_free(s->alloc, s->parent);
    mem_free(s->alloc, s->fall);
    mem_free(s->alloc, s->depth);
    mem_free(s->alloc, s->found);
    mem_free(s->alloc, s);
}

const infer_text *stops_texts(const struct stops *s, uint32_t *n)
{
    *n = s->n_texts;
    return s->texts;
}

const int32_t *stops_ids(const struct stops *s, uint32_t *n)
{
    *n = s->n_ids;
    return s->ids;
}

bool stops_has_id(const struct stops *s, int32_t id)
{
    for (uint32_t i = 0; i < s->n_ids; i++)
        if (s->ids[i] == id)
            return true;
    return false;
}

size_t stops_bytes(const struct stops *s)
{
    size_t bytes = sizeof *s, node = 2 * sizeof *s->parent + sizeof *s->depth + sizeof *s->found + 9;
    for (uint32_t i = 0; i < s->n_texts; i++)
        bytes += (size_t)s->texts[i].text_len;
    return bytes + s->trie.n * node;
}

static size_t depth_of(const struct stops *s, uint32_t node)
{
    return node ? s->depth[node] : 0; /* without strings there are no nodes */
}

size_t stops_held_len(const struct stops *s, const struct stops_state *state)
{
    return state->lead_len + depth_of(s, state->node);
}

void stops_held(const struct stops *s, const struct stops_state *state, struct buf *out)
{
    char path[STOPS_MAX_TEXT];
    size_t n = depth_of(s, state->node), at = n;
    for (uint32_t node = state->node; node; node = s->parent[node])
        path[--at] = (char)s->trie.label[node];
    buf_put(out, state->lead, state->lead_len);
    buf_put(out, path, n);
}

bool stops_resume(const struct stops *s, const char *held, size_t lead_len, size_t rest, struct stops_state *out)
{
    *out = (struct stops_state){.lead_len = (uint8_t)lead_len};
    if (lead_len > sizeof out->lead || utf8_complete(held, lead_len) != 0 || (rest && !s->n_texts))
        return false;
    for (size_t i = 0; i < lead_len; i++) /* held may be NULL when nothing is held */
        out->lead[i] = held[i];
    for (size_t i = 0; i < rest; i++) {
        out->node = step(s, out->node, (uint8_t)held[lead_len + i]);
        if (s->found[out->node] >= 0)
            return false;
    }
    return depth_of(s, out->node) == rest;
}

int32_t stops_feed(const struct stops *s, struct stops_state *state, const char *text, size_t added, size_t *len, bool last)
{
    int32_t found = -1;
    size_t at = *len - added, out;
    while (s->n_texts && at < *len && found < 0) {
        state->node = step(s, state->node, (uint8_t)text[at++]);
        found = s->found[state->node];
    }
    if (found >= 0) {
        out = at - (size_t)s->texts[found].text_len;
        state->node = 0;
    } else {
        out = last ? *len : *len - depth_of(s, state->node);
        state->node = last ? 0 : state->node;
    }
    size_t whole = last ? out : utf8_complete(text, out);
    state->lead_len = (uint8_t)(out - whole);
    memcpy(state->lead, text + whole, out - whole);
    *len = whole;
    return found;
}
