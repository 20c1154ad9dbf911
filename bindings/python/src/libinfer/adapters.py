"""Adapters: LoRA, steering vectors, soft prompts, prefixes."""
from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from ctypes import byref
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _c
from ._core import Object, fill
from ._library import lib
from .enums import AdapterMode
from .records import AdapterInfo

if TYPE_CHECKING:
    from .model import Model


class Adapter(Object):
    """What changes a model's behaviour beside its weights; opened by Model.open_adapter."""

    _KIND = "adapter"
    _model: Model

    @property
    def model(self) -> Model:
        return self._model

    @property
    def info(self) -> AdapterInfo:
        return AdapterInfo._of(self._info(_c.infer_adapter_info))

    @property
    def targets(self) -> list[str]:
        """Matrices of a LoRA, as GGUF names them."""
        handle = self._h
        names: list[str] = []
        while True:
            name = lib.infer_adapter_target(handle, len(names))
            if name is None:
                return names
            names.append(bytes(name).decode("utf-8", "replace"))

    @property
    def invocation(self) -> list[int]:
        """The invocation tokens of an aLoRA."""
        count, handle = ctypes.c_uint64(), self._h
        ids = lib.infer_adapter_invocation(handle, byref(count))
        return list(ids[: count.value]) if ids else []


class AdapterUse(NamedTuple):
    """An adapter in force: how much, how, and on which layers."""

    adapter: Adapter
    scale: float = 1.0
    mode: AdapterMode = AdapterMode.ADD
    first_layer: int = 0
    layer_count: int = 0  #: 0: to the last


def use_array(uses: Iterable[Adapter | AdapterUse]) -> tuple[Any, Sequence[Any]]:
    """(infer_adapter_use[n], what must live as long)"""
    given = [use if isinstance(use, AdapterUse) else AdapterUse(use) for use in uses]
    handles = [use.adapter._h for use in given]
    array = (_c.infer_adapter_use * len(given))()
    for item, use, handle in zip(array, given, handles):
        item.size = ctypes.sizeof(_c.infer_adapter_use)
        fill(item, mode=int(use.mode), adapter=handle.value, scale=use.scale, first_layer=use.first_layer, layer_count=use.layer_count)
    return array, handles
