/* Templates and variables that mean harm (N23): limits, deep nesting, escapes from the sandbox, damage, no memory, cancel. */
#include "testutil.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cancel.h"
#include "base/json.h"
#include "text/jinja.h"
#include "text/jinja_str.h"

static infer_status run(const struct alloc *a, const char *tmpl, size_t len, const char *json, const struct jinja_options *o,
                        struct buf *out, infer_error *err)
{
    struct jinja *t;
    buf_init(out, a, 0);
    infer_status st = jinja_compile(a, tmpl, len, &t, err);
    if (st == INFER_OK) {
        st = jinja_render(t, a, json, strlen(json), o, out, err);
        jinja_free(t);
    }
    return st;
}

static void expect(infer_status want, const char *tmpl, const char *json)
{
    struct buf out;
    infer_error err = {0};
    infer_status st = run(&alloc_default, tmpl, strlen(tmpl), json, NULL, &out, &err);
    if (st != want)
        print_error("%.200s: status %d, expected %d: %.200s\n", tmpl, st, want, st ? err.text : out.data ? out.data : "");
    assert_int_equal(st, want);
    buf_free(&out);
}

static void expect_text(const char *want, const char *tmpl, const char *json)
{
    struct buf out;
    infer_error err;
    assert_int_equal(run(&alloc_default, tmpl, strlen(tmpl), json, NULL, &out, &err), INFER_OK);
    assert_int_equal(out.len, strlen(want));
    assert_memory_equal(out.data ? out.data : "", want, out.len);
    buf_free(&out);
}

static void test_endless(void **state)
{
    (void)state;
    const infer_status limit = INFER_ERROR_LIMIT;
    expect(limit, "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}{% endfor %}{% endfor %}{% endfor %}", "{}");
    expect(limit, "{% for a in range(100000) %}{% for b in range(100000) if b > 100000 %}x{% endfor %}{% endfor %}", "{}");
    expect(limit, "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{}");
    expect(limit, "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", "{}");
    expect(limit, "{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ g() }}", "{}");
    expect(limit, "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "{}");
    expect(limit, "{% macro f(x=f()) %}{% endmacro %}{{ f() }}", "{}");
    expect(limit, "{% set ns = namespace() %}{% macro m(x) %}{{ ns.f(x) }}{% endmacro %}{% set ns.f = m %}{{ m(1) }}", "{}");
}

static void test_explosions(void **state)
{
    (void)state;
    const infer_status limit = INFER_ERROR_LIMIT;
    static const char double_text[] = "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}";
    static const char double_list[] = "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}";
    static const char nest[] = "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}";
    char both[400];
    expect(limit, double_text, "{}");
    expect(limit, double_list, "{}");
    expect(INFER_OK, nest, "{}"); /* small: shared */
    static const char *const uses[] = {"{{ ns.s }}", "{{ ns.s|tojson }}", "{{ ns.s == [ns.s, 1] }}", "{{ ns.s|string|length }}", "{{ '%s' % [ns.s] }}", "{{ ns.s|tojson(indent=4) }}", "{{ [ns.s]|join }}"};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        snprintf(both, sizeof both, "%s%s", nest, uses[i]);
        expect(i == 2 ? INFER_OK : limit, both, "{}");
    }
    expect(limit, "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}", "{}");
    expect(limit, "{% set ns = namespace(a=[1]) %}{% for i in range(5000) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a }}", "{}");
    expect(limit, "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(5000) %}{% set ns.a = [ns.a] %}{% set ns.b = [ns.b] %}{% endfor %}{{ ns.a < ns.b }}", "{}");
    expect(limit, "{% set ns = namespace(a=(1,)) %}{% for i in range(5000) %}{% set ns.a = (ns.a,) %}{% endfor %}{{ {ns.a: 1} }}", "{}");
    expect(limit, "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", "{}");
    expect(limit, "{{ 'x' * 1000000000000 }}", "{}");
    expect(limit, "{{ 'x' * 1000000000 }}", "{}");
    expect(limit, "{{ [1] * 1000000000 }}", "{}");
    expect(limit, "{{ [[1] * 1000000] * 1000000000 }}", "{}");
    expect(limit, "{{ 'x'.center(1000000000) }}", "{}");
    expect(limit, "{{ 'x'|center(1000000000) }}", "{}");
    expect(limit, "{{ 'x'.zfill(1000000000) }}", "{}");
    expect(limit, "{{ '%1000000000d' % 1 }}", "{}");
    expect(limit, "{{ '%.1000000000f' % 1 }}", "{}");
    expect(limit, "{{ '{:1000000000}'.format(1) }}", "{}");
    expect(limit, "{{ '{:.1000000000e}'.format(1.5) }}", "{}");
    expect(limit, "{{ 'a\\nb'|indent(1000000000) }}", "{}");
    expect(limit, "{{ [1]|tojson(indent=1000000000) }}", "{}");
    expect(limit, "{{ range(10000000000)|list }}", "{}");
    expect(limit, "{{ range(-9223372036854775807, 9223372036854775807) }}", "{}");
    expect(limit, "{{ 2 ** 64 }}", "{}");
    expect(limit, "{{ 9223372036854775807 + 1 }}", "{}");
    expect(limit, "{{ 9223372036854775807 * 9223372036854775807 }}", "{}");
    expect(limit, "{{ -(-9223372036854775807 - 1) }}", "{}");
    expect(limit, "{{ (-9223372036854775807 - 1) // -1 }}", "{}");
    expect(limit, "{{ [1]|batch(100000000, 'x')|list }}", "{}");
    expect(limit, "{{ [1]|slice(100000000)|list }}", "{}");
    expect(limit, "{% set s = 'x' * 100000 %}{{ s.replace('x', s) }}", "{}");
    expect(limit, "{% set s = 'x' * 100000 %}{{ s|list|join(s) }}", "{}");
    expect(limit, "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}", "{}"); /* 100 MB of output */
    expect(limit, "{% set l = range(100000)|list %}{% for i in range(100000) %}{% set m = l|sort|list %}{% endfor %}", "{}");
    expect(INFER_OK, "{{ (range(1, 9223372036854775807, 4611686018427387904))[::9223372036854775807] }}", "{}");
    expect(INFER_OK, "{{ 'abc'[-9223372036854775807:9223372036854775807:-9223372036854775807] }}", "{}");
    expect(INFER_OK, "{{ 'abc'.find('b', -9223372036854775807, 9223372036854775807) }}", "{}");
    expect(INFER_ERROR_TEMPLATE, "{{ 'x'|truncate(-9223372036854775807, leeway=-1) }}", "{}");
}

