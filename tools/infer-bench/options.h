/* The command line. One table drives parsing and --help. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "bench.h"

/* EXIT_OK, or EXIT_USAGE after saying what is wrong. */
int options_parse(struct options *o, int argc, char **argv);
void options_help(void);

const char *kv_type_name(int32_t kv_type);
const char *numerics_name(int32_t numerics);

#endif
