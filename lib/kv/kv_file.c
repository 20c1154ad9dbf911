#include "kv/kv_file.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/outfile.h"
#include "base/pack.h"

_Static_assert(sizeof(struct kv_file_header) == KV_FILE_HEADER, "the header is a fixed format");
_Static_assert(offsetof(struct kv_file_header, reserved) == 88, "the header is a fixed format");
_Static_assert(sizeof(struct kv_section) == 64, "the table is a fixed format");
_Static_assert(sizeof(struct kv_place) == 40, "places are a fixed format");

#define MAX_UNKNOWN_BYTES ((uint64_t)1 << 32)

/* A byte above 127, and line ends of both kinds: damage by transfers as text shows. */
const char kv_file_magic[8] = "\x89IKV\r\n\x1a\n";

infer_status kv_file_bad(const struct kv_file *f, uint64_t offset, infer_error *err, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    infer_status st = err_at(err, INFER_ERROR_FORMAT, NULL, 0, offset, "%s", text);
    err_file(err, f->path, strlen(f->path));
    return st;
}

struct hash_128 kv_file_make_id(const struct kv_file_header *h, const struct kv_section *table)
{
    struct {
        uint32_t kind, depth;
        struct hash_128 parent;
    } seed = {h->kind, h->depth, h->parent_id};
    return hash_128(table, h->n_sections * sizeof *table, hash_64(&seed, sizeof seed));
}

/* ---- Opening */

static infer_status refuse(const struct kv_file *f, infer_status st, infer_error *err, const char *text)
{
    st = err_at(err, st, NULL, 0, 0, "%s", text);
    err_file(err, f->path, strlen(f->path));
    return st;
}

static infer_status check_header(const struct kv_file *f, const struct kv_file_header *h, enum kv_file_kind kind, infer_error *err)
{
    uint64_t table_bytes = (uint64_t)h->n_sections * sizeof(struct kv_section), end;
    if (memcmp(h->magic, kv_file_magic, sizeof h->magic) != 0)
        return kv_file_bad(f, 0, err, "not a file of libinfer's computed state");
    if (h->version > KV_FILE_VERSION)
        return refuse(f, INFER_ERROR_UNSUPPORTED, err, "the file was written by a newer version of libinfer");
    if (h->hash != hash_64(h, offsetof(struct kv_file_header, hash)))
        return kv_file_bad(f, 0, err, "the header is damaged");
    if (h->version != KV_FILE_VERSION || h->header_bytes != KV_FILE_HEADER || h->entry_bytes != sizeof(struct kv_section))
        return kv_file_bad(f, 8, err, "the header states impossible sizes");
    if (h->file_bytes > KV_FILE_MAX_BYTES || h->n_sections > KV_FILE_MAX_SECTIONS || h->depth > KV_FILE_MAX_DEPTH)
        return refuse(f, INFER_ERROR_LIMIT, err, "the file is beyond the format's limits");
    if (f->blob.size < h->file_bytes)
        return refuse(f, INFER_ERROR_TRUNCATED, err, "the file is cut short");
    if (f->blob.size > h->file_bytes)
        return kv_file_bad(f, h->file_bytes, err, "there are bytes behind the file's end");
    if (h->kind != kind)
        return refuse(f, INFER_ERROR_FORMAT, err, h->kind == KV_FILE_CACHE ? "the file belongs to a prefix cache; it is no checkpoint"
                                                                            : "the file is not of the kind that is wanted");
    if (h->table_offset % KV_FILE_ALIGN || h->table_offset < KV_FILE_HEADER || !checked_add(h->table_offset, table_bytes, &end)
        || end != h->file_bytes)
        return kv_file_bad(f, 72, err, "the section table does not lie at the end of the file");
    if (!h->depth && (h->parent_id.lo || h->parent_id.hi))
        return kv_file_bad(f, offsetof(struct kv_file_header, parent_id), err, "the header names a parent that the file does not have");
    for (size_t i = 0; i < sizeof h->reserved; i++)
        if (h->reserved[i])
            return kv_file_bad(f, 88 + i, err, "a reserved byte of the header is set");
    return INFER_OK;
}

static bool all_zero(const uint8_t *p, uint64_t n)
{
    uint8_t any = 0;
    for (uint64_t i = 0; i < n; i++)
        any |= p[i];
    return any == 0;
}

