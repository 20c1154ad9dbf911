/* The reader of PyTorch's files (.bin, .pt, .pth: zip archives since 1.6). Format: torch/serialization.py of PyTorch: a pickle that describes
 * tensors, and an entry of numbers for each storage. */
#ifndef FORMATS_TORCH_H
#define FORMATS_TORCH_H

#include "formats/file.h"

/* By content: a zip archive. */
bool torch_is(const struct blob *blob);

/* Reads an archive that torch.save wrote, or a zip archive of one safetensors file; takes the blob over, also on failure. Names of tensors in
 * nested dictionaries and lists are joined by dots; what is no tensor is left out. Contiguous tensors are used in place, and two that
 * share a storage share the bytes; others are copied into a part of the file's own. Memory for the rest is at most about 200 times the
 * pickle's size. */
infer_status torch_open(const struct env *env, const char *name, size_t name_len, struct blob *blob, const infer_cancel *cancel,
                        struct infer_file **out, infer_error *err);

#endif
