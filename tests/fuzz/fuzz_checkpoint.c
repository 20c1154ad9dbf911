/* Opens damaged and forged checkpoint files and goes on from what opens. The input is a file (it begins with the format's magic), or a script: which
 * of five files made here (whole, packed, delta with its parent, windows, an answer with stop conditions), how it is opened, and edits of 6 bytes each: where (a section and an offset in
 * it) and what. After the edits the checksums are made to fit, or not. Files live in memory, behind the file seam. Whatever happens: no crash, no
 * leak, bounded memory; and a session that refused to restore gives the same logits as before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os_file.h"
#include "engine/checkpoint_file.h"
#include "fuzz/fuzz.h"

#define MAX_LIVE ((uint64_t)256 << 20)
#define MAX_FILES 16
#define MAX_EDITS 32

static void demand(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_checkpoint: %s\n", what);
    abort();
}

/* ---- Files in memory */

static struct memory_file {
    char name[64];
    uint8_t *data;
    size_t n;
} files[MAX_FILES];

static int find(const char *name)
{
    for (int i = 0; i < MAX_FILES; i++)
        if (files[i].name[0] && strcmp(files[i].name, name) == 0)
            return i;
    return -1;
}

static infer_status io_open(const char *path, int *fd, int *os_error)
{
    *fd = find(path);
    *os_error = 0;
    return *fd >= 0 ? INFER_OK : INFER_ERROR_NOT_FOUND;
}

static infer_status io_dup(int fd, int *copy, int *os_error)
{
    *copy = fd;
    *os_error = 0;
    return INFER_OK;
}

static void io_close(int fd)
{
    (void)fd;
}

static infer_status io_stat(int fd, struct os_stat *out, int *os_error)
{
    *out = (struct os_stat){.size = files[fd].n};
    *os_error = 0;
    return INFER_OK;
}

static infer_status io_read(int fd, uint64_t offset, void *dst, size_t n, int *os_error)
{
    *os_error = 0;
    if (offset > files[fd].n || n > files[fd].n - offset)
        return INFER_ERROR_TRUNCATED;
    memcpy(dst, files[fd].data + offset, n);
    return INFER_OK;
}

static infer_status io_map(int fd, size_t n, const void **out, int *os_error)
{
    (void)fd;
    (void)n;
    (void)out;
    *os_error = 0;
    return INFER_ERROR_UNSUPPORTED; /* so that each file is a block of its size, which a sanitizer watches */
}

static void io_unmap(const void *p, size_t n)
{
    (void)p;
    (void)n;
}

static infer_status io_create(const char *path, int *fd, int *os_error)
{
    int i = 0;
    *os_error = 0;
    while (i < MAX_FILES && files[i].name[0])
        i++;
    demand(i < MAX_FILES && strlen(path) < sizeof files[0].name, "too many files");
    strcpy(files[i].name, path);
    files[i].n = 0;
    *fd = i;
    return INFER_OK;
}

static infer_status io_write(int fd, uint64_t offset, const void *src, size_t n, int *os_error)
{
    struct memory_file *f = &files[fd];
    *os_error = 0;
    if (offset + n > f->n) {
        f->data = realloc(f->data, (size_t)offset + n);
        demand(f->data != NULL, "no memory");
        memset(f->data + f->n, 0, (size_t)offset + n - f->n);
        f->n = (size_t)offset + n;
    }
    if (n) /* an empty file has no data */
        memcpy(f->data + offset, src, n);
    return INFER_OK;
}

static infer_status io_sync(int fd, int *os_error)
{
    (void)fd;
    (void)os_error;
    return INFER_OK;
}

static infer_status io_unlink(const char *path, int *os_error)
{
    int i = find(path);
    *os_error = 0;
    if (i < 0)
        return INFER_ERROR_NOT_FOUND;
    free(files[i].data);
    files[i] = (struct memory_file){{0}, NULL, 0};
    return INFER_OK;
}

static infer_status io_rename(int fd, const char *from, const char *to, int *os_error)
{
    (void)fd;
    (void)io_unlink(to, os_error);
    int i = find(from);
    demand(i >= 0, "renamed nothing");
    strcpy(files[i].name, to);
    return INFER_OK;
}

static infer_status io_dir(const char *dir, int *os_error)
{
    (void)dir;
    (void)os_error;
    return INFER_OK;
}

static void io_reap(const char *path)
{
    (void)path;
}

static infer_status io_list(const char *dir, bool (*fn)(void *arg, const char *name), void *arg, int *os_error)
{
    (void)dir;
    (void)fn;
    (void)arg;
    (void)os_error;
    return INFER_OK;
}

