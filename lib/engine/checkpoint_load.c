#include "engine/checkpoint_file.h"

#include <string.h>

#include "base/cancel.h"
#include "base/shared.h"

#define MAX_ITEMS ((uint64_t)1 << 24) /* elements of any session */

bool ckpt_section_known(uint32_t kind)
{
    return kind >= CKPT_STATE && kind <= CKPT_STOPS;
}

const struct kv_file_options ckpt_read_auto = {KV_FILE_CHECKPOINT, INFER_MAP_AUTO, ckpt_section_known};

static infer_status section_of(const struct kv_file *f, uint32_t kind, uint64_t tag, const struct kv_section **out, infer_error *err)
{
    *out = kv_file_find(f, kind, tag);
    return *out ? INFER_OK : kv_file_bad(f, ERR_NO_OFFSET, err, "a section of kind %u is missing", kind);
}

/* A section of exactly this many bytes, copied to dst. */
static infer_status read_section(const struct kv_file *f, uint32_t kind, void *dst, uint64_t bytes, infer_error *err)
{
    const struct kv_section *s;
    const void *data;
    void *owned = NULL;
    infer_status st = section_of(f, kind, 0, &s, err);
    if (st == INFER_OK)
        st = kv_file_data(f, s, bytes, &data, &owned, err);
    if (st == INFER_OK && bytes)
        memcpy(dst, data, (size_t)bytes);
    mem_free(&f->env->alloc, owned);
    return st;
}

infer_status ckpt_read_state(const struct kv_file *f, struct ckpt_state *out, infer_error *err)
{
    infer_status st = read_section(f, CKPT_STATE, out, sizeof *out, err);
    if (st != INFER_OK)
        return st;
    if (out->n_ctx > MAX_ITEMS || out->length > out->n_ctx || out->computed > out->length || out->n_rows > out->length
        || out->logits_rows > out->computed || out->first_element > out->length || out->first_row > out->n_rows
        || (!f->parent && (out->first_element || out->first_row)) || out->bias_count > SAMPLER_MAX_BIAS
        || out->detok_pending_len > sizeof out->detok_pending || out->reserved
        || out->flags & ~(CKPT_GENERATING | CKPT_FINISHING | CKPT_FULL_MODEL))
        return kv_file_bad(f, kv_file_find(f, CKPT_STATE, 0)->offset, err, "the record of the session's state is impossible");
    return INFER_OK;
}

/* One file's share of ckpt_gather: items [first, *count). */
static infer_status gather_one(struct kv_file *f, uint32_t kind, uint64_t bytes, uint64_t *count, bool rows, void *dst, infer_error *err)
{
    struct ckpt_state state;
    const struct kv_section *s;
    const void *data;
    void *owned = NULL;
    infer_status st = ckpt_read_state(f, &state, err);
    if (st == INFER_OK)
        st = section_of(f, kind, 0, &s, err);
    if (st != INFER_OK)
        return st;
    uint64_t first = rows ? state.first_row : state.first_element, all = rows ? state.n_rows : state.length;
    if (*count > all || s->raw / bytes != all - first || s->raw % bytes)
        return kv_file_bad(f, s->offset, err, "a section of kind %u has another length than the state says", kind);
    if (dst && *count > first) {
        st = kv_file_data(f, s, s->raw, &data, &owned, err);
        if (st == INFER_OK)
            memcpy((char *)dst + first * bytes, data, (size_t)((*count - first) * bytes));
        mem_free(&f->env->alloc, owned);
    }
    *count = *count < first ? *count : first;
    return st;
}

infer_status ckpt_gather(struct kv_file *f, uint32_t kind, uint64_t bytes, uint64_t count, bool rows, void *dst, infer_error *err)
{
    struct kv_file *a = f;
    infer_status st = gather_one(a, kind, bytes, &count, rows, dst, err);
    while (st == INFER_OK && count) {
        a = a->parent; /* there is one: ckpt_read_state saw to it */
        st = gather_one(a, kind, bytes, &count, rows, dst, err);
    }
    return st;
}

