#define MM_VARIANT dotprod
#define MM_DOT 1
#include "kernels/arm/mm_v128.h"

#include "kernels/arm/mm_dot.h"
#include "kernels/mm_simd.h"
