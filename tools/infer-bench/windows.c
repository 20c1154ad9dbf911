#include "windows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((uint64_t)64 << 20) /* of logits in one step */

static int read_file(const char *path, char **out, size_t *len)
{
    FILE *f = fopen(path, "rb");
    size_t cap = 0, got = 1;
    *out = NULL;
    *len = 0;
    while (f && got && !ferror(f)) {
        if (*len == cap) {
            char *more = cap > INFER_MAX_TEXT ? NULL : realloc(*out, cap = cap ? cap * 2 : 65536);
            if (!more) {
                complain("%s: too large", path);
                fclose(f);
                return EXIT_FAILED;
            }
            *out = more;
        }
        got = fread(*out + *len, 1, cap - *len, f);
        *len += got;
    }
    if (!f || ferror(f)) {
        complain("%s: %s", path, strerror(errno));
        if (f)
            fclose(f);
        return EXIT_FAILED;
    }
    fclose(f);
    return EXIT_OK;
}

/* The whole text's tokens, without BOS or EOS. */
static int tokenize_file(const infer_tokenizer *t, const char *path, int32_t **ids, uint64_t *n)
{
    char *text;
    size_t len;
    infer_error err;
    INFER_INIT(&err);
    *ids = NULL;
    int code = read_file(path, &text, &len);
    if (code == EXIT_OK) {
        *ids = malloc((len + 16) * sizeof **ids); /* a token is at least a byte, but for what SentencePiece puts before the text */
        infer_status st = *ids ? infer_tokenize(t, text, len, 0, *ids, len + 16, n, &err) : INFER_ERROR_NO_MEMORY;
        if (!*ids)
            complain("out of memory");
        if (st != INFER_OK)
            code = *ids ? complain_error(path, &err) : EXIT_FAILED;
    }
    free(text);
    return code;
}

int windows_from_text(const struct model *m, const char *path, uint32_t window, bool score_all, uint32_t most, struct windows *w)
{
    const infer_tokenizer *t = infer_model_tokenizer(m->model);
    infer_tokenizer_info info;
    int32_t *ids;
    uint64_t n = 0;
    INFER_INIT(&info);
    if (!t || infer_tokenizer_get_info(t, &info, NULL) != INFER_OK) {
        complain("the model has no tokenizer that is known: %s", m->info.tokenizer_problem);
        return EXIT_FAILED;
    }
    int code = tokenize_file(t, path, &ids, &n);
    uint32_t bos = info.add_bos && info.bos >= 0, step = window - bos;
    uint64_t count = n / step;
    count = most && count > most ? most : count;
    if (code == EXIT_OK && !count) {
        complain("%s: %llu tokens are less than one window of %u", path, (unsigned long long)n, (unsigned)window);
        code = EXIT_FAILED;
    }
    *w = (struct windows){.n_tokens = count * window, .window = window, .first = score_all ? 0 : window / 2};
    w->tokens = code == EXIT_OK ? malloc(w->n_tokens * sizeof *w->tokens) : NULL;
    if (code == EXIT_OK && !w->tokens) {
        complain("out of memory");
        code = EXIT_FAILED;
    }
    for (uint64_t i = 0; code == EXIT_OK && i < count; i++) {
        w->tokens[i * window] = info.bos;
        memcpy(w->tokens + i * window + bos, ids + i * step, step * sizeof *ids);
    }
    free(ids);
    return code;
}

/* Elements [from, to) of a window are computed; with fn, their logits are handed on. */
static int run_chunk(const struct windows *w, infer_session *s, const int32_t *tokens, uint32_t from, uint32_t to, row_fn *fn, void *user)
{
    infer_step_item item;
    infer_error err;
    INFER_INIT(&item);
    INFER_INIT(&err);
    item.session = s;
    item.logits = fn ? INFER_ROWS_ALL : INFER_ROWS_NONE;
    infer_status st = infer_session_append(s, tokens + from, to - from, &err);
    if (st == INFER_OK)
        st = infer_step(&item, 1, bench_cancel, &err);
    for (uint32_t i = from; fn && i < to && st == INFER_OK; i++) {
        const float *logits;
        st = infer_session_logits(s, i - from, &logits, NULL, &err);
        int code = st == INFER_OK ? fn(user, logits, i + 1 < w->window ? tokens[i + 1] : -1) : EXIT_OK;
        if (code != EXIT_OK)
            return code;
    }
    return st == INFER_OK ? EXIT_OK : complain_error(NULL, &err);
}

static int run_window(const struct model *m, const struct options *o, const struct windows *w, const int32_t *tokens, row_fn *fn,
                      void *user)
{
    infer_session_options so;
    infer_session *s;
    infer_error err;
    INFER_INIT(&so);
    INFER_INIT(&err);
    so.n_ctx = w->window;
    so.kv_type = o->kv_type;
    so.kv_recent = o->kv_recent;
    if (infer_session_create(m->model, &so, &s, &err) != INFER_OK)
        return complain_error(NULL, &err);
    uint64_t fit = CHUNK_BYTES / ((uint64_t)m->info.vocab_size * sizeof(float));
    uint32_t chunk = fit < 16 ? 16 : fit > 256 ? 256 : (uint32_t)fit;
    int code = w->first ? run_chunk(w, s, tokens, 0, w->first, NULL, NULL) : EXIT_OK;
    for (uint32_t i = w->first; i < w->window && code == EXIT_OK; i += chunk)
        code = run_chunk(w, s, tokens, i, w->window - i < chunk ? w->window : i + chunk, fn, user);
    infer_session_release(s);
    return code;
}

int windows_run(const struct model *m, const struct options *o, const struct windows *w, row_fn *fn, void *user)
{
    int code = EXIT_OK;
    for (uint64_t i = 0; i < windows_count(w) && code == EXIT_OK; i++)
        code = run_window(m, o, w, w->tokens + i * w->window, fn, user);
    return code;
}
