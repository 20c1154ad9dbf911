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
import signal
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterable
from ctypes import byref
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


class _ThreadState(threading.local):
    depth = 0                                # callbacks that this thread is inside
    raised: BaseException | None = None   # by the last of them


state = _ThreadState()
_deferred: deque[tuple[Callable[[int], None], int]] = deque()
_numbers = itertools.count(1)


def number() -> int:
    """A number for a callback, never used twice."""
    return next(_numbers)


def _drop(release: Callable[[int], None], value: int) -> None:
    # The garbage collector may run inside a callback, where the library must not be called.
    if state.depth:
        _deferred.append((release, value))
    else:
        release(value)


def _drop_deferred() -> None:
    while _deferred and not state.depth:
        release, value = _deferred.popleft()
        release(value)


class Handle:
    """One reference on a handle of the library, dropped when the last Python reference on this object is."""

    __slots__ = ("__weakref__", "_as_parameter_", "value")

    def __init__(self, value: int, release: Callable[[int], None]) -> None:
        self.value = value
        self._as_parameter_ = ctypes.c_void_p(value)
        weakref.finalize(self, _drop, release, value).atexit = False


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
        setattr(struct, name, value)
        if isinstance(value, int) and getattr(struct, name) != value:
            raise OverflowError(f"{name}: {int(value)} does not fit")


def u64(value: int) -> int:
    """A number as uint64_t parameters take it."""
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

    @classmethod
    def _wrap(cls: type[ObjectT], value: int | None) -> ObjectT:
        """Takes over one reference."""
        self = cls.__new__(cls)
        self._take(value)
        return self

    def _take(self, value: int | None) -> None:
        assert value, "the library gave no handle"
        self._handle = Handle(value, getattr(lib, f"infer_{self._KIND}_release"))

    @classmethod
    def _borrow(cls: type[ObjectT], value: int) -> ObjectT:
        """Adds a reference on what the library lent."""
        return cls._wrap(getattr(lib, f"infer_{cls._KIND}_ref")(value))

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

    def __init__(self) -> None: # pylint: disable=super-init-not-called
        out = ctypes.c_void_p()
        call(lib.infer_cancel_create, byref(out))
        self._take(out.value)

    def set(self) -> None:
        lib.infer_cancel_set(self._h)

    def clear(self) -> None:
        """Makes it ready for use again."""
        lib.infer_cancel_clear(self._h)

    @property
    def is_set(self) -> bool:
        return bool(lib.infer_cancel_is_set(self._h))


def cancel_arg(cancel: Cancel | None) -> Handle | None:
    return None if cancel is None else cancel._h


def make(kind: type[ObjectT], function: Any, *args: Any, cancel: Cancel | None | bool = False) -> ObjectT:
    """The handle that a function gives by its last but one parameter. cancel: unless False, goes before that one, and the call is interruptible."""
    out = ctypes.c_void_p()
    if isinstance(cancel, bool):
        call(function, *args, byref(out))
    else:
        interruptible(cancel, lambda flag: call(function, *args, cancel_arg(flag), byref(out)))
    return kind._wrap(out.value)


def _takes_signals() -> bool:
    """Whether Ctrl-C raises something in this thread: it is the main one, and not inside a callback."""
    return threading.current_thread() is threading.main_thread() and not state.depth and callable(signal.getsignal(signal.SIGINT))


def interruptible(cancel: Cancel | None, work: Callable[[Cancel | None], T]) -> T:
    """work(cancel), on another thread while the main thread waits where Ctrl-C reaches it: that sets the flag, so that the call ends at once. What the signal
    handler raised comes out when it has."""
    if not _takes_signals():
        return work(cancel)
    flag = cancel if cancel is not None else Cancel()
    was_set = flag.is_set
    result: dict[str, Any] = {}
    claimed, done = threading.Lock(), threading.Lock()
    done.acquire() # pylint: disable=consider-using-with

    def run() -> None:
        if not claimed.acquire(blocking=False): # pylint: disable=consider-using-with
            return
        try:
            result["value"] = work(flag)
        except BaseException as error: # pylint: disable=broad-exception-caught
            result["error"] = error
        finally:
            done.release()

    try:
        _thread.start_new_thread(run, ())
        done.acquire() # pylint: disable=consider-using-with
    except BaseException:
        if not claimed.acquire(blocking=False): # it runs
            flag.set()
            _wait_for(done, result)
            if not was_set:
                flag.clear()
        raise
    if "error" in result:
        try:
            raise result["error"]
        finally:
            result.clear() # no cycle from the traceback to here
    return result["value"] # type: ignore[no-any-return]


def _wait_for(lock: Any, result: dict[str, Any]) -> None:
    """Waits, whatever signal handlers raise: the call is about to end, and what it uses must stay until then. The result says whether it has: a handler may have
    raised when the lock had just been taken, and then nobody gives it back."""
    while True:
        try:
            while not result:
                lock.acquire(timeout=0.05)
            return
        except BaseException: # pylint: disable=broad-exception-caught
            continue


class Exclusive:
    """One thread at a time; a second one waits. A callback that comes back to the object it is called from is told so instead of waiting for ever."""

    def __init__(self, what: str) -> None:
        self._lock: Any = threading.RLock()
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
            sampler.function(memoryview(copy).cast("f"), memoryview(seen).cast("i"))
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
