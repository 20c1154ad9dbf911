/* The safetensors reader. Format: docs/source/index.mdx in huggingface/safetensors: 8 bytes of length, a JSON header, the tensors' data. */
#ifndef FORMATS_SAFETENSORS_H
#define FORMATS_SAFETENSORS_H

#include "formats/file.h"

#define SAFETENSORS_MAX_HEADER ((uint64_t)100 << 20) /* bytes; what the format's own library reads is a little less */
#define SAFETENSORS_MAX_RANK 16                      /* dimensions; beyond FILE_MAX_DIMS the outermost are multiplied into one */

/* By content: a plausible length, then '{'. */
bool safetensors_is(const struct blob *blob);

/* Reads a file, whose blob it takes over, also on failure. Tensors keep their names and the file's order; `__metadata__` becomes metadata of
 * strings. Data is used in place, but for tensors that lie at odd places (an element's address must be a multiple of its size), which
 * are copied into a part of the file's own. Memory for the rest is at most about 50 times the header's size, whatever is in it, and
 * 6 times for real headers. */
infer_status safetensors_open(const struct env *env, const char *name, size_t name_len, struct blob *blob,
                              const infer_cancel *cancel, struct infer_file **out, infer_error *err);

#endif
