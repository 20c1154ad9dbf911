"""What a guest owes its host: threads go on, Ctrl-C and cancelled tasks end calls, nothing leaks, and the end of the process is quiet."""
import asyncio
import contextlib
import gc
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
import weakref

import pytest
from conftest import PROMPT, ROOT, TINY, child_environment, kv_bytes

import libinfer
from libinfer import _core, _sources

LONG = [i % 1500 + 2 for i in range(300)]


# Threads


def test_python_goes_on_during_a_call():
    """Another thread runs in the middle of one call that computes a long prompt: Python's lock is not held."""
    with libinfer.Engine(threads=1) as engine, libinfer.Model.open(TINY, engine=engine) as model, model.session() as session:
        session.append(LONG)
        done = threading.Event()
        seen, span = [], []

        def watch():
            while not done.is_set():
                seen.append(time.monotonic())
                time.sleep(0.0005)

        def compute():
            begin = time.monotonic()
            session.step() # on a thread that is not the main one: one call of the library
            span.extend((begin, time.monotonic()))
            done.set()

        threads = [threading.Thread(target=watch), threading.Thread(target=compute)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    quarter = (span[1] - span[0]) / 4
    assert [at for at in seen if span[0] + quarter < at < span[1] - quarter]


def test_two_sessions_in_two_threads(model, answer):
    texts = []

    def work():
        with model.session() as session:
            session.append_text(PROMPT)
            texts.append(session.generate(24).text())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [answer] * 4


def test_cancel_from_another_thread(model):
    cancel = libinfer.Cancel()
    with libinfer.Engine(threads=1) as engine, libinfer.Model.open(TINY, engine=engine) as slow, slow.session() as session:
        session.append(LONG)
        threading.Timer(0.02, cancel.set).start()
        with pytest.raises(libinfer.CancelledError):
            while True: # until it is set
                session.step(cancel=cancel)
                session.truncate(0)
                session.append(LONG)
        cancel.clear()
        session.step(cancel=cancel)
        cold = bytes(session.logits())
    with model.session() as other:
        other.append(LONG)
        other.step()
        assert bytes(other.logits()) == cold


def test_closing_while_another_thread_is_inside():
    """The call holds the handle: closing takes effect when it returns."""
    for _ in range(20):
        model = libinfer.Model.open(TINY)
        session = model.session()
        session.append(LONG[:100])
        failures = []

        def work(session=session, failures=failures):
            try:
                for _ in session.generate(100):
                    pass
            except libinfer.StateError as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.005)
        session.close()
        model.close()
        thread.join(60)
        assert not thread.is_alive()
        assert not failures or "closed" in str(failures[0])


# Ctrl-C


class Interrupted(Exception):
    pass


