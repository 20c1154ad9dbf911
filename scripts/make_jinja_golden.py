#!/usr/bin/env python3
"""Writes tests/data/jinja-golden.jsonl: small templates, their variables, and what Jinja2 3.1.6 (set up as Hugging Face does) makes
of them. One JSON object a line: t: template, c: variables (absent: none), output or error. Needs jinja2 3.1.6."""
import json
import sys

import jinja_oracle
from fuzz_jinja import CONTEXT, FILTERS, METHODS, TESTS

CASES = []  # template, or (template, variables)


def add(*cases):
    CASES.extend(cases)


# White space.
add("a\n", "a\n\n", "a\r\nb\rc\n", "  {% if true %}\n  x\n  {% endif %}\n  y", "{{ 1 }}\n{{ 2 }}\n", "x  {%- if 1 -%}  y  {%- endif -%}  z",
    "x\n  {%+ if 1 %}\n y\n {%+ endif %}", "a {# c #} b", "a\n  {# c #}\n b", "a\n {#- c -#}\n b", "{#-#}x", "{# a {{ b }} {% c %} #}",
    "{% raw %}{{ x }} {% if %}{% endraw %}", "  {% raw %}\n a {% endraw %}\n b", "a {%- raw -%}  b  {%- endraw -%} c", "{{- 1 -}} x {{- 2 -}}",
    "  {{ 1 }}  ", "\n\n{% set x = 1 %}\n\n{{ x }}", "{% if 1 +%}\nx{% endif %}", "a\u2003{%- if 1 %}b{% endif -%}\u2003c", "x{{ '\n' }}y\n", "{% if true %}a{% endif %}\n\nb\n",
    "\t{% if 1 %}\tx\t{% endif %}\t\n", "a\n  \n  {% set a = 1 %}\nb", "{%- for i in [1,2] %}\n  - {{ i }}\n{%- endfor %}\n", "{% for i in [1,2] -%}\n  {{ i }}\n{% endfor -%}\n end")
# Literals and operators.
add("{{ 1 + 2 * 3 - 4 / 2 }}", "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}",
    "{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** -1 }} {{ 2.5 ** 3 }} {{ 10 ** 18 }}", "{{ 1_000 }} {{ 0x_ff }} {{ 0b101 }} {{ 0o17 }} {{ 1e3 }} {{ 1.5e-5 }} {{ 1_0.5 }}",
    "{{ 'a' 'b' \"c\" }}", "{{ 'it\\'s' }} {{ \"\\x41\\u00e9\\U0001F600\\n\\t\\\\ \\101 \\q\" }}", "{{ 1 ~ 'a' ~ none ~ 2.0 ~ true }}", "{{ 'a' ~ 1 + 2 }}", "{{ 1 + 1 ~ 'a' }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }}", "{{ 'a' in 'abc' }} {{ 1 in [1] }} {{ 'k' in {'k': 1} }} {{ 1 not in [1] }} {{ 3 in range(5) }} {{ not 1 in [2] }}",
    "{{ not true }} {{ not not 1 }} {{ 1 and 0 }} {{ 0 or 'x' }} {{ '' or [] }} {{ 1 and 2 or 3 }}", "{{ 'a' if true }}|{{ 'a' if false }}|{{ 'a' if 0 else 'b' if 0 else 'c' }}",
    "{{ (1, 2) }} {{ (1,) }} {{ () }} {{ 1, 2 }} {{ [1, [2, 'x']] }} {{ {'a': 1, 2: none, 'c': [true]} }}", "{{ {'a': 1, 'a': 2} }} {{ {1: 'a', 1.0: 'b', true: 'c'} }}",
    "{{ none }} {{ None }} {{ true }} {{ False }}", "{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 1e-4 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 1/3 }} {{ 100.0 }} {{ 1e100 }} {{ -0.0 }}",
    "{{ 'abc' * 3 }} {{ 2 * [1] }} {{ (1,) * 2 }} {{ 'x' * -1 }}", "{{ [1] + [2] }} {{ (1,) + (2,) }} {{ 'a' + 'b' }}", "{{ -'a' }}", "{{ +true }} {{ -true }} {{ -1.5 }}",
    "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ [] + () }}", "{{ {} + {} }}", "{{ 1 / 0 }}", "{{ 1 % 0 }}", "{{ 1.0 // 0 }}", "{{ 'a' < 1 }}", "{{ [1] < [2] }} {{ (1, 2) < (1, 3) }} {{ 'a' < 'b' }}",
    "{{ [1, 'a'] < [1, 2] }}", "{{ none < 1 }}", "{{ true + true }} {{ true == 1 }}", "{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }}", "{{ 1 is defined and 2 is odd }}",
    "{{ 'é' < 'z' }} {{ '\U0001f600' > '\uffff' }}", "{{ [] == () }} {{ {} == {} }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ undef == undef2 }} {{ none == undef }}")