static infer_status io_clone(int from, int to, uint64_t *done, uint64_t size, int *os_error)
{
    (void)from;
    (void)to;
    (void)done;
    (void)size;
    *os_error = 0;
    return INFER_ERROR_UNSUPPORTED;
}

static const struct os_io memory_io = {.open = io_open, .dup = io_dup, .close = io_close, .stat = io_stat, .read = io_read,
                                       .map = io_map, .unmap = io_unmap, .create = io_create, .write = io_write, .sync = io_sync,
                                       .rename = io_rename, .sync_dir = io_dir, .unlink = io_unlink, .reap = io_reap,
                                       .make_dir = io_dir, .list = io_list, .clone = io_clone};

/* ---- An allocator that is not generous and notices leaks */

static uint64_t live_bytes;
static int64_t live_blocks;

static void *take(void *user, size_t bytes, size_t align)
{
    void *p = NULL;
    (void)user;
    if (bytes > MAX_LIVE - live_bytes || posix_memalign(&p, align < sizeof p ? sizeof p : align, bytes))
        return NULL;
    live_bytes += bytes;
    live_blocks++;
    return p;
}

static void give(void *user, void *block, size_t bytes, size_t align)
{
    (void)user;
    (void)align;
    live_bytes -= bytes;
    live_blocks--;
    free(block);
}

/* ---- The files to hurt */

enum { BASES = 4, STOPS_BASE = 4 };
static const char *const base_names[BASES + 1] = {"./whole", "./packed", "./delta", "./window", "./stops"};
static infer_model *models[3];    /* full attention, sliding windows, one with a tokenizer */
static infer_session *victims[3]; /* something to restore into */
static float *expected;          /* of victims[0] */
static uint8_t *model_data[3];

static infer_model *open_model(infer_engine *engine, int which)
{
    static const char *const names[] = {"/tests/data/fixtures/llama.gguf", "/tests/data/fixtures/gemma3.gguf", "/models/tiny.gguf"};
    char path[4096];
    infer_source source;
    infer_model *m = NULL;
    snprintf(path, sizeof path, "%s%s", INFER_SOURCE_DIR, names[which]);
    FILE *f = fopen(path, "rb");
    demand(f != NULL && fseek(f, 0, SEEK_END) == 0, "a fixture is missing");
    size_t n = (size_t)ftell(f);
    rewind(f);
    demand(posix_memalign((void **)&model_data[which], 64, n) == 0 && fread(model_data[which], 1, n, f) == n, "cannot read a fixture");
    fclose(f);
    infer_source_memory(&source, model_data[which], n);
    demand(infer_model_open(engine, &source, NULL, &m, NULL) == INFER_OK, "a fixture does not open");
    return m;
}

static infer_status step(infer_session *s)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    return infer_step(&it, 1, NULL, NULL);
}

static void append(infer_session *s, int n)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t id = (i * 7 + 3) % 50;
        demand(infer_session_append(s, &id, 1, NULL) == INFER_OK, "cannot append");
    }
}

static void save(infer_session *s, const char *name, int level, const char *parent)
{
    infer_checkpoint *c = NULL;
    struct checkpoint_save_options o = {.level = level, .parent = parent, .parent_len = parent ? strlen(parent) : 0};
    demand(infer_checkpoint_create(s, &c, NULL) == INFER_OK, "no checkpoint");
    demand(checkpoint_save(c, name, strlen(name), &o, NULL, NULL) == INFER_OK, "cannot save");
    infer_checkpoint_release(c);
}

static infer_session *session_of(infer_model *m)
{
    infer_session_options o;
    infer_session *s = NULL;
    INFER_INIT(&o);
    o.n_ctx = 400;
    demand(infer_session_create(m, &o, &s, NULL) == INFER_OK, "no session");
    return s;
}

