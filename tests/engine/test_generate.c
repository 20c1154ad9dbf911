/* What ends an answer: stop strings over tokens, stop tokens, the guard against repetition; and that checkpoints, in memory and in files, keep all of it. The
 * bundled model is made to say what the test wants by a callback that allows one token only. */
#include "ckpt_tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kv_seal.h"
#include "naive_stops.h"

#define TINY INFER_SOURCE_DIR "/models/tiny.gguf"
#define EOS  1

static infer_model *model;
static const infer_tokenizer *tokenizer;
static uint32_t n_vocab;

static int setup(void **state)
{
    if (ckpt_setup(state))
        return -1;
    infer_model_info info;
    INFER_INIT(&info);
    ok(infer_model_open_path(engine, TINY, &model, &error));
    ok(infer_model_get_info(model, &info, &error));
    tokenizer = infer_model_tokenizer(model);
    assert_non_null(tokenizer);
    n_vocab = info.vocab_size;
    return 0;
}

static int teardown(void **state)
{
    infer_model_release(model);
    return ckpt_teardown(state);
}

/* ---- An answer that is told beforehand */

#define MAX_SCRIPT 4200

struct script {
    uint64_t prompt; /* elements before it */
    uint64_t n;
    int32_t ids[MAX_SCRIPT];
};

static infer_status follow(void *user, float *logits, uint64_t n, const int32_t *ids, uint64_t count)
{
    const struct script *p = user;
    (void)ids;
    uint64_t at = (count - p->prompt) % (p->n ? p->n : 1);
    for (uint64_t i = 0; i < n; i++)
        logits[i] = (int32_t)i == p->ids[at] ? 0.0f : -INFINITY;
    return INFER_OK;
}

static void obey(infer_session *s, struct script *p)
{
    infer_sampling o;
    INFER_INIT(&o);
    o.callback = follow;
    o.callback_user = p;
    ok(infer_session_set_sampling(s, &o, &error));
}

static infer_session *session_of(uint32_t n_ctx, struct script *p)
{
    static const int32_t prompt[] = {0, 300, 301};
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    o.n_ctx = n_ctx;
    ok(infer_session_create(model, &o, &s, &error));
    ok(infer_session_append(s, prompt, 3, &error));
    p->prompt = 3;
    obey(s, p);
    return s;
}

/* What a streaming decoder makes of the first n ids; flush: and then the end. */
static size_t decode(const int32_t *ids, uint64_t n, bool flush, char *out, size_t room)
{
    infer_detokenizer d;
    size_t len = 0;
    INFER_INIT(&d);
    for (uint64_t i = 0; i < n + flush; i++) {
        uint64_t more;
        ok(infer_detokenizer_next(tokenizer, &d, i < n ? ids[i] : -1, out + len, room - len, &more, &error));
        len += more;
    }
    return len;
}

static int32_t byte_token(char c)
{
    static int32_t table[256]; /* made once */
    char text[64];
    bool made = table['a'] > 0;
    for (int32_t id = 2; !made && id < (int32_t)n_vocab; id++)
        if (decode(&id, 1, true, text, sizeof text) == 1)
            table[(uint8_t)text[0]] = id;
    assert_true(table[(uint8_t)c] > 0);
    return table[(uint8_t)c];
}

/* The ids of a text, one for each byte or longer pieces as the tokenizer cuts it. */
static void say(struct script *p, const char *text, bool bytes)
{
    p->n = 0;
    if (!bytes)
        ok(infer_tokenize(tokenizer, text, INFER_ZSTR, 0, p->ids, MAX_SCRIPT, &p->n, &error));
    for (size_t i = 0; bytes && text[i]; i++)
        p->ids[p->n++] = byte_token(text[i]);
}

struct told {
    uint64_t tokens, len;
    int32_t reason, stop_index;
    size_t done_len; /* bytes that came with DONE */
    char text[20000];
};

static infer_event next(infer_session *s)
{
    infer_event ev;
    do {
        INFER_INIT(&ev);
        ok(infer_generate_next(s, &ev, NULL, &error));
    } while (ev.kind == INFER_EVENT_PREFILL || ev.kind == INFER_EVENT_SHIFT);
    return ev;
}

