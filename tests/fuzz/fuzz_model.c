/* Opens damaged models and uses what opens as a host would. The input is a model file (it begins with "GGUF"), or a script: which
 * fixture, how it is opened, and edits of 4 bytes each that aim at the fields of its header, its strings and its weights. Whatever
 * happens: no crash, no leak, bounded time and memory, and what a session gives after it was rolled back or forked is the same again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/file.h"
#include "fuzz/fuzz.h"
#include "infer/infer.h"

#define MAX_LIVE ((uint64_t)256 << 20)
#define MAX_SPOTS 65536
#define MAX_EDITS 32
#define CHAT "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell <s> me\"}],\"add_generation_prompt\":true}"

static const char *const base_names[] = {
    "/models/tiny.gguf",                          "/tests/data/fixtures/llama-q4_0.gguf",
    "/tests/data/fixtures/llama-mix32.gguf",      "/tests/data/fixtures/llama-mix256.gguf",
    "/tests/data/fixtures/gemma3-scaled.gguf",    "/tests/data/fixtures/gpt2.gguf",
    "/tests/data/fixtures/llama-yarn.gguf",       "/tests/data/fixtures/llama3-rope.gguf",
    "/tests/data/fixtures/qwen3.gguf",            "/tests/data/fixtures/gemma3.gguf",
    "/tests/data/fixtures/qwen2.gguf",            "/tests/data/fixtures/llama-bias.gguf",
    "/tests/data/fixtures/gemma2.gguf",           "/tests/data/fixtures/phi3.gguf",
    "/tests/data/fixtures/mistral3.gguf",         "/tests/data/fixtures/granite.gguf",
    "/tests/data/fixtures/nemotron.gguf",         "/tests/data/fixtures/olmo3.gguf",
    "/tests/data/fixtures/starcoder2.gguf",       "/tests/data/fixtures/stablelm.gguf",
    "/tests/data/fixtures/stablelm-parallel.gguf",
    "/tests/data/fixtures/bert.gguf",             "/tests/data/fixtures/nomic-bert.gguf",
    "/tests/data/fixtures/gemma-embedding.gguf", /* at the end: a seed names its file by number */
};
#define N_BASES (sizeof base_names / sizeof *base_names)

/* A number in the header that is worth changing. */
struct spot {
    uint32_t at, width;
};

static struct base {
    uint8_t *data;
    size_t size, header; /* header: bytes before the first tensor's data */
    struct spot *spots;
    uint32_t n_spots;
} bases[N_BASES];

/* ---- An allocator that is not generous and notices leaks ---- */

static uint64_t live_bytes;
static int64_t live_blocks;

static void *take(void *user, uint64_t bytes, uint64_t align)
{
    void *p = NULL;
    (void)user;
    if (bytes > MAX_LIVE - live_bytes || posix_memalign(&p, align < sizeof p ? sizeof p : (size_t)align, (size_t)bytes))
        return NULL;
    live_bytes += bytes;
    live_blocks++;
    return p;
}

static void give(void *user, void *block, uint64_t bytes, uint64_t align)
{
    (void)user;
    (void)align;
    live_bytes -= bytes;
    live_blocks--;
    free(block);
}

static void demand(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_model: %s\n", what);
    abort();
}

/* ---- Where a fixture can be hurt ---- */

static void add_spot(struct base *b, const void *place, int64_t shift, uint32_t width)
{
    int64_t at = (const uint8_t *)place - b->data + shift;
    if (at >= 0 && (uint64_t)at + width <= b->size && b->n_spots < MAX_SPOTS)
        b->spots[b->n_spots++] = (struct spot){(uint32_t)at, width};
}

