"""Sessions: one sequence of elements and its computed state."""
from __future__ import annotations

import ctypes
import hashlib
import weakref
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from ctypes import byref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _c, errors
from ._calls import interruptible
from ._core import (
    Buffer,
    Cancel,
    Exclusive,
    Floats,
    Handle,
    Object,
    Pinned,
    Sampler,
    address_of,
    call,
    cancel_arg,
    encode,
    fill,
    int_array,
    new,
    u64,
)
from ._library import lib
from .adapters import Adapter, AdapterUse, use_array
from .enums import AdapterMode, KvType, Rows
from .generation import Event, Generation, TextStream
from .records import CacheReport, SessionInfo
from .sampling import Logprob, Sample, Sampling, generate_options, logprobs_at, sampling_struct
from .text import Message, message_array, render_options

if TYPE_CHECKING:
    from .model import Model
    from .state import Checkpoint

FINAL = _c.INFER_HIDDEN_FINAL  #: as a layer: behind the last one and the final norm


def session_options(n_ctx: int, kv_type: KvType, kv_recent: int, salt: bytes, cache_lookup: bool, cache_insert: bool) -> _c.infer_session_options:
    """The struct; salt must live as long as it."""
    options = new(_c.infer_session_options)
    flags = _c.INFER_CACHE_NO_LOOKUP * (not cache_lookup) | _c.INFER_CACHE_NO_INSERT * (not cache_insert)
    fill(options, n_ctx=n_ctx, kv_type=int(kv_type), kv_recent=kv_recent, cache_flags=flags, salt_len=len(salt))
    options.salt = address_of(salt) if salt else None
    return options


@dataclass(frozen=True)
class Hidden:
    """Hidden states that a step is to give: of which elements, behind which layers (from 0; FINAL)."""

    layers: Sequence[int] = (FINAL,)
    rows: Rows = Rows.LAST
    mask: Sequence[bool] | None = None  #: for Rows.MASK: one for each pending element


@dataclass(frozen=True)
class StepItem:
    """One session of a step."""

    session: Session
    max_elements: int = 0                  #: of the pending ones; 0: all
    rows: Rows = Rows.LAST                 #: whose logits are kept
    mask: Sequence[bool] | None = None  #: for Rows.MASK: one for each pending element
    hidden: Hidden | None = None


class StepResult(NamedTuple):
    """What a step did for one session."""

    done: int                     #: elements computed, or taken from the prefix cache
    hidden: Floats | None  #: [rows][layers][n_embd] floats, in a buffer of their own
    error: errors.Error | None #: of this session; only step() of several gives one


class Score(NamedTuple):
    """How likely ids are."""

    logprobs: list[float]     #: natural logarithms, one for each id
    top: list[list[Logprob]]  #: for each id what would have been most likely
    first: int                #: ids at the beginning that nothing stands before: theirs are 0
    sum: float