infer_status ckpt_expand(struct kv_file *f, const struct kv_place *p, struct packer **packer, void *dst, uint64_t page_bytes,
                         infer_error *err)
{
    infer_status st = kv_place_check(f, p, err);
    if (st == INFER_OK && !*packer)
        st = pack_create(&f->env->alloc, 0, packer, err);
    if (st == INFER_OK)
        st = pack_expand(*packer, dst, (size_t)page_bytes, kv_place_data(f, p), (size_t)p->stored, err);
    if (st == INFER_OK && hash_64(dst, (size_t)page_bytes) != p->hash)
        st = kv_file_bad(kv_file_ancestor(f, p->source), p->offset, err, "a page of computed state is damaged");
    return st;
}

/* ---- Pages in place */

void file_pages_release(void *user)
{
    struct file_pages *p = user;
    const struct env *env = p->env;
    kv_file_release(p->file);
    mem_free(&env->alloc, p);
    env_release(env);
}

static infer_status check_file(void *user, infer_error *err)
{
    const struct file_pages *p = user;
    infer_status st = blob_check(&p->file->blob, err);
    if (st != INFER_OK)
        err_file(err, p->file->path, strlen(p->file->path));
    return st;
}

static infer_status verify_page(void *user, uint64_t i, infer_error *err)
{
    struct file_pages *p = user;
    return kv_place_check(p->file, &p->places[i], err);
}

struct loader {
    infer_session *s; /* new, nobody else's */
    struct kv_file *file;
    const struct ckpt_state *state;
    const struct checkpoint_open_options *o;
    const infer_cancel *cancel;
    infer_error *err;
    struct packer *packer;
    void *room; /* for one unpacked page */
};

/* Imports the `n` unpacked places that lie in ancestor `source`. */
static infer_status import_from(struct loader *l, uint32_t source, const struct kv_place *places, uint64_t count, uint64_t n,
                                uint64_t page_bytes, struct kv_page **pages)
{
    infer_engine *engine = l->s->model->engine;
    const struct alloc *a = &engine->env->alloc;
    struct file_pages *user = mem_zalloc(a, sizeof *user + (size_t)n * sizeof user->places[0]);
    uint64_t *offsets = mem_array(a, (size_t)n, sizeof *offsets);
    struct kv_page **got = mem_array(a, (size_t)n, sizeof *got);
    infer_status st = user && offsets && got ? INFER_OK : err_no_memory(l->err);
    if (st == INFER_OK) {
        uint64_t k = 0;
        for (uint64_t i = 0; i < count; i++)
            if (places[i].source == source && !(places[i].flags & KV_PLACE_PACKED)) {
                offsets[k] = places[i].offset;
                user->places[k] = places[i];
                user->places[k++].source = 0;
            }
        user->file = kv_file_ancestor(l->file, source);
        struct kv_foreign foreign = {user->file->blob.data, user->file->blob.size, file_pages_release, user, check_file, verify_page};
        st = kv_pages_import(engine->kv, &foreign, page_bytes, offsets, n, got, l->err);
    }
    if (st == INFER_OK) {
        user->env = env_ref(engine->env);
        kv_file_ref(user->file);
        user = NULL;
        for (uint64_t i = 0, k = 0; i < count; i++)
            if (places[i].source == source && !(places[i].flags & KV_PLACE_PACKED))
                pages[i] = got[k++];
    }
    mem_free(a, user);
    mem_free(a, offsets);
    mem_free(a, got);
    return st;
}

/* Unpacks one page into memory of the pool. */
static infer_status unpack_page(struct loader *l, const struct kv_place *p, uint64_t page_bytes, struct kv_page **out)
{
    infer_engine *engine = l->s->model->engine;
    if (cancel_is_set(l->cancel))
        return err_set(l->err, INFER_ERROR_CANCELLED, "cancelled while reading the checkpoint");
    if (!l->room)
        l->room = mem_alloc_aligned(&engine->env->alloc, (size_t)page_bytes, 64);
    infer_status st = l->room ? INFER_OK : err_no_memory(l->err);
    if (st == INFER_OK)
        st = ckpt_expand(l->file, p, &l->packer, l->room, page_bytes, l->err);
    if (st == INFER_OK)
        st = kv_page_new(engine->kv, page_bytes, out, l->err);
    if (st != INFER_OK)
        return st;
    st = engine_take(engine, l->cancel, l->err);
    if (st != INFER_OK)
        return st;
    engine->dev->ops->write(engine->dev, (*out)->data, l->room, page_bytes);
    st = engine->dev->ops->sync(engine->dev, l->err);
    engine_give(engine);
    return st;
}

