/* Checkpoint files: what a session's state looks like inside the container of kv/kv_file.h. docs/checkpoint-format.md tells it in full.
 * checkpoint_save.c writes, checkpoint_load.c reads. */
#ifndef ENGINE_CHECKPOINT_FILE_H
#define ENGINE_CHECKPOINT_FILE_H

#include "base/pack.h"
#include "engine/checkpoint.h"
#include "kv/kv_file.h"

/* Sections. All are required; those of sets and stops are there when there are any. */
enum {
    CKPT_STATE = KV_SECTION_FIRST, /* struct ckpt_state */
    CKPT_ELEMENTS,                 /* struct ckpt_element, from state.first_element on */
    CKPT_ROWS,                     /* f32 [n_embd] each, from state.first_row on */
    CKPT_KEYS,                     /* u64 [2] each, of those rows */
    CKPT_PLACES,                   /* struct kv_place; tag: the KV group; as many as the computed elements need pages */
    CKPT_LOGITS,                   /* f32 [n_logits] each */
    CKPT_LOGITS_POS,               /* u64: the elements they belong to */
    CKPT_BIAS,                     /* infer_bias: i32 id, f32 */
    CKPT_SETS,                     /* of adapters, all that elements name: struct ckpt_set and behind each its n records (struct adapter_record) */
    CKPT_STOPS                     /* of the generation: struct ckpt_stops, i32 ids, u32 lengths of texts, text held back, texts */
};

#define CKPT_SET_WANTED 1u /* what the host set last: those of its items that are active are in force */

struct ckpt_set {
    struct hash_128 id; /* elements and the state name a set by id.lo */
    uint32_t n, flags, active, reserved;
};

struct ckpt_element {
    int32_t id;
    uint32_t position;
    uint64_t adapters;
    uint32_t row, reserved;
};

struct ckpt_stops {
    uint32_t n_texts, n_ids, repeat_guard, run;
    int32_t stop_index;
    uint32_t held_len; /* bytes of text held back; of these */
    uint32_t lead_len; /* come before what may become a stop string */
    uint32_t reserved;
};

#define CKPT_GENERATING 1u
#define CKPT_FINISHING  2u
#define CKPT_FULL_MODEL 4u /* model_full is set */

struct ckpt_state {
    int32_t numerics_version, numerics; /* INFER_NUMERICS_VERSION, INFER_NUMERICS_* */
    int32_t kv_type;
    uint32_t kv_recent, n_ctx, page_elements, n_groups, flags;
    uint64_t page_bytes[NET_KV_GROUPS], window[NET_KV_GROUPS];
    struct hash_128 model[2], model_full[2], tokenizer;
    uint64_t adapters;         /* in force for what is appended next */
    uint64_t length, computed, approximate_from;
    uint64_t n_rows, logits_rows, bias_count;
    uint64_t first_element, first_row; /* those before them are the parent's */
    uint32_t n_embd, n_logits, n_vocab;
    /* sampling */
    uint32_t top_k;
    float temperature, top_p, min_p, typical_p, repetition_penalty, presence_penalty, frequency_penalty;
    uint32_t penalty_last_n, top_logprobs, logprobs;
    uint64_t seed;
    /* generation */
    uint64_t max_tokens, shift_keep, shift_drop, produced;
    uint32_t gen_flags;
    int32_t finish_reason;
    uint32_t detok_flags, detok_pending_len, detok_started;
    uint8_t detok_pending[16];
    uint32_t reserved;
};
_Static_assert(sizeof(struct ckpt_state) == 384, "a fixed format; no padding");
/* Whoever lets one of these grow has to store the new field, under a new version of the format. */
_Static_assert(sizeof(infer_generate_options) == 72 && sizeof(infer_detokenizer) == 32, "see above");
_Static_assert(sizeof(infer_sampling) == (sizeof(void *) == 8 ? 88 : sizeof(infer_sampling)), "see above");

/* Pages that lie in a checkpoint file: the user of kv_pages_import. */
struct file_pages {
    const struct env *env; /* a reference */
    struct kv_file *file;  /* a reference; where they are */
    struct kv_place places[]; /* source 0 */
};
void file_pages_release(void *user);

extern const struct kv_file_options ckpt_read_auto; /* how parents are opened */
bool ckpt_section_known(uint32_t kind);
/* Of a file or an ancestor; FORMAT when the record cannot be right in itself. */
infer_status ckpt_read_state(const struct kv_file *f, struct ckpt_state *out, infer_error *err);
/* The section's items [0, count) of f and its ancestors, of `bytes` each, into dst. rows: count by rows, not elements. With dst NULL only the
 * sizes are checked. */
infer_status ckpt_gather(struct kv_file *f, uint32_t kind, uint64_t bytes, uint64_t count, bool rows, void *dst, infer_error *err);
/* The unpacked bytes of a place into dst, page_bytes many, checked. */
infer_status ckpt_expand(struct kv_file *f, const struct kv_place *p, struct packer **packer, void *dst, uint64_t page_bytes,
                         infer_error *err);

/* checkpoint_sets.c */
bool ckpt_has_sets(const infer_session *s);
infer_status ckpt_put_sets(const infer_session *s, struct kv_writer *w, infer_error *err);
/* Into a new session's table, with the adapters that are open for its model; `current` is the name of the set in force. */
infer_status ckpt_read_sets(infer_session *s, const struct kv_file *f, uint64_t current, infer_error *err);
/* The number of the set of that name, 0: none; FORMAT when it is not in the table. */
infer_status ckpt_find_set(const infer_session *s, const struct kv_file *f, uint64_t name, uint32_t *number, infer_error *err);

/* checkpoint_generation.c */
void ckpt_describe_generation(const struct generation *g, struct ckpt_state *c);
bool ckpt_has_stops(const infer_session *s);
infer_status ckpt_put_stops(const infer_session *s, struct kv_writer *w, infer_error *err);
/* Into a new session: what the state says, and the section of stops. */
infer_status ckpt_read_generation(infer_session *s, const struct kv_file *f, const struct ckpt_state *c, infer_error *err);

struct checkpoint_open_options {
    int32_t map;       /* INFER_MAP_* */
    bool verify_load;  /* all pages at once */
    uint64_t adapters; /* that the checkpoint must have in force; 0: any */
};
infer_status checkpoint_open(infer_model *model, const char *path, uint64_t len, const struct checkpoint_open_options *o,
                             const infer_cancel *cancel, infer_checkpoint **out, infer_error *err);

struct checkpoint_save_options {
    int level;          /* of zstd; 0: not compressed */
    bool full_model;    /* the full fingerprint too */
    const char *parent; /* path of the parent, or NULL */
    uint64_t parent_len;
    uint64_t max_bytes; /* of the file; 0: no limit */
    bool keep;          /* what has the name stays: EXISTS */
};
infer_status checkpoint_save(const infer_checkpoint *c, const char *path, uint64_t len, const struct checkpoint_save_options *o,
                             const infer_cancel *cancel, infer_error *err);

infer_status model_quick_fingerprint(infer_model *m, struct model_fingerprint *out, infer_error *err);
infer_status model_full_fingerprint(infer_model *m, const infer_cancel *cancel, struct hash_128 out[2], infer_error *err);

#endif
