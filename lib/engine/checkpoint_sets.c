/* The adapter sets of a checkpoint file: which adapters each element was computed under, by their content. */
#include "engine/checkpoint_file.h"

#include <string.h>

_Static_assert(sizeof(struct ckpt_set) == 32 && sizeof(struct adapter_record) == 32, "a fixed format; no padding");

/* ---- Writing */

static uint64_t put_set(uint8_t *out, const struct adapter_set *set, uint32_t flags, uint32_t active)
{
    struct ckpt_set head = {set->id, set->n, flags, active, 0};
    memcpy(out, &head, sizeof head);
    for (uint32_t i = 0; i < set->n; i++) {
        struct adapter_record r = adapter_record_of(set, i);
        memcpy(out + sizeof head + i * sizeof r, &r, sizeof r);
    }
    return sizeof head + set->n * sizeof(struct adapter_record);
}

static uint64_t set_bytes(const struct adapter_set *set)
{
    return set ? sizeof(struct ckpt_set) + set->n * sizeof(struct adapter_record) : 0;
}

bool ckpt_has_sets(const infer_session *s)
{
    bool any = s->sets.wanted != NULL;
    for (uint32_t i = 0; i < s->sets.room && !any; i++)
        any = s->sets.table[i] != NULL;
    return any;
}

infer_status ckpt_put_sets(const infer_session *s, struct kv_writer *w, infer_error *err)
{
    const struct session_sets *t = &s->sets;
    const struct alloc *a = &s->model->engine->env->alloc;
    uint64_t bytes = set_bytes(t->wanted), at = 0;
    for (uint32_t i = 0; i < t->room; i++) {
        bytes += set_bytes(t->table[i]);
        for (uint32_t k = 0; k < i; k++) /* elements name sets by half of their hash */
            if (t->table[i] && t->table[k] && t->table[i]->id.lo == t->table[k]->id.lo)
                return err_set(err, INFER_ERROR_INTERNAL, "two adapter sets have one name in files");
    }
    uint8_t *out = mem_alloc(a, (size_t)bytes);
    if (!out)
        return err_no_memory(err);
    for (uint32_t i = 0; i < t->room; i++)
        if (t->table[i])
            at += put_set(out + at, t->table[i], 0, 0);
    if (t->wanted)
        at += put_set(out + at, t->wanted, CKPT_SET_WANTED, t->active);
    infer_status st = kv_writer_section(w, CKPT_SETS, KV_SECTION_REQUIRED, 0, out, at, err);
    mem_free(a, out);
    return st;
}

/* ---- Reading */

struct reading {
    infer_session *s;
    const struct kv_file *file;
    infer_error *err;
};

static infer_status impossible(const struct reading *r)
{
    return kv_file_bad(r->file, ERR_NO_OFFSET, r->err, "a set of adapters is impossible");
}

static infer_status not_open(const struct reading *r, const struct adapter_record *rec)
{
    infer_status st = err_at(r->err, INFER_ERROR_VALUE, "adapters", 8, ERR_NO_OFFSET,
                             "the checkpoint was made with another set of adapters: one with content hash %016llx%016llx is not open for the model",
                             (unsigned long long)rec->hash.hi, (unsigned long long)rec->hash.lo);
    err_file(r->err, r->file->path, strlen(r->file->path));
    return st;
}

static void release_all(const struct adapter_entry *entries, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        adapter_release(entries[i].adapter);
}

/* References on the adapters of n records. */
static infer_status find_adapters(const struct reading *r, const uint8_t *data, uint32_t n, struct adapter_entry *entries)
{
    for (uint32_t i = 0; i < n; i++) {
        struct adapter_record rec;
        float strength;
        memcpy(&rec, data + i * sizeof rec, sizeof rec);
        memcpy(&strength, &rec.strength, sizeof strength);
        infer_adapter *a = model_adapter_find(r->s->model, rec.hash);
        if (!a) {
            release_all(entries, i);
            return not_open(r, &rec);
        }
        entries[i] = (struct adapter_entry){a, strength, rec.mode, rec.first_layer, rec.end_layer};
    }
    return INFER_OK;
}

