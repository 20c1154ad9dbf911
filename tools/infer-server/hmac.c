#include "hmac.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared.h"

static const char *const texts[] = {
    [HMAC_OK] = "",
    [HMAC_BAD] = "this server takes signed requests only (docs/hmac.md), and this one's signature is missing or wrong",
    [HMAC_SKEW] = "the signed timestamp is too far from this server's clock, or from before its start",
    [HMAC_REPLAY] = "the signed nonce has been used before",
    [HMAC_FULL] = "too many signed requests in a short time: their nonces cannot be remembered",
};

const char *hmac_text(enum hmac_verdict verdict)
{
    return texts[verdict];
}

int hmac_status(enum hmac_verdict verdict)
{
    return verdict == HMAC_OK ? 200 : verdict == HMAC_FULL ? 503 : 401;
}

enum {
    KEY_MIN = 32,
    KEY_MAX = 4096,
    NONCE_MIN = 16,
    NONCE_MAX = 64,
    DIGEST = 16, /* bytes of a remembered nonce */
    SLICES = 4,
    NO_SLICE = -1
};

/* Nonces are kept by the time of their timestamps, in slices of `skew` seconds. Timestamps that are taken lie in at most three slices, so the fourth can always be
 * cleared for the one that comes next. A slice's number only grows: when the clock is set back, what was forgotten is refused. */
struct slice {
    int64_t number; /* timestamp / skew */
    uint32_t count;
};
struct memory {
    pthread_mutex_t lock;
    struct slice slices[SLICES];
    unsigned char slots[][DIGEST]; /* [SLICES][n_slots]: open addressing; zero: free */
};

struct hmac {
    unsigned char key[KEY_MAX + 1]; /* zero-terminated while it is read */
    size_t key_len;
    int64_t start, skew;
    uint32_t nonces, n_slots; /* of a slice */
    struct memory *memory;
    size_t bytes;
};

/* ---- The key */

static bool is_space(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Digits only, with white space behind them: their bytes in place. A file of digits that are too few, or odd, is no key: not one of other bytes. */
static size_t from_hex(unsigned char *text, size_t len)
{
    size_t end = len, n = 0;
    const char *stop = NULL;
    unsigned char key[KEY_MAX / 2];
    while (end > 0 && is_space(text[end - 1]))
        end--;
    if (strspn((const char *)text, "0123456789abcdefABCDEF") < end)
        return len;
    if (sodium_hex2bin(key, sizeof key, (const char *)text, end, NULL, &n, &stop) != 0 || stop != (const char *)text + end)
        n = 0;
    memcpy(text, key, n);
    sodium_memzero(key, sizeof key);
    return n;
}

static const char *read_key(struct hmac *h, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe of that name does not stop the start */
    if (fd < 0)
        return strerror(errno);
    const char *wrong = NULL;
    if (fstat(fd, &st) != 0)
        wrong = strerror(errno);
    else if (!S_ISREG(st.st_mode))
        wrong = "not a regular file";
    else if ((st.st_mode & (S_IRWXO | S_IWGRP)) != 0)
        wrong = "others may read it, or its group may change it: chmod 600 or 640";
    else if (st.st_size > KEY_MAX)
        wrong = "longer than 4096 bytes";
    while (!wrong && h->key_len < KEY_MAX) {
        ssize_t n = read(fd, h->key + h->key_len, KEY_MAX - h->key_len);
        if (n < 0 && errno != EINTR)
            wrong = strerror(errno);
        if (n == 0)
            break;
        h->key_len += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    h->key_len = from_hex(h->key, h->key_len);
    return wrong ? wrong : h->key_len < KEY_MIN ? "shorter than 32 bytes (or 64 hexadecimal digits)" : NULL;
}

/* ---- Life */

static bool memory_create(struct hmac *h)
{
    h->n_slots = 64;
    while (h->n_slots / 2 < h->nonces) /* at most half full: probes stay short */
        h->n_slots *= 2;
    h->bytes = sizeof(struct memory) + (size_t)SLICES * h->n_slots * DIGEST;
    h->memory = shared_alloc(h->bytes);
    for (int i = 0; h->memory && i < SLICES; i++)
        h->memory->slices[i].number = NO_SLICE;
    return h->memory && shared_lock_init(&h->memory->lock);
}

struct hmac *hmac_create(const struct hmac_options *options, int64_t now, char *error, size_t capacity)
{
    struct hmac *h = sodium_init() < 0 ? NULL : calloc(1, sizeof *h);
    const char *wrong = "out of memory";
    if (h) {
        h->skew = options->skew ? options->skew : 60;
        h->nonces = options->nonces ? options->nonces : 65536;
        h->start = now;
        if (h->nonces <= 1u << 24 && memory_create(h))
            wrong = read_key(h, options->key_file);
    }
    if (!wrong)
        return h;
    (void)snprintf(error, capacity, "--hmac-key %s: %s", options->key_file, wrong);
    hmac_free(h);
    return NULL;
}

void hmac_free(struct hmac *h)
{
    if (!h)
        return;
    shared_free(h->memory, h->bytes);
    sodium_memzero(h, sizeof *h);
    free(h);
}

/* ---- What is signed */

static bool plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

static void sign_bytes(crypto_auth_hmacsha256_state *s, const char *text, size_t len)
{
    (void)crypto_auth_hmacsha256_update(s, (const unsigned char *)text, len);
}

/* Percent-encoded, but for what never needs it and slash: no field can hold a newline. */
static void sign_encoded(crypto_auth_hmacsha256_state *s, const char *text, size_t len, bool slashes)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        char hex[4];
        if (plain(c) || (slashes && c == '/')) {
            sign_bytes(s, text + i, 1);
            continue;
        }
        (void)snprintf(hex, sizeof hex, "%%%02X", c);
        sign_bytes(s, hex, 3);
    }
}

