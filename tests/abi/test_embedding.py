#!/usr/bin/env python3
"""The program in docs/embedding.md, compiled and run: test_embedding.py LIBRARY CC [--sanitized]. TAP."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

ROOT = tap.source_dir()
LIBRARY, CC = sys.argv[1], sys.argv[2].split(";")


def program():
    with open(os.path.join(ROOT, "docs", "embedding.md"), encoding="utf-8") as f:
        blocks = re.findall(r"^```c\n(.*?)^```$", f.read(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    return "\n".join(blocks)


def test_tour():
    if "--sanitized" in sys.argv:
        raise tap.Skip("a sanitized library needs a sanitized program")
    folder = os.path.dirname(os.path.abspath(LIBRARY))
    with tempfile.TemporaryDirectory() as scratch:
        source, host = os.path.join(scratch, "host.c"), os.path.join(scratch, "host")
        with open(source, "w", encoding="utf-8") as f:
            f.write(program())
        built = subprocess.run([*CC, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-I" + os.path.join(ROOT, "include"), source,
                                "-o", host, LIBRARY, "-Wl,-rpath," + folder], capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr
        model = os.path.join(ROOT, "models", "tiny.gguf")
        runs = [subprocess.run([host, model], capture_output=True, text=True, check=False) for _ in range(2)]
        assert runs[0].returncode == 0 and not runs[0].stderr, runs[0]
        assert runs[0].stdout == runs[1].stdout, "two runs differ"
        lines = runs[0].stdout.splitlines()
        assert re.match(r"weights \d+, all together \d+ bytes at most, context \d+$", lines[0]), lines
        assert lines[-1] == "3 requests ended" and sum(line.endswith(" tokens") for line in lines) == 3, lines
        bad = subprocess.run([host, os.path.join(ROOT, "README.md")], capture_output=True, text=True, check=False)
        assert bad.returncode == 1 and bad.stderr.startswith("INFER_ERROR_FORMAT: ") and "README.md" in bad.stderr, bad


if __name__ == "__main__":
    tap.main(globals())
