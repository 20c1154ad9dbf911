/* One answer: feeding the session and streaming what the model says. */
#ifndef CLI_GENERATE_H
#define CLI_GENERATE_H

#include "cli.h"
#include "text.h"

struct answer {
    struct text text;
    bool interrupted;
    int32_t finish;             /* INFER_FINISH_*, 0 when interrupted */
    uint64_t prompt_tokens;     /* all of the prompt */
    uint64_t computed_tokens;   /* of them computed now; the rest was there from the turn before */
    uint64_t completion_tokens;
    double prompt_s, gen_s;     /* until the first token; from then to the end */
};

/* Makes the session hold exactly these ids, reusing what it has computed of them, and generates. Text or JSON lines go to standard
 * output unless quiet. An exit code: EXIT_OK also when interrupted (a->interrupted tells). */
int generate(struct cli *c, infer_session *session, const int32_t *ids, uint64_t count, uint64_t max_tokens, bool quiet,
             struct answer *a);
/* The figures of an answer, NULL when there is none yet, and of the session on standard error. */
void show_stats(const struct cli *c, const struct answer *a);

#endif
