/* POST /checkpoints/save, /load, /fork, /graft, /delete; GET /checkpoints. */
#include <stdlib.h>
#include <string.h>

#include "checkpoints.h"
#include "native_request.h"

/* The state that a prompt leaves, without an answer. Of messages: the conversation so far, ready for what goes on with it. */
static void save(struct server *server, struct call *call)
{
    static const struct param table[] = {
        {"name", PARAM_TAKEN},     {"replace", PARAM_TAKEN},     {"model", PARAM_TAKEN},       {"messages", PARAM_TAKEN}, {"chat_template_kwargs", PARAM_TAKEN},
        {"add_generation_prompt", PARAM_TAKEN}, {"prompt", PARAM_TAKEN}, {"add_special", PARAM_TAKEN}, {"parse_special", PARAM_TAKEN},
        {"adapters", PARAM_TAKEN}, {"checkpoint", PARAM_TAKEN},  {"salt", PARAM_TAKEN},        {"priority", PARAM_TAKEN}, {"timeout", PARAM_TAKEN}, {0}};
    json_t *body = call_json_body(call), *messages = NULL, *kwargs = NULL;
    bool generation_prompt = false;
    struct native_ids ids = {0};
    struct chat_prompt chat;
    uint32_t flags;
    if (!body)
        return;
    struct native_request *r = native_request_read(server, call, body, table, true);
    if (!r || !native_text_flags(call, body, &flags) || !param_array(call, body, "messages", &messages) ||
        !param_object(call, body, "chat_template_kwargs", &kwargs) || !param_bool(call, body, "add_generation_prompt", &generation_prompt))
        return;
    json_t *prompt = json_object_get(body, "prompt");
    bool goes_on = !messages && r->params.checkpoint;
    if (messages && prompt && !json_is_null(prompt)) {
        (void)param_wrong(call, "prompt", "give messages or a prompt, not both");
        return;
    }
    if (!messages && !native_required(call, body, "prompt"))
        return;
    if (messages) {
        if (!native_needs_tokenizer(server, call) || !chat_prompt_make(server, call, messages, kwargs, generation_prompt, &chat))
            return;
        ids = (struct native_ids){chat.ids, chat.n};
    } else if (!native_ids_read(server, call, prompt, "prompt", goes_on ? flags & ~(uint32_t)INFER_TOKENIZE_ADD_SPECIAL : flags, &ids)) {
        return;
    }
    r->ids = ids.ids;
    r->n_ids = ids.n;
    r->flags |= goes_on ? INFER_REQUEST_CONTINUE : 0;
    if (ids.n)
        native_request_submit(r);
    else
        (void)param_wrong(call, messages ? "messages" : "prompt", "has no tokens");
}

/* Reads a name that has to be there. */
static bool read_name(struct call *call, const json_t *body, const char *field, const char **name)
{
    return native_required(call, body, field) && param_string(call, body, field, name);
}

/* A session in the tenant's salt with what the checkpoint holds (NULL: nothing). NULL: answered. */
static infer_session *session_of(struct server *server, struct call *call, infer_checkpoint *checkpoint)
{
    json_t *nothing = json_object();
    infer_session *session = NULL;
    struct params p;
    if (params_read(server, call, nothing, &p)) {
        p.checkpoint = checkpoint ? infer_checkpoint_ref(checkpoint) : NULL;
        session = native_session(server, call, &p);
        params_free(&p);
    }
    json_decref(nothing);
    return session;
}

/* Brings a checkpoint's state into memory: everything of the file that the next request reads is read and checked, by computing the last element again. */
static void load(struct server *server, struct call *call)
{
    static const struct param table[] = {{"name", PARAM_TAKEN}, {0}};
    const char *name = NULL;
    infer_step_item item;
    infer_error err;
    json_t *body = call_json_body(call);
    INFER_INIT(&item);
    INFER_INIT(&err);
    if (!body || !native_needs_decoder(server, call) || !params_check(call, body, table, false) || !read_name(call, body, "name", &name))
        return;
    infer_cancel *cancel = native_cancel(call);
    infer_checkpoint *checkpoint = cancel ? checkpoints_get(server, call, name, "name") : NULL;
    infer_session *session = checkpoint ? session_of(server, call, checkpoint) : NULL;
    infer_session_info info;
    INFER_INIT(&info);
    if (session) {
        infer_status st = infer_session_get_info(session, &info, &err);
        if (st == INFER_OK && info.computed)
            st = infer_session_truncate(session, info.computed, NULL, &err); /* drops what is pending, and the logits that the file holds */
        item.session = session;
        if (st == INFER_OK && info.computed)
            st = infer_step(&item, 1, cancel, &err);
        if (st == INFER_OK)
            call_json(call, 200, json_pack("{s:s,s:o}", "object", "checkpoint", "checkpoint", checkpoints_describe(name, checkpoint)));
        else
            call_status(call, st, &err, "name");
    }
    infer_session_release(session);
    infer_checkpoint_release(checkpoint);
}

static void fork_(struct server *server, struct call *call)
{
    static const struct param table[] = {{"from", PARAM_TAKEN}, {"to", PARAM_TAKEN}, {"replace", PARAM_TAKEN}, {0}};
    const char *from = NULL, *to = NULL;
    bool replace = false;
    json_t *body = call_json_body(call);
    if (!body || !params_check(call, body, table, false) || !read_name(call, body, "from", &from) || !read_name(call, body, "to", &to) ||
        !param_bool(call, body, "replace", &replace) || !checkpoints_branch(server, call, from, to, replace))
        return;
    call_json(call, 200, json_pack("{s:s,s:s,s:s}", "object", "checkpoint", "from", from, "name", to));
}

