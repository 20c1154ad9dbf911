#include "auth.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "options.h"

static bool add(struct auth *a, const char *key, const char *name, const char *salt)
{
    struct api_key *keys = realloc(a->keys, (a->n + 1) * sizeof *keys), *k;
    if (!keys) {
        fputs("infer-server: out of memory\n", stderr);
        return false;
    }
    a->keys = keys;
    k = &keys[a->n];
    memset(k, 0, sizeof *k);
    crypto_hash_sha256(k->hash, (const unsigned char *)key, strlen(key));
    if (name)
        snprintf(k->name, sizeof k->name, "%s", name);
    else
        snprintf(k->name, sizeof k->name, "key%u", a->n + 1);
    if (salt)
        snprintf(k->salt, sizeof k->salt, "%s", salt);
    memcpy(&k->client, k->hash, sizeof k->client);
    k->client |= 1; /* never 0 */
    a->n++;
    return true;
}

/* KEY [NAME [SALT]]; empty lines and those that begin with # say nothing. */
static bool read_line(struct auth *a, const char *path, unsigned number, char *line)
{
    char *rest = line, *word[4] = {NULL};
    int n = 0;
    for (char *p; n < 4 && (p = strtok_r(rest, " \t\r\n", &rest));)
        word[n++] = p;
    if (n == 0 || word[0][0] == '#')
        return true;
    if (n > 3 || (word[1] && strlen(word[1]) >= sizeof a->keys->name) || (word[2] && strlen(word[2]) >= sizeof a->keys->salt)) {
        fprintf(stderr, "infer-server: %s:%u: KEY [NAME [SALT]] is wanted, NAME of at most 63 bytes and SALT of at most 64\n", path, number);
        return false;
    }
    return add(a, word[0], word[1], word[2]);
}

static bool read_file(struct auth *a, const char *path)
{
    char line[1024];
    unsigned number = 0;
    uint32_t before = a->n;
    FILE *f = fopen(path, "r");
    bool ok = f != NULL;
    while (ok && fgets(line, sizeof line, f)) {
        number++;
        if (!strchr(line, '\n') && !feof(f)) {
            fprintf(stderr, "infer-server: %s:%u: the line is too long\n", path, number);
            ok = false;
        } else
            ok = read_line(a, path, number, line);
    }
    if (!f || ferror(f)) {
        fprintf(stderr, "infer-server: --api-key-file %s: %s\n", path, strerror(errno));
        ok = false;
    } else if (ok && a->n == before) { /* nobody could call; or worse, everybody */
        fprintf(stderr, "infer-server: --api-key-file %s: holds no key\n", path);
        ok = false;
    }
    if (f)
        fclose(f);
    sodium_memzero(line, sizeof line);
    return ok;
}

bool auth_load(struct auth *auth, const struct options *o)
{
    *auth = (struct auth){0};
    for (uint32_t i = 0; i < o->api_keys.n; i++)
        if (!add(auth, o->api_keys.items[i], NULL, NULL))
            return false;
    return !o->api_key_file || read_file(auth, o->api_key_file);
}

void auth_free(struct auth *auth)
{
    free(auth->keys);
    *auth = (struct auth){0};
}

static const struct api_key *find(const struct auth *auth, const char *key)
{
    unsigned char hash[32];
    const struct api_key *found = NULL;
    crypto_hash_sha256(hash, (const unsigned char *)key, strlen(key));
    for (uint32_t i = 0; i < auth->n; i++) /* all of them: the time tells nothing */
        if (sodium_memcmp(hash, auth->keys[i].hash, sizeof hash) == 0)
            found = &auth->keys[i];
    return found;
}

const struct api_key *auth_find(const struct auth *auth, const char *authorization, const char *x_api_key)
{
    const struct api_key *found = x_api_key ? find(auth, x_api_key) : NULL;
    if (!found && authorization && strncasecmp(authorization, "Bearer ", 7) == 0)
        found = find(auth, authorization + 7 + strspn(authorization + 7, " "));
    return found;
}
