/* The device seam. lib/model expresses a forward pass as the operations below on buffers (handle and byte offset), never on
 * pointers; a device carries them out. Only the device knows where its memory is. The CPU device is cpu_device.c; tests wrap
 * a device to record and check what the model asks for.
 *
 * Operations take effect in the order of the calls. They return nothing: a failure (no memory for scratch, a lost device) is
 * sticky, later operations do nothing, and `sync` reports and clears it. One thread at a time uses a device (the engine's lock),
 * except `alloc`, `import` and `free`, which any thread may call at any time.
 *
 * Matrices are row-major. "Rows" of activations are elements (tokens) of a batch; all activations are f32. */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H

#include <stdbool.h>

#include "base/err.h"

struct dev_buffer;

struct dev_ref {
    struct dev_buffer *buf; /* NULL: absent, where an operation allows that */
    uint64_t off;           /* bytes */
};

static inline struct dev_ref dev_at(struct dev_ref r, uint64_t bytes)
{
    r.off += bytes;
    return r;
}

/* A weight matrix [n_out][n_in] as the file stores it. n_in is a multiple of the type's block. */
struct dev_weight {
    struct dev_ref data;
    int32_t type; /* INFER_TYPE_* */
    uint32_t n_in, n_out;
    uint64_t row_bytes;
};

/* dst[r][o] += sum over i of src[r][i] * w[o][i], for the rows [row, row + n_row) of a matmul that has it: the second half of a low-rank product. */
struct dev_addend {
    struct dev_weight w; /* n_out is that of the matmul; n_in at most DEV_MAX_ADDEND; F32, F16 or BF16 */
    struct dev_ref src;  /* row r of the matmul is row r here */
    uint32_t src_stride; /* floats */
    uint32_t row, n_row;
};
#define DEV_MAX_ADDEND 4096u

/* dst[r][o] = sum over i of src[r][i] * w[o][i] (+ bias[o]), then times scale, then the addends, in order. */
struct dev_matmul {
    struct dev_weight w;
    struct dev_ref bias;  /* f32 [n_out], or absent */
    struct dev_ref dst;
    uint32_t dst_stride;  /* floats between rows of dst */
    float scale;          /* 0: none */
    uint32_t row, n_row;  /* only these rows of the call; n_row 0: all */
    uint32_t n_addends;
    const struct dev_addend *addends; /* host memory */
};

/* Changes rows along one direction. ADD: x[r] += factor * v. PROJECT: x[r] -= factor * (x[r] . v) * v; v is a unit vector then. */
enum dev_steer_kind { DEV_STEER_ADD, DEV_STEER_PROJECT };
struct dev_steer {
    enum dev_steer_kind kind;
    struct dev_ref x, v; /* [n_row][width], [width] */
    uint32_t n_row, width;
    float factor;
};

/* Rows of several groups of the same size: row r of group g lies at src + g * group_stride + r * row_stride floats. Counted through, it is row
 * g * n_row + r. */
struct dev_rows {
    struct dev_ref src;
    uint32_t n_group, n_row; /* of a group */
    uint32_t group_stride, row_stride;
};

/* dst[r] = w * row (first_row + r), for n_row rows of one group. */
struct dev_part {
    struct dev_weight w;
    struct dev_ref dst;
    uint32_t dst_stride; /* floats between rows of dst */
    uint32_t first_row, n_row;
};

/* dst[r] = (add: dst[r] * dst_weights[r]) + the sum over k < n_each, in this order from k = 0, of weights[r * n_each + k] * src[rows[r * n_each + k]]:
 * each product and each sum is rounded, the sum first, then added to the product of dst. Rows of src are `width` floats, packed as dst's are; each is
 * named once at most, and is undefined afterwards. */
struct dev_combine {
    struct dev_ref dst, src;
    uint32_t n_row, n_each, width;
    const uint32_t *rows;     /* host memory, [n_row][n_each] */
    const float *weights;     /* host memory, [n_row][n_each] */
    bool add;
    const float *dst_weights; /* host memory, [n_row]; NULL: 1 */
};

enum dev_norm_kind { DEV_NORM_RMS, DEV_NORM_LAYER };

