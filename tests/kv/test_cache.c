/* The prefix tree, with pages that hold a hash of the prefix of each element: what a look-up gives is checked element by element. */
#include "testutil.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "kernels/cpu.h"
#include "kv/kv_tree.h"

enum { GROUPS = 3, PAGE_BYTES = 64 * 8, MOST = 2600 };
static const uint64_t windows[GROUPS] = {0, 100, 30};

struct fixture {
    struct test_alloc t;
    struct env env;
    struct device *dev;
    struct kv_pool *pool;
    struct kv_cache *cache;
};

static void setup(struct fixture *f, uint64_t bytes, uint64_t ghost_bytes, uint64_t max_buckets)
{
    memset(f, 0, sizeof *f);
    f->env = test_env_of(&f->t);
    struct cpu_device_options o = {INFER_CPU_SCALAR, INFER_NUMERICS_EXACT, 1, NULL, NULL};
    struct kv_cache_options co = {bytes, ghost_bytes, false, max_buckets};
    assert_int_equal(cpu_device_create(&f->env.alloc, &o, &f->dev, NULL), INFER_OK);
    assert_int_equal(kv_pool_create(&f->env, f->dev, 0, &f->pool, NULL), INFER_OK);
    assert_int_equal(kv_cache_create(&f->env, f->pool, &co, &f->cache, NULL), INFER_OK);
}

static void teardown(struct fixture *f)
{
    kv_cache_destroy(f->cache);
    assert_int_equal(kv_pool_bytes(f->pool), 0);
    kv_pool_destroy(f->pool);
    f->dev->ops->destroy(f->dev);
    assert_int_equal(f->t.live, 0);
}

/* A sequence that computes hashes. */
struct sim {
    struct kv_key keys[MOST];
    uint64_t hash[MOST]; /* of keys [0, i] */
    uint64_t length, computed;
    struct kv_seq seq[GROUPS];
};

static struct kv_domain domain_of(int owner, uint64_t type, const char *salt)
{
    static const char owners[4];
    struct kv_domain d = {.owner = &owners[owner], .type = type, .salt_len = (uint32_t)strlen(salt)};
    memcpy(d.salt, salt, d.salt_len);
    return d;
}

static void get_keys(const void *user, uint64_t first, uint64_t count, struct kv_key *out)
{
    const struct sim *s = user;
    assert_true(first + count <= s->length);
    memcpy(out, s->keys + first, (size_t)count * sizeof *out);
}

static void sim_init(struct sim *s)
{
    s->length = s->computed = 0;
    for (int g = 0; g < GROUPS; g++)
        kv_seq_init(&s->seq[g], PAGE_BYTES, windows[g]);
}

static void sim_put(struct sim *s, struct kv_key key)
{
    struct {
        struct kv_key key;
        uint64_t before;
    } h = {key, s->length ? s->hash[s->length - 1] : 0};
    s->keys[s->length] = key;
    s->hash[s->length++] = hash_bytes(&h, sizeof h);
}

static void sim_id(struct sim *s, int32_t id)
{
    sim_put(s, (struct kv_key){.id = id});
}

static void sim_free(struct fixture *f, struct sim *s)
{
    for (int g = 0; g < GROUPS; g++)
        kv_seq_free(&s->seq[g], f->pool, &f->env);
    s->length = s->computed = 0;
}

/* All that element `computed` would look at holds the right hashes. */
static void sim_check(struct fixture *f, const struct sim *s)
{
    for (int g = 0; g < GROUPS; g++) {
        uint64_t lo = windows[g] && s->computed >= windows[g] ? s->computed - windows[g] + 1 : 0, page[64];
        for (uint64_t e = lo; e < s->computed; e++) {
            if (e == lo || e % 64 == 0) {
                assert_true(e / 64 < s->seq[g].n);
                assert_non_null(s->seq[g].pages[e / 64]);
                f->dev->ops->read(f->dev, page, s->seq[g].refs[e / 64], PAGE_BYTES);
            }
            if (page[e % 64] != s->hash[e])
                fail_msg("group %d element %d of %d", g, (int)e, (int)s->computed);
        }
    }
}

