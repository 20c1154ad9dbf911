#!/usr/bin/env python3
"""infer-server's /v1/chat/completions and /v1/models. test_server_chat.py INFER-SERVER"""
import concurrent.futures
import contextlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import gguf_edit  # noqa: E402
import tap  # noqa: E402
from server_host import TINY, Server, until  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
PATH = "/v1/chat/completions"


def body(text="Hello there", **more):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 24, "seed": 7, **more}


def chat(server, text="Hello there", **more):
    answer = server.post(PATH, body(text, **more))
    assert answer.status == 200, answer.text
    return answer.json()


def content(answer, index=0):
    return answer["choices"][index]["message"]["content"]


class Streamed:
    """A stream put together again, its shape checked on the way."""

    def __init__(self, server, request):
        self.text, self.reasoning, self.logprobs, self.finish, self.usage, self.pieces = {}, {}, {}, {}, None, []
        last, ids = None, set()
        for _, data in server.events(PATH, {**request, "stream": True}):
            last = data
            if data == "[DONE]":
                continue
            chunk = json.loads(data)
            assert chunk["object"] == "chat.completion.chunk", chunk
            ids.add((chunk["id"], chunk["created"], chunk["model"], chunk["system_fingerprint"]))
            if not chunk["choices"]:
                assert self.usage is None
                self.usage = chunk["usage"]
                continue
            assert self.usage is None and chunk.get("usage") is None
            [choice] = chunk["choices"]
            self.take(choice["index"], choice)
        assert last == "[DONE]" and len(ids) == 1

    def take(self, index, choice):
        delta = choice["delta"]
        if index not in self.text:
            assert delta["role"] == "assistant" and delta["content"] == ""
            self.text[index], self.reasoning[index], self.logprobs[index] = "", "", []
        else:
            assert "role" not in delta
        assert index not in self.finish
        self.pieces.append((index, delta.get("content", "")))
        self.text[index] += delta.get("content") or ""
        self.reasoning[index] += delta.get("reasoning_content") or ""
        self.logprobs[index] += (choice["logprobs"] or {}).get("content") or []
        if choice["finish_reason"]:
            assert delta == {}
            self.finish[index] = (choice["finish_reason"], choice["finish_detail"], choice["stop_reason"])


def test_shape_of_a_whole_answer():
    with Server(SERVER, "--alias", "small") as server:
        reply = server.post(PATH, body("word " * 100))
        answer = reply.json()
        assert answer["object"] == "chat.completion" and answer["id"].startswith("chatcmpl-") and answer["model"] == "small"
        assert answer["id"][9:] == reply.headers["x-request-id"][4:]
        assert re.match(r"fp_[0-9a-f]{12}$", answer["system_fingerprint"]) and answer["seed"] == 7
        [choice] = answer["choices"]
        assert choice["index"] == 0 and choice["logprobs"] is None
        assert choice["message"]["role"] == "assistant" and choice["message"]["refusal"] is None and choice["message"]["content"]
        assert "reasoning_content" not in choice["message"]
        usage = answer["usage"]
        assert usage["completion_tokens"] == 24 and choice["finish_reason"] == "length" and choice["finish_detail"] == "max_tokens"
        assert usage["total_tokens"] == usage["prompt_tokens"] + 24 and usage["completion_tokens_details"]["reasoning_tokens"] == 0
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0
        assert reply.headers["x-cache-reason"] == f"empty; 0 of {usage['prompt_tokens']} tokens"
        again = server.post(PATH, body("word " * 100))
        cached = again.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert 0 < cached < usage["prompt_tokens"] and content(again.json()) == content(answer)
        assert again.headers["x-cache-reason"].startswith("hit; %d of " % cached), again.headers


