#!/usr/bin/env python3
"""infer-server's native endpoints: /chat, /complete, /infer, /score, tokens and templates, information, adapters. test_server_native.py INFER-SERVER"""
import base64
import json
import math
import os
import shutil
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server_host import ROOT, Server, read_events, until  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
FIXTURES = os.path.join(ROOT, "tests", "data", "fixtures")
ADAPTERS = os.path.join(ROOT, "tests", "data", "adapters")
LLAMA = os.path.join(FIXTURES, "llama.gguf")
HI = [{"role": "user", "content": "Tell me of the little Red Hen."}]


def ask(server, path, body, status=200):
    answer = server.post(path, body)
    assert answer.status == status, (path, body, answer.status, answer.text)
    return answer.json()


def refused(server, path, body, said, status=400):
    error = ask(server, path, body, status)["error"]
    assert said in error["message"], (path, body, error)
    return error


def unpack(text):
    data = base64.b64decode(text, validate=True)
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def f32(values):
    return [struct.unpack("<f", struct.pack("<f", x))[0] for x in values]


# ---- Tokens and templates ----

def test_tokenize_and_back():
    text = "Once upon a time, café \U0001f600."
    with Server(SERVER) as server:
        got = ask(server, "/tokenize", {"text": text, "pieces": True})
        assert got["count"] == len(got["tokens"]) == len(got["pieces"]) and got["tokens"][0] == 0
        assert [p["id"] for p in got["pieces"]] == got["tokens"]
        assert got["pieces"][0] == {"id": 0, "text": "<s>", "piece": "<s>", "kind": "control"}
        whole = b"".join(bytes(p["bytes"]) if "bytes" in p else p["text"].encode() for p in got["pieces"][1:])
        assert whole == text.encode() and any("bytes" in p for p in got["pieces"])
        assert ask(server, "/detokenize", {"tokens": got["tokens"], "special": False}) == {"text": text, "complete": True}
        assert ask(server, "/detokenize", {"tokens": got["tokens"]})["text"] == "<s>" + text
        assert ask(server, "/tokenize", {"text": text, "add_special": False})["tokens"] == got["tokens"][1:]
        parsed = ask(server, "/tokenize", {"text": "</s>", "add_special": False})
        plain = ask(server, "/tokenize", {"text": "</s>", "add_special": False, "parse_special": False})
        assert parsed["tokens"] == [1] and plain["count"] > 1
        half = next(p["id"] for p in got["pieces"] if "bytes" in p)
        assert ask(server, "/detokenize", {"tokens": [half]})["complete"] is False
        assert ask(server, "/tokenize", {"text": ""})["tokens"] == [0]
        assert ask(server, "/detokenize", {"tokens": []})["text"] == ""
        refused(server, "/tokenize", {}, "text")
        refused(server, "/tokenize", {"text": 5}, "text")
        refused(server, "/tokenize", {"text": "a", "pieces": 1}, "pieces")
        refused(server, "/tokenize", {"text": "a", "other": 1}, "other")
        for bad in [[-1], [1536], [1.5], ["a"], [None], [True], [1 << 62]]:
            refused(server, "/detokenize", {"tokens": bad}, "tokens[0]")
        refused(server, "/detokenize", {"tokens": "a"}, "tokens")
        refused(server, "/tokenize", {"text": "a", "model": "other"}, "other", 404)


def test_apply_template():
    with Server(SERVER) as server:
        got = ask(server, "/apply-template", {"messages": HI, "tokens": True})
        assert got["prompt"] == "<|im_start|>user\nTell me of the little Red Hen.<|im_end|>\n<|im_start|>assistant\n"
        assert got["count"] == len(got["tokens"])
        without = ask(server, "/apply-template", {"messages": HI, "add_generation_prompt": False})
        assert got["prompt"].startswith(without["prompt"]) and without["count"] < got["count"]
        asked = ask(server, "/chat", {"messages": HI, "max_tokens": 1})
        assert asked["usage"]["prompt_tokens"] == got["count"]
        refused(server, "/apply-template", {}, "messages")
        refused(server, "/apply-template", {"messages": "hi"}, "messages")
        refused(server, "/apply-template", {"messages": [{"role": "user"}, 5]}, "messages")


# ---- Generation ----

