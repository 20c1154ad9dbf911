/* Closeness to text and to reference logits: --ppl, --kl, --save-logits. */
#ifndef BENCH_QUALITY_H
#define BENCH_QUALITY_H

#include "bench.h"

/* Perplexity of o->ppl. */
int quality_ppl(const struct options *o);
/* KL divergence from the reference o->kl. */
int quality_kl(const struct options *o);
/* Logits of the text o->text into o->save_logits. */
int quality_save(const struct options *o);

#endif
