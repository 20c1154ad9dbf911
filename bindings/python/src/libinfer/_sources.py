"""Where files come from: a path, bytes, a descriptor, a file object, or a function that opens names."""
from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Callable, Union

from . import _c
from ._core import Buffer, Inside, Pinned, address_of, encode, fill, host, number, text_at

#: A path; what supports the buffer protocol (bytes, mmap: the file itself); a descriptor; a binary file object; or a function that gives bytes or a file
#: object for a name, and raises FileNotFoundError for names that it does not know (IsADirectoryError for folders). Anything else that it raises ends the call.
Source = Union[str, "os.PathLike[str]", Buffer, int, BinaryIO, Callable[[str], Union[Buffer, BinaryIO]]]


class _Stream:
    """One opened file: bytes in place, or a file object."""

    def __init__(self, content: Any) -> None:
        self.pin: Pinned | None = None
        self.file: Any = None
        if hasattr(content, "read") and not _is_buffer(content):
            self.file = content
            self.lock = threading.Lock()
            content.seek(0, os.SEEK_END)
            self.length = int(content.tell())
        else:
            self.pin = Pinned(content)
            self.length = self.pin.length

    def read(self, offset: int, address: int, length: int) -> bool:
        """False: the file ends early."""
        with self.lock:
            self.file.seek(offset)
            while length:
                piece = self.file.read(min(length, 1 << 20))
                if not piece:
                    return False
                if len(piece) > length:
                    raise ValueError("read() gave more than was asked for")
                ctypes.memmove(address, bytes(piece), len(piece))
                address += len(piece)
                length -= len(piece)
        return True


_openers: dict[int, Callable[[str], Any]] = {}  # while the call that opens runs
_streams: dict[int, _Stream] = {}               # until the library releases them


def _is_buffer(content: Any) -> bool:
    try:
        memoryview(content).release()
    except TypeError:
        return False
    return True


def _on_open(user: int, name: int, name_len: int, out: Any) -> int:
    status = _c.INFER_ERROR_HOST
    with Inside():
        try:
            content = host(_openers[user], text_at(name, name_len))
        except (FileNotFoundError, IsADirectoryError, KeyError): # the library asks for names that may be there, and of a folder for what is in it
            return _c.INFER_ERROR_NOT_FOUND
        stream, key = host(_Stream, content), number()
        _streams[key] = stream
        made = out.contents
        made.length = stream.length
        made.user = key
        made.release = _RELEASE
        if stream.pin is not None and stream.length:
            made.data = stream.pin.address
        else:
            made.read = _READ
        status = _c.INFER_OK
    return status


def _on_read(user: int, offset: int, dst: int, length: int) -> int:
    status = _c.INFER_ERROR_HOST
    with Inside():
        stream = _streams[user]
        whole = stream.file is None or host(stream.read, offset, dst, length)
        status = _c.INFER_OK if whole else _c.INFER_ERROR_TRUNCATED
    return status


def _on_release(user: int) -> None:
    with Inside():
        stream = _streams.pop(user, None)
        if stream is not None and stream.pin is not None:
            stream.pin.release()


_OPEN = _c.infer_open_fn(_on_open)
_FIELDS: dict[str, Any] = {field[0]: field[1] for field in _c.infer_stream._fields_}
_READ = _FIELDS["read"](_on_read)
_RELEASE = _FIELDS["release"](_on_release)


@contextmanager
def opened(source: Source, name: str = "") -> Iterator[_c.infer_source]:
    """The source as the library takes it, for one call. name: of what has none by itself; messages and the parts of split files go by it."""
    made = _c.infer_source(size=ctypes.sizeof(_c.infer_source))
    key: int | None = None
    keep: Any
    if isinstance(source, (str, os.PathLike)):
        keep = os.fsencode(source)
        made.kind = _c.INFER_SOURCE_PATH
        made.name, made.name_len = address_of(keep), len(keep)
    else:
        keep = encode(name)
        made.name, made.name_len = address_of(keep), len(keep)
        if isinstance(source, int):
            fill(made, kind=_c.INFER_SOURCE_DESCRIPTOR, descriptor=source)
        else:
            key = number()
            _openers[key] = source if callable(source) else _only(name, source)
            made.kind, made.user, made.open = _c.INFER_SOURCE_CALLBACK, key, _OPEN
    try:
        yield made
    finally:
        del keep
        if key is not None:
            del _openers[key]


def _only(name: str, content: Any) -> Callable[[str], Any]:
    """Opens the one file that there is."""
    if not hasattr(content, "read") and not _is_buffer(content):
        raise TypeError(f"a model's source is a path, bytes, a descriptor, a binary file or a function, not {type(content).__name__}")

    def opener(asked: str) -> Any:
        if asked != name:
            raise FileNotFoundError(asked)
        return content

    return opener
