#include "ckpt_tests.h"

#include <string.h>

infer_error error;
struct test_alloc counted;
infer_engine *engine;

void ok(infer_status st)
{
    if (st != INFER_OK)
        fail_msg("%s: %s (%s, %s)", infer_status_name(st), error.text, error.name, error.file);
}

int ckpt_setup(void **state)
{
    (void)state;
    struct env env = test_env_of(&counted);
    struct cpu_device_options o = {INFER_CPU_AUTO, INFER_NUMERICS_EXACT, 1, NULL, NULL};
    struct device *dev;
    INFER_INIT(&error);
    env.io = &failing_io_ops;
    failing_io_set(0, 0);
    tempdir_make();
    ok(cpu_device_create(&env.alloc, &o, &dev, &error));
    ok(engine_create_on(&env, dev, 0, &engine, &error));
    return 0;
}

int ckpt_teardown(void **state)
{
    (void)state;
    infer_engine_release(engine);
    tempdir_remove();
    return counted.live != 0 || failing_io.open != 0 || failing_io.maps != 0;
}

struct ckpt_model ckpt_open(const char *fixture)
{
    struct ckpt_model m = {.g = golden_read(fixture)};
    ok(infer_model_open_path(engine, fixture_path(fixture), &m.m, &error));
    return m;
}

void ckpt_close(struct ckpt_model *m)
{
    infer_model_release(m->m);
    golden_free(&m->g);
}

infer_session *ckpt_session(const struct ckpt_model *m, int32_t kv_type)
{
    infer_session *s;
    infer_session_options o;
    INFER_INIT(&o);
    o.kv_type = kv_type;
    o.n_ctx = 2000;
    if (infer_session_create(m->m, &o, &s, &error) == INFER_ERROR_ARGUMENT) { /* learned positions */
        o.n_ctx = 0;
        ok(infer_session_create(m->m, &o, &s, &error));
    }
    return s;
}

void ckpt_append(const struct ckpt_model *m, infer_session *s, uint64_t from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        ok(infer_session_append(s, m->g.prompt + (from + i) % m->g.n_prompt, 1, &error));
}

infer_status ckpt_try_step(infer_session *s)
{
    infer_step_item it;
    INFER_INIT(&it);
    it.session = s;
    return infer_step(&it, 1, NULL, &error);
}

void ckpt_step(infer_session *s)
{
    ok(ckpt_try_step(s));
}

void ckpt_same_logits(const infer_session *a, const infer_session *b)
{
    const float *x, *y;
    uint64_t p, q;
    ok(infer_session_logits(a, 0, &x, &p, &error));
    ok(infer_session_logits(b, 0, &y, &q, &error));
    assert_int_equal(p, q);
    assert_memory_equal(x, y, a->model->net->h.n_logits * sizeof *x);
}

infer_status ckpt_save(const infer_session *s, const char *name, uint32_t flags, const char *parent)
{
    infer_save_options o;
    infer_checkpoint *c = NULL;
    INFER_INIT(&o);
    o.flags = flags;
    o.parent = parent ? tempdir_path(parent) : NULL;
    o.parent_len = INFER_ZSTR;
    infer_status st = infer_checkpoint_create(s, &c, &error);
    if (st == INFER_OK)
        st = infer_checkpoint_save(c, tempdir_path(name), INFER_ZSTR, &o, NULL, &error);
    infer_checkpoint_release(c);
    return st;
}

infer_status ckpt_load(const struct ckpt_model *m, const char *name, int32_t map, int32_t verify, infer_checkpoint **out)
{
    infer_load_options o;
    INFER_INIT(&o);
    o.map = map;
    o.verify = verify;
    return infer_checkpoint_open(m->m, tempdir_path(name), INFER_ZSTR, &o, NULL, out, &error);
}

infer_session *ckpt_restored(const struct ckpt_model *m, const char *name)
{
    infer_checkpoint *c;
    infer_session *s;
    ok(ckpt_load(m, name, INFER_MAP_AUTO, INFER_VERIFY_FIRST_USE, &c));
    ok(infer_checkpoint_session(c, &s, &error));
    infer_checkpoint_release(c);
    return s;
}
