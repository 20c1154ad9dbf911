"""What every module stands on: handles, calls, cancel flags, callbacks.

Three rules keep Python code from reaching memory that is gone:

- Functions of the library get Handle objects, never bare addresses: whatever another thread closes meanwhile, a handle lives until the call returns.
- Callbacks that the library keeps are a few of this package's own, made once and never freed. They find what they are to call by a number, so that a number
  whose owner is gone leads nowhere instead of into freed memory.
- At the end of the interpreter nothing is released: the system does that, and a thread that is still inside the library finds everything in place."""
from __future__ import annotations

import _thread
import ctypes
import itertools
import operator
import sys
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ctypes import byref
from threading import RLock, local
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import _c, errors
from ._library import lib

T = TypeVar("T")
ObjectT = TypeVar("ObjectT", bound="Object")
if TYPE_CHECKING:
    Floats = memoryview[float]
else:
    Floats = memoryview
Buffer = Any  # what supports the buffer protocol (typing has a name for it from Python 3.12 on)


class _ThreadState(local):
    depth = 0                                # callbacks that this thread is inside, or waits for the end of a call that may have some
    raised: BaseException | None = None   # by the last of them
    stepping = False                         # inside a scheduler's step: its callbacks run here
    caller: Any = None                       # of a helper thread: the _calls._Call that it makes for another one


state = _ThreadState()
_deferred: deque[tuple[Callable[[int], None], ctypes.c_void_p]] = deque()
_numbers = itertools.count(1)


def number() -> int:
    """A number for a callback, never used twice."""
    return next(_numbers)


def _drop(release: Callable[[int], None], slot: ctypes.c_void_p) -> None:
    # The garbage collector may run inside a callback, where the library must not be called.
    if slot.value is None:
        return
    if state.depth:
        _deferred.append((release, slot))
    else:
        release(slot.value)


def _drop_deferred() -> None:
    while not state.depth:
        try:
            release, slot = _deferred.popleft()
        except IndexError: # another thread may have taken the last
            return
        release(slot.value or 0)


class Handle:
    """One reference on a handle of the library, dropped when the last Python reference on this object is. It is there before the call that fills it: whatever a
    signal handler raises when that ends, somebody owns what it gave."""

    __slots__ = ("__weakref__", "_as_parameter_")

    def __init__(self, release: Callable[[int], None]) -> None:
        self._as_parameter_ = ctypes.c_void_p()
        weakref.finalize(self, _drop, release, self._as_parameter_).atexit = False

    @property
    def value(self) -> int | None:
        return self._as_parameter_.value

    @property
    def out(self) -> Any:
        """What functions take that give one."""
        return byref(self._as_parameter_)


def call(function: Any, *args: Any) -> None:
    """Calls a function whose last parameter is an infer_error; raises what a callback raised, or the library's error."""
    err = _c.infer_error(size=ctypes.sizeof(_c.infer_error))
    status = function(*args, byref(err))
    raised, state.raised = state.raised, None
    if _deferred:
        _drop_deferred()
    if status != _c.INFER_OK:
        raise raised if raised is not None else errors.from_c(status, err)


def new(struct: type[T]) -> T:
    """An option or output struct with its size set."""
    made: Any = struct()
    made.size = ctypes.sizeof(made)
    return made # type: ignore[no-any-return]


def fill(struct: Any, **values: Any) -> None:
    """Sets fields. ctypes cuts numbers off that are too large; this refuses them."""
    fields = {name for name, *_ in struct._fields_}
    for name, value in values.items():
        if name not in fields:
            raise errors.UnsupportedError(f"this package does not know the option {name}", place=name)
        if hasattr(value, "__index__"):
            value = operator.index(value) # NumPy's integers too
        setattr(struct, name, value)
        if isinstance(value, int) and getattr(struct, name) != value:
            raise OverflowError(f"{name}: {int(value)} does not fit")


def u64(value: int) -> int:
    """A number as uint64_t parameters take it."""
    value = operator.index(value)
    if not 0 <= value < 2**64:
        raise OverflowError(f"{value} is negative or too large")
    return value


class Inside:
    """Around the body of a callback of the library: what it raises is kept for the call that it came from."""

    def __enter__(self) -> None:
        state.depth += 1

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        state.depth -= 1
        if error is not None:
            state.raised = error
        return True


