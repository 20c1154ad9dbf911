/* Scenarios: files of every format, tokenizers, templates. */
#include "scenes.h"

#include <stdio.h>
#include <string.h>

#include "formats/gguf_build.h"

/* ---- steps that others use too */

static int32_t run_tasks(void *user, uint32_t count, infer_task_fn task, void *task_arg)
{
    (void)user;
    for (uint32_t i = count; i > 0; i--)
        task(task_arg, i - 1);
    return 0;
}

infer_status scene_engine(struct world *w, int arg)
{
    const struct scenario *sc = w->scenario;
    infer_executor executor = {.size = sizeof executor, .concurrency = 3, .run = run_tasks};
    infer_engine_options o;
    (void)arg;
    INFER_INIT(&o);
    o.allocator = w->seam->allocator;
    o.threads = sc->executor ? 0 : sc->threads ? sc->threads : 1;
    o.executor = sc->executor ? &executor : NULL;
    o.cache_bytes = sc->cache ? 4 << 20 : 0;
    o.cache_dir = sc->cache_dir ? oom_path("cache") : NULL;
    o.cache_dir_len = sc->cache_dir ? INFER_ZSTR : 0;
    return oom_made(infer_engine_create(&o, &w->engine, &w->err), w->engine);
}

static infer_source path_source(const char *path)
{
    infer_source s;
    infer_source_path(&s, path, INFER_ZSTR);
    return s;
}

static const struct {
    const char *path;
    int32_t map, quantise;
} models[] = {
    [MODEL_TINY] = {TINY, INFER_MAP_AUTO, 0},
    [MODEL_TINY_READ] = {TINY, INFER_MAP_READ, 0},
    [MODEL_LLAMA] = {FIXTURE("llama"), INFER_MAP_AUTO, 0},
    [MODEL_LLAMA_Q4] = {FIXTURE("llama"), INFER_MAP_AUTO, INFER_TYPE_Q4_K},
    [MODEL_GEMMA3] = {FIXTURE("gemma3"), INFER_MAP_AUTO, 0},
    [MODEL_MOE] = {FIXTURE("qwen3moe"), INFER_MAP_AUTO, 0},
    [MODEL_MLA] = {FIXTURE("deepseek2"), INFER_MAP_AUTO, 0},
    [MODEL_GPT2] = {FIXTURE("gpt2"), INFER_MAP_AUTO, 0},
    [MODEL_BERT] = {FIXTURE("bert"), INFER_MAP_AUTO, 0},
    [MODEL_LLAMA_FOLDER] = {DATA "fixtures/llama", INFER_MAP_AUTO, 0},
    [MODEL_BERT_FOLDER] = {DATA "fixtures/bert", INFER_MAP_READ, 0},
    [MODEL_PHI3_FOLDER] = {DATA "fixtures/phi3", INFER_MAP_AUTO, 0},
};

infer_status scene_model(struct world *w, int which)
{
    infer_source s = path_source(models[which].path);
    infer_open_options o;
    infer_model_info info;
    INFER_INIT(&o);
    o.map = models[which].map;
    o.quantise = models[which].quantise;
    infer_status st = oom_made(infer_model_open(w->engine, &s, &o, &w->model, &w->err), w->model);
    if (st != INFER_OK)
        return st;
    INFER_INIT(&info);
    assert_int_equal(infer_model_get_info(w->model, &info, NULL), INFER_OK);
    oom_add(w, info.name, sizeof info.name);
    oom_add(w, info.tokenizer_problem, sizeof info.tokenizer_problem);
    oom_add(w, info.template_problem, sizeof info.template_problem);
    oom_add_u64(w, info.n_params);
    return st;
}

static infer_status estimate(struct world *w, int which)
{
    infer_source s = path_source(models[which].path);
    infer_estimate_options o;
    infer_estimate e;
    INFER_INIT(&o);
    INFER_INIT(&e);
    o.sessions = 2;
    infer_status st = infer_model_estimate(w->engine, &s, NULL, &o, &e, &w->err);
    if (st == INFER_OK)
        oom_add(w, &e, sizeof e);
    return st;
}

