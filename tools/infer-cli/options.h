/* The command line. One table drives parsing and --help. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli.h"

/* EXIT_OK, or EXIT_USAGE after saying what is wrong. */
int options_parse(struct options *o, int argc, char **argv);
/* Prints --help. */
bool options_help(void);

#endif
