#!/usr/bin/env python3
"""The Responses API of infer-server as the official Python client sees it: HTTP, streams, WebSocket. test_openai_responses.py INFER-SERVER [CASE]"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import common  # noqa: E402

MISSING = common.enter("openai")
if not MISSING:
    import openai
from common import LONG, NAME, check, raises, server, until_idle  # noqa: E402

TALE = "Once upon a time"
ENDLESS = {"logit_bias": {"1": -100}}


def client(kind="plain", **more):
    return openai.OpenAI(base_url=server(kind) + "/v1", api_key="any", max_retries=0, timeout=LONG, **more)


def create(kind="plain", **more):
    wanted = {"model": NAME, "input": TALE, "max_output_tokens": 16, "temperature": 0}
    wanted.update(more)
    return check(client(kind).responses.create(**wanted))


def events(**more):
    wanted = {"model": NAME, "input": TALE, "max_output_tokens": 16, "temperature": 0, "stream": True}
    wanted.update(more)
    with client().responses.create(**wanted) as stream:
        return [check(event) for event in stream]


def test_create():
    answer = create()
    assert answer.object == "response" and answer.id.startswith("resp_") and answer.model == NAME
    assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens" and answer.error is None
    assert [item.type for item in answer.output] == ["message"] and answer.output_text
    assert answer.output[0].role == "assistant" and answer.output[0].content[0].type == "output_text"
    assert answer.usage.output_tokens == 16 and answer.usage.total_tokens == answer.usage.input_tokens + 16


def test_completed():
    answer = create(max_output_tokens=200, temperature=1.0, extra_body={"seed": 1, "logit_bias": {"1": 8}})
    assert answer.status == "completed" and answer.incomplete_details is None and answer.usage.output_tokens < 200


def test_input_items_and_instructions():
    items = [{"role": "user", "content": [{"type": "input_text", "text": TALE}]}]
    assert create(input=items).output_text == create().output_text
    told = create(instructions="You tell tales.")
    assert told.instructions == "You tell tales."
    same = create(input=[{"role": "system", "content": "You tell tales."}, {"role": "user", "content": TALE}])
    assert told.output_text == same.output_text and told.usage.input_tokens == same.usage.input_tokens


def test_stream_order():
    got = events()
    kinds = [event.type for event in got]
    deltas = kinds.count("response.output_text.delta")
    assert kinds == ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"] + \
        ["response.output_text.delta"] * deltas + \
        ["response.output_text.done", "response.content_part.done", "response.output_item.done", "response.incomplete"], kinds
    assert [event.sequence_number for event in got] == list(range(len(got)))
    text = "".join(event.delta for event in got if event.type == "response.output_text.delta")
    assert text == create().output_text == got[-1].response.output_text


def test_stream_helper():
    wanted = {"model": NAME, "input": TALE, "max_output_tokens": 200, "temperature": 1.0, "extra_body": {"seed": 1, "logit_bias": {"1": 8}}}
    with client().responses.stream(**wanted) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[-1] == "response.completed" and final.status == "completed"
    whole = client().responses.create(**wanted)
    assert final.output_text == whole.output_text


def test_retrieve_and_delete():
    answer = create(metadata={"a": "b"})
    got = check(client().responses.retrieve(answer.id))
    assert got.to_dict() == answer.to_dict()
    items = list(client().responses.input_items.list(answer.id))
    assert len(items) == 1 and items[0].type == "message" and items[0].content[0].text == TALE
    client().responses.delete(answer.id)
    raises(openai.NotFoundError, client().responses.retrieve, answer.id, response_id=answer.id)
    raises(openai.NotFoundError, client().responses.delete, response_id=answer.id)


def test_not_stored():
    answer = create(store=False)
    raises(openai.NotFoundError, client().responses.retrieve, response_id=answer.id)


def test_previous_response():
    first = create(store=True)
    second = create(input="And then?", previous_response_id=first.id)
    assert second.previous_response_id == first.id and second.output_text
    turns = [{"role": "user", "content": TALE}, {"role": "assistant", "content": first.output_text}, {"role": "user", "content": "And then?"}]
    assert second.output_text == create(input=turns).output_text
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens
    raises(openai.BadRequestError, create, "previous_response_id", previous_response_id="resp_of_nobody")


def test_background_and_cancel():
    with client("narrow").responses.create(model=NAME, input=TALE, max_output_tokens=50000, extra_body=ENDLESS, stream=True, background=True) as stream:
        started = next(iter(stream))
        stopped = check(client("narrow").responses.cancel(started.response.id))
    assert stopped.status == "cancelled", stopped.status
    until_idle("narrow")
    raises(openai.NotFoundError, client("narrow").responses.cancel, response_id="resp_of_nobody")


def test_aborted_stream_stops_the_answer():
    with client("narrow").responses.create(model=NAME, input=TALE, max_output_tokens=50000, extra_body=ENDLESS, stream=True) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                break
    until_idle("narrow")


def test_reasoning():
    answer = create("thinking")
    assert [item.type for item in answer.output] == ["reasoning"] and answer.usage.output_tokens_details.reasoning_tokens == 16, answer.output


def test_errors():
    for param, more in [("temperature", {"temperature": 3}), ("tools", {"tools": [{"type": "web_search"}]}), ("input", {"input": []}),
                        ("text", {"text": {"format": {"type": "json_object"}}}), ("nonsense", {"extra_body": {"nonsense": 1}})]:
        error = raises(openai.BadRequestError, create, param, **more)
        assert error.type == "invalid_request_error", error.body
    raises(openai.NotFoundError, create, model="gpt-of-elsewhere")


# ---- WebSocket ----

def websocket_turn(connection, **more):
    connection.response.create(model=NAME, max_output_tokens=16, temperature=0, **more)
    got = []
    for event in connection:
        got.append(check(event))
        if event.type in ("response.completed", "response.incomplete", "response.failed", "error"):
            return got
    raise AssertionError("the connection has closed")


def test_websocket():
    with client().responses.connect() as connection:
        first = websocket_turn(connection, input=TALE)
        assert [event.type for event in first] == [event.type for event in events()]
        assert first[-1].response.output_text == create().output_text
        second = websocket_turn(connection, input="And then?", previous_response_id=first[-1].response.id)
        assert second[-1].response.previous_response_id == first[-1].response.id
        wrong = websocket_turn(connection, input=[])
        assert wrong[-1].type == "error" and wrong[-1].error.message, wrong
        assert websocket_turn(connection, input=TALE)[-1].response.output_text == create().output_text  # it goes on after an error


def test_websocket_session():
    """Lanes: several answers at once on one connection, told apart by stream_id."""
    from openai.lib.responses_websocket import ResponsesWebSocketLimits, ResponsesWebSocketSession
    limits = ResponsesWebSocketLimits(max_lanes=4, max_events_per_lane=512, max_events=2048, max_bytes_per_lane=1 << 22, max_bytes=1 << 24,
                                      max_response_bytes=None)
    with client().responses.connect() as connection:
        with ResponsesWebSocketSession(connection, limits=limits) as session:
            lanes = [session.lane(name) for name in ("one", "two")]
            for lane in lanes:
                lane.send({"type": "response.create", "model": NAME, "input": TALE, "max_output_tokens": 16, "temperature": 0})
            answers = [lane.get_final_response() for lane in lanes]
    assert [answer.output_text for answer in answers] == [create().output_text] * 2


def test_websocket_closed_stops_the_answer():
    with client("narrow").responses.connect() as connection:
        connection.send({"type": "response.create", "model": NAME, "input": TALE, "max_output_tokens": 50000, **ENDLESS})
        assert connection.recv().type == "response.created"
    until_idle("narrow")


if __name__ == "__main__":
    common.main(globals(), MISSING)
