#define MM_VARIANT avx2
#define MM_VNNI 0
#include "kernels/x86/mm_v256.h"

#include "kernels/x86/mm_simd.h"
