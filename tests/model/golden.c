#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testutil.h"

const char *const golden_f32[] = {"llama", "llama-linear", "llama3-rope", "llama-yarn", "llama-bias", "smollm2", "qwen2",
                                  "qwen3", "gemma3", "gemma3-scaled", "gpt2", "mixtral", "qwen3moe", "gemma2",
                                  "phi3", "phi3-window", "mistral", "mistral3", "granite", "nemotron", "olmo2",
                                  "starcoder2", "stablelm", "stablelm-parallel", "olmo3", "qwen2moe", "olmoe", "deepseek2",
                                  "deepseek2-kv_b", "deepseek2-groups", "deepseek3", NULL};
const char *const golden_quantised[] = {"llama-q8_0", "llama-q4_0", "llama-q4_1", "llama-mix32", "llama-mix256", "mixtral-q4_0",
                                        "qwen3moe-q4_k", "deepseek2-q8_0-kv_b", NULL};

const char *fixture_path(const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof path, INFER_SOURCE_DIR "/tests/data/fixtures/%s.gguf", name);
    return path;
}

struct golden golden_read(const char *name)
{
    char path[512];
    size_t len = 0;
    struct golden g = {0};
    (void)snprintf(path, sizeof path, INFER_SOURCE_DIR "/tests/data/fixtures/%s.golden", name);
    g.data = test_read_file(path, &len);
    assert_non_null(g.data);
    assert_true(len > 24 && !memcmp(g.data, "IGOLD\0\0\1", 8));
    (void)snprintf(path, sizeof path, INFER_SOURCE_DIR "/tests/data/fixtures/%s.experts", name);
    char *experts = test_read_file(path, NULL);
    g.has_experts = experts != NULL;
    free(experts);
    memcpy(&g.n_prompt, g.data + 8, 4);
    memcpy(&g.n_vocab, g.data + 12, 4);
    memcpy(&g.n_greedy, g.data + 16, 4);
    assert_int_equal(len, 24 + 4 * ((size_t)g.n_prompt + g.n_greedy + (size_t)g.n_prompt * g.n_vocab));
    g.prompt = (const int32_t *)(const void *)(g.data + 24);
    g.greedy = g.prompt + g.n_prompt;
    g.logits = (const float *)(const void *)(g.greedy + g.n_greedy);
    return g;
}

void golden_free(struct golden *g)
{
    free(g->data);
}
