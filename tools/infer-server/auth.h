/* API keys. */
#ifndef SERVER_AUTH_H
#define SERVER_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options;

struct api_key {
    unsigned char hash[32];  /* of the key: the key itself is not kept */
    char name[64];           /* for the access log */
    char salt[65];           /* "": none */
    uint64_t client;
};
struct auth {
    struct api_key *keys;
    uint32_t n;
};

/* Reads --api-key and --api-key-file. false after a message on standard error. */
bool auth_load(struct auth *auth, const struct options *o);
void auth_free(struct auth *auth);
/* The key that authorization ("Bearer KEY") or x_api_key (either may be NULL) give; NULL: none of ours. Takes as long for every key. */
const struct api_key *auth_find(const struct auth *auth, const char *authorization, const char *x_api_key);

#endif
