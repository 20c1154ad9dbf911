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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_round_trip),
        cmocka_unit_test(inclusion_is_consistent),
        cmocka_unit_test(support),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
