#define _GNU_SOURCE /* syscall, O_PATH */
#include "sandbox.h"

#include <stdio.h>

#ifdef __linux__
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    bool entered;
    bool seccomp;
    int landlock; /* ABI; 0: not in force */
    json_t *write, *read;
} state;

static bool failed(char *error, size_t capacity, const char *what, const char *object)
{
    (void)snprintf(error, capacity, "--sandbox: %s%s%s: %s", what, object ? " " : "", object ? object : "", strerror(errno));
    return false;
}

/* ---- Landlock: files. The kernel's numbers, since the system's header may be older than the kernel. ---- */

enum {
    NR_LANDLOCK_CREATE = 444, /* the same on all processors */
    NR_LANDLOCK_ADD = 445,
    NR_LANDLOCK_RESTRICT = 446,
    LANDLOCK_VERSION = 1,
    LANDLOCK_RULE_PATH = 1
};
enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_REMOVE_DIR = 1 << 4,
    FS_REMOVE_FILE = 1 << 5,
    FS_MAKE_DIR = 1 << 7,
    FS_MAKE_REG = 1 << 8,
    FS_ALL_1 = (1 << 13) - 1,
    FS_REFER = 1 << 13,    /* from ABI 2: renames and links between folders */
    FS_TRUNCATE = 1 << 14, /* 3 */
    FS_IOCTL_DEV = 1 << 15 /* 5 */
};
enum { NET_BIND = 1, NET_CONNECT = 2 /* 4 */, SCOPE_ABSTRACT_UNIX = 1, SCOPE_SIGNAL = 2 /* 6 */ };

struct ruleset {
    uint64_t fs, net, scoped;
};
struct path_rule {
    uint64_t access;
    int32_t fd;
} __attribute__((packed)); /* as the kernel has it */

/* What programs need of the system when they are loaded already: libraries that the C library opens late, zones, random bytes, figures about the machine and about
 * themselves. Of /proc no more: Landlock keeps other processes' memory closed, but not their environments. */
static const char *const system_paths[] = {
    "/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/openssl.cnf", "/dev/null", "/dev/zero", "/dev/urandom", "/proc/self", "/proc/meminfo",
    "/sys/devices/system", "/sys/fs/cgroup",
};

static bool allow(int rules, const char *path, uint64_t access)
{
    struct stat st;
    struct path_rule rule = {access, open(path, O_PATH | O_CLOEXEC)};
    if (rule.fd < 0)
        return false;
    if (fstat(rule.fd, &st) == 0 && !S_ISDIR(st.st_mode))
        rule.access &= FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE;
    bool ok = syscall(NR_LANDLOCK_ADD, rules, LANDLOCK_RULE_PATH, &rule, 0) == 0;
    int e = errno;
    close(rule.fd);
    errno = e;
    return ok;
}

static bool allow_list(int rules, const struct sandbox_path *paths, size_t n, uint64_t access, char *error, size_t capacity)
{
    for (size_t i = 0; i < n; i++)
        if (!allow(rules, paths[i].path, access))
            return failed(error, capacity, "cannot allow", paths[i].path);
    return true;
}

static bool allow_all(int rules, const struct sandbox_options *o, uint64_t handled, char *error, size_t capacity)
{
    const uint64_t read = FS_READ_FILE | FS_READ_DIR;
    const uint64_t write = (FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG | FS_REFER | FS_TRUNCATE) & handled;
    for (size_t i = 0; i < sizeof system_paths / sizeof system_paths[0]; i++)
        if (!allow(rules, system_paths[i], read) && errno != ENOENT)
            return failed(error, capacity, "cannot allow", system_paths[i]);
    return allow_list(rules, o->readable, o->n_readable, read, error, capacity) &&
           allow_list(rules, o->writable, o->n_writable, read | write, error, capacity);
}

static bool restrict_files(const struct sandbox_options *o, char *error, size_t capacity)
{
    long abi = syscall(NR_LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION);
    if (abi < 1) {
        if (o->best_effort)
            return true;
        return failed(error, capacity, "this kernel has no Landlock (--sandbox=best-effort goes on without it)", NULL);
    }
    struct ruleset all = {FS_ALL_1, 0, 0};
    all.fs |= (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0) | (abi >= 5 ? FS_IOCTL_DEV : 0);
    all.net = abi >= 4 ? NET_BIND | NET_CONNECT : 0;
    all.scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL : 0;
    int rules = (int)syscall(NR_LANDLOCK_CREATE, &all, sizeof all, 0); /* older kernels take a longer struct when its rest is zero */
    if (rules < 0)
        return failed(error, capacity, "cannot make a Landlock ruleset", NULL);
    bool ok = allow_all(rules, o, all.fs, error, capacity);
    if (ok && syscall(NR_LANDLOCK_RESTRICT, rules, 0) != 0)
        ok = failed(error, capacity, "cannot enter the Landlock ruleset", NULL);
    close(rules);
    state.landlock = ok ? (int)abi : 0;
    return ok;
}

