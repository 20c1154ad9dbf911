#include "kv/kv_spill.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/os_file.h"
#include "base/outfile.h"

#define SUFFIX ".kvc"
#define HEAD 32u /* elements behind a that a name tells a hash of: fewer are not worth a file */
#define TRIES 4u /* files that are opened in one search */
#define SLACK ((uint64_t)64 * 1024) /* what a file takes beside pages and keys, about */

enum { SECTION_ID = KV_SECTION_FIRST, SECTION_KEYS, SECTION_IDS, SECTION_PLACES };

/* The file format's own part, beside kv_spill_id. */
struct piece {
    struct kv_spill_id id;
    uint64_t a, b;
};

/* What the name of a file says, and the directory. */
struct entry {
    uint64_t domain, head, whole; /* hashes: of the id; of keys [0, min(b, a + HEAD)); of keys [0, b) */
    uint64_t a, b;
    uint64_t bytes;
    int64_t used;                 /* time of last use, in nanoseconds; only compared */
    bool seen;
    bool bad;                     /* damaged, or not to be removed: left alone */
};

struct kv_spill {
    const struct env *env;
    struct kv_spill_options o;
    char *path;      /* the directory and a separator, and room for a name */
    size_t dir_len;  /* with the separator */
    struct entry *entries; /* [n], in the order of their names */
    uint64_t n, cap;
    bool failed;     /* while listing: no memory */
    struct kv_spill_stats stats;
};

/* ---- Names ---- */

#define NAME_ROOM 128u

static const char *path_of(struct kv_spill *s, const struct entry *e)
{
    snprintf(s->path + s->dir_len, NAME_ROOM, "%016llx-%016llx-%016llx-%llx-%llx" SUFFIX, (unsigned long long)e->domain,
             (unsigned long long)e->head, (unsigned long long)e->whole, (unsigned long long)e->a, (unsigned long long)e->b);
    return s->path;
}

static bool parse_hex(const char **p, char end, uint64_t *out)
{
    uint64_t x = 0;
    int digits = 0;
    for (; **p && **p != end; ++*p, digits++) {
        char c = **p;
        uint64_t d = c >= '0' && c <= '9' ? (uint64_t)(c - '0') : c >= 'a' && c <= 'f' ? (uint64_t)(c - 'a' + 10) : 16;
        if (d > 15 || digits == 16)
            return false;
        x = x << 4 | d;
    }
    if (**p != end || !digits)
        return false;
    ++*p;
    *out = x;
    return true;
}

static bool parse_name(const char *name, struct entry *e)
{
    *e = (struct entry){.seen = true};
    if (!parse_hex(&name, '-', &e->domain) || !parse_hex(&name, '-', &e->head) || !parse_hex(&name, '-', &e->whole) ||
        !parse_hex(&name, '-', &e->a) || !parse_hex(&name, '.', &e->b))
        return false;
    return !strcmp(name, &SUFFIX[1]) && e->a < e->b && e->b < UINT32_MAX;
}

static int compare(const struct entry *x, const struct entry *y)
{
    const uint64_t p[] = {x->domain, x->head, x->whole, x->a, x->b}, q[] = {y->domain, y->head, y->whole, y->a, y->b};
    for (int i = 0; i < 5; i++)
        if (p[i] != q[i])
            return p[i] < q[i] ? -1 : 1;
    return 0;
}

