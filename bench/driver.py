#!/usr/bin/env python3
"""One engine, one process, one measurement: prints one JSON object. Started by vs-peers; also useful alone.

    driver.py ENGINE MODEL.gguf [-p 512] [-n 32] [-t 2] [--mode speed|start|batch] [--batch 16] [--depth 256]

ENGINE is infer (needs --lib libinfer.so), ik (ik-llama-cpp-python) or llama (llama-cpp-python). All three are called through ctypes at the
lowest level of their C interface, with the same token ids, and generation feeds given ids instead of sampled ones, so that nothing but
the forward pass and the handing over of one row of logits is timed.

speed: prompt tokens/s over p tokens, then generated tokens/s over n tokens at that depth, after a short warm-up run.
start: time from the start of a fresh process until the first logits after a p-token prompt; the process is a child of this one.
batch: tokens/s of B sequences stepped together, and of one alone, each at depth `--depth`.
"""
import argparse
import ctypes as C
import importlib
import importlib.util
import json
import subprocess
import sys
import time
import types
from pathlib import Path

KV_F16 = 1  # ggml's number of the type
UBATCH = 512


def token_ids(count, first=0):
    """The same for every engine; all at most 1,000, so inside any vocabulary."""
    return [1 + ((first + i) * 7919) % 1000 for i in range(count)]


def peak_rss_mb():
    """VmHWM counts the pages of the mapped file too. In MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return None


def bare_package(name):
    """The package's own __init__ imports numpy and more, which would count as start-up time: only its ctypes module is wanted."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise SystemExit(f"{name} is not installed")
    package = types.ModuleType(name)
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules[name] = package


# ---------------------------------------------------------------- libinfer

class Error(C.Structure):
    _fields_ = [("size", C.c_uint32), ("code", C.c_int32), ("offset", C.c_uint64), ("file", C.c_char * 256),
                ("name", C.c_char * 128), ("text", C.c_char * 512)]


class EngineOptions(C.Structure):
    _fields_ = [("size", C.c_uint32), ("cpu", C.c_int32), ("numerics", C.c_int32), ("threads", C.c_uint32), ("kv_budget", C.c_uint64),
                ("allocator", C.c_void_p), ("log", C.c_void_p), ("log_user", C.c_void_p), ("log_level", C.c_int32), ("reserved", C.c_uint32)]


class OpenOptions(C.Structure):
    _fields_ = [("size", C.c_uint32), ("map", C.c_int32), ("cancel", C.c_void_p)]


class StepItem(C.Structure):
    _fields_ = [("size", C.c_uint32), ("status", C.c_int32), ("session", C.c_void_p), ("max_elements", C.c_uint64), ("mask", C.c_void_p),
                ("logits", C.c_int32), ("reserved", C.c_uint32), ("done", C.c_uint64)]


class Infer:
    numerics = {"exact": 0, "precise": 1, "fast": 2}

    def __init__(self, o):
        if not o.lib:
            raise SystemExit("libinfer needs --lib")
        self.l, self.err = C.CDLL(o.lib), Error(C.sizeof(Error))
        self.engine, self.model, self.sessions = C.c_void_p(), C.c_void_p(), []
        options = EngineOptions(C.sizeof(EngineOptions), 0, self.numerics[o.numerics], o.threads)
        self.check(self.l.infer_engine_create(C.byref(options), C.byref(self.engine), C.byref(self.err)))
        path, source = o.model.encode(), C.create_string_buffer(1024)  # larger than the structure, which the library fills
        self.l.infer_source_path(source, path, C.c_uint64(len(path)))
        how = OpenOptions(C.sizeof(OpenOptions), 0 if o.mmap else 2)
        self.check(self.l.infer_model_open(self.engine, source, C.byref(how), C.byref(self.model), C.byref(self.err)))

    def check(self, status):
        if status:
            raise SystemExit(f"libinfer: {self.err.text.decode()}")

    def reset(self, count=1):
        for s in self.sessions:
            self.l.infer_session_release(s)
        self.sessions = []
        for _ in range(count):
            s = C.c_void_p()
            self.check(self.l.infer_session_create(self.model, None, C.byref(s), C.byref(self.err)))
            self.sessions.append(s)

    def append(self, s, ids):
        self.check(self.l.infer_session_append(s, (C.c_int32 * len(ids))(*ids), C.c_uint64(len(ids)), C.byref(self.err)))

    def step(self, sessions):
        items = (StepItem * len(sessions))(*[StepItem(C.sizeof(StepItem), 0, s) for s in sessions])
        self.check(self.l.infer_step(items, C.c_uint64(len(sessions)), None, C.byref(self.err)))
        row = C.c_void_p()
        for s in sessions:
            self.check(self.l.infer_session_logits(s, C.c_uint64(0), C.byref(row), None, C.byref(self.err)))

    def feed(self, ids):
        self.append(self.sessions[0], ids)
        self.step(self.sessions[:1])

    def fill(self, which, ids):
        self.append(self.sessions[which], ids)
        self.step(self.sessions[which:which + 1])

    def step_all(self, position, id):
        for s in self.sessions:
            self.append(s, [id])
        self.step(self.sessions)


