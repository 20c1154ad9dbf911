/* Finding and opening the model. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "cli.h"

/* Sets c->model_path: -m, else the cached default model, else the bundled one. An exit code. */
int cli_model_find(struct cli *c);
/* Opens engine, model and session with the command line's settings. An exit code. */
int cli_model_open(struct cli *c);
void cli_model_close(struct cli *c);

#endif
