#!/usr/bin/env python3
"""infer-server --hmac-key: what is signed comes in, once, and nothing else does; the protocol's page, its vectors and the client in examples/ say the same.
test_server_hmac.py INFER-SERVER"""
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server_host import PATIENCE, ROOT, TINY, Server, UnixConnection  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "examples"))
import hmac_client  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
KEY = bytes(range(100, 140))
HOME = tempfile.TemporaryDirectory(prefix="infer-hmac-")
CHAT = {"messages": [{"role": "user", "content": "Grüße"}], "max_tokens": 4, "temperature": 0, "seed": 1}


def key_file(data=KEY, mode=0o600, name="key"):
    path = os.path.join(HOME.name, name)
    with open(path, "wb") as f:
        f.write(data)
    os.chmod(path, mode)
    return path


def unix_path():
    return os.path.join(HOME.name, "socket")


def signed(server, method, target, body=None, headers=None, key=KEY, **changes):
    """One request; changes replace signed headers (None: left out)."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = hmac_client.signed_headers(key, method, hmac_client.canonical_target(target), data)
    sent.update(headers or {})
    for name, value in changes.items():
        sent["x-infer-" + name] = value
    return server.request(method, target, data or None, {k: v for k, v in sent.items() if v is not None})


def is_refused(answer, status=401, code="invalid_signature"):
    assert answer.status == status, answer.text
    error = answer.json()["error"]
    assert error.get("code", code) == code, answer.text
    return error["message"]


# ---- The page ----


def test_vectors_of_the_page():
    with open(os.path.join(ROOT, "docs", "hmac.md"), encoding="utf-8") as f:
        page = f.read()
    rows = re.findall(r"^\| `(\w+) (\S+)` \| (?:`(.*)`)? ?\| `(\d+)` \| `(\S+)` \| `([0-9a-f]{64})` \|$", page, re.MULTILINE)
    assert len(rows) == 3, rows
    for method, target, body, timestamp, nonce, signature in rows:
        assert hmac_client.canonical_target(target) == target
        assert hmac_client.sign(bytes(range(32)), method, target, timestamp, nonce, body.encode()) == signature
    assert hashlib.sha256(rows[1][2].encode()).hexdigest() in page


# ---- What comes in ----


def test_signed_requests_on_a_unix_socket():
    with Server(SERVER, "--unix", unix_path(), "--hmac-key", key_file()) as server:
        assert signed(server, "GET", "/v1/models").status == 200
        answer = signed(server, "POST", "/v1/chat/completions", CHAT)
        assert answer.status == 200 and answer.json()["choices"][0]["message"]["content"], answer.text
        for path in ("/health", "/info", "/props"):  # open to all
            assert server.get(path).status == 200, path
        assert server.get("/metrics").status == 401
        assert signed(server, "GET", "/metrics").status == 200
        assert signed(server, "GET", "/nowhere").status == 404
        assert server.get("/nowhere").status == 401


def test_streams():
    with Server(SERVER, "--hmac-key", key_file()) as server:  # on TCP too
        body = json.dumps(dict(CHAT, stream=True)).encode()
        headers = hmac_client.signed_headers(KEY, "POST", "/v1/chat/completions", body)
        events = [data for _, data in server.events("/v1/chat/completions", body, headers)]
        assert events[-1] == "[DONE]" and len(events) > 2


def test_targets():
    """Paths and queries in every spelling that means the same."""
    with Server(SERVER, "--hmac-key", key_file()) as server:
        for target in ("/v1/models?a=1%262&b&c=%2B%2F", "/v1/models?x=", "/v1/models?q=%C3%BC%20%25&q=2", "/v1/m%6Fdels"):
            answer = signed(server, "GET", target)
            assert answer.status == 200, (target, answer.text)
        is_refused(signed(server, "GET", "/v1/models?%3D=1"))  # a name cannot hold "=": the page says so
        nonce, now = "n" * 20, int(time.time())
        good = hmac_client.sign(KEY, "GET", "/v1/models?a=1&b=2", now, nonce, b"")
        headers = {"x-infer-timestamp": str(now), "x-infer-nonce": nonce, "x-infer-signature": good}
        for target in ("/v1/models", "/v1/models?a=1", "/v1/models?b=2&a=1", "/v1/models?a=1&b=2&c=3", "/v1/models?a=1%26b=2", "/v1/models?a=12", "/v1/models?a=1&b=2&"):
            is_refused(server.request("GET", target, headers=headers))
        assert server.request("GET", "/v1/models?a=1&b=2", headers=headers).status == 200
        # As many parts as are read, and so signed; nothing can be put behind them.
        most = "/v1/models?" + "&".join(f"a{i}=1" for i in range(64))
        headers = hmac_client.signed_headers(KEY, "GET", most, b"")
        assert server.request("GET", most + "&limit=1", headers=headers).status == 400
        assert server.request("GET", most, headers=headers).status == 200


# ---- What does not ----


def test_refused():
    with Server(SERVER, "--hmac-key", key_file()) as server:
        told = {is_refused(server.get("/v1/models")), is_refused(server.post("/v1/chat/completions", CHAT))}
        for change in ({"signature": None}, {"nonce": None}, {"timestamp": None}, {"signature": "0" * 64}, {"signature": "x"}, {"nonce": "n" * 20},
                       {"timestamp": "1"}, {"timestamp": str(int(time.time()) - 1)}, {"nonce": "short"}, {"key": KEY + b"x"}):
            told.add(is_refused(signed(server, "POST", "/v1/chat/completions", CHAT, **change)))
            told.add(is_refused(signed(server, "GET", "/v1/models", **change)))
        assert len(told) == 1, told  # whoever has no key learns nothing
        headers = hmac_client.signed_headers(KEY, "POST", "/tokenize", b'{"text": "a"}')
        is_refused(server.request("POST", "/tokenize", b'{"text": "b"}', headers))  # another body
        is_refused(server.request("POST", "/detokenize", b'{"text": "a"}', headers))  # another path
        assert server.request("PUT", "/tokenize", b'{"text": "a"}', headers).status == 405
        is_refused(server.get("/tokenize", **headers))  # another method
        assert server.request("POST", "/tokenize", b'{"text": "a"}', headers).status == 200  # and all of that used the nonce up for nobody


def test_path_tricks():
    with Server(SERVER, "--hmac-key", key_file()) as server:
        for path in ("//v1/models", "/v1/./models", "/health/../v1/models", "/v1/models/", "/v1%2Fmodels", "/V1/models", "/health/%2e%2e/v1/models", "/v1/models%00",
                     "/health?/v1/models", "/info/x", "/v1/models?x=/health"):
            answer = server.raw(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
            status = answer.split(b" ", 2)[1:2]
            if path.startswith("/health?"):
                assert status == [b"200"], answer
            else:
                assert status in ([b"401"], [b"400"], [b"403"], []), (path, answer)
            assert b'"object"' not in answer, (path, answer)


def test_replay_and_skew():
    with Server(SERVER, "--hmac-key", key_file(), "--hmac-skew", "5") as server:
        headers = hmac_client.signed_headers(KEY, "GET", "/v1/models", b"")
        assert server.get("/v1/models", **headers).status == 200
        for _ in range(3):
            assert "used before" in is_refused(server.get("/v1/models", **headers))
        for off in (-3600, -6, 7, 3600):  # seconds
            now, nonce = int(time.time()) + off, f"nonce-of-{off}-seconds"
            headers = {"x-infer-timestamp": str(now), "x-infer-nonce": nonce, "x-infer-signature": hmac_client.sign(KEY, "GET", "/v1/models", now, nonce, b"")}
            assert "clock" in is_refused(server.get("/v1/models", **headers))


def test_too_many_nonces():
    with Server(SERVER, "--hmac-key", key_file(), "--hmac-nonces", "5", "--hmac-skew", "3600") as server:
        seen = [signed(server, "GET", "/v1/models") for _ in range(12)]
        statuses = [a.status for a in seen]
        assert statuses[:5] == [200] * 5 and set(statuses) == {200, 503}, statuses  # 10 where an hour of the clock ends in between
        full = next(a for a in seen if a.status == 503)
        assert full.headers["retry-after"] == "1" and "nonces" in full.json()["error"]["message"]


def test_keys_are_asked_for_as_well():
    with Server(SERVER, "--hmac-key", key_file(), "--api-key", "secret") as server:
        is_refused(signed(server, "GET", "/v1/models"), code="invalid_api_key")
        is_refused(server.get("/v1/models", authorization="Bearer secret"))
        assert signed(server, "GET", "/v1/models", headers={"authorization": "Bearer secret"}).status == 200


# ---- WebSockets ----


def upgrade(server, path="/v1/responses", headers=None, extra=""):
    lines = "".join(f"{k}: {v}\r\n" for k, v in (headers or {}).items())
    with server.socket() as s:
        s.sendall((f"GET {path} HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
                   f"sec-websocket-key: {base64.b64encode(os.urandom(16)).decode()}\r\n{extra}{lines}\r\n").encode())
        return s.recv(4096)


def test_websocket_upgrades():
    with Server(SERVER, "--hmac-key", key_file()) as server:
        assert upgrade(server).startswith(b"HTTP/1.1 401"), "unsigned"
        bogus = {"x-infer-timestamp": str(int(time.time())), "x-infer-nonce": "n" * 20, "x-infer-signature": "0" * 64}
        assert not upgrade(server, headers=bogus).startswith(b"HTTP/1.1 101")
        assert not upgrade(server, headers=bogus, extra="content-length: 5\r\n").startswith(b"HTTP/1.1 101"), "a body that never comes does not put the check off"
        good = hmac_client.signed_headers(KEY, "GET", "/v1/responses", b"")
        assert upgrade(server, headers=good).startswith(b"HTTP/1.1 101")
        assert not upgrade(server, headers=good).startswith(b"HTTP/1.1 101"), "replayed"


# ---- Children ----


def test_children_share_what_was_seen():
    with Server(SERVER, "--hmac-key", key_file(), "--isolate", "fork") as server:
        headers = hmac_client.signed_headers(KEY, "GET", "/v1/models", b"")
        assert server.get("/v1/models", **headers).status == 200
        for _ in range(3):  # each on a connection, and so in a process, of its own
            assert "used before" in is_refused(server.get("/v1/models", **headers))


# ---- Start ----


def start(*args):
    return subprocess.run([SERVER, "-m", TINY, "--port", "0", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)


def test_bad_keys():
    for name, data, mode, says in (("short", b"x" * 31, 0o600, "shorter than 32 bytes"), ("open", KEY, 0o644, "others may read it"),
                                   ("digits", b"ab" * 16 + b"\n", 0o600, "shorter than 32 bytes"), ("group", KEY, 0o660, "group may change it")):
        path = key_file(data, mode, name)
        got = start("--hmac-key", path)
        assert got.returncode == 1 and says in got.stderr.decode() and path in got.stderr.decode() and not got.stdout, got
    got = start("--hmac-key", os.path.join(HOME.name, "nowhere"))
    assert got.returncode == 1 and b"No such file" in got.stderr
    got = start("--hmac-key", key_file(), "--hmac-skew", "0")
    assert got.returncode == 2 and b"hmac-skew" in got.stderr


# ---- The client in examples/ ----


def client(*args):
    return subprocess.run([sys.executable, os.path.join(ROOT, "examples", "hmac_client.py"), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=PATIENCE, check=False)


def test_example_client():
    hexadecimal = key_file(KEY.hex().encode() + b"\n", name="hex")
    other = key_file(b"y" * 32, name="other")
    with Server(SERVER, "--unix", unix_path(), "--hmac-key", hexadecimal) as server:
        for key in (hexadecimal, key_file()):
            got = client("--key", key, "--unix", server.path, "POST", "/v1/chat/completions", json.dumps(CHAT))
            assert got.returncode == 0 and json.loads(got.stdout)["object"] == "chat.completion", got
        body = os.path.join(HOME.name, "body")
        with open(body, "w", encoding="utf-8") as f:
            json.dump(dict(CHAT, stream=True), f)
        got = client("--key", hexadecimal, "--unix", server.path, "POST", "/v1/chat/completions", "@" + body)
        assert got.returncode == 0 and got.stdout.endswith(b"data: [DONE]\n\n"), got
        got = client("--key", other, "--unix", server.path, "GET", "/v1/models")
        assert got.returncode == 1 and b"status 401" in got.stderr, got
        connection = UnixConnection(server.path, PATIENCE)  # and the same from the module, on one connection
        for target in ("/v1/models", "/metrics", "/v1/models?x=ü y"):
            response = hmac_client.request(connection, KEY, "GET", target)
            assert response.status == 200 and response.read()
        connection.close()
    with Server(SERVER, "--hmac-key", key_file()) as server:
        got = client("--key", key_file(), "--url", server.url, "GET", "/v1/models")
        assert got.returncode == 0 and json.loads(got.stdout)["object"] == "list", got


if __name__ == "__main__":
    tap.main(globals())