static infer_status check_cancel(const struct loader *l)
{
    return cancel_is_set(l->cancel) ? err_set(l->err, INFER_ERROR_CANCELLED, "cancelled while opening the checkpoint") : INFER_OK;
}

/* Fills pages [n], all NULL so far. */
static infer_status load_pages(struct loader *l, const struct kv_place *places, uint64_t n, uint64_t page_bytes, struct kv_page **pages)
{
    infer_status st = INFER_OK;
    for (uint32_t source = 0; source <= l->file->depth && st == INFER_OK; source++) {
        uint64_t here = 0;
        for (uint64_t i = 0; i < n; i++)
            here += places[i].source == source && !(places[i].flags & KV_PLACE_PACKED);
        if (here)
            st = import_from(l, source, places, n, here, page_bytes, pages);
    }
    for (uint64_t i = 0; i < n && st == INFER_OK; i++)
        if (places[i].source != KV_PLACE_NONE && places[i].flags & KV_PLACE_PACKED) {
            st = check_cancel(l);
            if (st == INFER_OK)
                st = unpack_page(l, &places[i], page_bytes, &pages[i]);
        }
    mem_free(&l->file->env->alloc, l->room);
    l->room = NULL;
    return st;
}

/* The group's page table. What was imported goes with it or is given back. */
static infer_status load_table(struct loader *l, uint32_t g, const struct kv_place *places, uint64_t n)
{
    infer_engine *engine = l->s->model->engine;
    struct kv_seq *k = &l->s->kv[g];
    struct kv_page **pages = mem_zarray(&engine->env->alloc, (size_t)n, sizeof *pages);
    infer_status st = pages ? load_pages(l, places, n, k->page_bytes, pages) : err_no_memory(l->err);
    if (st == INFER_OK)
        st = kv_seq_adopt(k, engine->env, pages, n, l->err);
    if (st != INFER_OK && pages)
        kv_pages_unref(engine->kv, pages, n);
    mem_free(&engine->env->alloc, pages);
    return st;
}

static infer_status load_group(struct loader *l, uint32_t g)
{
    const struct kv_section *s;
    const struct kv_place *places;
    void *owned = NULL;
    uint64_t n = 0, computed = l->state->computed, want = (computed + DEV_KV_PAGE - 1) / DEV_KV_PAGE;
    const struct kv_seq *k = &l->s->kv[g];
    if (!k->page_bytes)
        return INFER_OK;
    infer_status st = check_cancel(l);
    if (st == INFER_OK)
        st = section_of(l->file, CKPT_PLACES, g, &s, l->err);
    if (st == INFER_OK)
        st = kv_file_places(l->file, s, k->page_bytes, &places, &n, &owned, l->err);
    if (st != INFER_OK)
        return st;
    if (n != want)
        st = kv_file_bad(l->file, s->offset, l->err, "there are pages for another number of elements than are computed");
    for (uint64_t i = 0; i < n && st == INFER_OK; i++)
        if (places[i].source == KV_PLACE_NONE && !k->window)
            st = kv_file_bad(l->file, s->offset, l->err, "a page is missing");
    if (st == INFER_OK && n)
        st = load_table(l, g, places, n);
    mem_free(&l->file->env->alloc, owned);
    if (st == INFER_OK && kv_seq_resume(k, computed) != computed)
        st = kv_file_bad(l->file, s->offset, l->err, "pages of a sliding window are missing");
    if (st == INFER_OK && l->o->verify_load)
        st = kv_seq_ready(k, l->cancel, l->err);
    return st;
}

/* ---- Elements, logits, sampling */

static infer_status bad_state(const struct loader *l, const char *what)
{
    return kv_file_bad(l->file, ERR_NO_OFFSET, l->err, "%s is impossible", what);
}

