"""Ctrl-C, and whatever else a signal handler raises, at any moment: it ends what the main thread is in, comes out, and loses nothing."""
import contextlib
import gc
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque

import pytest
from conftest import PROMPT, TINY, child_environment

import libinfer
from libinfer import _calls, _core

LONG = [i % 1500 + 2 for i in range(300)]
pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no signals")


class Interrupted(Exception):
    pass


def interrupt(number, frame):
    raise Interrupted


@contextlib.contextmanager
def handled(*numbers):
    """These signals raise Interrupted in the main thread, as Ctrl-C raises KeyboardInterrupt."""
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)


@contextlib.contextmanager
def alarm(seconds):
    """Raises Interrupted after some time. Not before the body has begun, and not after this has ended."""
    with handled(signal.SIGALRM):
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def main_thread_gets(*numbers):
    """Sends signals to the main thread, all of them before it can run a handler."""
    for number in numbers:
        signal.pthread_kill(threading.main_thread().ident, number)


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


# Long calls


def test_a_signal_ends_a_long_call_and_the_session_goes_on(model):
    with libinfer.Engine(threads=1) as engine, libinfer.Model.open(TINY, engine=engine) as slow, slow.session() as session:
        with pytest.raises(Interrupted), alarm(0.05):
            while True:
                session.truncate(0)
                session.append(LONG)
                session.step()
        if len(session) != 300: # it came before a call
            session.append(LONG)
        session.step()
        with model.session() as other:
            other.append(LONG)
            other.step()
            assert bytes(other.logits()) == bytes(session.logits())


def test_a_signal_at_any_moment_of_a_call(model):
    with model.session() as session:
        for i in range(300):
            session.truncate(0)
            session.append(LONG[:2])
            with contextlib.suppress(Interrupted), alarm(0.0001 + i * 2e-6):
                session.step()
        session.truncate(0)
        session.append(LONG[:2])
        session.step()
        assert len(session) == 2


def test_control_c_leaves_at_once_with_everything_usable():
    code = f"""
import os, signal, sys, threading, libinfer
engine = libinfer.Engine(threads=1)
model = libinfer.Model.open({TINY!r}, engine=engine)
session = model.session()
cancel = libinfer.Cancel()
try:
    threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    while True:
        session.truncate(0)
        session.append({LONG!r})
        session.step(cancel=cancel)
except KeyboardInterrupt:
    print("interrupted", cancel.is_set)
session.truncate(0)
session.append_text("Once upon a time")
print(session.generate(4).text())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=child_environment(), timeout=120)
    assert (result.stdout, result.stderr, result.returncode) == ("interrupted False\n, the little girl\n", "", 0)


def ends_when_told(numbers):
    """A call that the signals interrupt; what is told of it before and after what a handler raised came out."""
    seen = []

    def work(flag):
        main_thread_gets(*numbers)
        until(lambda: flag.is_set)
        time.sleep(0.02) # a caller that did not wait would be ahead
        seen.append(True)

    with handled(*numbers), pytest.raises(Interrupted):
        _calls.interruptible(None, work)
    return seen


def test_what_a_handler_raises_comes_out_when_the_call_has_ended():
    assert ends_when_told([signal.SIGALRM]) == [True]


def test_signals_at_once():
    """The second handler raises where the first one's exception is dealt with."""
    assert ends_when_told([signal.SIGALRM, signal.SIGUSR1]) == [True]
    assert ends_when_told([signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2]) == [True]


