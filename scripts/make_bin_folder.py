#!/usr/bin/env python3
"""tests/data/torch/folder: a tiny llama in PyTorch's files, two shards with an index, and the same weights as safetensors.

Embeddings and output matrix are tied, and both saved, as old files have it.

Needs: torch safetensors transformers.
"""
import json
import shutil
from pathlib import Path

import torch
import transformers as hf
from safetensors.torch import save_file

OUT = Path(__file__).resolve().parent.parent / "tests/data/torch/folder"


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    torch.manual_seed(3)
    config = hf.LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
                            num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True)
    model = hf.LlamaForCausalLM(config).half()
    weights = dict(model.state_dict())
    assert weights["lm_head.weight"].data_ptr() == weights["model.embed_tokens.weight"].data_ptr()
    config.architectures = ["LlamaForCausalLM"]
    (OUT / "config.json").write_text(config.to_json_string())
    save_file({n: t for n, t in weights.items() if n != "lm_head.weight"}, OUT / "model.safetensors")
    names = list(weights)
    first = [n for n in names if "embed" in n or "lm_head" in n]
    shards = {"pytorch_model-00001-of-00002.bin": first, "pytorch_model-00002-of-00002.bin": [n for n in names if n not in first]}
    for file, part in shards.items():
        torch.save({n: weights[n] for n in part}, OUT / file)
    index = {"metadata": {"total_size": 0}, "weight_map": {n: f for f, part in shards.items() for n in part}}
    (OUT / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=1))
    for f in OUT.iterdir():
        f.chmod(0o644)


if __name__ == "__main__":
    main()