static void add_meta(struct base *b, const struct file_meta *m)
{
    const struct file_value *v = &m->value;
    uint32_t width = file_type_size(v->type == FILE_ARRAY ? v->item : v->type);
    add_spot(b, m->key.data, -8, 8);
    add_spot(b, m->key.data + m->key.len, 0, 4);
    if (v->type == FILE_STRING || v->type == FILE_ARRAY)
        add_spot(b, v->data, -8, 8);
    if (v->type == FILE_ARRAY)
        add_spot(b, v->data, -12, 4);
    for (uint32_t i = 0; width && i < (v->type == FILE_ARRAY ? 4 : 1) && (v->type != FILE_ARRAY || i < v->count); i++)
        add_spot(b, v->data, (int64_t)i * width, width);
    if (v->type == FILE_ARRAY && v->item == FILE_STRING)
        add_spot(b, v->data, 0, 8);
}

static void find_spots(struct base *b)
{
    struct infer_file *f;
    infer_error err;
    infer_source s;
    infer_source_memory(&s, b->data, b->size);
    demand(file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err) == INFER_OK, "a fixture does not open");
    for (int64_t at = 4; at < 24; at += at == 4 ? 4 : 8)
        add_spot(b, b->data, at, at == 4 ? 4 : 8);
    for (uint64_t i = 0; i < f->n_meta; i++)
        add_meta(b, &f->meta[i]);
    b->header = b->size;
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        const struct file_tensor *t = &f->tensors[i];
        const char *end = t->name.data + t->name.len;
        add_spot(b, t->name.data, -8, 8);
        add_spot(b, end, 0, 4);
        for (uint32_t d = 0; d < t->n_dims; d++)
            add_spot(b, end, 4 + 8 * (int64_t)d, 8);
        add_spot(b, end, 4 + 8 * (int64_t)t->n_dims, 4);
        add_spot(b, end, 8 + 8 * (int64_t)t->n_dims, 8);
        if (t->offset < b->header)
            b->header = (size_t)t->offset;
    }
    file_release(f);
}

static const struct base *base_of(uint8_t which)
{
    struct base *b = &bases[which % N_BASES];
    char path[4096];
    if (b->data)
        return b;
    snprintf(path, sizeof path, "%s%s", INFER_SOURCE_DIR, base_names[which % N_BASES]);
    FILE *f = fopen(path, "rb");
    demand(f != NULL && fseek(f, 0, SEEK_END) == 0, "a fixture is missing");
    b->size = (size_t)ftell(f);
    rewind(f);
    demand(posix_memalign((void **)&b->data, 64, b->size) == 0, "no memory");
    b->spots = calloc(MAX_SPOTS, sizeof *b->spots);
    demand(b->spots && fread(b->data, 1, b->size, f) == b->size, "a fixture cannot be read");
    fclose(f);
    find_spots(b);
    return b;
}

/* ---- Edits ---- */

static uint64_t odd_value(uint8_t v, uint64_t old)
{
    static const uint64_t odd[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 16, 24, 31, 32, 33, 63, 64, 65, 96, 100, 127, 128, 255,
                                   256, 257, 1000, 4096, 65535, 65536, 1u << 20, (1u << 24) + 1, 1u << 30, INT32_MAX,
                                   (uint64_t)INT32_MAX + 1, UINT32_MAX, (uint64_t)UINT32_MAX + 1, (uint64_t)1 << 58,
                                   INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 31, UINT64_MAX,
                                   0x7FC00000, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x00000001, 0x3F800000, 0x80000000,
                                   0x7FF8000000000000, 0x7FF0000000000000};
    if (v < 160)
        return odd[v % (sizeof odd / sizeof *odd)];
    return v < 224 ? old + v - 192 : v < 240 ? old << (v - 223) : old >> (v - 239);
}

static void edit_weights(uint8_t *data, size_t size, uint32_t where, uint8_t v)
{
    static const uint32_t bits[] = {0x7FC00000, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x7C007C00, 0x7E00FE00, 1, 0x80000000,
                                    0xFFFFFFFF, 0};
    size_t n = v & 0x80 ? 64 : v & 0x40 ? 4 : 1, at = (size_t)where * size / 65536 & ~(size_t)3;
    for (; n > 0 && size >= 4 && at <= size - 4; n--, at += 4)
        memcpy(data + at, &bits[(v & 0x3F) % (sizeof bits / sizeof *bits)], 4);
}