/* ---- files */

static const struct {
    const char *path;
    int32_t map;
} files[] = {
    {TINY, INFER_MAP_READ},
    {FIXTURE("llama-mix32"), INFER_MAP_AUTO},
    {DATA "types.safetensors", INFER_MAP_AUTO},
    {DATA "fixtures/llama/model.safetensors", INFER_MAP_READ},
    {DATA "torch/types.pt", INFER_MAP_AUTO},
    {DATA "torch/views.pt", INFER_MAP_READ},
    {DATA "torch/nested.pt", INFER_MAP_AUTO},
    {DATA "torch/alone.pt", INFER_MAP_AUTO},
    {DATA "torch/unaligned.pt", INFER_MAP_AUTO},
    {DATA "torch/folder", INFER_MAP_AUTO},
    {DATA "fixtures/qwen2", INFER_MAP_AUTO},
};
enum { FILE_GGUF = 0, FILE_SAFETENSORS = 2, FILE_TORCH = 4, FILE_FOLDER = 10 };

static infer_status opened(struct world *w, infer_status st)
{
    oom_made(st, w->file);
    if (st != INFER_OK)
        return st;
    oom_add_u64(w, infer_file_meta_count(w->file));
    for (uint64_t i = 0; i < infer_file_tensor_count(w->file); i++) {
        infer_tensor_info t;
        INFER_INIT(&t);
        assert_int_equal(infer_file_tensor(w->file, i, &t, NULL), INFER_OK);
        oom_add(w, t.name, t.name_len);
        oom_add(w, t.shape, sizeof t.shape);
        oom_add(w, t.data, t.data_len < 64 ? t.data_len : 64);
    }
    return st;
}

static infer_status open_file(struct world *w, int which)
{
    infer_source s = path_source(files[which].path);
    infer_open_options o;
    infer_file_release(w->file);
    w->file = NULL;
    INFER_INIT(&o);
    o.map = files[which].map;
    return opened(w, infer_file_open(w->engine, &s, &o, &w->file, &w->err));
}

static infer_status numbers_of_file(struct world *w, int arg)
{
    uint64_t index;
    float row[96];
    (void)arg;
    infer_status st = infer_file_find_tensor(w->file, "token_embd.weight", INFER_ZSTR, &index, &w->err);
    if (st == INFER_OK)
        st = infer_file_tensor_f32(w->file, index, 0, 96, row, &w->err);
    if (st == INFER_OK)
        oom_add(w, row, sizeof row);
    return st;
}

/* ---- a split file, on the disk and from a host's memory */

enum { PARTS = 3 };
static struct part {
    char name[32];
    char data[1024];
    size_t len;
} parts[PARTS];
static int parts_open;

static void make_parts(void)
{
    for (uint32_t i = 0; i < PARTS; i++) {
        struct buf b;
        snprintf(parts[i].name, sizeof parts[i].name, "m-%05u-of-%05u.gguf", (unsigned)i + 1, (unsigned)PARTS);
        gb_header(&b, 3, 1, 4);
        gb_meta_str(&b, "general.architecture", "test");
        gb_key(&b, "split.no", FILE_U16), buf_put(&b, &i, 2);
        gb_key(&b, "split.count", FILE_U16), buf_put(&b, &(uint16_t){PARTS}, 2);
        gb_key(&b, "split.tensors.count", FILE_I32), gb_u32(&b, PARTS);
        gb_tensor(&b, (const char *const[]){"a", "b", "c"}[i], INFER_TYPE_F32, 1, (uint64_t[]){2}, 0);
        gb_align(&b, 32);
        gb_u64(&b, i);
        parts[i].len = b.len;
        memcpy(parts[i].data, b.data, b.len);
        buf_free(&b);
    }
}

static infer_status open_split(struct world *w, int map)
{
    infer_source s = path_source(oom_path(parts[0].name));
    infer_open_options o;
    infer_file_release(w->file);
    w->file = NULL;
    INFER_INIT(&o);
    o.map = map;
    return opened(w, infer_file_open(w->engine, &s, &o, &w->file, &w->err));
}

