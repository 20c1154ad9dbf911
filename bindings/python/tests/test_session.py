"""Sessions: elements, steps, logits and the life of views on them, answers, scores."""
import gc
import json
import threading
import weakref

import pytest
from conftest import DATA, PROMPT

import libinfer

GREEDY = json.loads((DATA / "tiny-greedy.json").read_text())


def test_answer_is_the_models(model):
    """The outside anchor: the continuation in f32 that scripts/train_tiny.py recorded; its first tokens are far from a tie."""
    with model.session() as session:
        session.append_text(GREEDY["prompt"])
        assert session.tokens() == GREEDY["prompt_ids"]
        generation = session.generate(16)
        text = generation.text()
        assert generation.ids == GREEDY["ids"][:16]
        assert GREEDY["text"].startswith(text) and len(text) > 30
        assert generation.finish_reason == libinfer.Finish.LENGTH


def test_events(prompted):
    events = list(prompted.generate(4))
    kinds = [event.kind for event in events]
    assert kinds == [libinfer.EventKind.PREFILL] + [libinfer.EventKind.TOKEN] * 4 + [libinfer.EventKind.DONE]
    assert events[0].done == events[0].total == 7
    assert events[-1].finish_reason == libinfer.Finish.LENGTH and events[1].finish_reason is None
    assert [event.id for event in events[1:5]] == prompted.tokens(7)


def test_stream(prompted, answer):
    stream = prompted.stream(24)
    pieces = list(stream)
    assert "".join(pieces) == answer and all(pieces) and len(pieces) > 10
    assert stream.finish_reason == libinfer.Finish.LENGTH and len(stream.ids) == 24
    assert list(stream) == []


def test_stops_and_options(model, prompted):
    text = prompted.generate(40, stops=["little", "zebra"])
    assert text.text() == ", the " and text.finish_reason == libinfer.Finish.STOP_STRING and text.stop_index == 0
    for stop in (["little"], [b"lit"]):
        with model.session() as other:
            other.append_text(PROMPT)
            assert "lit" not in other.generate(40, stops=stop).text()
    with model.session() as other:
        other.append_text(PROMPT)
        generation = other.generate(40, stop_ids=[GREEDY["ids"][2]])
        list(generation)
        assert generation.finish_reason == libinfer.Finish.STOP and len(generation.ids) == 3
    with pytest.raises(libinfer.ArgumentError) as caught:
        prompted.generate(4, repeat_guard=3)
    assert caught.value.place
    with pytest.raises(TypeError):
        prompted.generate(4, stops="abc")
    with pytest.raises(OverflowError):
        prompted.generate(-1)
    with pytest.raises(libinfer.TokenError):
        prompted.generate(4, stop_ids=[99999])


def test_context_full(model):
    with model.session(n_ctx=12) as session:
        session.append_text(PROMPT)
        with pytest.raises(libinfer.ContextFullError):
            session.append([1] * 6)
        generation = session.generate()
        list(generation)
        assert generation.finish_reason == libinfer.Finish.CONTEXT and len(session) == 12
    with model.session(n_ctx=24) as session:
        session.append_text(PROMPT)
        events = [event.kind for event in session.generate(40, shift_keep=4, shift_drop=8, ignore_eos=True)]
        assert libinfer.EventKind.SHIFT in events and session.info.approximate


def test_empty_session(session):
    with pytest.raises(libinfer.StateError):
        session.generate(4)
    with pytest.raises(libinfer.StateError):
        session.logits()


def test_tokens_and_truncate(prompted):
    ids = prompted.tokens()
    assert len(prompted) == 7 and prompted.tokens(2, 3) == ids[2:5] and prompted.tokens(7) == []
    prompted.step()
    assert prompted.truncate(4) == 0 and prompted.tokens() == ids[:4] and prompted.info.computed == 4
    with pytest.raises(libinfer.ArgumentError):
        prompted.truncate(5)
    with pytest.raises(OverflowError):
        prompted.truncate(-1)
    with pytest.raises(libinfer.ArgumentError):
        prompted.tokens(3, 2)
    with pytest.raises(OverflowError):
        prompted.tokens(-1)


