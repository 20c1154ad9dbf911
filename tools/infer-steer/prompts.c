#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steer.h"

#define MAX_BYTES ((size_t)1 << 28)
#define MAX_PROMPTS 65536u

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *data = NULL;
    size_t n = 0, cap = 0;
    while (f && n < MAX_BYTES) {
        if (cap - n < 65536) {
            cap = cap ? 2 * cap : 1 << 17;
            char *p = realloc(data, cap + 1);
            if (!p)
                break;
            data = p;
        }
        size_t got = fread(data + n, 1, cap - n, f);
        n += got;
        if (!got)
            break;
    }
    if (!f || ferror(f) || !data) {
        (void)complain("%s: cannot be read: %s", path, strerror(errno));
        free(data);
        data = NULL;
    }
    if (f)
        fclose(f);
    *len = n;
    return data;
}

static int add(struct prompts *p, int32_t *ids, uint64_t count)
{
    if ((p->n & (p->n - 1)) == 0) { /* full: room for twice as many */
        size_t cap = p->n ? 2 * (size_t)p->n : 1;
        int32_t **more = realloc(p->ids, cap * sizeof *more);
        uint64_t *counts = more ? realloc(p->counts, cap * sizeof *counts) : NULL;
        if (more)
            p->ids = more;
        if (counts)
            p->counts = counts;
        if (!more || !counts) {
            free(ids);
            return complain("out of memory");
        }
    }
    p->ids[p->n] = ids;
    p->counts[p->n++] = count;
    return EXIT_OK;
}

/* Numbers with spaces between. */
static int parse_ids(const char *path, char *line, struct prompts *p)
{
    int32_t *ids = malloc((strlen(line) / 2 + 1) * sizeof *ids);
    uint64_t n = 0;
    for (char *s = line; ids;) {
        char *end;
        errno = 0;
        long v = strtol(s, &end, 10);
        if (end == s && !s[strspn(s, " \t")])
            break;
        if (end == s || errno || v < 0 || v > INT32_MAX)
            end = line;
        if (end == line || (*end && *end != ' ' && *end != '\t')) {
            free(ids);
            return complain("%s: line %lu: not token ids", path, (unsigned long)p->n + 1);
        }
        ids[n++] = (int32_t)v;
        s = end;
    }
    return ids ? add(p, ids, n) : complain("out of memory");
}

static int parse_text(const char *path, const infer_tokenizer *t, const char *line, struct prompts *p)
{
    infer_error err;
    uint64_t n = strlen(line) + 16, count = 0;
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    INFER_INIT(&err);
    if (!ids)
        return complain("out of memory");
    if (infer_tokenize(t, line, strlen(line), INFER_TOKENIZE_ADD_SPECIAL | INFER_TOKENIZE_PARSE_SPECIAL, ids, n, &count, &err) != INFER_OK) {
        free(ids);
        return complain_error(path, &err);
    }
    return add(p, ids, count);
}

int prompts_read(const char *path, const infer_tokenizer *tokenizer, bool ids, struct prompts *out)
{
    size_t len;
    int code = EXIT_OK;
    char *data = read_file(path, &len);
    memset(out, 0, sizeof *out);
    if (!data)
        return EXIT_FAILED;
    data[len] = 0;
    for (char *line = data; line < data + len && code == EXIT_OK;) {
        char *end = line + strcspn(line, "\n"), *last = end;
        char *next = end + 1;
        if (last > line && last[-1] == '\r')
            last--;
        *last = 0;
        if (line[strspn(line, " \t")] && out->n == MAX_PROMPTS)
            code = complain("%s: more than %u prompts", path, MAX_PROMPTS);
        else if (line[strspn(line, " \t")])
            code = ids ? parse_ids(path, line, out) : parse_text(path, tokenizer, line, out);
        line = next;
    }
    free(data);
    if (code == EXIT_OK && out->n == 0)
        code = complain("%s: no prompts", path);
    return code;
}

void prompts_free(struct prompts *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        free(p->ids[i]);
    free(p->ids);
    free(p->counts);
}
