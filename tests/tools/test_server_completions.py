#!/usr/bin/env python3
"""infer-server's /v1/completions. test_server_completions.py INFER-SERVER"""
import concurrent.futures
import json
import math
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import gguf_edit  # noqa: E402
import tap  # noqa: E402
from server_host import TINY, Server, until  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
PATH = "/v1/completions"


def body(prompt="Once upon a time", **more):
    return {"prompt": prompt, "seed": 3, **more}


def complete(server, prompt="Once upon a time", **more):
    answer = server.post(PATH, body(prompt, **more))
    assert answer.status == 200, answer.text
    return answer.json()


def text(answer, index=0):
    return answer["choices"][index]["text"]


def streamed(server, request):
    """Texts, ends, log-probabilities by index, and usage."""
    texts, ends, logprobs, usage, last = {}, {}, {}, None, None
    for _, data in server.events(PATH, {**request, "stream": True}):
        last = data
        if data == "[DONE]":
            continue
        chunk = json.loads(data)
        assert chunk["object"] == "text_completion" and usage is None
        if not chunk["choices"]:
            usage = chunk["usage"]
            continue
        [choice] = chunk["choices"]
        i = choice["index"]
        assert i not in ends
        texts[i] = texts.get(i, "") + choice["text"]
        for key, values in (choice["logprobs"] or {}).items():
            if values is not None:
                logprobs.setdefault(i, {}).setdefault(key, []).extend(values)
        if choice["finish_reason"]:
            ends[i] = (choice["finish_reason"], choice["finish_detail"], choice["stop_reason"])
    assert last == "[DONE]" and sorted(ends) == sorted(texts)
    return texts, ends, logprobs, usage


def at_rest(server):
    return server.metric("infer_sessions_active") == 0 and server.metric("infer_requests_waiting") == 0


def test_shape():
    with Server(SERVER) as server:
        answer = complete(server)
        assert answer["object"] == "text_completion" and answer["id"].startswith("cmpl-") and answer["model"] == "tiny" and answer["seed"] == 3
        [choice] = answer["choices"]
        assert set(choice) >= {"text", "index", "logprobs", "finish_reason"} and choice["logprobs"] is None and choice["text"]
        assert choice["finish_reason"] == "length" and answer["usage"]["completion_tokens"] == 16  # OpenAI's default
        assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + 16
        assert text(complete(server, model="tiny")) == choice["text"]


def test_prompts_of_all_kinds():
    with Server(SERVER) as server:
        ids = server.post("/tokenize", {"text": "Once upon a time"})
        alone = [text(complete(server, p)) for p in ("Once upon a time", "The", "Yes, ")]
        together = complete(server, ["Once upon a time", "The", "Yes, "])
        assert [c["index"] for c in together["choices"]] == [0, 1, 2] and [text(together, i) for i in range(3)] == alone
        tokens = [0, 40, 50, 60]
        by_ids = complete(server, tokens)
        assert by_ids["usage"]["prompt_tokens"] == 4
        lists = complete(server, [tokens, [0, 7]])
        assert text(lists) == text(by_ids) and len(lists["choices"]) == 2 and lists["usage"]["prompt_tokens"] == 6
        mixed = complete(server, ["The", tokens])
        assert text(mixed) == alone[1] and text(mixed, 1) == text(by_ids)
        for empty in ("", None, [""]):
            assert complete(server, empty)["usage"]["prompt_tokens"] == 1  # BOS
        assert ids.status == 200 and text(complete(server, ids.json()["tokens"])) == alone[0]
        for wrong in (5, {}, [], [[]], [5.5], [None], [[1, "x"]], ["x", 5], [1536], [-1], [1, "x"], True, ["x"] * 257, [[1536]]):
            answer = server.post(PATH, body(wrong))
            assert answer.status == 400 and answer.json()["error"]["param"] == "prompt", (wrong, answer.text)
        answer = server.post(PATH, body("word " * 2000))
        assert answer.status == 400 and answer.json()["error"]["code"] == "context_length_exceeded"
        answer = server.post(PATH, body(["ok", "word " * 2000, "ok"]))
        assert answer.status == 400 and answer.json()["error"]["code"] == "context_length_exceeded"
        until(lambda: at_rest(server), "the others end too")


