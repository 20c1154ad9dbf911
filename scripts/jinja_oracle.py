"""What Hugging Face's renderer does with a chat template: Jinja2's immutable sandbox with trim_blocks, lstrip_blocks, loop
controls, a generation tag that changes nothing, tojson as json.dumps, and a clock that stands still."""
import copy
import datetime
import json

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2025, 7, 10, 12, 0, 0)
NOW_SECONDS = 1752148800


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_show"), [], [], body).set_lineno(line)

    def _show(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols", "jinja2.ext.do"])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(env, template, context):
    """("output", text) or ("error", name of the exception, its text)."""
    try:
        text = env.from_string(template).render(**copy.deepcopy(context))  # |indent changes a list
        text.encode()  # lone surrogates have no UTF-8
        return ("output", text)
    except Exception as e:
        return ("error", type(e).__name__, str(e))
