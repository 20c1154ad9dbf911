"""What a guest owes its host: threads go on, cancelled tasks end calls, nothing leaks, and the end of the process is quiet. Signals: test_signals.py."""
import asyncio
import gc
import os
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
    """A call that sleeps until another thread of Python's wakes it: were Python's lock held, nobody ever could."""
    code = f"""
import threading, time, libinfer
scheduler = libinfer.Scheduler(libinfer.Model.open({TINY!r}))
thread = threading.Thread(target=scheduler.wait)
thread.start()
time.sleep(0.2)
scheduler.wake()
thread.join()
print("woken")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=child_environment(), timeout=120)
    assert (result.stdout, result.stderr) == ("woken\n", "")


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
    assert "".join(begun) + rest == answer and len(generation.ids) == 24 # nothing is lost


def test_a_cancelled_task_has_left_the_library(model):
    """The task ends when the call that it waits for has, however often it is cancelled: here one that is inside a callback. The host's flag is left alone: other
    calls may have it too."""
    inside, leave, left = threading.Event(), threading.Event(), []
    shared = libinfer.Cancel()

    def slow(logits, ids):
        inside.set()
        leave.wait(60)
        left.append(shared.is_set)

    async def main():
        with model.session() as session:
            session.append_text(PROMPT)
            generation = session.generate(5, sampling=libinfer.Sampling(callback=slow), cancel=shared)

            async def read():
                async for _ in generation:
                    pass

            task = asyncio.ensure_future(read())
            assert await asyncio.to_thread(inside.wait, 60)
            for _ in range(3):
                task.cancel()
                for _ in range(20):
                    await asyncio.sleep(0)
                assert not task.done()
            leave.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert left == [False]

    asyncio.run(main())


def test_the_hosts_flag_ends_an_async_for(model):
    cancel = libinfer.Cancel()

    async def main():
        with model.session() as session:
            session.append_text(PROMPT)
            cancel.set()
            with pytest.raises(libinfer.CancelledError):
                async for _ in session.generate(5, cancel=cancel):
                    pass

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
