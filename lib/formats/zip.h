/* A reader of zip archives' directories, as far as PyTorch and numpy write them: stored entries are used in place. Format: PKWARE's
 * APPNOTE 6.3.9. */
#ifndef FORMATS_ZIP_H
#define FORMATS_ZIP_H

#include "base/cancel.h"
#include "base/map.h"
#include "base/source.h"
#include "formats/file.h"

#define ZIP_MAX_ENTRIES ((uint64_t)1 << 20)

struct zip_entry {
    struct file_str name; /* UTF-8, relative, without "..", "." or empty parts; unique */
    uint64_t header;      /* of its local header, in the file */
    uint64_t offset;      /* of its data */
    uint64_t size;        /* bytes of data as stored; no two entries overlap */
    uint16_t method;      /* 0: stored */
};

struct zip {
    const struct alloc *alloc;
    const struct blob *blob;
    struct zip_entry *entries; /* as the directory has them */
    uint64_t n;
    struct map map; /* name -> index */
};

/* By content: a local header or, of an archive without entries, the end of a directory. */
bool zip_is(const struct blob *blob);
/* Reads and checks the directory and every local header; names point into the blob, which must outlive the zip. Checksums are not computed.
 * Errors name the entry: FORMAT, TRUNCATED, LIMIT, UNSUPPORTED (encrypted, several disks), NO_MEMORY, CANCELLED. */
infer_status zip_open(const struct env *env, const struct blob *blob, const infer_cancel *cancel, struct zip *out, infer_error *err);
void zip_close(struct zip *z);
const struct zip_entry *zip_find(const struct zip *z, const char *name, size_t len); /* NULL: none */

#endif
