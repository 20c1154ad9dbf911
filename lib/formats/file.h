/* A weights file as data: a directory of tensors and a list of metadata, whatever the format it came from. This is what the public
 * handle infer_file is; models, tokenizers and templates read it through the accessors below.
 *
 * Everything points into the file's bytes (mapped, borrowed or read), which live as long as the file. All counts, lengths and
 * offsets were checked when it was opened: a tensor's data lies wholly inside its part and overlaps no other tensor's (in PyTorch files two may share it). */
#ifndef FORMATS_FILE_H
#define FORMATS_FILE_H

#include "base/arena.h"
#include "base/map.h"
#include "base/ref.h"
#include "base/source.h"

/* Limits. A file beyond one is refused with INFER_ERROR_LIMIT; memory use is a small multiple of the header's size in any case. */
#define FILE_MAX_TENSORS   ((uint64_t)1 << 20)
#define FILE_MAX_KEYS      ((uint64_t)1 << 16)
#define FILE_MAX_KEY       65535             /* bytes of a metadata key (GGUF's own limit) */
#define FILE_MAX_NAME      1024              /* bytes of a tensor name (GGUF: 64; some writers exceed it) */
#define FILE_MAX_DIMS      4
#define FILE_MAX_DEPTH     8                 /* of arrays within arrays */
#define FILE_MAX_STRING    ((uint64_t)1 << 30) /* bytes of a string value */
#define FILE_MIN_ALIGNMENT 8                 /* so that every element can be read in place */
#define FILE_MAX_ALIGNMENT ((uint64_t)1 << 21)
#define FILE_MAX_PARTS     1024              /* of a split file */

/* Value types; the numbers are GGUF's. */
enum file_type {
    FILE_U8 = 0, FILE_I8 = 1, FILE_U16 = 2, FILE_I16 = 3, FILE_U32 = 4, FILE_I32 = 5, FILE_F32 = 6, FILE_BOOL = 7,
    FILE_STRING = 8, FILE_ARRAY = 9, FILE_U64 = 10, FILE_I64 = 11, FILE_F64 = 12, FILE_TYPE_COUNT = 13
};

struct file_str {
    const char *data; /* not zero-terminated, any bytes */
    uint64_t len;
};

struct file_value {
    uint32_t type;       /* enum file_type */
    uint32_t item;       /* of an array's items */
    uint64_t count;      /* bytes of a string, items of an array */
    const uint8_t *data; /* the number; the string's bytes; the first item. As stored: little-endian, unaligned */
};

struct file_meta {
    struct file_str key; /* not empty, UTF-8 without zero bytes; unique in the file */
    struct file_value value;
};

struct file_tensor {
    struct file_str name;       /* as keys; unique in the file, over all parts */
    int32_t type;               /* INFER_TYPE_*, known to dtype_of */
    uint32_t n_dims;            /* 1-4; a tensor stored without dimensions has 1, of length 1 */
    uint64_t dims[FILE_MAX_DIMS]; /* elements; dims[0] is the row, a whole number of blocks; unused ones are 1. GGUF: at least 1 each */
    uint64_t n;                 /* elements; 0 for the empty tensors that some safetensors files have */
    uint64_t bytes;
    uint64_t offset;            /* in its part */
    const void *data;           /* not NULL; aligned to an element at least, as base/dtype.h tells its bytes (GGUF: to FILE_MIN_ALIGNMENT) */
    uint32_t part;
};

/* Where the items of an array of strings or arrays begin, each stride-th: their sizes differ. */
struct file_index {
    const uint8_t *data; /* the array's, which identifies it; indexes are sorted by it */
    uint64_t count;
    uint64_t *offsets; /* from data */
    uint32_t stride;
};

struct infer_file {
    struct ref ref;
    const struct env *env; /* a reference */
    char *name;            /* for messages; never NULL, zero-terminated */
    size_t name_len;
    struct blob *parts;
    uint32_t n_parts;
    struct file_tensor *tensors;
    uint64_t n_tensors;
    struct map tensor_map; /* name -> index */
    struct file_meta *meta;
    uint64_t n_meta;
    struct map meta_map;
    struct file_index *indexes;
    size_t n_indexes, cap_indexes;
    bool planned;       /* opened for an estimate: tensors' data is not to be read, and may not be there */
    struct arena arena; /* of the indexes' offsets */
};

/* Opens by content. source: checked, full-size, with name_len resolved. env is kept (env_ref). map: INFER_MAP_*. */
infer_status file_open(const struct env *env, const infer_source *source, int32_t map, const infer_cancel *cancel,
                       struct infer_file **out, infer_error *err);
/* The same for content that was opened already, under this name; takes the blob over, also on failure. source: where a split file's other
 * parts come from. */
infer_status file_open_blob(const struct env *env, const infer_source *source, const char *name, uint64_t name_len, struct blob *blob,
                            int32_t map, const infer_cancel *cancel, struct infer_file **out, infer_error *err);
