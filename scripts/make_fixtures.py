#!/usr/bin/env python3
"""Tiny random models with golden logits: tests/data/fixtures/NAME.gguf and NAME.golden, and those that are not quantised also
as transformers saves them: the folder tests/data/fixtures/NAME.

Every model is built as a Hugging Face transformers model with random weights, run there in
float32 with eager attention, and written as GGUF by the conventions of llama.cpp's converter
(names, metadata keys, the row order of Q and K). Where llama-cpp-python is installed each file is run through
llama.cpp too, and must agree: that checks the conventions, not only our reading of them.

What a fixture promises is asserted here (see check()): norms, biases and scales are random, logits spread at
least 5 at every position, the sequence is longer than the sliding window, than the original rope
context and than two 64-position pages, switching the feature off changes the logits, and 64 greedy tokens hold at
least 16 distinct ones, none decided by a near tie.

Golden file, little-endian: 8 bytes "IGOLD\\0\\0\\1", u32 n_prompt, n_vocab, n_greedy, 0, i32 prompt[n_prompt],
i32 greedy[n_greedy], f32 logits[n_prompt][n_vocab]. Greedy tokens follow the whole prompt.

Usage: make_fixtures.py [--search | --folders] [NAME...]    --search tries seeds upward until the promises hold; --folders writes
only the folders
Needs: numpy torch transformers gguf; llama-cpp-python for the check and for K-quants.
"""
import argparse
import copy
import ctypes
import math
import shutil
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers as hf

try:
    import llamacpp_logits as oracle
except ImportError:
    oracle = None

OUT = Path(__file__).resolve().parent.parent / "tests/data/fixtures"
VOCAB, N_GREEDY = 160, 64
Q = gguf.GGMLQuantizationType

# NAME: (seed, architecture, layout of quantised tensors or None, configuration)
LLAMA = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=False,
             rope_parameters=dict(rope_type="default", rope_theta=10000.0))
TIED = dict(LLAMA, tie_word_embeddings=True)
SMALL = dict(LLAMA, num_hidden_layers=1, vocab_size=96)
ROPE = dict(rope_theta=10000.0, original_max_position_embeddings=64)
GEMMA = dict(vocab_size=VOCAB, hidden_size=64, head_dim=32, num_attention_heads=2, num_key_value_heads=1,
             query_pre_attn_scalar=32, max_position_embeddings=256, rms_norm_eps=1e-6)
