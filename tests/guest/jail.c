#define _GNU_SOURCE
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0
#endif

enum { RESULT_FD = 200 }; /* where guest_main's children tell what went wrong */

/* ---- Filters ---- */

static struct sock_filter code[512];
static unsigned short n_code;

static void emit(unsigned op, uint32_t value, unsigned char yes, unsigned char no)
{
    if (n_code < sizeof code / sizeof *code)
        code[n_code++] = (struct sock_filter){(uint16_t)op, yes, no, value};
}

static void load(size_t offset)
{
    emit(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void give(uint32_t what)
{
    emit(BPF_RET | BPF_K, what, 0, 0);
}

#define NR offsetof(struct seccomp_data, nr)
#define ARG(i) (offsetof(struct seccomp_data, args) + 8 * (i)) /* its low half */

static void begin(void)
{
    n_code = 0;
    load(offsetof(struct seccomp_data, arch));
    emit(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
    give(SECCOMP_RET_KILL_PROCESS);
    load(NR);
}

static void at_call(long nr, uint32_t what)
{
    emit(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1);
    give(what);
}

/* The process dies when argument i of the call has one of these bits, or, with wanted, has none of them. */
static void at_bits(long nr, size_t i, uint32_t bits, bool wanted)
{
    emit(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 4);
    load(ARG(i));
    emit(BPF_JMP | BPF_JSET | BPF_K, bits, wanted ? 1 : 0, wanted ? 0 : 1);
    give(SECCOMP_RET_KILL_PROCESS);
    load(NR);
}

/* ... unless its argument i is this. */
static void at_other(long nr, size_t i, uint32_t value)
{
    emit(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 4);
    load(ARG(i));
    emit(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
    give(SECCOMP_RET_KILL_PROCESS);
    load(NR);
}

static const char *install(void)
{
    struct sock_fprog program = {n_code, code};
    if (!ARCH)
        return "# SKIP no filter for this processor";
    if (n_code == sizeof code / sizeof *code)
        return "the filter is too long";
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        return errno == ENOSYS || errno == EINVAL ? "# SKIP this kernel has no seccomp filters" : "cannot install the filter";
    return NULL;
}

static const long denied[] = {
    /* network */
    SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_recvfrom, SYS_recvmsg,
    SYS_recvmmsg, SYS_shutdown, SYS_getsockname, SYS_getpeername, SYS_setsockopt, SYS_getsockopt,
    /* processes */
    SYS_execve, SYS_execveat, SYS_ptrace, SYS_wait4, SYS_waitid, SYS_process_vm_readv, SYS_process_vm_writev, SYS_setsid, SYS_setpgid, SYS_unshare, SYS_setns, SYS_prlimit64,
    /* files: all that writes, makes, renames or removes */
    SYS_openat2, SYS_pwrite64, SYS_writev, SYS_pwritev, SYS_pwritev2, SYS_sendfile, SYS_splice, SYS_copy_file_range, SYS_fallocate, SYS_ftruncate, SYS_truncate,
    SYS_unlinkat, SYS_renameat2, SYS_mkdirat, SYS_linkat, SYS_symlinkat, SYS_mknodat, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_fsync,
    SYS_fdatasync, SYS_sync, SYS_setxattr, SYS_fsetxattr, SYS_removexattr, SYS_ioctl, SYS_flock, SYS_umask, SYS_chdir, SYS_fchdir, SYS_chroot, SYS_memfd_create,
    SYS_io_setup, SYS_io_submit,
#ifdef __x86_64__
    SYS_creat, SYS_unlink, SYS_rename, SYS_renameat, SYS_mkdir, SYS_rmdir, SYS_link, SYS_symlink, SYS_mknod, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes,
    SYS_futimesat, SYS_fork, SYS_vfork, SYS_time, SYS_alarm, SYS_getpgrp, SYS_pause,
#endif
    /* signals, clock, the rest */
    SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_signalfd4, SYS_kill, SYS_tkill, SYS_rt_sigqueueinfo, SYS_clock_gettime, SYS_gettimeofday, SYS_nanosleep,
    SYS_clock_nanosleep, SYS_setitimer, SYS_timer_create, SYS_timerfd_create, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl, SYS_mount, SYS_setuid, SYS_setgid,
    SYS_getrusage, SYS_uname, SYS_dup, SYS_dup3, SYS_pipe2,
    425, 426, 427, 434, 438, /* io_uring_setup, _enter, _register; pidfd_open, pidfd_getfd */
};

const char *jail_deny(void)
{
    begin();
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++)
        at_call(denied[i], SECCOMP_RET_KILL_PROCESS);
    at_call(435, SECCOMP_RET_ERRNO | ENOSYS); /* clone3 keeps its flags in memory: the C library takes clone instead */
    at_bits(SYS_clone, 0, CLONE_THREAD, true);
    at_bits(SYS_openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND, false);
    at_bits(SYS_openat, 2, O_CLOEXEC, true);
#ifdef SYS_open
    at_bits(SYS_open, 1, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND, false);
    at_bits(SYS_open, 1, O_CLOEXEC, true);
#endif
    at_bits(SYS_mmap, 2, PROT_EXEC, false);
    at_bits(SYS_mprotect, 2, PROT_EXEC, false);
    at_other(SYS_rt_sigaction, 0, 33); /* glibc's own, when a process starts its first thread: for setuid */
    at_other(SYS_write, 0, RESULT_FD);
    give(SECCOMP_RET_ALLOW);
    return install();
}

/* What generation needs, with glibc; docs/security.md has the same list. */
#define ALLOWED(X)                                                                                                                     \
    X(brk) X(clone) X(clone3) X(close) X(exit) X(exit_group) X(fcntl) X(fstat) X(futex) X(getpid) X(getrandom) X(madvise) X(mmap)  \
    X(mprotect) X(munmap) X(newfstatat) X(openat) X(pread64) X(read) X(rseq) X(rt_sigaction) X(rt_sigprocmask) X(sched_getaffinity) X(sched_yield)  \
    X(set_robust_list) X(sysinfo)

#ifndef SYS_rseq
#define SYS_rseq (sizeof(long) && ARCH == AUDIT_ARCH_X86_64 ? 334 : 293)
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif

static const char *const names[] = {
#define X(name) #name,
    ALLOWED(X)
#undef X
    NULL,
};

const char *const *jail_names(void)
{
    return names;
}

const char *jail_allow(void)
{
    static const long allowed[] = {
#define X(name) SYS_##name,
        ALLOWED(X)
#undef X
    };
    begin();
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        at_call(allowed[i], SECCOMP_RET_ALLOW);
    at_other(SYS_write, 0, RESULT_FD); /* the test's own */
    at_call(SYS_write, SECCOMP_RET_ALLOW);
    give(SECCOMP_RET_KILL_PROCESS);
    return install();
}

/* ---- Landlock. The kernel's numbers: the system's header may be older. ---- */

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, VERSION = 1, PATH_BENEATH = 1 };
#define READ_RIGHTS ((uint64_t)(1 << 2 | 1 << 3)) /* files, folders */

int jail_landlock_version(void)
{
    long v = syscall(CREATE_RULESET, NULL, 0, VERSION);
    return v > 0 ? (int)v : 0;
}

static bool allow_below(int rules, const char *path, uint64_t rights)
{
    struct {
        uint64_t rights;
        int32_t fd;
    } __attribute__((packed)) rule = {rights, open(path, O_PATH | O_CLOEXEC)};
    struct stat st;
    if (rule.fd >= 0 && fstat(rule.fd, &st) == 0 && !S_ISDIR(st.st_mode))
        rule.rights &= ~(uint64_t)(1 << 3);
    bool ok = rule.fd >= 0 && syscall(ADD_RULE, rules, PATH_BENEATH, &rule, 0) == 0;
    (void)close(rule.fd);
    return ok;
}

const char *jail_files(const char *const *read, const char *write)
{
    int version = jail_landlock_version();
    if (!version)
        return "# SKIP this kernel has no Landlock";
    /* ABI 1 knows 13 rights, 2 one more (between folders), 3 one more (truncate) */
    uint64_t all = ((uint64_t)1 << (version >= 3 ? 15 : version == 2 ? 14 : 13)) - 1;
    int rules = (int)syscall(CREATE_RULESET, &all, sizeof all, 0);
    bool ok = rules >= 0;
    for (; ok && *read; read++)
        ok = allow_below(rules, *read, READ_RIGHTS);
    if (ok && write)
        ok = allow_below(rules, write, all & ~(uint64_t)1); /* but no programs */
    ok = ok && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(RESTRICT_SELF, rules, 0) == 0;
    if (rules >= 0)
        (void)close(rules);
    return ok ? NULL : "cannot enter Landlock";
}