/* An answer of which text is held back: whatever letter it ends with, a stop string begins with it. */
static void make_stops_base(void)
{
    static char pool[28][2];
    static const int32_t ids[] = {7, 900};
    infer_text stops[28];
    infer_generate_options o;
    infer_event ev;
    INFER_INIT(&o);
    for (int i = 0; i < 28; i++) {
        pool[i][0] = (char)(i < 26 ? 'a' + i : i < 27 ? ' ' : ',');
        pool[i][1] = 1;
        stops[i] = (infer_text){pool[i], 2};
    }
    o.stops = stops;
    o.stop_count = 28;
    o.stop_ids = ids;
    o.stop_id_count = 2;
    o.repeat_guard = 20;
    infer_session *s = session_of(models[2]);
    append(s, 20);
    demand(infer_generate_begin(s, &o, NULL) == INFER_OK, "cannot begin");
    for (int i = 0; i < 60 && (i < 5 || !stops_held_len(s->gen.stops, &s->gen.stops_state)); i++) {
        INFER_INIT(&ev);
        demand(infer_generate_next(s, &ev, NULL, NULL) == INFER_OK && ev.kind != INFER_EVENT_DONE, "no token");
    }
    demand(stops_held_len(s->gen.stops, &s->gen.stops_state) > 0, "nothing is held back");
    save(s, base_names[STOPS_BASE], 0, NULL);
    infer_session_release(s);
}

static void make_bases(void)
{
    static const infer_bias bias = {3, 0.5f};
    infer_sampling set;
    INFER_INIT(&set);
    set.temperature = 1;
    set.bias = &bias;
    set.bias_count = 1;
    infer_session *s = session_of(models[0]);
    float *row = calloc(models[0]->net->h.n_embd, sizeof *row);
    uint64_t key[2] = {1, 2};
    demand(row && infer_session_set_sampling(s, &set, NULL) == INFER_OK, "no settings");
    append(s, 70);
    demand(infer_session_append_rows(s, row, key, 1, NULL) == INFER_OK && step(s) == INFER_OK, "cannot step");
    save(s, base_names[0], 0, NULL);
    save(s, base_names[1], pack_available() ? 3 : 0, NULL);
    append(s, 60);
    demand(infer_session_append_rows(s, row, key, 1, NULL) == INFER_OK, "cannot append");
    demand(infer_generate_begin(s, NULL, NULL) == INFER_OK && step(s) == INFER_OK, "cannot step");
    save(s, base_names[2], 0, base_names[0]);
    infer_session_release(s);
    free(row);
    s = session_of(models[1]);
    append(s, 140);
    demand(step(s) == INFER_OK, "cannot step");
    save(s, base_names[3], 0, NULL);
    infer_session_release(s);
    make_stops_base();
}

static bool start(void)
{
    struct env env = {.alloc = {NULL, take, give}, .io = &memory_io};
    struct cpu_device_options o = {INFER_CPU_AUTO, INFER_NUMERICS_EXACT, 1, NULL, NULL};
    struct device *dev = NULL;
    infer_engine *engine = NULL;
    const float *logits;
    demand(cpu_device_create(&env.alloc, &o, &dev, NULL) == INFER_OK, "no device");
    demand(engine_create_on(&env, dev, (uint64_t)16 << 20, &engine, NULL) == INFER_OK, "no engine");
    for (int i = 0; i < 3; i++) {
        models[i] = open_model(engine, i);
        victims[i] = session_of(models[i]);
        append(victims[i], 9);
        demand(step(victims[i]) == INFER_OK, "cannot step");
    }
    demand(infer_session_logits(victims[0], 0, &logits, NULL, NULL) == INFER_OK, "no logits");
    size_t bytes = models[0]->net->h.n_logits * sizeof *expected;
    expected = malloc(bytes);
    demand(expected != NULL, "no memory");
    memcpy(expected, logits, bytes);
    make_bases();
    infer_engine_release(engine);
    return true;
}

/* ---- Edits */

static uint64_t odd_value(uint8_t v, uint64_t old)
{
    static const uint64_t odd[] = {0, 1, 2, 3, 7, 8, 40, 63, 64, 65, 127, 128, 255, 256, 4095, 4096, 4097, 65535, 65536, INT32_MAX,
                                   (uint64_t)INT32_MAX + 1, UINT32_MAX, (uint64_t)UINT32_MAX + 1, (uint64_t)1 << 48,
                                   INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 63, UINT64_MAX - 4095, UINT64_MAX,
                                   0x7FC00000, 0x7F800000, 0x3F800000};
    if (v < 160)
        return odd[v % (sizeof odd / sizeof *odd)];
    return v < 224 ? old + v - 192 : v < 240 ? old << (v - 223) : old >> (v - 239);
}

