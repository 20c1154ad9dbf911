"""How the next token is chosen, and what an answer is made of."""
from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from ctypes import byref
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple

from . import _c
from ._core import LOGITS_CALLBACK, Floats, Sampler, address_of, call, encode, fill, int_array, new
from ._library import lib

#: May change the logits before sampling: (logits, ids). logits: vocab_size floats, to be changed in place; -inf forbids a token. ids: the session's elements so
#: far. Both are buffers of their own. Must not use the session.
LogitsCallback = Callable[[Floats, memoryview], None]

_NUMBERS = ("top_k", "temperature", "top_p", "min_p", "typical_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
            "penalty_last_n", "seed", "top_logprobs")


@dataclass(frozen=True)
class Sampling:
    """infer_sampling. Sampling() is greedy; Sampling.default() is what infer-cli uses."""

    temperature: float = 0.0        #: logits are divided by it; 0: greedy
    top_k: int = 0                  #: keep the k most likely; 0: all
    top_p: float = 0.0              #: keep the smallest set with at least this much probability; 0 or 1: all
    min_p: float = 0.0              #: drop tokens less likely than this share of the most likely; 0: none
    typical_p: float = 0.0          #: locally typical sampling; 0 or 1: all
    repetition_penalty: float = 0.0 #: 0 or 1: none
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_last_n: int = 0         #: how many elements back count as seen; 0: all
    seed: int = 0                   #: the draw for position p is a function of (seed, p) alone
    bias: Mapping[int, float] = field(default_factory=dict) #: added to the logit; -inf forbids the token
    logprobs: bool = False          #: report the log-probability of each token
    top_logprobs: int = 0           #: alternatives to report with each token, at most 20
    callback: LogitsCallback | None = None

    @classmethod
    def default(cls, **changes: Any) -> Sampling:
        """Temperature 0.7, top_k 40, top_p 0.95, min_p 0.05, seed 0, but for what is given."""
        made = new(_c.infer_sampling)
        call(lib.infer_sampling_default, byref(made))
        values = {name: getattr(made, name) for name in _NUMBERS}
        return cls(**{**values, **changes})


def sampling_struct(sampling: Sampling) -> tuple[_c.infer_sampling, Sampler | None]:
    """The struct, and what holds its callback."""
    made = new(_c.infer_sampling)
    fill(made, **{name: getattr(sampling, name) for name in _NUMBERS}, logprobs=bool(sampling.logprobs))
    bias = (_c.infer_bias * len(sampling.bias))(*[_c.infer_bias(id, value) for id, value in sampling.bias.items()])
    made.bias, made.bias_count = ctypes.cast(bias, ctypes.POINTER(_c.infer_bias)), len(bias)
    sampler = None
    if sampling.callback is not None:
        sampler = Sampler(sampling.callback)
        made.callback, made.callback_user = LOGITS_CALLBACK, sampler.number
    return made, sampler


class Logprob(NamedTuple):
    """A token and the natural logarithm of its probability."""

    id: int
    logprob: float


def logprobs_at(pointer: Any, count: int) -> list[Logprob]:
    return [Logprob(item.id, item.logprob) for item in pointer[:count]] if count else []


class Sample(NamedTuple):
    """A token that was drawn."""

    id: int
    logprob: float
    top: list[Logprob]


def generate_options(
    max_tokens: int,
    stops: Iterable[str | bytes],
    stop_ids: Iterable[int],
    repeat_guard: int,
    shift_keep: int,
    shift_drop: int,
    flags: int,
) -> tuple[_c.infer_generate_options, Sequence[Any]]:
    """The struct, and what must live as long as it."""
    made = new(_c.infer_generate_options)
    fill(made, flags=flags, max_tokens=max_tokens, repeat_guard=repeat_guard, shift_keep=shift_keep, shift_drop=shift_drop)
    if isinstance(stops, (str, bytes)):
        raise TypeError("stops is a sequence of str")
    texts = [encode(s) if isinstance(s, str) else bytes(s) for s in stops]
    array = (_c.infer_text * len(texts))(*[_c.infer_text(address_of(t), len(t)) for t in texts])
    ids = int_array(stop_ids)
    made.stops, made.stop_count = ctypes.cast(array, ctypes.POINTER(_c.infer_text)), len(texts)
    made.stop_ids, made.stop_id_count = ctypes.cast(ids, ctypes.POINTER(ctypes.c_int32)), len(ids)
    return made, (texts, array, ids)