static void test_limits_are_options(void **state)
{
    (void)state;
    struct buf out;
    infer_error err;
    const char *t = "{% for i in range(1000) %}0123456789{% endfor %}";
    struct jinja_options o = {.max_output = 10000};
    assert_int_equal(run(&alloc_default, t, strlen(t), "{}", &o, &out, &err), INFER_OK);
    assert_int_equal(out.len, 10000);
    buf_free(&out);
    o.max_output = 9999;
    assert_int_equal(run(&alloc_default, t, strlen(t), "{}", &o, &out, &err), INFER_ERROR_LIMIT);
    buf_free(&out);
    o = (struct jinja_options){.max_steps = 500};
    assert_int_equal(run(&alloc_default, t, strlen(t), "{}", &o, &out, &err), INFER_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "steps"));
    buf_free(&out);
    o = (struct jinja_options){.max_memory = 1000};
    assert_int_equal(run(&alloc_default, t, strlen(t), "{\"a\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}", &o, &out, &err), INFER_ERROR_LIMIT);
    buf_free(&out);
    o = (struct jinja_options){.max_output = UINT64_MAX, .max_steps = UINT64_MAX, .max_memory = UINT64_MAX};
    assert_int_equal(run(&alloc_default, t, strlen(t), "{}", &o, &out, &err), INFER_OK);
    buf_free(&out);
    /* the memory limit holds for what the host's allocator is asked for */
    struct test_alloc count = {0};
    struct alloc a = test_alloc_of(&count);
    const char *eater = "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l, 'x' * 1000] %}{% endfor %}";
    o = (struct jinja_options){.max_memory = 4 << 20};
    assert_int_equal(run(&a, eater, strlen(eater), "{}", &o, &out, &err), INFER_ERROR_LIMIT);
    buf_free(&out);
    assert_int_equal(count.live, 0);
    assert_true(count.peak_bytes < (8 << 20));
}

static void test_cancel(void **state)
{
    (void)state;
    struct buf out;
    infer_error err;
    struct infer_cancel cancel;
    ref_init(&cancel.ref);
    atomic_init(&cancel.flag, 1);
    const char *t = "{% for i in range(100000) %}{{ i }}{% endfor %}";
    struct jinja_options o = {.cancel = &cancel};
    assert_int_equal(run(&alloc_default, t, strlen(t), "{}", &o, &out, &err), INFER_ERROR_CANCELLED);
    buf_free(&out);
}