/* ---- Seccomp: system calls ---- */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef ARCH
/* Newer than some systems' headers; the same on all processors. */
enum {
    NR_PIDFD_SEND_SIGNAL = 424, NR_IO_URING_SETUP, NR_IO_URING_ENTER, NR_IO_URING_REGISTER, NR_OPEN_TREE, NR_MOVE_MOUNT, NR_FSOPEN, NR_FSCONFIG, NR_FSMOUNT,
    NR_FSPICK, NR_CLONE3 = 435, NR_PIDFD_GETFD = 438, NR_PROCESS_MADVISE = 440, NR_MOUNT_SETATTR = 442, NR_QUOTACTL_FD = 443, NR_FCHMODAT2 = 452,
    NR_SETXATTRAT = 463, NR_REMOVEXATTRAT = 466, NR_OPEN_TREE_ATTR = 467
};

static const int denied[] = {
    /* new sockets; accept stays */
    SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen,
    /* programs and other processes */
    SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, NR_PIDFD_GETFD, NR_PROCESS_MADVISE,
    /* what Landlock does not see: names, owners, modes and attributes of files anywhere */
    SYS_truncate, SYS_fchmod, SYS_fchmodat, NR_FCHMODAT2, SYS_fchown, SYS_fchownat, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, NR_SETXATTRAT, SYS_removexattr,
    SYS_lremovexattr, SYS_fremovexattr, NR_REMOVEXATTRAT, SYS_name_to_handle_at, SYS_open_by_handle_at,
    /* would do what this filter takes away */
    NR_IO_URING_SETUP, NR_IO_URING_ENTER, NR_IO_URING_REGISTER, SYS_bpf, SYS_userfaultfd, SYS_perf_event_open, SYS_fanotify_init,
    /* who we are */
    SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_capset, SYS_personality,
    SYS_unshare, SYS_setns, SYS_keyctl, SYS_add_key, SYS_request_key,
    /* the machine */
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, NR_OPEN_TREE, NR_OPEN_TREE_ATTR, NR_MOVE_MOUNT, NR_FSOPEN, NR_FSCONFIG, NR_FSMOUNT, NR_FSPICK,
    NR_MOUNT_SETATTR, SYS_swapon, SYS_swapoff, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load, SYS_reboot,
    SYS_acct, SYS_quotactl, NR_QUOTACTL_FD, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime, SYS_sethostname, SYS_setdomainname, SYS_syslog,
    SYS_vhangup,
#ifdef __x86_64__
    SYS_chmod, SYS_chown, SYS_lchown, SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#endif
};

/* Signals to others; kill and tgkill are looked at by their argument. */
static const int denied_signals[] = {SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, NR_PIDFD_SEND_SIGNAL};
static const int by_pid[] = {SYS_kill, SYS_tgkill};

#define NEW_NAMESPACES (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define LOAD(field) ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, field)))
#define FAIL(e) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (e)))
#define ALLOW ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW))
#define SKIP_UNLESS(op, value, n) ((struct sock_filter)BPF_JUMP(BPF_JMP | (op) | BPF_K, (unsigned)(value), 0, n))
#define SKIP_IF(op, value, n) ((struct sock_filter)BPF_JUMP(BPF_JMP | (op) | BPF_K, (unsigned)(value), n, 0))

enum { PROGRAM_MAX = 512 };
struct program {
    struct sock_filter code[PROGRAM_MAX];
    unsigned short n;
};

static void emit(struct program *p, struct sock_filter f)
{
    if (p->n < PROGRAM_MAX) /* holds all of the lists above twice */
        p->code[p->n++] = f;
}

/* Leaves the number of the call loaded. Calls by the numbers of another ABI (32 bits) are none of ours. */
static void begin(struct program *p)
{
    emit(p, LOAD(arch));
    emit(p, SKIP_IF(BPF_JEQ, ARCH, 1));
    emit(p, FAIL(EPERM));
    emit(p, LOAD(nr));
#ifdef __x86_64__
    emit(p, SKIP_UNLESS(BPF_JGE, 0x40000000, 1)); /* x32 */
    emit(p, FAIL(EPERM));
#endif
}

static void deny(struct program *p, int nr, unsigned e)
{
    emit(p, SKIP_UNLESS(BPF_JEQ, nr, 1));
    emit(p, FAIL(e));
}

/* nr fails where its argument (low half) has one of these bits (all: lacks one of them). */
static void deny_bits(struct program *p, int nr, unsigned arg_offset, unsigned bits, bool lacks)
{
    emit(p, SKIP_UNLESS(BPF_JEQ, nr, 4));
    emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arg_offset));
    emit(p, lacks ? SKIP_IF(BPF_JSET, bits, 1) : SKIP_UNLESS(BPF_JSET, bits, 1));
    emit(p, FAIL(EPERM));
    emit(p, LOAD(nr));
}

