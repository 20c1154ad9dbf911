#!/usr/bin/env python3
"""infer-cli from outside: every flag, exit codes, pipes, signals, a terminal. test_cli.py INFER-CLI"""
import json
import math
import os
import pty
import re
import select
import shutil
import signal
import struct
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
                       (["--raw", "--system", "x", "y"], b"--raw leaves"), (["--kv-type", "f8"], b"mixed-f32"),
                       (["--prompt-cache-ro", "x"], b"--prompt-cache FILE"), (["--prompt-cache", "f", "--info"], b"no effect"),
                       (["--prompt-cache", "f", "--tokenize", "x"], b"no effect"), (["--stop", "", "x"], b"1 to 1024 bytes"),
                       (["--stop", "x" * 1025, "x"], b"1 to 1024 bytes"), (["--stop", "a"] * 65 + ["x"], b"at most 64"),
                       (["--stop"], b"needs a value"), (["--repeat-guard", "15", "x"], b"at least 16"), (["--repeat-guard", "4097", "x"], b"at most 4096"),
                       (["--score", "--chat"], b"exclude"), (["--score", "--embed", "x"], b"exclude"), (["--score", "--system", "s", "x"], b"--score leaves"),
                       (["--score", "--prompt-cache", "f", "x"], b"no effect"), (["--score", ""], b"empty prompt")]:
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


def test_info_memory():
    """The table of --info is the library's estimate: it grows with the context, and with the bytes that a KV type takes."""
    lines = answer("--info").decode().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("memory "))
    assert lines[at + 1].split() == ["context", "512"], lines[at + 1]
    rows = {line.split()[1]: float(line.split()[2]) for line in lines[at + 2:at + 6]}
    assert list(rows) == ["f32", "f16", "mixed-f16", "int8"] and 4 < rows["int8"] <= rows["f16"] <= rows["f32"], rows
    events = [json.loads(line) for line in answer("--info", "--json", "--ctx", "2048").splitlines()]
    assert events[0]["event"] == "info" and events[0]["tensors"] > 10
    assert [e["kv"] for e in events[1:]] == list(rows)
    kv = {e["kv"]: e["kv_bytes"] for e in events[1:]}
    assert kv["int8"] < kv["f16"] < kv["f32"], kv
    for e in events[1:]:
        assert e["event"] == "estimate" and e["n_ctx"] == 2048
        assert e["total_bytes"] == e["mapped_bytes"] + e["memory_bytes"] >= e["mapped_bytes"] + e["own_bytes"] + e["kv_bytes"] + e["scratch_bytes"]
    # --memory: what fits, below it and no more
    f16 = [json.loads(line) for line in answer("--info", "--json").splitlines()][2]
    some = f16["total_bytes"] - 500000
    fits = [e for e in map(json.loads, answer("--info", "--json", "--memory", str(some)).splitlines()) if e.get("budget") == some]
    assert all(e["total_bytes"] <= some and (e["n_ctx"] % 64 == 0 or e["n_ctx"] == 512) for e in fits), fits
    assert "fits into --memory" in answer("--info", "--memory", "1M").decode() and "none" in answer("--info", "--memory", "1M").decode()


def test_memory():
    """--memory chooses the context, is a cap that is enough, and refuses by name what cannot be."""
    want = answer("--temp", "0", "-n", "40", "-t", "1", "Once")
    big = [json.loads(line) for line in answer("--info", "--json", "-t", "1").splitlines()][2]
    assert big["kv"] == "f16"
    for size, least in ((str(big["total_bytes"]), 512), ("1G", 512), (str(big["total_bytes"] - 400000), 64)):
        for ctx in ((), ("--ctx", "auto")):
            result = cli("--memory", size, *ctx, "--temp", "0", "-n", "40", "-t", "1", "--stats", "Once")
            expect(result, 0)
            assert result.stdout == want
            room = int(re.search(rb"context +\d+ of (\d+) tokens", result.stderr).group(1))
            assert least <= room <= 512, (size, room)
    expect(cli("--memory", "1M", "Once"), 4, b"budget is 1048576")
    expect(cli("--memory", str(big["total_bytes"] - 1), "-t", "1", "--ctx", "4000", "Once"), 4, b"a context of 4000 elements")
    for bad in ("0", "12X", "M", "-1", "1.5G", "99999999999T"):
        expect(cli("--memory", bad, "Once"), 1, b"is not a size")
    expect(cli("--ctx", "automatic", "Once"), 1, b"is not a whole number")


