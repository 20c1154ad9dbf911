/* What the manifest says, enforced by the kernel: text, templates, answers, checkpoints in memory, schedulers and refused files under a filter that ends the process at the
 * first socket, program, signal or opening for writing; and under Landlock, with nothing to read but the model. Bad children show that the jails hold. */
#define _GNU_SOURCE
#include "guest.h"
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- The same, free and locked up. What the free one says comes by shared memory, so that the locked-up process has opened nothing before. ---- */

enum { SHARED = 1 << 20 };
static struct {
    size_t len;
    char text[SHARED - sizeof(size_t)];
} *shared;

static const char *scenario(uint32_t threads, struct guest_text *out)
{
    struct guest_setup s = {.api = &guest_linked, .threads = threads};
    return guest_scenario(&s, out);
}

static const char *free_scenario(void)
{
    struct guest_text out = {NULL, 0, 0};
    RUN(scenario(2, &out));
    CHECK(out.len < sizeof shared->text, "too long");
    memcpy(shared->text, out.data, out.len);
    shared->len = out.len;
    guest_text_free(&out);
    return NULL;
}

/* enter: NULL when the process is locked up now. */
static const char *locked_up(const char *(*enter)(void))
{
    struct guest_text out = {NULL, 0, 0}, wanted;
    shared = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED, "no memory");
    CHECK(guest_child(free_scenario) == 0 && shared->len > 5000, "the scenario fails without a jail");
    wanted = (struct guest_text){shared->text, shared->len, 0};
    guest_quick_exit = true;
    RUN(enter());
    for (int i = 0; i < 2; i++) {
        guest_text_free(&out);
        RUN(scenario(2, &out));
        RUN(guest_differs(&wanted, &out, "locked up"));
    }
    guest_text_free(&out);
    return NULL;
}

static const char *denied(void)
{
    return locked_up(jail_deny);
}

static const char *allowed(void)
{
    if (GUEST_SANITIZED)
        return skip("the sanitizers make calls of their own");
    return locked_up(jail_allow);
}

static const char *enter_files(void)
{
    static char models[512];
    static const char *const readable[] = {models, "/dev/null", NULL}; /* /dev/null: the scenario opens it, to be refused */
    (void)snprintf(models, sizeof models, "%s/models", GUEST_SOURCE);
    return jail_files(readable, NULL);
}

static const char *enter_both(void)
{
    RUN(enter_files());
    return jail_deny();
}

static const char *files_and_calls(void)
{
    return locked_up(enter_both);
}

/* ---- Saving where it is allowed, and elsewhere ---- */

static const char *saving(void)
{
    char models[512], inside[512], outside[512];
    const char *const readable[] = {models, NULL};
    infer_model *model = NULL;
    infer_session *session = NULL;
    infer_checkpoint *checkpoint = NULL, *opened = NULL;
    infer_store *store = NULL;
    infer_error err = {.size = sizeof err};
    infer_step_item item = {.size = sizeof item};
    (void)snprintf(models, sizeof models, "%s/models", GUEST_SOURCE);
    (void)snprintf(inside, sizeof inside, "%s", guest_path("inside"));
    (void)snprintf(outside, sizeof outside, "%s", guest_path("outside"));
    CHECK(mkdir(inside, 0700) == 0 && mkdir(outside, 0700) == 0, "no folder");
    guest_quick_exit = true;
    RUN(jail_files(readable, inside));
    infer_status st = infer_model_open_path(NULL, guest_model(), &model, &err);
    st = st ? st : infer_session_create(model, NULL, &session, &err);
    st = st ? st : infer_session_append_text(session, "Once upon a time", INFER_ZSTR, 0, &err);
    item.session = session;
    st = st ? st : infer_step(&item, 1, NULL, &err);
    st = st ? st : infer_checkpoint_create(session, &checkpoint, &err);
    CHECK(st == INFER_OK, "%s", err.text);
    for (int i = 0; i < 2; i++) { /* twice: a refusal in between changes nothing */
        char path[600];
        (void)snprintf(path, sizeof path, "%s/a.ckpt", inside);
        st = infer_checkpoint_save(checkpoint, path, INFER_ZSTR, NULL, NULL, &err);
        CHECK(st == INFER_OK, "inside: %s", err.text);
        st = infer_checkpoint_open(model, path, INFER_ZSTR, NULL, NULL, &opened, &err);
        CHECK(st == INFER_OK, "inside: %s", err.text);
        infer_checkpoint_release(opened);
        (void)snprintf(path, sizeof path, "%s/a.ckpt", outside);
        st = infer_checkpoint_save(checkpoint, path, INFER_ZSTR, NULL, NULL, &err);
        CHECK(st == INFER_ERROR_IO && err.code == INFER_ERROR_IO && strstr(err.file, "a.ckpt"), "outside: %s: %s (%s)", infer_status_name(st), err.text, err.file);
        (void)snprintf(path, sizeof path, "%s/store", outside);
        st = infer_store_open(infer_model_engine(model), path, INFER_ZSTR, NULL, &store, &err);
        CHECK(st == INFER_ERROR_IO, "a store outside: %s: %s", infer_status_name(st), err.text);
        (void)snprintf(path, sizeof path, "%s/store", inside);
        st = infer_store_open(infer_model_engine(model), path, INFER_ZSTR, NULL, &store, &err);
        st = st ? st : infer_store_put(store, "x", INFER_ZSTR, checkpoint, INFER_STORE_REPLACE, NULL, &err);
        CHECK(st == INFER_OK, "a store inside: %s", err.text);
        infer_store_release(store);
    }
    infer_checkpoint_release(checkpoint);
    infer_session_release(session);
    infer_model_release(model);
    return NULL;
}