static void edit(const struct base *b, uint8_t *data, size_t *size, const uint8_t *e)
{
    uint32_t where = e[1] | (uint32_t)e[2] << 8;
    uint64_t old = 0;
    switch (e[0] % 8) {
    case 0:
    case 1:
    case 2:
    case 3: {
        struct spot s = b->spots[where % b->n_spots];
        memcpy(&old, data + s.at, s.width);
        old = odd_value(e[3], old);
        memcpy(data + s.at, &old, s.width);
        break;
    }
    case 4: data[(size_t)where * b->header / 65536] = e[3]; break;
    case 5:
    case 6: edit_weights(data + b->header, b->size - b->header, where, e[3]); break;
    default:
        if (e[3] < 32)
            *size = (size_t)where * b->size / 65536;
        else
            data[where % b->header] = e[3];
    }
}

/* ---- Use ---- */

static infer_status step(infer_session *s, int32_t logits)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    it.logits = logits;
    return infer_step(&it, 1, NULL, NULL);
}

static const float *last_logits(infer_session *s)
{
    const float *p = NULL;
    return infer_session_logits(s, 0, &p, NULL, NULL) == INFER_OK ? p : NULL;
}

/* Rolls back, and computes the same again in the session and in a fork. */
static void check_again(infer_session *s, uint32_t vocab)
{
    infer_session *f = NULL;
    infer_session_info info;
    INFER_INIT(&info);
    demand(infer_session_get_info(s, &info, NULL) == INFER_OK, "no session info");
    if (info.length < 2 || infer_session_truncate(s, info.length / 2, NULL, NULL) != INFER_OK)
        return;
    if (infer_session_truncate(s, info.length / 2 - 1, NULL, NULL) != INFER_OK)
        demand(0, "truncate failed");
    int32_t id = 0;
    if (infer_session_append(s, &id, 1, NULL) != INFER_OK || infer_session_fork(s, &f, NULL) != INFER_OK)
        return;
    infer_session_truncate(f, 0, NULL, NULL);
    int32_t ids[64];
    uint64_t n = info.length / 2 < 64 ? info.length / 2 : 64;
    if (infer_session_tokens(s, 0, n, ids, NULL) == INFER_OK && infer_session_append(f, ids, n, NULL) == INFER_OK &&
        infer_session_truncate(s, n, NULL, NULL) == INFER_OK) {
        infer_status a = step(s, INFER_ROWS_LAST), b = step(f, INFER_ROWS_LAST);
        const float *x = last_logits(s), *y = last_logits(f);
        if (a == INFER_OK && b == INFER_OK && x && y)
            demand(memcmp(x, y, vocab * sizeof *x) == 0, "a fork computes something else");
    }
    infer_session_release(f);
}

static void add_prompt(infer_session *s, const infer_model *m, uint64_t most)
{
    static const int32_t ids[] = {1, 2, 3, 0, 5, 60, 7, 8};
    char text[4096];
    uint64_t n = 0;
    infer_render_options o;
    INFER_INIT(&o);
    o.max_steps = 20000;
    o.max_memory = 4 << 20;
    if (infer_template_render(infer_model_template(m), CHAT, sizeof CHAT - 1, &o, text, sizeof text, &n, NULL) == INFER_OK)
        infer_session_append_text(s, text, n < most ? n : most, INFER_TOKENIZE_ADD_SPECIAL | INFER_TOKENIZE_PARSE_SPECIAL, NULL);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        infer_session_append(s, ids + i, 1, NULL);
}