def host(function: Callable[..., T], *args: Any) -> T:
    """Runs the host's code for a callback: on the thread that made the call."""
    caller = state.caller
    return function(*args) if caller is None else caller.ask(function, args)


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def address_of(data: bytes) -> int | None:
    """Where bytes are: as long as they live."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value


def text_at(address: int | None, length: int) -> str:
    """Borrowed text, copied."""
    return ctypes.string_at(address, length).decode("utf-8", "replace") if address and length else ""


def int_array(values: Iterable[int]) -> Any:
    """[n] int32_t. OverflowError for what is none."""
    if isinstance(values, (str, bytes)):
        raise TypeError("token ids are a sequence of int")
    ids = [operator.index(value) for value in values] # NumPy's integers too
    for value in ids:
        if not -2**31 <= value < 2**31:
            raise OverflowError(f"{value} is no token id")
    return (ctypes.c_int32 * len(ids))(*ids)


class Object:
    """A handle of the library. Closing drops it; so does the garbage collector. What was made from it keeps what it needs."""

    _KIND = "object"
    _handle: Handle | None = None

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__} objects are made by the functions that give one, not by calling the class")

    def _make(self, function: Any, *args: Any) -> None:
        """Calls a function that gives the handle by its last but one parameter."""
        handle = Handle(getattr(lib, f"infer_{self._KIND}_release"))
        call(function, *args, handle.out)
        assert handle.value, "the library gave no handle"
        self._handle = handle

    @classmethod
    def _made(cls: type[ObjectT], function: Any, *args: Any) -> ObjectT:
        self = cls.__new__(cls)
        self._make(function, *args)
        return self

    @classmethod
    def _borrow(cls: type[ObjectT], value: int) -> ObjectT:
        """Adds a reference on what the library lent."""
        self = cls.__new__(cls)
        handle = Handle(getattr(lib, f"infer_{cls._KIND}_release"))
        handle._as_parameter_.value = getattr(lib, f"infer_{cls._KIND}_ref")(value)
        self._handle = handle
        return self

    @property
    def _h(self) -> Handle:
        handle = self._handle
        if handle is None:
            raise errors.StateError(f"the {self._KIND} is closed")
        return handle

    @property
    def closed(self) -> bool:
        return self._handle is None

    def close(self) -> None:
        """Drops the handle. May be called again."""
        self._handle = None

    def __enter__(self: ObjectT) -> ObjectT:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<libinfer.{type(self).__name__}{' (closed)' if self.closed else ''}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} objects cannot be pickled")

    def _info(self, struct: type[T], name: str = "get_info") -> T:
        out = new(struct)
        call(getattr(lib, f"infer_{self._KIND}_{name}"), self._h, byref(out)) # type: ignore[arg-type]
        return out


class Cancel(Object):
    """A flag that stops long calls: they raise CancelledError soon after set(). For any number of calls and threads."""

    _KIND = "cancel"

    _followers: set[Cancel]
    _idle: list[Cancel]  # followers of calls that have ended: to drop and make one for each call would take longer than a call

    def __init__(self) -> None: # pylint: disable=super-init-not-called
        self._make(lib.infer_cancel_create)
        self._followers, self._idle = set(), []

    def set(self) -> None:
        lib.infer_cancel_set(self._h)
        for flag in tuple(self._followers):
            flag.set()

    @contextmanager
    def _follower(self) -> Iterator[Cancel]:
        """A flag for one call: set when this one is, or alone."""
        try:
            flag = self._idle.pop()
            flag.clear()
        except IndexError:
            flag = Cancel()
        self._followers.add(flag)
        try:
            if self.is_set:
                flag.set()
            yield flag
        finally:
            self._followers.discard(flag)
        self._idle.append(flag)

    def clear(self) -> None:
        """Makes it ready for use again."""
        lib.infer_cancel_clear(self._h)

    @property
    def is_set(self) -> bool:
        return bool(lib.infer_cancel_is_set(self._h))


def cancel_arg(cancel: Cancel | None) -> Handle | None:
    return None if cancel is None else cancel._h


class Exclusive:
    """One thread at a time; a second one waits. A callback that comes back to the object it is called from is told so instead of waiting for ever."""

    def __init__(self, what: str) -> None:
        self._lock: Any = RLock()
        self._what = what

    def __call__(self) -> Any:
        """The lock, for a `with`: the interpreter takes it in one step, so that what a signal handler raises cannot come between taking and holding it."""
        if self._lock._is_owned():
            raise errors.StateError(f"the {self._what} is inside a call: a callback must not use it")
        return self._lock


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    ]


def _unpin(buffer: _PyBuffer) -> None:
    ctypes.pythonapi.PyBuffer_Release(byref(buffer))


class Pinned:
    """The bytes of an object that supports the buffer protocol, where they are; they stay there as long as this does. Read-only ones too, which
    ctypes' from_buffer does not take."""

    __slots__ = ("__weakref__", "_release", "address", "length")

    def __init__(self, data: Buffer) -> None:
        buffer = _PyBuffer()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(data), byref(buffer), 0) # 0: contiguous bytes, else BufferError
        self.address: int | None = buffer.buf
        self.length = int(buffer.len)
        self._release = weakref.finalize(self, _unpin, buffer)
        self._release.atexit = False

    def release(self) -> None:
        self._release()


