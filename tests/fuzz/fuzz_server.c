/* Bodies of infer-server's requests, through the real handlers and a scheduler, without sockets. The input is a path, a newline, a body, and after a zero byte pairs
 * of bytes that each put another value in a place of the body: the first says where, the second what (0: leave it). Every call must be answered, with JSON or events, and let go of. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fuzz/fuzz.h"
#include "infer-server/call.h"
#include "infer-server/options.h"
#include "infer-server/start.h"
#include "infer-server/ws.h"

#define STEPS 40 /* then the client goes */
#define CONTEXT "160"
#define PATIENCE 60000 /* milliseconds: against hangs only */

static struct server server;
static struct options options;

/* ---- What stands for the event loop ------------------------------------------------------------------------------- */

uint64_t now_us(void)
{
    static uint64_t now;
    return now += 100;
}

void http_wake(struct call *call) { (void)call; }

bool http_draining(const struct http *http)
{
    (void)http;
    return false;
}

void call_later(struct call *call, void (*fn)(void *user), void *user)
{
    call_ref(call);
    fn(user);
    call_release(call);
}

void ws_free(struct ws *ws) { (void)ws; }

void ws_error(struct call *call, int status, const char *body, size_t len)
{
    (void)call, (void)status, (void)body, (void)len;
}

void ws_accept(struct call *call, ws_fn fn, void *user)
{
    (void)call, (void)fn, (void)user;
}

void ws_on_error(struct call *call, void (*fn)(void *user, int status, json_t *body), void *user)
{
    (void)call, (void)fn, (void)user;
}

bool ws_send(struct call *call, const char *data, size_t len)
{
    (void)call, (void)data, (void)len;
    return false;
}

bool ws_send_json(struct call *call, json_t *body)
{
    (void)call;
    json_decref(body);
    return false;
}

void ws_close(struct call *call, int code, const char *reason)
{
    (void)call, (void)code, (void)reason;
}

/* ---- Other values in a body ---------------------------------------------------------------------------------------- */

static json_t *nested(int depth)
{
    json_t *v = json_array();
    while (depth--)
        v = json_pack("[o]", v);
    return v;
}

static json_t *strange(uint8_t which)
{
    static const char *const texts[] = {
        "null", "true", "false", "-1", "0", "1", "2", "17", "128", "129", "1e308", "-1e308", "0.5", "1.5", "9223372036854775807", "-9223372036854775808", "4294967296",
        "\"\"", "\"x\"", "\"</s>\"", "\"<</s>/s>\"", "\"\\ufdd0\"", "\"\\u00e9\\n\"", "\"none\"", "\"text\"", "\"user\"", "\"assistant\"", "\"system\"", "\"tiny\"", "\"auto\"",
        "[]", "{}", "[[]]", "[1]", "[\"a\",\"b\"]", "[null]", "[[1,2],[3]]", "{\"a\":1}", "{\"type\":\"text\"}", "{\"type\":\"text\",\"text\":\"hi\"}", "[{\"type\":\"text\",\"text\":\"hi\"}]",
        "{\"role\":\"user\",\"content\":\"hi\"}", "[{\"role\":\"user\",\"content\":\"hi\"}]", "{\"5\":-100}", "{\"1\":100}", "[1536]", "[-1]", "\"high\"", "\"resp_x\"", "\"m\""};
    enum { N_TEXTS = sizeof texts / sizeof *texts };
    if (which <= N_TEXTS)
        return json_loads(texts[which - 1], JSON_DECODE_ANY, NULL);
    if (which % 3 == 0)
        return nested(which * 4);
    char *longer = malloc(which * 16u + 1);
    if (!longer)
        return json_null();
    memset(longer, which % 3 == 1 ? 'a' : '<', which * 16u);
    longer[which * 16u] = 0;
    json_t *v = json_string(longer);
    free(longer);
    return v;
}

/* Puts value in place of the index-th value below v, counted in depth; true: done. Steals value then. */
static bool put(json_t *v, unsigned *index, json_t *value)
{
    const char *key;
    json_t *item;
    size_t i;
    void *next;
    json_object_foreach_safe (v, next, key, item) {
        if ((*index)-- == 0)
            return json_object_set_new(v, key, value) == 0;
        if (put(item, index, value))
            return true;
    }
    json_array_foreach (v, i, item) {
        if ((*index)-- == 0)
            return json_array_set_new(v, i, value) == 0;
        if (put(item, index, value))
            return true;
    }
    return false;
}

