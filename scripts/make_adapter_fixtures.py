#!/usr/bin/env python3
"""Make tests/data/adapters: adapters of the tiny models of make_fixtures.py, and what PyTorch computes with them.

LoRA, prompt tuning and prefix tuning are made, trained for some steps and saved by PEFT, and run by PEFT; GGUF LoRA and control vectors are
written by the gguf package; control vectors are run by forward hooks. Everything in float32.

Goldens: as those of make_fixtures.py (24 greedy tokens), of the prompt alone: rows of a soft prompt or prefix are not in it. The script asserts of
each adapter that it changes the logits of the base by more than 5 % of the range, and that no greedy choice is a near tie.

Usage: make_adapter_fixtures.py [NAME...]
       make_adapter_fixtures.py --shape MODEL.gguf RANK DIR     a random LoRA on all matrices of this model, as PEFT saves it: for speed
Needs: numpy torch transformers peft safetensors gguf; llama-cpp-python, where it is there, checks the GGUF files.
"""
import json
import math
import re
import shutil
import struct
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import peft
import torch
from safetensors.torch import load_file, save_file

import make_fixtures as base

try:
    import llama_cpp
except ImportError:
    llama_cpp = None

OUT = Path(__file__).resolve().parent.parent / "tests/data/adapters"
N_PROMPT, N_GREEDY = 40, 24
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# NAME: (base model, type of the stored numbers, arguments of LoraConfig)
LORA = {
    "lora-r4": ("llama", "float32", dict(r=4, lora_alpha=6, target_modules=ALL + ["lm_head"])),
    "lora-rslora": ("llama", "bfloat16", dict(r=8, lora_alpha=5, use_rslora=True, target_modules=["q_proj", "v_proj", "down_proj"])),
    "lora-pattern": ("llama", "float16", dict(
        r=3, lora_alpha=4, target_modules=["q_proj", "k_proj", "o_proj", "up_proj"],
        rank_pattern={"k_proj": 2, "layers.1.self_attn.q_proj": 7, r"layers\.[02]\.mlp\.up_proj": 1},
        alpha_pattern={"o_proj": 9, "^model.layers.2.self_attn.q_proj": 2.5})),
    "lora-layers": ("llama", "float32", dict(r=2, lora_alpha=4, target_modules=["gate_proj", "v_proj"], layers_to_transform=[1])),
    "lora-gpt2": ("gpt2", "float32", dict(r=4, lora_alpha=5, fan_in_fan_out=True, target_modules=["c_attn", "c_proj", "c_fc"])),
    "lora-qwen2": ("qwen2", "float32", dict(r=4, lora_alpha=5, target_modules=ALL)),
    "lora-gemma3": ("gemma3", "float32", dict(r=2, lora_alpha=3, target_modules=ALL)),
    "lora-phi3": ("phi3-window", "bfloat16", dict(r=3, lora_alpha=4, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])),
    "alora": ("llama", "float32", dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj"], task_type="CAUSAL_LM",
                                       alora_invocation_tokens=[17, 4, 99])),
    # eight for one batch: every rank and another set of targets each
    "batch1": ("llama", "float32", dict(r=1, lora_alpha=1, target_modules=ALL)),
    "batch2": ("llama", "float32", dict(r=2, lora_alpha=3, target_modules=["q_proj"])),
    "batch3": ("llama", "float16", dict(r=3, lora_alpha=4, target_modules=["k_proj", "down_proj"])),
    "batch4": ("llama", "bfloat16", dict(r=4, lora_alpha=4, target_modules=["v_proj", "lm_head"])),
    "batch5": ("llama", "float32", dict(r=5, lora_alpha=6, target_modules=["o_proj", "gate_proj"])),
    "batch6": ("llama", "float16", dict(r=6, lora_alpha=5, target_modules=["up_proj"])),
    "batch7": ("llama", "float32", dict(r=7, lora_alpha=9, use_rslora=True, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])),
    "batch8": ("llama", "bfloat16", dict(r=16, lora_alpha=8, target_modules=["lm_head", "down_proj"])),
}


