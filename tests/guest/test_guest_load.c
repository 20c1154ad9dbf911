/* The library as a plug-in: loaded, used and unloaded again and again; two copies in one process; a host that has functions of the same names. */
#define _GNU_SOURCE
#include "guest.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if GUEST_SANITIZED
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
#endif

/* A host's own functions, exported as the library's are. Nothing that is loaded may take them for its own. */
static int taken;
__attribute__((visibility("default"))) int32_t host_function(void) __asm__("infer_model_open");
int32_t host_function(void)
{
    taken++;
    return INFER_ERROR_INTERNAL;
}
__attribute__((visibility("default"))) void host_procedure(void) __asm__("infer_init");
void host_procedure(void)
{
    taken++;
}

/* Leaks are looked for while the library is still there: afterwards their stacks have no names (they are found at the exit all the same). */
static const char *no_leaks(void)
{
#if GUEST_SANITIZED
    if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
        return "leaks: see the report";
#endif
    return NULL;
}

static const char *use_once(const char *path, int flags, struct guest_text *out)
{
    struct guest_api api;
    void *handle = dlopen(path, flags);
    if (!handle)
        return fail("%s", dlerror());
    const char *missing = guest_load(&api, handle);
    if (missing)
        return fail("%s is missing", missing);
    struct guest_setup s = {.api = &api, .folder = guest_folder()};
    RUN(guest_scenario(&s, out));
    RUN(no_leaks());
    CHECK(guest_maps("libinfer") > 0, "the library is not in /proc/self/maps while it is loaded: the test looks for the wrong name");
    CHECK(dlclose(handle) == 0, "%s", dlerror());
    return NULL;
}

struct traces {
    int threads, descriptors, maps, library;
    size_t bytes;
};

static struct traces traces(void)
{
    struct traces t = {guest_threads(), guest_descriptors(), guest_maps(""), guest_maps("libinfer"), 0};
#if !GUEST_SANITIZED && defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    t.bytes = mallinfo2().uordblks; /* of all arenas */
#endif
    return t;
}

static const char *cycles(int n)
{
    struct guest_text first = {NULL, 0, 0};
    struct traces before = {0, 0, 0, 0, 0}, now;
    for (int i = 0; i < n; i++) {
        struct guest_text text = {NULL, 0, 0};
        RUN(use_once(GUEST_LIBRARY, RTLD_NOW | RTLD_LOCAL, i ? &text : &first));
        if (i)
            RUN(guest_differs(&first, &text, "loaded again"));
        guest_text_free(&text);
        now = traces();
        CHECK(now.library == 0, "cycle %d: %d mappings of the library are left", i, now.library);
        CHECK(now.threads == 1, "cycle %d: %d threads are left", i, now.threads);
        if (i < 2)
            before = now; /* the C library keeps some of what it needed first: arenas, stacks of threads, its list of loaded files */
        CHECK(now.descriptors == before.descriptors, "cycle %d: %d descriptors instead of %d", i, now.descriptors, before.descriptors);
        /* The C library's arenas and cached stacks may come to lie differently, but no more with every cycle. The sanitizers keep what was freed. */
        CHECK(GUEST_SANITIZED || now.maps <= before.maps + 8, "cycle %d: %d mappings instead of %d", i, now.maps, before.maps);
        CHECK(now.bytes <= before.bytes, "cycle %d: %zu bytes in use instead of %zu", i, now.bytes, before.bytes);
    }
    guest_text_free(&first);
    return NULL;
}

static const char *descriptors_before(void)
{
    int before = guest_descriptors();
    RUN(cycles(2));
    int now = guest_descriptors();
    CHECK(now == before, "%d descriptors instead of %d", now, before);
    return NULL;
}

static const char *fifty(void)
{
    return cycles(GUEST_SANITIZED ? 5 : 50);
}

