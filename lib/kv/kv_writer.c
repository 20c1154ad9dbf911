/* The writing half of kv_file.h. */
#include <stddef.h>
#include <string.h>

#include "base/outfile.h"
#include "base/pack.h"
#include "kv/kv_file.h"

struct kv_writer {
    const struct env *env; /* a reference */
    struct outfile out;
    struct kv_file_header header;
    struct kv_section *sections; /* [KV_FILE_MAX_SECTIONS grown as needed] */
    uint32_t n_sections, cap;
    bool in_pages; /* the last section is one of pages, and open */
    struct packer *packer; /* NULL: not compressed */
    void *room;            /* for compressed bytes */
    size_t room_bytes;
    uint64_t max_bytes;
    bool keep;
};

static const char *base_name(const char *path)
{
    const char *base = path;
    for (; *path; path++)
        if (*path == '/' || *path == '\\')
            base = path + 1;
    return base;
}

/* The folders of two paths, compared as they are written. */
static bool same_folder(const struct kv_file *parent, const char *path, uint64_t len)
{
    const char *base = base_name(parent->path);
    uint64_t n = (uint64_t)(base - parent->path), m = len;
    while (m > 0 && path[m - 1] != '/' && path[m - 1] != '\\')
        m--;
    return n == m && memcmp(parent->path, path, (size_t)n) == 0;
}

static infer_status add_section(struct kv_writer *w, const struct kv_section *s, infer_error *err)
{
    if (w->n_sections == KV_FILE_MAX_SECTIONS)
        return err_set(err, INFER_ERROR_LIMIT, "a file has at most %u sections", KV_FILE_MAX_SECTIONS);
    if (w->n_sections == w->cap) {
        uint32_t cap = w->cap ? w->cap * 2 : 16;
        struct kv_section *p = mem_grow(&w->env->alloc, w->sections, cap * sizeof *p);
        if (!p)
            return err_no_memory(err);
        w->sections = p;
        w->cap = cap;
    }
    w->sections[w->n_sections++] = *s;
    return INFER_OK;
}

static infer_status set_parent(struct kv_writer *w, const char *path, uint64_t len, const struct kv_file *parent, infer_error *err)
{
    const char *name = base_name(parent->path);
    if (parent->depth == KV_FILE_MAX_DEPTH)
        return err_set(err, INFER_ERROR_LIMIT, "the parent has %u ancestors already: save this one without a parent", KV_FILE_MAX_DEPTH);
    if (!same_folder(parent, path, len) || strlen(name) > KV_FILE_MAX_NAME)
        return err_at(err, INFER_ERROR_ARGUMENT, "parent", 6, ERR_NO_OFFSET, "a delta file lies in the folder of its parent");
    w->header.depth = parent->depth + 1;
    w->header.parent_id = parent->id;
    return kv_writer_section(w, KV_SECTION_PARENT, KV_SECTION_REQUIRED, 0, name, strlen(name), err);
}

infer_status kv_writer_open(const struct env *env, const char *path, uint64_t len, const struct kv_writer_options *o,
                            struct kv_writer **out, infer_error *err)
{
    static const uint8_t zeros[KV_FILE_HEADER];
    if (!hash_available())
        return err_set(err, INFER_ERROR_UNSUPPORTED, "this build of libinfer has no xxHash, so it reads and writes no files of computed state");
    struct kv_writer *w = mem_zalloc(&env->alloc, sizeof *w);
    if (!w)
        return err_no_memory(err);
    w->env = env_ref(env);
    memcpy(w->header.magic, kv_file_magic, sizeof kv_file_magic);
    w->header.version = KV_FILE_VERSION;
    w->header.header_bytes = KV_FILE_HEADER;
    w->header.entry_bytes = (uint32_t)sizeof(struct kv_section);
    w->header.kind = (uint32_t)o->kind;
    w->max_bytes = o->max_bytes && o->max_bytes < KV_FILE_MAX_BYTES ? o->max_bytes : KV_FILE_MAX_BYTES;
    w->keep = o->keep;
    infer_status st = o->level ? pack_create(&env->alloc, o->level, &w->packer, err) : INFER_OK;
    if (st == INFER_OK)
        st = outfile_begin(&w->out, env, path, len, err);
    w->out.cancel = o->cancel;
    if (st == INFER_OK)
        st = outfile_put(&w->out, zeros, sizeof zeros, err); /* the header comes last */
    if (st == INFER_OK && o->parent)
        st = set_parent(w, path, len, o->parent, err);
    if (st != INFER_OK) {
        kv_writer_abort(w);
        return st;
    }
    *out = w;
    return INFER_OK;
}

static void writer_free(struct kv_writer *w)
{
    const struct env *env = w->env;
    pack_free(w->packer);
    mem_free(&env->alloc, w->sections);
    mem_free(&env->alloc, w->room);
    mem_free(&env->alloc, w);
    env_release(env);
}