static infer_status sim_compute(struct fixture *f, struct sim *s, uint64_t to)
{
    while (s->computed < to) {
        uint64_t n = to - s->computed < 37 ? to - s->computed : 37;
        for (int g = 0; g < GROUPS; g++) {
            infer_status st = kv_seq_reserve(&s->seq[g], f->pool, &f->env, f->dev, s->computed, s->computed + n, NULL);
            if (st != INFER_OK)
                return st;
        }
        for (int g = 0; g < GROUPS; g++)
            for (uint64_t e = s->computed; e < s->computed + n; e++) {
                struct dev_ref at = s->seq[g].refs[e / 64];
                at.off += e % 64 * 8;
                f->dev->ops->write(f->dev, at, &s->hash[e], 8);
            }
        s->computed += n;
        for (int g = 0; g < GROUPS; g++)
            kv_seq_drop(&s->seq[g], f->pool, s->computed);
    }
    return INFER_OK;
}

static void sim_add(struct fixture *f, const struct sim *s, const struct kv_domain *d, uint64_t length)
{
    struct kv_keys keys = {get_keys, s};
    kv_cache_add(f->cache, d, &keys, length, s->seq, GROUPS, false);
}

/* Looks up for a sequence that has computed nothing, takes what there is, and checks it. */
static struct kv_cache_found sim_find(struct fixture *f, struct sim *s, const struct kv_domain *d)
{
    struct kv_keys keys = {get_keys, s};
    struct kv_cache_query q = {d, &keys, s->length, s->length ? s->length - 1 : 0, 0, false};
    struct kv_cache_found found;
    assert_int_equal(kv_cache_find(f->cache, &q, s->seq, GROUPS, &found, NULL), INFER_OK);
    assert_true(found.reused <= found.matched && found.matched <= q.at_most);
    s->computed = found.reused;
    sim_check(f, s);
    return found;
}

static struct kv_cache_stats stats_of(struct fixture *f)
{
    struct kv_cache_stats st;
    kv_cache_get_stats(f->cache, &st);
    return st;
}

static const char plain[] = "";

/* A stored sequence, cut by another at every point: both halves and the new one are found whole. */
static void test_split_everywhere(void **state)
{
    (void)state;
    static struct sim a, b, c;
    struct kv_domain d = domain_of(0, 0, plain);
    for (uint64_t cut = 0; cut <= 200; cut++) {
        struct fixture f;
        setup(&f, 1 << 30, 1 << 20, 0);
        sim_init(&a);
        sim_init(&b);
        for (int i = 0; i < 200; i++)
            sim_id(&a, 1);
        assert_int_equal(sim_compute(&f, &a, 200), INFER_OK);
        sim_add(&f, &a, &d, 200);
        for (uint64_t i = 0; i < 210; i++)
            sim_id(&b, i < cut ? 1 : 2);
        struct kv_cache_found found = sim_find(&f, &b, &d);
        assert_int_equal(found.matched, cut);
        assert_int_equal(found.reason, cut == 200 ? INFER_CACHE_REASON_ENDS : INFER_CACHE_REASON_DIFFERS);
        assert_int_equal(found.difference, cut);
        assert_int_equal(sim_compute(&f, &b, 210), INFER_OK);
        sim_add(&f, &b, &d, 210);
        sim_free(&f, &a);
        sim_free(&f, &b);
        assert_true(kv_cache_check(f.cache));
        assert_int_equal(stats_of(&f).nodes, cut == 0 || cut == 200 ? 2 : 3);
        for (int which = 0; which < 2; which++) {
            sim_init(&c);
            for (uint64_t i = 0; i < 200; i++)
                sim_id(&c, which && i >= cut ? 2 : 1);
            found = sim_find(&f, &c, &d);
            assert_int_equal(found.matched, 199);
            assert_int_equal(found.reason, INFER_CACHE_REASON_HIT);
            assert_true(found.reused >= (cut < 199 ? cut : 199) || found.reused == 199);
            sim_free(&f, &c);
        }
        teardown(&f);
    }
}

/* The end of every node can be resumed from, also in windowed groups and far behind. */
static void test_ends_resume(void **state)
{
    (void)state;
    struct fixture f;
    static struct sim s, t;
    struct kv_domain d = domain_of(0, 0, plain);
    static const uint64_t ends[] = {65, 300, 301, 640, 700, 1500, 2500};
    setup(&f, 1 << 30, 1 << 20, 0);
    sim_init(&s);
    for (int i = 0; i < 2500; i++)
        sim_id(&s, i % 7);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        assert_int_equal(sim_compute(&f, &s, ends[i]), INFER_OK);
        sim_add(&f, &s, &d, ends[i]);
    }
    sim_free(&f, &s);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (int behind = 1; behind <= 2; behind++) { /* the element behind the end, or another one */
            sim_init(&t);
            for (uint64_t j = 0; j < ends[i]; j++)
                sim_id(&t, (int32_t)(j % 7));
            sim_id(&t, behind == 1 ? (int32_t)(ends[i] % 7) : 9);
            assert_int_equal(sim_find(&f, &t, &d).reused, ends[i]);
            assert_int_equal(sim_compute(&f, &t, ends[i] + 1), INFER_OK);
            sim_check(&f, &t);
            sim_free(&f, &t);
        }
    teardown(&f);
}

