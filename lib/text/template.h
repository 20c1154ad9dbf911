/* The handle behind infer_template: a chat template's text and its compiled form. Immutable after it was made. */
#ifndef TEXT_TEMPLATE_H
#define TEXT_TEMPLATE_H

#include "base/env.h"
#include "base/ref.h"
#include "formats/file.h"
#include "text/jinja.h"

struct infer_template {
    struct ref ref;
    const struct env *env; /* a reference */
    char *text;            /* as it was given; zero-terminated */
    size_t len;
    struct jinja *jinja;
    bool fallback; /* ChatML, because the file has no template */
};

infer_status template_create(const struct env *env, const char *text, size_t len, infer_template **out, infer_error *err);
/* The stand-in for models without a template; template.fallback is set. */
infer_status template_create_chatml(const struct env *env, infer_template **out, infer_error *err);
/* `tokenizer.chat_template` of the file; ChatML when it has none. Errors: those of template_create, with the file's name. */
infer_status template_create_from_file(const struct env *env, const struct infer_file *file, infer_template **out,
                                       infer_error *err);
infer_template *template_ref(infer_template *t); /* returns t */
void template_release(infer_template *t);        /* t may be NULL */

/* Appends to *out, which was initialised with the allocator to use. */
infer_status template_render(const infer_template *t, const char *json, size_t json_len,
                             const struct jinja_options *options, struct buf *out, infer_error *err);

#endif
