/* Writes a changed copy of a GGUF file in memory: what hostile-model tests feed to the library. */
#ifndef GGUF_EDIT_H
#define GGUF_EDIT_H

#include "base/buf.h"
#include "formats/file.h"

/* All fields optional. */
struct gguf_edit {
    const char *drop_key;
    const char *set_key; /* replaces the key's value or adds the key */
    uint32_t set_type;   /* enum file_type: of a number, or FILE_STRING */
    double number;
    const char *string;
    const char *drop_tensor;
    const char *rename_tensor, *new_name;
    const char *reshape_tensor; /* its dims become d0, d1 (0: one dimension); the data stays */
    uint64_t d0, d1;
};

/* The edited copy of f, from the default allocator; free by buf_free. */
struct buf gguf_edit(const struct infer_file *f, const struct gguf_edit *edit);

#endif
