/* infer_template_* as a host sees them. */
#include "testutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/infer.h"

static const char hello[] = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}";
static const char vars[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"h\xC3\xA9llo\"}],\"add_generation_prompt\":true}";

static infer_template *parse(const char *text)
{
    infer_template *t = NULL;
    infer_error err;
    INFER_INIT(&err);
    assert_int_equal(infer_template_parse(NULL, text, INFER_ZSTR, &t, &err), INFER_OK);
    assert_non_null(t);
    return t;
}

static void test_render(void **state)
{
    (void)state;
    infer_template *t = parse(hello);
    char out[64];
    uint64_t len = 0, text_len = 0;
    const char *text = NULL;
    const char *want = "[user] h\xC3\xA9llo\n";
    assert_int_equal(infer_template_is_fallback(t), 0);
    infer_template_text(t, &text, &text_len);
    assert_int_equal(text_len, sizeof hello - 1);
    assert_string_equal(text, hello);
    memset(out, 'x', sizeof out);
    assert_int_equal(infer_template_render(t, vars, INFER_ZSTR, NULL, out, sizeof out, &len, NULL), INFER_OK);
    assert_int_equal(len, strlen(want));
    assert_memory_equal(out, want, len);
    assert_int_equal(out[len], 'x'); /* no terminator */
    /* exact, one short, none */
    assert_int_equal(infer_template_render(t, vars, sizeof vars - 1, NULL, out, len, &len, NULL), INFER_OK);
    memset(out, 'y', sizeof out);
    infer_error err;
    INFER_INIT(&err);
    assert_int_equal(infer_template_render(t, vars, INFER_ZSTR, NULL, out, len - 1, &len, &err), INFER_ERROR_BUFFER);
    assert_int_equal(err.code, INFER_ERROR_BUFFER);
    assert_int_equal(len, strlen(want));
    assert_int_equal(out[0], 'y');
    len = 0;
    assert_int_equal(infer_template_render(t, vars, INFER_ZSTR, NULL, NULL, 0, &len, NULL), INFER_ERROR_BUFFER);
    assert_int_equal(len, strlen(want));
    assert_ptr_equal(infer_template_ref(t), t);
    infer_template_release(t);
    infer_template_release(t);
    infer_template_release(NULL);
    t = parse("");
    assert_int_equal(infer_template_render(t, "{}", 2, NULL, NULL, 0, &len, NULL), INFER_OK);
    assert_int_equal(len, 0);
    infer_template_release(t);
}

static void test_options(void **state)
{
    (void)state;
    infer_template *t = parse("{{ strftime_now('%Y-%m-%d') }}{% for i in range(n) %}x{% endfor %}");
    char out[4096];
    uint64_t len = 0;
    infer_error err;
    infer_render_options o;
    INFER_INIT(&o);
    INFER_INIT(&err);
    o.now = 1752148800;
    assert_int_equal(infer_template_render(t, "{\"n\":1}", INFER_ZSTR, &o, out, sizeof out, &len, &err), INFER_OK);
    assert_int_equal(len, 11);
    assert_memory_equal(out, "2025-07-10x", 11);
    o.now = -62135596800; /* 0001-01-01 */
    assert_int_equal(infer_template_render(t, "{\"n\":0}", INFER_ZSTR, &o, out, sizeof out, &len, &err), INFER_OK);
    assert_memory_equal(out, "1-01-01", 7);
    o.max_output = 100;
    assert_int_equal(infer_template_render(t, "{\"n\":1000}", INFER_ZSTR, &o, out, sizeof out, &len, &err), INFER_ERROR_LIMIT);
    o.max_output = 0;
    o.max_steps = 100;
    assert_int_equal(infer_template_render(t, "{\"n\":1000}", INFER_ZSTR, &o, out, sizeof out, &len, &err), INFER_ERROR_LIMIT);
    infer_cancel *cancel;
    assert_int_equal(infer_cancel_create(&cancel, NULL), INFER_OK);
    infer_cancel_set(cancel);
    o.max_steps = 0;
    o.cancel = cancel;
    assert_int_equal(infer_template_render(t, "{\"n\":1000}", INFER_ZSTR, &o, out, sizeof out, &len, &err), INFER_ERROR_CANCELLED);
    infer_cancel_release(cancel);
    o.size = 3;
    assert_int_equal(infer_template_render(t, "{\"n\":1}", INFER_ZSTR, &o, out, sizeof out, &len, &err), INFER_ERROR_ARGUMENT);
    infer_template_release(t);
}

static void test_errors(void **state)
{
    (void)state;
    infer_template *t = NULL;
    infer_error err;
    char out[16];
    uint64_t len;
    INFER_INIT(&err);
    assert_int_equal(infer_template_parse(NULL, "ab\r\n\r\n{{ x +* 1 }}", INFER_ZSTR, &t, &err), INFER_ERROR_SYNTAX);
    assert_null(t);
    assert_int_equal(err.offset, 12);
    assert_non_null(strstr(err.text, "line 3"));
    assert_int_equal(infer_template_parse(NULL, "a\xFFz", 3, &t, &err), INFER_ERROR_SYNTAX);
    assert_int_equal(err.offset, 1);
    assert_int_equal(infer_template_parse(NULL, NULL, 5, &t, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_template_parse(NULL, "x", 1, NULL, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_template_parse(NULL, "x", UINT64_MAX - 1, &t, &err), INFER_ERROR_LIMIT);
    t = parse("x\n{% if true %}{{ raise_exception('no: \xC3\xA9') }}{% endif %}");
    assert_int_equal(infer_template_render(t, "{}", 2, NULL, out, sizeof out, &len, &err), INFER_ERROR_TEMPLATE);
    assert_non_null(strstr(err.text, "no: \xC3\xA9"));
    assert_non_null(strstr(err.text, "line 2"));
    assert_true(err.offset > 15 && err.offset < 40);
    assert_int_equal(infer_template_render(t, "{\"a\":}", 6, NULL, out, sizeof out, &len, &err), INFER_ERROR_SYNTAX);
    assert_int_equal(err.offset, 5);
    assert_int_equal(infer_template_render(NULL, "{}", 2, NULL, out, sizeof out, &len, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_template_render(t, "{}", 2, NULL, out, sizeof out, NULL, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_template_render(t, "{}", 2, NULL, NULL, 5, &len, &err), INFER_ERROR_ARGUMENT);
    assert_int_equal(infer_template_render(t, NULL, 2, NULL, out, sizeof out, &len, &err), INFER_ERROR_ARGUMENT);
    infer_template_release(t);
    assert_int_equal(infer_template_is_fallback(NULL), 0);
    assert_null(infer_template_ref(NULL));
    /* a very long message is cut between characters */
    char text[1300] = "{{ raise_exception('";
    size_t n = strlen(text);
    for (; n < 1200; n += 2)
        memcpy(text + n, "\xC3\xA9", 2);
    strcpy(text + n, "') }}");
    t = parse(text);
    assert_int_equal(infer_template_render(t, "{}", 2, NULL, out, sizeof out, &len, &err), INFER_ERROR_TEMPLATE);
    n = strlen(err.text);
    assert_true(n > 200 && (unsigned char)err.text[n - 1] == 0xA9 && (unsigned char)err.text[n - 2] == 0xC3);
    infer_template_release(t);
}

/* A GGUF file of version 3 with one string, or none, in its metadata. */
static size_t make_gguf(char *out, const char *key, const char *value)
{
    size_t n = 0;
    uint32_t version = 3, type = 8;
    uint64_t tensors = 0, keys = key != NULL, len;
    memcpy(out, "GGUF", 4);
    memcpy(out + 4, &version, 4);
    memcpy(out + 8, &tensors, 8);
    memcpy(out + 16, &keys, 8);
    n = 24;
    if (!key)
        return n;
    len = strlen(key);
    memcpy(out + n, &len, 8);
    memcpy(out + n + 8, key, len);
    n += 8 + len;
    memcpy(out + n, &type, 4);
    len = strlen(value);
    memcpy(out + n + 4, &len, 8);
    memcpy(out + n + 12, value, len);
    return n + 12 + len;
}

static infer_status open_gguf(const char *key, const char *value, infer_template **out, infer_error *err)
{
    static _Alignas(64) char file[4096];
    infer_source source;
    infer_source_memory(&source, file, make_gguf(file, key, value));
    return infer_template_open(NULL, &source, NULL, out, err);
}

static void test_open(void **state)
{
    (void)state;
    infer_template *t = NULL;
    infer_error err;
    char out[256];
    uint64_t len;
    INFER_INIT(&err);
    assert_int_equal(open_gguf("tokenizer.chat_template", hello, &t, &err), INFER_OK);
    assert_int_equal(infer_template_is_fallback(t), 0);
    assert_int_equal(infer_template_render(t, vars, INFER_ZSTR, NULL, out, sizeof out, &len, &err), INFER_OK);
    assert_memory_equal(out, "[user] h", 8);
    infer_template_release(t);
    assert_int_equal(open_gguf("general.name", "none", &t, &err), INFER_OK);
    assert_int_equal(infer_template_is_fallback(t), 1);
    assert_int_equal(infer_template_render(t, vars, INFER_ZSTR, NULL, out, sizeof out, &len, &err), INFER_OK);
    static const char want[] = "<|im_start|>user\nh\xC3\xA9llo<|im_end|>\n<|im_start|>assistant\n";
    assert_int_equal(len, sizeof want - 1);
    assert_memory_equal(out, want, len);
    infer_template_release(t);
    t = NULL;
    assert_int_equal(open_gguf("tokenizer.chat_template", "{% if %}", &t, &err), INFER_ERROR_SYNTAX);
    assert_null(t);
    infer_source source;
    infer_source_path(&source, "/nonexistent/model.gguf", INFER_ZSTR);
    assert_int_equal(infer_template_open(NULL, &source, NULL, &t, &err), INFER_ERROR_NOT_FOUND);
    assert_int_equal(infer_template_open(NULL, NULL, NULL, &t, &err), INFER_ERROR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_render),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