/* ---- The jails hold: each of these is refused ---- */

static int bad_fd;

static const char *bad_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? "no socket" : NULL;
}

static const char *bad_write_open(void)
{
    return open(guest_path("bad"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 ? "not opened" : NULL;
}

static const char *bad_inherited(void)
{
    return open(guest_model(), O_RDONLY) < 0 ? "not opened" : NULL;
}

static const char *bad_program(void)
{
    char *const args[] = {(char *)(uintptr_t)"true", NULL};
    (void)execv("/bin/true", args);
    return NULL;
}

static const char *bad_fork(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return NULL;
}

static const char *bad_print(void)
{
    return write(bad_fd, "x", 1) < 0 ? "not written" : NULL;
}

static const char *bad_unlink(void)
{
    (void)unlink(guest_path("no-such-file"));
    return NULL;
}

static const char *bad_handler(void)
{
    (void)signal(SIGUSR1, SIG_IGN);
    return NULL;
}

static const char *bad_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? "not mapped" : NULL;
}

static const char *bad_clock(void)
{
    struct timespec t;
    return syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t) ? "no clock" : NULL;
}

/* The library itself, asked to do what it does only when asked. */
static const char *bad_save(void)
{
    infer_model *model = NULL;
    infer_session *session = NULL;
    infer_checkpoint *checkpoint = NULL;
    infer_status st = infer_model_open_path(NULL, guest_model(), &model, NULL);
    st = st ? st : infer_session_create(model, NULL, &session, NULL);
    st = st ? st : infer_checkpoint_create(session, &checkpoint, NULL);
    if (st)
        return "not that far";
    (void)infer_checkpoint_save(checkpoint, guest_path("bad.ckpt"), INFER_ZSTR, NULL, NULL, NULL);
    return NULL;
}

static const struct bad {
    const char *what;
    guest_fn fn;
} acts[] = {
    {"a socket", bad_socket}, {"opening for writing", bad_write_open}, {"a descriptor that programs inherit", bad_inherited}, {"a program", bad_program},
    {"a process", bad_fork}, {"printing", bad_print}, {"removing a file", bad_unlink}, {"a signal handler", bad_handler}, {"executable memory", bad_code},
    {"the clock", bad_clock}, {"saving a checkpoint", bad_save},
};

static const char *(*jail_now)(void);
static guest_fn act_now;

static const char *act_in_jail(void)
{
    RUN(jail_now());
    return act_now();
}

static const char *each_act_ends_by(const char *(*jail)(void), size_t except)
{
    bad_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        act_now = acts[i].fn;
        if (i == except)
            continue;
        int alone = guest_child(acts[i].fn);
        CHECK(WIFEXITED(alone) && WEXITSTATUS(alone) == 0, "%s does not work without a jail: the test says nothing", acts[i].what);
        jail_now = jail;
        int status = guest_child(act_in_jail);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%s is not refused: %x", acts[i].what, (unsigned)status);
    }
    return NULL;
}

