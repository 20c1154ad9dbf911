#include "formats/zip.h"

#include <string.h>

#include "base/cursor.h"
#include "base/sort.h"
#include "base/utf8.h"

#define LOCAL_SIG   0x04034b50u
#define CENTRAL_SIG 0x02014b50u
#define END_SIG     0x06054b50u
#define END64_SIG   0x06064b50u
#define LOCATOR_SIG 0x07064b50u
#define LOCAL_BYTES 30u /* without name and extra field */
#define CENTRAL_BYTES 46u
#define END_BYTES 22u
#define END64_BYTES 56u
#define LOCATOR_BYTES 20u
#define MAX_COMMENT 65535u
#define FLAG_ENCRYPTED 1u
#define FLAG_SIZES_BEHIND 8u /* sizes of the local header are 0: they follow the data */
#define MAX32 0xFFFFFFFFu

struct directory {
    uint64_t n, offset, size;
    uint64_t end; /* what follows the directory begins here */
};

struct reader {
    struct zip *z;
    const infer_cancel *cancel;
    infer_error *err;
};

#define FAIL(r, st, e, at, ...) err_at((r)->err, st, (e)->name.data, (size_t)(e)->name.len, at, __VA_ARGS__)

bool zip_is(const struct blob *blob)
{
    return blob->size >= 4 && (memcmp(blob->data, "PK\3\4", 4) == 0 || memcmp(blob->data, "PK\5\6", 4) == 0);
}

static struct cursor at(const struct blob *b, uint64_t offset)
{
    struct cursor c = cursor_of(b->data, b->size);
    cursor_take(&c, offset);
    return c;
}

/* ---- The end of the directory ---- */

/* The last place that could hold the end record, whose comment reaches to the end of the file. */
static bool find_end(const struct blob *b, uint64_t *out)
{
    for (uint64_t back = END_BYTES; back <= b->size && back <= END_BYTES + MAX_COMMENT; back++) {
        struct cursor c = at(b, b->size - back);
        if (cursor_u32(&c) != END_SIG)
            continue;
        cursor_take(&c, 16);
        if (cursor_u16(&c) == back - END_BYTES) {
            *out = b->size - back;
            return true;
        }
    }
    return false;
}

static infer_status bad_end(struct reader *r, uint64_t offset, const char *what)
{
    return err_at(r->err, INFER_ERROR_FORMAT, NULL, 0, offset, "the zip archive's directory %s", what);
}

/* The 64-bit form of the end record, told by the locator before the 32-bit one. */
static infer_status read_end64(struct reader *r, uint64_t end, struct directory *d)
{
    const struct blob *b = r->z->blob;
    struct cursor c = at(b, end - LOCATOR_BYTES);
    cursor_take(&c, 4);
    uint32_t disk = cursor_u32(&c);
    uint64_t where = cursor_u64(&c);
    if (disk || cursor_u32(&c) > 1)
        return err_at(r->err, INFER_ERROR_UNSUPPORTED, NULL, 0, end, "a zip archive on several disks");
    if (where > end - LOCATOR_BYTES || end - LOCATOR_BYTES - where < END64_BYTES)
        return bad_end(r, end, "has its 64-bit end in a place that cannot be");
    c = at(b, where);
    if (cursor_u32(&c) != END64_SIG)
        return bad_end(r, where, "has no 64-bit end where it says");
    cursor_take(&c, 20); /* its size, versions, disks */
    uint64_t here = cursor_u64(&c);
    d->n = cursor_u64(&c);
    d->size = cursor_u64(&c);
    d->offset = cursor_u64(&c);
    d->end = where;
    return here == d->n ? INFER_OK : err_at(r->err, INFER_ERROR_UNSUPPORTED, NULL, 0, where, "a zip archive on several disks");
}

