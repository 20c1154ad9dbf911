/* Mixtures of experts: the choice of experts against transformers, the forms that files have, and what is refused. (Logits, exactness and the
 * rest are tested for all fixtures alike: test_golden, test_exact.) */
#include "testutil.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "../formats/gguf_build.h"
#include "golden.h"
#include "gguf_edit.h"
#include "infer/infer.h"
#include "model/router.h"
#include "ok.h"

static infer_engine *engine;

static int setup(void **state)
{
    (void)state;
    infer_engine_options o;
    INFER_INIT(&o);
    o.threads = 2;
    return infer_engine_create(&o, &engine, NULL);
}

static int teardown(void **state)
{
    (void)state;
    infer_engine_release(engine);
    return 0;
}

/* ---- the router */

static const struct hparams plain = {.n_expert = 6, .n_expert_used = 3, .n_expert_groups = 1, .n_groups_used = 1, .router = ROUTER_SOFTMAX,
                                     .expert_scale = 1};

static void near_to(const float *got, const double *want, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-6))
            fail_msg("weight %u is %.8f, expected %.8f", i, got[i], want[i]);
}

static void chosen_are(const uint16_t *got, uint16_t a, uint16_t b, uint16_t c)
{
    if (got[0] != a || got[1] != b || got[2] != c)
        fail_msg("chosen %u %u %u, expected %u %u %u", got[0], got[1], got[2], a, b, c);
}

static void test_router(void **state)
{
    (void)state;
    const float x[6] = {0.5f, -1, 2, 0.5f, 1, -3};
    double e[6], sum = 0;
    uint16_t chosen[3];
    float w[3];
    struct hparams h = plain;
    for (int i = 0; i < 6; i++)
        sum += e[i] = exp(x[i]);
    router_choose(&h, x, NULL, chosen, w);
    chosen_are(chosen, 2, 4, 0); /* 0 and 3 tie: the lower */
    near_to(w, (double[]){e[2] / sum, e[4] / sum, e[0] / sum}, 3);
    h.norm_experts = true;
    h.expert_scale = 2.5f;
    double three = e[2] + e[4] + e[0];
    router_choose(&h, x, NULL, chosen, w);
    chosen_are(chosen, 2, 4, 0);
    near_to(w, (double[]){2.5 * e[2] / three, 2.5 * e[4] / three, 2.5 * e[0] / three}, 3);
    h.router = ROUTER_SOFTMAX_LAST;
    h.norm_experts = false;
    router_choose(&h, x, NULL, chosen, w);
    near_to(w, (double[]){2.5 * e[2] / three, 2.5 * e[4] / three, 2.5 * e[0] / three}, 3);
    h = plain;
    h.router = ROUTER_SIGMOID;
    const float bias[6] = {0, 0.9f, 0, 0, 0, 0.9f};
    double s[6], biased[6];
    for (int i = 0; i < 6; i++) {
        s[i] = 1 / (1 + exp(-x[i]));
        biased[i] = s[i] + bias[i];
    }
    assert_true(biased[1] > biased[5] && biased[5] > biased[2]);
    router_choose(&h, x, bias, chosen, w); /* the bias decides who, not how much */
    chosen_are(chosen, 1, 5, 2);
    near_to(w, (double[]){s[1], s[5], s[2]}, 3);
    h.norm_experts = true;
    router_choose(&h, x, bias, chosen, w);
    near_to(w, (double[]){s[1] / (s[1] + s[5] + s[2]), s[5] / (s[1] + s[5] + s[2]), s[2] / (s[1] + s[5] + s[2])}, 3);
}

static void test_router_groups(void **state)
{
    (void)state;
    const float x[6] = {0.5f, -1, 2, 0.4f, 1, -3};
    uint16_t chosen[3];
    float w[3];
    struct hparams h = plain;
    h.n_expert_groups = 3; /* (0.5 -1) (2 0.4) (1 -3) */
    h.n_groups_used = 2;
    router_choose(&h, x, NULL, chosen, w); /* by the best expert: the second and third group */
    chosen_are(chosen, 2, 4, 3);
    h.router = ROUTER_SIGMOID; /* by the sum of the best two: 0.62 + 0.27, 0.88 + 0.60, 0.73 + 0.05 */
    router_choose(&h, x, NULL, chosen, w);
    chosen_are(chosen, 2, 0, 3);
}

