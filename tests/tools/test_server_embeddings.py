#!/usr/bin/env python3
"""POST /v1/embeddings and /embeddings: vectors against PyTorch's (tests/data/fixtures/bert.embed), forms, refusals. test_server_embeddings.py INFER-SERVER"""
import base64
import json
import math
import os
import select
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server_host import ROOT, Server, until  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
FIXTURES = os.path.join(ROOT, "tests", "data", "fixtures")
BERT = os.path.join(FIXTURES, "bert.gguf")
BERT_FOLDER = os.path.join(FIXTURES, "bert")  # it has the tokenizer too


def golden():
    """(ids, hidden rows, vector) of each text, from PyTorch."""
    with open(os.path.join(FIXTURES, "bert.embed"), "rb") as f:
        data = f.read()
    assert data[:8] == b"IEMBD\0\0\1"
    n_texts, width, out_width = struct.unpack_from("<3I", data, 8)
    at, texts = 24, []
    for _ in range(n_texts):
        (n,) = struct.unpack_from("<I", data, at)
        ids = list(struct.unpack_from(f"<{n}i", data, at + 4))
        at += 4 + 4 * n
        rows = [struct.unpack_from(f"<{width}f", data, at + 4 * width * r) for r in range(n)]
        at += 4 * width * n
        texts.append((ids, rows, struct.unpack_from(f"<{out_width}f", data, at)))
        at += 4 * out_width
    assert data[at:] == bytes(4) and n_texts == len(texts) == 6  # no rows of layers
    return texts


def unpack(text):
    data = base64.b64decode(text, validate=True)
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def close(a, b, bound=1e-4):
    return len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < bound


def embed(server, status=200, path="/v1/embeddings", **body):
    answer = server.post(path, body)
    assert answer.status == status, (answer.status, answer.text)
    return answer.json()


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def test_vectors_are_pytorchs():
    texts = golden()
    with Server(SERVER, model=BERT) as server:
        got = embed(server, input=[ids for ids, _, _ in texts], model="bert")
        assert got["object"] == "list" and got["model"] == "bert"
        assert got["usage"] == {"prompt_tokens": sum(len(t[0]) for t in texts), "total_tokens": sum(len(t[0]) for t in texts)}
        assert [d["index"] for d in got["data"]] == list(range(6)) and {d["object"] for d in got["data"]} == {"embedding"}
        for (_, _, want), d in zip(texts, got["data"]):
            length = math.sqrt(sum(x * x for x in want))
            assert close(d["embedding"], [x / length for x in want])
        rows = embed(server, path="/embeddings", input=[texts[1][0], texts[2][0]], pooling="none")
        for (_, want, _), d in zip(texts[1:3], rows["data"]):
            assert d["tokens"] == len(want) == len(d["embeddings"])
            assert all(close(g, w, 1e-3) for g, w in zip(d["embeddings"], want))


def test_text_lists_and_single_texts():
    with Server(SERVER, model=BERT_FOLDER) as server:
        texts = ["the cat", "a red river", "the cat sat on the mat."] * 50  # several calls of the library
        many = embed(server, input=texts)["data"]
        assert [d["index"] for d in many] == list(range(150))
        for i in range(3):
            alone = embed(server, input=texts[i])["data"]
            assert len(alone) == 1 and alone[0]["embedding"] == many[i]["embedding"] == many[147 + i]["embedding"]
            ids = embed(server, path="/tokenize", text=texts[i])["tokens"]
            assert embed(server, input=ids)["data"][0]["embedding"] == many[i]["embedding"]
        assert embed(server, input="the cat")["usage"]["prompt_tokens"] == 4  # [CLS] and [SEP] count


def test_base64_has_the_same_bits():
    with Server(SERVER, model=BERT_FOLDER) as server:
        numbers = embed(server, input=["the cat", "a river"])["data"]
        packed = embed(server, input=["the cat", "a river"], encoding_format="base64", user="someone")["data"]
        for n, p in zip(numbers, packed):
            assert [f32(x) for x in n["embedding"]] == unpack(p["embedding"])


def test_dimensions_and_native_options():
    with Server(SERVER, model=BERT_FOLDER) as server:
        whole = embed(server, input="the cat")["data"][0]["embedding"]
        short = embed(server, input="the cat", dimensions=5)["data"][0]["embedding"]
        length = math.sqrt(sum(x * x for x in whole[:5]))
        assert len(whole) == 32 and close(short, [x / length for x in whole[:5]], 1e-6)
        raw = embed(server, path="/embeddings", input="the cat", normalize=False)["data"][0]
        size = math.sqrt(sum(x * x for x in raw["embedding"]))
        assert abs(size - 1) > 1e-3 and close([x / size for x in raw["embedding"]], whole, 1e-6)
        assert raw["tokens"] == 4 and raw["truncated"] is False
        cls = embed(server, path="/embeddings", input="the cat", pooling="cls", normalize=False)["data"][0]["embedding"]
        rows = embed(server, path="/embeddings", input="the cat", pooling="none")["data"][0]["embeddings"]
        assert cls == rows[0] and len(rows) == 4
        cut = embed(server, path="/embeddings", input="the cat " * 300, truncate=True)["data"][0]
        assert cut["truncated"] is True and cut["tokens"] == 602
        assert embed(server, path="/embeddings", input="the cat", add_special=False)["data"][0]["tokens"] == 2


