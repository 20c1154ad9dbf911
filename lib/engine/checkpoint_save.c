#include "engine/checkpoint_file.h"

#include <string.h>

#include "base/os_file.h"
#include "base/outfile.h"

/* A save in progress. */
struct saver {
    const infer_session *s;
    const infer_cancel *cancel;
    infer_error *err;
    struct kv_writer *w;
    struct kv_file *parent; /* or NULL */
    struct packer *packer;  /* for pages of the parent that are packed */
    uint8_t *page, *theirs; /* room for one page each, of the largest size */
    struct kv_place *places;
    struct ckpt_state state;
};

/* ---- Pages */

/* A copy of page i in v->page, without what is left behind the computed elements from earlier use of the memory. */
static infer_status fetch_page(struct saver *v, uint32_t g, uint64_t i)
{
    const infer_session *s = v->s;
    const struct kv_seq *k = &s->kv[g];
    infer_engine *engine = s->model->engine;
    infer_status st = kv_pages_ready(&k->pages[i], 1, v->cancel, v->err); /* damage must not get a good checksum */
    if (st == INFER_OK)
        st = engine_take(engine, v->cancel, v->err);
    if (st != INFER_OK)
        return st;
    engine->dev->ops->read(engine->dev, v->page, k->pages[i]->data, k->page_bytes);
    st = engine->dev->ops->sync(engine->dev, v->err);
    engine_give(engine);
    uint64_t used = s->computed - i * DEV_KV_PAGE;
    if (st == INFER_OK && used < DEV_KV_PAGE)
        net_kv_blank(s->model->net, s->kv_type, g, v->page, (uint32_t)used);
    return st;
}

/* Whether the page lies at this very place already. */
static bool is_page_of(const struct saver *v, const struct kv_page *page, const struct kv_place *theirs)
{
    uint64_t i = 0;
    const struct file_pages *in = kv_page_origin(page, file_pages_release, &i);
    const struct kv_file *f = kv_file_ancestor(v->parent, theirs->source);
    return in && hash_128_equal(in->file->id, f->id) && in->places[i].offset == theirs->offset
           && in->places[i].hash == theirs->hash && !(theirs->flags & KV_PLACE_PACKED);
}

/* Whether v->page has the bytes of the parent's page. Damage of that is no error: then it has not. */
static bool has_bytes_of(struct saver *v, const struct kv_place *theirs, uint64_t page_bytes)
{
    infer_error ignored;
    if (theirs->hash != hash_64(v->page, (size_t)page_bytes))
        return false;
    if (!(theirs->flags & KV_PLACE_PACKED))
        return memcmp(v->page, kv_place_data(v->parent, theirs), (size_t)page_bytes) == 0;
    return ckpt_expand(v->parent, theirs, &v->packer, v->theirs, page_bytes, &ignored) == INFER_OK
           && memcmp(v->page, v->theirs, (size_t)page_bytes) == 0;
}

/* theirs: the parent's page of the same number, or NULL. */
static infer_status save_page(struct saver *v, uint32_t g, uint64_t i, const struct kv_place *theirs, struct kv_place *out)
{
    const struct kv_seq *k = &v->s->kv[g];
    if (theirs && theirs->source == KV_PLACE_NONE)
        theirs = NULL;
    bool partial = (i + 1) * DEV_KV_PAGE > v->s->computed; /* a longer page that we cut would not be blank behind the end */
    bool same = theirs && !partial && is_page_of(v, k->pages[i], theirs);
    infer_status st = same ? INFER_OK : fetch_page(v, g, i);
    if (st == INFER_OK && !same && theirs)
        same = has_bytes_of(v, theirs, k->page_bytes);
    if (st == INFER_OK && same) {
        *out = *theirs;
        out->source++;
        return INFER_OK;
    }
    return st == INFER_OK ? kv_writer_page(v->w, v->page, k->page_bytes, out, v->err) : st;
}

static infer_status save_group(struct saver *v, uint32_t g, const struct kv_place *theirs, uint64_t n_theirs)
{
    const struct kv_seq *k = &v->s->kv[g];
    uint64_t n = (v->s->computed + DEV_KV_PAGE - 1) / DEV_KV_PAGE;
    infer_status st = INFER_OK;
    for (uint64_t i = 0; i < n && st == INFER_OK; i++) {
        if (cancel_is_set(v->cancel))
            return err_set(v->err, INFER_ERROR_CANCELLED, "cancelled while saving the checkpoint");
        if (i < k->n && k->pages[i])
            st = save_page(v, g, i, i < n_theirs ? &theirs[i] : NULL, &v->places[i]);
        else
            v->places[i] = (struct kv_place){.source = KV_PLACE_NONE};
    }
    return st == INFER_OK ? kv_writer_section(v->w, CKPT_PLACES, KV_SECTION_REQUIRED, g, v->places, n * sizeof *v->places, v->err) : st;
}