def test_other_signals_where_ctrl_c_is_ignored():
    """As in what a shell starts in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert ends_when_told([signal.SIGUSR1]) == [True]
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_hosts_flag_is_left_alone():
    """Other calls may have it too; setting it ends this one."""
    shared, told = libinfer.Cancel(), []

    def work(flag):
        main_thread_gets(signal.SIGALRM)
        until(lambda: flag.is_set)
        told.append(shared.is_set)

    with handled(signal.SIGALRM), pytest.raises(Interrupted):
        _calls.interruptible(shared, work)
    assert told == [False] and not shared._followers

    def set_meanwhile(flag):
        assert not flag.is_set
        shared.set()
        return flag.is_set

    assert _calls.interruptible(shared, set_meanwhile)
    assert _calls.interruptible(shared, lambda flag: flag.is_set) # set before
    shared.clear()
    assert not _calls.interruptible(shared, lambda flag: flag.is_set)
    assert not _calls.interruptible(None, lambda flag: flag.is_set)


def test_a_signal_just_when_a_call_ends(model, monkeypatch):
    """What it gave has an owner: nothing leaks."""
    real = _core.call

    def call(function, *args):
        real(function, *args)
        raise Interrupted

    gc.collect()
    before = model.engine.info.memory_bytes
    with monkeypatch.context() as patch:
        patch.setattr(_core, "call", call)
        for _ in range(5):
            with pytest.raises(Interrupted):
                model.session()
    gc.collect()
    assert model.engine.info.memory_bytes == before


def test_without_threads_a_call_is_made_all_the_same(prompted, answer, monkeypatch):
    def refused(*args):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_calls._thread, "start_new_thread", refused)
    calls = []
    assert prompted.generate(24, sampling=libinfer.Sampling(callback=lambda logits, ids: calls.append(1))).text() == answer
    assert len(calls) == 24


# The host's code inside a call


def test_a_signal_before_a_callback(model):
    """It comes while the library computes, and the next Python that runs is a callback: there nothing could catch what the handler raises."""
    with model.session(n_ctx=500) as session:
        session.append_text(PROMPT)
        generation = session.generate(ignore_eos=True, sampling=libinfer.Sampling(callback=lambda logits, ids: None))
        for i in range(20):
            deadline = time.monotonic() + 30
            with pytest.raises(Interrupted), alarm(0.002 + i * 1e-4):
                while time.monotonic() < deadline:
                    for _ in generation:
                        pass
                    session.truncate(7)
                    generation = session.generate(ignore_eos=True)


def test_a_signal_in_a_callback(prompted, answer):
    threads = []

    def first_raises(logits, ids):
        threads.append(threading.current_thread())
        if len(threads) == 1:
            main_thread_gets(signal.SIGALRM)
            time.sleep(0.01)

    generation = prompted.generate(24, sampling=libinfer.Sampling(callback=first_raises))
    with handled(signal.SIGALRM), pytest.raises(Interrupted):
        generation.text()
    assert generation.text() == answer
    assert set(threads) == {threading.main_thread()} # that of the call


def test_a_signal_during_a_read():
    """A file in Python: the handler interrupts its read, which may wait for long."""
    class Slow:
        def seek(self, offset, whence=0):
            return 0

        def tell(self):
            return os.path.getsize(TINY)

        def read(self, count):
            main_thread_gets(signal.SIGALRM)
            queue.Queue().get(timeout=60)

    with handled(signal.SIGALRM), pytest.raises(Interrupted):
        libinfer.Model.open(Slow())


def test_a_callback_may_use_another_session(model, prompted, answer):
    with model.session() as other:
        other.append_text(PROMPT)

        def callback(logits, ids):
            if len(ids) == 7:
                assert other.generate(24).text() == answer

        assert prompted.generate(24, sampling=libinfer.Sampling(callback=callback)).text() == answer


@pytest.mark.skipif(sys.version_info < (3, 11), reason="an older interpreter looks for signals between any two instructions")
@pytest.mark.parametrize("callback", [None, lambda logits, ids: None])
def test_no_event_is_lost(model, callback):
    def begun(session):
        session.append_text(PROMPT)
        return session.generate(120, ignore_eos=True, sampling=libinfer.Sampling(callback=callback))

    with model.session() as session:
        whole = list(begun(session))
    events, seconds = [], 0.002
    with model.session() as session:
        answer = begun(session)
        while not events or events[-1].kind != libinfer.EventKind.DONE:
            seconds *= 1.05 # what is interrupted is begun anew, and must be done some time
            with contextlib.suppress(Interrupted), alarm(seconds):
                for event in answer:
                    events.append(event)
            if len(events) % 2:
                answer = session.resume()
    assert [event.id for event in events if event.id >= 0] == [event.id for event in whole if event.id >= 0]
    assert "".join(event.text for event in events) == "".join(event.text for event in whole)


# Schedulers


def test_a_signal_ends_a_wait(model):
    with libinfer.Scheduler(model) as scheduler:
        late = []
        timer = threading.Timer(60, lambda: (late.append(1), scheduler.wake()))
        timer.start()
        try:
            with pytest.raises(Interrupted), alarm(0.05):
                while True:
                    scheduler.wait()
        finally:
            timer.cancel()
        assert not late


@pytest.mark.skipif(sys.version_info < (3, 11), reason="an older interpreter looks for signals between any two instructions")
def test_no_event_of_a_request_is_lost(model, answer):
    with libinfer.Scheduler(model) as scheduler:
        request = scheduler.submit(PROMPT, max_tokens=24)
        pieces, seconds = [], 0.001
        while not request.ended:
            seconds *= 1.05
            with contextlib.suppress(Interrupted), alarm(seconds):
                for event in request:
                    pieces.append(event.text)
        assert "".join(pieces) == answer


# What other threads may do just then


def test_what_waits_to_be_dropped_may_be_gone(model, monkeypatch):
    class Taken(deque):
        def __bool__(self): # another thread takes the last one behind this
            return True

    monkeypatch.setattr(_core, "_deferred", Taken())
    model.session().close()


def test_a_flag_that_is_closed_meanwhile_lives_until_the_call_ends():
    cancel = libinfer.Cancel()
    options = libinfer.text.render_options(None, cancel)
    handle = _core.weakref.ref(cancel._handle)
    cancel.close()
    assert handle() is not None
    del options
    assert handle() is None
