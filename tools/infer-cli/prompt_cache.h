/* --prompt-cache FILE: the state of an earlier run is mapped and goes on where the new prompt agrees with it.
 *
 * FILE is the first state that was kept. What later runs add is kept in FILE.delta, which has only the pages that FILE lacks; each run
 * replaces it. When a run's state is FILE's and at least as much again, it becomes the new FILE. So whatever FILE holds is never lost to another
 * prompt, and saving writes what is new. A FILE that cannot be read, or is another model's, is left alone. */
#ifndef CLI_PROMPT_CACHE_H
#define CLI_PROMPT_CACHE_H

#include "cli.h"

struct prompt_cache {
    bool on;             /* the state is to be kept at the end */
    int32_t *base;       /* FILE's tokens; NULL: there is no FILE yet */
    uint64_t base_count;
};

/* Gives the empty session what is stored of these ids. Trouble is a remark on standard error, not a failure. */
void prompt_cache_take(struct prompt_cache *p, struct cli *c, const int32_t *ids, uint64_t count);
/* Keeps the session's state, if it has anything new. */
void prompt_cache_keep(const struct prompt_cache *p, struct cli *c);
void prompt_cache_free(struct prompt_cache *p);

#endif