static infer_status save_pages(struct saver *v)
{
    infer_status st = INFER_OK;
    for (uint32_t g = 0; g < NET_KV_GROUPS && st == INFER_OK; g++) {
        const struct kv_section *s = v->parent ? kv_file_find(v->parent, CKPT_PLACES, g) : NULL;
        const struct kv_place *theirs = NULL;
        uint64_t n = 0;
        void *owned = NULL;
        if (!v->s->kv[g].page_bytes)
            continue;
        if (s)
            st = kv_file_places(v->parent, s, v->s->kv[g].page_bytes, &theirs, &n, &owned, v->err);
        if (st == INFER_OK)
            st = save_group(v, g, theirs, n);
        if (v->parent)
            mem_free(&v->parent->env->alloc, owned);
    }
    return st;
}

/* ---- Elements and rows */

static struct ckpt_element element_of(const infer_session *s, const struct element *e)
{
    return (struct ckpt_element){e->id, e->position, session_set_id(&s->sets, e->set).lo, e->id < 0 ? e->row : 0, 0};
}

static bool same_row(const struct saver *v, uint32_t row, const float *rows, const uint64_t *keys)
{
    size_t width = v->s->model->net->h.n_embd;
    return memcmp(v->s->rows + row * width, rows + row * width, width * 4) == 0
           && memcmp(v->s->keys + (size_t)row * 2, keys + (size_t)row * 2, 16) == 0;
}

/* How many elements and rows the parent begins with in common. */
static void count_common(struct saver *v, const struct ckpt_element *theirs, uint64_t n, const float *rows, const uint64_t *keys)
{
    uint64_t i = 0, row = 0;
    for (; i < n && i < v->s->length; i++) {
        struct ckpt_element mine = element_of(v->s, &v->s->elements[i]);
        if (memcmp(&mine, &theirs[i], sizeof mine) != 0 || (mine.id == ELEMENT_ROW && !same_row(v, mine.row, rows, keys)))
            break;
        row += mine.id == ELEMENT_ROW;
    }
    v->state.first_element = i;
    v->state.first_row = row;
}

static infer_status compare_elements(struct saver *v, const struct ckpt_state *theirs)
{
    const struct alloc *a = &v->s->model->engine->env->alloc;
    uint64_t width = v->s->model->net->h.n_embd, n = theirs->length, n_rows = theirs->n_rows;
    struct ckpt_element *elements = mem_array(a, (size_t)n, sizeof *elements);
    float *rows = n_rows * width > SIZE_MAX / 4 ? NULL : mem_array(a, (size_t)(n_rows * width), 4);
    uint64_t *keys = mem_array(a, (size_t)n_rows, 16);
    infer_status st = elements && rows && keys ? INFER_OK : err_no_memory(v->err);
    if (st == INFER_OK)
        st = ckpt_gather(v->parent, CKPT_ELEMENTS, sizeof *elements, n, false, elements, v->err);
    if (st == INFER_OK)
        st = ckpt_gather(v->parent, CKPT_ROWS, width * 4, n_rows, true, rows, v->err);
    if (st == INFER_OK)
        st = ckpt_gather(v->parent, CKPT_KEYS, 16, n_rows, true, keys, v->err);
    for (uint64_t i = 0; i < n && st == INFER_OK; i++)
        if (elements[i].id == ELEMENT_ROW && elements[i].row >= n_rows)
            st = kv_file_bad(v->parent, ERR_NO_OFFSET, v->err, "an element is impossible");
    if (st == INFER_OK)
        count_common(v, elements, n, rows, keys);
    mem_free(a, elements);
    mem_free(a, rows);
    mem_free(a, keys);
    return st;
}

static infer_status put(struct saver *v, uint32_t kind, const void *data, uint64_t bytes)
{
    return kv_writer_section(v->w, kind, KV_SECTION_REQUIRED, 0, bytes ? data : NULL, bytes, v->err);
}

