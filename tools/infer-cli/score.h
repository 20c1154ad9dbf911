/* --score: how likely a text is. */
#ifndef CLI_SCORE_H
#define CLI_SCORE_H

#include "cli.h"

/* Of the text as it is, without the chat template. An exit code. */
int run_score(struct cli *c, const char *text, size_t len);

#endif