/* Not a number chooses something, differently from everything else, and stays not a number. */
static void test_router_nan(void **state)
{
    (void)state;
    const float x[6] = {NAN, -1, NAN, NAN, 1, NAN}, all[6] = {NAN, NAN, NAN, NAN, NAN, NAN}, few[6] = {0.5f, -1, 2, -INFINITY, 1, NAN};
    uint16_t chosen[3];
    float w[3];
    struct hparams h = plain;
    for (int norm = 0; norm < 2; norm++)
        for (h.router = ROUTER_SOFTMAX; h.router <= ROUTER_SOFTMAX_LAST; h.router++) {
            h.norm_experts = norm;
            router_choose(&h, x, NULL, chosen, w);
            chosen_are(chosen, 4, 1, 0);
            assert_true(isnan(w[2]));
            router_choose(&h, all, NULL, chosen, w);
            chosen_are(chosen, 0, 1, 2);
            assert_true(isnan(w[0]));
            router_choose(&h, few, NULL, chosen, w); /* none of them would be chosen: seen all the same */
            assert_true(isnan(w[0]));
        }
}

/* ---- models */

static infer_model *open_path(const char *path)
{
    infer_model *m;
    INFER_INIT(&error);
    ok(infer_model_open_path(engine, path, &m, &error));
    return m;
}

/* Computes ids with all logits. */
static infer_session *run(infer_model *m, const int32_t *ids, uint64_t n)
{
    infer_session *s;
    infer_step_item it;
    infer_session_options so;
    INFER_INIT(&so);
    so.kv_type = INFER_KV_F32;
    ok(infer_session_create(m, &so, &s, &error));
    ok(infer_session_append(s, ids, n, &error));
    INFER_INIT(&it);
    it.session = s;
    it.logits = INFER_ROWS_ALL;
    ok(infer_step(&it, 1, NULL, &error));
    return s;
}

static uint64_t logits_hash(infer_session *s, uint64_t n_vocab)
{
    infer_session_info info;
    uint64_t hash = 0;
    INFER_INIT(&info);
    ok(infer_session_get_info(s, &info, &error));
    for (uint64_t r = 0; r < info.logits_rows; r++) {
        const float *row;
        ok(infer_session_logits(s, r, &row, NULL, &error));
        hash = hash * 31 + hash_bytes(row, n_vocab * sizeof *row);
    }
    return hash;
}

/* NAME.experts: see make_moe_fixtures.py. */
static void test_choice(void **state)
{
    char path[512];
    size_t len = 0;
    uint32_t head[4];
    const char *name = *state;
    struct golden g = golden_read(name);
    (void)snprintf(path, sizeof path, INFER_SOURCE_DIR "/tests/data/fixtures/%s.experts", name);
    char *data = test_read_file(path, &len);
    assert_non_null(data);
    memcpy(head, data + 8, sizeof head);
    assert_int_equal(head[0], g.n_prompt);
    assert_int_equal(len, 24 + 2 * (size_t)head[0] * head[1] * head[2]);
    const uint16_t *want = (const uint16_t *)(const void *)(data + 24);
    infer_model *m = open_path(fixture_path(name));
    infer_session *s = run(m, g.prompt, g.n_prompt);
    const struct hparams *h = &m->net->h;
    const struct routing *r = &engine->ws.routing;
    assert_int_equal(h->n_layer, head[1]);
    assert_int_equal(h->n_expert_used, head[2]);
    assert_int_equal(r->rows, g.n_prompt);
    size_t n = (size_t)g.n_prompt * head[2], compared = 0, changes = 0;
    for (uint32_t l = 0; l < h->n_layer; l++) {
        assert_true((want[l * n] == 65535) == !hparams_has_experts(h, l));
        for (size_t i = 0; i < n && want[l * n] != 65535; i++, compared++) {
            changes += i >= head[2] && want[l * n + i] != want[l * n + i - head[2]];
            if (r->chosen[l * n + i] != want[l * n + i])
                fail_msg("layer %u, element %zu, rank %zu: expert %u, expected %u", l, i / head[2], i % head[2], r->chosen[l * n + i], want[l * n + i]);
        }
    }
    assert_true(compared >= n && changes > n / 4);
    print_message("# %s: %zu choices equal, %zu differ from those of the element before\n", name, compared, changes);
    infer_session_release(s);
    infer_model_release(m);
    free(data);
    golden_free(&g);
}

