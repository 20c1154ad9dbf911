"""Answers, event by event or as text, in threads or under asyncio."""
from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from ctypes import byref
from typing import TYPE_CHECKING, NamedTuple

from . import _c, errors
from ._core import Cancel, call, cancel_arg, interruptible, new, text_at
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
    exception (CancelledError, KeyboardInterrupt) iterating may go on."""

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
        if self.finish_reason is not None:
            raise StopIteration
        session = self._session
        event = new(_c.infer_event)
        with session._exclusive():
            if session._serial != self._serial:
                raise errors.StateError("the session is making another answer now")
            session._drop_views()
            handle = session._h
            if self._prefill and session._sampler is None:
                interruptible(self._cancel, lambda flag: call(lib.infer_generate_next, handle, byref(event), cancel_arg(flag)))
            else:
                call(lib.infer_generate_next, handle, byref(event), cancel_arg(self._cancel))
            made = _event(event) # inside: the event borrows from the session
        if made.kind == EventKind.TOKEN:
            self._prefill = False
            self.ids.append(made.id)
        elif made.kind == EventKind.DONE:
            self.finish_reason, self.stop_index = made.finish_reason, made.stop_index
        return made

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            event = await self._anext()
            if event is None:
                return
            yield event

    async def _anext(self) -> Event | None:
        """next() on another thread. A cancelled task has ended it before it goes on."""
        own = Cancel() if self._cancel is None else None
        if own is not None:
            self._cancel = own
        work = asyncio.ensure_future(asyncio.to_thread(next, self, None))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            assert self._cancel is not None
            self._cancel.set()
            with contextlib.suppress(errors.Error):
                await work
            self._cancel.clear()
            raise
        finally:
            if own is not None:
                self._cancel = None

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
