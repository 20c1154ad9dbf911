/* The rotation frequencies of RoPE and its context extensions. */
#ifndef MODEL_ROPE_FREQS_H
#define MODEL_ROPE_FREQS_H

#include "model/arch.h"

/* inv_freq [n_rot / 2]: radians per position, computed in double and rounded once. factors: f32 [n_rot / 2] divisors (Llama 3, LongRoPE), or NULL. local:
 * for layers with a sliding window, which have their own base when it differs and are then never extended. *mscale scales cos and sin. */
void rope_frequencies(const struct hparams *h, const float *factors, bool local, float *inv_freq, float *mscale);

#endif
