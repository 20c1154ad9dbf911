/* Its products with one column are those of dotprod. */
#define MM_VARIANT i8mm
#define MM_DOT 2
#include "kernels/arm/mm_v128.h"

#include "kernels/arm/mm_dot.h"
