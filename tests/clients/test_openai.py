#!/usr/bin/env python3
"""infer-server as the official Python client of OpenAI sees it: chat, completions, embeddings, models, errors. test_openai.py INFER-SERVER [CASE]
The Responses API is in test_openai_responses.py."""
import asyncio
import base64
import math
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import common  # noqa: E402

MISSING = common.enter("openai")
if not MISSING:
    import openai
from common import KEY, LONG, NAME, check, raises, server, until_idle  # noqa: E402

HELLO = [{"role": "user", "content": "Once upon a time"}]


def client(kind="plain", key="any", **more):
    return openai.OpenAI(base_url=server(kind) + "/v1", api_key=key, max_retries=0, timeout=LONG, **more)


def chat(kind="plain", **more):
    wanted = {"model": NAME, "messages": HELLO, "max_tokens": 16, "temperature": 0}
    wanted.update(more)
    return check(client(kind).chat.completions.create(**wanted))


def said(completion, choice=0):
    return completion.choices[choice].message.content


def chunks(**more):
    wanted = {"model": NAME, "messages": HELLO, "max_tokens": 16, "temperature": 0, "stream": True}
    wanted.update(more)
    with client().chat.completions.create(**wanted) as stream:
        return [check(chunk) for chunk in stream]


def joined(pieces, choice=0):
    return "".join(c.delta.content or "" for piece in pieces for c in piece.choices if c.index == choice)