def base_model(name):
    seed, arch, _, config = base.FIXTURES[name]
    return base.make_model(arch, config, seed)


def prompt_of(name, seed, vocab):
    rng = np.random.default_rng([sum(map(ord, name)), seed])
    ids = rng.integers(0, vocab, 16 if name.startswith("batch") else N_PROMPT).tolist()
    if name == "alora":  # invoked twice: the last one counts
        ids[9:12] = ids[25:28] = [17, 4, 99]
    return ids


def train(model, name, steps=12, rate=0.02, vocab=base.VOCAB):
    """Some steps of AdamW towards other sequences than the base's: the adapter learns something, and all of its numbers move."""
    torch.manual_seed(sum(map(ord, name)))
    ids = torch.randint(0, vocab, (4, 24))
    if "alora" in name:
        ids[:, 8:11] = torch.tensor([17, 4, 99])
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=rate)
    for _ in range(steps):
        loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
    return float(loss.detach())


def run(model, ids):
    """f32 logits of the prompt's rows: what stands before them (virtual tokens) is left out."""
    with torch.no_grad():
        t = torch.tensor([ids])
        return model(input_ids=t, attention_mask=torch.ones_like(t)).logits[0, -len(ids):].float().numpy()


def greedy(forward, prompt):
    """Prompt and greedy tokens, and the smallest gap between first and second, as a share of the range."""
    ids, gap = list(prompt), math.inf
    for _ in range(N_GREEDY):
        row = forward(ids)[-1]
        second, first = np.sort(row)[-2:]
        gap = min(gap, (first - second) / (row.max() - row.min()))
        ids.append(int(row.argmax()))
    return ids, gap


def write_golden(name, forward, plain, vocab=base.VOCAB):
    """forward, plain: ids -> logits with and without the adapter."""
    for seed in range(20):  # a prompt that no near tie follows
        prompt = prompt_of(name, seed, vocab)
        ids, gap = greedy(forward, prompt)
        if gap > 5e-4:
            break
    logits = forward(prompt)
    spread = logits.max() - logits.min()
    moved = np.abs(logits - plain(prompt)).max() / spread
    assert np.isfinite(logits).all() and moved > 0.05 and gap > 5e-4, (name, moved, gap)
    with open(OUT / f"{name}.golden", "wb") as f:
        f.write(b"IGOLD\0\0\1" + struct.pack("<4I", len(prompt), logits.shape[1], N_GREEDY, 0))
        f.write(np.array(ids, "<i4").tobytes() + logits.astype("<f4").tobytes())
    print(f"{name}: moves {moved:.2f} of the range {spread:.1f}, gap {gap:.4f}, {len(set(ids[len(prompt):]))} distinct tokens", flush=True)


