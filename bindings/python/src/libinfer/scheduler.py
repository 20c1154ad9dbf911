"""Many requests on one model, computed together."""
from __future__ import annotations

import atexit
import ctypes
import math
import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from ctypes import byref
from typing import Any, Callable, NamedTuple

from . import _c, errors
from ._calls import interruptible
from ._core import Cancel, Handle, Object, Sampler, address_of, call, cancel_arg, encode, fill, int_array, new, state, text_at, unraisable
from ._library import lib
from .adapters import Adapter, AdapterUse, use_array
from .enums import Finish, KvType, RequestEventKind
from .model import Model
from .records import RequestInfo, SchedulerInfo
from .sampling import Logprob, Sampling, generate_options, logprobs_at, sampling_struct
from .session import session_options
from .state import Checkpoint
from .text import Message, message_array, render_options


class RequestEvent(NamedTuple):
    """What happened to a request: PROMPT, STARTED, TOKEN, DONE (of one choice), END (of all)."""

    kind: RequestEventKind
    choice: int
    id: int
    text: str
    done: int
    total: int
    logprob: float
    top: list[Logprob]
    finish_reason: Finish | None  #: of DONE
    stop_index: int
    error: BaseException | None   #: of DONE with Finish.ERROR


class Choice(NamedTuple):
    """One whole answer."""

    text: str
    ids: list[int]
    finish_reason: Finish
    stop_index: int
    error: BaseException | None


RequestCallback = Callable[["Request", RequestEvent], None]


def _clock(_user: int) -> int:
    state.depth += 1 # the garbage collector may run here
    try:
        return time.monotonic_ns() // 1000
    finally:
        state.depth -= 1


_CLOCK = _c.infer_clock_fn(_clock)


class Request(Object):
    """One prompt and its answers: an iterator of events, made by Scheduler.submit. Iterating steps the scheduler, unless it runs by itself."""

    _KIND = "request"
    _scheduler: Scheduler
    _sampler: Sampler | None
    _callback: RequestCallback | None
    _reading: threading.Lock
    _ended: bool
    _unread: RequestEvent | None  # read, and not given out: something was raised just then

    def cancel(self) -> None:
        """Ends it before the next batch; its events DONE and END still come."""
        lib.infer_request_cancel(self._h)

    @property
    def info(self) -> RequestInfo:
        return RequestInfo._of(self._info(_c.infer_request_info))

    @property
    def ended(self) -> bool:
        """Whether END was told."""
        return self._ended and self._unread is None

    def checkpoint(self, choice: int = 0) -> Checkpoint:
        """With keep=True, once the choice is done: its state."""
        made = Checkpoint._made(lib.infer_request_checkpoint, self._h, choice)
        made._model, made._sampler = self._scheduler.model, self._sampler
        return made

    def _poll(self) -> bool:
        """Whether there is an event to be taken now."""
        out = new(_c.infer_request_event)
        with self._reading: # the event borrows until the next is read
            if self._unread is None and not self._ended:
                try:
                    call(lib.infer_request_next, self._h, byref(out))
                except errors.NotFoundError:
                    return False
                finally:
                    if out.kind: # whatever a signal handler has raised
                        try:
                            self._keep(out)
                        except BaseException: # or raises just now
                            self._keep(out)
                            raise
            return self._unread is not None

    def _keep(self, out: _c.infer_request_event) -> None:
        self._unread = event = self._event(out)
        self._ended = event.kind == RequestEventKind.END
        if event.error is not None and self._sampler is not None:
            self._sampler.raised = None

    def _take(self) -> RequestEvent | None:
        event, self._unread = self._unread, None # no call behind this: no signal handler raises before the host has it
        return event

    def _event(self, c: _c.infer_request_event) -> RequestEvent:
        error: BaseException | None = None
        if c.error:
            error = errors.from_c(c.error.contents.code, c.error.contents)
            if self._sampler is not None:
                error.__cause__ = self._sampler.raised
        finish = Finish(c.finish_reason) if c.kind == _c.INFER_REQUEST_EVENT_DONE else None
        return RequestEvent(RequestEventKind(c.kind), c.choice, c.id, text_at(c.text, c.text_len), c.done, c.total, c.logprob,
                            logprobs_at(c.top, c.top_count), finish, c.stop_index, error)

    def _next(self) -> bool:
        """Waits for an event to be taken; False after END."""
        scheduler = self._scheduler
        while True:
            with scheduler._changed: # whoever steps tells of it under this lock
                if self._poll() or self._ended:
                    return self._unread is not None
                scheduler._no_callback("wait for events")
                if scheduler._run is not None:
                    if scheduler._run.failure is not None:
                        raise errors.StateError(f"the thread that steps has ended: {scheduler._run.failure}") from scheduler._run.failure
                    scheduler._changed.wait()
                    continue
                if scheduler.closed: # END comes when the last thread that is inside it has left
                    scheduler._changed.wait(0.05)
                    continue
            try:
                scheduler.step()
            except errors.StateError:
                if not scheduler.closed:
                    raise

    def __iter__(self) -> Iterator[RequestEvent]:
        if self._callback is not None:
            raise errors.StateError("the request's events go to its callback")
        while self._next():
            event = self._take()
            if event is not None: # else another thread was quicker
                yield event

    def stream(self, choice: int = 0) -> Iterator[str]:
        """Pieces of the text of one choice."""
        for event in self:
            if event.choice != choice or event.kind not in (RequestEventKind.TOKEN, RequestEventKind.DONE):
                continue
            if event.text:
                yield event.text
            if event.error is not None:
                raise event.error

    def result(self) -> list[Choice]:
        """Waits for the end: all choices. What failed is told in them."""
        texts: dict[int, str] = {}
        ids: dict[int, list[int]] = {}
        done: dict[int, RequestEvent] = {}
        for event in self:
            if event.kind in (RequestEventKind.TOKEN, RequestEventKind.DONE):
                texts[event.choice] = texts.get(event.choice, "") + event.text
            if event.kind == RequestEventKind.TOKEN:
                ids.setdefault(event.choice, []).append(event.id)
            elif event.kind == RequestEventKind.DONE:
                done[event.choice] = event
        return [Choice(texts[n], ids.get(n, []), e.finish_reason or Finish.ERROR, e.stop_index, e.error) for n, e in sorted(done.items())]


