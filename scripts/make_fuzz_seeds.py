#!/usr/bin/env python3
"""Writes seeds to tests/fuzz/corpus.

usage: make_fuzz_seeds.py [gguf] [split] [tokenise] [options] [api]      all, when none is named

gguf: small files by another writer, the `gguf` package (0.19.0), which only these need. split: parts of files, as fuzz_split.c reads them. tokenise: texts
that hurt, for each tokenizer of fuzz_tokenise.c. options: each call of fuzz_options.c with structs of all sizes. api: programs for
fuzz_api.c that keep, store and restore what sessions hold under adapters.
"""
import pathlib
import struct
import sys

CORPUS = pathlib.Path(__file__).parent.parent / "tests/fuzz/corpus"
OUT = CORPUS / "gguf"


# ---- gguf: by the package

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
    import numpy as np
    w = gguf.GGUFWriter(OUT / "tensors.gguf", "llama")
    w.add_custom_alignment(64)
    rng = np.random.default_rng(1)
    for kind, (block, size) in gguf.GGML_QUANT_SIZES.items():
        if kind.name == "Q8_1":
            continue
        raw = rng.integers(0, 256, (2, size), dtype=np.uint8)
        w.add_tensor(f"t.{kind.name}", raw, raw_shape=raw.shape, raw_dtype=kind)
    finish(w)


def first_of_two():
    import numpy as np
    w = gguf.GGUFWriter(OUT / "split-00001-of-00002.gguf", "llama")
    w.add_uint16("split.no", 0)
    w.add_uint16("split.count", 2)
    w.add_int32("split.tensors.count", 2)
    w.add_tensor("a", np.arange(6, dtype=np.float32).reshape(2, 3))
    finish(w)


def gguf_seeds():
    global gguf
    import gguf
    metadata()
    tensors()
    first_of_two()


# ---- split

def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def gguf_file(keys, names, align=32):
    """Keys of u32 and strings; one tensor of 8 floats for each name."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(names), len(keys))
    for key, v in keys.items():
        out += text(key) + (struct.pack("<II", 4, v) if isinstance(v, int) else struct.pack("<I", 8) + text(v))
    for i, name in enumerate(names):
        out += text(name) + struct.pack("<IQIQ", 1, 8, 0, i * 32)
    out += bytes(-len(out) % align)
    return out + b"".join(struct.pack("<8f", *[i + k / 8 for k in range(8)]) for i in range(len(names)))


def parts(counts, **change):
    """A split file's parts with so many tensors each; change: keys that are otherwise."""
    files, n = [], 0
    for i, count in enumerate(counts):
        keys = {"split.no": i, "split.count": len(counts), "split.tensors.count": sum(counts)}
        if i == 0:
            keys = {"general.architecture": "llama"} | keys
        keys |= {k.replace("__", "."): v[i] for k, v in change.items() if v[i] is not None}
        files.append(gguf_file(keys, [f"blk.{n + k}.attn_q.weight" for k in range(count)]))
        n += count
    return files


def split_seeds():
    READ, SECOND_FIRST, PLAIN_NAME, LAST_MISSING, LAST_FAILS, COPY = 1, 2, 4, 8, 16, 32
    good = parts([2, 1])
    same = [good[0], gguf_file({"split.no": 1, "split.count": 2, "split.tensors.count": 3}, ["blk.0.attn_q.weight"])]
    seeds = {
        "two": (0, good), "three-read": (READ, parts([1, 0, 2])), "four-copied": (READ | COPY, parts([1, 1, 1, 1])),
        "by-second": (SECOND_FIRST, good), "plain-name": (PLAIN_NAME, good), "missing": (LAST_MISSING, good), "fails": (READ | LAST_FAILS, good),
        "wrong-number": (0, parts([1, 1], split__no=[0, 0])), "wrong-count": (0, parts([1, 1], split__count=[2, 3])),
        "many": (0, parts([1, 1], split__count=[4000000000, 2])), "none": (0, parts([1, 1], split__count=[0, 0])),
        "wrong-total": (0, parts([1, 1], split__tensors__count=[3, 2])), "same-tensor": (0, same),
        "cut": (READ, [good[0], good[1][:-9]]), "not-gguf": (0, [good[0], b"not a GGUF file"]), "empty": (0, [good[0], b""]),
    }
    for name, (how, files) in seeds.items():
        body = b"".join(struct.pack("<H", len(f)) + f for f in files)
        (CORPUS / "split" / name).write_bytes(bytes([how]) + body)


# ---- tokenise

