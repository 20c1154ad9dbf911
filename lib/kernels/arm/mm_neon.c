#define MM_VARIANT neon
#define MM_DOT 0
#define MM_DECODERS
#include "kernels/arm/mm_v128.h"

#include "kernels/arm/mm_dot.h"
#include "kernels/mm_simd.h"