def test_folder():
    folder = os.path.join(ROOT, "tests", "data", "fixtures", "qwen3")
    for path in (folder, os.path.join(folder, "config.json"), os.path.join(folder, "model.safetensors")):
        text = answer("-m", path, "--info", model=False).decode()
        assert ("architecture    qwen3" in text and "runs here       yes" in text) == (not path.endswith(".safetensors")), text
    empty = os.path.join(SCRATCH, "empty folder")
    os.makedirs(empty)
    expect(cli("-m", empty, "x", model=False), 2, b"config.json")


def test_quantise():
    assert answer("--raw", "--quantise", "q8_0", "-n", "5", "--temp", "0", "Once")
    expect(cli("--quantise", "q3_x", "x"), 1, b"q6_k")


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


def test_stop():
    args = ["--temp", "0", "-n", "40", "Once upon a time"]
    whole = answer(*args).decode().rstrip("\n")
    for stop in (whole[20:25], whole[3], whole[10:40], whole[-4:]):
        assert answer("--stop", stop, *args).decode() == whole[:whole.index(stop)] + "\n", stop
    first, second = whole[12:20], whole[30:41]
    assert whole.index(first) == 12 and whole.index(second) == 30
    assert answer("--stop", second, "--stop", first, *args).decode() == whole[:12] + "\n"
    got = events("--stop", second, "--stop", first, *args)
    assert got[-1]["finish_reason"] == "stop_string" and got[-1]["stop_index"] == 1
    assert "".join(e["text"] for e in got[:-1]) + got[-1].get("text", "") == whole[:12]
    got = events("--stop", whole[-6:] + "?", *args)  # held back to the end
    assert got[-1]["finish_reason"] == "length" and got[-1]["text"] == whole[-6:] and "stop_index" not in got[-1]
    assert expect(cli("--stop", whole[20:25], "--stats", *args), 0, b"ended by stop_string")


def test_repeat_guard():
    stuck = ["--temp", "0", "-n", "200", "--presence-penalty=-1000", "The"]  # what came once comes again for ever
    assert len(events(*stuck)) == 201
    got = events("--repeat-guard", "16", *stuck)
    assert got[-1]["finish_reason"] == "repetition" and got[-1]["completion_tokens"] < 60
    ids = [e["id"] for e in got[:-1]][-16:]
    assert any(ids[p:] == ids[:-p] for p in range(1, 5)), ids
    assert events("--repeat-guard", "0", *stuck)[-1]["finish_reason"] == "length"


def test_score():
    text = "Once upon a time there was a little girl"
    got = events("--score", text)
    tokens, result = got[:-1], got[-1]
    assert "".join(e["text"] for e in tokens) == text and all(e["logprob"] < 0 for e in tokens)
    total = sum(e["logprob"] for e in tokens)
    assert result["event"] == "score" and result["tokens"] == len(tokens) and abs(result["logprob"] - total) < 1e-4
    assert abs(result["perplexity"] - math.exp(-result["logprob"] / len(tokens))) < 1e-6 * result["perplexity"]
    plain = answer("--score", stdin=text.encode() + b"\n").decode().splitlines()
    assert [line.split()[0] for line in plain] == ["tokens", "log-likelihood", "perplexity"]
    assert int(plain[0].split()[1]) == len(tokens) and abs(float(plain[1].split()[1]) - result["logprob"]) < 1e-5
    assert events("--score", "Zxq gpl wub")[-1]["perplexity"] > 10 * result["perplexity"]
    greedy = answer("--temp", "0", "-n", "20", "Once upon a time").decode().rstrip("\n")
    assert events("--score", "Once upon a time" + greedy)[-1]["perplexity"] < result["perplexity"]
    assert cli("--score", text).stderr == b"", "nothing to say"
    expect(cli("--score", "--ctx", "1", text), 1, b"no room")


def test_score_in_windows():
    """Each window begins with half a context of what came before: its tokens have the same log-probabilities as alone."""
    text = "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do."
    ids = [int(line.split()[0]) for line in answer("--tokenize", text).decode().splitlines()]
    whole, cut = events("--score", text)[:-1], events("--score", "--ctx", "16", text)[:-1]
    assert len(ids) == 30
    assert [e["id"] for e in whole] == [e["id"] for e in cut] == ids[1:]
    assert [e["logprob"] for e in whole[:15]] == [e["logprob"] for e in cut[:15]]
    assert [e["logprob"] for e in whole[15:]] != [e["logprob"] for e in cut[15:]]


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


