#!/usr/bin/env python3
"""Compares libinfer's tokenizers with the official `tokenizers` package on random strings of assigned code points.

usage: check_tokenizers.py LIBINFER_SO VOCAB TOKENIZER.json [COUNT [SEED [old]]]          (VOCAB: GGUF, or the same tokenizer.json)
       check_tokenizers.py LIBINFER_SO VOCAB.gguf MODEL.model [COUNT [SEED [old]]]     (SentencePiece's own library instead)
       check_tokenizers.py LIBINFER_SO VOCAB.gguf GOLDEN.json                          ({"cases": [{"text", "ids"}]})
       check_tokenizers.py LIBINFER_SO FOLDER [COUNT [SEED]]       (each tokenizer.json in it, under any name; see make_tokenizer_json.py)
       check_tokenizers.py gguf TOKENIZER.json PRE VOCAB.gguf      (makes a vocabulary; PRE: a pre-tokenizer's name, or "spm")

old: only code points that Unicode 3.2 assigns. BERT's normalizer there uses tables of about Unicode 8, and NFC those of about 9.

Strings mix scripts: each is made of runs from one block of code points, ASCII words, spaces and digits. Prints how many agree, encoding and
decoding, and the first that do not.
"""
import ctypes
import json
import os
import random
import sys
import unicodedata


class Infer:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.err = (ctypes.c_char * 4096)()
        ctypes.memset(self.err, 0, 4096)

    def error(self):
        size = 4 + 4 + 8 + 256 + 128 + 512
        self.lib.infer_init(self.err, size)
        return self.err

    def message(self):
        return bytes(self.err)[16 + 256 + 128:].split(b"\0")[0].decode()

    def open(self, path):
        source = (ctypes.c_char * 256)()
        name = path.encode()
        self.lib.infer_source_path(source, name, ctypes.c_uint64(2**64 - 1))
        t = ctypes.c_void_p()
        if self.lib.infer_tokenizer_open(None, source, None, ctypes.byref(t), self.error()):
            sys.exit(self.message())
        return t

    def unknown(self, t):
        info = (ctypes.c_int32 * 16)()
        self.lib.infer_init(info, 64)
        self.lib.infer_tokenizer_get_info(t, info, None)
        return info[6]

    def encode(self, t, text, flags=0):
        b = text.encode()
        ids = (ctypes.c_int32 * (len(b) * 4 + 16))()
        n = ctypes.c_uint64()
        if self.lib.infer_tokenize(t, b, ctypes.c_uint64(len(b)), flags, ids, ctypes.c_uint64(len(ids)), ctypes.byref(n),
                                   self.error()):
            sys.exit(self.message())
        return ids[:n.value]

    def decode(self, t, ids):
        a = (ctypes.c_int32 * max(len(ids), 1))(*ids)
        out = ctypes.create_string_buffer(len(ids) * 512 + 64)
        n = ctypes.c_uint64()
        if self.lib.infer_detokenize(t, a, ctypes.c_uint64(len(ids)), 0, out, ctypes.c_uint64(len(out)), ctypes.byref(n),
                                     self.error()):
            sys.exit(self.message())
        return out.raw[:n.value].decode("utf-8", "replace")


