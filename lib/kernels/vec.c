#include "kernels/vec.h"

#include <string.h>

#include "kernels/cpu.h"
#include "kernels/kernels_config.h"

infer_status vec_kernels_init(struct vec_kernels *k, int32_t level, infer_error *err)
{
    memset(k, 0, sizeof *k);
#define SET_SCALAR(name, type) k->name = vec_##name##_scalar;
    VEC_SLOTS_scalar(SET_SCALAR)
#if KERNELS_HAVE_AVX2
#define SET_AVX2(name, type) k->name = vec_##name##_avx2;
    if (cpu_level_includes(level, INFER_CPU_AVX2)) {
        VEC_SLOTS_avx2(SET_AVX2)
    }
#endif
#if KERNELS_HAVE_AVX512
#define SET_AVX512(name, type) k->name = vec_##name##_avx512;
    if (cpu_level_includes(level, INFER_CPU_AVX512)) {
        VEC_SLOTS_avx512(SET_AVX512)
    }
#endif
#if KERNELS_HAVE_NEON
#define SET_NEON(name, type) k->name = vec_##name##_neon;
    if (cpu_level_includes(level, INFER_CPU_NEON)) {
        VEC_SLOTS_neon(SET_NEON)
    }
#endif
    (void)level;
#define CHECK_SLOT(name, type)                                                                                         \
    if (!k->name)                                                                                                      \
        return err_set(err, INFER_ERROR_INTERNAL, "kernel " #name " is missing");
    VEC_SLOTS(CHECK_SLOT)
    return INFER_OK;
}