@contextlib.contextmanager
def alarm(seconds):
    """Raises Interrupted in the main thread after some time, as Ctrl-C raises KeyboardInterrupt."""

    def handler(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_signal_ends_a_long_call_and_the_session_goes_on(model):
    with libinfer.Engine(threads=1) as engine, libinfer.Model.open(TINY, engine=engine) as slow, slow.session() as session:
        session.append(LONG)
        calls = 0
        with pytest.raises(Interrupted), alarm(0.05):
            while True:
                session.step()
                calls += 1
                session.truncate(0)
                session.append(LONG)
        if len(session) != 300: # it came between two calls
            session.truncate(0)
            session.append(LONG)
        session.step()
        with model.session() as other:
            other.append(LONG)
            other.step()
            assert bytes(other.logits()) == bytes(session.logits())


def test_a_signal_just_when_a_call_ends(model):
    """A handler may raise right after the main thread has taken the lock that says that the call is over."""
    taken = threading.Lock()
    with taken:
        _core._wait_for(taken, {"value": 1}) # nobody gives the lock back: the result tells
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


def test_a_signal_during_generate(prompted):
    generation = prompted.generate(ignore_eos=True)
    with pytest.raises(Interrupted), alarm(0.05):
        while True:
            for _ in generation:
                pass
            prompted.truncate(7)
            generation = prompted.generate(ignore_eos=True)
    if generation.finish_reason is None:
        before = len(generation.ids)
        assert next(generation).id >= 0 or before # the answer goes on
    prompted.truncate(7)
    assert prompted.generate(3).text() == ", the little"


def test_control_c_leaves_at_once_with_everything_usable():
    code = f"""
import os, signal, sys, threading, libinfer
engine = libinfer.Engine(threads=1)
model = libinfer.Model.open({TINY!r}, engine=engine)
session = model.session()
session.append({LONG!r})
cancel = libinfer.Cancel()
threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        session.step(cancel=cancel)
        session.truncate(0)
        session.append({LONG!r})
except KeyboardInterrupt:
    print("interrupted", cancel.is_set)
session.truncate(0)
session.append_text("Once upon a time")
print(session.generate(4).text())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=child_environment(), timeout=120)
    assert (result.stdout, result.stderr, result.returncode) == ("interrupted False\n, the little girl\n", "", 0)


def test_what_an_interrupted_call_raises_at_once():
    """The signal comes while work() runs: the flag is set, and the exception comes out only when work() has ended."""
    seen = []

    def work(flag):
        deadline = time.monotonic() + 60
        while not flag.is_set and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.02)
        seen.append(flag.is_set)

    with pytest.raises(Interrupted), alarm(0.05):
        _core.interruptible(None, work)
    assert seen == [True]


# asyncio


def test_async_for(model, answer):
    async def one():
        with model.session() as session:
            session.append_text(PROMPT)
            return "".join([piece async for piece in session.stream(24)])

    async def several():
        ticks = []

        async def tick():
            while True:
                ticks.append(1)
                await asyncio.sleep(0)

        ticker = asyncio.ensure_future(tick())
        texts = await asyncio.gather(*[one() for _ in range(3)])
        ticker.cancel()
        return texts, len(ticks)

    texts, ticks = asyncio.run(several())
    assert texts == [answer] * 3 and ticks > 10


def test_a_cancelled_task_leaves_the_session_usable(model, answer):
    async def main():
        with model.session() as session:
            session.append_text(PROMPT)
            generation = session.generate(24)
            begun = []

            async def read():
                async for event in generation:
                    begun.append(event.text)
                    if len(begun) == 5:
                        asyncio.current_task().cancel()

            with pytest.raises(asyncio.CancelledError):
                await asyncio.ensure_future(read())
            return begun, generation, generation.text()

    begun, generation, rest = asyncio.run(main())
    assert answer.startswith("".join(begun)) and answer.endswith(rest) and len(generation.ids) >= 23


def test_a_cancelled_task_has_left_the_library(model):
    """The task ends when the call that it waits for has: here one that is inside a callback."""
    inside, left = threading.Event(), []

    def slow(logits, ids):
        inside.set()
        time.sleep(0.2)
        left.append(1)

    async def main():
        with model.session() as session:
            session.append_text(PROMPT)
            generation = session.generate(5, sampling=libinfer.Sampling(callback=slow))

            async def read():
                async for _ in generation:
                    pass

            task = asyncio.ensure_future(read())
            assert await asyncio.to_thread(inside.wait, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert left

    asyncio.run(main())


# Leaks


def test_a_thousand_sessions(model):
    watched = []
    start = kv_bytes(model.engine)
    for i in range(1000):
        session = model.session()
        session.append(LONG[: i % 50 + 1])
        if i % 10 == 0:
            session.step()
        watched.append(weakref.ref(session._handle))
    del session
    gc.collect()
    assert not [ref for ref in watched if ref() is not None]
    assert kv_bytes(model.engine) <= start + (1 << 20)


def memory():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer keeps freed memory")
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
def test_memory_does_not_grow(model):
    def round_trip():
        with model.session() as session:
            session.append_text(PROMPT)
            session.set_sampling(libinfer.Sampling(callback=lambda logits, ids: None, bias={5: 1.0}))
            session.generate(3, stops=["xyz"]).text()
            with session.logits() as view:
                assert view[0] < 100
            session.checkpoint().session().close()
            with pytest.raises(libinfer.TokenError):
                session.append([99999])

    def growth():
        """Bytes in 50 round trips."""
        before = memory()
        for _ in range(50):
            round_trip()
        gc.collect()
        return memory() - before

    # What leaks does so in every round; what an allocator takes or keeps of what other tests freed, in a few of them.
    growth()
    rounds = [growth() for _ in range(9)]
    assert statistics.median(rounds) < 256 << 10, rounds
    assert not _sources._openers


def test_handles_released_inside_a_callback_wait_for_its_end(model):
    """The garbage collector may run there, where the library must not be called."""
    dropped = []

    def drop(logits, ids):
        session = model.session()
        dropped.append(weakref.ref(session._handle))
        del session
        gc.collect()
        assert dropped[-1]() is None and len(_core._deferred) >= 1

    with model.session() as session:
        session.append_text(PROMPT)
        session.generate(3, sampling=libinfer.Sampling(callback=drop)).text()
    assert len(dropped) == 3 and not _core._deferred


# Processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork():
    """As docs/state.md tells prefork hosts: the child has its own session, and computes."""
    code = f"""
import os, libinfer
model = libinfer.Model.open({TINY!r})
session = model.session()
session.append_text("Once upon a time")
session.step()
child = os.fork()
text = session.generate(4).text()
if child == 0:
    os._exit(0 if text == ", the little girl" else 1)
_, status = os.waitpid(child, 0)
print(text, os.waitstatus_to_exitcode(status))
"""
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False, env=child_environment(), timeout=120)
    assert (result.stdout, result.stderr) == (", the little girl 0\n", "")


EXITS = {
    "live objects": "keep = [model, session, session.fork(), session.checkpoint(), generation, model.tokenizer, session.logits()]",
    "a cycle": "class Node: pass\nnode = Node(); node.self = node; node.keep = [session, generation, session.logits()]",
    "a daemon thread inside": "session2 = model.session(); session2.append([1] * 400)\n"
                              "t = threading.Thread(target=lambda: [s for s in iter(lambda: session2.generate(ignore_eos=True).text(), None)], daemon=True); t.start()",
    "a daemon thread inside a callback": "session2 = model.session(); session2.append([1])\nsession2.set_sampling(libinfer.Sampling(callback=lambda l, i: None))\n"
                                         "t = threading.Thread(target=lambda: session2.generate(ignore_eos=True).text(), daemon=True); t.start()",
    "bytes in place": "model2 = libinfer.Model.open(open(PATH, 'rb').read()); session2 = model2.session()",
    "a module global of another module": "sys.modules['other'] = type(sys)('other'); sys.modules['other'].kept = session",
}


@pytest.mark.parametrize("what", sorted(EXITS))
def test_the_end_of_the_interpreter_is_quiet(what):
    code = f"""
import sys, threading, libinfer
PATH = {TINY!r}
model = libinfer.Model.open(PATH, engine=libinfer.Engine(log=lambda level, text: None))
session = model.session()
session.append_text("Once upon a time")
generation = session.generate(10)
next(generation), next(generation)
{EXITS[what]}
print("leaving", flush=True)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=child_environment(), timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (0, "leaving\n", "")


def test_examples():
    env = child_environment()
    examples = ROOT / "bindings" / "python" / "examples"
    result = subprocess.run([sys.executable, str(examples / "generate.py"), TINY, PROMPT, "--max-tokens", "8"], capture_output=True, text=True, check=False, env=env)
    assert result.returncode == 0 and result.stdout.startswith(", the little"), result
    result = subprocess.run([sys.executable, str(examples / "chat.py"), TINY, "--max-tokens", "4"], input="Hello\nAgain\n", capture_output=True, text=True, check=False, env=env)
    assert result.returncode == 0 and result.stdout.count("> ") >= 2, result
    result = subprocess.run([sys.executable, str(examples / "generate.py"), "/nowhere.gguf", "x"], capture_output=True, text=True, check=False, env=env)
    assert result.returncode == 1 and "/nowhere.gguf" in result.stderr and "Traceback" not in result.stderr
