/* libinfer's state: what sessions have computed, kept, named, shared, written to files, and moved.
 *
 * Checkpoints are a session's state at one moment; stores keep them by name, in memory or in a folder; the prefix cache shares what sessions compute by
 * itself; checkpoint files are mapped back in milliseconds; shift and graft move state to other positions. docs/state.md is the guide.
 *
 * What infer.h says of handles, threads, errors, structs, strings and exactness holds here too.
 */
#ifndef INFER_STATE_H
#define INFER_STATE_H

#include <infer/infer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Checkpoints ------------------------------------------------------------------------------------------------- */

/* A session's whole state at one moment: elements, computed state, logits, sampling settings, and an answer that is being generated with
 * its half-decoded text. Nothing is copied: pages are shared until a session changes them. What continues from a checkpoint has the same bits as
 * what would have continued then. A checkpoint keeps its model; a host's sampling callback is kept as the pointer it was. */

/* Of the session as it stands, pending elements included. The session goes on unchanged. Errors: NO_MEMORY. */
INFER_API infer_status infer_checkpoint_create(const infer_session *session, infer_checkpoint **out, infer_error *err);
INFER_API infer_checkpoint *infer_checkpoint_ref(infer_checkpoint *checkpoint);
INFER_API void infer_checkpoint_release(infer_checkpoint *checkpoint);
INFER_API infer_model *infer_checkpoint_model(const infer_checkpoint *checkpoint); /* borrowed */

/* What a checkpoint holds. */
typedef struct infer_checkpoint_info {
    uint32_t size;
    uint32_t n_ctx; /* as in infer_session_info */
    int32_t kv_type;          /* INFER_KV_* */
    int32_t approximate;      /* as in infer_session_info */
    uint64_t length;          /* elements, computed and pending */
    uint64_t computed; /* of them computed */
    uint64_t kv_bytes;        /* this and the next two as in infer_session_info */
    uint64_t kv_shared_bytes; /* of kv_bytes, held by others too */
    uint64_t kv_mapped_bytes; /* of kv_bytes, in a mapped file */
    uint64_t logits_rows; /* as in infer_session_info */
    int32_t generating;       /* 1: in the middle of an answer */
    uint32_t kv_recent;       /* as in infer_session_info */
    uint64_t bytes;           /* memory that its state takes, were it alone: kv_bytes and what is not KV */
    uint64_t adapters;        /* as in infer_session_info */
} infer_checkpoint_info;
/* Lengths and memory of the checkpoint. */
INFER_API infer_status infer_checkpoint_get_info(const infer_checkpoint *checkpoint, infer_checkpoint_info *out,
                                                 infer_error *err);
/* As infer_session_tokens. */
INFER_API infer_status infer_checkpoint_tokens(const infer_checkpoint *checkpoint, uint64_t first, uint64_t count,
                                               int32_t *ids, infer_error *err);

/* Replaces everything that the session holds by the checkpoint's state, its context length and KV type included; the handle stays, and
 * so do cache flags and salt. A failed call leaves the session as it was. Errors: ARGUMENT (a checkpoint of another model), NO_MEMORY. */
INFER_API infer_status infer_session_restore(infer_session *session, const infer_checkpoint *checkpoint, infer_error *err);
/* A new session with the checkpoint's state, and the cache flags and salt of the session that it was made of. Files do not keep those: for a tenant's
 * file, create a session with the tenant's salt and restore into it. Errors: NO_MEMORY. */
INFER_API infer_status infer_checkpoint_session(const infer_checkpoint *checkpoint, infer_session **out, infer_error *err);

/* ---- Stores ------------------------------------------------------------------------------------------------------ */

/* Checkpoints by name. A name is UTF-8 of 1 to 255 bytes without '/' and control characters. Every call is atomic; all may be made from
 * any thread. In a directory a call may say IO when its work is done: the text begins "done, but", and says that the folder could not be synced (it may not
 * survive a crash); or that a checkpoint which was to be renamed has both names. */

