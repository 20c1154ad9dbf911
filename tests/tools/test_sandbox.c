/* The sandbox of infer-server (tools/infer-server/sandbox.c): what is forbidden is tried, in the process, in a thread and in a forked child, and so is what is allowed.
 * Each case runs in a process of its own, since nothing leaves the sandbox again. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "infer-server/sandbox.h"

static char dir[64], kv[80], outside[96], log_file[96], secret_dir[96];
static pid_t outsider; /* a process that is not in the sandbox: the test itself */
static char *said; /* what a case found wrong: memory shared with its process */
enum { SAID = 4096 };

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list args;
    size_t n = strlen(said);
    va_start(args, format);
    (void)vsnprintf(said + n, SAID - n, format, args);
    va_end(args);
}

/* The call failed as it should: with EPERM or EACCES, never by ending the process. */
static void refused(const char *what, long result)
{
    int e = errno;
    if (result != -1)
        say("%s: went through\n", what);
    else if (e != EPERM && e != EACCES && e != EXDEV) /* Landlock: a link or rename that would widen access */
        say("%s: %s\n", what, strerror(e));
}

static void allowed(const char *what, bool good)
{
    int e = errno;
    if (!good)
        say("%s: %s\n", what, strerror(e));
}

#define REFUSED(call) refused(#call, (errno = 0, (long)(call)))
#define ALLOWED(call) allowed(#call, (errno = 0, (call)))

static bool lacks_landlock(void)
{
    return syscall(444, NULL, 0, 1) < 1;
}

static void enter(bool forks)
{
    char error[256];
    const struct sandbox_path writable[] = {{kv, "--kv-dir"}, {log_file, "--access-log"}};
    struct sandbox_options o = {.writable = writable, .n_writable = 2, .forks = forks};
    if (!sandbox_enter(&o, error, sizeof error)) {
        say("%s\n", error);
        _exit(1);
    }
}

/* Runs a case in a process of its own. */
static void run(void (*body)(void))
{
    int status;
    if (lacks_landlock())
        skip();
    said[0] = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (said[0] || status != 0)
        fail_msg("status %d\n%s", status, said);
}

static int make(const char *folder, const char *name, int flags)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, flags, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? 0 : -1;
}

/* ---- What is tried everywhere */

static void try_sockets(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int pair[2];
    REFUSED(socket(AF_INET, SOCK_STREAM, 0));
    REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
    REFUSED(socket(AF_NETLINK, SOCK_RAW, 0));
    REFUSED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    REFUSED(connect(0, (struct sockaddr *)&name, sizeof name));
    REFUSED(bind(0, (struct sockaddr *)&name, sizeof name));
    REFUSED(listen(0, 1));
}

