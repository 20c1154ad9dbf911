/* The same, more often. */
#define KILLS 300
#include "test_checkpoint_kill.c"
