/* Adapters on bases of both kinds, GGUF files and folders as Hugging Face ships them, whose rows of Q and K differ: the same goldens. */
#include "adapter_tests.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* name: of a fixture's folder; with ".gguf", of its file. */
static infer_model *open_base(const char *name)
{
    char path[512];
    infer_engine_options eo;
    infer_engine *engine;
    infer_model *m;
    INFER_INIT(&error);
    INFER_INIT(&eo);
    eo.threads = 2;
    (void)snprintf(path, sizeof path, INFER_SOURCE_DIR "/tests/data/fixtures/%s", name);
    ok(infer_engine_create(&eo, &engine, &error));
    ok(infer_model_open_path(engine, path, &m, &error));
    infer_engine_release(engine);
    return m;
}

static void test_lora(void **state)
{
    (void)state;
    static const struct {
        const char *base, *file, *golden;
    } cases[] = {{"llama", "lora-r4", "lora-r4"},
                 {"llama", "lora-r4.gguf", "lora-r4"}, /* rows of neighbouring pairs, of a base of halves */
                 {"llama", "lora-bin", "lora-layers"},
                 {"llama.gguf", "lora-bin", "lora-layers"},
                 {"llama", "alora", "alora"},
                 {"llama", "batch7", "batch7"},
                 {"gpt2", "lora-gpt2", "lora-gpt2"},
                 {"gpt2", "lora-gpt2.gguf", "lora-gpt2"},
                 {"qwen2", "lora-qwen2.gguf", "lora-qwen2"},
                 {"gemma3", "lora-gemma3", "lora-gemma3"},
                 {"phi3-window", "lora-phi3", "lora-phi3"}, /* fused Q, K, V and gate, up */
                 {"phi3-window.gguf", "lora-phi3", "lora-phi3"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        infer_model *m = open_base(cases[i].base);
        infer_adapter *a = adapter_of(m, cases[i].file);
        infer_session *s = session_of(m);
        attach(s, a, 1);
        infer_adapter_release(a);
        infer_model_release(m);
        matches(s, cases[i].golden);
    }
}

/* Keys of a prefix lie in Hugging Face's order, as the folder's do. */
static void test_appended(void **state)
{
    (void)state;
    static const char *const names[] = {"soft-prompt", "prefix"};
    for (size_t i = 0; i < COUNT(names); i++) {
        infer_model *m = open_base("llama");
        infer_adapter *a = adapter_of(m, names[i]);
        infer_session *s = session_of(m);
        ok(infer_session_append_adapter(s, a, &error));
        infer_adapter_release(a);
        infer_model_release(m);
        matches(s, names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lora), cmocka_unit_test(test_appended)};
    return cmocka_run_group_tests_name("adapter_bases", tests, NULL, NULL);
}