def save(model, name, dtype="float32"):
    """As PEFT saves it, the numbers stored as dtype; the model then computes with what was stored."""
    with tempfile.TemporaryDirectory() as tmp:
        model.save_pretrained(tmp, save_embedding_layers=False)
        tensors = {k: v.to(getattr(torch, dtype)).contiguous() for k, v in load_file(Path(tmp) / "adapter_model.safetensors").items()}
        config = json.loads((Path(tmp) / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "libinfer fixture"
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    return tensors, config


def make_lora(name):
    base_name, dtype, args = LORA[name]
    torch.manual_seed(1)
    model = peft.get_peft_model(base_model(base_name), peft.LoraConfig(**args, init_lora_weights="gaussian"))
    for n, p in model.named_parameters():  # small, but not zero: the gradient of A is not zero either
        if "lora_B" in n:
            p.data = torch.randn_like(p) * 0.1
    vocab = model.config.vocab_size
    loss = train(model, name, vocab=vocab)
    save(model, name, dtype)
    model = peft.PeftModel.from_pretrained(base_model(base_name), OUT / name).float().eval()  # what was saved
    plain = base_model(base_name)
    print(f"{name}: loss {loss:.2f}", end=" ")
    write_golden(name, lambda ids: run(model, ids), lambda ids: base.run(plain, ids), vocab)


def make_combination():
    """Two adapters at once, one of them at half its strength; the same base."""
    model = peft.PeftModel.from_pretrained(base_model("llama"), OUT / "lora-r4", adapter_name="one")
    model.load_adapter(OUT / "lora-rslora", adapter_name="two")
    model.base_model.set_adapter(["one", "two"])
    model = model.float().eval()
    for module in model.modules():
        if isinstance(getattr(module, "scaling", None), dict) and "one" in module.scaling:
            module.scaling["one"] *= 0.5
    plain = base_model("llama")
    write_golden("lora-two", lambda ids: run(model, ids), lambda ids: base.run(plain, ids))


# ---------------------------------------------------------------- soft prompts

def make_prompt():
    torch.manual_seed(3)
    model = peft.get_peft_model(base_model("llama"), peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=5))
    train(model, "soft-prompt", rate=0.1)
    tensors, config = save(model, "soft-prompt")
    assert tensors["prompt_embeddings"].shape == (5, 64) and config["token_dim"] == 64, config
    model = peft.PeftModel.from_pretrained(base_model("llama"), OUT / "soft-prompt").eval()
    plain = base_model("llama")
    write_golden("soft-prompt", lambda ids: run(model, ids), lambda ids: base.run(plain, ids))


def make_prefix():
    """The rows are keys and values as the cache has them; the prompt begins at position 4."""
    torch.manual_seed(4)
    model = peft.get_peft_model(base_model("llama"), peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4))
    model.prompt_encoder["default"].embedding.weight.data.normal_(0, 1)
    train(model, "prefix", rate=0.1)
    tensors, config = save(model, "prefix")
    cfg = model.base_model.config
    n_kv = cfg.num_key_value_heads * cfg.head_dim
    assert tensors["prompt_embeddings"].shape == (4, cfg.num_hidden_layers * 2 * n_kv), tensors["prompt_embeddings"].shape
    assert config["token_dim"] == n_kv and config["num_attention_heads"] == cfg.num_key_value_heads, config
    model = peft.PeftModel.from_pretrained(base_model("llama"), OUT / "prefix").eval()
    plain = base_model("llama")
    write_golden("prefix", lambda ids: run(model, ids), lambda ids: base.run(plain, ids))


# ---------------------------------------------------------------- steering

def make_steering():
    """One direction for each layer but the first, as GGUF and as safetensors; added, added in one layer only, and projected out."""
    rng = np.random.default_rng(6)
    directions = {layer: rng.normal(0, 1, 64).astype(np.float32) for layer in (1, 2)}
    w = gguf.GGUFWriter(str(OUT / "steering.gguf"), "controlvector")
    w.add_string("controlvector.model_hint", "llama")
    w.add_uint32("controlvector.layer_count", len(directions))
    for layer, v in directions.items():
        w.add_tensor(f"direction.{layer}", v)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    save_file({f"direction.{k}": torch.from_numpy(v) for k, v in directions.items()}, OUT / "steering.safetensors")
    plain = base_model("llama")
    add = lambda strength: lambda h, v: h + np.float32(strength) * v
    unit = lambda v: (v.double() / v.double().norm()).float()
    project = lambda h, v: h - (h @ unit(v))[..., None] * unit(v)
    for name, layers, change in (("steer-add", (1, 2), add(0.75)), ("steer-layer", (2,), add(-1.5)), ("steer-project", (1, 2), project)):
        model = steered(base_model("llama"), {k: v for k, v in directions.items() if k in layers}, change)
        write_golden(name, lambda ids, m=model: base.run(m, ids), lambda ids: base.run(plain, ids))
    check_steering(directions)


def check_steering(directions):
    """llama.cpp counts layers in the same way: its logits with the directions at 0.75 against the golden steer-add."""
    import ctypes
    if llama_cpp is None:
        return
    ids, want = read_golden("steer-add")
    data = np.zeros((2, 64), np.float32)  # of layers 1 and 2: there is no place for layer 0
    for layer, v in directions.items():
        data[layer - 1] = v * np.float32(0.75)
    with base.oracle.engine(base.OUT / "llama.gguf", 256, kv="f32", flash=False) as e:
        apply = getattr(llama_cpp, "llama_set_adapter_cvec", None) or llama_cpp.llama_apply_adapter_cvec
        assert apply(e.ctx, data.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), data.size, 64, 1, 2) == 0
        error = np.abs(e.logits(ids) - want).max() / (want.max() - want.min())
    print(f"steer-add: llama.cpp within {error:.1e} of the range", flush=True)
    assert error < 1e-4


