"""Tokenizers and chat templates."""
from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable, Mapping, Sequence
from ctypes import byref
from typing import Any, Callable, NamedTuple, Union

from . import _c, errors
from ._calls import interruptible
from ._core import Cancel, Handle, Object, ObjectT, T, address_of, call, cancel_arg, encode, fill, int_array, new, text_at
from ._library import lib
from ._sources import Source, opened
from .engine import Engine
from .enums import Map, TokenKind
from .records import TokenizerInfo

#: One message of a conversation: ("user", "Hello") or {"role": "user", "content": "Hello"}.
Message = Union[tuple[str, str], Mapping[str, str]]


def open_options(map: Map = Map.AUTO, n_ctx: int = 0, quantise: int = 0) -> _c.infer_open_options:
    options = new(_c.infer_open_options)
    fill(options, map=int(map), n_ctx=n_ctx, quantise=int(quantise))
    return options


def with_source(source: Source, name: str, options: _c.infer_open_options, cancel: Cancel | None, function: Callable[[Any, Any], T]) -> T:
    """function(the source, the options)."""

    def work(flag: Cancel | None) -> T:
        with opened(source, name) as made:
            handle = cancel_arg(flag)
            options.cancel = handle.value if handle else None
            return function(byref(made), byref(options))

    return interruptible(cancel, work)


def open_with(kind: type[ObjectT], function: Any, first: Handle | None, source: Source, name: str, options: _c.infer_open_options,
              cancel: Cancel | None) -> ObjectT:
    """What one of the library's open functions gives."""
    return with_source(source, name, options, cancel, lambda made, given: kind._made(function, first, made, given))


class TokenInfo(NamedTuple):
    """One entry of the vocabulary."""

    kind: TokenKind
    score: float
    ends_turn: bool
    piece: bytes  #: the vocabulary's own spelling
    bytes: bytes  #: the text that it stands for in the middle of a text


