/* Signed requests of infer-server (tools/infer-server/hmac.c): the vectors of docs/hmac.md, which Python's hmac computed; keys; replays; clocks. */
#define _DEFAULT_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "infer-server/hmac.h"

enum { START = 1750000000 };

static char dir[64], path[96], error[256];
static unsigned char counting[32]; /* the key of the vectors: 0, 1, ... 31 */

static const char *key_file(const void *bytes, size_t len, mode_t mode)
{
    (void)snprintf(path, sizeof path, "%s/key", dir);
    (void)unlink(path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static struct hmac *with(uint32_t skew, uint32_t nonces, int64_t now)
{
    struct hmac_options o = {.key_file = key_file(counting, sizeof counting, 0600), .skew = skew, .nonces = nonces};
    struct hmac *h = hmac_create(&o, now, error, sizeof error);
    if (!h)
        fail_msg("%s", error);
    return h;
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/infer-hmac-XXXXXX");
    for (unsigned i = 0; i < sizeof counting; i++)
        counting[i] = (unsigned char)i;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(dir);
}

/* ---- A second implementation of the protocol's half that tests need: the signature is asked of hmac_check itself, which is anchored by the vectors. So requests of other
 * times and nonces are signed by a small SHA-256. */

static uint32_t rotr(uint32_t x, int n)
{
    return (x >> n) | (x << (32 - n));
}

/* The first 32 bits of the fractional parts of roots of primes, by integer search: root 2 (squares) or 3 (cubes). */
static uint32_t fraction(unsigned prime, int root)
{
    unsigned __int128 lo = 0, hi = (unsigned __int128)1 << 40, target = prime;
    for (int i = 0; i < root; i++)
        target <<= 32;
    while (hi - lo > 1) {
        unsigned __int128 mid = (lo + hi) / 2, p = mid * mid;
        if (root == 3)
            p *= mid;
        if (p <= target)
            lo = mid;
        else
            hi = mid;
    }
    return (uint32_t)lo;
}

static void sha256(const unsigned char *data, size_t len, unsigned char out[32])
{
    static uint32_t k[64], first[8];
    unsigned char tail[64];
    uint32_t h[8], w[64];
    for (unsigned n = 0, p = 2; n < 64 && !k[63]; p++) {
        unsigned d = 2;
        while (p % d)
            d++;
        if (d < p)
            continue;
        if (n < 8)
            first[n] = fraction(p, 2);
        k[n++] = fraction(p, 3);
    }
    memcpy(h, first, sizeof h);
    size_t blocks = (len + 8) / 64 + 1;
    for (size_t b = 0; b < blocks; b++) {
        for (size_t i = 0; i < 64; i++) {
            size_t at = b * 64 + i;
            tail[i] = at < len ? data[at] : at == len ? 0x80 : at >= blocks * 64 - 8 ? (unsigned char)((uint64_t)len * 8 >> (blocks * 64 - 1 - at) * 8) : 0;
        }
        for (int i = 0; i < 16; i++)
            w[i] = (uint32_t)tail[4 * i] << 24 | (uint32_t)tail[4 * i + 1] << 16 | (uint32_t)tail[4 * i + 2] << 8 | tail[4 * i + 3];
        for (int i = 16; i < 64; i++)
            w[i] = w[i - 16] + (rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
                   (rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10);
        uint32_t v[8];
        memcpy(v, h, sizeof v);
        for (int i = 0; i < 64; i++) {
            uint32_t t1 = v[7] + (rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
            uint32_t t2 = (rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
            memmove(v + 1, v, 7 * sizeof v[0]);
            v[4] += t1;
            v[0] = t1 + t2;
        }
        for (int i = 0; i < 8; i++)
            h[i] += v[i];
    }
    for (int i = 0; i < 32; i++)
        out[i] = (unsigned char)(h[i / 4] >> (24 - i % 4 * 8));
}

static void hex_of(const unsigned char bytes[32], char out[65])
{
    for (int i = 0; i < 32; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* HMAC-SHA256 with the key of the vectors. */
static void sign(const char *text, char out[65])
{
    unsigned char block[64 + 1024], digest[32];
    size_t len = strlen(text);
    assert_true(len <= 1024);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 64; i++)
            block[i] = (unsigned char)((i < 32 ? counting[i] : 0) ^ (pass ? 0x5c : 0x36));
        memcpy(block + 64, pass ? (const void *)digest : (const void *)text, pass ? 32 : len);
        sha256(block, 64 + (pass ? 32 : len), digest);
    }
    hex_of(digest, out);
}

static struct signed_request {
    char timestamp[24], nonce[40], signature[65];
    struct hmac_message m;
} request;

/* POST /chat with a body, signed for that time with that nonce. */
static const struct hmac_message *at(int64_t timestamp, uint64_t nonce)
{
    struct signed_request *r = &request;
    unsigned char digest[32];
    char text[512], body[65];
    (void)snprintf(r->timestamp, sizeof r->timestamp, "%lld", (long long)timestamp);
    (void)snprintf(r->nonce, sizeof r->nonce, "nonce-%020llu", (unsigned long long)nonce);
    sha256((const unsigned char *)"{\"a\":1}", 7, digest);
    hex_of(digest, body);
    (void)snprintf(text, sizeof text, "infer-hmac-v1\nPOST\n/chat\n%s\n%s\n%s", r->timestamp, r->nonce, body);
    sign(text, r->signature);
    r->m = (struct hmac_message){.method = "POST", .path = "/chat", .body = "{\"a\":1}", .body_len = 7, .timestamp = r->timestamp, .nonce = r->nonce, .signature = r->signature};
    return &r->m;
}

/* ---- Cases */

static const struct hmac_arg query[] = {{"a", "1&2"}, {"b", NULL}, {"c", "+/"}};
static const struct hmac_message vectors[] = {
    {"GET", "/v1/models", NULL, 0, "", 0, "1750000000", "0123456789abcdef", "07321889a6c55d301820c776e637b89a477f07242ea32b5b3db452f41ea7bc84"},
    {"POST", "/v1/chat/completions", NULL, 0, "{\"messages\":[{\"role\":\"user\",\"content\":\"Gr\xc3\xbc\xc3\x9f" "e\"}]}", 50, "1750000001",
     "Zm9vYmFyYmF6cXV4_-.~", "feaa97027b3aa3d2abf4ba256fb7843f31ede4e89e8a1e90e69ab39760d3a5af"},
    {"GET", "/v1/responses/resp_1 \xc3\xbc", query, 3, "", 0, "1750000002", "nonce-of-the-third-request",
     "64fc44cd704799fb499b8ea4a6812d5a8934fde8575da19dec215405a9e58b54"},
};

static void test_vectors(void **state)
{
    (void)state;
    struct hmac *h = with(0, 0, START);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        assert_int_equal(hmac_check(h, &vectors[i], START), HMAC_OK);
        assert_int_equal(hmac_check(h, &vectors[i], START), HMAC_REPLAY);
    }
    hmac_free(h);
    /* A key in hexadecimal digits, with a newline behind it: 64 zero bytes. */
    char zeros[130];
    memset(zeros, '0', 128);
    zeros[128] = '\n';
    struct hmac_options o = {.key_file = key_file(zeros, 129, 0640)};
    h = hmac_create(&o, START, error, sizeof error);
    assert_non_null(h);
    const struct hmac_message m = {"POST", "/tokenize", NULL, 0, "{}", 2, "1750000003", "................",
                                   "a14f3d2df4910b38616e29161fb86ca43bfc9aa8b91db12193b6e44a8e7ac64d"};
    assert_int_equal(hmac_check(h, &m, START), HMAC_OK);
    hmac_free(h);
}

/* The small signer agrees with the vectors' world: else the cases below would test nothing. */
static void test_signer(void **state)
{
    (void)state;
    struct hmac *h = with(0, 0, START);
    assert_int_equal(hmac_check(h, at(START, 1), START), HMAC_OK);
    hmac_free(h);
}

static void refused(struct hmac *h, struct hmac_message m)
{
    assert_int_equal(hmac_check(h, &m, START), HMAC_BAD);
}

static void test_changes(void **state)
{
    (void)state;
    struct hmac *h = with(0, 0, START);
    struct hmac_message m = vectors[2];
    const struct hmac_arg other[] = {{"a", "1&2"}, {"b", ""}, {"c", "+/"}}, moved[] = {{"b", NULL}, {"a", "1&2"}, {"c", "+/"}},
                          split[] = {{"a", "1"}, {"2", NULL}, {"b", NULL}, {"c", "+/"}};
#define CHANGED(field, value)                                                                                                                                  \
    do {                                                                                                                                                       \
        m = vectors[2];                                                                                                                                        \
        m.field = (value);                                                                                                                                     \
        refused(h, m);                                                                                                                                         \
    } while (0)
    CHANGED(method, "POST");
    CHANGED(method, "get");
    CHANGED(method, "GET\n");
    CHANGED(path, "/v1/responses/resp_1  \xc3\xbc");
    CHANGED(path, "/v1/responses/resp_1%20\xc3\xbc");
    CHANGED(path, "");
    CHANGED(args, other);
    CHANGED(args, moved);
    CHANGED(n_args, 2);
    CHANGED(n_args, 0);
    m = vectors[2];
    m.args = split;
    m.n_args = 4;
    refused(h, m);
    m = vectors[2];
    m.body = "x";
    m.body_len = 1;
    refused(h, m);
    static const char *const times[] = {NULL, "", "1750000003", "01750000002", "+1750000002", "-1", "1750000002 ", "1750000002.0", "1.75e9", "9999999999999", "0"};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        CHANGED(timestamp, times[i]);
    static const char *const nonces[] = {NULL, "", "nonce-of-the-third-requesu", "short", "nonce of the third request", "nonce-of-the-third\nrequest",
                                         "01234567890123456789012345678901234567890123456789012345678901234"};
    for (size_t i = 0; i < sizeof nonces / sizeof nonces[0]; i++)
        CHANGED(nonce, nonces[i]);
    static const char *const signatures[] = {NULL, "", "64fc", "64fc44cd704799fb499b8ea4a6812d5a8934fde8575da19dec215405a9e58b53", "64fc44cd704799fb499b8ea4a6812d5a8934fde8575da19dec215405a9e58b5",
                                             "64fc44cd704799fb499b8ea4a6812d5a8934fde8575da19dec215405a9e58b5g", "64fc44cd704799fb499b8ea4a6812d5a8934fde8575da19dec215405a9e58b5400"};
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++)
        CHANGED(signature, signatures[i]);
    assert_int_equal(hmac_check(h, &vectors[2], START), HMAC_OK); /* and all of that has not used the nonce up */
    hmac_free(h);
    counting[31] ^= 1;
    h = with(0, 0, START);
    assert_int_equal(hmac_check(h, &vectors[2], START), HMAC_BAD);
    counting[31] ^= 1;
    hmac_free(h);
}

static void bad_key(const void *bytes, size_t len, mode_t mode, const char *says)
{
    struct hmac_options o = {.key_file = key_file(bytes, len, mode)};
    assert_null(hmac_create(&o, START, error, sizeof error));
    if (!strstr(error, says) || !strstr(error, path))
        fail_msg("\"%s\" does not say \"%s\"", error, says);
}

static void test_keys(void **state)
{
    (void)state;
    static char big[5000];
    struct hmac_options o = {.key_file = "/nowhere/key"};
    memset(big, 'x', sizeof big);
    bad_key(counting, 31, 0600, "shorter than 32 bytes");
    bad_key("", 0, 0600, "shorter than 32 bytes");
    bad_key("0123456789abcdef0123456789abcdef0123456789abcdef\n", 49, 0600, "shorter than 32 bytes"); /* digits, but of 24 bytes only */
    bad_key(big, sizeof big, 0600, "longer than 4096 bytes");
    bad_key(counting, 32, 0644, "others may read it");
    bad_key(counting, 32, 0602, "others may read it");
    bad_key(counting, 32, 0660, "its group may change it");
    assert_null(hmac_create(&o, START, error, sizeof error));
    assert_non_null(strstr(error, "No such file"));
    o.key_file = dir;
    assert_null(hmac_create(&o, START, error, sizeof error));
    assert_non_null(strstr(error, "not a regular file"));
    o.key_file = key_file(counting, 32, 0600);
    (void)unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* does not hang */
    assert_null(hmac_create(&o, START, error, sizeof error));
    assert_non_null(strstr(error, "not a regular file"));
    o.key_file = key_file(big, 4096, 0600);
    struct hmac *h = hmac_create(&o, START, error, sizeof error);
    assert_non_null(h);
    hmac_free(h);
}

static void test_skew(void **state)
{
    (void)state;
    struct hmac *h = with(60, 0, START);
    int64_t now = START + 1000;
    assert_int_equal(hmac_check(h, at(now - 61, 1), now), HMAC_SKEW);
    assert_int_equal(hmac_check(h, at(now + 61, 1), now), HMAC_SKEW);
    assert_int_equal(hmac_check(h, at(now - 60, 1), now), HMAC_OK);
    assert_int_equal(hmac_check(h, at(now + 60, 2), now), HMAC_OK);
    assert_int_equal(hmac_check(h, at(now, 2), now), HMAC_REPLAY); /* a nonce counts for every timestamp */
    hmac_free(h);
    h = with(5, 0, START);
    assert_int_equal(hmac_check(h, at(START - 1, 1), START), HMAC_SKEW); /* an earlier process may have seen it */
    assert_int_equal(hmac_check(h, at(START, 1), START + 5), HMAC_OK);
    assert_int_equal(hmac_check(h, at(START, 2), START + 6), HMAC_SKEW);
    hmac_free(h);
}

/* Beyond the bound requests are refused, and nothing is forgotten for them; time gives room again. */
static void test_bound(void **state)
{
    (void)state;
    enum { BOUND = 100 };
    struct hmac *h = with(60, BOUND, START - START % 60);
    int64_t now = START - START % 60;
    for (unsigned i = 0; i < BOUND; i++)
        assert_int_equal(hmac_check(h, at(now, i), now), HMAC_OK);
    for (unsigned i = 0; i < 3 * BOUND; i++)
        assert_int_equal(hmac_check(h, at(now, i), now), i < BOUND ? HMAC_REPLAY : HMAC_FULL);
    for (int64_t t = 60; t < 2000; t += 60)
        for (unsigned i = 0; i <= BOUND; i++)
            assert_int_equal(hmac_check(h, at(now + t, 1000 * (uint64_t)t + i), now + t), i < BOUND ? HMAC_OK : HMAC_FULL);
    hmac_free(h);
}

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    return *s ^= *s << 17;
}

/* A clock that runs, stands, jumps and is set back: nothing is ever taken twice. */
static void test_never_twice(void **state)
{
    (void)state;
    enum { ROUNDS = 20000, KEPT = 64 };
    static struct { int64_t timestamp; uint64_t nonce; } sent[ROUNDS];
    uint64_t seed = 88172645463325252u;
    unsigned taken = 0, replays = 0;
    struct hmac *h = with(7, 50, START);
    int64_t now = START + 100;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t r = next_random(&seed);
        now += r % 8 == 0 ? (int64_t)(r >> 8) % 5 : r % 997 == 0 ? (int64_t)(r >> 12) % 100 - 50 : 0;
        if (now < START)
            now = START;
        if (taken > 0 && r % 3 == 0) { /* one of the last ones again */
            unsigned back = (unsigned)((r >> 20) % (taken < KEPT ? taken : KEPT)) + 1;
            enum hmac_verdict v = hmac_check(h, at(sent[taken - back].timestamp, sent[taken - back].nonce), now);
            assert_true(v == HMAC_REPLAY || v == HMAC_SKEW);
            replays += v == HMAC_REPLAY;
            continue;
        }
        int64_t timestamp = now + (int64_t)((r >> 30) % 15) - 7;
        enum hmac_verdict v = hmac_check(h, at(timestamp, i), now);
        assert_true(v == HMAC_OK || v == HMAC_FULL || v == HMAC_SKEW);
        if (v == HMAC_OK) {
            sent[taken].timestamp = timestamp;
            sent[taken++].nonce = i;
        }
    }
    assert_true(taken > ROUNDS / 4 && replays > ROUNDS / 10);
    hmac_free(h);
}

/* Children remember for all; killed at any point, they block nobody. */
static void test_children(void **state)
{
    (void)state;
    enum { CHILDREN = 8, KILLS = 60 };
    struct hmac *h = with(60, 100000, START);
    volatile uint64_t *done = mmap(NULL, CHILDREN * sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[CHILDREN];
    assert_ptr_not_equal((void *)(uintptr_t)done, MAP_FAILED);
    int status;
    for (unsigned k = 0; k < KILLS + CHILDREN; k++) {
        unsigned c = k % CHILDREN;
        if (k >= CHILDREN) {
            uint64_t before = done[c];
            for (int wait = 0; done[c] < before + 20 && wait < 60000; wait++)
                usleep(1000);
            assert_true(done[c] >= before + 20); /* it works, though others were killed */
            kill(pids[c], SIGKILL);
            assert_int_equal(waitpid(pids[c], &status, 0), pids[c]);
            for (uint64_t i = done[c] - 20; i < done[c]; i++) /* what it took is known here */
                assert_int_equal(hmac_check(h, at(START, ((uint64_t)c << 32) + i), START), HMAC_REPLAY);
        }
        if (k < KILLS) {
            pids[c] = fork();
            assert_true(pids[c] >= 0);
            if (pids[c] == 0) {
                for (;;) { /* the one it was killed at may have been taken: then it goes on behind it */
                    enum hmac_verdict v = hmac_check(h, at(START, ((uint64_t)c << 32) + done[c]), START);
                    if (v != HMAC_OK && v != HMAC_REPLAY)
                        _exit(1);
                    done[c] = done[c] + 1;
                    usleep(50);
                }
            }
        }
    }
    munmap((void *)(uintptr_t)done, CHILDREN * sizeof *done);
    hmac_free(h);
}

static void test_texts(void **state)
{
    (void)state;
    assert_int_equal(hmac_status(HMAC_BAD), 401);
    assert_int_equal(hmac_status(HMAC_SKEW), 401);
    assert_int_equal(hmac_status(HMAC_REPLAY), 401);
    assert_int_equal(hmac_status(HMAC_FULL), 503);
    for (int v = HMAC_BAD; v <= HMAC_FULL; v++)
        assert_true(strlen(hmac_text((enum hmac_verdict)v)) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors), cmocka_unit_test(test_signer), cmocka_unit_test(test_changes),     cmocka_unit_test(test_keys),     cmocka_unit_test(test_skew),
        cmocka_unit_test(test_bound),   cmocka_unit_test(test_texts),  cmocka_unit_test(test_never_twice), cmocka_unit_test(test_children),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