def test_chat_whole_and_streamed():
    body = {"messages": HI, "max_tokens": 24, "seed": 7, "temperature": 0.8}
    with Server(SERVER) as server:
        answer = server.post("/chat", body)
        got = answer.json()
        assert got["id"] == answer.headers["x-request-id"] and got["model"] == "tiny" and got["seed"] == 7
        assert got["finish_reason"] == "max_tokens" and got["stop"] is None and got["text"]
        assert got["usage"]["completion_tokens"] == 24
        assert got["usage"]["total_tokens"] == got["usage"]["prompt_tokens"] + 24
        assert answer.headers["x-cache-reason"] == got["cache"]["text"]
        for name in ("queue_ms", "prompt_ms", "generation_ms", "first_token_ms"):
            assert got["timings"][name] >= 0
        events = [(name, json.loads(data)) for name, data in server.events("/chat/stream", body)]
        assert [name for name, _ in events[:-1]] == ["token"] * (len(events) - 1) and events[-1][0] == "done"
        assert "".join(e["text"] for _, e in events[:-1]) == got["text"] == events[-1][1]["text"]
        assert events[-1][1]["usage"]["completion_tokens"] == 24
        also = list(server.events("/chat", dict(body, stream=True)))
        assert json.loads(also[-1][1])["text"] == got["text"]
        # Twice with the same seed is the same; without one the server draws it, and says which.
        drawn = ask(server, "/chat", {k: v for k, v in body.items() if k != "seed"})
        assert ask(server, "/chat", dict(body, seed=drawn["seed"]))["text"] == drawn["text"]


def test_stops_and_choices():
    with Server(SERVER) as server:
        whole = ask(server, "/complete", {"prompt": "Once upon a time", "max_tokens": 40, "temperature": 0})
        assert len(whole["text"]) > 20
        stop = whole["text"][9:13]
        got = ask(server, "/complete", {"prompt": "Once upon a time", "max_tokens": 40, "temperature": 0, "stop": ["never that", stop]})
        assert got["finish_reason"] == "stop_string" and got["stop"] == stop and got["text"] == whole["text"][:whole["text"].index(stop)]
        many = ask(server, "/complete", {"prompt": "Once upon a time", "max_tokens": 10, "n": 3, "seed": 5})
        assert [c["index"] for c in many["choices"]] == [0, 1, 2] and many["usage"]["completion_tokens"] == 30 and "text" not in many
        for i, choice in enumerate(many["choices"]):
            assert ask(server, "/complete", {"prompt": "Once upon a time", "max_tokens": 10, "seed": 5 + i})["text"] == choice["text"]
        parts = ["", "", ""]
        for name, data in server.events("/complete", {"prompt": "Once upon a time", "max_tokens": 10, "n": 3, "seed": 5, "stream": True}):
            if name == "token":
                event = json.loads(data)
                parts[event["index"]] += event["text"]
        assert parts == [c["text"] for c in many["choices"]]


def test_logprobs():
    body = {"prompt": "Once upon a time", "max_tokens": 6, "temperature": 0, "logprobs": True, "top_logprobs": 3}
    with Server(SERVER) as server:
        got = ask(server, "/complete", body)
        assert len(got["tokens"]) == 6 and "".join(t["text"] for t in got["tokens"]) == got["text"]
        for t in got["tokens"]:
            assert len(t["top"]) == 3 and t["top"][0]["id"] == t["id"] and t["top"][0]["logprob"] == t["logprob"] <= 0
            assert t["top"][0]["logprob"] >= t["top"][1]["logprob"] >= t["top"][2]["logprob"]
        events = [json.loads(d) for n, d in server.events("/complete", dict(body, stream=True)) if n == "token"]
        assert [e["token"] for e in events if "token" in e] == got["tokens"]
        # The same numbers as the logits give.
        ids = ask(server, "/tokenize", {"text": "Once upon a time"})["tokens"] + [t["id"] for t in got["tokens"]]
        rows = ask(server, "/infer", {"input": ids, "logits": list(range(len(ids) - 7, len(ids) - 1))})["logits"]
        assert rows["positions"] == list(range(len(ids) - 7, len(ids) - 1))
        for row, t in zip(rows["data"], got["tokens"]):
            top = max(row)
            lse = top + math.log(sum(math.exp(x - top) for x in row))
            assert abs(row[t["id"]] - lse - t["logprob"]) < 1e-4


