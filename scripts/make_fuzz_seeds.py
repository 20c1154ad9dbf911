#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/gguf: small files by another writer, the `gguf` package (0.19.0), as seeds."""
import pathlib

import gguf
import numpy as np

OUT = pathlib.Path(__file__).parent.parent / "tests/fuzz/corpus/gguf"


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def metadata():
    w = gguf.GGUFWriter(OUT / "metadata.gguf", "llama")
    for add, v in ((w.add_uint8, 255), (w.add_int8, -128), (w.add_uint16, 65535), (w.add_int16, -32768),
                   (w.add_uint32, 2**32 - 1), (w.add_int32, -2**31), (w.add_uint64, 2**64 - 1),
                   (w.add_int64, -2**63), (w.add_float32, 0.1), (w.add_float64, 1e300), (w.add_bool, True)):
        add(f"test.{add.__name__}", v)
    w.add_string("test.string", "caf\u00e9")
    w.add_array("test.ints", [1, -2, 3])
    w.add_array("test.floats", [0.5, -0.25])
    w.add_array("test.bools", [True, False])
    w.add_array("test.nested", [[1, 2], [3, 4, 5]])
    w.add_array("tokenizer.ggml.tokens", [f"tok{i}" for i in range(150)])
    finish(w)


def tensors():
    w = gguf.GGUFWriter(OUT / "tensors.gguf", "llama")
    w.add_custom_alignment(64)
    rng = np.random.default_rng(1)
    for kind, (block, size) in gguf.GGML_QUANT_SIZES.items():
        if kind.name == "Q8_1":
            continue
        raw = rng.integers(0, 256, (2, size), dtype=np.uint8)
        w.add_tensor(f"t.{kind.name}", raw, raw_shape=raw.shape, raw_dtype=kind)
    finish(w)


def split():
    w = gguf.GGUFWriter(OUT / "split-00001-of-00002.gguf", "llama")
    w.add_uint16("split.no", 0)
    w.add_uint16("split.count", 2)
    w.add_int32("split.tensors.count", 2)
    w.add_tensor("a", np.arange(6, dtype=np.float32).reshape(2, 3))
    finish(w)


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    metadata()
    tensors()
    split()