class Index:
    """As NumPy's integers."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


def test_numbers_of_other_kinds(model, prompted):
    assert prompted.tokens(Index(2), Index(3)) == prompted.tokens(2, 3)
    prompted.truncate(Index(5))
    assert len(list(prompted.generate(Index(2)))) == 4
    assert model.session(n_ctx=Index(9)).info.n_ctx == 9
    for wrong in (1.0, "1", None):
        with pytest.raises(TypeError):
            prompted.truncate(wrong)
        with pytest.raises(TypeError):
            prompted.generate(wrong)


def test_append_refuses(prompted):
    for wrong in ([99999], [-5]):
        with pytest.raises(libinfer.TokenError):
            prompted.append([1, 2, *wrong])
    for wrong in (["a"], [1.5], "abc", [None]):
        with pytest.raises(TypeError):
            prompted.append(wrong)
    with pytest.raises(OverflowError):
        prompted.append([2**40])
    assert len(prompted) == 7


def test_append_text_adds_bos_once(model):
    with model.session() as session:
        session.append_text("Once upon")
        session.append_text(" a time")
        assert session.tokens().count(model.tokenizer.info.bos) == 1
        session.append_text("", add_special=True)
        assert session.tokens().count(model.tokenizer.info.bos) == 2


def test_append_chat(model):
    with model.session() as session:
        session.append_chat([("system", "Be brief."), {"role": "user", "content": "Hello, w\u00f6rld \U0001f600"}])
        text = model.tokenizer.decode(session.tokens(), show_special=True)
        assert "<|im_start|>user\nHello, w\u00f6rld \U0001f600<|im_end|>" in text and text.endswith("<|im_start|>assistant\n")
        before = len(session)
        for wrong in ("user", [("user",)], [("user", 5)], [{"role": "user"}]):
            with pytest.raises((TypeError, ValueError, KeyError)):
                session.append_chat(wrong)
        assert len(session) == before
        assert session.generate(3).text() is not None


def test_surrogates_are_refused_by_the_library(session):
    with pytest.raises(libinfer.EncodingError):
        session.append_chat([("user", "\ud800")])


# Logits


def test_logits(prompted):
    with pytest.raises(libinfer.StateError):
        prompted.logits()
    assert prompted.step().done == 7
    view = prompted.logits()
    assert (len(view), view.format, view.readonly, view.itemsize) == (1536, "f", True, 4)
    values = view.tolist()
    assert values.index(max(values)) == GREEDY["ids"][0] == prompted.sample().id
    for row in (1, -2):
        with pytest.raises(libinfer.ArgumentError) as caught:
            prompted.logits(row)
        assert caught.value.place == "row"


def test_rows_of_logits(model):
    ids = GREEDY["prompt_ids"]
    with model.session() as session:
        session.append(ids)
        session.step(rows=libinfer.Rows.ALL)
        assert session.info.logits_rows == 7
        rows = [bytes(session.logits(i)) for i in range(7)]
        assert bytes(session.logits(-7)) == rows[0] and bytes(session.logits()) == rows[6]
    with model.session() as session:
        session.append(ids)
        session.step(rows=libinfer.Rows.MASK, mask=[i in (1, 4) for i in range(7)])
        assert [bytes(session.logits(0)), bytes(session.logits(1))] == [rows[1], rows[4]] and session.info.logits_rows == 2
    with model.session() as session:
        session.append(ids)
        assert session.step(max_elements=3, rows=libinfer.Rows.NONE).done == 3
        assert session.info.computed == 3
        session.step()
        assert bytes(session.logits()) == rows[6]
    for mask in (None, [], [True] * 6, [True] * 8):
        with model.session() as session:
            session.append(ids)
            with pytest.raises(ValueError, match="7 pending"):
                session.step(rows=libinfer.Rows.MASK, mask=mask)


def test_a_view_ends_when_the_session_moves_on(prompted):
    prompted.step()
    view = prompted.logits()
    first = view[0]
    assert prompted.info.length == 7 and view[0] == first # reading moves nothing
    prompted.append([5])
    with pytest.raises(ValueError, match="released memoryview"):
        view[0] # pylint: disable=pointless-statement


USES = {
    "append": lambda s: s.append([1]), "append_text": lambda s: s.append_text("a"), "append_chat": lambda s: s.append_chat([("user", "a")]),
    "append_rows": lambda s: s.append_rows(bytes(640)), "truncate": lambda s: s.truncate(3), "step": lambda s: s.step(), "fork": lambda s: s.fork(),
    "generate": lambda s: s.generate(1), "set_sampling": lambda s: s.set_sampling(libinfer.Sampling()), "sample": lambda s: s.sample(),
    "score": lambda s: s.score([1]), "restore": lambda s: s.restore(s.checkpoint()), "shift": lambda s: s.shift(1, 1), "set_adapters": lambda s: s.set_adapters(),
}


@pytest.mark.parametrize("use", sorted(USES))
def test_a_view_that_is_held_keeps_the_session(model, use):
    """A slice of a view cannot be taken back: so nothing happens to the memory under it."""
    with model.session() as session:
        session.append(GREEDY["prompt_ids"])
        session.step()
        piece = session.logits()[10:20]
        copy = piece.tolist()
        with pytest.raises(BufferError, match="still in use"):
            USES[use](session)
        assert piece.tolist() == copy and len(session) == 7
        del piece
        USES[use](session)


def test_a_view_outlives_its_session(model):
    session = model.session()
    session.append(GREEDY["prompt_ids"])
    session.step()
    view = session.logits()
    copy = view.tolist()
    handle = weakref.ref(session._handle)
    session.close()
    del session
    gc.collect()
    with model.session() as other: # takes memory that the first would have left
        other.append([7] * 100)
        other.step()
    assert view.tolist() == copy and handle() is not None
    view.release()
    del view
    gc.collect()
    assert handle() is None


def test_with_ends_a_view(prompted):
    prompted.step()
    with prompted.logits() as view:
        assert len(view) == 1536
    prompted.append([1])


def test_numpy(model):
    numpy = pytest.importorskip("numpy")
    with model.session() as session:
        session.append(numpy.array(GREEDY["prompt_ids"]))
        session.step()
        array = numpy.asarray(session.logits())
        assert array.dtype == numpy.float32 and array.shape == (1536,) and not array.flags.writeable and not array.flags.owndata
        assert int(array.argmax()) == GREEDY["ids"][0]
        with pytest.raises(BufferError):
            session.append([1])
        kept = array[3:5].copy()
        part = array[3:5]
        del array
        with pytest.raises(BufferError):
            session.step()
        del part
        session.append([1])
        assert kept.shape == (2,)
        rows = numpy.zeros((2, 160), numpy.float32)
        session.append_rows(rows)
        assert session.tokens()[-3:] == [1, -1, -1]
        with pytest.raises(TypeError):
            session.append_rows(rows.astype(numpy.float64))
        with pytest.raises(ValueError, match="contiguous"):
            session.append_rows(numpy.zeros((160, 4), numpy.float32).T)
        hidden = session.step(hidden=libinfer.Hidden(layers=(0, libinfer.FINAL), rows=libinfer.Rows.ALL)).hidden
        assert numpy.asarray(hidden).shape == (3, 2, 160)


# Steps of several sessions, hidden states, rows


def test_batch_gives_the_same_bits(model):
    prompts = [GREEDY["prompt_ids"], [0, 5, 9], list(range(2, 60))]
    alone = []
    for ids in prompts:
        with model.session() as session:
            session.append(ids)
            session.step()
            alone.append(bytes(session.logits()))
    sessions = [model.session() for _ in prompts]
    for session, ids in zip(sessions, prompts):
        session.append(ids)
    results = libinfer.step([libinfer.StepItem(session) for session in sessions])
    assert [result.done for result in results] == [7, 3, 58] and all(result.error is None for result in results)
    assert [bytes(session.logits()) for session in sessions] == alone
    with pytest.raises(libinfer.ArgumentError, match="twice"):
        libinfer.step([libinfer.StepItem(sessions[0]), libinfer.StepItem(sessions[0])])


def test_batch_tells_each_sessions_failure(model):
    from libinfer import Engine, Model, StepItem  # pylint: disable=import-outside-toplevel

    with Engine(kv_budget=1 << 18) as engine, Model.open(DATA.parent.parent / "models" / "tiny.gguf", engine=engine) as small:
        sessions = [small.session() for _ in range(2)]
        sessions[0].append([1, 2, 3])
        sessions[1].append([1] * 500)
        results = libinfer.step([StepItem(session) for session in sessions])
        failed = [result.error for result in results]
        assert any(isinstance(error, libinfer.LimitError) for error in failed)
    with model.session() as session, small_session() as other:
        session.append([1])
        other.append([1])
        with pytest.raises(libinfer.ArgumentError): # of another model
            libinfer.step([StepItem(session), StepItem(other)])


def small_session():
    return libinfer.Model.open(DATA / "fixtures" / "llama.gguf").session()


def test_hidden(prompted):
    result = prompted.step(hidden=libinfer.Hidden(layers=(0, 5, libinfer.FINAL), rows=libinfer.Rows.MASK, mask=[False] * 5 + [True] * 2))
    assert result.hidden.shape == (2, 3, 160) and result.hidden.format == "f"
    assert any(result.hidden.cast("B"))
    with pytest.raises(libinfer.ArgumentError):
        prompted.append([1])
        prompted.step(hidden=libinfer.Hidden(layers=(6,)))


def test_rows_as_elements(model):
    """A row that is a token's embedding is that token."""
    table = model.file.tensors["token_embd.weight"]
    ids = GREEDY["prompt_ids"]
    with model.session() as tokens, model.session() as rows:
        tokens.append(ids)
        tokens.step()
        rows.append(ids[:3])
        data = b"".join(bytes(table.f32(160 * id, 160)) for id in ids[3:])
        rows.append_rows(data)
        rows.step()
        assert rows.tokens() == [*ids[:3], -1, -1, -1, -1]
        assert bytes(rows.logits()) == bytes(tokens.logits())
        for wrong, keys in ((data[:-1], None), (b"", None), (data, [(1, 2)])):
            with pytest.raises(ValueError, match=r"rows|keys"):
                rows.append_rows(wrong, keys)
        rows.append_rows(data[:640], [(1, 2)])


