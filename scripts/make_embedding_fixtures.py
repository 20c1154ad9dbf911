#!/usr/bin/env python3
"""Tiny random embedding models with golden hidden states: tests/data/fixtures/NAME.gguf, NAME.embed and the folder NAME/; bert-q8_0.gguf, the same model quantised, without golden.

As make_fixtures.py, for models that make embeddings: bert, nomic-bert, and the styles of Qwen3-Embedding (a decoder, last token)
and EmbeddingGemma (Gemma 3 that sees both sides, two dense layers behind the mean). Every model is a transformers model with random weights,
run in float32 with eager attention, text by text; written as GGUF by the conventions of llama.cpp's converter, and as a folder as sentence-transformers keeps
them (config.json, model.safetensors, modules.json, 1_Pooling and so on; of bert a tokenizer.json too). Where llama-cpp-python is installed its hidden
states must agree.

Golden file, little-endian: 8 bytes "IEMBD\\0\\0\\1", u32 n_text, n_embd, width, pooling (GGUF's number); then for each text u32 n,
i32 ids[n], f32 hidden[n][n_embd] (behind the final norm), f32 vector[width] (pooled, dense layers, length 1); then u32 n_layer and, of text number 3,
f32 layers[n_layer][n][n_embd], the residual stream behind each layer (encoders: n_layer 0).

Asserted: no two rows of a text are nearly the same; what lies behind a token changes its row in encoders by more than 2 % of the range, and not at all in the
decoder; the longest text is longer than 256 rows, the window and four pages.

Usage: make_embedding_fixtures.py [NAME...]   Needs: numpy torch transformers gguf safetensors tokenizers; llama-cpp-python for the check.
"""
import ctypes
import json
import math
import shutil
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers as hf
from safetensors.torch import save_file

try:
    import llama_cpp as L
except ImportError:
    L = None

OUT = Path(__file__).resolve().parent.parent / "tests/data/fixtures"
VOCAB = 160
LENGTHS = [1, 7, 64, 65, 150, 300]
MEAN, LAST = 1, 3

BERT = dict(vocab_size=VOCAB, hidden_size=32, num_attention_heads=2, num_hidden_layers=2, intermediate_size=64, type_vocab_size=2,
            layer_norm_eps=1e-12)
