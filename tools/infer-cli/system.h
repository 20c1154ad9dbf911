/* What differs between operating systems. */
#ifndef CLI_SYSTEM_H
#define CLI_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* First of all: sane standard descriptors; on Windows the arguments in UTF-8 (never freed). */
void system_start(int *argc, char ***argv);
/* Calls f at every Ctrl-C, inside a signal handler or on another thread. */
bool system_on_interrupt(void (*f)(void));
/* Ends the process from inside f, the terminal as it was at the start. */
_Noreturn void system_quit(int code);
/* The path of this program; false when it is not known or too long. */
bool system_executable(char *path, size_t size);
/* The local time as the seconds that a UTC clock would show. */
int64_t system_local_time(void);
/* Monotonic. */
double system_seconds(void);

/* fopen for a path in UTF-8. */
FILE *system_open(const char *path, const char *mode);
/* Whether what was written has reached the disk. */
bool system_sync(FILE *f);
/* Renames; what had the name goes, at once. */
bool system_replace(const char *from, const char *to);
bool system_remove(const char *path);

#endif