static void try_programs(void)
{
    char program[] = "/bin/true", *args[] = {program, NULL}, byte;
    struct iovec iov = {&byte, 1};
    REFUSED(execve("/bin/true", args, args));
    REFUSED(syscall(SYS_execveat, AT_FDCWD, "/bin/true", args, args, 0));
    REFUSED(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
    REFUSED(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
    REFUSED(syscall(SYS_process_vm_readv, getppid(), &iov, 1, &iov, 1, 0));
    REFUSED(syscall(SYS_io_uring_setup, 1, NULL));
    REFUSED(syscall(SYS_bpf, 0, NULL, 0));
    REFUSED(syscall(SYS_userfaultfd, 0));
}

static void try_machine(void)
{
    REFUSED(mount("none", "/tmp", "tmpfs", 0, NULL));
    REFUSED(umount2("/proc", 0));
    REFUSED(chroot("/"));
    REFUSED(syscall(SYS_init_module, "", 0UL, ""));
    REFUSED(syscall(SYS_finit_module, 0, "", 0));
    REFUSED(syscall(SYS_kexec_load, 0UL, 0UL, NULL, 0UL));
    REFUSED(syscall(SYS_reboot, 0, 0, 0, NULL));
    REFUSED(setuid(getuid()));
    REFUSED(setgid(getgid()));
    REFUSED(setresuid(0, 0, 0));
    REFUSED(setgroups(0, NULL));
    REFUSED(unshare(CLONE_NEWNS));
    REFUSED(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL));
    REFUSED(sethostname("x", 1));
    REFUSED(ioctl(0, TIOCSTI, "x"));
    errno = 0;
    if (syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS) /* so that the C library falls back */
        say("clone3: %s\n", strerror(errno));
}

static void try_files(void)
{
    char link_in[128], in[128];
    (void)snprintf(link_in, sizeof link_in, "%s/link", kv);
    (void)snprintf(in, sizeof in, "%s/mine", kv);
    REFUSED(open(outside, O_WRONLY));
    REFUSED(open(outside, O_RDWR));
    REFUSED(open(outside, O_RDONLY | O_TRUNC));
    REFUSED(open(outside, O_RDONLY)); /* nor is it in a readable folder */
    REFUSED(open(link_in, O_WRONLY)); /* a link from inside to it, made before */
    REFUSED(open("/etc/passwd", O_RDONLY));
    char environ_of[64];
    (void)snprintf(environ_of, sizeof environ_of, "/proc/%ld/environ", (long)outsider);
    REFUSED(open(environ_of, O_RDONLY)); /* other processes' secrets */
    REFUSED(make(dir, "new", O_WRONLY | O_CREAT));
    REFUSED(open(dir, O_TMPFILE | O_WRONLY, 0600));
    REFUSED(make("/usr", "new", O_WRONLY | O_CREAT));
    REFUSED(make("/proc/self", "mem", O_RDWR));
    REFUSED(unlink(outside));
    REFUSED(rename(outside, in));
    REFUSED(link(outside, in));
    REFUSED(symlink("x", in));
    REFUSED(mkdir(secret_dir, 0700));
    REFUSED(mkfifo(in, 0600));
    REFUSED(truncate(outside, 0));
    REFUSED(chmod(outside, 0666));
    REFUSED(chown(outside, 0, 0));
    REFUSED(access(kv, F_OK) == 0 ? chmod(kv, 0777) : -1);
    REFUSED(syscall(SYS_setxattr, outside, "user.x", "y", 1UL, 0));
}

static void try_allowed(void)
{
    char a[160], b[128], sub[128], text[8] = "";
    (void)snprintf(a, sizeof a, "%s/a.%ld", kv, (long)gettid());
    (void)snprintf(b, sizeof b, "%s/b.%ld", kv, (long)gettid());
    (void)snprintf(sub, sizeof sub, "%s/sub.%ld", kv, (long)gettid());
    int fd = open(a, O_RDWR | O_CREAT | O_EXCL, 0600);
    ALLOWED(fd >= 0);
    ALLOWED(write(fd, "hello", 5) == 5);
    ALLOWED(fsync(fd) == 0);
    ALLOWED(futimens(fd, NULL) == 0);
    ALLOWED(ftruncate(fd, 3) == 0);
    ALLOWED(pread(fd, text, 8, 0) == 3);
    close(fd);
    ALLOWED(link(a, b) == 0);
    ALLOWED(rename(a, b) == 0 && unlink(a) == 0);
    ALLOWED(mkdir(sub, 0700) == 0);
    (void)snprintf(a, sizeof a, "%s/c", sub);
    ALLOWED(rename(b, a) == 0);
    ALLOWED(unlink(a) == 0);
    ALLOWED(rmdir(sub) == 0);
    fd = open(log_file, O_WRONLY | O_APPEND);
    ALLOWED(fd >= 0 && write(fd, "x\n", 2) == 2);
    close(fd);
    FILE *f = fopen("/proc/meminfo", "r");
    ALLOWED(f != NULL);
    if (f)
        fclose(f);
    fd = open("/dev/urandom", O_RDONLY);
    ALLOWED(fd >= 0);
    close(fd);
    void *m = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ALLOWED(m != MAP_FAILED);
    ALLOWED(munmap(m, 1 << 20) == 0);
    int ends[2];
    ALLOWED(pipe(ends) == 0);
    close(ends[0]);
    close(ends[1]);
    ALLOWED(kill(getpid(), 0) == 0);
}

static void try_all(void)
{
    try_sockets();
    try_programs();
    try_machine();
    try_files();
    try_allowed();
}

static void *try_in_thread(void *arg)
{
    (void)arg;
    try_all();
    return NULL;
}

/* ---- Cases */

static void body_process(void)
{
    enter(false);
    try_all();
    REFUSED(fork());
    REFUSED(kill(getppid(), 0));
    REFUSED(syscall(SYS_tgkill, getppid(), getppid(), 0));
    REFUSED(syscall(SYS_pidfd_send_signal, 0, 0, NULL, 0));
}

static void test_process(void **s)
{
    (void)s;
    run(body_process);
}

static void body_thread(void)
{
    pthread_t t;
    enter(false);
    ALLOWED(pthread_create(&t, NULL, try_in_thread, NULL) == 0);
    ALLOWED(pthread_join(t, NULL) == 0);
}

static void test_thread(void **s)
{
    (void)s;
    run(body_thread);
}

static void body_child(void)
{
    int status = 0;
    enter(true);
    pid_t pid = fork();
    ALLOWED(pid >= 0);
    if (pid == 0) {
        pthread_t t;
        char error[256];
        ALLOWED(sandbox_child(error, sizeof error));
        try_all();
        ALLOWED(pthread_create(&t, NULL, try_in_thread, NULL) == 0);
        ALLOWED(pthread_join(t, NULL) == 0);
        REFUSED(fork());
        REFUSED(vfork());
        REFUSED(kill(getppid(), 0));
        REFUSED(kill(-1, 0));
        REFUSED(syscall(SYS_tgkill, getppid(), getppid(), 0));
        raise(SIGTERM); /* itself: yes */
        _exit(3);
    }
    ALLOWED(waitpid(pid, &status, 0) == pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM)
        say("the child ended with %#x\n", (unsigned)status);
    pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    ALLOWED(kill(pid, SIGKILL) == 0); /* the parent ends its children */
    ALLOWED(waitpid(pid, &status, 0) == pid);
}

static void test_child(void **s)
{
    (void)s;
    run(body_child);
}

/* A descriptor that listens goes on accepting. */
static void body_accept(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char byte = 0;
    int status;
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s/socket", dir);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ALLOWED(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 4) == 0);
    pid_t client = fork();
    if (client == 0) { /* outside of the sandbox */
        int c = socket(AF_UNIX, SOCK_STREAM, 0);
        bool ok = connect(c, (struct sockaddr *)&at, sizeof at) == 0 && write(c, "x", 1) == 1 && read(c, &byte, 1) == 1 && byte == 'y';
        _exit(!ok);
    }
    enter(false);
    int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    ALLOWED(c >= 0);
    ALLOWED(recv(c, &byte, 1, 0) == 1 && byte == 'x');
    ALLOWED(send(c, "y", 1, MSG_NOSIGNAL) == 1);
    ALLOWED(waitpid(client, &status, 0) == client && status == 0);
}

static void test_accept(void **s)
{
    (void)s;
    run(body_accept);
}

static void *sleep_on(void *gate)
{
    char c;
    return read(*(int *)gate, &c, 1) == 1 ? NULL : gate;
}

/* With threads already there it refuses to begin, since Landlock would not reach them. */
static void body_late(void)
{
    int gate[2];
    pthread_t t;
    char error[256] = "";
    struct sandbox_options o = {0};
    ALLOWED(pipe(gate) == 0 && pthread_create(&t, NULL, sleep_on, gate) == 0);
    if (sandbox_enter(&o, error, sizeof error) || !strstr(error, "2 threads"))
        say("entered with 2 threads: %s\n", error);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ALLOWED(fd >= 0); /* and nothing is in force */
    ALLOWED(write(gate[1], "x", 1) == 1 && pthread_join(t, NULL) == 0);
}

static void test_late(void **s)
{
    (void)s;
    run(body_late);
}

static void body_missing(void)
{
    char error[256] = "";
    const struct sandbox_path nowhere[] = {{"/nowhere/at/all", "--kv-dir"}};
    struct sandbox_options o = {.writable = nowhere, .n_writable = 1, .best_effort = true};
    if (sandbox_enter(&o, error, sizeof error) || !strstr(error, "/nowhere/at/all"))
        say("entered: %s\n", error);
}

static void test_missing_path(void **s)
{
    (void)s;
    run(body_missing);
}

/* A kernel without Landlock, and one without seccomp filters either: made by a filter. */
static void without(int nr, int e)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)e),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog p = {4, code};
    ALLOWED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) == 0);
}

