#include "info.h"

#include <stdlib.h>
#include <string.h>

#include "conversation.h"
#include "memory.h"
#include "output.h"

#define MAX_TYPES 256
#define SHOWN_ITEMS 5   /* of an array */
#define SHOWN_BYTES 200 /* of a string */

/* ---- Sizes ---- */

static void put_size(struct text *t, uint64_t bytes)
{
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    int u = 0;
    for (; v >= 1024 && u < 4; u++)
        v /= 1024;
    text_putf(t, u ? "%.1f %s" : "%.0f %s", v, unit[u]);
}

static void put_line(struct text *t, const char *label)
{
    text_putf(t, "%-16s", label);
}

/* ---- Tensors ---- */

struct type_sum {
    uint64_t tensors, elements, bytes;
};

static void put_tensors(struct text *t, const infer_file *file)
{
    static struct type_sum sums[MAX_TYPES];
    struct type_sum all = {0, 0, 0};
    uint64_t n = infer_file_tensor_count(file);
    memset(sums, 0, sizeof sums);
    for (uint64_t i = 0; i < n; i++) {
        infer_tensor_info info;
        INFER_INIT(&info);
        if (infer_file_tensor(file, i, &info, NULL) != INFER_OK || info.type < 0 || info.type >= MAX_TYPES)
            continue;
        struct type_sum one = {1, info.shape[0] * info.shape[1] * info.shape[2] * info.shape[3], info.data_len};
        struct type_sum *to[2] = {&sums[info.type], &all};
        for (int k = 0; k < 2; k++) {
            to[k]->tensors += one.tensors;
            to[k]->elements += one.elements;
            to[k]->bytes += one.bytes;
        }
    }
    put_line(t, "tensors");
    text_putf(t, "%llu, %llu elements, ", (unsigned long long)all.tensors, (unsigned long long)all.elements);
    put_size(t, all.bytes);
    text_puts(t, "\n");
    for (int32_t i = 0; i < MAX_TYPES; i++) {
        const char *name = infer_type_name(i);
        if (!sums[i].tensors)
            continue;
        text_putf(t, "  %-14s%llu tensors, %llu elements, ", name ? name : "?", (unsigned long long)sums[i].tensors,
                  (unsigned long long)sums[i].elements);
        put_size(t, sums[i].bytes);
        text_puts(t, "\n");
    }
}

/* ---- Metadata ---- */

static void put_value(struct text *t, const infer_file *file, const infer_value *v, int depth)
{
    switch (v->kind) {
    case INFER_VALUE_UINT: text_putf(t, "%llu", (unsigned long long)v->u); break;
    case INFER_VALUE_INT: text_putf(t, "%lld", (long long)v->i); break;
    case INFER_VALUE_FLOAT: text_putf(t, "%.9g", v->f); break;
    case INFER_VALUE_BOOL: text_puts(t, v->u ? "true" : "false"); break;
    case INFER_VALUE_STRING:
        text_put_json(t, v->data, (size_t)(v->count < SHOWN_BYTES ? v->count : SHOWN_BYTES));
        if (v->count > SHOWN_BYTES)
            text_putf(t, "... (%llu bytes)", (unsigned long long)v->count);
        break;
    case INFER_VALUE_ARRAY:
        text_puts(t, "[");
        for (uint64_t i = 0; i < v->count && i < SHOWN_ITEMS && depth < 3; i++) {
            infer_value item;
            INFER_INIT(&item);
            if (infer_file_value_item(file, v, i, &item, NULL) != INFER_OK)
                break;
            text_puts(t, i ? ", " : "");
            put_value(t, file, &item, depth + 1);
        }
        text_puts(t, v->count > SHOWN_ITEMS ? ", ...]" : "]");
        if (v->count > SHOWN_ITEMS)
            text_putf(t, " (%llu items)", (unsigned long long)v->count);
        break;
    default: text_puts(t, "?");
    }
}

