/* Lines from the user: with editing and history on a terminal (libedit, when it was there at build time), plain otherwise. */
#ifndef CLI_LINE_H
#define CLI_LINE_H

#include <stdbool.h>

/* The next line without its newline, malloc'ed; NULL at the end of input. *failed: memory or a read error. */
char *line_read(const char *prompt, bool *failed);

#endif