/* The scenario's folder is emptied after each run. */
static infer_status write_split(struct world *w, int arg)
{
    (void)w;
    (void)arg;
    w->seam->pause(true);
    for (int i = 0; i < PARTS; i++)
        oom_write(oom_path(parts[i].name), parts[i].data, parts[i].len);
    w->seam->pause(false);
    return INFER_OK;
}

static infer_status part_read(void *user, uint64_t offset, void *dst, uint64_t n)
{
    const struct part *p = user;
    if (offset > p->len || n > p->len - offset)
        return INFER_ERROR_TRUNCATED;
    memcpy(dst, p->data + offset, n);
    return INFER_OK;
}

static void part_release(void *user)
{
    (void)user;
    parts_open--;
}

static infer_status part_open(void *user, const char *name, uint64_t len, infer_stream *out)
{
    (void)user;
    for (int i = 0; i < PARTS; i++)
        if (len == strlen(parts[i].name) && memcmp(name, parts[i].name, len) == 0) {
            *out = (infer_stream){.size = sizeof *out, .length = parts[i].len, .user = &parts[i], .read = part_read, .release = part_release};
            parts_open++;
            return INFER_OK;
        }
    return INFER_ERROR_NOT_FOUND;
}

static infer_status open_callback(struct world *w, int arg)
{
    infer_source s;
    (void)arg;
    infer_file_release(w->file);
    w->file = NULL;
    infer_source_callback(&s, parts[0].name, INFER_ZSTR, part_open, NULL);
    infer_status st = opened(w, infer_file_open(w->engine, &s, NULL, &w->file, &w->err));
    infer_file_release(w->file);
    w->file = NULL;
    assert_int_equal(parts_open, 0);
    return st;
}

/* ---- tokenizers */

static const char *const tokenizers[] = {
    TINY, DATA "tokenizers/bpe.gguf", DATA "tokenizers/spm.gguf", DATA "tokenizers/unigram.gguf", DATA "tokenizers/wordpiece.gguf",
    DATA "tokenizers/json/qwen2.json", DATA "tokenizers/json/llama2.json", DATA "tokenizers/json/albert.json", DATA "tokenizers/json/bert.json",
    DATA "tokenizers/json/t5.json", DATA "tokenizers/json/wordlevel.json", DATA "fixtures/bert",
};
enum { TOKENIZER_GGUF = 0, TOKENIZER_JSON = 5, TOKENIZER_FOLDER = 11 };

static infer_status open_tokenizer(struct world *w, int which)
{
    infer_source s = path_source(tokenizers[which]);
    infer_tokenizer_info i;
    infer_tokenizer_release(w->tokenizer);
    w->tokenizer = NULL;
    infer_status st = oom_made(infer_tokenizer_open(w->engine, &s, NULL, &w->tokenizer, &w->err), w->tokenizer);
    if (st != INFER_OK)
        return st;
    INFER_INIT(&i);
    assert_int_equal(infer_tokenizer_get_info(w->tokenizer, &i, NULL), INFER_OK);
    oom_add(w, &i, sizeof i);
    return st;
}

static const char sample[] = "Once upon a time, there was a little girl called L\xc3\xbc" "cy.\n\n  She had 1234567 caf\xc3\xa9s \xe2\x80\x94 \xf0\x9f\x98\x80!\t"
                             "\xe4\xbd\xa0\xe5\xa5\xbd\xff internationalisation <|im_end|> don't stop</s>";

static infer_status tokenize(struct world *w, int arg)
{
    (void)arg;
    infer_status st = infer_tokenize(w->tokenizer, sample, sizeof sample - 1, INFER_TOKENIZE_ADD_SPECIAL | INFER_TOKENIZE_PARSE_SPECIAL, w->ids, 1024, &w->n_ids, &w->err);
    if (st == INFER_OK)
        oom_add(w, w->ids, w->n_ids * sizeof w->ids[0]);
    return st;
}

