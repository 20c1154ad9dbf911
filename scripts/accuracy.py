#!/usr/bin/env python3
"""How close an engine's logits are to the model's, on a fixed text.

The reference is the same GGUF file with its weights expanded to f32 by the `gguf` package and run in f32 by Hugging Face
transformers. Text: tests/data/english.txt, 8 windows of 512 tokens (--windows), each beginning with BOS where the model has one.
Printed per engine: mean KL(reference || engine) in nats with a 95 % bootstrap interval over blocks of 32 positions, the share of positions with the same
most likely token, and the perplexity.

  accuracy.py reference MODEL             once: DIR/STEM.tokens.i32 and DIR/STEM.logits.f32 (large: 0.8 GB for SmolLM2, 4.3 GB for Gemma 3)
  accuracy.py pack MODEL                  both into DIR/STEM.ref, for `infer-bench -m MODEL --kl DIR/STEM.ref`
  accuracy.py compare MODEL [options]     llama.cpp and, with --ours FILE, this library against the reference

FILE holds raw little-endian f32 [windows * 512][n_vocab]: the logits at every position of the token file, whose windows (512 ids each) are
separate sequences. Needs: numpy torch transformers gguf llama-cpp-python.
"""
import argparse
import shutil
import struct
import sys
from pathlib import Path

import gguf
import numpy as np

import llamacpp_logits as oracle

ROOT = Path(__file__).resolve().parent.parent
LENGTH, BLOCK = 512, 32
NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
GEMMA_NORMS = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
               "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
PARTS = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj"}
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


# ---------------------------------------------------------------- reference

def field(reader, key, default=None):
    f = reader.get_field(key)
    if f is None and default is None:
        raise SystemExit(f"no key {key}")
    return default if f is None else f.contents()


