/* Shared by the readers of adapters. */
#ifndef ADAPTERS_ADAPTER_READ_H
#define ADAPTERS_ADAPTER_READ_H

#include "adapters/adapter.h"
#include "base/buf.h"
#include "base/cancel.h"
#include "base/json.h"
#include "base/map.h"

enum peft_method { PEFT_NONE, PEFT_LORA, PEFT_PROMPT, PEFT_PREFIX };

/* What adapter_config.json says. */
struct peft_config {
    enum peft_method method; /* PEFT_NONE: there is no such file */
    /* LORA */
    uint32_t rank;
    double alpha;
    bool rslora;
    const struct json *rank_pattern, *alpha_pattern; /* objects, or NULL */
    /* PROMPT, PREFIX; 0: not said */
    uint32_t n_virtual, token_dim, n_layers, n_heads;
};

struct adapter_reader {
    struct infer_adapter *a;
    const infer_source *source;
    int32_t map;
    const infer_cancel *cancel;
    infer_error *err;
    struct arena temp; /* until the open ends: the tree of the JSON */
    struct peft_config config;
};

/* Fails with the name of a key or tensor. Codes: st. */
#define ADAPTER_FAIL(r, st, name, ...) err_at((r)->err, st, name, strlen(name), ERR_NO_OFFSET, __VA_ARGS__)

/* Parses adapter_config.json into r->config (r->temp holds the tree) and a->base, a->invocation. Errors: SYNTAX, and UNSUPPORTED or VALUE by key. */
infer_status peft_config_read(struct adapter_reader *r, const char *text, size_t len);
/* Rank and alpha of the module of this name, "model.layers.0.self_attn.q_proj". Errors: VALUE, UNSUPPORTED (a pattern). */
infer_status peft_config_of(struct adapter_reader *r, const char *module, uint32_t *rank, double *alpha);

/* Whether PEFT's re.match(rf"(.*\.)?({pattern})$", name) matches. Understood: characters, '.', '\.', '\d', '\w', [classes], '^', '$', and
 * '*', '+', '?' after a single one. UNSUPPORTED: anything else, or too many steps. */
infer_status peft_pattern_match(const char *pattern, size_t len, const char *name, bool *out);

#define ADAPTER_NAME_MAX 64 /* bytes of a GGUF name made here, with its zero */
/* The GGUF name of the matrix of a Hugging Face module: "model.layers.3.self_attn.q_proj" -> "blk.3.attn_q.weight". False: not known. */
bool adapter_hf_name(const char *module, size_t len, char out[ADAPTER_NAME_MAX], uint32_t *layer);
#define ADAPTER_BIG (UINT32_MAX - 1) /* a number that does not fit: no layer, but not ADAPTER_NO_LAYER either */
/* N of "blk.N.": false for other names. */
bool adapter_layer_of(const char *name, size_t len, uint32_t *layer);
/* Decimal digits at the start of s; ADAPTER_BIG when they do not fit. *used: how many bytes; 0: none. */
uint32_t adapter_number(const char *s, size_t len, size_t *used);

/* The readers of each kind: they fill r->a. */
infer_status adapter_read_gguf_lora(struct adapter_reader *r);
infer_status adapter_read_peft_lora(struct adapter_reader *r);
bool adapter_has_directions(const struct infer_file *f);
infer_status adapter_read_steering(struct adapter_reader *r);
infer_status adapter_read_rows(struct adapter_reader *r); /* soft prompt or prefix, as r->config has it */

/* A tensor as a matrix; n_rows * n_cols of it begin at row `first`. Its type must be F32, F16 or BF16, or, with `any`, one with decoders. */
infer_status adapter_matrix_of(struct adapter_reader *r, const struct file_tensor *t, uint64_t first, uint64_t n_rows, bool any,
                               struct adapter_matrix *out);
/* Every number is finite (of quantised types nothing is looked at), and what it is as 128 bits. VALUE with this tensor's name. */
infer_status adapter_digest(struct adapter_reader *r, const struct adapter_matrix *m, const char *name, struct hash_128 *out);
/* Fills a->hash from the lists: the last step. */
infer_status adapter_hash(struct adapter_reader *r);

#endif
