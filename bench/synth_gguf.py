#!/usr/bin/env python3
"""Writes a GGUF file of the llama architecture with random F16 weights and real dimensions: for speed, never for text.

    synth_gguf.py 135m|1b OUT.gguf        needs numpy

The dimensions are those of SmolLM2-135M and of Llama 3.2 1B with its own output matrix. Weights are N(0, 0.02) from a fixed seed; the vocabulary is a
byte-level one padded with t0, t1, ...
"""
import argparse
import struct
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 32
F32, F16 = 0, 1  # tensor types


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    kv_heads: int
    inner: int
    vocab: int
    head: int = 64
    context: int = 131072


PRESETS = {"135m": Shape(30, 576, 9, 3, 1536, 49152), "1b": Shape(16, 2048, 32, 8, 8192, 128256)}


def text(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key, value):
    """One metadata pair; the type follows from Python's: int is u32, a list of int is i32."""
    scalar = {int: (4, "<I"), float: (6, "<f")}
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        kind = {str: 8, float: 6, int: 5}[type(value[0])]
        body = b"".join(map(text, value)) if kind == 8 else np.array(value, "<f4" if kind == 6 else "<i4").tobytes()
        return text(key) + struct.pack("<IIQ", 9, kind, len(value)) + body
    number, layout = scalar[type(value)]
    return text(key) + struct.pack("<I", number) + struct.pack(layout, value)


def vocabulary(count):
    """Texts and token types: unknown, two control tokens, 256 bytes, and ordinary ones."""
    special = [("<unk>", 2), ("<s>", 3), ("</s>", 3)]
    tokens = special + [(f"<0x{b:02X}>", 6) for b in range(256)]
    tokens += [(f"t{i}", 1) for i in range(count - len(tokens))]
    return [t for t, _ in tokens], [k for _, k in tokens]


def metadata(name, m):
    texts, kinds = vocabulary(m.vocab)
    own = {"block_count": m.layers, "context_length": m.context, "embedding_length": m.width, "feed_forward_length": m.inner,
           "attention.head_count": m.heads, "attention.head_count_kv": m.kv_heads, "rope.dimension_count": m.head, "rope.freq_base": 10000.0,
           "attention.layer_norm_rms_epsilon": 1e-5, "vocab_size": m.vocab}
    pairs = {"general.architecture": "llama", "general.name": f"random-{name}", "general.file_type": 1}
    pairs |= {f"llama.{k}": v for k, v in own.items()}
    pairs |= {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": texts, "tokenizer.ggml.scores": [0.0] * m.vocab,
              "tokenizer.ggml.token_type": kinds, "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}
    return [pair(k, v) for k, v in pairs.items()]


def tensors(m):
    """(name, rows or None for a vector, inputs)"""
    yield "token_embd.weight", m.vocab, m.width
    yield "output_norm.weight", None, m.width
    yield "output.weight", m.vocab, m.width
    q, kv = m.heads * m.head, m.kv_heads * m.head
    block = [("attn_norm", None, m.width), ("attn_q", q, m.width), ("attn_k", kv, m.width), ("attn_v", kv, m.width), ("attn_output", m.width, q),
             ("ffn_norm", None, m.width), ("ffn_gate", m.inner, m.width), ("ffn_up", m.inner, m.width), ("ffn_down", m.width, m.inner)]
    for i in range(m.layers):
        for part, rows, inputs in block:
            yield f"blk.{i}.{part}.weight", rows, inputs


def aligned(n):
    return (n + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def write(name, path):
    m = PRESETS[name]
    pairs, listing, offset, count = metadata(name, m), b"", 0, 0
    for tensor, rows, inputs in tensors(m):
        dims = (inputs,) if rows is None else (inputs, rows)
        listing += text(tensor) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, F32 if rows is None else F16, offset)
        offset += aligned(inputs * 4 if rows is None else rows * inputs * 2)
        count += 1
    head = b"GGUF" + struct.pack("<IQQ", 3, count, len(pairs)) + b"".join(pairs) + listing
    random = np.random.default_rng(20240217)
    with open(path, "wb") as f:
        f.write(head.ljust(aligned(len(head)), b"\0"))
        for _, rows, inputs in tensors(m):
            if rows is None:
                data = np.ones(inputs, "<f4").tobytes()
            else:
                data = (random.standard_normal(rows * inputs, np.float32) * np.float32(0.02)).astype("<f2").tobytes()
            f.write(data.ljust(aligned(len(data)), b"\0"))


if __name__ == "__main__":
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("preset", choices=PRESETS)
    a.add_argument("out")
    o = a.parse_args()
    write(o.preset, o.out)
