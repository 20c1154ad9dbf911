/* Named stores of checkpoints. A store is an engine's; where it keeps things is behind a seam: memory here, a directory elsewhere. */
#ifndef ENGINE_STORE_H
#define ENGINE_STORE_H

#include "engine/checkpoint.h"
#include "infer/state.h"

/* A checked name: UTF-8, 1 to STORE_NAME_MAX bytes, no '/', no control characters. Not zero-terminated. */
struct store_name {
    const char *data;
    uint64_t len;
};

#define STORE_NAME_MAX 255u
#define STORE_FLAGS ((uint32_t)INFER_STORE_REPLACE)

/* Every call is atomic, whatever other threads do. flags: INFER_STORE_*. */
struct store_ops {
    infer_status (*put)(infer_store *s, struct store_name name, infer_checkpoint *c, uint32_t flags, const infer_cancel *cancel,
                        infer_error *err);
    infer_status (*get)(infer_store *s, infer_model *model, struct store_name name, const infer_cancel *cancel,
                        infer_checkpoint **out, infer_error *err);
    infer_status (*branch)(infer_store *s, struct store_name from, struct store_name to, uint32_t flags, infer_error *err);
    infer_status (*rename)(infer_store *s, struct store_name from, struct store_name to, uint32_t flags, infer_error *err);
    infer_status (*remove)(infer_store *s, struct store_name name, infer_error *err);
    /* The first entry whose name is greater than `after` (bytes compared; len 0: the first of all). */
    infer_status (*next)(infer_store *s, struct store_name after, infer_store_entry *out, infer_error *err);
    infer_status (*get_info)(infer_store *s, infer_store_info *out, infer_error *err);
    void (*destroy)(infer_store *s); /* all but the engine reference */
};

/* The head of every kind of store. */
struct infer_store {
    struct ref ref;
    const struct store_ops *ops;
    infer_engine *engine;
    uint64_t max_bytes, max_count; /* UINT64_MAX: no limit */
};

infer_status store_open(infer_engine *engine, const char *path, uint64_t path_len, const infer_store_options *options,
                        infer_store **out, infer_error *err);
infer_store *store_ref(infer_store *s);
void store_release(infer_store *s);
infer_status store_check_name(struct store_name name, infer_error *err);
/* -1, 0, 1 by bytes. */
int store_compare(struct store_name a, struct store_name b);
infer_status store_not_found(struct store_name name, infer_error *err);
infer_status store_exists(struct store_name name, infer_error *err);
/* Whether a store of `count` entries and `bytes` may gain these; refused with LIMIT. */
infer_status store_check_limits(const infer_store *s, uint64_t count, uint64_t bytes, uint64_t more_count, uint64_t more_bytes,
                                infer_error *err);
/* The head of a new store; on success it holds an engine reference. */
void store_init(infer_store *s, const struct store_ops *ops, infer_engine *engine, const infer_store_options *options);

infer_status store_memory_open(infer_engine *engine, const infer_store_options *options, infer_store **out, infer_error *err);
/* Makes the directory if there is none. */
infer_status store_dir_open(infer_engine *engine, const char *path, uint64_t len, const infer_store_options *options, infer_store **out,
                            infer_error *err);

#endif
