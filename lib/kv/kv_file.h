/* The container that computed state is stored in: checkpoint files and the disk tier of the prefix cache. docs/checkpoint-format.md tells it
 * byte by byte. Sections are opaque here, but for three things: pages of computed state, which a map of the file gives in place; places, which
 * say where each page is and what its checksum is; and the name of a parent file, whose pages a delta file refers to.
 *
 * Writing: everything goes to a temporary name; kv_writer_commit lets the whole file appear. Reading: kv_file_open checks header, table, padding and
 * every section but the pages, and the same for all ancestors, before it gives anything; pages are checked by kv_place_check when their
 * user wants it. Every length and offset was checked when kv_file_open and kv_file_places return. */
#ifndef KV_KV_FILE_H
#define KV_KV_FILE_H

#include "base/cancel.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/source.h"

#define KV_FILE_VERSION 1u
#define KV_FILE_HEADER 4096u
#define KV_FILE_ALIGN 4096u /* of sections */
#define KV_PAGE_ALIGN 64u   /* of pages that are not compressed; their size is a multiple of it too */
#define KV_FILE_MAX_SECTIONS 1024u
#define KV_FILE_MAX_DEPTH 64u /* ancestors of a file */
#define KV_FILE_MAX_BYTES ((uint64_t)1 << 48)
#define KV_FILE_MAX_PAGES ((uint64_t)1 << 24) /* in one array of places */
#define KV_FILE_MAX_NAME 255u                 /* bytes of a parent's name */

enum kv_file_kind { KV_FILE_CHECKPOINT = 1, KV_FILE_CACHE = 2 };

/* Kinds of sections. The container's own lie below KV_SECTION_FIRST; the others belong to who writes the file. */
enum { KV_SECTION_PAGES = 1, KV_SECTION_PARENT = 2, KV_SECTION_FIRST = 16 };

/* Flags of sections. */
enum {
    KV_SECTION_REQUIRED = 1, /* a reader that does not know the kind must refuse the file */
    KV_SECTION_PACKED = 2    /* zstd */
};

struct kv_section {
    uint32_t kind, flags;
    uint64_t offset; /* in the file, a multiple of KV_FILE_ALIGN */
    uint64_t stored; /* bytes in the file */
    uint64_t raw;    /* bytes when expanded */
    uint64_t hash;   /* hash_64 of the stored bytes; 0 for PAGES */
    uint64_t tag;    /* the writer's, such as a group's number */
    uint64_t reserved[2]; /* 0 */
};

/* Flags of places. */
enum { KV_PLACE_PACKED = 1 };
#define KV_PLACE_NONE UINT32_MAX /* as source: there is no such page */

/* Where a page is. */
struct kv_place {
    uint64_t offset, stored; /* in that file */
    uint64_t hash;           /* hash_64 of the page's bytes */
    uint64_t packed_hash;    /* of the stored bytes when PACKED; else 0 */
    uint32_t source;         /* 0: this file; n: its n-th ancestor; KV_PLACE_NONE */
    uint32_t flags;
};

/* ---- Reading */

struct kv_file {
    struct ref ref;
    const struct env *env; /* a reference */
    struct blob blob;
    char *path; /* zero-terminated */
    uint32_t kind, depth;
    struct hash_128 id;         /* of the content: a file with another id is another file */
    struct kv_section *sections; /* [n_sections], in the order of their offsets */
    uint32_t n_sections;
    struct kv_file *parent;     /* opened too, or NULL */
};

struct kv_file_options {
    enum kv_file_kind kind;
    int32_t map;                   /* INFER_MAP_* */
    bool (*known)(uint32_t kind);  /* of sections, from KV_SECTION_FIRST on; NULL: none is known */
};

/* Errors name the file and the offset: NOT_FOUND, IO, FORMAT (not such a file, or damaged), TRUNCATED, UNSUPPORTED (a newer version, a required
 * section that is not known, no xxHash in this build), CHANGED (a parent that is not the one), LIMIT, CANCELLED, NO_MEMORY. */
infer_status kv_file_open(const struct env *env, const char *path, uint64_t len, const struct kv_file_options *o,
                          const infer_cancel *cancel, struct kv_file **out, infer_error *err);
