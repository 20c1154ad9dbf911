#include "kernels/kernels.h"

#include "kernels/cpu.h"

infer_status kernels_init(struct kernels *k, int32_t level, infer_error *err)
{
    const char *name = cpu_level_name(level);
    if (!name)
        return err_set(err, INFER_ERROR_ARGUMENT, "%d is not a CPU variant", (int)level);
    if (level == INFER_CPU_AUTO)
        level = cpu_best_level();
    else if (!cpu_level_supported(level))
        return err_set(err, INFER_ERROR_UNSUPPORTED, "the CPU variant %s is not in this build or does not run on this machine", name);
    k->level = level;
    infer_status s = mm_kernels_init(&k->mm, level, err);
    if (!s)
        s = vec_kernels_init(&k->vec, level, err);
    if (!s)
        s = attn_kernels_init(&k->attn, level, err);
    return s;
}