/* Whether an element of a prefix, and no other, has a set of a prefix that has its row. */
static bool prefix_fits(const struct adapter_set *set, const struct ckpt_element *e)
{
    bool prefix = set && adapter_set_is_prefix(set);
    if (e->id != ELEMENT_PREFIX)
        return !prefix;
    return prefix && e->row < set->adapters[0]->rows.n_rows;
}

static infer_status take_elements(struct loader *l, const struct ckpt_element *in)
{
    infer_session *s = l->s;
    const struct net *net = s->model->net;
    uint32_t row = 0, most = net->arch->positions == POSITIONS_LEARNED ? net->h.n_ctx_train : (uint32_t)MAX_ITEMS;
    for (uint64_t i = 0; i < l->state->length; i++) {
        bool token = in[i].id >= 0, is_row = in[i].id == ELEMENT_ROW;
        uint32_t set;
        infer_status st = ckpt_find_set(s, l->file, in[i].adapters, &set, l->err);
        if (st != INFER_OK)
            return st;
        if (in[i].id < ELEMENT_PREFIX || !prefix_fits(session_set_at(&s->sets, set), &in[i]) || (token && (uint32_t)in[i].id >= session_vocab(s)) || in[i].position >= most || in[i].reserved
            || (token ? in[i].row != 0 : is_row && in[i].row != row))
            return bad_state(l, "an element");
        row += is_row;
        s->elements[i] = (struct element){in[i].id, in[i].position, set, in[i].row};
    }
    return row == l->state->n_rows ? INFER_OK : bad_state(l, "the number of embedding rows");
}

static infer_status load_elements(struct loader *l)
{
    infer_session *s = l->s;
    const struct alloc *a = &s->model->engine->env->alloc;
    uint64_t n = l->state->length;
    infer_status st = ckpt_gather(l->file, CKPT_ELEMENTS, sizeof(struct ckpt_element), n, false, NULL, l->err);
    if (st != INFER_OK || !n)
        return st;
    struct ckpt_element *in = mem_array(a, (size_t)n, sizeof *in);
    s->elements = shared_reserve(a, NULL, sizeof *s->elements, 0, n, n);
    st = in && s->elements ? ckpt_gather(l->file, CKPT_ELEMENTS, sizeof *in, n, false, in, l->err) : err_no_memory(l->err);
    if (st == INFER_OK)
        st = take_elements(l, in);
    mem_free(a, in);
    if (st == INFER_OK) {
        s->length = n;
        s->computed = l->state->computed;
    }
    return st;
}

static bool all_finite(const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, 4);
        if ((bits & 0x7F800000u) == 0x7F800000u)
            return false;
    }
    return true;
}

static infer_status load_rows(struct loader *l)
{
    infer_session *s = l->s;
    const struct alloc *a = &s->model->engine->env->alloc;
    uint64_t n = l->state->n_rows, width = s->model->net->h.n_embd;
    infer_status st = ckpt_gather(l->file, CKPT_ROWS, width * 4, n, true, NULL, l->err);
    if (st == INFER_OK)
        st = ckpt_gather(l->file, CKPT_KEYS, 16, n, true, NULL, l->err);
    if (st != INFER_OK || !n)
        return st;
    s->rows = shared_reserve(a, NULL, (size_t)width * 4, 0, n, n);
    s->keys = shared_reserve(a, NULL, 16, 0, n, n);
    s->n_rows = (uint32_t)n;
    if (!s->rows || !s->keys)
        return err_no_memory(l->err);
    st = ckpt_gather(l->file, CKPT_ROWS, width * 4, n, true, s->rows, l->err);
    if (st == INFER_OK)
        st = ckpt_gather(l->file, CKPT_KEYS, 16, n, true, s->keys, l->err);
    return st == INFER_OK && !all_finite(s->rows, n * width) ? bad_state(l, "an embedding row") : st;
}

