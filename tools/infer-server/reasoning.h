/* Splits what a model writes into reasoning and answer, as it comes: <think> ... </think> and the like, by what the model's template uses. A block of
 * reasoning is one that the prompt has opened, or that the answer begins with (white space may stand before it); later tags are text. */
#ifndef SERVER_REASONING_H
#define SERVER_REASONING_H

#include <infer/infer.h>
#include <stdbool.h>
#include <stddef.h>

struct reasoning_tags {
    const char *open, *close;   /* NULL: the model has none. Static */
    int32_t open_id, close_id;  /* where a tag is a control token, which gives no text: its id; else -1 */
};
struct reasoning_tags reasoning_find(const char *template_text, size_t len);
/* The same with the ids. tokenizer may be NULL. */
struct reasoning_tags reasoning_of(const infer_template *tmpl, const infer_tokenizer *tokenizer);
/* Whether a prompt ends inside a block: with the opening tag, and white space. */
bool reasoning_opened(const struct reasoning_tags *tags, const char *prompt, size_t len);

enum reasoning_state { REASONING_BEGIN, REASONING_SKIP, REASONING_INSIDE, REASONING_AFTER, REASONING_ANSWER };
struct reasoning {
    struct reasoning_tags tags;
    enum reasoning_state state;
    char held[64];    /* white space and what may become a tag */
    size_t n_held;
    size_t n_tag;     /* of held, how much at its end may be the beginning of a tag */
};
enum reasoning_part { PART_ANSWER, PART_REASONING };
typedef void (*reasoning_fn)(void *user, enum reasoning_part part, const char *text, size_t len);
/* inside: the prompt ended within a block. */
void reasoning_begin(struct reasoning *r, struct reasoning_tags tags, bool inside);
/* Gives text on in pieces, tags left out, white space that belongs to them too. Pieces are whole characters when the texts fed are. What is given does not
 * depend on how the text is cut. */
void reasoning_feed(struct reasoning *r, const char *text, size_t len, reasoning_fn fn, void *user);
/* The same for a token with its text: a tag that is a control token has none. */
void reasoning_token(struct reasoning *r, int32_t id, const char *text, size_t len, reasoning_fn fn, void *user);
void reasoning_end(struct reasoning *r, reasoning_fn fn, void *user);

#endif
