/* A conversation: messages, and the text that the model's template makes of them. */
#ifndef CLI_CONVERSATION_H
#define CLI_CONVERSATION_H

#include "cli.h"
#include "text.h"

struct message {
    const char *role; /* static */
    char *content;
    size_t len;
};

struct conversation {
    struct message *messages;
    size_t count, cap;
};

bool conversation_add(struct conversation *v, const char *role, const char *content, size_t len);
void conversation_cut(struct conversation *v, size_t count); /* drops messages from number count on */
void conversation_free(struct conversation *v);

/* Renders with the model's template and tokenizes; *ids is malloc'ed. An exit code. */
int conversation_encode(const struct cli *c, const struct conversation *v, int32_t **ids, uint64_t *count);
/* Tokenizes text as it is; a BOS goes before it when the model wants one and the text has none (bos true). An exit code. */
int encode_text(const struct cli *c, const char *text, size_t len, bool bos, int32_t **ids, uint64_t *count);
/* Whether every --template-arg holds one JSON value. An exit code. */
int check_template_args(const struct options *o);

#endif