def test_choices_of_several_prompts():
    with Server(SERVER) as server:
        prompts = ["Once", "The", "A"]
        answer = complete(server, prompts, n=2)
        assert [c["index"] for c in answer["choices"]] == list(range(6))
        assert [text(answer, i) for i in range(6)] == [text(complete(server, p, seed=3 + k)) for p in prompts for k in range(2)]
        texts, ends, _, usage = streamed(server, body(prompts, n=2, stream_options={"include_usage": True}))
        assert texts == {i: text(answer, i) for i in range(6)} and usage == answer["usage"] | {"prompt_tokens_details": usage["prompt_tokens_details"]}
        assert ends == {i: (c["finish_reason"], c["finish_detail"], c["stop_reason"]) for i, c in enumerate(answer["choices"])}


def test_what_the_cache_gave_each_prompt():
    long = "Once upon a time there was a little hen " * 10
    with Server(SERVER) as server:
        complete(server, long + "and a fox", max_tokens=1)
        for prompts in ([long + "and a fox", "The", long + "and a dog"], [long + "and a fox"], ["The"] * 40):
            connection, response = server.begin("POST", PATH, body(prompts, max_tokens=1))
            usage = json.loads(response.read())["usage"]
            reasons = response.headers.get_all("x-cache-reason")
            connection.close()
            assert len(reasons) == min(len(prompts), 32), reasons
            parts = [r.split() for r in reasons] # hit; 99 of 100 tokens
            if len(prompts) < 32:
                assert sum(int(p[1]) for p in parts) == usage["prompt_tokens_details"]["cached_tokens"]
                assert sum(int(p[3]) for p in parts) == usage["prompt_tokens"]
            if len(prompts) == 3:
                assert parts[0][0] == "hit;" and parts[2][0] == "differs;", reasons


def test_logprobs():
    with Server(SERVER) as server:
        for n in range(6):
            choice = complete(server, logprobs=n)["choices"][0]
            got = choice["logprobs"]
            assert "".join(got["tokens"]) == choice["text"] and len(got["token_logprobs"]) == 16
            start = len("Once upon a time")
            assert got["text_offset"] == [start + len("".join(got["tokens"][:i])) for i in range(16)]
            if n == 0:
                assert got["top_logprobs"] is None
                continue
            for token, logprob, top in zip(got["tokens"], got["token_logprobs"], got["top_logprobs"]):
                assert n <= len(top) <= n + 1 and top[token] == logprob and sum(map(math.exp, top.values())) < 1 + 1e-4
        choice = complete(server, logprobs=2, stop=text(complete(server))[5:9])["choices"][0]
        assert "".join(choice["logprobs"]["tokens"]).startswith(choice["text"])
        assert len("".join(choice["logprobs"]["tokens"][:-1])) < len(choice["text"])
        ended = complete(server, logprobs=1, logit_bias={"1": 100})["choices"][0]
        assert ended["text"] == "" and ended["logprobs"]["tokens"] == [] and ended["finish_detail"] == "end_token"


