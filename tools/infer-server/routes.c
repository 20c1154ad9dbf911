/* What is served where: each endpoint's file has its own table. */
#include "http.h"

extern const struct route health_routes[];

const struct route *const route_tables[] = {
    health_routes,
    NULL,
};
