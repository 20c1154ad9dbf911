/* Memory that memory_limit leaves none of: for whom the prefix cache gives way, who is refused by name, and who says NO_MEMORY for reasons of its own. */
#include <stdio.h>
#include <string.h>

#include "adapter_tests.h"
#include "engine/engine.h"
#include "infer/scheduler.h"
#include "tempdir.h"

#define TINY INFER_SOURCE_DIR "/models/tiny.gguf"
#define LIMIT ((uint64_t)64 << 20)
#define N_CTX 4096u
#define CACHED 2816u /* elements: more than a slab of pages */
#define OWN 200u
#define PAGE (64u * 3 * 2 * (16 + 16) * 4) /* bytes: 3 layers, 2 heads of width 16, F32 */

/* An engine with a model and what calls need; filler is what takes the memory that is left. */
struct world {
    infer_engine *engine;
    infer_model *model;
    infer_session *full, *empty;
    infer_checkpoint *checkpoint;
    infer_adapter *lora, *prefix, *soft;
    void *filler;
    uint32_t round;
};

static uint64_t left_in(infer_engine *engine)
{
    infer_engine_info i;
    INFER_INIT(&i);
    ok(infer_engine_get_info(engine, &i, &error));
    return i.memory_limit - i.memory_bytes;
}

static infer_cache_stats cached(infer_engine *engine)
{
    infer_cache_stats cs;
    INFER_INIT(&cs);
    ok(infer_engine_cache_stats(engine, &cs, &error));
    return cs;
}

/* Takes all but `leave` bytes. */
static void fill(struct world *w, uint64_t leave)
{
    const struct alloc *a = &engine_env(w->engine)->alloc;
    uint64_t left = left_in(w->engine);
    assert_true(left > leave + 16);
    w->filler = mem_alloc(a, (size_t)(left - leave) - 16);
    assert_non_null(w->filler);
    assert_int_equal(left_in(w->engine), leave);
}

static void empty(struct world *w)
{
    mem_free(&engine_env(w->engine)->alloc, w->filler);
    w->filler = NULL;
}

static infer_session *room_for(infer_model *m)
{
    infer_session_options so;
    infer_session *s;
    INFER_INIT(&so);
    so.n_ctx = N_CTX;
    so.kv_type = INFER_KV_F32;
    ok(infer_session_create(m, &so, &s, &error));
    return s;
}

static void compute(infer_session *s, int32_t first, uint32_t n)
{
    int32_t ids[CACHED];
    infer_step_item it = item_of(s, INFER_ROWS_LAST);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = i ? (int32_t)(i * 31 % 90) : first;
    ok(infer_session_append(s, ids, n, &error));
    ok(infer_step(&it, 1, NULL, &error));
}

/* In the cache: more pages than fit into what sessions left free. */
static void fill_cache(struct world *w)
{
    if (cached(w->engine).bytes > CACHED / 64 * PAGE * 3 / 4)
        return;
    ok(infer_engine_cache_clear(w->engine, &error));
    infer_session *s = room_for(w->model);
    compute(s, (int32_t)(w->round++ % 60), CACHED);
    infer_session_release(s);
}

static infer_engine *limited(uint64_t cache_bytes)
{
    infer_engine_options o;
    infer_engine *engine;
    INFER_INIT(&error);
    INFER_INIT(&o);
    o.threads = 1;
    o.memory_limit = LIMIT;
    o.cache_bytes = cache_bytes;
    ok(infer_engine_create(&o, &engine, &error));
    return engine;
}

static struct world world_of(uint64_t cache_bytes)
{
    struct world w = {.engine = limited(cache_bytes)};
    ok(infer_model_open_path(w.engine, fixture_path("llama"), &w.model, &error));
    w.full = room_for(w.model);
    w.empty = room_for(w.model);
    compute(w.full, 70, OWN);
    ok(infer_checkpoint_create(w.full, &w.checkpoint, &error));
    ok(infer_checkpoint_save(w.checkpoint, tempdir_path("made"), INFER_ZSTR, NULL, NULL, &error));
    w.lora = adapter_of(w.model, "lora-r4");
    w.prefix = adapter_of(w.model, "prefix");
    w.soft = adapter_of(w.model, "soft-prompt");
    return w;
}