def test_echo():
    with Server(SERVER) as server:
        plain = complete(server, logprobs=2)["choices"][0]
        echoed = complete(server, echo=True, logprobs=2)["choices"][0]
        assert text(complete(server, echo=True)) == "Once upon a time" + plain["text"] == echoed["text"]
        got = echoed["logprobs"]
        prompt = got["tokens"][:-16]
        assert prompt[0] == "<s>" and "".join(prompt[1:]) == "Once upon a time"
        assert got["token_logprobs"][0] is None and got["top_logprobs"][0] is None and got["text_offset"][0] == 0
        assert got["tokens"][-16:] == plain["logprobs"]["tokens"] and got["token_logprobs"][-16:] == plain["logprobs"]["token_logprobs"]
        assert got["text_offset"][-16:] == plain["logprobs"]["text_offset"]
        assert all(value < 0 and len(top) in (2, 3) for value, top in list(zip(got["token_logprobs"], got["top_logprobs"]))[1:])
        # Scoring: no token is made.
        scored = complete(server, echo=True, logprobs=2, max_tokens=0)
        assert text(scored) == "Once upon a time" and scored["usage"]["completion_tokens"] == 0
        assert scored["choices"][0]["logprobs"]["token_logprobs"] == got["token_logprobs"][:-16]
        # What a prompt is given is what was given to it as an answer.
        again = complete(server, "Once upon a time" + plain["text"], echo=True, logprobs=0, max_tokens=0)["choices"][0]["logprobs"]
        if again["tokens"][1:] == prompt[1:] + plain["logprobs"]["tokens"]:
            assert again["token_logprobs"][1:] == got["token_logprobs"][1:]
        texts, _, logprobs, _ = streamed(server, body(echo=True, logprobs=2, n=2))
        whole = complete(server, echo=True, logprobs=2, n=2)
        assert texts == {i: text(whole, i) for i in range(2)}
        assert logprobs == {i: whole["choices"][i]["logprobs"] for i in range(2)}
        assert text(complete(server, max_tokens=0)) == ""
        assert text(complete(server, [0, 40, 50], echo=True, max_tokens=0)) == "GQ"


def test_best_of():
    with Server(SERVER) as server:
        six = complete(server, n=6, logprobs=0, temperature=1.3)
        mean = {c["text"]: sum(c["logprobs"]["token_logprobs"]) / len(c["logprobs"]["token_logprobs"]) for c in six["choices"]}
        order = sorted(mean, key=mean.get, reverse=True)
        assert len(order) == 6
        for n in (1, 2, 5):
            best = complete(server, n=n, best_of=6, temperature=1.3)
            assert [c["text"] for c in best["choices"]] == order[:n] and best["usage"]["completion_tokens"] == 96
            assert best["choices"][0]["logprobs"] is None
        same = complete(server, n=6, best_of=6, temperature=1.3)
        assert [c["text"] for c in same["choices"]] == [c["text"] for c in six["choices"]]
        two = complete(server, ["Once upon a time", "The"], n=1, best_of=6, temperature=1.3)
        assert text(two) == order[0] and [c["index"] for c in two["choices"]] == [0, 1]


def fim_model(folder):
    """The model with three tokens for filling in the middle, control tokens."""
    path = os.path.join(folder, "fim.gguf")
    with open(TINY, "rb") as f:
        data = f.read()
    names, kinds, merges = (gguf_edit.array(data, b"tokenizer.ggml." + key) for key in (b"tokens", b"token_type", b"merges"))
    ids = []
    for spelling in (b"<fim_prefix>", b"<fim_suffix>", b"<fim_middle>"):
        ids.append(names.index(merges.pop().replace(b" ", b"")))
        names[ids[-1]], kinds[ids[-1]] = spelling, 3
    with open(path, "wb") as out:
        out.write(gguf_edit.edit(data, {b"tokenizer.ggml.tokens": names, b"tokenizer.ggml.token_type": kinds, b"tokenizer.ggml.merges": merges}))
    return path, ids