static void hear(struct told *t, const infer_event *ev)
{
    assert_non_null(ev->text);
    assert_true(t->len + ev->text_len < sizeof t->text);
    memcpy(t->text + t->len, ev->text, (size_t)ev->text_len);
    t->len += ev->text_len;
    t->text[t->len] = 0;
    t->tokens += ev->kind == INFER_EVENT_TOKEN;
    if (ev->kind == INFER_EVENT_DONE) {
        t->reason = ev->finish_reason;
        t->stop_index = ev->stop_index;
        t->done_len = (size_t)ev->text_len;
    } else {
        assert_int_equal(ev->finish_reason, 0);
        assert_int_equal(ev->stop_index, -1);
    }
}

static struct told *hear_all(infer_session *s)
{
    static struct told t;
    infer_event ev;
    t = (struct told){0};
    do {
        ev = next(s);
        hear(&t, &ev);
    } while (ev.kind != INFER_EVENT_DONE);
    INFER_INIT(&ev);
    assert_int_equal(infer_generate_next(s, &ev, NULL, &error), INFER_ERROR_STATE);
    return &t;
}

static infer_generate_options options_of(const infer_text *stops, uint64_t n, uint64_t max)
{
    infer_generate_options o;
    INFER_INIT(&o);
    o.stops = stops;
    o.stop_count = n;
    o.max_tokens = max;
    o.flags = INFER_GENERATE_IGNORE_EOS;
    return o;
}

static struct told *answer(const char *text, bool bytes, const infer_generate_options *o)
{
    static struct script p;
    say(&p, text, bytes);
    infer_session *s = session_of(0, &p);
    ok(infer_generate_begin(s, o, &error));
    struct told *t = hear_all(s);
    infer_session_info i;
    INFER_INIT(&i);
    ok(infer_session_get_info(s, &i, &error));
    assert_int_equal(i.length, 3 + t->tokens); /* also the tokens of the stop string */
    infer_session_release(s);
    return t;
}

static uint64_t count_of(const char *text, bool bytes)
{
    static struct script p;
    say(&p, text, bytes);
    return p.n;
}

/* ---- Stop strings */

