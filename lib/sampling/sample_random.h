/* Counter-based random numbers: no state, so any position's number can be had at any time. */
#ifndef SAMPLING_SAMPLE_RANDOM_H
#define SAMPLING_SAMPLE_RANDOM_H

#include <stdint.h>

/* Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). */
void sample_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Streams: independent sequences under one seed. */
enum { SAMPLE_STREAM_TOKEN = 0 };

/* Uniform in [0, 1), a multiple of 2^-53: a function of its arguments alone. */
double sample_uniform(uint64_t seed, uint64_t stream, uint64_t position);

#endif