def steered(model, directions, change):
    for layer, v in directions.items():
        v = torch.from_numpy(v)
        def hook(module, args, out, v=v):
            h = out[0] if isinstance(out, tuple) else out
            h = change(h, v)
            return (h, *out[1:]) if isinstance(out, tuple) else h
        model.model.layers[layer].register_forward_hook(hook)
    return model


def make_contrast():
    """For infer-steer: pairs of prompts as token ids, and the directions between them that PyTorch finds, added by forward hooks."""
    rng = np.random.default_rng(7)
    pairs = []
    for _ in range(12):
        body = rng.integers(0, base.VOCAB, int(rng.integers(4, 15))).tolist()
        pairs.append((body + [3, 17, int(rng.integers(0, base.VOCAB))], body + [50, int(rng.integers(0, base.VOCAB))]))
    for name, side in (("contrast-positive", 0), ("contrast-negative", 1)):
        (OUT / f"{name}.ids").write_text("".join(" ".join(map(str, p[side])) + "\n" for p in pairs))
    model, seen = base_model("llama"), []
    for layer in model.model.layers:
        layer.register_forward_hook(lambda m, a, out: seen.append((out[0] if isinstance(out, tuple) else out)[0, -1].double().numpy()))
    states = np.empty((2, len(pairs), 3, 64))
    for i, pair in enumerate(pairs):
        for side in range(2):
            seen.clear()
            base.run(model, pair[side])
            states[side, i] = seen
    tensors = {}
    for layer in range(3):
        d = states[0, :, layer] - states[1, :, layer]
        u = np.linalg.svd(d, full_matrices=False)[2][0]
        tensors[f"mean.{layer}"] = d.mean(0)
        tensors[f"pca.{layer}"] = u * (u @ d.mean(0))
    save_file({k: torch.from_numpy(v.astype(np.float32)) for k, v in tensors.items()}, OUT / "contrast.safetensors")
    cos = [float(tensors[f"mean.{i}"] @ tensors[f"pca.{i}"] / np.linalg.norm(tensors[f"mean.{i}"]) / np.linalg.norm(tensors[f"pca.{i}"])) for i in range(3)]
    print("contrast: cosine of mean and pca", cos)


# ---------------------------------------------------------------- GGUF

def write_gguf_lora(path, arch, pairs, alpha, tokens=()):
    """pairs: {GGUF name: (A [rank][in], B [out][rank])}, as llama.cpp's convert_lora_to_gguf.py writes them."""
    w = gguf.GGUFWriter(str(path), arch)
    w.add_string("general.type", "adapter")
    w.add_string("adapter.type", "lora")
    w.add_float32("adapter.lora.alpha", alpha)
    if tokens:
        w.add_array("adapter.alora.invocation_tokens", list(tokens))
    for name, (a, b) in pairs.items():
        w.add_tensor(f"{name}.lora_a", np.ascontiguousarray(a))
        w.add_tensor(f"{name}.lora_b", np.ascontiguousarray(b))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make_gguf_lora(name, base_name):
    """The same adapter as the folder `name`; its golden serves both."""
    arch, cfg = base.FIXTURES[base_name][1], base_model(base_name).config
    tensors = load_file(OUT / name / "adapter_model.safetensors")
    alpha = json.loads((OUT / name / "adapter_config.json").read_text())["lora_alpha"]
    pairs = {}
    for key in sorted(k for k in tensors if k.endswith(".lora_A.weight")):
        module = key.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        a, b = tensors[key].float().numpy(), tensors[key.replace("lora_A", "lora_B")].float().numpy()
        if arch == "llama" and module.endswith("q_proj"):
            b = base.interleave(b, cfg.num_attention_heads)
        if arch == "llama" and module.endswith("k_proj"):
            b = base.interleave(b, cfg.num_key_value_heads)
        pairs[base.gguf_name(f"{module}.weight", arch)] = (a, b)
    write_gguf_lora(OUT / f"{name}.gguf", arch, pairs, alpha)
    check_llamacpp(name, base_name)


