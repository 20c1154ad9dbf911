/* Jails of Linux for a host that wants to be sure: seccomp filters (system calls) and Landlock (files). Nothing leaves them again: each in a process of its own. */
#ifndef JAIL_H
#define JAIL_H

#include <stdbool.h>

/* The process dies by SIGSYS when it does anything that the manifest (infer_capabilities) says the library does not do: sockets, other processes, writing, renaming or
 * removing files, opening one without O_CLOEXEC, printing, signals, the clock, memory that is executable. */
const char *jail_deny(void);
/* The process dies by SIGSYS at any system call that is not in the list of docs/security.md. */
const char *jail_allow(void);
/* Names of that list, NULL-terminated. */
const char *const *jail_names(void);

int jail_landlock_version(void); /* 0: this kernel has none */
/* Files: reading below each of the folders (or files) in read, and reading and writing below write (NULL: none). */
const char *jail_files(const char *const *read, const char *write);

#endif
