#include "model.h"

#include <string.h>
#include <sys/stat.h>

#include "host.h"

static infer_status open_both(const struct options *o, infer_engine **engine, infer_model **model, infer_error *err)
{
    infer_engine_options eo;
    infer_open_options oo;
    infer_source source;
    INFER_INIT(&eo);
    INFER_INIT(&oo);
    eo.cpu = o->cpu;
    eo.numerics = o->numerics;
    eo.threads = o->threads;
    oo.map = o->map;
    oo.cancel = bench_cancel;
    infer_source_path(&source, o->model, INFER_ZSTR);
    infer_status st = infer_engine_create(&eo, engine, err);
    if (st == INFER_OK)
        st = infer_model_open(*engine, &source, &oo, model, err);
    return st;
}

static bool is_named(const infer_tensor_info *t, const char *name)
{
    return t->name_len == strlen(name) && memcmp(t->name, name, strlen(name)) == 0;
}

static struct type_work *work_of(struct model *m, int32_t type)
{
    for (uint32_t i = 0; i < m->n_types; i++)
        if (m->types[i].type == type)
            return &m->types[i];
    if (m->n_types == MAX_TYPES)
        return &m->types[MAX_TYPES - 1];
    m->types[m->n_types].type = type;
    return &m->types[m->n_types++];
}

static bool is_float(int32_t type)
{
    return type == INFER_TYPE_F32 || type == INFER_TYPE_F16 || type == INFER_TYPE_BF16;
}

/* Every matrix counts; an embedding table only when it is the output matrix too. Vectors (norms, biases) are read but multiply nothing. */
static void count_work(struct model *m)
{
    const infer_file *file = infer_model_file(m->model);
    uint64_t n = infer_file_tensor_count(file), index;
    bool tied = infer_file_find_tensor(file, "output.weight", INFER_ZSTR, &index, NULL) != INFER_OK;
    for (uint64_t i = 0; i < n; i++) {
        infer_tensor_info t;
        INFER_INIT(&t);
        if (infer_file_tensor(file, i, &t, NULL) != INFER_OK)
            continue;
        bool embedding = is_named(&t, "token_embd.weight"), output = is_named(&t, "output.weight") || (embedding && tied);
        if ((embedding && !tied) || is_named(&t, "position_embd.weight"))
            continue;
        struct type_work *w = work_of(m, t.type);
        uint64_t macs = t.dims >= 2 ? t.shape[0] * t.shape[1] * t.shape[2] * t.shape[3] : 0;
        w->bytes += t.data_len;
        w->macs += macs;
        w->prompt_macs += output ? 0 : macs;
    }
    for (uint32_t i = 0; i < m->n_types; i++) {
        const struct type_work *w = &m->types[i];
        m->bytes += w->bytes;
        if (is_float(w->type) || m->engine_info.numerics == INFER_NUMERICS_PRECISE)
            m->f32_macs += w->prompt_macs;
        else
            m->int8_macs += w->prompt_macs;
    }
}

int model_open(struct model *m, const struct options *o)
{
    infer_error err;
    struct stat file;
    INFER_INIT(&err);
    memset(m, 0, sizeof *m);
    INFER_INIT(&m->info);
    INFER_INIT(&m->engine_info);
    double start = bench_seconds();
    infer_status st = open_both(o, &m->engine, &m->model, &err);
    m->load_ms = (bench_seconds() - start) * 1e3;
    if (st == INFER_OK)
        st = infer_model_get_info(m->model, &m->info, &err);
    if (st == INFER_OK)
        st = infer_engine_get_info(m->engine, &m->engine_info, &err);
    if (st != INFER_OK) {
        int code = complain_error(NULL, &err);
        model_close(m);
        return code;
    }
    m->file_bytes = stat(o->model, &file) == 0 ? (uint64_t)file.st_size : 0;
    if (m->file_bytes < m->info.weight_bytes)
        m->file_bytes = m->info.weight_bytes; /* a split file */
    count_work(m);
    return EXIT_OK;
}

void model_close(struct model *m)
{
    infer_model_release(m->model);
    infer_engine_release(m->engine);
    m->model = NULL;
    m->engine = NULL;
}

double model_time_open(const struct options *o)
{
    infer_engine *engine = NULL;
    infer_model *model = NULL;
    double start = bench_seconds();
    infer_status st = open_both(o, &engine, &model, NULL);
    double ms = (bench_seconds() - start) * 1e3;
    infer_model_release(model);
    infer_engine_release(engine);
    return st == INFER_OK ? ms : -1;
}

/* Keys and values of heads: so many vectors of head_dim. */
static uint64_t kv_vectors(const struct model *m, uint64_t heads, uint64_t visible)
{
    if (m->info.window && visible > m->info.window)
        visible = m->info.window;
    return 2 * visible * m->info.n_layer * heads;
}

static uint64_t kv_vector_bytes(int32_t type, uint64_t dim)
{
    if (type == INFER_KV_INT8 || type == INFER_KV_INT8_64) { /* groups with a scale of 16 bits */
        uint64_t group = type == INFER_KV_INT8 ? 32 : 64;
        return dim + (dim + group - 1) / group * 2;
    }
    return dim * (type == INFER_KV_F32 ? 4 : 2);
}

uint64_t model_kv_bytes(const struct model *m, const struct options *o, uint64_t visible)
{
    uint64_t n = kv_vectors(m, m->info.n_head_kv, visible), dim = m->info.head_dim, recent = o->kv_recent ? o->kv_recent : 64;
    if (o->kv_type != INFER_KV_MIXED_F16 && o->kv_type != INFER_KV_MIXED_F32)
        return n * kv_vector_bytes(o->kv_type, dim);
    uint64_t near = kv_vectors(m, m->info.n_head_kv, visible < recent ? visible : recent);
    return near * kv_vector_bytes(o->kv_type == INFER_KV_MIXED_F16 ? INFER_KV_F16 : INFER_KV_F32, dim)
           + (n - near) * kv_vector_bytes(INFER_KV_INT8, dim);
}

uint64_t model_attention_macs(const struct model *m, uint64_t visible)
{
    return kv_vectors(m, m->info.n_head, visible) * m->info.head_dim;
}

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static bool is_ordinary(const infer_tokenizer *t, int32_t id)
{
    infer_token_info info;
    INFER_INIT(&info);
    return infer_tokenizer_token(t, id, &info, NULL) == INFER_OK && info.kind == INFER_TOKEN_NORMAL && !info.ends_turn;
}

void model_tokens(const struct model *m, uint64_t seed, int32_t *ids, uint64_t n)
{
    const infer_tokenizer *t = infer_model_tokenizer(m->model);
    uint64_t state = seed * 0xd1342543de82ef95u + 1;
    infer_tokenizer_info info;
    uint32_t vocab = m->info.vocab_size;
    INFER_INIT(&info);
    if (t && infer_tokenizer_get_info(t, &info, NULL) == INFER_OK && info.vocab_size && info.vocab_size < vocab)
        vocab = info.vocab_size;
    for (uint64_t i = 0; i < n; i++)
        for (int tries = 0; tries < 100; tries++) {
            ids[i] = (int32_t)(next_random(&state) % vocab);
            if (!t || is_ordinary(t, ids[i]))
                break;
        }
}