# ---- State: taking back, branches, files ----

def talk(script, *args, model=None, code=0, said=b""):
    """A conversation of greedy answers: (answers, standard error)."""
    model = model or chat_model()
    result = cli("--chat", "-m", model, "--temp", "0", "-n", "12", *args, stdin=script, model=False)
    out = expect(result, code, said)
    return out.split(b"\n")[:-1], result.stderr


def prompts(stderr):
    """(tokens, computed) of each prompt, of --stats."""
    return [tuple(map(int, match)) for match in re.findall(rb"prompt +(\d+) tokens, (\d+) computed", stderr)]


def both_kinds():
    """A model with a template and one without; the latter's answers go over several lines."""
    return [chat_model(), MODEL]


def answers_of(out):
    return b"\n".join(out)


def test_chat_undo():
    for model in both_kinds():
        direct, _ = talk(b"Once upon a time\nthere was a bear\n", model=model)
        out, err = talk(b"Once upon a time\nin a far country\n/undo\nthere was a bear\n", model=model, said=b"took back 1 exchange;")
        plain, _ = talk(b"Once upon a time\nin a far country\n", model=model)
        assert answers_of(out) == answers_of(plain) + answers_of(direct)[len(answers_of(talk(b"Once upon a time\n", model=model)[0])):], (out, err)
        twice, _ = talk(b"One\ntwo\n/undo 2\nOnce upon a time\nthere was a bear\n", model=model, said=b"took back 2 exchanges; 0 tokens")
        assert answers_of(twice).endswith(answers_of(direct))


def test_chat_undo_computes_little():
    _, err = talk(b"Once upon a time there was a little red hen\nand a queen\n/undo\nand a king\n", "--stats")
    turns = prompts(err)
    assert len(turns) == 3 and turns[2][1] < turns[2][0] - 10, turns


def test_chat_undo_refuses():
    for command, said in [(b"/undo", b"/undo: there are 0 exchanges"), (b"/undo 0", b'"0" is not a number'), (b"/undo x", b'"x" is not'),
                          (b"/undo 1x", b"is not a number"), (b"/undo -1", b"is not a number"), (b"/undo 99999999999999999999999", b"there are 0"),
                          (b"/branches 1", b"takes nothing")]:
        talk(command + b"\n", said=said)
    direct, _ = talk(b"Once upon a time\nand then\n")
    out, _ = talk(b"Once upon a time\n/undo 2\nand then\n", said=b"there is 1 exchange to take back")
    assert out == direct


def test_chat_branches():
    for model in both_kinds():
        left, _ = talk(b"Once upon a time\nthere was a bear\nand so\n", model=model)
        right, _ = talk(b"Once upon a time\nin the deep sea\nand so\n", model=model)
        first, _ = talk(b"Once upon a time\n", model=model)
        head = len(answers_of(first))
        out, err = talk(b"Once upon a time\n/fork sea\nin the deep sea\n/switch main\nthere was a bear\n/switch sea \nand so\n"
                        b"/switch main\n/branches\nand so\n", "--stats", model=model, said=b"now in branch sea; main stays")
        middle_right, _ = talk(b"Once upon a time\nin the deep sea\n", model=model)
        middle_left, _ = talk(b"Once upon a time\nthere was a bear\n", model=model)
        want = (answers_of(middle_right) + answers_of(middle_left)[head:] + answers_of(right)[len(answers_of(middle_right)):]
                + answers_of(left)[len(answers_of(middle_left)):])
        assert answers_of(out) == want, (out, want)
        assert re.search(rb"\* main +2 exchanges, \d+ tokens\n +sea +3 exchanges, \d+ tokens", err), err
        assert all(computed < tokens for tokens, computed in prompts(err)[1:]), err


def test_chat_branches_refuse():
    direct, _ = talk(b"Once upon a time\nand then\n")
    for command, said in [(b"/switch nope", b'no branch "nope"'), (b"/switch", b'no branch ""'), (b"/switch main", b"already in branch main"),
                          (b"/fork main", b"a branch main already"), (b"/fork a b", b"one word"), (b"/fork " + b"x" * 64, b"one word")]:
        out, _ = talk(b"Once upon a time\n" + command + b"\nand then\n", said=said)
        assert out == direct, command
    _, err = talk(b"/fork\n/fork\n/branches\n")
    assert b"fork1" in err and b"* fork2" in err, err


