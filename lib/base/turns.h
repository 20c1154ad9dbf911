/* A lock that threads take in the order in which they came. One that gives it back and takes it again lets in whoever waits. */
#ifndef BASE_TURNS_H
#define BASE_TURNS_H

#include "base/os_thread.h"

struct turns {
    struct os_mutex lock; /* guards the following; held for moments */
    struct os_cond moved;
    uint64_t next, now; /* the number that the next comer draws; whose turn it is */
};

bool turns_init(struct turns *t); /* false: no memory */
void turns_destroy(struct turns *t);
void turns_take(struct turns *t);
void turns_give(struct turns *t);
bool turns_wanted(struct turns *t); /* by the one whose turn it is: whether somebody waits */

#endif
