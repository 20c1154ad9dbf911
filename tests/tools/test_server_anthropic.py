#!/usr/bin/env python3
"""infer-server's Messages API from outside: events in their order, accounting, what is refused. test_server_anthropic.py INFER-SERVER
What the official client makes of it: tests/clients/test_anthropic.py."""
import atexit
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import gguf_edit  # noqa: E402
import tap  # noqa: E402
from server_host import Server, TINY, until  # noqa: E402

BINARY = os.path.abspath(sys.argv[1])
HEADERS = {"x-api-key": "any", "anthropic-version": "2023-06-01", "anthropic-beta": "prompt-caching-2024-07-31,extended-cache-ttl-2025-04-11"}
HELLO = [{"role": "user", "content": "Once upon a time"}]
LONG = "It was told by those who were there, and by some who were not. " * 5
HEADER = "x-billing: "
THINKING = (b"{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
            b"{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
            b"{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}{% endif %}")
# Shows every message trimmed and in capitals, knows no system, and wants turns to alternate.
STRANGE = (b"{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set first = messages[0].content | trim + '\n' %}{% else %}"
           b"{% set rest = messages %}{% set first = '' %}{% endif %}{% for m in rest %}"
           b"{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
           b"[{{ m.role }}] {% if loop.first %}{{ first }}{% endif %}{{ m.content | trim | upper }} [end]\n{% endfor %}"
           b"{% if add_generation_prompt %}[assistant] {% endif %}")
SCRATCH = tempfile.mkdtemp(prefix="infer-anthropic-test-")
# Shows users alone.
SELECTIVE = (b"{% for m in messages %}{% if m.role == 'user' %}[user] {{ m.content }} [end]\n{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant] "
             b"{% endif %}")
TEMPLATES = {"thinking": THINKING, "strange": STRANGE, "selective": SELECTIVE}
KINDS = {"plain": [], "move": ["--move-header", HEADER, "--move-header", "x-other"], "narrow": ["--parallel", "1", "--ctx", "100000"],
         "uncached": ["--cache-bytes", "0"], "thinking": ["--ctx", "4096"], "strange": [], "selective": []}
running = {}


def host(kind="plain"):
    if kind not in running:
        model = TINY
        if kind in TEMPLATES:
            model = os.path.join(SCRATCH, kind + ".gguf")
            with open(TINY, "rb") as source, open(model, "wb") as out:
                out.write(gguf_edit.edit(source.read(), {b"tokenizer.chat_template": TEMPLATES[kind]}))
        running[kind] = Server(BINARY, "--alias", "tiny", *KINDS[kind], model=model, headers=HEADERS)
    return running[kind]


@atexit.register
def stop_all():
    for server in running.values():
        server.close()
    shutil.rmtree(SCRATCH, ignore_errors=True)


def body(**more):
    return dict({"model": "tiny", "max_tokens": 12, "temperature": 0, "messages": HELLO}, **more)


def ask(kind="plain", **more):
    answer = host(kind).post("/v1/messages", body(**more))
    assert answer.status == 200, answer.text
    assert answer.headers["request-id"] == answer.headers["x-request-id"]
    return answer.json()


def refused(words, kind="plain", path="/v1/messages", status=400, **more):
    answer = host(kind).post(path, body(**more))
    assert answer.status == status, (answer.status, answer.text)
    shape = answer.json()
    assert shape["type"] == "error" and shape["request_id"] == answer.headers["request-id"] and sorted(shape) == ["error", "request_id", "type"]
    assert sorted(shape["error"]) == ["message", "type"]
    for word in words:
        assert word in shape["error"]["message"], f"{word!r} not in {shape['error']['message']!r}"
    return shape["error"]


def text_of(message):
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def total(usage):
    return usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]


def count(kind="plain", **more):
    answer = host(kind).post("/v1/messages/count_tokens", body(**more))
    assert answer.status == 200, answer.text
    assert list(answer.json()) == ["input_tokens"]
    return answer.json()["input_tokens"]


# ---- Streams ----