def test_chat_stats():
    _, err = talk(b"/stats\nOnce upon a time\n/stats\n/fork\n/stats\n")
    assert b"no answer yet" in err and b"context  0 of" in err, err
    lines = re.findall(rb"context +(\d+) of (\d+) tokens, ([\d.]+) MiB of state: ([\d.]+) shared, ([\d.]+) mapped", err)
    assert len(lines) == 3 and int(lines[1][0]) > 12 and float(lines[1][3]) == 0, lines
    assert err.count(b"tokens/s") >= 4


def test_chat_with_cache():
    """A conversation that starts anew finds what it computed before."""
    long = b"Once upon a time there was a little red hen who lived by the sea with a dog and a cat and a duck and a queen, " * 3
    direct, _ = talk(long + b"\nand then\n")
    script = long + b"\n/reset\nsomething else\n/reset\n" + long + b"\n/stats\nand then\n"
    out, err = talk(script, "--cache", "16", "--stats")
    assert out[-len(direct):] == direct, (out, direct)
    reports = re.findall(rb"cache +(\d+) of (\d+) tokens reused: ([^;]+); [\d.]+ MiB kept", err)
    assert len(reports) == 5 and reports[0][2] == b"nothing is stored" and int(reports[3][0]) > 64, err
    assert b"cache " not in talk(b"One\n", "--stats")[1]


def test_chat_command_errors_as_json():
    lines = [json.loads(line) for line in answer("--chat", "--json", "-m", chat_model(), "-n", "3", stdin=b"one\n/undo 5\ntwo\n",
                                                 model=False).splitlines()]
    assert [line["event"] for line in lines if line["event"] != "token"] == ["done", "error", "done"], lines


def test_chat_help_is_in_the_manual():
    _, err = talk(b"/help\n")
    commands = re.findall(rb"^(/\w+)", err, re.MULTILINE)
    assert len(commands) >= 11
    with open(os.path.join(ROOT, "docs", "infer-cli.1"), "rb") as page:
        manual = page.read()
    absent = [name for name in commands if not re.search(rb"^\.It Li " + name + rb"\b", manual, re.MULTILINE)]
    assert not absent, f"not in docs/infer-cli.1: {absent}"


def needs_files():
    """Checkpoint files want xxHash in the build."""
    state = fresh("probe")
    result = cli("--chat", "-m", MODEL, "-n", "1", stdin=b"One\n/save " + state.encode() + b"\n", model=False)
    if not os.path.exists(state) and b"has no xxHash" in result.stderr:
        raise tap.Skip("this build has no checkpoint files")


def fresh(name):
    folder = tempfile.mkdtemp(dir=SCRATCH)
    return os.path.join(folder, name)


