#!/usr/bin/env python3
"""infer-bench from outside: what it prints, and what it refuses. No speed is judged. test_bench.py INFER-BENCH"""
import csv
import io
import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

BENCH = os.path.abspath(sys.argv[1])
ROOT = tap.source_dir()
MODEL = os.path.join(ROOT, "models", "tiny.gguf")
TEXT = os.path.join(ROOT, "tests", "data", "english.txt")
SCRATCH = tempfile.mkdtemp(prefix="infer-bench-test-")
WINDOW, WINDOWS, VOCAB = 128, 3, 1536
HEADER = "<8sIIIIIIQ24s"
QUICK = ("-p", "8", "-n", "3", "-r", "2", "-t", "2")
ASKED_FOR = """prompt_tps gen_tps ttft_ms load_ms start_ms peak_rss_mb rss_anon_mb rss_file_mb limit_read_gbs limit_int8_gmacs limit_f32_gmacs
    read_share int8_share f32_share cpu_share model weights types threads cpu kv numerics weight_bytes_per_token kv_bytes_per_token
    int8_macs_per_prompt_token f32_macs_per_prompt_token prompt generate depth batch repeats rounds""".split()


def bench(*args, model=True, **more):
    command = [BENCH] + (["-m", MODEL] if model else []) + list(args)
    more.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(command, stderr=subprocess.PIPE, timeout=300, check=False, **more)


def expect(result, code, said=b""):
    assert result.returncode == code, f"exit {result.returncode}, not {code}: {result.stderr!r}"
    assert said in result.stderr, f"{said!r} not in {result.stderr!r}"
    assert b"Sanitizer" not in result.stderr and b"runtime error" not in result.stderr, result.stderr
    return result.stdout


def answer(*args, **more):
    return expect(bench(*args, **more), 0).decode()


def close(a, b, share=1e-2):
    assert abs(a - b) <= share * max(abs(a), abs(b)) + 2e-6, f"{a} is not {b}"


# ---- The command line ----

def test_help_version_and_manual():
    text = answer("--help", model=False)
    assert text.startswith("Usage: infer-bench") and "Exit status" in text
    assert max(map(len, text.splitlines())) <= 100
    assert re.match(r"infer-bench \d+\.\d+\.\d+, libinfer \d+\.\d+\.\d+\n$", answer("--version", model=False))
    options = re.findall(r"^  (?:-\w, )?--([\w-]+)", text, re.MULTILINE)
    assert len(options) > 20
    with open(os.path.join(ROOT, "docs", "infer-bench.1"), encoding="utf-8") as page:
        manual = page.read()
    for option in options:
        assert f"Fl Fl {option}" in manual, f"--{option} is not in the manual"


def test_usage_errors():
    for args, said in [
            (["-q"], b"unknown option -q"), (["--prompts=1"], b"unknown option"), (["text"], b"unknown option text"), (["--="], b"unknown option"),
            (["-p", "1,x"], b"not a whole number"), (["-p", "1,"], b"not a whole number"), (["-p", "-1"], b"not a whole number"),
            (["-p", "9999999999999999999999"], b"out of range"), (["-n", "1,2"], b"not a whole number"), (["-b", "0"], b"out of range"),
            (["-p", ",".join(["1"] * 33)], b"more than 32"), (["-r", "0"], b"out of range"), (["-r", "101"], b"out of range"),
            (["-p"], b"needs a value"), (["--json=1"], b"takes no value"), (["--json", "--csv"], b"exclude each other"),
            (["--kv", "f17"], b"none of f16"), (["--numerics", "x"], b"none of exact"), (["--cpu", "z80"], b"not a CPU variant"),
            (["-p", "0", "-n", "0"], b"neither a prompt"), (["--limits"], b"takes no model"), (["--kernels"], b"takes no model"),
            (["--ppl", "a", "--kl", "b"], b"exclude each other"), (["--save-logits", "x"], b"belong together"),
            (["--text", "x"], b"belong together"), (["--only", "x"], b"belongs to --kernels"), (["-c", "1"], b"out of range"),
            (["--map", "x"], b"none of auto")]:
        assert expect(bench(*args), 2, said) == b"", args
    expect(bench(model=False), 2, b"no model")