struct kv_file *kv_file_ref(struct kv_file *f);
void kv_file_release(struct kv_file *f); /* may be NULL */
/* The n-th ancestor, 0: f itself; NULL: there is none. */
struct kv_file *kv_file_ancestor(struct kv_file *f, uint32_t n);
/* CHANGED when the file or an ancestor has become shorter since it was mapped (best effort). */
infer_status kv_file_check(const struct kv_file *f, infer_error *err);
/* NULL: there is none of this kind and tag. */
const struct kv_section *kv_file_find(const struct kv_file *f, uint32_t kind, uint64_t tag);
/* A section's raw bytes, which must be `bytes` many (FORMAT otherwise; UINT64_MAX: any number, up to 2^32). *owned: from env->alloc, to be freed by
 * the caller, or NULL when *data lies in the file. Aligned to 16 at least. */
infer_status kv_file_data(const struct kv_file *f, const struct kv_section *s, uint64_t bytes, const void **data, void **owned,
                          infer_error *err);
/* A section as places of pages of page_bytes each, all checked to lie within pages of their files. *owned as above. */
infer_status kv_file_places(struct kv_file *f, const struct kv_section *s, uint64_t page_bytes, const struct kv_place **places,
                            uint64_t *n, void **owned, infer_error *err);
/* The bytes of a place of kv_file_places, packed or not. Not for KV_PLACE_NONE. */
const void *kv_place_data(struct kv_file *f, const struct kv_place *p);
/* FORMAT when the bytes in the file do not have their checksum. */
infer_status kv_place_check(struct kv_file *f, const struct kv_place *p, infer_error *err);

/* FORMAT, with the file's name. */
infer_status kv_file_bad(const struct kv_file *f, uint64_t offset, infer_error *err, const char *fmt, ...) BASE_PRINTF(4, 5);

/* ---- Writing */

struct kv_writer; /* for one thread */

struct kv_writer_options {
    enum kv_file_kind kind;
    int level;                /* of zstd; 0: not compressed */
    const struct kv_file *parent; /* whose pages will be referred to: in the same folder; or NULL */
    uint64_t max_bytes;           /* a longer file is refused with LIMIT; 0: no limit */
    bool keep;                    /* a file that has the name stays: EXISTS */
    const infer_cancel *cancel;   /* or NULL: ends any call but that of abort with CANCELLED */
};

/* Errors: as outfile_begin; UNSUPPORTED (no xxHash, no zstd), ARGUMENT (level, parent in another folder), LIMIT (too many ancestors). */
infer_status kv_writer_open(const struct env *env, const char *path, uint64_t len, const struct kv_writer_options *o,
                            struct kv_writer **out, infer_error *err);
/* Appends a page; a multiple of KV_PAGE_ALIGN bytes. All pages come before or after a section, not in between pieces of it: order is free. */
infer_status kv_writer_page(struct kv_writer *w, const void *data, uint64_t bytes, struct kv_place *place, infer_error *err);
/* Kinds from KV_SECTION_FIRST on; (kind, tag) is unique. flags: KV_SECTION_REQUIRED or 0. Places are written as arrays of struct kv_place. */
infer_status kv_writer_section(struct kv_writer *w, uint32_t kind, uint32_t flags, uint64_t tag, const void *data, uint64_t bytes,
                               infer_error *err);
uint64_t kv_writer_bytes(const struct kv_writer *w); /* so far */
/* Ends the writer in any case. durable: see outfile_commit. id, may be NULL: of the file. */
infer_status kv_writer_commit(struct kv_writer *w, bool durable, struct hash_128 *id, infer_error *err);
void kv_writer_abort(struct kv_writer *w); /* may be NULL */

/* ---- Both */

struct kv_file_header {
    char magic[8];
    uint32_t version, header_bytes;
    uint64_t file_bytes;
    uint32_t kind, depth;
    struct hash_128 id, parent_id;
    uint64_t table_offset;
    uint32_t n_sections, entry_bytes;
    uint64_t table_hash; /* hash_64 */
    uint8_t reserved[4000];
    uint64_t hash; /* hash_64 of all before it */
};
extern const char kv_file_magic[8];
struct hash_128 kv_file_make_id(const struct kv_file_header *h, const struct kv_section *table);

#endif