# Access.
for t in ["{{ d.one }} {{ d['two'] }} {{ d.zz }} {{ d['zz'] }}", "{{ o.k.v[1].p }} {{ o['k']['v'][0] }}", "{{ o.items }}", "{{ o['items'] }}", "{{ d['items']() }}", "{{ l[0] }} {{ l[-1] }} {{ l[9] }} {{ l['a'] }}",
          "{{ s[0] }} {{ s[-1] }} {{ s[99] }} {{ u[1] }} {{ u[-2] }}", "{{ s[1:3] }} {{ s[:-1] }} {{ s[::-1] }} {{ s[::2] }} {{ u[::-1] }} {{ u[2:7] }} {{ s[5:1] }}", "{{ l[1:] }} {{ l[::-1] }} {{ l[5:] }} {{ l[-2:] }}",
          "{{ undef }} {{ undef.x }}", "{{ d.zz.yy }}", "{{ undef['x'] }}", "{{ undef() }}", "{{ d.one.two }}", "{{ none.x }} {{ 1.x }}", "{{ n.x.y }}", "{{ us[0].n }} {{ us.0.n }} {{ us[-1]['n'] }}", "{{ ''.__class__ }}",
          "{{ ''.__class__.__mro__ }}", "{{ d.__class__ }}", "{{ s['upper']() }}", "{{ (s|attr('upper'))() }}", "{{ d|attr('one') }}", "{{ d.one() }}", "{{ l.append(1) }}", "{{ d.update({}) }}", "{{ d.pop }}",
          "{{ l['append'] }}", "{{ range(3)[1] }} {{ range(5)[1:3] }} {{ range(9)[::-2] }}", "{{ d.keys()[0] }}", "{{ s[none] }}", "{{ s[1.5] }}", "{{ l[true] }}", "{{ d[l] }}", "{{ l['0'] }} {{ l.0 }}", "{{ d['one':] }}", "{{ l[::0] }}", "{{ x[4][1] }}"]:
    add((t, CONTEXT))