/* *at: where the section has to begin; moved to where the next one has. Nothing was assumed about s. */
static infer_status check_section(const struct kv_file *f, const struct kv_section *s, uint64_t table, uint64_t *at, infer_error *err)
{
    uint64_t end, next;
    bool pages = s->kind == KV_SECTION_PAGES, packed = s->flags & KV_SECTION_PACKED;
    if (s->offset != *at || !checked_add(s->offset, s->stored, &end) || end > table || !checked_align(end, KV_FILE_ALIGN, &next)
        || next > table)
        return kv_file_bad(f, table, err, "a section does not lie where it has to");
    if (s->flags & ~(uint32_t)(KV_SECTION_REQUIRED | KV_SECTION_PACKED) || s->reserved[0] || s->reserved[1]
        || (!packed && s->raw != s->stored) || s->raw > KV_FILE_MAX_BYTES || (pages && (packed || s->hash)))
        return kv_file_bad(f, table, err, "a section of kind %u has an impossible entry in the table", s->kind);
    if (!all_zero(f->blob.data + end, next - end))
        return kv_file_bad(f, end, err, "the padding behind a section is damaged");
    if (!pages && hash_64(f->blob.data + s->offset, (size_t)s->stored) != s->hash)
        return kv_file_bad(f, s->offset, err, "a section of kind %u is damaged", s->kind);
    *at = next;
    return INFER_OK;
}

static infer_status check_known(const struct kv_file *f, uint32_t i, const struct kv_file_options *o, infer_error *err)
{
    const struct kv_section *s = &f->sections[i];
    bool known = s->kind == KV_SECTION_PAGES || s->kind == KV_SECTION_PARENT
                 || (s->kind >= KV_SECTION_FIRST && o->known && o->known(s->kind));
    if (!known && (s->flags & KV_SECTION_REQUIRED))
        return refuse(f, INFER_ERROR_UNSUPPORTED, err, "the file has a part that this version of libinfer does not know and may not ignore");
    for (uint32_t k = 0; k < i && s->kind != KV_SECTION_PAGES; k++)
        if (f->sections[k].kind == s->kind && f->sections[k].tag == s->tag)
            return kv_file_bad(f, s->offset, err, "two sections of kind %u are the same", s->kind);
    return INFER_OK;
}

static infer_status read_table(struct kv_file *f, const struct kv_file_header *h, const struct kv_file_options *o, infer_error *err)
{
    uint64_t at = KV_FILE_HEADER, bytes = h->n_sections * sizeof *f->sections;
    const uint8_t *table = f->blob.data + h->table_offset;
    if (hash_64(table, (size_t)bytes) != h->table_hash)
        return kv_file_bad(f, h->table_offset, err, "the section table is damaged");
    f->sections = mem_alloc(&f->env->alloc, (size_t)bytes);
    if (!f->sections)
        return err_no_memory(err);
    memcpy(f->sections, table, (size_t)bytes);
    f->n_sections = h->n_sections;
    infer_status st = INFER_OK;
    for (uint32_t i = 0; i < f->n_sections && st == INFER_OK; i++) {
        st = check_section(f, &f->sections[i], h->table_offset, &at, err);
        if (st == INFER_OK)
            st = check_known(f, i, o, err);
    }
    if (st == INFER_OK && at != h->table_offset)
        st = kv_file_bad(f, at, err, "there are bytes that belong to no section");
    f->id = kv_file_make_id(h, f->sections);
    if (st == INFER_OK && !hash_128_equal(f->id, h->id))
        st = kv_file_bad(f, offsetof(struct kv_file_header, id), err, "the file's identity does not fit its content");
    return st;
}

/* A plain name in the same folder, so that a file from somewhere cannot make us open another place. */
static bool plain_name(const char *name, uint64_t n)
{
    if (n == 0 || n > KV_FILE_MAX_NAME || (n <= 2 && name[0] == '.' && name[n - 1] == '.'))
        return false;
    for (uint64_t i = 0; i < n; i++)
        if (!name[i] || name[i] == '/' || name[i] == '\\' || name[i] == ':')
            return false;
    return true;
}

static infer_status open_one(const struct env *env, const char *path, uint64_t len, const struct kv_file_options *o,
                             const infer_cancel *cancel, struct kv_file **out, infer_error *err);

/* The file beside f that its PARENT section names. */
static infer_status open_beside(struct kv_file *f, const char *name, uint64_t n, const struct kv_file_options *o,
                                const infer_cancel *cancel, struct kv_file **out, infer_error *err)
{
    char *dir = outfile_dir(f->env, f->path, strlen(f->path)), *path = NULL;
    size_t cap = (dir ? strlen(dir) : 0) + (size_t)n + 2;
    if (dir)
        path = mem_alloc(&f->env->alloc, cap);
    infer_status st = path ? INFER_OK : err_no_memory(err);
    if (st == INFER_OK) {
        bool bare = strcmp(dir, ".") == 0;
        snprintf(path, cap, "%s%.*s", bare ? "" : dir, (int)n, name);
        st = open_one(f->env, path, strlen(path), o, cancel, out, err);
        if (st == INFER_ERROR_NOT_FOUND && err)
            snprintf(err->text, sizeof err->text, "the parent of this delta file is missing");
    }
    mem_free(&f->env->alloc, dir);
    mem_free(&f->env->alloc, path);
    return st;
}

