#!/usr/bin/env python3
"""Prompt and generation speed of this library and of llama.cpp, run alternately on the same file, threads and lengths.

    scripts/bench_peers.py MODEL.gguf [--lib build-release/lib/libinfer.so] [-p 512] [-n 64] [-t 2] [-r 7]

Prints medians and the ratio of each round's pair. Needs: llama-cpp-python numpy. llama.cpp runs with its defaults (f16 KV, flash attention
auto) but for --no-repack, for machines where its rearranged layouts crash.
"""
import argparse
import ctypes as C
import statistics
import sys
import time


class Error(C.Structure):
    _fields_ = [("size", C.c_uint32), ("code", C.c_int32), ("offset", C.c_uint64), ("file", C.c_char * 256),
                ("name", C.c_char * 128), ("text", C.c_char * 512)]


class EngineOptions(C.Structure):
    _fields_ = [("size", C.c_uint32), ("cpu", C.c_int32), ("numerics", C.c_int32), ("threads", C.c_uint32), ("kv_budget", C.c_uint64),
                ("allocator", C.c_void_p), ("log", C.c_void_p), ("log_user", C.c_void_p), ("log_level", C.c_int32), ("reserved", C.c_uint32)]


class StepItem(C.Structure):
    _fields_ = [("size", C.c_uint32), ("status", C.c_int32), ("session", C.c_void_p), ("max_elements", C.c_uint64), ("mask", C.c_void_p),
                ("logits", C.c_int32), ("reserved", C.c_uint32), ("done", C.c_uint64)]


class Ours:
    def __init__(self, lib, path, threads):
        self.l, self.err = C.CDLL(lib), Error(C.sizeof(Error))
        engine, self.model = C.c_void_p(), C.c_void_p()
        o = EngineOptions(C.sizeof(EngineOptions), 0, 0, threads)
        self.check(self.l.infer_engine_create(C.byref(o), C.byref(engine), C.byref(self.err)))
        self.check(self.l.infer_model_open_path(engine, path.encode(), C.byref(self.model), C.byref(self.err)))

    def check(self, st):
        if st:
            sys.exit(self.err.text.decode())

    def run(self, ids, n):
        s = C.c_void_p()
        self.check(self.l.infer_session_create(self.model, None, C.byref(s), C.byref(self.err)))

        def feed(tokens):
            self.check(self.l.infer_session_append(s, (C.c_int32 * len(tokens))(*tokens), C.c_uint64(len(tokens)), C.byref(self.err)))
            item = StepItem(C.sizeof(StepItem), 0, s)
            self.check(self.l.infer_step(C.byref(item), C.c_uint64(1), None, C.byref(self.err)))

        t0 = time.perf_counter()
        feed(ids)
        t1 = time.perf_counter()
        for i in range(n):
            feed([ids[i]])
        t2 = time.perf_counter()
        self.l.infer_session_release(s)
        return len(ids) / (t1 - t0), n / (t2 - t1)


class Llama:
    def __init__(self, path, threads, n_ctx, repack):
        import llamacpp_logits
        self.e = llamacpp_logits.Engine(path, n_ctx, threads=threads, repack=repack)

    def run(self, ids, n):
        import llama_cpp as L
        L.llama_memory_clear(L.llama_get_memory(self.e.ctx), True)

        def feed(tokens):
            array = (L.llama_token * len(tokens))(*tokens) # the batch only points to it
            batch = L.llama_batch_get_one(array, len(tokens))
            if L.llama_decode(self.e.ctx, batch):
                sys.exit("llama_decode failed")
            L.llama_get_logits_ith(self.e.ctx, -1)

        t0 = time.perf_counter()
        feed(ids)
        t1 = time.perf_counter()
        for i in range(n):
            feed([ids[i]])
        t2 = time.perf_counter()
        return len(ids) / (t1 - t0), n / (t2 - t1)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("model")
    a.add_argument("--lib", default="build-release/lib/libinfer.so")
    a.add_argument("-p", type=int, default=512)
    a.add_argument("-n", type=int, default=64)
    a.add_argument("-t", type=int, default=2)
    a.add_argument("-r", type=int, default=7)
    a.add_argument("--no-repack", action="store_true")
    o = a.parse_args()
    ids = [1 + (i * 7919) % 10000 for i in range(o.p)]
    engines = {"libinfer": Ours(o.lib, o.model, o.t), "llama.cpp": Llama(o.model, o.t, o.p + o.n, not o.no_repack)}
    got = {name: [] for name in engines}
    for name, e in engines.items():
        e.run(ids[:32], 4)  # warm
    for _ in range(o.r):
        for name, e in engines.items():
            got[name].append(e.run(ids, o.n))
    for name, runs in got.items():
        print(f"{name}: prompt {statistics.median(r[0] for r in runs):.1f} tokens/s, generation {statistics.median(r[1] for r in runs):.1f} tokens/s")
    for i, what in enumerate(("prompt", "generation")):
        ratios = sorted(x[i] / y[i] for x, y in zip(got["libinfer"], got["llama.cpp"]))
        print(f"{what}: ratio {statistics.median(ratios):.2f} (rounds from {ratios[0]:.2f} to {ratios[-1]:.2f})")


main()