# Statements.
for t in ["{% for i in l %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}",
          "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
          "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}", "{% for i in l %}{{ loop.previtem.x }}{% endfor %}", "{% for i in m %}{{ loop.cycle('x', 'y') }}{{ loop.changed(i|lower) }}{% endfor %}",
          "{% for i in [1,1,2,2,1] %}{{ loop.changed(i) }} {% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }} {% endfor %}", "{% for k in d %}{{ k }} {% endfor %}", "{% for c in u %}[{{ c }}]{% endfor %}",
          "{% for i in k %}x{% else %}empty{% endfor %}", "{% for i in undef %}x{% else %}empty{% endfor %}", "{% for i in n %}x{% endfor %}", "{% for i in 5 %}x{% endfor %}", "{% for i in l if i > 1 %}{{ i }}{{ loop.length }}{% else %}e{% endfor %}",
          "{% for i in l if i > 9 %}{{ i }}{% else %}e{% endfor %}", "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in ll %}{{ a }}{{ b }}{% endfor %}", "{% for a, b in l %}{% endfor %}",
          "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% for i in range(10) %}{% if i == 3 %}{% continue %}{% elif i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in l %}{% break %}{% else %}x{% endfor %}",
          "{% for x in [[1, [2, [3]]]] recursive %}{% if x is iterable and x is not string %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}", "{% for i in l %}{{ loop(i) }}{% endfor %}",
          "{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}", "{{ loop }}", "{% for i in l %}{{ loop }}{% endfor %}", "{% for i in range(3) %}{{ i }}{% endfor %}{{ i }}",
          "{% set x = 1 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}", "{% set ns = namespace(x=0) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }} {{ ns }}", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns.c }}",
          "{% set d.x = 1 %}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, ns.b = l %}", "{% set v %}  block {{ a }}\n{% endset %}[{{ v }}]", "{% set v | upper | trim %} abc {% endset %}[{{ v }}]",
          "{% if a > 2 %}x{% elif a %}y{% else %}z{% endif %}{% if undef %}x{% endif %}{% if n %}{% else %}n{% endif %}", "{% if l|length > 2 and d.one %}yes{% endif %}",
          "{% macro f(x, y=2, z=y) %}{{ x }}{{ y }}{{ z }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(y=5, x=4) }} {{ f() }}", "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(1, 2) }}", "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(q=2) }}",
          "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, k=3) }}", "{% macro f(x) %}{{ caller() }}[{{ x }}]{% endmacro %}{% call f(1) %}in{% endcall %}", "{% macro f(l) %}{% for i in l %}{{ caller(i, 'z') }}{% endfor %}{% endmacro %}{% call(x, y) f(l) %}<{{ x }}{{ y }}>{% endcall %}",
          "{% macro f() %}{{ caller }}{{ caller() }}{% endmacro %}{{ f() }}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro f(a, b) %}{{ f.name }}{{ f.arguments }}{{ f.catch_kwargs }}{{ f.caller }}{% endmacro %}{{ f() }}{{ f }}",
          "{% macro f(x) %}{% set y = x %}{{ y }}{% endmacro %}{{ f(1) }}{{ y }}", "{% set y = 1 %}{% macro f() %}{{ y }}{% endmacro %}{% set y = 2 %}{{ f() }}", "{% macro f(x) %}{{ x|upper }}{% endmacro %}{{ f('a') ~ f('b') }}{{ (f('c'))|length }}",
          "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(*l[:1]) }}{{ f(**{'x': 9}) }}{{ f(*l) }}", "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('l', '1')|indent(2, true) %}ll\nx{% endfilter %}",
          "{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}", "{% generation %}x{{ a }}{% endgeneration %}y", "{% do l %}x", "{% block b %}x{{ a }}{% endblock %}", "{% block b %}x{% endblock b %}",
          "{% print 1, 'a' %}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}", "{% set j = joiner('|') %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}", "{{ dict(a=1, b='x') }} {{ dict([['k', 2]]) }} {{ dict(d, x=1) }}",
          "{{ range(5)|list }} {{ range(2, 8, 3)|list }} {{ range(5, 0, -2)|list }} {{ range(3) }} {{ range(0)|list }}", "{{ range(1000000) }}", "{{ raise_exception('no ' ~ a) }}", "{{ strftime_now('%Y-%m-%d %H:%M:%S %d %b %B %a %A %j %y %I %p %U %w %%') }}", "{{ strftime_now('%-d %e %F %T %D %c %x %X %R %u %V %G %C %n%t|') }}",
          "{% for m in us %}{{ s }}{% endfor %}{% set s = 'x' %}{{ s }}", "{% set s %}{{ s }}{% endset %}[{{ s }}]", "{% for i in l %}{{ s }}{% if i == 1 %}{% set s = 'x' %}{% endif %}{{ s }} {% endfor %}", "{% if false %}{% set s = 1 %}{% endif %}{{ s }}", "{% if true %}{% set s = 1 %}{% endif %}{{ s }}",
          "{% for i in l %}{{ v }}{% set v = i %}{{ v }}{% endfor %}", "{% macro f() %}{{ a }}{% set a = 1 %}{{ a }}{% endmacro %}{{ f() }}{{ a }}", "{{ 'x' is filter }}{{ 'upper' is filter }}{{ 'odd' is test }}", "{% if false %}{{ 1|nosuch }}{% endif %}ok", "{{ 1|nosuch }}", "{{ 1 if true else 2|nosuch }}", "{% if true %}{{ 1|nosuch }}{% endif %}", "{{ 1 is nosuch }}"]:
    add((t, CONTEXT))