/* A sequence that stood at the end of what it found may store its windows there: the cut becomes a place to go on from. */
static void test_holes_filled(void **state)
{
    (void)state;
    struct fixture f;
    static struct sim s, t;
    struct kv_domain d = domain_of(0, 0, plain);
    setup(&f, 1 << 30, 1 << 20, 0);
    sim_init(&s);
    for (int i = 0; i < 900; i++)
        sim_id(&s, 1);
    assert_int_equal(sim_compute(&f, &s, 900), INFER_OK);
    sim_add(&f, &s, &d, 900);
    sim_free(&f, &s);
    for (int round = 0; round < 2; round++) {
        sim_init(&t);
        for (int i = 0; i < 420; i++)
            sim_id(&t, i < 400 ? 1 : 2 + round);
        struct kv_cache_found found = sim_find(&f, &t, &d);
        assert_int_equal(found.matched, 400);
        assert_int_equal(found.reused, round ? 400 : 0); /* windowed pages before 400 were dropped long ago */
        assert_int_equal(sim_compute(&f, &t, 400), INFER_OK);
        sim_add(&f, &t, &d, 400);
        sim_free(&f, &t);
        assert_true(kv_cache_check(f.cache));
    }
    teardown(&f);
}


enum { SIMS = 24, STORED = 1500 };

/* Everything that was ever added, with its domain; short keys so that this is cheap: the sims themselves are copied. */
struct stored {
    struct kv_key *keys;
    uint64_t length;
    int domain;
};

static uint64_t stored_prefix(const struct stored *all, uint64_t n, const struct sim *s, int domain)
{
    uint64_t best = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t k = 0;
        if (all[i].domain != domain || all[i].length <= best)
            continue;
        while (k < all[i].length && k < s->length && kv_key_equal(&all[i].keys[k], &s->keys[k]))
            k++;
        best = k > best ? k : best;
    }
    return best;
}

struct round_state {
    struct fixture f;
    uint64_t seed;
    struct sim *sims;
    int domain_of_sim[SIMS];
    struct kv_domain domains[3];
    struct stored all[STORED];
    uint64_t n_all, finds, reused, evicted;
};

static void remember(struct round_state *r, const struct sim *s, int domain, uint64_t length)
{
    struct stored *e = &r->all[r->n_all++];
    *e = (struct stored){malloc((size_t)length * sizeof *e->keys), length, domain};
    memcpy(e->keys, s->keys, (size_t)length * sizeof *e->keys);
}

/* A new sequence: part of a known one, then something of its own; looks up. */
static void op_begin(struct round_state *r, int i)
{
    struct sim *s = &r->sims[i];
    const struct sim *from = &r->sims[test_rand(&r->seed) % SIMS];
    sim_free(&r->f, s);
    sim_init(s);
    int d = r->domain_of_sim[i] = (int)(test_rand(&r->seed) % 3);
    uint64_t keep = from != s && from->length ? test_rand(&r->seed) % (from->length + 1) : 0;
    uint64_t more = 1 + test_rand(&r->seed) % 150;
    if (r->n_all && test_rand(&r->seed) % 2) {
        const struct stored *e = &r->all[test_rand(&r->seed) % r->n_all];
        keep = e->length < MOST - 200 ? e->length : 0;
        for (uint64_t k = 0; k < keep; k++)
            sim_put(s, e->keys[k]);
    } else {
        for (uint64_t k = 0; k < keep && k < MOST - 200; k++)
            sim_put(s, from->keys[k]);
    }
    for (uint64_t k = 0; k < more; k++)
        sim_put(s, (struct kv_key){.id = (int32_t)(test_rand(&r->seed) % 2), .adapters = test_rand(&r->seed) % 64 == 0});
    uint64_t there = stored_prefix(r->all, r->n_all, s, d);
    struct kv_cache_found found = sim_find(&r->f, s, &r->domains[d]);
    uint64_t want = there < s->length - 1 ? there : s->length - 1;
    if (found.matched > want)
        fail_msg("found %d of %d", (int)found.matched, (int)want);
    if (found.matched < want) {
        assert_int_equal(found.reason, INFER_CACHE_REASON_EVICTED);
        r->evicted++;
    }
    r->finds++;
    r->reused += found.reused;
}

