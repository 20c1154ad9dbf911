/* Descriptors: nothing is printed, 0 to 2 are left alone also when they are closed, none stays open, all are closed by exec, and files get the modes that the host's umask says. */
#define _GNU_SOURCE
#include "guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *scenario(const infer_allocator *allocator, struct guest_text *out)
{
    struct guest_setup s = {.api = &guest_linked, .folder = guest_folder(), .allocator = allocator};
    return guest_scenario(&s, out);
}

/* ---- An allocator that looks at the process at every call: files are open in the middle of many. ---- */

struct watch {
    uint64_t calls, open_files;
    const char *why;
    int before; /* descriptors that were open */
    bool low_closed; /* 0 to 2 are, and have to stay so */
};

/* Descriptors that the library has opened: above 2, and not inherited by a program that the host starts. */
static const char *look(struct watch *w)
{
    int n = 0;
    for (int fd = 0; fd < 64; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags < 0)
            continue;
        if (w->low_closed)
            CHECK(fd > 2, "the library holds descriptor %d", fd);
        if (fd >= 3 + w->before) {
            n++;
            CHECK(flags & FD_CLOEXEC, "descriptor %d would be inherited", fd);
        }
    }
    w->open_files += n > 0;
    return NULL;
}

static void *watch_alloc(void *user, uint64_t bytes, uint64_t align)
{
    struct watch *w = user;
    w->calls++;
    if (!w->why)
        w->why = look(w);
    return aligned_alloc((size_t)align, (size_t)((bytes + align - 1) / align * align));
}

static void watch_free(void *user, void *block, uint64_t bytes, uint64_t align)
{
    (void)user;
    (void)bytes;
    (void)align;
    free(block);
}

static infer_allocator watched(struct watch *w)
{
    return (infer_allocator){.size = sizeof(infer_allocator), .user = w, .alloc = watch_alloc, .free = watch_free};
}

static const char *seen(const struct watch *w)
{
    if (w->why)
        return w->why;
    CHECK(w->calls > 300 && w->open_files > 10, "%llu allocations, %llu while a file was open: nothing was tested", (unsigned long long)w->calls,
          (unsigned long long)w->open_files);
    return NULL;
}

static const char *close_above(int from)
{
    for (int fd = from; fd < 64; fd++) /* the harness's own lies higher */
        (void)close(fd);
    return NULL;
}

static const char *inherited(void)
{
    struct watch w = {0};
    struct guest_text out = {NULL, 0, 0};
    infer_allocator a = watched(&w);
    RUN(close_above(3));
    RUN(scenario(&a, &out));
    guest_text_free(&out);
    return seen(&w);
}

static const char *left_open(void)
{
    struct guest_text out = {NULL, 0, 0};
    int before = guest_descriptors();
    RUN(scenario(NULL, &out));
    guest_text_free(&out);
    CHECK(before > 0 && guest_descriptors() == before, "%d descriptors instead of %d", guest_descriptors(), before);
    CHECK(guest_threads() == 1, "threads are left");
    CHECK(guest_maps("tiny.gguf") == 0 && guest_maps(".ckpt") == 0, "files are still mapped");
    return NULL;
}

/* ---- Closed standard descriptors ---- */

static const char *closed(void)
{
    struct watch w = {.low_closed = true};
    struct guest_text with = {NULL, 0, 0}, without = {NULL, 0, 0};
    infer_allocator a = watched(&w);
    RUN(close_above(3));
    RUN(scenario(NULL, &with));
    for (int fd = 0; fd < 3; fd++)
        (void)close(fd);
    const char *why = scenario(&a, &without);
    for (int fd = 0; fd < 3; fd++)
        CHECK(open("/dev/null", O_RDWR) == fd, "descriptor %d is in use after everything was released", fd); /* the sanitizers' too */
    RUN(why);
    RUN(guest_differs(&with, &without, "with closed standard descriptors"));
    guest_text_free(&with);
    guest_text_free(&without);
    return seen(&w);
}