# Syntax errors.
add("{{", "{{ 1", "{{ 1 }", "{% if %}", "{% if 1 %}", "{% endif %}", "{% for %}{% endfor %}", "{% for i on l %}{% endfor %}", "{{ 1 + }}", "{{ (1 }}", "{{ [1 }}", "{{ 'a }}", "{# x", "{% raw %}x", "{{ a b }}", "{% nosuch %}", "{{ 1 is odd is even }}", "{% set 1 = 2 %}", "{% set a.b.c = 2 %}",
    "{% macro f(a=1, b) %}{% endmacro %}", "{{ f(a=1, 2) }}", "{{ ) }}", "{{ {'a' 1} }}", "{% else %}", "{% break %}", "{% call 1 %}{% endcall %}", "{{ }}", "{{ a..b }}", "{{ ! }}", "{{ $ }}", "{% if 1 %}{% else %}{% elif 1 %}{% endif %}", "{{ 1if 2else 3 }}", "{{ 'a'.upper }}x", "{{ 08 }}", "{{ {} }}{{ [] }}",
    "{% set x = 1 %}{% set true = 2 %}", "{% from 'x' import y %}", "{% include 'x' %}", "{% extends 'x' %}")
# Printing.
for t in ["{{ x }} {{ o }} {{ us }}", "{{ ['it\\'s', '\"', 'both \\'\"', 'a\\\\b', 'é\\n\\t\\x01', '\u200b\U0001f600'] }}", "{{ {none: undef, 1.5: (1,)} }}", "{{ d.items() }} {{ d.keys() }} {{ d.values() }}", "{{ d.items()|list }}", "{{ [1.0, 1e20, 1e-7, 123456.789, -0.0] }}",
          "{{ o|tojson }}", "{{ o|tojson(indent=2) }}", "{{ x|tojson(indent=4) }}", "{{ {'b': 1, 'a': [1, {'d': 1, 'c': 2}]}|tojson(sort_keys=true) }}", "{{ x|tojson(separators=(',', ':')) }}", "{{ u|tojson }} {{ u|tojson(ensure_ascii=true) }} {{ q|tojson }}", "{{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}",
          "{{ undef|tojson }}", "{{ (1, 2)|tojson }} {{ []|tojson(indent=1) }} {{ {}|tojson(indent=1) }}", "{{ d.items()|tojson }}", "{{ '\\x00\\x1f\\x7f/\\\\' | tojson }} {{ '\\x7f' | tojson(true) }}", "{{ [1e400, -1e400]|tojson }}", "{{ {(1, 2): 3}|tojson }}", "{{ big }} {{ big + 1 }} {{ h }} {{ [h, f] }}", "{{ namespace(a=1, b='x') }}", "{{ s|e ~ '<' }} {{ '<'|e + '<' }} {{ ['<'|e, '&'|safe] }}",
          "{{ '%s' % '<'|safe }} {{ ('%s'|safe) % '<' }} {{ ('<'|safe).join(['<', '>']) }}", "{{ '{}'.format(d) }} {{ '{0[one]} {0.x}'.format(d) }} {{ '{a!r:>8}|'.format(a=s[:2]) }} {{ '{{}}'.format() }}", "{{ '{:>{w}}|'.format('a', w=5) }}", "{{ '{:d}'.format(1.5) }}", "{{ '{} {}'.format(1) }}", "{{ '%d %s' % (1,) }}", "{{ '%d' % 'a' }}", "{{ '%(a)s %(b)05d' % {'a': 'x', 'b': 42} }}", "{{ '%5.2f|%-8s|%+d|%x|%X|%o|%e|%g|%%|%c|%r' % (3.14159, 'ab', 5, 255, 255, 8, 12345.678, 0.0001, 'z', 'q') }}",
          "{{ 'a%sb'|format('X') }} {{ '%(k)s'|format(k=1) }}"]:
    add((t, CONTEXT))