static void delete_(struct server *server, struct call *call)
{
    static const struct param table[] = {{"name", PARAM_TAKEN}, {0}};
    const char *name = NULL;
    json_t *body = call_json_body(call);
    if (body && params_check(call, body, table, false) && read_name(call, body, "name", &name) && checkpoints_delete(server, call, name))
        call_json(call, 200, json_pack("{s:s,s:s,s:b}", "object", "checkpoint", "name", name, "deleted", 1));
}

static void list(struct server *server, struct call *call)
{
    call_json(call, 200, json_pack("{s:s,s:o}", "object", "list", "data", checkpoints_list(server, call)));
}

/* ---- Graft ---- */

struct graft {
    const char *name, *source, *to; /* to: where the result goes */
    uint64_t first, count, recompute;
    bool replace;
};

static bool read_graft(struct server *server, struct call *call, const json_t *body, struct graft *g)
{
    *g = (struct graft){.count = UINT64_MAX};
    if (!param_string(call, body, "name", &g->name) || !read_name(call, body, "checkpoint", &g->source) ||
        !param_uint(call, body, "first", 0, 1u << 24, &g->first) || !param_uint(call, body, "count", 0, 1u << 24, &g->count) ||
        !param_uint(call, body, "recompute", 0, 1u << 24, &g->recompute) || !param_string(call, body, "to", &g->to) ||
        !param_bool(call, body, "replace", &g->replace))
        return false;
    if (!g->name && !g->to)
        return param_wrong(call, "to", "this is required without a name to go on from");
    if (!g->to) { /* in place */
        g->to = g->name;
        g->replace = true;
    }
    return checkpoints_may_put(server, call, g->to, g->replace, "to");
}

static infer_status graft_into(infer_session *session, const infer_checkpoint *source, struct graft *g, infer_cancel *cancel, uint64_t *rerun, infer_error *err)
{
    infer_checkpoint_info info;
    infer_step_item item;
    INFER_INIT(&info);
    INFER_INIT(&item);
    item.session = session;
    infer_status st = infer_checkpoint_get_info(source, &info, err);
    if (st == INFER_OK)
        st = infer_step(&item, 1, cancel, err); /* what is pending, such as the last token of an answer */
    if (st != INFER_OK)
        return st;
    if (g->count == UINT64_MAX)
        g->count = info.length > g->first ? info.length - g->first : 0;
    return infer_session_graft(session, source, g->first, g->count, g->recompute, rerun, cancel, err);
}

static void graft(struct server *server, struct call *call)
{
    static const struct param table[] = {{"name", PARAM_TAKEN}, {"checkpoint", PARAM_TAKEN}, {"first", PARAM_TAKEN}, {"count", PARAM_TAKEN},
                                         {"recompute", PARAM_TAKEN}, {"to", PARAM_TAKEN}, {"replace", PARAM_TAKEN}, {0}};
    struct graft g;
    infer_error err;
    infer_checkpoint *base = NULL, *result = NULL;
    uint64_t rerun = 0;
    json_t *body = call_json_body(call);
    INFER_INIT(&err);
    if (!body || !native_needs_decoder(server, call) || !params_check(call, body, table, false) || !read_graft(server, call, body, &g))
        return;
    infer_cancel *cancel = native_cancel(call);
    infer_checkpoint *source = cancel ? checkpoints_get(server, call, g.source, "checkpoint") : NULL;
    if (!source || (g.name && !(base = checkpoints_get(server, call, g.name, "name")))) {
        infer_checkpoint_release(source);
        return;
    }
    infer_session *session = session_of(server, call, base);
    if (session) {
        infer_status st = graft_into(session, source, &g, cancel, &rerun, &err);
        if (st == INFER_OK)
            st = infer_checkpoint_create(session, &result, &err);
        if (st != INFER_OK) {
            call_status(call, st, &err, err.name[0] ? err.name : NULL);
        } else if ((st = checkpoints_put(server, call, g.to, result, g.replace, &err)) != INFER_OK) {
            checkpoints_put_error(call, g.to, st, &err);
        } else {
            call_json(call, 200, json_pack("{s:s,s:o,s:I}", "object", "checkpoint", "checkpoint", checkpoints_describe(g.to, result), "rerun", (json_int_t)rerun));
        }
    }
    infer_session_release(session);
    infer_checkpoint_release(result);
    infer_checkpoint_release(base);
    infer_checkpoint_release(source);
}

const struct route checkpoints_routes[] = {
    {"POST", "/checkpoints/save", API_NATIVE, ROUTE_GENERATES, save},
    {"POST", "/checkpoints/load", API_NATIVE, ROUTE_GENERATES | ROUTE_LONG, load},
    {"POST", "/checkpoints/fork", API_NATIVE, 0, fork_},
    {"POST", "/checkpoints/graft", API_NATIVE, ROUTE_GENERATES | ROUTE_LONG, graft},
    {"POST", "/checkpoints/delete", API_NATIVE, 0, delete_},
    {"GET", "/checkpoints", API_NATIVE, ROUTE_NO_BODY, list},
    {0},
};
