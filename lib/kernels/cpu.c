#include "kernels/cpu.h"

#include <string.h>

#include "infer/infer.h"
#include "kernels/kernels_config.h"

/* XCR0, which registers the operating system saves: 1 SSE, 2 AVX, 5-7 AVX-512 (Intel SDM volume 1, 13.3). Feature bits: volume 2, CPUID. */
bool cpu_x86_has(const struct cpu_x86 *m, int32_t level)
{
    const uint32_t avx2_c = CPU_X86_FMA | CPU_X86_OSXSAVE | CPU_X86_AVX | CPU_X86_F16C;
    const uint32_t avx512_b = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F, DQ, BW, VL */
    bool avx2 = (m->leaf1_c & avx2_c) == avx2_c && (m->leaf7_b & 1u << 5) && (m->xcr0 & 0x6) == 0x6;
    bool avx512 = avx2 && (m->leaf7_b & avx512_b) == avx512_b && (m->xcr0 & 0xe6) == 0xe6;
    switch (level) {
    case INFER_CPU_AVX2:
        return avx2;
    case INFER_CPU_AVXVNNI:
        return avx2 && (m->leaf7_1_a & 1u << 4);
    case INFER_CPU_AVX512:
        return avx512;
    case INFER_CPU_AVX512VNNI:
        return avx512 && (m->leaf7_c & 1u << 11);
    default:
        return false;
    }
}

/* Linux Documentation/arch/arm64/elf_hwcaps. */
bool cpu_arm_has(uint64_t hwcap, uint64_t hwcap2, int32_t level)
{
    bool neon = hwcap & 1u << 1, dotprod = neon && (hwcap & 1u << 20), i8mm = dotprod && (hwcap2 & 1u << 13);
    return level == INFER_CPU_NEON ? neon : level == INFER_CPU_DOTPROD ? dotprod : level == INFER_CPU_I8MM && i8mm;
}

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

struct cpuid_regs {
    uint32_t a, b, c, d;
};

static bool machine_has(int32_t level)
{
    struct cpuid_regs l1 = {0}, l7 = {0}, l71 = {0};
    uint32_t lo = 0, hi = 0;
    if (!__get_cpuid(1, &l1.a, &l1.b, &l1.c, &l1.d) || !__get_cpuid_count(7, 0, &l7.a, &l7.b, &l7.c, &l7.d))
        return false;
    if (l7.a >= 1)
        (void)__get_cpuid_count(7, 1, &l71.a, &l71.b, &l71.c, &l71.d);
    if (l1.c & CPU_X86_OSXSAVE) /* else the instruction does not exist */
        __asm__ __volatile__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    struct cpu_x86 m = {l1.c, l7.b, l7.c, l71.a, (uint64_t)hi << 32 | lo};
    return cpu_x86_has(&m, level);
}

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

static bool machine_has(int32_t level)
{
    return cpu_arm_has(getauxval(AT_HWCAP), getauxval(26 /* AT_HWCAP2 */), level);
}

#else
static bool machine_has(int32_t level)
{
#if defined(__aarch64__)
    return level == INFER_CPU_NEON;
#else
    (void)level;
    return false;
#endif
}
#endif

static bool build_has(int32_t level)
{
    switch (level) {
    case INFER_CPU_AVX2:
        return KERNELS_HAVE_AVX2;
    case INFER_CPU_AVXVNNI:
        return KERNELS_HAVE_AVXVNNI;
    case INFER_CPU_AVX512:
        return KERNELS_HAVE_AVX512;
    case INFER_CPU_AVX512VNNI:
        return KERNELS_HAVE_AVX512VNNI;
    case INFER_CPU_NEON:
        return KERNELS_HAVE_NEON;
    case INFER_CPU_DOTPROD:
        return KERNELS_HAVE_DOTPROD;
    case INFER_CPU_I8MM:
        return KERNELS_HAVE_I8MM;
    default:
        return false;
    }
}

bool cpu_level_supported(int32_t level)
{
    if (level == INFER_CPU_AUTO || level == INFER_CPU_SCALAR)
        return true;
    return build_has(level) && machine_has(level);
}

static const struct {
    int32_t level;
    const char *name;
} levels[] = {
#define LEVEL_ROW(level, name) {level, name},
    CPU_LEVELS(LEVEL_ROW)
#undef LEVEL_ROW
};
#define N_LEVELS (sizeof levels / sizeof levels[0])

int32_t cpu_best_level(void)
{
    for (size_t i = N_LEVELS; i-- > 1;)
        if (cpu_level_supported(levels[i].level))
            return levels[i].level;
    return INFER_CPU_SCALAR;
}

bool cpu_level_includes(int32_t level, int32_t required)
{
    if (level == required || required == INFER_CPU_SCALAR)
        return true;
    switch (level) {
    case INFER_CPU_AVXVNNI:
    case INFER_CPU_AVX512:
        return required == INFER_CPU_AVX2;
    case INFER_CPU_AVX512VNNI:
        return required == INFER_CPU_AVX2 || required == INFER_CPU_AVX512;
    case INFER_CPU_DOTPROD:
        return required == INFER_CPU_NEON;
    case INFER_CPU_I8MM:
        return required == INFER_CPU_NEON || required == INFER_CPU_DOTPROD;
    default:
        return false;
    }
}

const char *cpu_level_name(int32_t level)
{
    if (level == INFER_CPU_AUTO)
        return "auto";
    for (size_t i = 0; i < N_LEVELS; i++)
        if (levels[i].level == level)
            return levels[i].name;
    return NULL;
}

int32_t cpu_level_from_name(const char *name, size_t len)
{
    if (len == 4 && memcmp(name, "auto", 4) == 0)
        return INFER_CPU_AUTO;
    for (size_t i = 0; i < N_LEVELS; i++)
        if (strlen(levels[i].name) == len && memcmp(levels[i].name, name, len) == 0)
            return levels[i].level;
    return -1;
}
