/* Stop strings, a text, and where it is cut, all from the input: what is found and given out must be what a search over the whole text finds, and what is held
 * back must survive being written out. The input: u8 strings - 1 (mod 64), and of each a byte of length and so many bytes; then pieces of the text, each with a
 * byte of length. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "text/stops.h"

#define MAX_TEXT 2048

static void demand(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_stops: %s\n", what);
    abort();
}

struct input {
    const uint8_t *at, *end;
    infer_text stops[STOPS_MAX];
    uint64_t n;
};

/* A byte of length, at least `least`, and the bytes; false at the end. */
static int take(struct input *in, size_t least, const char **out, size_t *len)
{
    if (in->at >= in->end)
        return 0;
    *len = *in->at++;
    *len = *len < least ? least : *len;
    *out = (const char *)in->at;
    if (*len > (size_t)(in->end - in->at))
        return 0;
    in->at += *len;
    return 1;
}

static int read_stops(struct input *in)
{
    if (in->at >= in->end)
        return 0;
    in->n = *in->at++ % STOPS_MAX + 1u;
    for (uint64_t i = 0; i < in->n; i++) {
        size_t len;
        if (!take(in, 1, &in->stops[i].text, &len))
            return 0;
        in->stops[i].text_len = len;
    }
    return 1;
}

static size_t search(const struct input *in, const char *text, size_t len, int32_t *which)
{
    for (size_t end = 1; end <= len; end++) {
        *which = -1;
        for (uint64_t i = 0; i < in->n; i++)
            if (in->stops[i].text_len <= end && !memcmp(text + end - in->stops[i].text_len, in->stops[i].text, (size_t)in->stops[i].text_len)
                && (*which < 0 || in->stops[i].text_len > in->stops[*which].text_len))
                *which = (int32_t)i;
        if (*which >= 0)
            return end;
    }
    *which = -1;
    return 0;
}

static void check_resume(const struct stops *s, const struct stops_state *state)
{
    struct stops_state again;
    struct buf held;
    buf_init(&held, &alloc_default, 0);
    stops_held(s, state, &held);
    demand(held.len == stops_held_len(s, state), "the length of what is held back is wrong");
    demand(stops_resume(s, held.data, state->lead_len, held.len - state->lead_len, &again), "what is held back is not taken back");
    demand(again.node == state->node && again.lead_len == state->lead_len, "another state");
    buf_free(&held);
}

/* Whether text[0 .. n) does not end inside a character: one that is begun there cannot go on as text[0 .. len) does. */
static bool ends_whole(const char *text, size_t n, size_t len)
{
    size_t k = utf8_complete(text, n);
    return k == n || (n < len && utf8_complete(text + k, n + 1 - k) > 0 && !utf8_valid(text + k, n + 1 - k));
}

/* One piece more; the text so far is text[0 .. len). Returns what was found. */
static int32_t feed(const struct input *in, const struct stops *s, struct stops_state *state, const char *text, size_t from, size_t len, size_t *given,
                    bool last)
{
    struct buf b;
    int32_t want;
    buf_init(&b, &alloc_default, 0);
    stops_held(s, state, &b);
    buf_put(&b, text + from, len - from);
    size_t n = b.len, end = search(in, text, len, &want);
    int32_t found = stops_feed(s, state, b.len ? b.data : "", len - from, &n, last);
    demand(found == want, "another stop string than the search finds");
    demand(n == 0 || !memcmp(b.data, text + *given, n), "other text than came in");
    *given += n;
    size_t most = end ? end - (size_t)in->stops[want].text_len : len;
    demand(*given <= most && (!last || *given == most), "too much or too little is given out");
    demand(last || ends_whole(text, *given, len), "half a character is given out");
    demand(*given + stops_held_len(s, state) == most, "text is lost");
    check_resume(s, state);
    buf_free(&b);
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.at = data, .end = data + size};
    struct stops *s = NULL;
    struct stops_state state = {0};
    char text[MAX_TEXT];
    size_t len = 0, given = 0, n = 0;
    const char *piece = "";
    if (!read_stops(&in))
        return 0;
    demand(stops_create(&alloc_default, in.stops, in.n, NULL, 0, &s, NULL) == INFER_OK, "good stop strings are refused");
    int32_t found = -1;
    while (found < 0 && take(&in, 0, &piece, &n) && len + n <= MAX_TEXT) {
        memcpy(text + len, piece, n);
        len += n;
        found = feed(&in, s, &state, text, len - n, len, &given, false);
    }
    if (found < 0)
        feed(&in, s, &state, text, len, len, &given, true);
    struct stops_state any; /* any bytes at all as held-back text: refused, or taken as they are */
    size_t rest = size < 8 ? size : 8;
    if (stops_resume(s, (const char *)data, size > 0 ? data[0] % 4u % (rest + 1) : 0, rest - (size > 0 ? data[0] % 4u % (rest + 1) : 0), &any))
        demand(stops_held_len(s, &any) == rest, "other text is taken back");
    stops_release(s);
    return 0;
}