static void end(struct world *w)
{
    infer_adapter_release(w->lora);
    infer_adapter_release(w->prefix);
    infer_adapter_release(w->soft);
    infer_checkpoint_release(w->checkpoint);
    infer_session_release(w->full);
    infer_session_release(w->empty);
    infer_model_release(w->model);
    infer_engine_release(w->engine);
}

/* ---- Calls for which the cache gives way. Each undoes what it did. ---- */

static infer_status do_fork(struct world *w)
{
    infer_session *s = NULL;
    infer_status st = infer_session_fork(w->full, &s, &error);
    infer_session_release(s);
    return st;
}

static infer_status do_create(struct world *w)
{
    infer_checkpoint *c = NULL;
    infer_status st = infer_checkpoint_create(w->full, &c, &error);
    infer_checkpoint_release(c);
    return st;
}

static infer_status do_session(struct world *w)
{
    infer_session *s = NULL;
    infer_status st = infer_checkpoint_session(w->checkpoint, &s, &error);
    infer_session_release(s);
    return st;
}

static infer_status do_restore(struct world *w)
{
    infer_status st = infer_session_restore(w->empty, w->checkpoint, &error);
    ok(infer_session_truncate(w->empty, 0, NULL, NULL));
    return st;
}

static infer_status do_save(struct world *w)
{
    return infer_checkpoint_save(w->checkpoint, tempdir_path("saved"), INFER_ZSTR, NULL, NULL, &error);
}

static infer_status do_open(struct world *w)
{
    infer_checkpoint *c = NULL;
    infer_load_options lo;
    INFER_INIT(&lo);
    lo.map = INFER_MAP_READ;
    infer_status st = infer_checkpoint_open(w->model, tempdir_path("made"), INFER_ZSTR, &lo, NULL, &c, &error);
    infer_checkpoint_release(c);
    return st;
}

static infer_status do_graft(struct world *w)
{
    infer_status st = infer_session_graft(w->empty, w->checkpoint, 0, OWN, 0, NULL, NULL, &error);
    ok(infer_session_truncate(w->empty, 0, NULL, NULL));
    return st;
}

static infer_status do_adapter(struct world *w)
{
    infer_adapter *a = NULL;
    infer_status st = infer_adapter_open_path(w->model, adapter_path("lora-rslora"), &a, &error);
    infer_adapter_release(a);
    return st;
}

static infer_status do_attach(struct world *w)
{
    infer_adapter_use u;
    INFER_INIT(&u);
    u.adapter = w->lora;
    u.scale = 0.5f + (float)w->round; /* a set that the session does not know yet */
    infer_status st = infer_session_set_adapters(w->empty, &u, 1, &error);
    ok(infer_session_set_adapters(w->empty, NULL, 0, NULL));
    return st;
}

static infer_status append_to_fork(struct world *w, infer_adapter *a)
{
    infer_session *s = NULL;
    infer_status st = infer_session_fork(w->empty, &s, &error);
    if (st == INFER_OK)
        st = infer_session_append_adapter(s, a, &error);
    infer_session_release(s);
    return st;
}

static infer_status do_prefix(struct world *w)
{
    return append_to_fork(w, w->prefix);
}

static infer_status do_soft(struct world *w)
{
    return append_to_fork(w, w->soft);
}

static infer_status do_sample(struct world *w)
{
    infer_session *s = NULL;
    infer_sample_result r;
    infer_sampling p;
    INFER_INIT(&r);
    INFER_INIT(&p);
    ok(infer_sampling_default(&p, &error));
    p.temperature = 1;
    infer_status st = infer_session_fork(w->full, &s, &error);
    if (st == INFER_OK)
        st = infer_session_set_sampling(s, &p, &error);
    if (st == INFER_OK)
        st = infer_session_sample(s, &r, &error);
    infer_session_release(s);
    return st;
}

static const struct {
    const char *name;
    infer_status (*run)(struct world *w);
    uint32_t step; /* of leaves */
} calls[] = {
    {"fork", do_fork, 1},   {"checkpoint", do_create, 1}, {"checkpoint_session", do_session, 1}, {"restore", do_restore, 1}, {"save", do_save, 3},     {"open", do_open, 3},
    {"graft", do_graft, 3}, {"adapter", do_adapter, 3},   {"set_adapters", do_attach, 3},        {"prefix", do_prefix, 3},   {"soft prompt", do_soft, 3}, {"sample", do_sample, 3},
};
#define N_CALLS (sizeof calls / sizeof *calls)

