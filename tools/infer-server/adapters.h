/* Adapters by name: --lora, --steer, POST /lora/load. */
#ifndef SERVER_ADAPTERS_H
#define SERVER_ADAPTERS_H

#include "server.h"

struct adapter_list;
struct adapter_list *adapters_create(void);
void adapters_free(struct adapter_list *list);
/* Opens FILE under NAME. Errors: also EXISTS. */
infer_status adapters_load(struct server *server, const char *name, const char *path, infer_error *err);
infer_status adapters_unload(struct server *server, const char *name, infer_error *err); /* requests that use it go on */
infer_adapter *adapters_find(struct server *server, const char *name); /* a reference; NULL: none */
json_t *adapters_json(struct server *server);                          /* [{name, kind, ...}] in order of names */

#endif
