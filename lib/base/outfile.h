/* A file that appears whole or not at all: written under a temporary name beside its place, synced, renamed. A process that dies on the way
 * leaves a temporary file, which the next writer in that folder removes. */
#ifndef BASE_OUTFILE_H
#define BASE_OUTFILE_H

#include "base/env.h"

/* Temporary names: PREFIX process-id "-" number SUFFIX. */
#define OUTFILE_PREFIX ".infer-"
#define OUTFILE_SUFFIX ".tmp"

struct infer_cancel;

struct outfile {
    const struct env *env; /* NULL: not open */
    char *path, *temp, *dir;
    int fd;
    uint64_t at; /* where outfile_put goes on */
    const struct infer_cancel *cancel; /* NULL at first: put and commit look at it, and say CANCELLED */
};

/* path: bytes without a zero. Errors: ARGUMENT, IO (the text says when the disk is full), NOT_FOUND (the folder), UNSUPPORTED (a folder,
 * device or pipe has the name), NO_MEMORY. env must outlive it. */
infer_status outfile_begin(struct outfile *o, const struct env *env, const char *path, uint64_t len, infer_error *err);
infer_status outfile_put(struct outfile *o, const void *data, uint64_t n, infer_error *err); /* appends */
infer_status outfile_skip(struct outfile *o, uint64_t align, infer_error *err);              /* zeros up to a multiple of align, at most 4096 */
infer_status outfile_put_at(struct outfile *o, uint64_t offset, const void *data, uint64_t n, infer_error *err);
/* Gives it its name. durable: it is on the disk, name and all, when this returns; otherwise a power failure may leave the old file, none, or a
 * damaged one (readers verify). Closed in any case; when the folder could not be synced the new file is in place though an error is returned. */
infer_status outfile_commit(struct outfile *o, bool durable, infer_error *err);
/* The same, unless something has the name: EXISTS. */
infer_status outfile_commit_new(struct outfile *o, bool durable, infer_error *err);
void outfile_abort(struct outfile *o); /* also after commit, or when begin failed: nothing happens then */

/* Removes temporary files of writers that are gone. */
void outfile_clean(const struct env *env, const char *dir);
/* The folder part of a path, "." when it has none. NULL: no memory. */
char *outfile_dir(const struct env *env, const char *path, uint64_t len);
infer_status outfile_failed(infer_error *err, infer_status st, int os_error, const char *what); /* "cannot WHAT: ..." */
/* IO: all is done, but the folder could not be synced. */
infer_status outfile_unsynced(infer_error *err, int os_error);

/* Copies a file; blocks are shared where the file system can (FICLONE, copy_file_range). The copy appears whole or not at all. */
infer_status outfile_clone(const struct env *env, const char *from, uint64_t from_len, const char *to, uint64_t to_len, bool replace,
                           const struct infer_cancel *cancel, infer_error *err);

#endif
