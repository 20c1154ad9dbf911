/* Adapters of a model, sets of them, and which set is in force for each element of a session.
 *
 * A set is a list of (adapter, strength, layers, mode), immutable and counted. Sets are told apart by a hash over what they hold (content hashes of
 * adapters, not handles), so that sessions that attach the same adapters share cached state, and files name sets that other processes know. A
 * session keeps a table of the sets that its elements were appended under: an element is computed, whenever that is, with the set of its own. */
#ifndef ENGINE_ADAPTERS_H
#define ENGINE_ADAPTERS_H

#include "base/hash.h"
#include "model/net_adapter.h"

#define ADAPTER_SET_MAX      16u      /* adapters in force at once */
#define ADAPTER_MAX_STRENGTH 65536.0f

/* The adapters that are open for a model. */
struct model_adapters {
    struct os_mutex lock;
    struct bound_adapter *first;
};

struct bound_adapter { /* what infer_adapter.bound points to */
    infer_model *model; /* a reference */
    infer_adapter *adapter;
    struct net_adapter *net;
    struct bound_adapter *next, **link;
};

infer_status model_adapter_open(infer_model *m, const infer_source *source, const infer_open_options *o, infer_adapter **out, infer_error *err);
static inline const struct bound_adapter *adapter_bound(const infer_adapter *a)
{
    return a->bound;
}
/* A reference on an open adapter with that content, NULL: none. */
infer_adapter *model_adapter_find(infer_model *m, struct hash_128 hash);

/* One item of a set. */
struct adapter_entry {
    infer_adapter *adapter;
    float strength;
    int32_t mode;
    uint32_t first_layer, end_layer;
};

struct adapter_set {
    struct ref ref;
    infer_model *model; /* a reference */
    struct hash_128 id; /* never 0, 0 */
    uint32_t n;
    struct net_adapter_use uses[ADAPTER_SET_MAX];
    infer_adapter *adapters[ADAPTER_SET_MAX]; /* references */
};

/* entries: checked by the caller. n at least 1. */
infer_status adapter_set_create(infer_model *m, const struct adapter_entry *entries, uint32_t n, struct adapter_set **out, infer_error *err);
struct adapter_set *adapter_set_ref(struct adapter_set *s);
void adapter_set_release(struct adapter_set *s); /* may be NULL */
/* The canonical record of one item, as it is hashed and written to files. */
struct adapter_record {
    struct hash_128 hash;
    uint32_t strength; /* bits */
    int32_t mode;
    uint32_t first_layer, end_layer;
};
struct adapter_record adapter_record_of(const struct adapter_set *s, uint32_t i);

/* A session's part. Sets are named by their place in the table + 1; 0: none. */
struct session_sets {
    struct adapter_set **table; /* [room] references; NULL: free */
    uint32_t room;
    uint32_t current;           /* in force for what is appended next */
    struct adapter_set *wanted; /* or NULL: what the host asked for, a reference. current has the items of it that are active */
    uint32_t active;            /* bit i: item i of wanted is in force now. Items that wait for invocation tokens are not, until they come */
};

infer_status session_sets_copy(struct session_sets *to, const struct session_sets *from, const struct alloc *a, infer_error *err);
void session_sets_free(struct session_sets *s, const struct alloc *a);
/* The set of an element, NULL: none. */
static inline struct adapter_set *session_set_at(const struct session_sets *s, uint32_t number)
{
    return number ? s->table[number - 1] : NULL;
}
/* 0, 0: none. */
static inline struct hash_128 session_set_id(const struct session_sets *s, uint32_t number)
{
    return number ? s->table[number - 1]->id : (struct hash_128){0, 0};
}

/* See infer_session_set_adapters. entries are checked here. */
infer_status session_set_adapters(infer_session *s, const struct adapter_entry *entries, uint32_t n, infer_error *err);
/* The number of a set in the session's table, where it is put when it is not there. */
infer_status session_add_set(infer_session *s, struct adapter_set *set, uint32_t *number, infer_error *err);
/* Room for n more sets, so that none that session_add_set puts there before it has elements is taken for unused. */
infer_status session_reserve_sets(infer_session *s, uint64_t n, infer_error *err);
/* Elements [dst, dst + count), the last of s, come under the sets of elements [src, ..) of another session of the model. */
infer_status session_take_sets(infer_session *s, const infer_session *from, uint64_t dst, uint64_t src, uint64_t count, infer_error *err);
/* Appends rows [first, first + count) of a prefix. set: of its adapter alone. */
infer_status session_append_prefix(infer_session *s, struct adapter_set *set, uint32_t first, uint32_t count, infer_error *err);
/* Appends a soft prompt or a prefix. ARGUMENT: another kind, or for another model. */
infer_status session_append_adapter(infer_session *s, infer_adapter *a, infer_error *err);
/* Whether the files of the adapters that the next step may use are still whole; CHANGED. */
infer_status session_adapters_ready(const infer_session *s, infer_error *err);
/* What a file may say of a set: ARGUMENT for what session_set_adapters would not take, a prefix alone excepted. */
infer_status adapter_entries_check(const infer_model *m, const struct adapter_entry *entries, uint32_t n, infer_error *err);
/* Whether the set is of a prefix. */
static inline bool adapter_set_is_prefix(const struct adapter_set *s)
{
    return s->adapters[0]->kind == ADAPTER_PREFIX;
}
/* After tokens [first, length) were appended under the current set: where invocation tokens stand among them, items that wait for those come into
 * force. On failure the elements are as they were. */
infer_status session_invoke(infer_session *s, uint64_t first, infer_error *err);
/* Before the session is cut to `length` elements: items whose invocation goes wait again. */
infer_status session_uninvoke(infer_session *s, uint64_t length, infer_error *err);

#endif