static infer_status load_logits(struct loader *l)
{
    infer_session *s = l->s;
    uint64_t n = l->state->logits_rows, width = (uint64_t)s->model->net->h.n_logits * 4;
    const struct kv_section *section;
    infer_status st = section_of(l->file, CKPT_LOGITS, 0, &section, l->err);
    if (st == INFER_OK && (section->raw / width != n || section->raw % width)) /* before memory is taken */
        st = bad_state(l, "the number of logits");
    if (st == INFER_OK)
        st = session_reserve_logits(s, n, l->err);
    if (st == INFER_OK)
        st = read_section(l->file, CKPT_LOGITS, s->logits, n * width, l->err);
    if (st == INFER_OK)
        st = read_section(l->file, CKPT_LOGITS_POS, s->logits_pos, n * 8, l->err);
    for (uint64_t i = 0; i < n && st == INFER_OK; i++)
        if (s->logits_pos[i] >= l->state->computed || (i && s->logits_pos[i] <= s->logits_pos[i - 1]))
            st = bad_state(l, "the place of logits");
    if (st == INFER_OK)
        s->n_logits_rows = n;
    return st;
}

static infer_status load_sampling(struct loader *l)
{
    const struct ckpt_state *c = l->state;
    const struct alloc *a = &l->s->model->engine->env->alloc;
    const struct kv_section *section;
    infer_bias *bias = NULL;
    infer_status st = section_of(l->file, CKPT_BIAS, 0, &section, l->err);
    if (st == INFER_OK && section->raw != c->bias_count * sizeof *bias)
        st = bad_state(l, "the number of biases");
    if (st == INFER_OK && c->bias_count) {
        bias = mem_array(a, (size_t)c->bias_count, sizeof *bias);
        st = bias ? read_section(l->file, CKPT_BIAS, bias, c->bias_count * sizeof *bias, l->err) : err_no_memory(l->err);
    }
    if (st == INFER_OK) {
        infer_sampling set = {.size = (uint32_t)sizeof set, .top_k = c->top_k, .temperature = c->temperature, .top_p = c->top_p,
                              .min_p = c->min_p, .typical_p = c->typical_p, .repetition_penalty = c->repetition_penalty,
                              .presence_penalty = c->presence_penalty, .frequency_penalty = c->frequency_penalty,
                              .penalty_last_n = c->penalty_last_n, .seed = c->seed, .bias = bias, .bias_count = c->bias_count,
                              .top_logprobs = c->top_logprobs, .logprobs = (int32_t)c->logprobs};
        st = sampler_set(&l->s->sampler, &set, l->err);
        if (st == INFER_ERROR_ARGUMENT || st == INFER_ERROR_TOKEN)
            st = bad_state(l, "a sampling setting");
    }
    mem_free(a, bias);
    return st;
}

/* ---- The whole */

static infer_status other(const struct kv_file *f, infer_error *err, const char *text)
{
    infer_status st = err_set(err, INFER_ERROR_VALUE, "%s", text);
    err_file(err, f->path, strlen(f->path));
    return st;
}

/* That the file fits the model and the library, each with its own reason. */
static infer_status check_origin(const struct loader *l, infer_model *m)
{
    const struct ckpt_state *c = l->state;
    struct model_fingerprint mine;
    struct hash_128 full[2];
    infer_status st = model_quick_fingerprint(m, &mine, l->err);
    if (st != INFER_OK)
        return st;
    if (!hash_128_equal(c->model[0], mine.model[0]) || !hash_128_equal(c->model[1], mine.model[1]))
        return other(l->file, l->err, "the checkpoint was made with another model");
    if (!hash_128_equal(c->tokenizer, mine.tokenizer))
        return other(l->file, l->err, "the checkpoint was made with another tokenizer");
    if (c->numerics_version != INFER_NUMERICS_VERSION)
        return other(l->file, l->err, "the checkpoint was made by a library of another numerics version, whose results have other bits");
    if (c->numerics != m->engine->numerics)
        return other(l->file, l->err, "the checkpoint was made by an engine with another numerics mode");
    if (l->o->adapters && c->adapters != l->o->adapters)
        return other(l->file, l->err, "the checkpoint was made with another set of adapters");
    if (c->kv_type < INFER_KV_F16 || c->kv_type > INFER_KV_MIXED_F32)
        return other(l->file, l->err, "the checkpoint has a KV type that this library does not know");
    if (!(c->flags & CKPT_FULL_MODEL))
        return INFER_OK;
    st = model_full_fingerprint(m, l->cancel, full, l->err);
    if (st == INFER_OK && (!hash_128_equal(full[0], c->model_full[0]) || !hash_128_equal(full[1], c->model_full[1])))
        st = other(l->file, l->err, "the checkpoint was made with another model: their samples are the same, their weights are not");
    return st;
}

