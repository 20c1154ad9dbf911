#!/usr/bin/env python3
"""A LoRA on a real model: trained and run by PEFT, run by libinfer, compared.

The GGUF model is expanded to f32 by transformers; a LoRA of rank 16 on all linears is trained for some steps on English text; then both compute the
logits of a text, libinfer from the GGUF file in PRECISE mode (activations f32) with f32 keys and values.

Usage: check_adapter.py MODEL.gguf BUILD_DIR [RANK]
Needs: numpy torch transformers peft gguf.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import peft
import torch
import transformers

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "tests/data/english.txt").read_text()
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
N = 96  # tokens compared


def train(model, ids, steps=4):
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=6e-3)
    for step in range(steps):
        x = ids[N + 48 * step:N + 48 * (step + 1)][None]
        if x.shape[1] < 8:
            break
        loss = model(input_ids=x, labels=x.flip(1)).loss  # towards something else than the base does
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: {float(loss.detach()):.2f}", file=sys.stderr, flush=True)
    return float(loss.detach())


def main():
    gguf, build, rank = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 16
    torch.manual_seed(0)
    torch.set_num_threads(1)
    ids = torch.tensor(transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)(TEXT)["input_ids"])
    load = lambda: transformers.AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32).eval()
    model = peft.get_peft_model(load(), peft.LoraConfig(r=rank, lora_alpha=rank, target_modules=ALL))
    print("loaded", file=sys.stderr, flush=True)
    loss = train(model, ids)
    with torch.no_grad():
        want = model(input_ids=ids[None, :N]).logits[0].numpy()
        with model.disable_adapter():
            plain = model(input_ids=ids[None, :N]).logits[0].numpy()
    with tempfile.TemporaryDirectory() as tmp:
        tmp = Path(tmp)
        model.save_pretrained(tmp / "adapter")
        ids[:N].numpy().astype("<i4").tofile(tmp / "ids")
        got = []
        for extra in ([], [tmp / "adapter"]):
            subprocess.run([build / "tests/model/dump_logits", gguf, tmp / "ids", str(N), tmp / "out", "precise", "f32", *extra], check=True)
            got.append(np.fromfile(tmp / "out", "<f4").reshape(N, -1)[:, :want.shape[1]])
    spread = want.max() - want.min()
    share = lambda a, b: np.abs(a - b).max() / spread
    print(f"{gguf.name}, rank {rank}: loss {loss:.2f}; the adapter moves logits by {share(want, plain):.3f} of their range {spread:.1f}; "
          f"libinfer is within {share(got[1], want):.1e} of PEFT, the base within {share(got[0], plain):.1e}")
    return int(share(got[1], want) > 1e-4 or share(want, plain) < 0.02)


if __name__ == "__main__":
    sys.exit(main())
