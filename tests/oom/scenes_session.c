/* Scenarios: sessions, steps, generation, forks, rolling back; threads, executor, several architectures. */
#include "scenes.h"

#include <math.h>
#include <string.h>

static uint32_t vocab_of(const struct world *w)
{
    infer_model_info i;
    INFER_INIT(&i);
    assert_int_equal(infer_model_get_info(w->model, &i, NULL), INFER_OK);
    return i.vocab_size;
}

/* ---- steps that others use too */

static infer_status session_of(struct world *w, int slot, int32_t kv_type)
{
    infer_session_options o;
    INFER_INIT(&o);
    o.kv_type = kv_type;
    return oom_made(infer_session_create(w->model, &o, &w->s[slot], &w->err), w->s[slot]);
}

infer_status scene_session(struct world *w, int slot)
{
    return session_of(w, slot, INFER_KV_F16);
}

static infer_status session_kv(struct world *w, int kv_type)
{
    infer_session_release(w->s[0]);
    w->s[0] = NULL;
    return session_of(w, 0, kv_type);
}

infer_status scene_append(struct world *w, int slot_and_count)
{
    int32_t ids[512];
    uint64_t n = (uint64_t)slot_and_count / 16;
    uint32_t n_vocab = vocab_of(w);
    for (uint64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((i * 7 + i / 5 + 3) % (n_vocab < 90 ? n_vocab : 90));
    return infer_session_append(w->s[slot_and_count % 16], ids, n, &w->err);
}

void scene_add_logits(struct world *w, const infer_session *s)
{
    const float *row;
    uint64_t position;
    assert_int_equal(infer_session_logits(s, 0, &row, &position, NULL), INFER_OK);
    oom_add_u64(w, position);
    oom_add(w, row, vocab_of(w) * sizeof *row);
}

infer_status scene_prefill(struct world *w, int slot)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = w->s[slot];
    infer_status st = infer_step(&it, 1, w->cancel, &w->err);
    assert_int_equal(st, it.status);
    if (st == INFER_OK)
        scene_add_logits(w, w->s[slot]);
    return st;
}

/* ---- what a session is given */

static infer_status append_text(struct world *w, int slot)
{
    return infer_session_append_text(w->s[slot], "Once upon a time there was", INFER_ZSTR, INFER_TOKENIZE_ADD_SPECIAL, &w->err);
}

static infer_status append_chat(struct world *w, int slot)
{
    const infer_message talk[] = {{"system", INFER_ZSTR, "Be brief.", INFER_ZSTR}, {"user", INFER_ZSTR, "Tell me a \"tale\".", INFER_ZSTR}};
    return infer_session_append_chat(w->s[slot], talk, 2, NULL, &w->err);
}

static infer_status append_rows(struct world *w, int slot)
{
    static float rows[3 * 1024];
    infer_model_info i;
    INFER_INIT(&i);
    assert_int_equal(infer_model_get_info(w->model, &i, NULL), INFER_OK);
    assert_true(i.n_embd <= 1024);
    for (uint32_t k = 0; k < 3 * i.n_embd; k++)
        rows[k] = (float)(k % 17) / 17 - 0.5f;
    return infer_session_append_rows(w->s[slot], rows, (uint64_t[]){1, 2, 3, 4, 5, 6}, 3, &w->err);
}

/* ---- steps of several sessions, with everything that can be asked for */

static infer_status step_two(struct world *w, int arg)
{
    static float hidden[8 * 2 * 1024];
    infer_step_item it[2];
    infer_hidden h;
    infer_model_info i;
    (void)arg;
    INFER_INIT(&i);
    assert_int_equal(infer_model_get_info(w->model, &i, NULL), INFER_OK);
    INFER_INIT(&h);
    h.layers = (const int32_t[]){0, INFER_HIDDEN_FINAL};
    h.layer_count = 2;
    h.out = hidden;
    h.capacity = sizeof hidden / sizeof hidden[0];
    for (int k = 0; k < 2; k++) {
        INFER_INIT(&it[k]);
        it[k].session = w->s[k];
    }
    it[1].hidden = &h;
    infer_status st = infer_step(it, 2, NULL, &w->err);
    if (st != INFER_OK)
        return st;
    scene_add_logits(w, w->s[0]);
    scene_add_logits(w, w->s[1]);
    oom_add(w, hidden, h.rows * 2 * i.n_embd * sizeof hidden[0]);
    return st;
}

static infer_status fork_session(struct world *w, int arg)
{
    (void)arg;
    return oom_made(infer_session_fork(w->s[0], &w->s[1], &w->err), w->s[1]);
}