# ---- Callbacks that the library keeps ----------------------------------------------------------------------------------


class Sampler:
    """A host's callback on logits; sessions, checkpoints and requests that may call it hold it."""

    __slots__ = ("__weakref__", "function", "keeps", "number", "raised")

    def __init__(self, function: Callable[[Floats, memoryview], None]) -> None:
        self.function = function
        self.keeps = False  # raised is kept: for schedulers, whose steps do not fail
        self.raised: BaseException | None = None
        self.number = number()
        _samplers[self.number] = self


_samplers: weakref.WeakValueDictionary[int, Sampler] = weakref.WeakValueDictionary()
_loggers: dict[int, Callable[[int, str], None]] = {}


def _on_logits(user: int, logits: Any, vocab_size: int, ids: Any, count: int) -> int:
    done = False
    with Inside():
        sampler = _samplers.get(user)
        if sampler is None:
            raise errors.HostError("the sampling callback of this state is gone: set the sampling again")
        # Copies: a view of the library's memory could outlive this call.
        size = vocab_size * ctypes.sizeof(ctypes.c_float)
        copy = bytearray(size)
        address = ctypes.addressof(logits.contents)
        copy[:] = ctypes.string_at(address, size)
        seen = ctypes.string_at(ids, count * ctypes.sizeof(ctypes.c_int32)) if count else b""
        try:
            host(sampler.function, memoryview(copy).cast("f"), memoryview(seen).cast("i"))
        except BaseException as error:
            sampler.raised = error if sampler.keeps else None
            raise
        ctypes.memmove(address, bytes(copy), size)
        done = True
    return _c.INFER_OK if done else _c.INFER_ERROR_HOST


def _on_log(user: int, level: int, text: int, length: int) -> None:
    state.depth += 1
    try:
        logger = _loggers.get(user)
        if logger is not None:
            logger(level, text_at(text, length))
    except KeyboardInterrupt:
        _thread.interrupt_main()
    except BaseException as error: # pylint: disable=broad-exception-caught
        unraisable(error, "log callback of libinfer")
    finally:
        state.depth -= 1


def unraisable(error: BaseException, what: str) -> None:
    """Tells an exception that can go nowhere."""
    hook = sys.unraisablehook
    hook(_Unraisable(type(error), error, error.__traceback__, f"Exception ignored in {what}", None)) # type: ignore[arg-type]


class _Unraisable: # what sys.unraisablehook takes
    def __init__(self, exc_type: type, exc_value: BaseException, exc_traceback: Any, err_msg: str, obj: Any) -> None:
        self.exc_type, self.exc_value, self.exc_traceback, self.err_msg, self.object = exc_type, exc_value, exc_traceback, err_msg, obj


LOGITS_CALLBACK = _c.infer_logits_fn(_on_logits)
LOG_CALLBACK = _c.infer_log_fn(_on_log)


def add_logger(function: Callable[[int, str], None]) -> int:
    key = number()
    _loggers[key] = function
    return key


def remove_logger(key: int) -> None:
    _loggers.pop(key, None)
