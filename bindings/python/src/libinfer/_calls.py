"""Calls that signal handlers can end.

While a thread is inside the library, no handler of Python's runs on it. When C calls back just then, the handler runs at the callback's first instruction, before
any `try`: ctypes loses what it raises, and C gets garbage. So the main thread, the only one that runs handlers, makes long calls and those that come back to the
host's code on a helper thread, and waits where handlers may raise. What the library wants of the host's code meanwhile, a piece of a file or a sampling
callback, the main thread does: nothing of the host's finds itself on another thread than the one that made the call."""
from __future__ import annotations

import _thread
import threading
from queue import Empty, SimpleQueue
from typing import Any, Callable

from . import errors
from ._core import Cancel, ObjectT, T, cancel_arg, state


class _Errand:
    """What a callback on the helper thread wants done."""

    __slots__ = ("_args", "_function", "error", "finished", "over", "value")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._function, self._args = function, args
        self.over = threading.Lock()
        self.over.acquire() # pylint: disable=consider-using-with
        self.finished = False
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self._function(*self._args)
        except BaseException as error: # pylint: disable=broad-exception-caught
            self.error = error
        self.finished = True
        self.over.release()


class _Call:
    """One call, from both threads."""

    def __init__(self, work: Callable[[Cancel | None], Any], flag: Cancel, stop: Callable[[], None]) -> None:
        self._work, self._flag, self._stop = work, flag, stop
        self._claimed: dict[str, str] = {}                            # who came first: the helper that begins, or the caller that leaves
        self._errands: SimpleQueue[_Errand | None] = SimpleQueue()    # None: the end
        self._ended = False
        self._left = False                                            # the caller does no more errands
        self.value: Any = None
        self.error: BaseException | None = None

    def _run(self, caller: _Call | None) -> None:
        if self._claimed.setdefault("by", "helper") != "helper":
            return
        state.caller = caller
        try:
            self.value = self._work(self._flag)
        except BaseException as error: # pylint: disable=broad-exception-caught
            self.error = error
        finally:
            self._ended = True
            self._errands.put(None)

    def ask(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """On the helper thread: what the caller's thread makes of it."""
        errand = _Errand(function, args)
        self._errands.put(errand)
        while not (errand.finished or self._left):
            errand.over.acquire(timeout=0.05) # pylint: disable=consider-using-with
        if not errand.finished:
            raise errors.HostError("the call was interrupted")
        if errand.error is not None:
            raise errand.error
        return errand.value

    def begin(self) -> None:
        try:
            _thread.start_new_thread(self._run, (self,))
        except RuntimeError as error:
            if "new thread" not in str(error): # a handler's
                raise
            self._run(None) # there are no threads to be had: not interruptible, but done

    def serve(self) -> None:
        """Does errands until the call has ended. Waits in short pieces: a signal that comes just before a wait does not end it."""
        while True:
            try:
                errand = self._errands.get(timeout=0.05)
            except Empty:
                continue
            if errand is None:
                return
            errand.run()

    def end(self) -> None:
        """Ends the call, whatever handlers raise meanwhile: what it uses must stay until then. May be called again."""
        self._left = True
        if self._claimed.setdefault("by", "caller") == "caller":
            return
        while not self._ended:
            try:
                self._stop()
                self._errands.get(timeout=0.05)
            except BaseException: # pylint: disable=broad-exception-caught
                continue

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self.end()


_nobodys = Cancel() # never set


def interruptible(cancel: Cancel | None, work: Callable[[Cancel | None], T], stop: Callable[[], None] | None = None) -> T:
    """work(cancel). On the main thread what a signal handler raises ends it, by a flag of its own or by stop(), and comes out when it has ended."""
    if state.depth or threading.get_ident() != threading.main_thread().ident:
        return work(cancel)
    with (cancel or _nobodys)._follower() as flag:
        return _interruptible(flag, work, stop)


def _interruptible(flag: Cancel, work: Callable[[Cancel | None], T], stop: Callable[[], None] | None) -> T:
    made = _Call(work, flag, flag.set if stop is None else stop)
    state.depth = 1 # handlers may use the library, but what they drop waits until the helper is not inside a callback
    try:
        with made, made, made: # of two signals at once the second one's handler raises where the first one's exception is dealt with
            made.begin()
            made.serve()
    finally:
        state.depth = 0
    error, made.error = made.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error # no cycle from the traceback to here
    value: T = made.value
    return value


def make(kind: type[ObjectT], function: Any, *args: Any, cancel: Cancel | None) -> ObjectT:
    """An object by a long call, whose last parameters are a flag, the handle that it gives, and an error."""
    return interruptible(cancel, lambda flag: kind._made(function, *args, cancel_arg(flag)))