/* The error names the limit, what was wanted, and what is left: less than that. */
static void assert_refused(infer_status st, const char *text, const char *what)
{
    unsigned long long says = 0, wanted = 0, left = 0;
    if (st != INFER_ERROR_NO_MEMORY ||
        sscanf(text, "the memory_limit of %llu bytes is reached: %llu more were wanted, %llu are left", &says, &wanted, &left) != 3)
        fail_msg("%s: %s: %s", what, infer_status_name(st), text);
    assert_int_equal(says, LIMIT);
    assert_true(wanted > left);
}

/* A fork's parts are refused one after the other: the session, its two tables, what wraps it as a checkpoint. */
static const uint64_t leaves[] = {0, 300, 800, 1100, 1250, 1350, 1480, 2500, 6000, 15000};
#define N_LEAVES (sizeof leaves / sizeof *leaves)

/* Where each call is refused without a cache, it works with one, which has dropped something then. */
static void test_gives_way(void **state)
{
    (void)state;
    tempdir_make();
    struct world without = world_of(0), with = world_of(1u << 30);
    uint32_t bad = 0;
    for (size_t c = 0; c < N_CALLS; c++) {
        uint32_t refused = 0, gave = 0;
        for (size_t i = 0; i < N_LEAVES; i += calls[c].step) {
            fill(&without, leaves[i]);
            infer_status st = calls[c].run(&without);
            if (st != INFER_OK)
                assert_refused(st, error.text, calls[c].name);
            empty(&without);
            ok(calls[c].run(&without));
            if (st == INFER_OK)
                continue;
            refused++;
            fill_cache(&with);
            uint64_t before = cached(with.engine).evictions;
            fill(&with, leaves[i]);
            st = calls[c].run(&with);
            if (st != INFER_OK)
                print_error("%s, %u bytes left: %s\n", calls[c].name, (unsigned)leaves[i], error.text);
            bad += st != INFER_OK;
            gave += cached(with.engine).evictions > before;
            empty(&with);
        }
        if (!refused || !gave)
            fail_msg("%s: refused %u times, the cache gave way %u times", calls[c].name, refused, gave);
    }
    assert_int_equal(bad, 0);
    infer_engine_info info;
    INFER_INIT(&info);
    ok(infer_engine_get_info(with.engine, &info, &error));
    assert_true(info.memory_peak <= LIMIT);
    end(&without);
    end(&with);
    tempdir_remove();
}

/* ---- Calls that are refused by name ---- */

static void refused(infer_status st, const char *what)
{
    assert_refused(st, error.text, what);
    infer_error fresh = {.size = (uint32_t)sizeof fresh};
    error = fresh;
}

static void text_calls(struct world *w, infer_template *t, const infer_source *source)
{
    infer_tokenizer *tok = infer_model_tokenizer(w->model), *more;
    infer_template *other;
    infer_file *file;
    infer_detokenizer state;
    int32_t ids[16] = {5, 6, 7};
    char out[64];
    uint64_t n;
    INFER_INIT(&state);
    refused(infer_tokenize(tok, "Once upon a time", INFER_ZSTR, 0, ids, 16, &n, &error), "tokenize");
    refused(infer_detokenize(tok, ids, 3, 0, out, sizeof out, &n, &error), "detokenize");
    refused(infer_detokenizer_next(tok, &state, 300, out, sizeof out, &n, &error), "detokenizer_next");
    refused(infer_tokenizer_open(w->engine, source, NULL, &more, &error), "tokenizer_open");
    refused(infer_template_parse(w->engine, "{{ 1 }}", INFER_ZSTR, &other, &error), "template_parse");
    refused(infer_template_open(w->engine, source, NULL, &other, &error), "template_open");
    refused(infer_template_render(t, "{\"messages\":[]}", INFER_ZSTR, NULL, out, sizeof out, &n, &error), "template_render");
    refused(infer_file_open(w->engine, source, NULL, &file, &error), "file_open");
}

