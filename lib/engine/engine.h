/* Engines, models and sessions: the handles of the public header and what they own. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/env.h"
#include "base/hash.h"
#include "base/turns.h"
#include "engine/adapters.h"
#include "engine/prefix.h"
#include "kv/kv_seq.h"
#include "model/forward.h"
#include "sampling/sampler.h"
#include "text/stops.h"
#include "text/template.h"
#include "text/tokenizer.h"

/* Most elements in one batch: bounds the workspace, and what a cancelled call loses. */
#define ENGINE_BATCH_ROWS 256u

#define ENGINE_MAX_CTX ((uint32_t)1 << 24) /* elements of a session: positions are exact in f32 */

/* Host arrays of a batch, [ENGINE_BATCH_ROWS] each. */
struct batch_arrays {
    uint32_t ids[ENGINE_BATCH_ROWS], positions[ENGINE_BATCH_ROWS], out_rows[ENGINE_BATCH_ROWS];
    uint64_t lo[NET_LAYER_GROUPS][ENGINE_BATCH_ROWS], hi[ENGINE_BATCH_ROWS], exact_pages[ENGINE_BATCH_ROWS];
    float *out[ENGINE_BATCH_ROWS];
    bool finite[ENGINE_BATCH_ROWS]; /* of out */
    struct batch_embedding embeddings[ENGINE_BATCH_ROWS];
    struct dev_seq seqs[NET_KV_GROUPS][ENGINE_BATCH_ROWS];
    struct batch_run runs[ENGINE_BATCH_ROWS];
    const struct adapter_set *run_sets[ENGINE_BATCH_ROWS];
    struct batch_tap taps[ENGINE_BATCH_ROWS];
    uint32_t tap_rows[ENGINE_BATCH_ROWS];
    uint32_t items[ENGINE_BATCH_ROWS]; /* the step item of each dev_seq */
};

struct infer_engine {
    struct ref ref;
    const struct env *env;
    struct device *dev;
    struct kv_pool *kv;
    struct kv_cache *cache;     /* or NULL */
    struct prefix_disk *disk;   /* or NULL */
    struct turns_hall hall; /* of step_lock, the disk's lock and schedulers' */
    struct turns step_lock; /* held while the device computes; guards ws, batch and dev. See engine_take */
    struct workspace ws;
    struct batch_arrays *batch;
    int32_t numerics;
    uint32_t threads;
    bool own_threads; /* the device's pool runs on threads of the library: tasks may allocate there */
    uint64_t kv_budget;
};

infer_status engine_create(const infer_engine_options *options, infer_engine **out, infer_error *err);
/* For tests: an engine on a given device, which it then owns (also when this fails). env is copied. */
infer_status engine_create_on(const struct env *env, struct device *dev, uint64_t kv_budget, infer_engine **out,
                              infer_error *err);
/* For an estimate: an engine like this one (NULL: like the default one) that nothing can be computed with: what its device holds is counted, and
 * not there. threads 0: as many as that one has. */
infer_status engine_create_plan(const infer_engine *like, uint32_t threads, infer_engine **out, infer_error *err);
/* Waits for the step lock. While it is held, the device leaves its work once cancel (or NULL) is set: its sync says CANCELLED then, as this does. */
infer_status engine_take(infer_engine *e, const infer_cancel *cancel, infer_error *err);
static inline void engine_give(infer_engine *e)
{
    turns_give(&e->step_lock);
}
infer_engine *engine_ref(infer_engine *e);
void engine_release(infer_engine *e);
const struct env *engine_env(const infer_engine *e); /* &env_default for NULL */

struct model_fingerprint { /* fingerprint.c */
    struct hash_128 model[2], tokenizer;
};

struct infer_model {
    struct ref ref;
    infer_engine *engine;
    struct infer_file *file;
    struct net *net;
    uint32_t n_ctx; /* most elements of a session; 0: no limit */
    infer_tokenizer *tokenizer; /* or NULL */
    infer_template *tmpl;
    char tokenizer_problem[256], template_problem[256];
    struct model_adapters adapters;
    struct os_mutex fingerprint_lock;
    struct model_fingerprint fingerprint; /* the quick one, when it is known */
    bool fingerprint_known;
};

infer_status model_open(infer_engine *engine, const infer_source *source, const infer_open_options *options,
                        infer_model **out, infer_error *err);
/* For an estimate, in an engine of engine_create_plan: no weights are read. */
infer_status model_open_plan(infer_engine *engine, const infer_source *source, const infer_open_options *options, infer_model **out,
                             infer_error *err);
infer_model *model_ref(infer_model *m);
void model_release(infer_model *m);

