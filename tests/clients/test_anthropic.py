#!/usr/bin/env python3
"""infer-server as the official Python client of Anthropic sees it. test_anthropic.py INFER-SERVER [CASE]"""
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import common  # noqa: E402

MISSING = common.enter("anthropic")
if not MISSING:
    import anthropic
from common import KEY, LONG, NAME, check, raises, server, until_idle  # noqa: E402

HELLO = [{"role": "user", "content": "Once upon a time"}]
SYSTEM = "You are a careful teller of tales who keeps to what is known and adds nothing that is not. " * 6


def client(kind="plain", key="any", **more):
    return anthropic.Anthropic(base_url=server(kind), api_key=key, max_retries=0, timeout=LONG, **more)


def wanted(more):
    """Arguments of the client. Its newest versions do not have all that the API takes: these go into the body by themselves."""
    given = dict({"model": NAME, "max_tokens": 16, "messages": HELLO, "temperature": 0}, **more)
    body = dict(given.pop("extra_body", {}))
    for name in ("temperature", "top_p", "top_k", "seed", "logit_bias"):
        if name in given:
            body[name] = given.pop(name)
    return dict(given, extra_body=body)


def endless():
    return wanted({"max_tokens": 50000, "logit_bias": {"1": -100}})


def create(kind="plain", **more):
    return check(client(kind).messages.create(**wanted(more)))


def stream(kind="plain", **more):
    return client(kind).messages.stream(**wanted(more))


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def prompt_tokens(usage):
    return usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens


# ---- Messages ----

def test_message():
    message = create()
    assert message.type == "message" and message.role == "assistant" and message.model == NAME and message.id.startswith("msg_")
    assert [block.type for block in message.content] == ["text"] and text_of(message)
    assert message.stop_reason == "max_tokens" and message.stop_sequence is None
    assert message.usage.output_tokens == 16 and message.usage.input_tokens > 0 and message.usage.service_tier == "standard"
    assert message._request_id and message._request_id.startswith("req_"), message._request_id


def test_blocks_equal_strings():
    blocks = [{"role": "user", "content": [{"type": "text", "text": "Once upon a time"}]}]
    assert text_of(create(messages=blocks)) == text_of(create())
    assert text_of(create(system=[{"type": "text", "text": "Be kind."}])) == text_of(create(system="Be kind."))


def test_greedy_is_reproducible():
    assert text_of(create()) == text_of(create())
    seeded = [text_of(create(temperature=1.0, seed=seed)) for seed in (7, 7, 8)]
    assert seeded[0] == seeded[1] and seeded[0] != seeded[2], seeded


def test_stop_sequence():
    whole = text_of(create())
    word = whole.split()[3]
    message = create(stop_sequences=["never in there", word])
    assert message.stop_reason == "stop_sequence" and message.stop_sequence == word
    assert text_of(message) == whole[:whole.index(word)]


def test_end_turn():
    message = create(max_tokens=64, logit_bias={"1": 100})
    assert message.stop_reason == "end_turn" and message.content == [] and message.usage.output_tokens == 1, message


def test_context_window():
    message = create(max_tokens=4096)
    assert message.stop_reason in ("model_context_window_exceeded", "end_turn"), message.stop_reason
    assert prompt_tokens(message.usage) + message.usage.output_tokens <= 512


