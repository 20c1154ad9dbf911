/* --lora, --steer, --soft-prompt, and what /lora and /steer change: the adapters of a conversation. */
#ifndef CLI_ADAPTERS_H
#define CLI_ADAPTERS_H

#include "cli.h"

struct chat;

/* Splits FILE[:scale], or with `steer` FILE[:strength[:layers[:project]]], into a path (malloc'ed) and what the rest says. NULL: no memory. */
char *adapter_parse(const char *arg, bool steer, infer_adapter_use *u);

/* What the command line names: opened, and in force in the session from its first element on. An exit code. */
int adapters_start(struct cli *c);
void adapters_close(struct cli *c);
/* Appends the soft prompts to an empty session. */
infer_status adapters_append_rows(const struct cli *c, infer_session *s, infer_error *err);

/* "": lists; "off": detaches all of that kind; FILE...: attaches, or gives an attached one another scale. */
void chat_lora(struct chat *ch, const char *arg);
void chat_steer(struct chat *ch, const char *arg);

#endif