#define ELEMENT_ROW    -1
#define ELEMENT_PREFIX -2

/* One element of a sequence: a token id, an embedding row, or the keys and values of a prefix adapter's row. */
struct element {
    int32_t id;        /* or ELEMENT_* */
    uint32_t position; /* for rope or learned positions */
    uint32_t set;      /* the adapters in force when it was appended, as session->sets has them; 0: none. Of a prefix: a set of that adapter alone */
    uint32_t row;      /* of an embedding row: its place in session->rows and keys; of a prefix the number of its row */
};

#define GENERATE_GUARD_MIN 16u /* of repeat_guard */
#define GENERATE_GUARD_MAX 4096u

/* An answer in progress. Small: every fork and checkpoint has one. */
struct generation {
    bool active;
    bool finishing;           /* the reason is known; the next event is DONE */
    int16_t finish_reason;
    int16_t stop_index;       /* of the stop string that was found, or -1 */
    uint16_t repeat_guard;    /* 0: none */
    uint32_t flags;           /* INFER_GENERATE_IGNORE_EOS, INFER_GENERATE_SHOW_SPECIAL */
    uint32_t shift_keep, shift_drop;
    uint32_t run, run_end;    /* so many elements before run_end are tokens that the answer appended one after another */
    struct stops_state stops_state;
    uint8_t detok_started, detok_pending_len; /* of the detokenizer */
    uint8_t detok_pending[16];
    uint64_t max_tokens, produced;
    struct stops *stops;      /* a reference, also after the end; NULL: neither strings nor ids */
};

/* Everything but ref, model, in_step and scratch is the session's state: what a checkpoint holds and a restore replaces (checkpoint.c). */
struct infer_session {
    struct ref ref;
    infer_model *model;
    uint32_t n_ctx;
    int32_t kv_type;
    uint32_t kv_recent; /* of mixed types, a multiple of 64 */
    struct session_sets sets;
    /* Shared with forks and checkpoints (base/shared.h): read freely below the lengths, written only in session_append and its kin. */
    struct element *elements;
    uint64_t length;           /* elements, computed and pending */
    uint64_t computed;
    float *rows;               /* [n_rows][n_embd] embedding rows */
    uint64_t *keys;            /* [n_rows][2] */
    uint32_t n_rows;
    /* KV of elements from this one on does not come from computing them: grafted or shifted. UINT64_MAX: none. */
    uint64_t approximate_from;
    struct kv_seq kv[NET_KV_GROUPS];
    /* logits of the last step; shared like elements */
    float *logits;             /* [n_logits_rows][n_logits] */
    uint64_t *logits_pos;      /* [n_logits_rows] element index */
    uint64_t n_logits_rows;
    struct sampler sampler;
    struct generation gen;
    struct prefix prefix;
    /* scratch */
    int32_t *history;          /* ids for the sampler and its callback */
    uint64_t history_cap;
    struct buf text;           /* of the last event */
    uint64_t pending_from;     /* in a step: the first element that was pending when it was called */
    bool in_step;              /* while infer_step looks for a session given twice */
};

static inline bool session_is_approximate(const infer_session *s)
{
    return s->approximate_from != UINT64_MAX;
}

infer_status session_create(infer_model *model, const infer_session_options *options, infer_session **out,
                            infer_error *err);
void session_release(infer_session *s);
/* What session_append says of them, but NO_MEMORY. */
infer_status session_check_ids(const infer_session *s, const int32_t *ids, uint64_t count, infer_error *err);
infer_status session_append(infer_session *s, const int32_t *ids, uint64_t count, infer_error *err);
infer_status session_append_rows(infer_session *s, const float *rows, const uint64_t *keys, uint64_t count,
                                 infer_error *err);
infer_status session_truncate(infer_session *s, uint64_t length, uint64_t *rerun, infer_error *err);
/* Makes the elements from `length` on pending again, and what else has to be computed for them; logits are gone. */
void session_rewind(infer_session *s, uint64_t length);
/* When everything is computed but the last element's logits are gone (rolled back) or were not asked for: makes it pending again. */
void session_want_last_logits(infer_session *s);
/* Says that the KV of elements from `from` on is not what computing them would give; holds until they are truncated away. */
void session_mark_approximate(infer_session *s, uint64_t from);
/* The elements for the session alone, to change them in place (positions, after a shift). */
infer_status session_own_elements(infer_session *s, infer_error *err);
infer_status session_fork(infer_session *s, infer_session **out, infer_error *err);
/* A fork with the state of generation too. s is only read: several threads may copy one session that none of them changes. */
infer_status session_copy(const infer_session *s, infer_session **out, infer_error *err);
/* Elements that both begin with, under the same adapters; at most `most`. */
uint64_t session_common(const infer_session *a, const infer_session *b, uint64_t most);
/* s takes over what `from`, of the same model and KV type, has computed of the first `most` elements that both have, when that is more than s has. Pages are
 * shared. Only s changes; a failure leaves it as it was. */