def test_prefill():
    whole = text_of(create(max_tokens=24))
    cut = whole.index(" ", len(whole) // 2)
    message = create(messages=HELLO + [{"role": "assistant", "content": whole[:cut]}], max_tokens=8)
    assert whole[cut:].startswith(text_of(message)[:6]), (whole[cut:], text_of(message))


def test_no_tokens_fill_the_cache():
    tale = [{"role": "user", "content": "A tale that nobody has told yet. " * 8}]
    message = create(max_tokens=0, messages=tale, cache_control={"type": "ephemeral"})
    assert message.content == [] and message.stop_reason == "max_tokens" and message.usage.output_tokens == 0
    assert create(messages=tale).usage.cache_read_input_tokens > 0


def test_beta_client():
    betas = ["prompt-caching-2024-07-31", "context-1m-2025-08-07"]
    message = check(client().beta.messages.create(betas=betas, **wanted({})))
    assert text_of(message) == text_of(create())
    assert client().beta.messages.count_tokens(model=NAME, messages=HELLO, betas=betas).input_tokens == prompt_tokens(message.usage)
    raises(anthropic.BadRequestError, client().beta.messages.create, "mcp_servers", betas=betas,
           mcp_servers=[{"type": "url", "name": "x", "url": "http://example.invalid"}], **wanted({}))


# ---- Streams ----

def test_stream_events():
    with client().messages.create(stream=True, **wanted({})) as got:
        events = [check(event) for event in got]
    kinds = [event.type for event in events]
    deltas = kinds.count("content_block_delta")
    assert kinds == ["message_start", "content_block_start"] + ["content_block_delta"] * deltas + \
        ["content_block_stop", "message_delta", "message_stop"], kinds
    whole = create()
    assert "".join(event.delta.text for event in events if event.type == "content_block_delta") == text_of(whole)
    start, end = events[0].message, events[-2]
    assert start.content == [] and start.stop_reason is None and start.id.startswith("msg_")
    assert end.delta.stop_reason == "max_tokens" and end.usage.output_tokens == 16
    assert prompt_tokens(start.usage) == prompt_tokens(whole.usage)


def test_stream_helper():
    whole = create(max_tokens=24)
    with stream(max_tokens=24) as got:
        said = "".join(got.text_stream)
        final = got.get_final_message()
    assert said == text_of(whole) == text_of(final)
    assert final.stop_reason == "max_tokens" and final.usage.output_tokens == 24
    assert got.request_id.startswith("req_")


def test_stream_stop_sequence():
    whole = text_of(create())
    word = whole.split()[3]
    with stream(stop_sequences=[word]) as got:
        final = got.get_final_message()
    assert final.stop_reason == "stop_sequence" and final.stop_sequence == word and text_of(final) == whole[:whole.index(word)]


def test_async_client():
    import asyncio

    async def both():
        async with anthropic.AsyncAnthropic(base_url=server(), api_key="any", max_retries=0, timeout=LONG) as many:
            answers = await asyncio.gather(*[many.messages.create(**wanted({})) for _ in range(6)])
            async with many.messages.stream(**wanted({})) as got:
                return [text_of(a) for a in answers] + [text_of(await got.get_final_message())]
    said = asyncio.run(both())
    assert len(set(said)) == 1 and said[0], said


def test_aborted_stream_stops_the_answer():
    with client("narrow").messages.create(**endless(), stream=True) as got:
        for event in got:
            if event.type == "content_block_delta":
                break
    until_idle("narrow")


def test_timeout():
    raises(anthropic.APITimeoutError, client("narrow").with_options(timeout=0.5).messages.create, **endless())
    until_idle("narrow")


# ---- Tokens and cache ----

def test_count_tokens():
    prompt = {"system": SYSTEM, "messages": HELLO + [{"role": "assistant", "content": "there was"}, {"role": "user", "content": "Go on: ünï ☃"}]}
    count = check(client().messages.count_tokens(model=NAME, **prompt)).input_tokens
    for _ in range(2):
        assert prompt_tokens(create(**prompt).usage) == count
    with stream(**prompt) as got:
        assert prompt_tokens(got.get_final_message().usage) == count


def test_cache_accounting():
    system = [{"type": "text", "text": "Number one. " + SYSTEM, "cache_control": {"type": "ephemeral"}}]
    first, second = (create(system=system).usage for _ in range(2))
    assert first.cache_creation_input_tokens > 100 and first.cache_read_input_tokens < 20, first
    assert first.cache_creation.ephemeral_5m_input_tokens == first.cache_creation_input_tokens
    assert second.cache_read_input_tokens == prompt_tokens(first) - 1 and second.cache_creation_input_tokens == 0, second
    assert second.input_tokens == 1 and prompt_tokens(first) == prompt_tokens(second)
    other = create(system=system, messages=[{"role": "user", "content": "Something else"}]).usage
    assert other.cache_read_input_tokens >= first.cache_creation_input_tokens and other.input_tokens > 1, (first, other)


def test_many_breakpoints():
    """Six, of which the API allows four; the last with a ttl of an hour."""
    blocks = [{"type": "text", "text": f"Part {i}: " + "words of no weight " * 6, "cache_control": {"type": "ephemeral"}} for i in range(6)]
    blocks[2]["cache_control"]["ttl"] = "1h"
    usage = create(messages=[{"role": "user", "content": blocks + [{"type": "text", "text": "What now?"}]}]).usage
    made = usage.cache_creation
    assert made.ephemeral_1h_input_tokens > 0 and made.ephemeral_5m_input_tokens > made.ephemeral_1h_input_tokens / 2, made
    assert made.ephemeral_1h_input_tokens + made.ephemeral_5m_input_tokens == usage.cache_creation_input_tokens
    assert usage.input_tokens >= 3


# ---- Thinking ----

def thinking_wanted(budget=1024):
    return {"max_tokens": budget + 40, "thinking": {"type": "enabled", "budget_tokens": budget}, "temperature": 1.0,
            "seed": 3, "logit_bias": {"1": -100}}


def test_thinking():
    """The model of this test never ends its thoughts by itself: the budget does."""
    message = create("thinking", **thinking_wanted())
    assert [block.type for block in message.content] == ["thinking", "text"], message.content
    assert message.content[0].thinking and message.content[0].signature and text_of(message)
    assert message.usage.output_tokens == 1064 and 1024 <= message.usage.output_tokens_details.thinking_tokens < 1030, message.usage
    hidden = create("thinking", **dict(thinking_wanted(), thinking={"type": "enabled", "budget_tokens": 1024, "display": "omitted"}))
    assert hidden.content[0].thinking == "" and hidden.content[0].signature == message.content[0].signature
    assert text_of(hidden) == text_of(message)


def test_thinking_stream():
    with stream("thinking", **thinking_wanted()) as got:
        raw = list(got)
        final = got.get_final_message()
    kinds = [event.type + ":" + event.delta.type for event in raw if event.type == "content_block_delta"]
    shortened = [kind for i, kind in enumerate(kinds) if i == 0 or kinds[i - 1] != kind]
    assert shortened == ["content_block_delta:thinking_delta", "content_block_delta:signature_delta", "content_block_delta:text_delta"], shortened
    whole = create("thinking", **thinking_wanted())
    assert [block.to_dict() for block in final.content] == [block.to_dict() for block in whole.content]


def test_thinking_disabled_and_passed_back():
    off = create("thinking", thinking={"type": "disabled"})
    assert [block.type for block in off.content] == ["text"]
    thought = {"type": "thinking", "thinking": "The first thing is to say who he was.", "signature": "x"}
    turns = HELLO + [{"role": "assistant", "content": [thought, {"type": "redacted_thinking", "data": "y"}, {"type": "text", "text": "A man."}]},
                     {"role": "user", "content": "And?"}]
    shorter = HELLO + [{"role": "assistant", "content": "A man."}, {"role": "user", "content": "And?"}]
    count = client("thinking").messages.count_tokens
    assert count(model=NAME, messages=turns).input_tokens > count(model=NAME, messages=shorter).input_tokens
    assert count(model=NAME, messages=turns).input_tokens == prompt_tokens(create("thinking", messages=turns, max_tokens=4).usage)


def test_thinking_needs_a_template():
    raises(anthropic.BadRequestError, create, "thinking.type", max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1024})


