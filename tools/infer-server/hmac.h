/* Signed requests: --hmac-key. docs/hmac.md is the protocol. From any thread, and from forked children: what is remembered lies in memory that they share. */
#ifndef SERVER_HMAC_H
#define SERVER_HMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hmac;

struct hmac_options {
    const char *key_file;  /* at least 32 bytes, or 64 hexadecimal digits */
    uint32_t skew;         /* seconds that a timestamp may differ from the server's clock; 0: 60 */
    uint32_t nonces;       /* remembered for each `skew` seconds of timestamps; 0: 65,536 */
};
/* Reads the key. now: seconds since 1970; older timestamps are refused, since an earlier process may have seen them. NULL: error says why, and names the file. */
struct hmac *hmac_create(const struct hmac_options *options, int64_t now, char *error, size_t capacity);
void hmac_free(struct hmac *h); /* and forgets the key */

struct hmac_arg { const char *name, *value; }; /* of a query, decoded. value NULL: there is no "=" */
/* A request as the server understands it: what is signed is what is served. */
struct hmac_message {
    const char *method;
    const char *path;          /* decoded, without query */
    const struct hmac_arg *args; /* in order */
    size_t n_args;
    const void *body;
    size_t body_len;
    const char *timestamp, *nonce, *signature; /* headers x-infer-timestamp, x-infer-nonce, x-infer-signature; NULL: not sent */
};

enum hmac_verdict {
    HMAC_OK,
    HMAC_BAD,    /* not signed, malformed, or signed with another key: nothing else is told to those who have no key */
    HMAC_SKEW,   /* signed well; the timestamp is too far from the clock, or from before the server's start */
    HMAC_REPLAY, /* signed well; the nonce was used before */
    HMAC_FULL    /* signed well; no more nonces can be remembered now */
};
enum hmac_verdict hmac_check(struct hmac *h, const struct hmac_message *m, int64_t now);
/* The status of an answer (401, 503) and its text. */
int hmac_status(enum hmac_verdict verdict);
const char *hmac_text(enum hmac_verdict verdict);

#endif
