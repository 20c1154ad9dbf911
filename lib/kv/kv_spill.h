/* The disk tier of the prefix cache: a directory with one file for each piece of a prefix that was evicted. Found again after a restart and by
 * other processes: a file stands alone, with all keys from the first element on, and everything that decides who may use it.
 *
 * The name of a file holds hashes of its domain and keys, so that a listing tells what may be of use; what is in it is compared whole before it is
 * used. Files appear whole or not at all (base/outfile.h), are never changed, and are removed least recently used first. Several processes
 * may use one directory. Not thread-safe: the engine has a lock around it. */
#ifndef KV_KV_SPILL_H
#define KV_KV_SPILL_H

#include "kv/kv_cache.h"
#include "kv/kv_file.h"

struct kv_spill;

/* Who may use a file; no padding, compared whole. The salt lies in the file as it is. */
struct kv_spill_id {
    uint8_t model[48]; /* fingerprint */
    uint64_t type;
    uint32_t numerics, salt_len;
    uint8_t salt[KV_SALT_MAX];
    uint32_t n_groups, reserved;
    uint64_t page_bytes[KV_CACHE_GROUPS];
};
_Static_assert(sizeof(struct kv_spill_id) == 200, "no padding: it lies in files");

struct kv_spill_options {
    uint64_t bytes;       /* of the directory's files; 0: no limit */
    uint64_t write_bytes; /* how much may be written in all; 0: no limit */
};

struct kv_spill_stats {
    uint64_t files, bytes;       /* in the directory, as last seen */
    uint64_t written, skipped;   /* bytes written; pieces not written, for want of budget or because writing failed */
    uint64_t loaded, damaged;    /* files that were used; that were damaged, and removed */
};

/* Makes the directory when it is not there (its parent is). Errors: IO, NO_MEMORY, UNSUPPORTED (no xxHash). */
infer_status kv_spill_open(const struct env *env, const char *dir, uint64_t dir_len, const struct kv_spill_options *o,
                           struct kv_spill **out, infer_error *err);
void kv_spill_close(struct kv_spill *s); /* may be NULL */

/* Reads a page into memory that stays good until the next call. */
typedef infer_status (*kv_spill_fetch)(void *user, uint32_t group, uint64_t index, const void **data, infer_error *err);

/* Writes elements [e->a, e->b) unless they are there already or the budgets forbid it. */
infer_status kv_spill_put(struct kv_spill *s, const struct kv_spill_id *id, const struct kv_evicted *e, kv_spill_fetch fetch,
                          void *user, const infer_cancel *cancel, infer_error *err);

/* A file that was found: for elements [a, end) the keys are those asked for. Pages are not verified yet. */
struct kv_spill_hit {
    struct kv_file *file;
    uint64_t a, b, end;
    const struct kv_place *places[KV_CACHE_GROUPS]; /* [pages that overlap a, b] */
    void *owned[KV_CACHE_GROUPS];
    uint64_t per; /* pages of a group */
};

/* The file that brings most elements beyond `at`, all of whose keys before are the same; hit->file NULL: there is none. The directory is
 * listed again first. Errors: NO_MEMORY, IO. */
infer_status kv_spill_find(struct kv_spill *s, const struct kv_spill_id *id, const struct kv_keys *keys, uint64_t length,
                           uint64_t at, struct kv_spill_hit *hit, const infer_cancel *cancel, infer_error *err);
/* When it was used, or was found to be damaged; hit->file may be NULL. */
void kv_spill_done(struct kv_spill *s, struct kv_spill_hit *hit, bool damaged);

void kv_spill_get_stats(const struct kv_spill *s, struct kv_spill_stats *out);

#endif