static void put_strange_values(json_t *body, const uint8_t *pairs, size_t n)
{
    for (size_t i = 0; i + 1 < n; i += 2) {
        unsigned index = pairs[i];
        json_t *value = pairs[i + 1] ? strange(pairs[i + 1]) : NULL;
        if (value && !put(body, &index, value))
            json_decref(value);
    }
}

/* ---- A call --------------------------------------------------------------------------------------------------------- */

static void open_server(void)
{
    static const char *const words[] = {"infer-server", "-m", INFER_SOURCE_DIR "/models/tiny.gguf", "--ctx", CONTEXT, "--parallel", "4",
                                        "--cache-bytes", "1M", "--threads", "1"};
    enum { N_WORDS = sizeof words / sizeof *words };
    static char *args[N_WORDS + 1];
    for (size_t i = 0; i < N_WORDS; i++)
        args[i] = strdup(words[i]);
    if (options_parse(&options, N_WORDS, args) != 0 || server_open(&server, &options) != 0)
        abort();
}

static void step(int steps, struct call *call)
{
    int32_t more = server.scheduler != NULL;
    for (int i = 0; more; i++) {
        if (i == steps)
            call_lost(call);
        if (infer_scheduler_step(server.scheduler, &more, NULL, NULL) != INFER_OK)
            abort();
    }
}

static bool ended(struct call *call)
{
    pthread_mutex_lock(&call->lock);
    bool is = call->state == CALL_ENDED;
    pthread_mutex_unlock(&call->lock);
    return is && atomic_load(&call->refs) == 1;
}

/* What a whole answer is: JSON. */
static void check(struct call *call)
{
    for (int i = 0; i < PATIENCE && !ended(call); i++) /* some are answered by a thread that writes files */
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (!ended(call))
        abort(); /* not answered, or somebody has kept it */
    const char *text = call->out.data ? call->out.data : "", *end = text + call->out.len;
    if (call->gone || call->broken || call->chunked || !call->out.len)
        return;
    while (text + 4 <= end && memcmp(text, "\r\n\r\n", 4) != 0)
        text++;
    json_t *v = json_loadb(text + 4, (size_t)(end - text) - 4, JSON_DECODE_ANY, NULL);
    if (!v)
        abort();
    json_decref(v);
}

static void run(const struct route *route, const char *arg, struct bytes *body)
{
    struct call *call = call_create(NULL, &server);
    if (!call)
        abort();
    call_ref(call);
    call->route = route;
    call->api = route->api;
    call->method = route->method;
    call->path = strdup(route->path);
    call->arg = arg;
    call->client = 1;
    call->body = *body;
    route->handler(&server, call);
    step(STEPS, call);
    check(call);
    call_release(call);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64], *arg = NULL;
    int status = 0;
    struct bytes body = {0}, allow = {0};
    const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
    size_t n_path = line ? (size_t)(line - data) : 0;
    if (!server.model) {
        static const uint8_t saved[] = "/checkpoints/save\n{\"name\":\"m\",\"prompt\":\"Once\"}"; /* for inputs that begin with one */
        open_server();
        LLVMFuzzerTestOneInput(saved, sizeof saved - 1);
    }
    if (!n_path || n_path >= sizeof path || memchr(data, 0, n_path))
        return 0;
    memcpy(path, data, n_path);
    path[n_path] = 0;
    const struct route *route = route_find("POST", path, &arg, &status, &allow);
    bytes_free(&allow);
    const uint8_t *zero = memchr(line + 1, 0, size - n_path - 1), *end = zero ? zero : data + size;
    json_t *v = zero ? json_loadb((const char *)line + 1, (size_t)(end - line) - 1, 0, NULL) : NULL;
    if (v) {
        put_strange_values(v, zero + 1, (size_t)(data + size - zero) - 1);
        char *text = json_dumps(v, JSON_COMPACT);
        bytes_puts(&body, text ? text : "");
        free(text);
        json_decref(v);
    } else {
        bytes_put(&body, line + 1, (size_t)(end - line) - 1);
    }
    if (route)
        run(route, arg, &body);
    else
        bytes_free(&body);
    free(arg);
    return 0;
}