/* A copy of f in which each stacked tensor of experts is one tensor for each, named as older files do. */
static struct buf split_experts(const struct infer_file *f, uint32_t n_expert)
{
    struct buf b;
    uint64_t n = 0, offset = 0, split = 0;
    for (uint64_t i = 0; i < f->n_tensors; i++)
        n += f->tensors[i].n_dims == 3 ? n_expert : 1;
    gb_header(&b, 3, n, f->n_meta);
    for (uint64_t i = 0; i < f->n_meta; i++) {
        const struct file_value *v = &f->meta[i].value;
        gb_u64(&b, f->meta[i].key.len);
        buf_put(&b, f->meta[i].key.data, (size_t)f->meta[i].key.len);
        gb_u32(&b, v->type);
        assert_int_not_equal(v->type, FILE_ARRAY);
        if (v->type == FILE_STRING)
            gb_u64(&b, v->count);
        buf_put(&b, v->data, v->type == FILE_STRING ? (size_t)v->count : file_type_size(v->type));
    }
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        const struct file_tensor *t = &f->tensors[i];
        uint32_t parts = t->n_dims == 3 ? n_expert : 1;
        for (uint32_t e = 0; e < parts; e++, split++) {
            char name[96];
            (void)snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.data);
            if (parts > 1)
                (void)snprintf(strstr(name, "_exps"), 32, ".%u.weight", e);
            gb_str(&b, name);
            gb_u32(&b, parts > 1 ? 2 : t->n_dims);
            for (uint32_t d = 0; d < (parts > 1 ? 2 : t->n_dims); d++)
                gb_u64(&b, t->dims[d]);
            gb_u32(&b, (uint32_t)t->type);
            gb_u64(&b, offset);
            offset += (t->bytes / parts + 31) & ~31ull;
        }
    }
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        const struct file_tensor *t = &f->tensors[i];
        uint32_t parts = t->n_dims == 3 ? n_expert : 1;
        for (uint32_t e = 0; e < parts; e++) {
            while (b.len % 32)
                buf_putc(&b, 0);
            buf_put(&b, (const char *)t->data + t->bytes / parts * e, (size_t)(t->bytes / parts));
        }
    }
    assert_true(split > f->n_tensors);
    return b;
}

static infer_file *open_fixture(const char *name)
{
    infer_source src;
    infer_file *f;
    infer_source_path(&src, fixture_path(name), INFER_ZSTR);
    assert_int_equal(infer_file_open(NULL, &src, NULL, &f, NULL), INFER_OK);
    return f;
}

static infer_status open_bytes(const struct buf *b, infer_model **m)
{
    infer_source src;
    *m = NULL;
    INFER_INIT(&error);
    infer_source_memory(&src, b->data, b->len);
    return infer_model_open(engine, &src, NULL, m, &error);
}

/* One tensor for all experts or one for each: the same bits, and each one that is missing is named. */
static void test_split(void **state)
{
    static const struct {
        const char *name;
        uint32_t n_expert;
    } all[] = {{"mixtral", 6}, {"mixtral-q4_0", 4}};
    (void)state;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        struct golden g = golden_read(all[k].name);
        infer_file *f = open_fixture(all[k].name), *copy;
        struct buf b = split_experts(f, all[k].n_expert);
        infer_source src;
        infer_model *m;
        ok(open_bytes(&b, &m));
        infer_session *s = run(m, g.prompt, g.n_prompt);
        uint64_t hash = logits_hash(s, g.n_vocab);
        infer_session_release(s);
        infer_model_release(m);
        m = open_path(fixture_path(all[k].name));
        s = run(m, g.prompt, g.n_prompt);
        assert_true(hash == logits_hash(s, g.n_vocab));
        infer_session_release(s);
        infer_model_release(m);
        infer_source_memory(&src, b.data, b.len);
        ok(infer_file_open(NULL, &src, NULL, &copy, &error));
        struct buf cut = gguf_edit(copy, &(struct gguf_edit){.drop_tensor = "blk.0.ffn_up.3.weight"});
        assert_int_equal(open_bytes(&cut, &m), INFER_ERROR_MISSING);
        assert_string_equal(error.name, "blk.0.ffn_up.3.weight");
        buf_free(&cut);
        cut = gguf_edit(copy, &(struct gguf_edit){.rename_tensor = "blk.0.ffn_up.3.weight", .new_name = "blk.0.ffn_up.03.weight"});
        assert_int_equal(open_bytes(&cut, &m), INFER_ERROR_MISSING);
        buf_free(&cut);
        cut = gguf_edit(copy, &(struct gguf_edit){.rename_tensor = "output_norm.weight", .new_name = "blk.0.ffn_up.77.weight"});
        assert_int_not_equal(open_bytes(&cut, &m), INFER_OK);
        buf_free(&cut);
        infer_file_release(copy);
        infer_file_release(f);
        buf_free(&b);
        golden_free(&g);
    }
}

