/* States and conversations in files. */
#ifndef CLI_STATE_FILE_H
#define CLI_STATE_FILE_H

#include "cli.h"
#include "text.h"

/* Opens a checkpoint file of c's model. */
infer_status state_open(struct cli *c, const char *path, infer_checkpoint **out, infer_error *err);
/* Writes one: all of it, or (parent not NULL) only what that file lacks. The file that had the name stays whole until the new one is. */
infer_status state_save(const infer_checkpoint *state, const char *path, const char *parent, infer_error *err);
/* The tokens of a checkpoint, malloc'ed. */
infer_status state_tokens(const infer_checkpoint *state, int32_t **ids, uint64_t *count, infer_error *err);
/* The session goes on from there, with the command line's sampling. */
infer_status state_restore(struct cli *c, const infer_checkpoint *state, infer_error *err);

bool file_exists(const char *path);
/* A whole file. false: errno tells why. */
bool file_read(const char *path, struct text *out);
/* Under another name first, then in place of what was there. */
bool file_write(const char *path, const struct text *text);

#endif
