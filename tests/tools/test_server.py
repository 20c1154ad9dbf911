#!/usr/bin/env python3
"""infer-server's HTTP: start, routes, keep-alive, what malformed requests get. test_server.py INFER-SERVER"""
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server_host import PATIENCE, ROOT, TINY, Server, read_all, until  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
HOST = b"Host: localhost\r\n"
CLOSE = HOST + b"Connection: close\r\n"


def run(*args):
    return subprocess.run([SERVER, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)


def status_of(reply):
    return int(reply.split(b" ", 2)[1]) if reply.startswith(b"HTTP/1.") else None


def replies(data):
    """(status, headers, body) of each reply in a row."""
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
        length = int(headers["content-length"])
        assert len(rest) >= length, data
        yield int(lines[0].split(" ")[1]), headers, rest[:length]
        data = rest[length:]


# ---- Start ----

def test_health_and_request_id():
    with Server(SERVER) as server:
        answer = server.get("/health")
        assert answer.status == 200 and answer.json() == {"status": "ok", "model": "tiny"}
        assert re.match(r"req_[A-Za-z]{24}$", answer.headers["x-request-id"])
        assert answer.headers["x-request-id"] != server.get("/health").headers["x-request-id"]
        assert re.match(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$", answer.headers["date"])


def test_help_and_version():
    got = run("--help")
    assert got.returncode == 0 and got.stdout.startswith(b"Usage: infer-server") and b"--kv-dir" in got.stdout
    assert max(map(len, got.stdout.decode().splitlines())) <= 100
    got = run("--version")
    assert got.returncode == 0 and re.match(rb"infer-server \d+\.\d+\.\d+, libinfer \d+\.\d+\.\d+\n$", got.stdout)


def test_manual_lists_every_option():
    options = re.findall(r"^  (?:-\w, |    )--([\w-]+)", run("--help").stdout.decode(), re.MULTILINE)
    assert len(options) > 30, options
    with open(os.path.join(ROOT, "docs", "infer-server.1"), encoding="utf-8") as page:
        manual = re.findall(r"^\.It (?:Fl \S+ , )?Fl Fl ([\w-]+)", page.read(), re.MULTILINE)
    assert sorted(options) == sorted(manual), set(options) ^ set(manual)


# ---- Requests ----

def test_keep_alive_and_pipelining():
    ask = b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n"
    post = b"POST /tokenize HTTP/1.1\r\n" + HOST + b"Content-Length: 12\r\n\r\n" + b'{"text":"x"}'
    with Server(SERVER) as server:
        with server.socket() as s:
            for request in (ask, post, ask, post):
                s.sendall(request)
                reply = s.recv(65536)
                assert status_of(reply) == 200 and b"connection:" not in reply, reply
        # Several at once, and in pieces of every size. Behind a body nothing may be sent before its answer has come: that closes the connection.
        models = b"GET /v1/models HTTP/1.1\r\n" + HOST + b"\r\n"
        together = ask + models + ask + models + ask.replace(HOST, CLOSE)
        got = list(replies(server.raw(together)))
        assert [g[0] for g in got] == [200] * 5, got
        for size in (1, 7, 50):
            with server.socket() as s:
                for at in range(0, len(together), size):
                    s.sendall(together[at:at + size])
                    time.sleep(0.0005)
                assert [g[0] for g in replies(read_all(s))] == [200] * 5
        for behind in (ask, b"\r\n", b"x"):
            assert status_of(server.raw(post + behind)) in (None, 200)
            assert [g[0] for g in replies(server.raw(ask + post + behind))][:1] == [200]
            assert server.get("/health").status == 200
        # HTTP/1.0, and a client that asks for it, close.
        for request in (b"GET /health HTTP/1.0\r\n\r\n", b"GET /health HTTP/1.1\r\n" + CLOSE + b"\r\n"):
            status, headers, _ = next(replies(server.raw(request)))
            assert status == 200 and headers["connection"] == "close"


def test_methods():
    with Server(SERVER) as server:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            for body in (None, b"{}"):
                got = server.request(method, "/health", body)
                assert got.status == 405 and got.headers["allow"] == "GET, HEAD", (method, got.status)
                assert got.json()["error"]["type"] == "invalid_request_error"
        assert server.get("/tokenize").headers["allow"] == "POST"
        got, whole = server.request("HEAD", "/health"), server.get("/health")
        assert got.status == 200 and got.body == b"" and got.headers["content-length"] == whole.headers["content-length"]
        got = server.request("OPTIONS", "/tokenize")
        assert got.status == 204 and got.headers["allow"] == "POST" and got.body == b""
        for line in (b"FOO /health HTTP/1.1\r\n", b"TRACE /health HTTP/1.1\r\n", b"GET\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bytes(range(256)), b"GET health HTTP/1.1\r\n"):
            with server.socket() as s:
                s.sendall(line + CLOSE + b"\r\n")
                s.shutdown(1)
                reply = read_all(s)
            assert status_of(reply) in (None, 400, 403, 404, 405), (line, reply)
        assert server.get("/health").status == 200


def test_unknown_paths():
    with Server(SERVER) as server:
        for path in ("/nothing", "/v1", "/v1/", "/v1/models/x/y", "/health/x", "/" + "x" * 5000):
            got = server.get(path)
            assert got.status == 404 and got.json()["error"]["type"] == "not_found_error", (path, got.text)
        got = server.get("/v1/messages/nothing").json()
        assert got["type"] == "error" and got["error"]["type"] == "not_found_error" and got["request_id"].startswith("req_")
        assert server.get("/%2568ealth").status == 404  # decoded once


def test_framing():
    with Server(SERVER) as server:
        def post(headers, body=b'{"text":"x"}'):
            return server.raw(b"POST /tokenize HTTP/1.1\r\n" + CLOSE + headers + b"\r\n" + body)
        assert status_of(post(b"Content-Length: 12\r\n")) == 200
        for value in (b"-12", b"+12", b"12x", b"0x0c", b"12, 12", b"12 12", b"1" * 30, b"12\r\nContent-Length: 12", b"12\r\nContent-Length: 13"):
            reply = post(b"Content-Length: " + value + b"\r\n")
            assert status_of(reply) == 400 and b"content-length" in reply, (value, reply)
        for value in (b"chunked", b"gzip, chunked", b"identity"):
            for length in (b"", b"Content-Length: 12\r\n"):
                reply = post(b"Transfer-Encoding: " + value + b"\r\n" + length, b"c\r\n{\"text\":\"x\"}\r\n0\r\n\r\n")
                assert status_of(reply) == 411 and reply.count(b"HTTP/1") == 1, reply
        for value in (b"gzip", b"br", b"deflate", b"gzip, identity"):
            assert status_of(post(b"Content-Encoding: " + value + b"\r\nContent-Length: 12\r\n")) == 415
        assert status_of(post(b"Content-Encoding: identity\r\nContent-Length: 12\r\n")) == 200
        assert status_of(post(b"Content-Length: 0\r\n", b"")) == 400 and status_of(post(b"", b"")) == 400
        # What follows a body that is shorter than sent is a request of its own; nothing is smuggled behind one without a length.
        reply = server.raw(b"POST /tokenize HTTP/1.1\r\n" + HOST + b"\r\n" + b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
        assert status_of(reply) == 400 and reply.count(b"HTTP/1.1") == 1, reply
        # A body that the client does not finish.
        with server.socket() as s:
            s.sendall(b"POST /tokenize HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n{")
            s.shutdown(1)
            assert status_of(read_all(s)) in (None, 400)
        assert server.get("/health").status == 200


def test_expect_and_upgrade():
    with Server(SERVER) as server:
        with server.socket() as s:
            s.sendall(b"POST /tokenize HTTP/1.1\r\n" + CLOSE + b"Expect: 100-continue\r\nContent-Length: 12\r\n\r\n")
            assert s.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
            s.sendall(b'{"text":"x"}')
            assert status_of(read_all(s)) == 200
        upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
        for request in (b"GET /health HTTP/1.1\r\n" + HOST + upgrade + b"\r\n",
                        b"POST /tokenize HTTP/1.1\r\n" + HOST + upgrade + b"Content-Length: 12\r\n\r\n" + b'{"text":"x"}'):
            with server.socket() as s:
                s.sendall(request)
                assert status_of(s.recv(65536)) == 200, request
        socket_key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        reply = server.raw(b"GET /health HTTP/1.1\r\n" + CLOSE[:len(HOST)] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + socket_key + b"\r\n")
        assert status_of(reply) == 405, reply
    # An upgrade has no body: the room for one that never comes would be missing for others as long as the connection stays.
    with Server(SERVER, "--max-body", "1000") as server:
        bodied = b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + socket_key + b"Content-Length: 1000\r\n\r\n"
        sockets = [server.socket() for _ in range(16)]
        for s in sockets:
            s.sendall(b"GET /v1/responses HTTP/1.1\r\n" + HOST + bodied)
            assert status_of(s.recv(65536)) == 400
        assert server.post("/tokenize", {"text": "x"}).status == 200
        for s in sockets:
            assert read_all(s).count(b"HTTP/1") == 0
            s.close()


# ---- JSON ----

def test_json_bodies():
    deep = 100000
    cases = {
        "not JSON": b"hello", "cut": b'{"text":"x"', "behind": b'{"text":"x"} x', "two": b"{}{}", "array": b'["x"]', "number": b"1", "null": b"null", "blank": b"   ",
        "twice": b'{"text":"x","text":"y"}', "not UTF-8": b'{"text":"\xff"}', "overlong": b'{"text":"\xc0\x80"}', "surrogate": b'{"text":"\\ud800"}', "cut UTF-8": b'{"text":"\xe2\x82"}',
        "NUL": b'{"text":"\\u0000"}', "raw NUL": b'{"text":"a\0b"}', "NUL behind": b'{"text":"x"}\0', "control": b'{"text":"\n"}', "deep arrays": b'{"text":' + b"[" * deep + b"]" * deep + b"}",
        "deep objects": b'{"text":' + b'{"a":' * deep + b"1" + b"}" * deep + b"}", "unclosed": b"[" * deep, "big number": b'{"text":1' + b"0" * 5000 + b"}",
        "infinity": b'{"text":1e999}', "NaN": b'{"text":NaN}', "BOM": b'\xef\xbb\xbf{"text":"x"}', "UTF-16": '{"text":"x"}'.encode("utf-16"),
    }
    with Server(SERVER) as server:
        for name, body in cases.items():
            for path in ("/tokenize", "/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/embeddings"):
                got = server.post(path, body)
                assert got.status == 400, (name, path, got.status, got.text[:200])
                error = got.json()["error"]
                assert error["type"] == "invalid_request_error" and error["message"], (name, path, got.text[:200])
        got = server.post("/tokenize", b'{"text":\n  x}').json()["error"]
        assert got["code"] == "invalid_json" and "line 2, column 3" in got["message"], got
        assert server.post("/tokenize", {"text": "x\u00e9\U0001F600"}).status == 200


def test_odd_values():
    """Wrong types and sizes in the fields that all generating endpoints share: a 400 that names the field, and the server goes on."""
    odd = {"n": [0, -1, 10**9, 1.5, "1", [], True], "max_tokens": [0, -1, 1e300, "x", {}], "temperature": [-1, "hot", 1e308, [], True], "top_p": [-0.1, 1.1, "x"],
           "stop": [5, [5], ["x"] * 1000, {}], "seed": ["x", [], {}], "logit_bias": [[], {"x": 1}, {"5": "x"}, {"-1": 1}, {"99999999": 1}], "stream": ["yes", 1],
           "model": [5, [], "no-such-model"], "presence_penalty": ["x", 1e9], "nonsense_key": [1]}
    with Server(SERVER) as server:
        for field, values in odd.items():
            for value in values:
                body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, field: value}
                got = server.post("/v1/chat/completions", body)
                assert got.status == (404 if field == "model" and isinstance(value, str) else 400), (field, value, got.status, got.text[:300])
                error = got.json()["error"]
                assert field in (error["param"] or "") or field in error["message"], (field, value, error)
        for messages in ([], "x", [5], [{}], [{"role": 5, "content": "x"}], [{"role": "user", "content": 5}], [{"role": "user", "content": [{"type": "nothing"}]}]):
            got = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1})
            assert got.status == 400, (messages, got.status, got.text[:300])
        assert server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}).status == 200