/* dst[r] = norm(src[r]) * weight (+ bias), over n_row rows of `width` floats. Rows come in n_outer groups of n_inner:
 * row (o, i) begins at src + o * stride + i * width floats (so that heads inside a wider row are normalised in place).
 * With add: src[r] += add[r] first, which changes src. */
struct dev_norm {
    enum dev_norm_kind kind;
    struct dev_ref dst, src;     /* the same or disjoint */
    struct dev_ref weight, bias; /* f32 [width]; bias may be absent, and is not with weight_stride */
    uint32_t n_outer, n_inner, width;
    uint32_t dst_stride, src_stride; /* floats between outer rows */
    float eps;
    struct dev_ref add; /* laid out as src; or absent. May be dst */
    uint32_t weight_stride; /* floats between the weights of a group's inner rows; 0: all have the same */
};

enum dev_rope_kind {
    DEV_ROPE_PAIRS, /* rotates (x[2i], x[2i+1]) */
    DEV_ROPE_HALVES /* rotates (x[i], x[i + n_rot/2]): "neox" */
};

/* x[r][h][0 .. n_rot) is rotated in place by table[r]; the rest of a head is left alone. */
struct dev_rope {
    enum dev_rope_kind kind;
    struct dev_ref x;
    struct dev_ref table; /* f32 [n_row][n_rot/2][2]: cos, sin */
    uint32_t n_row, n_head, head_dim, n_rot;
    uint32_t stride; /* floats between rows of x */
};

enum dev_act { DEV_ACT_SILU, DEV_ACT_GELU_TANH, DEV_ACT_GELU_ERF, DEV_ACT_RELU, DEV_ACT_RELU2 };

#define DEV_KV_PAGE 64u /* positions in a KV page: a constant of the numerics version */

/* Where a layer's keys and values lie inside a KV page, and how. For each KV head h:
 * K transposed [head_dim][64] at k_off + h * dev_kv_head_bytes, V [64][head_dim] at v_off + h * dev_kv_head_bytes.
 * INT8, INT8_64: groups of 32 or 64 dimensions of a position's head share a scale; behind a head's codes f16 scales, [groups][64] for both. */
struct dev_kv {
    int32_t type; /* INFER_KV_F16 .. INFER_KV_INT8_64 */
    uint32_t n_head_kv, head_dim;
    uint64_t k_off, v_off; /* bytes from the start of the page, multiples of 64 */
};

/* v_off == k_off: values are the keys, which are stored once, as keys are: kv_write and kv_move leave values alone, attention reads keys for both. */
static inline bool dev_kv_is_shared(const struct dev_kv *kv)
{
    return kv->v_off == kv->k_off;
}

#define DEV_KV_MIN_GROUP 32u

/* Dimensions of a head that share a scale; 0: the type has no scales. */
static inline uint32_t dev_kv_group(int32_t type)
{
    return type == INFER_KV_INT8 ? DEV_KV_MIN_GROUP : type == INFER_KV_INT8_64 ? 64u : 0;
}

/* Scales of one position's key, or value. */
static inline uint32_t dev_kv_groups(int32_t type, uint32_t head_dim)
{
    uint32_t group = dev_kv_group(type);
    return group ? (head_dim + group - 1) / group : 0;
}

static inline uint32_t dev_kv_elem_bytes(int32_t type)
{
    return dev_kv_group(type) ? 1 : type == INFER_KV_F32 ? 4 : 2;
}

/* Bytes of a head's keys, or values, in a page: a multiple of 64. */
static inline uint64_t dev_kv_head_bytes(int32_t type, uint32_t head_dim)
{
    return DEV_KV_PAGE * ((uint64_t)head_dim * dev_kv_elem_bytes(type) + dev_kv_groups(type, head_dim) * 2ull);
}

/* A run of batch rows that belong to one sequence: rows [row, row + n_row) are its elements [index, index + n_row). */
struct dev_seq {
    uint32_t row, n_row;
    uint64_t index;
    const struct dev_ref *pages; /* of element e: pages[e / 64]; those that no query of this call sees may be absent */
};

