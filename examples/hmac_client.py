#!/usr/bin/env python3
"""Speaks to an infer-server that was started with --hmac-key: signs each request (docs/hmac.md). Python's standard library only; to use or to copy from.

    hmac_client.py --key FILE (--unix PATH | --url http://HOST:PORT) METHOD TARGET [BODY]

BODY is the text itself, @FILE, or - for standard input. The answer is printed as it comes. The exit status is 1 when the server's status is 400 or more."""
import argparse
import hashlib
import hmac
import http.client
import secrets
import socket
import sys
import time
import urllib.parse


def read_key(path):
    """The bytes of a key file: as they are, or of its hexadecimal digits when there is nothing else in it (but white space at the end)."""
    with open(path, "rb") as f:
        data = f.read()
    text = data.rstrip(b" \t\n\v\f\r")
    if all(c in b"0123456789abcdefABCDEF" for c in text):
        data = bytes.fromhex(text.decode())
    if len(data) < 32:
        raise ValueError(f"{path}: a key has at least 32 bytes, or 64 hexadecimal digits")
    return data


def canonical_target(target):
    """Path and query in the one form that is signed, and that should be sent: everything but unreserved characters is %XX."""
    def encode(text, safe=""):
        return urllib.parse.quote(urllib.parse.unquote_to_bytes(text), safe=safe)
    path, _, query = target.partition("?")
    parts = [[encode(side) for side in part.split("=", 1)] for part in query.split("&") if part]
    return encode(path, "/") + ("?" if parts else "") + "&".join("=".join(part) for part in parts)


def sign(key, method, target, timestamp, nonce, body):
    """The value of x-infer-signature. target: canonical; body: bytes."""
    fields = ["infer-hmac-v1", method, target, str(timestamp), nonce, hashlib.sha256(body).hexdigest()]
    return hmac.new(key, "\n".join(fields).encode(), hashlib.sha256).hexdigest()


def signed_headers(key, method, target, body):
    """Headers for one request; each request needs its own."""
    timestamp, nonce = int(time.time()), secrets.token_urlsafe(24)
    return {"x-infer-timestamp": str(timestamp), "x-infer-nonce": nonce, "x-infer-signature": sign(key, method, target, timestamp, nonce, body)}


class UnixConnection(http.client.HTTPConnection):
    """HTTP on a Unix socket."""

    def __init__(self, path, timeout=600):
        super().__init__("localhost", timeout=timeout)
        self.unix_path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.unix_path)


def connect(unix=None, url=None):
    if unix:
        return UnixConnection(unix)
    at = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
    return kind(at.hostname, at.port, timeout=600)


def request(connection, key, method, target, body=b""):
    """Sends one request and gives http.client's response, whose body has not been read yet."""
    target = canonical_target(target)
    headers = signed_headers(key, method, target, body)
    if body:
        headers["Content-Type"] = "application/json"
    connection.request(method, target, body or None, headers)
    return connection.getresponse()


def read_body(word):
    if word == "-":
        return sys.stdin.buffer.read()
    if word.startswith("@"):
        with open(word[1:], "rb") as f:
            return f.read()
    return word.encode()


def main():
    parser = argparse.ArgumentParser(description="A signed request to infer-server")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--unix", metavar="PATH")
    where.add_argument("--url", metavar="http://HOST:PORT")
    parser.add_argument("--key", metavar="FILE", required=True)
    parser.add_argument("method")
    parser.add_argument("target")
    parser.add_argument("body", nargs="?", default="")
    args = parser.parse_args()
    try:
        response = request(connect(args.unix, args.url), read_key(args.key), args.method, args.target, read_body(args.body))
        while chunk := response.read1(65536):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    except (OSError, ValueError, http.client.HTTPException) as e:
        where = "" if getattr(e, "filename", None) else f"{args.unix or args.url}: "  # a file says its name itself
        sys.exit(f"hmac_client.py: {where}{e}")
    if response.status >= 400:
        sys.exit(f"hmac_client.py: status {response.status}")


if __name__ == "__main__":
    main()