/* f's parent, but not yet the parent's. */
static infer_status open_parent(struct kv_file *f, const struct kv_file_options *o, const infer_cancel *cancel, infer_error *err)
{
    const struct kv_file_header *h = (const struct kv_file_header *)f->blob.data;
    const struct kv_section *s = kv_file_find(f, KV_SECTION_PARENT, 0);
    const void *name;
    void *owned = NULL;
    if (!f->depth != !s)
        return kv_file_bad(f, 28, err, "the file's depth and its parent do not fit");
    if (!s)
        return INFER_OK;
    infer_status st = kv_file_data(f, s, UINT64_MAX, &name, &owned, err);
    if (st == INFER_OK && !plain_name(name, s->raw))
        st = kv_file_bad(f, s->offset, err, "the parent's name is not the plain name of a file");
    if (st == INFER_OK)
        st = open_beside(f, name, s->raw, o, cancel, &f->parent, err);
    mem_free(&f->env->alloc, owned);
    if (st != INFER_OK)
        return st;
    if (!hash_128_equal(f->parent->id, h->parent_id) || f->parent->depth + 1 != f->depth)
        return refuse(f->parent, INFER_ERROR_CHANGED, err, "this is not the parent that the delta file was made from");
    return INFER_OK;
}

/* A file without its ancestors. */
static infer_status open_one(const struct env *env, const char *path, uint64_t len, const struct kv_file_options *o,
                             const infer_cancel *cancel, struct kv_file **out, infer_error *err)
{
    infer_source source = {.size = (uint32_t)sizeof source, .kind = INFER_SOURCE_PATH, .name = path, .name_len = len};
    struct kv_file *f = mem_zalloc(&env->alloc, sizeof *f);
    if (!f)
        return err_no_memory(err);
    ref_init(&f->ref);
    f->env = env_ref(env);
    f->blob.fd = -1;
    f->path = mem_strdup(&env->alloc, path ? path : "", path ? (size_t)len : 0);
    infer_status st = f->path ? blob_open(env, &source, path, len, o->map, cancel, &f->blob, err) : err_no_memory(err);
    const struct kv_file_header *h = (const struct kv_file_header *)f->blob.data;
    if (st == INFER_OK && f->blob.size < KV_FILE_HEADER)
        st = f->blob.size >= sizeof kv_file_magic && memcmp(h, kv_file_magic, sizeof kv_file_magic) == 0
                 ? refuse(f, INFER_ERROR_TRUNCATED, err, "the file is cut short")
                 : kv_file_bad(f, 0, err, "not a file of libinfer's computed state");
    if (st == INFER_OK)
        st = check_header(f, h, o->kind, err);
    if (st == INFER_OK) {
        f->kind = h->kind;
        f->depth = h->depth;
        st = read_table(f, h, o, err);
    }
    if (st != INFER_OK) {
        kv_file_release(f);
        return st;
    }
    *out = f;
    return INFER_OK;
}

infer_status kv_file_open(const struct env *env, const char *path, uint64_t len, const struct kv_file_options *o,
                          const infer_cancel *cancel, struct kv_file **out, infer_error *err)
{
    struct kv_file *f = NULL;
    if (!hash_available())
        return err_set(err, INFER_ERROR_UNSUPPORTED, "this build of libinfer has no xxHash, so it reads and writes no files of computed state");
    infer_status st = open_one(env, path, len, o, cancel, &f, err);
    for (struct kv_file *a = f; st == INFER_OK && a; a = a->parent) /* depth falls by one each time, so this ends */
        st = open_parent(a, o, cancel, err);
    if (st != INFER_OK) {
        kv_file_release(f);
        return st;
    }
    *out = f;
    return INFER_OK;
}

struct kv_file *kv_file_ref(struct kv_file *f)
{
    ref_get(&f->ref);
    return f;
}

void kv_file_release(struct kv_file *f)
{
    while (f && ref_put(&f->ref)) {
        struct kv_file *parent = f->parent;
        const struct env *env = f->env;
        blob_close(&f->blob);
        mem_free(&env->alloc, f->path);
        mem_free(&env->alloc, f->sections);
        mem_free(&env->alloc, f);
        env_release(env);
        f = parent;
    }
}

struct kv_file *kv_file_ancestor(struct kv_file *f, uint32_t n)
{
    for (; f && n; n--)
        f = f->parent;
    return f;
}