/* Limits of a store. */
typedef struct infer_store_options {
    uint32_t size;
    uint32_t reserved;
    uint64_t max_bytes; /* of all checkpoints: in memory each counted as infer_checkpoint_info.bytes says, in a directory its file; 0: no limit */
    uint64_t max_count; /* 0: no limit */
} infer_store_options;

/* path NULL (with path_len 0): a store in memory, which keeps a reference on each checkpoint; nothing is copied. Else a store in that directory, which
 * is made, for this user alone, if there is none (but not its parents): a checkpoint file for each name, whole and synced when put returns, mapped when it is got. Other
 * processes may use the directory too; a copy or snapshot of it, taken at any moment, is a store. There, the calls below may also give the errors of
 * infer_checkpoint_save and infer_checkpoint_open, and names are at most 247 bytes long, bytes other than a-z 0-9 _ - . and those above 127 counted
 * three times (ARGUMENT). engine is required; options may be NULL. Errors: ARGUMENT, NO_MEMORY; of directories IO, NOT_FOUND, UNSUPPORTED (a build without xxHash). */
INFER_API infer_status infer_store_open(infer_engine *engine, const char *path, uint64_t path_len,
                                        const infer_store_options *options, infer_store **out, infer_error *err);
INFER_API infer_store *infer_store_ref(infer_store *store);
INFER_API void infer_store_release(infer_store *store);

enum { INFER_STORE_REPLACE = 1 }; /* an entry of the new name is replaced; without it, that is EXISTS */

/* Keeps a checkpoint under a name. Errors: ARGUMENT (name), EXISTS, LIMIT (of the store: nothing is dropped to make room), NO_MEMORY. */
INFER_API infer_status infer_store_put(infer_store *store, const char *name, uint64_t name_len, infer_checkpoint *checkpoint,
                                       uint32_t flags, infer_cancel *cancel, infer_error *err);
/* The checkpoint of that name. Errors: NOT_FOUND, ARGUMENT (name; in memory: it belongs to another model). */
INFER_API infer_status infer_store_get(infer_store *store, infer_model *model, const char *name, uint64_t name_len,
                                       infer_cancel *cancel, infer_checkpoint **out, infer_error *err);
/* The checkpoint of one name under a second one too. Errors: NOT_FOUND, EXISTS, LIMIT, ARGUMENT, NO_MEMORY. */
INFER_API infer_status infer_store_branch(infer_store *store, const char *from, uint64_t from_len, const char *to,
                                          uint64_t to_len, uint32_t flags, infer_error *err);
/* Errors: NOT_FOUND, EXISTS, ARGUMENT. */
INFER_API infer_status infer_store_rename(infer_store *store, const char *from, uint64_t from_len, const char *to,
                                          uint64_t to_len, uint32_t flags, infer_error *err);
/* Sessions and checkpoints that came from it stay. Errors: NOT_FOUND, ARGUMENT. */
INFER_API infer_status infer_store_delete(infer_store *store, const char *name, uint64_t name_len, infer_error *err);

/* A checkpoint in a store. */
typedef struct infer_store_entry {
    uint32_t size;
    uint32_t name_len;
    uint64_t bytes; /* as its limit counts them */
    uint64_t length;     /* elements */
    uint64_t computed; /* of them computed */
    int32_t kv_type; /* INFER_KV_* */
    int32_t approximate; /* as in infer_session_info */
    char name[256];      /* zero-terminated */
} infer_store_entry;
/* Lists: the entry that follows the name `after` in the order of bytes, whether or not that one exists (NULL with length 0: the first).
 * Of a damaged file in a directory only name and bytes are known; the rest is 0. Errors: NOT_FOUND (no more). */
INFER_API infer_status infer_store_next(infer_store *store, const char *after, uint64_t after_len, infer_store_entry *out,
                                        infer_error *err);

/* What a store holds. */
typedef struct infer_store_info {
    uint32_t size;
    uint32_t reserved;
    uint64_t count; /* entries */
    uint64_t bytes; /* as the limit counts them */
} infer_store_info;
/* Entries and bytes. */
INFER_API infer_status infer_store_get_info(infer_store *store, infer_store_info *out, infer_error *err);

