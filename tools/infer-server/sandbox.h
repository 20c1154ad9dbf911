/* --sandbox: what the process gives up when everything is loaded and before the first byte of a client is read. Linux: Landlock for files, seccomp for
 * system calls. What is not allowed fails with EPERM or EACCES; nothing is killed. docs/server.md says what is left. */
#ifndef SERVER_SANDBOX_H
#define SERVER_SANDBOX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct sandbox_path { const char *path, *name; }; /* name: what /info calls it */
struct sandbox_options {
    const struct sandbox_path *writable; /* folders and files, which exist: read and written; everything below a folder too */
    size_t n_writable;
    const struct sandbox_path *readable; /* in addition to the system's libraries, /proc, and the like */
    size_t n_readable;
    bool forks;                  /* the process will fork children and end them (--isolate fork) */
    bool best_effort;            /* goes on without what this kernel does not have */
};
/* For this process and all it makes from now on. While it has one thread: Landlock cannot be put on threads that run. false: error says what failed; the
 * process may have lost some rights already, and should end. */
bool sandbox_enter(const struct sandbox_options *options, char *error, size_t capacity);
/* In a forked child: no more processes, and signals to itself only. Does nothing where no sandbox is. */
bool sandbox_child(char *error, size_t capacity);
/* What is in force, for /info: {"enabled": false}, or landlock (the version of its ABI; 0: not there), seccomp, no_new_privs, write and read (names). */
json_t *sandbox_json(void);

#endif
