/* Model folders as Hugging Face ships them. A folder is read into a `struct infer_file` with GGUF's names and metadata keys, so that nothing
 * behind this header knows of another format; see README.md for how, and for adding an architecture. */
#ifndef MODEL_HF_H
#define MODEL_HF_H

#include "formats/file.h"

enum hf_use {
    HF_AS_MODEL, /* refuses what cannot be run: unknown model types, quantised weights that are not read yet */
    HF_AS_FILE,  /* such a folder opens with its tensors' own names; a file of weights in a folder opens alone */
    HF_AS_TEXT   /* tokenizer and template only: the weights are not opened, and may be missing */
};

struct hf_options {
    enum hf_use use;
    int32_t map; /* INFER_MAP_* */
    const infer_cancel *cancel;
    struct budget *plan; /* not NULL: for an estimate. Tensors that are computed are only counted, here: their bytes are not there */
};

/* Opens whatever the source names: a file (file_open), or a folder: by its own name, its config.json, its tokenizer.json, an index of
 * shards, or (as model or text) a file of weights in it. Folders need a source that opens files by name: a path or a callback.
 * Errors: those of file_open; MISSING, VALUE, UNSUPPORTED name the key, NOT_FOUND the file; ARCHITECTURE: the model type is not known. */
infer_status hf_open(const struct env *env, const infer_source *source, const struct hf_options *options, struct infer_file **out,
                     infer_error *err);

#endif
