#include "logits_file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = {'I', 'N', 'F', 'L', 'O', 'G', 'I', 'T'};

/* The host is little-endian: the library refuses others. */
struct header {
    char magic[8];
    uint32_t version, bytes, n_vocab, window, first, type;
    uint64_t n_tokens;
    uint8_t zero[24];
};
_Static_assert(sizeof(struct header) == LOGITS_HEADER, "as documented");

void windows_free(struct windows *w)
{
    free(w->tokens);
    w->tokens = NULL;
}

static int bad(const struct logits_file *l, const char *what)
{
    complain("%s: %s", l->path, what);
    return EXIT_FAILED;
}

static int bad_io(const struct logits_file *l, const char *what)
{
    complain("%s: %s: %s", l->path, what, strerror(errno));
    return EXIT_FAILED;
}

static const char *check_header(const struct header *h, uint32_t n_vocab)
{
    static const uint8_t zero[sizeof h->zero];
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return "not a file of reference logits (see --save-logits)";
    if (h->version != 1 || h->bytes != LOGITS_HEADER)
        return "reference logits of an unknown version";
    if (h->type != 0 || memcmp(h->zero, zero, sizeof zero) != 0)
        return "reference logits of an unknown kind";
    if (h->n_vocab != n_vocab)
        return "reference logits of another vocabulary";
    if (h->window < 2 || h->window > LOGITS_MAX_WINDOW || h->first >= h->window)
        return "malformed: the window";
    if (h->n_tokens == 0 || h->n_tokens % h->window != 0 || h->n_tokens > (uint64_t)1 << 40)
        return "malformed: the number of tokens";
    return NULL;
}

/* False: it does not fit 64 bits. n_tokens is at most 2^40. */
static bool file_size(const struct header *h, uint64_t *size)
{
    uint64_t rows = h->n_tokens / h->window * (h->window - h->first), row = (uint64_t)h->n_vocab * sizeof(float);
    uint64_t before = LOGITS_HEADER + h->n_tokens * sizeof(int32_t);
    if (row && rows > (UINT64_MAX - before) / row)
        return false;
    *size = before + rows * row;
    return true;
}

static int read_tokens(struct logits_file *l, const struct header *h, struct windows *w)
{
    w->n_tokens = h->n_tokens;
    w->window = h->window;
    w->first = h->first;
    w->tokens = h->n_tokens <= SIZE_MAX / sizeof *w->tokens ? malloc((size_t)h->n_tokens * sizeof *w->tokens) : NULL;
    if (!w->tokens)
        return bad(l, "out of memory");
    if (fread(w->tokens, sizeof *w->tokens, (size_t)h->n_tokens, l->f) != h->n_tokens)
        return bad(l, "ends early");
    for (uint64_t i = 0; i < h->n_tokens; i++)
        if (w->tokens[i] < 0 || (uint32_t)w->tokens[i] >= h->n_vocab)
            return bad(l, "malformed: a token is not in the vocabulary");
    return EXIT_OK;
}

int logits_open(struct logits_file *l, const char *path, uint32_t n_vocab, struct windows *w)
{
    struct header h;
    struct stat st;
    uint64_t size = 0;
    *l = (struct logits_file){.path = path, .n_vocab = n_vocab};
    l->f = fopen(path, "rb");
    if (!l->f || fstat(fileno(l->f), &st) != 0)
        return bad_io(l, "cannot open");
    if (!S_ISREG(st.st_mode))
        return bad(l, "not a regular file");
    if (fread(&h, sizeof h, 1, l->f) != 1)
        return bad(l, "not a file of reference logits (see --save-logits)");
    const char *problem = check_header(&h, n_vocab);
    if (problem)
        return bad(l, problem);
    if (!file_size(&h, &size) || (uint64_t)st.st_size < size)
        return bad(l, "ends early");
    if ((uint64_t)st.st_size > size)
        return bad(l, "malformed: there is something behind its end");
    int code = read_tokens(l, &h, w);
    l->left = windows_rows(w);
    return code;
}

int logits_read_row(struct logits_file *l, float *row)
{
    if (!l->left || fread(row, sizeof *row, l->n_vocab, l->f) != l->n_vocab)
        return bad(l, "ends early");
    l->left--;
    for (uint32_t i = 0; i < l->n_vocab; i++)
        if (!isfinite(row[i]))
            return bad(l, "malformed: a logit is not finite");
    return EXIT_OK;
}

int logits_create(struct logits_file *l, const char *path, uint32_t n_vocab, const struct windows *w)
{
    struct header h = {.version = 1, .bytes = LOGITS_HEADER, .n_vocab = n_vocab, .window = w->window, .first = w->first,
                       .n_tokens = w->n_tokens};
    memcpy(h.magic, magic, sizeof magic);
    *l = (struct logits_file){.path = path, .n_vocab = n_vocab, .left = windows_rows(w)};
    l->f = fopen(path, "wb");
    if (!l->f)
        return bad_io(l, "cannot create");
    if (fwrite(&h, sizeof h, 1, l->f) != 1 || fwrite(w->tokens, sizeof *w->tokens, (size_t)w->n_tokens, l->f) != w->n_tokens)
        return bad_io(l, "cannot write");
    return EXIT_OK;
}

int logits_write_row(struct logits_file *l, const float *row)
{
    if (fwrite(row, sizeof *row, l->n_vocab, l->f) != l->n_vocab)
        return bad_io(l, "cannot write");
    l->left--;
    return EXIT_OK;
}

int logits_close(struct logits_file *l, bool written, bool ok)
{
    int code = EXIT_OK;
    struct stat st;
    if (!l->f)
        return code;
    bool regular = fstat(fileno(l->f), &st) == 0 && S_ISREG(st.st_mode);
    if (fclose(l->f) != 0 && written && ok)
        code = bad_io(l, "cannot write");
    l->f = NULL;
    if (written && regular && (!ok || code != EXIT_OK))
        (void)remove(l->path);
    return code;
}
