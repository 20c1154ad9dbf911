/* Opens arbitrary bytes as a model file with a tokenizer, or as a tokenizer.json, encodes texts (the file's own last bytes among them) and
 * decodes every id, streaming. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "text/tokenizer.h"

#define MAX_TEXT 4096

static void round_trip(const infer_tokenizer *t, const char *text, size_t len, uint32_t flags)
{
    struct token_ids ids;
    struct buf out;
    infer_error err;
    infer_detokenizer state = {.size = (uint32_t)sizeof state, .flags = flags & INFER_DETOKENIZE_SHOW_SPECIAL};
    token_ids_init(&ids, &tokenizer_env(t)->alloc);
    buf_init(&out, &tokenizer_env(t)->alloc, 0);
    if (tokenizer_encode(t, text, len, flags, &ids, &err) == INFER_OK)
        for (size_t i = 0; i <= ids.len; i++) {
            if (tokenizer_decode_next(t, &state, i < ids.len ? ids.data[i] : -1, &out, &err) != INFER_OK)
                abort(); /* an id that the vocabulary does not have */
            if (state.pending_len > sizeof state.pending || state.started > TOKENIZER_MAX_STARTED)
                abort();
        }
    token_ids_free(&ids);
    buf_free(&out);
}

static void look_at_tokens(const infer_tokenizer *t)
{
    static volatile uint64_t sum; /* so that the reads stay */
    for (uint32_t i = 0; i < tokenizer_vocab_size(t); i++) {
        infer_token_info info = {.size = (uint32_t)sizeof info};
        infer_error err;
        if (tokenizer_token(t, (int32_t)i, &info, &err) != INFER_OK)
            abort();
        if (info.piece_len)
            sum += (uint8_t)info.piece[info.piece_len - 1];
        if (info.bytes_len)
            sum += (uint8_t)info.bytes[info.bytes_len - 1];
    }
    (void)sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "ab  abab aAB\t<s> <t>x\n\n \xE2\x96\x81 caf\xC3\xA9 e\xCC\x81 \xF0\x9F\x99\x82 12345 it's \xFF\xE4\xB8\xAD";
    struct infer_file *f;
    infer_tokenizer *t;
    infer_error err;
    infer_source s = {.size = (uint32_t)sizeof s, .kind = INFER_SOURCE_MEMORY, .data = data, .length = size};
    if (file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err) != INFER_OK)
        return 0;
    if (tokenizer_create(&env_default, f, NULL, &t, &err) == INFER_OK) {
        size_t tail = size < MAX_TEXT ? size : MAX_TEXT;
        look_at_tokens(t);
        round_trip(t, text, sizeof text - 1, INFER_TOKENIZE_ADD_SPECIAL);
        round_trip(t, text, sizeof text - 1, INFER_TOKENIZE_PARSE_SPECIAL | INFER_DETOKENIZE_SHOW_SPECIAL);
        round_trip(t, (const char *)data + size - tail, tail, INFER_TOKENIZE_ADD_SPECIAL | INFER_TOKENIZE_PARSE_SPECIAL);
        tokenizer_release(t);
    }
    file_release(f);
    return 0;
}
