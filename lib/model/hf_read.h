/* What the readers of Hugging Face folders share. Functions fill r->err, file included. */
#ifndef MODEL_HF_READ_H
#define MODEL_HF_READ_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "model/hf.h"
#include "model/hf_arch.h"

/* A tensor that is not used where it lies. */
struct hf_made {
    struct file_str name;
    const struct file_tensor *from; /* or NULL: */
    const float *values;            /* f32 [dims[0]] */
    const struct file_tensor **rows; /* of HF_STACK: [dims[1]] */
    uint8_t how;                    /* enum hf_how */
    int32_t type;                   /* of the result */
    uint32_t n_dims;
    uint64_t dims[FILE_MAX_DIMS];
    uint64_t bytes;
    uint64_t offset; /* in the data of the file that is made */
};

struct hf_reader {
    const struct env *env;
    const infer_source *source;
    const struct hf_options *o;
    infer_error *err;
    struct arena ar;             /* JSON trees, names */
    const char *dir;             /* of the folder, with the separator */
    size_t dir_len;
    const char *weights_name;    /* the file that was named when the folder was opened; NULL: find one */
    struct json config;          /* config.json; JSON_NULL where a file is not there */
    struct json generation;      /* generation_config.json */
    struct json tokenizer;       /* tokenizer_config.json */
    const struct json *model;    /* the part of config that describes the text model */
    struct file_str model_type;
    const struct hf_arch *arch;  /* NULL: not known (as file or text) */
    bool tied;
    struct infer_file *weights;  /* names as stored */
    struct buf meta;             /* metadata in GGUF's encoding */
    uint64_t n_meta;
    struct hf_made *made;        /* [n_made] */
    size_t n_made, cap_made;
};

/* ---- config.json ---- */

/* The value of a key ("a|b": the first that is there and not null) of the text model's configuration; NULL: absent. */
const struct json *hf_get(const struct hf_reader *r, const char *keys);
const struct json *hf_member(const struct json *object, const char *keys); /* of any object */
/* Fails with a key (the first of "a|b") of config.json. */
infer_status hf_fail(const struct hf_reader *r, infer_status code, const char *key, const char *why);
/* A number; absent: *out keeps what it has. VALUE: not a finite number. key names it in errors. */
infer_status hf_number(const struct hf_reader *r, const struct json *object, const char *keys, double *out);
infer_status hf_u32(const struct hf_reader *r, const struct json *object, const char *keys, uint32_t *out);
bool hf_text_is(const struct json *v, const char *text);
bool hf_one_of(const struct json *v, const char *names); /* "a|b" */

/* ---- Metadata: keys that begin with '.' get the architecture's name in front. Failures are kept in r->meta. ---- */
void hf_put_u32(struct hf_reader *r, const char *key, uint32_t v);
void hf_put_f32(struct hf_reader *r, const char *key, float v);
void hf_put_bool(struct hf_reader *r, const char *key, bool v);
void hf_put_text(struct hf_reader *r, const char *key, const char *text, size_t len);
void hf_put_array(struct hf_reader *r, const char *key, uint32_t item, uint64_t n); /* then the items, by buf_put to r->meta */

/* ---- Parts ---- */
/* Puts the name of the folder's file into the error, if it has none yet. */
void hf_err_file(const struct hf_reader *r, const char *name);
/* A file of the folder. *found false: there is none. */
infer_status hf_open_companion(struct hf_reader *r, const char *name, struct blob *out, bool *found);
/* A JSON file of the folder; *out is JSON_NULL when there is none. */
infer_status hf_read_json(struct hf_reader *r, const char *name, struct json *out);
/* A file of weights of the folder as data; the blob is taken over. */
infer_status hf_open_file(struct hf_reader *r, const char *name, struct blob *blob, struct infer_file **out);
infer_status hf_open_weights(struct hf_reader *r, struct blob *first); /* first: the named file, opened already; or NULL */
infer_status hf_read_config(struct hf_reader *r); /* model, model_type, arch; the metadata of the model */
infer_status hf_read_rope(struct hf_reader *r);
/* attention.sliding_window and its pattern, from sliding_window, use_sliding_window and layer_types. */
infer_status hf_read_windows(struct hf_reader *r);
infer_status hf_read_windows_if_used(struct hf_reader *r); /* the same, where use_sliding_window absent means false */
const struct json *hf_rope_of(const struct hf_reader *r);  /* rope_parameters or rope_scaling; NULL: neither */
/* Before the tensors get their new names: the output matrix is there if it must be. */
infer_status hf_check_output(const struct hf_reader *r);
/* Behind that: tensors that the configuration speaks of (biases and the like) are there if, and only if, it says so. */
infer_status hf_check_tensors(const struct hf_reader *r);
infer_status hf_read_text(struct hf_reader *r);   /* the metadata of tokenizer and template */
/* Embedding models: what sentence-transformers keeps in the folder (nothing, of others); after the weights. And the architecture of a model whose
 * configuration says that its elements see both sides. */
infer_status hf_read_modules(struct hf_reader *r);
const struct hf_arch *hf_encoder_of(const struct hf_reader *r, const struct hf_arch *arch);
/* Renames r->weights' tensors, notes those that are made. */
infer_status hf_map_tensors(struct hf_reader *r);
infer_status hf_add_values(struct hf_reader *r, const char *name, const float *values, uint32_t n); /* values: as long as r->ar */
/* Puts metadata, made tensors and weights together. */
infer_status hf_build(struct hf_reader *r, struct infer_file **out);

#endif