static void op_compute(struct round_state *r, int i)
{
    struct sim *s = &r->sims[i];
    if (s->length == s->computed)
        return;
    uint64_t to = s->computed + 1 + test_rand(&r->seed) % (s->length - s->computed);
    assert_int_equal(sim_compute(&r->f, s, to), INFER_OK);
    sim_check(&r->f, s);
}

static void op_add(struct round_state *r, int i)
{
    struct sim *s = &r->sims[i];
    if (!s->computed || r->n_all == STORED)
        return;
    uint64_t length = test_rand(&r->seed) % 3 ? s->computed : s->computed / 64 * 64;
    if (length)
        remember(r, s, r->domain_of_sim[i], length);
    sim_add(&r->f, s, &r->domains[r->domain_of_sim[i]], length);
}

static void op_fork(struct round_state *r, int i)
{
    struct sim *s = &r->sims[i], *t = &r->sims[test_rand(&r->seed) % SIMS];
    if (s == t)
        return;
    sim_free(&r->f, t);
    memcpy(t->keys, s->keys, sizeof t->keys);
    memcpy(t->hash, s->hash, sizeof t->hash);
    t->length = s->computed; /* the rest it finds for itself */
    t->computed = s->computed;
    for (int g = 0; g < GROUPS; g++) {
        kv_seq_init(&t->seq[g], PAGE_BYTES, windows[g]);
        assert_int_equal(kv_seq_share(&t->seq[g], &s->seq[g], r->f.pool, &r->f.env, NULL), INFER_OK);
    }
    r->domain_of_sim[t - r->sims] = r->domain_of_sim[i];
    for (int k = 0; k < 70 && t->length < MOST - 200; k++)
        sim_id(t, (int32_t)(test_rand(&r->seed) % 2));
}

static void one_round(struct round_state *r, uint64_t round)
{
    int i = (int)(test_rand(&r->seed) % SIMS);
    switch (test_rand(&r->seed) % 12) {
    case 0:
    case 1:
    case 2: op_begin(r, i); break;
    case 3:
    case 4:
    case 5: op_compute(r, i); break;
    case 6:
    case 7:
    case 8: op_add(r, i); break;
    case 9: op_fork(r, i); break;
    case 10: sim_free(&r->f, &r->sims[i]); break;
    default:
        if (test_rand(&r->seed) % 4 == 0)
            kv_cache_reclaim(r->f.cache);
        else
            kv_cache_trim(r->f.cache);
    }
    if (round % 64 == 0)
        assert_true(kv_cache_check(r->f.cache));
}

static void random_rounds(uint64_t seed, uint64_t bytes, uint64_t max_buckets, uint64_t rounds)
{
    static struct round_state r;
    memset(&r, 0, sizeof r);
    r.seed = seed;
    setup(&r.f, bytes, 1 << 30, max_buckets);
    r.sims = calloc(SIMS, sizeof *r.sims);
    for (int i = 0; i < SIMS; i++)
        sim_init(&r.sims[i]);
    r.domains[0] = domain_of(0, 0, plain);
    r.domains[1] = domain_of(0, 1, plain);
    r.domains[2] = domain_of(1, 0, "tenant");
    for (uint64_t round = 1; round <= rounds; round++)
        one_round(&r, round);
    for (int i = 0; i < SIMS; i++)
        sim_free(&r.f, &r.sims[i]);
    kv_cache_trim(r.f.cache);
    struct kv_cache_stats st = stats_of(&r.f);
    assert_true(st.bytes <= bytes);
    print_message("# seed %llu: %llu look-ups, %llu elements reused, %llu found evicted; %llu evictions, %llu nodes, %llu ghosts\n",
                  (unsigned long long)seed, (unsigned long long)r.finds, (unsigned long long)r.reused,
                  (unsigned long long)r.evicted, (unsigned long long)st.evictions, (unsigned long long)st.nodes,
                  (unsigned long long)st.ghosts);
    assert_true(r.finds > rounds / 10 && r.reused > rounds);
    for (uint64_t i = 0; i < r.n_all; i++)
        free(r.all[i].keys);
    free(r.sims);
    kv_cache_drop(r.f.cache, r.domains[2].owner);
    assert_true(kv_cache_check(r.f.cache));
    teardown(&r.f);
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        random_rounds(seed, 1 << 30, 0, 3000);
        random_rounds(seed + 100, 200000, 0, 5000);
        random_rounds(seed + 200, 60000, 1, 3000); /* every key collides with every other */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_everywhere),
        cmocka_unit_test(test_ends_resume),
        cmocka_unit_test(test_holes_filled),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
