#!/usr/bin/env python3
"""infer-server --sandbox: everything that is served is still served, and what /info says is in force. What the sandbox forbids is tried by test_sandbox.c.
test_server_sandbox.py INFER-SERVER"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server_host import PATIENCE, ROOT, TINY, Server, until  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
HOME = tempfile.TemporaryDirectory(prefix="infer-sandbox-")
# LeakSanitizer looks at the process by ptrace, which is forbidden here.
QUIET = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0}
with open(os.path.join(ROOT, "tests", "data", "english.txt"), encoding="utf-8") as text:
    ENGLISH = text.read()


def has_landlock():
    probe = "import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) < 1)"
    return subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0


LANDLOCK = has_landlock()


def folder(name):
    path = os.path.join(HOME.name, name)
    os.makedirs(path, exist_ok=True)
    return path


def sandboxed(*args, **more):
    if not LANDLOCK:
        raise tap.Skip("this kernel has no Landlock")
    return Server(SERVER, "--sandbox", *args, env=QUIET, **more)


def use_everything(server):
    answer = server.post("/v1/chat/completions", CHAT)
    assert answer.status == 200, answer.text
    streamed = "".join(e["choices"][0]["delta"].get("content") or "" for e in server.json_events("/v1/chat/completions", dict(CHAT, stream=True)))
    assert streamed == answer.json()["choices"][0]["message"]["content"]
    assert server.post("/tokenize", {"text": "a b"}).status == 200
    assert server.post("/v1/completions", {"prompt": ENGLISH[:700], "max_tokens": 4}).status == 200
    assert server.get("/").status == 200
    assert server.get("/v1/system").status == 200
    assert server.get("/metrics").status == 200
    first = server.post("/v1/responses", {"input": "Hello", "max_output_tokens": 4})
    assert first.status == 200, first.text
    assert server.get("/v1/responses/" + first.json()["id"]).status == 200
    saved = server.post("/checkpoints/save", {"name": "kept", "prompt": "Once upon a time"})
    assert saved.status == 200, saved.text
    names = server.get("/checkpoints").text
    assert "kept" in names, names


def files_below(path):
    return [name for _, _, names in os.walk(path) for name in names]


def test_everything_goes_on():
    kv, log = folder("kv"), os.path.join(HOME.name, "log")
    with sandboxed("--kv-dir", kv, "--access-log", log) as server:
        use_everything(server)
        info = server.get("/info").json()["sandbox"]
        assert info["enabled"] and info["seccomp"] and info["no_new_privs"] and info["landlock"] >= 1, info
        assert info["write"] == ["--kv-dir", "--access-log"] and info["read"] == [], info
        assert kv not in server.get("/info").text  # /info is open to all: it names options, not places
    assert files_below(os.path.join(kv, "checkpoints")), "the checkpoint was saved"
    assert files_below(os.path.join(kv, "cache")), "the cache was saved at the end"
    assert files_below(os.path.join(kv, "responses")), "responses were saved"
    with open(log, encoding="utf-8") as f:
        assert len([json.loads(line) for line in f]) >= 10
    with sandboxed("--kv-dir", kv) as server:  # and all of it is read again
        usage = server.post("/v1/completions", {"prompt": ENGLISH[:700], "max_tokens": 4}).json()["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] >= 64, usage
        assert "kept" in server.get("/checkpoints").text


def children(server):
    with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children", encoding="ascii") as f:
        return f.read().split()


def test_children_too():
    kv = folder("kv-children")
    with sandboxed("--kv-dir", kv, "--isolate", "fork") as server:
        use_everything(server)
        assert server.get("/info").json()["sandbox"]["seccomp"]
        connection = server.connection()
        connection.request("GET", "/health")
        assert connection.getresponse().read()
        until(lambda: len(children(server)) == 1, "the children of earlier connections have ended")
        for pid in (server.process.pid, *children(server)):
            check_status(pid)
        connection.close()
    assert files_below(os.path.join(kv, "responses"))


def check_status(pid):
    """All threads have the filter, and no new privileges."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as f:
            status = f.read()
        assert re.search(r"^Seccomp:\s+2$", status, re.MULTILINE), status
        assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE), status


