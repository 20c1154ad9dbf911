/* Answers: whole, in pieces, errors. Any thread. */
#include <libwebsockets.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "call.h"
#include "ws.h"

/* A client that has left so much unread is given up at the next piece: how long one piece is, is not its fault. */
#define OUT_LIMIT ((size_t)4 << 20)
#define DUMP_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(9))

static const struct { int status; const char *text; } statuses[] = {
    {200, "OK"}, {201, "Created"}, {202, "Accepted"}, {204, "No Content"}, {304, "Not Modified"}, {400, "Bad Request"}, {401, "Unauthorized"},
    {403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"}, {408, "Request Timeout"}, {409, "Conflict"}, {411, "Length Required"},
    {413, "Content Too Large"}, {415, "Unsupported Media Type"}, {422, "Unprocessable Content"}, {426, "Upgrade Required"},
    {429, "Too Many Requests"}, {431, "Request Header Fields Too Large"}, {499, "Client Closed Request"}, {500, "Internal Server Error"},
    {501, "Not Implemented"}, {503, "Service Unavailable"}, {507, "Insufficient Storage"}, {529, "Overloaded"},
};

const char *status_text(int status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i].status == status)
            return statuses[i].text;
    return "Unknown";
}

/* ---- Heads ---- */

static void put_date(struct bytes *out)
{
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t now = time(NULL);
    struct tm t;
    if (gmtime_r(&now, &t))
        bytes_printf(out, "date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n", days + 3 * t.tm_wday, t.tm_mday, months + 3 * t.tm_mon,
                     t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

static void make_room(struct bytes *out)
{
    static const char room[LWS_PRE];
    if (out->len == 0)
        bytes_put(out, room, sizeof room);
}

/* Under the call's lock. len: of the body; SIZE_MAX: it comes in pieces. */
static void put_head(struct call *call, int status, const char *type, size_t len)
{
    struct bytes *out = &call->out;
    call->status = status;
    call->chunked = len == SIZE_MAX && !call->old;
    if (call->old || http_draining(call->http))
        call->close = true;
    make_room(out);
    bytes_printf(out, "HTTP/1.1 %d %s\r\n", status, status_text(status));
    put_date(out);
    bytes_printf(out, "x-request-id: %s\r\n", call->id);
    if (call->api == API_ANTHROPIC)
        bytes_printf(out, "request-id: %s\r\n", call->id);
    if (type)
        bytes_printf(out, "content-type: %s\r\n", type);
    if (call->chunked)
        bytes_puts(out, "transfer-encoding: chunked\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n");
    else if (len != SIZE_MAX && status != 204)
        bytes_printf(out, "content-length: %zu\r\n", len);
    if (call->origin) {
        bytes_printf(out, "access-control-allow-origin: %s\r\naccess-control-expose-headers: *\r\n", call->origin);
        if (strcmp(call->origin, "*") != 0)
            bytes_puts(out, "vary: origin\r\n");
    }
    if (call->close)
        bytes_puts(out, "connection: close\r\n");
    bytes_put(out, call->added.data ? call->added.data : "", call->added.len);
    bytes_puts(out, "\r\n");
}

void call_header_add(struct call *call, const char *name, const char *value)
{
    pthread_mutex_lock(&call->lock);
    if (call->state == CALL_OPEN && !value[strcspn(value, "\r\n")])
        bytes_printf(&call->added, "%s: %s\r\n", name, value);
    pthread_mutex_unlock(&call->lock);
}

/* ---- Whole ---- */

void call_bytes(struct call *call, int status, const char *type, const void *data, size_t len)
{
    pthread_mutex_lock(&call->lock);
    if (call->state != CALL_OPEN) {
        pthread_mutex_unlock(&call->lock);
        return;
    }
    call->state = CALL_ENDED;
    call->close_fn = NULL;
    call->status = status;
    if (!call->gone) {
        put_head(call, status, type, len);
        if (!call->head_only)
            bytes_put(&call->out, data, len);
        call->broken |= call->out.failed || call->added.failed;
    }
    pthread_mutex_unlock(&call->lock);
    call_answered(call);
}

static int dump_to(const char *data, size_t n, void *user)
{
    struct bytes *out = user;
    bytes_put(out, data, n);
    return out->failed ? -1 : 0;
}

void call_json(struct call *call, int status, json_t *body)
{
    struct bytes text = {0};
    if (!body || json_dump_callback(body, dump_to, &text, DUMP_FLAGS) != 0)
        call_error(call, 500, NULL, NULL, NULL, "out of memory");
    else
        call_bytes(call, status, "application/json", text.data, text.len);
    json_decref(body);
    bytes_free(&text);
}

/* ---- Errors ---- */

static const char *error_type(enum api api, int status)
{
    if (api == API_ANTHROPIC) {
        switch (status) {
        case 401: return "authentication_error";
        case 403: return "permission_error";
        case 404: return "not_found_error";
        case 413: return "request_too_large";
        case 429: return "rate_limit_error";
        case 503:
        case 529: return "overloaded_error";
        default: return status < 500 ? "invalid_request_error" : "api_error";
        }
    }
    switch (status) {
    case 401: return "authentication_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
    }
}

static void put_field(struct bytes *out, const char *name, const char *value)
{
    bytes_printf(out, ",\"%s\":", name);
    if (value)
        bytes_json_string(out, value, strlen(value));
    else
        bytes_puts(out, "null");
}

void error_body(struct bytes *out, enum api api, const char *request_id, int status, const char *type, const char *code, const char *param, const char *text)
{
    if (!type)
        type = error_type(api, status);
    if (api == API_ANTHROPIC) {
        bytes_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", type);
        bytes_json_string(out, text, strlen(text));
        bytes_printf(out, "},\"request_id\":\"%s\"}", request_id);
        return;
    }
    bytes_puts(out, "{\"error\":{\"message\":");
    bytes_json_string(out, text, strlen(text));
    put_field(out, "type", type);
    put_field(out, "param", param);
    put_field(out, "code", code);
    bytes_puts(out, "}}");
}

void call_error(struct call *call, int status, const char *type, const char *code, const char *param, const char *format, ...)
{
    struct bytes text = {0}, body = {0};
    va_list args;
    va_start(args, format);
    bytes_vprintf(&text, format, args);
    va_end(args);
    error_body(&body, call->api, call->id, status, type, code, param, text.data ? text.data : "out of memory");
    if (call->ws)
        ws_error(call, status, body.data ? body.data : "", body.len);
    else
        call_bytes(call, status, "application/json", body.data ? body.data : "", body.len);
    bytes_free(&text);
    bytes_free(&body);
}

static int http_status(int32_t status)
{
    switch (status) {
    case INFER_ERROR_NOT_FOUND: return 404;
    case INFER_ERROR_EXISTS: return 409;
    case INFER_ERROR_LIMIT: return 503;
    case INFER_ERROR_NO_MEMORY:
    case INFER_ERROR_INTERNAL:
    case INFER_ERROR_HOST:
    case INFER_ERROR_IO:
    case INFER_ERROR_CANCELLED:
    case INFER_ERROR_THREAD:
    case INFER_ERROR_NONFINITE: return 500;
    default: return 400;
    }
}

void call_status(struct call *call, int32_t status, const struct infer_error *err, const char *param)
{
    int http = http_status(status);
    const char *code = status == INFER_ERROR_CONTEXT_FULL ? "context_length_exceeded" : NULL;
    const char *text = err && err->text[0] ? err->text : infer_status_message(status);
    if (http == 503)
        call_header_add(call, "retry-after", "1");
    if (err && err->name[0])
        call_error(call, http, NULL, code, param, "%s: %s", err->name, text);
    else
        call_error(call, http, NULL, code, param, "%s", text);
}

/* ---- In pieces ---- */

void call_stream_begin(struct call *call, const char *type)
{
    pthread_mutex_lock(&call->lock);
    bool begins = call->state == CALL_OPEN;
    if (begins) {
        call->state = CALL_STREAMING;
        call->status = 200;
        if (!call->gone)
            put_head(call, 200, type, SIZE_MAX);
        call->broken |= call->out.failed || call->added.failed;
    }
    pthread_mutex_unlock(&call->lock);
    if (begins)
        http_wake(call);
}

bool call_stream_write(struct call *call, const void *data, size_t len)
{
    pthread_mutex_lock(&call->lock);
    bool ok = call->state == CALL_STREAMING && !call->gone && !call->broken;
    if (ok && call->out.len > OUT_LIMIT) {
        call->broken = true;
        ok = false;
    }
    if (ok && len && !call->head_only) {
        make_room(&call->out);
        if (call->chunked)
            bytes_printf(&call->out, "%zx\r\n", len);
        bytes_put(&call->out, data, len);
        if (call->chunked)
            bytes_put(&call->out, "\r\n", 2);
        call->broken |= call->out.failed;
        ok = !call->broken;
    }
    pthread_mutex_unlock(&call->lock);
    if (len)
        http_wake(call);
    return ok;
}

void call_stream_end(struct call *call)
{
    pthread_mutex_lock(&call->lock);
    bool ends = call->state == CALL_STREAMING;
    if (ends) {
        call->state = CALL_ENDED;
        call->close_fn = NULL;
        if (!call->gone && call->chunked && !call->head_only) {
            make_room(&call->out);
            bytes_puts(&call->out, "0\r\n\r\n");
        }
        if (!call->chunked)
            call->close = true;
        call->broken |= call->out.failed;
    }
    pthread_mutex_unlock(&call->lock);
    if (ends)
        call_answered(call);
}

bool call_stream_event(struct call *call, const char *name, json_t *body)
{
    struct bytes text = {0};
    if (name)
        bytes_printf(&text, "event: %s\n", name);
    bytes_puts(&text, "data: ");
    bool ok = body && json_dump_callback(body, dump_to, &text, DUMP_FLAGS) == 0;
    bytes_puts(&text, "\n\n");
    if (ok && !text.failed)
        ok = call_stream_write(call, text.data, text.len);
    else { /* a piece would be missing: better no more than that */
        pthread_mutex_lock(&call->lock);
        call->broken = true;
        pthread_mutex_unlock(&call->lock);
        http_wake(call);
        ok = false;
    }
    json_decref(body);
    bytes_free(&text);
    return ok;
}

bool call_stream_text(struct call *call, const char *text)
{
    struct bytes piece = {0};
    bytes_printf(&piece, "data: %s\n\n", text);
    bool ok = !piece.failed && call_stream_write(call, piece.data, piece.len);
    bytes_free(&piece);
    return ok;
}
