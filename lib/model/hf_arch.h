/* How the folders of an architecture read: its keys in config.json and its tensors, as tables. */
#ifndef MODEL_HF_ARCH_H
#define MODEL_HF_ARCH_H

#include <stddef.h>

#include "formats/file.h"

struct hf_reader;

enum hf_key_kind {
    HF_U32,
    HF_F32,
    HF_BOOL,
    HF_TRUE,  /* nothing is written: the value must be true where it is given */
    HF_FALSE, /* it must be false (or null, or 0) where it is given */
    HF_ONE_OF /* it must be one of the names in `gguf`, separated by '|' */
};

/* One key of config.json, and the metadata key that it becomes: ".block_count" stands for "llama.block_count". */
struct hf_key {
    const char *hf; /* "n_embd|hidden_size": the first that is there and not null */
    const char *gguf;
    uint8_t kind; /* enum hf_key_kind */
    bool required;
    double absent; /* written when the key is not there; 0: nothing is */
};

enum hf_how {
    HF_PLACE,     /* used where it lies, under the new name */
    HF_SKIP,      /* of no use: buffers, other modalities */
    HF_HEAD,      /* as HF_PLACE, but skipped when the output matrix is tied to the embeddings */
    HF_PLUS_ONE,  /* f32: the value + 1 (Gemma's norms) */
    HF_TRANSPOSE, /* a matrix stored [in][out] (GPT-2's Conv1D) */
    HF_STACK      /* f32: a row, the second number of the name, of a matrix of that name; it has one for each head or fewer */
};

/* One tensor, without the prefixes (hf_arch.prefixes). %u stands for a number, of which there may be two: layer and expert; they come in the
 * same order in `gguf`. A trailing '*' stands for anything, for HF_SKIP. The first entry that matches is taken; a tensor that none matches is
 * refused. */
struct hf_tensor {
    const char *hf;
    const char *gguf;
    uint8_t how; /* enum hf_how */
};

struct hf_arch {
    const char *model_type;                 /* of config.json; "a|b": either */
    const char *arch;                       /* general.architecture */
    const struct hf_key *const *keys;       /* lists, each up to an entry whose hf is NULL; the list of lists ends with NULL */
    const struct hf_tensor *const *tensors; /* likewise */
    bool untied;                            /* the output matrix is not the embeddings unless the file says so */
    bool no_rope;                           /* positions are not rotated */
    double rotary_part;                     /* partial_rotary_factor, when the file does not say; 0: all of a head */
    const char *prefixes;                   /* NULL: "model.|transformer.|language_model." */
    infer_status (*more)(struct hf_reader *r); /* what no table says; may be NULL */
};

/* To add an architecture: tables and a descriptor in a list of your own, and the list's line in hf_find (hf_archs.c). */
struct hf_arch_list {
    const struct hf_arch *archs;
    size_t n;
};
extern const struct hf_arch_list hf_moe;
extern const struct hf_arch_list hf_dense;
extern const struct hf_arch_list hf_encoders; /* hf_embed.c */
extern const struct hf_arch_list hf_dense_more; /* hf_archs_dense.c */

const struct hf_arch *hf_find(const char *model_type, size_t len); /* NULL: not known */

/* Lists that architectures share. */
extern const struct hf_key hf_keys_sizes[]; /* as Llama's config spells them */
extern const struct hf_key hf_keys_rms[];   /* epsilon of an RMS norm */
extern const struct hf_key hf_keys_silu[];
extern const struct hf_tensor hf_tensors_top[];   /* embeddings, final norm, head */
extern const struct hf_tensor hf_tensors_attn[];  /* q_proj ... o_proj, with biases, input_layernorm */
extern const struct hf_tensor hf_tensors_gated[]; /* gate_proj, up_proj, down_proj, post_attention_layernorm */
extern const struct hf_tensor hf_tensors_qk_norm[];

#endif
