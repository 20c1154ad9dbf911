/* Encodes arbitrary text with tokenizers of every kind and decodes what comes of it. The first byte chooses the tokenizer and the flags, the second where
 * the text is cut for the decoder's buffers. Ids lie in the vocabulary, lengths that are told are right, decoding piece by piece gives the same bytes as
 * at once; and a byte-level vocabulary gives well-formed text back as it was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "infer/infer.h"

#define MAX_TEXT 4096

static void demand(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_tokenise: %s\n", what);
    abort();
}

static const struct {
    const char *path;
    int exact; /* decoding gives back what was encoded */
} kinds[] = {
    {"/models/tiny.gguf", 1},
    {"/tests/data/tokenizers/bpe.gguf", 0},
    {"/tests/data/tokenizers/spm.gguf", 0},
    {"/tests/data/tokenizers/wordpiece.gguf", 0},
    {"/tests/data/tokenizers/unigram.gguf", 0},
    {"/tests/data/tokenizers/json/gpt2.json", 1},
    {"/tests/data/tokenizers/json/llama3.json", 1},
    {"/tests/data/tokenizers/json/qwen2.json", 0}, /* composes characters */
    {"/tests/data/tokenizers/json/gemma3.json", 0},
    {"/tests/data/tokenizers/json/bert.json", 0},
    {"/tests/data/tokenizers/json/t5.json", 0},
    {"/tests/data/tokenizers/json/albert.json", 0},
    {"/tests/data/tokenizers/json/clip.json", 0},
    {"/tests/data/tokenizers/json/mistral.json", 0},
    {"/tests/data/tokenizers/json/wordlevel.json", 0},
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

/* NULL: its pattern needs PCRE2, which this build lacks. */
static const infer_tokenizer *tokenizer_of(unsigned which)
{
    static infer_tokenizer *open[N_KINDS];
    char path[4096];
    infer_source s;
    if (open[which])
        return open[which];
    snprintf(path, sizeof path, "%s%s", INFER_SOURCE_DIR, kinds[which].path);
    infer_source_path(&s, path, INFER_ZSTR);
    infer_status st = infer_tokenizer_open(NULL, &s, NULL, &open[which], NULL);
    demand(st == INFER_OK || st == INFER_ERROR_UNSUPPORTED, "a tokenizer does not open");
    return open[which];
}

/* Piece by piece, with buffers that are sometimes too small. The result's length. */
static uint64_t decode_stream(const infer_tokenizer *t, const int32_t *ids, uint64_t n, uint32_t flags, uint8_t cut, char *out, uint64_t capacity)
{
    infer_detokenizer state;
    uint64_t len = 0;
    INFER_INIT(&state);
    state.flags = flags;
    for (uint64_t i = 0; i <= n; i++) {
        uint64_t need = 0, room = cut && i % cut == 0 ? i % 3 : capacity - len;
        const infer_detokenizer before = state;
        infer_status st = infer_detokenizer_next(t, &state, i < n ? ids[i] : -1, out + len, room, &need, NULL);
        if (st == INFER_ERROR_BUFFER) {
            demand(need > room && memcmp(&before, &state, sizeof state) == 0, "a buffer that is too small changed something");
            st = infer_detokenizer_next(t, &state, i < n ? ids[i] : -1, out + len, capacity - len, &need, NULL);
        }
        demand(st == INFER_OK && need <= capacity - len, "the streaming decoder failed");
        len += need;
    }
    return len;
}

static void decode(const infer_tokenizer *t, const int32_t *ids, uint64_t n, uint32_t flags, uint8_t cut, const char *expected, uint64_t expected_len)
{
    uint64_t len = 0, again = 0;
    infer_status st = infer_detokenize(t, ids, n, flags, NULL, 0, &len, NULL);
    demand(st == (len ? INFER_ERROR_BUFFER : INFER_OK), "a decoder's length");
    char *text = malloc(len + 1), *stream = malloc(len + 1);
    demand(text && stream, "no memory");
    demand(infer_detokenize(t, ids, n, flags, text, len, &again, NULL) == INFER_OK && again == len, "the decoder failed");
    demand(decode_stream(t, ids, n, flags, cut, stream, len) == len && memcmp(text, stream, (size_t)len) == 0, "a stream decodes otherwise");
    if (expected)
        demand(len == expected_len && memcmp(text, expected, (size_t)len) == 0, "decoding does not give the text back");
    free(stream);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    infer_tokenizer_info info;
    uint64_t n = 0, again = 0;
    if (size < 2 || size > MAX_TEXT)
        return 0;
    unsigned which = (data[0] & 63) % N_KINDS;
    uint32_t flags = (uint32_t)data[0] >> 6;
    const infer_tokenizer *t = tokenizer_of(which);
    if (!t)
        return 0;
    const char *text = (const char *)data + 2;
    uint64_t len = size - 2;
    INFER_INIT(&info);
    demand(infer_tokenizer_get_info(t, &info, NULL) == INFER_OK, "no info");
    infer_status st = infer_tokenize(t, text, len, flags, NULL, 0, &n, NULL);
    demand(st == (n ? INFER_ERROR_BUFFER : INFER_OK), "an encoder's count");
    int32_t *ids = malloc((size_t)(n ? n : 1) * sizeof *ids);
    demand(ids != NULL, "no memory");
    if (n)
        demand(infer_tokenize(t, text, len, flags, ids, n - 1, &again, NULL) == INFER_ERROR_BUFFER && again == n, "a buffer that is too small was filled");
    demand(infer_tokenize(t, text, len, flags, ids, n, &again, NULL) == INFER_OK && again == n, "encoding again gives another count");
    for (uint64_t i = 0; i < n; i++)
        demand(ids[i] >= 0 && (uint32_t)ids[i] < info.vocab_size, "an id that the vocabulary does not have");
    /* Plain text through a byte-level vocabulary. */
    int same = kinds[which].exact && flags == 0 && utf8_valid(text, (size_t)len);
    decode(t, ids, n, 0, data[1], same ? text : NULL, len);
    decode(t, ids, n, INFER_DETOKENIZE_SHOW_SPECIAL, data[1], NULL, 0);
    free(ids);
    return 0;
}
