#include "base/pack.h"

#ifdef INFER_HAVE_ZSTD
#define ZSTD_STATIC_LINKING_ONLY /* for contexts with an allocator of their own */
#include <zstd.h>
#include <zstd_errors.h>

struct packer {
    const struct alloc *alloc;
    ZSTD_CCtx *pack;
    ZSTD_DCtx *expand;
};

static void *take(void *user, size_t bytes)
{
    return mem_alloc(user, bytes);
}

static void give(void *user, void *block)
{
    mem_free(user, block);
}

bool pack_available(void)
{
    return true;
}

infer_status pack_create(const struct alloc *alloc, int level, struct packer **out, infer_error *err)
{
    ZSTD_customMem mem = {take, give, (void *)(uintptr_t)alloc};
    if (level < 0 || level > PACK_MAX_LEVEL)
        return err_at(err, INFER_ERROR_ARGUMENT, "level", 5, ERR_NO_OFFSET, "level must be 1 to %d", PACK_MAX_LEVEL);
    struct packer *p = mem_zalloc(alloc, sizeof *p);
    if (!p)
        return err_no_memory(err);
    p->alloc = alloc;
    if (level)
        p->pack = ZSTD_createCCtx_advanced(mem);
    else
        p->expand = ZSTD_createDCtx_advanced(mem);
    if (!(level ? (void *)p->pack : (void *)p->expand)
        || (level && ZSTD_isError(ZSTD_CCtx_setParameter(p->pack, ZSTD_c_compressionLevel, level)))) {
        pack_free(p);
        return err_no_memory(err);
    }
    *out = p;
    return INFER_OK;
}

void pack_free(struct packer *p)
{
    if (!p)
        return;
    ZSTD_freeCCtx(p->pack);
    ZSTD_freeDCtx(p->expand);
    mem_free(p->alloc, p);
}

size_t pack_bound(size_t n)
{
    size_t bound = ZSTD_compressBound(n);
    return ZSTD_isError(bound) ? 0 : bound;
}

infer_status pack_block(struct packer *p, void *dst, size_t cap, const void *src, size_t n, size_t *out, infer_error *err)
{
    size_t got = ZSTD_compress2(p->pack, dst, cap, src, n);
    if (ZSTD_isError(got))
        return ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation ? err_no_memory(err)
                                                                      : err_set(err, INFER_ERROR_INTERNAL, "zstd failed");
    *out = got;
    return INFER_OK;
}

infer_status pack_expand(struct packer *p, void *dst, size_t n, const void *src, size_t packed, infer_error *err)
{
    size_t got = ZSTD_decompressDCtx(p->expand, dst, n, src, packed);
    if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
        return err_no_memory(err);
    if (got != n)
        return err_set(err, INFER_ERROR_FORMAT, "compressed data does not expand to its stated length");
    return INFER_OK;
}
#else
static infer_status absent(infer_error *err)
{
    return err_set(err, INFER_ERROR_UNSUPPORTED, "this build of libinfer has no zstd, so compressed files are neither written nor read");
}

bool pack_available(void)
{
    return false;
}

infer_status pack_create(const struct alloc *alloc, int level, struct packer **out, infer_error *err)
{
    (void)alloc;
    (void)level;
    (void)out;
    return absent(err);
}

void pack_free(struct packer *p)
{
    (void)p;
}

size_t pack_bound(size_t n)
{
    (void)n;
    return 0;
}

infer_status pack_block(struct packer *p, void *dst, size_t cap, const void *src, size_t n, size_t *out, infer_error *err)
{
    (void)p;
    (void)dst;
    (void)cap;
    (void)src;
    (void)n;
    (void)out;
    return absent(err);
}

infer_status pack_expand(struct packer *p, void *dst, size_t n, const void *src, size_t packed, infer_error *err)
{
    (void)p;
    (void)dst;
    (void)n;
    (void)src;
    (void)packed;
    return absent(err);
}
#endif