/* ---- Prefix cache ------------------------------------------------------------------------------------------------ */

/* With infer_engine_options.cache_bytes, what sessions compute is kept for others of the same model, KV type, adapters and salt that begin
 * with the same elements. Sessions look up and insert by themselves inside infer_step and infer_generate_next; results are the same to the
 * bit with and without. See docs/state.md. */

/* Why a look-up gave no more than it did. */
enum {
    INFER_CACHE_REASON_OFF = 0,            /* no cache, or none for this session, or nothing was looked up yet */
    INFER_CACHE_REASON_HIT = 1,            /* all that may be reused was: everything but the last element */
    INFER_CACHE_REASON_ENDS = 2,           /* what is stored ends at `difference`; what follows is new */
    INFER_CACHE_REASON_DIFFERS = 3,        /* what is stored goes on differently from element `difference` on */
    INFER_CACHE_REASON_EVICTED = 4,        /* more was stored once, and evicted */
    INFER_CACHE_REASON_OTHER_ADAPTERS = 5, /* the same tokens are stored under other adapters from element `difference` on */
    INFER_CACHE_REASON_OTHER_SALT = 6,     /* more of it is stored under another salt. For the host's eyes: tenants are told
                                      own_reason */
    INFER_CACHE_REASON_OTHER_KV_TYPE = 7,  /* more of it is stored in another KV type */
    INFER_CACHE_REASON_EMPTY = 8,          /* nothing is stored for this model, KV type and salt */
    INFER_CACHE_REASON_FAILED = 9          /* memory ran out while looking up; the session computes everything */
};

/* What a session's last look-up gave. One takes place at the first step of a session that has computed nothing, and at every step with more
 * than 64 pending elements. The last element, and elements whose logits a step wants, are always computed. */
typedef struct infer_cache_report {
    uint32_t size;
    int32_t reason;       /* INFER_CACHE_REASON_* */
    uint64_t wanted;      /* elements of the session then */
    uint64_t reused;      /* elements that were taken from the cache */
    uint64_t rerun;       /* elements that are stored, but were computed again: sliding windows go on only from certain places */
    uint64_t difference;  /* the first element that is not stored */
    uint64_t near_length; /* not 0: a near miss. A stored prefix of this length is the same in at least 1,024 elements and 9 of 10 of its length,
                             and then differs: look for a date or a counter in the prompt */
    int32_t own_reason;   /* the same as reason, but found without a look at other salts: what may be told to a tenant. It depends on what sessions of
                             this salt did (and on memory) alone */
    uint32_t reserved;
} infer_cache_report;
/* What the last look-up in the prefix cache gave. Errors: none for a session. */
INFER_API infer_status infer_session_cache_report(const infer_session *session, infer_cache_report *out, infer_error *err);

/* What the prefix cache of an engine holds and has done. */
typedef struct infer_cache_stats {
    uint32_t size;
    uint32_t reserved;
    uint64_t lookups; /* so far */
    uint64_t hits;           /* of these, that gave all they could */
    uint64_t partial_hits;   /* that gave something */
    uint64_t saved;          /* elements that were not computed */
    uint64_t rerun;          /* elements that were computed although stored */
    uint64_t insertions, evictions; /* of nodes */
    uint64_t bytes;          /* kept now: pages and tokens; what sessions hold too is counted in */
    uint64_t nodes;          /* pieces of prefixes kept now */
    uint64_t ghosts;         /* pieces that were evicted, and are remembered without their state */
    uint64_t ghost_bytes; /* memory that they take */
    uint64_t disk_files;     /* in cache_dir, as last seen */
    uint64_t disk_bytes; /* of these files */
    uint64_t disk_written;   /* bytes, by this engine */
    uint64_t disk_skipped;   /* pieces that were not written: no budget, or an error (logged) */
    uint64_t disk_loaded;    /* pieces that were read back */
    uint64_t disk_damaged;   /* files that were found damaged, not used, and removed */
} infer_cache_stats;
/* All zero without a cache. */
INFER_API infer_status infer_engine_cache_stats(infer_engine *engine, infer_cache_stats *out, infer_error *err);
/* Writes everything that is kept to cache_dir, within its budgets: before an orderly shutdown. What a call that failed did not write the next one writes.
 * Errors: STATE (no cache_dir), IO, NOT_FOUND (the folder has gone), NO_MEMORY, CANCELLED. */