def test_stream_is_the_whole_answer_in_pieces():
    with Server(SERVER) as server:
        for more in ({}, {"n": 3}, {"stop": ["the", " a", "\n"]}, {"n": 2, "logprobs": True, "top_logprobs": 3}, {"temperature": 0},
                     {"logprobs": True, "stop": "er"}):
            whole = chat(server, **more)
            stream = Streamed(server, body(stream_options={"include_usage": True}, **more))
            assert sorted(stream.text) == list(range(more.get("n", 1)))
            for choice in whole["choices"]:
                i = choice["index"]
                assert stream.text[i] == choice["message"]["content"], more
                assert stream.finish[i] == (choice["finish_reason"], choice["finish_detail"], choice["stop_reason"])
                assert stream.logprobs[i] == ((choice["logprobs"] or {}).get("content") or [])
            for key in ("prompt_tokens", "completion_tokens", "total_tokens", "completion_tokens_details"):
                assert stream.usage[key] == whole["usage"][key]
            assert Streamed(server, body(**more)).usage is None


def test_stop_strings_never_leak():
    with Server(SERVER) as server:
        plain = content(chat(server, max_tokens=60))
        assert len(plain) > 20
        for start in range(0, len(plain) - 8, 3):
            stop = plain[start:start + 5]
            answer = chat(server, max_tokens=60, stop=["qqqq", stop])
            assert content(answer) == plain[:plain.index(stop)], (stop, content(answer))
            choice = answer["choices"][0]
            assert (choice["finish_reason"], choice["finish_detail"], choice["stop_reason"]) == ("stop", "stop_string", stop)
            shown = ""
            stream = Streamed(server, body(max_tokens=60, stop=stop))
            for _, piece in stream.pieces:
                shown += piece
                assert plain.startswith(shown) and stop not in shown and len(shown) <= plain.index(stop)
            assert shown == content(answer)


def test_seed_alone_and_in_a_crowd():
    requests = [body(f"Tell me about {i}", seed=i % 5, n=1 + i % 3, temperature=(0, 0.8, 1.5)[i % 3], max_tokens=8 + i % 9,
                     logprobs=i % 2 == 0, stop=["e", None, ["the", "."]][i % 3]) for i in range(33)]
    with Server(SERVER, "--cache-bytes", "0") as server:
        def ask(i):
            if i % 4 == 0:
                stream = Streamed(server, requests[i])
                return [(stream.text[k], stream.finish[k], stream.logprobs[k]) for k in sorted(stream.text)]
            answer = chat(server, **requests[i])
            return [(c["message"]["content"], (c["finish_reason"], c["finish_detail"], c["stop_reason"]), (c["logprobs"] or {}).get("content") or [])
                    for c in answer["choices"]]
        alone = [ask(i) for i in range(33)]
        with concurrent.futures.ThreadPoolExecutor(33) as pool:
            assert list(pool.map(ask, range(33))) == alone


def test_n_choices_are_seeds():
    with Server(SERVER) as server:
        three = chat(server, n=3, seed=100)
        assert [c["index"] for c in three["choices"]] == [0, 1, 2]
        assert [content(three, i) for i in range(3)] == [content(chat(server, seed=100 + i)) for i in range(3)]
        assert len({content(three, i) for i in range(3)}) == 3
        assert three["usage"]["completion_tokens"] == 72


def test_random_seed_is_told_back():
    with Server(SERVER) as server:
        request = body(n=2)
        del request["seed"]
        first, second = (server.post(PATH, request).json() for _ in range(2))
        assert first["seed"] != second["seed"] and 0 <= first["seed"] < 2**53
        assert [content(chat(server, n=2, seed=first["seed"]), i) for i in range(2)] == [content(first, i) for i in range(2)]
        seeds = [json.loads(data).get("seed") for _, data in server.events(PATH, {**request, "stream": True}) if data != "[DONE]"]
        assert isinstance(seeds[0], int)
        chat(server, seed=-5)
        chat(server, seed=-2**63)


