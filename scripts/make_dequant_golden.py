#!/usr/bin/env python3
"""Writes tests/data/dequant.golden: what independent decoders make of random blocks of every storage type.

Needs the packages gguf (0.19.0) and llama-cpp-python (0.3.36, whose ggml library decodes what gguf does not, and is compared with gguf
for the rest). A line of the file: type number, oracle, number of blocks, hash of all decoded floats, the floats of the last block as
hexadecimal bits. The blocks' bytes are not stored: both sides make them by the same generator (packed() here, fill() in
tests/formats/test_dequant.c). NaNs count as equal."""
import ctypes
import pathlib

import llama_cpp
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T, quants

N_BLOCKS = 400
PATTERNS = (0x00, 0xFF, 0x80, 0x7F, 0x01, 0x55, 0xAA)
Q2_0 = 42
NAN = np.uint32(0x7FC00000)
PLAIN = {T.F32: np.float32, T.F16: np.float16, T.F64: np.float64, T.I8: np.int8, T.I16: np.int16, T.I32: np.int32,
         T.I64: np.int64}


def packed(kind, size):
    """Seven blocks of one byte each, then an xorshift64* stream, 8 bytes a draw, seeded by the type."""
    state, out = kind * 1000003 + 1, bytearray()
    for p in PATTERNS:
        out += bytes([p]) * size
    while len(out) < N_BLOCKS * size:
        state ^= state << 13 & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 7
        state ^= state << 17 & 0xFFFFFFFFFFFFFFFF
        out += (state * 0x2545F4914F6CDD1D & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")
    return bytes(out[:N_BLOCKS * size])


def ggml_decode(name, data, n):
    lib = ctypes.CDLL(str(pathlib.Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"))
    out = (ctypes.c_float * n)()
    getattr(lib, "dequantize_row_" + name)(ctypes.create_string_buffer(data, len(data)), out, ctypes.c_int64(n))
    return np.array(out, dtype=np.float32)


def ggml_name(name):
    return name.lower()[:-1] + "K" if name.endswith("_K") else name.lower()


def bits(x):
    x = np.ascontiguousarray(x, dtype=np.float32).ravel()
    return np.where(np.isnan(x), NAN, x.view(np.uint32))


def decode(kind, name, block, size, data):
    n = N_BLOCKS * block
    raw = np.frombuffer(data, dtype=np.uint8).reshape(N_BLOCKS, size)
    if kind in PLAIN:
        return "numpy", bits(np.frombuffer(data, dtype=PLAIN[kind]).astype(np.float32))
    if name == "Q8_1":  # by its definition: d f16, s f16, 32 codes i8
        d = raw[:, :2].copy().view(np.float16).astype(np.float32)
        return "definition", bits(d * raw[:, 4:].copy().view(np.int8).astype(np.float32))
    if name in ("Q1_0", "Q2_0", "Q8_K"):
        return "ggml", bits(ggml_decode(ggml_name(name), data, n))
    ours = bits(quants.dequantize(raw, kind))
    if name != "BF16":
        assert np.array_equal(ours, bits(ggml_decode(ggml_name(name), data, n))), name
    return "gguf", ours


def main():
    kinds = [(int(t), t.name, *GGML_QUANT_SIZES[t]) for t in T] + [(Q2_0, "Q2_0", 64, 18)]
    # gguf's table has 40 bytes for Q8_1, as it was in 2023; ggml's blocks have had two f16 since, 36 bytes.
    kinds = [(k, name, block, 36 if name == "Q8_1" else size) for k, name, block, size in kinds]
    lines = []
    with np.errstate(all="ignore"):
        for kind, name, block, size in kinds:
            known = T(kind) if kind != Q2_0 else None
            oracle, values = decode(known, name, block, size, packed(kind, size))
            h = 0xCBF29CE484222325
            for v in values.tolist():
                h = (h ^ v) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
            last = " ".join(f"{v:08x}" for v in values[-block:].tolist())
            lines.append(f"{kind} {oracle} {N_BLOCKS} {h:016x} {last}")
    path = pathlib.Path(__file__).parent.parent / "tests/data/dequant.golden"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
