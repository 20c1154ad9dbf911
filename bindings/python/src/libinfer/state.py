"""Checkpoints, their files, and stores of them."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from ctypes import byref
from typing import TYPE_CHECKING, Union

from . import _c, errors
from ._calls import interruptible, make
from ._core import Cancel, Object, Sampler, address_of, call, cancel_arg, encode, fill, new, u64
from ._library import lib
from .engine import Engine
from .enums import Map, Verify
from .records import CheckpointInfo, StoreEntry, StoreInfo
from .session import Session

if TYPE_CHECKING:
    from .model import Model

Path = Union[str, "os.PathLike[str]"]


class Checkpoint(Object):
    """A session's whole state at one moment: immutable. Made by Session.checkpoint, Model.open_checkpoint, Store.get."""

    _KIND = "checkpoint"
    _model: Model
    _sampler: Sampler | None

    @property
    def model(self) -> Model:
        return self._model

    @property
    def info(self) -> CheckpointInfo:
        return CheckpointInfo._of(self._info(_c.infer_checkpoint_info))

    def __len__(self) -> int:
        return self.info.length

    def tokens(self, first: int = 0, count: int | None = None) -> list[int]:
        """As Session.tokens."""
        count = max(len(self) - first, 0) if count is None else count
        ids = (ctypes.c_int32 * u64(count))()
        call(lib.infer_checkpoint_tokens, self._h, u64(first), count, ids)
        return list(ids)

    def session(self) -> Session:
        """A new session with this state. An answer in the middle of being made goes on with Session.resume."""
        return Session._made(lib.infer_checkpoint_session, self._h)._of(self._model, self._sampler)

    def save(
        self,
        path: Path,
        *,
        parent: Path | None = None,
        compress: bool = False,
        level: int = 0,
        full_model: bool = False,
        cancel: Cancel | None = None,
    ) -> None:
        """Writes a file, whole or not at all. parent: a checkpoint file of the same model in the same folder; only what it lacks is written. compress: by
        zstd, where the library was built with it. A callback on logits is not kept."""
        data, options = os.fsencode(path), new(_c.infer_save_options)
        ancestor = os.fsencode(parent) if parent is not None else None
        if ancestor is not None:
            options.parent, options.parent_len = address_of(ancestor), len(ancestor)
        fill(options, flags=_c.INFER_SAVE_ZSTD * compress | _c.INFER_SAVE_FULL_MODEL * full_model, level=level)
        handle = self._h
        interruptible(cancel, lambda flag: call(lib.infer_checkpoint_save, handle, data, len(data), byref(options), cancel_arg(flag)))


def open_checkpoint(model: Model, path: Path, map: Map, verify: Verify, adapters: int, cancel: Cancel | None) -> Checkpoint:
    data, options = os.fsencode(path), new(_c.infer_load_options)
    fill(options, map=int(map), verify=int(verify), adapters=adapters)
    made = make(Checkpoint, lib.infer_checkpoint_open, model._h, data, len(data), byref(options), cancel=cancel)
    made._model, made._sampler = model, None
    return made


def clone_file(source: Path, target: Path, *, engine: Engine | None = None, cancel: Cancel | None = None) -> None:
    """Copies a checkpoint file, whole or not at all; blocks are shared where the file system can."""
    a, b = os.fsencode(source), os.fsencode(target)
    handle = engine._h if engine else None
    interruptible(cancel, lambda flag: call(lib.infer_checkpoint_clone_file, handle, a, len(a), b, len(b), cancel_arg(flag)))


class Store(Object):
    """Checkpoints by name: in memory, or with a path in that directory."""

    _KIND = "store"

    def __init__(self, engine: Engine, path: Path | None = None, *, max_bytes: int = 0, max_count: int = 0) -> None: # pylint: disable=super-init-not-called
        options = new(_c.infer_store_options)
        fill(options, max_bytes=max_bytes, max_count=max_count)
        data = os.fsencode(path) if path is not None else None
        self._make(lib.infer_store_open, engine._h, data, len(data or b""), byref(options))
        self._engine = engine
        # In memory a checkpoint keeps the number of its callback on logits: here is what holds the callback.
        self._samplers: dict[str, Sampler | None] | None = {} if path is None else None

    def put(self, name: str, checkpoint: Checkpoint, *, replace: bool = False, cancel: Cancel | None = None) -> None:
        """Keeps a checkpoint under a name. ExistsError where there is one, unless replace."""
        data, flags = encode(name), _c.INFER_STORE_REPLACE * replace
        handle, other = self._h, checkpoint._h
        interruptible(cancel, lambda flag: call(lib.infer_store_put, handle, data, len(data), other, flags, cancel_arg(flag)))
        if self._samplers is not None:
            self._samplers[name] = checkpoint._sampler

    def get(self, model: Model, name: str, *, cancel: Cancel | None = None) -> Checkpoint:
        """The checkpoint of that name. NotFoundError (a KeyError too)."""
        data = encode(name)
        made = make(Checkpoint, lib.infer_store_get, self._h, model._h, data, len(data), cancel=cancel)
        made._model = model
        made._sampler = self._samplers.get(name) if self._samplers is not None else None
        return made

    def branch(self, name: str, new_name: str, *, replace: bool = False) -> None:
        """The checkpoint of one name under a second one too."""
        a, b = encode(name), encode(new_name)
        call(lib.infer_store_branch, self._h, a, len(a), b, len(b), _c.INFER_STORE_REPLACE * replace)
        if self._samplers is not None:
            self._samplers[new_name] = self._samplers.get(name)

    def rename(self, name: str, new_name: str, *, replace: bool = False) -> None:
        a, b = encode(name), encode(new_name)
        call(lib.infer_store_rename, self._h, a, len(a), b, len(b), _c.INFER_STORE_REPLACE * replace)
        if self._samplers is not None:
            self._samplers[new_name] = self._samplers.pop(name, None)

    def delete(self, name: str) -> None:
        data = encode(name)
        call(lib.infer_store_delete, self._h, data, len(data))
        if self._samplers is not None:
            self._samplers.pop(name, None)

    def entries(self) -> Iterator[StoreEntry]:
        """All entries, in the order of their names' bytes."""
        after: bytes | None = None
        while True:
            out = new(_c.infer_store_entry)
            try:
                call(lib.infer_store_next, self._h, after, len(after or b""), byref(out))
            except errors.NotFoundError:
                return
            yield StoreEntry._of(out)
            after = out.name

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in self.entries())

    def __len__(self) -> int:
        return self.info.count

    def __contains__(self, name: object) -> bool:
        return any(entry == name for entry in self)

    @property
    def info(self) -> StoreInfo:
        return StoreInfo._of(self._info(_c.infer_store_info))