def test_complete_takes_ids():
    with Server(SERVER) as server:
        ids = ask(server, "/tokenize", {"text": "Once upon a time"})["tokens"]
        a = ask(server, "/complete", {"prompt": ids, "max_tokens": 12, "temperature": 0})
        b = ask(server, "/complete", {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0})
        assert a["text"] == b["text"] and a["usage"] == {**b["usage"], "cached_tokens": a["usage"]["cached_tokens"]}


def test_generation_refusals():
    with Server(SERVER) as server:
        for path, more in [("/chat", {"messages": HI}), ("/chat/stream", {"messages": HI}), ("/complete", {"prompt": "a"})]:
            refused(server, path, {**more, "nonsense": 1}, "nonsense")
            refused(server, path, {**more, "max_tokens": 0}, "max_tokens")
            refused(server, path, {**more, "max_tokens": "5"}, "max_tokens")
            refused(server, path, {**more, "top_logprobs": 21, "logprobs": True}, "top_logprobs")
            refused(server, path, {**more, "top_logprobs": 2}, "top_logprobs")
            refused(server, path, {**more, "temperature": "hot"}, "temperature")
            refused(server, path, {**more, "n": 129}, "n")
            refused(server, path, {**more, "save": "../x"}, "save")
            refused(server, path, {**more, "save": "x", "n": 2}, "save")
            refused(server, path, {**more, "checkpoint": "nobody"}, "nobody", 404)
            refused(server, path, {**more, "model": "other"}, "other", 404)
            refused(server, path, {**more, "adapters": [{"name": "other"}]}, "other", 404)
        refused(server, "/chat", {}, "messages")
        refused(server, "/chat", {"messages": "hi"}, "messages")
        refused(server, "/complete", {}, "prompt")
        refused(server, "/complete", {"prompt": 1}, "prompt")
        refused(server, "/complete", {"prompt": []}, "prompt")
        refused(server, "/complete", {"prompt": [99999]}, "prompt[0]")
        refused(server, "/complete", {"prompt": [5] * 600}, "context")
        assert ask(server, "/complete", {"prompt": "a", "max_tokens": 1})["usage"]["completion_tokens"] == 1


def test_time():
    with Server(SERVER, "--parallel", "1") as server:
        got = ask(server, "/complete", {"prompt": "a", "max_tokens": 400, "ignore_eos": True, "timeout": 0.05})
        assert got["finish_reason"] == "time" and got["usage"]["completion_tokens"] < 400 or got["usage"]["completion_tokens"] == 400
        # In the queue: nothing was computed, so there is no answer, and nothing is saved.
        connection, response = server.begin("POST", "/complete", {"prompt": "a", "max_tokens": 500, "ignore_eos": True, "stream": True})
        assert response.readline()
        ended = False
        for path, body in [("/complete", {"prompt": "a", "max_tokens": 5}), ("/chat/stream", {"messages": HI}), ("/checkpoints/save", {"name": "x", "prompt": "a"})]:
            answer = server.post(path, {**body, "timeout": 0.001})
            ended = ended or server.get("/v1/system").json()["scheduler"]["active"] == 0  # the first was too quick to wait for
            assert ended or (answer.status == 503 and "time" in answer.json()["error"]["message"]), (path, answer.status, answer.text)
        assert ended or server.get("/checkpoints").json()["data"] == []
        response.close()
        connection.close()


def test_a_client_that_goes_ends_its_answer():
    with Server(SERVER) as server:
        connection, response = server.begin("POST", "/chat/stream", {"messages": HI, "max_tokens": 400, "ignore_eos": True})
        assert response.status == 200 and response.readline().startswith(b"event: token")
        connection.close()
        response.close()
        until(lambda: server.get("/v1/system").json()["scheduler"]["active"] == 0, "the answer has ended")


# ---- Vectors ----



