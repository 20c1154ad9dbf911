/* Tokenizers: text to token ids and back. Immutable after they are made, so any number of threads may use one. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "base/buf.h"
#include "formats/file.h"

/* Reads the tokenizer in a file's metadata; keeps a reference on the file and on env.
 * Errors: MISSING (no tokenizer), UNSUPPORTED (an unknown kind or pre-tokenizer), VALUE, LIMIT, NO_MEMORY; key and file are set. */
infer_status tokenizer_create(const struct env *env, struct infer_file *file, const infer_cancel *cancel, infer_tokenizer **out, infer_error *err);
infer_tokenizer *tokenizer_ref(infer_tokenizer *t); /* returns t */
void tokenizer_release(infer_tokenizer *t);         /* t may be NULL */

void tokenizer_info(const infer_tokenizer *t, infer_tokenizer_info *out); /* out->size is kept */
infer_status tokenizer_token(const infer_tokenizer *t, int32_t id, infer_token_info *out, infer_error *err);
const struct env *tokenizer_env(const infer_tokenizer *t); /* for what belongs to a call */
uint32_t tokenizer_vocab_size(const infer_tokenizer *t);
bool tokenizer_ends_turn(const infer_tokenizer *t, int32_t id); /* false for ids that are not of the vocabulary */

/* A list of ids that grows. */
struct token_ids {
    const struct alloc *alloc;
    int32_t *data;
    size_t len, cap;
    bool no_memory; /* sticky */
};
void token_ids_init(struct token_ids *ids, const struct alloc *alloc);
void token_ids_put(struct token_ids *ids, int32_t id);
void token_ids_free(struct token_ids *ids);

/* Appends the ids of text. flags: INFER_TOKENIZE_ADD_SPECIAL, INFER_TOKENIZE_PARSE_SPECIAL. On failure what was appended is undefined.
 * Errors: LIMIT (longer than INFER_MAX_TEXT), NO_MEMORY. */
infer_status tokenizer_encode(const infer_tokenizer *t, const char *text, uint64_t len, uint32_t flags,
                              struct token_ids *ids, infer_error *err);

#define TOKENIZER_MAX_STARTED 255 /* of infer_detokenizer.started */
/* One step of decoding: the text that id completes, appended to out. id -1 ends the text. state is full-size and consistent.
 * Errors: TOKEN; out's flags tell of failures to grow, and state has then changed. */
infer_status tokenizer_decode_next(const infer_tokenizer *t, infer_detokenizer *state, int32_t id, struct buf *out,
                                   infer_error *err);

#endif