#define U32(key, n, status) {{.set_key = key, .set_type = FILE_U32, .number = n}, status, key}

struct wrong {
    struct gguf_edit edit;
    infer_status status;
    const char *name;
};

static const struct wrong wrong[] = {
    U32("llama.expert_used_count", 7, INFER_ERROR_VALUE),
    U32("llama.expert_used_count", 0, INFER_ERROR_VALUE),
    U32("llama.expert_used_count", 65, INFER_ERROR_VALUE),
    {{.drop_key = "llama.expert_used_count"}, INFER_ERROR_MISSING, "llama.expert_used_count"},
    U32("llama.expert_count", 1025, INFER_ERROR_VALUE),
    U32("llama.expert_count", 4294967295.0, INFER_ERROR_VALUE),
    {{.set_key = "llama.expert_count", .set_type = FILE_U32, .number = 5}, INFER_ERROR_SHAPE, "blk.0.ffn_gate_inp.weight"},
    {{.set_key = "llama.expert_feed_forward_length", .set_type = FILE_U32, .number = 8}, INFER_ERROR_SHAPE, "blk.0.ffn_gate_exps.weight"},
    {{.drop_key = "llama.expert_count"}, INFER_ERROR_VALUE, "llama.expert_used_count"},
    U32("llama.expert_gating_func", 9, INFER_ERROR_UNSUPPORTED),
    U32("llama.expert_group_count", 4, INFER_ERROR_VALUE),
    {{.set_key = "llama.expert_weights_norm", .set_type = FILE_STRING, .string = "yes"}, INFER_ERROR_VALUE, "llama.expert_weights_norm"},
    {{.set_key = "llama.expert_weights_scale", .set_type = FILE_F32, .number = -1}, INFER_ERROR_VALUE, "llama.expert_weights_scale"},
    {{.set_key = "llama.leading_dense_block_count", .set_type = FILE_U32, .number = 1}, INFER_ERROR_MISSING, "blk.0.ffn_gate.weight"},
    U32("llama.leading_dense_block_count", 3, INFER_ERROR_VALUE),
    {{.drop_tensor = "blk.1.ffn_down_exps.weight"}, INFER_ERROR_MISSING, "blk.1.ffn_down_exps.weight"},
    {{.drop_tensor = "blk.1.ffn_gate_inp.weight"}, INFER_ERROR_MISSING, "blk.1.ffn_gate_inp.weight"},
    {{.reshape_tensor = "blk.0.ffn_gate_inp.weight", .d0 = 6, .d1 = 64}, INFER_ERROR_SHAPE, "blk.0.ffn_gate_inp.weight"},
    {{.reshape_tensor = "blk.0.ffn_up_exps.weight", .d0 = 64, .d1 = 96}, INFER_ERROR_SHAPE, "blk.0.ffn_up_exps.weight"},
    {{.rename_tensor = "blk.1.ffn_up_exps.weight", .new_name = "blk.1.ffn_up.weight"}, INFER_ERROR_MISSING, "blk.1.ffn_up_exps.weight"},
    {{.rename_tensor = "output.weight", .new_name = "blk.1.ffn_up.weight"}, INFER_ERROR_UNSUPPORTED, "blk.1.ffn_up.weight"},
};

#define D2(key, n, status) U32("deepseek2." key, n, status)