static void test_examples(void **state)
{
    (void)state;
    static const struct {
        const char *say;
        infer_text stops[2];
        const char *want;
        int32_t index;
    } cases[] = {
        {"Hello there, User: hi", {{"User:", 5}, {"hi", 2}}, "Hello there, ", 0},
        {"Hello there, User: hi", {{"hi", 2}, {"User: hi", 8}}, "Hello there, ", 1}, /* both end there: the longer one */
        {"xaab", {{"ab", 2}, {"aab", 3}}, "x", 1},
        {"xab", {{"aab", 3}, {"ab", 2}}, "x", 1},
        {"aaaab", {{"aab", 3}, {"zz", 2}}, "aa", 0},
        {"one two", {{"three", 5}, {"two!", 4}}, "one two", -1}, /* held back to the end */
        {"caf\xC3\xA9 noir", {{"\xA9 n", 3}, {"zz", 2}}, "caf\xC3", 0},
        {"caf\xC3\xA9 noir", {{"f\xC3", 2}, {"zz", 2}}, "ca", 0},
        {"a\xE2\x82\xAC" "b", {{"\xE2\x82\xAC" "c", 4}, {"\x82\xAC" "c", 3}}, "a\xE2\x82\xAC" "b", -1},
        {"same", {{"same", 4}, {"same", 4}}, "", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int bytes = 0; bytes < 2; bytes++) {
            uint64_t n = count_of(cases[i].say, bytes);
            infer_generate_options o = options_of(cases[i].stops, 2, n);
            const struct told *t = answer(cases[i].say, bytes, &o);
            assert_int_equal(t->len, strlen(cases[i].want));
            assert_memory_equal(t->text, cases[i].want, t->len);
            assert_int_equal(t->stop_index, cases[i].index);
            assert_int_equal(t->reason, cases[i].index < 0 ? INFER_FINISH_LENGTH : INFER_FINISH_STOP_STRING);
        }
}

struct expected {
    uint64_t tokens, len;
    int32_t index;
};

/* By searching the whole text, after each token. */
static struct expected expect(const struct script *p, const infer_text *stops, uint64_t n, char *text, size_t room)
{
    struct expected e = {.index = -1};
    size_t end = 0;
    for (; !end && e.tokens < p->n;) {
        e.tokens++;
        e.len = decode(p->ids, e.tokens, false, text, room);
        end = naive_find(stops, n, text, (size_t)e.len, &e.index);
    }
    if (!end) {
        e.len = decode(p->ids, p->n, true, text, room);
        end = naive_find(stops, n, text, (size_t)e.len, &e.index);
    }
    if (end)
        e.len = end - stops[e.index].text_len;
    return e;
}

/* Random tokens, many of them single bytes and halves of characters; stop strings cut out of what they say. */
static void make_script(uint64_t *rng, struct script *p)
{
    p->n = 1 + test_rand(rng) % 30;
    for (uint64_t i = 0; i < p->n; i++)
        p->ids[i] = (int32_t)(2 + test_rand(rng) % (test_rand(rng) % 2 ? n_vocab - 2 : 260));
}


/* n stop strings: pieces of text, some with a last byte that is not there. */
static void cut_stops(uint64_t *rng, const char *text, size_t len, uint64_t n, char (*pool)[16], infer_text *stops)
{
    for (uint64_t i = 0; i < n; i++) {
        size_t k = 1 + test_rand(rng) % 6, at = test_rand(rng) % (len + 1);
        k = k > len - at ? len - at : k;
        memcpy(pool[i], text + at, k);
        if (k == 0 || test_rand(rng) % 3)
            pool[i][k++] = (char)test_rand(rng);
        stops[i] = (infer_text){pool[i], k};
    }
}

static void test_random(void **state)
{
    (void)state;
    static struct script p;
    static char text[20000];
    static char pool[64][16], kept[64][16];
    uint64_t rng = 3;
    int found = 0, without = 0;
    for (int round = 0; round < 400; round++) {
        infer_text stops[64], again[64];
        uint64_t n = round % 20 == 0 ? 64 : 1 + test_rand(&rng) % 3;
        make_script(&rng, &p);
        cut_stops(&rng, text, decode(p.ids, p.n, true, text, sizeof text), n, pool, stops);
        memcpy(kept, pool, sizeof kept);
        for (uint64_t i = 0; i < n; i++)
            again[i] = (infer_text){kept[i], stops[i].text_len};
        infer_session *s = session_of(0, &p);
        infer_generate_options o = options_of(stops, n, p.n);
        ok(infer_generate_begin(s, &o, &error));
        memset(pool, '?', sizeof pool); /* they were copied */
        const struct told *t = hear_all(s);
        infer_session_release(s);
        struct expected e = expect(&p, again, n, text, sizeof text);
        assert_int_equal(t->tokens, e.tokens);
        assert_int_equal(t->stop_index, e.index);
        assert_int_equal(t->reason, e.index < 0 ? INFER_FINISH_LENGTH : INFER_FINISH_STOP_STRING);
        assert_int_equal(t->len, e.len);
        assert_memory_equal(t->text, text, e.len);
        found += e.index >= 0;
        without += e.index < 0;
    }
    print_message("# %d with a stop string, %d without\n", found, without);
    assert_true(found > 100 && without > 30);
}

/* What is held back comes with DONE, whatever the reason. */
static void test_held_back(void **state)
{
    (void)state;
    static struct script p;
    static const infer_text stops[] = {{"bcd", 3}};
    static const int32_t stop_id[] = {40};
    for (int reason = INFER_FINISH_STOP; reason <= INFER_FINISH_REPETITION; reason++)
        for (int way = 0; way < 2; way++) {
            if (way && reason != INFER_FINISH_STOP)
                continue;
            say(&p, "abc", true);
            uint64_t said = p.n;
            p.ids[p.n++] = way ? stop_id[0] : EOS; /* only met with STOP */
            infer_generate_options o = options_of(stops, 1, reason == INFER_FINISH_LENGTH ? said : 0);
            o.flags = 0;
            if (reason == INFER_FINISH_STOP_STRING)
                say(&p, "abcd and more", true);
            if (reason == INFER_FINISH_REPETITION) {
                say(&p, "bc", true);
                o.repeat_guard = 16;
            }
            o.stop_ids = stop_id;
            o.stop_id_count = 1;
            infer_session *s = session_of(reason == INFER_FINISH_CONTEXT ? 3 + (uint32_t)said : 0, &p);
            ok(infer_generate_begin(s, &o, &error));
            const struct told *t = hear_all(s);
            assert_int_equal(t->reason, reason);
            assert_int_equal(t->stop_index, reason == INFER_FINISH_STOP_STRING ? 0 : -1);
            if (reason == INFER_FINISH_STOP_STRING) {
                assert_string_equal(t->text, "a");
            } else if (reason == INFER_FINISH_REPETITION) {
                assert_int_equal(t->tokens, 16);
                assert_string_equal(t->text, "bcbcbcbcbcbcbcbc");
                assert_int_equal(t->done_len, 2);
            } else {
                assert_string_equal(t->text, "abc");
                assert_int_equal(t->done_len, 2);
            }
            infer_session_release(s);
        }
}

/* Stop tokens: not shown, unless special text is; they end also where the model's own end does not. */
static void test_stop_ids(void **state)
{
    (void)state;
    static struct script p;
    int32_t id[2];
    say(&p, "ab", true);
    id[0] = p.ids[1];
    id[1] = 1000;
    for (int round = 0; round < 4; round++) {
        infer_generate_options o = options_of(NULL, 0, 9);
        o.flags = (round & 1 ? INFER_GENERATE_IGNORE_EOS : 0u) | (round & 2 ? INFER_GENERATE_SHOW_SPECIAL : 0u);
        o.stop_ids = id;
        o.stop_id_count = 2;
        infer_session *s = session_of(0, &p);
        ok(infer_generate_begin(s, &o, &error));
        const struct told *t = hear_all(s);
        assert_int_equal(t->reason, INFER_FINISH_STOP);
        assert_int_equal(t->tokens, 2);
        assert_string_equal(t->text, round & 2 ? "ab" : "a");
        infer_session_release(s);
    }
    /* The end of the turn as text is a stop string like any other, and is told as one. */
    static const infer_text end[] = {{"</s>", INFER_ZSTR}};
    p.ids[1] = EOS;
    p.n = 2;
    infer_generate_options o = options_of(end, 1, 9);
    o.flags = INFER_GENERATE_SHOW_SPECIAL;
    infer_session *s = session_of(0, &p);
    ok(infer_generate_begin(s, &o, &error));
    const struct told *t = hear_all(s);
    assert_int_equal(t->reason, INFER_FINISH_STOP_STRING);
    assert_string_equal(t->text, "a");
    infer_session_release(s);
}

/* ---- The guard */

/* After how many tokens the guard should end the script; 0: never. */
static uint64_t naive_guard(const struct script *p, uint64_t guard)
{
    for (uint64_t n = guard; n <= p->n; n++)
        for (uint64_t period = 1; period <= guard / 4; period++) {
            uint64_t i = period;
            while (i < guard && p->ids[n - guard + i] == p->ids[n - guard + i - period])
                i++;
            if (i == guard)
                return n;
        }
    return 0;
}

static void test_guard(void **state)
{
    (void)state;
    static struct script p;
    uint64_t rng = 9;
    int ended = 0, not = 0;
    for (int round = 0; round < 60; round++) {
        uint64_t guard = 16 + test_rand(&rng) % 20, period = 1 + test_rand(&rng) % 12, before = test_rand(&rng) % 20;
        p.n = 60;
        for (uint64_t i = 0; i < p.n; i++)
            p.ids[i] = i >= before + period ? p.ids[i - period] : (int32_t)(10 + test_rand(&rng) % 3);
        if (round % 3 == 0)
            p.ids[before + period + test_rand(&rng) % 20] = 77; /* interrupted */
        infer_generate_options o = options_of(NULL, 0, p.n);
        o.repeat_guard = guard;
        infer_session *s = session_of(0, &p);
        ok(infer_generate_begin(s, &o, &error));
        const struct told *t = hear_all(s);
        uint64_t want = naive_guard(&p, guard);
        assert_int_equal(t->tokens, want ? want : p.n);
        assert_int_equal(t->reason, want ? INFER_FINISH_REPETITION : INFER_FINISH_LENGTH);
        ended += want != 0;
        not += want == 0;
        infer_session_release(s);
    }
    print_message("# %d ended, %d not\n", ended, not);
    assert_true(ended > 15 && not > 15);
}

/* The largest guard; the prompt takes no part; what the host appends in between begins the count anew; a shift does not. */
static void test_guard_borders(void **state)
{
    (void)state;
    static struct script p;
    infer_event ev;
    p = (struct script){.n = 1, .ids = {300}};
    for (int round = 0; round < 3; round++) {
        infer_generate_options o = options_of(NULL, 0, 0);
        infer_session *s = session_of(round == 2 ? 40 : 0, &p);
        o.repeat_guard = round == 2 ? 20 : 100;
        o.shift_keep = 2;
        o.shift_drop = round == 2 ? 30 : 0;
        for (int i = 0; i < 27; i++)
            ok(infer_session_append(s, p.ids, 1, &error));
        ok(infer_generate_begin(s, &o, &error));
        for (int i = 0; i < 30 && round == 1; i++) {
            ev = next(s);
            assert_int_equal(ev.kind, INFER_EVENT_TOKEN);
        }
        if (round == 1)
            ok(infer_session_append(s, p.ids, 1, &error));
        const struct told *t = hear_all(s);
        assert_int_equal(t->reason, INFER_FINISH_REPETITION);
        assert_int_equal(t->tokens, o.repeat_guard + (round == 2 ? 2 : 0)); /* the shift dropped 2 of the first 10 */
        infer_session_release(s);
    }
}

/* ---- What keeps an answer, and what ends it */

static void check_rest(infer_session *s, struct script *p, const struct told *want, uint64_t tokens, uint64_t len)
{
    obey(s, p);
    const struct told *t = hear_all(s);
    assert_int_equal(t->tokens, want->tokens - tokens);
    assert_int_equal(t->len, want->len - len);
    assert_memory_equal(t->text, want->text + len, t->len);
    assert_int_equal(t->reason, want->reason);
    assert_int_equal(t->stop_index, want->stop_index);
}

/* From every event of an answer on: a checkpoint, and one that went through a file, go on exactly. */
static void keep_at_every_event(const char *text, const infer_generate_options *o)
{
    static struct script p;
    static struct told want;
    infer_event ev;
    say(&p, text, true);
    infer_session *s = session_of(0, &p), *t;
    ok(infer_generate_begin(s, o, &error));
    want = *hear_all(s);
    ok(infer_session_truncate(s, 3, NULL, &error));
    ok(infer_generate_begin(s, o, &error));
    uint64_t len = 0;
    for (uint64_t tokens = 0; tokens <= want.tokens; tokens++) {
        infer_checkpoint *c;
        ok(infer_checkpoint_create(s, &c, &error));
        ok(infer_checkpoint_session(c, &t, &error));
        check_rest(t, &p, &want, tokens, len);
        infer_session_release(t);
        infer_checkpoint_release(c);
        if (hash_available()) {
            ok(ckpt_save(s, "answer", 0, NULL));
            struct ckpt_model m = {.m = model};
            t = ckpt_restored(&m, "answer");
            check_rest(t, &p, &want, tokens, len);
            infer_session_release(t);
        }
        ev = next(s);
        len += ev.text_len;
    }
    assert_int_equal(ev.kind, INFER_EVENT_DONE);
    infer_session_release(s);
}

static void test_checkpoints(void **state)
{
    (void)state;
    static const infer_text stops[] = {{"ab", 2}, {"stop it", 7}, {"\xA9\xA9", 2}, {"q", 1}};
    static const int32_t ids[] = {55};
    infer_generate_options o = options_of(stops, 4, 0);
    keep_at_every_event("we sto stop caf\xC3\xA9 stop it now", &o);
    keep_at_every_event("stop \xC3\xA9", &(infer_generate_options){.size = (uint32_t)sizeof o, .stops = stops, .stop_count = 4, .max_tokens = 7});
    o.stop_count = 0;
    o.stop_ids = ids;
    o.stop_id_count = 1;
    o.max_tokens = 5;
    keep_at_every_event("only ids", &o);
    o.stop_id_count = 0;
    o.max_tokens = 0;
    o.repeat_guard = 16;
    keep_at_every_event("xyz", &o);
    o.stop_count = 1;
    keep_at_every_event("xa", &o);
}

/* A fork is not generating; truncating ends an answer, what was held back is gone, and the next begins clean. What is appended between tokens is no
 * text of the answer. */
static void test_other_calls(void **state)
{
    (void)state;
    static struct script p, q;
    static const infer_text stops[] = {{"abc", 3}};
    infer_generate_options o = options_of(stops, 1, 4);
    infer_event ev;
    infer_session *s, *f;
    say(&p, "xaba", true);
    s = session_of(0, &p);
    ok(infer_generate_begin(s, &o, &error));
    for (int i = 0; i < 3; i++)
        ev = next(s);
    assert_int_equal(ev.text_len, 0); /* "ab" is held back */
    ok(infer_session_fork(s, &f, &error));
    INFER_INIT(&ev);
    assert_int_equal(infer_generate_next(f, &ev, NULL, &error), INFER_ERROR_STATE);
    infer_session_release(f);
    say(&q, "c", true);
    ok(infer_session_append(s, q.ids, 1, &error)); /* not "abc": that is the host's */
    q = p;
    q.prompt = 4;
    obey(s, &q);
    const struct told *t = hear_all(s);
    assert_string_equal(t->text, "aba");
    assert_int_equal(t->reason, INFER_FINISH_LENGTH);
    ok(infer_session_truncate(s, 3, NULL, &error));
    obey(s, &p);
    ok(infer_generate_begin(s, &o, &error));
    for (int i = 0; i < 3; i++)
        ev = next(s);
    ok(infer_session_truncate(s, 5, NULL, &error));
    assert_int_equal(infer_generate_next(s, &ev, NULL, &error), INFER_ERROR_STATE);
    say(&p, "-- c", true);
    ok(infer_generate_begin(s, &o, &error));
    t = hear_all(s);
    assert_string_equal(t->text, " c--");
    infer_session_release(s);
}

/* ---- What goes wrong */

static void test_bad_options(void **state)
{
    (void)state;
    static struct script p;
    static const infer_text stop = {"xy", 2}, empty = {"", 0};
    const int32_t bad_ids[] = {-1, (int32_t)n_vocab, INT32_MAX, INT32_MIN};
    say(&p, "axay", true);
    infer_generate_options good = options_of(&stop, 1, 4), o = good;
    infer_session *s = session_of(0, &p);
    ok(infer_generate_begin(s, &good, &error));
    (void)next(s);
    (void)next(s);
    o.stop_count = 65;
    assert_int_equal(infer_generate_begin(s, &o, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "stop_count");
    o = good;
    o.stops = &empty;
    assert_int_equal(infer_generate_begin(s, &o, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "stops");
    o = good;
    o.stop_id_count = 1;
    assert_int_equal(infer_generate_begin(s, &o, &error), INFER_ERROR_ARGUMENT);
    assert_string_equal(error.name, "stop_ids");
    for (int i = 0; i < 4; i++) {
        o.stop_ids = &bad_ids[i];
        assert_int_equal(infer_generate_begin(s, &o, &error), INFER_ERROR_TOKEN);
        assert_string_equal(error.name, "stop_ids");
    }
    static const uint64_t bad_guards[] = {1, 15, 4097, 65536 + 16, UINT64_MAX};
    for (int i = 0; i < 5; i++) {
        o = good;
        o.repeat_guard = bad_guards[i];
        assert_int_equal(infer_generate_begin(s, &o, &error), INFER_ERROR_ARGUMENT);
        assert_string_equal(error.name, "repeat_guard");
    }
    o = good;
    o.flags = 1u << 20;
    assert_int_equal(infer_generate_begin(s, &o, &error), INFER_ERROR_ARGUMENT);
    const struct told *t = hear_all(s); /* the answer goes on */
    assert_string_equal(t->text, "xay");
    o = good;
    o.repeat_guard = 4096;
    ok(infer_generate_begin(s, &o, &error));
    o.repeat_guard = 16;
    ok(infer_generate_begin(s, &o, &error));
    infer_session_release(s);
}

/* A host of an older version: its struct ends before the new fields. */
static void test_old_struct(void **state)
{
    (void)state;
    static struct script p;
    struct {
        uint32_t size, flags;
        uint64_t max_tokens, shift_keep, shift_drop;
    } old = {.size = (uint32_t)sizeof old, .max_tokens = 2};
    struct {
        uint32_t size;
        int32_t kind, id, finish_reason;
        const char *text;
        uint64_t text_len, done, total;
        float logprob;
        uint32_t top_count;
        const infer_logprob *top;
        uint64_t behind;
    } event = {.size = (uint32_t)sizeof event - 8, .behind = 42};
    say(&p, "ab", true);
    infer_session *s = session_of(0, &p);
    ok(infer_generate_begin(s, (const infer_generate_options *)(const void *)&old, &error));
    do
        ok(infer_generate_next(s, (infer_event *)(void *)&event, NULL, &error));
    while (event.kind != INFER_EVENT_DONE);
    assert_int_equal(event.finish_reason, INFER_FINISH_LENGTH);
    assert_int_equal(event.behind, 42);
    infer_session_release(s);
}

/* Every allocation of an answer with held-back text fails once: the call says so, may be repeated, and the answer is the same. */
static void test_no_memory(void **state)
{
    (void)state;
    static struct script p;
    static const infer_text stops[] = {{"a long stop string", 18}, {"stop", 4}};
    infer_generate_options o = options_of(stops, 2, 0);
    uint64_t fails = 0;
    say(&p, "a long sto a long stop", true);
    for (uint64_t at = 1;; at++) {
        infer_session *s = session_of(0, &p), *t = NULL;
        infer_checkpoint *c = NULL;
        static struct told heard;
        infer_event ev = {0};
        bool failed = false;
        heard = (struct told){0};
        ckpt_step(s);
        counted.calls = 0;
        counted.fail_at = at;
        for (int i = 0; i < 3 && infer_generate_begin(s, &o, &error) != INFER_OK; i++)
            failed = true;
        do {
            INFER_INIT(&ev);
            infer_status st = infer_generate_next(s, &ev, NULL, &error);
            if (st != INFER_OK) {
                assert_int_equal(st, INFER_ERROR_NO_MEMORY);
                failed = true;
                ev.kind = 0;
                continue;
            }
            hear(&heard, &ev);
            if (heard.tokens == 18 && !c) {
                if (infer_checkpoint_create(s, &c, &error) == INFER_OK)
                    continue;
                failed = true;
                ok(infer_checkpoint_create(s, &c, &error));
            }
        } while (ev.kind != INFER_EVENT_DONE);
        if (infer_checkpoint_session(c, &t, &error) != INFER_OK) {
            failed = true;
            ok(infer_checkpoint_session(c, &t, &error));
        }
        counted.fail_at = 0;
        heard.text[heard.len] = 0;
        assert_string_equal(heard.text, "a long sto a long ");
        assert_int_equal(heard.reason, INFER_FINISH_STOP_STRING);
        check_rest(t, &p, &heard, 18, strlen("a long sto "));
        infer_session_release(s);
        infer_session_release(t);
        infer_checkpoint_release(c);
        fails += failed;
        if (!failed)
            break;
    }
    print_message("# each of %d allocations failed\n", (int)fails);
    assert_true(fails > 20);
}

/* ---- Files */

static infer_session *answering(struct script *p)
{
    static const infer_text stops[] = {{"stop it", 7}, {"\xA9z", 2}};
    static const int32_t ids[] = {55, 56};
    infer_generate_options o = options_of(stops, 2, 0);
    o.stop_ids = ids;
    o.stop_id_count = 2;
    o.repeat_guard = 20;
    infer_session *s = session_of(0, p);
    ok(infer_generate_begin(s, &o, &error));
    for (uint64_t i = 0; i < p->n; i++)
        (void)next(s);
    return s;
}

/* Values in the section of stop conditions, with good checksums. */
static void test_forged(void **state)
{
    (void)state;
    NEEDS_HASH();
    enum { IDS = 32, LENS = IDS + 8, HELD = LENS + 8 };
    static const struct {
        size_t at;
        uint32_t value;
    } forgeries[] = {
        {0, 65}, {0, 1}, {0, 3}, {0, UINT32_MAX}, {4, 65}, {4, 0}, {4, 1}, {4, UINT32_MAX},
        {8, 15}, {8, 4097}, {8, UINT32_MAX},
        {12, 5}, {12, UINT32_MAX}, /* a run longer than the answer */
        {16, 0}, {16, 2}, {16, (uint32_t)-2}, /* a stop string that was found, and goes on */
        {20, 5}, {20, 3}, {20, 0}, {20, 2000}, {20, UINT32_MAX},
        {24, 1}, {24, 4}, {24, 5}, {24, UINT32_MAX}, {28, 1},
        {IDS, UINT32_MAX}, {IDS, 0x7FFFFFFF}, {IDS + 4, 1536},
        {LENS, 0}, {LENS, 8}, {LENS, 6}, {LENS, 1025}, {LENS, UINT32_MAX},
        {HELD, 0x706F7478}, /* "xtop" */
    };
    static struct script p;
    say(&p, "stop", true);
    infer_session *s = answering(&p);
    struct ckpt_model m = {.m = model};
    ok(ckpt_save(s, "whole", 0, NULL));
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        infer_checkpoint *c = NULL;
        size_t n;
        uint8_t *data = (uint8_t *)test_read_file(tempdir_path("whole"), &n);
        assert_non_null(data);
        const struct kv_section *section = kv_seal_find(data, n, CKPT_STOPS, 0);
        assert_int_equal(section->raw, 32 + 8 + 8 + 4 + 9);
        memcpy(data + section->offset + forgeries[i].at, &forgeries[i].value, 4);
        kv_seal(data, n);
        tempdir_write("forged", data, n);
        free(data);
        infer_status st = ckpt_load(&m, "forged", INFER_MAP_AUTO, INFER_VERIFY_FIRST_USE, &c);
        if (st != INFER_ERROR_FORMAT || !strstr(error.text, "generation"))
            fail_msg("forgery %d: %s: %s", (int)i, infer_status_name(st), st == INFER_OK ? "" : error.text);
        assert_string_equal(error.file, tempdir_path("forged"));
    }
    infer_session_release(s);
}

/* A file of a session without stop conditions has no section of them: older readers take it. Nor has one whose answer is over. */
static void test_section(void **state)
{
    (void)state;
    NEEDS_HASH();
    static struct script p;
    say(&p, "stop", true);
    infer_session *s = answering(&p);
    for (int round = 0; round < 3; round++) {
        size_t n;
        if (round == 1)
            (void)hear_all(s);
        if (round == 2)
            ok(infer_generate_begin(s, NULL, &error));
        ok(ckpt_save(s, "file", 0, NULL));
        uint8_t *data = (uint8_t *)test_read_file(tempdir_path("file"), &n);
        assert_non_null(data);
        assert_int_equal(kv_seal_find(data, n, CKPT_STOPS, 0) != NULL, round == 0);
        free(data);
    }
    infer_session_release(s);
}

/* Every allocation of saving and of opening such a file fails once. */
static void test_file_no_memory(void **state)
{
    (void)state;
    NEEDS_HASH();
    static struct script p;
    struct ckpt_model m = {.m = model};
    say(&p, "stop", true);
    infer_session *s = answering(&p);
    ok(ckpt_save(s, "file", 0, NULL)); /* what is made once is made now */
    for (int opening = 0; opening < 2; opening++) {
        uint64_t at = 1;
        for (;; at++) {
            infer_checkpoint *c = NULL;
            int64_t live = counted.live;
            counted.calls = 0;
            counted.fail_at = at;
            infer_status st = opening ? ckpt_load(&m, "file", INFER_MAP_READ, INFER_VERIFY_LOAD, &c) : ckpt_save(s, "file", 0, NULL);
            counted.fail_at = 0;
            infer_checkpoint_release(c);
            assert_int_equal(counted.live, live);
            if (st == INFER_OK)
                break;
            assert_int_equal(st, INFER_ERROR_NO_MEMORY);
        }
        assert_true(at > 8);
    }
    infer_session_release(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),     cmocka_unit_test(test_random),     cmocka_unit_test(test_held_back),  cmocka_unit_test(test_stop_ids),
        cmocka_unit_test(test_guard),        cmocka_unit_test(test_guard_borders), cmocka_unit_test(test_checkpoints), cmocka_unit_test(test_other_calls),
        cmocka_unit_test(test_bad_options),  cmocka_unit_test(test_old_struct), cmocka_unit_test(test_no_memory),  cmocka_unit_test(test_forged),
        cmocka_unit_test(test_section),      cmocka_unit_test(test_file_no_memory),
    };
    return cmocka_run_group_tests_name("generate", tests, setup, teardown);
}