# ---------------------------------------------------------------- llama.cpp and its fork: nearly the same interface

class Llama:
    def __init__(self, o):
        sys.setdlopenflags(sys.getdlopenflags())
        self.o = o
        self.L = self.bindings()
        self.quiet_log()
        self.L.llama_backend_init()
        mp = self.L.llama_model_default_params()
        mp.n_gpu_layers = 0
        self.model_flags(mp)
        self.model = self.L.llama_model_load_from_file(o.model.encode(), mp)
        if not self.model:
            raise SystemExit(f"{o.engine} cannot load {o.model}")
        self.ctx, self.n_seq, self.n_ctx = None, 1, o.prompt + o.generate + 8

    def bindings(self):
        bare_package("llama_cpp")
        return importlib.import_module("llama_cpp.llama_cpp")

    def quiet_log(self):
        self.callback = self.L.llama_log_callback(lambda level, text, user: None)
        self.L.llama_log_set(self.callback, C.c_void_p(0))

    def model_flags(self, mp):
        mp.use_extra_bufts = self.o.repack
        if hasattr(mp, "load_mode"):  # 0: read into memory, 1: map
            mp.load_mode = int(self.o.mmap)
        else:
            mp.use_mmap = self.o.mmap

    def context_flags(self, cp):
        cp.n_seq_max, cp.kv_unified = self.n_seq, self.n_seq == 1
        cp.flash_attn_type = self.L.LLAMA_FLASH_ATTN_TYPE_ENABLED if self.o.flash else self.L.LLAMA_FLASH_ATTN_TYPE_DISABLED

    def clear(self):
        self.L.llama_memory_clear(self.L.llama_get_memory(self.ctx), True)

    def reset(self, count=1):
        if self.ctx and count == self.n_seq:
            self.clear()
            return
        if self.ctx:
            self.L.llama_free(self.ctx)
        self.n_seq = count
        cp = self.L.llama_context_default_params()
        cp.n_ctx = (self.n_ctx + 255) // 256 * 256 * count
        cp.n_batch = cp.n_ubatch = UBATCH
        cp.n_threads = cp.n_threads_batch = self.o.threads
        cp.type_k = cp.type_v = KV_F16
        self.context_flags(cp)
        self.ctx = self.L.llama_init_from_model(self.model, cp)
        if not self.ctx:
            raise SystemExit(f"{self.o.engine} cannot make a context")

    def decode(self, entries, want):
        """entries: (id, position, sequence); logits of the last `want` of them."""
        batch = self.L.llama_batch_init(len(entries), 0, 1)
        batch.n_tokens = len(entries)
        for i, (id, position, sequence) in enumerate(entries):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = id, position, 1
            batch.seq_id[i][0], batch.logits[i] = sequence, int(i >= len(entries) - want)
        status = self.L.llama_decode(self.ctx, batch)
        self.L.llama_batch_free(batch)
        if status:
            raise SystemExit(f"{self.o.engine}: llama_decode gave {status}")
        for i in range(want):
            if not self.L.llama_get_logits_ith(self.ctx, len(entries) - 1 - i):
                raise SystemExit(f"{self.o.engine}: no logits")

    def fill(self, which, ids, first=0):
        for i in range(0, len(ids), UBATCH):
            part = ids[i:i + UBATCH]
            self.decode([(t, first + i + j, which) for j, t in enumerate(part)], int(i + UBATCH >= len(ids)))

    def feed(self, ids):
        self.fill(0, ids, self.at)
        self.at += len(ids)

    at = 0

    def step_all(self, position, id):
        self.decode([(id, position, s) for s in range(self.n_seq)], self.n_seq)