def test_events_in_order():
    events = list(host().events("/v1/messages", body(stream=True)))
    names = [name for name, _ in events]
    for name, data in events:
        assert json.loads(data)["type"] == name
    deltas = names.count("content_block_delta")
    assert deltas > 1 and names == ["message_start", "content_block_start", "ping"] + ["content_block_delta"] * deltas + \
        ["content_block_stop", "message_delta", "message_stop"], names
    whole = ask()
    assert "".join(json.loads(data)["delta"]["text"] for name, data in events if name == "content_block_delta") == text_of(whole)
    start, end = json.loads(events[0][1])["message"], json.loads(events[-2][1])
    assert sorted(start) == sorted(whole) and start["content"] == [] and start["stop_reason"] is None and start["usage"]["output_tokens"] == 0
    assert end["delta"]["stop_reason"] == whole["stop_reason"] == "max_tokens" and end["usage"]["output_tokens"] == 12


def test_events_of_an_empty_answer():
    events = [name for name, _ in host().events("/v1/messages", body(stream=True, logit_bias={"1": 100}))]
    assert events == ["message_start", "ping", "message_delta", "message_stop"], events
    assert ask(logit_bias={"1": 100})["content"] == []


def test_events_of_thinking():
    wanted = body(stream=True, max_tokens=1100, thinking={"type": "enabled", "budget_tokens": 1024}, temperature=1, seed=3, logit_bias={"1": -100})
    events = [(name, json.loads(data)) for name, data in host("thinking").events("/v1/messages", wanted)]
    short = []
    for name, data in events:
        key = (name, data.get("index"), data.get("delta", {}).get("type"))
        if not short or short[-1] != key:
            short.append(key)
    assert short == [("message_start", None, None), ("content_block_start", 0, None), ("ping", None, None),
                     ("content_block_delta", 0, "thinking_delta"), ("content_block_delta", 0, "signature_delta"), ("content_block_stop", 0, None),
                     ("content_block_start", 1, None), ("content_block_delta", 1, "text_delta"), ("content_block_stop", 1, None),
                     ("message_delta", None, None), ("message_stop", None, None)], short
    assert events[1][1]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    del wanted["stream"]
    whole = ask("thinking", **wanted)
    assert whole["content"][0]["thinking"] == "".join(d["delta"].get("thinking", "") for n, d in events if n == "content_block_delta")
    assert whole["content"][1]["text"] == "".join(d["delta"].get("text", "") for n, d in events if n == "content_block_delta")
    usage = whole["usage"]
    assert usage["output_tokens"] == 1100 and 1024 <= usage["output_tokens_details"]["thinking_tokens"] < 1030, usage


def test_thinking_within_its_budget():
    """An answer that ends by itself before the budget does is what it is without one."""
    wanted = {"max_tokens": 1100, "temperature": 1, "seed": 5, "logit_bias": {"1": 9}}
    free, held = ask("thinking", **wanted), ask("thinking", thinking={"type": "enabled", "budget_tokens": 1024}, **wanted)
    assert free["content"] == held["content"] and free["stop_reason"] == held["stop_reason"] == "end_turn"
    assert free["usage"]["output_tokens"] == held["usage"]["output_tokens"] < 1024


def test_disconnect_ends_the_answer():
    for stream in (True, False):
        connection = host("narrow").connection()
        connection.request("POST", "/v1/messages", json.dumps(body(stream=stream, max_tokens=90000, logit_bias={"1": -100})), HEADERS)
        if stream:
            connection.getresponse().readline()
        else:
            until(lambda: host("narrow").metric("infer_sessions_active"), "the answer begins")
        connection.close()
        until(lambda: not host("narrow").metric("infer_sessions_active"), "the answer ends with its client")


def test_time_limit():
    message = ask("narrow", max_tokens=90000, timeout=0.3, logit_bias={"1": -100})
    assert message["stop_reason"] == "pause_turn" and text_of(message)


def test_errors_in_a_running_stream():
    """The answer outgrows the memory that there is: what was sent stands, then comes an error, and nothing behind it."""
    wanted = body(max_tokens=2000, logit_bias={"5": 100})
    with Server(BINARY, "--kv-budget", "300K", "--cache-bytes", "0", "--ctx", "4096", headers=HEADERS) as server:
        events = list(server.events("/v1/messages", dict(wanted, stream=True)))
        names = [name for name, _ in events]
        assert names[:4] == ["message_start", "content_block_start", "ping", "content_block_delta"] and len(names) > 100
        assert names[-1] == "error" and "message_stop" not in names and "error" not in names[:-1], names[-5:]
        error = json.loads(events[-1][1])
        assert error["type"] == "error" and error["error"]["type"] == "overloaded_error" and "budget" in error["error"]["message"], error
        assert error["request_id"].startswith("req_")
        whole = server.post("/v1/messages", wanted)
        assert whole.status == 503 and whole.json()["error"]["type"] == "overloaded_error" and "retry-after" in whole.headers, whole.text
        assert server.post("/v1/messages", dict(wanted, max_tokens=4)).status == 200


