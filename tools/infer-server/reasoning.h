/* Splits what a model writes into reasoning and answer, as it comes: <think> ... </think> and the like, by what the model's template uses. */
#ifndef SERVER_REASONING_H
#define SERVER_REASONING_H

#include <stdbool.h>
#include <stddef.h>

struct reasoning_tags { const char *open, *close; }; /* NULL: the model has none */
struct reasoning_tags reasoning_find(const char *template_text, size_t len);

struct reasoning {
    struct reasoning_tags tags;
    int state;
    char held[32];    /* what may become a tag */
    size_t n_held;
};
enum reasoning_part { PART_ANSWER, PART_REASONING };
typedef void (*reasoning_fn)(void *user, enum reasoning_part part, const char *text, size_t len);
/* inside: the prompt ended within a block. */
void reasoning_begin(struct reasoning *r, struct reasoning_tags tags, bool inside);
/* Gives text on in pieces, tags left out, white space that belongs to them too. */
void reasoning_feed(struct reasoning *r, const char *text, size_t len, reasoning_fn fn, void *user);
void reasoning_end(struct reasoning *r, reasoning_fn fn, void *user);

#endif
