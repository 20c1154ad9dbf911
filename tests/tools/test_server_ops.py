#!/usr/bin/env python3
"""infer-server in operation: keys, limits, slow and vanishing clients, TLS, Unix sockets, logs, metrics, the end. test_server_ops.py INFER-SERVER"""
import glob
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server_host import PATIENCE, ROOT, TINY, Server, read_all, read_events, until  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
OPEN = {"/health", "/info", "/props", "/", "/page.css", "/page.js"} # the page, and what it is made of
LORA = os.path.join(ROOT, "tests", "data", "adapters", "lora-r4.gguf")
HOST = b"Host: localhost\r\n"
LONG = {"prompt": "It was", "ignore_eos": True, "stream": True, "temperature": 0}
ROOM = ("--ctx", "200000")  # for answers and prompts that last


def run(*args):
    return subprocess.run([SERVER, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)


def refused_start(code, said, *args):
    got = run(*args)
    assert got.returncode == code and said in got.stderr, (got.returncode, got.stderr)


def post_bytes(path, body, extra=b""):
    data = json.dumps(body).encode() if not isinstance(body, bytes) else body
    return b"POST " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n" % len(data) + extra + b"\r\n" + data


def status_of(reply):
    return int(reply.split(b" ", 2)[1]) if reply.startswith(b"HTTP/1.") else None


def routes():
    """(method, path) of every route that the sources list."""
    found = set()
    for path in glob.glob(os.path.join(ROOT, "tools", "infer-server", "*.c")):
        with open(path, encoding="utf-8") as source:
            found |= set(re.findall(r'\{"(GET|POST|DELETE|PUT|PATCH|WS)", "(/[^"]*)", API_', source.read()))
    assert len(found) > 20 and ("GET", "/health") in found, found
    return sorted(found)


# ---- Keys ----

def test_every_route_needs_a_key():
    with Server(SERVER, "--api-key", "sesame") as server:
        for method, pattern in routes():
            path = pattern.replace("{id}", "x")
            headers = {}
            if method == "WS":
                method, headers = "GET", {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                                          "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
            got = server.request(method, path, b"{}" if method != "GET" else None, headers)
            if path in OPEN:
                assert got.status != 401, (method, path, got.status)
                continue
            assert got.status == 401 and got.headers["www-authenticate"] == "Bearer", (method, path, got.status, got.text)
            body = got.json()
            if path.startswith("/v1/messages"):
                assert body["type"] == "error" and body["error"]["type"] == "authentication_error", body
            else:
                assert body["error"]["code"] == "invalid_api_key", body
            for wrong in ({"Authorization": "Bearer sesam"}, {"Authorization": "Bearer sesamee"}, {"Authorization": "sesame"},
                          {"Authorization": "Basic sesame"}, {"x-api-key": "Sesame"}, {"x-api-key": ""}, {"Authorization": "Bearer "}):
                assert server.request(method, path, None, {**headers, **wrong}).status == 401, (path, wrong)
        for right in ({"Authorization": "Bearer sesame"}, {"Authorization": "bearer  sesame"}, {"x-api-key": "sesame"}):
            assert server.request("GET", "/v1/models", headers=right).status == 200, right


def test_path_tricks_do_not_open_routes():
    paths = [b"//v1/models", b"/v1//models", b"/./v1/models", b"/health/../v1/models", b"/health/%2e%2e/v1/models", b"/%76%31/models", b"/v1/models/",
             b"/v1/models?x=/health", b"/v1/models#/health", b"/v1/models;/health", b"/V1/models", b"/v1/models%20", b"/v1/models%00/health", b"/health%2f../v1/models",
             b"http://localhost/v1/models", b"/\\v1/models", b"*", b"", b"/health/x", b"/healthx", b"/info/../../v1/models", b"/v1%2fmodels", b"/..;/v1/models"]
    with Server(SERVER, "--api-key", "sesame") as server:
        for path in paths:
            reply = server.raw(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
            assert b'"object"' not in reply, (path, reply)
            assert status_of(reply) in (None, 400, 401, 403, 404), (path, reply)


def test_key_file():
    with Server(SERVER) as plain:
        keys = os.path.join(plain.folder, "keys")
        for text, said in ((b"", b"holds no key"), (b"# only this\n", b"holds no key"), (b"a b c d\n", b":1: KEY"), (b"k\nx " + b"n" * 80 + b"\n", b":2: KEY")):
            with open(keys, "wb") as out:
                out.write(text)
            refused_start(1, said, "-m", TINY, "--port", "0", "--api-key-file", keys)
        refused_start(1, b"No such file", "-m", TINY, "--port", "0", "--api-key-file", keys + "-")
        with open(keys, "wb") as out:
            out.write(b"# comment\n\nkey-a ann\nkey-b bob salt-b\r\nkey-c carl salt-c")
        log = os.path.join(plain.folder, "log")
        with Server(SERVER, "--api-key-file", keys, "--access-log", log) as server:
            for key, name in (("key-a", "ann"), ("key-b", "bob"), ("key-c", "carl")):
                assert server.get("/v1/models", Authorization="Bearer " + key).status == 200
                until(lambda name=name: name in open(log, encoding="utf-8").read(), "the key's name in the log")
            assert server.get("/v1/models", Authorization="Bearer #").status == 401
            # Tenants with salts do not meet in the cache.
            body = {"prompt": "one two three four five six seven eight nine ten eleven twelve " * 10, "max_tokens": 1}
            for key, cached in (("key-b", False), ("key-b", True), ("key-c", False), ("key-a", False)):
                got = server.post("/complete", body, {"x-api-key": key}).json()
                assert (got["usage"]["cached_tokens"] > 0) == cached, (key, got["usage"])


# ---- Limits ----

def test_rate_limit():
    with Server(SERVER, "--rate-limit", "2", "--api-key", "a", "--api-key", "b") as server:
        got = [server.get("/v1/models", **{"x-api-key": "a"}) for _ in range(12)]
        refused = [g for g in got if g.status == 429]
        assert got[0].status == got[1].status == 200 and refused, [g.status for g in got]
        assert refused[0].json()["error"]["type"] == "rate_limit_error" and int(refused[0].headers["retry-after"]) >= 1
        assert server.get("/v1/models", **{"x-api-key": "b"}).status == 200
        assert all(server.get("/health").status == 200 for _ in range(5))
        until(lambda: server.get("/v1/models", **{"x-api-key": "a"}).status == 200, "another token")


def test_queue_is_bounded():
    with Server(SERVER, "--parallel", "1", "--max-queue", "0", *ROOM) as server:
        connection, response = server.begin("POST", "/complete", {**LONG, "max_tokens": 100000})
        assert response.status == 200
        got = server.post("/complete", {"prompt": "x", "max_tokens": 1})
        assert got.status == 503 and int(got.headers["retry-after"]) >= 1, got.text
        assert server.post("/v1/messages", {"model": "tiny", "max_tokens": 1, "messages": []}).status in (503, 404)
        assert server.get("/health").status == 200
        response.close()
        connection.close()
        until(lambda: server.post("/complete", {"prompt": "x", "max_tokens": 1}).status == 200, "the place is free again")


def test_body_limit():
    with Server(SERVER, "--max-body", "10K") as server:
        assert server.post("/tokenize", {"text": "x" * 8000}).status == 200
        for send in (20000, 3000000, 0):
            reply = server.raw(b"POST /tokenize HTTP/1.1\r\n" + HOST + b"Content-Length: 3000000\r\n\r\n" + b"x" * send)
            assert status_of(reply) == 413, reply
        assert server.post("/tokenize", {"text": "x" * 8000}).status == 200


def test_header_limit():
    with Server(SERVER) as server:
        def ask(extra):
            return server.raw(b"GET /health HTTP/1.1\r\n" + HOST + b"Connection: close\r\n" + extra + b"\r\n")
        assert status_of(ask(b"X-Long: " + b"x" * 8000 + b"\r\n")) == 200
        assert status_of(ask(b"User-Agent: " + b"x" * 20000 + b"\r\n")) == 431
        for extra in (b"X-Long: " + b"x" * (1 << 20) + b"\r\n", b"Cookie: " + b"x" * (1 << 20) + b"\r\n", b"X-Many: 1\r\n" * 100000):
            assert status_of(ask(extra)) in (None, 431), extra[:40]
        assert status_of(server.raw(b"GET /" + b"x" * (1 << 20) + b" HTTP/1.1\r\n" + HOST + b"\r\n")) in (None, 431)
        assert server.get("/health").status == 200


def test_connection_limit():
    with Server(SERVER, "--max-conns", "3") as server:
        held = [server.socket() for _ in range(3)]
        for s in held:
            s.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
            assert s.recv(9) == b"HTTP/1.1 "
        assert status_of(server.raw(b"")) == 503
        held.pop().close()
        until(lambda: status_of(server.raw(b"GET /health HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")) == 200, "room for one more")
        for s in held:
            s.close()


# ---- Slow clients ----

def test_slow_request():
    with Server(SERVER, "--timeout", "1") as server:
        for start in (b"", b"GET /hea", b"GET /health HTTP/1.1\r\nX: "):
            assert status_of(server.raw(start)) == 408, start
        reply = server.raw(b"POST /tokenize HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n{")
        assert status_of(reply) == 408 and b"did not arrive" in reply, reply
        # A byte now and then does not help.
        for start in (b"GET /health HTTP/1.1\r\n", b"POST /tokenize HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n"):
            with server.socket() as s:
                ended = threading.Event()

                def drip(s=s, ended=ended):
                    while not ended.wait(0.1):
                        try:
                            s.sendall(b"x")
                        except OSError:
                            return
                thread = threading.Thread(target=drip)
                s.sendall(start)
                thread.start()
                reply = read_all(s)
                ended.set()
                thread.join()
            assert status_of(reply) == 408, reply
        assert server.get("/health").status == 200


def test_idle_connections_are_closed():
    with Server(SERVER, "--keep-alive", "1") as server:
        reply = server.raw(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
        assert status_of(reply) == 200 and reply.count(b"HTTP/1.1") == 1 and b"connection: close" not in reply, reply


def nobody_is_served(server):
    return server.metric("infer_sessions_active") == 0 and server.metric("infer_requests_waiting") == 0


def test_client_that_does_not_read():
    with Server(SERVER, "--timeout", "1", *ROOM) as server:
        with server.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(post_bytes("/complete", {**LONG, "max_tokens": 190000, "logprobs": True, "top_logprobs": 20}))
            assert s.recv(100).startswith(b"HTTP/1.1 200")
            until(lambda: server.metric("infer_requests_cancelled_total") == 1, "the answer is given up")
            until(lambda: nobody_is_served(server), "nothing is computed for it")
        assert server.get("/health").status == 200


def test_client_goes_in_each_phase():
    with Server(SERVER, *ROOM) as server:
        ids = {"prompt": list(range(100, 400)) * 300, "max_tokens": 10, "stream": True}  # 90,000 elements: its prompt is computed for long
        parts = [(b"GET /health HTT", False), (b"POST /tokenize HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n{", False),
                 (post_bytes("/v1/completions", ids), True), (post_bytes("/complete", {**LONG, "max_tokens": 190000}), True),
                 (post_bytes("/complete", {**LONG, "stream": False, "max_tokens": 190000}), True)]
        gone = 0
        for data, computes in parts:
            with server.socket() as s:
                s.sendall(data)
                if computes:
                    until(lambda: server.metric("infer_sessions_active") + server.metric("infer_requests_waiting") > 0, "it is computed")
                if b"stream\": true" in data and b"ignore_eos" in data:
                    assert s.recv(100).startswith(b"HTTP/1.1 200")
            gone += computes
            until(lambda gone=gone: server.metric("infer_requests_cancelled_total") == gone, f"{data[:40]}: it is cancelled")
            until(lambda: nobody_is_served(server), "nothing is computed for it")
        until(lambda: 'status="499"' in server.get("/metrics").text, "it is counted")


# ---- Many ----

def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) << 10


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as text:
        fields = text.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_thousand_idle_connections():
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1200:
        raise tap.Skip(f"only {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    with Server(SERVER) as server:
        assert server.get("/health").status == 200
        before, held = resident(server.process.pid), []
        for _ in range(1000):
            s = server.socket()
            s.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
            held.append(s)
        for s in held:
            assert s.recv(4096).startswith(b"HTTP/1.1 200")
        grown = resident(server.process.pid) - before
        print(f"# 1,000 idle connections: {grown / 1e6:.1f} MB")
        if not sanitized():
            assert grown < 100 << 20, grown
        ticks = cpu_ticks(server.process.pid)
        time.sleep(1)
        ticks = cpu_ticks(server.process.pid) - ticks
        print(f"# processor time while they idle for a second: {ticks} ticks")
        assert ticks < os.sysconf("SC_CLK_TCK") // 5, ticks
        for s in held[::100]:
            s.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
            assert s.recv(4096).startswith(b"HTTP/1.1 200")
        for s in held:
            s.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def sanitized():
    with open(SERVER, "rb") as program:
        return b"__asan_init" in program.read()


# ---- The end ----

def test_signal_during_a_stream():
    for number in (signal.SIGTERM, signal.SIGINT):
        with Server(SERVER, "--drain", "600", *ROOM) as server:
            connection, response = server.begin("POST", "/complete", {**LONG, "max_tokens": 1500})
            idle = server.socket()
            idle.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
            assert idle.recv(4096).startswith(b"HTTP/1.1 200")
            stream = read_events(response)
            next(stream)
            server.process.send_signal(number)
            until(lambda server=server: refuses(server), "no more connections")
            events = [(name, data) for name, data in stream]
            assert events[-1][0] == "done" and json.loads(events[-1][1])["usage"]["completion_tokens"] == 1500
            assert server.wait() == 0, server.stderr()
            assert read_all(idle) == b""
            idle.close()
            connection.close()


def refuses(server):
    try:
        server.socket().close()
        return False
    except OSError:
        return True


def test_second_signal_and_drain_limit():
    for args, signals in (((), 2), (("--drain", "0"), 1)):
        with Server(SERVER, *ROOM, *args) as server:
            connection, response = server.begin("POST", "/complete", {**LONG, "max_tokens": 190000})
            next(read_events(response))
            for _ in range(signals):
                server.process.send_signal(signal.SIGTERM)
                time.sleep(0.05)  # two signals at once are one
            assert server.wait() == 0, server.stderr()
            connection.close()


def test_state_survives_a_restart():
    body = {"prompt": " ".join(f"word{i}" for i in range(60)), "max_tokens": 20, "temperature": 0}
    answers = []
    with Server(SERVER) as plain:
        folder = os.path.join(plain.folder, "kv")
        for _ in range(2):
            with Server(SERVER, "--kv-dir", folder) as server:
                answers.append(server.post("/complete", body).json())
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert answers[0]["text"] == answers[1]["text"]
    assert answers[0]["usage"]["cached_tokens"] == 0 and answers[1]["usage"]["cached_tokens"] > 60, [a["usage"] for a in answers]


# ---- Where ----

def test_port_is_taken():
    with Server(SERVER) as server:
        refused_start(4, b"another program listens there", "-m", TINY, "--port", str(server.port))
    refused_start(4, b"cannot listen on", "-m", TINY, "--host", "203.0.113.1", "--port", "0")
    refused_start(4, b"cannot listen on", "-m", TINY, "--host", "no such host", "--port", "0")


def test_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
    except OSError as error:
        raise tap.Skip(f"no IPv6 here: {error}")
    with Server(SERVER, "--host", "::1", "--port", "0") as server:
        assert server.url.startswith("http://[::1]:") and server.get("/health").status == 200


def test_unix_socket():
    with Server(SERVER) as plain:
        path = os.path.join(plain.folder, "socket")
        with Server(SERVER, "--unix", path) as server:
            assert server.url == "unix:" + path and stat.S_IMODE(os.stat(path).st_mode) == 0o600
            assert server.get("/health").json()["status"] == "ok"
            refused_start(4, b"another program listens there", "-m", TINY, "--unix", path)
            assert server.get("/health").status == 200
        assert not os.path.exists(path)
        stale = socket.socket(socket.AF_UNIX)  # left behind: nobody listens
        stale.bind(path)
        stale.close()
        with Server(SERVER, "--unix", path) as server:
            assert server.get("/health").status == 200
        with open(path, "wb") as out:
            out.write(b"precious")
        refused_start(4, b"no socket", "-m", TINY, "--unix", path)
        with open(path, "rb") as kept:
            assert kept.read() == b"precious"
    refused_start(2, b"longer than", "-m", TINY, "--unix", "/tmp/" + "x" * 200)


def test_tls():
    if not shutil.which("openssl"):
        raise tap.Skip("no openssl to make a certificate")
    with Server(SERVER) as plain:
        cert, key = os.path.join(plain.folder, "cert.pem"), os.path.join(plain.folder, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with Server(SERVER, "--tls-cert", cert, "--tls-key", key, *ROOM) as server:
            assert server.url.startswith("https://") and server.get("/health").status == 200
            events = list(server.events("/complete", {**LONG, "max_tokens": 300}))
            assert events[-1][0] == "done" and len(events) > 200
            assert server.post("/tokenize", {"text": "word " * 50000}).status == 200
            assert status_of(server.raw(b"GET /health HTTP/1.1\r\n\r\n")) is None  # no TLS, no answer
            with server.socket():  # a handshake that does not come holds nobody up
                assert server.get("/health").status == 200
        refused_start(1, b"TLS certificate", "-m", TINY, "--port", "0", "--tls-cert", key, "--tls-key", key)
        refused_start(1, b"--tls-cert " + cert.encode() + b"x: No such file", "-m", TINY, "--port", "0", "--tls-cert", cert + "x", "--tls-key", key)
        refused_start(1, b"--tls-key " + key.encode() + b"x: No such file", "-m", TINY, "--port", "0", "--tls-cert", cert, "--tls-key", key + "x")
    refused_start(2, b"go together", "-m", TINY, "--tls-cert", "x")


# ---- Pages of other sites ----

def test_cors():
    evil = {"Origin": "https://evil.example"}
    preflight = {**evil, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-custom"}
    with Server(SERVER) as server:
        assert server.post("/tokenize", {"text": "x"}, evil).status == 403
        assert "access-control-allow-origin" not in server.request("OPTIONS", "/tokenize", headers=preflight).headers
        assert server.post("/tokenize", {"text": "x"}, {"Origin": f"http://{server.host}:{server.port}"}).status == 200
    with Server(SERVER, "--cors-origin", "https://evil.example") as server:
        got = server.post("/tokenize", {"text": "x"}, evil)
        assert got.status == 200 and got.headers["access-control-allow-origin"] == evil["Origin"] and got.headers["vary"] == "origin"
        got = server.request("OPTIONS", "/tokenize", headers=preflight)
        assert got.status == 204 and "POST" in got.headers["access-control-allow-methods"] and got.headers["access-control-allow-headers"] == "x-custom"
        assert server.post("/tokenize", {"text": "x"}, {"Origin": "https://other.example"}).status == 403
        list(server.events("/complete", {**LONG, "max_tokens": 2}, evil))
    with Server(SERVER, "--cors-origin", "*", "--api-key", "k") as server:
        assert server.request("OPTIONS", "/tokenize", headers=preflight).status == 204
        got = server.post("/tokenize", {"text": "x"}, evil)
        assert got.status == 401 and got.headers["access-control-allow-origin"] == "*"


def test_names_that_lead_here():
    with Server(SERVER, "--allow-host", "box.example") as server:
        for host, status in (("evil.example", 403), (f"evil.example:{server.port}", 403), ("localhost.evil.example", 403), ("127.0.0.1.evil.example", 403),
                             ("[evil]", 403), ("[", 403), ("localhost", 200), (f"app.localhost:{server.port}", 200), (f"127.0.0.1:{server.port}", 200), ("[::1]:80", 200),
                             ("BOX.example", 200)):
            assert server.request("GET", "/v1/models", headers={"Host": host}).status == status, host
        assert server.request("GET", "/health", headers={"Host": "evil.example"}).status == 200
    with Server(SERVER, "--api-key", "k") as server:
        assert server.request("GET", "/v1/models", headers={"Host": "any.example", "Authorization": "Bearer k"}).status == 200


def test_requests_that_nobody_waits_for():
    """What has been left before its turn came is not computed, and its body does not count for ever."""
    body = json.dumps({"text": "a" * 900_000}).encode()
    head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with Server(SERVER, "--max-body", "1M", "--workers", "1") as server:
        for i in range(48):
            with server.socket() as s:
                s.sendall(head + body[: len(body) if i % 3 else 1000])

        def served():
            try:
                return server.post("/tokenize", {"text": "x" * 900_000}).status == 200
            except OSError:  # refused before all was sent: those that were left are still on their way
                return False

        for _ in range(20):  # with those above, were they counted still, more than all bodies together may have
            until(served, "bodies have room")


# ---- Log, metrics, configuration ----

def test_access_log():
    with Server(SERVER) as plain:
        path = os.path.join(plain.folder, "log")
        with Server(SERVER, "--access-log", path) as server:
            got = server.post("/complete", {"prompt": "a \"b\"", "max_tokens": 3, "ignore_eos": True})
            server.get("/no%22such%5Cpath")
        with open(path, encoding="utf-8") as log:
            lines = [json.loads(line) for line in log]
        assert [(x["method"], x["path"], x["status"]) for x in lines] == [("POST", "/complete", 200), ("GET", "/no\"such\\path", 404)]
        assert lines[0]["id"] == got.headers["x-request-id"] and lines[0]["client"] == "127.0.0.1" and lines[0]["generated_tokens"] == 3
        assert lines[0]["ms"] > 0 and lines[0]["bytes_out"] > len(got.body) and lines[0]["bytes_in"] > 0 and lines[0]["prompt_tokens"] > 0
        refused_start(1, b"No such file", "-m", TINY, "--port", "0", "--access-log", os.path.join(plain.folder, "none", "log"))
    with Server(SERVER, "--access-log", "-") as server:
        server.get("/health")
        until(lambda: '"path":"/health"' in server.stderr(), "a line on standard error")


def test_metrics():
    with Server(SERVER) as server:
        for _ in range(3):
            server.post("/complete", {"prompt": "one two three four five six seven eight " * 10, "max_tokens": 5, "ignore_eos": True})
        server.get("/nothing")
        text = server.get("/metrics").text
        for line in text.splitlines():
            assert re.match(r"# (HELP|TYPE) [a-z_]+ .+$|[a-z_]+(\{[a-z]+=\"[^\"]*\"(,[a-z]+=\"[^\"]*\")*\})? [0-9.e+-]+$", line), line
        assert 'infer_http_requests_total{route="/complete",status="200"} 3' in text and 'infer_http_requests_total{route="",status="404"} 1' in text
        for name in ("infer_http_request_seconds", "infer_time_to_first_token_seconds"):
            found = re.findall(name + r'_bucket\{le="([^"]+)"\} (\d+)', text)
            assert [b for b, _ in found] == ["0.01", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "+Inf"], found
            counts = [int(n) for _, n in found]
            assert counts == sorted(counts) and counts[-1] == (4 if "http" in name else 3), (name, counts)
        assert server.metric("infer_generated_tokens_total") == 15 and server.metric("infer_prompt_tokens_total") > 20
        assert server.metric("infer_cached_tokens_total") > 0 and server.metric("infer_cache_lookups_total") >= 3 and server.metric("infer_kv_bytes") > 0


def test_configuration_file():
    with Server(SERVER) as plain:
        path = os.path.join(plain.folder, "server.json")

        def write(text):
            with open(path, "w", encoding="utf-8") as out:
                out.write(text if isinstance(text, str) else json.dumps(text))
        for text, said in (('{"port":', b"server.json:1:"), ("[]", b"object is wanted"), ({"prot": 1}, b"prot: unknown key"), ({"port": "x"}, b"port: a number is wanted"),
                           ({"port": 70000}, b"port: 70000 is not"), ({"port": 1.5}, b"port: 1.5 is not"), ({"alias": 1}, b"alias: a string"), ({"sandbox": 1}, b"sandbox: a string"),
                           ({"api-key": [1]}, b"api-key: a list"), ({"config": "x"}, b"config: unknown"), ('{"port": 1, "port": 2}', b"duplicate"), ({"cache-bytes": "5X"}, b"cache-bytes: \"5X\"")):
            write(text)
            refused_start(2, said, "-m", TINY, "--config", path)
        refused_start(2, b"server.json-", "-m", TINY, "--config", path + "-")
        write({"model": TINY, "alias": "from-file", "api-key": ["one"], "port": 1, "max-body": "20K", "cache-bytes": 1000000, "rate-limit": 1000})
        with Server(SERVER, "--config", path, "--api-key", "two", "--port", "0") as server:
            assert server.get("/health").json()["model"] == "from-file"
            assert server.get("/v1/models", **{"x-api-key": "one"}).status == server.get("/v1/models", **{"x-api-key": "two"}).status == 200


def test_wrong_usage():
    for args, said in (([], b"no model"), (["x"], b"unexpected argument x"), (["--nothing"], b"unknown option --nothing"), (["--port"], b"needs a value"),
                       (["--port", "x"], b"not a number"), (["--port", "-1"], b"not a number"), (["--port", "65536"], b"not a whole number"),
                       (["--help=1"], b"takes no value"), (["--kv-type", "f8"], b"f16"), (["--cache-bytes", "1Q"], b"not a size"), (["--alias", ""], b"is empty"),
                       (["--parallel", "0"], b"from 1"), (["-m", TINY, "--isolate", "thread"], b"fork"),
                       (["--rate-limit", "nan"], b"not a number"), (["-m", TINY, "--max-children", "4"], b"go with --isolate"),
                       (["-m", TINY, "--child-time", "4"], b"go with --isolate"), (["-m", TINY, "--lora", "x"], b"--lora x: NAME=FILE"),
                       (["-m", TINY, "--steer", "=x"], b"--steer =x: NAME=FILE")):
        refused_start(2, said, *args)
    refused_start(3, b"no-such-model", "-m", "/no-such-model")
    refused_start(3, b"is an adapter", "-m", LORA)
    refused_start(1, b"--lora-dir /no-such-folder: No such file", "-m", TINY, "--lora-dir", "/no-such-folder")
    refused_start(1, b"is no folder", "-m", TINY, "--lora-dir", TINY)
    refused_start(1, b"--kv-dir " + TINY.encode() + b": is no folder", "-m", TINY, "--kv-dir", TINY)
    refused_start(1, b"--access-log /no-such-folder/log", "-m", TINY, "--port", "0", "--access-log", "/no-such-folder/log")
    refused_start(1, b"--api-key-file /no-such-keys", "-m", TINY, "--port", "0", "--api-key-file", "/no-such-keys")


def needed(*args):
    """Bytes that --memory must be at least for the context of these arguments: what the refusal says."""
    got = run("-m", TINY, "--memory", "1M", "-t", "1", *args)
    found = re.match(rb"infer-server: --memory: budget: (\d+) bytes are needed for a context of (\d+) elements .*: the budget is 1048576\n$", got.stderr)
    assert got.returncode == 3 and found, (got.returncode, got.stderr)
    return int(found.group(1))


def test_memory():
    """--memory chooses the context, refuses by name what cannot be, and is a cap that holds: answers wait for each other's memory."""
    most = needed("--ctx", "512")
    for size, context in ((most, 512), (most - 1, 448), (needed("--ctx", "128"), 128), ("1G", 512)):
        with Server(SERVER, "--memory", str(size), "-t", "1") as server:
            assert server.get("/info").json()["context"] == context, (size, server.get("/info").json()["context"])
    for ctx in ((), ("--ctx", "auto"), ("--ctx", "512")):
        with Server(SERVER, "--memory", str(most), "-t", "1", *ctx) as server, Server(SERVER, "-t", "1") as free:
            body = {"prompt": "Once", "max_tokens": 500, "ignore_eos": True, "temperature": 0.5, "seed": 1}
            want, got = free.post("/complete", body), server.post("/complete", body)
            assert want.status == got.status == 200 and got.json()["text"] == want.json()["text"], got.text
            memory = server.get("/v1/system").json()["memory"]
            assert 0 < memory["memory_bytes"] <= memory["memory_peak"] <= memory["memory_limit"] < most, memory
            assert free.get("/v1/system").json()["memory"]["memory_limit"] == 0
    refused_start(3, b"are needed for a context of 600 elements", "-m", TINY, "--memory", str(most), "--ctx", "600", "-t", "1")
    refused_start(3, b"no-such-model", "-m", "/no-such-model", "--memory", "1G")
    for bad in ("12X", "M", "-1", "1.5G", "99999999999T", ""):
        refused_start(2, b"is not a size", "-m", TINY, "--memory", bad)
    refused_start(2, b"--memory is 0", "-m", TINY, "--memory", "0")
    refused_start(2, b"--child-memory", "-m", TINY, "--memory", "1G", "--isolate", "fork")
    refused_start(2, b"not a number", "-m", TINY, "--ctx", "automatic")


def test_memory_is_shared():
    """Four answers in memory for hardly more than one: all come, with the text of always, and the cap holds."""
    options = ("--ctx", "2048", "--kv-type", "f32", "-t", "1")

    def ask(server, i, got):
        got[i] = server.post("/complete", {"prompt": f"{i} " * 700, "max_tokens": 100, "ignore_eos": True, "temperature": 0.5, "seed": i})

    def ask_all(server):
        got = [None] * 4
        threads = [threading.Thread(target=ask, args=(server, i, got)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for answer in got:
            assert answer.status == 200, answer.text
        return [answer.json()["text"] for answer in got], server.get("/v1/system").json()["memory"]
    with Server(SERVER, *options) as free, Server(SERVER, "--memory", str(needed(*options) + (1 << 20)), *options) as server:
        want, unbounded = ask_all(free)
        got, memory = ask_all(server)
        assert got == want
        assert memory["memory_peak"] <= memory["memory_limit"] < unbounded["memory_peak"], (memory, unbounded)
        assert ask_all(server)[0] == want


def test_memory_of_an_encoder():
    """What is computed at once fits, or the server does not start."""
    model = os.path.join(ROOT, "tests", "data", "fixtures", "bert.gguf")
    got = run("-m", model, "--memory", "100K", "-t", "1")
    assert got.returncode == 3 and b"--memory: budget: " in got.stderr, got.stderr
    low, high = 100 << 10, 64 << 20  # all that is between being refused and starting
    while high - low > 1 << 16:
        middle = (low + high) // 2
        said = run("-m", model, "--memory", str(middle), "-t", "1", "--port", "0", "--lora", "x").stderr
        assert b"--lora x" in said or b"--memory" in said, said
        low, high = (middle, high) if b"--memory" in said else (low, middle)
    with Server(SERVER, "--memory", str(high), "-t", "1", model=model) as server:
        long = server.get("/info").json()["context"]
        answer = server.post("/v1/embeddings", {"input": [[5] * (long - 2)] * 64})
        assert answer.status == 200 and len(answer.json()["data"]) == 64, answer.text


if __name__ == "__main__":
    if not os.path.exists(TINY):
        print("1..1\nnot ok 1 - models/tiny.gguf is missing")
        sys.exit(1)
    cases = tap.cases_of(globals())
    sys.exit(tap.run(cases, sys.argv[2] if len(sys.argv) > 2 else None))