def test_runtime_errors():
    assert expect(bench("-m", "/no/such/file", model=False), 1, b"/no/such/file") == b""
    assert expect(bench("-m", TEXT, model=False), 1, b"infer-bench: ") == b""
    assert expect(bench("--ppl", "/no/such/file"), 1, b"/no/such/file") == b""
    assert expect(bench("--ppl", SCRATCH), 1, b"directory") == b""
    short = os.path.join(SCRATCH, "short.txt")
    with open(short, "w", encoding="utf-8") as out:
        out.write("too short")
    assert expect(bench("--ppl", short), 1, b"less than one window") == b""
    assert expect(bench("--kl", "/no/such/file"), 1, b"cannot open") == b""
    assert expect(bench("--save-logits", "/no/such/dir/x", "--text", TEXT), 1, b"cannot create") == b""


def test_full_disk():
    if not os.path.exists("/dev/full"):
        raise tap.Skip("no /dev/full")
    with open("/dev/full", "wb") as full:
        expect(bench("--no-limits", *QUICK, stdout=full), 1, b"cannot write")
    expect(bench("--save-logits", "/dev/full", "--text", TEXT, "-c", "64", "--windows", "1"), 1, b"cannot write")
    assert os.path.exists("/dev/full")


def test_interrupt():
    with subprocess.Popen([BENCH, "-m", MODEL, "-p", "64", "-n", "100000", "-r", "100", "--no-limits"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == b"" and b"interrupted" in err, (process.returncode, out, err)


# ---- Speed ----

def test_json_with_limits():
    r = json.loads(answer("--json", *QUICK, "-d", "16", "--limit-mib", "256"))
    missing = [key for key in ASKED_FOR if key not in r]
    assert not missing, missing
    assert (r["prompt"], r["generate"], r["depth"], r["batch"], r["repeats"], r["threads"]) == (8, 3, 16, 1, 2, 2)
    assert r["weights"] == "Q8_0" and r["types"]["Q8_0"]["bytes"] > 1e6 and r["architecture"] == "llama"
    rounds = r["rounds"]
    for key in "prompt_tps gen_tps ttft_ms load_ms limit_read_gbs limit_int8_gmacs limit_f32_gmacs read_share int8_share".split():
        assert len(rounds[key]) == 2 and min(rounds[key]) > 0, (key, rounds[key])
        close(r[key], sum(rounds[key]) / 2)
    for i in range(2):
        read = rounds["gen_tps"][i] * (r["weight_bytes_per_token"] + r["kv_bytes_per_token"]) / rounds["limit_read_gbs"][i] / 1e9
        close(rounds["read_share"][i], read)
        close(rounds["int8_share"][i], rounds["prompt_tps"][i] * r["int8_macs_per_prompt_token"] / rounds["limit_int8_gmacs"][i] / 1e9, 0.2)
    assert r["peak_rss_mb"] > 1 and r["rss_anon_mb"] > 0 and r["rss_file_mb"] > 0
    assert 0 < r["cpu_share"] <= 1.5
    assert r["start_ms"] >= r["first_ttft_ms"] > 0 and r["depth_tps"] > 0


def test_costs_of_a_token():
    r = json.loads(answer("--json", *QUICK, "--no-limits"))
    float_macs = r["f32_macs_per_prompt_token"]
    assert float_macs == 0 and r["read_share"] == 0 and r["rounds"]["limit_read_gbs"] == []
    types = r["types"]
    assert sum(t["bytes"] for t in types.values()) == r["weight_bytes_per_token"]
    assert r["weight_bytes_per_token"] <= os.path.getsize(MODEL)
    macs = sum(t["macs"] for t in types.values())
    assert macs - r["int8_macs_per_prompt_token"] == output_macs(), (macs, r["int8_macs_per_prompt_token"])
    assert types["Q8_0"]["bytes"] == types["Q8_0"]["macs"] // 32 * 34
    precise = json.loads(answer("--json", *QUICK, "--no-limits", "--numerics", "precise"))
    assert precise["f32_macs_per_prompt_token"] == r["int8_macs_per_prompt_token"] and precise["int8_macs_per_prompt_token"] == 0


def output_macs():
    """Of the embedding table, which is the output matrix too: its tensor info in the file."""
    with open(MODEL, "rb") as model:
        data = model.read()
    at = data.index(struct.pack("<Q", 17) + b"token_embd.weight") + 25
    dims, = struct.unpack_from("<I", data, at)
    shape = struct.unpack_from(f"<{dims}Q", data, at + 4)
    assert dims == 2 and shape[1] == VOCAB
    return shape[0] * shape[1]


def test_lists():
    rows = json.loads(answer("--json", "-p", "4,8", "-d", "0,16", "-b", "1,3", "-n", "2", "-r", "1", "--no-limits"))
    seen = [(r["depth"], r["prompt"], r["batch"]) for r in rows]
    assert seen == [(d, p, b) for d in (0, 16) for p in (4, 8) for b in (1, 3)]
    assert all(r["prompt_tps"] > 0 and r["gen_tps"] > 0 for r in rows)


def test_csv_and_table():
    args = ("-p", "4,8", "-n", "2", "-r", "2", "--no-limits")
    rows = list(csv.DictReader(io.StringIO(answer("--csv", *args))))
    assert [r["prompt"] for r in rows] == ["4", "8"]
    for r in rows:
        assert None not in r and None not in r.values() and "types" not in r
        assert float(r["gen_tps_min"]) <= float(r["gen_tps"]) <= float(r["gen_tps_max"])
    table = answer(*args)
    assert len(re.findall(r"^ +[48] +0 +1 ", table, re.MULTILINE)) == 2 and "tokens/s" in table


def test_only_prompt_or_generation():
    r = json.loads(answer("--json", "-p", "8", "-n", "0", "-r", "1", "--no-limits"))
    assert r["prompt_tps"] > 0 and r["gen_tps"] == 0 and r["rounds"]["gen_tps"] == []
    r = json.loads(answer("--json", "-p", "0", "-n", "2", "-r", "1", "--no-limits"))
    assert r["prompt_tps"] == 0 and r["gen_tps"] > 0


def test_settings():
    for kv in ("f16", "bf16", "f32", "int8", "int8-64", "mixed-f16", "mixed-f32"):
        r = json.loads(answer("--json", *QUICK, "--no-limits", "--kv", kv, "--cpu", "scalar", "--map", "read"))
        assert (r["kv"], r["cpu"]) == (kv, "scalar")
        assert r["kv_bytes_per_token"] > 0


def test_limits_alone():
    r = json.loads(answer("--limits", "--json", "-r", "2", "-t", "1", "--limit-mib", "256", model=False))
    for key in ("limit_read_gbs", "limit_int8_gmacs", "limit_f32_gmacs"):
        assert len(r["rounds"][key]) == 2 and r[key] > 0
    assert r["threads"] == 1 and r["limit_read_loop"]


def test_kernels():
    rows = json.loads(answer("--kernels", "--json", "-r", "1", "-t", "1", "--only", "add", "--no-limits", "--limit-mib", "256", model=False))
    assert [r["kernel"] for r in rows][:1] == ["rows"] and {r["cpu"] for r in rows} >= {"scalar"}
    assert all(r["rate"] > 0 for r in rows)
    rows = list(csv.DictReader(io.StringIO(answer("--kernels", "--csv", "-r", "1", "-t", "2", "--only", "Q4_0", "--limit-mib", "256", model=False))))
    assert {(r["kernel"], r["columns"]) for r in rows} == {("matmul", "1"), ("matmul", "16"), ("matmul", "512"), ("embed", "64")}
    assert all(float(r["rate"]) > 0 and float(r["share"]) > 0 for r in rows)


# ---- Perplexity and KL divergence ----

def save(name, *args):
    path = os.path.join(SCRATCH, name)
    if not os.path.exists(path):
        answer("--save-logits", path, "--text", TEXT, "-c", str(WINDOW), "--windows", str(WINDOWS), *args)
    return path


def load(path):
    """Tokens and log-probabilities [window][position - first]."""
    with open(path, "rb") as source:
        data = source.read()
    magic, version, size, vocab, window, first, kind, n_tokens, zero = struct.unpack_from(HEADER, data)
    assert (magic, version, size, vocab, window, first, kind, zero) == (b"INFLOGIT", 1, 64, VOCAB, WINDOW, WINDOW // 2, 0, bytes(24))
    assert n_tokens == WINDOW * WINDOWS
    tokens = struct.unpack_from(f"<{n_tokens}i", data, 64)
    at, rows = 64 + 4 * n_tokens, []
    for _ in range(WINDOWS * (window - first)):
        row = struct.unpack_from(f"<{vocab}f", data, at)
        top = max(row)
        norm = top + math.log(math.fsum(math.exp(x - top) for x in row))
        rows.append([x - norm for x in row])
        at += 4 * vocab
    assert at == len(data)
    return tokens, rows


def test_perplexity_is_that_of_the_logits():
    r = json.loads(answer("--json", "--ppl", TEXT, "-c", str(WINDOW), "--windows", str(WINDOWS)))
    tokens, rows = load(save("exact.ref"))
    half = WINDOW // 2
    nll = [-rows[w * half + i][tokens[w * WINDOW + half + i + 1]] for w in range(WINDOWS) for i in range(half - 1)]
    assert r["scored"] == len(nll) == WINDOWS * (half - 1)
    close(r["ppl"], math.exp(sum(nll) / len(nll)), 1e-6)
    close(r["ppl"], 15.97, 0.02)  # what it was when this was written
    assert 0 < r["ppl_stderr"] < r["ppl"] / 2
    everything = json.loads(answer("--json", "--ppl", TEXT, "-c", str(WINDOW), "--windows", str(WINDOWS), "--score-all"))
    assert everything["scored"] == WINDOWS * (WINDOW - 1) and everything["ppl"] > r["ppl"]


def test_perplexity_does_not_depend_on_the_variant():
    args = ("--json", "--ppl", TEXT, "-c", "64", "--windows", "2")
    assert json.loads(answer(*args, "-t", "1", "--cpu", "scalar"))["nll"] == json.loads(answer(*args, "-t", "2"))["nll"]


def test_kl_from_itself_is_nothing():
    r = json.loads(answer("--json", "--kl", save("exact.ref")))
    assert r["kl_mean"] == r["kl_max"] == 0 and r["top1_agreement"] == 1 and r["ppl"] == r["ref_ppl"]


def test_kl_from_another_mode():
    r = json.loads(answer("--json", "--kl", save("exact.ref"), "--numerics", "precise"))
    _, ref = load(save("exact.ref"))
    _, other = load(save("precise.ref", "--numerics", "precise"))
    kl = [sum(math.exp(p) * (p - q) for p, q in zip(a, b)) for a, b in zip(ref, other)]
    same = [a.index(max(a)) == b.index(max(b)) for a, b in zip(ref, other)]
    assert r["positions"] == len(kl) and 0 < r["kl_mean"] < 0.01
    assert abs(r["kl_mean"] - sum(kl) / len(kl)) < 1e-8 and abs(r["kl_max"] - max(kl)) < 1e-8
    assert abs(r["top1_agreement"] - sum(same) / len(same)) < 1e-6
    assert r["kl_low"] < r["kl_mean"] < r["kl_high"] and r["ppl"] != r["ref_ppl"]


def changed(data, at, form, *values):
    out = bytearray(data)
    struct.pack_into("<" + form, out, at, *values)
    return bytes(out)


def test_bad_references():
    with open(save("exact.ref"), "rb") as source:
        good = source.read()
    rows = 64 + 4 * WINDOW * WINDOWS
    cases = {f"cut at {n}": (good[:n], b"") for n in (0, 7, 8, 63, 64, 100, rows - 1, rows, rows + 5, len(good) - 4, len(good) - 1)}
    cases.update({
        "longer": (good + b"\0", b"behind its end"), "magic": (b"X" + good[1:], b"not a file of reference"), "text": (b"hello\n" * 99, b"not a file"),
        "version": (changed(good, 8, "I", 2), b"unknown version"), "header size": (changed(good, 12, "I", 0), b"unknown version"),
        "vocabulary": (changed(good, 16, "I", VOCAB + 1), b"another vocabulary"), "no vocabulary": (changed(good, 16, "I", 0), b"another"),
        "window 0": (changed(good, 20, "I", 0), b"window"), "window 1": (changed(good, 20, "I", 1), b"window"),
        "window huge": (changed(good, 20, "I", 0xffffffff), b"window"), "first": (changed(good, 24, "I", WINDOW), b"window"),
        "kind": (changed(good, 28, "I", 1), b"unknown kind"), "reserved": (changed(good, 63, "B", 1), b"unknown kind"),
        "no tokens": (changed(good, 32, "Q", 0), b"number of tokens"), "tokens 2^63": (changed(good, 32, "Q", 1 << 63), b"number of tokens"),
        "tokens 2^40": (changed(good, 32, "Q", 1 << 40), b"ends early"), "tokens odd": (changed(good, 32, "Q", WINDOW * WINDOWS + 1), b"number of tokens"),
        "fewer tokens": (changed(good, 32, "Q", WINDOW), b"behind its end"), "token -1": (changed(good, 64, "i", -1), b"a token"),
        "token large": (changed(good, rows - 4, "I", VOCAB), b"a token"), "NaN": (changed(good, rows + 40, "f", math.nan), b"not finite"),
        "infinity": (changed(good, len(good) - 4, "f", math.inf), b"not finite")})
    path = os.path.join(SCRATCH, "bad.ref")
    for name, (data, said) in cases.items():
        with open(path, "wb") as out:
            out.write(data)
        assert expect(bench("--kl", path), 1, said) == b"", name
    assert expect(bench("--kl", SCRATCH), 1, b"regular") == b""


def main():
    try:
        return tap.run(tap.cases_of(globals()), sys.argv[2] if len(sys.argv) > 2 else None)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
