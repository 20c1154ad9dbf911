#include "checkpoints.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "options.h"

/* In the store: WHOSE.NAME. WHOSE is "open" for clients without a salt, else 32 hexadecimal digits of a hash of it: no name can reach across. */
enum { WHOSE = 32, STORED_MAX = WHOSE + 1 + CHECKPOINT_NAME_MAX + 1 };

static void whose(struct call *call, char out[WHOSE + 2])
{
    const char *salt = call_salt(call);
    unsigned char hash[WHOSE / 2];
    if (!salt[0]) {
        memcpy(out, "open.", sizeof "open.");
        return;
    }
    (void)crypto_generichash(hash, sizeof hash, (const unsigned char *)salt, strlen(salt), NULL, 0);
    (void)sodium_bin2hex(out, WHOSE + 1, hash, sizeof hash);
    memcpy(out + WHOSE, ".", 2);
}

static bool name_ok(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || (c == '.' && i)))
            return false;
    }
    return n > 0 && n <= CHECKPOINT_NAME_MAX;
}

/* The name in the store; false: answered with 400. */
static bool stored_name(struct call *call, const char *name, const char *param, char out[STORED_MAX])
{
    char prefix[WHOSE + 2];
    if (!name_ok(name)) {
        call_error(call, 400, NULL, "invalid_name", param, "%s: a name has 1 to %d letters, digits, '_', '-' and '.', and does not begin with '.'", param,
                   CHECKPOINT_NAME_MAX);
        return false;
    }
    whose(call, prefix);
    (void)snprintf(out, STORED_MAX, "%s%s", prefix, name);
    return true;
}

static void not_found(struct call *call, const char *name, const char *param)
{
    call_error(call, 404, "not_found_error", "checkpoint_not_found", param, "no checkpoint is called %s", name);
}

infer_checkpoint *checkpoints_get(struct server *server, struct call *call, const char *name, const char *param)
{
    char stored[STORED_MAX];
    infer_checkpoint *checkpoint;
    infer_error err;
    INFER_INIT(&err);
    if (!stored_name(call, name, param, stored))
        return NULL;
    infer_status st = infer_store_get(server->store, server->model, stored, INFER_ZSTR, NULL, &checkpoint, &err);
    if (st == INFER_OK)
        return checkpoint;
    if (st == INFER_ERROR_NOT_FOUND)
        not_found(call, name, param);
    else
        call_status(call, st, &err, param);
    return NULL;
}

bool checkpoints_last(const struct server *server)
{
    return !server->options->isolate || server->options->kv_dir;
}

/* false: answered with 400: what is kept in a connection's own process would be gone with it. */
static bool check_lasts(const struct server *server, struct call *call)
{
    if (!checkpoints_last(server))
        call_error(call, 400, NULL, "needs_kv_dir", NULL, "with --isolate checkpoints are kept in --kv-dir only, and the server was started without");
    return checkpoints_last(server);
}

bool checkpoints_may_put(struct server *server, struct call *call, const char *name, bool replace, const char *param)
{
    char stored[STORED_MAX];
    infer_checkpoint *old = NULL;
    if (!check_lasts(server, call) || !stored_name(call, name, param, stored))
        return false;
    if (replace || infer_store_get(server->store, server->model, stored, INFER_ZSTR, NULL, &old, NULL) == INFER_ERROR_NOT_FOUND)
        return true;
    infer_checkpoint_release(old);
    call_error(call, 409, "invalid_request_error", "checkpoint_exists", param, "a checkpoint is called %s: give another name, or \"replace\": true", name);
    return false;
}

infer_status checkpoints_put(struct server *server, struct call *call, const char *name, infer_checkpoint *checkpoint, bool replace, infer_error *err)
{
    char prefix[WHOSE + 2], stored[STORED_MAX];
    whose(call, prefix);
    (void)snprintf(stored, sizeof stored, "%s%s", prefix, name);
    return infer_store_put(server->store, stored, INFER_ZSTR, checkpoint, replace ? INFER_STORE_REPLACE : 0, NULL, err);
}

