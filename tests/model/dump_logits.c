/* dump_logits MODEL IDS WINDOW OUT [exact|precise] [f16|f32|bf16] [ADAPTER]: for scripts/accuracy.py and check_adapter.py. IDS: little-endian int32 token ids; every WINDOW of them is
 * one sequence. OUT: float32 logits [ids][vocab] of every position. Not a test. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/infer.h"

static infer_error error;

static void check(infer_status st)
{
    if (st == INFER_OK)
        return;
    fprintf(stderr, "%s: %s %s\n", infer_status_name(st), error.name, error.text);
    exit(1);
}

static int32_t *read_ids(const char *path, uint64_t *n)
{
    FILE *f = fopen(path, "rb");
    int32_t *ids = NULL;
    size_t cap = 0;
    *n = 0;
    if (!f) {
        perror(path);
        exit(1);
    }
    for (size_t got = 1; got; *n += got) {
        if (*n == cap) {
            cap = cap ? cap * 2 : 65536;
            ids = realloc(ids, cap * sizeof *ids);
            if (!ids)
                exit(1);
        }
        got = fread(ids + *n, sizeof *ids, cap - *n, f);
    }
    fclose(f);
    return ids;
}

int main(int argc, char **argv)
{
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *model;
    infer_model_info info;
    infer_session_options so;
    uint64_t n;
    if (argc < 5) {
        fprintf(stderr, "usage: dump_logits MODEL IDS WINDOW OUT [exact|precise] [f16|f32|bf16] [ADAPTER]\n");
        return 1;
    }
    uint64_t window = strtoull(argv[3], NULL, 10);
    const char *kv = argc > 6 ? argv[6] : "f16";
    INFER_INIT(&error);
    INFER_INIT(&eo);
    INFER_INIT(&so);
    INFER_INIT(&info);
    if (argc > 5 && !strcmp(argv[5], "precise"))
        eo.numerics = INFER_NUMERICS_PRECISE;
    so.kv_type = !strcmp(kv, "f32") ? INFER_KV_F32 : !strcmp(kv, "bf16") ? INFER_KV_BF16 : !strcmp(kv, "int8") ? INFER_KV_INT8 : INFER_KV_F16;
    check(infer_engine_create(&eo, &engine, &error));
    check(infer_model_open_path(engine, argv[1], &model, &error));
    check(infer_model_get_info(model, &info, &error));
    infer_adapter_use use;
    INFER_INIT(&use);
    use.scale = 1;
    if (argc > 7)
        check(infer_adapter_open_path(model, argv[7], &use.adapter, &error));
    int32_t *ids = read_ids(argv[2], &n);
    FILE *out = fopen(argv[4], "wb");
    if (!out || !window) {
        perror(argv[4]);
        return 1;
    }
    for (uint64_t at = 0; at < n; at += window) {
        uint64_t len = n - at < window ? n - at : window;
        infer_session *s;
        check(infer_session_create(model, &so, &s, &error));
        check(infer_session_set_adapters(s, &use, use.adapter != NULL, &error));
        check(infer_session_append(s, ids + at, len, &error));
        for (uint64_t done = 0; done < len;) {
            infer_step_item it;
            INFER_INIT(&it);
            it.session = s;
            it.max_elements = 64;
            it.logits = INFER_ROWS_ALL;
            check(infer_step(&it, 1, NULL, &error));
            for (uint64_t r = 0; r < it.done; r++) {
                const float *row;
                check(infer_session_logits(s, r, &row, NULL, &error));
                if (fwrite(row, sizeof *row, info.vocab_size, out) != info.vocab_size) {
                    perror(argv[4]);
                    return 1;
                }
            }
            done += it.done;
        }
        infer_session_release(s);
    }
    if (fclose(out)) {
        perror(argv[4]);
        return 1;
    }
    free(ids);
    infer_adapter_release(use.adapter);
    infer_model_release(model);
    infer_engine_release(engine);
    return 0;
}
