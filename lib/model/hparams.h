/* Reads the sizes and constants of a model from its metadata, checked. */
#ifndef MODEL_HPARAMS_H
#define MODEL_HPARAMS_H

#include "formats/file.h"
#include "model/arch.h"

#define MODEL_MAX_HEADS 1024u
#define MODEL_MAX_HEAD_DIM 512u /* and a multiple of 8: what attention kernels take */
#define MODEL_MAX_WIDTH (1u << 20)
#define MODEL_MAX_VOCAB (1u << 22)

/* Everything but n_logits, n_vocab. Errors name the key: MISSING, VALUE, UNSUPPORTED. */
infer_status hparams_read(const struct infer_file *f, const struct arch *arch, struct hparams *h, infer_error *err);

#endif