void kv_writer_abort(struct kv_writer *w)
{
    if (!w)
        return;
    outfile_abort(&w->out);
    writer_free(w);
}

/* *data and *n become what is to be stored. */
static infer_status pack(struct kv_writer *w, const void **data, uint64_t *n, infer_error *err)
{
    size_t need = *n > SIZE_MAX ? 0 : pack_bound((size_t)*n), got = 0;
    if (!need)
        return err_no_memory(err);
    if (need > w->room_bytes) {
        void *p = mem_alloc(&w->env->alloc, need);
        if (!p)
            return err_no_memory(err);
        mem_free(&w->env->alloc, w->room);
        w->room = p;
        w->room_bytes = need;
    }
    infer_status st = pack_block(w->packer, w->room, w->room_bytes, *data, (size_t)*n, &got, err);
    if (st == INFER_OK) {
        *data = w->room;
        *n = got;
    }
    return st;
}

infer_status kv_writer_page(struct kv_writer *w, const void *data, uint64_t bytes, struct kv_place *place, infer_error *err)
{
    struct kv_place p = {.stored = bytes, .hash = hash_64(data, (size_t)bytes)};
    infer_status st = INFER_OK;
    if (bytes == 0 || bytes % KV_PAGE_ALIGN)
        return err_set(err, INFER_ERROR_ARGUMENT, "a page is a multiple of %u bytes", KV_PAGE_ALIGN);
    if (!w->in_pages) {
        st = outfile_skip(&w->out, KV_FILE_ALIGN, err);
        if (st == INFER_OK)
            st = add_section(w, &(struct kv_section){.kind = KV_SECTION_PAGES, .flags = KV_SECTION_REQUIRED, .offset = w->out.at}, err);
        w->in_pages = st == INFER_OK;
    }
    if (st == INFER_OK && w->packer) {
        st = pack(w, &data, &p.stored, err);
        p.flags = KV_PLACE_PACKED;
        p.packed_hash = st == INFER_OK ? hash_64(data, (size_t)p.stored) : 0;
    }
    p.offset = w->out.at;
    if (st == INFER_OK)
        st = outfile_put(&w->out, data, p.stored, err);
    if (st != INFER_OK)
        return st;
    struct kv_section *s = &w->sections[w->n_sections - 1];
    s->stored += p.stored;
    s->raw = s->stored;
    *place = p;
    return INFER_OK;
}

infer_status kv_writer_section(struct kv_writer *w, uint32_t kind, uint32_t flags, uint64_t tag, const void *data, uint64_t bytes,
                               infer_error *err)
{
    struct kv_section s = {.kind = kind, .flags = flags, .stored = bytes, .raw = bytes, .tag = tag};
    infer_status st = INFER_OK;
    w->in_pages = false;
    if (w->packer && bytes && kind >= KV_SECTION_FIRST) {
        st = pack(w, &data, &s.stored, err);
        s.flags |= KV_SECTION_PACKED;
    }
    if (st == INFER_OK)
        st = outfile_skip(&w->out, KV_FILE_ALIGN, err);
    if (st != INFER_OK)
        return st;
    s.offset = w->out.at;
    if (!hash_64_polled(data, (size_t)s.stored, w->out.cancel, &s.hash))
        return err_set(err, INFER_ERROR_CANCELLED, "cancelled while writing the file");
    st = outfile_put(&w->out, data, s.stored, err);
    return st == INFER_OK ? add_section(w, &s, err) : st;
}

uint64_t kv_writer_bytes(const struct kv_writer *w)
{
    return w->out.at;
}

infer_status kv_writer_commit(struct kv_writer *w, bool durable, struct hash_128 *id, infer_error *err)
{
    struct kv_file_header *h = &w->header;
    uint64_t table_bytes = w->n_sections * sizeof *w->sections;
    infer_status st = outfile_skip(&w->out, KV_FILE_ALIGN, err);
    h->table_offset = w->out.at;
    h->n_sections = w->n_sections;
    if (st == INFER_OK)
        st = outfile_put(&w->out, w->sections, table_bytes, err);
    if (st == INFER_OK && w->out.at > w->max_bytes)
        st = err_set(err, INFER_ERROR_LIMIT, "the file has %llu bytes; at most %llu are allowed", (unsigned long long)w->out.at,
                     (unsigned long long)w->max_bytes);
    if (st == INFER_OK) {
        h->file_bytes = w->out.at;
        h->table_hash = hash_64(w->sections, (size_t)table_bytes);
        h->id = kv_file_make_id(h, w->sections);
        h->hash = hash_64(h, offsetof(struct kv_file_header, hash));
        st = outfile_put_at(&w->out, 0, h, sizeof *h, err);
    }
    if (st == INFER_OK)
        st = w->keep ? outfile_commit_new(&w->out, durable, err) : outfile_commit(&w->out, durable, err);
    else
        outfile_abort(&w->out);
    if (st == INFER_OK && id)
        *id = h->id;
    writer_free(w);
    return st;
}
