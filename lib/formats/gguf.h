/* The GGUF reader, versions 2 and 3, little-endian. Format: docs/gguf.md in ggml-org/ggml. */
#ifndef FORMATS_GGUF_H
#define FORMATS_GGUF_H

#include "base/cursor.h"
#include "formats/file.h"

/* By content: the magic number, in either byte order. */
bool gguf_is(const struct blob *blob);

/* Reads the file whose first (or only) part is blob, which it takes over, also on failure. Further parts of a split file are
 * opened through the source by names derived from its own. */
infer_status gguf_open(const struct env *env, const infer_source *source, struct blob *blob, int32_t map,
                       const infer_cancel *cancel, struct infer_file **out, infer_error *err);

/* ---- Shared by gguf*.c ---- */

/* Reads one part's header. err is filled with key or tensor and offset, not with the file. */
struct gguf_reader {
    struct infer_file *f;
    struct cursor *c;
    const infer_cancel *cancel;
    infer_error *err;
    const char *name; /* the key or tensor being read, for messages */
    size_t name_len;
    uint32_t steps;   /* items read, to poll the cancel flag now and then */
};

/* Fails with the reader's current key or tensor; at: byte offset. */
#define GGUF_FAIL(r, code, at, ...) err_at((r)->err, code, (r)->name, (r)->name_len, at, __VA_ARGS__)

infer_status gguf_truncated(struct gguf_reader *r, uint64_t at);
/* Polls the cancel flag each 4096 calls. */
infer_status gguf_step(struct gguf_reader *r);
/* A key or tensor name: not empty, at most max bytes, UTF-8, no zero bytes. It becomes the reader's current name. */
infer_status gguf_read_name(struct gguf_reader *r, uint64_t max, struct file_str *out);
/* Skips a value of this type and tells where it lies. */
infer_status gguf_read_value(struct gguf_reader *r, uint32_t type, struct file_value *out);
/* The tensor directory: n entries and then, aligned, the data. */
infer_status gguf_read_tensors(struct gguf_reader *r, uint64_t n, uint64_t alignment);

/* Split files: NAME-00001-of-00003.gguf. Writes the name of part number `part` (from 0) of `count` to out, which has room for the
 * original's length; false: name does not end that way, or not with this count. */
bool gguf_split_name(const char *name, uint64_t len, uint32_t part, uint32_t count, char *out);

#endif
