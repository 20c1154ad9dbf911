/* --warm: prompts that are computed before the first request comes. They lie in the prefix cache, which children of --isolate fork share. */
#ifndef SERVER_WARM_H
#define SERVER_WARM_H

#include "server.h"

struct text_list;
struct warm {
    const struct text_list *files;
    infer_session **sessions; /* a prompt each */
};
/* Reads them: before the sandbox closes the file system. false after a message on standard error; warm_free all the same. */
bool warm_read(struct server *server, struct warm *warm);
bool warm_compute(struct warm *warm); /* uses the library's threads: after the sandbox */
void warm_free(struct warm *warm);

#endif
