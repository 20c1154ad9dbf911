"""Schedulers: requests by iterator and by callback, stepped by the host or by a thread."""
import gc
import subprocess
import sys
import threading
import time
import weakref

import pytest
from conftest import PROMPT, TINY, child_environment

import libinfer

DONE, END, TOKEN = libinfer.RequestEventKind.DONE, libinfer.RequestEventKind.END, libinfer.RequestEventKind.TOKEN


@pytest.fixture(name="scheduler")
def _scheduler(model):
    with libinfer.Scheduler(model) as made:
        yield made


def test_requests_get_what_they_would_alone(scheduler, answer):
    requests = [scheduler.submit(PROMPT, max_tokens=24) for _ in range(3)]
    assert ["".join(request.stream()) for request in requests] == [answer] * 3
    assert all(request.ended for request in requests)
    info = requests[0].info
    assert info.prompt_tokens == 7 and info.generated_tokens == 24 and 0 < info.submitted <= info.started <= info.ended
    assert scheduler.info.finished == 3


def test_kinds_of_prompt(scheduler, model, answer):
    ids = model.tokenizer.encode(PROMPT, add_special=True)
    with model.session() as session:
        session.append(ids)
        session.step()
        checkpoint = session.checkpoint()
    assert scheduler.submit(ids, max_tokens=24).result()[0].text == answer
    assert scheduler.submit(checkpoint=checkpoint, continue_checkpoint=True, max_tokens=24).result()[0].text == answer
    chat = scheduler.submit([("user", "Hello")], max_tokens=3).result()[0]
    assert chat.finish_reason == libinfer.Finish.LENGTH and len(chat.ids) == 3
    with pytest.raises(TypeError):
        scheduler.submit(b"bytes")
    with pytest.raises(libinfer.ArgumentError):
        scheduler.submit()
    with pytest.raises(libinfer.ContextFullError):
        scheduler.submit([1] * 600)
    with pytest.raises(libinfer.TokenError):
        scheduler.submit([99999])


def test_choices_and_events(scheduler):
    request = scheduler.submit(PROMPT, n=2, max_tokens=5, sampling=libinfer.Sampling.default(seed=3, logprobs=True, top_logprobs=2), echo=True, keep=True)
    events = list(request)
    assert events[-1].kind == END and [e.choice for e in events if e.kind == DONE] in ([0, 1], [1, 0])
    assert "".join(e.text for e in events if e.kind == libinfer.RequestEventKind.PROMPT) == PROMPT
    tokens = [e for e in events if e.kind == TOKEN]
    assert len(tokens) == 10 and all(e.logprob < 0 and len(e.top) == 2 for e in tokens)
    assert len(request.checkpoint(1)) == 12
    with pytest.raises(libinfer.ArgumentError):
        request.checkpoint(2)


def test_scoring(scheduler):
    request = scheduler.submit(PROMPT, prompt_only=True, echo=True, prompt_logprobs=True)
    assert request.result()[0].ids == [] and request.info.prompt_logprob < 0


def test_cancel_and_time(scheduler):
    request = scheduler.submit(PROMPT, ignore_eos=True)
    scheduler.step()
    request.cancel()
    assert request.result()[0].finish_reason == libinfer.Finish.CANCELLED
    assert scheduler.submit(PROMPT, ignore_eos=True, time_limit=1e-6).result()[0].finish_reason == libinfer.Finish.TIME


def test_callback(scheduler, answer):
    events = []
    request = scheduler.submit(PROMPT, max_tokens=24, callback=lambda r, event: events.append((r, event)))
    with pytest.raises(libinfer.StateError):
        list(request)
    while scheduler.step():
        pass
    assert all(r is request for r, _ in events) and events[-1][1].kind == END
    assert "".join(event.text for _, event in events) == answer
    assert not scheduler._listening


class Raises(Exception):
    pass


def test_callback_that_raises(scheduler, answer):
    seen = []

    def bad(request, event):
        seen.append(event.kind)
        if event.kind == TOKEN:
            raise Raises("no")

    request = scheduler.submit(PROMPT, callback=bad)
    other = scheduler.submit(PROMPT, max_tokens=24)
    with pytest.raises(Raises):
        while True:
            scheduler.step()
    assert other.result()[0].text == answer # nothing of the others is lost
    assert seen[-1] == END and request.ended


def test_a_callback_must_not_step(scheduler):
    failures = []

    def again(request, event):
        for call in (scheduler.step, scheduler.close):
            with pytest.raises(libinfer.StateError) as caught:
                call()
            failures.append(caught.value)

    scheduler.submit(PROMPT, max_tokens=2, callback=again)
    while scheduler.step():
        pass
    assert len(failures) >= 8


def test_a_callback_must_not_wait_for_events(model, answer):
    """Also when a thread steps: it is the one that would have to make them."""
    failures, done = [], threading.Event()
    with libinfer.Scheduler(model).start() as scheduler:
        def wait(request, event):
            if event.kind == END:
                other = scheduler.submit(PROMPT, max_tokens=24)
                try:
                    other.result()
                except libinfer.StateError as error:
                    failures.append(error)
                others.append(other)
                done.set()

        others = []
        scheduler.submit(PROMPT, max_tokens=1, callback=wait)
        assert done.wait(60)
        assert failures and "a callback" in str(failures[0])
        assert others[0].result()[0].text == answer