INFER_API infer_status infer_engine_cache_flush(infer_engine *engine, infer_cancel *cancel, infer_error *err);
/* Forgets everything that is kept in memory. Sessions and files are not affected. */
INFER_API infer_status infer_engine_cache_clear(infer_engine *engine, infer_error *err);

/* ---- Checkpoint files --------------------------------------------------------------------------------------------- */

/* docs/checkpoint-format.md tells the format, docs/state.md how it is used. A file holds everything that a checkpoint does, but for a host's sampling
 * callback: sessions restored from a file have none. Builds without xxHash answer UNSUPPORTED to everything here. Checksums find damage; they are
 * no signature: whoever can write the file can forge it, and forged state gives wrong answers (never wrong memory accesses). */

enum {
    INFER_SAVE_ZSTD = 1,      /* compress, for cold storage: opening then unpacks everything instead of mapping it */
    INFER_SAVE_FULL_MODEL = 2 /* store the full fingerprint of the model, which opening then checks: reads all weights, both times */
};
/* How a checkpoint file is written. */
typedef struct infer_save_options {
    uint32_t size;
    uint32_t flags;      /* INFER_SAVE_* */
    const char *parent;  /* path of a checkpoint file of the same model in the same folder (written the same way): the new file holds only the
                            elements and pages that this one and its ancestors lack, and needs them all when it is opened. NULL: whole */
    uint64_t parent_len;
    int32_t level;       /* of zstd, 1 to 19; 0: 3 */
    uint32_t reserved;
} infer_save_options;
/* Writes a file: under a temporary name, synced, renamed over whatever had the name; so the path names the old file, or the new one whole, even after a
 * crash (IO with a text that begins "done, but": it names the new one, which may not survive a crash). Temporary files of processes that died in this folder are removed. options may be NULL. The checkpoint may be used meanwhile.
 * Errors: IO (the text says when the disk is full), NOT_FOUND (the folder, or the parent), ARGUMENT (also a path that an ancestor has), UNSUPPORTED (no zstd in this build; a folder,
 * device or pipe has the name), LIMIT (the parent has 64 ancestors: save whole), CANCELLED, NO_MEMORY, those of opening the parent, FORMAT or CHANGED when the checkpoint itself came
 * from a file that is damaged. */
INFER_API infer_status infer_checkpoint_save(const infer_checkpoint *checkpoint, const char *path, uint64_t path_len,
                                             const infer_save_options *options, infer_cancel *cancel, infer_error *err);

enum {
    INFER_VERIFY_FIRST_USE = 0, /* everything but the pages of computed state at once; each page before the first step that reads it. A damaged
                                   one fails that step with FORMAT and leaves the session as it was */
    INFER_VERIFY_LOAD = 1       /* everything at once */
};
/* How a checkpoint file is opened. */
typedef struct infer_load_options {
    uint32_t size;
    int32_t map;        /* INFER_MAP_*. MMAP: pages are used in place, copied when written; the file must not shrink or change while anything
                           restored from it lives (that it did not shrink is checked before steps, as for models; replacing it by rename is fine).
                           READ: copied into memory, immune to whatever happens to the file. Neither counts against the KV budget */
    int32_t verify;     /* INFER_VERIFY_* */
    uint32_t reserved;
    uint64_t adapters;  /* not 0: what infer_session_info.adapters said of the session must be this, else VALUE. The adapters that the checkpoint's
                           elements were computed under must be open for the model, whatever stands here: VALUE names the first that is not */
} infer_load_options;
/* Opens a file as a checkpoint of this model. options may be NULL. A delta file opens its ancestors too.
 * Errors: NOT_FOUND (the file, or a parent), IO, FORMAT (no checkpoint file, or damaged), TRUNCATED, VALUE (made with another model, tokenizer, adapter
 * set, KV layout, numerics mode or numerics version: the text says which), UNSUPPORTED (a newer format, or compressed and this build has no
 * zstd), CHANGED (the parent is not the file it was made from), LIMIT (also the KV budget, when compressed), CANCELLED, NO_MEMORY. */