static void is(json_t *j, const char *name, json_int_t want)
{
    const json_t *v = json_object_get(j, name);
    json_int_t got = json_is_boolean(v) ? json_is_true(v) : json_integer_value(v);
    if (!v || got != want)
        say("%s is %d\n", name, v ? (int)got : -1);
}

static void body_old_kernel(void)
{
    char error[256] = "";
    const struct sandbox_path writable[] = {{kv, "--kv-dir"}};
    struct sandbox_options o = {.writable = writable, .n_writable = 1};
    without(444, ENOSYS);
    if (sandbox_enter(&o, error, sizeof error) || !strstr(error, "no Landlock") || !strstr(error, "best-effort"))
        say("entered without Landlock: %s\n", error);
    json_t *j = sandbox_json();
    is(j, "enabled", 0);
    json_decref(j);
    o.best_effort = true;
    ALLOWED(sandbox_enter(&o, error, sizeof error));
    j = sandbox_json();
    is(j, "enabled", 1);
    is(j, "landlock", 0);
    is(j, "seccomp", 1);
    json_decref(j);
    try_sockets();
    try_programs();
}

static void test_old_kernel(void **s)
{
    (void)s;
    run(body_old_kernel);
}

static void body_older_kernel(void)
{
    char error[256] = "";
    struct sandbox_options o = {0};
    without(SYS_seccomp, ENOSYS);
    if (sandbox_enter(&o, error, sizeof error) || !strstr(error, "seccomp"))
        say("entered without seccomp: %s\n", error);
    o.best_effort = true;
    ALLOWED(sandbox_enter(&o, error, sizeof error));
    json_t *j = sandbox_json();
    is(j, "enabled", 1);
    is(j, "seccomp", 0);
    is(j, "no_new_privs", 1);
    json_decref(j);
}