/* Keys and values of a mixed session, which lie in pages twice: of all elements in a coarse type, and of those that late queries see near them
 * in an exact one. Row r reads pages[r] (a page's number) and those above it from here; it does not decrease within a sequence. */
struct dev_exact {
    struct dev_kv kv;
    const struct dev_seq *seqs; /* as those of the call, each with its pages of this type */
    const uint64_t *pages;      /* host memory, [n_row]; NULL: there is no such type */
};

/* Query row r sees the elements lo[r] <= e < hi[r] of its sequence, at least one. dst and q: [n_row][n_head][head_dim]. Query head h reads KV head
 * h / (n_head / n_head_kv). softcap 0: none; else scores become softcap * tanh(score / softcap). */
struct dev_attention {
    struct dev_ref dst, q;
    uint32_t q_stride, dst_stride; /* floats between rows */
    uint32_t n_head;
    float scale, softcap;
    struct dev_kv kv;
    const struct dev_seq *seqs;
    uint32_t n_seq;
    const uint64_t *lo, *hi; /* host memory, [n_row] */
    struct dev_exact exact;
};

/* The keys and values of elements [src, src + n) of one sequence become those of [dst, dst + n) of another, whose pages are not the same. Keys
 * move to positions `delta` further: they are widened to f32, rotated by |delta| * inv_freq forwards or back (as rope_table and rope do it, without
 * mscale) and rounded to the KV type again. With delta 0, and values always, the stored bits are copied. */
struct dev_kv_move {
    struct dev_kv kv;
    enum dev_rope_kind kind;
    uint32_t n_rot;          /* even, at most head_dim */
    struct dev_ref inv_freq; /* f32 [n_rot / 2] */
    int64_t delta;           /* below 2^32 either way */
    const struct dev_ref *src_pages, *dst_pages; /* of element e: pages[e / 64] */
    uint64_t src, dst, n;
};

#define DEV_READ_ROWS 16u

struct device;

typedef bool (*dev_stop_fn)(void *user);

struct device_ops {
    const char *name;
    void (*destroy)(struct device *d);
    /* Memory of the device, aligned to 64, contents undefined. */
    infer_status (*alloc)(struct device *d, uint64_t bytes, struct dev_buffer **out, infer_error *err);
    /* A view of host memory that outlives the buffer and does not change (mapped weights). */
    infer_status (*import)(struct device *d, const void *host, uint64_t bytes, struct dev_buffer **out, infer_error *err);
    void (*free)(struct device *d, struct dev_buffer *buf); /* buf may be NULL */

    void (*write)(struct device *d, struct dev_ref dst, const void *host, uint64_t bytes);
    void (*read)(struct device *d, void *host, struct dev_ref src, uint64_t bytes);
    /* host[i] = src[i], n_row rows (at most DEV_READ_ROWS) of `width` floats, packed. finite[i]: whether all of row i are. */
    void (*read_rows)(struct device *d, float *const *host, struct dev_ref src, uint32_t n_row, uint32_t width, bool *finite);
    void (*copy)(struct device *d, struct dev_ref dst, struct dev_ref src, uint64_t bytes);
    /* n_row rows of `width` floats, strides in floats; dst and src do not overlap. */
    void (*copy_rows)(struct device *d, struct dev_ref dst, uint32_t dst_stride, struct dev_ref src, uint32_t src_stride, uint32_t n_row,
                      uint32_t width);