def test_score(model, session):
    ids = GREEDY["prompt_ids"]
    session.append(ids)
    score = session.score(GREEDY["ids"][:5], top_logprobs=2)
    assert len(score.logprobs) == 5 and score.first == 0 and abs(sum(score.logprobs) - score.sum) < 1e-4
    assert [top[0].id for top in score.top] == GREEDY["ids"][:5] and all(len(top) == 2 for top in score.top)
    assert score.top[0][0].logprob == score.logprobs[0] < 0
    with model.session() as other:
        assert other.score(ids).first == 1
        with pytest.raises(libinfer.ArgumentError):
            other.score(ids, top_logprobs=21)
        with pytest.raises(libinfer.TokenError):
            other.score([99999])


# Sampling


def test_seeds(model):
    def text(**changes):
        with model.session() as session:
            session.append_text(PROMPT)
            return session.generate(20, sampling=libinfer.Sampling.default(**changes)).text()

    assert text(seed=1) == text(seed=1) != text(seed=2)
    assert text(temperature=0.0) == GREEDY["text"][: len(text(temperature=0.0))]
    default = libinfer.Sampling.default()
    assert (default.top_k, round(default.temperature, 3), default.callback) == (40, 0.7, None)


def test_sampling_refuses(prompted):
    for wrong in ({"temperature": float("nan")}, {"temperature": -1.0}, {"top_logprobs": 21}, {"bias": {5: float("nan")}}):
        with pytest.raises(libinfer.ArgumentError) as caught:
            prompted.set_sampling(libinfer.Sampling(**wrong))
        assert caught.value.place
    with pytest.raises(libinfer.TokenError):
        prompted.set_sampling(libinfer.Sampling(bias={99999: 1.0}))
    with pytest.raises(OverflowError):
        prompted.set_sampling(libinfer.Sampling(top_k=-1))


