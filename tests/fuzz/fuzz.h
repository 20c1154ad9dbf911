/* A fuzz target is one file with LLVMFuzzerTestOneInput. Linked with driver.c it is an ordinary test over its corpus; with
 * -Dfuzzing=true (clang) libFuzzer drives it. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