def hf_config(reader, arch, tied, n_vocab):
    import transformers as hf
    get = lambda key, default=None: field(reader, f"{arch}.{key}", default)
    heads, width = get("attention.head_count"), get("embedding_length")
    head_dim = get("attention.key_length", width // heads)
    common = dict(vocab_size=n_vocab, hidden_size=width, intermediate_size=get("feed_forward_length"), num_hidden_layers=get("block_count"),
                  num_attention_heads=heads, num_key_value_heads=get("attention.head_count_kv", heads), head_dim=head_dim,
                  max_position_embeddings=get("context_length"), rms_norm_eps=get("attention.layer_norm_rms_epsilon"),
                  tie_word_embeddings=tied, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    if get("rope.scaling.type", "none") != "none":
        raise SystemExit("rope scaling: not done here")
    base = get("rope.freq_base", 10000.0)
    if arch == "qwen2":
        del common["head_dim"]
        return hf.Qwen2Config(**common, rope_parameters=dict(rope_type="default", rope_theta=base)), hf.Qwen2ForCausalLM
    if arch == "llama":
        return hf.LlamaConfig(**common, rope_parameters=dict(rope_type="default", rope_theta=base)), hf.LlamaForCausalLM
    if arch == "gemma3":
        return hf.Gemma3TextConfig(**common, query_pre_attn_scalar=head_dim, sliding_window=get("attention.sliding_window"), rope_parameters=dict(
            full_attention=dict(rope_type="default", rope_theta=base),
            sliding_attention=dict(rope_type="default", rope_theta=get("rope.freq_base_swa", 10000.0)))), hf.Gemma3ForCausalLM
    raise SystemExit(f"architecture {arch}: not done here")


def load_reference(path):
    """The file as a transformers model in f32."""
    import torch
    reader = gguf.GGUFReader(str(path))
    arch = field(reader, "general.architecture")
    named = {t.name: t for t in reader.tensors}
    cfg, cls = hf_config(reader, arch, "output.weight" not in named, int(named["token_embd.weight"].shape[1]))
    cfg._attn_implementation = "eager"
    state = {}
    for name, t in named.items():
        w = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32).reshape(tuple(reversed(t.shape.tolist())))
        stem, kind = name.rsplit(".", 1)
        if arch == "llama" and (".attn_q." in name or ".attn_k." in name):  # neighbouring pairs back to rotate-half
            n = cfg.num_attention_heads if ".attn_q." in name else cfg.num_key_value_heads
            w = w.reshape(n, w.shape[0] // n // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
        if arch == "gemma3" and stem.endswith("norm"):
            w = w - np.float32(1)
        if stem in TOP:
            own = TOP[stem]
        else:
            _, layer, part = stem.split(".")
            own = f"model.layers.{layer}.{({**PARTS, **(GEMMA_NORMS if arch == 'gemma3' else NORMS)})[part]}"
        state[f"{own}.{kind}"] = torch.from_numpy(np.ascontiguousarray(w))
    if arch == "gemma3":
        model = cls(cfg).float()
    else:  # never two copies in memory
        with torch.device("meta"):
            model = cls(cfg)
        model.model.rotary_emb = type(model.model.rotary_emb)(cfg)
    missing, unexpected = model.eval().load_state_dict(state, strict=False, assign=arch != "gemma3")
    if unexpected or [m for m in missing if not (m == "lm_head.weight" and cfg.tie_word_embeddings)]:
        raise SystemExit(f"tensors do not match: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model


def tokens_of(path, windows):
    """i32 [windows][LENGTH]"""
    text = (ROOT / "tests/data/english.txt").read_text(encoding="utf-8")
    with oracle.engine(path, 64, repack=False) as e:
        with_bos, plain = e.tokenize(text[:100], True), e.tokenize(text, False)
        bos = with_bos[:1] if with_bos[0] != plain[0] else []
    step = LENGTH - len(bos)
    if len(plain) < step * windows:
        raise SystemExit(f"the text has only {len(plain)} tokens")
    return np.array([bos + plain[i * step:(i + 1) * step] for i in range(windows)], np.int32)


def reference(path, prefix, windows, threads):
    import torch
    torch.set_num_threads(threads)
    tokens = tokens_of(path, windows)
    tokens.astype("<i4").tofile(f"{prefix}.tokens.i32")
    model = load_reference(path)
    with open(f"{prefix}.logits.f32", "wb") as f, torch.no_grad():
        for row in tokens:
            model(torch.from_numpy(row[None].astype(np.int64)), use_cache=False).logits[0].numpy().astype("<f4").tofile(f)
    print(f"{prefix}.tokens.i32, {prefix}.logits.f32: {tokens.size} positions, {model.config.vocab_size} logits each")


def pack(prefix):
    """The format of tools/infer-bench/logits_file.h; rows of every position."""
    positions = Path(f"{prefix}.tokens.i32").stat().st_size // 4
    n_vocab = Path(f"{prefix}.logits.f32").stat().st_size // 4 // positions
    with open(f"{prefix}.ref", "wb") as out:
        out.write(struct.pack("<8sIIIIIIQ24x", b"INFLOGIT", 1, 64, n_vocab, LENGTH, 0, 0, positions))
        for part in ("tokens.i32", "logits.f32"):
            with open(f"{prefix}.{part}", "rb") as f:
                shutil.copyfileobj(f, out, 1 << 24)
    print(f"{prefix}.ref: {n_vocab} logits at {positions} positions")


# ---------------------------------------------------------------- comparison

def log_softmax(x):
    x = x.astype(np.float64)
    x -= x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def compare_rows(ref, other, following):
    """Per row: KL(ref || other), whether the first choice agrees, and both negative log-probabilities of the next token."""
    kl, same, nll = [], [], []
    for i in range(0, len(ref), 64):  # the vocabulary may be large
        a, b = log_softmax(ref[i:i + 64]), log_softmax(other[i:i + 64])
        kl.append((np.exp(a) * (a - b)).sum(1))
        same.append(ref[i:i + 64].argmax(1) == other[i:i + 64].argmax(1))
        for j, t in enumerate(following[i:i + 64]):
            nll.append((a[j, t], b[j, t]))
    return np.concatenate(kl), np.concatenate(same), -np.array(nll)


def blocks(kl):
    return kl.reshape(-1, BLOCK).mean(1)


def interval(values, statistic, seed=1):
    """95 % bootstrap interval of statistic(chosen blocks)."""
    rng = np.random.default_rng(seed)
    draws = [statistic(rng.integers(0, len(values), len(values))) for _ in range(4000)]
    return np.percentile(draws, [2.5, 97.5])


def report(label, kl, same, nll):
    b = blocks(kl)
    low, high = interval(b, lambda pick: b[pick].mean())
    print(f"{label}: mean KL {kl.mean():.6f} [{low:.6f}, {high:.6f}], median {np.median(kl):.6f}, max {kl.max():.4f}, "
          f"top-1 {100 * same.mean():.2f} %, perplexity {np.exp(nll[:, 1].mean()):.4f} (reference {np.exp(nll[:, 0].mean()):.4f})", flush=True)


def score(prefix, tokens, n_vocab, produce):
    ref = np.memmap(f"{prefix}.logits.f32", "<f4", "r", shape=(tokens.size, n_vocab))
    parts = []
    for i, row in enumerate(tokens):
        other = produce(i, row)
        if not np.isfinite(other).all():
            raise SystemExit(f"window {i}: a logit is not finite")
        following = np.append(row[1:], row[-1])  # the last position has none: it counts in both perplexities alike
        parts.append(compare_rows(np.array(ref[i * LENGTH:(i + 1) * LENGTH]), other, following))
    return [np.concatenate(p) for p in zip(*parts)]


def table_row(label, mine, theirs):
    a, b = blocks(mine[0]), blocks(theirs[0])
    low, high = interval(a, lambda pick: a[pick].mean() / b[pick].mean())
    print(f"| {label} | {mine[0].mean():.6f} | {theirs[0].mean():.6f} | **{mine[0].mean() / theirs[0].mean():.3f}** [{low:.3f}, {high:.3f}] | "
          f"{100 * mine[1].mean():.2f} % | {100 * theirs[1].mean():.2f} % |")


def compare(path, prefix, ours, variants, row):
    tokens = np.fromfile(f"{prefix}.tokens.i32", "<i4").reshape(-1, LENGTH)
    n_vocab = Path(f"{prefix}.logits.f32").stat().st_size // 4 // tokens.size
    results = {}
    for kv, flash, repack in variants:
        with oracle.engine(path, LENGTH, kv=kv, flash=flash, repack=repack, threads=2) as e:
            label = (f"llama.cpp (KV {kv}, flash attention {({None: 'auto', True: 'on', False: 'off'})[flash]}, "
                     f"repack {'on' if repack else 'off'})")
            results[label] = score(prefix, tokens, n_vocab, lambda i, row: e.logits(row)[:, :n_vocab])
            report(label, *results[label])
    if ours:
        mapped = np.memmap(ours, "<f4", "r", shape=(tokens.size, n_vocab))
        mine = score(prefix, tokens, n_vocab, lambda i, row: np.array(mapped[i * LENGTH:(i + 1) * LENGTH]))
        report("libinfer", *mine)
        for label, theirs in results.items():
            a, b = blocks(mine[0]), blocks(theirs[0])
            low, high = interval(a, lambda pick: a[pick].mean() / b[pick].mean())
            print(f"libinfer / {label}: {mine[0].mean() / theirs[0].mean():.4f} [{low:.4f}, {high:.4f}]")
        if row:
            table_row(row, mine, next(iter(results.values())))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("command", choices=["reference", "pack", "compare"])
    ap.add_argument("model", type=Path)
    ap.add_argument("--dir", type=Path, required=True, help="where reference files are kept; outside the repository")
    ap.add_argument("--ours", type=Path, help="libinfer's logits, raw f32")
    ap.add_argument("--tokens-out", type=Path, help="also copy the token ids (raw i32) here")
    ap.add_argument("--windows", type=int, default=8, help="of 512 tokens each")
    ap.add_argument("--threads", type=int, default=1, help="of the reference")
    ap.add_argument("--row", metavar="LABEL", help="compare: end with a row for the table of weight types in docs/accuracy.md")
    ap.add_argument("--kv", choices=["f16", "f32"], help="llama.cpp: only this KV type (else both)")
    ap.add_argument("--repack", action="store_true", help="llama.cpp: rearranged weights, its default; off here since its AMX path crashes on some machines")
    args = ap.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    prefix = args.dir / args.model.stem
    if args.command == "reference":
        reference(args.model, prefix, args.windows, args.threads)
    if args.command == "pack":
        pack(prefix)
    if args.tokens_out:
        args.tokens_out.write_bytes(Path(f"{prefix}.tokens.i32").read_bytes())
    if args.command == "compare":
        variants = [("f16", None, args.repack), ("f32", False, args.repack)]
        compare(args.model, prefix, args.ours, [v for v in variants if args.kv in (None, v[0])], args.row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
