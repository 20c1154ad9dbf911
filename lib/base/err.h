/* Errors. Internal functions that can fail return an infer_status and fill an infer_error that the API layer owns:
 * inside the library `err` is either NULL or a full-size infer_error; only lib/api deals with shorter caller structs. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>

#include "infer/infer.h"

#if defined(__GNUC__)
#define BASE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define BASE_PRINTF(fmt, args)
#endif

#define ERR_NO_OFFSET UINT64_MAX

/* Sets code and text (file, name and offset are cleared) and returns code, so that `return err_set(...)` reads well.
 * fmt: integers and strings only: floats would print by the host's locale. */
infer_status err_set(infer_error *err, infer_status code, const char *fmt, ...) BASE_PRINTF(3, 4);

/* The same with a place: a key or tensor name (not terminated, truncated to fit) and a byte offset or ERR_NO_OFFSET. */
infer_status err_at(infer_error *err, infer_status code, const char *name, size_t name_len, uint64_t offset,
                    const char *fmt, ...) BASE_PRINTF(6, 7);

/* Adds the file's name to an error that has none yet. */
void err_file(infer_error *err, const char *file, size_t len);

/* An allocation failed. Whoever else says NO_MEMORY (the system, a host's callback) says so in other words. */
infer_status err_no_memory(infer_error *err);
/* Whether it was err_no_memory that filled err; not for NULL. */
bool err_is_no_memory(const infer_error *err);

#endif
