/* --embed: vectors of texts. */
#ifndef CLI_EMBED_H
#define CLI_EMBED_H

#include "cli.h"

/* Of the prompt; when that came from standard input, of each of its lines. An exit code. */
int run_embed(struct cli *c, const char *prompt, size_t len);

#endif
