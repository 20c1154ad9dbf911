#include "text/template.h"

#include <string.h>

#include "base/fpenv.h"

/* The format of OpenAI's ChatML as models use it: the usual guess for a model that says nothing. */
static const char chatml[] = "{% for message in messages %}"
                             "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
                             "{% endfor %}"
                             "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

static const char key[] = "tokenizer.chat_template";

static infer_status create(const struct env *env, const char *text, size_t len, bool fallback, infer_template **out,
                           infer_error *err)
{
    infer_template *t = mem_zalloc(&env->alloc, sizeof *t);
    if (!t)
        return err_no_memory(err);
    ref_init(&t->ref);
    t->env = env_ref(env);
    t->fallback = fallback;
    t->len = len;
    struct fpenv fp = fpenv_enter(); /* number literals */
    infer_status st = jinja_compile(&env->alloc, text, len, &t->jinja, err);
    fpenv_leave(fp);
    if (st == INFER_OK) {
        t->text = mem_strdup(&env->alloc, text, len);
        if (!t->text)
            st = err_no_memory(err);
    }
    if (st != INFER_OK) {
        template_release(t);
        return st;
    }
    *out = t;
    return INFER_OK;
}

infer_status template_create(const struct env *env, const char *text, size_t len, infer_template **out, infer_error *err)
{
    return create(env, text, len, false, out, err);
}

infer_status template_create_chatml(const struct env *env, infer_template **out, infer_error *err)
{
    return create(env, chatml, sizeof chatml - 1, true, out, err);
}

infer_status template_create_from_file(const struct env *env, const struct infer_file *file, infer_template **out,
                                       infer_error *err)
{
    struct file_str text;
    if (!file_has(file, key))
        return template_create_chatml(env, out, err);
    infer_status st = file_get_string(file, key, &text, err);
    if (st != INFER_OK)
        return st;
    if (text.len > JINJA_MAX_SOURCE)
        st = err_at(err, INFER_ERROR_LIMIT, key, sizeof key - 1, ERR_NO_OFFSET, "chat template is longer than %llu bytes",
                    (unsigned long long)JINJA_MAX_SOURCE);
    else
        st = template_create(env, text.data, (size_t)text.len, out, err);
    return st == INFER_OK ? st : file_failed(file, err, st);
}

infer_template *template_ref(infer_template *t)
{
    ref_get(&t->ref);
    return t;
}

void template_release(infer_template *t)
{
    if (!t || !ref_put(&t->ref))
        return;
    const struct env *env = t->env;
    jinja_free(t->jinja);
    mem_free(&env->alloc, t->text);
    mem_free(&env->alloc, t);
    env_release(env);
}

infer_status template_render(const infer_template *t, const char *json, size_t json_len,
                             const struct jinja_options *options, struct buf *out, infer_error *err)
{
    struct fpenv fp = fpenv_enter();
    infer_status st = jinja_render(t->jinja, &t->env->alloc, json, json_len, options, out, err);
    fpenv_leave(fp);
    return st;
}