static void put_metadata(struct text *t, const infer_file *file)
{
    uint64_t n = infer_file_meta_count(file);
    text_putf(t, "\nmetadata (%llu)\n", (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) {
        const char *key;
        uint64_t len;
        infer_value v;
        INFER_INIT(&v);
        if (infer_file_meta(file, i, &key, &len, &v, NULL) != INFER_OK)
            continue;
        text_puts(t, "  ");
        text_put(t, key, (size_t)len);
        text_puts(t, " = ");
        put_value(t, file, &v, 0);
        text_puts(t, "\n");
    }
}

/* The value of a string key, or nothing. */
static void put_meta_string(struct text *t, const infer_file *file, const char *label, const char *key)
{
    infer_value v;
    INFER_INIT(&v);
    if (infer_file_find_meta(file, key, INFER_ZSTR, &v, NULL) != INFER_OK || v.kind != INFER_VALUE_STRING)
        return;
    put_line(t, label);
    text_put(t, v.data, (size_t)(v.count < SHOWN_BYTES ? v.count : SHOWN_BYTES));
    text_puts(t, "\n");
}

/* ---- Model, tokenizer, template ---- */

static void put_shape(struct text *t, const infer_source *source)
{
    static const char *const pooling[] = {"?", "none", "mean", "cls", "last", "rank (a reranker: not supported)"};
    infer_error err;
    infer_model *model = NULL;
    infer_model_info m;
    INFER_INIT(&err);
    INFER_INIT(&m);
    put_line(t, "runs here");
    if (infer_model_open(NULL, source, NULL, &model, &err) != INFER_OK) {
        text_putf(t, "no: %s%s", err.name, err.name[0] ? ": " : "");
        text_puts(t, err.text);
        text_puts(t, "\n");
        return;
    }
    text_puts(t, "yes\n");
    if (infer_model_get_info(model, &m, NULL) == INFER_OK) {
        put_line(t, "shape");
        text_putf(t, "%u layers of width %u, %u heads (%u for keys and values) of %u\n", m.n_layer, m.n_embd, m.n_head,
                  m.n_head_kv, m.head_dim);
        put_line(t, "context");
        text_putf(t, "%u tokens", m.n_ctx_train);
        if (m.window)
            text_putf(t, ", sliding window of %u", m.window);
        text_puts(t, "\n");
        put_line(t, "embeddings");
        text_putf(t, "%u numbers, pooling %s, of at most %u tokens%s\n", m.embedding_width,
                  pooling[m.pooling >= 0 && m.pooling < 6 ? m.pooling : 0], m.embed_tokens,
                  m.encoder ? "; an encoder, which does not generate" : "");
    }
    infer_model_release(model);
}

static void put_special(struct text *t, const infer_tokenizer *tok, const char *name, int32_t id)
{
    infer_token_info info;
    INFER_INIT(&info);
    if (id < 0 || infer_tokenizer_token(tok, id, &info, NULL) != INFER_OK)
        return;
    text_putf(t, "  %-14s%d ", name, (int)id);
    text_put_json(t, info.piece, (size_t)info.piece_len);
    text_puts(t, "\n");
}

static void put_tokenizer(struct text *t, const infer_source *source)
{
    static const char *const kinds[] = {"?", "BPE", "SentencePiece BPE", "WordPiece", "Unigram", "WordLevel"};
    infer_error err;
    infer_tokenizer *tok = NULL;
    infer_tokenizer_info i;
    INFER_INIT(&err);
    INFER_INIT(&i);
    put_line(t, "tokenizer");
    if (infer_tokenizer_open(NULL, source, NULL, &tok, &err) != INFER_OK) {
        text_puts(t, "none: ");
        text_puts(t, err.text);
        text_puts(t, "\n");
        return;
    }
    if (infer_tokenizer_get_info(tok, &i, NULL) == INFER_OK) {
        text_putf(t, "%s, %u tokens%s%s\n", kinds[i.kind >= 1 && i.kind <= 5 ? i.kind : 0], i.vocab_size,
                  i.add_bos ? ", begins texts with bos" : "", i.add_eos ? ", ends texts with eos" : "");
        put_special(t, tok, "bos", i.bos);
        put_special(t, tok, "eos", i.eos);
        put_special(t, tok, "eot", i.eot);
        put_special(t, tok, "unk", i.unk);
        put_special(t, tok, "pad", i.pad);
    }
    infer_tokenizer_release(tok);
}

static void put_template(struct text *t, const infer_source *source)
{
    infer_error err;
    infer_template *tmpl = NULL;
    const char *source_text;
    uint64_t len;
    INFER_INIT(&err);
    if (infer_template_open(NULL, source, NULL, &tmpl, &err) != INFER_OK) {
        text_puts(t, "\nchat template: cannot be used: ");
        text_puts(t, err.text);
        text_puts(t, "\n");
    } else if (infer_template_is_fallback(tmpl)) {
        text_puts(t, "\nchat template: none\n");
    } else {
        infer_template_text(tmpl, &source_text, &len);
        text_putf(t, "\nchat template (%llu bytes)\n", (unsigned long long)len);
        text_put(t, source_text, (size_t)len);
        text_puts(t, "\n");
    }
    infer_template_release(tmpl);
}

static int print_info(struct text *t)
{
    bool ok = out_text(t);
    text_free(t);
    return ok ? EXIT_OK : EXIT_GENERATION;
}

int run_info(struct cli *c)
{
    infer_error err;
    infer_file *file = NULL;
    infer_source source;
    struct text t = {0};
    INFER_INIT(&err);
    infer_source_path(&source, c->model_path, INFER_ZSTR);
    if (infer_file_open(NULL, &source, NULL, &file, &err) != INFER_OK) {
        note_error(err.file[0] ? NULL : c->model_path, &err);
        return exit_code(err.code, false);
    }
    if (c->opt.json) {
        text_puts(&t, "{\"event\":\"info\",\"file\":");
        text_put_json(&t, c->model_path, strlen(c->model_path));
        text_putf(&t, ",\"tensors\":%llu}\n", (unsigned long long)infer_file_tensor_count(file));
        memory_put_json(&t, &c->opt, &source);
        infer_file_release(file);
        return print_info(&t);
    }
    put_line(&t, "file");
    text_puts(&t, c->model_path);
    text_puts(&t, "\n");
    put_meta_string(&t, file, "name", "general.name");
    put_meta_string(&t, file, "architecture", "general.architecture");
    put_meta_string(&t, file, "licence", "general.license");
    put_shape(&t, &source);
    memory_put(&t, &c->opt, &source);
    put_tensors(&t, file);
    put_tokenizer(&t, &source);
    put_template(&t, &source);
    put_metadata(&t, file);
    infer_file_release(file);
    return print_info(&t);
}

/* ---- --tokenize ---- */

static void put_piece(const struct cli *c, struct text *t, int32_t id)
{
    infer_token_info info;
    INFER_INIT(&info);
    (void)infer_tokenizer_token(c->tokenizer, id, &info, NULL);
    bool control = info.kind == INFER_TOKEN_CONTROL;
    const char *bytes = control ? info.piece : info.bytes;
    uint64_t len = control ? info.piece_len : info.bytes_len;
    if (c->opt.json) {
        text_putf(t, "{\"event\":\"token\",\"id\":%d,\"text\":", (int)id);
        text_put_json(t, bytes, (size_t)len);
        text_puts(t, "}\n");
    } else {
        text_putf(t, "%d\t", (int)id);
        text_put_json(t, bytes, (size_t)len);
        text_puts(t, "\n");
    }
}

int run_tokenize(struct cli *c, const char *prompt, size_t len)
{
    infer_error err;
    infer_source source;
    infer_tokenizer *tok = NULL;
    struct text t = {0};
    int32_t *ids = NULL;
    uint64_t count = 0;
    INFER_INIT(&err);
    INFER_INIT(&c->tok);
    infer_source_path(&source, c->model_path, INFER_ZSTR);
    if (infer_tokenizer_open(NULL, &source, NULL, &tok, &err) != INFER_OK) {
        note_error(err.file[0] ? NULL : c->model_path, &err);
        return exit_code(err.code, false);
    }
    c->tokenizer = tok;
    (void)infer_tokenizer_get_info(tok, &c->tok, NULL);
    int code = encode_text(c, prompt, len, true, &ids, &count);
    for (uint64_t i = 0; i < count && code == EXIT_OK && !out_failed(); i++) {
        put_piece(c, &t, ids[i]);
        if (t.len > 60000)
            out_text(&t);
    }
    if (code == EXIT_OK && !out_text(&t))
        code = EXIT_GENERATION;
    text_free(&t);
    free(ids);
    infer_tokenizer_release(tok);
    c->tokenizer = NULL;
    return code;
}