DENSE = dict(LLAMA, vocab_size=96, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2)
FIXTURES = {
    "llama": (2, "llama", None, dict(LLAMA, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16)),
    "llama-linear": (12, "llama", None, dict(TIED, rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0))),
    "llama3-rope": (4, "llama", None, dict(TIED, rope_parameters=dict(
        ROPE, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0))),
    "llama-yarn": (1, "llama", None, dict(TIED, rope_parameters=dict(ROPE, rope_type="yarn", factor=4.0))),
    "llama-bias": (0, "llama", None, dict(TIED, attention_bias=True, mlp_bias=True)),
    "smollm2": (1, "llama", None, dict(TIED, hidden_size=96, num_attention_heads=3, intermediate_size=32,
                                       rope_parameters=dict(rope_type="default", rope_theta=100000.0))),
    "qwen2": (1, "qwen2", None, dict(LLAMA, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-6,
                                     rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    "qwen3": (12, "qwen3", None, dict(TIED, head_dim=32, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-6,
                                     attention_bias=False, rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    # as the published files: window pattern and local rope base are not written, the readers know them
    "gemma3": (9, "gemma3", None, dict(GEMMA, num_hidden_layers=6, intermediate_size=32, sliding_window=48, rope_parameters=dict(
        full_attention=dict(rope_type="default", rope_theta=1000000.0),
        sliding_attention=dict(rope_type="default", rope_theta=10000.0)))),
    # pattern and local base written out, final soft-cap, linear scaling on the global layers (as Gemma 3 4B has)
    "gemma3-scaled": (22, "gemma3", None, dict(
        GEMMA, num_hidden_layers=4, intermediate_size=32, sliding_window=80, final_logit_softcapping=6.0,
        layer_types=["sliding_attention", "full_attention"] * 2, rope_parameters=dict(
            full_attention=dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
            sliding_attention=dict(rope_type="default", rope_theta=20000.0)))),
    "gpt2": (20, "gpt2", None, dict(vocab_size=VOCAB, n_embd=64, n_head=2, n_layer=2, n_inner=128, n_positions=256,
                                   layer_norm_epsilon=1e-5, activation_function="gelu_new", attn_pdrop=0.0, embd_pdrop=0.0,
                                   resid_pdrop=0.0)),
    # key and value heads narrower than hidden / heads; windows on every other layer
    "gemma2": (153, "gemma2", None, dict(
        GEMMA, head_dim=16, query_pre_attn_scalar=16, num_hidden_layers=3, intermediate_size=32, sliding_window=48,
        attn_logit_softcapping=2.0, final_logit_softcapping=12.0, rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # LongRoPE beyond the original context; llama.cpp leaves out this architecture's windows, so they have a fixture of their own
    "phi3": (3, "phi3", None, dict(
        DENSE, original_max_position_embeddings=64, sliding_window=None, rope_parameters=dict(
            rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75, original_max_position_embeddings=64,
            short_factor=[1.0, 1.1, 1.3, 1.6, 2.0, 2.5], long_factor=[1.2, 1.9, 3.0, 5.0, 9.0, 14.0]))),
    "phi3-window": (3, "phi3", None, dict(
        DENSE, original_max_position_embeddings=256, sliding_window=48, rope_parameters=dict(
            rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=1.0, original_max_position_embeddings=256,
            short_factor=[1.0, 1.1, 1.3, 1.6, 2.0, 2.5, 3.0, 3.5], long_factor=[1.2, 1.9, 3.0, 5.0, 9.0, 14.0, 20.0, 30.0]))),
    # windows on all layers, which llama.cpp leaves out; wide heads
    "mistral": (3, "mistral", None, dict(DENSE, head_dim=24, sliding_window=48)),
    "mistral3": (0, "mistral3", None, dict(DENSE, head_dim=24, sliding_window=None, rope_parameters=dict(
        ROPE, type="yarn", rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
        llama_4_scaling_beta=0.8))),
    "granite": (0, "granite", None, dict(DENSE, attention_bias=True, mlp_bias=True, embedding_multiplier=3.0, attention_multiplier=0.4,
                                         residual_multiplier=0.7, logits_scaling=1.5)),
    "nemotron": (5, "nemotron", None, dict(DENSE, norm_eps=1e-5, attention_bias=True, mlp_bias=True, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "olmo2": (0, "olmo2", None, dict(DENSE, rope_parameters=dict(rope_type="default", rope_theta=500000.0))),
    # written as olmo2; three layers of four have windows, and the fourth alone an extended context
    "olmo3": (3, "olmo3", None, dict(DENSE, num_hidden_layers=4, intermediate_size=32, sliding_window=48, rope_parameters=dict(
        full_attention=dict(ROPE, rope_type="yarn", factor=4.0), sliding_attention=dict(rope_type="default", rope_theta=10000.0)))),
    "starcoder2": (2, "starcoder2", None, dict(DENSE, norm_epsilon=1e-5, use_bias=True, sliding_window=48, tie_word_embeddings=True)),
    "stablelm": (2, "stablelm", None, dict(DENSE, layer_norm_eps=1e-5, use_qkv_bias=True, qk_layernorm=True, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25))),
    "stablelm-parallel": (2, "stablelm", None, dict(DENSE, layer_norm_eps=1e-5, use_parallel_residual=True, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    # quantised: the golden is of the weights as stored; NAME-f32.gguf holds them expanded
    "llama-q8_0": (0, "llama", dict(default=Q.Q8_0), SMALL),
    "llama-q4_0": (0, "llama", dict(default=Q.Q4_0), SMALL),
    "llama-q4_1": (0, "llama", dict(default=Q.Q4_1), SMALL),
    "llama-mix32": (1, "llama", dict(default=Q.Q5_0, attn_k=Q.Q5_1, attn_v=Q.F16, attn_output=Q.BF16, ffn_gate=Q.IQ4_NL,
                                     ffn_up=Q.MXFP4, ffn_down=Q.Q4_1, output=Q.Q8_0, token_embd=Q.Q4_0), SMALL),
    # 256-wide rows for the K types; narrower rows (attn_output, ffn_down) take what llama.cpp falls back to
    "llama-mix256": (0, "llama", dict(attn_q=Q.Q4_K, attn_k=Q.Q5_K, attn_v=Q.Q6_K, attn_output=Q.Q5_0, ffn_gate=Q.Q2_K,
                                      ffn_up=Q.Q3_K, ffn_down=Q.Q8_0, output=Q.Q6_K, token_embd=Q.IQ4_XS),
                     dict(SMALL, hidden_size=256, head_dim=32, intermediate_size=32, vocab_size=64)),
}
PROMPT_LENGTH = {"llama": 150, "gemma3": 140, "llama-q8_0": 100, "llama-q4_0": 100, "llama-q4_1": 100, "llama-mix32": 100,
                 "llama-mix256": 100}
CLASSES = {"llama": (hf.LlamaConfig, hf.LlamaForCausalLM), "qwen2": (hf.Qwen2Config, hf.Qwen2ForCausalLM),
           "qwen3": (hf.Qwen3Config, hf.Qwen3ForCausalLM), "gemma3": (hf.Gemma3TextConfig, hf.Gemma3ForCausalLM),
           "gpt2": (hf.GPT2Config, hf.GPT2LMHeadModel), "gemma2": (hf.Gemma2Config, hf.Gemma2ForCausalLM),
           "phi3": (hf.Phi3Config, hf.Phi3ForCausalLM), "mistral": (hf.MistralConfig, hf.MistralForCausalLM),
           "mistral3": (hf.Ministral3Config, hf.Ministral3ForCausalLM),
           "granite": (hf.GraniteConfig, hf.GraniteForCausalLM), "nemotron": (hf.NemotronConfig, hf.NemotronForCausalLM),
           "olmo2": (hf.Olmo2Config, hf.Olmo2ForCausalLM), "olmo3": (hf.Olmo3Config, hf.Olmo3ForCausalLM),
           "starcoder2": (hf.Starcoder2Config, hf.Starcoder2ForCausalLM),
           "stablelm": (hf.StableLmConfig, hf.StableLmForCausalLM)}
GGUF_ARCH = {"mistral": "llama", "olmo3": "olmo2"}  # where general.architecture is not transformers' model_type
PAIRED = ("llama", "mistral", "mistral3", "granite")  # rows of Q and K are stored for neighbouring-pair RoPE
ONE_PLUS = ("gemma2", "gemma3", "nemotron")  # norms multiply by 1 + w; stored as that sum
NO_WINDOWS = ("phi3", "mistral", "starcoder2")  # llama.cpp (2026) computes these without their sliding windows


# ---------------------------------------------------------------- the model

def make_model(arch, config, seed):
    """The transformers model with every parameter random."""
    cls_config, cls_model = CLASSES[arch]
    cfg = cls_config(**copy.deepcopy(config), bos_token_id=None, eos_token_id=None, pad_token_id=None)
    cfg._attn_implementation = "eager"
    model = cls_model(cfg).float().eval()
    rng = np.random.default_rng([seed, sum(map(ord, arch))])
    for name, p in model.named_parameters():  # a tied head is listed once
        p.data = torch.from_numpy(random_weight(name, tuple(p.shape), arch, cfg, rng).astype(np.float32))
    return model


def random_weight(name, shape, arch, cfg, rng):
    if len(shape) == 1:
        if name.endswith("bias"):
            return rng.normal(0, 0.2, shape)
        scale = rng.uniform(0.6, 1.6, shape)  # a norm's weight
        if arch in ("gemma2", "gemma3") and ".post_" in name:
            scale *= 2.5  # what layers add must outweigh the embedding, else every token predicts itself
        return scale - 1 if arch in ONE_PLUS else scale
    if any(s in name for s in ("embed_tokens", "wte", "wpe")):
        # small where it is the output matrix too: else every token predicts itself
        return rng.normal(0, 0.15 if arch in ("gemma2", "gemma3") else 0.2 if cfg.tie_word_embeddings else 0.35, shape)
    gain = 1.3 if any(s in name for s in ("q_proj", "k_proj", "c_attn", "qkv_proj")) else 1.0  # attention that prefers some keys
    if "lm_head" in name:
        gain = 2.0
    fan_in = shape[0] if arch == "gpt2" else shape[1]
    return rng.normal(0, gain / math.sqrt(fan_in), shape)


def run(model, ids):
    """f32 logits [len(ids)][vocab]"""
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].float().numpy()


def greedy(model, prompt):
    """64 greedy tokens after the prompt, and the smallest gap between first and second, as a share of the range."""
    ids, gap = list(prompt), math.inf
    for _ in range(N_GREEDY):
        row = run(model, ids)[-1]
        second, first = np.sort(row)[-2:]
        gap = min(gap, (first - second) / (row.max() - row.min()))
        ids.append(int(row.argmax()))
    return ids[len(prompt):], gap


# ---------------------------------------------------------------- GGUF

NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
         "ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up",
         "mlp.c_proj": "ffn_down", "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up", "self_attn.dense": "attn_output"}
POST_NORM = ("gemma2", "gemma3", "olmo2", "olmo3")  # post_attention_layernorm is what it says
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
       "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm"}


def gguf_name(name, arch):
    stem, kind = name.rsplit(".", 1)
    if stem in TOP:
        return f"{TOP[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)  # model.layers.N.part or transformer.h.N.part
    own = "post_attention_norm" if arch in POST_NORM and part == "post_attention_layernorm" else NAMES[part]
    return f"blk.{layer}.{own}.{kind}"


def interleave(w, n_head):
    """Rows of Q or K from rotate-half order to neighbouring pairs, as llama.cpp stores them for architecture llama."""
    half = w.shape[0] // n_head // 2
    return w.reshape(n_head, 2, half, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def tensors(model, arch):
    """(GGUF name, f32 array) of every stored tensor."""
    cfg, out, heads = model.config, [], {}
    for name, p in model.named_parameters():
        w = p.detach().numpy()
        if ".norms." in name:  # StableLM: a norm for each head, in order; stored as one matrix
            stem = name.split("layernorm.norms.")[0]
            heads.setdefault(gguf_name(f"{stem}norm.weight", arch), []).append(w)
            continue
        if arch in PAIRED and ".q_proj." in name:
            w = interleave(w, cfg.num_attention_heads)
        if arch in PAIRED and ".k_proj." in name:
            w = interleave(w, cfg.num_key_value_heads)
        if arch in ONE_PLUS and name.endswith("norm.weight"):
            w = w + np.float32(1)
        if arch == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            w = w.T
        out.append((gguf_name(name, arch), np.ascontiguousarray(w)))
    out += [(name, np.stack(w)) for name, w in heads.items()]
    if arch == "phi3" and cfg.rope_parameters["rope_type"] == "longrope":
        for kind in ("long", "short"):
            out.append((f"rope_factors_{kind}.weight", np.array(cfg.rope_parameters[f"{kind}_factor"], np.float32)))
    if arch == "llama" and cfg.rope_parameters["rope_type"] == "llama3":
        out.append(("rope_freqs.weight", llama3_factors(cfg)))
    return out


def llama3_factors(cfg):
    """What each rotary frequency is divided by (Llama 3.1), [head_dim / 2]."""
    r, dim = cfg.rope_parameters, cfg.head_dim
    freq = 1.0 / r["rope_theta"] ** (np.arange(0, dim, 2, dtype=np.float64) / dim)
    turns = r["original_max_position_embeddings"] * freq / (2 * math.pi)  # within the original context
    smooth = np.clip((turns - r["low_freq_factor"]) / (r["high_freq_factor"] - r["low_freq_factor"]), 0, 1)
    return (1 / ((1 - smooth) / r["factor"] + smooth)).astype(np.float32)


def metadata(w, arch, cfg):
    get = lambda *names: next(getattr(cfg, n) for n in names if getattr(cfg, n, None) is not None)
    w.add_vocab_size(cfg.vocab_size)
    w.add_context_length(get("max_position_embeddings", "n_positions"))
    w.add_embedding_length(get("hidden_size", "n_embd"))
    w.add_block_count(get("num_hidden_layers", "n_layer"))
    w.add_feed_forward_length(get("intermediate_size", "n_inner"))
    w.add_head_count(get("num_attention_heads", "n_head"))
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    w.add_tokenizer_model("none")
    if arch == "gpt2":
        w.add_layer_norm_eps(cfg.layer_norm_epsilon)
        return
    w.add_head_count_kv(cfg.num_key_value_heads)
    if arch in ("nemotron", "starcoder2", "stablelm"):
        w.add_layer_norm_eps(get("norm_eps", "norm_epsilon", "layer_norm_eps"))
    else:
        w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    head_dim = getattr(cfg, "head_dim", None) or cfg.hidden_size // cfg.num_attention_heads
    if arch in ("qwen3", "gemma2", "gemma3") or head_dim * cfg.num_attention_heads != cfg.hidden_size:
        w.add_key_length(head_dim)
        w.add_value_length(head_dim)
    rope = cfg.rope_parameters
    if arch in ("llama", "mistral", "mistral3", "granite", "phi3", "nemotron", "stablelm"):
        w.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1.0)))
    if arch in ("gemma2", "phi3", "mistral", "starcoder2") and cfg.sliding_window:
        w.add_sliding_window(cfg.sliding_window)
    if arch == "olmo3":
        w.add_sliding_window(cfg.sliding_window)
        w.add_sliding_window_pattern([t == "sliding_attention" for t in cfg.layer_types])
        rope = rope["full_attention"]
    if arch == "gemma2":
        w.add_attn_logit_softcapping(cfg.attn_logit_softcapping)
        w.add_final_logit_softcapping(cfg.final_logit_softcapping)
    if arch == "granite":
        w.add_attention_scale(cfg.attention_multiplier)
        w.add_embedding_scale(cfg.embedding_multiplier)
        w.add_residual_scale(cfg.residual_multiplier)
        w.add_logit_scale(cfg.logits_scaling)
    if arch == "stablelm":
        w.add_parallel_residual(cfg.use_parallel_residual)
    if arch == "gemma3":
        w.add_sliding_window(cfg.sliding_window)
        if cfg.num_hidden_layers % 6:  # not the usual pattern
            w.add_sliding_window_pattern(cfg.layer_types.index("full_attention") + 1)
            w.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
        if cfg.final_logit_softcapping:
            w.add_final_logit_softcapping(cfg.final_logit_softcapping)
        rope = rope["full_attention"]
    w.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] in ("linear", "yarn"):
        w.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        w.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "longrope":
        first = rope["original_max_position_embeddings"]
        factor = cfg.max_position_embeddings / first
        w.add_rope_scaling_orig_ctx_len(first)
        w.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(factor) / math.log(first)) if factor > 1 else 1.0)
    if arch == "mistral3":
        w.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        w.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
        w.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
        w.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    if rope["rope_type"] == "yarn":
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])


