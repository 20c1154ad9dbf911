/* Golden files: a prompt, its logits and its greedy continuation as an outside implementation computed them. The format is told in
 * tests/data/fixtures/README.md. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <stdint.h>

struct golden {
    uint32_t n_prompt, n_vocab, n_greedy;
    int has_experts; /* there is a NAME.experts too */
    const int32_t *prompt, *greedy; /* point into data */
    const float *logits;            /* [n_prompt][n_vocab] */
    char *data;                     /* malloc'ed */
};

/* Of tests/data/fixtures/NAME.golden; fails the test when it cannot be read. */
struct golden golden_read(const char *name);
void golden_free(struct golden *g);

/* Every fixture with F32 weights, and every quantised one (which has a -f32 twin). NULL-terminated. */
extern const char *const golden_f32[];
extern const char *const golden_quantised[];

/* "…/tests/data/fixtures/NAME.gguf" in a static buffer. */
const char *fixture_path(const char *name);

#endif