static void store_calls(struct world *w, infer_store *memory, infer_store *dir)
{
    infer_store *more;
    infer_checkpoint *c;
    infer_store_entry entry;
    INFER_INIT(&entry);
    refused(infer_store_open(w->engine, NULL, 0, NULL, &more, &error), "store_open");
    refused(infer_store_put(memory, "b", 1, w->checkpoint, 0, NULL, &error), "store_put");
    refused(infer_store_branch(memory, "a", 1, "b", 1, 0, &error), "store_branch");
    refused(infer_store_put(dir, "b", 1, w->checkpoint, 0, NULL, &error), "store_put in a directory");
    refused(infer_store_get(dir, w->model, "a", 1, NULL, &c, &error), "store_get");
    refused(infer_store_branch(dir, "a", 1, "b", 1, 0, &error), "store_branch in a directory");
    refused(infer_store_rename(dir, "a", 1, "b", 1, 0, &error), "store_rename");
    refused(infer_store_delete(dir, "a", 1, &error), "store_delete");
    refused(infer_store_next(dir, NULL, 0, &entry, &error), "store_next");
}

static void test_named(void **state)
{
    (void)state;
    struct world w = {.engine = limited(0)};
    infer_template *t;
    infer_store *memory, *dir;
    infer_source source;
    infer_source_path(&source, TINY, INFER_ZSTR);
    tempdir_make();
    ok(infer_model_open_path(w.engine, TINY, &w.model, &error));
    ok(infer_template_parse(w.engine, "{% for m in messages %}{{ m }}{% endfor %}", INFER_ZSTR, &t, &error));
    infer_session *s = room_for(w.model);
    compute(s, 1, 8);
    ok(infer_checkpoint_create(s, &w.checkpoint, &error));
    ok(infer_store_open(w.engine, NULL, 0, NULL, &memory, &error));
    ok(infer_store_open(w.engine, tempdir_path("store"), INFER_ZSTR, NULL, &dir, &error));
    ok(infer_store_put(memory, "a", 1, w.checkpoint, 0, NULL, &error));
    ok(infer_store_put(dir, "a", 1, w.checkpoint, 0, NULL, &error));
    fill(&w, 0);
    text_calls(&w, t, &source);
    store_calls(&w, memory, dir);
    assert_int_equal(left_in(w.engine), 0);
    empty(&w);
    ok(infer_store_rename(dir, "a", 1, "b", 1, 0, &error));
    infer_store_release(memory);
    infer_store_release(dir);
    infer_template_release(t);
    infer_session_release(s);
    end(&w);
    tempdir_remove();
}

/* ---- Answers of a scheduler ---- */

struct heard {
    int32_t status;
    char text[512];
    uint32_t done, ended;
};

static void hear(void *user, infer_request *r, const infer_request_event *ev)
{
    struct heard *h = user;
    (void)r;
    if (ev->kind == INFER_REQUEST_EVENT_DONE) {
        h->done++;
        h->status = ev->error ? ev->error->code : INFER_OK;
        (void)snprintf(h->text, sizeof h->text, "%s", ev->error ? ev->error->text : "");
    }
    h->ended += ev->kind == INFER_REQUEST_EVENT_END;
}

static void run_until(infer_scheduler *s, const struct heard *h)
{
    int32_t more = 1;
    for (int i = 0; !h->ended; i++) {
        assert_true(i < 1000);
        ok(infer_scheduler_step(s, &more, NULL, &error));
    }
}

/* In the middle of its prompt, and by an event that cannot be kept. */
static void test_events(void **state)
{
    (void)state;
    struct world w = {.engine = limited(0)};
    infer_scheduler *s;
    infer_request_options ro;
    infer_request *r;
    infer_generate_options g;
    struct heard h = {0}, polled = {0};
    infer_request_event ev;
    infer_checkpoint *c;
    INFER_INIT(&ro);
    INFER_INIT(&g);
    INFER_INIT(&ev);
    ok(infer_model_open_path(w.engine, TINY, &w.model, &error));
    ok(infer_scheduler_create(w.model, NULL, &s, &error));
    ro.text = "Once upon a time";
    ro.text_len = INFER_ZSTR;
    ro.generate = &g;
    ro.flags = INFER_REQUEST_IGNORE_EOS;
    ro.callback = hear;
    ro.callback_user = &h;
    g.max_tokens = 100;
    ok(infer_scheduler_submit(s, &ro, NULL, &error));
    fill(&w, 0);
    run_until(s, &h);
    assert_refused(h.status, h.text, "a prompt");
    empty(&w);
    ro.callback = NULL;
    ro.flags |= INFER_REQUEST_KEEP;
    ok(infer_scheduler_submit(s, &ro, &r, &error));
    for (int i = 0, more = 1; i < 5; i++)
        ok(infer_scheduler_step(s, &more, NULL, &error));
    fill(&w, 0);
    for (int i = 0, more = 1; !polled.ended; i++) {
        assert_true(i < 1000);
        ok(infer_scheduler_step(s, &more, NULL, &error));
        while (infer_request_next(r, &ev, NULL) == INFER_OK)
            hear(&polled, r, &ev);
    }
    assert_refused(polled.status, polled.text, "an event");
    refused(infer_request_checkpoint(r, 0, &c, &error), "request_checkpoint");
    empty(&w);
    ok(infer_request_checkpoint(r, 0, &c, &error));
    infer_checkpoint_release(c);
    memset(&h, 0, sizeof h);
    ro.callback = hear;
    ok(infer_scheduler_submit(s, &ro, NULL, &error)); /* and the scheduler goes on */
    run_until(s, &h);
    assert_int_equal(h.status, INFER_OK);
    infer_request_release(r);
    infer_scheduler_release(s);
    end(&w);
}

