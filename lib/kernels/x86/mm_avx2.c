#define MM_VARIANT avx2
#define MM_VNNI 0
#define MM_DECODERS
#include "kernels/x86/mm_v256.h"

#include "kernels/mm_simd.h"
