"""Models: weights, tokenizer, template; embeddings of texts."""
from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from ctypes import byref
from typing import Any, NamedTuple

from . import _c, errors
from ._calls import interruptible
from ._core import Cancel, Floats, Object, address_of, call, cancel_arg, encode, fill, int_array, new
from ._library import lib
from ._sources import Source
from .adapters import Adapter
from .engine import Engine
from .enums import Fingerprint, KvType, Map, Pooling, TensorType, Verify
from .file import File
from .records import Estimate, ModelInfo, ModelMemory
from .session import Session, session_options
from .state import Checkpoint, Path, open_checkpoint
from .text import Template, Tokenizer, open_options, open_with, with_source


class Embedding(NamedTuple):
    """A text's vector."""

    vector: Floats  #: width floats; with Pooling.NONE [tokens][width]
    tokens: int         #: of the whole text, special ones included
    truncated: bool


class Model(Object):
    """A model: immutable, for any number of threads. Opened by Model.open."""

    _KIND = "model"
    _engine: Engine
    _n_embd: int
    _vocab_size: int

    @classmethod
    def open(
        cls,
        source: Source,
        *,
        engine: Engine | None = None,
        name: str = "",
        map: Map = Map.AUTO,
        n_ctx: int = 0,
        quantise: TensorType | None = None,
        cancel: Cancel | None = None,
    ) -> Model:
        """Opens a GGUF file, or a folder as Hugging Face ships them. source: a path, bytes, a descriptor, a binary file object, or a function that opens names
        (of the parts of a model). engine None: one of its own."""
        options = open_options(map, n_ctx, quantise or 0)
        self: Model = open_with(cls, lib.infer_model_open, engine._h if engine else None, source, name, options, cancel)
        self._engine = engine if engine is not None else Engine._borrow(lib.infer_model_engine(self._h))
        info = self.info
        self._n_embd, self._vocab_size = info.n_embd, info.vocab_size
        return self

    @staticmethod
    def estimate(
        source: Source,
        *,
        engine: Engine | None = None,
        name: str = "",
        map: Map = Map.AUTO,
        open_n_ctx: int = 0,
        quantise: TensorType | None = None,
        n_ctx: int = 0,
        sessions: int = 1,
        kv_type: KvType = KvType.F16,
        kv_recent: int = 0,
        threads: int = 0,
        budget: int = 0,
        cancel: Cancel | None = None,
    ) -> Estimate:
        """What a model would take, opened like this, with so many full sessions of n_ctx elements; nothing but its head is read. With a budget in bytes and
        n_ctx 0: the longest context that fits, or LimitError. open_n_ctx: n_ctx of open()."""
        options, out = new(_c.infer_estimate_options), new(_c.infer_estimate)
        fill(options, n_ctx=n_ctx, sessions=sessions, kv_type=int(kv_type), kv_recent=kv_recent, threads=threads, budget=budget)
        handle = engine._h if engine else None
        with_source(source, name, open_options(map, open_n_ctx, quantise or 0), cancel,
                    lambda made, given: call(lib.infer_model_estimate, handle, made, given, byref(options), byref(out)))
        return Estimate._of(out)

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def info(self) -> ModelInfo:
        return ModelInfo._of(self._info(_c.infer_model_info))

    def memory(self) -> ModelMemory:
        """How much of the model is in memory now."""
        return ModelMemory._of(self._info(_c.infer_model_memory, "get_memory"))

    @property
    def tokenizer(self) -> Tokenizer:
        """StateError where the library does not know the model's (info.tokenizer_problem says why)."""
        handle = self._h
        lent = lib.infer_model_tokenizer(handle)
        if not lent:
            raise errors.StateError(self.info.tokenizer_problem or "the model has no tokenizer")
        return Tokenizer._borrow(lent)

    @property
    def template(self) -> Template:
        """ChatML where the model has none (is_fallback tells)."""
        handle = self._h
        return Template._borrow(lib.infer_model_template(handle))

    @property
    def file(self) -> File:
        handle = self._h
        return File._borrow(lib.infer_model_file(handle))

    def fingerprint(self, kind: Fingerprint = Fingerprint.QUICK, cancel: Cancel | None = None) -> bytes:
        """What tells this model's file from others: 32 bytes, the same on any machine."""
        out, handle = ctypes.create_string_buffer(32), self._h
        interruptible(cancel, lambda flag: call(lib.infer_model_fingerprint, handle, int(kind), out, cancel_arg(flag)))
        return out.raw

    def session(
        self,
        *,
        n_ctx: int = 0,
        kv_type: KvType = KvType.F16,
        kv_recent: int = 0,
        salt: bytes = b"",
        cache_lookup: bool = True,
        cache_insert: bool = True,
    ) -> Session:
        """An empty session. Fields of infer_session_options."""
        options = session_options(n_ctx, kv_type, kv_recent, salt, cache_lookup, cache_insert)
        return Session._made(lib.infer_session_create, self._h, byref(options))._of(self)

    def open_adapter(self, source: Source, *, name: str = "", map: Map = Map.AUTO, cancel: Cancel | None = None) -> Adapter:
        """Opens a LoRA, a steering vector, a soft prompt or a prefix."""
        made: Adapter = open_with(Adapter, lib.infer_adapter_open, self._h, source, name, open_options(map), cancel)
        made._model = self
        return made

    def find_adapter(self, hash: bytes) -> Adapter:
        """One that is open for the model and has this content (AdapterInfo.hash)."""
        if len(hash) != 16:
            raise ValueError("an adapter's hash has 16 bytes")
        made = Adapter._made(lib.infer_adapter_find, self._h, bytes(hash))
        made._model = self
        return made

    def open_checkpoint(
        self,
        path: Path,
        *,
        map: Map = Map.AUTO,
        verify: Verify = Verify.FIRST_USE,
        adapters: int = 0,
        cancel: Cancel | None = None,
    ) -> Checkpoint:
        """Opens a checkpoint file of this model."""
        return open_checkpoint(self, path, map, verify, adapters, cancel)

    def embed(
        self,
        texts: Iterable[str | Sequence[int]],
        *,
        pooling: Pooling = Pooling.MODEL,
        raw: bool = False,
        truncate: bool = False,
        add_special: bool = True,
        parse_special: bool = False,
        dimensions: int = 0,
        max_tokens: int = 0,
        cancel: Cancel | None = None,
    ) -> list[Embedding]:
        """Embeddings of texts (or of token ids), several in one pass. Fields of infer_embed_options. The first text that fails is raised."""
        if isinstance(texts, (str, bytes)):
            raise TypeError("texts is a sequence of str")
        given = list(texts)
        options = new(_c.infer_embed_options)
        flags = (_c.INFER_EMBED_RAW * raw | _c.INFER_EMBED_TRUNCATE * truncate | _c.INFER_EMBED_NO_SPECIAL * (not add_special)
                 | _c.INFER_EMBED_PARSE_SPECIAL * parse_special)
        fill(options, pooling=int(pooling), flags=flags, dimensions=dimensions, max_tokens=max_tokens)
        per_token = pooling == Pooling.NONE or (pooling == Pooling.MODEL and self.info.pooling == Pooling.NONE)
        width = dimensions or (self._n_embd if per_token else self.info.embedding_width)
        items = (_c.infer_embed_item * len(given))()
        keep = [_embed_input(item, text) for item, text in zip(items, given)]
        rows = [self._embed_rows(text, max_tokens, add_special, parse_special) if per_token else 1 for text in given]
        outs = [bytearray(4 * n * width) for n in rows]
        for item, out in zip(items, outs):
            floats = (ctypes.c_float * (len(out) // 4)).from_buffer(out)
            item.out, item.capacity = ctypes.cast(floats, ctypes.POINTER(ctypes.c_float)), len(floats)
            keep.append(floats)
        handle = self._h
        interruptible(cancel, lambda flag: call(lib.infer_embed, handle, items, len(items), byref(options), cancel_arg(flag)))
        del keep
        shapes = [(item.rows, width) if per_token else (width,) for item in items]
        return [Embedding(memoryview(out)[: 4 * item.rows * width].cast("B").cast("f", shape), item.tokens, bool(item.truncated))
                for item, out, shape in zip(items, outs, shapes)]

    def _embed_rows(self, text: str | Sequence[int], max_tokens: int, add_special: bool, parse_special: bool) -> int:
        """How many tokens a text has."""
        if not isinstance(text, str):
            return len(text)
        count = len(self.tokenizer.encode(text, add_special=add_special, parse_special=parse_special))
        return min(count, max_tokens or self.info.embed_tokens)


def _embed_input(item: Any, text: str | Sequence[int]) -> Any:
    """Fills the item; what must live as long."""
    item.size = ctypes.sizeof(_c.infer_embed_item)
    if isinstance(text, str):
        data = encode(text)
        item.text, item.text_len = address_of(data), len(data)
        return data
    ids = int_array(text)
    item.ids, item.id_count = ctypes.cast(ids, ctypes.POINTER(ctypes.c_int32)), len(ids)
    return ids