class Ik(Llama):
    def bindings(self):
        bare_package("ik_llama_cpp")
        L = importlib.import_module("ik_llama_cpp._ctypes_api")
        self.raw = L._lib
        return L

    def quiet_log(self):
        self.callback = C.CFUNCTYPE(None, C.c_int, C.c_char_p, C.c_void_p)(lambda level, text, user: None)
        self.raw.llama_log_set(self.callback, C.c_void_p(0))

    def model_flags(self, mp):
        mp.repack_tensors = self.o.repack
        mp.use_mmap = self.o.mmap and not self.o.repack  # repacking rewrites the weights
        mp.flash_attn = self.o.flash

    def context_flags(self, cp):
        cp.n_seq_max = self.n_seq
        cp.flash_attn = self.o.flash

    def clear(self):
        self.L.llama_kv_cache_clear(self.ctx)


ENGINES = {"infer": Infer, "ik": Ik, "llama": Llama}


# ---------------------------------------------------------------- what is measured

def restart(e, count=1):
    e.reset(count)
    e.at = 0


def speed(o):
    t0 = time.perf_counter()
    e = ENGINES[o.engine](o)
    restart(e)
    load = time.perf_counter() - t0
    e.feed(token_ids(min(32, o.prompt)))
    for i in token_ids(4):
        e.feed([i])
    prompts, generated, ttft = [], [], []
    for _ in range(o.rounds):
        restart(e)
        t0 = time.perf_counter()
        e.feed(token_ids(o.prompt))
        t1 = time.perf_counter()
        for i in token_ids(o.generate, o.prompt):
            e.feed([i])
        t2 = time.perf_counter()
        ttft.append((t1 - t0) * 1e3)
        prompts.append(o.prompt / (t1 - t0))
        generated.append(o.generate / (t2 - t1) if o.generate else None)
    return dict(prompt_tps=max(prompts), gen_tps=max(generated) if o.generate else None, ttft_ms=min(ttft), load_ms=load * 1e3,
                peak_rss_mb=peak_rss_mb())


def start_child(o):
    e = ENGINES[o.engine](o)
    restart(e)
    e.feed(token_ids(o.prompt))
    print(json.dumps(dict(done=time.clock_gettime(time.CLOCK_MONOTONIC), peak_rss_mb=peak_rss_mb())), flush=True)


def start(o):
    t0 = time.clock_gettime(time.CLOCK_MONOTONIC)
    child = subprocess.run([sys.executable, __file__] + sys.argv[1:] + ["--child"],
                           stdout=subprocess.PIPE, check=False)
    if child.returncode:
        raise SystemExit(f"{o.engine}: the child ended with {child.returncode}")
    got = json.loads(child.stdout)
    return dict(start_ms=(got["done"] - t0) * 1e3, peak_rss_mb=got["peak_rss_mb"])


def batch(o):
    o.prompt = o.depth
    e = ENGINES[o.engine](o)
    result = {}
    for count in (1, o.batch):
        restart(e, count)
        for s in range(count):
            e.fill(s, token_ids(o.depth, s))
        t0 = time.perf_counter()
        for i, t in enumerate(token_ids(o.generate)):
            e.step_all(o.depth + i, t)
        result[f"batch_{count}_tps"] = count * o.generate / (time.perf_counter() - t0)
    result["peak_rss_mb"] = peak_rss_mb()
    return result


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("engine", choices=ENGINES)
    a.add_argument("model")
    a.add_argument("--lib", help="libinfer.so")
    a.add_argument("--numerics", choices=Infer.numerics, default="exact", help="libinfer's mode")
    a.add_argument("-p", "--prompt", type=int, default=512)
    a.add_argument("-n", "--generate", type=int, default=32)
    a.add_argument("-t", "--threads", type=int, default=2)
    a.add_argument("-r", "--rounds", type=int, default=1, help="inside the process; the best counts")
    a.add_argument("--mode", choices=["speed", "start", "batch"], default="speed")
    a.add_argument("--batch", type=int, default=16)
    a.add_argument("--depth", type=int, default=256, help="of every sequence in batch mode")
    a.add_argument("--repack", action="store_true", help="peers: rearrange the weights at load")
    a.add_argument("--no-mmap", dest="mmap", action="store_false", help="read the file into memory instead of mapping it")
    a.add_argument("--no-flash", dest="flash", action="store_false", help="peers: without flash attention")
    a.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    o = a.parse_args()
    if o.child:
        start_child(o)
    else:
        print(json.dumps(dict(engine=o.engine, **{"speed": speed, "start": start, "batch": batch}[o.mode](o))))


if __name__ == "__main__":
    main()