# Every filter, test and method on a few values.
for f in FILTERS:
    if f != "reverse" and "pprint" not in f:
        for v in ["s", "w", "u", "num", "a", "f", "g", "l", "m", "x", "d", "us", "n", "undef", "q"]:
            add((f"{{{{ {v}|{f} }}}}", CONTEXT))
for f in TESTS:
    add((f"{{{{ [" + ", ".join(f"{v} is {f}" for v in ["s", "a", "f", "t", "l", "d", "n", "undef", "u"] if not (f.startswith(("odd", "even", "div", "gt", "lt", "ge", "le", "in 'abc'")) and v not in ("a",))) + "] }}", CONTEXT))
for m in METHODS:
    for v in ["s", "w", "u", "num", "l", "d"]:
        add((f"{{{{ {v}.{m} }}}}", CONTEXT))
# Numbers.
for v in ["0.5", "1.5", "2.5", "-0.5", "-1.5", "2.675", "1234.5678", "0.05", "1e15 + 0.5", "5", "-15", "25"]:
    add(f"{{{{ ({v})|round }}}} {{{{ ({v})|round(1) }}}} {{{{ ({v})|round(2) }}}} {{{{ ({v})|round(-1) }}}} {{{{ ({v})|round(1, 'ceil') }}}} {{{{ ({v})|round(0, 'floor') }}}} {{{{ ({v})|int }}}}")
for v in ["' 12 '", "'1_000'", "'0x1f'", "'1e3'", "'-7.9'", "'abc'", "''", "'inf'", "'nan'", "none", "[]", "true", "'12abc'"]:
    add(f"{{{{ {v}|int }}}} {{{{ {v}|int(-1) }}}} {{{{ {v}|float }}}} {{{{ {v}|float(0.5) }}}} {{{{ {v}|int(0, 16) }}}}")
# Case beyond ASCII.
for v in ["straße", "ÀÉÎ", "ωΣ ΑΣ", "ﬁx", "ŉ", "İI", "дом ДОМ", "ǆ", "٣²", "日本", "ſ", "K"]:
    add(f"{{{{ '{v}'.upper() }}}} {{{{ '{v}'.lower() }}}} {{{{ '{v}'.isalpha() }}}}{{{{ '{v}'.isdigit() }}}}{{{{ '{v}'.isnumeric() }}}}{{{{ '{v}'.isupper() }}}}{{{{ '{v}'.islower() }}}}")


def main():
    env = jinja_oracle.environment()
    path = sys.argv[1] if len(sys.argv) > 1 else "tests/data/jinja-golden.jsonl"
    lines, seen = [json.dumps({"c": CONTEXT}, ensure_ascii=False, separators=(",", ":"))], set()
    for case in CASES:
        template, context = case if isinstance(case, tuple) else (case, None)
        if template in seen:
            continue
        seen.add(template)
        got = jinja_oracle.render(env, template, context or {})
        if got[0] == "output" and " object at 0x" in got[1]:
            continue  # an address: nothing to compare
        line = {"t": template, "c": 1 if context else 0, got[0]: got[1]}
        lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")))
    with open(path, "w", newline="\n") as f:
        f.write("\n".join(lines) + "\n")
    print(len(lines) - 1, "cases")


if __name__ == "__main__":
    main()