def test_a_model_that_generates():
    with Server(SERVER) as server:
        got = embed(server, input=["Once upon a time", "the little Red Hen"])
        for d in got["data"]:
            assert len(d["embedding"]) == 160 and abs(sum(x * x for x in d["embedding"]) - 1) < 1e-4
        assert got["data"][0]["embedding"] == embed(server, input="Once upon a time")["data"][0]["embedding"]
        # While it generates, too: the same bits.
        connection, response = server.begin("POST", "/complete", {"prompt": "Once", "max_tokens": 400, "ignore_eos": True, "stream": True})
        assert response.readline() and got["data"][1]["embedding"] == embed(server, input="the little Red Hen")["data"][0]["embedding"]
        response.close()
        connection.close()


def test_refusals_name_the_field():
    cases = [
        ({}, "input"), ({"input": ""}, "input"), ({"input": []}, "input"), ({"input": 5}, "input"), ({"input": {"a": 1}}, "input"),
        ({"input": ["a", ""]}, "text 1"), ({"input": ["a", None]}, "item 1"), ({"input": [[]]}, "text 0"), ({"input": [1, "a"]}, "input[1]"),
        ({"input": [[1, 2], [1.5]]}, "input[0]"), ({"input": [-1]}, "input[0]"), ({"input": [1 << 40]}, "input[0]"),
        ({"input": ["a"] * 2049}, "2048"), ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "encoding_format": 1}, "encoding_format"), ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": 33}, "dimensions"), ({"input": "a", "dimensions": "5"}, "dimensions"),
        ({"input": "a", "pooling": "cls"}, "pooling"), ({"input": "the cat " * 300}, "602"), ({"input": "a", "nonsense": 1}, "nonsense"),
    ]
    with Server(SERVER, model=BERT_FOLDER) as server:
        for body, said in cases:
            error = embed(server, status=400, **body)["error"]
            assert said in error["message"], (body, error)
            assert error["type"] == "invalid_request_error"
        assert embed(server, status=404, input="a", model="gpt-9")["error"]["code"] == "model_not_found"
        for body, said in [({"input": "a", "pooling": "max"}, "pooling"), ({"input": "a", "normalize": "no"}, "normalize"),
                           ({"input": "a", "max_tokens": 0}, "max_tokens")]:
            assert said in embed(server, status=400, path="/embeddings", **body)["error"]["message"]
        # An encoder is asked for embeddings only, and says so.
        for path, body in [("/chat", {"messages": [{"role": "user", "content": "a"}]}), ("/complete", {"prompt": "a"}), ("/score", {"text": "a"}),
                           ("/infer", {"input": [1]}), ("/checkpoints/save", {"name": "a", "prompt": "a"})]:
            answer = server.post(path, body)
            assert answer.status == 400 and "encoder" in answer.text, (path, answer.status, answer.text)
        assert embed(server, input="the cat")["data"]


def test_too_many_tokens_in_all():
    with Server(SERVER, model=BERT) as server:
        body = {"input": [[1] * 300] * 1001}
        error = embed(server, status=400, **body)["error"]
        assert "300300 tokens" in error["message"] and error["param"] == "input", error


def test_long_work_does_not_hold_up_others():
    body = json.dumps({"input": [[5] * 500] * 500}).encode()
    request = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
    with Server(SERVER, "--parallel", "1", "--max-queue", "7") as server:
        clients = [server.socket() for _ in range(8)]  # more than there are workers
        for s in clients:
            s.sendall(request)
        until(lambda: server.post("/complete", {}).status == 503, "all eight have come: there is no room for another")
        assert server.post("/tokenize", {"text": "Once"}).status == 200
        done, _, _ = select.select(clients, [], [], 0)
        assert not done, "the answer came when long work had ended"
        for s in clients:
            s.close()


def test_a_client_that_goes_ends_the_work():
    with Server(SERVER) as server:
        body = json.dumps({"input": [[5] * 500] * 500}).encode()
        with server.socket() as s:
            s.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " + str(len(body)).encode() +
                      b"\r\n\r\n" + body)
            # Not before the work has begun: a second client's answer says that the server has read the first one's request.
            assert embed(server, input="a")["data"]
        assert embed(server, input="a")["data"]  # and stop() below comes to its end


if __name__ == "__main__":
    tap.main(globals())
