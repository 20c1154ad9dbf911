/* The system beneath the library, failing on order: the linker puts these functions in the place of the C library's (-Wl,--wrap) in what is linked into
 * the program, so that the library's own code for files, threads and memory is the one that is tested. One at a time: the state is global. */
#ifndef FAILING_OS_H
#define FAILING_OS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    OS_MALLOC = 1 << 0,
    OS_OPEN = 1 << 1, /* also of folders, and second descriptors of open files */
    OS_STAT = 1 << 2,
    OS_READ = 1 << 3,
    OS_WRITE = 1 << 4,
    OS_MAP = 1 << 5,
    OS_SYNC = 1 << 6,
    OS_RENAME = 1 << 7,
    OS_LINK = 1 << 8,
    OS_UNLINK = 1 << 9,
    OS_MKDIR = 1 << 10,
    OS_LIST = 1 << 11,
    OS_LOCK = 1 << 12,
    OS_CLONE = 1 << 13,
    OS_CLOSE = 1 << 14, /* closes, and says that it failed */
    OS_THREAD = 1 << 15,
    OS_MUTEX = 1 << 16, /* and condition variables */
};

enum { HOW_ERROR, HOW_SHORT, HOW_END }; /* error; half of the bytes; no bytes (the file ends) */

/* The fail_at-th call (from 1; 0: none) of these kinds fails, with `rest` all later ones too (with EINTR every other one: it is there to be repeated). */
void failing_os_arm(unsigned kinds, int error, int how, uint64_t fail_at, bool rest);
uint64_t failing_os_calls(void); /* of these kinds since then */
void failing_os_pause(bool on);  /* nothing fails and nothing is counted: for what a test does itself */
/* What is open and held now; "" when nothing is. Forgets it, so that what follows is not blamed for it. */
const char *failing_os_left(void);

#endif