def test_events_that_come_before_submit_has_returned(model):
    """The thread that steps may be through with a request before the one that submits it goes on."""
    class Late(type(threading.Condition())):
        def __enter__(self):
            if threading.current_thread() is threading.main_thread() and not late:
                late.append(True)
                deadline = time.monotonic() + 60
                while scheduler.info.finished == 0 and time.monotonic() < deadline:
                    time.sleep(0.001)
                time.sleep(0.05) # it waits for work again
            return super().__enter__()

    late, done = [True], threading.Event()
    with libinfer.Scheduler(model) as scheduler:
        scheduler._changed = Late()
        scheduler.start()
        late.clear()
        scheduler.submit(PROMPT, max_tokens=1, callback=lambda request, event: done.set() if event.kind == END else None)
        assert late and done.wait(60)


def test_closing_wakes_who_waits(model):
    scheduler = libinfer.Scheduler(model)
    waiters = [threading.Thread(target=scheduler.wait, daemon=True) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    time.sleep(0.05) # until they do: one that comes later is told that it is closed
    scheduler.close()
    for waiter in waiters:
        waiter.join(60)
        assert not waiter.is_alive()


def test_a_sampling_callback_must_not_step(scheduler, answer):
    failures = []

    def again(logits, ids):
        for call in (scheduler.step, scheduler.wait):
            with pytest.raises(libinfer.StateError, match="a callback of the scheduler must not") as caught:
                call()
            failures.append(caught.value)

    other = scheduler.submit(PROMPT, max_tokens=24)
    scheduler.submit(PROMPT, max_tokens=2, sampling=libinfer.Sampling(callback=again))
    while scheduler.step():
        pass
    assert len(failures) == 4 and other.result()[0].text == answer


def test_logits_callback_that_raises(scheduler, answer):
    def bad(logits, ids):
        raise Raises("no")

    request = scheduler.submit(PROMPT, sampling=libinfer.Sampling(callback=bad))
    other = scheduler.submit(PROMPT, max_tokens=24)
    choice = request.result()[0]
    assert choice.finish_reason == libinfer.Finish.ERROR and isinstance(choice.error, libinfer.HostError) and isinstance(choice.error.__cause__, Raises)
    assert other.result()[0].text == answer


def test_logits_callback_of_a_request_that_is_dropped(scheduler):
    """The library calls it as long as the request runs."""
    calls = []

    def count(logits, ids):
        calls.append(1)

    scheduler.submit(PROMPT, max_tokens=5, sampling=libinfer.Sampling(callback=count))
    gc.collect()
    while scheduler.step():
        pass
    assert len(calls) == 5
    watch = weakref.ref(count)
    del count
    scheduler.submit(PROMPT, max_tokens=1).result()
    gc.collect()
    assert watch() is None


def test_thread(model, answer):
    with libinfer.Scheduler(model).start() as scheduler:
        results = []
        readers = [threading.Thread(target=lambda: results.append("".join(scheduler.submit(PROMPT, max_tokens=24).stream()))) for _ in range(8)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(60)
        assert results == [answer] * 8
        with pytest.raises(libinfer.StateError):
            scheduler.start()
        scheduler.stop()
        scheduler.stop()
        assert scheduler.submit(PROMPT, max_tokens=24).result()[0].text == answer # stepped by who asks
        scheduler.start()
        assert scheduler.submit(PROMPT, max_tokens=24).result()[0].text == answer


def test_thread_with_callbacks(model, monkeypatch):
    told, done = [], threading.Event()
    monkeypatch.setattr("sys.unraisablehook", told.append)

    def bad(request, event):
        raise Raises("no")

    with libinfer.Scheduler(model).start() as scheduler:
        scheduler.submit(PROMPT, callback=bad)
        scheduler.submit(PROMPT, max_tokens=3, callback=lambda r, event: done.set() if event.kind == END else None)
        assert done.wait(60)
    assert told and isinstance(told[0].exc_value, Raises)


def test_closing_ends_requests(model):
    scheduler = libinfer.Scheduler(model).start()
    ended = []
    request = scheduler.submit(PROMPT, n=4, ignore_eos=True)
    callback = scheduler.submit(PROMPT, ignore_eos=True, callback=lambda r, event: ended.append(event.kind))
    waiter = []
    reader = threading.Thread(target=lambda: waiter.append(request.result()))
    reader.start()
    scheduler.close()
    reader.join(60)
    assert not reader.is_alive() and ended[-1] == END and callback.ended
    assert all(c.finish_reason in (libinfer.Finish.CANCELLED, libinfer.Finish.CONTEXT) for c in waiter[0])
    with pytest.raises(libinfer.StateError):
        scheduler.submit(PROMPT)
    scheduler.close()


def test_a_scheduler_that_is_dropped_ends_its_thread(model):
    scheduler = libinfer.Scheduler(model).start()
    scheduler.submit(PROMPT, max_tokens=2).result()
    thread, handle = scheduler._run._thread, weakref.ref(scheduler._handle)
    del scheduler
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()
    deadline = time.monotonic() + 60
    while handle() is not None and time.monotonic() < deadline:
        gc.collect()
    assert handle() is None


def test_a_scheduler_that_runs_at_exit():
    code = f"""
import libinfer
scheduler = libinfer.Scheduler(libinfer.Model.open({TINY!r})).start()
for _ in range(4):
    scheduler.submit("Once upon a time", ignore_eos=True, callback=lambda request, event: None)
print("leaving", flush=True)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=child_environment(), timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (0, "leaving\n", "")
