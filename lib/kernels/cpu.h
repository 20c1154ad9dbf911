/* What the processor and the operating system allow, and what the build contains. A level is an INFER_CPU_* of infer.h. Every call asks
 * the CPU anew (a few microseconds, more under a hypervisor): there is no cached state. Call it when a device is made, not per operation. */
#ifndef KERNELS_CPU_H
#define KERNELS_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every level with a name, least capable first: X(LEVEL, "name"). */
#define CPU_LEVELS(X)                                                                                                  \
    X(INFER_CPU_SCALAR, "scalar")                                                                                      \
    X(INFER_CPU_AVX2, "avx2")                                                                                          \
    X(INFER_CPU_AVXVNNI, "avxvnni")                                                                                    \
    X(INFER_CPU_AVX512, "avx512")                                                                                      \
    X(INFER_CPU_AVX512VNNI, "avx512vnni")                                                                              \
    X(INFER_CPU_NEON, "neon")                                                                                          \
    X(INFER_CPU_DOTPROD, "dotprod")                                                                                    \
    X(INFER_CPU_I8MM, "i8mm")

/* Is the level in this build, and do the CPU and the OS (register state) run it? AUTO and SCALAR: always. Unknown: false. */
bool cpu_level_supported(int32_t level);
/* The most capable supported level, never AUTO. */
int32_t cpu_best_level(void);

/* May a device at `level` use a kernel that requires `required`? Purely a matter of the levels, not of the machine: AVX-512 includes
 * AVX2 but not AVX-VNNI (Zen 4 has the one without the other); everything includes SCALAR. */
bool cpu_level_includes(int32_t level, int32_t required);

/* What a processor and its operating system say, and what follows from it: apart from each other, so that tests can make up machines. */
struct cpu_x86 {
    uint32_t leaf1_c, leaf7_b, leaf7_c, leaf7_1_a; /* registers of CPUID leaves */
    uint64_t xcr0;                                 /* 0 when there is none */
};
#define CPU_X86_FMA (1u << 12) /* of leaf1_c */
#define CPU_X86_OSXSAVE (1u << 27)
#define CPU_X86_AVX (1u << 28)
#define CPU_X86_F16C (1u << 29)
bool cpu_x86_has(const struct cpu_x86 *m, int32_t level);
bool cpu_arm_has(uint64_t hwcap, uint64_t hwcap2, int32_t level); /* of Linux */

/* "auto", "scalar", "avx2", ...; NULL for unknown values. Static. */
const char *cpu_level_name(int32_t level);
/* The level of a name, or -1. */
int32_t cpu_level_from_name(const char *name, size_t len);

#endif
