/* How the vector templates of the matrix product are expanded. */
#ifndef KERNELS_MM_INLINE_H
#define KERNELS_MM_INLINE_H

/* Without UndefinedBehaviorSanitizer, under which the unrolled kernels compile for minutes; the scalar code is checked. */
#define INLINE static inline __attribute__((always_inline, no_sanitize("undefined")))

/* Before a loop of n: arrays of vectors live in registers only when their indices are constants. NO_UNROLL: where size matters more. */
#if defined(__clang__)
#define UNROLL(n) _Pragma("clang loop unroll(full)")
#define NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define MM_PRAGMA(x) _Pragma(#x)
#define UNROLL(n) MM_PRAGMA(GCC unroll n)
#define NO_UNROLL MM_PRAGMA(GCC unroll 1)
#endif

#endif
