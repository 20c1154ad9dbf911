/* A folder of the test's own, removed at its end with all that is in it. */
#ifndef TEMPDIR_H
#define TEMPDIR_H

#include <stddef.h>
#include <stdint.h>

/* Makes it; the name lives until tempdir_remove. One at a time. */
const char *tempdir_make(void);
void tempdir_remove(void);
/* "DIR/NAME", in one of 8 static buffers used in turn. */
const char *tempdir_path(const char *name);
/* Files whose name begins so (""; all). */
int tempdir_count(const char *prefix);
void tempdir_clear(const char *suffix); /* removes those whose names end so */
void tempdir_write(const char *name, const void *data, size_t n);
int64_t tempdir_size(const char *name); /* -1: no such file */

#endif