/* A text's vector is the same alone and beside another. */
static void use_embed(infer_model *m, const infer_model_info *info, uint64_t count)
{
    static const int32_t ids[70] = {2, 5, 9, 1, 0, 7};
    uint64_t width = info->embedding_width;
    float *out = width < 65536 ? calloc(3 * width, sizeof *out) : NULL;
    infer_embed_item it[3];
    for (int i = 0; i < 3; i++) {
        INFER_INIT(&it[i]);
        it[i].ids = ids;
        it[i].id_count = i == 1 ? 3 : count;
        it[i].out = out ? out + i * width : NULL;
        it[i].capacity = out ? width : 0;
    }
    infer_status both = infer_embed(m, it, 2, NULL, NULL, NULL), alone = infer_embed(m, it + 2, 1, NULL, NULL, NULL);
    if (both == INFER_OK && alone == INFER_OK)
        demand(memcmp(out, out + 2 * width, width * sizeof *out) == 0, "a text beside another is computed otherwise");
    INFER_INIT(&it[0]);
    it[0].text = "The cat, <s> [SEP] sat?";
    it[0].text_len = INFER_ZSTR;
    it[0].out = out;
    it[0].capacity = out ? width : 0;
    (void)infer_embed(m, it, 1, NULL, NULL, NULL);
    free(out);
}

static void use(infer_model *m, uint8_t how)
{
    infer_session *s = NULL;
    infer_session_options o;
    infer_model_info info;
    infer_generate_options g;
    infer_event ev;
    INFER_INIT(&o);
    INFER_INIT(&info);
    INFER_INIT(&g);
    o.n_ctx = how & 4 ? 40 : 0;
    o.kv_type = how & 8 ? INFER_KV_F32 : INFER_KV_F16;
    g.max_tokens = 3;
    g.flags = how & 16 ? INFER_GENERATE_IGNORE_EOS | INFER_GENERATE_SHOW_SPECIAL : 0;
    demand(infer_model_get_info(m, &info, NULL) == INFER_OK, "no model info");
    use_embed(m, &info, how & 64 ? 70 : 9); /* beyond a block of 64, or quickly */
    if (infer_session_create(m, &o, &s, NULL) != INFER_OK)
        return;
    add_prompt(s, m, how & 64 ? 60 : 12);
    if (infer_generate_begin(s, &g, NULL) == INFER_OK)
        for (int i = 0; i < 8; i++) {
            INFER_INIT(&ev);
            if (infer_generate_next(s, &ev, NULL, NULL) != INFER_OK || ev.kind == INFER_EVENT_DONE)
                break;
        }
    check_again(s, info.vocab_size);
    infer_session_release(s);
}

static void open_and_use(const uint8_t *data, size_t size, uint8_t how)
{
    infer_allocator a = {.size = (uint32_t)sizeof a, .alloc = take, .free = give};
    infer_engine_options o;
    infer_engine *e = NULL;
    infer_model *m = NULL;
    infer_source s;
    INFER_INIT(&o);
    o.allocator = &a;
    o.threads = 1;
    o.cpu = how & 1 ? INFER_CPU_SCALAR : INFER_CPU_AUTO;
    o.numerics = how & 2 ? INFER_NUMERICS_PRECISE : INFER_NUMERICS_EXACT;
    demand(infer_engine_create(&o, &e, NULL) == INFER_OK, "no engine");
    infer_source_memory(&s, data, size);
    if (infer_model_open(e, &s, NULL, &m, NULL) == INFER_OK)
        use(m, how);
    infer_model_release(m);
    infer_engine_release(e);
    demand(live_blocks == 0 && live_bytes == 0, "memory leaks");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= 4 && !memcmp(data, "GGUF", 4)) {
        open_and_use(data, size, 4);
        return 0;
    }
    if (size < 2)
        return 0;
    const struct base *b = base_of(data[0]);
    uint8_t *copy = NULL;
    size_t shift = data[1] & 32 ? 8 : 0, n = b->size; /* misaligned memory */
    demand(posix_memalign((void **)&copy, 64, b->size + shift) == 0, "no memory");
    memcpy(copy + shift, b->data, b->size);
    for (size_t i = 2; i + 4 <= size && i < 2 + 4 * MAX_EDITS; i += 4)
        edit(b, copy + shift, &n, data + i);
    open_and_use(copy + shift, n, data[1]);
    free(copy);
    return 0;
}