static infer_status detokenize(struct world *w, int arg)
{
    char text[2048];
    uint64_t n;
    (void)arg;
    infer_status st = infer_detokenize(w->tokenizer, w->ids, w->n_ids, INFER_DETOKENIZE_SHOW_SPECIAL, text, sizeof text, &n, &w->err);
    if (st == INFER_OK)
        oom_add(w, text, n);
    return st;
}

static infer_status stream(struct world *w, int arg)
{
    infer_detokenizer d;
    char text[2048];
    uint64_t len = 0, n = 0;
    (void)arg;
    INFER_INIT(&d);
    infer_status st = INFER_OK;
    for (uint64_t i = 0; st == INFER_OK && i <= w->n_ids; i++, len += n)
        st = infer_detokenizer_next(w->tokenizer, &d, i < w->n_ids ? w->ids[i] : -1, text + len, sizeof text - len, &n, &w->err);
    if (st == INFER_OK)
        oom_add(w, text, len);
    return st;
}

/* ---- templates */

static const char template_text[] =
    "{%- macro show(m, i) -%}<{{ m.role | upper }} {{ i }}>{{ m['content'] | trim }}{%- if m.tool_calls is defined -%}{% for c in m.tool_calls %}"
    "{{ c | tojson(indent=2) }}{% endfor %}{%- endif -%}</{{ m.role }}>{%- endmacro -%}"
    "{%- set ns = namespace(n=0, names=[]) -%}"
    "{%- for m in messages -%}{%- set ns.n = ns.n + 1 -%}{%- set ns.names = ns.names + [m.role] -%}{{ show(m, loop.index0) }}{{ '\\n' if not loop.last }}"
    "{%- endfor -%}{{ ns.names | join(', ') }} {{ ns.n }} {{ messages | map(attribute='role') | unique | list | length }}"
    "{% for k, v in {'b': 1, 'a': [1.5, none, true]} | dictsort %}{{ k ~ '=' ~ v }};{% endfor %}"
    "{{ 'x,y,z'.split(',')[::-1] | join('-') }}{{ '%05.2f|%s' | format(3.14159, 'ok') }}{{ strftime_now('%Y-%m-%d') }}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";