def read_golden(name):
    """Its prompt, and logits [prompt][vocab]."""
    data = (OUT / f"{name}.golden").read_bytes()
    n, vocab = struct.unpack_from("<2I", data, 8)
    return np.frombuffer(data, "<i4", n, 24).tolist(), np.frombuffer(data, "<f4", n * vocab, 24 + 4 * (n + N_GREEDY)).reshape(n, vocab)


def check_llamacpp(name, base_name):
    """The golden against llama.cpp with the GGUF adapter."""
    if llama_cpp is None:
        print(f"{name}.gguf: llama.cpp not installed")
        return
    ids, want = read_golden(name)
    with base.oracle.engine(base.OUT / f"{base_name}.gguf", 256, kv="f32", flash=False) as e:
        plain = e.logits(ids)
        attach_llamacpp(e, OUT / f"{name}.gguf")
        got = e.logits(ids)
    spread = want.max() - want.min()
    error, moved = np.abs(got - want).max() / spread, np.abs(plain - want).max() / spread
    print(f"{name}.gguf: llama.cpp within {error:.1e} of the range (without the adapter {moved:.1e})", flush=True)
    assert error < 2e-3 < moved, name


def attach_llamacpp(e, path):
    import ctypes
    model = e.model if hasattr(e, "model") else llama_cpp.llama_get_model(e.ctx)
    adapter = llama_cpp.llama_adapter_lora_init(model, str(path).encode())
    assert adapter, path
    if hasattr(llama_cpp, "llama_set_adapter_lora"):
        assert llama_cpp.llama_set_adapter_lora(e.ctx, adapter, 1.0) == 0
    else:
        adapters = (type(adapter) * 1)(adapter)
        assert llama_cpp.llama_set_adapters_lora(e.ctx, adapters, 1, (ctypes.c_float * 1)(1.0)) == 0


# ---------------------------------------------------------------- of real dimensions

HF_NAMES = {v: k for k, v in base.NAMES.items() if "proj" in k and "self_attn" in k or k.startswith("mlp.") and "proj" in k and "c_" not in k}


def make_shaped(model, rank, folder):
    """Random numbers: A as PEFT begins, B small. For measuring."""
    rng, tensors = np.random.default_rng(0), {}
    for t in gguf.GGUFReader(model).tensors:
        m = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", t.name)
        if not m or m[2] not in HF_NAMES:
            continue
        n_in, n_out = (int(x) for x in t.shape)
        stem = f"base_model.model.model.layers.{m[1]}.{HF_NAMES[m[2]]}"
        tensors[f"{stem}.lora_A.weight"] = torch.from_numpy(rng.normal(0, 1 / math.sqrt(n_in), (rank, n_in)).astype(np.float32)).half()
        tensors[f"{stem}.lora_B.weight"] = torch.from_numpy(rng.normal(0, 0.02, (n_out, rank)).astype(np.float32)).half()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = dict(peft_type="LORA", r=rank, lora_alpha=rank, bias="none", target_modules=ALL, base_model_name_or_path=str(Path(model).name))
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
    print(f"{folder}: {len(tensors) // 2} matrices, {sum(t.numel() for t in tensors.values())} numbers")


def main():
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--shape"]:
        return make_shaped(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    others = {"lora-two": make_combination, "soft-prompt": make_prompt, "prefix": make_prefix, "steering": make_steering, "contrast": make_contrast,
              "lora-r4.gguf": lambda: make_gguf_lora("lora-r4", "llama"), "lora-qwen2.gguf": lambda: make_gguf_lora("lora-qwen2", "qwen2"),
              "lora-gpt2.gguf": lambda: make_gguf_lora("lora-gpt2", "gpt2")}
    OUT.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or [*LORA, *others]:
        others[name]() if name in others else make_lora(name)


if __name__ == "__main__":
    main()
