"""Exceptions: one class for each status of the library, in families, and also of Python's own kind where there is one."""
from __future__ import annotations

from . import _c
from ._library import lib


class Error(Exception):
    """A call of the library failed. What it worked on is as it was before."""

    code: int              #: the status, one of libinfer.Status
    text: str              #: what happened, in English
    file: str              #: file name, or ""
    offset: int | None  #: byte offset in the file or text
    place: str             #: metadata key, tensor or option, or ""

    def __init__(self, text: str = "", code: int | None = None, file: str = "", offset: int | None = None, place: str = "") -> None:
        super().__init__(text)
        self.code = _CODES.get(type(self), _c.INFER_ERROR_INTERNAL) if code is None else code
        self.text, self.file, self.offset, self.place = text, file, offset, place

    @property
    def name(self) -> str:
        """The status by name: "INFER_ERROR_FORMAT"."""
        return bytes(lib.infer_status_name(self.code)).decode()

    def __str__(self) -> str:
        text = self.text or bytes(lib.infer_status_message(self.code)).decode()
        for where in (self.place, self.file):
            if where and where not in text:
                text = f"{where}: {text}"
        return text if self.offset is None else f"{text} (byte {self.offset})"


# General


class ArgumentError(Error, ValueError):
    """An argument that makes no sense; `place` names it where it is a field."""


class StateError(Error, RuntimeError):
    """The call is not allowed now; also: the object is closed, or in use."""


class OutOfMemoryError(Error, MemoryError):
    """Out of memory, or of what memory_limit allows."""


class LimitError(Error):
    """A limit was exceeded: of the KV budget, of a store, of a text's length."""


class CancelledError(Error):
    """A cancel flag was set."""


class UnsupportedError(Error, NotImplementedError):
    """This version or build of the library does not do that."""


class InternalError(Error, RuntimeError):
    """A defect of the library, or a buffer too small: please report it."""


class HostError(Error):
    """A callback failed. What it raised is raised instead wherever it can be."""


# Files


class FileError(Error):
    """Family: what happens with files."""


class ReadWriteError(FileError, OSError):
    """Input or output failed."""


class NotFoundError(FileError, FileNotFoundError, KeyError):
    """No such file, or no such name in it."""

    __str__ = Error.__str__


class FormatError(FileError, ValueError):
    """A malformed or damaged file."""


class TruncatedError(FormatError, EOFError):
    """A file that ends early."""


class ChangedError(FileError, OSError):
    """A file that changed while it was in use."""


class ExistsError(FileError, FileExistsError):
    """The name is taken."""


# Models


class ModelError(Error, ValueError):
    """Family: files that are sound, but no model that can be run; `place` names the key or tensor."""


class ArchitectureError(ModelError):
    """An architecture that the library does not know."""


class MissingError(ModelError):
    """A key or tensor that the model needs is not there."""


class ShapeError(ModelError):
    """A tensor has the wrong shape or type."""


class ModelValueError(ModelError):
    """A value out of range."""


# Text


class TextError(Error, ValueError):
    """Family: tokens, text and templates."""


class TokenError(TextError):
    """A token id that the vocabulary has not."""


class EncodingError(TextError):
    """Text that is not UTF-8."""


class TemplateSyntaxError(TextError):
    """A template, or JSON, that cannot be parsed; `offset` says where."""


class TemplateError(TextError):
    """A template that failed, or raised an exception."""


# Running


class RunError(Error, RuntimeError):
    """Family: what ends a computation."""


class ContextFullError(RunError):
    """More elements than the session's context holds."""


class NonFiniteError(RunError, ArithmeticError):
    """The model produced a value that is not finite."""


class ThreadError(RunError):
    """A thread could not be started."""


_CLASSES: dict[int, type[Error]] = {
    _c.INFER_ERROR_ARGUMENT: ArgumentError,
    _c.INFER_ERROR_STATE: StateError,
    _c.INFER_ERROR_NO_MEMORY: OutOfMemoryError,
    _c.INFER_ERROR_LIMIT: LimitError,
    _c.INFER_ERROR_CANCELLED: CancelledError,
    _c.INFER_ERROR_UNSUPPORTED: UnsupportedError,
    _c.INFER_ERROR_BUFFER: InternalError,
    _c.INFER_ERROR_INTERNAL: InternalError,
    _c.INFER_ERROR_HOST: HostError,
    _c.INFER_ERROR_IO: ReadWriteError,
    _c.INFER_ERROR_NOT_FOUND: NotFoundError,
    _c.INFER_ERROR_FORMAT: FormatError,
    _c.INFER_ERROR_TRUNCATED: TruncatedError,
    _c.INFER_ERROR_CHANGED: ChangedError,
    _c.INFER_ERROR_EXISTS: ExistsError,
    _c.INFER_ERROR_ARCHITECTURE: ArchitectureError,
    _c.INFER_ERROR_MISSING: MissingError,
    _c.INFER_ERROR_SHAPE: ShapeError,
    _c.INFER_ERROR_VALUE: ModelValueError,
    _c.INFER_ERROR_TOKEN: TokenError,
    _c.INFER_ERROR_ENCODING: EncodingError,
    _c.INFER_ERROR_SYNTAX: TemplateSyntaxError,
    _c.INFER_ERROR_TEMPLATE: TemplateError,
    _c.INFER_ERROR_CONTEXT_FULL: ContextFullError,
    _c.INFER_ERROR_NONFINITE: NonFiniteError,
    _c.INFER_ERROR_THREAD: ThreadError,
}
# What a class made without a code means.
_CODES: dict[type[Error], int] = {kind: code for code, kind in _CLASSES.items() if code != _c.INFER_ERROR_BUFFER}


def from_c(status: int, err: _c.infer_error) -> Error:
    """The exception for a failed call."""
    text = err.text.decode("utf-8", "replace")
    file = err.file.decode("utf-8", "replace")
    place = err.name.decode("utf-8", "replace")
    offset = None if err.offset == 2**64 - 1 or err.code == 0 else err.offset
    return _CLASSES.get(status, Error)(text, status, file, offset, place)