static const char *jail_works(const char *(*jail)(void))
{
    jail_now = jail;
    act_now = NULL;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        const char *why = jail();
        _exit(!why ? 0 : strncmp(why, "# SKIP", 6) == 0 ? 77 : 1);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return "the jail ends the process at once";
    return WEXITSTATUS(status) == 77 ? skip("this system has no such jail") : WEXITSTATUS(status) ? "the jail cannot be entered" : NULL;
}

static const char *denial_holds(void)
{
    RUN(jail_works(jail_deny));
    return each_act_ends_by(jail_deny, SIZE_MAX);
}

/* The list allows reading and mapping by name of the call only: what its arguments ask for is jail_deny's. */
static const char *list_holds(void)
{
    static const char *const by_argument[] = {"opening for writing", "a descriptor that programs inherit", "executable memory", "a process", "a signal handler"};
    if (GUEST_SANITIZED)
        return skip("the sanitizers make calls of their own");
    RUN(jail_works(jail_allow));
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        bool allowed_by_name = false;
        for (size_t k = 0; k < sizeof by_argument / sizeof *by_argument; k++)
            allowed_by_name = allowed_by_name || strcmp(acts[i].what, by_argument[k]) == 0;
        if (allowed_by_name)
            continue;
        jail_now = jail_allow;
        act_now = acts[i].fn;
        bad_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        int status = guest_child(act_in_jail);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%s is not refused: %x", acts[i].what, (unsigned)status);
    }
    return NULL;
}

static const char *landlock_holds(void)
{
    infer_model *model = NULL;
    infer_error err = {.size = sizeof err};
    int fd = open(guest_path("secret.gguf"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0, "no file");
    (void)close(fd);
    guest_quick_exit = true;
    RUN(enter_files());
    CHECK(open(guest_path("secret.gguf"), O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES, "a file elsewhere can be read");
    CHECK(open(guest_path("new"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 && errno == EACCES, "a file can be made");
    CHECK(open(guest_model(), O_WRONLY | O_CLOEXEC) < 0 && errno == EACCES, "the model can be written");
    infer_status st = infer_model_open_path(NULL, guest_path("secret.gguf"), &model, &err);
    CHECK(st == INFER_ERROR_IO, "the library: %s: %s", infer_status_name(st), err.text);
    return NULL;
}

/* ---- The list of docs/security.md ---- */

static const char *documented(void)
{
    static char text[1 << 17];
    int fd = open(GUEST_SOURCE "/docs/security.md", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0, "no docs/security.md");
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    CHECK(n > 0 && n < (ssize_t)sizeof text - 1, "cannot read docs/security.md");
    char *list = strstr(text, "```seccomp\n"), *end = list ? strstr(list + 1, "```") : NULL;
    CHECK(end, "docs/security.md has no block \"seccomp\"");
    *end = 0;
    size_t count = 0;
    for (const char *const *name = jail_names(); *name; name++, count++) {
        bool found = false;
        for (char *at = list + 10; (at = strstr(at, *name)) != NULL; at++)
            found = found || (strchr(" \n", at[-1]) && (!at[strlen(*name)] || strchr(" \n", at[strlen(*name)])));
        CHECK(found, "%s is not in the list of docs/security.md", *name);
    }
    for (char *word = strtok(list + 10, " \n"); word; word = strtok(NULL, " \n"))
        count--;
    CHECK(count == 0, "docs/security.md lists other calls too");
    return NULL;
}

static const struct guest_case cases[] = {
    {"nothing that is denied", denied},
    {"nothing beyond the list", allowed},
    {"nothing to read but the model", files_and_calls},
    {"saving where it is allowed", saving},
    {"the filter holds", denial_holds},
    {"the list holds", list_holds},
    {"Landlock holds", landlock_holds},
    {"the list is documented", documented},
};

/* --scenario: only that, for test_guest_calls.py. */
int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--scenario") == 0) {
        struct guest_text out = {NULL, 0, 0};
        (void)syscall(SYS_getppid); /* marks the beginning */
        const char *why = scenario(2, &out);
        (void)syscall(SYS_getppid);
        return why != NULL;
    }
    return guest_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
