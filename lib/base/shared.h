/* Arrays that only grow at the end and that several owners share: a fork takes a reference instead of a copy.
 *
 * Each owner knows its own length. What lies below it never changes, so owners read without a lock, on any threads. An owner that appends
 * writes in place when nobody else has written behind its length; else it gets a copy. Rolling back needs no call: the owner only lowers its
 * length. An owner is used by one thread at a time. */
#ifndef BASE_SHARED_H
#define BASE_SHARED_H

#include "base/alloc.h"

/* Items [length, length + more) become the caller's to write: returns the array, which may have moved, or NULL without memory (the old
 * one stays as it was). data: the array so far, or NULL. want: items to make room for when it has to be allocated and is not a copy, if more than needed. */
void *shared_reserve(const struct alloc *a, void *data, size_t item, uint64_t length, uint64_t more, uint64_t want);
/* The same array with items [0, length) the caller's alone, to change them. length at least 1. */
void *shared_own(const struct alloc *a, void *data, size_t item, uint64_t length);
void *shared_ref(void *data); /* another owner; NULL gives NULL */
void shared_unref(const struct alloc *a, void *data); /* may be NULL */

#endif