/* One set, new. */
static infer_status read_set(const struct reading *r, const struct ckpt_set *head, const uint8_t *data, struct adapter_set **out)
{
    struct adapter_entry entries[ADAPTER_SET_MAX];
    infer_status st = find_adapters(r, data, head->n, entries);
    if (st != INFER_OK)
        return st;
    st = adapter_entries_check(r->s->model, entries, head->n, r->err);
    if (st == INFER_OK)
        st = adapter_set_create(r->s->model, entries, head->n, out, r->err);
    else if (st == INFER_ERROR_ARGUMENT)
        st = impossible(r);
    release_all(entries, head->n);
    if (st == INFER_OK && !hash_128_equal((*out)->id, head->id)) {
        adapter_set_release(*out);
        st = impossible(r);
    }
    return st;
}

static infer_status take_set(const struct reading *r, const struct ckpt_set *head, const uint8_t *data)
{
    struct session_sets *t = &r->s->sets;
    struct adapter_set *set;
    uint32_t number;
    infer_status st = read_set(r, head, data, &set);
    if (st != INFER_OK)
        return st;
    if (!(head->flags & CKPT_SET_WANTED)) {
        st = session_add_set(r->s, set, &number, r->err);
        adapter_set_release(set);
        t->current = number; /* so that it is not dropped as unused while more are read */
        return st;
    }
    if (t->wanted || adapter_set_is_prefix(set) || head->active >> set->n) {
        adapter_set_release(set);
        return impossible(r);
    }
    t->wanted = set;
    t->active = head->active;
    return INFER_OK;
}

static infer_status read_all(const struct reading *r, const uint8_t *data, uint64_t bytes)
{
    infer_status st = INFER_OK;
    for (uint64_t at = 0; at < bytes && st == INFER_OK;) {
        struct ckpt_set head;
        if (bytes - at < sizeof head)
            return impossible(r);
        memcpy(&head, data + at, sizeof head);
        at += sizeof head;
        uint64_t more = (uint64_t)head.n * sizeof(struct adapter_record);
        if (head.n < 1 || head.n > ADAPTER_SET_MAX || more > bytes - at || head.flags & ~CKPT_SET_WANTED || head.reserved)
            return impossible(r);
        st = take_set(r, &head, data + at);
        at += more;
    }
    return st;
}

/* How many sets a section may hold at most: as many as elements, and a few. */
infer_status ckpt_read_sets(infer_session *s, const struct kv_file *f, uint64_t current, infer_error *err)
{
    const struct kv_section *section = kv_file_find(f, CKPT_SETS, 0);
    struct reading r = {s, f, err};
    const void *data;
    void *owned = NULL;
    infer_status st = section ? kv_file_data(f, section, section->raw, &data, &owned, err) : INFER_OK;
    if (st == INFER_OK && section)
        st = session_reserve_sets(s, section->raw / (sizeof(struct ckpt_set) + sizeof(struct adapter_record)), err);
    if (st == INFER_OK && section)
        st = read_all(&r, data, section->raw);
    mem_free(&f->env->alloc, owned);
    if (st == INFER_OK)
        st = ckpt_find_set(s, f, current, &s->sets.current, err);
    if (st == INFER_OK && s->sets.current && adapter_set_is_prefix(session_set_at(&s->sets, s->sets.current)))
        st = impossible(&r);
    return st;
}

infer_status ckpt_find_set(const infer_session *s, const struct kv_file *f, uint64_t name, uint32_t *number, infer_error *err)
{
    *number = 0;
    for (uint32_t i = 0; name && i < s->sets.room && !*number; i++)
        if (s->sets.table[i] && s->sets.table[i]->id.lo == name)
            *number = i + 1;
    return !name || *number ? INFER_OK : kv_file_bad(f, ERR_NO_OFFSET, err, "an element's adapters are not told");
}