def test_infer_logits_and_hidden_states():
    with Server(SERVER, model=LLAMA) as server:
        ids = [3, 17, 99, 4, 60, 61]
        info = server.get("/info").json()["model"]
        got = ask(server, "/infer", {"input": ids, "logits": "all", "hidden": [1, 5], "layers": [0, info["layers"] - 1, "final"]})
        assert got["n_vocab"] == info["vocabulary"] == len(got["logits"]["data"][0]) and got["n_embd"] == info["width"]
        assert got["logits"]["positions"] == [0, 1, 2, 3, 4, 5] and len(got["logits"]["data"]) == 6
        assert got["hidden"]["positions"] == [1, 5] and got["hidden"]["layers"] == [0, info["layers"] - 1, "final"]
        assert [len(x) for x in got["hidden"]["data"]] == [3, 3] and len(got["hidden"]["data"][0][0]) == info["width"]
        packed = ask(server, "/infer", {"input": ids, "logits": "all", "hidden": [1, 5], "layers": [0, info["layers"] - 1, "final"], "encoding_format": "base64"})
        assert [unpack(x) for x in packed["logits"]["data"]] == [f32(x) for x in got["logits"]["data"]]
        assert [[unpack(y) for y in x] for x in packed["hidden"]["data"]] == [[f32(y) for y in x] for x in got["hidden"]["data"]]
        last = ask(server, "/infer", {"input": ids})
        assert last["logits"]["positions"] == [5] and f32(last["logits"]["data"][0]) == f32(got["logits"]["data"][5]) and "hidden" not in last
        final = ask(server, "/infer", {"input": [{"ids": ids[:2]}, {"ids": ids[2:]}], "hidden": "last", "logits": "none"})
        assert final["hidden"]["layers"] == ["final"] and "logits" not in final
        assert f32(final["hidden"]["data"][0][0]) == f32(got["hidden"]["data"][1][2])


def test_infer_rows():
    with Server(SERVER, model=LLAMA) as server:
        width = server.get("/info").json()["model"]["width"]
        rows = [[math.sin(i * 7 + j) for j in range(width)] for i in range(5)]
        packed = base64.b64encode(b"".join(struct.pack(f"<{width}f", *r) for r in rows)).decode()
        a = ask(server, "/infer", {"input": [{"ids": [1]}, {"rows": rows}]})["logits"]["data"]
        b = ask(server, "/infer", {"input": [{"ids": [1]}, {"rows": packed, "keys": [f"{i:032x}" for i in range(5)]}]})["logits"]["data"]
        c = ask(server, "/infer", {"input": [{"ids": [1]}, {"rows": rows[:4]}, {"rows": [[-x for x in rows[4]]]}]})["logits"]["data"]
        assert a == b and a != c
        for bad, said in [([{"rows": [[1.0]]}], "row 0"), ([{"rows": "AAAA"}], "base64"), ([{"rows": "?!"}], "base64"), ([{"rows": 5}], "input[0]"),
                          ([{}], "input[0]"), ([5, {}], "input[1]"), ([{"ids": [1], "rows": rows}], "input[0]"), ([{"ids": [1], "x": 1}], "x"),
                          ([{"rows": rows, "keys": ["0"]}], "keys"), ([{"rows": rows, "keys": ["g" * 32] * 5}], "keys"), ([], "input"), ("a", "input"),
                          ([{"rows": [["a"] * width]}], "row 0"), ([{"rows": [[1e39] * width]}], "")]:
            refused(server, "/infer", {"input": bad}, said)


def test_infer_refusals():
    with Server(SERVER) as server:
        refused(server, "/infer", {}, "input")
        for body, said in [({"logits": "some"}, "logits"), ({"logits": [3]}, "logits"), ({"logits": [-1]}, "logits"), ({"logits": 5}, "logits"),
                           ({"hidden": "some"}, "hidden"), ({"hidden": "last", "layers": [6]}, "layers"), ({"hidden": "last", "layers": ["x"]}, "layers"),
                           ({"hidden": "last", "layers": []}, "layers"), ({"layers": [0]}, "layers"), ({"encoding_format": "f16"}, "encoding_format"),
                           ({"temperature": 1}, "temperature"), ({"x": 1}, "x")]:
            refused(server, "/infer", {"input": [1, 2, 3], **body}, said)
        refused(server, "/infer", {"input": [1] * 513}, "context")
        # Too many numbers for an answer of text; base64 takes more.
        refused(server, "/infer", {"input": [5] * 500, "logits": "all", "hidden": "all", "layers": [0, 1, 2, 3, 4, 5, "final"] * 4}, "numbers")
        assert len(ask(server, "/infer", {"input": [5] * 500, "logits": "all", "encoding_format": "base64"})["logits"]["data"]) == 500


# ---- Scores ----

