#include "fim.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Spellings of the three tokens, in the order in which prompts have them: before the prefix, before the suffix, before what is wanted. */
static const char *const spellings[][3] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},           /* Qwen 2.5 Coder, CodeGemma */
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},                 /* StarCoder, Granite, Refact */
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},                 /* SantaCoder */
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},           /* DeepSeek Coder */
    {"▁<PRE>", "▁<SUF>", "▁<MID>"},                                   /* CodeLlama */
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},        /* GLM */
};

struct list {
    int32_t *ids;
    uint64_t n;
};

static infer_status out_of_memory(infer_error *err)
{
    err->code = INFER_ERROR_NO_MEMORY;
    snprintf(err->text, sizeof err->text, "out of memory");
    return INFER_ERROR_NO_MEMORY;
}

static infer_status put_text(const infer_tokenizer *t, struct list *l, const char *text, size_t len, infer_error *err)
{
    uint64_t n = 0, room = len + 16; /* no token is shorter than a byte; a prefix space and replaced bytes are few */
    for (;;) {
        int32_t *longer = realloc(l->ids, (size_t)(l->n + room + 1) * sizeof *longer);
        if (!longer)
            return out_of_memory(err);
        l->ids = longer;
        infer_status st = infer_tokenize(t, text, len, 0, l->ids + l->n, room, &n, err);
        if (st == INFER_OK) {
            l->n += n;
            return INFER_OK;
        }
        if (st != INFER_ERROR_BUFFER || n <= room)
            return st;
        room = n;
    }
}

/* The ids of a family's tokens; false: the vocabulary lacks one. */
static bool find_tokens(const infer_tokenizer *t, const char *const names[3], int32_t ids[3])
{
    for (int i = 0; i < 3; i++) {
        uint64_t n = 0;
        infer_token_info info;
        INFER_INIT(&info);
        if (infer_tokenize(t, names[i], INFER_ZSTR, INFER_TOKENIZE_PARSE_SPECIAL, &ids[i], 1, &n, NULL) != INFER_OK || n != 1 ||
            infer_tokenizer_token(t, ids[i], &info, NULL) != INFER_OK || info.piece_len != strlen(names[i]))
            return false;
    }
    return true;
}

static infer_status put_all(const infer_tokenizer *t, const int32_t marks[3], const char *prefix, size_t prefix_len, const char *suffix,
                            struct list *l, infer_error *err)
{
    infer_tokenizer_info info;
    INFER_INIT(&info);
    (void)infer_tokenizer_get_info(t, &info, NULL);
    l->ids = malloc(2 * sizeof *l->ids);
    if (!l->ids)
        return out_of_memory(err);
    if (info.add_bos && info.bos >= 0)
        l->ids[l->n++] = info.bos;
    l->ids[l->n++] = marks[0];
    infer_status st = put_text(t, l, prefix, prefix_len, err);
    if (st != INFER_OK)
        return st;
    l->ids[l->n++] = marks[1]; /* put_text leaves room for one */
    st = put_text(t, l, suffix, strlen(suffix), err);
    if (st == INFER_OK)
        l->ids[l->n++] = marks[2];
    return st;
}

infer_status fim_prompt(const infer_tokenizer *tokenizer, const char *prefix, size_t prefix_len, const char *suffix, int32_t **ids, uint64_t *n, infer_error *err)
{
    int32_t marks[3];
    struct list l = {NULL, 0};
    for (size_t i = 0; tokenizer && i < sizeof spellings / sizeof *spellings; i++) {
        if (!find_tokens(tokenizer, spellings[i], marks))
            continue;
        infer_status st = put_all(tokenizer, marks, prefix, prefix_len, suffix, &l, err);
        if (st != INFER_OK) {
            free(l.ids);
            return st;
        }
        free(*ids);
        *ids = l.ids;
        *n = l.n;
        return INFER_OK;
    }
    err->code = INFER_ERROR_UNSUPPORTED;
    snprintf(err->text, sizeof err->text, "this model has no tokens for filling in the middle");
    return INFER_ERROR_UNSUPPORTED;
}