static void deny_others(struct program *p, int nr, unsigned arg_offset, unsigned allowed)
{
    emit(p, SKIP_UNLESS(BPF_JEQ, nr, 4));
    emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arg_offset));
    emit(p, SKIP_IF(BPF_JEQ, allowed, 1));
    emit(p, FAIL(EPERM));
    emit(p, LOAD(nr));
}

#define ARG(i) ((unsigned)offsetof(struct seccomp_data, args[i]))

/* Threads yes, processes no; signals to this one only. */
static void deny_processes(struct program *p)
{
    deny_bits(p, SYS_clone, ARG(0), CLONE_THREAD, true);
#ifdef __x86_64__
    deny(p, SYS_fork, EPERM);
    deny(p, SYS_vfork, EPERM);
#endif
    for (size_t i = 0; i < sizeof denied_signals / sizeof denied_signals[0]; i++)
        deny(p, denied_signals[i], EPERM);
    for (size_t i = 0; i < sizeof by_pid / sizeof by_pid[0]; i++)
        deny_others(p, by_pid[i], ARG(0), (unsigned)getpid());
}

static bool install(struct program *p, unsigned flags)
{
    struct sock_fprog whole = {p->n, p->code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &whole) == 0;
}

static bool restrict_calls(const struct sandbox_options *o, char *error, size_t capacity)
{
    struct program p = {.n = 0};
    begin(&p);
    for (size_t i = 0; i < sizeof denied / sizeof denied[0]; i++)
        deny(&p, denied[i], EPERM);
    deny(&p, NR_CLONE3, ENOSYS); /* its flags lie in memory: the C library takes clone instead */
    deny_bits(&p, SYS_clone, ARG(0), NEW_NAMESPACES, false);
    emit(&p, SKIP_UNLESS(BPF_JEQ, SYS_ioctl, 4)); /* typing into the terminal */
    emit(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(1)));
    emit(&p, SKIP_UNLESS(BPF_JEQ, TIOCSTI, 1));
    emit(&p, FAIL(EPERM));
    emit(&p, LOAD(nr));
    if (!o->forks)
        deny_processes(&p);
    emit(&p, ALLOW);
    if (!install(&p, SECCOMP_FILTER_FLAG_TSYNC)) {
        if (o->best_effort && (errno == ENOSYS || errno == EINVAL))
            return true;
        return failed(error, capacity, "cannot install the seccomp filter", NULL);
    }
    state.seccomp = true;
    return true;
}

bool sandbox_child(char *error, size_t capacity)
{
    struct program p = {.n = 0};
    if (!state.seccomp)
        return true;
    begin(&p);
    deny_processes(&p);
    emit(&p, ALLOW);
    return install(&p, 0) || failed(error, capacity, "cannot install the child's seccomp filter", NULL);
}

#else /* another processor */

static bool restrict_calls(const struct sandbox_options *o, char *error, size_t capacity)
{
    errno = ENOSYS;
    return o->best_effort || failed(error, capacity, "no seccomp filter for this processor (--sandbox=best-effort goes on without it)", NULL);
}

bool sandbox_child(char *error, size_t capacity)
{
    (void)error;
    (void)capacity;
    return true;
}
#endif

/* ---- All of it ---- */

static int count_threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static json_t *names_of(const struct sandbox_path *paths, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(list, json_string(paths[i].name));
    return list;
}

bool sandbox_enter(const struct sandbox_options *o, char *error, size_t capacity)
{
    int threads = count_threads();
    if (threads != 1) {
        (void)snprintf(error, capacity, "--sandbox: the process has %d threads already", threads);
        return false;
    }
    state.write = names_of(o->writable, o->n_writable);
    state.read = names_of(o->readable, o->n_readable);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return failed(error, capacity, "cannot set no_new_privs", NULL);
    state.entered = restrict_files(o, error, capacity) && restrict_calls(o, error, capacity);
    return state.entered;
}

json_t *sandbox_json(void)
{
    if (!state.entered)
        return json_pack("{s:b}", "enabled", 0);
    return json_pack("{s:b, s:i, s:b, s:b, s:O, s:O}", "enabled", 1, "landlock", state.landlock, "seccomp", state.seccomp && prctl(PR_GET_SECCOMP) == 2,
        "no_new_privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "write", state.write, "read", state.read);
}

#else /* not Linux */

bool sandbox_enter(const struct sandbox_options *options, char *error, size_t capacity)
{
    (void)options;
    (void)snprintf(error, capacity, "--sandbox: needs Linux");
    return false;
}

bool sandbox_child(char *error, size_t capacity)
{
    (void)error;
    (void)capacity;
    return true;
}

json_t *sandbox_json(void)
{
    return json_pack("{s:b}", "enabled", 0);
}
#endif
