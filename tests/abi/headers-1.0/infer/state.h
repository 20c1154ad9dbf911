/* state.h of version 1.0, kept by scripts/abi-baseline: programs that were built with it must go on working. */
#ifndef INFER_STATE_H
#define INFER_STATE_H
#include <infer/infer.h>
#ifdef __cplusplus
extern "C" {
#endif
INFER_API infer_status infer_checkpoint_create(const infer_session *session, infer_checkpoint **out, infer_error *err);
INFER_API infer_checkpoint *infer_checkpoint_ref(infer_checkpoint *checkpoint);
INFER_API void infer_checkpoint_release(infer_checkpoint *checkpoint);
INFER_API infer_model *infer_checkpoint_model(const infer_checkpoint *checkpoint);
typedef struct infer_checkpoint_info {
    uint32_t size;
    uint32_t n_ctx;
    int32_t kv_type;
    int32_t approximate;
    uint64_t length;
    uint64_t computed;
    uint64_t kv_bytes;
    uint64_t kv_shared_bytes;
    uint64_t kv_mapped_bytes;
    uint64_t logits_rows;
    int32_t generating;
    uint32_t kv_recent;
    uint64_t bytes;
    uint64_t adapters;
} infer_checkpoint_info;
INFER_API infer_status infer_checkpoint_get_info(const infer_checkpoint *checkpoint, infer_checkpoint_info *out,
                                                 infer_error *err);
INFER_API infer_status infer_checkpoint_tokens(const infer_checkpoint *checkpoint, uint64_t first, uint64_t count,
                                               int32_t *ids, infer_error *err);
INFER_API infer_status infer_session_restore(infer_session *session, const infer_checkpoint *checkpoint, infer_error *err);
INFER_API infer_status infer_checkpoint_session(const infer_checkpoint *checkpoint, infer_session **out, infer_error *err);
typedef struct infer_store_options {
    uint32_t size;
    uint32_t reserved;
    uint64_t max_bytes;
    uint64_t max_count;
} infer_store_options;
INFER_API infer_status infer_store_open(infer_engine *engine, const char *path, uint64_t path_len,
                                        const infer_store_options *options, infer_store **out, infer_error *err);
INFER_API infer_store *infer_store_ref(infer_store *store);
INFER_API void infer_store_release(infer_store *store);
enum { INFER_STORE_REPLACE = 1 };
INFER_API infer_status infer_store_put(infer_store *store, const char *name, uint64_t name_len, infer_checkpoint *checkpoint,
                                       uint32_t flags, infer_cancel *cancel, infer_error *err);
INFER_API infer_status infer_store_get(infer_store *store, infer_model *model, const char *name, uint64_t name_len,
                                       infer_cancel *cancel, infer_checkpoint **out, infer_error *err);
INFER_API infer_status infer_store_branch(infer_store *store, const char *from, uint64_t from_len, const char *to,
                                          uint64_t to_len, uint32_t flags, infer_error *err);
INFER_API infer_status infer_store_rename(infer_store *store, const char *from, uint64_t from_len, const char *to,
                                          uint64_t to_len, uint32_t flags, infer_error *err);
INFER_API infer_status infer_store_delete(infer_store *store, const char *name, uint64_t name_len, infer_error *err);
typedef struct infer_store_entry {
    uint32_t size;
    uint32_t name_len;
    uint64_t bytes;
    uint64_t length;
    uint64_t computed;
    int32_t kv_type;
    int32_t approximate;
    char name[256];
} infer_store_entry;
INFER_API infer_status infer_store_next(infer_store *store, const char *after, uint64_t after_len, infer_store_entry *out,
                                        infer_error *err);
typedef struct infer_store_info {
    uint32_t size;
    uint32_t reserved;
    uint64_t count;
    uint64_t bytes;
} infer_store_info;
INFER_API infer_status infer_store_get_info(infer_store *store, infer_store_info *out, infer_error *err);
enum {
    INFER_CACHE_REASON_OFF = 0,
    INFER_CACHE_REASON_HIT = 1,
    INFER_CACHE_REASON_ENDS = 2,
    INFER_CACHE_REASON_DIFFERS = 3,
    INFER_CACHE_REASON_EVICTED = 4,
    INFER_CACHE_REASON_OTHER_ADAPTERS = 5,
    INFER_CACHE_REASON_OTHER_SALT = 6,
    INFER_CACHE_REASON_OTHER_KV_TYPE = 7,
    INFER_CACHE_REASON_EMPTY = 8,
    INFER_CACHE_REASON_FAILED = 9
};
typedef struct infer_cache_report {
    uint32_t size;
    int32_t reason;
    uint64_t wanted;
    uint64_t reused;
    uint64_t rerun;
    uint64_t difference;
    uint64_t near_length;
    int32_t own_reason;
    uint32_t reserved;
} infer_cache_report;
INFER_API infer_status infer_session_cache_report(const infer_session *session, infer_cache_report *out, infer_error *err);
typedef struct infer_cache_stats {
    uint32_t size;
    uint32_t reserved;
    uint64_t lookups;
    uint64_t hits;
    uint64_t partial_hits;
    uint64_t saved;
    uint64_t rerun;
    uint64_t insertions, evictions;
    uint64_t bytes;
    uint64_t nodes;
    uint64_t ghosts;
    uint64_t ghost_bytes;
    uint64_t disk_files;
    uint64_t disk_bytes;
    uint64_t disk_written;
    uint64_t disk_skipped;
    uint64_t disk_loaded;
    uint64_t disk_damaged;
} infer_cache_stats;
INFER_API infer_status infer_engine_cache_stats(infer_engine *engine, infer_cache_stats *out, infer_error *err);
INFER_API infer_status infer_engine_cache_flush(infer_engine *engine, infer_cancel *cancel, infer_error *err);
INFER_API infer_status infer_engine_cache_clear(infer_engine *engine, infer_error *err);
enum {
    INFER_SAVE_ZSTD = 1,
    INFER_SAVE_FULL_MODEL = 2
};
typedef struct infer_save_options {
    uint32_t size;
    uint32_t flags;
    const char *parent;
    uint64_t parent_len;
    int32_t level;
    uint32_t reserved;
} infer_save_options;
INFER_API infer_status infer_checkpoint_save(const infer_checkpoint *checkpoint, const char *path, uint64_t path_len,
                                             const infer_save_options *options, infer_cancel *cancel, infer_error *err);
enum {
    INFER_VERIFY_FIRST_USE = 0,
    INFER_VERIFY_LOAD = 1
};
typedef struct infer_load_options {
    uint32_t size;
    int32_t map;
    int32_t verify;
    uint32_t reserved;
    uint64_t adapters;
} infer_load_options;
INFER_API infer_status infer_checkpoint_open(infer_model *model, const char *path, uint64_t path_len,
                                             const infer_load_options *options, infer_cancel *cancel,
                                             infer_checkpoint **out, infer_error *err);
INFER_API infer_status infer_checkpoint_clone_file(infer_engine *engine, const char *from, uint64_t from_len, const char *to,
                                                   uint64_t to_len, infer_cancel *cancel, infer_error *err);
enum {
    INFER_FINGERPRINT_QUICK = 1,
    INFER_FINGERPRINT_FULL = 2
};
INFER_API infer_status infer_model_fingerprint(infer_model *model, int32_t kind, uint8_t out[32], infer_cancel *cancel,
                                               infer_error *err);
INFER_API infer_status infer_session_shift(infer_session *session, uint64_t keep, uint64_t drop, infer_error *err);
INFER_API infer_status infer_session_graft(infer_session *session, const infer_checkpoint *checkpoint, uint64_t first,
                                           uint64_t count, uint64_t recompute, uint64_t *rerun, infer_cancel *cancel,
                                           infer_error *err);
#ifdef __cplusplus
}
#endif
#endif
