#!/usr/bin/env python3
"""tests/data/quantise.golden: what the gguf package's quantize makes of given f32 values.

Lines: type number, the values' bits (hex, 8 digits each, as stored: little-endian), the bytes (hex). Values: random of several sizes, and
blocks of zeros, ties, one large value, equal values of both signs.

Needs: numpy gguf (0.19.0 was used).
"""
from pathlib import Path

import gguf
import numpy as np

OUT = Path(__file__).resolve().parent.parent / "tests/data/quantise.golden"


def blocks():
    rng = np.random.default_rng(11)
    yield from (rng.normal(0, s, 32) for s in (1e-4, 0.02, 1, 1, 1, 300))
    yield np.zeros(32)
    yield np.resize([1, -1], 32)
    yield np.arange(-16, 16) / 2  # halves: ties
    yield np.arange(32) * 127 / 62  # steps of half a code
    yield np.eye(1, 32, 7).ravel() * -5
    yield np.full(32, 0.1)


def main():
    lines = []
    for kind in (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0):
        for x in blocks():
            x = x.astype(np.float32).reshape(1, 32)
            lines.append(f"{int(kind)} {x.tobytes().hex()} {gguf.quants.quantize(x, kind).tobytes().hex()}\n")
    OUT.write_text("".join(lines))


if __name__ == "__main__":
    main()