/* Where it is, or belongs. */
static uint64_t place_of(const struct kv_spill *s, const struct entry *e)
{
    uint64_t lo = 0, hi = s->n;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (compare(&s->entries[mid], e) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct entry *known(const struct kv_spill *s, const struct entry *e)
{
    uint64_t i = place_of(s, e);
    return i < s->n && compare(&s->entries[i], e) == 0 ? &s->entries[i] : NULL;
}

static bool insert(struct kv_spill *s, const struct entry *e)
{
    if (s->n == s->cap) {
        uint64_t cap = s->cap ? s->cap * 2 : 64;
        struct entry *p = mem_grow(&s->env->alloc, s->entries, (size_t)cap * sizeof *p);
        if (!p)
            return false;
        s->entries = p;
        s->cap = cap;
    }
    uint64_t i = place_of(s, e);
    memmove(s->entries + i + 1, s->entries + i, (size_t)(s->n - i) * sizeof *e);
    s->entries[i] = *e;
    s->n++;
    s->stats.bytes += e->bytes;
    return true;
}

static void remove_at(struct kv_spill *s, uint64_t i)
{
    s->stats.bytes -= s->entries[i].bytes;
    s->n--;
    memmove(s->entries + i, s->entries + i + 1, (size_t)(s->n - i) * sizeof *s->entries);
}

/* ---- The directory ---- */

/* Size and time of last use. */
static bool look_at(struct kv_spill *s, struct entry *e)
{
    int fd, os_error = 0;
    struct os_stat st;
    if (s->env->io->open(path_of(s, e), &fd, &os_error) != INFER_OK)
        return false;
    bool good = s->env->io->stat(fd, &st, &os_error) == INFER_OK;
    s->env->io->close(fd);
    if (good) {
        e->bytes = st.size;
        e->used = (int64_t)((uint64_t)st.mtime_s * 1000000000u + (uint64_t)st.mtime_ns);
    }
    return good;
}

static bool on_name(void *arg, const char *name)
{
    struct kv_spill *s = arg;
    struct entry e, *old;
    if (!parse_name(name, &e))
        return true;
    old = known(s, &e);
    if (old)
        old->seen = true;
    else if (look_at(s, &e) && !insert(s, &e))
        s->failed = true;
    return !s->failed;
}

static infer_status refresh(struct kv_spill *s, infer_error *err)
{
    int os_error = 0;
    for (uint64_t i = 0; i < s->n; i++)
        s->entries[i].seen = false;
    s->failed = false;
    s->path[s->dir_len] = 0;
    char *dir = mem_strdup(&s->env->alloc, s->path, s->dir_len); /* names are put into s->path meanwhile */
    if (!dir)
        return err_no_memory(err);
    infer_status st = s->env->io->list(dir, on_name, s, &os_error);
    mem_free(&s->env->alloc, dir);
    if (st != INFER_OK)
        return outfile_failed(err, st, os_error, "list the cache's directory");
    if (s->failed)
        return err_no_memory(err);
    for (uint64_t i = s->n; i-- > 0;)
        if (!s->entries[i].seen)
            remove_at(s, i);
    return INFER_OK;
}

static bool unlink_at(struct kv_spill *s, uint64_t i)
{
    int os_error;
    infer_status st = s->env->io->unlink(path_of(s, &s->entries[i]), &os_error);
    if (st == INFER_OK || st == INFER_ERROR_NOT_FOUND) {
        remove_at(s, i);
        return true;
    }
    s->entries[i].bad = true;
    return false;
}

/* Removes the least recently used files until `more` bytes fit. */
static bool make_room(struct kv_spill *s, uint64_t more)
{
    while (s->o.bytes && s->stats.bytes > s->o.bytes - more) {
        uint64_t oldest = UINT64_MAX;
        for (uint64_t i = 0; i < s->n; i++)
            if (!s->entries[i].bad && (oldest == UINT64_MAX || s->entries[i].used < s->entries[oldest].used))
                oldest = i;
        if (oldest == UINT64_MAX)
            return false;
        (void)unlink_at(s, oldest);
    }
    return true;
}

static void touch(struct kv_spill *s, struct entry *e)
{
    for (uint64_t i = 0; i < s->n; i++)
        e->used = s->entries[i].used >= e->used ? s->entries[i].used + 1 : e->used;
    if (s->env->io->touch)
        (void)s->env->io->touch(path_of(s, e));
}

infer_status kv_spill_open(const struct env *env, const char *dir, uint64_t dir_len, const struct kv_spill_options *o,
                           struct kv_spill **out, infer_error *err)
{
    int os_error = 0;
    if (!hash_available())
        return err_set(err, INFER_ERROR_UNSUPPORTED, "this build of libinfer has no xxHash: the cache has no disk tier");
    if (!dir_len || dir_len > 4096 || memchr(dir, 0, (size_t)dir_len))
        return err_at(err, INFER_ERROR_ARGUMENT, "cache_dir", 9, ERR_NO_OFFSET, "not a path");
    struct kv_spill *s = mem_zalloc(&env->alloc, sizeof *s);
    char *path = mem_alloc(&env->alloc, (size_t)dir_len + 1 + NAME_ROOM);
    if (!s || !path) {
        mem_free(&env->alloc, s);
        mem_free(&env->alloc, path);
        return err_no_memory(err);
    }
    *s = (struct kv_spill){.env = env, .o = *o, .path = path, .dir_len = (size_t)dir_len};
    memcpy(path, dir, (size_t)dir_len);
    path[dir_len] = 0;
    infer_status st = env->io->make_dir(path, &os_error);
    if (st != INFER_OK)
        st = outfile_failed(err, st, os_error, "make the cache's directory");
    if (path[dir_len - 1] != '/')
        path[s->dir_len++] = '/';
    path[s->dir_len] = 0;
    if (st == INFER_OK) {
        outfile_clean(env, path);
        st = refresh(s, err);
    }
    if (st != INFER_OK) {
        kv_spill_close(s);
        return st;
    }
    *out = s;
    return INFER_OK;
}

void kv_spill_close(struct kv_spill *s)
{
    if (!s)
        return;
    mem_free(&s->env->alloc, s->entries);
    mem_free(&s->env->alloc, s->path);
    mem_free(&s->env->alloc, s);
}

/* ---- Hashes of prefixes ---- */

#define BLOCK 64u

/* Chained, so that the hash of every prefix is near: links[i] is of the first BLOCK * i keys. */
struct chain {
    const struct kv_keys *keys;
    struct hash_128 *links;
};

static struct hash_128 chain_at(const struct chain *c, uint64_t n)
{
    struct {
        struct hash_128 before;
        struct kv_key keys[BLOCK];
    } h;
    uint64_t rest = n % BLOCK;
    if (!rest)
        return c->links[n / BLOCK];
    h.before = c->links[n / BLOCK];
    c->keys->get(c->keys->user, n - rest, rest, h.keys);
    return hash_128(&h, sizeof h.before + (size_t)rest * sizeof h.keys[0], 0);
}

static infer_status chain_make(struct chain *c, const struct alloc *a, const struct kv_keys *keys, uint64_t n, infer_error *err)
{
    struct {
        struct hash_128 before;
        struct kv_key keys[BLOCK];
    } h;
    c->keys = keys;
    c->links = mem_zarray(a, (size_t)(n / BLOCK) + 1, sizeof *c->links);
    if (!c->links)
        return err_no_memory(err);
    for (uint64_t i = 0; i < n / BLOCK; i++) {
        h.before = c->links[i];
        keys->get(keys->user, i * BLOCK, BLOCK, h.keys);
        c->links[i + 1] = hash_128(&h, sizeof h, 0);
    }
    return INFER_OK;
}

static uint64_t head_end(uint64_t a, uint64_t b)
{
    return b < a + HEAD ? b : a + HEAD;
}

/* A piece is of use only with those before it: they count as used when it is. A piece before it may end behind its beginning, when the
 * tree was split later: its head tells enough. */
static void touch_before(struct kv_spill *s, const struct chain *c, uint64_t domain, uint64_t a)
{
    for (uint64_t i = 0; i < s->n; i++) {
        struct entry *e = &s->entries[i];
        uint64_t head = head_end(e->a, e->b);
        if (e->domain == domain && head <= a && chain_at(c, head).lo == e->head)
            touch(s, e);
    }
}

/* ---- Writing ---- */

static infer_status entry_of(struct kv_spill *s, const struct kv_spill_id *id, const struct kv_evicted *e, struct entry *out,
                             infer_error *err)
{
    struct kv_keys keys = kv_keys_of(e->keys);
    struct chain c;
    infer_status st = chain_make(&c, &s->env->alloc, &keys, e->b, err);
    if (st != INFER_OK)
        return st;
    st = refresh(s, err);
    *out = (struct entry){.domain = hash_64(id, sizeof *id), .head = chain_at(&c, head_end(e->a, e->b)).lo,
                          .whole = chain_at(&c, e->b).lo, .a = e->a, .b = e->b, .seen = true};
    touch_before(s, &c, out->domain, e->a);
    mem_free(&s->env->alloc, c.links);
    return st;
}

static infer_status write_pages(struct kv_writer *w, const struct kv_evicted *e, uint32_t g, struct kv_place *places,
                                kv_spill_fetch fetch, void *user, infer_error *err)
{
    infer_status st = INFER_OK;
    for (uint64_t i = 0; i < e->per && st == INFER_OK; i++) {
        const void *data;
        places[i] = (struct kv_place){.source = KV_PLACE_NONE};
        if (!e->pages[g * e->per + i])
            continue;
        st = fetch(user, g, i, &data, err);
        if (st == INFER_OK)
            st = kv_writer_page(w, data, e->page_bytes[g], &places[i], err);
    }
    return st;
}

/* Plain tokens take four bytes each. */
static infer_status write_keys(struct kv_spill *s, struct kv_writer *w, const struct kv_evicted *e, infer_error *err)
{
    static const struct kv_key none;
    bool plain = true;
    for (uint64_t i = 0; i < e->b && plain; i++)
        plain = e->keys[i].id >= 0 && e->keys[i].adapters == 0 && e->keys[i].adapters_more == 0 && !memcmp(e->keys[i].row, none.row, sizeof none.row);
    if (!plain)
        return kv_writer_section(w, SECTION_KEYS, KV_SECTION_REQUIRED, 0, e->keys, e->b * sizeof *e->keys, err);
    int32_t *ids = mem_array(&s->env->alloc, (size_t)e->b, sizeof *ids);
    if (!ids)
        return err_no_memory(err);
    for (uint64_t i = 0; i < e->b; i++)
        ids[i] = e->keys[i].id;
    infer_status st = kv_writer_section(w, SECTION_IDS, KV_SECTION_REQUIRED, 0, ids, e->b * sizeof *ids, err);
    mem_free(&s->env->alloc, ids);
    return st;
}

static infer_status write_all(struct kv_spill *s, struct kv_writer *w, const struct kv_spill_id *id,
                              const struct kv_evicted *e, kv_spill_fetch fetch, void *user, infer_error *err)
{
    struct piece piece;
    struct kv_place *places = mem_zarray(&s->env->alloc, (size_t)e->per * e->n_groups, sizeof *places);
    infer_status st = places ? INFER_OK : err_no_memory(err);
    for (uint32_t g = 0; g < e->n_groups && st == INFER_OK; g++)
        st = write_pages(w, e, g, places + g * e->per, fetch, user, err);
    memset(&piece, 0, sizeof piece);
    piece.id = *id;
    piece.a = e->a;
    piece.b = e->b;
    if (st == INFER_OK)
        st = kv_writer_section(w, SECTION_ID, KV_SECTION_REQUIRED, 0, &piece, sizeof piece, err);
    if (st == INFER_OK)
        st = write_keys(s, w, e, err);
    for (uint32_t g = 0; g < e->n_groups && st == INFER_OK; g++)
        st = kv_writer_section(w, SECTION_PLACES, KV_SECTION_REQUIRED, g, places + g * e->per, e->per * sizeof *places, err);
    mem_free(&s->env->alloc, places);
    return st;
}

static uint64_t size_of(const struct kv_evicted *e)
{
    uint64_t bytes = SLACK + e->b * sizeof *e->keys;
    for (uint32_t g = 0; g < e->n_groups; g++)
        bytes += e->per * (e->page_bytes[g] + sizeof(struct kv_place));
    return bytes;
}

static infer_status write_entry(struct kv_spill *s, struct entry *entry, const struct kv_spill_id *id,
                                const struct kv_evicted *e, kv_spill_fetch fetch, void *user, const infer_cancel *cancel,
                                infer_error *err)
{
    struct kv_writer *w = NULL;
    struct kv_writer_options wo = {.kind = KV_FILE_CACHE, .cancel = cancel};
    const char *path = path_of(s, entry);
    infer_status st = kv_writer_open(s->env, path, strlen(path), &wo, &w, err);
    if (st == INFER_OK) {
        st = write_all(s, w, id, e, fetch, user, err);
        s->stats.written += kv_writer_bytes(w);
        if (st == INFER_OK)
            st = kv_writer_commit(w, true, NULL, err);
        else
            kv_writer_abort(w);
    }
    if (st == INFER_OK && look_at(s, entry)) {
        touch(s, entry);
        if (!known(s, entry))
            (void)insert(s, entry); /* or at the next listing */
    }
    return st;
}

infer_status kv_spill_put(struct kv_spill *s, const struct kv_spill_id *id, const struct kv_evicted *e, kv_spill_fetch fetch,
                          void *user, const infer_cancel *cancel, infer_error *err)
{
    struct entry entry, *old;
    uint64_t size = size_of(e);
    infer_status st = entry_of(s, id, e, &entry, err);
    if (st == INFER_OK && (old = known(s, &entry)) != NULL) {
        touch(s, old);
        return INFER_OK;
    }
    bool fits = (!s->o.bytes || size <= s->o.bytes) &&
                (!s->o.write_bytes || (size <= s->o.write_bytes && s->stats.written <= s->o.write_bytes - size));
    fits = fits && st == INFER_OK && make_room(s, size);
    if (fits)
        st = write_entry(s, &entry, id, e, fetch, user, cancel, err);
    s->stats.skipped += (st != INFER_OK && st != INFER_ERROR_CANCELLED) || !fits;
    return st;
}

/* ---- Finding ---- */

static bool known_section(uint32_t kind)
{
    return kind >= SECTION_ID && kind <= SECTION_PLACES;
}

/* How many of the file's keys are those asked for, from the first on. */
static infer_status compare_keys(struct kv_file *f, const struct kv_keys *keys, uint64_t length, uint64_t b, uint64_t *same,
                                 infer_error *err)
{
    const struct kv_section *full = kv_file_find(f, SECTION_KEYS, 0), *ids = kv_file_find(f, SECTION_IDS, 0);
    const void *data;
    void *owned = NULL;
    struct kv_key mine, its;
    uint64_t i = 0, n = b < length ? b : length;
    if (!full == !ids)
        return kv_file_bad(f, 0, err, "has no keys, or two lists of them");
    infer_status st = kv_file_data(f, full ? full : ids, b * (full ? sizeof its : sizeof its.id), &data, &owned, err);
    for (; st == INFER_OK && i < n; i++) {
        its = full ? ((const struct kv_key *)data)[i] : (struct kv_key){.id = ((const int32_t *)data)[i]};
        keys->get(keys->user, i, 1, &mine);
        if (!kv_key_equal(&mine, &its))
            break;
    }
    mem_free(&f->env->alloc, owned);
    *same = i;
    return st;
}

static infer_status read_places(struct kv_spill_hit *h, const struct kv_spill_id *id, infer_error *err)
{
    infer_status st = INFER_OK;
    h->per = (h->b + DEV_KV_PAGE - 1) / DEV_KV_PAGE - h->a / DEV_KV_PAGE;
    for (uint32_t g = 0; g < id->n_groups && st == INFER_OK; g++) {
        const struct kv_section *s = kv_file_find(h->file, SECTION_PLACES, g);
        uint64_t n = 0;
        if (!s)
            return kv_file_bad(h->file, 0, err, "lacks the places of group %u", g);
        if (!id->page_bytes[g]) {
            continue;
        }
        st = kv_file_places(h->file, s, id->page_bytes[g], &h->places[g], &n, &h->owned[g], err);
        if (st == INFER_OK && n != h->per)
            st = kv_file_bad(h->file, s->offset, err, "has %llu pages where it needs %llu", (unsigned long long)n,
                             (unsigned long long)h->per);
    }
    return st;
}

/* *end: 0 when the file is another's, or of no use. */
static infer_status read_hit(struct kv_spill *s, const struct entry *e, const struct kv_spill_id *id, const struct kv_keys *keys,
                             uint64_t length, struct kv_spill_hit *h, const infer_cancel *cancel, infer_error *err)
{
    struct kv_file_options fo = {.kind = KV_FILE_CACHE, .map = INFER_MAP_READ, .known = known_section};
    const char *path = path_of(s, e);
    const void *data;
    void *owned = NULL;
    *h = (struct kv_spill_hit){.a = e->a, .b = e->b};
    infer_status st = kv_file_open(s->env, path, strlen(path), &fo, cancel, &h->file, err);
    if (st != INFER_OK)
        return st;
    const struct kv_section *sec = kv_file_find(h->file, SECTION_ID, 0);
    if (!sec || h->file->parent)
        return kv_file_bad(h->file, 0, err, "is no file of a cache");
    st = kv_file_data(h->file, sec, sizeof(struct piece), &data, &owned, err);
    if (st != INFER_OK)
        return st;
    const struct piece *piece = data;
    bool mine = !memcmp(&piece->id, id, sizeof *id) && piece->a == e->a && piece->b == e->b;
    mem_free(&s->env->alloc, owned);
    if (mine)
        st = compare_keys(h->file, keys, length, e->b, &h->end, err);
    return st == INFER_OK && h->end ? read_places(h, id, err) : st;
}

static void hit_free(struct kv_spill *s, struct kv_spill_hit *h)
{
    for (uint32_t g = 0; g < KV_CACHE_GROUPS; g++)
        mem_free(&s->env->alloc, h->owned[g]);
    kv_file_release(h->file);
    *h = (struct kv_spill_hit){.file = NULL};
}

/* Damage, as opposed to files that went away or that there is no memory for. */
static bool is_damage(infer_status st)
{
    return st == INFER_ERROR_FORMAT || st == INFER_ERROR_TRUNCATED || st == INFER_ERROR_CHANGED;
}

/* How many elements beyond `at` the name promises; a file whose whole hash fits counts for more than one that has to be tried. */
static uint64_t promise(const struct entry *e, const struct chain *c, uint64_t length, uint64_t at)
{
    uint64_t head = head_end(e->a, e->b);
    if (e->a > at || e->b <= at || head > length || chain_at(c, head).lo != e->head)
        return 0;
    if (e->b <= length && chain_at(c, e->b).lo == e->whole)
        return 2 * (e->b - at);
    return e->b > length ? length - at : 1;
}

/* The next best after what was tried; UINT64_MAX: none. */
static uint64_t best(const struct kv_spill *s, const struct chain *c, uint64_t domain, uint64_t length, uint64_t at,
                     const uint64_t *tried, uint32_t n_tried)
{
    uint64_t found = UINT64_MAX, most = 0;
    for (uint64_t i = 0; i < s->n; i++) {
        bool skip = s->entries[i].domain != domain || s->entries[i].bad;
        for (uint32_t t = 0; t < n_tried && !skip; t++)
            skip = tried[t] == i;
        uint64_t p = skip ? 0 : promise(&s->entries[i], c, length, at);
        if (p > most) {
            most = p;
            found = i;
        }
    }
    return found;
}

infer_status kv_spill_find(struct kv_spill *s, const struct kv_spill_id *id, const struct kv_keys *keys, uint64_t length,
                           uint64_t at, struct kv_spill_hit *hit, const infer_cancel *cancel, infer_error *err)
{
    struct chain c;
    uint64_t tried[TRIES], domain = hash_64(id, sizeof *id);
    uint32_t n_tried = 0;
    *hit = (struct kv_spill_hit){.file = NULL};
    infer_status st = refresh(s, err);
    if (st == INFER_OK)
        st = chain_make(&c, &s->env->alloc, keys, length, err);
    if (st != INFER_OK)
        return st;
    while (n_tried < TRIES) {
        uint64_t i = best(s, &c, domain, length, at, tried, n_tried);
        if (i == UINT64_MAX)
            break;
        infer_status one = read_hit(s, &s->entries[i], id, keys, length, hit, cancel, NULL);
        if (one == INFER_OK && hit->end > at && hit->end > hit->a) {
            touch(s, &s->entries[i]);
            touch_before(s, &c, domain, hit->a);
            break;
        }
        hit_free(s, hit);
        if (is_damage(one)) {
            s->stats.damaged++;
            (void)unlink_at(s, i);
            n_tried = 0; /* indices moved; there is one file less to try */
            continue;
        }
        tried[n_tried++] = i;
    }
    mem_free(&s->env->alloc, c.links);
    return INFER_OK;
}

void kv_spill_done(struct kv_spill *s, struct kv_spill_hit *hit, bool damaged)
{
    for (uint64_t i = 0; hit->file && damaged && i < s->n; i++)
        if (!strcmp(path_of(s, &s->entries[i]), hit->file->path)) {
            (void)unlink_at(s, i);
            break;
        }
    s->stats.loaded += hit->file && !damaged;
    s->stats.damaged += hit->file && damaged;
    hit_free(s, hit);
}

void kv_spill_get_stats(const struct kv_spill *s, struct kv_spill_stats *out)
{
    *out = s->stats;
    out->files = s->n;
}