class Tokenizer(Object):
    """Text to token ids and back. len() is the size of the vocabulary."""

    _KIND = "tokenizer"

    @classmethod
    def open(cls, source: Source, *, name: str = "", engine: Engine | None = None, cancel: Cancel | None = None) -> Tokenizer:
        """The tokenizer of a model file or folder, whose weights may be absent, or a tokenizer.json."""
        return open_with(cls, lib.infer_tokenizer_open, engine._h if engine else None, source, name, open_options(), cancel)

    @property
    def info(self) -> TokenizerInfo:
        return TokenizerInfo._of(self._info(_c.infer_tokenizer_info))

    def __len__(self) -> int:
        return self.info.vocab_size

    def encode(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        """add_special: begin and end as the model file says. parse_special: spellings of control tokens in the text become those tokens."""
        data = encode(text)
        flags = _c.INFER_TOKENIZE_ADD_SPECIAL * add_special | _c.INFER_TOKENIZE_PARSE_SPECIAL * parse_special
        capacity, count = len(data) + 8, ctypes.c_uint64()
        while True:
            ids = (ctypes.c_int32 * capacity)()
            try:
                call(lib.infer_tokenize, self._h, data, len(data), flags, ids, capacity, byref(count))
                return ids[: count.value]
            except errors.InternalError as error:
                if error.code != _c.INFER_ERROR_BUFFER:
                    raise
                capacity = count.value

    def decode_bytes(self, ids: Iterable[int], *, show_special: bool = False) -> bytes:
        """The text as it comes, which may not be UTF-8."""
        array = int_array(ids)
        flags = _c.INFER_DETOKENIZE_SHOW_SPECIAL * show_special
        return _sized(lambda *out: call(lib.infer_detokenize, self._h, array, len(array), flags, *out), 16 * len(array) + 64)

    def decode(self, ids: Iterable[int], *, show_special: bool = False) -> str:
        return self.decode_bytes(ids, show_special=show_special).decode("utf-8", "replace")

    def decoder(self, *, show_special: bool = False) -> Decoder:
        """A decoder for one text that comes token by token."""
        return Decoder(self, show_special)

    def token(self, id: int) -> TokenInfo:
        out = new(_c.infer_token_info)
        handle = self._h # what out borrows lives as long
        call(lib.infer_tokenizer_token, handle, id, byref(out))
        piece, spoken = (ctypes.string_at(a, n) if a else b"" for a, n in ((out.piece, out.piece_len), (out.bytes, out.bytes_len)))
        return TokenInfo(TokenKind(out.kind), out.score, bool(out.ends_turn), piece, spoken)


def _sized(function: Any, capacity: int) -> bytes:
    """What a function writes to a buffer whose need it tells."""
    need = ctypes.c_uint64()
    while True:
        buffer = ctypes.create_string_buffer(max(capacity, 1))
        try:
            function(buffer, capacity, byref(need))
            return buffer.raw[: need.value]
        except errors.InternalError as error:
            if error.code != _c.INFER_ERROR_BUFFER:
                raise
            capacity = need.value


class Decoder:
    """Decodes one text token by token, never half a character."""

    def __init__(self, tokenizer: Tokenizer, show_special: bool = False) -> None:
        self._tokenizer = tokenizer
        self._state = new(_c.infer_detokenizer)
        self._state.flags = _c.INFER_DETOKENIZE_SHOW_SPECIAL * show_special

    def feed(self, id: int) -> str:
        """The text that is complete with this token."""
        if id < 0:
            raise errors.TokenError(f"{id} is no token id")
        return self._next(id)

    def flush(self) -> str:
        """Ends the text: what is unfinished."""
        return self._next(-1)

    def _next(self, id: int) -> str:
        data = _sized(lambda *out: call(lib.infer_detokenizer_next, self._tokenizer._h, byref(self._state), id, *out), 64)
        return data.decode("utf-8", "replace")


def render_options(now: int | None = None, cancel: Cancel | None = None) -> _c.infer_render_options:
    options: Any = new(_c.infer_render_options)
    fill(options, now=now or 0)
    options.handle = cancel_arg(cancel) # an attribute, no field: another thread may close cancel, and this lives as long as the struct
    options.cancel = options.handle.value if options.handle else None
    return options # type: ignore[no-any-return]


def message_pairs(messages: Iterable[Message]) -> list[tuple[str, str]]:
    pairs = []
    for message in messages:
        role, content = (message["role"], message["content"]) if isinstance(message, Mapping) else message
        if not isinstance(role, str) or not isinstance(content, str):
            raise TypeError("a message's role and content are str")
        pairs.append((role, content))
    return pairs


def message_array(messages: Iterable[Message]) -> tuple[Any, Any]:
    """(infer_message[n], what must live as long)"""
    pairs = [(encode(role), encode(content)) for role, content in message_pairs(messages)]
    array = (_c.infer_message * len(pairs))()
    for item, (role, content) in zip(array, pairs):
        item.role, item.role_len = address_of(role), len(role)
        item.content, item.content_len = address_of(content), len(content)
    return array, pairs


class Template(Object):
    """A chat template: messages to text."""

    _KIND = "template"

    @classmethod
    def parse(cls, text: str, *, engine: Engine | None = None) -> Template:
        """Compiles a Jinja template."""
        data = encode(text)
        return cls._made(lib.infer_template_parse, engine._h if engine else None, data, len(data))

    @classmethod
    def open(cls, source: Source, *, name: str = "", engine: Engine | None = None, cancel: Cancel | None = None) -> Template:
        """The template in a model file; ChatML where it has none (is_fallback tells)."""
        return open_with(cls, lib.infer_template_open, engine._h if engine else None, source, name, open_options(), cancel)

    @property
    def is_fallback(self) -> bool:
        return bool(lib.infer_template_is_fallback(self._h))

    @property
    def text(self) -> str:
        """The template's source."""
        address, length, handle = ctypes.c_void_p(), ctypes.c_uint64(), self._h
        lib.infer_template_text(handle, byref(address), byref(length))
        return text_at(address.value, length.value)

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        now: int | None = None,
        cancel: Cancel | None = None,
        **variables: Any,
    ) -> str:
        """The text of a conversation. variables: whatever the template knows besides (bos_token, tools...). now: for its strftime_now, seconds since 1970 in
        the zone whose time is to be shown."""
        given: dict[str, Any] = {"messages": [m if isinstance(m, Mapping) else {"role": m[0], "content": m[1]} for m in messages]}
        given.update(add_generation_prompt=add_generation_prompt, **variables)
        return self.render_json(json.dumps(given, ensure_ascii=False), now=now, cancel=cancel)

    def render_json(self, variables: str, *, now: int | None = None, cancel: Cancel | None = None) -> str:
        """The same with all variables as a JSON object."""
        data, options = encode(variables), render_options(now, cancel)
        rendered = _sized(lambda *out: call(lib.infer_template_render, self._h, data, len(data), byref(options), *out), 4 * len(data) + 1024)
        return rendered.decode("utf-8", "replace")
