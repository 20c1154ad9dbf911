#!/usr/bin/env python3
"""infer-cli from outside: every flag, exit codes, pipes, signals, a terminal. test_cli.py INFER-CLI"""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
import gguf_edit  # noqa: E402

CLI = os.path.abspath(sys.argv[1])
ROOT = tap.source_dir()
MODEL = os.path.join(ROOT, "models", "tiny.gguf")
SCRATCH = tempfile.mkdtemp(prefix="infer-cli-test-")
TEMPLATE = (b"{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}"
            b"{% endif %}{{ m.content }}{% endfor %}{{ ending }}")
ENV = dict(os.environ, XDG_CACHE_HOME=os.path.join(SCRATCH, "cache"), TERM="dumb")
ENV.pop("CMOCKA_MESSAGE_OUTPUT", None)
SLOW = 60  # seconds: sanitizers on a busy machine


def cli(*args, stdin=b"", model=True, **more):
    command = [CLI] + (["-m", MODEL] if model else []) + list(args)
    if isinstance(stdin, bytes):
        more["input"] = stdin
    else:
        more["stdin"] = stdin
    more.setdefault("env", ENV)
    more.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(command, stderr=subprocess.PIPE, timeout=300, check=False, **more)


def expect(result, code, said=b""):
    assert result.returncode == code, f"exit {result.returncode}, not {code}: {result.stderr!r}"
    assert said in result.stderr, f"{said!r} not in {result.stderr!r}"
    assert b"Sanitizer" not in result.stderr and b"runtime error" not in result.stderr, result.stderr
    return result.stdout


def answer(*args, **more):
    return expect(cli(*args, **more), 0)


def events(*args, **more):
    return [json.loads(line) for line in answer("--json", *args, **more).decode("utf-8").splitlines()]


def chat_model():
    """The bundled model with a chat template."""
    path = os.path.join(SCRATCH, "chat.gguf")
    if not os.path.exists(path):
        with open(MODEL, "rb") as source, open(path, "wb") as out:
            out.write(gguf_edit.edit(source.read(), {b"tokenizer.chat_template": TEMPLATE}))
    return path


# ---- Without a model ----

def test_help_and_version():
    text = answer("--help", model=False).decode()
    assert text.startswith("Usage: infer-cli") and "Exit status" in text
    assert max(map(len, text.splitlines())) <= 100
    assert answer("-h", model=False).decode() == text
    assert re.match(rb"infer-cli \d+\.\d+\.\d+, libinfer \d+\.\d+\.\d+\n$", answer("--version", model=False))


def test_manual_lists_every_option():
    help_text = answer("--help", model=False).decode()
    options = re.findall(r"^  (?:-\w, )?--([\w-]+)", help_text, re.MULTILINE)
    assert len(options) > 20
    with open(os.path.join(ROOT, "docs", "infer-cli.1"), encoding="utf-8") as page:
        manual = page.read()
    absent = [name for name in options if not re.search(r"Fl Fl " + name + r"\b", manual)]
    assert not absent, f"not in docs/infer-cli.1: {absent}"


def test_usage_errors():
    for args, said in [(["--nope"], b"unknown option --nope"), (["-z"], b"unknown option"), (["a", "b"], b"more than one prompt"),
                       (["--temp"], b"needs a value"), (["--temp", "hot"], b"not a number"), (["--temp", "nan"], b"not a number"),
                       (["--temp", "inf"], b"not a number"), (["--temp=-1"], b"out of range"), (["--top-p", "1.5"], b"out of range"),
                       (["--min-p=-0.1"], b"out of range"), (["-n", "-1"], b"whole number"), (["-n", "1.5"], b"whole number"),
                       (["-n", "99999999999999999999999"], b"too large"), (["--seed", "18446744073709551616"], b"at most 18446744073709551615"),
                       ([""], b"empty prompt"), (["--top-k", "4294967296"], b"too large"),
                       (["--threads", "257"], b"too large"), (["--seed", "x"], b"whole number"), (["--cpu", "z80"], b"CPU variant"),
                       (["--kv", "f8"], b"int8, int8-64, mixed-f16 or mixed-f32"), (["--numerics", "fuzzy"], b"exact, precise or fast"),
                       (["--raw=1"], b"takes no value"), (["--template-arg", "x"], b"KEY=JSON"), (["--template-arg", "=1"], b"KEY=JSON"),
                       (["--chat", "hello"], b"leave the prompt out"), (["--chat", "--info"], b"exclude"), (["--info", "x"], b"no prompt"),
                       (["--raw", "--system", "x", "y"], b"--raw leaves")]:
        result = cli(*args, model=False)
        expect(result, 1, said)
        assert result.stdout == b""


