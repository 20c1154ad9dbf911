/* How often a client may call: a bucket of tokens for each, shared by the children of --isolate fork. */
#ifndef SERVER_LIMITS_H
#define SERVER_LIMITS_H

#include <stdint.h>

struct limits;
/* rate: requests a second, above 0. */
struct limits *limits_create(double rate);
void limits_free(struct limits *l);
/* Takes a token of the client's. 0, or after how many seconds (1 at least) there will be one. now: microseconds. */
uint32_t limits_take(struct limits *l, uint64_t client, uint64_t now);

#endif