static void test_escapes(void **state)
{
    (void)state;
    static const char *const unsafe[] = {
        "{{ ''.__class__.__mro__ }}", "{{ ''.__class__.__base__.__subclasses__() }}", "{{ ''['__class__']['__mro__'] }}",
        "{{ (''|attr('__class__')).x }}", "{{ [].__class__() }}", "{{ {}.__class__.__init__.__globals__ }}",
        "{{ range.__globals__.x }}", "{{ namespace.__init__.__globals__['os'] }}", "{{ cycler.__init__.__globals__.os.popen('id') }}",
        "{{ '{0.__class__.__mro__}'.format('') }}", "{{ '{0[__class__].x}'.format({}) }}", "{{ raise_exception.__globals__.x }}",
        "{% macro f() %}{% endmacro %}{{ f.__call__.__func__ }}", "{% for i in [1] %}{{ loop.__class__.__mro__ }}{% endfor %}", "{{ self.__init__ }}",
        "{{ [1].append(2) }}", "{{ {}.update({'a': 1}) }}", "{{ {'a': 1}.pop('a') }}", "{{ [1].clear() }}", "{{ [1]|map(attribute='__class__')|map(attribute='x')|list }}",
        "{{ ['a']|map('attr', '__class__')|map('attr', 'y')|map('upper')|list and ''.__class__.z }}", "{% set x.y = 1 %}", "{% include '/etc/passwd' %}", "{% import 'os' as os %}",
    };
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
        expect(INFER_ERROR_TEMPLATE, unsafe[i], "{\"x\":{\"y\":1}}");
    expect_text("", "{{ ''.__class__ }}", "{}");
    expect_text("7", "{{ x['__class__'] }}", "{\"x\":{\"__class__\":7}}"); /* data is data */
}

static void test_missing_fields(void **state)
{
    (void)state;
    const char *t = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";
    expect_text("", t, "{}");
    expect_text(":;", t, "{\"messages\":[{}]}");
    expect(INFER_OK, t, "{\"messages\":\"text\"}");
    expect(INFER_ERROR_TEMPLATE, t, "{\"messages\":null}");
    expect(INFER_ERROR_TEMPLATE, t, "{\"messages\":5}");
    expect(INFER_ERROR_TEMPLATE, "{{ messages[0].content.text.x }}", "{\"messages\":[{}]}");
    expect(INFER_ERROR_TEMPLATE, "{{ messages[0].content + 'x' }}", "{\"messages\":[{}]}");
    static const char *const not_objects[] = {"", "[]", "1", "null", "{", "{\"a\":}", "{\"a\":1}x", "\xff"};
    for (size_t i = 0; i < sizeof not_objects / sizeof *not_objects; i++)
        expect(INFER_ERROR_SYNTAX, t, not_objects[i]);
}

/* prefix x n, middle, suffix x n. */
static void nested(const char *prefix, size_t n, const char *middle, const char *suffix, bool variable)
{
    size_t p = strlen(prefix), s = strlen(suffix), m = strlen(middle), len = 0;
    char *t = malloc(n * (p + s) + m + 16);
    struct buf out;
    infer_error err;
    if (variable)
        len += (size_t)sprintf(t, "{{ ");
    for (size_t i = 0; i < n; i++, len += p)
        memcpy(t + len, prefix, p);
    memcpy(t + len, middle, m);
    len += m;
    for (size_t i = 0; i < n; i++, len += s)
        memcpy(t + len, suffix, s);
    if (variable)
        len += (size_t)sprintf(t + len, " }}");
    infer_status st = run(&alloc_default, t, len, "{\"a\":1}", NULL, &out, &err);
    assert_true(n < 50 ? st == INFER_OK : st == INFER_ERROR_LIMIT || st == INFER_ERROR_TEMPLATE || st == INFER_ERROR_SYNTAX);
    buf_free(&out);
    free(t);
}