def test_closed_stdin_without_prompt():
    result = subprocess.run(f'exec "{CLI}" -m "{MODEL}" <&-', shell=True, capture_output=True, env=ENV, timeout=SLOW, check=False)
    assert result.returncode == 1 and b"no prompt" in result.stderr, result


# ---- Files ----

def test_bad_models():
    garbage = os.path.join(SCRATCH, "garbage.gguf")
    cut = os.path.join(SCRATCH, "cut.gguf")
    empty = os.path.join(SCRATCH, "empty.gguf")
    with open(garbage, "wb") as out:
        out.write(os.urandom(10000))
    open(empty, "wb").close()
    with open(MODEL, "rb") as source, open(cut, "wb") as out:
        out.write(source.read()[:-1000])
    for path in [os.path.join(SCRATCH, "absent.gguf"), garbage, cut, empty, SCRATCH]:
        for mode in [["hello"], ["--info"]] + ([["--tokenize", "x"]] if path != cut else []):
            result = cli("-m", path, *mode, model=False)
            expect(result, 2, os.path.basename(path).encode())
            assert result.stdout == b"", result.stdout


def test_default_model():
    cached = os.path.join(ENV["XDG_CACHE_HOME"], "infer", "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
    result = cli("-n", "1", "x", model=False)
    expect(result, 0, b"bundled")
    os.makedirs(os.path.dirname(cached))
    shutil.copy(MODEL, cached)
    try:
        result = cli("-n", "1", "x", model=False)
        expect(result, 0)
        assert b"bundled" not in result.stderr, result.stderr
    finally:
        shutil.rmtree(ENV["XDG_CACHE_HOME"])


def test_info():
    text = answer("--info").decode()
    for want in ["architecture    llama", "runs here       yes", "tensors", "tokenizer", "chat template: none", "metadata (",
                 "general.architecture = \"llama\""]:
        assert want in text, want
    assert "no system here" in answer("-m", chat_model(), "--info", model=False).decode()


def test_tokenize():
    lines = answer("--tokenize", "Once upon a time").decode().splitlines()
    rows = [line.split("\t") for line in lines]
    text = "".join(json.loads(piece) for _, piece in rows if not json.loads(piece).startswith("<"))
    assert text.strip() == "Once upon a time", text
    ids = [json.loads(line)["id"] for line in answer("--tokenize", "--json", "Once upon a time").decode().splitlines()]
    assert ids == [int(number) for number, _ in rows]


# ---- Answers ----

def test_prompt_from_argument_and_stdin():
    direct = answer("--temp", "0", "-n", "12", "Once upon a time")
    assert direct.strip()
    assert answer("--temp", "0", "-n", "12", stdin=b"Once upon a time\n") == direct
    assert answer("--temp=0", "-n12", "-", stdin=b"Once upon a time") == direct
    assert answer("--temp", "0", "-n", "12", "--", "Once upon a time") == direct


def test_answer_only_on_stdout():
    result = cli("--temp", "0", "-n", "5", "--stats", "Once")
    out = expect(result, 0, b"tokens/s")
    assert b"tokens/s" not in out and b"infer-cli" not in out
    assert re.search(rb"answer +5 tokens", result.stderr), result.stderr


def test_json_events():
    got = events("--temp", "0", "-n", "9", "Once upon a time")
    tokens, done = got[:-1], got[-1]
    assert [e["event"] for e in tokens] == ["token"] * 9
    assert all(isinstance(e["id"], int) and isinstance(e["text"], str) for e in tokens)
    assert done["event"] == "done" and done["finish_reason"] == "length" and done["completion_tokens"] == 9
    assert done["prompt_tokens"] == len(answer("--tokenize", "Once upon a time").splitlines())
    assert done["prompt_tps"] > 0 and done["gen_tps"] > 0
    plain = answer("--temp", "0", "-n", "9", "Once upon a time").decode()
    assert "".join(e["text"] for e in tokens) + done.get("text", "") + "\n" == plain


def test_sampling_flags():
    greedy = answer("--temp", "0", "-n", "16", "The")
    assert answer("--top-k", "1", "-n", "16", "The") == greedy
    assert answer("--top-p", "0.000001", "-n", "16", "The") == greedy
    assert answer("--min-p", "1", "-n", "16", "The") == greedy
    hot = ["--temp", "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0", "-n", "16", "The"]
    assert answer("--seed", "1", *hot) == answer("-s", "1", *hot)
    assert answer("--seed", "1", *hot) != answer("--seed", "2", *hot)
    assert answer("--typical", "0.5", *hot) != answer("--typical", "1", *hot)
    ids = [e["id"] for e in events("--temp", "0", "--presence-penalty", "1000", "-n", "24", "The") if e["event"] == "token"]
    assert len(set(ids)) == len(ids), "a penalised token came again"
    for flag in ("--repetition-penalty", "--frequency-penalty"):
        assert answer("--temp", "0", flag, "2", "-n", "40", "The") != answer("--temp", "0", "-n", "40", "The")


def test_exactness_flags():
    args = ["--temp", "0", "-n", "24", "Once upon a time there was"]
    want = answer(*args)
    assert answer("--cpu", "scalar", *args) == want
    assert answer("--threads", "1", *args) == want
    assert answer("--threads", "3", *args) == want
    assert answer("--kv", "f32", *args) and answer("--kv", "bf16", *args) and answer("--kv", "int8", *args) and answer("--numerics", "precise", *args)


def test_unavailable_cpu():
    other = "neon" if os.uname().machine.startswith("x86") else "avx2"
    expect(cli("--cpu", other, "x"), 1)


def test_context_limit():
    long_prompt = "once upon a time " * 40
    expect(cli("--ctx", "16", long_prompt), 4)
    got = events("--ctx", "16", "-n", "100", "--ignore-eos", "Once")
    assert got[-1]["finish_reason"] == "context", got[-1]


def test_empty_prompt():
    expect(cli(stdin=b"\n"), 1, b"empty prompt")
    assert answer("--raw", "-n", "4", "").strip(), "a text may begin from nothing"
    assert answer("--raw", "-n", "4").strip()
    assert answer("-n", "0", "--temp", "0", "Once") == answer("--temp", "0", "Once")  # 0: the default
    assert answer("-n", "1", "--seed", "18446744073709551615", "x").strip()


def test_json_errors():
    """Every failure after --json is an event too, whatever came of the model."""
    absent = os.path.join(SCRATCH, "absent.gguf")
    for args, code, status, said in [(["-m", absent, "x"], 2, "NOT_FOUND", "absent.gguf"), (["-m", absent, "--info"], 2, "NOT_FOUND", ""),
                                     (["-m", SCRATCH, "--tokenize", "x"], 2, "", ""), (["--temp", "hot"], 1, "ARGUMENT", "not a number"),
                                     (["--nope"], 1, "ARGUMENT", "--nope"), (["a", "b"], 1, "ARGUMENT", "quotes"),
                                     (["--cpu", "neon" if os.uname().machine.startswith("x86") else "avx2", "x"], 1, "UNSUPPORTED", ""),
                                     (["--ctx", "16", "once upon a time " * 40], 4, "CONTEXT_FULL", "tokens"), ([""], 1, "ARGUMENT", "empty")]:
        result = cli("--json", *args, model="-m" not in args)
        lines = expect(result, code).decode().splitlines()
        event = json.loads(lines[0])
        assert len(lines) == 1 and event["event"] == "error", lines
        assert event["status"].startswith("INFER_ERROR_" + status) and said in event["message"], event
        assert "infer-cli: " + event["message"] + "\n" in result.stderr.decode(), result.stderr


# ---- Templates ----

def test_template_is_applied():
    model = ["-m", chat_model()]
    ids = lambda *args: events(*model, "--temp", "0", "-n", "4", *args, model=False)[-1]["prompt_tokens"]  # noqa: E731
    plain = len(answer("--tokenize", "Once upon").splitlines())
    assert ids("Once upon") == plain, "BOS must be there once"
    assert ids("--raw", "Once upon") == plain
    assert ids("--template-arg", 'ending=" a time"', "Once upon") == len(answer("--tokenize", "Once upon a time").splitlines())


def test_template_refuses_system():
    result = cli("-m", chat_model(), "--system", "Be kind.", "hello", model=False)
    expect(result, 3, b"no system here")
    assert b"--system" in result.stderr and result.stdout == b""


def test_bad_template_args():
    for value in ["x=nope", "x=1,\"messages\":[]", "x=1]", "x={", "x=\"a", "x=1}"]:
        result = cli("-m", chat_model(), "--template-arg", value, "hello", model=False)
        expect(result, 1, b"not JSON")


def test_no_template_is_said():
    copy = os.path.join(SCRATCH, "copy.gguf")
    shutil.copy(MODEL, copy)
    expect(cli("-m", copy, "-n", "1", "x", model=False), 0, b"no chat template")


# ---- Output that fails ----

def test_full_and_closed_stdout():
    with open("/dev/full", "wb") as full:
        expect(cli("-n", "4", "x", stdout=full), 3, b"standard output")
    for redirect in (">&-", ">&- 2>&-", "<&- >&-"):
        result = subprocess.run(f'exec "{CLI}" -m "{MODEL}" -n 4 x {redirect}', shell=True, stderr=subprocess.PIPE,
                                env=ENV, timeout=SLOW, check=False)
        assert result.returncode == 3, (redirect, result)
    result = subprocess.run(f'exec "{CLI}" -m "{MODEL}" -n 4 x 2>&-', shell=True, stdout=subprocess.PIPE, env=ENV,
                            timeout=SLOW, check=False)
    assert result.returncode == 0 and result.stdout.strip()


def test_broken_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as out:
        result = cli("-n", "4", "--raw", "x", stdout=out)
    expect(result, 3)
    assert result.stderr == b"", result.stderr  # as in `infer-cli ... | head -1`: nobody is to be told


# ---- Signals ----

def start(*args, **more):
    return subprocess.Popen([CLI, "-m", MODEL, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV, **more)


def test_interrupt_once():
    process = start("--json", "--ignore-eos", "-n", "1000000", "--ctx", "1000000", "x")
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SLOW)
    if process.returncode == 0 and b'"context"' in out:
        raise tap.Skip("the context was full before the signal came")
    assert process.returncode == 130, (process.returncode, err)
    last = json.loads(out.splitlines()[-1])
    assert last["event"] == "done" and last["finish_reason"] == "interrupted", last


def test_interrupt_twice():
    process = start("--chat", stdin=subprocess.PIPE)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=SLOW)
    assert process.returncode == 130, process.returncode
    process.communicate()


