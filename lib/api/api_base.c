/* Versions, status texts, struct initialisation and cancel flags. */
#include <string.h>

#include "api/api.h"
#include "base/cancel.h"

const char *infer_version(void)
{
    return INFER_VERSION_STRING;
}

int32_t infer_abi_version(void)
{
    return INFER_ABI_VERSION;
}

int32_t infer_numerics_version(void)
{
    return INFER_NUMERICS_VERSION;
}

#define MESSAGE_CASE(name, value, message) case name: return message;
#define NAME_CASE(name, value, message) case name: return #name;

const char *infer_status_message(infer_status status)
{
    switch (status) {
        INFER_STATUS_LIST(MESSAGE_CASE)
    default: return "unknown status";
    }
}

const char *infer_status_name(infer_status status)
{
    switch (status) {
        INFER_STATUS_LIST(NAME_CASE)
    default: return "unknown";
    }
}

void infer_init(void *x, uint32_t size)
{
    if (!x || size < sizeof size)
        return;
    memset(x, 0, size);
    memcpy(x, &size, sizeof size);
}

/* ---- Cancel flags: a host makes them without an engine, so from the default allocator. ---- */

infer_status infer_cancel_create(infer_cancel **out, infer_error *err)
{
    infer_error e;
    infer_status st = api_not_null(out, "out", &e);
    if (st != INFER_OK)
        return api_done(err, &e, st);
    infer_cancel *c = mem_alloc(&alloc_default, sizeof *c);
    if (!c)
        return api_done(err, &e, err_no_memory(&e));
    ref_init(&c->ref);
    atomic_init(&c->flag, 0);
    *out = c;
    return INFER_OK;
}

infer_cancel *infer_cancel_ref(infer_cancel *cancel)
{
    if (cancel)
        ref_get(&cancel->ref);
    return cancel;
}

void infer_cancel_release(infer_cancel *cancel)
{
    if (cancel && ref_put(&cancel->ref))
        mem_free(&alloc_default, cancel);
}

void infer_cancel_set(infer_cancel *cancel)
{
    if (cancel)
        atomic_store_explicit(&cancel->flag, 1, memory_order_relaxed);
}

void infer_cancel_clear(infer_cancel *cancel)
{
    if (cancel)
        atomic_store_explicit(&cancel->flag, 0, memory_order_relaxed);
}

int32_t infer_cancel_is_set(const infer_cancel *cancel)
{
    return cancel_is_set(cancel);
}