static void sign_target(crypto_auth_hmacsha256_state *s, const struct hmac_message *m)
{
    sign_encoded(s, m->path, strlen(m->path), true);
    for (size_t i = 0; i < m->n_args; i++) {
        const struct hmac_arg *arg = &m->args[i];
        sign_bytes(s, i ? "&" : "?", 1);
        sign_encoded(s, arg->name, strlen(arg->name), false);
        if (arg->value) {
            sign_bytes(s, "=", 1);
            sign_encoded(s, arg->value, strlen(arg->value), false);
        }
    }
}

static void sign(const struct hmac *h, const struct hmac_message *m, unsigned char out[crypto_auth_hmacsha256_BYTES])
{
    crypto_auth_hmacsha256_state s;
    unsigned char body[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof body + 1];
    (void)crypto_hash_sha256(body, m->body, m->body_len);
    sodium_bin2hex(hex, sizeof hex, body, sizeof body);
    (void)crypto_auth_hmacsha256_init(&s, h->key, h->key_len);
    sign_bytes(&s, "infer-hmac-v1\n", 14);
    sign_bytes(&s, m->method, strlen(m->method));
    sign_bytes(&s, "\n", 1);
    sign_target(&s, m);
    sign_bytes(&s, "\n", 1);
    sign_bytes(&s, m->timestamp, strlen(m->timestamp));
    sign_bytes(&s, "\n", 1);
    sign_bytes(&s, m->nonce, strlen(m->nonce));
    sign_bytes(&s, "\n", 1);
    sign_bytes(&s, hex, 2 * sizeof body);
    (void)crypto_auth_hmacsha256_final(&s, out);
    sodium_memzero(&s, sizeof s);
}

/* ---- Nonces */

