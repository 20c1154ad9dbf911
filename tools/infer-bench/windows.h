/* Running a text through the model, window by window. */
#ifndef BENCH_WINDOWS_H
#define BENCH_WINDOWS_H

#include "logits_file.h"
#include "model.h"

/* Tokens of a text file in windows of `window`, each with the model's BOS before it if it has one; what is left at the end is dropped.
 * At most `most` windows (0: all). first: half a window, or 0. An exit code. */
int windows_from_text(const struct model *m, const char *path, uint32_t window, bool score_all, uint32_t most, struct windows *w);

/* Takes the logits at one position >= first; next is the token that follows in the window, -1 at its end. An exit code; others than
 * EXIT_OK end the run. */
typedef int row_fn(void *user, const float *logits, int32_t next);

/* Calls fn for every stored position of every window, in order. An exit code. */
int windows_run(const struct model *m, const struct options *o, const struct windows *w, row_fn *fn, void *user);

#endif