    /* dst[r] = w.row(ids[r]) * scale, decoded to f32; with add: dst[r] += it. ids [n_row] host memory, each < w.n_out. */
    void (*embed)(struct device *d, struct dev_ref dst, const struct dev_weight *w, const uint32_t *ids, uint32_t n_row,
                  float scale, int add);
    void (*norm)(struct device *d, const struct dev_norm *op);
    /* Several products of the same src [n_row][src_stride], so that it is quantised once; all have the same n_in. */
    void (*matmul)(struct device *d, struct dev_ref src, uint32_t src_stride, uint32_t n_row, const struct dev_matmul *ops,
                   uint32_t n_ops);
    /* Products of some of the rows each; all have the same n_in. dst and src do not overlap. */
    void (*matmul_parts)(struct device *d, const struct dev_rows *src, const struct dev_part *parts, uint32_t n_parts);
    void (*combine)(struct device *d, const struct dev_combine *op);
    /* Advice: these bytes of an imported buffer will be read soon. */
    void (*will_need)(struct device *d, struct dev_ref ref, uint64_t bytes);
    /* table[r][i] = cos, sin of positions[r] * inv_freq[i], times mscale. positions [n_row] host memory; inv_freq f32 [n_half]. */
    void (*rope_table)(struct device *d, struct dev_ref table, struct dev_ref inv_freq, uint32_t n_half,
                       const uint32_t *positions, uint32_t n_row, float mscale);
    void (*rope)(struct device *d, const struct dev_rope *op);
    /* Rounds k, v [n_row][n_head_kv][head_dim] (rows k_stride, v_stride floats apart) to the KV type and stores them. */
    void (*kv_write)(struct device *d, const struct dev_kv *kv, struct dev_ref k, uint32_t k_stride, struct dev_ref v,
                     uint32_t v_stride, const struct dev_seq *seqs, uint32_t n_seq);
    void (*attention)(struct device *d, const struct dev_attention *op);
    void (*kv_move)(struct device *d, const struct dev_kv_move *op);
    /* dst[r][i] = act(gate[r][i]) * up[r][i]; up absent: act alone. All with the same stride. dst may be gate. */
    void (*act)(struct device *d, enum dev_act act, struct dev_ref dst, struct dev_ref gate, struct dev_ref up,
                uint32_t n_row, uint32_t width, uint32_t stride);
    void (*add)(struct device *d, struct dev_ref dst, struct dev_ref src, uint64_t n); /* dst += src, n floats */
    void (*scale)(struct device *d, struct dev_ref x, uint64_t n, float factor);
    void (*softcap)(struct device *d, struct dev_ref x, uint64_t n, float cap); /* x = cap * tanh(x / cap) */
    void (*steer)(struct device *d, const struct dev_steer *op);
    /* dst[i] = src[rows[i]], rows of `width` floats, both packed. rows [n] host memory. */
    void (*gather)(struct device *d, struct dev_ref dst, struct dev_ref src, const uint32_t *rows, uint32_t n,
                   uint32_t width);
    /* Waits for all operations; the first failure since the last sync. */
    infer_status (*sync)(struct device *d, infer_error *err);
    /* From now on `stop` is asked between the pieces of operations, by any thread that works on them. Once it has said yes, what is left of the
     * operations until the next sync is not done, and that sync says CANCELLED. NULL: nobody is asked. */
    void (*watch)(struct device *d, dev_stop_fn stop, void *user);
    /* Asks it, for work of the host's between operations. */
    bool (*stopped)(struct device *d);
};

struct device {
    const struct device_ops *ops;
};

struct budget;
struct cpu_device_options {
    int32_t cpu;      /* INFER_CPU_* */
    int32_t numerics; /* INFER_NUMERICS_* */
    uint32_t threads; /* at least 1 */
    const infer_executor *executor; /* NULL: own threads; else used instead of them, copied */
    struct budget *plan; /* not NULL: buffers are counted in it and not made, and nothing is computed: for an estimate */
};

struct alloc;
/* UNSUPPORTED: the machine or the build lacks that CPU variant. */
infer_status cpu_device_create(const struct alloc *alloc, const struct cpu_device_options *options, struct device **out,
                               infer_error *err);
/* The INFER_CPU_* that a CPU device uses; of another kind of device INFER_CPU_AUTO. */
int32_t cpu_device_level(const struct device *d);
struct pool;
/* The pool that a CPU device computes with; NULL: another kind of device. For the thread that may use the device. */
struct pool *cpu_device_pool(struct device *d);
/* Can a matrix of this INFER_TYPE_* take part in matmul? (embed takes every type.) */
bool cpu_device_can_multiply(int32_t type);

/* attention, kv_write and kv_move: head_dim is a multiple of DEV_HEAD_DIM_STEP, at most DEV_MAX_HEAD_DIM; n_head is a multiple of n_head_kv. */
#define DEV_HEAD_DIM_STEP 8u
#define DEV_MAX_HEAD_DIM 1024u

#endif
