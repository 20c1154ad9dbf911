#define MM_VARIANT avx512
#define MM_VNNI 0
#define MM_DECODERS
#define MM_NO_ONE
#include "kernels/x86/mm_v512.h"

#include "kernels/mm_simd.h"