static const char template_json[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"  Be brief. \"},{\"role\":\"user\",\"content\":\"Caf\\u00e9?\"},{\"role\":\"assistant\","
    "\"content\":\"\",\"tool_calls\":[{\"name\":\"f\",\"arguments\":{\"x\":[1,2.5,null],\"y\":\"\\\"z\\\"\"}}]}],\"add_generation_prompt\":true}";

static infer_status parse_template(struct world *w, int arg)
{
    (void)arg;
    return oom_made(infer_template_parse(w->engine, template_text, sizeof template_text - 1, &w->tmpl, &w->err), w->tmpl);
}

static infer_status open_template(struct world *w, int arg)
{
    infer_source s = path_source(TINY);
    (void)arg;
    infer_template_release(w->tmpl);
    w->tmpl = NULL;
    return oom_made(infer_template_open(w->engine, &s, NULL, &w->tmpl, &w->err), w->tmpl);
}

static infer_status render(struct world *w, int arg)
{
    char out[4096];
    uint64_t n;
    infer_render_options o;
    (void)arg;
    INFER_INIT(&o);
    o.now = 1000000000;
    infer_status st = infer_template_render(w->tmpl, template_json, sizeof template_json - 1, &o, out, sizeof out, &n, &w->err);
    if (st == INFER_OK)
        oom_add(w, out, n);
    return st;
}

/* ---- the scenarios */

#define ENGINE {"create the engine", scene_engine, 0, 0}
#define MODEL(which) {"open the model", scene_model, which, 0}
#define TOKENS(which) {"open a tokenizer", open_tokenizer, which, 0}, {"tokenize", tokenize, 0, 0}, {"detokenize", detokenize, 0, 0}, {"stream", stream, 0, 0}

static const struct step gguf[] = {ENGINE, {"open a file", open_file, FILE_GGUF, 0}, {"read numbers", numbers_of_file, 0, 0},
    {"open a mapped file", open_file, FILE_GGUF + 1, 0}, MODEL(MODEL_TINY_READ), {0}};
static const struct step estimates[] = {ENGINE, {"estimate", estimate, MODEL_TINY, 0}, {"estimate a folder", estimate, MODEL_BERT_FOLDER, 0},
    {"estimate experts", estimate, MODEL_MOE, 0}, {0}};
static const struct step quantise[] = {ENGINE, MODEL(MODEL_LLAMA_Q4), {0}};
static const struct step safetensors[] = {ENGINE, {"open a file", open_file, FILE_SAFETENSORS, 0}, {"open a model's file", open_file, FILE_SAFETENSORS + 1, 0},
    {"open a folder", open_file, FILE_FOLDER, 0}, MODEL(MODEL_LLAMA_FOLDER), {0}};
static const struct step bert_folder[] = {ENGINE, MODEL(MODEL_BERT_FOLDER), {0}};
static const struct step torch[] = {ENGINE, {"open types", open_file, FILE_TORCH, 0}, {"open views", open_file, FILE_TORCH + 1, 0},
    {"open nested", open_file, FILE_TORCH + 2, 0}, {"open alone", open_file, FILE_TORCH + 3, 0}, {"open unaligned", open_file, FILE_TORCH + 4, 0},
    {"open a folder", open_file, FILE_TORCH + 5, 0}, {0}};
static const struct step split[] = {{"write the parts", write_split, 0, 0}, ENGINE, {"open it mapped", open_split, INFER_MAP_AUTO, 0},
    {"read it", open_split, INFER_MAP_READ, 0}, {"open it by callback", open_callback, 0, 0}, {0}};
/* Without an engine: what is opened then takes its memory from the C library. */
static const struct step alone[] = {{"open a file", open_file, FILE_GGUF, 0}, {"open a torch file", open_file, FILE_TORCH, 0}, TOKENS(TOKENIZER_GGUF + 2),
    TOKENS(TOKENIZER_JSON), {"parse a template", parse_template, 0, 0}, {"render", render, 0, 0}, {"open a model", scene_model, MODEL_TINY, 0}, {0}};
static const struct step tokenizers_gguf[] = {ENGINE, TOKENS(TOKENIZER_GGUF), TOKENS(TOKENIZER_GGUF + 1), TOKENS(TOKENIZER_GGUF + 2), TOKENS(TOKENIZER_GGUF + 3),
    TOKENS(TOKENIZER_GGUF + 4), {0}};
static const struct step tokenizers_json[] = {ENGINE, TOKENS(TOKENIZER_JSON), TOKENS(TOKENIZER_JSON + 1), TOKENS(TOKENIZER_JSON + 2),
    TOKENS(TOKENIZER_JSON + 3), TOKENS(TOKENIZER_JSON + 4), TOKENS(TOKENIZER_JSON + 5), TOKENS(TOKENIZER_FOLDER), {0}};
static const struct step templates[] = {ENGINE, {"parse a template", parse_template, 0, 0}, {"render", render, 0, 0},
    {"open a model's template", open_template, 0, 0}, {"render ChatML", render, 0, 0}, {0}};

const struct scenario oom_files[] = {
    {"gguf", gguf, 0, 0, 0, 0, 0, 0}, {"estimate", estimates, 0, 0, 0, 0, 0, 0}, {"quantise at open", quantise, 0, 0, 0, 0, 0, 0}, {"safetensors", safetensors, 0, 0, 0, 0, 0, 0},
    {"folder with a tokenizer", bert_folder, 0, 0, 0, 0, 0, 0}, {"torch", torch, 0, 0, 0, 0, 0, 0}, {"split", split, 0, 0, 0, 0, 0, 0},
    {"without an engine", alone, 0, 0, 0, 0, 0, 0}, {"tokenizers of GGUF", tokenizers_gguf, 0, 0, 0, 0, 0, 0}, {"tokenizer.json", tokenizers_json, 0, 0, 0, 0, 0, 0},
    {"template", templates, 0, 0, 0, 0, 0, 0}, {0},
};

void scenes_make(void)
{
    make_parts();
}