static infer_status save_elements(struct saver *v)
{
    const struct alloc *a = &v->s->model->engine->env->alloc;
    uint64_t first = v->state.first_element, n = v->s->length - first;
    struct ckpt_element *out = mem_array(a, (size_t)n, sizeof *out);
    if (!out)
        return err_no_memory(v->err);
    for (uint64_t i = 0; i < n; i++)
        out[i] = element_of(v->s, &v->s->elements[first + i]);
    infer_status st = put(v, CKPT_ELEMENTS, out, n * sizeof *out);
    mem_free(a, out);
    uint64_t width = v->s->model->net->h.n_embd, row = v->state.first_row, rows = v->s->n_rows - row;
    if (st == INFER_OK)
        st = put(v, CKPT_ROWS, rows ? v->s->rows + row * width : NULL, rows * width * 4);
    return st == INFER_OK ? put(v, CKPT_KEYS, rows ? v->s->keys + row * 2 : NULL, rows * 16) : st;
}

/* ---- The rest of the state */

static void describe_sampling(struct ckpt_state *c, const infer_sampling *set)
{
    c->top_k = set->top_k;
    c->temperature = set->temperature;
    c->top_p = set->top_p;
    c->min_p = set->min_p;
    c->typical_p = set->typical_p;
    c->repetition_penalty = set->repetition_penalty;
    c->presence_penalty = set->presence_penalty;
    c->frequency_penalty = set->frequency_penalty;
    c->penalty_last_n = set->penalty_last_n;
    c->top_logprobs = set->top_logprobs;
    c->logprobs = (uint32_t)set->logprobs;
    c->seed = set->seed;
    c->bias_count = set->bias_count;
}

/* All but what depends on the parent. */
static infer_status describe(struct saver *v, bool full_model)
{
    const infer_session *s = v->s;
    infer_model *m = s->model;
    struct model_fingerprint f;
    struct ckpt_state *c = &v->state;
    infer_status st = model_quick_fingerprint(m, &f, v->err);
    if (st != INFER_OK)
        return st;
    *c = (struct ckpt_state){.numerics_version = INFER_NUMERICS_VERSION, .numerics = m->engine->numerics, .kv_type = s->kv_type,
                             .kv_recent = s->kv_recent, .n_ctx = s->n_ctx, .page_elements = DEV_KV_PAGE, .n_groups = NET_KV_GROUPS,
                             .tokenizer = f.tokenizer, .adapters = session_set_id(&s->sets, s->sets.current).lo, .length = s->length, .computed = s->computed,
                             .approximate_from = s->approximate_from, .n_rows = s->n_rows, .logits_rows = s->n_logits_rows,
                             .n_embd = m->net->h.n_embd, .n_logits = m->net->h.n_logits, .n_vocab = session_vocab(s)};
    memcpy(c->model, f.model, sizeof c->model);
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++) {
        c->page_bytes[g] = s->kv[g].page_bytes;
        c->window[g] = s->kv[g].window;
    }
    describe_sampling(c, &s->sampler.set);
    ckpt_describe_generation(&s->gen, c);
    if (full_model) {
        c->flags |= CKPT_FULL_MODEL;
        st = model_full_fingerprint(m, v->cancel, c->model_full, v->err);
    }
    return st;
}

/* Refuses when the new file would take the name of one that it needs. */
static infer_status check_ancestors(const struct saver *v, const char *path, uint64_t len)
{
    const struct env *env = v->s->model->engine->env;
    char *name = mem_strdup(&env->alloc, path, (size_t)len);
    bool replaced = false;
    if (!name)
        return err_no_memory(v->err);
    for (const struct kv_file *a = v->parent; a && !replaced; a = a->parent)
        replaced = strcmp(a->path, name) == 0 || (env->io->leads_to && env->io->leads_to(a->path, name));
    mem_free(&env->alloc, name);
    return !replaced ? INFER_OK
                     : err_at(v->err, INFER_ERROR_ARGUMENT, "parent", 6, ERR_NO_OFFSET,
                              "the file would replace the parent or one of its ancestors, and so lose what it needs: use another name, "
                              "or save whole");
}

