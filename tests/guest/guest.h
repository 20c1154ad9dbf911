/* What the programs of this folder share. They are hosts: they see the public headers and the system's, and use the built libinfer.so, linked or by dlopen. */
#ifndef GUEST_H
#define GUEST_H

#include <infer/scheduler.h> /* and with it the others */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Cases. Each runs in a forked process of its own, since most change what belongs to a whole process; results are printed as TAP. ---- */

/* NULL: passed. Else what went wrong, or skip(...). */
typedef const char *(*guest_fn)(void);
struct guest_case {
    const char *name;
    guest_fn fn;
};
/* argv: words; cases whose name holds none of them are left out. */
int guest_main(int argc, char **argv, const struct guest_case *cases, size_t n);
#define GUEST_MAIN(cases)                                                    \
    int main(int argc, char **argv)                                          \
    {                                                                        \
        return guest_main(argc, argv, cases, sizeof(cases) / sizeof *(cases)); \
    }

/* One text at a time, in a static buffer. */
const char *fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define CHECK(condition, ...)          \
    do {                               \
        if (!(condition))              \
            return fail(__VA_ARGS__);  \
    } while (0)
#define RUN(call)                      \
    do {                               \
        const char *why_ = (call);     \
        if (why_)                      \
            return why_;               \
    } while (0)

/* The process ends at once after the case, without a look for leaks: what is locked up cannot take one (it needs /proc, and ptrace). */
extern bool guest_quick_exit;
/* Runs fn in a further process: its wait status. */
int guest_child(guest_fn fn);

#if defined(__SANITIZE_ADDRESS__)
#define GUEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define GUEST_SANITIZED 1
#endif
#endif
#if !defined(GUEST_SANITIZED) && defined(__SANITIZE_THREAD__)
#define GUEST_SANITIZED 1
#endif
#ifndef GUEST_SANITIZED
#define GUEST_SANITIZED 0
#endif

/* ---- What the system knows of this process. -1: it does not tell. ---- */

int guest_threads(void);     /* those that end wait a moment for the kernel: waits until there is one, at most a second */
int guest_descriptors(void); /* open now */
int guest_maps(const char *part); /* lines of /proc/self/maps that hold this text; "": all */
uint64_t guest_signals_blocked(int thread); /* the SigBlk mask of a thread of this process */
/* Calls fn for every thread of the process but the calling one; false when fn said so. */
bool guest_other_threads(bool (*fn)(int thread, void *arg), void *arg);

const char *guest_model(void); /* path of the tiny model */
/* A folder of the process's own, made at the first call, and names in it (8 at a time). guest_main removes the folder. */
const char *guest_folder(void);
const char *guest_path(const char *name);
void guest_remove_folder(void);

/* ---- The library, linked or loaded. ---- */

#define GUEST_API(X)                                                                                                                      \
    X(version) X(status_name) X(engine_create) X(engine_release) X(engine_cache_flush) X(source_path) X(source_memory) X(source_descriptor) \
    X(file_open) X(file_release) X(file_meta_count) X(file_meta) X(file_tensor_f32) X(file_tensor) X(file_tensor_count) X(tokenize)       \
    X(detokenize) X(tokenizer_token) X(template_parse) X(template_release) X(template_render) X(model_open) X(model_open_path)            \
    X(model_release) X(model_tokenizer) X(model_template) X(model_file) X(model_fingerprint) X(session_create) X(session_release)         \
    X(session_append) X(session_append_chat) X(session_truncate) X(session_fork) X(session_logits) X(session_set_sampling)                \
    X(session_score) X(session_restore) X(session_shift) X(step) X(generate) X(adapter_open_path) X(embed) X(checkpoint_create)           \
    X(checkpoint_release) X(checkpoint_session) X(checkpoint_save) X(checkpoint_open) X(checkpoint_clone_file) X(store_open)              \
    X(store_release) X(store_put) X(store_get) X(store_delete) X(scheduler_create) X(scheduler_release) X(scheduler_step)                 \
    X(scheduler_submit) X(request_next) X(request_release)
struct guest_api {
#define X(name) __typeof__(&infer_##name) name;
    GUEST_API(X)
#undef X
};
extern const struct guest_api guest_linked; /* only in programs that link the library */
/* From a handle of dlopen. The name that is missing, or NULL. */
const char *guest_load(struct guest_api *api, void *handle);

/* ---- A scenario that uses nearly everything, and writes down whatever came out. ---- */

struct guest_text {
    char *data;
    size_t len, capacity;
};
void guest_text_free(struct guest_text *t);
/* NULL when both are the same. */
const char *guest_differs(const struct guest_text *a, const struct guest_text *b, const char *what);

struct guest_setup {
    const struct guest_api *api;
    uint32_t threads;                   /* 0: 2 */
    const char *folder;                 /* where it may write; NULL: it saves nothing, and opens nothing for writing */
    const infer_allocator *allocator;   /* NULL: the C library's */
    infer_logits_fn logits;             /* of the host; must leave the logits as they are; or NULL */
    void *user;
    const char *(*after)(const char *call); /* called after every call of the library: NULL, or what is wrong; or NULL */
};
/* NULL, or what went wrong. */
const char *guest_scenario(const struct guest_setup *setup, struct guest_text *out);

#endif