void checkpoints_put_error(struct call *call, const char *name, infer_status status, const infer_error *err)
{
    if (status == INFER_ERROR_EXISTS)
        call_error(call, 409, "invalid_request_error", "checkpoint_exists", NULL, "a checkpoint is called %s: give another name, or \"replace\": true", name);
    else if (status == INFER_ERROR_LIMIT)
        call_error(call, 507, "server_error", "checkpoints_full", NULL, "no room for another checkpoint: delete some");
    else
        call_status(call, status, err, NULL);
}

static const char *kv_type_name(int32_t type)
{
    static const char *const names[] = {"f16", "f32", "bf16", "int8", "int8_64", "mixed_f16", "mixed_f32"};
    return type >= 0 && type < (int32_t)(sizeof names / sizeof *names) ? names[type] : "unknown";
}

json_t *checkpoints_describe(const char *name, const infer_checkpoint *checkpoint)
{
    infer_checkpoint_info info;
    INFER_INIT(&info);
    if (infer_checkpoint_get_info(checkpoint, &info, NULL) != INFER_OK)
        return json_pack("{s:s}", "name", name);
    return json_pack("{s:s,s:I,s:I,s:I,s:s,s:b}", "name", name, "length", (json_int_t)info.length, "computed", (json_int_t)info.computed, "bytes",
                     (json_int_t)info.bytes, "kv_type", kv_type_name(info.kv_type), "approximate", info.approximate);
}

json_t *checkpoints_list(struct server *server, struct call *call)
{
    char prefix[WHOSE + 2];
    json_t *list = json_array();
    infer_store_entry e;
    whose(call, prefix);
    size_t n = strlen(prefix);
    /* No name is the prefix alone: what follows it in the order of bytes is the first of the tenant's. */
    INFER_INIT(&e);
    bool more = infer_store_next(server->store, prefix, n, &e, NULL) == INFER_OK;
    while (more && !strncmp(e.name, prefix, n)) {
        infer_store_entry next;
        (void)json_array_append_new(list, json_pack("{s:s,s:I,s:I,s:I,s:s,s:b}", "name", e.name + n, "length", (json_int_t)e.length, "computed",
                                                    (json_int_t)e.computed, "bytes", (json_int_t)e.bytes, "kv_type", kv_type_name(e.kv_type),
                                                    "approximate", e.approximate));
        INFER_INIT(&next);
        more = infer_store_next(server->store, e.name, e.name_len, &next, NULL) == INFER_OK;
        e = next;
    }
    return list;
}

bool checkpoints_branch(struct server *server, struct call *call, const char *from, const char *to, bool replace)
{
    char stored_from[STORED_MAX], stored_to[STORED_MAX];
    infer_error err;
    INFER_INIT(&err);
    if (!check_lasts(server, call) || !stored_name(call, from, "from", stored_from) || !stored_name(call, to, "to", stored_to))
        return false;
    infer_status st = infer_store_branch(server->store, stored_from, INFER_ZSTR, stored_to, INFER_ZSTR, replace ? INFER_STORE_REPLACE : 0, &err);
    if (st == INFER_ERROR_NOT_FOUND)
        not_found(call, from, "from");
    else if (st != INFER_OK)
        checkpoints_put_error(call, to, st, &err);
    return st == INFER_OK;
}

bool checkpoints_delete(struct server *server, struct call *call, const char *name)
{
    char stored[STORED_MAX];
    infer_error err;
    INFER_INIT(&err);
    if (!stored_name(call, name, "name", stored))
        return false;
    infer_status st = infer_store_delete(server->store, stored, INFER_ZSTR, &err);
    if (st == INFER_ERROR_NOT_FOUND)
        not_found(call, name, "name");
    else if (st != INFER_OK)
        call_status(call, st, &err, "name");
    return st == INFER_OK;
}
