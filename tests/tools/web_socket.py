"""A WebSocket client (RFC 6455) of a page: text frames, pings, closing. Standard library only."""
import base64
import hashlib
import json
import os
import struct

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Refused(Exception):
    """The server answered the upgrade with something else: status and body."""

    def __init__(self, status, body):
        super().__init__(f"status {status}: {body!r}")
        self.status, self.body = status, body


class WebSocket:
    """On a connected socket. close_code: what the server closed with, once it has."""

    def __init__(self, sock, path, headers=None):
        self.sock, self.buffer, self.close_code = sock, b"", None
        key = base64.b64encode(os.urandom(16))
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                 f"Sec-WebSocket-Key: {key.decode()}", *(f"{k}: {v}" for k, v in (headers or {}).items())]
        sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = self.take_until(b"\r\n\r\n").decode()
        status = int(head.split()[1])
        fields = {line.split(":", 1)[0].lower(): line.split(":", 1)[1].strip() for line in head.split("\r\n")[1:] if ":" in line}
        if status != 101:
            raise Refused(status, self.take(int(fields.get("content-length", 0))))
        want = base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
        assert fields["sec-websocket-accept"] == want, fields

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        self.sock.close()

    def fill(self):
        more = self.sock.recv(65536)
        if not more:
            raise EOFError("the connection has closed")
        self.buffer += more

    def take(self, n):
        while len(self.buffer) < n:
            self.fill()
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def take_until(self, mark):
        while mark not in self.buffer:
            self.fill()
        return self.take(self.buffer.index(mark) + len(mark))

    def send_frame(self, kind, data, final=True):
        mask = os.urandom(4)
        n = len(data)
        size = bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n) if n < 65536 else b"\xff" + struct.pack(">Q", n)
        body = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        self.sock.sendall(bytes([(0x80 if final else 0) | kind]) + size + mask + body)

    def send(self, value):
        """A JSON value, or text as it is."""
        self.send_frame(TEXT, (value if isinstance(value, str) else json.dumps(value)).encode())

    def frame(self):
        first, second = self.take(2)
        n = second & 0x7F
        if n == 126:
            n = struct.unpack(">H", self.take(2))[0]
        elif n == 127:
            n = struct.unpack(">Q", self.take(8))[0]
        assert not second & 0x80, "servers do not mask"
        return first & 0x0F, bool(first & 0x80), self.take(n)

    def receive(self):
        """The next text message as JSON; None: closed."""
        text = b""
        while True:
            kind, final, data = self.frame()
            if kind == PING:
                self.send_frame(PONG, data)
            elif kind == CLOSE:
                self.close_code = struct.unpack(">H", data[:2])[0] if len(data) >= 2 else 1005
                return None
            elif kind in (0, TEXT):
                text += data
                if final:
                    return json.loads(text)

    def close(self):
        self.send_frame(CLOSE, struct.pack(">H", 1000))
        while self.close_code is None:
            self.receive()
