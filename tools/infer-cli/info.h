/* --info and --tokenize: they open no more of the file than they need. */
#ifndef CLI_INFO_H
#define CLI_INFO_H

#include "cli.h"

int run_info(struct cli *c);                                       /* an exit code */
int run_tokenize(struct cli *c, const char *prompt, size_t len);  /* an exit code */

#endif