# ---- Conversation ----

def test_chat_by_pipe():
    script = b"Once upon a time\n/stats\n/reset\nOnce upon a time\n/nope\n/help\n/exit\nnot reached\n"
    result = cli("--chat", "-m", chat_model(), "--temp", "0", "-n", "8", stdin=script, model=False)
    out = expect(result, 0, b"tokens/s").decode().splitlines()
    assert len(out) == 2 and out[0] == out[1], out
    assert b"unknown command /nope" in result.stderr and b"/compact" in result.stderr


def test_chat_compacts():
    script = b"one\ntwo\n/compact\nthree\nfour\n/compact\nfive\n"
    result = cli("--chat", "-m", chat_model(), "--temp", "0", "-n", "6", stdin=script, model=False)
    out = expect(result, 0, b"nothing to compact").decode()
    assert b"are now a summary of" in result.stderr, result.stderr
    assert out.count("\n") >= 5


def test_chat_reuses_state():
    """The second turn computes only what is new."""
    result = cli("--chat", "-m", chat_model(), "--temp", "0", "-n", "6", "--stats",
                 stdin=b"Once upon a time there was a king\nand a queen\n", model=False)
    expect(result, 0)
    turns = [tuple(map(int, match)) for match in re.findall(rb"prompt +(\d+) tokens, (\d+) computed", result.stderr)]
    assert len(turns) == 2 and turns[1][0] > turns[0][0], turns
    assert turns[1][1] < turns[1][0], turns