/* Loaded and dropped without use; and with the lazy binding that most hosts get. */
static const char *unused(void)
{
    for (int i = 0; i < 50; i++) {
        void *handle = dlopen(GUEST_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
        CHECK(handle, "%s", dlerror());
        CHECK(dlclose(handle) == 0, "%s", dlerror());
        CHECK(guest_maps("libinfer") == 0, "mappings are left");
    }
    return NULL;
}

static const char *copy_file(const char *from, const char *to)
{
    char chunk[65536];
    ssize_t n;
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    CHECK(in >= 0 && out >= 0, "cannot copy %s", from);
    while ((n = read(in, chunk, sizeof chunk)) > 0)
        CHECK(write(out, chunk, (size_t)n) == n, "cannot write %s", to);
    close(in);
    close(out);
    return NULL;
}

/* Two copies do the same at once, each in a thread and a folder of its own. */
struct user {
    const struct guest_api *api;
    const char *folder, *why;
    struct guest_text text;
};

static void *use(void *arg)
{
    struct user *u = arg;
    struct guest_setup s = {.api = u->api, .folder = u->folder};
    for (int i = 0; i < 2 && !u->why; i++) {
        guest_text_free(&u->text);
        u->why = guest_scenario(&s, &u->text);
    }
    return NULL;
}

static const char *both(const struct guest_api *a, const struct guest_api *b)
{
    struct user users[2] = {{.api = a, .folder = guest_path("one")}, {.api = b, .folder = guest_path("two")}};
    pthread_t threads[2];
    infer_model *held = NULL;
    infer_error err = {.size = sizeof err};
    CHECK((uintptr_t)a->generate != (uintptr_t)b->generate, "there is one copy only");
    CHECK(a->model_open_path(NULL, guest_model(), &held, &err) == INFER_OK, "%s", err.text);
    for (int i = 0; i < 2; i++) {
        (void)mkdir(users[i].folder, 0700);
        CHECK(pthread_create(&threads[i], NULL, use, &users[i]) == 0, "no thread");
    }
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    a->model_release(held);
    RUN(users[0].why);
    RUN(users[1].why);
    RUN(guest_differs(&users[0].text, &users[1].text, "two copies"));
    guest_text_free(&users[0].text);
    guest_text_free(&users[1].text);
    return NULL;
}

static const char *copied(void)
{
    struct guest_api a, b;
    char path[512];
    (void)snprintf(path, sizeof path, "%s", guest_path("libinfer-copy.so"));
    RUN(copy_file(GUEST_LIBRARY, path));
    void *one = dlopen(GUEST_LIBRARY, RTLD_NOW | RTLD_LOCAL), *two = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(one && two, "%s", dlerror());
    CHECK(!guest_load(&a, one) && !guest_load(&b, two), "a function is missing");
    RUN(both(&a, &b));
    CHECK(dlclose(one) == 0, "%s", dlerror());
    struct guest_text after = {NULL, 0, 0}; /* the second lives on alone */
    struct guest_setup s = {.api = &b, .folder = guest_folder()};
    RUN(guest_scenario(&s, &after));
    guest_text_free(&after);
    CHECK(dlclose(two) == 0, "%s", dlerror());
    CHECK(guest_threads() == 1 && guest_maps("libinfer") == 0, "threads or mappings are left");
    return NULL;
}

static const char *namespaces(void)
{
    struct guest_api a, b;
#if GUEST_SANITIZED
    return skip("a second namespace would load the sanitizer's library twice");
#endif
    void *one = dlopen(GUEST_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    CHECK(one, "%s", dlerror());
    void *two = dlmopen(LM_ID_NEWLM, GUEST_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!two)
        return skip("no second namespace: %s", dlerror());
    CHECK(!guest_load(&a, one) && !guest_load(&b, two), "a function is missing");
    RUN(both(&a, &b));
    CHECK(dlclose(two) == 0 && dlclose(one) == 0, "%s", dlerror());
    CHECK(guest_threads() == 1 && guest_maps("libinfer") == 0, "threads or mappings are left");
    return NULL;
}

static const char *same_names(void)
{
    struct guest_text text = {NULL, 0, 0};
    void *self = dlopen(NULL, RTLD_NOW);
    CHECK(self && dlsym(self, "infer_model_open") == (void *)(uintptr_t)host_function, "the host does not export its function: nothing is tested");
    RUN(use_once(GUEST_LIBRARY, RTLD_NOW | RTLD_LOCAL, &text)); /* infer_model_open_path calls infer_model_open */
    CHECK(taken == 0, "the library called the host's functions %d times", taken);
    guest_text_free(&text);
    (void)dlclose(self);
    return NULL;
}

static const struct guest_case cases[] = {
    {"loaded, used and unloaded twice", descriptors_before},
    {"loaded, used and unloaded 50 times", fifty},
    {"loaded and unloaded unused", unused},
    {"two copies of the file", copied},
    {"two namespaces", namespaces},
    {"a host with functions of the same names", same_names},
};

/* Once more, without the C library's cache of free blocks, which counts as memory in use, and with one arena: then every byte can be accounted for. */
int main(int argc, char **argv)
{
    if (!getenv("GLIBC_TUNABLES") && setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1", 1) == 0)
        (void)execv("/proc/self/exe", argv);
    return guest_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