FIXTURES = {
    "bert": (1, "bert", MEAN, hf.BertConfig, hf.BertModel, dict(BERT, max_position_embeddings=320, hidden_act="gelu")),
    "nomic-bert": (2, "nomic-bert", MEAN, hf.NomicBertConfig, hf.NomicBertModel, dict(
        BERT, max_position_embeddings=512, hidden_act="silu", rope_parameters=dict(rope_type="default", rope_theta=1000.0))),
    "qwen3-embedding": (3, "qwen3", LAST, hf.Qwen3Config, hf.Qwen3Model, dict(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
        max_position_embeddings=512, rms_norm_eps=1e-6, attention_bias=False, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    "gemma-embedding": (4, "gemma-embedding", MEAN, hf.Gemma3TextConfig, hf.Gemma3TextModel, dict(
        vocab_size=VOCAB, hidden_size=32, head_dim=32, num_attention_heads=2, num_key_value_heads=1, query_pre_attn_scalar=32,
        num_hidden_layers=6, intermediate_size=32, max_position_embeddings=512, rms_norm_eps=1e-6, sliding_window=96,
        use_bidirectional_attention=True, rope_parameters=dict(
            full_attention=dict(rope_type="default", rope_theta=1000000.0),
            sliding_attention=dict(rope_type="default", rope_theta=10000.0)))),
}
DENSE = (48, 32)  # rows of the two dense layers of gemma-embedding


def make_model(name):
    seed, arch, _, cls_config, cls_model, config = FIXTURES[name]
    cfg = cls_config(**config, pad_token_id=0, **({} if "Bert" in cls_model.__name__ else dict(bos_token_id=None, eos_token_id=None)))
    cfg._attn_implementation = "eager"
    model = (cls_model(cfg, add_pooling_layer=False) if "Bert" in cls_model.__name__ else cls_model(cfg)).float().eval()
    rng = np.random.default_rng([seed, sum(map(ord, arch))])
    for key, p in model.named_parameters():
        p.data = torch.from_numpy(random_weight(key, tuple(p.shape), arch, rng).astype(np.float32))
    dense = []
    if arch == "gemma-embedding":
        for rows, cols in ((DENSE[0], 32), (DENSE[1], DENSE[0])):
            dense.append(rng.normal(0, 1 / math.sqrt(cols), (rows, cols)).astype(np.float32))
    return model, dense


def random_weight(key, shape, arch, rng):
    if len(shape) == 1:
        if key.endswith("bias"):
            return rng.normal(0, 0.2, shape)
        scale = rng.uniform(0.6, 1.6, shape)
        return scale - 1 if arch == "gemma-embedding" else scale
    if "embed" in key:
        return rng.normal(0, 0.3, shape)
    gain = 2.0 if any(s in key for s in ("query", "key", "q_proj", "k_proj")) else 1.0  # attention that prefers some tokens
    return rng.normal(0, gain / math.sqrt(shape[1]), shape)


def hidden_states(model, ids):
    """f32 [len(ids)][n_embd]"""
    with torch.no_grad():
        kw = {} if "Bert" in type(model).__name__ else dict(use_cache=False)
        return model(input_ids=torch.tensor([ids]), **kw).last_hidden_state[0].numpy()


def layer_states(model, ids):
    """f32 [n_layer][len(ids)][n_embd]: what each layer hands on."""
    out = []
    hooks = [layer.register_forward_hook(lambda m, i, o: out.append((o[0] if isinstance(o, tuple) else o)[0].numpy())) for layer in model.layers]
    hidden_states(model, ids)
    for h in hooks:
        h.remove()
    return out


def vector(rows, pooling, dense):
    v = rows.mean(0, dtype=np.float64) if pooling == MEAN else rows[-1].astype(np.float64)
    for w in dense:
        v = w.astype(np.float64) @ v
    return (v / np.linalg.norm(v)).astype(np.float32)


def check(name, model, texts, rows):
    causal = FIXTURES[name][1] == "qwen3"
    spread = max(r.max() for r in rows) - min(r.min() for r in rows)
    longest = texts[-1]
    other = hidden_states(model, longest[:150] + [(t + 7) % VOCAB for t in longest[150:]])
    moved = np.abs(other[:150] - rows[-1][:150]).max() / spread
    assert (moved == 0) if causal else (moved > 0.02), f"{name}: what lies behind moves {moved}"
    d = np.abs(rows[-1][:, None] - rows[-1][None]).max(2) + np.eye(len(longest))
    assert d.min() > 1e-3, f"{name}: two rows are alike"


# ---------------------------------------------------------------- GGUF

LAYER = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
         "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up",
         "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "pre_feedforward_layernorm": "ffn_norm",
         "post_feedforward_layernorm": "post_ffw_norm", "post_mlp_layernorm": "layer_output_norm"}
POST_ATTENTION = {"nomic-bert": "attn_output_norm", "qwen3": "ffn_norm", "gemma-embedding": "post_attention_norm"}
TOP = {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
       "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm", "embed_tokens": "token_embd",
       "norm": "output_norm"}


def tensors(model, dense, arch):
    out, qkv = [], {}
    for key, p in model.named_parameters():
        w = p.detach().numpy()
        if arch == "gemma-embedding" and key.endswith("norm.weight"):
            w = w + np.float32(1)
        stem, kind = key.rsplit(".", 1)
        if stem in TOP:
            out.append((f"{TOP[stem]}.{kind}", w))
            continue
        _, layer, part = stem.removeprefix("encoder.").split(".", 2)
        own = POST_ATTENTION[arch] if part == "post_attention_layernorm" else LAYER[part]
        if arch == "nomic-bert" and own in ("attn_q", "attn_k", "attn_v"):  # one matrix there
            qkv.setdefault(layer, []).append((own, w))
            if len(qkv[layer]) == 3:
                assert [n for n, _ in qkv[layer]] == ["attn_q", "attn_k", "attn_v"]
                out.append((f"blk.{layer}.attn_qkv.weight", np.concatenate([m for _, m in qkv[layer]])))
            continue
        out.append((f"blk.{layer}.{own}.{kind}", w))
    return out + [(f"dense_{i + 2}.weight", w) for i, w in enumerate(dense)]


def word_pieces():
    """A small WordPiece vocabulary in huggingface's spelling."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + list(".,!?'-") + list("0123456789") + list(letters)
    pieces += ["##" + c for c in "0123456789" + letters]
    pieces += "the a an is are was to of and in it you he she cat dog sat on mat how what who bank river red sky blue sun".split()
    pieces += ["##" + s for s in "s ing ed er ly est ness tion ment able".split()]
    pieces = list(dict.fromkeys(pieces))
    return pieces + [f"[unused{i}]" for i in range(VOCAB - len(pieces))]


def write_gguf(name, model, dense, kind=None):
    """kind: what matrices are quantised to; that file has no golden."""
    _, arch, pooling, _, _, _ = FIXTURES[name]
    cfg = model.config
    w = gguf.GGUFWriter(str(OUT / f"{name}{'-' + kind.name.lower() if kind else ''}.gguf"), arch)
    w.add_name(f"libinfer fixture {name}")
    w.add_vocab_size(VOCAB)
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_block_count(cfg.num_hidden_layers)
    w.add_feed_forward_length(cfg.intermediate_size)
    w.add_head_count(cfg.num_attention_heads)
    w.add_pooling_type(gguf.PoolingType(pooling))
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    if "bert" in arch:
        w.add_layer_norm_eps(cfg.layer_norm_eps)
        w.add_causal_attention(False)
        w.add_token_type_count(cfg.type_vocab_size)
        if arch == "nomic-bert":
            w.add_rope_freq_base(cfg.rope_parameters["rope_theta"])
    else:
        w.add_head_count_kv(cfg.num_key_value_heads)
        w.add_key_length(cfg.head_dim)
        w.add_value_length(cfg.head_dim)
        w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
        rope = cfg.rope_parameters
        w.add_rope_freq_base(rope["rope_theta"] if arch == "qwen3" else rope["full_attention"]["rope_theta"])
    if arch == "gemma-embedding":
        w.add_sliding_window(FIXTURES[name][5]["sliding_window"])  # as in config.json: transformers halves it when it reads that
        for kind, m in zip(("dense_2", "dense_3"), dense):
            w.add_dense_features_dims(kind, m.shape[1], m.shape[0])
    if name == "bert":
        pieces = word_pieces()
        w.add_tokenizer_model("bert")
        w.add_tokenizer_pre("default")
        w.add_token_list([p if p.startswith("[") else p[2:] if p.startswith("##") else "\u2581" + p for p in pieces])
        w.add_token_types([3 if p.startswith("[") else 1 for p in pieces])
        for key, id in (("padding", 0), ("unknown", 1), ("cls", 2), ("seperator", 3), ("mask", 4)):
            w.add_uint32(f"tokenizer.ggml.{key}_token_id", id)
    else:
        w.add_tokenizer_model("none")
    for key, data in tensors(model, dense, arch):
        if kind and data.ndim == 2 and key != "position_embd.weight":
            w.add_tensor(key, gguf.quants.quantize(np.ascontiguousarray(data), kind), raw_dtype=kind)
        else:
            w.add_tensor(key, np.ascontiguousarray(data))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


# ---------------------------------------------------------------- the folder

def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def write_folder(name, model, dense):
    """As sentence-transformers keeps a model."""
    _, arch, pooling, _, _, _ = FIXTURES[name]
    at, st = OUT / name, "sentence_transformers.models."
    shutil.rmtree(at, ignore_errors=True)
    model.save_pretrained(at)
    for extra in ("generation_config.json",):
        (at / extra).unlink(missing_ok=True)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")] + [(f"{i + 2}_Dense", "Dense") for i in range(len(dense))]
    modules.append((f"{len(modules)}_Normalize", "Normalize"))
    write_json(at / "modules.json", [dict(idx=i, name=str(i), path=p, type=st + t) for i, (p, t) in enumerate(modules)])
    write_json(at / "1_Pooling/config.json", dict(
        word_embedding_dimension=model.config.hidden_size, pooling_mode_cls_token=False, pooling_mode_mean_tokens=pooling == MEAN,
        pooling_mode_max_tokens=False, pooling_mode_mean_sqrt_len_tokens=False, pooling_mode_lasttoken=pooling == LAST))
    for i, m in enumerate(dense):
        write_json(at / f"{i + 2}_Dense/config.json", dict(in_features=m.shape[1], out_features=m.shape[0], bias=False,
                                                          activation_function="torch.nn.modules.linear.Identity"))
        save_file({"linear.weight": torch.from_numpy(m)}, at / f"{i + 2}_Dense/model.safetensors")
    if name == "bert":
        write_json(at / "sentence_bert_config.json", dict(max_seq_length=200, do_lower_case=False))
        write_tokenizer(at)


def write_tokenizer(at):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    pieces = word_pieces()
    t = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.save(str(at / "tokenizer.json"))
    write_json(at / "tokenizer_config.json", dict(tokenizer_class="BertTokenizer", do_lower_case=True, unk_token="[UNK]", sep_token="[SEP]",
                                                  pad_token="[PAD]", cls_token="[CLS]", mask_token="[MASK]", model_max_length=320))


# ---------------------------------------------------------------- llama.cpp

class Oracle:
    """Its hidden states; GELU there goes through a table in f16."""

    def __init__(self, path, n_ctx=512):
        self.quiet = L.llama_log_callback(lambda level, text, user: None)
        L.llama_log_set(self.quiet, ctypes.c_void_p(0))
        L.llama_backend_init()
        mp = L.llama_model_default_params()
        mp.n_gpu_layers, mp.use_extra_bufts = 0, False
        self.model = L.llama_model_load_from_file(str(path).encode(), mp)
        assert self.model, path
        cp = L.llama_context_default_params()
        cp.n_ctx = cp.n_batch = cp.n_ubatch = n_ctx
        cp.n_threads = cp.n_threads_batch = 1
        cp.embeddings, cp.pooling_type, cp.type_k, cp.type_v = True, L.LLAMA_POOLING_TYPE_NONE, 0, 0
        cp.flash_attn_type = L.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.ctx = L.llama_init_from_model(self.model, cp)
        self.n_embd = L.llama_model_n_embd(self.model)

    def rows(self, ids):
        """f32 [len(ids)][n_embd]"""
        if L.llama_get_memory(self.ctx):
            L.llama_memory_clear(L.llama_get_memory(self.ctx), True)
        batch = L.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, t in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = int(t), i, 1, 0, 1
        assert L.llama_decode(self.ctx, batch) == 0
        out = np.stack([np.array(np.ctypeslib.as_array(L.llama_get_embeddings_ith(self.ctx, i), (self.n_embd,))) for i in range(len(ids))])
        L.llama_batch_free(batch)
        return out


def build(name):
    seed, arch, pooling, _, _, _ = FIXTURES[name]
    model, dense = make_model(name)
    rng = np.random.default_rng([seed, 99])
    texts = [rng.integers(5, VOCAB, n).tolist() for n in LENGTHS]
    rows = [hidden_states(model, t) for t in texts]
    check(name, model, texts, rows)
    write_gguf(name, model, dense)
    if name == "bert":
        write_gguf(name, model, dense, gguf.GGMLQuantizationType.Q8_0)
    write_folder(name, model, dense)
    width = DENSE[1] if dense else model.config.hidden_size
    with open(OUT / f"{name}.embed", "wb") as f:
        f.write(b"IEMBD\0\0\1" + struct.pack("<4I", len(texts), model.config.hidden_size, width, pooling))
        for t, r in zip(texts, rows):
            f.write(struct.pack("<I", len(t)) + np.array(t, "<i4").tobytes() + r.astype("<f4").tobytes())
            f.write(vector(r, pooling, dense).astype("<f4").tobytes())
        layers = layer_states(model, texts[3]) if arch == "qwen3" else []
        f.write(struct.pack("<I", len(layers)) + b"".join(x.reshape(len(texts[3]), -1).astype("<f4").tobytes() for x in layers))
    note = "llama.cpp not installed"
    if L:
        for w in dense:  # llama.cpp puts every row through them
            rows = [r @ w.T for r in rows]
        spread = max(r.max() for r in rows) - min(r.min() for r in rows)
        oracle = Oracle(OUT / f"{name}.gguf")
        error = max(np.abs(oracle.rows(t) - r).max() for t, r in zip(texts, rows)) / spread
        note = f"llama.cpp within {error:.1e} of range"
        if error > 3e-3:
            raise SystemExit(f"{name}: does not agree: {note}")
    print(f"{name}: seed {seed}, texts of {LENGTHS}, {note}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or FIXTURES:
        build(name)