static infer_status check_layout(const struct loader *l)
{
    const struct ckpt_state *c = l->state;
    const infer_session *s = l->s;
    bool same = c->page_elements == DEV_KV_PAGE && c->n_groups == NET_KV_GROUPS && c->kv_recent == s->kv_recent && c->n_ctx == s->n_ctx
                && c->n_embd == s->model->net->h.n_embd && c->n_logits == s->model->net->h.n_logits && c->n_vocab == session_vocab(s);
    for (uint32_t g = 0; g < NET_KV_GROUPS && same; g++)
        same = c->page_bytes[g] == s->kv[g].page_bytes && c->window[g] == s->kv[g].window;
    return same ? INFER_OK : other(l->file, l->err, "the checkpoint's pages have another layout");
}

static infer_status load_session(struct loader *l)
{
    infer_status st = check_layout(l);
    if (st == INFER_OK)
        st = ckpt_read_generation(l->s, l->file, l->state, l->err);
    if (st == INFER_OK)
        st = ckpt_read_sets(l->s, l->file, l->state->adapters, l->err);
    if (st == INFER_OK)
        st = load_elements(l);
    if (st == INFER_OK)
        st = load_rows(l);
    for (uint32_t g = 0; g < NET_KV_GROUPS && st == INFER_OK; g++)
        st = load_group(l, g);
    if (st == INFER_OK)
        st = load_logits(l);
    if (st == INFER_OK)
        st = load_sampling(l);
    l->s->approximate_from = l->state->approximate_from;
    pack_free(l->packer);
    return st;
}

static infer_status load(infer_model *model, struct loader *l, infer_checkpoint **out)
{
    infer_session_options o = {.size = (uint32_t)sizeof o, .n_ctx = l->state->n_ctx, .kv_type = l->state->kv_type,
                               .kv_recent = l->state->kv_recent};
    infer_status st = session_create(model, &o, &l->s, l->err);
    if (st == INFER_ERROR_ARGUMENT)
        st = bad_state(l, "the session's context length or KV mode");
    if (st != INFER_OK)
        return st;
    l->s->prefix.flags = INFER_CACHE_NO_INSERT; /* what is not whole must not be left behind when it goes */
    st = load_session(l);
    if (st == INFER_OK) {
        l->s->prefix.flags = 0;
        l->s->prefix.kept = l->s->computed; /* nor what is: whose salt belongs to it, the file does not say */
        st = checkpoint_wrap(l->s, out, l->err);
    }
    if (st != INFER_OK)
        session_release(l->s);
    return st;
}

static infer_status try_open(infer_model *model, const char *path, uint64_t len, const struct checkpoint_open_options *o,
                             const infer_cancel *cancel, infer_checkpoint **out, infer_error *err)
{
    struct ckpt_state state;
    struct kv_file_options fo = {KV_FILE_CHECKPOINT, o->map, ckpt_section_known};
    struct loader l = {.state = &state, .o = o, .cancel = cancel, .err = err};
    infer_status st = kv_file_open(model->engine->env, path, len, &fo, cancel, &l.file, err);
    if (st == INFER_OK)
        st = ckpt_read_state(l.file, &state, err);
    if (st == INFER_OK)
        st = check_cancel(&l);
    if (st == INFER_OK)
        st = check_origin(&l, model);
    if (st == INFER_OK)
        st = load(model, &l, out);
    if (st != INFER_OK && l.file)
        err_file(err, path, (size_t)len);
    kv_file_release(l.file);
    return st;
}

infer_status checkpoint_open(infer_model *model, const char *path, uint64_t len, const struct checkpoint_open_options *o,
                             const infer_cancel *cancel, infer_checkpoint **out, infer_error *err)
{
    infer_status st;
    do
        st = try_open(model, path, len, o, cancel, out, err);
    while (prefix_retry(model->engine, st, err));
    return st;
}