# ---- Models ----

def test_models():
    page = client().models.list()
    assert [model.id for model in page] == [NAME]
    model = check(client().models.retrieve(NAME))
    assert model.type == "model" and model.display_name and model.created_at.year >= 2020
    raises(anthropic.NotFoundError, client().models.retrieve, "nothing", model_id="nothing")


# ---- Errors ----

def test_bad_requests_name_their_place():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    tool = {"name": "t", "input_schema": {"type": "object"}}
    for words, more in [
            (["max_tokens"], {"max_tokens": -1}),
            (["messages"], {"messages": []}),
            (["messages.0.content.1", "image"], {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, image]}]}),
            (["messages.0", "role"], {"messages": [{"role": "tool", "content": "x"}]}),
            (["messages.0.content.0", "non-empty"], {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}),
            (["tools"], {"tools": [tool]}),
            (["tool_choice"], {"tool_choice": {"type": "any"}}),
            (["temperature"], {"temperature": 1.5}),
            (["stop_sequences.0"], {"stop_sequences": [" "]}),
            (["output_config.format"], {"output_config": {"format": {"type": "json_schema", "schema": {}}}}),
            (["cache_control", "ttl"], {"cache_control": {"type": "ephemeral", "ttl": "2h"}}),
            (["speed"], {"speed": "fast"}),
            (["nonsense"], {"extra_body": {"nonsense": 1}}),
            (["trailing whitespace"], {"messages": HELLO + [{"role": "assistant", "content": "so "}]})]:
        error = raises(anthropic.BadRequestError, create, *words, **more)
        assert error.type == "invalid_request_error" and error.body["type"] == "error" and error.request_id, error.body
        assert error.body["request_id"] == error.request_id


