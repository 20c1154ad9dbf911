#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void copy_text(char *dst, size_t cap, const char *src, size_t len)
{
    if (len >= cap) {
        len = cap - 1;
        while (len > 0 && ((unsigned char)src[len] & 0xC0) == 0x80) /* never half a character */
            len--;
    }
    memcpy(dst, src, len);
    dst[len] = 0;
}

static void err_clear(infer_error *err, infer_status code)
{
    memset(err, 0, sizeof *err);
    err->size = (uint32_t)sizeof *err;
    err->code = code;
    err->offset = ERR_NO_OFFSET;
}

infer_status err_set(infer_error *err, infer_status code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        err_clear(err, code);
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
    }
    return code;
}

infer_status err_at(infer_error *err, infer_status code, const char *name, size_t name_len, uint64_t offset,
                    const char *fmt, ...)
{
    if (err) {
        va_list ap;
        err_clear(err, code);
        err->offset = offset;
        if (name)
            copy_text(err->name, sizeof err->name, name, name_len);
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
    }
    return code;
}

void err_file(infer_error *err, const char *file, size_t len)
{
    if (err && err->code != INFER_OK && !err->file[0] && file)
        copy_text(err->file, sizeof err->file, file, len);
}

static const char no_memory[] = "out of memory";

infer_status err_no_memory(infer_error *err)
{
    return err_set(err, INFER_ERROR_NO_MEMORY, "%s", no_memory);
}

bool err_is_no_memory(const infer_error *err)
{
    return err->code == INFER_ERROR_NO_MEMORY && strncmp(err->text, no_memory, sizeof no_memory) == 0;
}