class Scheduler(Object):
    """The queue of one model's requests. Each step() computes one batch; start() lets a thread do that."""

    _KIND = "scheduler"

    def __init__( # pylint: disable=super-init-not-called
        self,
        model: Model,
        *,
        max_active: int = 0,
        max_waiting: int = 0,
        step_elements: int = 0,
        kv_budget: int = 0,
        reserve_tokens: int = 0,
        spill_path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Fields of infer_scheduler_options. Times are those of time.monotonic."""
        options = new(_c.infer_scheduler_options)
        fill(options, max_active=max_active, max_waiting=max_waiting, step_elements=step_elements, kv_budget=kv_budget, reserve_tokens=reserve_tokens)
        options.clock = _CLOCK
        spill = os.fsencode(spill_path) if spill_path is not None else None
        if spill is not None:
            options.spill_path, options.spill_path_len = address_of(spill), len(spill)
        self._make(lib.infer_scheduler_create, model._h, byref(options))
        self._model = model
        self._changed = threading.Condition()      # after each step, and when the runner or the scheduler ends
        self._delivering = threading.Lock()
        self._listening: list[Request] = []        # with callbacks, not ended
        self._sampled: list[Request] = []          # whose callback on logits may be called yet, whether or not the host keeps the request
        self._run: _Run | None = None
        self._inside: int | None = None         # the thread whose callbacks run

    @property
    def model(self) -> Model:
        return self._model

    @property
    def info(self) -> SchedulerInfo:
        return SchedulerInfo._of(self._info(_c.infer_scheduler_info))

    def submit(
        self,
        prompt: str | Sequence[int] | Sequence[Message] | None = None,
        *,
        max_tokens: int = 0,
        sampling: Sampling | None = None,
        stops: Iterable[str | bytes] = (),
        stop_ids: Iterable[int] = (),
        repeat_guard: int = 0,
        n: int = 1,
        priority: int = 0,
        client: int = 0,
        time_limit: float = 0.0,
        ignore_eos: bool = False,
        show_special: bool = False,
        echo: bool = False,
        prompt_logprobs: bool = False,
        prompt_only: bool = False,
        keep: bool = False,
        continue_checkpoint: bool = False,
        add_special: bool = True,
        parse_special: bool = False,
        now: int | None = None,
        checkpoint: Checkpoint | None = None,
        adapters: Iterable[Adapter | AdapterUse] = (),
        prompts: Sequence[Adapter] = (),
        n_ctx: int = 0,
        kv_type: KvType = KvType.F16,
        kv_recent: int = 0,
        salt: bytes = b"",
        cache_lookup: bool = True,
        cache_insert: bool = True,
        callback: RequestCallback | None = None,
    ) -> Request:
        """Puts a request into the queue. prompt: text, token ids, or messages of a conversation. Fields of infer_request_options; time_limit in seconds.
        callback(request, event) is called on the thread that steps; without one, iterate the request. What a callback raises cancels its request and comes out
        of step(), or goes to sys.unraisablehook when a thread steps."""
        options = new(_c.infer_request_options)
        flags = (_c.INFER_REQUEST_IGNORE_EOS * ignore_eos | _c.INFER_REQUEST_SHOW_SPECIAL * show_special | _c.INFER_REQUEST_ECHO * echo
                 | _c.INFER_REQUEST_CONTINUE * continue_checkpoint | _c.INFER_REQUEST_KEEP * keep | _c.INFER_REQUEST_PROMPT_ONLY * prompt_only
                 | _c.INFER_REQUEST_PROMPT_LOGPROBS * prompt_logprobs)
        fill(options, flags=flags, priority=priority, n=n, client=client, time_limit=math.ceil(time_limit * 1e6))
        text_flags = _c.INFER_TOKENIZE_ADD_SPECIAL * add_special | _c.INFER_TOKENIZE_PARSE_SPECIAL * parse_special
        alive: list[Any] = [_prompt(options, prompt, text_flags)] # what the struct points to, until submit has copied it
        render, session = render_options(now), session_options(n_ctx, kv_type, kv_recent, salt, cache_lookup, cache_insert)
        generate, more = generate_options(max_tokens, stops, stop_ids, repeat_guard, 0, 0, 0)
        uses, handles = use_array(adapters)
        prefixes = [adapter._h for adapter in prompts]
        prefix_array = (ctypes.c_void_p * len(prefixes))(*[handle.value for handle in prefixes])
        alive += [more, handles, prefixes]
        options.render, options.session, options.generate = ctypes.pointer(render), ctypes.pointer(session), ctypes.pointer(generate)
        options.adapters, options.adapter_count = ctypes.cast(uses, ctypes.POINTER(_c.infer_adapter_use)), len(uses)
        options.prompts, options.prompt_count = ctypes.cast(prefix_array, ctypes.POINTER(ctypes.c_void_p)), len(prefixes)
        start = checkpoint._h if checkpoint is not None else None
        options.checkpoint = start.value if start else None
        sampler = checkpoint._sampler if checkpoint is not None else None
        if sampling is not None:
            drawn, sampler = sampling_struct(sampling)
            options.sampling = ctypes.pointer(drawn)
        if sampler is not None:
            sampler.keeps = True
        handle = self._h
        # It reads the clock, which is Python: hence on a helper thread. It tokenizes, and cannot be stopped.
        request = interruptible(None, lambda _: Request._made(lib.infer_scheduler_submit, handle, byref(options)), lambda: None)
        request._scheduler, request._sampler, request._callback, request._ended, request._unread = self, sampler, callback, False, None
        request._reading = threading.Lock()
        del alive
        with self._changed:
            if callback is not None:
                self._listening.append(request)
            self._sampled = [other for other in self._sampled if not other.closed and not other.info.ended]
            if sampler is not None:
                self._sampled.append(request)
        if callback is not None: # another thread may have computed everything before this one was listening
            lib.infer_scheduler_wake(handle)
        return request

    def step(self, cancel: Cancel | None = None) -> bool:
        """Computes one batch and calls callbacks. Whether there is more to do."""
        self._no_callback("step it")
        try:
            return self._compute(cancel)
        finally:
            self._deliver()

    def _no_callback(self, what: str) -> None:
        """Of what would wait for itself for ever."""
        if state.stepping or self._inside == threading.get_ident():
            raise errors.StateError(f"a callback of the scheduler must not {what}")

    def _compute(self, cancel: Cancel | None) -> bool:
        more, handle = ctypes.c_int32(), self._h
        state.stepping = True
        try:
            interruptible(cancel, lambda flag: call(lib.infer_scheduler_step, handle, byref(more), cancel_arg(flag)))
        finally:
            state.stepping = False
            with self._changed:
                self._changed.notify_all()
        return bool(more.value)

    def _deliver(self) -> None:
        """Hands events to callbacks. The first exception is raised when all have had theirs; its request is cancelled."""
        raised: BaseException | None = None
        with self._delivering:
            self._inside = threading.get_ident()
            try:
                for request in list(self._listening):
                    try:
                        while not request.closed and request._poll():
                            event = request._take()
                            assert request._callback is not None and event is not None
                            request._callback(request, event)
                    except BaseException as error: # pylint: disable=broad-exception-caught
                        if not request._ended and not request.closed:
                            request.cancel()
                        raised = raised or error
                    if request.ended or request.closed:
                        with self._changed:
                            self._listening.remove(request)
            finally:
                self._inside = None
        if raised is not None:
            raise raised

    def wait(self) -> None:
        """Sleeps until there is work, or wake() is called, or the scheduler is closed."""
        self._no_callback("wait")
        handle = self._h
        try:
            interruptible(None, lambda _: call(lib.infer_scheduler_wait, handle), lambda: lib.infer_scheduler_wake(handle))
        finally:
            if self.closed: # the next one that waits
                lib.infer_scheduler_wake(handle)

    def wake(self) -> None:
        lib.infer_scheduler_wake(self._h)

    # A thread that steps

    def start(self) -> Scheduler:
        """Lets a thread step until stop() or close(); `with scheduler.start():` closes it at the end."""
        with self._changed:
            if self._run is not None:
                raise errors.StateError("the scheduler runs already")
            self._run = _Run(self)
        _started.add(self)
        return self

    def stop(self) -> None:
        """Ends the thread after the batch in work. Requests stay."""
        run = self._run
        if run is None:
            return
        run.stop()
        with self._changed:
            if self._run is run:
                self._run = None
            self._changed.notify_all()

    def close(self) -> None:
        """Stops the thread and ends all requests as cancelled."""
        if self._inside == threading.get_ident():
            raise errors.StateError("a callback of the scheduler must not close it")
        run, handle = self._run, self._handle
        if run is not None:
            run.stop()
        super().close()
        if handle is not None: # who waits
            lib.infer_scheduler_wake(handle)
        del handle
        self._run = None # only now: who waits for events must not begin to step
        del run
        try:
            self._deliver()
        except Exception as error:
            unraisable(error, "callback of a libinfer.Request")
        with self._changed:
            self._changed.notify_all()


class _Run:
    """The thread that steps a scheduler. It holds the scheduler only while it steps, so that one which the host has dropped ends."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.failure: BaseException | None = None
        self._stopping = False
        handle = scheduler._h
        # The only thing beside the thread that holds the handle: a scheduler that is dropped wakes its thread, which then ends.
        self._wake = weakref.finalize(scheduler, lib.infer_scheduler_wake, handle)
        self._wake.atexit = False
        self._thread = threading.Thread(target=self._work, args=(weakref.ref(scheduler), handle), name="libinfer scheduler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._wake() # once
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _work(self, ref: weakref.ref[Scheduler], handle: Handle) -> None:
        while not self._stopping:
            scheduler = ref()
            if scheduler is None:
                return
            try:
                more = scheduler._compute(None)
            except BaseException as error: # pylint: disable=broad-exception-caught
                with scheduler._changed:
                    self.failure = error
                    scheduler._changed.notify_all()
                return
            try:
                scheduler._deliver()
            except BaseException as error: # pylint: disable=broad-exception-caught
                unraisable(error, "callback of a libinfer.Request")
            del scheduler
            if not more:
                call(lib.infer_scheduler_wait, handle)


_started: weakref.WeakSet[Scheduler] = weakref.WeakSet()


@atexit.register
def _stop_at_exit() -> None:
    """No thread is inside the library, or in Python, while the interpreter ends."""
    for scheduler in list(_started):
        scheduler.stop()


def _prompt(options: _c.infer_request_options, prompt: Any, text_flags: int) -> Any:
    """Fills in the prompt; what must live as long."""
    if prompt is None:
        return None
    if isinstance(prompt, str):
        data = encode(prompt)
        options.text, options.text_len, options.text_flags = address_of(data), len(data), text_flags
        return data
    if isinstance(prompt, (bytes, bytearray)):
        raise TypeError("a prompt is str, token ids or messages")
    items = list(prompt)
    if items and not isinstance(items[0], int):
        array, keep = message_array(items)
        options.messages, options.message_count = ctypes.cast(array, ctypes.POINTER(_c.infer_message)), len(array)
        return array, keep
    ids = int_array(items)
    options.ids, options.id_count = ctypes.cast(ids, ctypes.POINTER(ctypes.c_int32)), len(ids)
    return ids
