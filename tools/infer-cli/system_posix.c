#define _DEFAULT_SOURCE /* readlink and tm_gmtoff under every _POSIX_C_SOURCE */
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

static struct termios terminal; /* as it was at the start: line editing changes it */
static volatile sig_atomic_t has_terminal;
static void (*interrupt)(void);

/* Descriptors 0 to 2 that were closed must not become the model file's. Reading and writing the stand-ins fails or ends at once. */
void system_start(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            _exit(EXIT_GENERATION);
}

static void on_signal(int number)
{
    int saved = errno;
    (void)number;
    interrupt();
    errno = saved;
}

bool system_on_interrupt(void (*f)(void))
{
    struct sigaction sa;
    interrupt = f;
    has_terminal = tcgetattr(STDIN_FILENO, &terminal) == 0;
    memset(&sa, 0, sizeof sa);
    sigemptyset(&sa.sa_mask);
    sa.sa_flags = SA_RESTART;
    sa.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &sa, NULL); /* a closed pipe is a write error, said as such */
    sa.sa_handler = on_signal;
    return sigaction(SIGINT, &sa, NULL) == 0;
}

_Noreturn void system_quit(int code)
{
    if (has_terminal)
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
    _exit(code);
}

bool system_executable(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size);
    if (n <= 0 || (size_t)n >= size)
        return false;
    path[n] = 0;
    return true;
}

int64_t system_local_time(void)
{
    struct tm tm;
    time_t t = time(NULL);
    return localtime_r(&t, &tm) ? (int64_t)t + tm.tm_gmtoff : (int64_t)t;
}

double system_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

FILE *system_open(const char *path, const char *mode)
{
    return fopen(path, mode);
}

bool system_sync(FILE *f)
{
    return fflush(f) == 0 && fsync(fileno(f)) == 0;
}

bool system_replace(const char *from, const char *to)
{
    return rename(from, to) == 0;
}

bool system_remove(const char *path)
{
    return unlink(path) == 0;
}