def strings(count, seed, old):
    rng = random.Random(seed)
    assigned = [c for c in range(1, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")
                and not (old and unicodedata.ucd_3_2_0.category(chr(c)) == "Cn")]
    words = "the of and don't I'LL you're 2024 x+y=1 <b> a_b http://x.org/ Hello WORLD iPhone 3.14 -- ... ?! \t \n \r\n  ".split(" ")
    for _ in range(count):
        out = []
        for _ in range(rng.randrange(1, 9)):
            kind = rng.random()
            if kind < 0.3:
                out.append(rng.choice(words))
            elif kind < 0.45:
                out.append(rng.choice(["", " ", "  ", "\n", "\t", "   ", "\u3000", "\u00a0", " \n "]))
            elif kind < 0.75:
                at = rng.randrange(len(assigned))
                out.append("".join(chr(assigned[min(at + rng.randrange(40), len(assigned) - 1)])
                                   for _ in range(rng.randrange(1, 8))))
            else:
                out.append("".join(chr(rng.choice(assigned)) for _ in range(rng.randrange(1, 5))))
            if rng.random() < 0.4:
                out.append(" ")
        yield "".join(out)


def official(path):
    if path.endswith(".json"):
        import tokenizers
        t = tokenizers.Tokenizer.from_file(path)
        return (lambda s: t.encode(s, add_special_tokens=False).ids), (lambda ids: t.decode(ids))
    import sentencepiece
    sp = sentencepiece.SentencePieceProcessor(model_file=path)
    return sp.encode, sp.decode


def make_gguf(source, pre, path):
    """A BPE tokenizer.json as GGUF: byte-level, or (spm) SentencePiece's, whose scores are the order of the merges."""
    import gguf
    j = json.load(open(source))
    model, added = j["model"], {a["id"]: a for a in j["added_tokens"]}
    of_id = {i: t for t, i in model["vocab"].items()}
    spm = pre == "spm"
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model("llama" if spm else "gpt2")
    w.add_tokenizer_pre("default" if spm else pre)
    tokens, types = [], []
    for i in range(max([*of_id, *added]) + 1):
        token, kind = of_id.get(i, f"[PAD{i}]"), 1 if i in of_id else 5
        if i in added:
            kind = 3 if added[i]["special"] else 4
            token = added[i]["content"]
            token = token.replace("\u2581", " ") if spm and kind == 4 else token
        elif spm and len(token) == 6 and token.startswith("<0x"):
            kind = 6
        tokens.append(token)
        types.append(kind)
    w.add_token_list(tokens)
    w.add_token_types(types)
    merges = [m.split(" ", 1) if isinstance(m, str) else m for m in model["merges"]]
    if spm:
        scores = {}
        for rank, (a, b) in enumerate(merges):
            scores.setdefault(a + b, -float(rank))
        w.add_token_scores([scores.get(t, -1e6) for t in tokens])
        w.add_add_space_prefix("Prepend" in json.dumps(j["normalizer"]))
    else:
        w.add_token_merges([" ".join(m) for m in merges])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def check_golden(infer, t, cases):
    bad = [c["text"] for c in cases if infer.encode(t, c["text"], 2) != c["ids"]]
    print(f"{len(cases) - len(bad)} of {len(cases)} cases agree", *map(repr, bad[:5]))
    return bool(bad)


def main():
    if sys.argv[1] == "gguf":
        return make_gguf(*sys.argv[2:5])
    if os.path.isdir(sys.argv[2]):
        files = sorted(f for f in os.listdir(sys.argv[2]) if f.endswith(".json"))
        paths = [os.path.join(sys.argv[2], f) for f in files]
        return sum([check(sys.argv[1], p, p, *sys.argv[3:5]) for p in paths]) if paths else "no tokenizer.json there"
    return check(*sys.argv[1:])


def check(lib, vocab, reference, count=5000, seed=1, *rest):
    count = int(count)
    infer = Infer(lib)
    t = infer.open(vocab)
    if reference.endswith(".json"):
        j = json.load(open(reference))
        if "cases" in j:
            return check_golden(infer, t, j["cases"])
    encode, decode = official(reference)
    unknown = infer.unknown(t)
    same = back = 0
    shown = 0
    for s in strings(count, int(seed), "old" in rest):
        want, got = encode(s), infer.encode(t, s, 2 if reference.endswith(".json") else 0)
        same += want == got
        known = [i for i in want if i != unknown]  # libraries show the unknown token each in its own way
        want_text, got_text = decode(known), infer.decode(t, known)
        back += want_text == got_text
        if (want != got or want_text != got_text) and shown < 8:
            shown += 1
            print("differs:", repr(s), [hex(ord(c)) for c in s if ord(c) > 127][:12])
            if want != got:
                i = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
                print("  official", want[max(i - 2, 0):i + 6], "here", got[max(i - 2, 0):i + 6], "at", i)
            else:
                print("  decoded: official", repr(want_text), "here", repr(got_text))
    print(f"{vocab}: encoding agrees on {same} of {count}, decoding on {back} of {count}")
    return same != count or back != count


sys.exit(main())
