/* An adapter as data: what changes a base model's behaviour for one session. Whatever format it came from, it is one of four kinds of
 * lists below; lib/model binds them to a network and applies them. This is also the public handle infer_adapter.
 *
 * Immutable after adapter_open, counted, shared freely. Numbers stay where the file has them (mapped, borrowed or read); they were
 * checked when it was opened: shapes agree with one another, F32, F16 and BF16 numbers are finite. That they fit a model is
 * checked by whoever binds them. */
#ifndef ADAPTERS_ADAPTER_H
#define ADAPTERS_ADAPTER_H

#include "base/hash.h"
#include "formats/file.h"

#define ADAPTER_MAX_RANK    4096u
#define ADAPTER_MAX_LAYERS  512u     /* layer numbers are below; MODEL_MAX_LAYERS */
#define ADAPTER_MAX_TARGETS ((uint64_t)1 << 18)
#define ADAPTER_MAX_ROWS    65536u   /* of a soft prompt or a prefix */
#define ADAPTER_MAX_INVOCATION 1024u /* tokens */
#define ADAPTER_NO_LAYER    UINT32_MAX

enum adapter_kind {
    ADAPTER_LORA = 1,        /* targets */
    ADAPTER_STEERING = 2,    /* directions */
    ADAPTER_SOFT_PROMPT = 3, /* rows: embeddings, put before a session's elements */
    ADAPTER_PREFIX = 4       /* rows: keys and values of every layer, put before a session's elements */
};

/* The order of rows within a head of Q and K, where a file fixes it. */
enum adapter_order {
    ADAPTER_ORDER_GGUF = 0, /* as in GGUF files of the base's architecture: of neighbouring pairs for llama, else of halves */
    ADAPTER_ORDER_HF = 1    /* as Hugging Face has it: always of halves */
};

/* Numbers of one type in rows, in place. */
struct adapter_matrix {
    const void *data; /* [n_rows][n_cols], rows follow one another without a gap */
    uint64_t n_rows, n_cols;
    uint64_t bytes;
    int32_t type;     /* INFER_TYPE_*: F32, F16, BF16; of GGUF files also other float and quantised types */
    uint32_t reserved;
};

/* y += scale * B (A x), beside the product y = W x of one matrix of the base. */
struct adapter_target {
    const char *name;   /* of W, as GGUF names it: "blk.3.attn_q.weight"; zero-terminated. An expert: "blk.3.ffn_gate.7.weight" */
    const char *stored; /* of A, as the file names it, for messages; zero-terminated */
    uint32_t layer;     /* N of blk.N; ADAPTER_NO_LAYER: output.weight */
    uint32_t rank;      /* at least 1 */
    struct adapter_matrix a; /* [rank][inputs of W] */
    struct adapter_matrix b; /* [outputs of W][rank] */
    float scale;        /* alpha / rank, or alpha / sqrt(rank) (rslora); finite. The session's own scale comes on top */
    uint32_t reserved;
};

/* One vector for the residual stream after layer `layer` (from 0), of the adapter's width. */
struct adapter_direction {
    const char *stored; /* the tensor's name, for messages; zero-terminated */
    struct adapter_matrix v; /* [1][width] */
    uint32_t layer;
    uint32_t reserved;
};

struct infer_adapter {
    struct ref ref;
    const struct env *env;    /* a reference */
    struct infer_file *file;  /* a reference; holds the numbers */
    struct arena arena;       /* names and lists */
    int32_t kind;             /* enum adapter_kind */
    int32_t order;            /* enum adapter_order, of LoRA targets and of a prefix */
    struct hash_128 hash;     /* of the content: names, shapes, types, scales and numbers, not of the file. Never 0, 0 */
    const char *arch;         /* general.architecture of the base, "" where the file does not say; zero-terminated */
    const char *base;         /* what the file calls its base model (a hub name, a path or a hint), or ""; zero-terminated */
    /* LORA: sorted by name */
    struct adapter_target *targets;
    uint64_t n_targets;
    uint32_t max_rank;        /* of all targets */
    /* aLoRA: the weights act from the first of these ids on, where they stand last in the prompt; nowhere if they are not in it. 0: everywhere */
    uint32_t n_invocation;
    const int32_t *invocation;
    /* STEERING: sorted by layer, at most one a layer */
    struct adapter_direction *directions;
    uint32_t n_directions;
    uint32_t n_layers;        /* layers of the base, where the file says (PREFIX: always); else 0 */
    uint32_t width;           /* numbers in each direction; SOFT_PROMPT: in each row, the base's n_embd */
    /* PREFIX: a row holds, for each layer, n_kv keys and then n_kv values (keys as the cache has them: rotated) */
    uint32_t n_kv;            /* n_head_kv * head_dim */
    uint32_t n_head_kv;
    /* SOFT_PROMPT [n][width], PREFIX [n][n_layers][2][n_head_kv][head_dim] */
    struct adapter_matrix rows;
    /* Set by whoever binds it to a model, before anybody else knows it; called first when the last reference goes */
    void (*unbind)(void *bound);
    void *bound;
};

/* Opens by content: a GGUF LoRA or control vector; a PEFT folder, or the adapter_model.safetensors or .bin in one (adapter_config.json is
 * opened beside it, by the source); a control vector or a soft prompt in a safetensors or torch file alone. docs/adapters.md says what is
 * taken and what is refused. Arguments as file_open.
 * Errors: those of file_open; FORMAT (half of a pair, the wrong dimensions), MISSING (adapter_config.json), UNSUPPORTED (another method, an
 * option that changes the sums, a target that is no matrix of a known name), SHAPE (A and B disagree), VALUE (rank, alpha, a number that is
 * not finite), LIMIT, SYNTAX (of the JSON). */
infer_status adapter_open(const struct env *env, const infer_source *source, int32_t map, const infer_cancel *cancel,
                          struct infer_adapter **out, infer_error *err);
struct infer_adapter *adapter_ref(struct infer_adapter *a); /* returns a */
void adapter_release(struct infer_adapter *a);              /* a may be NULL */
/* NULL: the adapter leaves this matrix as it is. name: a GGUF name. */
const struct adapter_target *adapter_find_target(const struct infer_adapter *a, const char *name);
/* CHANGED when a mapped part has become shorter (best effort). */
infer_status adapter_check(const struct infer_adapter *a, infer_error *err);

#endif