def test_bias_and_logprobs(prompted):
    first = GREEDY["ids"][0]
    events = list(prompted.generate(1, sampling=libinfer.Sampling(bias={first: float("-inf")}, logprobs=True, top_logprobs=3)))
    assert events[1].id != first and events[1].logprob < 0 and len(events[1].top) == 3 and events[1].top[0].id == events[1].id


def test_callback_changes_logits(prompted):
    seen = []

    def only(logits, ids):
        seen.append((len(logits), ids.tolist()))
        for i in range(len(logits)):
            logits[i] = 0.0 if i == 77 else float("-inf")

    generation = prompted.generate(3, sampling=libinfer.Sampling(callback=only))
    list(generation)
    assert generation.ids == [77, 77, 77]
    assert seen == [(1536, GREEDY["prompt_ids"] + [77] * n) for n in range(3)]


class Raises(Exception):
    pass


def test_callback_that_raises(prompted, answer):
    def bad(logits, ids):
        raise Raises("no")

    generation = prompted.generate(24, sampling=libinfer.Sampling(callback=bad))
    assert next(generation).kind == libinfer.EventKind.PREFILL
    for _ in range(2):
        with pytest.raises(Raises):
            next(generation)
    prompted.set_sampling(libinfer.Sampling())
    assert generation.text() == answer # nothing was lost


