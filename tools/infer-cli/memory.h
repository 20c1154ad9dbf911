/* What a model will take: --memory, and the table of --info. */
#ifndef CLI_MEMORY_H
#define CLI_MEMORY_H

#include "cli.h"
#include "text.h"

/* With --memory: sets the context that fits, unless --ctx says one, and c->memory_limit. An exit code. */
int memory_plan(struct cli *c);
/* A table for some contexts and KV types; nothing where the model cannot be run. */
void memory_put(struct text *t, const struct options *o, const infer_source *source);
/* The same as events. */
void memory_put_json(struct text *t, const struct options *o, const infer_source *source);

#endif
