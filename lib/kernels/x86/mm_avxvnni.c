#define MM_VARIANT avxvnni
#define MM_VNNI 1
#include "kernels/x86/mm_v256.h"

#include "kernels/mm_simd.h"