def complete(**more):
    """With echo the first token has no log-probability: null, which the API gives too, but the client's type does not know."""
    wanted = {"model": NAME, "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
    wanted.update(more)
    answer = client().completions.create(**wanted)
    return answer if more.get("echo") else check(answer)


# ---- Chat ----

def test_chat():
    answer = chat()
    assert answer.object == "chat.completion" and answer.model == NAME and answer.id.startswith("chatcmpl-"), answer
    assert [c.index for c in answer.choices] == [0] and answer.choices[0].message.role == "assistant" and said(answer)
    assert answer.choices[0].finish_reason == "length"
    usage = answer.usage
    assert usage.completion_tokens == 16 and usage.total_tokens == usage.prompt_tokens + 16
    assert usage.prompt_tokens_details.cached_tokens >= 0
    assert answer._request_id


def test_chat_content_parts():
    parts = [{"role": "user", "content": [{"type": "text", "text": "Once upon a time"}]}]
    assert said(chat(messages=parts)) == said(chat())


def test_chat_max_completion_tokens():
    answer = client().chat.completions.create(model=NAME, messages=HELLO, temperature=0, max_completion_tokens=5)
    assert answer.usage.completion_tokens == 5


def test_chat_cached_tokens():
    messages = [{"role": "system", "content": "Tell of what was never told. " * 8}] + HELLO
    chat(messages=messages)
    usage = chat(messages=messages).usage
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1, usage


def test_chat_stream():
    whole, pieces = chat(), chunks()
    assert joined(pieces) == said(whole)
    assert len({piece.id for piece in pieces}) == 1 and all(piece.object == "chat.completion.chunk" for piece in pieces)
    assert pieces[0].choices[0].delta.role == "assistant"
    assert [c.finish_reason for piece in pieces for c in piece.choices if c.finish_reason] == ["length"]
    assert all(piece.usage is None for piece in pieces)


def test_chat_stream_usage():
    whole, pieces = chat(), chunks(stream_options={"include_usage": True})
    assert pieces[-1].choices == [] and all(piece.usage is None for piece in pieces[:-1])
    last = pieces[-1].usage
    assert (last.prompt_tokens, last.completion_tokens, last.total_tokens) == \
        (whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.total_tokens)


def test_chat_stream_helper():
    word = said(chat()).split()[3]  # the helper takes a cut answer for an error
    with client().chat.completions.stream(model=NAME, messages=HELLO, max_tokens=16, temperature=0, stop=[word]) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "content.delta" in events and final.choices[0].message.content == said(chat(stop=[word]))


def test_chat_n():
    answer = chat(n=3, temperature=1.0, seed=5)
    assert [c.index for c in answer.choices] == [0, 1, 2]
    texts = [said(answer, i) for i in range(3)]
    assert len(set(texts)) > 1 and answer.usage.completion_tokens == 48
    assert texts == [said(chat(temperature=1.0, seed=5 + i)) for i in range(3)]  # choice i draws with seed + i
    pieces = chunks(n=3, temperature=1.0, seed=5)
    assert [joined(pieces, i) for i in range(3)] == texts


def test_chat_seed():
    texts = [said(chat(temperature=1.0, seed=seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] and texts[0] != texts[2]


def test_chat_stop():
    whole = said(chat())
    word = whole.split()[3]
    for stop in (word, [word], ["never", word]):
        answer = chat(stop=stop)
        assert said(answer) == whole[:whole.index(word)] and answer.choices[0].finish_reason == "stop"
    assert joined(chunks(stop=word)) == whole[:whole.index(word)]


def test_chat_logprobs():
    answer = chat(logprobs=True, top_logprobs=4)
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == 16 and "".join(t.token for t in tokens) == said(answer)
    for token in tokens:
        assert len(token.top_logprobs) == 4 and token.logprob <= 0
        best = [t.logprob for t in token.top_logprobs]
        assert best == sorted(best, reverse=True) and token.token == token.top_logprobs[0].token  # greedy
        assert bytes(token.bytes).decode("utf-8", "replace") == token.token
    pieces = chunks(logprobs=True, top_logprobs=4)
    streamed = [t for piece in pieces for c in piece.choices if c.logprobs for t in c.logprobs.content or []]
    assert [(t.token, t.logprob) for t in streamed] == [(t.token, t.logprob) for t in tokens]
    assert chat().choices[0].logprobs is None
    assert all(t.top_logprobs == [] for t in chat(logprobs=True).choices[0].logprobs.content)


def test_chat_logit_bias_and_penalties():
    whole = said(chat(max_tokens=32))
    forced = chat(logit_bias={"1": 100}, max_tokens=8)
    assert forced.choices[0].finish_reason == "stop" and said(forced) == "" and forced.usage.completion_tokens == 1
    for more in ({"frequency_penalty": 2.0}, {"presence_penalty": 2.0}):
        assert said(chat(max_tokens=32, **more)) != whole, more


def test_chat_extensions():
    for more in ({"top_k": 1, "temperature": 1.0}, {"min_p": 1.0, "temperature": 1.0}):
        temperature = more.pop("temperature")
        assert said(chat(temperature=temperature, extra_body=more)) == said(chat()), more


def test_chat_response_format_text():
    assert said(chat(response_format={"type": "text"})) == said(chat())
    raises(openai.BadRequestError, chat, "response_format", response_format={"type": "json_object"})


def test_chat_reasoning():
    """A template that opens the block: all the model says before </think> is reasoning."""
    answer = chat("thinking")
    assert answer.choices[0].message.reasoning_content and not said(answer)
    off = chat("thinking", extra_body={"chat_template_kwargs": {"enable_thinking": False}})
    assert said(off) and not getattr(off.choices[0].message, "reasoning_content", None)
    with client("thinking").chat.completions.create(model=NAME, messages=HELLO, max_tokens=16, temperature=0, stream=True) as stream:
        thought = "".join(getattr(c.delta, "reasoning_content", None) or "" for piece in stream for c in piece.choices)
    assert thought == answer.choices[0].message.reasoning_content


def test_chat_async():
    async def many():
        async with openai.AsyncOpenAI(base_url=server() + "/v1", api_key="any", max_retries=0, timeout=LONG) as one:
            wanted = {"model": NAME, "messages": HELLO, "max_tokens": 16, "temperature": 0}
            answers = await asyncio.gather(*[one.chat.completions.create(**wanted) for _ in range(6)])
            stream = await one.chat.completions.create(stream=True, **wanted)
            return [said(a) for a in answers] + [joined([piece async for piece in stream])]
    assert set(asyncio.run(many())) == {said(chat())}


# ---- Completions ----

def test_completion():
    answer = complete()
    assert answer.object == "text_completion" and answer.choices[0].finish_reason == "length" and answer.choices[0].text
    assert answer.usage.completion_tokens == 12


def test_completion_stream():
    with client().completions.create(model=NAME, prompt="Once upon a time", max_tokens=12, temperature=0, stream=True,
                                     stream_options={"include_usage": True}) as stream:
        pieces = list(stream)
    assert "".join(c.text for piece in pieces for c in piece.choices) == complete().choices[0].text
    assert pieces[-1].usage.completion_tokens == 12


def test_completion_arrays():
    answer = complete(prompt=["Once upon a time", "The king"], n=2, temperature=1.0, seed=3)
    assert [c.index for c in answer.choices] == [0, 1, 2, 3]
    one = complete(prompt="The king", n=2, temperature=1.0, seed=3)
    assert [c.text for c in answer.choices[2:]] == [c.text for c in one.choices]


def test_completion_tokens():
    answer = complete(prompt=[5, 6, 7])
    assert answer.usage.prompt_tokens in (3, 4) and complete(prompt=[[5, 6, 7]]).choices[0].text == answer.choices[0].text


def test_completion_echo_and_logprobs():
    answer = complete(echo=True, logprobs=3, max_tokens=4)
    choice = answer.choices[0]
    assert choice.text == "Once upon a time" + complete(max_tokens=4).choices[0].text
    log = choice.logprobs
    first = int(log.tokens[0] == "<s>")  # what begins every text is a token without text
    assert "".join(log.tokens[first:]) == choice.text and len(log.tokens) == len(log.token_logprobs) == len(log.top_logprobs) == len(log.text_offset)
    assert log.token_logprobs[0] is None and all(p <= 0 for p in log.token_logprobs[1:])
    assert [choice.text[at:at + len(token)] for at, token in zip(log.text_offset, log.tokens)][first:] == log.tokens[first:]
    assert all(len(top) >= 3 for top in log.top_logprobs[1:])


def test_completion_scoring():
    """max_tokens 0 with echo: the log-probabilities of a given text."""
    answer = complete(echo=True, logprobs=0, max_tokens=0)
    assert answer.choices[0].text == "Once upon a time" and answer.usage.completion_tokens == 0
    longer = complete(echo=True, logprobs=0, max_tokens=4).choices[0].logprobs.token_logprobs
    assert answer.choices[0].logprobs.token_logprobs == longer[:len(answer.choices[0].logprobs.tokens)]


def test_completion_best_of():
    answer = complete(best_of=4, n=1, temperature=1.0, seed=9)
    tried = [complete(temperature=1.0, seed=9 + i, logprobs=0).choices[0] for i in range(4)]
    means = [sum(c.logprobs.token_logprobs) / len(c.logprobs.token_logprobs) for c in tried]
    assert answer.choices[0].text == tried[means.index(max(means))].text


# ---- Embeddings ----

def vectors(**more):
    return check(client().embeddings.create(model=NAME, **more))


def test_embeddings():
    answer = vectors(input=["The cat sat", "A ship at sea"], encoding_format="float")
    assert [e.index for e in answer.data] == [0, 1] and answer.usage.total_tokens == answer.usage.prompt_tokens > 0
    for item in answer.data:
        assert abs(math.sqrt(sum(x * x for x in item.embedding)) - 1) < 1e-3
    assert vectors(input="The cat sat", encoding_format="float").data[0].embedding == answer.data[0].embedding


def test_embeddings_base64():
    floats = vectors(input="The cat sat", encoding_format="float").data[0].embedding
    packed = client().embeddings.with_raw_response.create(model=NAME, input="The cat sat", encoding_format="base64")
    raw = packed.http_response.json()["data"][0]["embedding"]
    assert isinstance(raw, str)
    got = struct.unpack(f"<{len(floats)}f", base64.b64decode(raw))
    assert list(got) == [struct.unpack("<f", struct.pack("<f", x))[0] for x in floats]
    assert len(vectors(input="The cat sat").data[0].embedding) == len(floats)  # the client's own default is base64


def test_embeddings_errors():
    raises(openai.BadRequestError, vectors, "input", input=[])
    raises(openai.BadRequestError, vectors, "dimensions", input="x", dimensions=10 ** 6)


# ---- Models ----

def test_models():
    listed = list(client().models.list())
    assert [model.id for model in listed] == [NAME]
    model = check(client().models.retrieve(NAME))
    assert model.object == "model" and model.created > 0 and model.owned_by
    raises(openai.NotFoundError, client().models.retrieve, model="nothing")


# ---- Errors ----

def test_bad_requests_name_their_parameter():
    for param, more in [("temperature", {"temperature": 3}), ("max_tokens", {"max_tokens": -1}), ("n", {"n": 0}), ("top_p", {"top_p": 2}),
                        ("tools", {"tools": [{"type": "function", "function": {"name": "f"}}]}),
                        ("top_logprobs", {"logprobs": True, "top_logprobs": 21}), ("logit_bias", {"logit_bias": {"x": 1}}),
                        ("messages", {"messages": []}), ("nonsense", {"extra_body": {"nonsense": 1}}), ("stop", {"stop": [1]})]:
        error = raises(openai.BadRequestError, chat, param, **more)
        assert error.type == "invalid_request_error" and param in (error.param or ""), (param, error.body)


def test_typed_errors():
    error = raises(openai.NotFoundError, chat, model="gpt-of-elsewhere")
    assert error.code == "model_not_found" and error.request_id
    error = raises(openai.AuthenticationError, client("keys", "wrong").chat.completions.create, model=NAME, messages=HELLO)
    assert error.code == "invalid_api_key"
    assert client("keys", KEY).chat.completions.create(model=NAME, messages=HELLO, max_tokens=2).choices
    raises(openai.NotFoundError, client().post, path="/nowhere", cast_to=object, body={})
    raises(openai.BadRequestError, chat, messages=[{"role": "user", "content": "word " * 2000}])


def test_rate_limit():
    one = client("limited")
    one.chat.completions.create(model=NAME, messages=HELLO, max_tokens=1)
    error = raises(openai.RateLimitError, one.chat.completions.create, model=NAME, messages=HELLO, max_tokens=1)
    assert int(error.response.headers["retry-after"]) >= 1


def endless(**more):
    return client("narrow").chat.completions.create(model=NAME, messages=HELLO, max_tokens=50000, logit_bias={"1": -100}, **more)


def test_overload():
    with endless(stream=True) as stream:
        next(iter(stream))
        raises(openai.InternalServerError, client("narrow").chat.completions.create, "503", model=NAME, messages=HELLO, max_tokens=1)
    until_idle("narrow")


def test_aborted_stream_stops_the_answer():
    with endless(stream=True) as stream:
        for piece in stream:
            if piece.choices and piece.choices[0].delta.content:
                break
    until_idle("narrow")


def test_timeout():
    raises(openai.APITimeoutError, endless, timeout=0.5)
    until_idle("narrow")


if __name__ == "__main__":
    common.main(globals(), MISSING)