def test_callback_that_writes_nan(prompted):
    def bad(logits, ids):
        logits[3] = float("nan")

    prompted.set_sampling(libinfer.Sampling(callback=bad))
    prompted.step()
    with pytest.raises(libinfer.HostError):
        prompted.sample()


def test_callback_that_uses_the_session_is_told(prompted):
    prompted.set_sampling(libinfer.Sampling(callback=lambda logits, ids: prompted.append([1])))
    with pytest.raises(libinfer.StateError, match="a callback must not use it"):
        prompted.generate(4).text()
    assert len(prompted) == 7


def test_what_a_callback_keeps_is_its_own(prompted):
    kept = []
    prompted.generate(2, sampling=libinfer.Sampling(callback=lambda logits, ids: kept.append((logits, ids)))).text()
    prompted.close()
    assert len(kept) == 2 and len(kept[0][0].tolist()) == 1536 and kept[1][1].tolist()[:7] == GREEDY["prompt_ids"]


def test_callback_lives_in_forks_and_checkpoints(model):
    """The library keeps the callback's pointer in whatever state it copies: here is what keeps the callback."""
    session = model.session()
    session.append_text(PROMPT)
    calls = []

    def count(logits, ids):
        calls.append(1)

    session.set_sampling(libinfer.Sampling(callback=count))
    watch = weakref.ref(count)
    del count
    fork = session.fork()
    session.close()
    del session
    gc.collect()
    fork.generate(2).text()
    assert len(calls) == 2
    checkpoint = fork.checkpoint()
    fork.close()
    del fork
    gc.collect()
    again = checkpoint.session()
    again.generate(3).text()
    assert len(calls) == 5
    again.set_sampling(libinfer.Sampling())
    del checkpoint
    again.close()
    gc.collect()
    assert watch() is None


def test_a_callback_that_is_gone_is_an_error(prompted):
    prompted.set_sampling(libinfer.Sampling(callback=lambda logits, ids: None))
    prompted._sampler = None # as if this package had lost it
    gc.collect()
    prompted.step()
    with pytest.raises(libinfer.HostError, match="callback of this state is gone"):
        prompted.sample()


# Two answers, two threads


def test_a_second_answer_ends_the_first(prompted):
    first = prompted.generate(10)
    next(first)
    next(first)
    second = prompted.generate(2)
    with pytest.raises(libinfer.StateError, match="another answer"):
        next(first)
    assert len(list(second)) == 3


def test_threads_take_turns_on_one_session(prompted, answer):
    """Misuse that C leaves undefined: here it is slow, but sound."""
    generation = prompted.generate(24)
    text, failures = [], []

    def read():
        try:
            for _ in range(200):
                assert prompted.info.length >= 7
                assert prompted.tokens()[:7] == GREEDY["prompt_ids"]
        except Exception as error: # pylint: disable=broad-exception-caught
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    text = generation.text()
    for reader in readers:
        reader.join()
    assert text == answer and not failures