static const struct wrong wrong_latent[] = {
    D2("attention.kv_lora_rank", 0, INFER_ERROR_VALUE),
    D2("attention.kv_lora_rank", 1025, INFER_ERROR_VALUE),
    D2("attention.kv_lora_rank", 1020, INFER_ERROR_UNSUPPORTED),
    D2("attention.kv_lora_rank", 33, INFER_ERROR_UNSUPPORTED),
    {{.drop_key = "deepseek2.attention.kv_lora_rank"}, INFER_ERROR_MISSING, "deepseek2.attention.kv_lora_rank"},
    {{.set_key = "deepseek2.attention.kv_lora_rank", .set_type = FILE_U32, .number = 40}, INFER_ERROR_SHAPE, "blk.0.attn_kv_a_mqa.weight"},
    D2("attention.key_length_mla", 8, INFER_ERROR_VALUE),
    {{.set_key = "deepseek2.attention.key_length_mla", .set_type = FILE_U32, .number = 32}, INFER_ERROR_SHAPE, "blk.0.attn_q_b.weight"},
    {{.set_key = "deepseek2.attention.value_length_mla", .set_type = FILE_U32, .number = 24}, INFER_ERROR_SHAPE, "blk.0.attn_v_b.weight"},
    {{.set_key = "deepseek2.rope.dimension_count", .set_type = FILE_U32, .number = 7}, INFER_ERROR_UNSUPPORTED, "deepseek2.attention.kv_lora_rank"},
    {{.drop_key = "deepseek2.rope.dimension_count"}, INFER_ERROR_MISSING, "deepseek2.rope.dimension_count"},
    {{.set_key = "deepseek2.attention.q_lora_rank", .set_type = FILE_U32, .number = 0}, INFER_ERROR_MISSING, "blk.0.attn_q.weight"},
    {{.drop_key = "deepseek2.attention.q_lora_rank"}, INFER_ERROR_MISSING, "blk.0.attn_q.weight"},
    {{.drop_tensor = "blk.1.attn_k_b.weight"}, INFER_ERROR_MISSING, "blk.1.attn_k_b.weight"},
    {{.drop_tensor = "blk.1.attn_v_b.weight"}, INFER_ERROR_MISSING, "blk.1.attn_v_b.weight"},
    {{.reshape_tensor = "blk.1.attn_v_b.weight", .d0 = 32, .d1 = 64}, INFER_ERROR_SHAPE, "blk.1.attn_v_b.weight"},
    {{.reshape_tensor = "blk.1.attn_k_b.weight", .d0 = 16, .d1 = 128}, INFER_ERROR_SHAPE, "blk.1.attn_k_b.weight"},
    {{.drop_tensor = "blk.1.ffn_up_shexp.weight"}, INFER_ERROR_MISSING, "blk.1.ffn_up_shexp.weight"},
    {{.drop_tensor = "blk.1.attn_kv_a_norm.weight"}, INFER_ERROR_MISSING, "blk.1.attn_kv_a_norm.weight"},
    D2("expert_group_count", 4, INFER_ERROR_VALUE),
    D2("leading_dense_block_count", 3, INFER_ERROR_VALUE),
};

static void check_wrong(const char *name, const struct wrong *cases, size_t n)
{
    infer_file *f = open_fixture(name);
    for (size_t i = 0; i < n; i++) {
        infer_model *m;
        struct buf b = gguf_edit(f, &cases[i].edit);
        infer_status st = open_bytes(&b, &m);
        if (st != cases[i].status || strcmp(error.name, cases[i].name) || !error.text[0])
            fail_msg("%s, case %zu: status %s, name '%s', text '%s'", name, i, infer_status_name(st), error.name, error.text);
        buf_free(&b);
    }
    infer_file_release(f);
}

static void test_wrong(void **state)
{
    (void)state;
    check_wrong("mixtral", wrong, sizeof wrong / sizeof *wrong);
    check_wrong("deepseek2", wrong_latent, sizeof wrong_latent / sizeof *wrong_latent);
}

/* Both forms of the heads' matrices at once, or an architecture that knows no experts. */
static void test_ambiguous(void **state)
{
    (void)state;
    infer_model *m;
    infer_file *f = open_fixture("deepseek2-kv_b");
    struct buf b = gguf_edit(f, &(struct gguf_edit){.rename_tensor = "blk.1.attn_kv_b.weight", .new_name = "blk.1.attn_k_b.weight"});
    assert_int_equal(open_bytes(&b, &m), INFER_ERROR_SHAPE);
    buf_free(&b);
    b = gguf_edit(f, &(struct gguf_edit){.drop_tensor = "blk.0.attn_kv_b.weight"});
    assert_int_equal(open_bytes(&b, &m), INFER_ERROR_MISSING);
    assert_string_equal(error.name, "blk.0.attn_kv_b.weight");
    buf_free(&b);
    infer_file_release(f);
    f = open_fixture("qwen3");
    b = gguf_edit(f, &(struct gguf_edit){.set_key = "qwen3.expert_count", .set_type = FILE_U32, .number = 4});
    assert_int_equal(open_bytes(&b, &m), INFER_ERROR_MISSING);
    buf_free(&b);
    infer_file_release(f);
}