INFER_API infer_status infer_checkpoint_open(infer_model *model, const char *path, uint64_t path_len,
                                             const infer_load_options *options, infer_cancel *cancel,
                                             infer_checkpoint **out, infer_error *err);

/* Copies a file, whole or not at all; its blocks are shared where the file system can do that (Btrfs, XFS, ZFS with block cloning). A delta file needs its
 * ancestors in the new folder too. engine lends allocator and log; NULL: the defaults. */
INFER_API infer_status infer_checkpoint_clone_file(infer_engine *engine, const char *from, uint64_t from_len, const char *to,
                                                   uint64_t to_len, infer_cancel *cancel, infer_error *err);

enum {
    INFER_FINGERPRINT_QUICK = 1, /* metadata, the directory of tensors, and samples of the weights: what checkpoint files are checked against */
    INFER_FINGERPRINT_FULL = 2   /* all bytes of the model's files */
};
/* What tells this model's file from others; the same for copies of the file on any machine. XXH3, so no defence against forgery. Errors: UNSUPPORTED,
 * CHANGED, CANCELLED. */
INFER_API infer_status infer_model_fingerprint(infer_model *model, int32_t kind, uint8_t out[32], infer_cancel *cancel,
                                               infer_error *err);

/* ---- Shift and graft --------------------------------------------------------------------------------------------- */

/* Both move computed state to other positions. Keys are rotated to where they come to lie; but what deeper layers computed was computed in the
 * context of then, with what is dropped or different now. So what follows is APPROXIMATE: close to what computing everything anew would give, how close
 * is measured in docs/accuracy.md. The session is marked (infer_session_info.approximate), and so are its forks and checkpoints, until it is rolled
 * back to before the first element concerned; marked state never enters the prefix cache. A failed call changes nothing. Logits of the last step
 * are gone after either, as after infer_session_truncate. */

/* Context shift: drops the elements [keep, keep + drop) and moves those behind them down. The first `keep` stay as attention sinks: models need their
 * first few elements (4, or the system prompt). Where a sliding window has lost what it would see now, the elements behind `keep` become pending
 * instead: that is exact. Errors: ARGUMENT (keep or drop beyond the length; named), UNSUPPORTED (a model with learned positions), and those of
 * infer_step. */
INFER_API infer_status infer_session_shift(infer_session *session, uint64_t keep, uint64_t drop, infer_error *err);

/* Graft: appends the elements [first, first + count) of a checkpoint of the same model and KV type, with their state taken from it. The first
 * `recompute` of them are computed here, after the session's own elements, which mends the seam. All keep the adapters that they have there. When the
 * session's elements are just those that lie
 * before `first` in the checkpoint, nothing is recomputed, pages are shared, and the result is exact and not marked. *rerun (may be NULL): how many of the
 * elements were or (where a sliding window lacks what it needs: pending now) have to be computed.
 * Errors: ARGUMENT (another model or KV type; first, count or recompute beyond what is there; named), STATE (the session has pending elements),
 * CONTEXT_FULL, UNSUPPORTED (learned positions, and not exact), those of infer_step. */
INFER_API infer_status infer_session_graft(infer_session *session, const infer_checkpoint *checkpoint, uint64_t first,
                                           uint64_t count, uint64_t recompute, uint64_t *rerun, infer_cancel *cancel,
                                           infer_error *err);

#ifdef __cplusplus
}
#endif

#endif
