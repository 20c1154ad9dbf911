/* Everything that leaves the tool: answers on standard output, remarks on standard error. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli.h"
#include "text.h"

/* Standard output, unbuffered. The first failure (full disk) is reported on standard error and remembered; a
 * reader that went away, as head does, is only remembered. */
bool out_write(const char *bytes, size_t n);
bool out_puts(const char *s);
bool out_text(struct text *t); /* writes and clears it; a text that ran out of memory is a failure */
bool out_failed(void);

/* Whether errors are to be told on standard output too, as JSON events. */
void output_json(bool on);

/* One line on standard error, after "infer-cli: ". */
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same without it: what the user asked to see. */
void remark(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same for what ends the command or an answer: an error, and an event with --json. */
void complain(infer_status status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* complain with an error of the library and its place; before may be NULL. */
void note_error(const char *before, const infer_error *err);

/* A line that the next one replaces, on a terminal only. */
void progress_show(const char *what, uint64_t done, uint64_t total);
void progress_clear(void);

/* The exit code of a failure in opening (while false) or generating. */
int exit_code(infer_status status, bool generating);

#endif