/* ---- NO_MEMORY that comes from elsewhere ---- */

static uint32_t asked;
static uint64_t evicted; /* before any of it */

static infer_status no_read(void *user, uint64_t offset, void *dst, uint64_t bytes)
{
    (void)user, (void)offset, (void)dst, (void)bytes;
    asked++;
    return INFER_ERROR_NO_MEMORY;
}

static infer_status open_only(void *user, const char *name, uint64_t name_len, infer_stream *out)
{
    (void)user, (void)name, (void)name_len;
    out->length = 1000;
    out->read = no_read;
    return INFER_OK;
}

static infer_status no_open(void *user, const char *name, uint64_t name_len, infer_stream *out)
{
    (void)user, (void)name, (void)name_len, (void)out;
    asked++;
    return INFER_ERROR_NO_MEMORY;
}

static infer_status no_logits(void *user, float *logits, uint64_t n_vocab, const int32_t *ids, uint64_t n_ids)
{
    (void)user, (void)logits, (void)n_vocab, (void)ids, (void)n_ids;
    asked++;
    return INFER_ERROR_NO_MEMORY;
}

/* It is the host's own, said as such, whatever was refused before; it is asked once, and the cache keeps what it has. */
static void from_host(struct world *w, infer_status st, const char *says)
{
    assert_int_equal(st, INFER_ERROR_NO_MEMORY);
    if (strstr(error.text, "memory_limit") || !strstr(error.text, says) || !strcmp(error.name, "memory_limit"))
        fail_msg("%s (%s)", error.text, error.name);
    assert_int_equal(asked, 1);
    assert_int_equal(cached(w->engine).evictions, evicted);
    asked = 0;
}

static void test_host(void **state)
{
    (void)state;
    tempdir_make();
    struct world w = world_of(1u << 30);
    fill_cache(&w);
    evicted = cached(w.engine).evictions;
    infer_source source;
    infer_adapter *a;
    infer_model *m;
    infer_tokenizer *tok;
    infer_sampling p;
    infer_sample_result r;
    INFER_INIT(&p);
    INFER_INIT(&r);
    fill(&w, 0);
    infer_template *t;
    refused(infer_template_parse(w.engine, "{{ 1 }}", INFER_ZSTR, &t, &error), "template_parse");
    empty(&w);
    infer_source_callback(&source, "x", INFER_ZSTR, open_only, NULL);
    from_host(&w, infer_adapter_open(w.model, &source, NULL, &a, &error), "read function failed");
    from_host(&w, infer_model_open(w.engine, &source, NULL, &m, &error), "read function failed");
    from_host(&w, infer_tokenizer_open(w.engine, &source, NULL, &tok, &error), "read function failed");
    infer_source_callback(&source, "x", INFER_ZSTR, no_open, NULL);
    from_host(&w, infer_adapter_open(w.model, &source, NULL, &a, &error), "open function failed");
    ok(infer_sampling_default(&p, &error));
    p.callback = no_logits;
    ok(infer_session_set_sampling(w.full, &p, &error));
    from_host(&w, infer_session_sample(w.full, &r, &error), "logits callback");
    end(&w);
    tempdir_remove();
}

/* ---- How to reckon with what an estimate does not hold: docs/memory.md ---- */

static uint64_t used(const struct world *w)
{
    return LIMIT - left_in(w->engine);
}