struct infer_file *file_ref(struct infer_file *f); /* returns f */
void file_release(struct infer_file *f);           /* f may be NULL */
/* CHANGED when a mapped part has become shorter (best effort). */
infer_status file_check(const struct infer_file *f, infer_error *err);

/* NULL: absent. */
const struct file_tensor *file_find_tensor(const struct infer_file *f, const char *name, size_t len);
const struct file_meta *file_find_meta(const struct infer_file *f, const char *key, size_t len);

/* ---- Typed metadata. key is zero-terminated. Errors name file and key: MISSING when it is absent, VALUE when it has another type or
 * does not fit. The _or forms give a default when it is absent. Integers may be stored in any integer type that holds the value. */
bool file_has(const struct infer_file *f, const char *key);
infer_status file_get_u32(const struct infer_file *f, const char *key, uint32_t *out, infer_error *err);
infer_status file_get_u64(const struct infer_file *f, const char *key, uint64_t *out, infer_error *err);
infer_status file_get_i64(const struct infer_file *f, const char *key, int64_t *out, infer_error *err);
infer_status file_get_f32(const struct infer_file *f, const char *key, float *out, infer_error *err); /* finite */
infer_status file_get_bool(const struct infer_file *f, const char *key, bool *out, infer_error *err);
infer_status file_get_string(const struct infer_file *f, const char *key, struct file_str *out, infer_error *err);
infer_status file_get_u32_or(const struct infer_file *f, const char *key, uint32_t absent, uint32_t *out,
                             infer_error *err);
infer_status file_get_u64_or(const struct infer_file *f, const char *key, uint64_t absent, uint64_t *out,
                             infer_error *err);
infer_status file_get_i64_or(const struct infer_file *f, const char *key, int64_t absent, int64_t *out,
                             infer_error *err);
infer_status file_get_f32_or(const struct infer_file *f, const char *key, float absent, float *out, infer_error *err);
infer_status file_get_bool_or(const struct infer_file *f, const char *key, bool absent, bool *out, infer_error *err);
infer_status file_get_string_or(const struct infer_file *f, const char *key, const char *absent, struct file_str *out,
                                infer_error *err);
/* One number for each of n layers: a single integer (or bool) stands for all, else an array of exactly n. */
infer_status file_get_u32_each(const struct infer_file *f, const char *key, uint32_t n, uint32_t *out,
                               infer_error *err);

/* An array of numbers, whose items are read by index. */
struct file_array {
    const uint8_t *data;
    uint64_t count;
    uint32_t item;
};
infer_status file_get_ints(const struct infer_file *f, const char *key, struct file_array *out, infer_error *err);
infer_status file_get_floats(const struct infer_file *f, const char *key, struct file_array *out, infer_error *err);
int64_t file_array_int(const struct file_array *a, uint64_t i); /* i < count; a u64 above INT64_MAX gives INT64_MAX */
uint64_t file_array_uint(const struct file_array *a, uint64_t i); /* the bits of a signed item */
float file_array_f32(const struct file_array *a, uint64_t i);
double file_array_f64(const struct file_array *a, uint64_t i);

/* An array of strings, read in order. */
struct file_strings {
    const uint8_t *at;
    uint64_t left; /* strings not yet read; the count at first */
};
infer_status file_get_strings(const struct infer_file *f, const char *key, struct file_strings *out, infer_error *err);
bool file_strings_next(struct file_strings *it, struct file_str *out); /* false: no more */

/* Item i of an array of any kind. False: i is out of range, or array is not one of this file's. */
bool file_array_item(const struct infer_file *f, const struct file_value *array, uint64_t i, struct file_value *out);

/* Bytes of a number of this type; 0 for strings, arrays and unknown types. */
uint32_t file_type_size(uint32_t type);
const char *file_type_name(uint32_t type);

/* ---- For the readers of formats. */

/* An empty file, which owns the blob from now on, also on failure. */
infer_status file_create(const struct env *env, const char *name, size_t name_len, struct blob *blob,
                         struct infer_file **out, infer_error *err);
/* Sets the error's file and returns its code. */
infer_status file_failed(const struct infer_file *f, infer_error *err, infer_status st);
/* Adds a blob, which the file owns from now on, also on failure; its number is f->n_parts - 1. */
infer_status file_add_part(struct infer_file *f, struct blob *blob, infer_error *err);
/* Calls fn for every tensor in the order of offsets (of one part; those without bytes first), with the one before it, until fn fails. */
typedef infer_status (*file_order_fn)(void *arg, const struct file_tensor *before, const struct file_tensor *t);
infer_status file_in_order(const struct infer_file *f, file_order_fn fn, void *arg, infer_error *err);
/* Moves the tensors of a further file into f. That one loses them, its blobs and its arena, and is only to be released; its metadata is not
 * taken over. Errors: FORMAT (a tensor is in both), NO_MEMORY; then too it is only to be released. */
infer_status file_join(struct infer_file *f, struct infer_file *part, infer_error *err);

#endif