static void test_deep(void **state)
{
    (void)state;
    static const struct {
        const char *prefix, *middle, *suffix;
        bool variable;
    } kinds[] = {
        {"(", "1", ")", true},      {"[", "1", "]", true},        {"{1:", "1", "}", true},          {"not ", "1", "", true},
        {"-", "1", "", true},       {"", "1", " + 1", true},      {"", "1", " if 1", true},         {"1 if 1 else ", "1", "", true},
        {"", "1", "|string", true}, {"", "1", " is defined", true}, {"", "'x'", ".upper()", true},    {"a[", "1", "]", true},
        {"", "[[]]", "[0:]", true}, {"dict(a=", "1", ")", true},  {"", "1", " and 1", true},        {"", "1", " < 2", true},
        {"", "2", " ** 1", true},   {"", "'x'", " ~ 'x'", true},  {"(", "1", ",)", true},           {"1|default(", "1", ")", true},
        {"{% if 1 %}", "x", "{% endif %}", false},               {"{% for i in [1] %}", "x", "{% endfor %}", false},
        {"{% if 0 %}{% else %}", "x", "{% endif %}", false},     {"{% with %}", "x", "{% endwith %}", false},
        {"{% macro f() %}", "x", "{% endmacro %}", false},       {"{% filter upper %}", "x", "{% endfilter %}", false},
        {"{% set x %}", "x", "{% endset %}", false},             {"{% generation %}", "x", "{% endgeneration %}", false},
        {"{% block x %}", "x", "{% endblock %}", false},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bool tests_do_not_chain = strstr(kinds[i].suffix, "is defined") != NULL, method_of_bool = strstr(kinds[i].prefix, "a[") != NULL;
        if (!tests_do_not_chain && !method_of_bool)
            nested(kinds[i].prefix, 20, kinds[i].middle, kinds[i].suffix, kinds[i].variable);
        bool flat = strstr(kinds[i].suffix, "~") || strstr(kinds[i].suffix, "<"); /* any length is fine */
        for (size_t n = 200; n <= 200000 && !flat; n *= 10)
            nested(kinds[i].prefix, n == 200 ? 5000 : n, kinds[i].middle, kinds[i].suffix, kinds[i].variable);
    }
    char *deep = malloc(600001);
    memset(deep, '[', 300000);
    memset(deep + 300000, ']', 300000);
    deep[600000] = 0;
    expect(INFER_ERROR_LIMIT, "x", deep);
    free(deep);
}

/* Searching is linear, and right: against a plain search, on texts with many near misses. */
static void test_search(void **state)
{
    (void)state;
    uint64_t seed = 7;
    char text[300], needle[80];
    for (int round = 0; round < 60000; round++) {
        size_t n = (size_t)(test_rand(&seed) % 200) + 60, m = (size_t)(test_rand(&seed) % 60) + 1;
        unsigned letters = 1 + round % 3;
        for (size_t i = 0; i < n; i++)
            text[i] = (char)('a' + test_rand(&seed) % letters);
        if (round % 2) /* a piece of the text, maybe damaged */
            memcpy(needle, text + test_rand(&seed) % (n - m + 1), m);
        else
            for (size_t i = 0; i < m; i++)
                needle[i] = (char)('a' + (i % 7 == 3) % letters);
        if (round % 5 == 0)
            needle[test_rand(&seed) % m] ^= 1;
        size_t first = JS_NONE, last = JS_NONE;
        for (size_t i = 0; i + m <= n; i++)
            if (!memcmp(text + i, needle, m)) {
                first = first == JS_NONE ? i : first;
                last = i;
            }
        assert_true(js_find(text, 0, n, needle, m) == first);
        assert_true(js_rfind(text, 0, n, needle, m) == last);
    }
    static const char *const slow[] = {
        "{% set s = 'a' * 1000000 %}{% set n = 'a' * 500000 ~ 'b' %}{{ n in s }}{{ s.find(n) }}{{ s.split(n)|length }}{{ s.replace(n, '') == s }}",
        "{% set s = 'a' * 1000000 %}{% set n = 'b' ~ 'a' * 500000 %}{{ s.rfind(n) }}{{ s.rsplit(n)|length }}{{ s.count(n) }}",
        "{{ ('<!--' * 300000)|striptags|length }}",
        "{{ ('<' * 1000000)|striptags|length }}",
    };
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        expect(INFER_OK, slow[i], "{}");
    expect(INFER_ERROR_LIMIT, "{% set s = 'a' * 1000000 %}{{ s.strip('b' * 1000000 ~ 'a') }}", "{}");
    expect(INFER_ERROR_LIMIT, "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set x = s|wordcount + s.istitle() %}{% endfor %}", "{}");
    expect(INFER_ERROR_LIMIT, "{% for i in range(100000) %}{% for j in range(100) %}{% set x = '%.1000f' % 1e-300 %}{% endfor %}{% endfor %}", "{}");
}