static uint64_t peak_of(const struct world *w)
{
    infer_engine_info i;
    INFER_INIT(&i);
    ok(infer_engine_get_info(w->engine, &i, &error));
    return i.memory_peak;
}

static void within(uint64_t bytes, uint64_t most, const char *what)
{
    print_message("%s: %llu of at most %llu\n", what, (unsigned long long)bytes, (unsigned long long)most);
    if (bytes > most)
        fail_msg("%s takes %llu bytes, said are %llu", what, (unsigned long long)bytes, (unsigned long long)most);
}

static void adapters_reckoned(struct world *w)
{
    static const char *const names[] = {"lora-rslora", "lora-pattern", "steering.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        infer_adapter_info ai;
        INFER_INIT(&ai);
        uint64_t before = used(w), peak = peak_of(w);
        infer_adapter *a = adapter_of(w->model, names[i]);
        ok(infer_adapter_get_info(a, &ai, &error));
        within(used(w) - before, ai.own_bytes + 1000 * ai.targets + 65536, names[i]);
        if (peak_of(w) > peak)
            within(peak_of(w) - before, 2 * ai.own_bytes + 1000 * ai.targets + 65536, "... while it is opened");
        infer_adapter_release(a);
        assert_int_equal(used(w), before);
    }
}

static void state_reckoned(struct world *w)
{
    infer_session_info si;
    infer_checkpoint_info ci;
    infer_session *fork;
    infer_checkpoint *c;
    infer_store *store;
    INFER_INIT(&si);
    INFER_INIT(&ci);
    ok(infer_session_get_info(w->full, &si, &error));
    uint64_t pages = (OWN + 63) / 64;
    assert_int_equal(si.kv_bytes, pages * PAGE);
    uint64_t before = used(w);
    ok(infer_session_fork(w->full, &fork, &error));
    within(used(w) - before, 1200 + 24 * (pages < 16 ? 16 : pages), "a fork");
    infer_session_release(fork);
    assert_int_equal(used(w), before);
    ok(infer_checkpoint_create(w->full, &c, &error));
    within(used(w) - before, 1250 + 24 * (pages < 16 ? 16 : pages), "a checkpoint");
    ok(infer_checkpoint_get_info(c, &ci, &error));
    assert_true(ci.bytes >= si.kv_bytes);
    ok(infer_store_open(w->engine, NULL, 0, NULL, &store, &error));
    before = used(w);
    for (uint32_t i = 0; i < 100; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "c%u", i);
        ok(infer_store_put(store, name, INFER_ZSTR, c, 0, NULL, &error));
    }
    within(used(w) - before, 100 * 320, "100 names in a store");
    infer_store_release(store);
    infer_checkpoint_release(c);
}

static void scheduler_reckoned(struct world *w)
{
    infer_scheduler *s;
    infer_request *r;
    infer_request_options ro;
    int32_t ids[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint64_t before = used(w);
    INFER_INIT(&ro);
    ok(infer_scheduler_create(w->model, NULL, &s, &error));
    within(used(w) - before, 20000, "a scheduler");
    before = used(w);
    ro.ids = ids;
    ro.id_count = 8;
    ro.n = 3;
    ok(infer_scheduler_submit(s, &ro, &r, &error));
    within(used(w) - before, 500 + 3 * 1200 + 1200 + 16 * 256, "a request of 3 choices that waits");
    infer_request_cancel(r);
    for (int32_t more = 1; more;)
        ok(infer_scheduler_step(s, &more, NULL, &error));
    infer_request_release(r);
    infer_scheduler_release(s);
}

static void cache_reckoned(void)
{
    struct world w = world_of(1u << 30);
    fill_cache(&w);
    uint64_t before = used(&w);
    infer_cache_stats cs = cached(w.engine);
    assert_true(cs.bytes > CACHED / 64 * PAGE);
    ok(infer_engine_cache_clear(w.engine, &error));
    within(before - used(&w), cs.bytes + cs.bytes / 64 + 300 * cs.nodes + ((uint64_t)1 << 21), "the prefix cache");
    end(&w);
}

static void test_reckoned(void **state)
{
    (void)state;
    tempdir_make();
    struct world w = world_of(0);
    adapters_reckoned(&w);
    state_reckoned(&w);
    scheduler_reckoned(&w);
    end(&w);
    cache_reckoned();
    tempdir_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gives_way),
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_reckoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
