#!/usr/bin/env python3
"""Runs the examples of docs/server.md: each ```sh block that begins with curl, in order, against one server ($URL). A ```json block right behind it is
what the answer holds at least: keys that it does not show may be there, and "..." stands for any value. test_server_docs.py INFER-SERVER"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server_host import PATIENCE, ROOT, Server  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
PAGE = os.path.join(ROOT, "docs", "server.md")


def examples(text):
    """(heading, command, expected or None) of each example."""
    heading, blocks = "", []
    for match in re.finditer(r"^#+ ([^\n]*)$|^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if match.group(1) is not None:
            heading = match.group(1)
            blocks.append(None)
        else:
            blocks.append((heading, match.group(2), match.group(3), match.start(), match.end()))
    for block, following in zip(blocks, blocks[1:] + [None]):
        if block and block[1] == "sh" and block[2].startswith("curl"):
            near = following and following[1] == "json" and not text[block[4]:following[3]].strip()
            yield block[0], block[2], json.loads(following[2]) if near else None


def contains(answer, wanted, where="answer"):
    if wanted == "...":
        return
    if isinstance(wanted, dict):
        assert isinstance(answer, dict), f"{where} is {answer!r}"
        for key, value in wanted.items():
            assert key in answer, f"{where}.{key} is not in {answer!r}"
            contains(answer[key], value, f"{where}.{key}")
    elif isinstance(wanted, list):
        if wanted[-1:] == ["..."]:  # and more
            wanted = wanted[:-1]
            assert len(answer) >= len(wanted), f"{where} has {len(answer)} items"
        else:
            assert len(answer) == len(wanted), f"{where} has {len(answer)} items: {answer!r}"
        for i, (a, w) in enumerate(zip(answer, wanted)):
            contains(a, w, f"{where}[{i}]")
    else:
        assert answer == wanted, f"{where} is {answer!r}, not {wanted!r}"


def run(server, home, command, wanted):
    result = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=home, timeout=PATIENCE, check=False,
                            env=dict(os.environ, URL=server.url, HOME=home, CURL_HOME=home, MODEL="tiny"))
    assert result.returncode == 0, f"exit {result.returncode}: {result.stderr.decode()}{result.stdout.decode()}"
    if wanted is not None:
        contains(json.loads(result.stdout), wanted)


def write_adapter(path):
    """A steering vector for models/tiny.gguf: two directions of 160 floats."""
    rows = {f"direction.{layer}": struct.pack("<160f", *((-1) ** i / 16 for i in range(160))) for layer in (2, 3)}
    header = json.dumps({name: {"dtype": "F32", "shape": [160], "data_offsets": [640 * i, 640 * i + 640]} for i, name in enumerate(rows)}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + b"".join(rows.values()))


def main():
    with open(PAGE, encoding="utf-8") as page:
        found = list(examples(page.read()))
    if not shutil.which("curl") or not shutil.which("bash"):
        print("1..1\nok 1 - examples # SKIP no curl or no bash here")
        return 0
    home = tempfile.mkdtemp(prefix="infer-server-docs-")
    with open(os.path.join(home, ".curlrc"), "w", encoding="utf-8") as rc:
        rc.write(f"fail\nsilent\nshow-error\nmax-time = {PATIENCE}\n")
    adapters = os.path.join(home, "adapters")
    os.mkdir(adapters)
    write_adapter(os.path.join(adapters, "tone.safetensors"))
    cases = []
    with Server(SERVER, "--kv-dir", os.path.join(home, "kv"), "--lora-dir", adapters) as server:
        for number, (heading, command, wanted) in enumerate(found, 1):
            def case(command=command, wanted=wanted):
                run(server, home, command, wanted)
            case.__name__ = f"example_{number} {heading}"
            cases.append(case)
        code = tap.run(cases)
    shutil.rmtree(home, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