/* ---- damage ---- */

static infer_status render_damaged(const char *text, size_t len, const char *json, size_t json_len)
{
    struct jinja *t;
    struct buf out;
    infer_error err;
    struct jinja_options o = {.max_steps = 20000, .max_output = 200000, .max_memory = 4 << 20};
    char *copy = malloc(len ? len : 1), *json_copy = malloc(json_len ? json_len : 1);
    memcpy(copy, text, len);
    memcpy(json_copy, json, json_len);
    buf_init(&out, &alloc_default, 0);
    infer_status st = jinja_compile(&alloc_default, copy, len, &t, &err);
    free(copy);
    if (st == INFER_OK) {
        st = jinja_render(t, &alloc_default, json_copy, json_len, &o, &out, &err);
        jinja_free(t);
    }
    if (st != INFER_OK) {
        assert_int_equal(err.code, st);
        assert_true(err.text[0] != 0);
        assert_true(err.offset == ERR_NO_OFFSET || err.offset <= len + json_len);
    }
    buf_free(&out);
    free(json_copy);
    return st;
}

static void damage(const char *text, size_t len, const char *json, size_t json_len, uint64_t *seed, int rounds)
{
    static const char pieces[] = "{}%#-+'\"\\|.,:()[]~=<>!*/_ \n\xC3\xA9\xF0if endfor set in not and";
    char *t = malloc(len + 8);
    for (int i = 0; i < rounds; i++) {
        size_t n = len;
        memcpy(t, text, len);
        for (uint64_t k = test_rand(seed) % 5; k > 0 && n > 4; k--) {
            size_t at = (size_t)(test_rand(seed) % n);
            switch (test_rand(seed) % 4) {
            case 0:
                t[at] = pieces[test_rand(seed) % (sizeof pieces - 1)];
                break;
            case 1:
                memmove(t + at, t + at + 1, n - at - 1);
                n--;
                break;
            case 2: {
                size_t from = (size_t)(test_rand(seed) % n), some = (size_t)(test_rand(seed) % 20);
                some = from + some > n ? n - from : some;
                some = at + some > n ? n - at : some;
                memmove(t + at, t + from, some);
                break;
            }
            default:
                n = at;
            }
        }
        render_damaged(t, n, json, json_len);
    }
    free(t);
}

static void test_damaged_golden(void **state)
{
    (void)state;
    size_t len;
    uint64_t seed = 23;
    char *lines = test_read_file(INFER_SOURCE_DIR "/tests/data/jinja-golden.jsonl", &len);
    assert_non_null(lines);
    char *end = strchr(lines, '\n'), *vars = lines + 5;
    size_t vars_len = (size_t)(end - vars) - 1, count = 0;
    struct arena ar;
    arena_init(&ar, &alloc_default, 0);
    for (char *line = end + 1; (end = strchr(line, '\n')) != NULL; line = end + 1, count++) {
        struct json want;
        assert_int_equal(json_parse(&ar, line, (size_t)(end - line), NULL, &want, NULL), INFER_OK);
        const struct json *t = json_get(&want, "t");
        damage(t->u.text.p, t->u.text.len, vars, vars_len, &seed, 3);
    }
    assert_true(count > 1000);
    for (int i = 0; i < 200; i++) /* damaged variables */
        damage(vars, vars_len, "{}", 2, &seed, 1);
    arena_free(&ar);
    free(lines);
}

static void test_damaged_published(void **state)
{
    (void)state;
    TEST_NEEDS_SHARED();
    struct arena ar;
    struct json templates;
    size_t len, c_len;
    uint64_t seed = 99;
    char *text = test_read_file(INFER_SHARED_DIR "/data/chat/templates.json", &len);
    char *contexts = test_read_file(INFER_SHARED_DIR "/data/chat/contexts.json", &c_len);
    assert_non_null(text);
    assert_non_null(contexts);
    char *start = strstr(contexts, "\"tool_use\":");
    assert_non_null(start);
    start = strchr(start, '{');
    size_t n = 0;
    for (int depth = 0, quoted = 0; n == 0 || depth > 0; n++) {
        quoted ^= start[n] == '"' && start[n - 1] != '\\';
        depth += !quoted && start[n] == '{';
        depth -= !quoted && start[n] == '}';
    }
    arena_init(&ar, &alloc_default, 0);
    assert_int_equal(json_parse(&ar, text, len, NULL, &templates, NULL), INFER_OK);
    assert_true(templates.n > 80);
    for (size_t i = 0; i < templates.n; i++) {
        struct json_text t = templates.u.members[i].value.u.text;
        damage(t.p, t.len, start, n, &seed, 25);
        for (int k = 0; k < 5; k++)
            render_damaged(t.p, (size_t)(test_rand(&seed) % (t.len + 1)), start, n);
    }
    arena_free(&ar);
    free(text);
    free(contexts);
}

