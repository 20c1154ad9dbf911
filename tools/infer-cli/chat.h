/* --chat: a conversation with commands. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "cli.h"

/* An exit code. */
int run_chat(struct cli *c);

#endif
