/* Templates against what Jinja2 3.1.6 renders: the published ones beside the checkout, and the project's own set. */
#include "testutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "text/jinja.h"

#define NOW 1752148800 /* 2025-07-10 12:00:00 */

static infer_status render(const char *tmpl, size_t len, const char *json, size_t json_len, struct buf *out, infer_error *err)
{
    struct jinja *t;
    struct jinja_options o = {.now = NOW};
    buf_init(out, &alloc_default, 0);
    infer_status st = jinja_compile(&alloc_default, tmpl, len, &t, err);
    if (st == INFER_OK) {
        st = jinja_render(t, &alloc_default, json, json_len, &o, out, err);
        jinja_free(t);
    }
    return st;
}

static struct json_text text_of(const struct json *object, const char *key)
{
    const struct json *v = json_get(object, key);
    return v && v->type == JSON_STRING ? v->u.text : (struct json_text){NULL, 0};
}

/* The text of a value inside its document: from its offset to the matching end. */
static struct json_text source_of(const char *doc, const struct json *v)
{
    size_t i = v->offset, depth = 0;
    bool quoted = false;
    do {
        char c = doc[i];
        if (quoted) {
            i += c == '\\';
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else {
            depth += c == '{' || c == '[';
            depth -= c == '}' || c == ']';
        }
        i++;
    } while (depth);
    return (struct json_text){doc + v->offset, i - v->offset};
}

/* One expected result against ours: a message for the log on failure. */
static bool check(struct json_text tmpl, struct json_text context, const struct json *want, const char *label)
{
    struct buf out;
    infer_error err;
    struct json_text text = text_of(want, "output");
    infer_status st = render(tmpl.p, tmpl.len, context.p, context.len, &out, &err);
    bool ok = text.p ? st == INFER_OK && out.len == text.len && !memcmp(out.data ? out.data : "", text.p, text.len)
                     : st == INFER_ERROR_TEMPLATE || st == INFER_ERROR_SYNTAX || st == INFER_ERROR_LIMIT;
    if (!ok)
        print_error("%s: %s%.*s\n", label, st == INFER_OK ? "rendered " : err.text, (int)(st == INFER_OK ? out.len : 0),
                    out.data ? out.data : "");
    buf_free(&out);
    return ok;
}

static const struct json *load(struct arena *ar, const char *path, char **text, struct json *out)
{
    size_t len;
    infer_error err;
    *text = test_read_file(path, &len);
    assert_non_null(*text);
    assert_int_equal(json_parse(ar, *text, len, NULL, out, &err), INFER_OK);
    return out;
}

static void test_published(void **state)
{
    (void)state;
    TEST_NEEDS_SHARED();
    struct arena ar;
    struct json templates, contexts;
    char *t_text, *c_text;
    arena_init(&ar, &alloc_default, 0);
    load(&ar, INFER_SHARED_DIR "/data/chat/templates.json", &t_text, &templates);
    load(&ar, INFER_SHARED_DIR "/data/chat/contexts.json", &c_text, &contexts);
    size_t len, count = 0, failures = 0;
    char *lines = test_read_file(INFER_SHARED_DIR "/data/chat/renderings.jsonl", &len);
    assert_non_null(lines);
    for (char *line = lines, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        struct json want;
        char name[80], label[256];
        assert_int_equal(json_parse(&ar, line, (size_t)(end - line), NULL, &want, NULL), INFER_OK);
        struct json_text context = text_of(&want, "context");
        struct json_text which = text_of(&want, "template");
        assert_true(context.len < sizeof name && which.p);
        struct json_text tmpl = text_of(&templates, which.p);
        assert_non_null(tmpl.p);
        const struct json *vars = json_get(&contexts, context.p);
        assert_non_null(vars);
        snprintf(label, sizeof label, "%s with %s", which.p, context.p);
        failures += !check(tmpl, source_of(c_text, vars), &want, label);
        count++;
    }
    print_message("%zu renderings, %zu wrong\n", count, failures);
    assert_true(count > 900);
    assert_int_equal(failures, 0);
    arena_free(&ar);
    free(t_text);
    free(c_text);
    free(lines);
}

/* The project's own set: the first line holds the variables, the others a template each. */
static void test_golden(void **state)
{
    (void)state;
    struct arena ar;
    struct json first;
    size_t len, count = 0, failures = 0;
    char *lines = test_read_file(INFER_SOURCE_DIR "/tests/data/jinja-golden.jsonl", &len);
    assert_non_null(lines);
    arena_init(&ar, &alloc_default, 0);
    char *end = strchr(lines, '\n');
    assert_non_null(end);
    assert_int_equal(json_parse(&ar, lines, (size_t)(end - lines), NULL, &first, NULL), INFER_OK);
    struct json_text vars = source_of(lines, json_get(&first, "c")), none = {"{}", 2};
    for (char *line = end + 1; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        struct json want;
        assert_int_equal(json_parse(&ar, line, (size_t)(end - line), NULL, &want, NULL), INFER_OK);
        struct json_text tmpl = text_of(&want, "t");
        assert_non_null(tmpl.p);
        failures += !check(tmpl, json_get(&want, "c")->u.integer ? vars : none, &want, tmpl.p);
        count++;
    }
    print_message("%zu templates, %zu wrong\n", count, failures);
    assert_true(count > 1000);
    assert_int_equal(failures, 0);
    arena_free(&ar);
    free(lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