def damage(path, at=None):
    with open(path, "r+b") as f:
        f.seek(0, os.SEEK_END)
        f.seek(f.tell() // 2 if at is None else at)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 0x41]))


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def renamed(model):
    """Another model with the same weights, as far as anyone can tell quickly."""
    path = fresh("other.gguf")
    with open(path, "wb") as out:
        out.write(gguf_edit.edit(contents(model), {b"general.name": b"another"}))
    return path


def test_chat_save_and_load():
    needs_files()
    for model in both_kinds():
        state = fresh("a state")  # with a space
        direct, _ = talk(b"Once upon a time there was a little red hen\nand a queen\n/undo 1\nand a king\n", model=model)
        saved, _ = talk(b"Once upon a time there was a little red hen\n/save " + state.encode() + b" \n", model=model, said=b"saved ")
        out, err = talk(b"Something else\n/load " + state.encode() + b"\nand a queen\n/undo\nand a king\n", "--stats", model=model,
                        said=b"loaded 1 exchange, ")
        other, _ = talk(b"Something else\n", model=model)
        assert answers_of(out) == answers_of(other) + answers_of(direct)[len(answers_of(saved)):], (out, direct, saved)
        turns = prompts(err)
        assert turns[1][1] < turns[1][0] - 10, turns
        assert sorted(os.listdir(os.path.dirname(state))) == ["a state", "a state.chat"]


def test_chat_load_refuses():
    """The conversation goes on as if nothing had been asked."""
    needs_files()
    state = fresh("state")
    talk(b"One\n/save " + state.encode() + b"\n")
    direct, _ = talk(b"Once upon a time\nand then\n")

    def refused(path, said, model=None):
        expected = talk(b"Once upon a time\nand then\n", model=model)[0] if model else direct
        out, _ = talk(b"Once upon a time\n/load " + path.encode() + b"\nand then\n", model=model, said=said)
        assert out == expected

    refused(state + "x", b"/load: ")
    refused("", b"/load needs")
    refused(SCRATCH, b"/load: ")
    refused(state, b"saved with a chat template", model=MODEL)
    for name, spoil, said in [("words", lambda p: damage(p + ".chat", 3), b"not a conversation"),
                              ("cut", lambda p: os.truncate(p + ".chat", os.path.getsize(p + ".chat") - 2), b"damaged"),
                              ("header", lambda p: damage(p, 17), b"/load"),
                              ("short", lambda p: os.truncate(p, os.path.getsize(p) - 1), b"/load"),
                              ("gone", os.unlink, b"/load"),
                              ("other", lambda p: shutil.copy(MODEL, p), b"/load")]:
        copy = fresh(name)
        shutil.copy(state, copy)
        shutil.copy(state + ".chat", copy + ".chat")
        spoil(copy)
        refused(copy, said)
    refused(state, b"/load", model=renamed(chat_model()))


def test_chat_save_refuses():
    direct, _ = talk(b"Once upon a time\nand then\n")
    for where, said in [(b"", b"/save needs"), (b"/nonexistent/x", b"/save"), (SCRATCH.encode(), b"/save")]:
        out, _ = talk(b"Once upon a time\n/save " + where + b"\nand then\n", said=said)
        assert out == direct, where


PROMPT = "Once upon a time there was a little red hen who lived in a house by the sea, and"


def cached(path, prompt, *args, said=b"", code=0, model=MODEL):
    """(answer, tokens, computed, standard error) of a run with --prompt-cache."""
    result = cli("-m", model, "--temp", "0", "-n", "12", "--stats", "--prompt-cache", path, *args, prompt, model=False)
    out = expect(result, code, said)
    return (out, *prompts(result.stderr)[0], result.stderr)


def cold(prompt, *args):
    return answer("--temp", "0", "-n", "12", *args, prompt)


def test_prompt_cache():
    needs_files()
    path = fresh("cache")
    first = cached(path, PROMPT)
    assert first[0] == cold(PROMPT) and first[1] == first[2], first
    assert os.listdir(os.path.dirname(path)) == ["cache"]
    before = contents(path)
    again = cached(path, PROMPT)
    assert again[0] == first[0] and again[2] == 1 and b"prompt-cache" not in again[3], again
    assert contents(path) == before and not os.path.exists(path + ".delta")
    longer = cached(path, PROMPT + first[0].decode().rstrip("\n"))
    assert longer[0] == cold(PROMPT + first[0].decode().rstrip("\n")) and longer[2] < 5, longer
    seeded = ["--temp", "0.9", "--seed", "5"]  # the command line's sampling, not the file's
    assert cached(path, PROMPT, *seeded)[0] == cold(PROMPT, *seeded)


def test_prompt_cache_keeps_the_old_state():
    needs_files()
    path = fresh("cache")
    cached(path, PROMPT)
    before = contents(path)
    other = PROMPT + " the queen said to the king"
    first = cached(path, other)
    assert first[0] == cold(other) and first[2] < 12, first
    assert contents(path) == before and os.path.exists(path + ".delta")
    second = cached(path, other)  # now from the delta
    assert second[0] == first[0] and second[2] == 1, second
    third = cached(path, "Call me Ishmael")  # nothing in common: in the delta all the same
    assert third[0] == cold("Call me Ishmael") and contents(path) == before
    assert cached(path, PROMPT)[2] == 1
    assert cached(path, "Call me Ishmael")[2] == 1
    assert sorted(os.listdir(os.path.dirname(path))) == ["cache", "cache.delta"]


def test_prompt_cache_grows():
    """What holds all of FILE and as much again takes its place, and the delta's."""
    needs_files()
    path = fresh("cache")
    cached(path, "Once upon a time")
    cached(path, "Once there was")
    assert os.path.exists(path + ".delta")
    before = contents(path)
    text = "Once upon a time" + cold("Once upon a time").decode().rstrip("\n") + " " + PROMPT * 2
    grown = cached(path, text)
    assert grown[0] == cold(text) and contents(path) != before
    assert os.listdir(os.path.dirname(path)) == ["cache"]
    assert cached(path, text)[2] == 1


def test_prompt_cache_ro():
    needs_files()
    path = fresh("cache")
    assert cached(path, PROMPT, "--prompt-cache-ro")[0] == cold(PROMPT)
    assert os.listdir(os.path.dirname(path)) == []
    cached(path, PROMPT)
    before = contents(path)
    assert cached(path, PROMPT + " the queen", "--prompt-cache-ro")[2] < 12
    assert contents(path) == before and os.listdir(os.path.dirname(path)) == ["cache"]


def test_prompt_cache_refuses():
    """A warning with the reason, the cold answer, and the file as it was."""
    needs_files()
    path = fresh("cache")
    cached(path, PROMPT)
    for name, spoil, args, said in [("damaged", lambda p: damage(p, 17), [], b"is not used: "),
                                    ("short", lambda p: os.truncate(p, os.path.getsize(p) - 1), [], b"is not used: "),
                                    ("empty", lambda p: os.truncate(p, 0), [], b"is not used: "),
                                    ("no-state", lambda p: shutil.copy(MODEL, p), [], b"is not used: "),
                                    ("kv", lambda p: None, ["--kv", "f32"], b"another --kv"),
                                    ("ctx", lambda p: None, ["--ctx", "300"], b"another --ctx")]:
        copy = fresh(name)
        shutil.copy(path, copy)
        spoil(copy)
        before = contents(copy)
        got = cached(copy, PROMPT, *args, said=b"--prompt-cache: " + copy.encode() + b" ")
        assert said in got[3], got
        assert got[0] == cold(PROMPT, *args) and got[1] == got[2], (name, got)
        assert contents(copy) == before and os.listdir(os.path.dirname(copy)) == [name]
    recent = fresh("recent")
    cached(recent, PROMPT, "--kv", "mixed-f16")
    assert b"another --kv-recent" in cached(recent, PROMPT, "--kv", "mixed-f16", "--kv-recent", "128")[3]
    before = contents(path)
    assert b"is not used: " in cached(path, PROMPT, model=renamed(MODEL))[3] and contents(path) == before


def test_prompt_cache_damaged_delta():
    needs_files()
    path = fresh("cache")
    cached(path, PROMPT)
    cached(path, PROMPT + " the queen")
    damage(path + ".delta", 17)
    got = cached(path, PROMPT + " the queen", said=b"cache.delta is not used: ")
    assert got[0] == cold(PROMPT + " the queen") and got[2] < 8, got
    assert cached(path, PROMPT + " the queen")[2] == 1  # it was written anew


def test_prompt_cache_damaged_pages():
    """Damage in the pages themselves: found when they are used, or when the file is opened; never a wrong answer."""
    needs_files()
    path = fresh("cache")
    cached(path, PROMPT)
    size = os.path.getsize(path)
    want = cold(PROMPT)
    for at in range(4096, size, max(1, size // 40)):
        copy = fresh("copy")
        shutil.copy(path, copy)
        damage(copy, at)
        result = cli("--temp", "0", "-n", "12", "--prompt-cache", copy, PROMPT)
        assert result.returncode == 0 and result.stdout == want, (at, result)


def test_prompt_cache_cannot_be_written():
    got = cached("/nonexistent/cache", PROMPT, said=b"the state is not kept: ")
    assert got[0] == cold(PROMPT)


def test_prompt_cache_in_chat():
    needs_files()
    path = fresh("cache")
    first, _ = talk(b"Once upon a time there was a little red hen\n", "--prompt-cache", path)
    assert os.path.exists(path)
    again, err = talk(b"Once upon a time there was a little red hen\nand a queen\n", "--prompt-cache", path, "--stats")
    assert again[:len(first)] == first and prompts(err)[0][1] == 1, err
    direct, _ = talk(b"Once upon a time there was a little red hen\nand a queen\n")
    assert again == direct


def test_prompt_cache_with_json():
    needs_files()
    path = fresh("cache")
    lines = events("-n", "3", "--prompt-cache", path, PROMPT)
    assert lines == events("-n", "3", "--prompt-cache", path, PROMPT) or lines[-1]["event"] == "done"
    damage(path, 17)
    assert all(line["event"] != "error" for line in events("-n", "3", "--prompt-cache", path, PROMPT))


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


# ---- Embeddings ----

BERT = os.path.join(ROOT, "tests", "data", "fixtures", "bert.gguf")
FOLDER = os.path.join(ROOT, "tests", "data", "fixtures", "bert")


def embed(*args, path=BERT, stdin=b"", code=0, said=b""):
    return expect(cli("-m", path, "--embed", *args, model=False, stdin=stdin), code, said).decode()


def numbers(line):
    return [float(x) for x in line.split()]


def test_embed_text():
    out = embed("The cat sat on the mat.")
    assert out.count("\n") == 1
    vector = numbers(out)
    assert len(vector) == 32 and abs(sum(x * x for x in vector) - 1) < 1e-5
    assert embed("The cat sat on the mat.", path=FOLDER) == out
    raw = numbers(embed("--no-normalise", "The cat sat on the mat."))
    length = sum(x * x for x in raw) ** 0.5
    assert abs(length - 1) > 1e-3 and all(abs(r / length - v) < 1e-6 for r, v in zip(raw, vector))


def test_embed_lines():
    texts = ["the cat", "", "a red river", "the cat"] * 40  # more than a call of the library takes
    lines = embed(stdin="".join(t + "\n" for t in texts).encode()).splitlines()
    assert len(lines) == 160
    assert lines[0] == lines[3] == embed("the cat").rstrip("\n") and lines[0] != lines[2]
    rows = [json.loads(x) for x in embed("--json", stdin="".join(t + "\n" for t in texts).encode()).splitlines()]
    assert [r["index"] for r in rows] == list(range(160))
    assert [r["tokens"] for r in rows[:4]] == [4, 2, 5, 4]  # [CLS] and [SEP] too
    assert all(r["embedding"] == numbers(line) and r["truncated"] is False for r, line in zip(rows, lines))


def test_embed_pooling():
    rows = [numbers(x) for x in embed("--pooling", "none", "the cat").splitlines()]
    assert len(rows) == 4
    assert numbers(embed("--pooling", "cls", "--no-normalise", "the cat")) == rows[0]
    assert numbers(embed("--pooling", "last", "--no-normalise", "the cat")) == rows[3]
    mean = numbers(embed("--pooling", "mean", "--no-normalise", "the cat"))
    assert all(abs(m - sum(r[i] for r in rows) / 4) < 1e-5 for i, m in enumerate(mean))
    (event,) = [json.loads(x) for x in embed("--json", "--pooling", "none", "the cat").splitlines()]
    assert event["embeddings"] == rows
    assert len(numbers(embed("--dimensions", "5", "the cat"))) == 5


def test_embed_of_a_model_that_generates():
    out = numbers(expect(cli("--embed", "Once upon a time"), 0).decode())
    assert len(out) > 16 and abs(sum(x * x for x in out) - 1) < 1e-5


def test_embed_errors():
    long = "a " * 400
    embed(long, code=4, said=b"at most 320")
    assert json.loads(embed("--truncate", "--json", long))["truncated"] is True
    assert json.loads(embed("--truncate", "--json", "--ctx", "10", long))["tokens"] == 402
    embed("--dimensions", "33", "a", code=1, said=b"dimensions")
    embed("--pooling", "max", "a", code=1, said=b"mean, cls, last or none")
    embed("--chat", code=1, said=b"exclude each other")
    expect(cli("--pooling", "mean", "a"), 1, b"go with --embed")
    expect(cli("-m", BERT, "a", model=False), 1, b"encoder")


# ---- Adapters ----

def safetensors(path, tensors):
    """{name: (shape, floats)}"""
    head, data = {}, b""
    for name, (shape, values) in tensors.items():
        assert len(values) == math.prod(shape)
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)
    return path


def numbers_of(n, seed, scale):
    return [(((i * 2654435761 + seed * 40503) >> 7) % 2001 / 1000 - 1) * scale for i in range(n)]


def a_lora():
    """A LoRA for the bundled model (width 160), as PEFT saves them."""
    folder = fresh("lora")
    os.mkdir(folder)
    layer = "base_model.model.model.layers.2.mlp.down_proj.lora_"
    safetensors(os.path.join(folder, "adapter_model.safetensors"),
                {layer + "A.weight": ([4, 448], numbers_of(4 * 448, 1, 0.5)), layer + "B.weight": ([160, 4], numbers_of(640, 2, 0.5))})
    with open(os.path.join(folder, "adapter_config.json"), "w", encoding="utf-8") as out:
        json.dump({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "target_modules": ["down_proj"]}, out)
    return folder


def a_direction():
    return safetensors(fresh("steer.safetensors"), {f"direction.{n}": ([160], numbers_of(160, n, 1)) for n in (2, 4)})


def a_prompt():
    return safetensors(fresh("soft.safetensors"), {"prompt_embeddings": ([3, 160], numbers_of(480, 9, 0.1))})


def greedy(*args, **more):
    return answer("--temp", "0", "-n", "16", *args, "Once upon a time", **more)


def test_adapters():
    base, lora, steer, soft = greedy(), a_lora(), a_direction(), a_prompt()
    outputs = [greedy("--lora", lora), greedy("--lora", f"{lora}:-2"), greedy("--steer", steer), greedy("--steer", f"{steer}:-3:4"),
               greedy("--soft-prompt", soft), greedy("--lora", lora, "--steer", f"{steer}:2:0-4")]
    assert len(set(outputs + [base])) == len(outputs) + 1, outputs
    assert greedy("--lora", f"{lora}:0") == base and greedy("--steer", f"{steer}:0") == base
    assert greedy("--steer", f"{steer}:3:5") == base  # nothing behind the last layer
    assert greedy("--lora", f"{lora}:0.5", "--lora", f"{lora}:0.5") == greedy("--lora", f"{lora}:0.5", "--lora", f"{lora}:.5")
    assert greedy("--steer", f"{steer}:60:project") != base
    assert greedy("--steer", f"{steer}:1:project") == greedy("--steer", f"{steer}:1:0-5:project")


def test_adapters_refused():
    lora, steer = a_lora(), a_direction()
    for args, code, said in [(["--lora", "no-such-file"], 2, b": no-such-file: no such file"), (["--lora", steer], 1, b"not a LoRA adapter"),
                             (["--lora", "d" * 200 + "/" + "e" * 1500], 2, b"ddd"),  # ran over a buffer once
                             (["--steer", lora], 1, b"not a steering vector"), (["--soft-prompt", lora], 1, b"not a soft prompt"),
                             (["--lora", f"{lora}:99999"], 1, b"scale"), (["--steer", f"{steer}:1:4-9"], 1, b"6 layers"),
                             (["--lora", ""], 1, b"file"), (["--lora", lora, "--tokenize"], 1, b"no effect"),
                             (["--soft-prompt", lora, "--prompt-cache", "x"], 1, b"exclude"), (["--lora", lora] * 17, 1, b"too many"),
                             (["--lora", MODEL], 2, b"")]:
        expect(cli(*args, "x"), code, said)


def test_adapters_in_chat():
    lora, steer = a_lora(), a_direction()
    plain, _ = talk(b"Once upon a time\n")
    attached, _ = talk(b"Once upon a time\n", "--lora", lora)
    assert attached != plain
    out, err = talk(f"/lora {lora}\n/lora\nOnce upon a time\n".encode())
    assert out == attached and b" at 1" in err and b"in force for what comes next" in err, (out, attached, err)
    out, _ = talk(b"/lora off\nOnce upon a time\n", "--lora", lora)
    assert out == plain
    out, err = talk(f"/lora {lora}:0\nOnce upon a time\n/lora no-such-file\n/lora\n".encode(), "--lora", lora)
    assert out == plain and b"no-such-file" in err and b" at 0" in err, err
    out, err = talk(f"/steer {steer}:2:2-4\n/steer\n/steer {steer}:1:9\n/steer off\n/steer\nOnce upon a time\n".encode())
    assert out == plain and b"in layers 2 to 4" in err and b"6 layers" in err and b"none" in err, err
    with_soft, _ = talk(b"Once upon a time\nand then\n/reset\nOnce upon a time\nand then\n", "--soft-prompt", a_prompt())
    assert with_soft[:2] == with_soft[2:] and with_soft[:1] != plain, with_soft


def test_adapters_and_files():
    needs_files()
    lora, path = a_lora(), fresh("adapted.ckpt")
    first = cached(path, "Once upon a time", "--lora", lora)
    again = cached(path, "Once upon a time", "--lora", lora)
    assert again[0] == first[0] == cold("Once upon a time", "--lora", lora) and again[2] == 1, (first, again)
    cached(path, "Once upon a time", said=b"adapters")
    cached(path, "Once upon a time", "--lora", f"{lora}:2", said=b"under other adapters")
    saved = fresh("adapted.talk")
    talk(f"Once upon a time\n/save {saved}\n".encode(), "--lora", lora)
    _, err = talk(f"/load {saved}\n".encode())
    assert b"adapters" in err, err
    talk(f"/load {saved}\nand then\n".encode(), "--lora", lora)


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