def test_score():
    with Server(SERVER) as server:
        got = ask(server, "/score", {"context": "Once upon", "text": " a time", "alternatives": 2})
        ids = [t["id"] for t in got["tokens"]]
        assert ids == ask(server, "/tokenize", {"text": " a time", "add_special": False})["tokens"]
        assert abs(sum(t["logprob"] for t in got["tokens"]) - got["logprob"]) < 1e-5
        assert abs(got["perplexity"] - math.exp(-got["logprob"] / len(ids))) < 1e-4 * got["perplexity"]
        assert all(len(t["top"]) == 2 for t in got["tokens"])
        # Against the logits.
        context = ask(server, "/tokenize", {"text": "Once upon"})["tokens"]
        rows = ask(server, "/infer", {"input": context + ids, "logits": "all"})["logits"]["data"]
        for i, t in enumerate(got["tokens"]):
            row = rows[len(context) - 1 + i]
            top = max(row)
            assert abs(row[t["id"]] - top - math.log(sum(math.exp(x - top) for x in row)) - t["logprob"]) < 1e-4
            assert t["top"][0]["id"] == row.index(top)
        # More likely than nonsense; without a context the text stands behind BOS.
        assert got["logprob"] > ask(server, "/score", {"context": "Once upon", "text": " time a"})["logprob"]
        alone = ask(server, "/score", {"text": "Once upon"})
        assert [t["id"] for t in alone["tokens"]] == context[1:] and all(t["logprob"] < 0 for t in alone["tokens"])
        bare = ask(server, "/score", {"text": context[1:]})
        assert bare["tokens"][0]["logprob"] is None and bare["tokens"][1]["logprob"] < 0
        assert ask(server, "/score", {"context": context, "text": ids})["logprob"] == got["logprob"]
        refused(server, "/score", {}, "text")
        refused(server, "/score", {"text": []}, "text")
        refused(server, "/score", {"text": "a", "alternatives": 21}, "alternatives")
        refused(server, "/score", {"text": "a", "context": 5}, "context")
        refused(server, "/score", {"text": "a", "temperature": 1}, "temperature")
        refused(server, "/score", {"text": [5] * 600}, "context")


def test_score_uses_the_cache():
    with Server(SERVER) as server:
        context = "The little Red Hen lived in a house by the wood. " * 12
        first = ask(server, "/score", {"context": context, "text": " She went out."})
        second = ask(server, "/score", {"context": context, "text": " Nobody came."})
        again = ask(server, "/score", {"context": context, "text": " She went out."})
        assert second["usage"]["cached_tokens"] >= second["usage"]["prompt_tokens"] - 64 > 64
        assert [t["logprob"] for t in again["tokens"]] == [t["logprob"] for t in first["tokens"]]


# ---- Information ----

def test_information():
    with Server(SERVER, "--ctx", "300", "--parallel", "3") as server:
        info = server.get("/info").json()
        assert info["version"] == server.get("/api/version").json()["version"] and info["context"] == 300
        assert info["model"]["name"] == "tiny" and info["model"]["layers"] == 6 and info["model"]["width"] == 160
        assert info["features"]["keys"] is False and info["features"]["tls"] is False and info["features"]["isolation"] == "none"
        assert info["limits"]["parallel"] == 3
        props = server.get("/props").json()
        assert props["chat"] is True and props["context"] == 300 and props["adapters"] == [] and props["template"] == "fallback"
        system = server.get("/v1/system").json()
        assert system["threads"] >= 1 and system["memory"]["weight_bytes"] > 0 and system["scheduler"]["active"] == 0
    with Server(SERVER, "--api-key", "secret") as server:
        assert server.get("/info").json()["features"]["keys"] is True and server.get("/props").json()["keys"] is True
        for path in ("/v1/system", "/api/version", "/lora", "/checkpoints"):
            assert server.get(path).status == 401, path
            assert server.get(path, Authorization="Bearer secret").status == 200, path
        for path in ("/infer", "/chat", "/chat/stream", "/complete", "/embeddings", "/tokenize", "/detokenize", "/apply-template", "/score", "/lora/load",
                     "/lora/unload", "/checkpoints/save", "/checkpoints/load", "/checkpoints/fork", "/checkpoints/graft", "/checkpoints/delete"):
            assert server.post(path, {}).status == 401, path
            assert server.post(path, {}, {"Authorization": "Bearer secret"}).status == 400, path


# ---- Adapters ----

