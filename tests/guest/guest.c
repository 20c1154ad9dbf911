#define _GNU_SOURCE
#include "guest.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

bool guest_quick_exit;

enum { RESULT_FD = 200 }; /* far from what tests count and close */

static char message[4096];

const char *fail(const char *format, ...)
{
    char text[sizeof message];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(message, text, sizeof message); /* an argument may have been the message itself */
    return message;
}

const char *skip(const char *format, ...)
{
    va_list args;
    int n = snprintf(message, sizeof message, "# SKIP ");
    va_start(args, format);
    (void)vsnprintf(message + n, sizeof message - (size_t)n, format, args);
    va_end(args);
    return message;
}

static void run_in_child(const struct guest_case *c)
{
    const char *why = c->fn();
    size_t n = why ? strlen(why) : 0;
    if (n && write(RESULT_FD, why, n) != (ssize_t)n)
        _exit(99);
    if (guest_quick_exit || why)
        _exit(0);
    exit(0); /* which looks for leaks, in builds that do */
}

static bool run_case(const struct guest_case *c, size_t number)
{
    char text[sizeof message] = "";
    size_t n = 0;
    int ends[2], status = 0;
    if (pipe(ends) != 0)
        return false;
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup3(ends[1], RESULT_FD, O_CLOEXEC);
        close(ends[0]);
        close(ends[1]);
        run_in_child(c);
    }
    close(ends[1]);
    for (ssize_t got; n < sizeof text - 1 && (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    close(ends[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        status = -1;
    text[n] = 0;
    bool skipped = strncmp(text, "# SKIP", 6) == 0, ok = status == 0 && (n == 0 || skipped);
    printf("%s %zu - %s%s%s\n", ok ? "ok" : "not ok", number, c->name, skipped ? " " : "", skipped ? text : "");
    if (!ok && n)
        printf("# %s\n", text);
    if (WIFSIGNALED(status))
        printf("# ended by signal %d\n", WTERMSIG(status));
    else if (status)
        printf("# exit status %d\n", WEXITSTATUS(status));
    return ok;
}

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i]))
            return true;
    return argc < 2;
}

int guest_main(int argc, char **argv, const struct guest_case *cases, size_t n)
{
    size_t count = 0, failed = 0, number = 0;
    for (size_t i = 0; i < n; i++)
        count += wanted(cases[i].name, argc, argv);
    printf("1..%zu\n", count);
    (void)guest_folder();
    for (size_t i = 0; i < n; i++)
        if (wanted(cases[i].name, argc, argv))
            failed += !run_case(&cases[i], ++number);
    guest_remove_folder();
    (void)fflush(stdout);
    return failed || !count;
}

int guest_child(guest_fn fn)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(fn() ? 1 : 0);
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

/* ---- /proc ---- */

static int count_entries(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    if (!d)
        return -1;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

int guest_threads(void)
{
    int n = count_entries("/proc/self/task");
    for (int i = 0; n > 1 && i < 1000; i++) { /* a joined thread is listed until the kernel has taken it away */
        usleep(1000);
        n = count_entries("/proc/self/task");
    }
    return n;
}

int guest_descriptors(void)
{
    int n = count_entries("/proc/self/fd");
    return n < 0 ? n : n - 1; /* the folder's own */
}

int guest_maps(const char *part)
{
    char line[8192];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    if (!f)
        return -1;
    while (fgets(line, sizeof line, f))
        n += strstr(line, part) != NULL;
    (void)fclose(f);
    return n;
}

uint64_t guest_signals_blocked(int thread)
{
    char path[64], line[256];
    unsigned long long mask = 0;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "SigBlk: %llx", &mask) != 1)
        ;
    if (f)
        (void)fclose(f);
    return mask;
}

bool guest_other_threads(bool (*fn)(int thread, void *arg), void *arg)
{
    bool ok = true;
    int self = (int)syscall(SYS_gettid);
    DIR *d = opendir("/proc/self/task");
    for (const struct dirent *e; d && ok && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && atoi(e->d_name) != self)
            ok = fn(atoi(e->d_name), arg);
    if (d)
        closedir(d);
    return d && ok;
}

/* ---- Files ---- */

const char *guest_model(void)
{
    return GUEST_MODEL;
}

static char folder[256];

const char *guest_folder(void)
{
    const char *base = getenv("TMPDIR");
    if (!folder[0]) {
        (void)snprintf(folder, sizeof folder, "%s/infer-guest-XXXXXX", base && strlen(base) < 200 ? base : "/tmp");
        if (!mkdtemp(folder)) {
            perror(folder);
            exit(1);
        }
    }
    return folder;
}

const char *guest_path(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", guest_folder(), name);
    return path;
}

static void remove_tree(const char *path)
{
    char child[1024];
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        (void)snprintf(child, sizeof child, "%s/%s", path, e->d_name);
        if (unlink(child) != 0)
            remove_tree(child);
    }
    if (d)
        closedir(d);
    (void)rmdir(path);
}

void guest_remove_folder(void)
{
    if (folder[0])
        remove_tree(folder);
    folder[0] = 0;
}

/* ---- The library ---- */

const char *guest_load(struct guest_api *api, void *handle)
{
    void *symbol;
#define X(name)                                    \
    symbol = dlsym(handle, "infer_" #name);        \
    if (!symbol)                                   \
        return "infer_" #name;                     \
    memcpy(&api->name, &symbol, sizeof symbol);
    GUEST_API(X)
#undef X
    return NULL;
}
