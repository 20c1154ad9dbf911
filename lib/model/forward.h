/* The forward pass: one batch of elements, of any number of sequences, through a network. */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include "model/net_adapter.h"

/* An element given as an embedding row instead of a token id. */
struct batch_embedding {
    uint32_t row;
    const float *data; /* [n_embd] */
};

/* Rows [row, row + n_row) of a batch have these adapters in force. Runs ascend and do not overlap; rows in none have no adapter. */
struct batch_run {
    uint32_t row, n_row;
    const struct net_adapter_use *uses; /* in the order in which they are applied */
    uint32_t n_uses;
};

/* Hidden states that the host wants of some rows, in one or more places. */
struct batch_tap {
    const uint32_t *rows;  /* [n_row] of the batch */
    uint32_t n_row, n_place;
    const int32_t *places; /* [n_place] layers: the residual stream behind them; or INFER_HIDDEN_* */
    float *out;            /* [n_row][n_place][n_embd] */
    bool finite;           /* result: whether all of them are */
};

/* Host memory throughout; sizes by n_row unless said. */
struct batch {
    uint32_t n_row;
    const uint32_t *ids;       /* token ids; of embedding rows any valid id */
    const uint32_t *positions; /* for rope or learned positions */
    const struct batch_embedding *embeddings;
    uint32_t n_embeddings;
    int32_t kv_type;
    const struct dev_seq *seqs[NET_KV_GROUPS]; /* [n_seq]: the same rows, each group's pages */
    uint32_t n_seq;
    const uint64_t *lo[NET_LAYER_GROUPS]; /* first element that a row sees */
    const uint64_t *hi[NET_LAYER_GROUPS]; /* one past the last: its own, in causal models */
    const uint64_t *exact_pages;       /* of mixed types: net_kv_exact_page */
    const uint32_t *out_rows;          /* [n_out] rows whose logits are wanted */
    float *const *out;                 /* [n_out] each n_logits floats */
    bool *finite;              /* [n_out] result: whether all logits of the row are */
    uint32_t n_out;
    const struct batch_run *runs;
    uint32_t n_runs;
    struct batch_tap *taps;
    uint32_t n_tap;
    bool one_layer; /* pages have room for one layer: the one that is being computed (see encode) */
};

/* For what adapters need: t, device memory f32 [rows][stride], and lists for the device's calls. */
struct adapter_workspace {
    struct dev_buffer *t;
    uint64_t bytes;
    uint32_t stride; /* of the present batch */
    struct dev_matmul *ops;     /* [room] */
    struct dev_addend *addends; /* [room] */
    uint64_t room;
};
/* Grows w for the runs of b. */
infer_status adapter_workspace_fit(struct adapter_workspace *w, const struct net *net, const struct batch *b, infer_error *err);
void adapter_workspace_free(struct adapter_workspace *w, struct device *dev, const struct alloc *a);

/* Host memory for the routing of a batch to experts; arrays in one block. r: rows of the batch, k: experts used. */
struct routing {
    const struct alloc *alloc; /* NULL: nothing yet */
    void *block;
    size_t bytes;
    uint32_t rows;          /* of the batch that it is laid out for */
    float *products;        /* [r][n_expert + 1]: the router's, and the shared expert's */
    float *weights;         /* [r][k] */
    float *shared;          /* [r] */
    uint32_t *place;        /* [r][k]: which of the experts' rows */
    uint32_t *row_of;       /* [r * k]: the batch's row that this one of the experts' rows is */
    struct dev_part *parts; /* [2 * n_expert] */
    uint16_t *chosen;       /* [n_layer][r][k]: of the last batch, by rank; a row of a layer without experts is undefined */
};

/* Device memory for activations, for one batch of at most `rows` elements. Reused from batch to batch. */
struct workspace {
    struct dev_buffer *buf;
    uint64_t bytes;
    /* offsets into buf of f32 matrices */
    uint64_t x, h, n, q, k, v, a, g, u, rope[NET_LAYER_GROUPS], picked, tapped, logits, pages;
    uint64_t experts, products; /* [rows * n_expert_used][n_embd], [rows][n_expert + 1] */
    uint64_t heads, narrow; /* of latent attention */
    struct routing routing;
    struct adapter_workspace adapt; /* used where a batch has runs: the caller fits it */
};

/* Most rows of logits that are computed at once: bounds the workspace for large vocabularies. */
#define LOGIT_ROWS DEV_READ_ROWS

/* Grows ws to fit; keeps its contents undefined. */
infer_status workspace_fit(struct workspace *ws, const struct net *net, uint32_t rows, infer_error *err);
void workspace_free(struct workspace *ws, struct device *dev);
/* What workspace_fit takes for that. UINT64_MAX: more than can be counted. */
uint64_t workspace_bytes(const struct net *net, uint32_t rows);

/* Writes rows [first, ..) of a prefix to the pages of one sequence's elements: seqs [NET_KV_GROUPS], each of these rows alone. */
void prefix_write(const struct net *net, const struct net_adapter *a, uint32_t first, int32_t kv_type, const struct dev_seq *seqs);

/* Computes the batch: keys and values go to the pages, logits to out. On any failure, which may be that the device was stopped (see
 * device_ops.watch), out and the pages' new elements are undefined, and nothing else has changed. */
infer_status forward(const struct net *net, struct workspace *ws, const struct batch *b, infer_error *err);

/* A text for an encoder. */
struct encode_text {
    const uint32_t *ids; /* [n], n at least 1 */
    uint32_t n;
    float *out;          /* [n][n_embd]: its last hidden states */
    bool finite;         /* result */
};

/* Rows that go through a layer together: bounds the workspace. */
#define ENCODE_ROWS 256u

/* Runs texts through an encoder. Every text sees itself only: neither what it is computed with nor how it is cut changes a bit.
 * Memory: for each element three rows of activations, and one layer's keys and values in f32. */
infer_status encode(const struct net *net, struct workspace *ws, struct encode_text *texts, uint32_t n, infer_error *err);
/* What encode takes for n_text texts of n_row elements in n_page pages. */
struct encode_bytes {
    uint64_t workspace; /* UINT64_MAX: more than can be counted */
    uint64_t kv;        /* of the workspace: keys and values of a layer */
    uint64_t lists;     /* while it runs */
};
struct encode_bytes encode_bytes(const struct net *net, uint64_t n_row, uint64_t n_page, uint32_t n_text);
/* The matrices behind the pooling, if there are any: in [n_embd] to out [net_embedding_width]. */
infer_status encode_dense(const struct net *net, struct workspace *ws, const float *in, float *out, infer_error *err);

#endif