class Folder:
    """A folder for --lora-dir beside a file that is outside, with all that must not be opened in it."""

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="infer-lora-")
        self.dir = os.path.join(self.top, "adapters")
        os.mkdir(self.dir)
        good = os.path.join(ADAPTERS, "lora-r4.gguf")
        shutil.copy(good, os.path.join(self.dir, "good.gguf"))
        shutil.copy(good, os.path.join(self.top, "outside.gguf"))
        shutil.copytree(os.path.join(ADAPTERS, "lora-r4"), os.path.join(self.dir, "peft"))
        shutil.copy(os.path.join(ADAPTERS, "steering.gguf"), os.path.join(self.dir, "steer.gguf"))
        os.mkdir(os.path.join(self.dir, "sub"))
        shutil.copy(good, os.path.join(self.dir, "sub", "deep.gguf"))
        os.symlink(good, os.path.join(self.dir, "link.gguf"))
        os.symlink(os.path.join(self.dir, "good.gguf"), os.path.join(self.dir, "inner.gguf"))
        os.symlink(self.top, os.path.join(self.dir, "linked"))
        os.symlink("/dev/zero", os.path.join(self.dir, "zero"))
        os.mkfifo(os.path.join(self.dir, "pipe"))
        with open(os.path.join(self.dir, "text.gguf"), "w", encoding="ascii") as f:
            f.write("no model")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top)


def test_lora_load_and_use():
    with Folder() as folder, Server(SERVER, "--lora-dir", folder.dir, "--lora", "first=" + os.path.join(ADAPTERS, "lora-rslora"), model=LLAMA) as server:
        ids = list(range(3, 40))
        base = ask(server, "/infer", {"input": ids})["logits"]["data"]
        for name, path in [("a", "good.gguf"), ("b", "peft"), ("c", "sub/deep.gguf")]:
            got = ask(server, "/lora/load", {"name": name, "path": path})["adapter"]
            assert got["name"] == name and got["kind"] == "lora" and got["rank"] == 4
        assert ask(server, "/lora/load", {"name": "s", "path": "steer.gguf"})["adapter"]["kind"] == "steering"
        listed = server.get("/lora").json()
        assert [a["name"] for a in listed["data"]] == ["a", "b", "c", "first", "s"] == [a["name"] for a in server.get("/props").json()["adapters"]]
        use = {n: ask(server, "/infer", {"input": ids, "adapters": [{"name": n}]})["logits"]["data"] for n in ("a", "b", "c", "first", "s")}
        assert use["a"] == use["c"] != base and use["first"] not in (base, use["a"]) and use["s"] != base
        assert max(abs(x - y) for x, y in zip(use["a"][0], use["b"][0])) < 1e-3  # the same numbers as PEFT wrote them
        assert ask(server, "/infer", {"input": ids, "adapters": [{"name": "a", "scale": 0}]})["logits"]["data"] == base
        assert ask(server, "/infer", {"input": ids, "model": "a"})["logits"]["data"] == use["a"]
        error = refused(server, "/lora/load", {"name": "a", "path": "good.gguf"}, "a", 409)
        assert error["code"] == "adapter_exists"
        assert ask(server, "/lora/unload", {"name": "a"})["unloaded"] is True
        refused(server, "/infer", {"input": ids, "adapters": [{"name": "a"}]}, "a", 404)
        refused(server, "/lora/unload", {"name": "a"}, "a", 404)
        assert ask(server, "/lora/load", {"name": "a", "path": "good.gguf"})


def test_lora_names_lead_nowhere():
    with Folder() as folder, Server(SERVER, "--lora-dir", folder.dir, model=LLAMA) as server:
        answers = set()
        for path in ("missing.gguf", "../outside.gguf", "../missing.gguf", "sub/../good.gguf", "sub/../../outside.gguf", os.path.join(folder.top, "outside.gguf"),
                     os.path.join(folder.dir, "good.gguf"), "/etc/passwd", "/nowhere", "link.gguf", "inner.gguf", "linked/outside.gguf", "linked", "zero", "pipe",
                     "/dev/zero", "", ".", "..", "./good.gguf", "sub//deep.gguf", "/", "good.gguf/", "good.gguf/x", "a" * 300, "a/" * 600, "%2e%2e/outside.gguf",
                     "..\\outside.gguf", "~/x", "sub/./deep.gguf", "\ud7ff"):
            answer = server.post("/lora/load", {"name": "x", "path": path})
            answers.add((answer.status, json.dumps({k: v for k, v in answer.json()["error"].items()})))
        assert len(answers) == 1 and next(iter(answers))[0] == 404, answers
        assert folder.top not in str(answers) and "passwd" not in str(answers)
        assert server.post("/lora/load", b'{"name": "x", "path": "good.gguf\\u0000.txt"}').status in (400, 404)
        # Files that are there and are no adapters say what is wrong with them.
        refused(server, "/lora/load", {"name": "x", "path": "text.gguf"}, "")
        refused(server, "/lora/load", {"name": "x", "path": "sub"}, "adapter_config.json")
        for name in ("", "a/b", "..\u00e4", "a" * 65, "a b", "a\nb"):
            refused(server, "/lora/load", {"name": name, "path": "good.gguf"}, "name")
        refused(server, "/lora/load", {"name": "llama", "path": "good.gguf"}, "llama", 409)
        refused(server, "/lora/load", {"path": "good.gguf"}, "name")
        refused(server, "/lora/load", {"name": "x"}, "path")
        refused(server, "/lora/load", {"name": "x", "path": 5}, "path")
        refused(server, "/lora/load", {"name": "x", "path": "good.gguf", "scale": 1}, "scale")
        assert server.get("/lora").json()["data"] == []