def test_logprobs():
    with Server(SERVER) as server:
        answer = chat(server, logprobs=True, top_logprobs=20)
        items = answer["choices"][0]["logprobs"]["content"]
        assert len(items) == 24
        assert b"".join(bytes(t["bytes"]) for t in items).decode("utf-8", "replace") == content(answer)
        for token in items:
            assert len(token["top_logprobs"]) == 20 and token["logprob"] <= 0
            values = [t["logprob"] for t in token["top_logprobs"]]
            assert values == sorted(values, reverse=True) and sum(map(math.exp, values)) < 1 + 1e-4
            mine = [t["logprob"] for t in token["top_logprobs"] if t["bytes"] == token["bytes"]]
            assert token["logprob"] <= values[-1] or token["logprob"] in mine
        everything = chat(server, logprobs=True, top_logprobs=0)["choices"][0]["logprobs"]["content"]
        assert [t["logprob"] for t in everything] == [t["logprob"] for t in items] and everything[0]["top_logprobs"] == []
        # What a stop string takes away takes its tokens.
        stop = content(answer)[10:13]
        cut = chat(server, logprobs=True, stop=stop)
        kept = cut["choices"][0]["logprobs"]["content"]
        shown = b"".join(bytes(t["bytes"]) for t in kept).decode("utf-8", "replace")
        assert shown.startswith(content(cut)) and kept == [{**t, "top_logprobs": []} for t in items[:len(kept)]]
        assert len(b"".join(bytes(t["bytes"]) for t in kept[:-1])) < len(content(cut).encode()) or not kept
        # The token that ends a turn is no content: forced, there is none.
        ended = chat(server, logprobs=True, logit_bias={"1": 100})
        assert content(ended) == "" and ended["choices"][0]["logprobs"]["content"] == [] and ended["usage"]["completion_tokens"] == 1
        assert ended["choices"][0]["finish_detail"] == "end_token"


def test_text_that_is_no_utf8():
    """Tokens of single bytes, forced: half characters become U+FFFD, and the log-probabilities have the bytes."""
    lead, tail = "160", "226"  # E2 and 82
    with Server(SERVER) as server:
        answer = chat(server, logit_bias={lead: 100}, logprobs=True, max_tokens=9)
        assert content(answer) == "\ufffd" * 9
        tokens = answer["choices"][0]["logprobs"]["content"]
        assert [t["token"] for t in tokens] == ["\\xe2"] * 9 and all(t["bytes"] == [0xE2] for t in tokens)
        mixed = {"logit_bias": {lead: 100, tail: 100, "5": 100}, "logprobs": True, "max_tokens": 60, "temperature": 1.9}
        for seed in range(6):
            answer = chat(server, **mixed, seed=seed)
            raw = b"".join(bytes(t["bytes"]) for t in answer["choices"][0]["logprobs"]["content"])
            assert content(answer) == raw.decode("utf-8", "replace"), (raw, content(answer))
            stream = Streamed(server, body(**{**mixed, "seed": seed}))
            assert stream.text[0] == content(answer) and stream.logprobs[0] == answer["choices"][0]["logprobs"]["content"]
        old = server.post("/v1/completions", {"prompt": "x", "logit_bias": {lead: 100}, "logprobs": 1, "max_tokens": 2}).json()
        assert old["choices"][0]["logprobs"]["tokens"] == ["bytes:\\xe2"] * 2 and old["choices"][0]["text"] == "\ufffd\ufffd"


def test_sampling_parameters_act():
    with Server(SERVER) as server:
        greedy = content(chat(server, temperature=0))
        for same in ({"top_p": 0}, {"top_k": 1}, {"min_p": 1}, {"top_p": 1e-6}):
            assert content(chat(server, seed=99, **same)) == greedy, same
        hot = content(chat(server, temperature=2))
        assert hot != greedy
        for other in ({"presence_penalty": 2}, {"frequency_penalty": 2}, {"repetition_penalty": 1.8}):
            assert content(chat(server, temperature=0, max_tokens=60, **other)) != content(chat(server, temperature=0, max_tokens=60)), other
        for same in ({"top_k": 0}, {"top_k": -1}, {"top_p": 1}, {"min_p": 0}, {"typical_p": 1}, {"repetition_penalty": 1}, {"logit_bias": {}},
                     {"stop": None}, {"stop": []}, {"max_tokens": None, "max_completion_tokens": 24}):
            assert content(chat(server, **same)) == content(chat(server)), same
        assert content(chat(server, logit_bias={"5": 100})) == "$" * 24
        banned = chat(server, temperature=0, logprobs=True, logit_bias={"5": -100})
        assert banned["choices"][0]["logprobs"]["content"][0]["token"]


