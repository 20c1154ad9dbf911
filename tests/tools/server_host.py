"""Starts infer-server for tests, and talks to it: requests, server-sent events, raw bytes. Standard library only.

    with Server(binary, "--api-key", "k") as server:
        answer = server.post("/v1/chat/completions", {"messages": [...]})
        assert answer.status == 200, answer.text
        for name, data in server.events("/v1/chat/completions", {"stream": True, ...}):
            ...
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

ROOT = tap.source_dir()
TINY = os.path.join(ROOT, "models", "tiny.gguf")
PATIENCE = 120  # seconds: against hangs only; sanitizers on a busy machine are slow


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body  # headers: lower-case names

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.body)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Server:
    """A running server. args: further arguments; listens on a free port unless they hold --port or --unix."""

    def __init__(self, binary, *args, model=TINY, env=None, headers=None):
        self.folder = tempfile.mkdtemp(prefix="infer-server-test-")
        self.headers = dict(headers or {})  # of every request
        place = [] if "--unix" in args or "--port" in args else ["--port", "0"]
        self.errors = open(os.path.join(self.folder, "stderr"), "w+b")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen([binary, "-m", model, *place, *args], stdout=subprocess.PIPE, stderr=self.errors, env=env)
        line = self.process.stdout.readline().decode()
        found = re.match(r"infer-server: listening on ((https?)://\[?([^\]]*?)\]?:(\d+)|unix:(.*))\n", line)
        if not found:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"no address but {line!r}; {self.stderr()}")
        self.url, self.scheme, self.host, port, self.path = found.groups()
        self.port = int(port) if port else None

    # ---- Life ----

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        if self.process.poll() is None:
            code = self.stop()
            if kind is None:
                assert code == 0, f"exit {code}: {self.stderr()}"
        self.close()

    def stderr(self):
        self.errors.flush()
        with open(self.errors.name, "rb") as copy:
            return copy.read().decode("utf-8", "replace")

    def wait(self):
        code = self.process.wait(timeout=PATIENCE)
        said = self.stderr()
        assert "Sanitizer" not in said and "runtime error" not in said, said
        return code

    def stop(self, number=signal.SIGTERM):
        """Ends the server and returns its exit status."""
        self.process.send_signal(number)
        return self.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- Requests ----

    def connection(self):
        if self.path:
            return UnixConnection(self.path, PATIENCE)
        if self.scheme == "https":
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # a certificate made for the test
            return http.client.HTTPSConnection(self.host, self.port, timeout=PATIENCE, context=context)
        return http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)

    def begin(self, method, path, body=None, headers=None):
        """Sends a request: the connection and its response, unread."""
        connection = self.connection()
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        sent = dict(self.headers)
        if data is not None:
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        connection.request(method, path, data.encode() if isinstance(data, str) else data, sent)
        return connection, connection.getresponse()

    def request(self, method, path, body=None, headers=None):
        connection, response = self.begin(method, path, body, headers)
        try:
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, path, body, headers=None):
        return self.request("POST", path, body, headers)

    def events(self, path, body, headers=None, method="POST"):
        """Yields (name or None, data as text) of each server-sent event."""
        connection, response = self.begin(method, path, body, headers)
        try:
            if response.status != 200:
                raise AssertionError(f"status {response.status}: {response.read()!r}")
            yield from read_events(response)
        finally:
            connection.close()

    def json_events(self, path, body, headers=None):
        """The data of each event as JSON, without the closing [DONE]."""
        for _, data in self.events(path, body, headers):
            if data != "[DONE]":
                yield json.loads(data)

    def socket(self):
        """A connected socket, for raw bytes."""
        if self.path:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(PATIENCE)
            s.connect(self.path)
            return s
        return socket.create_connection((self.host, self.port), timeout=PATIENCE)

    def raw(self, data):
        """Sends bytes, and returns all that comes back until the server closes."""
        with self.socket() as s:
            try:
                s.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has seen enough; its answer may be there
            return read_all(s)

    def metric(self, name):
        """A value of /metrics; 0 when it is not there."""
        found = re.search(r"^" + re.escape(name) + r" ([0-9.e+-]+)$", self.get("/metrics").text, re.MULTILINE)
        return float(found.group(1)) if found else 0


def read_all(s):
    parts = []
    while True:
        try:
            part = s.recv(65536)
        except ConnectionResetError:
            part = b""
        if not part:
            return b"".join(parts)
        parts.append(part)


def read_events(response):
    name, data = None, []
    for line in response:
        line = line.decode("utf-8").rstrip("\n")
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            data.append(line[6:])
        elif not line and data:
            yield name, "\n".join(data)
            name, data = None, []
    if data or not response.isclosed(): # closed: its last chunk was read
        raise AssertionError(f"the stream was cut off: {data}")


def until(check, what):
    """Waits for check() to be true."""
    end = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)