infer_status session_take_state(infer_session *s, const infer_session *from, uint64_t most, infer_error *err);
/* The two exchange their states; both are of one model. */
void session_swap(infer_session *a, infer_session *b);

struct session_kv_use {
    uint64_t bytes;  /* of all pages that the session refers to */
    uint64_t shared; /* of these, of pages with other references too */
    uint64_t mapped; /* of these, of pages in a mapped file */
};
struct session_kv_use session_kv_use(const infer_session *s);
/* Before the session's pages are read: those in a mapped file are still there, and verified. cancel may be NULL. */
infer_status session_ready(const infer_session *s, const infer_cancel *cancel, infer_error *err);
/* Room for the logits of `count` more rows behind those there are. */
infer_status session_reserve_logits(infer_session *s, uint64_t count, infer_error *err);
infer_status session_sample(infer_session *s, infer_sample_result *out, infer_error *err);
/* Ids that the model understands: fewer than its logits when the matrix is padded. */
uint32_t session_vocab(const infer_session *s);

/* Elements of the item, as it stands, whose hidden states it wants. */
uint64_t step_count_hidden(const infer_step_item *it);
/* items: full-size structs of different sessions of one model (checked by the caller). */
infer_status engine_step(infer_step_item *items, uint64_t count, const infer_cancel *cancel, infer_error *err);

/* score.c: see infer_session_score. out: full-size, checked by the caller. A failure leaves s as it was. */
infer_status session_score(infer_session *s, const int32_t *ids, uint64_t count, infer_score *out, const infer_cancel *cancel, infer_error *err);

#define ESTIMATE_MAX_SESSIONS ((uint32_t)1 << 20)
/* estimate.c: see infer_model_estimate; full-size structs, checked by the caller but for what they mean. */
infer_status estimate_model(const infer_engine *engine, const infer_source *source, const infer_open_options *open,
                            const infer_estimate_options *o, infer_estimate *out, infer_error *err);

/* What embed.c computes in one pass, at most: so many texts, and tokens unless the first text has more. Keys and values of an encoder's texts begin a
 * page each: short texts fill theirs badly. */
#define EMBED_GROUP_TEXTS  64u
#define EMBED_GROUP_TOKENS ENCODE_ROWS
#define EMBED_GROUP_PAGES  64u
/* embed.c: see infer_embed. items and options: full-size structs, checked by the caller. */
infer_status embed_texts(infer_model *m, infer_embed_item *items, uint64_t count, const infer_embed_options *o, const infer_cancel *cancel,
                         infer_error *err);

/* graft.c: see infer_session_shift and infer_session_graft. rerun and cancel may be NULL. A failure leaves s as it was. */
struct infer_checkpoint;
infer_status session_shift(infer_session *s, uint64_t keep, uint64_t drop, const infer_cancel *cancel, infer_error *err);
infer_status session_graft(infer_session *s, const struct infer_checkpoint *ckpt, uint64_t first, uint64_t count, uint64_t recompute,
                           uint64_t *rerun, const infer_cancel *cancel, infer_error *err);

/* generate.c. generate_next is: when generate_pending says so, a step with INFER_ROWS_LAST; when nothing is left to compute, generate_take.
 * The scheduler does the same for many sessions with one step. */
infer_status generate_begin(infer_session *s, const infer_generate_options *options, infer_error *err);
/* The options' stop strings and ids, checked, for any number of sessions of the model; *out is NULL when there are none. */
infer_status generate_stops(const infer_model *m, const infer_generate_options *options, struct stops **out, infer_error *err);
/* generate_begin with stops made before, of which the session takes a reference; those in the options are not looked at. */
infer_status generate_begin_with(infer_session *s, const infer_generate_options *options, struct stops *stops, infer_error *err);
/* Elements to compute before generate_take may be called; 0: none, also when what comes next is DONE. */
uint64_t generate_pending(infer_session *s);
/* The next event, TOKEN, SHIFT or DONE, of a session whose generate_pending is 0. A failure leaves the session as it was. Touches nothing but the
 * session (and takes the engine's locks when the context shifts): threads may take from different sessions at once. */
infer_status generate_take(infer_session *s, infer_event *event, const infer_cancel *cancel, infer_error *err);
infer_status generate_next(infer_session *s, infer_event *event, const infer_cancel *cancel, infer_error *err);

#endif