infer_status kv_file_check(const struct kv_file *f, infer_error *err)
{
    for (; f; f = f->parent) {
        infer_status st = blob_check(&f->blob, err);
        if (st != INFER_OK) {
            err_file(err, f->path, strlen(f->path));
            return st;
        }
    }
    return INFER_OK;
}

/* ---- Sections */

const struct kv_section *kv_file_find(const struct kv_file *f, uint32_t kind, uint64_t tag)
{
    for (uint32_t i = 0; i < f->n_sections; i++)
        if (f->sections[i].kind == kind && f->sections[i].tag == tag)
            return &f->sections[i];
    return NULL;
}

infer_status kv_file_data(const struct kv_file *f, const struct kv_section *s, uint64_t bytes, const void **data, void **owned,
                          infer_error *err)
{
    struct packer *p = NULL;
    *owned = NULL;
    if (bytes == UINT64_MAX ? s->raw > MAX_UNKNOWN_BYTES : s->raw != bytes)
        return kv_file_bad(f, s->offset, err, "a section of kind %u has %llu bytes, which does not fit the rest", s->kind,
                           (unsigned long long)s->raw);
    *data = f->blob.data + s->offset;
    if (!(s->flags & KV_SECTION_PACKED))
        return INFER_OK;
    void *room = s->raw > SIZE_MAX ? NULL : mem_alloc(&f->env->alloc, (size_t)s->raw);
    infer_status st = room ? pack_create(&f->env->alloc, 0, &p, err) : err_no_memory(err);
    if (st == INFER_OK)
        st = pack_expand(p, room, (size_t)s->raw, *data, (size_t)s->stored, err);
    pack_free(p);
    if (st != INFER_OK) {
        mem_free(&f->env->alloc, room);
        err_file(err, f->path, strlen(f->path));
        return st;
    }
    *data = *owned = room;
    return INFER_OK;
}

/* ---- Pages */

/* Whether [offset, offset + stored) lies within one section of pages of f. */
static bool within_pages(const struct kv_file *f, uint64_t offset, uint64_t stored)
{
    for (uint32_t i = 0; i < f->n_sections; i++) {
        const struct kv_section *s = &f->sections[i];
        if (s->kind == KV_SECTION_PAGES && offset >= s->offset && stored <= s->stored && offset - s->offset <= s->stored - stored)
            return true;
    }
    return false;
}

static bool place_ok(const struct kv_file *f, const struct kv_place *p, uint64_t page_bytes)
{
    if (p->source == KV_PLACE_NONE)
        return p->offset == 0 && p->stored == 0 && p->hash == 0 && p->packed_hash == 0 && p->flags == 0;
    if (p->source > f->depth || p->flags & ~(uint32_t)KV_PLACE_PACKED)
        return false;
    if (!(p->flags & KV_PLACE_PACKED) && (p->stored != page_bytes || p->offset % KV_PAGE_ALIGN || p->packed_hash))
        return false;
    for (uint32_t i = 0; i < p->source; i++)
        f = f->parent;
    return within_pages(f, p->offset, p->stored);
}

infer_status kv_file_places(struct kv_file *f, const struct kv_section *s, uint64_t page_bytes, const struct kv_place **places,
                            uint64_t *n, void **owned, infer_error *err)
{
    const void *data;
    uint64_t count = s->raw / sizeof **places;
    *owned = NULL;
    if (s->raw % sizeof **places || count > KV_FILE_MAX_PAGES || page_bytes == 0 || page_bytes % KV_PAGE_ALIGN)
        return kv_file_bad(f, s->offset, err, "an index of pages has an impossible length");
    infer_status st = kv_file_data(f, s, s->raw, &data, owned, err);
    if (st != INFER_OK)
        return st;
    *places = data;
    for (uint64_t i = 0; i < count; i++)
        if (!place_ok(f, &(*places)[i], page_bytes)) {
            mem_free(&f->env->alloc, *owned);
            *owned = NULL;
            return kv_file_bad(f, s->offset, err, "page %llu of an index does not lie in the file's pages", (unsigned long long)i);
        }
    *n = count;
    return INFER_OK;
}

const void *kv_place_data(struct kv_file *f, const struct kv_place *p)
{
    return kv_file_ancestor(f, p->source)->blob.data + p->offset;
}

infer_status kv_place_check(struct kv_file *f, const struct kv_place *p, infer_error *err)
{
    uint64_t want = p->flags & KV_PLACE_PACKED ? p->packed_hash : p->hash;
    if (hash_64(kv_place_data(f, p), (size_t)p->stored) == want)
        return INFER_OK;
    return kv_file_bad(kv_file_ancestor(f, p->source), p->offset, err, "a page of computed state is damaged");
}
