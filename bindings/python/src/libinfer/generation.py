"""Answers, event by event or as text, in threads or under asyncio."""
from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Iterator
from ctypes import byref
from typing import TYPE_CHECKING, NamedTuple

from . import _c, errors
from ._calls import interruptible
from ._core import Cancel, Handle, call, cancel_arg, new, text_at
from ._library import lib
from .enums import EventKind, Finish
from .sampling import Logprob, logprobs_at

if TYPE_CHECKING:
    from .session import Session


class Event(NamedTuple):
    """What happened: PREFILL (done of total elements of the prompt), TOKEN (id, text), SHIFT, DONE (finish_reason, text that was held back)."""

    kind: EventKind
    id: int                            #: -1 unless TOKEN
    text: str                          #: whole characters; "" while one is unfinished or may become a stop string
    done: int
    total: int
    logprob: float                     #: when asked for
    top: list[Logprob]
    finish_reason: Finish | None    #: of DONE
    stop_index: int                    #: which of the stop strings; else -1


def _event(c: _c.infer_event) -> Event:
    finish = Finish(c.finish_reason) if c.kind == _c.INFER_EVENT_DONE else None
    return Event(EventKind(c.kind), c.id, text_at(c.text, c.text_len), c.done, c.total, c.logprob, logprobs_at(c.top, c.top_count), finish, c.stop_index)


class Generation(Iterator[Event]):
    """An answer that is being made: an iterator of events, also for `async for`. Each next() computes one token, or one chunk of the prompt. After an
    exception (CancelledError, KeyboardInterrupt) iterating may go on: no event is lost."""

    def __init__(self, session: Session, cancel: Cancel | None) -> None:
        """Of the answer that the session is making."""
        self._session = session
        self._cancel = cancel
        self._serial = session._serial
        self._prefill = True
        self.finish_reason: Finish | None = None  #: once it has ended
        self.stop_index = -1                         #: which of the stop strings ended it
        self.ids: list[int] = []                     #: tokens so far

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> Event:
        while self.finish_reason is None:
            self._ready(self._cancel)
            event = self._take()
            if event is not None: # else another thread was quicker
                return event
        raise StopIteration

    def _ready(self, cancel: Cancel | None) -> None:
        """Computes the next event, unless that was done: something was raised before the host had it."""
        session = self._session
        with session._exclusive():
            if self.finish_reason is not None:
                return
            if session._serial != self._serial:
                raise errors.StateError("the session is making another answer now")
            if session._event is None:
                session._drop_views()
                self._compute(session, session._h, cancel)

    def _compute(self, session: Session, handle: Handle, cancel: Cancel | None) -> None:
        out = new(_c.infer_event)

        def work(flag: Cancel | None) -> None:
            try:
                call(lib.infer_generate_next, handle, byref(out), cancel_arg(flag))
            finally:
                if out.kind: # whatever a signal handler has raised
                    try:
                        session._event = _event(out)
                    except BaseException: # or raises just now
                        session._event = _event(out)
                        raise

        if self._prefill or session._sampler is not None: # long, or comes back to the host's code
            interruptible(cancel, work)
        else:
            work(cancel)

    def _take(self) -> Event | None:
        """The event that is there. No call is in here: between two of them a signal handler may raise, and the event would be lost."""
        session = self._session
        made, session._event = session._event, None
        if made is None:
            return None
        if made.kind == _c.INFER_EVENT_TOKEN:
            self._prefill = False
            self.ids += [made.id]
        elif made.kind == _c.INFER_EVENT_DONE:
            self.finish_reason, self.stop_index = made.finish_reason, made.stop_index
        return made

    async def __aiter__(self) -> AsyncIterator[Event]:
        while self.finish_reason is None:
            await self._until_ready()
            event = self._take()
            if event is not None:
                yield event

    async def _until_ready(self) -> None:
        """_ready() on another thread. A cancelled task has ended that call before it goes on."""
        with Cancel() if self._cancel is None else self._cancel._follower() as flag:
            work = asyncio.get_running_loop().run_in_executor(None, contextvars.copy_context().run, self._ready, flag)
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                flag.set()
                while not work.done():
                    with contextlib.suppress(asyncio.CancelledError): # a second one
                        await asyncio.wait([work])
                if not work.cancelled():
                    work.exception() # has been looked at
                raise

    def stream(self) -> TextStream:
        """The same answer as pieces of text."""
        return TextStream(self)

    def text(self) -> str:
        """The rest of the answer, whole."""
        return "".join(event.text for event in self)


class TextStream(Iterator[str]):
    """An answer as pieces of text, none of them empty; also for `async for`."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation

    @property
    def finish_reason(self) -> Finish | None:
        return self.generation.finish_reason

    @property
    def ids(self) -> list[int]:
        return self.generation.ids

    def __iter__(self) -> TextStream:
        return self

    def __next__(self) -> str:
        for event in self.generation:
            if event.text:
                return event.text
        raise StopIteration

    async def __aiter__(self) -> AsyncIterator[str]:
        async for event in self.generation:
            if event.text:
                yield event.text
