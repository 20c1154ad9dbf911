/* A device that wraps another: it writes down every operation, checks it (references inside live buffers, aligned, nothing written to imported
 * memory, absent only where allowed), and passes it on when it is sound. Its buffer handles lie in memory that cannot be read, so that a model which
 * looks inside a buffer crashes. Memory comes filled with NaNs. */
#ifndef RECORDING_DEVICE_H
#define RECORDING_DEVICE_H

#include "kernels/device.h"

struct recorded_call {
    const char *name; /* of the operation, as in struct device_ops */
    char text[120];   /* its shapes: "rows 5 in 64 type 8 out 32 ..." */
};

struct recording {
    const struct recorded_call *calls; /* alloc, import and free are not among them */
    uint64_t n_calls;
    uint64_t n_errors;
    char first_error[240];
    uint64_t live_buffers;
    uint64_t allocated; /* bytes in live buffers of the device's own */
};

/* Takes over `inner`, which is destroyed with it. NULL: no memory. An unsound call is not passed on, and the next sync reports INTERNAL. */
struct device *recording_device_create(struct device *inner);
const struct recording *recording_of(const struct device *d);
struct device *recording_inner(const struct device *d);
/* From now on rows may see elements behind their own: a model that is an encoder. */
void recording_allow_ahead(struct device *d);
void recording_clear(struct device *d);                                /* forgets calls and errors */
uint64_t recording_count(const struct device *d, const char *name); /* calls of that name */

#endif
