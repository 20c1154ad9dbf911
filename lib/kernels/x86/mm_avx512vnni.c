#define MM_VARIANT avx512vnni
#define MM_VNNI 1
#include "kernels/x86/mm_v512.h"

#include "kernels/mm_simd.h"