static infer_status truncate_to(struct world *w, int length)
{
    uint64_t rerun;
    infer_status st = infer_session_truncate(w->s[0], (uint64_t)length, &rerun, &w->err);
    if (st == INFER_OK)
        oom_add_u64(w, rerun);
    return st;
}

static infer_status make_cancel(struct world *w, int arg)
{
    (void)arg;
    return oom_made(infer_cancel_create(&w->cancel, &w->err), w->cancel);
}

static infer_status tokens(struct world *w, int slot)
{
    int32_t ids[512];
    infer_session_info i;
    INFER_INIT(&i);
    infer_status st = infer_session_get_info(w->s[slot], &i, &w->err);
    assert_true(i.length <= 512);
    if (st == INFER_OK)
        st = infer_session_tokens(w->s[slot], 0, i.length, ids, &w->err);
    if (st == INFER_OK)
        oom_add(w, ids, i.length * sizeof ids[0]);
    return st;
}

/* ---- generation */

static infer_status damp(void *user, float *logits, uint64_t n, const int32_t *ids, uint64_t count)
{
    (void)user;
    logits[(uint64_t)ids[count - 1] % n] -= 2;
    return INFER_OK;
}

static infer_status set_sampling(struct world *w, int slot)
{
    infer_sampling o;
    const infer_bias bias[] = {{5, -INFINITY}, {7, 0.5f}};
    INFER_INIT(&o);
    infer_status st = infer_sampling_default(&o, &w->err);
    o.bias = bias;
    o.bias_count = 2;
    o.repetition_penalty = 1.1f;
    o.presence_penalty = 0.1f;
    o.typical_p = 0.98f;
    o.top_logprobs = 3;
    o.logprobs = 1;
    o.seed = 11;
    o.callback = damp;
    return st == INFER_OK ? infer_session_set_sampling(w->s[slot], &o, &w->err) : st;
}

static infer_status sample(struct world *w, int slot)
{
    infer_sample_result r;
    INFER_INIT(&r);
    infer_status st = infer_session_sample(w->s[slot], &r, &w->err);
    if (st != INFER_OK)
        return st;
    oom_add_u64(w, (uint64_t)r.id);
    oom_add(w, r.top, r.top_count * sizeof *r.top);
    return st;
}

static int32_t on_event(void *user, const infer_event *ev)
{
    struct world *w = user;
    assert_true(w->text_len + ev->text_len < sizeof w->text);
    memcpy(w->text + w->text_len, ev->text, ev->text_len);
    w->text_len += ev->text_len;
    if (ev->kind == INFER_EVENT_TOKEN) {
        oom_add_u64(w, (uint64_t)ev->id);
        oom_add(w, &ev->logprob, sizeof ev->logprob);
        oom_add(w, ev->top, ev->top_count * sizeof *ev->top);
    } else if (ev->kind == INFER_EVENT_DONE) {
        oom_add_u64(w, (uint64_t)ev->finish_reason);
        oom_add(w, w->text, w->text_len);
    }
    return 0;
}

static infer_generate_options generate_options(uint64_t max_tokens, bool stops)
{
    static const infer_text strings[] = {{"\x01\x02never", 7}, {"xyzzy", 5}};
    static const int32_t ids[] = {3};
    infer_generate_options o;
    INFER_INIT(&o);
    o.flags = INFER_GENERATE_IGNORE_EOS | INFER_GENERATE_SHOW_SPECIAL;
    o.max_tokens = max_tokens;
    o.stops = stops ? strings : NULL;
    o.stop_count = stops ? 2 : 0;
    o.stop_ids = ids;
    o.stop_id_count = 1;
    o.repeat_guard = 4096;
    return o;
}

/* As a host does it: after a failure the answer goes on, if it had begun. */
static infer_status generate(struct world *w, int max_tokens)
{
    infer_generate_options o = generate_options((uint64_t)max_tokens, infer_model_tokenizer(w->model) != NULL);
    infer_event ev;
    for (;;) {
        INFER_INIT(&ev);
        infer_status st = infer_generate_next(w->s[0], &ev, w->cancel, &w->err);
        if (st == INFER_ERROR_STATE)
            break;
        if (st != INFER_OK)
            return st;
        (void)on_event(w, &ev);
        if (ev.kind == INFER_EVENT_DONE)
            return st;
    }
    return infer_generate(w->s[0], &o, on_event, w, w->cancel, &w->err);
}

static infer_status begin(struct world *w, int max_tokens)
{
    infer_generate_options o = generate_options((uint64_t)max_tokens, false);
    w->text_len = 0;
    return infer_generate_begin(w->s[0], &o, &w->err);
}

static infer_status next(struct world *w, int arg)
{
    infer_event ev;
    (void)arg;
    INFER_INIT(&ev);
    infer_status st = infer_generate_next(w->s[0], &ev, NULL, &w->err);
    if (st == INFER_OK)
        (void)on_event(w, &ev);
    return st;
}

