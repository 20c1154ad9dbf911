/* The floating-point guard: exact results need round-to-nearest with denormals on, whatever the host has set. Every computing
 * entry and every pool thread holds a guard while it computes. */
#ifndef BASE_FPENV_H
#define BASE_FPENV_H

#include <stdint.h>

struct fpenv {
    uint64_t saved;
};

#if defined(__x86_64__) || defined(_M_X64) || defined(__SSE2__)
#include <xmmintrin.h>
static inline struct fpenv fpenv_enter(void)
{
    struct fpenv f = {_mm_getcsr()};
    _mm_setcsr(0x1F80); /* all exceptions masked, nearest, no flush-to-zero, no denormals-are-zero */
    return f;
}
static inline void fpenv_leave(struct fpenv f)
{
    _mm_setcsr((unsigned)f.saved);
}
#elif defined(__aarch64__)
static inline struct fpenv fpenv_enter(void)
{
    struct fpenv f;
    uint64_t zero = 0;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(f.saved));
    __asm__ __volatile__("msr fpcr, %0" : : "r"(zero));
    return f;
}
static inline void fpenv_leave(struct fpenv f)
{
    __asm__ __volatile__("msr fpcr, %0" : : "r"(f.saved));
}
#else
#include <fenv.h>
static inline struct fpenv fpenv_enter(void)
{
    struct fpenv f = {(uint64_t)fegetround()};
    (void)fesetround(FE_TONEAREST);
    return f;
}
static inline void fpenv_leave(struct fpenv f)
{
    (void)fesetround((int)f.saved);
}
#endif

#endif
