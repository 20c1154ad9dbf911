/* Real models, as published, for tests of suite slow: looked for in the folder INFER_TEST_MODELS, then in the cache of scripts/quickstart. */
#ifndef REAL_MODEL_H
#define REAL_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ok.h"

/* False: it is not there. */
static inline bool real_model(const char *name, char path[1024])
{
    const char *dir = getenv("INFER_TEST_MODELS"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    for (int i = 0; i < 2; i++) {
        if (i == 0 && dir)
            (void)snprintf(path, 1024, "%s/%s", dir, name);
        else if (i == 1 && cache && cache[0] == '/')
            (void)snprintf(path, 1024, "%s/infer/models/%s", cache, name);
        else if (i == 1 && home)
            (void)snprintf(path, 1024, "%s/.cache/infer/models/%s", home, name);
        else
            continue;
        FILE *f = fopen(path, "rb");
        if (f) {
            fclose(f);
            return true;
        }
    }
    return false;
}

/* The first tokens of tests/data/english.txt. */
static inline void real_ids(const infer_model *m, int32_t *ids, uint64_t count)
{
    static int32_t all[65536];
    size_t len;
    uint64_t n;
    char *text = test_read_file(INFER_SOURCE_DIR "/tests/data/english.txt", &len);
    assert_non_null(text);
    ok(infer_tokenize(infer_model_tokenizer(m), text, len < 20000 ? len : 20000, INFER_TOKENIZE_ADD_SPECIAL, all, 65536, &n, &error));
    assert_true(n >= count);
    memcpy(ids, all, count * sizeof *ids);
    free(text);
}

#endif
