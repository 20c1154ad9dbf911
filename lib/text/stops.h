/* What ends an answer: stop strings, found in text that comes in pieces, and stop tokens. Immutable after it is made, and counted: forks of a session share one.
 *
 * The answer ends at the first byte at which a stop string is complete; when several are complete there, it is the longest (and of equal ones the first in the
 * list). So where the text is cut does not depend on how it came in tokens. All is bytes: a stop string may begin or end inside a character.
 *
 * An Aho-Corasick automaton: its state is the longest end of the text so far that a stop string begins with. That is what is held back. Time is linear in the
 * text, whatever the strings are. */
#ifndef TEXT_STOPS_H
#define TEXT_STOPS_H

#include "base/buf.h"
#include "base/err.h"

#define STOPS_MAX      64u /* strings, and ids */
#define STOPS_MAX_TEXT 1024u

struct stops;

/* Copies texts and ids. text_len may be INFER_ZSTR. Errors: ARGUMENT (names the field), NO_MEMORY. */
infer_status stops_create(const struct alloc *a, const infer_text *texts, uint64_t n_texts, const int32_t *ids, uint64_t n_ids, struct stops **out,
                          infer_error *err);
struct stops *stops_ref(struct stops *s); /* NULL gives NULL */
void stops_release(struct stops *s);      /* may be NULL */
const infer_text *stops_texts(const struct stops *s, uint32_t *n);
const int32_t *stops_ids(const struct stops *s, uint32_t *n);
bool stops_has_id(const struct stops *s, int32_t id);
size_t stops_bytes(const struct stops *s); /* of memory */

/* Where in the text one is. Zero at the beginning. */
struct stops_state {
    uint32_t node;    /* of the automaton */
    uint8_t lead_len; /* bytes before what may become a stop string that are held back too: half a character. 0 to 3 */
    char lead[3];
};

/* Appends the text that is held back. */
void stops_held(const struct stops *s, const struct stops_state *state, struct buf *out);
size_t stops_held_len(const struct stops *s, const struct stops_state *state);
/* The state in which this text is held back, of which the first lead_len bytes are half a character; false: none. */
bool stops_resume(const struct stops *s, const char *held, size_t lead_len, size_t rest, struct stops_state *out);
/* text: what stops_held gives, and behind it `added` new bytes; *len in all. Returns the stop string that is complete in it, or -1. Then *len is how much of the
 * text may be given out: whole characters, or with `last` everything that is not of a stop string. What lies behind is held back, or when a stop string was
 * found dropped, but for half a character before it. */
int32_t stops_feed(const struct stops *s, struct stops_state *state, const char *text, size_t added, size_t *len, bool last);

#endif