static void test_older_kernel(void **s)
{
    (void)s;
    run(body_older_kernel);
}

static void body_json(void)
{
    json_t *j = sandbox_json();
    is(j, "enabled", 0);
    json_decref(j);
    enter(false);
    j = sandbox_json();
    is(j, "enabled", 1);
    is(j, "landlock", syscall(444, NULL, 0, 1));
    is(j, "seccomp", 1);
    is(j, "no_new_privs", 1);
    if (strcmp(json_string_value(json_array_get(json_object_get(j, "write"), 0)), "--kv-dir") != 0 || json_array_size(json_object_get(j, "write")) != 2)
        say("write lists something else\n");
    json_decref(j);
}

static void test_json(void **s)
{
    (void)s;
    run(body_json);
}

#ifdef __x86_64__
/* The 32-bit calls of the same kernel are no way around: socket is 359 there. Where the kernel has none, the process gets a fault. */
static long call_32(long nr, long a, long b, long c)
{
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
    return result;
}

static void body_32_bits(void)
{
    enter(true);
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(call_32(359, AF_UNIX, SOCK_STREAM, 0) >= 0);
    ALLOWED(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        say("socket by int 0x80: went through\n");
    REFUSED(syscall(0x40000000 | SYS_socket, AF_UNIX, SOCK_STREAM, 0)); /* x32 */
}

static void test_32_bits(void **s)
{
    (void)s;
    run(body_32_bits);
}
#endif

static int setup(void **s)
{
    char link_in[128];
    (void)s;
    outsider = getpid();
    (void)snprintf(dir, sizeof dir, "/tmp/infer-sandbox-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    (void)snprintf(kv, sizeof kv, "%s/kv", dir);
    (void)snprintf(outside, sizeof outside, "%s/outside", dir);
    (void)snprintf(secret_dir, sizeof secret_dir, "%s/secret", dir);
    (void)snprintf(log_file, sizeof log_file, "%s/log", dir);
    (void)snprintf(link_in, sizeof link_in, "%s/link", kv);
    said = mmap(NULL, SAID, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return said != MAP_FAILED && mkdir(kv, 0700) == 0 && make(dir, "outside", O_WRONLY | O_CREAT) == 0 && make(dir, "log", O_WRONLY | O_CREAT) == 0 &&
                   symlink(outside, link_in) == 0
               ? 0
               : -1;
}

static int teardown(void **s)
{
    char command[128];
    (void)s;
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process), cmocka_unit_test(test_thread),       cmocka_unit_test(test_child),      cmocka_unit_test(test_accept),
        cmocka_unit_test(test_late),    cmocka_unit_test(test_missing_path), cmocka_unit_test(test_old_kernel), cmocka_unit_test(test_older_kernel),
        cmocka_unit_test(test_json),
#ifdef __x86_64__
        cmocka_unit_test(test_32_bits),
#endif
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