def test_lengths():
    with Server(SERVER) as server:
        assert chat(server, max_tokens=1)["usage"]["completion_tokens"] == 1
        assert chat(server, max_tokens=None, max_completion_tokens=3)["usage"]["completion_tokens"] == 3
        full = chat(server, max_tokens=None, logit_bias={"5": 100})
        assert full["choices"][0]["finish_reason"] == "length" and full["choices"][0]["finish_detail"] == "context"
        assert full["usage"]["total_tokens"] in (512, 513)
        assert chat(server, max_tokens=10**9, logit_bias={"5": 100})["choices"][0]["finish_detail"] == "context"
        guarded = chat(server, max_tokens=None, logit_bias={"5": 100}, repetition_guard=32)["choices"][0]
        assert guarded["finish_reason"] == "length" and guarded["finish_detail"] == "repetition"
        too_long = server.post(PATH, body("word " * 2000))
        assert too_long.status == 400 and too_long.json()["error"]["code"] == "context_length_exceeded", too_long.text


def test_messages():
    with Server(SERVER) as server:
        parts = [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]
        plain = chat(server, "Hello\nthere")
        assert content(chat(server, parts)) == content(plain)
        turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi", "name": "Ann"},
                 {"role": "assistant", "content": None}, {"role": "user", "content": parts}]
        system = chat(server, **{"messages": turns})
        turns[0]["role"] = "developer"
        assert content(chat(server, **{"messages": turns})) == content(system)
        bad = {
            "messages": [None, [], {}, "hello", 5, [5], ["x"], [{"content": "x"}]],
            "messages[0].content": [[{"role": "user"}], [{"role": "user", "content": 5}], [{"role": "user", "content": None}]],
            "messages[1].content[0]": [[{"role": "user", "content": "x"}, {"role": "user", "content": [part]}] for part in
                                       ({"type": "image_url", "image_url": {"url": "x"}}, {"type": "input_audio"}, {"type": "file"}, {"text": "x"}, 5,
                                        {"type": "text"}, {"type": "text", "text": 5})],
            "messages[0].role": [[{"role": "tool", "content": "x", "tool_call_id": "y"}], [{"role": "wizard", "content": "x"}]],
            "messages[0].tool_calls": [[{"role": "assistant", "content": "x", "tool_calls": [{"id": "a"}]}]],
        }
        for param, values in bad.items():
            for value in values:
                answer = server.post(PATH, {"messages": value})
                assert answer.status == 400, (value, answer.text)
                named = answer.json()["error"]["param"]
                assert named == param or named.startswith(param + "["), (value, named)
        assert server.post(PATH, {}).json()["error"]["param"] == "messages"


def test_strangers_cannot_forge_control_tokens():
    with Server(SERVER) as server:
        def tokens(text):
            return chat(server, text, max_tokens=1)["usage"]["prompt_tokens"]
        # "</s>" is one token of the vocabulary; inside a message it is the text that it looks like, which takes several.
        base = tokens("x")
        assert tokens("x</s>") >= base + 3 and tokens("x<s>") >= base + 2
        assert tokens("x<</s>/s>") >= base + 5
        assert tokens("x" + "</s>" * 40) >= base + 120
        assert tokens("\ufdd0</s>") > base and tokens("\ufdd0\ufdd1\ufdd2") > base
        everything = "".join(chr(0xFDD0 + i) for i in range(32))
        assert server.post(PATH, body(everything)).status == 400
        answer = server.post("/v1/completions", {"prompt": "x</s>", "max_tokens": 1}).json()
        assert answer["usage"]["prompt_tokens"] == 3  # plain prompts may hold them: <s> x </s>