def test_all_threads():
    with sandboxed() as server:
        assert server.post("/v1/chat/completions", CHAT).status == 200  # the library's threads have been started
        assert len(os.listdir(f"/proc/{server.process.pid}/task")) > 4
        check_status(server.process.pid)


def test_without_it_info_says_so():
    with Server(SERVER) as server:
        assert server.get("/info").json()["sandbox"] == {"enabled": False}


def test_what_is_forbidden_is_an_error():
    """What a request would need and the sandbox has taken away is answered as an error; nobody is killed."""
    kv = folder("kv-gone")
    with sandboxed("--kv-dir", kv) as server:
        place = os.path.join(kv, "checkpoints")
        shutil.rmtree(place, ignore_errors=True)
        os.symlink(folder("elsewhere"), place)  # a way out of the folder
        answer = server.post("/checkpoints/save", {"name": "x", "prompt": "Once upon a time"})
        assert answer.status == 500 and "system error 13" in answer.text, answer.text
        assert not os.listdir(folder("elsewhere"))
        assert server.post("/v1/chat/completions", CHAT).status == 200
        os.unlink(place)


def test_adapters_below_lora_dir():
    loras = folder("loras")
    with sandboxed("--lora-dir", loras) as server:
        assert server.get("/info").json()["sandbox"]["read"] == ["--lora-dir"]
        with open(os.path.join(loras, "a.gguf"), "wb") as f:
            f.write(b"not an adapter")
        answer = server.post("/lora/load", {"name": "a", "path": "a.gguf"})
        assert answer.status == 400 and "not a GGUF" in answer.text, answer.text  # it was read, and found to be none


def test_best_effort_and_bad_modes():
    with Server(SERVER, "--sandbox=best-effort", env=QUIET) as server:
        assert server.get("/info").json()["sandbox"]["enabled"]
    got = subprocess.run([SERVER, "-m", TINY, "--port", "0", "--sandbox=loose"], stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
    assert got.returncode == 2 and b"strict or best-effort" in got.stderr


def test_config_file():
    config = os.path.join(HOME.name, "config.json")
    for value, enabled in ((True, True), (False, False), ("best-effort", True)):
        with open(config, "w", encoding="utf-8") as f:
            json.dump({"sandbox": value}, f)
        if enabled and not LANDLOCK:
            continue
        with Server(SERVER, "--config", config, env=QUIET) as server:
            assert server.get("/info").json()["sandbox"]["enabled"] == enabled


def test_unix_socket_and_signatures():
    key = os.path.join(HOME.name, "key")
    with open(key, "wb") as f:
        f.write(os.urandom(32))
    os.chmod(key, 0o600)
    path = os.path.join(HOME.name, "socket")
    for _ in range(2):  # the second one finds the first one's socket, which it could not remove
        with sandboxed("--unix", path, "--hmac-key", key, "--isolate", "fork") as server:
            assert server.get("/health").status == 200
            assert server.get("/v1/models").status == 401
    with Server(SERVER, "--unix", path) as server:
        assert server.get("/health").status == 200


def certificate():
    if not shutil.which("openssl"):
        raise tap.Skip("openssl is not there to make a certificate")
    cert, key = os.path.join(HOME.name, "cert.pem"), os.path.join(HOME.name, "tls.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out", cert],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return ["--tls-cert", cert, "--tls-key", key]


def test_tls():
    tls = certificate()
    for mode in ([], ["--isolate", "fork"]):
        with sandboxed(*tls, *mode) as server:
            for _ in range(2):
                assert server.post("/v1/chat/completions", CHAT).status == 200


if __name__ == "__main__":
    tap.main(globals())