/* The latent is kept once: an element takes kv_lora + n_rot values a layer, whatever the heads. */
static void test_latent_bytes(void **state)
{
    (void)state;
    infer_model *m = open_path(fixture_path("deepseek2"));
    const struct hparams *h = &m->net->h;
    assert_int_equal(h->kv_lora, 32);
    assert_int_equal(h->n_rot, 8);
    assert_int_equal(net_kv_page_bytes(m->net, INFER_KV_F16, 0), 64 * (32 + 8) * 2 * h->n_layer);
    assert_int_equal(net_kv_page_bytes(m->net, INFER_KV_F32, 0), 64 * (32 + 8) * 4 * h->n_layer);
    assert_int_equal(net_kv_page_bytes(m->net, INFER_KV_INT8, 0), 64 * ((32 + 8) + 2 * 2) * h->n_layer);
    infer_model_release(m);
}

/* A model with four equal experts and a random router says what the model that they are copies of says. */
static void test_stories(void **state)
{
    (void)state;
    char text[2][1024] = {{0}};
    static const char *const names[] = {"stories260K", "stories260K-moe4x2"};
    TEST_NEEDS_SHARED();
    for (int i = 0; i < 2; i++) {
        char path[512];
        infer_session *s;
        infer_event ev;
        infer_generate_options o;
        (void)snprintf(path, sizeof path, INFER_SHARED_DIR "/data/models/%s.gguf", names[i]);
        infer_model *m = open_path(path);
        ok(infer_session_create(m, NULL, &s, &error));
        ok(infer_session_append_text(s, "", 0, INFER_TOKENIZE_ADD_SPECIAL, &error));
        INFER_INIT(&o);
        o.max_tokens = 120;
        ok(infer_generate_begin(s, &o, &error));
        do {
            INFER_INIT(&ev);
            ok(infer_generate_next(s, &ev, NULL, &error));
            if (ev.kind == INFER_EVENT_TOKEN)
                (void)snprintf(text[i] + strlen(text[i]), 16, "%d ", (int)ev.id);
        } while (ev.kind != INFER_EVENT_DONE);
        infer_session_release(s);
        infer_model_release(m);
    }
    assert_true(strlen(text[0]) > 300);
    assert_string_equal(text[0], text[1]);
}

/* Bytes of experts, and that what a step has used is in memory. */
static void test_memory(void **state)
{
    (void)state;
    struct golden g = golden_read("mixtral");
    infer_model *m = open_path(fixture_path("mixtral"));
    infer_model_memory mem;
    INFER_INIT(&mem);
    ok(infer_model_get_memory(m, &mem, &error));
    assert_int_equal(mem.n_expert, 6);
    assert_int_equal(mem.n_expert_used, 2);
    assert_int_equal(mem.expert_bytes, 2 * 6 * 3 * 16 * 64 * 4);
    assert_true(mem.weight_bytes > mem.expert_bytes && mem.resident_bytes <= mem.weight_bytes);
    infer_session_release(run(m, g.prompt, g.n_prompt));
    ok(infer_model_get_memory(m, &mem, &error));
    assert_int_equal(mem.expert_resident_bytes, mem.expert_bytes); /* each is chosen by some row */
    assert_int_equal(infer_model_get_memory(NULL, &mem, NULL), INFER_ERROR_ARGUMENT);
    mem.size = 3;
    assert_int_equal(infer_model_get_memory(m, &mem, NULL), INFER_ERROR_ARGUMENT);
    infer_model_release(m);
    m = open_path(fixture_path("deepseek2-kv_b")); /* keys are transposed at open */
    INFER_INIT(&mem);
    ok(infer_model_get_memory(m, &mem, &error));
    assert_true(mem.own_bytes >= 2 * 4 * 16 * 32 * 4 && mem.expert_bytes == 6 * 3 * 16 * 64 * 4);
    infer_model_release(m);
    golden_free(&g);
}

int main(void)
{
    static const char *const choices[] = {"mixtral", "qwen3moe", "qwen2moe", "olmoe", "deepseek2", "deepseek2-kv_b", "deepseek2-groups", "deepseek3"};
    struct CMUnitTest tests[32] = {
        cmocka_unit_test(test_router), cmocka_unit_test(test_router_groups), cmocka_unit_test(test_router_nan),
        cmocka_unit_test(test_split),  cmocka_unit_test(test_wrong),         cmocka_unit_test(test_stories),
        cmocka_unit_test(test_ambiguous), cmocka_unit_test(test_latent_bytes), cmocka_unit_test(test_memory),
    };
    size_t n = 9;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        tests[n++] = (struct CMUnitTest){choices[i], test_choice, NULL, NULL, (void *)(uintptr_t)choices[i]};
    return _cmocka_run_group_tests("mixtures of experts", tests, n, setup, teardown);
}
