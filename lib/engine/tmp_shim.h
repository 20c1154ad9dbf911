#include "base/hash.h"
#include "formats/file.h"
struct model_fingerprint { struct hash_128 model[2], tokenizer; };
static inline infer_status model_quick_fingerprint(infer_model *m, struct model_fingerprint *out, infer_error *err)
{
    (void)err;
    *out = (struct model_fingerprint){{{m->file->n_tensors, m->net->h.n_layer}}};
    return INFER_OK;
}
static inline infer_status kv_pages_ready(struct kv_page *const *p, uint64_t n, infer_error *err) { (void)p; (void)n; (void)err; return INFER_OK; }
static inline infer_status kv_seq_ready(const struct kv_seq *s, infer_error *err) { (void)s; (void)err; return INFER_OK; }
static inline void net_kv_blank(const void *n, int32_t t, uint32_t g, void *d, uint32_t u) { (void)n; (void)t; (void)g; (void)d; (void)u; }
