"""Model files as data: metadata and tensors."""
from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from ctypes import byref
from typing import Any, Union

from . import _c, errors
from ._core import Cancel, Floats, Handle, Object, call, encode, new, text_at
from ._library import lib
from ._sources import Source
from .engine import Engine
from .enums import Map, TensorType, ValueKind
from .text import open_options, open_with

#: A metadata value. Strings that are not UTF-8 are bytes.
Value = Union[int, float, bool, str, bytes, list[Any]]


def lent(handle: Handle, address: int | None, length: int) -> memoryview:
    """Immutable memory of the library as a read-only memoryview, which keeps the handle that lends it."""
    if not address or not length:
        return memoryview(b"")
    array: Any = (ctypes.c_ubyte * length).from_address(address)
    array.handle = handle # views keep the array, and the array keeps this
    return memoryview(array).toreadonly().cast("B")


class Tensor:
    """One tensor of a file."""

    def __init__(self, handle: Handle, index: int) -> None:
        info = new(_c.infer_tensor_info)
        call(lib.infer_file_tensor, handle, index, byref(info))
        self._handle, self._index, self._info = handle, index, info
        self.name = text_at(info.name, info.name_len)
        self.type = TensorType(info.type)
        #: elements; the first varies fastest (the length of a row)
        self.shape: tuple[int, ...] = tuple(info.shape[: info.dims])
        self.part: int = info.part      #: of a split file, from 0
        self.offset: int = info.offset  #: of the data in its part, bytes

    @property
    def data(self) -> memoryview:
        """The packed bytes, in place."""
        return lent(self._handle, self._info.data, self._info.data_len)

    def __len__(self) -> int:
        """Elements."""
        count = 1
        for n in self.shape:
            count *= n
        return count

    def f32(self, first: int = 0, count: int | None = None) -> Floats:
        """Elements [first, first + count) decoded to f32, in a buffer of their own. Both must be multiples of the type's block."""
        count = len(self) - first if count is None else count
        if count < 0 or first < 0:
            raise errors.ArgumentError("first or count is beyond the tensor's end")
        out = bytearray(4 * count)
        call(lib.infer_file_tensor_f32, self._handle, self._index, first, count, (ctypes.c_float * count).from_buffer(out))
        return memoryview(out).cast("f")

    def __repr__(self) -> str:
        return f"<libinfer.Tensor {self.name} {self.type.name} {'x'.join(map(str, self.shape))}>"


class Metadata(Mapping[str, Value]):
    """Metadata by key, in the file's order."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __len__(self) -> int:
        return int(lib.infer_file_meta_count(self._handle))

    def __iter__(self) -> Iterator[str]:
        for index in range(len(self)):
            key, length, value = ctypes.c_void_p(), ctypes.c_uint64(), new(_c.infer_value)
            call(lib.infer_file_meta, self._handle, index, byref(key), byref(length), byref(value))
            yield text_at(key.value, length.value)

    def __getitem__(self, key: str) -> Value:
        data, value = encode(key), new(_c.infer_value)
        call(lib.infer_file_find_meta, self._handle, data, len(data), byref(value))
        return self._read(value)

    def _read(self, value: _c.infer_value) -> Value:
        kind = value.kind
        if kind == ValueKind.UINT:
            return value.u
        if kind == ValueKind.INT:
            return value.i
        if kind == ValueKind.FLOAT:
            return value.f
        if kind == ValueKind.BOOL:
            return bool(value.u)
        if kind == ValueKind.STRING:
            raw = ctypes.string_at(value.data, value.count) if value.data else b""
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return raw
        items = []
        for index in range(value.count):
            item = new(_c.infer_value)
            call(lib.infer_file_value_item, self._handle, byref(value), index, byref(item))
            items.append(self._read(item))
        return items


class Tensors(Mapping[str, Tensor]):
    """Tensors by name, in the file's order."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __len__(self) -> int:
        return int(lib.infer_file_tensor_count(self._handle))

    def __iter__(self) -> Iterator[str]:
        return (Tensor(self._handle, index).name for index in range(len(self)))

    def __getitem__(self, name: str) -> Tensor:
        data, index = encode(name), ctypes.c_uint64()
        call(lib.infer_file_find_tensor, self._handle, data, len(data), byref(index))
        return Tensor(self._handle, index.value)


class File(Object):
    """A model file (GGUF, safetensors, PyTorch) as a directory of tensors and metadata; nothing is interpreted."""

    _KIND = "file"

    @classmethod
    def open(
        cls,
        source: Source,
        *,
        name: str = "",
        engine: Engine | None = None,
        map: Map = Map.AUTO,
        cancel: Cancel | None = None,
    ) -> File:
        return open_with(cls, lib.infer_file_open, engine._h if engine else None, source, name, open_options(map), cancel)

    @property
    def metadata(self) -> Metadata:
        return Metadata(self._h)

    @property
    def tensors(self) -> Tensors:
        return Tensors(self._h)
