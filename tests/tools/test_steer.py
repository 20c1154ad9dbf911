"""infer-steer against PyTorch (tests/data/adapters/contrast.safetensors), and its refusals. TAP."""
import json
import math
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import tap

STEER = sys.argv[1]
DATA = Path(__file__).resolve().parent.parent / "data"
MODEL, A, B = DATA / "fixtures/llama.gguf", DATA / "adapters/contrast-positive.ids", DATA / "adapters/contrast-negative.ids"
TMP = Path(tempfile.mkdtemp(prefix="infer-steer-test-"))


def run(*args):
    r = subprocess.run([STEER, *map(str, args)], capture_output=True, text=True, timeout=120)
    return r.returncode, r.stdout, r.stderr


def safetensors(path):
    data = path.read_bytes()
    n = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {k: struct.unpack_from(f"<{v['shape'][-1]}f", data, 8 + n + v["data_offsets"][0]) for k, v in header.items()}


def make(name, *args):
    out = TMP / name
    code, text, error = run("-m", MODEL, "-p", A, "-n", B, "--ids", "-o", out, *args)
    assert code == 0, error
    assert str(out) in text
    return out


def check_method(method):
    want = safetensors(DATA / "adapters/contrast.safetensors")
    got = safetensors(make(f"{method}.safetensors", "--method", method, "--layers", "0-"))
    assert sorted(got) == [f"direction.{i}" for i in range(3)], sorted(got)
    for i in range(3):
        w, g = want[f"{method}.{i}"], got[f"direction.{i}"]
        error = max(abs(x - y) for x, y in zip(w, g)) / max(map(abs, w))
        assert len(w) == len(g) == 64 and error < 1e-4, (i, error)


def test_mean():
    check_method("mean")


def test_pca():
    check_method("pca")


def test_unit_and_layers():
    got = safetensors(make("unit.safetensors", "--unit", "--method=pca", "--layers=1-2"))
    assert sorted(got) == ["direction.1", "direction.2"]
    for v in got.values():
        assert abs(math.sqrt(sum(x * x for x in v)) - 1) < 1e-5
    assert list(safetensors(make("one.safetensors", "--layers", "2"))) == ["direction.2"]


def test_gguf_holds_the_same():
    data, want = make("v.gguf").read_bytes(), safetensors(make("v.safetensors"))
    assert data[:4] == b"GGUF" and b"controlvector.model_hint" in data and len(data) % 32 == 0
    for i, v in enumerate(want.values()):  # two tensors of 256 bytes at the end
        assert data[len(data) - 512 + 256 * i:][:256] == struct.pack("<64f", *v)


def test_refusals():
    one = TMP / "one.ids"
    one.write_text("1 2 3\n")
    empty = TMP / "empty.ids"
    empty.write_text("\n \n")
    words = TMP / "words.ids"
    words.write_text("1 2 x\n")
    big = TMP / "big.ids"
    big.write_text("1 99999\n")
    good = ["-m", MODEL, "-p", A, "-n", B, "--ids", "-o", TMP / "x.gguf"]
    replaced = lambda letter, value: [value if i and good[i - 1] == letter else v for i, v in enumerate(good)]
    for args, code, says in (
            ([], 1, "wants --model"), (["--nothing"], 1, "unknown option"), (good + ["--method", "best"], 1, "bad value"),
            (good + ["--layers", "2-x"], 1, "bad value"), (good + ["--layers"], 1, "needs a value"), (good + ["--layers", "3"], 2, "layers 0 to 2"),
            (replaced("-m", TMP / "no"), 2, "no such file"), (replaced("-p", TMP / "no"), 2, "cannot be read"),
            (replaced("-p", empty), 2, "no prompts"), (replaced("-p", words), 2, "not token ids"), (replaced("-p", big), 2, "99999"),
            (replaced("-p", one) + ["--method", "pca"], 2, "wants pairs"), (replaced("-o", TMP / "no/x.gguf"), 2, "cannot be written"),
            ([a for a in good if a != "--ids"], 2, "no tokenizer")):
        got, _, error = run(*args)
        assert got == code and says in error, (args, got, error)
    assert run("--help")[0] == 0 and "--method" in run("--help")[1] and "libinfer" in run("--version")[1]


def test_manual():
    """Every option of --help is in the manual page, and the other way round."""
    helped = set(re.findall(r"--([a-z]+)", run("--help")[1]))
    manual = set(re.findall(r"^\.It (?:Fl \S+ , )?Fl Fl ([a-z]+)", (DATA.parent.parent / "docs/infer-steer.1").read_text(), re.M))
    assert helped == manual, helped ^ manual


def test_text():
    """With the tokenizer of a trained model."""
    a, b = TMP / "a.txt", TMP / "b.txt"
    a.write_text("Lily was very happy\r\n\nTom was so glad\n")
    b.write_text("Lily was very sad\nTom was so cross")
    code, text, error = run("-m", DATA.parent.parent / "models/tiny.gguf", "-p", a, "-n", b, "-o", TMP / "t.gguf")
    assert code == 0 and "from 2 and 2 prompts" in text, error


try:
    tap.main(globals())
finally:
    shutil.rmtree(TMP)
