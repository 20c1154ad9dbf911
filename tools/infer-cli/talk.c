#include "talk.h"

#include <stdlib.h>
#include <string.h>

#define FILE_HEADER "infer-chat 1\n"

static bool room_for_exchange(struct talk *t)
{
    if (t->count < t->cap)
        return true;
    size_t cap = t->cap ? 2 * t->cap : 16;
    struct exchange *e = realloc(t->exchanges, cap * sizeof *e);
    if (!e)
        return false;
    t->exchanges = e;
    t->cap = cap;
    return true;
}

static bool put_transcript(struct talk *t, const char *text, size_t len)
{
    text_put(&t->transcript, text, len);
    bool ok = !t->transcript.failed;
    t->transcript.failed = false; /* what was there stays */
    return ok;
}

bool talk_ask(struct talk *t, bool raw, const char *question, size_t len, uint64_t elements)
{
    struct exchange e = {t->said.count, t->transcript.len, elements};
    if (!room_for_exchange(t))
        return false;
    if (raw ? !put_transcript(t, question, len) : !conversation_add(&t->said, "user", question, len))
        return false;
    t->exchanges[t->count++] = e;
    return true;
}

bool talk_answer(struct talk *t, bool raw, const char *answer, size_t len)
{
    return raw ? put_transcript(t, answer, len) : conversation_add(&t->said, "assistant", answer, len);
}

uint64_t talk_undo(struct talk *t, size_t n)
{
    if (n == 0 || t->count == 0)
        return UINT64_MAX;
    t->count -= n < t->count ? n : t->count;
    struct exchange e = t->exchanges[t->count];
    conversation_cut(&t->said, e.messages);
    t->transcript.len = e.bytes;
    if (t->transcript.data)
        t->transcript.data[e.bytes] = 0;
    return e.elements;
}

void talk_recount(struct talk *t, size_t first)
{
    t->count = 0;
    for (size_t i = first; i < t->said.count; i++)
        if (strcmp(t->said.messages[i].role, "user") == 0 && room_for_exchange(t))
            t->exchanges[t->count++] = (struct exchange){i, 0, 0};
}

bool talk_copy(struct talk *to, const struct talk *from)
{
    bool ok = true;
    for (size_t i = 0; i < from->said.count && ok; i++)
        ok = conversation_add(&to->said, from->said.messages[i].role, from->said.messages[i].content, from->said.messages[i].len);
    ok = ok && put_transcript(to, from->transcript.data ? from->transcript.data : "", from->transcript.len);
    for (size_t i = 0; i < from->count && ok; i++) {
        ok = room_for_exchange(to);
        if (ok)
            to->exchanges[to->count++] = from->exchanges[i];
    }
    if (!ok)
        talk_free(to);
    return ok;
}

void talk_free(struct talk *t)
{
    conversation_free(&t->said);
    text_free(&t->transcript);
    free(t->exchanges);
    *t = (struct talk){0};
}

/* ---- As a file ---- */

/* "NAME N N N\n", N numbers; then, where it says so, as many bytes as the last number and a newline. */
void talk_write(const struct talk *t, bool raw, struct text *out)
{
    text_puts(out, FILE_HEADER);
    text_puts(out, raw ? "raw\n" : "template\n");
    for (size_t i = 0; i < t->count; i++) {
        const struct exchange *e = &t->exchanges[i];
        text_putf(out, "exchange %llu %llu %llu\n", (unsigned long long)e->messages, (unsigned long long)e->bytes,
                  (unsigned long long)e->elements);
    }
    for (size_t i = 0; i < t->said.count; i++) {
        const struct message *m = &t->said.messages[i];
        text_putf(out, "%s %llu\n", m->role, (unsigned long long)m->len);
        text_put(out, m->content, m->len);
        text_puts(out, "\n");
    }
    text_putf(out, "transcript %llu\n", (unsigned long long)t->transcript.len);
    text_put(out, t->transcript.data ? t->transcript.data : "", t->transcript.len);
    text_puts(out, "\nend\n");
}

struct reader {
    const char *at, *end;
};

/* Whether the input goes on with this; it is then behind us. */
static bool take(struct reader *r, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0)
        return false;
    r->at += n;
    return true;
}

/* A number and the character after it. */
static bool take_number(struct reader *r, char after, uint64_t *out)
{
    uint64_t v = 0;
    const char *start = r->at;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        if (v > (UINT64_MAX - 9) / 10)
            return false;
        v = 10 * v + (uint64_t)(*r->at - '0');
    }
    if (r->at == start || r->at == r->end || *r->at != after)
        return false;
    r->at++;
    *out = v;
    return true;
}

/* "N\n", N bytes, "\n" */
static bool take_bytes(struct reader *r, const char **bytes, size_t *len)
{
    uint64_t n;
    if (!take_number(r, '\n', &n) || n >= (uint64_t)(r->end - r->at))
        return false;
    *bytes = r->at;
    *len = (size_t)n;
    r->at += n;
    return take(r, "\n");
}

static bool read_exchange(struct talk *t, struct reader *r, bool *memory)
{
    uint64_t messages, bytes, elements;
    if (!take_number(r, ' ', &messages) || !take_number(r, ' ', &bytes) || !take_number(r, '\n', &elements))
        return false;
    *memory = room_for_exchange(t);
    if (*memory)
        t->exchanges[t->count++] = (struct exchange){(size_t)messages, (size_t)bytes, elements};
    return true;
}

static bool read_parts(struct talk *t, struct reader *r, bool *memory)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    const char *bytes;
    size_t len;
    while (*memory && take(r, "exchange "))
        if (!read_exchange(t, r, memory))
            return false;
    for (size_t i = 0; *memory && i < 3; i++) {
        if (!take(r, roles[i]))
            continue;
        if (!take(r, " ") || !take_bytes(r, &bytes, &len))
            return false;
        *memory = conversation_add(&t->said, roles[i], bytes, len);
        i = (size_t)-1;
    }
    if (!*memory || !take(r, "transcript ") || !take_bytes(r, &bytes, &len))
        return false;
    *memory = put_transcript(t, bytes, len);
    return *memory && take(r, "end\n") && r->at == r->end;
}

/* Exchanges must lie in what was said, one behind the other, each at a question. */
static bool in_order(const struct talk *t)
{
    size_t messages = 0, bytes = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct exchange *e = &t->exchanges[i];
        if (e->messages < messages || e->messages > t->said.count || e->bytes < bytes || e->bytes > t->transcript.len)
            return false;
        messages = e->messages;
        bytes = e->bytes;
    }
    return true;
}

const char *talk_read(struct talk *t, bool raw, const char *data, size_t len)
{
    struct reader r = {data, data + len};
    bool memory = true;
    const char *problem = NULL;
    if (!take(&r, FILE_HEADER))
        problem = "not a conversation that infer-cli saved";
    else if (!take(&r, raw ? "raw\n" : "template\n"))
        problem = raw ? "saved with a chat template, and this conversation has none" : "saved without the chat template (--raw)";
    else if (!read_parts(t, &r, &memory) || !in_order(t))
        problem = memory ? "damaged" : "out of memory";
    if (problem)
        talk_free(t);
    return problem;
}
