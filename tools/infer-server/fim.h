/* Filling in the middle: prompts for models whose vocabulary has tokens for it. */
#ifndef SERVER_FIM_H
#define SERVER_FIM_H

#include <infer/infer.h>
#include <stddef.h>

/* Ids for what stands between prefix and suffix: *ids is replaced (free()), *n set. Errors: UNSUPPORTED (the vocabulary has no such tokens), those of infer_tokenize. */
infer_status fim_prompt(const infer_tokenizer *tokenizer, const char *prefix, size_t prefix_len, const char *suffix, int32_t **ids, uint64_t *n, infer_error *err);

#endif