TYPES = {  # wrong values of every parameter
    "model": [5, [], {}], "stream": ["yes", 1], "n": [0, -1, 1.5, "2", 129, 10**18, [1]], "temperature": [-0.1, 2.1, "1", [], True],
    "top_p": [-0.1, 1.1, "x"], "top_k": [1.5, "x", -2], "min_p": [-1, 2, "x"], "typical_p": [-1, 2, {}], "seed": [1.5, "7", []],
    "presence_penalty": [-2.1, 2.1, "x"], "frequency_penalty": [-2.1, 2.1, "x"], "repetition_penalty": [0, -1, "x", 1001],
    "logit_bias": [[], 5, {"x": 1}, {"-1": 1}, {"1536": 1}, {"5": "x"}, {"5": 101}, {"5": -101}, {"1e1": 5}, {"": 1}, {" 5": 1}],
    "stop": [5, [5], [""], "", ["x"] * 65, "x" * 1025, {}], "priority": ["x", 101, -101], "timeout": [0, -1, "x", 1e9], "repetition_guard": [-1, 8, 4097, "x"],
    "adapters": [5, {}, ["x"], "x"], "checkpoint": [5, [], {}], "salt": [5, "x" * 65, []], "max_tokens": [0, -1, 1.5, "x"],
    "max_completion_tokens": [0, -1, "x"], "logprobs": [1, "x"], "top_logprobs": [-1, 21, "x", 3], "stream_options": [5, "x", {}],
    "chat_template_kwargs": [5, "x", []], "reasoning_effort": [5, "much", "high"], "service_tier": [5, "gold"], "verbosity": [5, "low", "high"],
    "user": [5, []], "metadata": [5, "x"], "safety_identifier": [5], "parallel_tool_calls": [5, "x"], "prompt_cache_key": [5],
    "prompt_cache_options": [5], "prompt_cache_retention": [5]}
REFUSED = {
    "response_format": [{"type": "json_object"}, {"type": "json_schema", "json_schema": {}}, "text"], "modalities": [["audio"], ["text", "audio"], "text"],
    "tools": [[{"type": "function", "function": {"name": "f"}}], 5], "tool_choice": ["auto", "required", {"type": "function"}],
    "functions": [[{"name": "f"}]], "function_call": ["auto", {"name": "f"}], "audio": [{"voice": "x", "format": "wav"}],
    "prediction": [{"type": "content", "content": "x"}], "web_search_options": [{"search_context_size": "low"}], "moderation": [{"model": "x"}], "store": [True, 5]}
NOTHING = {"response_format": [None, {"type": "text"}], "modalities": [["text"], None], "tools": [[], None], "tool_choice": ["none", None],
           "functions": [[]], "function_call": ["none"], "store": [False], "user": ["x"], "metadata": [{"a": "b"}], "parallel_tool_calls": [True, False],
           "service_tier": ["auto", "default", "flex"], "verbosity": ["medium"], "prompt_cache_key": ["x"], "reasoning_effort": ["none", None],
           "prompt_cache_options": [{"mode": "implicit"}], "chat_template_kwargs": [{}, {"anything": 1}], "adapters": [[]], "salt": ["", "a"]}


