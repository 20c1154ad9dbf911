/* What was said in a conversation: messages where the model has a template, one transcript where it has none; and where each exchange
 * (a question and its answer) began, so that it can be taken back. */
#ifndef CLI_TALK_H
#define CLI_TALK_H

#include "conversation.h"

/* How much there was before its question. */
struct exchange {
    size_t messages, bytes; /* of the transcript */
    uint64_t elements;      /* of the session */
};

struct talk {
    struct conversation said;
    struct text transcript;
    struct exchange *exchanges;
    size_t count, cap; /* of exchanges */
};

/* false, here and below: no memory, and nothing has changed. */
bool talk_ask(struct talk *t, bool raw, const char *question, size_t len, uint64_t elements);
bool talk_answer(struct talk *t, bool raw, const char *answer, size_t len);
/* Takes back the last n of the exchanges, at most all. The elements that were there before. */
uint64_t talk_undo(struct talk *t, size_t n);
/* After the messages were changed: exchanges begin at each question from message number `first` on, and nothing is known of elements. */
void talk_recount(struct talk *t, size_t first);
bool talk_copy(struct talk *to, const struct talk *from); /* to: empty */
void talk_free(struct talk *t);

/* The file form of a conversation: counted parts after a line that tells the version. */
void talk_write(const struct talk *t, bool raw, struct text *out);
/* Into *t, empty before and after a failure. NULL, or what is wrong. */
const char *talk_read(struct talk *t, bool raw, const char *data, size_t len);

#endif
