#!/usr/bin/env python3
"""infer-cli on processors that are not here: test_emulated.py INFER-CLI [--sanitized] [--wine PREFIX]

A native build for x86-64 runs under qemu-x86_64 as old processors do; a cross build under meson's MESON_EXE_WRAPPER, or Wine. Nothing may
stop at an unknown instruction, a variant that the processor lacks must be refused, and every answer is the same to the byte."""
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

CLI = os.path.abspath(sys.argv[1])
MODEL = os.path.join(tap.source_dir(), "models", "tiny.gguf")
# Sampled, so that a single deviating bit soon shows. It changes with the numerics version or the model.
ANSWER = (b' the king, who did not seem to be able to make, but they had just got into the middle of t'
          b'he middle of the King-skick, and he was a king of the midter.\n')
REFUSED = b"does not run on this machine"
ENV = dict(os.environ)


def wrapper():
    if "--wine" in sys.argv:
        ENV["WINEPREFIX"] = sys.argv[sys.argv.index("--wine") + 1]
        ENV["WINEDEBUG"] = "-all"
        for name in ("wine64", "/usr/lib/wine/wine64", "wine"):
            if shutil.which(name):
                return [name]
        raise tap.Skip("no Wine")
    wrapped = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))
    if not wrapped:
        raise tap.Skip("a native build: see the other cases")
    return wrapped


def run(prefix, *args, tokens=48):
    command = [*prefix, CLI, "-m", MODEL, "-n", str(tokens), "--temp", "0.9", "--seed", "7", *args, "Once upon a time"]
    return subprocess.run(command, capture_output=True, env=ENV, stdin=subprocess.DEVNULL, timeout=500, check=False)


def answers(prefix, *args):
    result = run(prefix, *args)
    assert result.returncode == 0, f"{args}: exit {result.returncode}: {result.stderr[-500:]!r}"
    assert result.stdout == ANSWER, f"{args}: {result.stdout!r}"


def refuses(prefix, *args):
    result = run(prefix, *args, tokens=1)
    assert result.returncode == 1 and REFUSED in result.stderr, f"{args}: exit {result.returncode}: {result.stderr!r}"


def variants(names, prefix):
    """Each variant answers or is refused; how many answer."""
    count = 0
    for name in names:
        result = run(prefix, "--cpu", name)
        if result.returncode == 1 and REFUSED in result.stderr:
            print(f"# {name}: not on this machine")
            continue
        assert result.returncode == 0, f"{name}: exit {result.returncode}: {result.stderr[-500:]!r}"
        assert result.stdout == ANSWER, f"{name}: {result.stdout!r}"
        count += 1
    return count


def old_cpu(model):
    if platform.machine() != "x86_64" or os.environ.get("MESON_EXE_WRAPPER") or "--wine" in sys.argv:
        raise tap.Skip("not a native build for x86-64")
    if "--sanitized" in sys.argv:
        raise tap.Skip("sanitizers and qemu do not go together")
    if not shutil.which("qemu-x86_64"):
        raise tap.Skip("no qemu-x86_64")
    return ["qemu-x86_64", "-cpu", model]


def test_native_answer():
    if os.environ.get("MESON_EXE_WRAPPER") or "--wine" in sys.argv:
        raise tap.Skip("a cross build")
    answers([])


def test_cross_variants():
    """All that the emulated processor has."""
    prefix, wine = wrapper(), "--wine" in sys.argv
    names = ["avx2", "avxvnni", "avx512", "avx512vnni"] if wine else ["neon", "dotprod", "i8mm"]
    answers(prefix)
    count = variants(["scalar", *names], prefix)
    assert count >= 1 if wine else count == 1 + len(names)  # Wine runs on this processor, qemu emulates one that has all


def test_unicode_path():
    """The model's path and the prompt are UTF-8 everywhere."""
    if "--wine" not in sys.argv:
        raise tap.Skip("test_cli has it")
    prefix = wrapper()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "Modell-\u00e4\u6a21\u578b.gguf")
        shutil.copy(MODEL, path)
        result = subprocess.run([*prefix, CLI, "-m", path, "--tokenize", "na\u00efve"], capture_output=True,
                                env=dict(ENV, LC_ALL="C.UTF-8"), stdin=subprocess.DEVNULL, timeout=300, check=False)
        assert result.returncode == 0, result.stderr
        assert len(result.stdout.splitlines()) == 6 and b"\t\"ve\"" in result.stdout, result.stdout  # BOS n a and 2 bytes, ve
        missing = subprocess.run([*prefix, CLI, "-m", path + "x", "a"], capture_output=True, env=dict(ENV, LC_ALL="C.UTF-8"),
                                 stdin=subprocess.DEVNULL, timeout=300, check=False)
        assert missing.returncode == 2 and b"no such file" in missing.stderr, missing.stderr


def test_oldest():
    """The first x86-64: SSE2 alone."""
    answers(old_cpu("qemu64"))


def test_nehalem():
    answers(old_cpu("Nehalem"))


def test_haswell():
    answers(old_cpu("Haswell"))
    answers(old_cpu("Haswell"), "--cpu", "avx2")


def test_refused():
    refuses(old_cpu("Nehalem"), "--cpu", "avx2")
    refuses(old_cpu("Haswell"), "--cpu", "avx512")
    refuses(old_cpu("Haswell,-fma"), "--cpu", "avx2")
    refuses(old_cpu("Haswell,-xsave"), "--cpu", "avx2")  # the system saves no wide registers


tap.main(globals())
