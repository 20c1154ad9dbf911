#!/usr/bin/env python3
"""infer-server's HTTP: start, routes, keep-alive, what malformed requests get. test_server.py INFER-SERVER"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server_host import PATIENCE, ROOT, TINY, Server  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])


def run(*args):
    return subprocess.run([SERVER, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)


def test_health_and_request_id():
    with Server(SERVER) as server:
        answer = server.get("/health")
        assert answer.status == 200 and answer.json() == {"status": "ok", "model": "tiny"}
        assert re.match(r"req_[A-Za-z]{24}$", answer.headers["x-request-id"])
        assert answer.headers["x-request-id"] != server.get("/health").headers["x-request-id"]


def test_help_and_version():
    got = run("--help")
    assert got.returncode == 0 and got.stdout.startswith(b"Usage: infer-server") and b"--kv-dir" in got.stdout
    assert max(map(len, got.stdout.decode().splitlines())) <= 100
    got = run("--version")
    assert got.returncode == 0 and re.match(rb"infer-server \d+\.\d+\.\d+, libinfer \d+\.\d+\.\d+\n$", got.stdout)


if __name__ == "__main__":
    if not os.path.exists(TINY):
        print("1..1\nnot ok 1 - models/tiny.gguf is missing")
        sys.exit(1)
    assert ROOT
    tap.main(globals())
