/* GET /health and /metrics. */
#include "call.h"
#include "metrics.h"

static void health(struct server *server, struct call *call)
{
    call_json(call, 200, json_pack("{s:s,s:s}", "status", "ok", "model", server->name));
}

static void metrics(struct server *server, struct call *call)
{
    struct bytes text = {0};
    metrics_text(server, &text);
    if (text.failed)
        call_error(call, 500, NULL, NULL, NULL, "out of memory");
    else
        call_bytes(call, 200, "text/plain; version=0.0.4; charset=utf-8", text.data, text.len);
    bytes_free(&text);
}

const struct route health_routes[] = {
    {"GET", "/health", API_NATIVE, ROUTE_OPEN | ROUTE_NO_BODY | ROUTE_QUICK, health},
    {"GET", "/metrics", API_NATIVE, ROUTE_NO_BODY, metrics},
    {0},
};
