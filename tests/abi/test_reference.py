#!/usr/bin/env python3
"""The reference made from the public headers: complete, and refused when something has no documentation. TAP. Needs Doxygen."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

ROOT = tap.source_dir()
HEADERS = sorted(os.listdir(os.path.join(ROOT, "include", "infer")))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def make(folder, root=ROOT):
    if not shutil.which("doxygen"):
        raise tap.Skip("no doxygen")
    return subprocess.run([os.path.join(ROOT, "scripts", "reference"), folder, root], capture_output=True, text=True, check=False)


def changed(folder, header, old, new):
    """A tree with the headers, one of them changed."""
    for part in ("include", "docs/reference"):
        shutil.copytree(os.path.join(ROOT, part), os.path.join(folder, part))
    path = os.path.join(folder, "include", "infer", header)
    text = read(path)
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {header}"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))
    return folder


def test_complete():
    with tempfile.TemporaryDirectory() as out:
        result = make(out)
        assert result.returncode == 0 and not result.stderr, result.stderr
        pages = "".join(read(os.path.join(out, name)) for name in os.listdir(out) if name.endswith(".html"))
        functions = set()
        for header in HEADERS:
            functions |= set(re.findall(r"^INFER_API [^;(]*?\b(infer_\w+)\(", read(os.path.join(ROOT, "include", "infer", header)), re.MULTILINE))
        assert len(functions) > 100
        missing = [name for name in sorted(functions) if f">{name}</a>" not in pages and not re.search(r"\b" + name + r" \(", pages)]
        assert not missing, missing


def test_undocumented_is_refused():
    for header, old, new, name in (("infer.h", "/* 1: it is set. */\n", "", "infer_cancel_is_set"),
                                   ("infer.h", " /* layers */", "", "n_layer"),
                                   ("state.h", "/* Entries and bytes. */\n", "", "infer_store_get_info"),
                                   ("scheduler.h", "/* Counts and times so far. */\n", "", "infer_request_get_info")):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as out:
            result = make(out, changed(folder, header, old, new))
            assert result.returncode != 0 and name in result.stderr, (name, result)


if __name__ == "__main__":
    tap.main(globals())
