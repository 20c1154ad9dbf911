/* The host's floating-point settings: whatever they are, results have the same bits, and the settings are as found after every call and in the host's callbacks. */
#define _GNU_SOURCE
#include "guest.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>

/* All that decides how the unit computes: on x86 MXCSR without its sticky flags. */
#if defined(__x86_64__)
#include <xmmintrin.h>
#define FLUSH 0x8040u /* flush to zero, denormals are zero */
static uint32_t settings(void)
{
    return _mm_getcsr() & ~0x3Fu;
}
static void flush_denormals(void)
{
    _mm_setcsr(_mm_getcsr() | FLUSH);
}
#define HAVE_FLUSH 1
#elif defined(__aarch64__)
static uint32_t settings(void)
{
    uint64_t v;
    __asm__ volatile("mrs %0, fpcr" : "=r"(v));
    return (uint32_t)v;
}
static void flush_denormals(void)
{
    uint64_t v = settings() | 1u << 24; /* FZ */
    __asm__ volatile("msr fpcr, %0" : : "r"(v));
}
#define HAVE_FLUSH 1
#else
static uint32_t settings(void)
{
    return (uint32_t)fegetround();
}
static void flush_denormals(void)
{
}
#define HAVE_FLUSH 0
#endif

static uint32_t hosts;             /* what the host has set */
static uint64_t callbacks, others; /* logits callbacks, allocations: that the tests look at something */
static const char *bad;

/* The x87 unit too: long double arithmetic of the host. */
static const char *unchanged(const char *where)
{
    static int rounding;
    if (!where) {
        rounding = fegetround();
        return NULL;
    }
    CHECK(settings() == hosts, "%s: settings are %x instead of %x", where, settings(), hosts);
    CHECK(fegetround() == rounding, "%s: rounding is %d instead of %d", where, fegetround(), rounding);
    return NULL;
}

static const char *after_call(const char *call)
{
    return unchanged(call);
}

static infer_status on_logits(void *user, float *logits, uint64_t vocab_size, const int32_t *ids, uint64_t count)
{
    (void)user;
    (void)logits;
    (void)vocab_size;
    (void)ids;
    (void)count;
    callbacks++;
    if (!bad)
        bad = unchanged("in a logits callback");
    return INFER_OK;
}

/* Memory functions may be called with the library's settings (the header says so): of these nothing is expected but that they are called. */
static void *own_alloc(void *user, uint64_t bytes, uint64_t align)
{
    (void)user;
    others++;
    return aligned_alloc((size_t)align, (size_t)((bytes + align - 1) / align * align));
}

static void own_free(void *user, void *block, uint64_t bytes, uint64_t align)
{
    (void)user;
    (void)bytes;
    (void)align;
    free(block);
}

static const char *scenario(struct guest_text *out)
{
    infer_allocator a = {.size = sizeof a, .alloc = own_alloc, .free = own_free};
    struct guest_setup s = {.api = &guest_linked, .folder = guest_folder(), .logits = on_logits, .after = after_call, .allocator = &a, .threads = 3};
    hosts = settings();
    (void)unchanged(NULL);
    RUN(guest_scenario(&s, out));
    CHECK(callbacks > 20 && others > 100, "no callbacks: nothing was tested");
    return bad;
}

static const char *with(int rounding, bool flush, const char *name)
{
    struct guest_text plain = {NULL, 0, 0}, other = {NULL, 0, 0};
    volatile float ratio = 7.0f, denormal = 1e-38f;
    RUN(scenario(&plain));
    CHECK(fesetround(rounding) == 0, "cannot set the rounding");
    if (flush) {
        flush_denormals();
        CHECK(denormal / 16 == 0, "denormals are not flushed");
    }
    ratio /= 10; /* the nearest float is below */
    CHECK((rounding == FE_UPWARD) == (ratio > 0.7f), "the rounding is not in force");
    const char *why = scenario(&other);
    CHECK(fesetround(FE_TONEAREST) == 0, "cannot set the rounding");
    RUN(why);
    RUN(guest_differs(&plain, &other, name));
    guest_text_free(&plain);
    guest_text_free(&other);
    return NULL;
}

static const char *nearest(void)
{
    return with(FE_TONEAREST, false, "to nearest");
}

static const char *upward(void)
{
    return with(FE_UPWARD, false, "upward");
}

static const char *downward(void)
{
    return with(FE_DOWNWARD, false, "downward");
}

static const char *to_zero(void)
{
    return with(FE_TOWARDZERO, false, "towards zero");
}

static const char *flushing(void)
{
    return HAVE_FLUSH ? with(FE_TONEAREST, true, "denormals flushed") : skip("this processor has no such mode that the test knows");
}

static const char *flushing_upward(void)
{
    return HAVE_FLUSH ? with(FE_UPWARD, true, "denormals flushed, upward") : skip("this processor has no such mode that the test knows");
}

/* A host that traps: SIGFPE at an invalid operation, a division by zero, an overflow. The library computes with traps off, on its own threads too. */
static const char *traps(void)
{
    struct guest_text plain = {NULL, 0, 0}, trapping = {NULL, 0, 0};
    RUN(scenario(&plain));
#ifdef __GLIBC__
    (void)feclearexcept(FE_ALL_EXCEPT);
    if (feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT) < 0 ||
        (fegetexcept() & (FE_INVALID | FE_DIVBYZERO)) != (FE_INVALID | FE_DIVBYZERO))
        return skip("this processor does not trap");
    const char *why = scenario(&trapping);
    int still = fegetexcept();
    (void)fedisableexcept(FE_ALL_EXCEPT);
    RUN(why);
    CHECK(still & FE_INVALID, "the traps are off");