/* The host gives 0 to 2 to files of its own while the library has files open: by a model that is mapped, and one that is a copied descriptor. */
static const char *taken_by_the_host(void)
{
    infer_model *model = NULL, *second = NULL;
    infer_source source;
    infer_error err = {.size = sizeof err};
    struct guest_text out = {NULL, 0, 0};
    struct stat st;
    for (int fd = 0; fd < 3; fd++)
        (void)close(fd);
    infer_status first = infer_model_open_path(NULL, guest_model(), &model, &err);
    int low = open(guest_model(), O_RDONLY); /* 0: the host's own, and lent */
    infer_source_descriptor(&source, low);
    infer_status lent = infer_model_open(NULL, &source, NULL, &second, &err);
    int one = open(guest_path("host-1"), O_RDWR | O_CREAT | O_TRUNC, 0600), two = open(guest_path("host-2"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(low == 0 && one == 1 && two == 2, "the host got %d, %d and %d", low, one, two);
    CHECK(first == INFER_OK && lent == INFER_OK, "%s", err.text);
    const char *why = scenario(NULL, &out);
    infer_model_release(model);
    infer_model_release(second);
    CHECK(fcntl(0, F_GETFD) >= 0, "the host's descriptor was closed");
    for (int fd = 1; fd < 3; fd++)
        CHECK(fstat(fd, &st) == 0 && st.st_size == 0, "%lld bytes were written to the host's descriptor %d", (long long)st.st_size, fd);
    RUN(why);
    guest_text_free(&out);
    return NULL;
}

static const char *prints_nothing(void)
{
    struct guest_text out = {NULL, 0, 0};
    struct stat st;
    char path[512];
    (void)snprintf(path, sizeof path, "%s", guest_path("printed"));
    for (int fd = 0; fd < 3; fd++)
        CHECK(dup2(open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600), fd) == fd, "no file");
    RUN(scenario(NULL, &out));
    CHECK(out.len > 5000, "the scenario did nothing");
    guest_text_free(&out);
    CHECK(fstat(1, &st) == 0 && st.st_size == 0, "%lld bytes were printed", (long long)st.st_size);
    for (int fd = 0; fd < 3; fd++)
        CHECK(lseek(fd, 0, SEEK_CUR) == 0, "descriptor %d was moved", fd);
    return NULL;
}

/* ---- Modes ---- */

static const char *mode_is(const char *name, mode_t wanted)
{
    struct stat st;
    CHECK(lstat(guest_path(name), &st) == 0, "%s: %s", name, strerror(errno));
    CHECK((st.st_mode & 07777) == wanted, "%s has mode %o instead of %o", name, (unsigned)(st.st_mode & 07777), (unsigned)wanted);
    return NULL;
}

/* No file that the library makes has more rights than the umask leaves of 0666, and no folder more than 0700. */
static const char *modes_below(const char *path, mode_t mask, int *files)
{
    char child[1024];
    DIR *d = opendir(path);
    CHECK(d, "%s: %s", path, strerror(errno));
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat st;
        (void)snprintf(child, sizeof child, "%s/%s", path, e->d_name);
        if (e->d_name[0] == '.' || lstat(child, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode)) {
            CHECK((st.st_mode & 07777 & ~0700u) == 0, "%s has mode %o", child, (unsigned)st.st_mode);
            RUN(modes_below(child, mask, files));
        } else {
            CHECK((st.st_mode & 07777) == (0666 & ~mask), "%s has mode %o", child, (unsigned)st.st_mode);
            ++*files;
        }
    }
    closedir(d);
    return NULL;
}

static const char *modes(void)
{
    static const mode_t masks[] = {0, 022, 027, 077};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        struct guest_text out = {NULL, 0, 0};
        int files = 0;
        guest_remove_folder();
        (void)guest_folder();
        (void)umask(masks[i]);
        RUN(scenario(NULL, &out));
        mode_t now = umask(masks[i]);
        CHECK(now == masks[i], "the umask became %o", (unsigned)now);
        guest_text_free(&out);
        RUN(mode_is("saved.ckpt", 0666 & ~masks[i]));
        RUN(mode_is("store", 0700 & ~masks[i]));
        RUN(modes_below(guest_folder(), masks[i], &files));
        CHECK(files >= 3, "%d files: the test does not see what is written", files);
    }
    guest_remove_folder();
    return NULL;
}

static const struct guest_case cases[] = {
    {"prints nothing", prints_nothing},
    {"with descriptors 0 to 2 closed", closed},
    {"descriptors 0 to 2 are the host's", taken_by_the_host},
    {"descriptors are closed by exec", inherited},
    {"nothing stays open", left_open},
    {"umask and modes of files", modes},
};
GUEST_MAIN(cases)
