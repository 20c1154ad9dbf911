"""Logits from llama.cpp (the llama-cpp-python package), as an independent check. Used by make_fixtures.py and accuracy.py."""
import contextlib
import ctypes

import llama_cpp as L
import numpy as np

_QUIET = L.llama_log_callback(lambda level, text, user: None)


class Engine:
    """One model and one context; every call starts from an empty cache."""

    def __init__(self, path, n_ctx, kv="f16", flash=None, threads=1, repack=True):
        """kv: f16 (llama.cpp's default) or f32. flash: None for llama.cpp's own choice, else True or False.
        repack: its rearranged weight layouts (its default), which on some machines crash on very small matrices."""
        L.llama_log_set(_QUIET, ctypes.c_void_p(0))
        L.llama_backend_init()
        mp = L.llama_model_default_params()
        mp.n_gpu_layers = 0
        mp.use_extra_bufts = repack
        self.model = L.llama_model_load_from_file(str(path).encode(), mp)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        cp = L.llama_context_default_params()
        cp.n_ctx = cp.n_batch = cp.n_ubatch = n_ctx
        cp.n_threads = cp.n_threads_batch = threads
        cp.type_k = cp.type_v = {"f16": 1, "f32": 0}[kv]
        if flash is not None:
            cp.flash_attn_type = L.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else L.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.ctx = L.llama_init_from_model(self.model, cp)
        if not self.ctx:
            raise RuntimeError(f"llama.cpp cannot make a context for {path}")
        self.vocab = L.llama_model_get_vocab(self.model)
        self.n_vocab = L.llama_vocab_n_tokens(self.vocab)

    def logits(self, ids):
        """f32 [len(ids)][n_vocab]"""
        L.llama_memory_clear(L.llama_get_memory(self.ctx), True)
        batch = L.llama_batch_init(len(ids), 0, 1)
        try:
            batch.n_tokens = len(ids)
            for i, t in enumerate(ids):
                batch.token[i], batch.pos[i] = int(t), i
                batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = 1, 0, 1
            rc = L.llama_decode(self.ctx, batch)
            if rc:
                raise RuntimeError(f"llama_decode: {rc}")
            out = np.empty((len(ids), self.n_vocab), np.float32)
            for i in range(len(ids)):
                out[i] = np.ctypeslib.as_array(L.llama_get_logits_ith(self.ctx, i), (self.n_vocab,))
            return out
        finally:
            L.llama_batch_free(batch)

    def tokenize(self, text, add_special):
        raw = text.encode()
        ids = (L.llama_token * (len(raw) + 8))()
        n = L.llama_tokenize(self.vocab, raw, len(raw), ids, len(ids), add_special, False)
        if n < 0:
            raise RuntimeError("llama_tokenize")
        return list(ids[:n])

    def close(self):
        L.llama_free(self.ctx)
        L.llama_model_free(self.model)


@contextlib.contextmanager
def engine(*args, **kwargs):
    e = Engine(*args, **kwargs)
    try:
        yield e
    finally:
        e.close()