def test_lora_unloaded_while_in_use():
    with Folder() as folder, Server(SERVER, "--lora-dir", folder.dir, model=LLAMA) as server:
        ask(server, "/lora/load", {"name": "a", "path": "good.gguf"})
        body = {"prompt": list(range(3, 40)), "max_tokens": 90, "temperature": 0, "adapters": [{"name": "a"}], "logprobs": True}
        want = ask(server, "/complete", body)["tokens"]
        connection, response = server.begin("POST", "/complete", dict(body, stream=True))
        assert ask(server, "/lora/unload", {"name": "a"})
        events = [json.loads(data) for name, data in read_events(response)]
        connection.close()
        assert events[-1]["tokens"] == want and len(want) > 10
        # What was computed under it is found again when it comes back, under whatever name.
        ask(server, "/lora/load", {"name": "b", "path": "peft"})
        ask(server, "/lora/load", {"name": "c", "path": "good.gguf"})
        assert ask(server, "/complete", dict(body, adapters=[{"name": "c"}]))["tokens"] == want


def test_lora_without_a_folder():
    with Server(SERVER, "--lora", "mine=" + os.path.join(ADAPTERS, "lora-r4.gguf"), model=LLAMA) as server:
        for path in ("good.gguf", "/etc/passwd", "../x"):
            assert refused(server, "/lora/load", {"name": "x", "path": path}, "--lora-dir", 403)["code"] == "lora_dir_not_set"
        refused(server, "/lora/unload", {"name": "mine"}, "--lora-dir", 403)
        assert [a["name"] for a in server.get("/lora").json()["data"]] == ["mine"]


# ---- A process for each connection ----

def test_isolated():
    top = tempfile.mkdtemp(prefix="infer-isolated-")
    try:
        with Server(SERVER, "--isolate", "fork", "--lora-dir", ADAPTERS, model=LLAMA) as server:
            assert refused(server, "/lora/load", {"name": "x", "path": "lora-r4.gguf"}, "--isolate")["code"] == "isolated"
            for path, body in [("/checkpoints/save", {"name": "x", "prompt": [1, 2]}), ("/complete", {"prompt": [1, 2], "save": "x"}), ("/infer", {"input": [1], "save": "x"}),
                               ("/checkpoints/fork", {"from": "x", "to": "y"})]:
                assert refused(server, path, body, "--kv-dir")["code"] == "needs_kv_dir"
            assert server.get("/props").json()["checkpoints"] is False and server.get("/lora").json()["loading"] is False
            assert ask(server, "/infer", {"input": [1, 2]})["logits"]["data"]
        with Server(SERVER, "--isolate", "fork", "--kv-dir", os.path.join(top, "kv")) as server:
            assert server.get("/props").json()["checkpoints"] is True
            ask(server, "/checkpoints/save", {"name": "x", "prompt": "Once upon a time"})
            one = ask(server, "/complete", {"checkpoint": "x", "max_tokens": 5, "temperature": 0, "save": "y"})
            assert one["checkpoint"]["name"] == "y"
            assert ask(server, "/complete", {"prompt": "Once upon a time", "max_tokens": 5, "temperature": 0})["text"] == one["text"]
            assert [c["name"] for c in server.get("/checkpoints").json()["data"]] == ["x", "y"]
    finally:
        shutil.rmtree(top)


if __name__ == "__main__":
    tap.main(globals())