# ---- Many at once ----

def test_streams_are_not_mixed():
    """Connections that come and go beside streams: each gets its own text, the same as alone."""
    import threading
    bodies = [{"prompt": f"The number {i} is", "max_tokens": 40, "temperature": 1, "seed": i, "ignore_eos": True} for i in range(24)]
    with Server(SERVER) as server:
        alone = [server.post("/complete", body).json()["text"] for body in bodies]
        together, problems = [None] * len(bodies), []

        def ask(i):
            try:
                text = ""
                for name, data in server.events("/complete", {**bodies[i], "stream": True}):
                    if name == "token":
                        text += json.loads(data)["text"]
                together[i] = text
            except Exception as error:  # pylint: disable=broad-except
                problems.append((i, repr(error)))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(bodies))]
        for thread in threads:
            thread.start()
        for _ in range(20):
            with server.socket() as s:  # gone in the middle of a request
                s.sendall(b"POST /complete HTTP/1.1\r\n" + HOST + b"Content-Length: 50\r\n\r\n{")
            assert server.get("/health").status == 200
        for thread in threads:
            thread.join()
        assert not problems, problems
        assert together == alone
        until(lambda: server.metric("infer_sessions_active") == 0, "all have ended")


if __name__ == "__main__":
    if not os.path.exists(TINY):
        print("1..1\nnot ok 1 - models/tiny.gguf is missing")
        sys.exit(1)
    sys.exit(tap.run(tap.cases_of(globals()), sys.argv[2] if len(sys.argv) > 2 else None))
