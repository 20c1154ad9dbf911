/* A tokenizer.json by itself: a file without tensors, whose text is the metadata string that a model folder would carry it under. */
#ifndef FORMATS_TOKENIZER_JSON_H
#define FORMATS_TOKENIZER_JSON_H

#include "formats/file.h"

#define FILE_KEY_TOKENIZER_JSON "tokenizer.huggingface.json"

/* JSON with a member "model" somewhere. */
bool tokenizer_json_is(const struct blob *blob);
/* Takes the blob, also on failure. Nothing of the text is read. */
infer_status tokenizer_json_open(const struct env *env, const char *name, size_t name_len, struct blob *blob, struct infer_file **out,
                                 infer_error *err);

#endif
