/* Writers of the two formats, as far as control vectors need them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steer.h"

enum { GGUF_U32 = 4, GGUF_STRING = 8, GGUF_F32 = 0, ALIGN = 32 };

static void put32(FILE *f, uint32_t v)
{
    uint8_t b[4];
    for (int i = 0; i < 4; i++)
        b[i] = (uint8_t)(v >> (8 * i));
    fwrite(b, 1, 4, f);
}

static void put64(FILE *f, uint64_t v)
{
    put32(f, (uint32_t)v);
    put32(f, (uint32_t)(v >> 32));
}

static void put_string(FILE *f, const char *s)
{
    put64(f, strlen(s));
    fwrite(s, 1, strlen(s), f);
}

static void put_text_key(FILE *f, const char *key, const char *value)
{
    put_string(f, key);
    put32(f, GGUF_STRING);
    put_string(f, value);
}

static void put_floats(FILE *f, const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], 4);
        put32(f, bits);
    }
}

static uint64_t padded(uint64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static void write_gguf(FILE *f, const char *architecture, const float *v, uint32_t first, uint32_t n, uint32_t width)
{
    fwrite("GGUF", 1, 4, f);
    put32(f, 3);
    put64(f, n);
    put64(f, 3);
    put_text_key(f, "general.architecture", "controlvector");
    put_text_key(f, "controlvector.model_hint", architecture);
    put_string(f, "controlvector.layer_count");
    put32(f, GGUF_U32);
    put32(f, n);
    for (uint32_t i = 0; i < n; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "direction.%lu", (unsigned long)(first + i));
        put_string(f, name);
        put32(f, 1);
        put64(f, width);
        put32(f, GGUF_F32);
        put64(f, i * padded(4 * (uint64_t)width));
    }
    long at = ftell(f);
    for (uint64_t pad = at < 0 ? 0 : padded((uint64_t)at) - (uint64_t)at; pad; pad--)
        fputc(0, f);
    for (uint32_t i = 0; i < n; i++) {
        put_floats(f, v + (size_t)i * width, width);
        for (uint64_t pad = padded(4 * (uint64_t)width) - 4 * (uint64_t)width; pad; pad--)
            fputc(0, f);
    }
}

static bool write_safetensors(FILE *f, const char *architecture, const float *v, uint32_t first, uint32_t n, uint32_t width)
{
    size_t cap = 256 + (size_t)n * 128, len = 0;
    char *header = malloc(cap);
    if (!header)
        return false;
    len += (size_t)snprintf(header, cap, "{\"__metadata__\":{\"controlvector.model_hint\":\"%s\"}", architecture);
    for (uint32_t i = 0; i < n; i++)
        len += (size_t)snprintf(header + len, cap - len, ",\"direction.%lu\":{\"dtype\":\"F32\",\"shape\":[%lu],\"data_offsets\":[%llu,%llu]}",
                                (unsigned long)(first + i), (unsigned long)width, (unsigned long long)i * width * 4,
                                (unsigned long long)(i + 1) * width * 4);
    header[len++] = '}';
    while (len % 8)
        header[len++] = ' ';
    put64(f, len);
    fwrite(header, 1, len, f);
    free(header);
    put_floats(f, v, (size_t)n * width);
    return true;
}

int write_directions(const char *path, const char *architecture, const float *v, uint32_t first, uint32_t n, uint32_t width)
{
    size_t len = strlen(path);
    bool safetensors = len > 12 && !strcmp(path + len - 12, ".safetensors"), ok = true;
    FILE *f = fopen(path, "wb");
    if (!f)
        return complain("%s: cannot be written: %s", path, strerror(errno));
    if (safetensors)
        ok = write_safetensors(f, architecture, v, first, n, width);
    else
        write_gguf(f, architecture, v, first, n, width);
    ok = !ferror(f) && ok;
    ok = fclose(f) == 0 && ok;
    return ok ? EXIT_OK : complain("%s: cannot be written: %s", path, strerror(errno));
}
