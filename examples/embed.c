/* How alike are sentences? embed MODEL "SENTENCE" "SENTENCE"...: the cosine of each with the first. */
#include <infer/infer.h>
#include <stdio.h>
#include <stdlib.h>

static int run(infer_model *model, char **texts, uint64_t count, infer_error *err)
{
    infer_model_info info;
    INFER_INIT(&info);
    infer_model_get_info(model, &info, NULL);
    uint64_t width = info.embedding_width;
    float *vectors = calloc(count * width, sizeof *vectors);
    infer_embed_item *items = calloc(count, sizeof *items);
    infer_status st = vectors && items ? INFER_OK : INFER_ERROR_NO_MEMORY;
    for (uint64_t i = 0; i < count && st == INFER_OK; i++) {
        INFER_INIT(&items[i]);
        items[i].text = texts[i];
        items[i].text_len = INFER_ZSTR;
        items[i].out = vectors + i * width;
        items[i].capacity = width;
    }
    if (st == INFER_OK)
        st = infer_embed(model, items, count, NULL, NULL, err); /* pooled as the model says, of length 1 */
    for (uint64_t i = 1; i < count && st == INFER_OK; i++) {
        double cosine = 0;
        for (uint64_t k = 0; k < width; k++)
            cosine += (double)vectors[k] * (double)vectors[i * width + k];
        printf("%.4f  %s\n", cosine, texts[i]);
    }
    free(items);
    free(vectors);
    return st;
}

int main(int argc, char **argv)
{
    infer_error err;
    infer_model *model = NULL;
    INFER_INIT(&err);
    if (argc < 4)
        return fprintf(stderr, "usage: embed MODEL SENTENCE SENTENCE...\n"), 1;
    infer_status st = infer_model_open_path(NULL, argv[1], &model, &err);
    if (st == INFER_OK)
        st = run(model, argv + 2, (uint64_t)(argc - 2), &err);
    if (st != INFER_OK)
        fprintf(stderr, "%s: %s\n", argv[1], err.text);
    infer_model_release(model);
    return st != INFER_OK;
}