def test_missing_parameters():
    for absent in ("model", "max_tokens", "messages"):
        body = {"model": NAME, "max_tokens": 4, "messages": HELLO}
        del body[absent]
        raises(anthropic.BadRequestError, client().post, absent, path="/v1/messages", cast_to=object, body=body)


def test_prompt_too_long():
    error = raises(anthropic.BadRequestError, create, messages=[{"role": "user", "content": "word " * 2000}])
    assert error.type == "invalid_request_error"


def test_typed_errors():
    assert raises(anthropic.AuthenticationError, client("keys", "wrong").messages.create, model=NAME, max_tokens=4,
                  messages=HELLO).type == "authentication_error"
    assert client("keys", KEY).messages.create(model=NAME, max_tokens=4, messages=HELLO).content
    assert raises(anthropic.NotFoundError, create, model="claude-of-elsewhere").type == "not_found_error"
    assert raises(anthropic.NotFoundError, client().post, path="/v1/messages/batches", cast_to=object, body={}).type == "not_found_error"


def test_rate_limit():
    one = client("limited")
    one.messages.create(model=NAME, max_tokens=1, messages=HELLO)
    error = raises(anthropic.RateLimitError, one.messages.create, model=NAME, max_tokens=1, messages=HELLO)
    assert error.type == "rate_limit_error" and int(error.response.headers["retry-after"]) >= 1


def test_overload():
    """One place and no queue: while it is taken others are told so, and later served."""
    with client("narrow").messages.create(**endless(), stream=True) as got:
        next(iter(got))
        error = raises(anthropic.ServiceUnavailableError, client("narrow").messages.create, model=NAME, max_tokens=1, messages=HELLO)
        assert error.type == "overloaded_error", error.body
    until_idle("narrow")
    assert client("narrow").messages.create(model=NAME, max_tokens=1, messages=HELLO).content


def test_many_threads():
    """Answers are not mixed up."""
    tales = [[{"role": "user", "content": f"Story number {i} is about"}] for i in range(12)]
    alone = [text_of(create(messages=tale)) for tale in tales]
    got = [None] * len(tales)

    def ask(i):
        got[i] = text_of(create(messages=tales[i]))
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(tales))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert got == alone


if __name__ == "__main__":
    common.main(globals(), MISSING)
