/* Reference logits in a file: what --save-logits writes and --kl reads. Little-endian.
 *
 *     0  8 bytes  "INFLOGIT"
 *     8  u32      version, 1
 *    12  u32      bytes of this header, 64
 *    16  u32      n_vocab: logits in a row
 *    20  u32      window: tokens in a window, 2 to 2^20
 *    24  u32      first: rows are stored for the positions first .. window - 1 of each window
 *    28  u32      type of the logits: 0, f32
 *    32  u64      n_tokens: a multiple of window
 *    40  24 bytes 0
 *    64  i32      tokens [n_tokens]; each window is a sequence of its own, from position 0, BOS included where the model wants it
 *        f32      rows [n_tokens / window][window - first][n_vocab]: the logits at that position, which foretell the token after it
 *
 * The file ends there. Everything is checked when it is read. */
#ifndef BENCH_LOGITS_FILE_H
#define BENCH_LOGITS_FILE_H

#include <stdio.h>

#include "bench.h"

#define LOGITS_MAX_WINDOW (1u << 20)
#define LOGITS_HEADER 64u

struct windows {
    int32_t *tokens; /* [n_tokens] */
    uint64_t n_tokens;
    uint32_t window, first;
};

static inline uint64_t windows_count(const struct windows *w)
{
    return w->n_tokens / w->window;
}
static inline uint64_t windows_rows(const struct windows *w)
{
    return windows_count(w) * (w->window - w->first);
}
void windows_free(struct windows *w);

struct logits_file {
    FILE *f;
    const char *path;
    uint32_t n_vocab;
    uint64_t left; /* rows still to come */
};

/* All return an exit code after saying what is wrong. A file that was opened must be closed, also after a failure. */

/* Opens for reading and checks that it fits a vocabulary; *w is its tokens. */
int logits_open(struct logits_file *l, const char *path, uint32_t n_vocab, struct windows *w);
int logits_read_row(struct logits_file *l, float *row);
/* Creates the file with its header and tokens. */
int logits_create(struct logits_file *l, const char *path, uint32_t n_vocab, const struct windows *w);
int logits_write_row(struct logits_file *l, const float *row);
/* ok: the file that was written is complete; else it is removed. */
int logits_close(struct logits_file *l, bool written, bool ok);

#endif