static void edit(uint8_t *data, size_t n, const uint8_t *e)
{
    const struct kv_file_header *h = (const struct kv_file_header *)data;
    uint64_t table = h->table_offset, from = 0, bytes = KV_FILE_HEADER;
    uint32_t sections = h->n_sections, which = e[0] % 24;
    if (table < n && table % 8 == 0 && sections * sizeof(struct kv_section) <= n - table && which < 22) {
        const struct kv_section *t = (const struct kv_section *)(data + table);
        from = which < sections ? t[which].offset : table;
        bytes = which < sections ? t[which].stored : n - table;
    }
    if (from >= n || bytes == 0)
        return;
    bytes = bytes < n - from ? bytes : n - from;
    size_t width = e[1] & 1 ? 8 : e[1] & 2 ? 4 : 1;
    uint64_t at = (e[2] | (uint64_t)e[3] << 8) * (e[1] & 4 ? 1 : 4) % bytes, old = 0;
    if (width > bytes - at)
        return;
    memcpy(&old, data + from + at, width);
    old = e[1] & 8 ? e[4] | (uint64_t)e[5] << 8 : odd_value(e[4], old);
    memcpy(data + from + at, &old, width);
}

/* As tests/kv_seal.c, for data of any kind. */
static void seal(uint8_t *data, size_t n)
{
    struct kv_file_header *h = (struct kv_file_header *)data;
    if (h->table_offset < n && h->n_sections * sizeof(struct kv_section) <= n - h->table_offset && h->table_offset % 8 == 0) {
        struct kv_section *t = (struct kv_section *)(data + h->table_offset);
        for (uint32_t i = 0; i < h->n_sections; i++)
            if (t[i].kind != KV_SECTION_PAGES && t[i].offset < n && t[i].stored <= n - t[i].offset)
                t[i].hash = hash_64(data + t[i].offset, t[i].stored);
        h->table_hash = hash_64(t, h->n_sections * sizeof *t);
        h->id = kv_file_make_id(h, t);
    }
    h->hash = hash_64(h, offsetof(struct kv_file_header, hash));
}

/* ---- Use */

static void use(int which, const char *name, uint8_t how)
{
    infer_checkpoint *c = NULL;
    struct checkpoint_open_options o = {INFER_MAP_READ, how & 16, 0};
    infer_event ev;
    const float *logits;
    infer_error err;
    INFER_INIT(&err);
    infer_status st = checkpoint_open(models[which], name, strlen(name), &o, NULL, &c, &err);
    if (st != INFER_OK) {
        demand(c == NULL && err.code == st && err.text[0], "a refusal without a reason");
    } else {
        infer_session *s = NULL;
        INFER_INIT(&ev);
        demand(infer_checkpoint_session(c, &s, NULL) == INFER_OK, "an opened checkpoint makes no session");
        (void)infer_generate_next(s, &ev, NULL, NULL);
        (void)infer_generate_begin(s, NULL, NULL);
        (void)step(s);
        for (int i = 0; i < 3; i++) {
            INFER_INIT(&ev);
            (void)infer_generate_next(s, &ev, NULL, NULL);
        }
        (void)infer_session_truncate(s, s->length / 2, NULL, NULL);
        (void)step(s);
        infer_session_release(s);
        infer_checkpoint_release(c);
    }
    demand(infer_session_logits(victims[0], 0, &logits, NULL, NULL) == INFER_OK, "logits are gone");
    demand(memcmp(logits, expected, models[0]->net->h.n_logits * sizeof *logits) == 0, "logits have changed");
}

static void set_file(const char *name, const uint8_t *data, size_t n)
{
    int fd, ignored;
    (void)io_unlink(name, &ignored);
    (void)io_create(name, &fd, &ignored);
    (void)io_write(fd, 0, data, n, &ignored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!hash_available() || size < 2)
        return 0;
    ready = ready || start();
    int64_t blocks = live_blocks;
    if (size >= sizeof kv_file_magic && memcmp(data, kv_file_magic, sizeof kv_file_magic) == 0) {
        set_file("./hurt", data, size);
        use(0, "./hurt", 0);
    } else {
        int base = data[1] & 128 ? STOPS_BASE : data[0] % BASES, which = base == STOPS_BASE ? 2 : base == 3;
        const struct memory_file *f = &files[find(base_names[base])];
        size_t n = data[1] & 32 ? f->n * (data[0] >> 2) / 64 : f->n;
        uint8_t *copy = malloc(f->n);
        demand(copy != NULL, "no memory");
        memcpy(copy, f->data, f->n);
        for (size_t i = 2; i + 6 <= size && i < 2 + 6 * MAX_EDITS; i += 6)
            edit(copy, f->n, data + i);
        if (!(data[1] & 64))
            seal(copy, f->n);
        set_file("./hurt", copy, n);
        free(copy);
        use(which, "./hurt", data[1]);
    }
    demand(live_blocks == blocks || live_blocks == blocks + 1, "a leak"); /* a buffer of the engine may have grown */
    return 0;
}