def test_wrong_parameters_are_named():
    with Server(SERVER) as server:
        for tables in (TYPES, REFUSED):
            for name, values in tables.items():
                for value in values:
                    answer = server.post(PATH, body(**{name: value}))
                    error = answer.json().get("error", {})
                    assert answer.status == 400, (name, value, answer.text)
                    assert error["param"] == name and name in error["message"] and error["type"] == "invalid_request_error", (name, value, error)
                    assert (error["code"] == "unsupported_parameter") == (tables is REFUSED), error
        for name in ("temprature", "nonsense", "best_of", "suffix", "echo", ""):
            answer = server.post(PATH, body(**{name: 1}))
            assert answer.status == 400 and answer.json()["error"]["code"] == "unknown_parameter" and answer.json()["error"]["param"] == name
        for name, values in NOTHING.items():
            for value in values:
                assert content(chat(server, **{name: value})) == content(chat(server)), (name, value)
        nested = [({"stream": True, "stream_options": {"include_usage": 5}}, "stream_options.include_usage"),
                  ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
                  ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x"), ({"adapters": [{"scale": 1}]}, "adapters[0].name"),
                  ({"adapters": [{"name": 5}]}, "adapters[0].name"), ({"adapters": [{"name": "x", "scale": "y"}]}, "adapters[0].scale"),
                  ({"adapters": [{"name": "x", "mode": "y"}]}, "adapters[0].mode"), ({"adapters": [{"name": "x", "nonsense": 1}]}, "adapters[0].nonsense"),
                  ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
                  ({"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens"), ({"n": 10**30}, None)]
        for more, param in nested:
            answer = server.post(PATH, body(**more))
            assert answer.status == 400 and answer.json()["error"]["param"] == param, (more, answer.text)
        for more, code in (({"model": "other"}, "model_not_found"), ({"adapters": [{"name": "none"}]}, "adapter_not_found")):
            answer = server.post(PATH, body(**more))
            assert answer.status == 404 and answer.json()["error"]["code"] == code, answer.text
        assert server.post(PATH, body(checkpoint="none")).status == 404
        assert server.post(PATH, "{").status == 400 and server.post(PATH, "[]").status == 400 and server.post(PATH, "").status == 400


def test_models():
    with Server(SERVER, "--alias", "small") as server:
        listed = server.get("/v1/models").json()
        assert listed["object"] == "list" and [m["id"] for m in listed["data"]] == ["small"]
        assert listed["data"][0]["object"] == "model" and listed["data"][0]["owned_by"] and listed["data"][0]["context_length"] == 512
        assert server.get("/v1/models/small").json() == listed["data"][0]
        missing = server.get("/v1/models/none")
        assert missing.status == 404 and missing.json()["error"]["code"] == "model_not_found" and "'small'" in missing.json()["error"]["message"]
        assert chat(server, model="small")["model"] == "small"
    with Server(SERVER, "--ctx", "300") as server:
        assert server.get("/v1/models").json()["data"][0]["context_length"] == 300


def at_rest(server):
    return server.metric("infer_sessions_active") == 0 and server.metric("infer_requests_waiting") == 0


def test_disconnect_ends_the_work():
    with Server(SERVER) as server:
        request = body(stream=True, max_tokens=None, logit_bias={"5": 100}, n=128)
        for i in range(3):
            connection, response = server.begin("POST", PATH, request)
            assert response.readline().startswith(b"data: ")
            connection.close()
            until(lambda: at_rest(server), "nothing is computed any more")
            until(lambda: server.metric("infer_requests_cancelled_total") == i + 1, "it counts as cancelled")  # pylint: disable=cell-var-from-loop
        data = json.dumps({**request, "stream": False}).encode()
        with server.socket() as s:
            s.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (PATH.encode(), len(data)) + data)
            until(lambda: server.metric("infer_sessions_active") > 0, "it is computed")
        until(lambda: at_rest(server), "nothing is computed any more")
        until(lambda: server.metric("infer_requests_cancelled_total") == 4, "it counts as cancelled")
        assert server.metric("infer_generated_tokens_total") < 4 * 128 * 400
        assert content(chat(server))


def test_errors_in_a_running_stream():
    """The answer outgrows the memory that there is: what was sent stands, then comes an error, and no [DONE]."""
    with Server(SERVER, "--kv-budget", "300K", "--cache-bytes", "0") as server:
        for path, request in ((PATH, body(max_tokens=None, logit_bias={"5": 100}, stream=True)),
                              ("/v1/completions", {"prompt": ["x", "y"], "max_tokens": 600, "logit_bias": {"5": 100}, "stream": True})):
            events = [data for _, data in server.events(path, request)]
            assert len(events) > 100 and "[DONE]" not in events
            assert all("choices" in json.loads(data) for data in events[:-1])
            error = json.loads(events[-1])["error"]
            assert error["type"] == "server_error" and "budget" in error["message"] and error["code"] == "INFER_ERROR_LIMIT", error
            whole = server.post(path, {**request, "stream": False})
            assert whole.status == 503 and "budget" in whole.json()["error"]["message"] and "retry-after" in whole.headers
            assert server.post(path, {**request, "stream": False, "max_tokens": 4}).status == 200


