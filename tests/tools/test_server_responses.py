"""infer-server's Responses API: events in their order, chains, what is kept, WebSockets, and what clients must not get away with. TAP."""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import stat
import struct
import sys
import tempfile
import threading
import time
from urllib.parse import quote

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import gguf_edit  # noqa: E402
import tap  # noqa: E402
from server_host import PATIENCE, TINY, Server, read_events, until  # noqa: E402
from web_socket import Refused, WebSocket  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
PATH = "/v1/responses"
LONG = 400  # tokens: an answer that ends by itself
ROOM = ("--ctx", "100000")
ENDLESS = 50000  # tokens: with ROOM, an answer that is caught running on any machine; it is always cancelled
ID = re.compile(r"resp_[0-9a-f]{48}$")
THINKING = (b"{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}\n"
            b"{% endfor %}<|assistant|><think>")


class Folder:
    """A temporary folder."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="infer-responses-test-")
        return self.path

    def __exit__(self, *rest):
        shutil.rmtree(self.path, ignore_errors=True)


def body(said="Hello", **more):
    return {"input": said, "temperature": 0, "max_output_tokens": 6, **more}


def create(server, said="Hello", headers=None, **more):
    answer = server.post(PATH, body(said, **more), headers)
    assert answer.status == 200, answer.text
    return answer.json()


def text_of(response):
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


def get(server, name, **headers):
    return server.get(f"{PATH}/{name}", **headers)


def delete(server, name, headers=None):
    return server.request("DELETE", f"{PATH}/{name}", None, headers)


def cancel(server, name, headers=None):
    return server.post(f"{PATH}/{name}/cancel", "", headers)


def stream(server, value, headers=None):
    events = []
    for name, data in server.events(PATH, {**value, "stream": True}, headers):
        event = json.loads(data)
        assert name == event["type"], (name, event)
        events.append(event)
    return events


def refused(answer, status, param=None, code=None):
    assert answer.status == status, (answer.status, answer.text)
    error = answer.json()["error"]
    assert error["message"] and error["type"] == ("invalid_request_error" if status in (400, 404) else error["type"]), error
    assert param is None or error["param"] == param, error
    assert code is None or error["code"] == code, error
    return error


def message(role, text, kind=None):
    return {"type": "message", "role": role, "content": [{"type": kind or ("output_text" if role == "assistant" else "input_text"), "text": text}]}


def check_numbers(events):
    assert [e["sequence_number"] for e in events] == list(range(len(events)))


def names(events):
    """Types in order, deltas that follow each other told once."""
    out = []
    for e in events:
        name = e["type"].removeprefix("response.")
        if not out or out[-1] != name or not name.endswith(".delta"):
            out.append(name)
    return out


ITEM = ["output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done"]
REASONING = [n.replace("output_text", "reasoning_text") for n in ITEM]


# ---- One response ----


def test_whole():
    with Server(SERVER) as server:
        answer = server.post(PATH, body(metadata={"a": "b"}, user="u", instructions="Be brief."))
        r = answer.json()
        assert answer.status == 200 and answer.headers["x-cache-reason"]
        assert ID.match(r["id"]) and r["object"] == "response" and r["model"] == "tiny"
        assert r["status"] == "incomplete" and r["incomplete_details"] == {"reason": "max_output_tokens"}
        assert r["metadata"] == {"a": "b"} and r["user"] == "u" and r["instructions"] == "Be brief." and r["temperature"] == 0 and r["store"] is True
        assert r["usage"]["output_tokens"] == 6 and r["usage"]["total_tokens"] == 6 + r["usage"]["input_tokens"]
        assert len(text_of(r)) > 0 and r["output"][0]["status"] == "incomplete" and r["error"] is None
        got = get(server, r["id"])
        assert got.status == 200 and got.json() == r
        stopped = create(server, stop=[text_of(r)[2:5]], max_output_tokens=50)
        assert stopped["status"] == "completed" and stopped["completed_at"] >= stopped["created_at"]


def test_event_order():
    with Server(SERVER) as server:
        events = stream(server, body(max_output_tokens=9))
        check_numbers(events)
        assert names(events) == ["created", "in_progress", *ITEM, "incomplete"], names(events)
        first, last = events[0]["response"], events[-1]["response"]
        assert first["status"] == "in_progress" and first["output"] == [] and first["usage"] is None
        item = last["output"][0]
        parts = [e for e in events if e["type"] == "response.output_text.delta"]
        assert "".join(e["delta"] for e in parts) == item["content"][0]["text"] == events[-4]["text"]
        assert all(e["item_id"] == item["id"] and e["output_index"] == 0 and e["content_index"] == 0 and e["logprobs"] == [] for e in parts)
        assert events[2]["item"]["content"] == [] and events[2]["item"]["status"] == "in_progress"
        assert events[3]["part"] == {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
        assert events[-2]["item"] == item
        assert get(server, last["id"]).json() == last
        whole = create(server, max_output_tokens=9)
        assert text_of(whole) == text_of(last)


def thinking_model(folder):
    """models/tiny.gguf with a template that opens a block of reasoning, and one of whose tokens closes it: one that it soon writes."""
    with open(TINY, "rb") as f:
        data = gguf_edit.edit(f.read(), {b"tokenizer.chat_template": THINKING})
    path = os.path.join(folder, "thinking.gguf")
    with open(path, "wb") as f:
        f.write(data)
    with Server(SERVER, model=path) as server:
        r = create(server, max_output_tokens=12, include=["message.output_text.logprobs"])
        assert [i["type"] for i in r["output"]] == ["reasoning"], r
        words = re.findall(" [a-z]{4,}", r["output"][0]["content"][0]["text"])
        closes = next(w for w in (word.replace(" ", "\u0120").encode() for word in words) if w in gguf_edit.array(data, b"tokenizer.ggml.tokens"))
    with open(path, "wb") as f:
        f.write(gguf_edit.rename_token(data, closes, b"</think>"))
    return path


def test_reasoning():
    with Folder() as folder, Server(SERVER, model=thinking_model(folder)) as server:
        events = stream(server, body(max_output_tokens=12))
        check_numbers(events)
        assert names(events) == ["created", "in_progress", *REASONING, *ITEM, "incomplete"], names(events)
        last = events[-1]["response"]
        thought, said = last["output"]
        assert thought["type"] == "reasoning" and thought["id"].startswith("rs_") and thought["summary"] == [] and thought["status"] == "completed"
        assert [p["type"] for p in thought["content"]] == ["reasoning_text"] and "think>" not in thought["content"][0]["text"] + text_of(last)
        deltas = [e for e in events if e["type"] == "response.reasoning_text.delta"]
        assert "".join(e["delta"] for e in deltas) == thought["content"][0]["text"]
        assert all(e["item_id"] == thought["id"] and e["output_index"] == 0 and "logprobs" not in e for e in deltas)
        assert all(e["output_index"] == 1 and e["item_id"] == said["id"] for e in events if e["type"] == "response.output_text.delta")
        assert 0 < last["usage"]["output_tokens_details"]["reasoning_tokens"] < last["usage"]["output_tokens"]
        cut = create(server, max_output_tokens=1)  # within the reasoning
        assert [(i["type"], i["status"]) for i in cut["output"]] == [("reasoning", "incomplete")]
        # The reasoning goes to the template of the next turn, by the chain or sent again.
        chained = create(server, "More", previous_response_id=last["id"])
        again = create(server, [message("user", "Hello"), thought, said, message("user", "More")])
        assert chained["usage"]["input_tokens"] == again["usage"]["input_tokens"] and chained["output"][0]["content"] == again["output"][0]["content"]
        refused(server.post(PATH, body(reasoning={"effort": "high"})), 400, "reasoning.effort")
        assert create(server, reasoning={"summary": "auto"})["status"] == "incomplete"
        refused(server.post(PATH, body(reasoning={"summary": "detailed"})), 400, "reasoning.summary")


def test_effort():
    """The effort reaches templates that ask for it, in their own words."""
    with Folder() as folder:
        path = os.path.join(folder, "effort.gguf")
        for variable, said in ((b"reasoning_effort", {"low": "low", "minimal": "minimal"}), (b"enable_thinking", {"none": "False", "high": "True"})):
            with open(TINY, "rb") as f, open(path, "wb") as out:
                out.write(gguf_edit.edit(f.read(), {b"tokenizer.chat_template": b"{{ %s }} {{ messages[0].content }}" % variable}))
            with Server(SERVER, model=path) as server:
                def check(word, **more):
                    r = create(server, **more)
                    want = server.post("/tokenize", {"text": f"{word} Hello", "add_special": True}).json()["tokens"]
                    assert r["usage"]["input_tokens"] == len(want), (word, want, r["usage"])
                    return r

                for effort, word in said.items():
                    assert check(word, reasoning={"effort": effort})["reasoning"]["effort"] == effort
                check("something else entirely", reasoning={"effort": "high"}, chat_template_kwargs={variable.decode(): "something else entirely"})
                refused(server.post(PATH, body(chat_template_kwargs=[])), 400, "chat_template_kwargs")


def test_logprobs():
    with Server(SERVER) as server:
        r = create(server, include=["message.output_text.logprobs"], top_logprobs=3)
        part = r["output"][0]["content"][0]
        assert "".join(entry["token"] for entry in part["logprobs"]) == part["text"] and len(part["logprobs"]) == 6
        for entry in part["logprobs"]:
            top = entry["top_logprobs"]
            assert len(top) == 3 and entry["logprob"] <= 0 and bytes(entry["bytes"]).decode() == entry["token"]
            assert top[0]["token"] == entry["token"] and top[0]["logprob"] >= top[1]["logprob"] >= top[2]["logprob"]  # greedy
        events = stream(server, body(include=["message.output_text.logprobs"]))
        deltas = [e for e in events if e["type"] == "response.output_text.delta"]
        assert [entry["token"] for e in deltas for entry in e["logprobs"]] == [entry["token"] for entry in part["logprobs"]]
        assert "top_logprobs" in deltas[0]["logprobs"][0]
        assert create(server)["output"][0]["content"][0]["logprobs"] == []


def test_input_forms():
    with Server(SERVER) as server:
        forms = ["Hello", [{"role": "user", "content": "Hello"}], [message("user", "Hello")],
                 [{"role": "user", "content": [{"type": "input_text", "text": "Hello", "prompt_cache_breakpoint": {"mode": "explicit"}}], "id": None}]]
        texts = {text_of(create(server, form)) for form in forms}
        assert len(texts) == 1, texts
        tokens = create(server)["usage"]["input_tokens"]
        told = create(server, instructions="Speak.")
        same = [create(server, [{"role": role, "content": "Speak."}, {"role": "user", "content": "Hello"}]) for role in ("system", "developer")]
        assert told["usage"]["input_tokens"] > tokens
        assert [text_of(r) for r in same] == [text_of(told)] * 2
        both = create(server, [{"role": "system", "content": "Loud."}, {"role": "user", "content": "Hello"}], instructions="Speak.")
        one = create(server, [{"role": "system", "content": "Speak.\n\nLoud."}, {"role": "user", "content": "Hello"}])
        assert text_of(both) == text_of(one) and both["usage"]["input_tokens"] == one["usage"]["input_tokens"]
        assert create(server, "")["status"] == "incomplete"


def test_count():
    with Server(SERVER) as server:
        r = create(server, instructions="Speak.")
        for value, wanted in (({"input": "Hello", "instructions": "Speak."}, r["usage"]["input_tokens"]),
                              ({"input": "More", "previous_response_id": r["id"]},
                               create(server, "More", previous_response_id=r["id"])["usage"]["input_tokens"])):
            answer = server.post(PATH + "/input_tokens", {"model": "tiny", **value})
            assert answer.status == 200 and answer.json() == {"object": "response.input_tokens", "input_tokens": wanted}, answer.text
        refused(server.post(PATH + "/input_tokens", {"input": 1}), 400, "input")
        refused(server.post(PATH + "/input_tokens", {"input": "a", "max_output_tokens": 1}), 400, "max_output_tokens")


WRONG = [
    ("input", {"input": 5}), ("input", {"input": None}), ("input[0]", {"input": ["x"]}), ("input[0].role", {"input": [{"type": "message", "content": "x"}]}),
    ("input[0].role", {"input": [{"role": "tool", "content": "x"}]}), ("input[0].content", {"input": [{"role": "user"}]}),
    ("input[1].content[0].type", {"input": [{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}),
    ("input[0].content[0].text", {"input": [{"role": "user", "content": [{"type": "input_text", "text": 4}]}]}),
    ("input[0].content[0]", {"input": [{"role": "user", "content": [7]}]}), ("input[0].type", {"input": [{"type": 3}]}),
    ("input[0].type", {"input": [{"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}]}),
    ("input[0].extra", {"input": [{"role": "user", "content": "x", "extra": 1}]}),
    ("input[0].encrypted_content", {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]}),
    ("input[0].content[0]", {"input": [{"type": "reasoning", "summary": [], "content": [{"type": "output_text", "text": "x"}]}]}),
    ("instructions", {"instructions": ["x"]}), ("temperature", {"temperature": "1"}), ("temperature", {"temperature": 3}), ("top_p", {"top_p": -1}),
    ("max_output_tokens", {"max_output_tokens": 0}), ("max_output_tokens", {"max_output_tokens": 1.5}), ("metadata", {"metadata": []}),
    ("metadata", {"metadata": {"k": 1}}), ("metadata", {"metadata": {str(i): "" for i in range(17)}}), ("user", {"user": 1}), ("store", {"store": "yes"}),
    ("stream", {"stream": 1}), ("previous_response_id", {"previous_response_id": 1}), ("truncation", {"truncation": "some"}), ("truncation", {"truncation": True}),
    ("text.format", {"text": {"format": {"type": "json_object"}}}),
    ("text.format", {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}}), ("text", {"text": "x"}), ("text.verbosity", {"text": {"verbosity": "low"}}),
    ("top_logprobs", {"top_logprobs": 21}), ("include", {"include": ["other"]}), ("include", {"include": "x"}), ("reasoning", {"reasoning": "high"}),
    ("reasoning.effort", {"reasoning": {"effort": "loud"}}), ("reasoning.effort", {"reasoning": {"effort": "high"}}),
    ("tools", {"tools": [{"type": "function", "name": "f", "parameters": {}}]}), ("tool_choice", {"tool_choice": "required"}),
    ("tool_choice", {"tool_choice": {"type": "function", "name": "f"}}), ("parallel_tool_calls", {"parallel_tool_calls": 1}),
    ("conversation", {"conversation": "conv_1"}), ("prompt", {"prompt": {"id": "p"}}), ("context_management", {"context_management": [{"type": "compaction"}]}),
    ("background", {"background": 1}), ("background", {"background": True, "store": False}), ("service_tier", {"service_tier": "gold"}), ("n", {"n": 2}),
    ("stream_options.include_obfuscation", {"stream": True, "stream_options": {"include_obfuscation": True}}), ("nonsense", {"nonsense": 1}), ("generate", {"generate": False}),
]


def test_wrong_parameters():
    with Server(SERVER) as server:
        for param, change in WRONG:
            value = {**body(), **change}
            try:
                refused(server.post(PATH, value), 400, param)
            except AssertionError as e:
                raise AssertionError(f"{change}: {e}") from e
        answer = server.post(PATH, body(model="other"))
        assert answer.status == 404 and answer.json()["error"]["code"] == "model_not_found"
        assert server.post(PATH, "{").status == 400 and server.post(PATH, "[]").status == 400
        harmless = {"tools": [], "tool_choice": "none", "parallel_tool_calls": False, "text": {"format": {"type": "text"}, "verbosity": "medium"},
                    "reasoning": {"effort": None}, "include": ["reasoning.encrypted_content"], "service_tier": "auto", "prompt_cache_key": "k",
                    "safety_identifier": "s", "stream_options": {"include_obfuscation": False}, "conversation": None, "prompt": None}
        r = create(server, **harmless)
        assert r["tool_choice"] == "none" and r["parallel_tool_calls"] is False and r["prompt_cache_key"] == "k" and r["safety_identifier"] == "s"


# ---- Chains ----

QUESTIONS = ["Hello", "And then?", "Why?", "Where?", "Stop."]


def talk(server, questions, previous=None, headers=None, **more):
    """The responses of a chain."""
    out = []
    for question in questions:
        out.append(create(server, question, headers, previous_response_id=previous, **more))
        previous = out[-1]["id"]
    return out


def whole_conversation(server, questions, answers, **more):
    """The last answer, when everything is sent at once."""
    items = []
    for question, answer in zip(questions, answers):
        items += [message("user", question), message("assistant", answer)]
    return create(server, items + [message("user", questions[len(answers)])], **more)


def check_chain(server, chain, questions, more=1):
    texts = [text_of(r) for r in chain]
    for i in range(len(chain)):
        same = whole_conversation(server, questions, texts[:i])
        assert text_of(same) == texts[i], (i, texts[i], text_of(same))
        assert same["usage"]["input_tokens"] == chain[i]["usage"]["input_tokens"]
    for before, r in zip(chain[more - 1:], chain[more:]):
        cached = r["usage"]["input_tokens_details"]["cached_tokens"]
        assert cached >= before["usage"]["input_tokens"] - 8, (cached, before["usage"])
        assert r["previous_response_id"] == before["id"]


def test_chain():
    with Server(SERVER, "--cache-bytes", "0") as server:  # what is reused comes from checkpoints
        chain = talk(server, QUESTIONS)
        check_chain(server, chain, QUESTIONS)
        branch = talk(server, ["Other"], chain[1]["id"])[0]
        assert text_of(whole_conversation(server, [*QUESTIONS[:2], "Other"], [text_of(r) for r in chain[:2]])) == text_of(branch)
        assert branch["usage"]["input_tokens_details"]["cached_tokens"] >= chain[1]["usage"]["input_tokens"] - 8
        # Instructions are not carried over.
        told = create(server, instructions="Shout.")
        after = create(server, "More", previous_response_id=told["id"])
        plain = create(server, [message("user", "Hello"), message("assistant", text_of(told)), message("user", "More")])
        assert text_of(after) == text_of(plain) and after["instructions"] is None


def test_unstored():
    with Server(SERVER) as server:
        r = create(server, store=False)
        assert r["store"] is False
        refused(get(server, r["id"]), 404)
        refused(server.post(PATH, body(previous_response_id=r["id"])), 400, "previous_response_id", "previous_response_not_found")
        refused(server.post(PATH, body([{"type": "item_reference", "id": r["output"][0]["id"]}])), 404, "input[0].id")


def test_input_items_and_references():
    with Server(SERVER) as server:
        chain = talk(server, QUESTIONS[:3])
        path = f"{PATH}/{chain[2]['id']}/input_items"
        listed = server.get(path + "?order=asc").json()
        assert listed["object"] == "list" and not listed["has_more"]
        assert [i["role"] for i in listed["data"]] == ["user", "assistant", "user", "assistant", "user"]
        assert listed["first_id"] == listed["data"][0]["id"] and listed["last_id"] == listed["data"][-1]["id"]
        assert [i["content"][0]["text"] for i in listed["data"] if i["role"] == "user"] == QUESTIONS[:3]
        assert listed["data"][1] == chain[0]["output"][0]
        assert server.get(path).json()["data"] == listed["data"][::-1]
        page, seen = server.get(path + "?order=asc&limit=2").json(), []
        while True:
            seen += page["data"]
            if not page["has_more"]:
                break
            page = server.get(f"{path}?order=asc&limit=2&after={page['last_id']}").json()
        assert seen == listed["data"]
        for query, param in (("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("order=up", "order"), ("after=msg_1", "after")):
            refused(server.get(f"{path}?{query}"), 400, param)
        asked, said = listed["data"][0]["id"], chain[0]["output"][0]["id"]
        by_reference = create(server, [{"type": "item_reference", "id": asked}, {"id": said}, message("user", QUESTIONS[1])])
        assert text_of(by_reference) == text_of(chain[1])
        refused(server.post(PATH, body([{"type": "item_reference", "id": "msg_" + "0" * 54}])), 404, "input[0].id")
        refused(server.post(PATH, body([{"type": "item_reference", "id": "../../x"}])), 404, "input[0].id")
        refused(server.post(PATH, body([{"type": "item_reference", "id": asked}] * 1001)), 400, "input[1000]")


def test_truncation():
    with Server(SERVER) as server:
        long = "word " * 60
        chain = talk(server, [long])
        while server.post(PATH + "/input_tokens", {"input": long, "previous_response_id": chain[-1]["id"]}).json()["input_tokens"] < 512:
            chain += talk(server, [long], chain[-1]["id"])
        refused(server.post(PATH, body(long, previous_response_id=chain[-1]["id"])), 400, "input", "context_length_exceeded")
        r = create(server, long, previous_response_id=chain[-1]["id"], truncation="auto")
        assert r["truncation"] == "auto" and r["usage"]["input_tokens"] + 6 <= 512 and r["usage"]["output_tokens"] == 6
        alone = create(server, long)
        assert r["usage"]["input_tokens"] >= alone["usage"]["input_tokens"]
        refused(server.post(PATH, body("word " * 600, truncation="auto")), 400, "input", "context_length_exceeded")


# ---- What is kept ----


def test_restart():
    with Folder() as folder:
        with Server(SERVER, "--kv-dir", folder, "--cache-bytes", "0") as server:
            chain = talk(server, QUESTIONS[:3])
        with Server(SERVER, "--kv-dir", folder, "--cache-bytes", "0") as server:
            for r in chain:
                assert get(server, r["id"]).json() == r
            chain += talk(server, QUESTIONS[3:], chain[-1]["id"])
            check_chain(server, chain, QUESTIONS)
        names_there = os.listdir(os.path.join(folder, "responses"))
        assert "checkpoints" in names_there and all(re.match(r"resp_[0-9a-f]{48}\.json$", n) for n in names_there if n != "checkpoints"), names_there
        path = os.path.join(folder, "responses", chain[0]["id"] + ".json")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_delete():
    for args in ((), ("--kv-dir",)):
        with Folder() as folder, Server(SERVER, *args, *([folder] if args else []), "--cache-bytes", "0") as server:
            chain = talk(server, QUESTIONS[:3])
            answer = delete(server, chain[1]["id"])
            assert answer.status == 200 and answer.json() == {"id": chain[1]["id"], "object": "response", "deleted": True}
            for again in (delete(server, chain[1]["id"]), get(server, chain[1]["id"]), cancel(server, chain[1]["id"]),
                          server.get(f"{PATH}/{chain[1]['id']}/input_items")):
                refused(again, 404)
            refused(server.post(PATH, body(previous_response_id=chain[1]["id"])), 400, "previous_response_id")
            chain += talk(server, QUESTIONS[3:], chain[2]["id"])
            check_chain(server, chain, QUESTIONS, more=2)
            assert get(server, chain[0]["id"]).status == 200


def test_limits():
    with Folder() as folder:
        args = ("--kv-dir", folder, "--max-responses", "3")
        with Server(SERVER, *args) as server:
            made = [create(server, f"Number {i}")["id"] for i in range(5)]
            until(lambda: [get(server, name).status for name in made] == [404, 404, 200, 200, 200], "only the newest three are there")
            until(lambda: len(os.listdir(os.path.join(folder, "responses", "checkpoints"))) == 3, "three checkpoints")
            chained = create(server, "More", previous_response_id=made[4])
        with Server(SERVER, "--kv-dir", folder, "--max-responses", "1") as server:
            assert [get(server, name).status for name in (made[3], made[4], chained["id"])] == [404, 404, 200]
    with Server(SERVER, "--responses-bytes", "4000") as server:
        made = [create(server, f"Number {i}")["id"] for i in range(5)]
        found = [get(server, name).status for name in made]
        assert found[0] == 404 and found[-1] == 200, found
    with Server(SERVER, "--response-states-bytes", "1", "--cache-bytes", "0") as server:  # none fits; the chain works without
        chain = talk(server, QUESTIONS[:2])
        until(lambda: create(server, "More", previous_response_id=chain[1]["id"])["usage"]["input_tokens_details"]["cached_tokens"] == 0, "its state has gone")


def test_isolated():
    """Each connection has a process of its own: what they keep meets in the folder, limits included."""
    with Folder() as folder, Server(SERVER, "--isolate", "fork", *ROOM, "--kv-dir", folder, "--max-responses", "4") as server:
        chain = talk(server, QUESTIONS)
        check_chain(server, chain, QUESTIONS, more=len(chain))  # when a checkpoint of another process is there is a matter of time
        assert len([n for n in os.listdir(os.path.join(folder, "responses")) if n.endswith(".json")]) <= 4
        chain = talk(server, QUESTIONS[:1])
        assert get(server, chain[-1]["id"]).json() == chain[-1]
        running = create(server, background=True, max_output_tokens=30)["id"]  # its connection's process ends when it has
        until(lambda: get(server, running).json()["status"] == "incomplete", "it ends by itself")
        assert delete(server, running).status == 200 and get(server, running).status == 404
        running = create(server, background=True, max_output_tokens=3000)["id"]  # it is another process that computes it, to its end
        refused(server.post(PATH, body(previous_response_id=running)), 400, "previous_response_id")
        assert cancel(server, running).status == 409 and delete(server, running).status == 200
        until(lambda: server.metric("infer_children") == 1, "its process has ended")  # the one is asked
        assert get(server, running).status == 404
        running = create(server, background=True, max_output_tokens=ENDLESS)["id"]
        with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children", encoding="utf-8") as f:
            for pid in f.read().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        until(lambda: get(server, running).json()["status"] == "failed", "it is not waited for")


def test_damaged_files():
    with Folder() as folder:
        with Server(SERVER, "--kv-dir", folder) as server:
            made = [create(server, f"Number {i}") for i in range(6)]
        ids = [r["id"] for r in made]
        there = os.path.join(folder, "responses")
        paths = [os.path.join(there, name + ".json") for name in ids]
        with open(paths[0], "rb") as f:
            data = f.read()
        for path, damage in ((paths[0], data[:len(data) // 2]), (paths[1], b""), (paths[2], b"\0" * 400), (paths[3], data)):
            with open(path, "wb") as f:
                f.write(damage)
        with open(paths[4], "r+b") as f:
            f.seek(300)
            byte = f.read(1)
            f.seek(300)
            f.write(bytes([byte[0] ^ 1]))
        for name in ("resp_zz.json", "notes.txt", "resp_" + "0" * 48 + ".json.bak"):
            with open(os.path.join(there, name), "wb") as f:
                f.write(b"mine")
        with open(os.path.join(there, f".{ids[5]}.{2 ** 22 + 5}.tmp"), "wb") as f:  # no process has such a number
            f.write(b"half")
        os.symlink("/etc/passwd", os.path.join(there, "resp_" + "1" * 48 + ".json"))
        with Server(SERVER, "--kv-dir", folder, "--cache-bytes", "0") as server:
            for i, name in enumerate([*ids[:5], "resp_" + "1" * 48]):
                refused(get(server, name), 404)
                assert i == 5 or f"{name}.json: " in server.stderr(), server.stderr()
            assert get(server, ids[5]).json() == made[5]
            refused(server.post(PATH, body(previous_response_id=ids[0])), 400, "previous_response_id")
            create(server, "It goes on", previous_response_id=ids[5])
            left = os.listdir(there)
            assert not any(n.endswith(".tmp") for n in left) and "notes.txt" in left and ids[0] + ".json" in left


def test_damaged_checkpoints():
    """Truncated, and damaged in the middle: the chain goes on without, with the same text."""
    with Folder() as folder:
        with Server(SERVER, "--kv-dir", folder, "--cache-bytes", "0") as server:
            chain = talk(server, QUESTIONS[:2])
            want = [text_of(create(server, "More", previous_response_id=r["id"])) for r in chain]
        there = os.path.join(folder, "responses", "checkpoints")
        for name in os.listdir(there):
            path = os.path.join(there, name)
            size = os.path.getsize(path)
            with open(path, "r+b") as f:
                if name.startswith(chain[0]["id"]):
                    f.truncate(size // 2)
                else:
                    for at in range(4096, size, 512):
                        f.seek(at)
                        f.write(b"\xff\x7f\x00\x13")
        with Server(SERVER, "--kv-dir", folder, "--cache-bytes", "0") as server:
            for r, text in zip(chain, want):
                got = create(server, "More", previous_response_id=r["id"])
                assert text_of(got) == text and got["usage"]["input_tokens_details"]["cached_tokens"] == 0
                assert "skipped" in server.stderr(), server.stderr()


def limited(folder, blocks):
    """A program that runs the server with a limit on the size of the files it writes (blocks of 512 bytes)."""
    path = os.path.join(folder, "limited")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\nulimit -f {blocks}\nexec {SERVER} \"$@\"\n")
    os.chmod(path, 0o700)
    return path


def test_disk_full():
    with Folder() as folder:
        kv = os.path.join(folder, "kv")
        with Server(SERVER, "--kv-dir", kv) as server:
            old = talk(server, QUESTIONS[:2])
        with Server(limited(folder, 2), "--kv-dir", kv) as server:  # 1 KiB: no response fits
            new = talk(server, QUESTIONS[2:4], old[-1]["id"])
            assert "cannot be written" in server.stderr(), server.stderr()
            for r in [*old, *new]:  # what could not be written is kept in memory
                assert get(server, r["id"]).json() == r
            assert not [n for n in os.listdir(os.path.join(kv, "responses")) if n.endswith(".tmp")]
        with Server(SERVER, "--kv-dir", kv) as server:
            assert [get(server, r["id"]).json() for r in old] == old
            assert [get(server, r["id"]).status for r in new] == [404, 404]
            talk(server, QUESTIONS[2:3], old[-1]["id"])


def test_folder_cannot_be_used():
    with Folder() as folder:
        with open(os.path.join(folder, "responses"), "wb"):
            pass
        try:
            with Server(SERVER, "--kv-dir", folder):
                raise AssertionError("it started")
        except AssertionError as e:
            assert "responses" in str(e) and "started" not in str(e), e


# ---- Others ----


def test_tenants():
    with Folder() as folder:
        keys = os.path.join(folder, "keys")
        with open(keys, "w", encoding="utf-8") as f:
            f.write("one a salt-a\ntwo b salt-b\nthree a salt-a\n")
        one, two, three = ({"Authorization": f"Bearer {key}"} for key in ("one", "two", "three"))
        for args in ((), ("--kv-dir", os.path.join(folder, "kv"))):
            with Server(SERVER, "--api-key-file", keys, *ROOM, *args) as server:
                r = create(server, headers=one)
                name = r["id"]
                unknown = "resp_" + "0" * 48
                for ask in (lambda n: server.request("GET", f"{PATH}/{n}", None, two), lambda n: delete(server, n, two), lambda n: cancel(server, n, two),
                            lambda n: server.request("GET", f"{PATH}/{n}/input_items", None, two),
                            lambda n: server.request("GET", f"{PATH}/{n}?stream=true", None, two),
                            lambda n: server.post(PATH, body(previous_response_id=n), two),
                            lambda n: server.post(PATH, body([{"type": "item_reference", "id": n.replace("resp", "msg") + "000000"}]), two)):
                    theirs, nobodys = ask(name), ask(unknown)
                    assert theirs.status == nobodys.status and theirs.status in (400, 404)
                    assert theirs.text.replace(name[5:], "ID") == nobodys.text.replace(unknown[5:], "ID")
                running = create(server, headers=one, background=True, max_output_tokens=ENDLESS)["id"]
                refused(server.request("GET", f"{PATH}/{running}", None, two), 404)
                refused(cancel(server, running, two), 404)
                refused(delete(server, running, two), 404)
                refused(server.post(PATH, body(previous_response_id=running), two), 400, "previous_response_id", "previous_response_not_found")
                assert cancel(server, running, one).status == 200
                assert server.request("GET", f"{PATH}/{name}", None, three).json() == r  # the same salt: the same tenant
                assert server.request("GET", f"{PATH}/{name}", None, None).status == 401
                if args:
                    assert not any(b"salt-a" in open(os.path.join(d, n), "rb").read() for d, _, ns in os.walk(args[1]) for n in ns)  # pylint: disable=consider-using-with


def test_hostile_ids():
    with Folder() as folder, Server(SERVER, "--kv-dir", folder) as server:
        create(server)
        with open(os.path.join(folder, "secret.json"), "w", encoding="utf-8") as f:
            f.write("{}")
        before = sorted(os.listdir(folder))
        for name in ("..", "%2e%2e", "..%2f..%2fsecret", "%2e%2e%2fsecret", "resp_" + "0" * 47 + "/", "resp_", "%00", "resp_%00", "a" * 10240,
                     "resp_" + "A" * 48, "resp_" + "g" * 48, quote("resp_" + "\u00e9" * 24), "resp_" + "0" * 48 + "%00", "%ff%fe", "..%5csecret", "checkpoints"):
            for method, tail in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
                try:
                    answer = server.request(method, f"{PATH}/{name}{tail}", "" if method == "POST" else None)
                    assert answer.status in (400, 404, 405, 414, 431), (name[:40], method, answer.status)
                except http.client.RemoteDisconnected:
                    assert "%00" in name or len(name) > 10000, name  # what is no request line at all
            if "%" not in name:
                refused(server.post(PATH, body(previous_response_id=name)), 400, "previous_response_id", "previous_response_not_found")
        refused(server.post(PATH, body(previous_response_id="resp_\u0001" + "0" * 47)), 400, "previous_response_id")
        assert server.post(PATH, '{"input": "x", "previous_response_id": "resp_\\u0000"}').status == 400
        assert sorted(os.listdir(folder)) == before and create(server)["id"]


# ---- Running ----


def test_background():
    with Server(SERVER) as server:
        r = create(server, background=True, max_output_tokens=20)
        assert r["background"] is True and r["status"] == "queued" and r["output"] == []
        until(lambda: get(server, r["id"]).json()["status"] not in ("queued", "in_progress"), "it ends")
        done = get(server, r["id"]).json()
        assert done["status"] == "incomplete" and text_of(done) == text_of(create(server, max_output_tokens=20))
        events = stream(server, body(background=True, max_output_tokens=20))
        check_numbers(events)
        assert names(events) == ["created", "queued", "in_progress", *ITEM, "incomplete"]
        name = events[0]["response"]["id"]
        again = [json.loads(d) for _, d in server.events(f"{PATH}/{name}?stream=true", None, method="GET")]
        assert again == events
        rest = [json.loads(d) for _, d in server.events(f"{PATH}/{name}?stream=true&starting_after=5", None, method="GET")]
        assert rest == events[6:]
        refused(server.get(f"{PATH}/{create(server)['id']}?stream=true"), 400, "stream")
        refused(server.get(f"{PATH}/{name}?stream=maybe"), 400, "stream")
        refused(server.get(f"{PATH}/{name}?stream=true&starting_after=-1"), 400, "starting_after")
        assert cancel(server, name).json()["status"] == "incomplete"  # it has ended: as it is


def test_cancel_in_each_phase():
    with Server(SERVER, "--parallel", "1", *ROOM) as server:
        first = create(server, background=True, max_output_tokens=ENDLESS)["id"]
        queued = create(server, background=True, max_output_tokens=ENDLESS)["id"]
        assert get(server, queued).json()["status"] == "queued"
        refused(server.post(PATH, body(previous_response_id=queued)), 400, "previous_response_id")
        answer = cancel(server, queued)
        assert answer.status == 200 and answer.json()["status"] == "cancelled" and answer.json()["output"] == [], answer.text
        until(lambda: get(server, first).json()["status"] == "in_progress", "it runs")
        stopped = cancel(server, first)
        assert stopped.json()["status"] == "cancelled" and stopped.json()["usage"]["output_tokens"] < ENDLESS
        assert get(server, first).json() == stopped.json() == cancel(server, first).json()
        refused(cancel(server, create(server)["id"]), 400)
        refused(cancel(server, "resp_" + "0" * 48), 404)
        # From another connection, while its events stream.
        connection, response = server.begin("POST", PATH, body(stream=True, max_output_tokens=ENDLESS))
        events = []
        for _, data in read_events(response):
            events.append(json.loads(data))
            if len(events) == 6:
                other = cancel(server, events[0]["response"]["id"])
        connection.close()
        assert events[-1]["type"] == "response.incomplete" and events[-1]["response"]["status"] == "cancelled"
        assert events[-1]["response"] == other.json()
        assert names(events)[:-1] == ["created", "in_progress", *ITEM]


def test_delete_running():
    with Folder() as folder, Server(SERVER, "--kv-dir", folder, *ROOM) as server:
        name = create(server, background=True, max_output_tokens=ENDLESS)["id"]
        assert delete(server, name).status == 200
        until(lambda: server.metric("infer_active_sessions") == 0 and not [n for n in os.listdir(os.path.join(folder, "responses")) if n.endswith(".json")],
              "nothing of it is left")
        refused(get(server, name), 404)


def test_disconnect():
    with Server(SERVER, *ROOM) as server:
        for value in (body(stream=True, max_output_tokens=ENDLESS, store=True), body(max_output_tokens=ENDLESS)):
            connection = server.connection()
            connection.request("POST", PATH, json.dumps(value), {"Content-Type": "application/json"})
            if value.get("stream"):
                response = connection.getresponse()
                first = json.loads(next(read_events(response))[1])
                response.close()
            connection.close()
        until(lambda: get(server, first["response"]["id"]).json()["status"] == "cancelled", "it is cancelled")
        r = create(server, background=True, stream=None)  # one in the background goes on without its client
        connection, response = server.begin("POST", PATH, body(background=True, stream=True, max_output_tokens=60))
        name = json.loads(next(read_events(response))[1])["response"]["id"]
        response.close()
        connection.close()
        until(lambda: get(server, name).json()["status"] == "incomplete", "it ends by itself")
        assert get(server, name).json()["usage"]["output_tokens"] == 60 and get(server, r["id"]).status == 200


def test_killed():
    """kill -9 in the middle: what had ended is there, what ran in the background has failed."""
    with Folder() as folder:
        server = Server(SERVER, "--kv-dir", folder, *ROOM)
        try:
            done = create(server)
            running = create(server, background=True, max_output_tokens=ENDLESS)["id"]
            server.process.kill()
            server.process.wait()
        finally:
            server.close()
        with Server(SERVER, "--kv-dir", folder) as server:
            assert get(server, done["id"]).json() == done
            lost = get(server, running).json()
            assert lost["status"] == "failed" and lost["error"]
            create(server, "More", previous_response_id=done["id"])


def test_stopped():
    """SIGTERM lets a background response finish, within --drain; else it has failed."""
    for drain, status, tokens in (("60", "incomplete", LONG), ("0", "failed", ENDLESS)):
        with Folder() as folder:
            with Server(SERVER, "--kv-dir", folder, "--drain", drain, *ROOM) as server:
                name = create(server, background=True, max_output_tokens=tokens)["id"]
            with Server(SERVER, "--kv-dir", folder) as server:
                r = get(server, name).json()
                assert r["status"] == status and (status == "incomplete") == (r["error"] is None), r


def test_under_load():
    """Chains at once give what they give alone."""
    with Server(SERVER, "--parallel", "4") as server:
        want = [text_of(r) for r in talk(server, QUESTIONS[:3])]
        got, failed = [], []

        def one():
            try:
                got.append([text_of(r) for r in talk(server, QUESTIONS[:3])])
            except Exception as e:  # pylint: disable=broad-except
                failed.append(e)

        threads = [threading.Thread(target=one) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failed and got == [want] * 8, (failed, got)


# ---- WebSocket ----


def open_socket(server, headers=None):
    return WebSocket(server.socket(), PATH, headers)


def ws_create(ws, said="Hello", **more):
    ws.send({"type": "response.create", **body(said, **more)})


def ws_events(ws):
    events = []
    while not events or events[-1]["type"] not in ("response.completed", "response.incomplete", "response.failed", "error"):
        events.append(ws.receive())
        assert events[-1] is not None, events
    return events


def test_socket_events():
    with Server(SERVER) as server, open_socket(server) as ws:
        ws_create(ws)
        events = ws_events(ws)
        check_numbers(events)
        plain = stream(server, body())
        assert names(events) == ["created", "in_progress", *ITEM, "incomplete"]
        assert [e.get("delta") for e in events] == [e.get("delta") for e in plain]
        last = events[-1]["response"]
        assert get(server, last["id"]).json() == last and "stream_id" not in events[0]
        chain = [last]
        for question in QUESTIONS[1:]:
            ws_create(ws, question, previous_response_id=chain[-1]["id"])
            chain.append(ws_events(ws)[-1]["response"])
        assert [text_of(r) for r in chain] == [text_of(r) for r in talk(server, QUESTIONS)]
        ws.close()
        assert ws.close_code in (1000, 1005)


def test_socket_unstored():
    with Server(SERVER, "--cache-bytes", "0") as server, open_socket(server) as ws:
        ws_create(ws, store=False)
        first = ws_events(ws)[-1]["response"]
        ws_create(ws, "More", store=False, previous_response_id=first["id"])
        second = ws_events(ws)[-1]["response"]
        assert second["usage"]["input_tokens_details"]["cached_tokens"] >= first["usage"]["input_tokens"] - 8
        assert text_of(second) == text_of(whole_conversation(server, ["Hello", "More"], [text_of(first)]))
        refused(get(server, first["id"]), 404)
        with open_socket(server) as other:
            ws_create(other, previous_response_id=first["id"])
            error = ws_events(other)[-1]
            assert error["type"] == "error" and error["status"] == 400 and error["error"]["code"] == "previous_response_not_found", error
            assert error["error"]["param"] == "previous_response_id"
            ws_create(other)  # the connection goes on
            assert ws_events(other)[-1]["type"] == "response.incomplete"
        # Prepared without output.
        ws_create(ws, store=False, generate=False)
        events = ws_events(ws)
        assert names(events) == ["created", "in_progress", "completed"] and events[-1]["response"]["output"] == []
        ws.send({"type": "response.create", "temperature": 0, "max_output_tokens": 6, "store": False, "previous_response_id": events[0]["response"]["id"]})
        warmed = ws_events(ws)[-1]["response"]
        assert text_of(warmed) == text_of(first) and warmed["usage"]["input_tokens_details"]["cached_tokens"] > 0


def test_socket_order_and_lanes():
    with Server(SERVER) as server, open_socket(server) as ws:
        for question in QUESTIONS:
            ws_create(ws, question)
        texts = []
        for _ in QUESTIONS:
            events = ws_events(ws)
            check_numbers(events)
            texts.append(text_of(events[-1]["response"]))
        assert texts == [text_of(create(server, q)) for q in QUESTIONS]
        ws_create(ws, stream_id="slow", max_output_tokens=60)
        ws_create(ws, "Why?", stream_id="slow")
        ws_create(ws, "Where?", stream_id="fast")
        seen = {"slow": [], "fast": []}
        while sum(e["type"] == "response.incomplete" for lane in seen.values() for e in lane) < 3:
            event = ws.receive()
            seen[event["stream_id"]].append(event)
        check_numbers(seen["fast"])
        split = next(i for i, e in enumerate(seen["slow"]) if e["type"] == "response.incomplete") + 1
        check_numbers(seen["slow"][:split])
        check_numbers(seen["slow"][split:])
        assert text_of(seen["slow"][-1]["response"]) == text_of(create(server, "Why?"))
        assert text_of(seen["fast"][-1]["response"]) == text_of(create(server, "Where?"))


def test_socket_errors():
    with Server(SERVER, "--max-body", "20000") as server, open_socket(server) as ws:
        for sent, param in (("{", None), ("[]", None), ("7", None), ({}, "type"), ({"type": "session.update"}, "type"), ({"type": 3}, "type"),
                            ({"type": "response.create"}, "input"), ({"type": "response.create", **body(5)}, "input"),
                            ({"type": "response.create", **body(background=True)}, "background"), ({"type": "response.create", **body(stream=False)}, "stream"),
                            ({"type": "response.create", **body(stream_id=4)}, "stream_id"), ({"type": "response.create", **body(generate="x")}, "generate"),
                            ({"type": "response.create", **body(tools=[{"type": "function"}])}, "tools"),
                            ({"type": "response.create", **body(nonsense=1)}, "nonsense")):
            ws.send(sent)
            error = ws.receive()
            assert error["type"] == "error" and error["status"] == 400 and error["error"]["message"], error
            assert error["error"]["param"] == param and error["error"]["type"] == "invalid_request_error", (sent, error)
        ws.send({"type": "response.create", **body(tools=[{"type": "function"}], stream_id="lane")})
        assert ws.receive()["stream_id"] == "lane"
        ws.send({"type": "response.steer", "previous_response_id": "resp_1", "input": "x"})
        failed = ws.receive()
        assert failed["type"] == "response.steer.failed" and failed["error"]["code"] == "steering_not_supported" and failed["steer"]["input"] == "x"
        ws_create(ws, stream=True)
        assert ws_events(ws)[-1]["type"] == "response.incomplete"
        ws.send({"type": "response.create", **body("x" * 30000)})
        assert ws.receive() is None and ws.close_code == 1009


def test_socket_waiting_bytes():
    """Long messages that wait for their lane are few."""
    with Server(SERVER, "--ctx", "8192") as server, open_socket(server) as ws:
        for _ in range(8):
            ws_create(ws, max_output_tokens=6000)  # the first keeps the lane for long
        data = json.dumps({"type": "response.create", **body(user="x" * (9 << 20))}).encode()
        frame = b"\x81\xff" + struct.pack(">Q", len(data)) + bytes(4) + data  # the mask is zero
        ws.sock.sendall(frame + frame)
        event = ws.receive()
        while event["type"] != "error":
            event = ws.receive()
        assert event["status"] == 400 and event["error"]["message"] == "too many responses wait on this connection", event


def test_full_queue():
    with Server(SERVER, "--parallel", "1", "--max-queue", "1", *ROOM) as server, open_socket(server) as ws:
        running = create(server, background=True, max_output_tokens=ENDLESS)["id"]
        until(lambda: get(server, running).json()["status"] == "in_progress", "it runs")
        waiting = create(server, background=True, max_output_tokens=ENDLESS)["id"]
        ws_create(ws)
        error = ws.receive()
        assert error["type"] == "error" and error["status"] == 503, error
        answer = server.post(PATH, body(background=True))
        assert answer.status == 503 and answer.headers["retry-after"]
        for name in (running, waiting):
            assert cancel(server, name).json()["status"] == "cancelled"
        ws_create(ws)
        assert ws_events(ws)[-1]["type"] == "response.incomplete"


def test_socket_keys():
    with Folder() as folder:
        keys = os.path.join(folder, "keys")
        with open(keys, "w", encoding="utf-8") as f:
            f.write("one a salt-a\ntwo b salt-b\n")
        with Server(SERVER, "--api-key-file", keys) as server:
            try:
                open_socket(server)
                raise AssertionError("a socket without a key")
            except Refused as e:
                assert e.status == 401, e
            one, two = {"Authorization": "Bearer one"}, {"Authorization": "Bearer two"}
            with open_socket(server, one) as ws, open_socket(server, two) as other:
                ws_create(ws)
                name = ws_events(ws)[-1]["response"]["id"]
                ws_create(other, previous_response_id=name)
                assert ws_events(other)[-1]["error"]["code"] == "previous_response_not_found"
                assert server.request("GET", f"{PATH}/{name}", None, one).status == 200
                assert server.request("GET", f"{PATH}/{name}", None, two).status == 404


def test_socket_closed_while_running():
    with Server(SERVER, "--max-queue", "8", *ROOM) as server:
        for hard in (True, False):
            ws = open_socket(server)
            ws_create(ws, max_output_tokens=ENDLESS)
            for _ in range(3):
                ws_create(ws, "Later")
            while ws.receive()["type"] != "response.output_text.delta":
                pass
            if hard:
                ws.sock.shutdown(socket.SHUT_RDWR)
            ws.sock.close()
        until(lambda: server.metric("infer_active_sessions") == 0, "nothing runs any more")
        assert create(server)["status"] == "incomplete"


if __name__ == "__main__":
    assert PATIENCE and time
    tap.main(globals())
