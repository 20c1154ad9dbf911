/* What tells one model file from another. Quick: everything before the first tensor's data (metadata and the directory of tensors), and samples of
 * the data; full: all of the data. 32 bytes: 16 of the head, 16 of the data. */
#include "engine/checkpoint_file.h"

#include <string.h>

#define SAMPLE ((uint64_t)256) /* bytes at either end of a tensor */
#define FULL_CHUNK ((uint64_t)16 << 20)

enum { SEED_HEAD = 1, SEED_SAMPLES, SEED_FULL, SEED_TOKENIZER };

/* Takes in one more piece of a sequence of pieces, by its hash. */
static void take_hash(struct hash_128 *h, struct hash_128 piece, uint64_t n)
{
    struct {
        struct hash_128 so_far, piece;
        uint64_t n;
    } both = {*h, piece, n};
    *h = hash_128(&both, sizeof both, 0);
}

static void take(struct hash_128 *h, const void *data, uint64_t n)
{
    take_hash(h, hash_128(data, (size_t)n, 0), n);
}

/* Bytes of a part before its first tensor's data. */
static uint64_t head_bytes(const struct infer_file *f, uint32_t part)
{
    uint64_t n = f->parts[part].size;
    for (uint64_t i = 0; i < f->n_tensors; i++)
        if (f->tensors[i].part == part && f->tensors[i].offset < n)
            n = f->tensors[i].offset;
    return n;
}

static struct hash_128 hash_heads(const struct infer_file *f)
{
    struct hash_128 h = {SEED_HEAD, f->n_parts};
    for (uint32_t i = 0; i < f->n_parts; i++)
        take(&h, f->parts[i].data, head_bytes(f, i));
    return h;
}

static struct hash_128 hash_samples(const struct infer_file *f)
{
    struct hash_128 h = {SEED_SAMPLES, f->n_tensors};
    for (uint64_t i = 0; i < f->n_tensors; i++) {
        const struct file_tensor *t = &f->tensors[i];
        const uint8_t *data = t->data;
        uint64_t n = t->bytes < SAMPLE ? t->bytes : SAMPLE;
        take(&h, data, n);
        take(&h, data + (t->bytes - n), n);
    }
    return h;
}

static infer_status hash_all(const struct infer_file *f, const infer_cancel *cancel, struct hash_128 *out, infer_error *err)
{
    struct hash_128 h = {SEED_FULL, f->n_parts};
    for (uint32_t i = 0; i < f->n_parts; i++)
        for (uint64_t at = 0; at < f->parts[i].size; at += FULL_CHUNK) {
            uint64_t left = f->parts[i].size - at, n = left < FULL_CHUNK ? left : FULL_CHUNK;
            struct hash_128 piece;
            if (!hash_128_polled(f->parts[i].data + at, (size_t)n, 0, cancel, &piece))
                return err_set(err, INFER_ERROR_CANCELLED, "cancelled while reading the model");
            take_hash(&h, piece, n);
        }
    *out = h;
    return INFER_OK;
}

/* Bytes of a value as it is stored. Arrays of arrays say nothing about text: 0. */
static uint64_t value_bytes(const struct infer_file *f, const struct file_meta *m)
{
    const struct file_value *v = &m->value;
    struct file_value last;
    if (v->type == FILE_STRING)
        return v->count;
    if (v->type != FILE_ARRAY)
        return file_type_size(v->type);
    if (v->item != FILE_STRING && v->item != FILE_ARRAY)
        return v->count * file_type_size(v->item);
    if (v->item == FILE_STRING && v->count && file_array_item(f, v, v->count - 1, &last))
        return (uint64_t)(last.data - v->data) + last.count;
    return 0;
}

static struct hash_128 hash_tokenizer(const struct infer_file *f)
{
    static const char prefix[] = "tokenizer.";
    struct hash_128 h = {SEED_TOKENIZER, 0};
    for (uint64_t i = 0; i < f->n_meta; i++) {
        const struct file_meta *m = &f->meta[i];
        if (m->key.len < sizeof prefix - 1 || memcmp(m->key.data, prefix, sizeof prefix - 1) != 0)
            continue;
        take(&h, m->key.data, m->key.len);
        take(&h, m->value.data, value_bytes(f, m));
    }
    return h;
}

static infer_status unsupported(infer_error *err)
{
    return err_set(err, INFER_ERROR_UNSUPPORTED, "this build of libinfer has no xxHash, so it makes no fingerprints");
}

infer_status model_quick_fingerprint(infer_model *m, struct model_fingerprint *out, infer_error *err)
{
    if (!hash_available())
        return unsupported(err);
    infer_status st = file_check(m->file, err);
    if (st != INFER_OK)
        return st;
    os_mutex_lock(&m->fingerprint_lock);
    if (!m->fingerprint_known) {
        m->fingerprint = (struct model_fingerprint){{hash_heads(m->file), hash_samples(m->file)}, hash_tokenizer(m->file)};
        if (net_has_long_rope(m->net))
            take(&m->fingerprint.model[0], &(uint8_t){m->net->h.rope_is_long}, 1);
        m->fingerprint_known = true;
    }
    *out = m->fingerprint;
    os_mutex_unlock(&m->fingerprint_lock);
    return INFER_OK;
}

infer_status model_full_fingerprint(infer_model *m, const infer_cancel *cancel, struct hash_128 out[2], infer_error *err)
{
    if (!hash_available())
        return unsupported(err);
    infer_status st = file_check(m->file, err);
    if (st != INFER_OK)
        return st;
    out[0] = hash_heads(m->file);
    return hash_all(m->file, cancel, &out[1], err);
}