/* ---- no memory ---- */

static const char rich[] =
    "{% set ns = namespace(n=0, l=[], s='') %}{% macro item(x, y=2) %}<{{ x|upper }}{{ y }}{{ varargs }}{{ kwargs }}>{% endmacro %}\n"
    "{% for m in messages if m.role != 'x' %}{% set ns.n = ns.n + 1 %}{% set ns.l = ns.l + [m.content] %}{% set ns.s = ns.s ~ m.content %}\n"
    "{{ loop.index }}/{{ loop.length }} {{ item(m.role, 3, 4, k=loop.first) }} {{ m|tojson(indent=2) }} {{ m.content.split(' ')|join('+') }}\n"
    "{% if loop.last %}{{ ns.l|sort|map('title')|list }} {{ '%s-%d'|format(ns.s, ns.n) }} {{ '{:>10}'.format(ns.n) }}{% endif %}{% endfor %}\n"
    "{% filter trim|replace('a', 'b') %} {{ messages|groupby('role') }} {% endfilter %}{% set block %}{{ {'a': 1, 'b': [1.5, none]} }}{% endset %}{{ block[::-1] }}\n"
    "{% call(z) item('q') %}{{ z }}{% endcall %}{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ strftime_now('%Y') }}{{ (undef.x is defined) if false }}";

static const char rich_vars[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"hello there world\"},{\"role\":\"assistant\",\"content\":\"h\\u00e9\"},"
                                "{\"role\":\"user\",\"content\":\"again and again\"}],\"big\":{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":10}}";

static void test_no_memory(void **state)
{
    (void)state;
    uint64_t k = 1;
    for (int rest = 0; rest < 2; rest++)
        for (k = 1;; k++) {
            struct test_alloc t = {.fail_at = k, .fail_rest = rest};
            struct alloc a = test_alloc_of(&t);
            struct buf out;
            infer_error err;
            infer_status st = run(&a, rich, sizeof rich - 1, rich_vars, NULL, &out, &err);
            buf_free(&out);
            assert_int_equal(t.live, 0);
            if (st == INFER_OK)
                break;
            assert_int_equal(st, INFER_ERROR_NO_MEMORY);
        }
    print_message("%d allocations failed in turn\n", (int)k - 1);
    assert_true(k > 20);
}

/* ---- threads ---- */

struct job {
    const struct jinja *t;
    struct buf out;
    infer_status st;
};

static void *render_often(void *arg)
{
    struct job *job = arg;
    for (int i = 0; i < 50; i++) {
        buf_free(&job->out);
        buf_init(&job->out, &alloc_default, 0);
        job->st = jinja_render(job->t, &alloc_default, rich_vars, sizeof rich_vars - 1, NULL, &job->out, NULL);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct jinja *t;
    struct job jobs[4];
    pthread_t threads[4];
    size_t len = (size_t)(strstr(rich, "{% call") - rich);
    assert_int_equal(jinja_compile(&alloc_default, rich, len, &t, NULL), INFER_OK);
    for (int i = 0; i < 4; i++) {
        jobs[i] = (struct job){.t = t};
        buf_init(&jobs[i].out, &alloc_default, 0);
        assert_int_equal(pthread_create(&threads[i], NULL, render_often, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(jobs[i].st, INFER_OK);
        assert_true(jobs[i].out.len > 100 && jobs[i].out.len == jobs[0].out.len);
        assert_memory_equal(jobs[i].out.data, jobs[0].out.data, jobs[0].out.len);
    }
    for (int i = 0; i < 4; i++)
        buf_free(&jobs[i].out);
    jinja_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endless),         cmocka_unit_test(test_explosions),        cmocka_unit_test(test_limits_are_options),
        cmocka_unit_test(test_cancel),          cmocka_unit_test(test_escapes),           cmocka_unit_test(test_missing_fields),
        cmocka_unit_test(test_deep),            cmocka_unit_test(test_damaged_golden),    cmocka_unit_test(test_damaged_published),
        cmocka_unit_test(test_no_memory),       cmocka_unit_test(test_threads),
        cmocka_unit_test(test_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