static unsigned char *slot_of(const struct hmac *h, int slice, const unsigned char digest[DIGEST])
{
    static const unsigned char none[DIGEST];
    uint64_t at;
    memcpy(&at, digest, sizeof at);
    for (;; at++) {
        unsigned char *slot = h->memory->slots[(size_t)slice * h->n_slots + (at & (h->n_slots - 1))];
        if (memcmp(slot, digest, DIGEST) == 0 || memcmp(slot, none, DIGEST) == 0)
            return slot;
    }
}

/* Under the lock. Whoever dies in here has not served its request: half a slot, or a slice that is half cleared and has its old number, forget nothing that was
 * served inside the window. */
static enum hmac_verdict remember_locked(struct hmac *h, const unsigned char digest[DIGEST], int64_t timestamp)
{
    int64_t number = timestamp / h->skew;
    int at = (int)(number % SLICES);
    struct slice *slice = &h->memory->slices[at];
    if (slice->number > number)
        return HMAC_SKEW; /* the clock was set back, to where nonces have been forgotten */
    for (int i = 0; i < SLICES; i++)
        if (memcmp(slot_of(h, i, digest), digest, DIGEST) == 0)
            return HMAC_REPLAY;
    if (slice->number != number) {
        memset(h->memory->slots[(size_t)at * h->n_slots], 0, (size_t)h->n_slots * DIGEST);
        slice->count = 0;
        slice->number = number;
    }
    if (slice->count >= h->nonces)
        return HMAC_FULL;
    slice->count++; /* first: a slice never has more slots in use than it counts */
    memcpy(slot_of(h, at, digest), digest, DIGEST);
    return HMAC_OK;
}

static enum hmac_verdict remember(struct hmac *h, const char *nonce, int64_t timestamp)
{
    unsigned char whole[crypto_auth_hmacsha256_BYTES];
    crypto_auth_hmacsha256_state s;
    (void)crypto_auth_hmacsha256_init(&s, h->key, h->key_len); /* keyed: nobody can choose where a nonce comes to lie */
    sign_bytes(&s, nonce, strlen(nonce));
    (void)crypto_auth_hmacsha256_final(&s, whole);
    whole[DIGEST - 1] |= 1; /* not zero */
    shared_lock(&h->memory->lock);
    enum hmac_verdict verdict = remember_locked(h, whole, timestamp);
    shared_unlock(&h->memory->lock);
    return verdict;
}

/* ---- A request */

/* Decimal seconds without sign or leading zeros; -1: something else. */
static int64_t seconds(const char *text)
{
    int64_t n = 0;
    size_t len = strlen(text);
    if (len < 1 || len > 12 || text[0] == '0')
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        n = n * 10 + (text[i] - '0');
    }
    return n;
}

static bool nonce_ok(const char *nonce)
{
    size_t n = strlen(nonce);
    for (size_t i = 0; i < n; i++)
        if (!plain((unsigned char)nonce[i]))
            return false;
    return n >= NONCE_MIN && n <= NONCE_MAX;
}

enum hmac_verdict hmac_check(struct hmac *h, const struct hmac_message *m, int64_t now)
{
    unsigned char sent[crypto_auth_hmacsha256_BYTES], right[crypto_auth_hmacsha256_BYTES];
    size_t n = 0;
    const char *end = NULL;
    if (!m->timestamp || !m->nonce || !m->signature || !nonce_ok(m->nonce) || strchr(m->method, '\n'))
        return HMAC_BAD;
    int64_t timestamp = seconds(m->timestamp);
    size_t len = strlen(m->signature);
    if (timestamp < 0 || len != 2 * sizeof sent || sodium_hex2bin(sent, sizeof sent, m->signature, len, NULL, &n, &end) != 0 || n != sizeof sent)
        return HMAC_BAD;
    sign(h, m, right);
    bool same = sodium_memcmp(sent, right, sizeof right) == 0;
    sodium_memzero(right, sizeof right);
    if (!same)
        return HMAC_BAD;
    if (timestamp < h->start || timestamp < now - h->skew || timestamp > now + h->skew)
        return HMAC_SKEW;
    return remember(h, m->nonce, timestamp);
}
