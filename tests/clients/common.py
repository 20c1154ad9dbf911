"""What the tests with official clients share: the clients' environment, servers, and the comparison of answers with the types that the clients declare."""
import importlib.util
import os
import re
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests", "tools")]
import gguf_edit  # noqa: E402
import server_host  # noqa: E402
import tap  # noqa: E402

CLIENTS = os.environ.get("INFER_CLIENT_ENV", os.path.join(ROOT, "build-clients"))
MODEL = os.path.join(ROOT, "models", "tiny.gguf")
NAME = "tiny"
LONG = 60  # seconds: against hangs, never to measure
# A model that thinks: its template opens the block, and shows earlier reasoning.
THINKING = (b"{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
            b"{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
            b"{% if enable_thinking is not defined or enable_thinking %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}{% endif %}")


def enter(package):
    """Goes on in the environment of scripts/client-env when this Python lacks the package. Returns why the tests cannot run, or None."""
    if importlib.util.find_spec(package):
        return None
    python = os.path.join(CLIENTS, "venv", "bin", "python")
    if os.path.exists(python) and "INFER_CLIENT_ENTERED" not in os.environ:
        os.environ["INFER_CLIENT_ENTERED"] = "1"
        os.execv(python, [python] + sys.argv)
    return f"the package {package} is not installed (scripts/client-env)"


def main(namespace, missing):
    """Runs the cases, or skips each of them."""
    cases = tap.cases_of(namespace)
    if missing:
        cases = [skipped(case, missing) for case in cases]
    only = sys.argv[2] if len(sys.argv) > 2 else None
    try:
        status = tap.run(cases, only)
    finally:
        stop_all()
    sys.exit(status)


def skipped(case, why):
    def skip():
        raise tap.Skip(why)
    skip.__name__ = case.__name__
    return skip


# ---- Servers ----

SCRATCH = tempfile.mkdtemp(prefix="infer-clients-")
KEY = "sk-test-key"
running = {}


def thinking_model():
    path = os.path.join(SCRATCH, "thinking.gguf")
    if not os.path.exists(path):
        with open(MODEL, "rb") as source, open(path, "wb") as out:
            out.write(gguf_edit.edit(source.read(), {b"tokenizer.chat_template": THINKING}))
    return path


KINDS = {
    "plain": ["--kv-dir", os.path.join(SCRATCH, "kv")],
    "keys": ["--api-key", KEY],
    "limited": ["--rate-limit", "0.01"],
    "narrow": ["--parallel", "1", "--max-queue", "0", "--ctx", "100000"],
    "thinking": ["--ctx", "4096"],
}


def host(kind="plain"):
    """A server of this kind, which is started once."""
    if kind not in running:
        model = thinking_model() if kind == "thinking" else MODEL
        running[kind] = server_host.Server(os.path.abspath(sys.argv[1]), "--alias", NAME, *KINDS[kind], model=model)
    return running[kind]


def server(kind="plain"):
    return host(kind).url


def stop_all():
    codes = {}
    for kind, one in running.items():
        try:
            codes[kind] = one.process.poll() if one.process.poll() is not None else one.stop()
        finally:
            one.close()
    shutil.rmtree(SCRATCH)
    assert not any(codes.values()), f"servers ended with a status: {codes}"


def active(kind="plain"):
    """How many answers the server computes, or is to compute."""
    return host(kind).metric("infer_sessions_active") + host(kind).metric("infer_requests_waiting")


def until_idle(kind="plain"):
    server_host.until(lambda: not active(kind), "no answer is computed any more after its client has gone")


# ---- Shapes ----

SENT_BY_THE_ORIGINAL = {"store"}  # the APIs' own servers send these, although the clients' types lack them


def documented(name):
    """Whether a field beyond the client's types is one of the API's, or an extension that docs/server.md tells of."""
    if name in SENT_BY_THE_ORIGINAL:
        return True
    with open(os.path.join(ROOT, "docs", "server.md"), encoding="utf-8") as text:
        return re.search(r"[`\".]" + re.escape(name) + r"[`\".\[]", text.read()) is not None


def extra_fields(value, path=""):
    """The fields of a validated answer that the client's types do not declare."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from extra_fields(item, path + "[]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from extra_fields(item, f"{path}.{key}")
    elif hasattr(value, "model_extra"):
        for key in value.model_extra or {}:
            yield f"{path}.{key}"
        for key in type(value).model_fields:
            yield from extra_fields(getattr(value, key), f"{path}.{key}")


def check(answer):
    """An answer as the client has parsed it: what the server sent must be what the declared type demands, and nothing more but documented extensions."""
    raw = answer.to_dict(mode="json", exclude_unset=True) if hasattr(answer, "to_dict") else answer
    checked = type(answer).model_validate(raw)
    unknown = {path for path in extra_fields(checked) if not documented(path.rsplit(".", 1)[-1])}
    assert not unknown, f"{type(answer).__name__} has undocumented fields: {sorted(unknown)}"
    return answer


def raises(kind, call, *words, **more):
    """The client's own error, of exactly this class, whose text or param has all words. Returns it."""
    try:
        call(**more)
    except kind as error:
        assert type(error) is kind, f"{type(error).__name__}, not {kind.__name__}: {error}"
        for word in words:
            assert word in f"{error} {getattr(error, 'param', None)}", f"{word!r} not in {error}"
        return error
    raise AssertionError(f"no {kind.__name__}")