TEXTS = {
    "plain": "Once upon a time, there was a little girl named Lily. She'd 12345 apples,  and 3.14\t\n\n\r\nIT'S it\u2019s",
    "scripts": "\u4f60\u597d\u4e16\u754c \u041f\u0440\u0438\u0432\u0435\u0442 \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 \u3053\u3093\u306b\u3061\u306f \ud55c\uad6d\uc5b4 e\u0301 \u00e9 \ufb01 \u1e9e \u0130",
    "symbols": "\U0001f642\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2581\u2581 \u00a0\u3000\u200b\ufeff \U0010ffff \u0000\u0001\x7f <0x41> <0xFF>",
    "special": "<s></s><|im_start|>user\n<|im_end|><|endoftext|>[CLS] [SEP] [MASK]<unk><pad><bos><eos><start_of_turn><extra_id_0><|im_st",
    "blanks": " " * 70 + "\n" * 40 + "\t" * 9 + " \n \n",
    "long-word": "a" * 300 + "supercalifragilistic" * 6,
}
DAMAGED = b"\xff\xfe caf\xc3 \xe4\xb8 \xf0\x9f\x99 \xed\xa0\x80 \xc0\xaf \xf4\x90\x80\x80 \x80\x80 ok \xe2\x96"
KINDS = 15


def tokenise_seeds():
    texts = {name: t.encode() for name, t in TEXTS.items()} | {"damaged": DAMAGED}
    for i, (name, t) in enumerate(texts.items()):
        for kind in range(i % 3, KINDS, 3):
            (CORPUS / "tokenise" / f"{name}-{kind}").write_bytes(bytes([kind | (i + kind) % 4 << 6, kind % 5]) + t)


# ---- options

def options_seeds():
    calls = ["engine", "open", "open2", "value", "render", "detokenizer", "session", "sampling", "generate", "step", "step2", "score", "embed", "adapters",
             "store", "save", "load", "scheduler", "scheduler2", "outputs", "outputs2", "estimate"]
    FULL, SHORT, LONGER, TAIL, FIELDS = 0, 5, 6, 7, 64
    for i, name in enumerate(calls):
        steps = []
        for how, what in ((FULL, [1] * 4), (SHORT, [8]), (LONGER, [16]), (TAIL, [9, 3]), (FULL | FIELDS, [2, 1, 3, 5, 0, 1, 7, 1, 2, 11, 0, 4])):
            steps.append(bytes([i] + ([i % 5] if name in ("open", "outputs", "step", "embed", "adapters") else []) + [how] + what + [i * 7 % 251] * 3))
        for k, step in enumerate(steps):
            (CORPUS / "options" / f"{name}-{k}").write_bytes(step)
    every = b"".join(bytes([19, i, 0, 19, i, 6, 8, 19, i, 5, 16, 19, i, 4, 10]) for i in range(18))
    for i in range(0, len(every), 90):
        (CORPUS / "options" / f"every-output-{i // 90}").write_bytes(every[i:i + 90])


# ---- api

def api_seeds():
    CREATE, APPEND, TRUNCATE, FORK, STEP, COMPARE, CHECKPOINT, RESTORE, ADAPTERS, STORE, CACHE = 0, 1, 4, 5, 6, 16, 21, 22, 24, 25, 26
    PUT, GET, BRANCH, RENAME, DELETE, REPLACE, NEW_SESSION = 0, 1, 2, 3, 4, 128, 128
    F16_200 = 19 # 200 elements, F16, the first model

    def fill(slot, tokens, adapters):
        return [ADAPTERS, slot, adapters, APPEND, slot, 5 * slot + adapters, tokens, STEP, 1, 0, slot]

    def put(what, name, then=0):
        return [STORE, what | then, name]

    kept = [CREATE, 0, F16_200] + fill(0, 9, 1) + fill(0, 12, 3) + [CHECKPOINT, 0, 0] + fill(0, 7, 0) + [RESTORE, 0, 0] + fill(0, 5, 2) + [COMPARE, 0, 3]
    stored = [CREATE, 0, F16_200] + fill(0, 15, 0) + [CHECKPOINT, 0, 0] + put(PUT, 0) + put(BRANCH, 4) + put(RENAME, 8, REPLACE) + put(GET, 9)
    stored += [RESTORE, 1, NEW_SESSION | 2] + fill(1, 6, 4) + put(DELETE, 1) + put(DELETE, 2) + put(GET, 0) + [COMPARE, 1, 9]
    shared = [CREATE, 0, F16_200, CREATE, 1, F16_200, CREATE, 2, F16_200] + [x for _ in range(5) for x in [APPEND, 0, 3, 15]] + [STEP, 1, 0, 0, CACHE, 0, 0]
    shared += [x for _ in range(5) for x in [APPEND, 1, 3, 15]] + [STEP, 1, 0, 1, CACHE, 1, 0, FORK, 1, 3, TRUNCATE, 3, 9] + fill(3, 4, 1) + [CACHE, 3, 1] + fill(2, 15, 2)
    for name, program in {"kept": kept, "stored": stored, "shared": shared}.items():
        for how, suffix in ((5, ""), (16 | 5, "-cache"), (64 | 16 | 3, "-tight")):
            (CORPUS / "api" / (name + suffix)).write_bytes(bytes([how, 0] + program))


if __name__ == "__main__":
    makers = {"gguf": gguf_seeds, "split": split_seeds, "tokenise": tokenise_seeds, "options": options_seeds, "api": api_seeds}
    for which in sys.argv[1:] or makers:
        (CORPUS / which).mkdir(parents=True, exist_ok=True)
        makers[which]()