/* ---- the scenarios */

#define ENGINE {"create the engine", scene_engine, 0, 0}
#define MODEL(which) {"open the model", scene_model, which, 0}
#define SESSION(slot) {"create a session", scene_session, slot, 0}
#define APPEND(slot, n) {"append", scene_append, SLOT(slot, n), 0}
#define PREFILL(slot) {"prefill", scene_prefill, slot, STEP_ADVANCES}
#define KV(type) {"create a session", session_kv, type, STEP_ADVANCES}, APPEND(0, 70), PREFILL(0), {"fork", fork_session, 0, 0}, {"roll back", truncate_to, 60, 0}, \
    APPEND(0, 3), PREFILL(0), {"release the fork", drop_fork, 0, 0}

static infer_status drop_fork(struct world *w, int arg)
{
    (void)arg;
    infer_session_release(w->s[1]);
    w->s[1] = NULL;
    return INFER_OK;
}

static const struct step session[] = {ENGINE, MODEL(MODEL_TINY), {"make a cancel flag", make_cancel, 0, 0}, SESSION(0),
    {"append text", append_text, 0, 0}, {"append rows", append_rows, 0, 0}, {"append a chat", append_chat, 0, 0}, PREFILL(0), {"fork", fork_session, 0, 0},
    APPEND(0, 5), APPEND(1, 3), {"step both", step_two, 0, STEP_ADVANCES}, {"roll back", truncate_to, 9, 0}, APPEND(0, 100), PREFILL(0), {"tokens", tokens, 0, 0}, {0}};
static const struct step generation[] = {ENGINE, MODEL(MODEL_TINY), {"make a cancel flag", make_cancel, 0, 0}, SESSION(0), {"append a chat", append_chat, 0, 0},
    {"set sampling", set_sampling, 0, 0}, {"generate", generate, 12, STEP_ADVANCES}, {"append text", append_text, 0, 0}, {"begin", begin, 3, 0},
    {"next", next, 0, STEP_ADVANCES}, {"next", next, 0, STEP_ADVANCES}, {"fork", fork_session, 0, 0}, {"sample the fork", sample, 1, 0},
    {"next", next, 0, STEP_ADVANCES}, {"tokens", tokens, 0, 0}, /* what has grown grows again */ {"append", scene_append, SLOT(0, 300), 0}, {"begin", begin, 2, 0},
    {"next", next, 0, STEP_ADVANCES}, {"next", next, 0, STEP_ADVANCES}, {"next", next, 0, STEP_ADVANCES}, {0}};
static const struct step kv_types[] = {ENGINE, MODEL(MODEL_LLAMA), KV(INFER_KV_F32), KV(INFER_KV_BF16), KV(INFER_KV_INT8), KV(INFER_KV_INT8_64),
    KV(INFER_KV_MIXED_F16), KV(INFER_KV_MIXED_F32), {0}};
static const struct step threads[] = {ENGINE, MODEL(MODEL_LLAMA), SESSION(0), APPEND(0, 100), PREFILL(0), {"generate", generate, 4, STEP_ADVANCES},
    {"fork", fork_session, 0, 0}, APPEND(0, 2), APPEND(1, 3), {"step both", step_two, 0, STEP_ADVANCES}, {0}};
#define ARCH(which) {ENGINE, MODEL(which), SESSION(0), APPEND(0, 80), PREFILL(0), APPEND(0, 1), PREFILL(0), {"generate", generate, 2, STEP_ADVANCES}, {0}}
static const struct step gemma3[] = ARCH(MODEL_GEMMA3), moe[] = ARCH(MODEL_MOE), mla[] = ARCH(MODEL_MLA), gpt2[] = ARCH(MODEL_GPT2),
    phi3[] = ARCH(MODEL_PHI3_FOLDER);

const struct scenario oom_sessions[] = {
    {"session", session, 0, 0, 0, 0, 0, 0}, {"generate", generation, 0, 0, 0, 0, 0, 0}, {"KV types", kv_types, 0, 0, 0, 0, 0, 0}, {"threads", threads, 3, 0, 0, 0, 0, 0},
    {"executor", threads, 0, 0, 0, 1, 0, 0}, {"gemma3", gemma3, 0, 0, 0, 0, 0, 0}, {"experts", moe, 2, 0, 0, 0, 0, 0}, {"MLA", mla, 0, 0, 0, 0, 0, 0}, {"gpt2", gpt2, 0, 0, 0, 0, 0, 0},
    {"phi3 of safetensors", phi3, 0, 0, 0, 0, 0, 0}, {0},
};