def test_suffix():
    with Server(SERVER) as server:
        answer = server.post(PATH, body(suffix="the end"))
        assert answer.status == 400 and answer.json()["error"]["param"] == "suffix"
        assert text(complete(server, suffix="")) == text(complete(server)) == text(complete(server, suffix=None))
    with tempfile.TemporaryDirectory() as folder:
        path, (prefix, suffix, middle) = fim_model(folder)
        with Server(SERVER, model=path) as server:
            def ids(words):
                return server.post("/tokenize", {"text": words, "add_special": False, "parse_special": False}).json()["tokens"]
            filled = complete(server, "Once </s>upon", suffix=" the end")
            by_hand = complete(server, [0, prefix, *ids("Once </s>upon"), suffix, *ids(" the end"), middle])
            assert text(filled) == text(by_hand) and filled["usage"] == by_hand["usage"] | {"prompt_tokens_details": filled["usage"]["prompt_tokens_details"]}
            both = complete(server, ["A", "B"], suffix="C")
            assert text(both, 1) == text(complete(server, "B", suffix="C"))
            assert server.post(PATH, body(suffix="x", echo=True)).json()["error"]["param"] == "suffix"


def test_same_alone_and_in_a_crowd():
    requests = [body(["The", "A time"] if i % 3 == 0 else f"Number {i}", seed=i, n=1 + i % 2, logprobs=i % 6, max_tokens=5 + i % 7, echo=i % 4 == 0,
                     stop=[None, "a", ["e", "the"]][i % 3]) for i in range(32)]
    with Server(SERVER) as server:
        def ask(i):
            if i % 5 == 0:
                texts, ends, logprobs, _ = streamed(server, requests[i])
                return texts, ends, [logprobs.get(k, {}).get("token_logprobs") for k in sorted(texts)]
            choices = complete(server, **requests[i])["choices"]
            return ({c["index"]: c["text"] for c in choices}, {c["index"]: (c["finish_reason"], c["finish_detail"], c["stop_reason"]) for c in choices},
                    [c["logprobs"]["token_logprobs"] or None for c in choices])
        alone = [ask(i) for i in range(32)]
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            assert list(pool.map(ask, range(32))) == alone


def test_wrong_parameters_are_named():
    wrong = {"max_tokens": [-1, 1.5, "x"], "logprobs": [-1, 6, True, "x"], "echo": [1, "x"], "suffix": [5, []], "best_of": [0, 129, "x", 10**15],
             "n": [0, 129, "x", 10**15], "stream": [1], "stream_options": [{}, 5], "user": [5], "stop": [5, ""], "temperature": [3, "x"],
             "logit_bias": [{"x": 1}, 5], "seed": ["x"], "model": [5]}
    with Server(SERVER) as server:
        for name, values in wrong.items():
            for value in values:
                answer = server.post(PATH, body(**{name: value}))
                assert answer.status == 400 and answer.json()["error"]["param"] == name, (name, value, answer.text)
        for name in ("messages", "tools", "top_logprobs", "max_completion_tokens", "response_format"):
            answer = server.post(PATH, body(**{name: 1}))
            assert answer.status == 400 and answer.json()["error"]["param"] == name and answer.json()["error"]["code"] == "unknown_parameter"
        assert server.post(PATH, body(n=3, best_of=2)).json()["error"]["param"] == "best_of"
        assert server.post(PATH, body(n=1, best_of=2, stream=True)).json()["error"]["param"] == "best_of"
        assert server.post(PATH, body(n=2, max_tokens=0)).json()["error"]["param"] == "n"
        assert server.post(PATH, body(["x"] * 9, n=128)).json()["error"]["param"] == "prompt"
        answer = server.post(PATH, body(n=128, max_tokens=2))
        assert answer.status == 200 and len(answer.json()["choices"]) == 128


def test_disconnect_ends_the_work():
    with Server(SERVER) as server:
        request = body(["one", "two", "three"], n=100, max_tokens=400, logit_bias={"5": 100}, stream=True)
        for i in range(3):
            connection, response = server.begin("POST", PATH, request)
            assert response.readline().startswith(b"data: ")
            connection.close()
            until(lambda: at_rest(server), "nothing is computed any more")
            until(lambda: server.metric("infer_requests_cancelled_total") == 3 * (i + 1), "they count as cancelled")  # pylint: disable=cell-var-from-loop
        assert text(complete(server))


if __name__ == "__main__":
    tap.main(globals())