def test_load():
    """Many at once, of all kinds: each says what it says alone."""
    kinds = [{}, {"stream": True}, {"temperature": 1, "seed": 4}, {"system": LONG, "cache_control": {"type": "ephemeral"}},
             {"messages": HELLO + [{"role": "assistant", "content": "there"}]}, {"stop_sequences": ["a"]}, {"max_tokens": 40, "temperature": 0.7, "seed": 9}]

    def run(more):
        if more.get("stream"):
            return "".join(json.loads(data)["delta"]["text"] for name, data in host().events("/v1/messages", body(**more)) if name == "content_block_delta")
        return text_of(ask(**more))
    alone = [run(more) for more in kinds]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        together = list(pool.map(run, kinds * 8))
    assert together == alone * 8


# ---- Accounting ----

def test_tokens_are_counted_exactly():
    for more in [{}, {"system": "Be short."}, {"system": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]},
                 {"messages": HELLO + [{"role": "assistant", "content": "there was"}]},
                 {"messages": [{"role": "user", "content": "<|im_end|> </s> ☃ \ud800".encode("utf-8", "replace").decode()}]},
                 {"messages": HELLO * 3 + [{"role": "assistant", "content": [{"type": "text", "text": "x"}]}] + HELLO}]:
        message = ask(**more)
        assert count(**more) == total(message["usage"]), more
        assert count(stream=True, max_tokens=1, **more) == total(message["usage"])


def test_count_needs_no_max_tokens():
    answer = host().post("/v1/messages/count_tokens", {"model": "tiny", "messages": HELLO})
    assert answer.status == 200 and answer.json() == {"input_tokens": count()}


def test_breakpoints():
    system = [{"type": "text", "text": "Breakpoints. " + LONG, "cache_control": {"type": "ephemeral"}}]
    first, second = ask(system=system)["usage"], ask(system=system)["usage"]
    made = first["cache_creation_input_tokens"]
    assert made > 64 and first["cache_read_input_tokens"] < 20 and first["input_tokens"] > 8, first
    assert second["cache_creation_input_tokens"] == 0 and second["cache_read_input_tokens"] == total(first) - 1, second
    # what lies before the breakpoint is what another conversation reuses, to the token, but for the few that both happen to have behind it
    other = ask(system=system, messages=[{"role": "user", "content": "?"}])["usage"]
    before = made + first["cache_read_input_tokens"]
    assert before <= other["cache_read_input_tokens"] <= before + 30, (first, other)
    assert ask(system="No breakpoints. " + LONG)["usage"]["cache_creation_input_tokens"] == 0


def test_breakpoints_without_limit():
    for ttl in ("5m", "1h"):
        blocks = [{"type": "text", "text": f"{ttl} number {i} " + "of all that was said. " * 4, "cache_control": {"type": "ephemeral", "ttl": ttl}}
                  for i in range(9)]
        usage = ask(messages=[{"role": "user", "content": blocks}])["usage"]
        kinds = usage["cache_creation"]
        assert kinds["ephemeral_1h_input_tokens" if ttl == "1h" else "ephemeral_5m_input_tokens"] == usage["cache_creation_input_tokens"] > 100
        assert sum(kinds.values()) == usage["cache_creation_input_tokens"] and total(usage) == count(messages=[{"role": "user", "content": blocks}])


def test_automatic_breakpoint():
    usage = ask(cache_control={"type": "ephemeral", "ttl": "1h"}, system="Automatic. " + LONG)["usage"]
    assert usage["cache_creation"]["ephemeral_1h_input_tokens"] > 64 and 0 < usage["input_tokens"] < 25, usage