static infer_status read_end(struct reader *r, struct directory *d)
{
    const struct blob *b = r->z->blob;
    uint64_t end;
    if (!find_end(b, &end))
        return err_at(r->err, INFER_ERROR_TRUNCATED, NULL, 0, b->size, "the zip archive has no directory at its end: the file is cut short");
    struct cursor c = at(b, end + 4);
    uint32_t disks = cursor_u32(&c); /* this one's number, and the directory's */
    uint16_t here = cursor_u16(&c);
    d->n = cursor_u16(&c);
    d->size = cursor_u32(&c);
    d->offset = cursor_u32(&c);
    d->end = end;
    struct cursor l = at(b, end >= LOCATOR_BYTES ? end - LOCATOR_BYTES : end);
    infer_status st = INFER_OK;
    if (end >= LOCATOR_BYTES && cursor_u32(&l) == LOCATOR_SIG)
        st = read_end64(r, end, d);
    else if (disks || here != d->n)
        st = err_at(r->err, INFER_ERROR_UNSUPPORTED, NULL, 0, end, "a zip archive on several disks");
    if (st != INFER_OK)
        return st;
    if (d->offset > d->end || d->size != d->end - d->offset)
        return bad_end(r, d->end, "does not reach from where it begins to its end");
    if (d->n > ZIP_MAX_ENTRIES)
        return err_at(r->err, INFER_ERROR_LIMIT, NULL, 0, d->end, "more than %llu entries", (unsigned long long)ZIP_MAX_ENTRIES);
    if (d->n > d->size / CENTRAL_BYTES)
        return bad_end(r, d->end, "is too small for its entries");
    return INFER_OK;
}

/* ---- Entries ---- */

/* A name that stays inside whatever folder it is put in. */
static bool is_inside(const char *s, size_t len)
{
    size_t start = 0;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && s[i] != '/') {
            if (s[i] == '\\')
                return false;
            continue;
        }
        size_t n = i - start;
        bool dots = (n == 1 || n == 2) && s[start] == '.' && s[i - 1] == '.';
        if (dots || (n == 0 && i < len))
            return false;
        start = i + 1;
    }
    return true;
}

/* The 64-bit values that stand for those of the directory that are all ones, in this order. */
static bool read_extra64(const uint8_t *extra, size_t len, uint64_t *unpacked, uint64_t *packed, uint64_t *header)
{
    uint64_t *const values[] = {unpacked, packed, header};
    struct cursor c = cursor_of(extra, len);
    while (cursor_left(&c) >= 4) {
        uint16_t id = cursor_u16(&c), n = cursor_u16(&c);
        const uint8_t *p = cursor_take(&c, n);
        if (!p)
            return false;
        if (id != 1)
            continue;
        struct cursor v = cursor_of(p, n);
        for (size_t i = 0; i < 3; i++)
            if (*values[i] == MAX32)
                *values[i] = cursor_u64(&v);
        return !v.bad;
    }
    return *unpacked != MAX32 && *packed != MAX32 && *header != MAX32;
}

/* The local header must tell the same, as far as it tells anything. */
static infer_status check_local(struct reader *r, struct zip_entry *e, uint16_t flags, uint64_t limit)
{
    struct cursor c = at(r->z->blob, e->header);
    uint32_t sig = cursor_u32(&c);
    cursor_take(&c, 2);
    uint16_t local_flags = cursor_u16(&c), method = cursor_u16(&c);
    cursor_take(&c, 8); /* time, date, checksum */
    uint32_t packed = cursor_u32(&c), unpacked = cursor_u32(&c);
    uint16_t name_len = cursor_u16(&c), extra_len = cursor_u16(&c);
    const uint8_t *name = cursor_take(&c, name_len);
    cursor_take(&c, extra_len);
    if (c.bad || sig != LOCAL_SIG || name_len != e->name.len || memcmp(name, e->name.data, name_len))
        return FAIL(r, INFER_ERROR_FORMAT, e, e->header, "the zip entry's own header is not where its directory says");
    bool sized = !(local_flags & FLAG_SIZES_BEHIND) && packed != MAX32 && unpacked != MAX32;
    if (method != e->method || ((local_flags ^ flags) & FLAG_ENCRYPTED) || (sized && packed != e->size))
        return FAIL(r, INFER_ERROR_FORMAT, e, e->header, "the zip entry's own header and its directory disagree");
    e->offset = c.pos;
    if (e->offset > limit || e->size > limit - e->offset)
        return FAIL(r, INFER_ERROR_TRUNCATED, e, e->offset, "the zip entry's %llu bytes reach into the archive's directory",
                    (unsigned long long)e->size);
    return INFER_OK;
}