def test_time_limit():
    with Server(SERVER) as server:
        answer = server.post(PATH, body(max_tokens=None, timeout=0.05, logit_bias={"5": 100}, n=100))
        if answer.status == 200:
            details = {c["finish_detail"] for c in answer.json()["choices"]}
            assert details <= {"time", "context"}, details
        else:
            assert answer.status == 503, answer.text


def rewrite(source, target, template, tokens=(), control=False):
    """A copy of the model with a template, and tokens spelled anew; control: as control tokens. Their ids."""
    with open(source, "rb") as f:
        data = f.read()
    names, kinds, merges = (gguf_edit.array(data, b"tokenizer.ggml." + key) for key in (b"tokens", b"token_type", b"merges"))
    ids = {}
    for spelling in tokens:
        # The token of the last merge: no other merge needs it.
        merged = merges.pop().replace(b" ", b"")
        ids[spelling] = names.index(merged)
        names[ids[spelling]] = spelling.encode()
        kinds[ids[spelling]] = 3 if control else 1
    with open(target, "wb") as out:
        out.write(gguf_edit.edit(data, {b"tokenizer.chat_template": template.encode(), b"tokenizer.ggml.tokens": names,
                                        b"tokenizer.ggml.token_type": kinds, b"tokenizer.ggml.merges": merges}))
    return ids


@contextlib.contextmanager
def model(template, tokens=(), control=False):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "thinker.gguf")
        yield path, rewrite(TINY, path, template, tokens, control)


OPENS = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}{# </think> #}"


def test_reasoning_of_a_thinking_template():
    for control in (False, True):
        with model(OPENS, ["</think>"], control) as (path, ids), Server(SERVER, model=path) as server:
            close, both = str(ids["</think>"]), 0
            for seed in range(4):
                # Now and then the model closes the block.
                more = {"seed": seed, "max_tokens": 40, "logit_bias": {close: 8}, "temperature": 1.5, "logprobs": True}
                answer = chat(server, **more)
                message, usage = answer["choices"][0]["message"], answer["usage"]
                stream = Streamed(server, body(**more))
                assert stream.text[0] == message["content"] and stream.reasoning[0] == message.get("reasoning_content", "")
                assert stream.logprobs[0] == answer["choices"][0]["logprobs"]["content"]
                count = usage["completion_tokens_details"]["reasoning_tokens"]
                assert 0 < count <= usage["completion_tokens"]
                shown = b"".join(bytes(t["bytes"] or b"") for t in answer["choices"][0]["logprobs"]["content"]).decode("utf-8", "replace")
                assert shown.strip() == message["content"].strip()
                assert "</think>" not in message.get("reasoning_content", "")
                both += bool(message["content"] and message.get("reasoning_content"))
            assert both
            never = chat(server, logit_bias={close: -100})
            assert never["choices"][0]["message"]["content"] == "" and never["choices"][0]["message"]["reasoning_content"]
            assert never["usage"]["completion_tokens_details"]["reasoning_tokens"] == never["usage"]["completion_tokens"]
            at_once = chat(server, logit_bias={close: 100}, max_tokens=1)
            assert at_once["choices"][0]["message"]["content"] == "" and "reasoning_content" not in at_once["choices"][0]["message"]
            # The template can be told not to think, in its own words or in OpenAI's.
            off = chat(server, chat_template_kwargs={"enable_thinking": False}, logit_bias={close: -100})
            assert content(off) and "reasoning_content" not in off["choices"][0]["message"]
            assert content(chat(server, reasoning_effort="none", logit_bias={close: -100})) == content(off)
            assert content(chat(server, reasoning_effort="high", logit_bias={close: -100})) == ""


def test_adapters():
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(folder, name) for name in ("kind.txt", "rude.txt", "tone.gguf")}
        for name, text in (("kind.txt", "How kind\nSo good of you\n"), ("rude.txt", "How rude\nGo away\n")):
            with open(paths[name], "w", encoding="utf-8") as out:
                out.write(text)
        subprocess.run([os.path.join(os.path.dirname(SERVER), "infer-steer"), "-m", TINY, "-p", paths["kind.txt"], "-n", paths["rude.txt"], "-o",
                        paths["tone.gguf"]], check=True, stdout=subprocess.DEVNULL)
        with Server(SERVER, "--steer", "tone=" + paths["tone.gguf"]) as server:
            base = content(chat(server))
            one, other = (content(chat(server, adapters=[{"name": "tone", "scale": scale}])) for scale in (1, 30))
            assert content(chat(server, adapters=[{"name": "tone", "scale": 0}])) == base != other
            assert content(chat(server, adapters=[{"name": "tone"}])) == one
            named = chat(server, model="tone")
            assert content(named) == one and named["model"] == "tone"
            assert [m["id"] for m in server.get("/v1/models").json()["data"]] == ["tiny", "tone"]
            assert server.get("/v1/models/tone").json()["parent"] == "tiny"
            assert content(chat(server, adapters=[{"name": "tone", "scale": 30, "first_layer": 0, "layer_count": 1}])) != other
            assert content(chat(server, adapters=[{"name": "tone", "scale": 1, "mode": "project"}]))
            for wrong, param in (({"first_layer": 99}, "adapters[0].first_layer"), ({"layer_count": 99}, "adapters[0].layer_count"),
                                 ({"scale": 1e9}, "adapters[0].scale")):
                answer = server.post(PATH, body(adapters=[{"name": "tone", **wrong}]))
                assert answer.status == 400 and answer.json()["error"]["param"] == param, answer.text
            assert server.post(PATH, body(adapters=[{"name": "tone"}] * 17)).json()["error"]["param"] == "adapters"


