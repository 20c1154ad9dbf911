#include "state_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "system.h"

/* Pages are checked here and not when they are used: attention is about to read all of them, and a damaged file is then refused as a whole. */
infer_status state_open(struct cli *c, const char *path, infer_checkpoint **out, infer_error *err)
{
    infer_load_options lo;
    INFER_INIT(&lo);
    lo.verify = INFER_VERIFY_LOAD;
    infer_status st = infer_checkpoint_open(c->model, path, INFER_ZSTR, &lo, interrupt_arm(), out, err);
    interrupt_disarm();
    return st;
}

infer_status state_save(const infer_checkpoint *state, const char *path, const char *parent, infer_error *err)
{
    infer_save_options so;
    INFER_INIT(&so);
    so.parent = parent;
    so.parent_len = parent ? INFER_ZSTR : 0;
    infer_status st = infer_checkpoint_save(state, path, INFER_ZSTR, &so, interrupt_arm(), err);
    interrupt_disarm();
    return st;
}

infer_status state_tokens(const infer_checkpoint *state, int32_t **ids, uint64_t *count, infer_error *err)
{
    infer_checkpoint_info info;
    INFER_INIT(&info);
    infer_status st = infer_checkpoint_get_info(state, &info, err);
    if (st != INFER_OK)
        return st;
    int32_t *list = malloc((size_t)(info.length + 1) * sizeof *list);
    if (!list) {
        err->code = INFER_ERROR_NO_MEMORY;
        return INFER_ERROR_NO_MEMORY;
    }
    st = infer_checkpoint_tokens(state, 0, info.length, list, err);
    if (st != INFER_OK) {
        free(list);
        return st;
    }
    *ids = list;
    *count = info.length;
    return INFER_OK;
}

/* A file has the sampling of when it was saved. */
infer_status state_restore(struct cli *c, const infer_checkpoint *state, infer_error *err)
{
    infer_session *s = NULL;
    infer_status st = infer_checkpoint_session(state, &s, err);
    if (st == INFER_OK)
        st = infer_session_set_sampling(s, &c->opt.sampling, err);
    if (st != INFER_OK) {
        infer_session_release(s);
        return st;
    }
    infer_session_release(c->session);
    c->session = s;
    return INFER_OK;
}

bool file_read(const char *path, struct text *out)
{
    char part[16384];
    size_t n;
    FILE *f = system_open(path, "rb");
    if (!f)
        return false;
    while ((n = fread(part, 1, sizeof part, f)) > 0 && !out->failed)
        text_put(out, part, n);
    bool ok = !ferror(f) && !out->failed;
    if (out->failed)
        errno = ENOMEM;
    fclose(f);
    return ok;
}

bool file_write(const char *path, const struct text *text)
{
    struct text temporary = {0};
    text_puts(&temporary, path);
    text_puts(&temporary, ".tmp");
    FILE *f = text->failed || temporary.failed ? NULL : system_open(temporary.data, "wb");
    bool ok = f && fwrite(text->data, 1, text->len, f) == text->len && system_sync(f);
    int why = text->failed || temporary.failed ? ENOMEM : errno;
    if (f && fclose(f) != 0 && ok) {
        ok = false;
        why = errno;
    }
    if (ok && !system_replace(temporary.data, path)) {
        ok = false;
        why = errno;
    }
    if (!ok && f)
        (void)system_remove(temporary.data);
    text_free(&temporary);
    errno = why;
    return ok;
}

bool file_exists(const char *path)
{
    FILE *f = system_open(path, "rb");
    bool there = f || errno != ENOENT;
    if (f)
        fclose(f);
    return there;
}
