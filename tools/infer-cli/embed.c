#include "embed.h"

#include <stdlib.h>
#include <string.h>

#include "output.h"

#define BATCH 64

/* Texts of one call of infer_embed. */
struct batch {
    infer_embed_item items[BATCH];
    uint64_t n, done; /* done: texts of the batches before */
};

static void put_vector(struct text *t, const float *x, uint64_t width, const char *between)
{
    for (uint64_t i = 0; i < width; i++)
        text_putf(t, "%s%.9g", i ? between : "", (double)x[i]);
}

static void put_json(struct text *t, const infer_embed_item *it, uint64_t number, uint64_t width, bool one)
{
    text_putf(t, "{\"event\":\"embedding\",\"index\":%llu,\"tokens\":%llu,\"truncated\":%s,\"%s\":", (unsigned long long)number,
              (unsigned long long)it->tokens, it->truncated ? "true" : "false", one ? "embedding" : "embeddings");
    text_puts(t, one ? "" : "[");
    for (uint64_t r = 0; r < it->rows; r++) {
        text_puts(t, r ? ",[" : "[");
        put_vector(t, it->out + r * width, width, ",");
        text_puts(t, "]");
    }
    text_puts(t, one ? "}\n" : "]}\n");
}

static void put_item(const struct cli *c, struct text *t, const infer_embed_item *it, uint64_t number, uint64_t width)
{
    if (c->opt.json) {
        put_json(t, it, number, width, c->opt.pooling != INFER_POOLING_NONE);
        return;
    }
    for (uint64_t r = 0; r < it->rows; r++) {
        put_vector(t, it->out + r * width, width, " ");
        text_puts(t, "\n");
    }
}

static int print_batch(const struct cli *c, struct batch *b, uint64_t width)
{
    struct text t = {0};
    for (uint64_t i = 0; i < b->n; i++)
        put_item(c, &t, &b->items[i], b->done + i, width);
    bool ok = out_text(&t);
    text_free(&t);
    return ok ? EXIT_OK : EXIT_GENERATION;
}

/* Memory for the vectors of the batch's texts: with one a token, a first call tells how many. */
static bool reserve(const struct cli *c, struct batch *b, const infer_embed_options *o, uint64_t width)
{
    if (c->opt.pooling == INFER_POOLING_NONE)
        (void)infer_embed(c->model, b->items, b->n, o, NULL, NULL);
    for (uint64_t i = 0; i < b->n; i++) {
        infer_embed_item *it = &b->items[i];
        it->capacity = (it->rows ? it->rows : 1) * width;
        it->out = malloc((size_t)it->capacity * sizeof *it->out);
        if (!it->out) {
            complain(INFER_ERROR_NO_MEMORY, "out of memory");
            return false;
        }
    }
    return true;
}

static int run_batch(const struct cli *c, struct batch *b, const infer_embed_options *o, uint64_t width)
{
    infer_error err;
    INFER_INIT(&err);
    int code = reserve(c, b, o, width) ? EXIT_OK : EXIT_LIMIT;
    if (code == EXIT_OK && infer_embed(c->model, b->items, b->n, o, interrupt_arm(), &err) != INFER_OK) {
        code = err.code == INFER_ERROR_CANCELLED ? EXIT_INTERRUPTED : err.code == INFER_ERROR_ARGUMENT ? EXIT_USAGE : exit_code(err.code, true);
        for (uint64_t i = 0; i < b->n && code != EXIT_INTERRUPTED; i++)
            if (b->items[i].status != INFER_OK)
                note("text %llu: %s", (unsigned long long)(b->done + i + 1),
                     b->items[i].status == INFER_ERROR_CONTEXT_FULL ? "too long (--truncate cuts it)" : infer_status_message(b->items[i].status));
        if (code != EXIT_INTERRUPTED)
            note_error(NULL, &err);
    }
    interrupt_disarm();
    if (code == EXIT_OK)
        code = print_batch(c, b, width);
    for (uint64_t i = 0; i < b->n; i++)
        free(b->items[i].out);
    b->done += b->n;
    b->n = 0;
    return code;
}

static void add_text(struct batch *b, const char *text, size_t len)
{
    infer_embed_item *it = &b->items[b->n++];
    INFER_INIT(it);
    it->text = text;
    it->text_len = len;
}

int run_embed(struct cli *c, const char *prompt, size_t len)
{
    struct batch b = {.n = 0};
    infer_embed_options o;
    infer_model_info m;
    INFER_INIT(&o);
    INFER_INIT(&m);
    (void)infer_model_get_info(c->model, &m, NULL);
    o.pooling = c->opt.pooling;
    o.dimensions = c->opt.dimensions;
    o.flags = (c->opt.embed_raw ? INFER_EMBED_RAW : 0) | (c->opt.truncate ? INFER_EMBED_TRUNCATE : 0);
    o.max_tokens = c->opt.ctx;
    uint64_t width = o.dimensions ? o.dimensions : o.pooling == INFER_POOLING_NONE ? m.n_embd : m.embedding_width;
    if (c->opt.prompt) {
        add_text(&b, prompt, len);
        return run_batch(c, &b, &o, width);
    }
    int code = EXIT_OK;
    for (size_t at = 0; at < len && code == EXIT_OK;) {
        const char *end = memchr(prompt + at, '\n', len - at);
        size_t n = end ? (size_t)(end - prompt) - at : len - at, cut = n && prompt[at + n - 1] == '\r';
        add_text(&b, prompt + at, n - cut);
        at += n + 1;
        if (b.n == BATCH || at >= len)
            code = run_batch(c, &b, &o, width);
    }
    return code;
}