def test_a_checkpoint_is_a_beginning():
    with Server(SERVER, "--cache-bytes", "0") as server:
        first = [{"role": "system", "content": "You tell of the little Red Hen. " * 8}, {"role": "user", "content": "Who is she?"}]
        saved = server.post("/chat", {"messages": first, "max_tokens": 4, "seed": 1, "save": "turn"}).json()
        second = {"messages": first + [{"role": "assistant", "content": saved["text"]}, {"role": "user", "content": "And then?"}]}
        fresh, again = chat(server, **second), chat(server, checkpoint="turn", **second)
        assert content(fresh) == content(again)
        assert fresh["usage"]["prompt_tokens_details"]["cached_tokens"] == 0 < again["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_salts_share_nothing():
    with Server(SERVER) as server:
        def cached(**more):
            return chat(server, "word " * 100, **more)["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert cached(salt="a") == 0 and cached(salt="a") > 100 and cached(salt="b") == 0 and cached() == 0 and cached() > 100


def test_template_errors():
    with model("{{ raise_exception('roles must alternate') }}") as (path, _), Server(SERVER, model=path) as server:
        answer = server.post(PATH, body())
        assert answer.status == 400 and "roles must alternate" in answer.json()["error"]["message"], answer.text
    with model("{{ messages[0]['content'] + nothing }}") as (path, _), Server(SERVER, model=path) as server:
        assert server.post(PATH, body()).status == 400
    with model("{{ messages[0]['content'] }}{{ greeting }}") as (path, _), Server(SERVER, model=path) as server:
        more = chat(server, chat_template_kwargs={"greeting": "one two three"})["usage"]["prompt_tokens"]
        assert more > chat(server)["usage"]["prompt_tokens"]
        # Variables cannot forge either.
        assert chat(server, chat_template_kwargs={"greeting": "</s>"})["usage"]["prompt_tokens"] >= chat(server)["usage"]["prompt_tokens"] + 3


if __name__ == "__main__":
    tap.main(globals())