static infer_status read_entry(struct reader *r, struct cursor *c, struct zip_entry *e, uint64_t limit)
{
    uint64_t begin = c->pos;
    uint32_t sig = cursor_u32(c);
    cursor_take(c, 4);
    uint16_t flags = cursor_u16(c);
    e->method = cursor_u16(c);
    cursor_take(c, 8);
    uint64_t packed = cursor_u32(c), unpacked = cursor_u32(c);
    uint16_t name_len = cursor_u16(c), extra_len = cursor_u16(c), comment_len = cursor_u16(c);
    cursor_take(c, 8); /* disk, attributes */
    uint64_t header = cursor_u32(c);
    const char *name = (const char *)cursor_take(c, name_len);
    const uint8_t *extra = cursor_take(c, extra_len);
    cursor_take(c, comment_len);
    if (c->bad || sig != CENTRAL_SIG)
        return bad_end(r, begin, "is damaged");
    if (!name_len || name_len > FILE_MAX_NAME || memchr(name, 0, name_len) || !utf8_valid(name, name_len))
        return bad_end(r, begin, "holds a name that is empty, too long or not UTF-8");
    e->name = (struct file_str){name, name_len};
    if (!is_inside(name, name_len))
        return FAIL(r, INFER_ERROR_FORMAT, e, begin, "a zip entry whose name leaves its folder");
    if (flags & FLAG_ENCRYPTED)
        return FAIL(r, INFER_ERROR_UNSUPPORTED, e, begin, "an encrypted zip entry");
    if (!read_extra64(extra, extra_len, &unpacked, &packed, &header))
        return FAIL(r, INFER_ERROR_FORMAT, e, begin, "the zip entry's sizes are malformed");
    if (e->method == 0 && packed != unpacked)
        return FAIL(r, INFER_ERROR_FORMAT, e, begin, "a stored zip entry with two sizes");
    e->size = packed;
    e->header = header;
    return check_local(r, e, flags, limit);
}

static bool lies_after(const void *one, const void *other)
{
    const struct zip_entry *a = one, *b = other;
    return a->header > b->header;
}

/* No byte belongs to two entries: else a small file could stand for a huge one. */
static infer_status check_overlap(struct reader *r)
{
    size_t n = (size_t)r->z->n;
    infer_status st = INFER_OK;
    const void **sorted = mem_array(r->z->alloc, n, sizeof *sorted);
    if (!sorted)
        return err_no_memory(r->err);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &r->z->entries[i];
    sort_pointers(sorted, n, lies_after);
    for (size_t i = 1; i < n && st == INFER_OK; i++) {
        const struct zip_entry *before = sorted[i - 1], *e = sorted[i];
        if (before->offset + before->size > e->header)
            st = FAIL(r, INFER_ERROR_FORMAT, e, e->header, "the zip entry overlaps '%.*s'", before->name.len < 64 ? (int)before->name.len : 64,
                      before->name.data);
    }
    mem_free(r->z->alloc, sorted);
    return st;
}

static infer_status read_entries(struct reader *r, const struct directory *d)
{
    struct zip *z = r->z;
    struct cursor c = cursor_of(z->blob->data, d->end);
    cursor_take(&c, d->offset);
    z->entries = mem_zarray(z->alloc, (size_t)d->n, sizeof *z->entries);
    if (!z->entries || !map_reserve(&z->map, (size_t)d->n))
        return err_no_memory(r->err);
    for (uint64_t i = 0; i < d->n; i++) {
        struct zip_entry *e = &z->entries[i];
        infer_status st = read_entry(r, &c, e, d->offset);
        if (st != INFER_OK)
            return st;
        int added = map_add(&z->map, e->name.data, (size_t)e->name.len, (uint32_t)i);
        if (added < 0)
            return err_no_memory(r->err);
        if (!added)
            return FAIL(r, INFER_ERROR_FORMAT, e, e->header, "two zip entries of this name");
        z->n = i + 1;
        if ((i & 4095) == 4095 && cancel_is_set(r->cancel))
            return err_set(r->err, INFER_ERROR_CANCELLED, "cancelled while reading the file's directory");
    }
    return check_overlap(r);
}

infer_status zip_open(const struct env *env, const struct blob *blob, const infer_cancel *cancel, struct zip *out, infer_error *err)
{
    struct zip z = {.alloc = &env->alloc, .blob = blob};
    struct reader r = {&z, cancel, err};
    struct directory d = {0};
    map_init(&z.map, z.alloc);
    infer_status st = read_end(&r, &d);
    if (st == INFER_OK)
        st = read_entries(&r, &d);
    if (st != INFER_OK)
        zip_close(&z);
    else
        *out = z;
    return st;
}

void zip_close(struct zip *z)
{
    map_free(&z->map);
    mem_free(z->alloc, z->entries);
}

const struct zip_entry *zip_find(const struct zip *z, const char *name, size_t len)
{
    const uint32_t *i = map_find(&z->map, name, len);
    return i ? &z->entries[*i] : NULL;
}