class Session(Object):
    """A list of elements (token ids, embedding rows) and what the model computed for them. Made by Model.session. One thread at a time is inside; a second
    one waits."""

    _KIND = "session"
    _model: Model
    _sampler: Sampler | None
    _exclusive: Exclusive
    _serial: int            # of the answer
    _event: Event | None    # of it, not given out
    _views: list[tuple[Floats, weakref.ref[Any]]]

    def _of(self, model: Model, sampler: Sampler | None = None) -> Session:
        """Once it has its handle."""
        self._model, self._sampler, self._exclusive, self._serial, self._event, self._views = model, sampler, Exclusive("session"), 0, None, []
        return self

    @property
    def model(self) -> Model:
        return self._model

    @property
    def info(self) -> SessionInfo:
        with self._exclusive():
            return SessionInfo._of(self._info(_c.infer_session_info))

    def __len__(self) -> int:
        """Elements, computed and pending."""
        return self.info.length

    def _drop_views(self) -> None:
        """Before a call that moves the logits: takes back the views of them. BufferError when one is still in use."""
        while self._views:
            view, array = self._views[-1]
            try:
                view.release()
            except BufferError:
                pass
            if array() is not None:
                raise BufferError("a view of this session's logits is still in use: copy what you need and drop it, or use the view in a `with`")
            self._views.pop()

    def _change(self, function: Any, *args: Any) -> None:
        with self._exclusive():
            self._drop_views()
            call(function, self._h, *args)

    # Elements

    def append(self, ids: Iterable[int]) -> None:
        """Appends token ids."""
        array = int_array(ids)
        self._change(lib.infer_session_append, array, len(array))

    def append_text(self, text: str, *, add_special: bool | None = None, parse_special: bool = False) -> None:
        """Tokenizes text and appends it. add_special None: in an empty session only."""
        data = encode(text)
        with self._exclusive():
            self._drop_views()
            if add_special is None:
                add_special = self._info(_c.infer_session_info).length == 0
            flags = _c.INFER_TOKENIZE_ADD_SPECIAL * add_special | _c.INFER_TOKENIZE_PARSE_SPECIAL * parse_special
            call(lib.infer_session_append_text, self._h, data, len(data), flags)

    def append_chat(self, messages: Iterable[Message], *, now: int | None = None, cancel: Cancel | None = None) -> None:
        """Renders the model's chat template with these messages and a generation prompt, and appends that. Spellings of control tokens in messages count as
        such: clean what strangers write."""
        if isinstance(messages, (str, bytes)):
            raise TypeError("messages is a sequence of (role, content)")
        array, keep = message_array(messages)
        options = render_options(now, cancel)
        self._change(lib.infer_session_append_chat, array, len(array), byref(options))
        del keep

    def append_rows(self, rows: Buffer, keys: Sequence[tuple[int, int]] | None = None) -> None:
        """Appends embedding rows: float32 [count][n_embd], as NumPy arrays or any other buffer have them. keys: two 64-bit numbers for each row that identify
        its content for caches; None: a hash of it."""
        with memoryview(rows) as view:
            if view.format not in ("f", "<f", "B", "@f"):
                raise TypeError(f"rows are float32, not {view.format!r}")
            if not view.c_contiguous:
                raise ValueError("rows must be contiguous")
        pin = Pinned(rows)
        width = 4 * self._model._n_embd
        if pin.length % width or not pin.length:
            raise ValueError(f"rows have {self._model._n_embd} floats each: {pin.length} bytes are no whole number of them")
        data = ctypes.string_at(pin.address or 0, pin.length) # a copy: what is hashed is what is appended, whoever writes to rows meanwhile
        count = len(data) // width
        if keys is None:
            hashes = b"".join(hashlib.blake2b(data[i * width: (i + 1) * width], digest_size=16).digest() for i in range(count))
            words = (ctypes.c_uint64 * (2 * count)).from_buffer_copy(hashes)
        else:
            if len(keys) != count:
                raise ValueError(f"{len(keys)} keys for {count} rows")
            words = (ctypes.c_uint64 * (2 * count))(*[u64(word) for key in keys for word in (key[0], key[1])])
        self._change(lib.infer_session_append_rows, (ctypes.c_float * (len(data) // 4)).from_buffer_copy(data), words, count)

    def append_adapter(self, adapter: Adapter) -> None:
        """Appends a soft prompt or a prefix."""
        self._change(lib.infer_session_append_adapter, adapter._h)

    def tokens(self, first: int = 0, count: int | None = None) -> list[int]:
        """Ids of the elements [first, first + count); -1 for embedding rows."""
        with self._exclusive():
            if count is None:
                count = max(self._info(_c.infer_session_info).length - first, 0)
            ids = (ctypes.c_int32 * u64(count))()
            call(lib.infer_session_tokens, self._h, u64(first), count, ids)
        return list(ids)

    def truncate(self, length: int) -> int:
        """Rolls back to a length. How many elements must be computed again."""
        rerun = ctypes.c_uint64()
        self._change(lib.infer_session_truncate, u64(length), byref(rerun))
        return rerun.value

    def fork(self) -> Session:
        """A second session with the same elements, state, logits and sampling; state is shared until one side changes it."""
        with self._exclusive():
            self._drop_views()
            return type(self)._made(lib.infer_session_fork, self._h)._of(self._model, self._sampler)

    # Adapters

    def set_adapters(self, *uses: Adapter | AdapterUse) -> None:
        """What is in force for elements that are appended from now on, in place of what was; none: nothing."""
        array, keep = use_array(uses)
        self._change(lib.infer_session_set_adapters, array, len(array))
        del keep

    @property
    def adapters(self) -> list[AdapterUse]:
        """What is in force."""
        uses: list[AdapterUse] = []
        with self._exclusive():
            while True:
                out = new(_c.infer_adapter_use)
                try:
                    call(lib.infer_session_adapter, self._h, len(uses), byref(out))
                except errors.NotFoundError:
                    return uses
                assert out.adapter
                adapter = Adapter._borrow(out.adapter)
                adapter._model = self._model
                uses.append(AdapterUse(adapter, out.scale, AdapterMode(out.mode), out.first_layer, out.layer_count))

    # Computing

    def step(
        self,
        *,
        max_elements: int = 0,
        rows: Rows = Rows.LAST,
        mask: Sequence[bool] | None = None,
        hidden: Hidden | None = None,
        cancel: Cancel | None = None,
    ) -> StepResult:
        """Computes pending elements; logits() gives what rows asks for."""
        result = step([StepItem(self, max_elements, rows, mask, hidden)], cancel)[0]
        if result.error is not None:
            raise result.error
        return result

    def logits(self, row: int = -1) -> Floats:
        """Logits of one row of the last step, by default its last: vocab_size floats in place, read-only. The view ends when the session is used again
        (ValueError then); while something else holds on to it, a slice or a NumPy array, using the session raises BufferError."""
        with self._exclusive():
            if row < 0:
                rows = self._info(_c.infer_session_info).logits_rows
                if rows and row < -rows:
                    raise errors.ArgumentError(f"{row}: the last step gave {rows} rows of logits", place="row")
                row = max(row + rows, 0) # of none: the library says so
            pointer = ctypes.POINTER(ctypes.c_float)()
            handle = self._h
            call(lib.infer_session_logits, handle, u64(row), byref(pointer), None)
            array: Any = (ctypes.c_ubyte * (4 * self._model._vocab_size)).from_address(ctypes.addressof(pointer.contents))
            array.handle = handle # a view of a closed session keeps its memory
            view = memoryview(array).toreadonly().cast("B").cast("f")
            self._views.append((view, weakref.ref(array)))
            return view

    def set_sampling(self, sampling: Sampling) -> None:
        """How tokens are chosen from now on."""
        made, sampler = sampling_struct(sampling)
        with self._exclusive():
            self._drop_views()
            call(lib.infer_session_set_sampling, self._h, byref(made))
            self._sampler = sampler

    def sample(self) -> Sample:
        """Draws the next token from the last logits; it is not appended."""
        out = new(_c.infer_sample_result)
        with self._exclusive():
            self._drop_views()
            handle = self._h
            if self._sampler is None:
                call(lib.infer_session_sample, handle, byref(out))
            else: # which runs the host's code
                interruptible(None, lambda _: call(lib.infer_session_sample, handle, byref(out)))
            return Sample(out.id, out.logprob, logprobs_at(out.top, out.top_count))

    def score(self, ids: Iterable[int], *, top_logprobs: int = 0, cancel: Cancel | None = None) -> Score:
        """Appends ids and tells how likely each is after all that stands before it, under the model's own distribution."""
        array = int_array(ids)
        count = len(array)
        logprobs = (ctypes.c_float * count)()
        top = (_c.infer_logprob * (count * max(top_logprobs, 0)))()
        out = new(_c.infer_score)
        fill(out, top_logprobs=top_logprobs)
        out.logprobs = ctypes.cast(logprobs, ctypes.POINTER(ctypes.c_float))
        if top_logprobs:
            out.top = ctypes.cast(top, ctypes.POINTER(_c.infer_logprob))
        with self._exclusive():
            self._drop_views()
            handle = self._h
            interruptible(cancel, lambda flag: call(lib.infer_session_score, handle, array, count, byref(out), cancel_arg(flag)))
        tops = [[Logprob(t.id, t.logprob) for t in top[i: i + top_logprobs]] for i in range(0, len(top), top_logprobs)] if top_logprobs else []
        return Score(list(logprobs), tops, out.first, out.sum)

    # Answers

    def generate(
        self,
        max_tokens: int = 0,
        *,
        sampling: Sampling | None = None,
        stops: Iterable[str | bytes] = (),
        stop_ids: Iterable[int] = (),
        repeat_guard: int = 0,
        shift_keep: int = 0,
        shift_drop: int = 0,
        ignore_eos: bool = False,
        show_special: bool = False,
        cancel: Cancel | None = None,
    ) -> Generation:
        """Begins an answer: an iterator of events. Fields of infer_generate_options; max_tokens 0: until the context is full. sampling: set before, and
        kept."""
        flags = _c.INFER_GENERATE_IGNORE_EOS * ignore_eos | _c.INFER_GENERATE_SHOW_SPECIAL * show_special
        options, keep = generate_options(max_tokens, stops, stop_ids, repeat_guard, shift_keep, shift_drop, flags)
        if sampling is not None:
            self.set_sampling(sampling)
        with self._exclusive():
            self._drop_views()
            call(lib.infer_generate_begin, self._h, byref(options))
            del keep
            self._serial += 1
            self._event = None
            return Generation(self, cancel)

    def stream(self, max_tokens: int = 0, **options: Any) -> TextStream:
        """The same as pieces of text."""
        return self.generate(max_tokens, **options).stream()

    def resume(self, cancel: Cancel | None = None) -> Generation:
        """Goes on with an answer that is being made: one that a checkpoint held, or that was interrupted."""
        with self._exclusive():
            self._serial += 1
            return Generation(self, cancel)

    # State

    def checkpoint(self) -> Checkpoint:
        """The whole state at this moment; nothing is copied."""
        from .state import Checkpoint  # pylint: disable=import-outside-toplevel,cyclic-import

        with self._exclusive():
            made = Checkpoint._made(lib.infer_checkpoint_create, self._h)
            made._model, made._sampler = self._model, self._sampler
            return made

    def restore(self, checkpoint: Checkpoint) -> None:
        """Replaces everything that the session holds by the checkpoint's state."""
        with self._exclusive():
            self._drop_views()
            call(lib.infer_session_restore, self._h, checkpoint._h)
            self._sampler = checkpoint._sampler
            self._serial += 1
            self._event = None

    def shift(self, keep: int, drop: int) -> None:
        """Drops the elements [keep, keep + drop) and moves those behind them down: what follows is approximate."""
        self._change(lib.infer_session_shift, u64(keep), u64(drop))

    def graft(self, checkpoint: Checkpoint, first: int, count: int, *, recompute: int = 0, cancel: Cancel | None = None) -> int:
        """Appends elements [first, first + count) of a checkpoint with their state. How many had to be computed."""
        rerun = ctypes.c_uint64()
        numbers = u64(first), u64(count), u64(recompute)
        with self._exclusive():
            self._drop_views()
            handle, other = self._h, checkpoint._h
            interruptible(cancel, lambda flag: call(lib.infer_session_graft, handle, other, *numbers, byref(rerun), cancel_arg(flag)))
        return rerun.value

    def cache_report(self) -> CacheReport:
        """What the last look-up in the prefix cache gave."""
        with self._exclusive():
            return CacheReport._of(self._info(_c.infer_cache_report, "cache_report"))


def _mask(given: Sequence[bool] | None, rows: Rows, pending: int) -> tuple[Any, int]:
    """(uint8_t[pending] or None, how many elements are wanted at most)"""
    if rows != Rows.MASK:
        return None, {Rows.LAST: 1, Rows.ALL: pending}.get(rows, 0)
    if given is None or len(given) != pending:
        raise ValueError(f"mask has one entry for each of the {pending} pending elements")
    flags = [bool(flag) for flag in given]
    return (ctypes.c_uint8 * max(pending, 1))(*flags), sum(flags)


def _hidden(hidden: Hidden, session: Session, pending: int) -> tuple[_c.infer_hidden, bytearray, Any]:
    """(the struct, its buffer, what must live as long)"""
    made = new(_c.infer_hidden)
    mask, rows = _mask(hidden.mask, hidden.rows, pending)
    layers = int_array(hidden.layers)
    out = bytearray(4 * rows * len(layers) * session._model._n_embd)
    floats = (ctypes.c_float * (len(out) // 4)).from_buffer(out)
    fill(made, elements=int(hidden.rows), layer_count=len(layers), capacity=len(floats))
    made.mask = ctypes.addressof(mask) if mask is not None else None
    made.layers = ctypes.cast(layers, ctypes.POINTER(ctypes.c_int32))
    made.out = ctypes.cast(floats, ctypes.POINTER(ctypes.c_float))
    return made, out, (mask, layers, floats)


def _hidden_view(made: _c.infer_hidden, out: bytearray, session: Session) -> Floats:
    shape = (made.rows, made.layer_count, session._model._n_embd)
    view = memoryview(out)[: 4 * shape[0] * shape[1] * shape[2]]
    return view.cast("f", shape) if made.rows else view.cast("f")


def step(items: Sequence[StepItem], cancel: Cancel | None = None) -> list[StepResult]:
    """Computes pending elements of different sessions of one model together. What fails for the whole call is raised; what fails for one session is in
    its result."""
    sessions = [item.session for item in items]
    if len({id(session) for session in sessions}) != len(sessions):
        raise errors.ArgumentError("a session is given twice", place="session")
    if len(sessions) == 1:
        with sessions[0]._exclusive():
            return _step(items, cancel)
    with ExitStack() as stack:
        for session in sorted(sessions, key=id): # in one order: two steps with the same sessions do not wait for each other
            stack.enter_context(session._exclusive())
        return _step(items, cancel)


def _step(items: Sequence[StepItem], cancel: Cancel | None) -> list[StepResult]:
    """The step, once its sessions are held."""
    for item in items:
        item.session._drop_views()
    array = (_c.infer_step_item * len(items))()
    hiddens: list[Any] = [None] * len(items)
    handles: list[Handle] = [item.session._h for item in items]
    keep: list[Any] = []
    for i, item in enumerate(items):
        info = item.session._info(_c.infer_session_info)
        pending = info.length - info.computed
        c = array[i]
        c.size = ctypes.sizeof(c)
        mask, _ = _mask(item.mask, item.rows, pending)
        keep.append(mask)
        fill(c, session=handles[i].value, max_elements=item.max_elements, logits=int(item.rows))
        c.mask = ctypes.addressof(mask) if mask is not None else None
        if item.hidden is not None:
            hiddens[i] = _hidden(item.hidden, item.session, pending)
            c.hidden = ctypes.pointer(hiddens[i][0])
    failure: errors.Error | None = None
    try:
        interruptible(cancel, lambda flag: call(lib.infer_step, array, len(array), cancel_arg(flag)))
    except errors.Error as error:
        failure = error
    if failure is not None and all(c.status == _c.INFER_OK for c in array):
        raise failure # nothing was done
    results = []
    for item, c, hidden in zip(items, array, hiddens):
        view = _hidden_view(hidden[0], hidden[1], item.session) if hidden and c.status == _c.INFER_OK else None
        results.append(StepResult(c.done, view, _item_error(c.status, failure)))
    del keep
    return results


def _item_error(status: int, failure: errors.Error | None) -> errors.Error | None:
    """The error of one item; the call's own tells more, where it is of the same kind."""
    if status == _c.INFER_OK:
        return None
    if failure is not None and failure.code == status:
        return failure
    return errors.from_c(status, _c.infer_error())
