/* CPU detection: names, the order of levels, and that what is reported as supported hangs together. */
#include <string.h>

#include "infer/infer.h"
#include "kernels/cpu.h"
#include "kernels/kernels_config.h"
#include "testutil.h"

static void names_round_trip(void **state)
{
    (void)state;
#define CHECK(level, name)                                                                                             \
    assert_string_equal(cpu_level_name(level), name);                                                                  \
    assert_int_equal(cpu_level_from_name(name, strlen(name)), level);
    CPU_LEVELS(CHECK)
    assert_int_equal(cpu_level_from_name("auto", 4), INFER_CPU_AUTO);
    assert_int_equal(cpu_level_from_name("avx", 3), -1);
    assert_int_equal(cpu_level_from_name("", 0), -1);
    assert_null(cpu_level_name(-1));
    assert_null(cpu_level_name(99));
}

static void inclusion_is_consistent(void **state)
{
    (void)state;
    static const int32_t all[] = {
#define VALUE(level, name) level,
        CPU_LEVELS(VALUE)};
    size_t n = sizeof all / sizeof all[0];
    for (size_t i = 0; i < n; i++) {
        assert_true(cpu_level_includes(all[i], all[i]));
        assert_true(cpu_level_includes(all[i], INFER_CPU_SCALAR));
        for (size_t j = 0; j < n; j++) {
            if (i != j && cpu_level_includes(all[i], all[j]))
                assert_false(cpu_level_includes(all[j], all[i]));
            for (size_t k = 0; k < n; k++)
                if (cpu_level_includes(all[i], all[j]) && cpu_level_includes(all[j], all[k]))
                    assert_true(cpu_level_includes(all[i], all[k]));
        }
    }
    assert_false(cpu_level_includes(INFER_CPU_AVX512VNNI, INFER_CPU_AVXVNNI));
    assert_false(cpu_level_includes(INFER_CPU_AVX2, INFER_CPU_AVX512));
}

static void support(void **state)
{
    (void)state;
    assert_true(cpu_level_supported(INFER_CPU_AUTO));
    assert_true(cpu_level_supported(INFER_CPU_SCALAR));
    assert_false(cpu_level_supported(-1));
    assert_false(cpu_level_supported(99));
    int32_t best = cpu_best_level();
    assert_true(best >= INFER_CPU_SCALAR);
    assert_true(cpu_level_supported(best));
    if (!KERNELS_HAVE_AVX2)
        assert_false(cpu_level_supported(INFER_CPU_AVX2));
    if (!KERNELS_HAVE_NEON)
        assert_false(cpu_level_supported(INFER_CPU_NEON));
    print_message("# best level here: %s\n", cpu_level_name(best));
}

/* The levels that a made-up machine has, as bits 1 << level. */
static uint64_t x86_levels(const struct cpu_x86 *m)
{
    uint64_t set = 0;
    for (int32_t level = INFER_CPU_SCALAR; level <= INFER_CPU_I8MM; level++)
        set |= (uint64_t)cpu_x86_has(m, level) << level;
    return set;
}

static uint64_t arm_levels(uint64_t hwcap, uint64_t hwcap2)
{
    uint64_t set = 0;
    for (int32_t level = INFER_CPU_SCALAR; level <= INFER_CPU_I8MM; level++)
        set |= (uint64_t)cpu_arm_has(hwcap, hwcap2, level) << level;
    return set;
}

enum {
    AVX2 = 1 << INFER_CPU_AVX2,
    AVXVNNI = 1 << INFER_CPU_AVXVNNI,
    AVX512 = 1 << INFER_CPU_AVX512,
    AVX512VNNI = 1 << INFER_CPU_AVX512VNNI
};

/* Each condition alone takes away what needs it: features of the processor, and registers that the system saves. */
static void x86_machines(void **state)
{
    (void)state;
    const struct cpu_x86 all = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0xe7};
    assert_int_equal(x86_levels(&all), AVX2 | AVXVNNI | AVX512 | AVX512VNNI);
    assert_int_equal(x86_levels(&(struct cpu_x86){0}), 0);
    static const struct {
        uint32_t leaf1_c, leaf7_b, leaf7_c, leaf7_1_a; /* absent bits */
        uint64_t xcr0;
        uint64_t left;
    } cases[] = {
        {1u << 12, 0, 0, 0, 0xe7, 0}, /* FMA */
        {1u << 27, 0, 0, 0, 0xe7, 0}, /* OSXSAVE */
        {1u << 28, 0, 0, 0, 0xe7, 0}, /* AVX */
        {1u << 29, 0, 0, 0, 0xe7, 0}, /* F16C */
        {0, 1u << 5, 0, 0, 0xe7, 0},  /* AVX2 */
        {0, 1u << 16, 0, 0, 0xe7, AVX2 | AVXVNNI},
        {0, 1u << 17, 0, 0, 0xe7, AVX2 | AVXVNNI},
        {0, 1u << 30, 0, 0, 0xe7, AVX2 | AVXVNNI},
        {0, 1u << 31, 0, 0, 0xe7, AVX2 | AVXVNNI},
        {0, 0, 1u << 11, 0, 0xe7, AVX2 | AVXVNNI | AVX512},
        {0, 0, 0, 1u << 4, 0xe7, AVX2 | AVX512 | AVX512VNNI}, /* Zen 4 */
        {0, 0, 0, 0, 0x00, 0},
        {0, 0, 0, 0, 0x01, 0}, /* x87 alone */
        {0, 0, 0, 0, 0x03, 0}, /* SSE */
        {0, 0, 0, 0, 0x05, 0}, /* AVX without SSE */
        {0, 0, 0, 0, 0x07, AVX2 | AVXVNNI},
        {0, 0, 0, 0, 0x27, AVX2 | AVXVNNI}, /* masks, no wide registers */
        {0, 0, 0, 0, 0x67, AVX2 | AVXVNNI},
        {0, 0, 0, 0, 0xc7, AVX2 | AVXVNNI},
        {0, 0, 0, 0, 0xe1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cpu_x86 m = {~cases[i].leaf1_c, ~cases[i].leaf7_b, ~cases[i].leaf7_c, ~cases[i].leaf7_1_a, cases[i].xcr0};
        if (x86_levels(&m) != cases[i].left)
            fail_msg("machine %zu: levels %#llx", i, (unsigned long long)x86_levels(&m));
    }
}

static void arm_machines(void **state)
{
    (void)state;
    const uint64_t asimd = 1u << 1, asimddp = 1u << 20, i8mm = 1u << 13;
    const uint64_t neon = 1ull << INFER_CPU_NEON, dotprod = 1ull << INFER_CPU_DOTPROD, mm = 1ull << INFER_CPU_I8MM;
    assert_int_equal(arm_levels(0, 0), 0);
    assert_int_equal(arm_levels(asimd, 0), neon);
    assert_int_equal(arm_levels(asimd, i8mm), neon); /* i8mm includes dotprod */
    assert_int_equal(arm_levels(asimd | asimddp, 0), neon | dotprod);
    assert_int_equal(arm_levels(asimd | asimddp, i8mm), neon | dotprod | mm);
    assert_int_equal(arm_levels(asimddp, i8mm), 0);
    assert_int_equal(arm_levels(UINT64_MAX, ~i8mm), neon | dotprod);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_round_trip),
        cmocka_unit_test(inclusion_is_consistent),
        cmocka_unit_test(support),
        cmocka_unit_test(x86_machines),
        cmocka_unit_test(arm_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