static infer_status open_parent(struct saver *v, const char *path, uint64_t len, const struct checkpoint_save_options *o)
{
    struct ckpt_state theirs;
    if (!o->parent)
        return INFER_OK;
    if (len == o->parent_len && memcmp(path, o->parent, (size_t)len) == 0)
        return err_at(v->err, INFER_ERROR_ARGUMENT, "parent", 6, ERR_NO_OFFSET, "a file cannot be its own parent: use another name");
    infer_status st = kv_file_open(v->s->model->engine->env, o->parent, o->parent_len, &ckpt_read_auto, v->cancel, &v->parent, v->err);
    if (st == INFER_OK)
        st = ckpt_read_state(v->parent, &theirs, v->err);
    if (st != INFER_OK)
        return st;
    if (memcmp(theirs.model, v->state.model, sizeof theirs.model) != 0 || theirs.kv_type != v->state.kv_type
        || memcmp(theirs.page_bytes, v->state.page_bytes, sizeof theirs.page_bytes) != 0 || theirs.n_embd != v->state.n_embd)
        return err_at(v->err, INFER_ERROR_ARGUMENT, "parent", 6, ERR_NO_OFFSET, "the parent was made with another model or KV type");
    st = check_ancestors(v, path, len);
    return st == INFER_OK ? compare_elements(v, &theirs) : st;
}

static infer_status make_room(struct saver *v)
{
    const struct alloc *a = &v->s->model->engine->env->alloc;
    uint64_t most = 64, n = (v->s->computed + DEV_KV_PAGE - 1) / DEV_KV_PAGE;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        most = v->s->kv[g].page_bytes > most ? v->s->kv[g].page_bytes : most;
    v->page = most > SIZE_MAX ? NULL : mem_alloc_aligned(a, (size_t)most, 64);
    v->theirs = v->parent && v->page ? mem_alloc_aligned(a, (size_t)most, 64) : NULL;
    v->places = mem_zarray(a, (size_t)n, sizeof *v->places);
    return v->page && v->places && (!v->parent || v->theirs) ? INFER_OK : err_no_memory(v->err);
}

static infer_status write_all(struct saver *v)
{
    const infer_session *s = v->s;
    const infer_sampling *set = &s->sampler.set;
    infer_status st = save_pages(v); /* first, so that a file that grows by appending pages stays in order */
    if (st == INFER_OK)
        st = save_elements(v);
    if (st == INFER_OK)
        st = put(v, CKPT_LOGITS, s->logits, s->n_logits_rows * s->model->net->h.n_logits * 4);
    if (st == INFER_OK)
        st = put(v, CKPT_LOGITS_POS, s->logits_pos, s->n_logits_rows * 8);
    if (st == INFER_OK)
        st = put(v, CKPT_BIAS, set->bias, set->bias_count * sizeof *set->bias);
    if (st == INFER_OK && ckpt_has_sets(s))
        st = ckpt_put_sets(s, v->w, v->err);
    if (st == INFER_OK && ckpt_has_stops(s))
        st = ckpt_put_stops(s, v->w, v->err);
    return st == INFER_OK ? put(v, CKPT_STATE, &v->state, sizeof v->state) : st;
}

static infer_status save(struct saver *v, const char *path, uint64_t len, const struct checkpoint_save_options *o)
{
    struct kv_writer_options wo = {.kind = KV_FILE_CHECKPOINT, .level = o->level, .max_bytes = o->max_bytes, .keep = o->keep,
                                   .cancel = v->cancel};
    infer_status st = describe(v, o->full_model);
    if (st == INFER_OK)
        st = open_parent(v, path, len, o);
    if (st == INFER_OK)
        st = make_room(v);
    wo.parent = v->parent;
    if (st == INFER_OK)
        st = kv_writer_open(v->s->model->engine->env, path, len, &wo, &v->w, v->err);
    if (st != INFER_OK)
        return st;
    st = write_all(v);
    if (st == INFER_OK)
        return kv_writer_commit(v->w, true, NULL, v->err);
    kv_writer_abort(v->w);
    return st;
}

static infer_status try_save(const infer_checkpoint *c, const char *path, uint64_t len, const struct checkpoint_save_options *o,
                             const infer_cancel *cancel, infer_error *err)
{
    struct saver v = {.s = c->frozen, .cancel = cancel, .err = err};
    const struct alloc *a = &c->frozen->model->engine->env->alloc;
    infer_status st = save(&v, path, len, o);
    mem_free(a, v.page);
    mem_free(a, v.theirs);
    mem_free(a, v.places);
    pack_free(v.packer);
    kv_file_release(v.parent);
    if (st != INFER_OK)
        err_file(err, path, (size_t)len);
    return st;
}

infer_status checkpoint_save(const infer_checkpoint *c, const char *path, uint64_t len, const struct checkpoint_save_options *o,
                             const infer_cancel *cancel, infer_error *err)
{
    infer_status st;
    do
        st = try_save(c, path, len, o, cancel, err);
    while (prefix_retry(c->frozen->model->engine, st, err));
    return st;
}