def test_chat_json():
    lines = answer("--chat", "--json", "-m", chat_model(), "-n", "3", stdin=b"one\ntwo\n", model=False).decode().splitlines()
    assert [json.loads(line)["event"] for line in lines].count("done") == 2


class Terminal:
    """infer-cli on a pseudo-terminal."""

    def __init__(self, *args):
        self.pid, self.fd = pty.fork()
        self.rest = b""
        if self.pid == 0:
            os.execve(CLI, [CLI, *args], ENV)

    def read_until(self, want, seconds=SLOW):
        """Everything up to and including want."""
        end = time.monotonic() + seconds
        while want not in self.rest:
            left = end - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], f"{want!r} did not come: {self.rest!r}"
            try:
                part = os.read(self.fd, 4096)
            except OSError:
                part = b""
            assert part, f"the terminal closed before {want!r}: {self.rest!r}"
            self.rest += part
        got, self.rest = self.rest.split(want, 1)
        return got + want

    def write(self, keys):
        os.write(self.fd, keys)

    def ended(self, seconds=SLOW):
        """The exit status."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("it did not end")


def test_chat_on_a_terminal():
    t = Terminal("-m", chat_model(), "--chat", "--temp", "0", "-n", "5")
    t.read_until(b"> ")
    t.write(b"/help\r")
    t.read_until(b"/compact")
    t.read_until(b"\n> ")
    t.write(b"Once upon a timf\x7fe\r")  # a mistake, mended
    t.read_until(b"\n")
    got = t.read_until(b"\n> ")
    assert len(got) > 8, got
    t.write(b"/stats\r")
    t.read_until(b"tokens/s")
    t.write(b"/exit\r")
    assert t.ended() == 0


def test_interrupt_on_a_terminal():
    t = Terminal("-m", chat_model(), "--chat", "--ignore-eos", "-n", "100000", "--ctx", "100000")
    t.read_until(b"> ")
    t.write(b"Once\r")
    t.read_until(b"\n")
    time.sleep(0.3)
    t.write(b"\x03")  # ends the answer, not the program
    t.read_until(b"\n> ")
    t.write(b"/exit\r")
    assert t.ended() == 0


def test_no_prompt_on_a_terminal():
    t = Terminal("-m", MODEL)
    t.read_until(b"no prompt")
    assert t.ended() == 1


def main():
    if not os.path.exists(MODEL):
        print("1..1\nnot ok 1 - models/tiny.gguf is missing")
        return 1
    try:
        return tap.run(tap.cases_of(globals()), os.environ.get("ONLY"))
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
