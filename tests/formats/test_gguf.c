/* The GGUF reader on good files: every value type, tensors, split files, all kinds of sources. */
#include "testutil.h"

#include <stdio.h>
#include <string.h>

#include "formats/gguf_build.h"

static infer_status open_path(const char *path, int32_t map, struct infer_file **out, infer_error *err)
{
    infer_source s = {.size = sizeof s, .kind = INFER_SOURCE_PATH, .name = path, .name_len = strlen(path)};
    return file_open(&env_default, &s, map, NULL, out, err);
}

static void test_shared_vocabularies(void **state)
{
    (void)state;
    TEST_NEEDS_SHARED();
    static const struct {
        const char *name;
        uint64_t tokens;
    } files[] = {{"llama-spm", 32000}, {"gpt-2", 50257},  {"phi-3", 32064}, {"deepseek-coder", 32256},
                 {"bert-bge", 30522},  {"falcon", 65024}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        infer_error err;
        struct infer_file *f;
        struct file_strings it;
        struct file_str s;
        snprintf(path, sizeof path, INFER_SHARED_DIR "/data/tokenizers/ggml-vocab-%s.gguf", files[i].name);
        assert_int_equal(open_path(path, i % 2 ? INFER_MAP_READ : INFER_MAP_MMAP, &f, &err), INFER_OK);
        assert_int_equal(file_get_strings(f, "tokenizer.ggml.tokens", &it, &err), INFER_OK);
        assert_int_equal(it.left, files[i].tokens);
        const struct file_meta *m = file_find_meta(f, "tokenizer.ggml.tokens", 21);
        for (uint64_t k = 0; file_strings_next(&it, &s); k++) {
            struct file_value v;
            assert_true(file_array_item(f, &m->value, k, &v));
            assert_true(v.type == FILE_STRING && v.count == s.len && (const char *)v.data == s.data);
        }
        assert_int_equal(f->n_tensors, 0);
        file_release(f);
    }
}

static void test_shared_model(void **state)
{
    (void)state;
    TEST_NEEDS_SHARED();
    infer_error err;
    struct infer_file *f;
    uint32_t n;
    assert_int_equal(open_path(INFER_SHARED_DIR "/data/models/stories260K.gguf", INFER_MAP_AUTO, &f, &err), INFER_OK);
    assert_int_equal(file_get_u32(f, "llama.block_count", &n, &err), INFER_OK);
    assert_int_equal(n, 5);
    const struct file_tensor *t = file_find_tensor(f, "token_embd.weight", 17);
    assert_non_null(t);
    assert_int_equal(t->dims[0], 64);
    assert_int_equal(t->dims[1], 512);
    assert_int_equal(t->bytes, 64 * 512 * 4);
    file_release(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_vocabularies),
        cmocka_unit_test(test_shared_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