#else
    return skip("this C library cannot trap");
#endif
    RUN(guest_differs(&plain, &trapping, "with traps"));
    guest_text_free(&plain);
    guest_text_free(&trapping);
    return NULL;
}

/* Sticky flags: a host that looks whether its own arithmetic overflowed finds nothing of the library's. */
static const char *flags(void)
{
    struct guest_text out = {NULL, 0, 0};
    (void)feclearexcept(FE_ALL_EXCEPT);
    RUN(scenario(&out));
    int raised = fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW);
    guest_text_free(&out);
    CHECK(raised == 0, "flags were raised: %x", (unsigned)raised);
    return NULL;
}

/* ---- The other callbacks that see the host's settings: events of sessions and requests, the scheduler's clock. ---- */

static void look(const char *where)
{
    callbacks++;
    if (!bad)
        bad = unchanged(where);
}

static int32_t on_event(void *user, const infer_event *event)
{
    (void)user;
    (void)event;
    look("in an event callback");
    return 0;
}

static void on_request(void *user, infer_request *request, const infer_request_event *event)
{
    (void)user;
    (void)request;
    (void)event;
    look("in a request's callback");
}

static uint64_t on_clock(void *user)
{
    (void)user;
    look("in the clock");
    return 1;
}

static const char *callback_settings(void)
{
    infer_error err = {.size = sizeof err};
    infer_model *model = NULL;
    infer_session *session = NULL;
    infer_scheduler *scheduler = NULL;
    infer_scheduler_options clocked = {.size = sizeof clocked, .clock = on_clock};
    infer_generate_options six = {.size = sizeof six, .max_tokens = 6};
    infer_request_options request = {.size = sizeof request, .text = "Once upon a time", .text_len = INFER_ZSTR, .generate = &six, .callback = on_request};
    int32_t more = 1;
    CHECK(fesetround(FE_DOWNWARD) == 0, "cannot set the rounding");
    if (HAVE_FLUSH)
        flush_denormals();
    hosts = settings();
    (void)unchanged(NULL);
    infer_status st = infer_model_open_path(NULL, guest_model(), &model, &err);
    st = st ? st : infer_session_create(model, NULL, &session, &err);
    st = st ? st : infer_session_append_text(session, "Once upon", 9, 0, &err);
    st = st ? st : infer_generate(session, &six, on_event, NULL, NULL, &err);
    uint64_t of_session = callbacks;
    st = st ? st : infer_scheduler_create(model, &clocked, &scheduler, &err);
    st = st ? st : infer_scheduler_submit(scheduler, &request, NULL, &err);
    while (!st && more)
        st = infer_scheduler_step(scheduler, &more, NULL, &err);
    infer_scheduler_release(scheduler);
    infer_session_release(session);
    infer_model_release(model);
    (void)fesetround(FE_TONEAREST);
    CHECK(st == INFER_OK, "%s", err.text);
    CHECK(of_session >= 7 && callbacks > of_session + 8, "%llu and %llu callbacks", (unsigned long long)of_session, (unsigned long long)callbacks);
    return bad;
}

/* Numbers in options that are denormal count as what they are, also where the host's comparisons would take them for zero. */
static const char *denormal_options(void)
{
    int32_t ids[2][8];
    for (int flush = 0; flush < 2; flush++) {
        infer_error err = {.size = sizeof err};
        infer_model *model = NULL;
        infer_session *session = NULL;
        infer_step_item item = {.size = sizeof item};
        infer_sampling s = {.size = sizeof s, .temperature = 1e-40f, .min_p = 1e-42f, .top_p = 1e-41f, .typical_p = 1e-41f, .presence_penalty = 1e-41f,
                            .frequency_penalty = 1e-43f, .seed = 3};
        static const int32_t prompt[] = {1, 100, 200, 300};
        if (flush && HAVE_FLUSH)
            flush_denormals();
        hosts = settings();
        infer_sample_result r = {.size = sizeof r};
        CHECK(infer_model_open_path(NULL, guest_model(), &model, &err) == INFER_OK, "%s", err.text);
        CHECK(infer_session_create(model, NULL, &session, &err) == INFER_OK, "%s", err.text);
        CHECK(infer_session_append(session, prompt, 4, &err) == INFER_OK, "%s", err.text);
        CHECK(infer_session_set_sampling(session, &s, &err) == INFER_OK, "%s", err.text);
        item.session = session;
        for (int i = 0; i < 8; i++) {
            CHECK(infer_step(&item, 1, NULL, &err) == INFER_OK, "%s", err.text);
            CHECK(infer_session_sample(session, &r, &err) == INFER_OK, "%s", err.text);
            CHECK(settings() == hosts, "settings changed");
            ids[flush][i] = r.id;
            CHECK(infer_session_append(session, &r.id, 1, &err) == INFER_OK, "%s", err.text);
        }
        infer_session_release(session);
        infer_model_release(model);
    }
    for (int i = 0; i < 8; i++)
        CHECK(ids[0][i] == ids[1][i], "token %d is %d, and %d where denormals are flushed", i, ids[0][i], ids[1][i]);
    return HAVE_FLUSH ? NULL : skip("this processor has no such mode that the test knows");
}

static const struct guest_case cases[] = {
    {"rounds to nearest", nearest},
    {"rounds upward", upward},
    {"rounds downward", downward},
    {"rounds towards zero", to_zero},
    {"flushes denormals", flushing},
    {"flushes denormals, rounds upward", flushing_upward},
    {"traps", traps},
    {"sticky flags", flags},
    {"callbacks of the host", callback_settings},
    {"denormal options", denormal_options},
};
GUEST_MAIN(cases)