def write_folder(name, model):
    """The model as transformers saves it, less what says nothing about the model."""
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    folder.joinpath("config.json").chmod(0o644)
    folder.joinpath("model.safetensors").chmod(0o644)


def write_gguf(path, name, arch, cfg, items):
    """items: (name, raw array, type or None for F32)"""
    w = gguf.GGUFWriter(str(path), GGUF_ARCH.get(arch, arch))
    w.add_name(f"libinfer fixture {name}")
    metadata(w, arch, cfg)
    for tensor, data, kind in items:
        w.add_tensor(tensor, data, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


# ---------------------------------------------------------------- quantised twins

def quantise(data, kind):
    """Bytes of a matrix in `kind`: gguf's own quantisers where it has them, else ggml's through llama-cpp-python."""
    try:
        return gguf.quants.quantize(data, kind)
    except NotImplementedError:
        pass
    if oracle is None:
        raise SystemExit(f"{kind.name} needs llama-cpp-python")
    lib = ctypes.CDLL(str(Path(oracle.L.__file__).parent / "lib/libggml-base.so"))
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    rows, cols = data.shape
    block, size = gguf.GGML_QUANT_SIZES[kind]
    out = np.empty((rows, cols // block * size), np.uint8)
    weight = np.ones(cols, np.float32)
    done = lib.ggml_quantize_chunk(int(kind), data.ctypes.data, out.ctypes.data, 0, rows, cols, weight.ctypes.data)
    assert done == out.nbytes
    return out


def quantised_items(model, arch, layout):
    """The file's tensors quantised by layout, and the same expanded to F32."""
    packed, plain = [], []
    for name, data in tensors(model, arch):
        if data.ndim == 1:
            packed.append((name, data, None))
            plain.append((name, data, None))
            continue
        kind = layout.get(name.split(".")[-2]) or layout["default"]
        raw = quantise(data, kind)
        value = np.ascontiguousarray(gguf.quants.dequantize(raw, kind), np.float32)
        packed.append((name, raw, kind))
        plain.append((name, value, None))
    return packed, plain


def load_expanded(model, arch, plain):
    """Put the expanded weights back into the transformers model."""
    value = {name: data for name, data, _ in plain}
    cfg = model.config
    for name, p in model.named_parameters():
        w = value[gguf_name(name, arch)]
        for part, heads in ((".q_proj.", cfg.num_attention_heads), (".k_proj.", cfg.num_key_value_heads)):
            if part in name:  # interleave()'s inverse
                half = w.shape[0] // heads // 2
                w = w.reshape(heads, half, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
        p.data = torch.from_numpy(np.ascontiguousarray(w))


# ---------------------------------------------------------------- promises

OFF = {"gemma2": [dict(sliding_window=255), dict(attn_logit_softcapping=None), dict(final_logit_softcapping=None),
                  dict(query_pre_attn_scalar=64)],
       "phi3": [dict(sliding_window=None)], "mistral": [dict(sliding_window=None)], "starcoder2": [dict(sliding_window=None)],
       "olmo3": [dict(sliding_window=255)],
       "granite": [dict(embedding_multiplier=1.0), dict(attention_multiplier=0.25), dict(residual_multiplier=1.0),
                   dict(logits_scaling=1.0)]}


def without_feature(arch, config):
    """Configurations in which one feature is off: each must change the logits."""
    out = []
    if arch == "gemma3":
        out.append(dict(config, sliding_window=255))
        rope = copy.deepcopy(config["rope_parameters"])
        rope["sliding_attention"]["rope_theta"] = 1000000.0
        out.append(dict(config, rope_parameters=rope))
        if config.get("final_logit_softcapping"):
            out.append(dict(config, final_logit_softcapping=None))
            rope = copy.deepcopy(config["rope_parameters"])
            rope["full_attention"] = dict(rope_type="default", rope_theta=1000000.0)
            out.append(dict(config, rope_parameters=rope))
    out += [dict(config, **off) for off in OFF.get(arch, []) if all(config.get(k) != v for k, v in off.items())]
    rope = config.get("rope_parameters", {})
    if rope.get("partial_rotary_factor", 1.0) != 1.0 and "short_factor" not in rope:
        out.append(dict(config, rope_parameters=dict(rope, partial_rotary_factor=1.0)))
    if rope.get("rope_type") == "longrope":
        is_long = config["original_max_position_embeddings"] < config["max_position_embeddings"]
        used = "long_factor" if is_long else "short_factor"
        other = "short_factor" if is_long else "long_factor"
        out.append(dict(config, rope_parameters={**rope, used: [1.0] * len(rope[used])}))
        out.append(dict(config, rope_parameters={**rope, used: rope[other]}))
        if is_long:
            out.append(dict(config, rope_parameters=dict(rope, attention_factor=1.0)))
    elif arch == "olmo3":
        out.append(dict(config, rope_parameters=dict(rope, full_attention=rope["sliding_attention"])))
        out.append(dict(config, rope_parameters=dict(rope, sliding_attention=rope["full_attention"])))
    elif arch == "mistral3":
        out.append(dict(config, rope_parameters=dict(rope, llama_4_scaling_beta=0.0)))
        out.append(dict(config, rope_parameters=dict(rope, mscale_all_dim=None)))
        out.append(dict(config, rope_parameters=dict(rope, factor=1.0)))
    elif arch != "gemma3" and rope.get("rope_type", "default") != "default":
        out.append(dict(config, rope_parameters=dict(rope_type="default", rope_theta=10000.0)))
    return out


def check(arch, config, seed, model, prompt, logits, tokens, gap):
    """What is wrong with this fixture, or None."""
    spread = (logits.max(1) - logits.min(1)).min()
    if not np.isfinite(logits).all() or spread < 5:
        return f"spread {spread:.2f}"
    if len(set(tokens)) < 16:
        return f"{len(set(tokens))} distinct tokens"
    if gap <= 1e-3:
        return f"gap {gap:.5f}"
    for changed in without_feature(arch, config):
        other = run(make_model(arch, changed, seed), prompt)
        moved = np.abs(other - logits).max() / (logits.max() - logits.min())
        if moved < 0.02:
            return f"a feature changes only {moved:.4f} of the range"
    return None


def build(name, seed):
    """(problem or None, summary); writes the files when there is no problem."""
    _, arch, layout, config = FIXTURES[name]
    model = make_model(arch, config, seed)
    cfg = model.config
    if layout is None:
        items, plain = [(n, d, None) for n, d in tensors(model, arch)], None
    else:
        items, plain = quantised_items(model, arch, layout)
        load_expanded(model, arch, plain)
    n_prompt = PROMPT_LENGTH.get(name, 144)
    prompt = np.random.default_rng([seed, 99]).integers(0, cfg.vocab_size, n_prompt).tolist()
    logits = run(model, prompt)
    tokens, gap = greedy(model, prompt)
    problem = check(arch, config, seed, model, prompt, logits, tokens, gap)
    if problem:
        return problem, ""
    write_gguf(OUT / f"{name}.gguf", name, arch, cfg, items)
    if layout is None:
        write_folder(name, model)
    if plain:
        write_gguf(OUT / f"{name}-f32.gguf", f"{name}-f32", arch, cfg, plain)
    with open(OUT / f"{name}.golden", "wb") as f:
        f.write(b"IGOLD\0\0\1" + struct.pack("<4I", n_prompt, cfg.vocab_size, N_GREEDY, 0))
        f.write(np.array(prompt + tokens, "<i4").tobytes() + logits.astype("<f4").tobytes())
    spread = (logits.max(1) - logits.min(1)).min()
    summary = (f"seed {seed}, {n_prompt} positions, spread >= {spread:.1f}, {len(set(tokens))} distinct greedy tokens, "
               f"gap >= {gap:.4f}, {sum(p.numel() for p in model.parameters())} parameters")
    window = getattr(cfg, "sliding_window", None) if arch in NO_WINDOWS else None
    return None, summary + agreement(name, prompt, tokens, logits, plain is not None, window)


def agreement(name, prompt, tokens, logits, quantised, window):
    """Compare with llama.cpp; F32 weights must agree. window: it leaves this out, so only as many positions are compared."""
    if oracle is None:
        return ", llama.cpp not installed"
    with oracle.engine(OUT / f"{name}{'-f32' if quantised else ''}.gguf", 256, kv="f32", flash=False) as e:
        ids = prompt + tokens
        theirs = e.logits(ids)
    n = window or len(prompt)
    error = np.abs(theirs[:n] - logits[:n]).max() / (logits.max() - logits.min())
    if window:
        if error > 2e-3:
            raise SystemExit(f"{name}: does not agree with llama.cpp: {error}")
        return f", llama.cpp within {error:.1e} of range on the first {window} positions (it has no windows here)"
    same = (theirs[len(prompt) - 1:-1].argmax(1) == tokens).sum()
    text = f", llama.cpp within {error:.1e} of range, {same}/{N_GREEDY} greedy equal"
    if error > 2e-3 or same < N_GREEDY - 2:
        raise SystemExit(f"{name}: does not agree with llama.cpp{text}")
    if quantised:  # llama.cpp rounds activations there, so only roughly
        with oracle.engine(OUT / f"{name}.gguf", 256, kv="f32", flash=False, repack=False) as e:
            error = np.abs(e.logits(prompt) - logits).max() / (logits.max() - logits.min())
        text += f", quantised within {error:.1e}"
        if error > 0.1:
            raise SystemExit(f"{name}: does not agree with llama.cpp{text}")
    return text


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--search", action="store_true")
    ap.add_argument("--folders", action="store_true")
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    for name in args.names or FIXTURES:
        seed, arch, layout, config = FIXTURES[name]
        if args.folders:
            if layout is None:
                write_folder(name, make_model(arch, config, seed))
            continue
        while True:
            problem, summary = build(name, seed)
            if not problem:
                print(f"{name}: {summary}", flush=True)
                break
            print(f"{name}: seed {seed}: {problem}", file=sys.stderr, flush=True)
            if not args.search or seed > FIXTURES[name][0] + 200:
                raise SystemExit(f"{name}: {problem}")
            seed += 1


if __name__ == "__main__":
    main()