def test_breakpoints_in_strange_templates():
    """What the template does to a text does not matter: it trims, changes letters, and puts the system prompt into the first message."""
    wanted = {"system": [{"type": "text", "text": "  Strange. " + LONG + "  ", "cache_control": {"type": "ephemeral"}}],
              "messages": [{"role": "user", "content": [{"type": "text", "text": " one "}, {"type": "text", "text": "two"}]},
                           {"role": "assistant", "content": "yes"}, {"role": "user", "content": "and?"}]}
    usage = ask("strange", **wanted)["usage"]
    assert usage["cache_creation_input_tokens"] > 64 and usage["input_tokens"] > 10 and total(usage) == count("strange", **wanted), usage
    refused(["roles must alternate"], "strange", messages=[{"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}])


def test_what_a_template_does_not_show():
    """A breakpoint there lies at the beginning; an answer that has begun there cannot be continued."""
    system = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
    usage = ask("selective", system=system, messages=[{"role": "user", "content": LONG}])["usage"]
    assert usage["cache_creation_input_tokens"] == 0 and usage["input_tokens"] > 64 and total(usage) == count("selective", messages=[{"role": "user", "content": LONG}])
    refused(["messages", "continued"], "selective", messages=HELLO + [{"role": "assistant", "content": "there"}])


def test_without_a_cache_nothing_is_created():
    for _ in range(2):
        usage = ask("uncached", cache_control={"type": "ephemeral"}, system=LONG)["usage"]
        assert usage["cache_creation_input_tokens"] == usage["cache_read_input_tokens"] == 0 and usage["input_tokens"] > 64


def test_short_prompts_are_not_kept():
    usage = ask(cache_control={"type": "ephemeral"}, messages=[{"role": "user", "content": "brief"}])["usage"]
    assert total(usage) < 64 and usage["cache_creation_input_tokens"] == 0


# ---- The header that changes ----

def header_system(kind, number):
    line = f"{HEADER}cch={number}; cc_version=2.1"
    if kind == "block":
        return [{"type": "text", "text": line}, {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
    if kind == "line":
        return f"{line}\n{LONG}"
    return [{"type": "text", "text": f"{line}\nx-other: {number}\n{LONG}"}]


def test_moved_header():
    for kind in ("block", "line", "lines"):
        tokens = []
        for number in (1001, 2002):
            usage = ask("move", system=header_system(kind, number))["usage"]
            tokens.append(usage["cache_read_input_tokens"])
            assert total(usage) == count("move", system=header_system(kind, number))
        assert tokens[-1] > 64, (kind, tokens)
    # left where it stands it keeps the cache from being used
    ask(system=header_system("block", 1001))
    assert ask(system=header_system("block", 2002))["usage"]["cache_read_input_tokens"] < 64


def test_moved_header_is_still_read():
    """The same as if the client had put it at the end itself; and only lines at the beginning move."""
    assert ask("move", system=f"{HEADER}a\nBe kind.")["content"] == ask("move", system=f"Be kind.\n{HEADER}a")["content"]
    assert count("move", system=f"{HEADER}a\nBe kind.") == count("move", system=f"Be kind.\n{HEADER}a")
    assert count("move", system=HEADER + "alone") == count(system=HEADER + "alone")
    user = [{"role": "user", "content": f"{HEADER}x\nyes"}]
    assert ask("move", messages=user)["content"] == ask(messages=user)["content"]


# ---- Bodies ----

def test_turns_of_one_side_are_one():
    one = ask(messages=[{"role": "user", "content": "Once upon\na time"}])
    two = ask(messages=[{"role": "user", "content": "Once upon"}, {"role": "user", "content": [{"type": "text", "text": "a time"}]}])
    assert one["content"] == two["content"] and total(one["usage"]) == total(two["usage"])


def test_begun_answers_go_on():
    for kind in ("plain", "strange"):
        whole = ask(kind, max_tokens=24)
        begun = text_of(whole)[:10].rstrip()
        message = ask(kind, messages=HELLO + [{"role": "assistant", "content": begun}])
        assert total(message["usage"]) > total(whole["usage"]), kind
        if kind == "plain":
            assert message["content"] and not text_of(message).startswith(begun)
    empty = ask(messages=HELLO + [{"role": "assistant", "content": ""}])
    assert text_of(empty) == text_of(ask())


def test_stop_sequences():
    whole = text_of(ask(max_tokens=24))
    word = whole.split()[4]
    message = ask(max_tokens=24, stop_sequences=["\u2603", word])
    assert message["stop_reason"] == "stop_sequence" and message["stop_sequence"] == word and text_of(message) == whole[:whole.index(word)]
    events = list(host().events("/v1/messages", body(stream=True, max_tokens=24, stop_sequences=[word])))
    assert json.loads(events[-2][1])["delta"]["stop_sequence"] == word


def test_accepted_without_effect():
    plain = ask()
    same = ask(metadata={"user_id": "someone"}, service_tier="auto", speed="standard", tools=[], mcp_servers=[], container=None, tool_choice={"type": "auto"},
               thinking={"type": "disabled"}, output_config={"effort": "high"}, top_k=0, top_p=1, stop_sequences=[])
    assert plain["content"] == same["content"]


def test_refused_by_name():
    image = {"type": "image", "source": {"type": "url", "url": "http://example.invalid/x.png"}}
    use = {"type": "tool_use", "id": "t", "name": "n", "input": {}}

    def user(*blocks):
        return {"messages": [{"role": "user", "content": list(blocks)}]}
    text = {"type": "text", "text": "x"}
    for words, more in [
            (["messages.0.content.1", "image"], user(text, image)), (["messages.0.content.0", "document"], user({"type": "document"})),
            (["messages.0.content.0", "tool_result"], user({"type": "tool_result", "tool_use_id": "t"})),
            (["messages.1.content.0", "tool_use"], {"messages": HELLO + [{"role": "assistant", "content": [use]}]}),
            (["messages.0.content.0", "thinking"], user({"type": "thinking", "thinking": "x", "signature": "y"})),
            (["messages.0.content.0", "colour"], user(dict(text, colour=1))), (["messages.0.content.0.text"], user({"type": "text"})),
            (["messages.0.content.0.type"], user({"text": "x"})), (["messages.0.content.0"], user("x")), (["messages.0.content"], {"messages": [{"role": "user"}]}),
            (["messages.0", "non-empty"], {"messages": [{"role": "user", "content": ""}]}), (["messages.0"], {"messages": [7]}),
            (["messages.0", "name"], {"messages": [{"role": "user", "content": "x", "name": "y"}]}), (["messages"], {"messages": "x"}),
            (["messages.0", "role"], {"messages": [{"role": "tool", "content": "x"}]}), (["system"], {"system": 4}), (["system.0"], {"system": [image]}),
            (["messages.0.content.0.cache_control", "ttl"], user(dict(text, cache_control={"type": "ephemeral", "ttl": "1d"}))),
            (["messages.0.content.0.cache_control", "type"], user(dict(text, cache_control={}))),
            (["thinking.enabled.budget_tokens"], {"thinking": {"type": "enabled", "budget_tokens": 10}, "max_tokens": 2000}),
            (["thinking.type"], {"thinking": {"type": "sometimes"}}), (["thinking.type"], {"thinking": 3}),
            (["tools"], {"tools": [{"name": "x", "input_schema": {}}]}), (["tool_choice"], {"tool_choice": {"type": "tool", "name": "x"}}),
            (["mcp_servers"], {"mcp_servers": [{"type": "url"}]}), (["container"], {"container": "c"}), (["n"], {"n": 2}), (["stop"], {"stop": "x"}),
            (["output_config.format"], {"output_config": {"format": {"type": "json_schema"}}}), (["output_config.effort"], {"output_config": {"effort": "huge"}}),
            (["context_management"], {"context_management": {"edits": [{"type": "x"}]}}), (["service_tier"], {"service_tier": "gold"}),
            (["metadata"], {"metadata": {"x": 1}}), (["max_tokens"], {"max_tokens": 1.5}), (["max_tokens"], {"max_tokens": None}), (["temperature"], {"temperature": 1.01}),
            (["top_p"], {"top_p": 1.1}), (["top_k"], {"top_k": -1}), (["stop_sequences"], {"stop_sequences": ["a"] * 65}), (["stop_sequences.0"], {"stop_sequences": [""]}),
            (["chat_template_kwargs"], {"chat_template_kwargs": []}), (["wrong"], {"wrong": None}), (["stream"], {"stream": "yes"})]:
        if more == {"thinking": {"type": "enabled", "budget_tokens": 10}, "max_tokens": 2000}:
            error = refused(words, "thinking", **more)
        else:
            error = refused(words, **more)
        assert error["type"] == "invalid_request_error"
    refused(["max_tokens", "budget"], "thinking", max_tokens=1024, thinking={"type": "enabled", "budget_tokens": 1024})
    assert ask()["content"]


def test_other_errors():
    assert refused(["claude-x"], status=404, model="claude-x")["type"] == "not_found_error"
    answer = host().post("/v1/messages", b'{"model": ')
    assert answer.status == 400 and answer.json()["error"]["type"] == "invalid_request_error"
    assert refused([], messages=[{"role": "user", "content": "word " * 3000}])["type"] == "invalid_request_error"
    with Server(BINARY, "--api-key", "k") as keyed:
        answer = keyed.post("/v1/messages", body())
        assert answer.status == 401 and answer.json()["error"]["type"] == "authentication_error" and answer.json()["request_id"]
        for key in ({"x-api-key": "k"}, {"authorization": "Bearer k"}):
            assert keyed.post("/v1/messages", body(), key).status == 200


def test_models():
    """In Anthropic's shape for those who send its version; pages; adapters are models too."""
    page = host().get("/v1/models", **HEADERS).json()
    assert sorted(page) == ["data", "first_id", "has_more", "last_id"] and page["first_id"] == page["last_id"] == "tiny" and page["has_more"] is False
    model = page["data"][0]
    assert model["type"] == "model" and model["id"] == "tiny" and model["created_at"].endswith("Z") and model["max_input_tokens"] == 512
    assert host().get("/v1/models/tiny", **HEADERS).json() == model
    with Server(BINARY) as other:
        assert other.get("/v1/models").json()["object"] == "list"  # OpenAI's
        assert other.get("/v1/models", **{"anthropic-version": "2023-06-01"}).json()["last_id"] == "tiny"
    for query, word in [("limit=0", "limit"), ("limit=x", "limit"), ("limit=1001", "limit"), ("after_id=nobody", "after_id"),
                        ("after_id=tiny&before_id=tiny", "before_id")]:
        answer = host().get("/v1/models?" + query)
        assert answer.status == 400 and word in answer.json()["error"]["message"], answer.text
    for query in ("after_id=tiny", "before_id=tiny"):
        page = host().get("/v1/models?" + query).json()
        assert page == {"data": [], "has_more": False, "first_id": None, "last_id": None}, page
    answer = host().get("/v1/models/nobody")
    assert answer.status == 404 and answer.json()["error"]["type"] == "not_found_error" and answer.json()["type"] == "error"
    assert host().post("/v1/elsewhere", {}).json()["error"]["type"] == "not_found_error"


def test_pages_of_models():
    names = [f"tone{i}" for i in range(5)]
    paths = {name: os.path.join(SCRATCH, name) for name in ("kind.txt", "rude.txt", "vector.gguf")}
    for name, text in (("kind.txt", "How kind\nSo good of you\n"), ("rude.txt", "How rude\nGo away\n")):
        with open(paths[name], "w", encoding="utf-8") as out:
            out.write(text)
    subprocess.run([os.path.join(os.path.dirname(BINARY), "infer-steer"), "-m", TINY, "-p", paths["kind.txt"], "-n", paths["rude.txt"],
                    "-o", paths["vector.gguf"]], check=True, stdout=subprocess.DEVNULL)
    options = [x for name in names for x in ("--steer", f"{name}={paths['vector.gguf']}")]
    with Server(BINARY, *options, headers=HEADERS) as server:
        got, query = [], "limit=2"
        for _ in range(4):
            page = server.get("/v1/models?" + query).json()
            got += [model["id"] for model in page["data"]]
            if not page["has_more"]:
                break
            query = "limit=2&after_id=" + page["last_id"]
        assert got == ["tiny"] + names, got
        back = server.get("/v1/models?limit=2&before_id=tone3").json()
        assert [m["id"] for m in back["data"]] == ["tone1", "tone2"] and back["has_more"] is True
        assert server.get("/v1/models/tone4").json()["id"] == "tone4"
        message = server.post("/v1/messages", body(model="tone4")).json()
        assert message["model"] == "tone4" and message["content"]


def test_damaged_bodies():
    """Cut and with bytes changed: an answer or an error, never the end of the server."""
    good = json.dumps(body(system=[{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}], thinking={"type": "adaptive"}, max_tokens=1,
                           stop_sequences=["x"], messages=HELLO + [{"role": "assistant", "content": [{"type": "text", "text": "b"}]}])).encode()
    state = 12345
    for i in range(300):
        bad = bytearray(good)
        for _ in range(1 + i % 3):
            state = (state * 1103515245 + 12345) % 2 ** 31
            bad[state % len(bad)] = (state >> 8) % 256
        path = "/v1/messages/count_tokens" if i % 2 else "/v1/messages"
        answer = host().post(path, bytes(bad[:len(bad) - (i % 7) * (i % 5)]))
        assert answer.status in (200, 400, 404), (answer.status, bad)
    assert ask()["content"]


def test_servers_end_well():
    for kind, server in list(running.items()):
        assert server.stop() == 0, (kind, server.stderr())


if __name__ == "__main__":
    tap.main(globals())
