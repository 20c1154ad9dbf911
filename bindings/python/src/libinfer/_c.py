"""The C declarations of include/infer/*.h, for ctypes."""
# Made by bindings/python/generate.py from include/infer/*.h: do not edit.
# pylint: skip-file
# ruff: noqa
from __future__ import annotations

from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_uint8, c_uint32, c_uint64,
                    c_void_p)
from typing import Any

INFER_VERSION_MAJOR = 1
INFER_VERSION_MINOR = 0
INFER_VERSION_PATCH = 0
INFER_VERSION_STRING = "1.0.0"
INFER_ABI_VERSION = 1
INFER_NUMERICS_VERSION = 1
INFER_ZSTR = 0xffffffffffffffff
INFER_CACHE_SALT_MAX = 64

INFER_OK = 0
INFER_ERROR_ARGUMENT = -1
INFER_ERROR_STATE = -2
INFER_ERROR_NO_MEMORY = -3
INFER_ERROR_LIMIT = -4
INFER_ERROR_CANCELLED = -5
INFER_ERROR_UNSUPPORTED = -6
INFER_ERROR_BUFFER = -7
INFER_ERROR_INTERNAL = -8
INFER_ERROR_HOST = -9
INFER_ERROR_IO = -20
INFER_ERROR_NOT_FOUND = -21
INFER_ERROR_FORMAT = -22
INFER_ERROR_TRUNCATED = -23
INFER_ERROR_CHANGED = -24
INFER_ERROR_EXISTS = -25
INFER_ERROR_ARCHITECTURE = -40
INFER_ERROR_MISSING = -41
INFER_ERROR_SHAPE = -42
INFER_ERROR_VALUE = -43
INFER_ERROR_TOKEN = -60
INFER_ERROR_ENCODING = -61
INFER_ERROR_SYNTAX = -62
INFER_ERROR_TEMPLATE = -63
INFER_ERROR_CONTEXT_FULL = -80
INFER_ERROR_NONFINITE = -81
INFER_ERROR_THREAD = -82

INFER_LOG_ERROR = 1
INFER_LOG_WARNING = 2
INFER_LOG_INFO = 3
INFER_LOG_DEBUG = 4

INFER_CPU_AUTO = 0
INFER_CPU_SCALAR = 1
INFER_CPU_AVX2 = 10
INFER_CPU_AVXVNNI = 11
INFER_CPU_AVX512 = 12
INFER_CPU_AVX512VNNI = 13
INFER_CPU_NEON = 30
INFER_CPU_DOTPROD = 31
INFER_CPU_I8MM = 32

INFER_NUMERICS_EXACT = 0
INFER_NUMERICS_PRECISE = 1
INFER_NUMERICS_FAST = 2

INFER_SOURCE_PATH = 1
INFER_SOURCE_DESCRIPTOR = 2
INFER_SOURCE_MEMORY = 3
INFER_SOURCE_CALLBACK = 4

INFER_MAP_AUTO = 0
INFER_MAP_MMAP = 1
INFER_MAP_READ = 2

INFER_TYPE_F32 = 0
INFER_TYPE_F16 = 1
INFER_TYPE_Q4_0 = 2
INFER_TYPE_Q4_1 = 3
INFER_TYPE_Q5_0 = 6
INFER_TYPE_Q5_1 = 7
INFER_TYPE_Q8_0 = 8
INFER_TYPE_Q8_1 = 9
INFER_TYPE_Q2_K = 10
INFER_TYPE_Q3_K = 11
INFER_TYPE_Q4_K = 12
INFER_TYPE_Q5_K = 13
INFER_TYPE_Q6_K = 14
INFER_TYPE_Q8_K = 15
INFER_TYPE_IQ2_XXS = 16
INFER_TYPE_IQ2_XS = 17
INFER_TYPE_IQ3_XXS = 18
INFER_TYPE_IQ1_S = 19
INFER_TYPE_IQ4_NL = 20
INFER_TYPE_IQ3_S = 21
INFER_TYPE_IQ2_S = 22
INFER_TYPE_IQ4_XS = 23
INFER_TYPE_I8 = 24
INFER_TYPE_I16 = 25
INFER_TYPE_I32 = 26
INFER_TYPE_I64 = 27
INFER_TYPE_F64 = 28
INFER_TYPE_IQ1_M = 29
INFER_TYPE_BF16 = 30
INFER_TYPE_TQ1_0 = 34
INFER_TYPE_TQ2_0 = 35
INFER_TYPE_MXFP4 = 39
INFER_TYPE_NVFP4 = 40
INFER_TYPE_Q1_0 = 41
INFER_TYPE_Q2_0 = 42
INFER_TYPE_F8_E4M3 = 64
INFER_TYPE_F8_E5M2 = 65
INFER_TYPE_BOOL = 66
INFER_TYPE_U8 = 67
INFER_TYPE_U16 = 68
INFER_TYPE_U32 = 69
INFER_TYPE_U64 = 70

INFER_VALUE_UINT = 1
INFER_VALUE_INT = 2
INFER_VALUE_FLOAT = 3
INFER_VALUE_BOOL = 4
INFER_VALUE_STRING = 5
INFER_VALUE_ARRAY = 6

INFER_TOKENIZER_BPE = 1
INFER_TOKENIZER_SPM = 2
INFER_TOKENIZER_WORDPIECE = 3
INFER_TOKENIZER_UNIGRAM = 4
INFER_TOKENIZER_WORDLEVEL = 5

INFER_TOKENIZE_ADD_SPECIAL = 1
INFER_TOKENIZE_PARSE_SPECIAL = 2

INFER_DETOKENIZE_SHOW_SPECIAL = 1

INFER_TOKEN_NORMAL = 1
INFER_TOKEN_UNKNOWN = 2
INFER_TOKEN_CONTROL = 3
INFER_TOKEN_USER_DEFINED = 4
INFER_TOKEN_UNUSED = 5
INFER_TOKEN_BYTE = 6

INFER_KV_F16 = 0
INFER_KV_F32 = 1
INFER_KV_BF16 = 2
INFER_KV_INT8 = 3
INFER_KV_INT8_64 = 4
INFER_KV_MIXED_F16 = 5
INFER_KV_MIXED_F32 = 6

INFER_CACHE_NO_LOOKUP = 1
INFER_CACHE_NO_INSERT = 2

INFER_ROWS_LAST = 0
INFER_ROWS_NONE = 1
INFER_ROWS_ALL = 2
INFER_ROWS_MASK = 3

INFER_HIDDEN_FINAL = -1

INFER_EVENT_PREFILL = 1
INFER_EVENT_TOKEN = 2
INFER_EVENT_DONE = 3
INFER_EVENT_SHIFT = 4

INFER_FINISH_STOP = 1
INFER_FINISH_LENGTH = 2
INFER_FINISH_CONTEXT = 3
INFER_FINISH_STOP_STRING = 4
INFER_FINISH_REPETITION = 5
INFER_FINISH_TIME = 6
INFER_FINISH_CANCELLED = 7
INFER_FINISH_ERROR = 8

INFER_GENERATE_IGNORE_EOS = 1
INFER_GENERATE_SHOW_SPECIAL = 2

INFER_ADAPTER_LORA = 1
INFER_ADAPTER_STEERING = 2
INFER_ADAPTER_SOFT_PROMPT = 3
INFER_ADAPTER_PREFIX = 4

INFER_ADAPTER_ADD = 0
INFER_ADAPTER_PROJECT = 1

INFER_POOLING_MODEL = 0
INFER_POOLING_NONE = 1
INFER_POOLING_MEAN = 2
INFER_POOLING_CLS = 3
INFER_POOLING_LAST = 4
INFER_POOLING_RANK = 5

INFER_EMBED_RAW = 1
INFER_EMBED_TRUNCATE = 2
INFER_EMBED_NO_SPECIAL = 4
INFER_EMBED_PARSE_SPECIAL = 8

INFER_STORE_REPLACE = 1

INFER_CACHE_REASON_OFF = 0
INFER_CACHE_REASON_HIT = 1
INFER_CACHE_REASON_ENDS = 2
INFER_CACHE_REASON_DIFFERS = 3
INFER_CACHE_REASON_EVICTED = 4
INFER_CACHE_REASON_OTHER_ADAPTERS = 5
INFER_CACHE_REASON_OTHER_SALT = 6
INFER_CACHE_REASON_OTHER_KV_TYPE = 7
INFER_CACHE_REASON_EMPTY = 8
INFER_CACHE_REASON_FAILED = 9

INFER_SAVE_ZSTD = 1
INFER_SAVE_FULL_MODEL = 2

INFER_VERIFY_FIRST_USE = 0
INFER_VERIFY_LOAD = 1

INFER_FINGERPRINT_QUICK = 1
INFER_FINGERPRINT_FULL = 2

INFER_REQUEST_EVENT_PROMPT = 1
INFER_REQUEST_EVENT_STARTED = 2
INFER_REQUEST_EVENT_TOKEN = 3
INFER_REQUEST_EVENT_DONE = 4
INFER_REQUEST_EVENT_END = 5

INFER_REQUEST_IGNORE_EOS = 1
INFER_REQUEST_SHOW_SPECIAL = 2
INFER_REQUEST_ECHO = 4
INFER_REQUEST_CONTINUE = 8
INFER_REQUEST_KEEP = 16
INFER_REQUEST_PROMPT_ONLY = 32
INFER_REQUEST_PROMPT_LOGPROBS = 64

infer_log_fn = CFUNCTYPE(None, c_void_p, c_int32, c_void_p, c_uint64)

infer_task_fn = CFUNCTYPE(None, c_void_p, c_uint32)


class infer_stream(Structure):
    size: int
    reserved: int
    length: int
    data: int | None
    user: int | None
    read: Any
    release: Any
    _fields_ = [
        ("size", c_uint32),
        ("reserved", c_uint32),
        ("length", c_uint64),
        ("data", c_void_p),
        ("user", c_void_p),
        ("read", CFUNCTYPE(c_int32, c_void_p, c_uint64, c_void_p, c_uint64)),
        ("release", CFUNCTYPE(None, c_void_p)),
    ]

infer_open_fn = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_uint64, POINTER(infer_stream))

infer_logits_fn = CFUNCTYPE(c_int32, c_void_p, POINTER(c_float), c_uint64, POINTER(c_int32), c_uint64)


class infer_logprob(Structure):
    id: int
    logprob: float
    _fields_ = [
        ("id", c_int32),
        ("logprob", c_float),
    ]


class infer_event(Structure):
    size: int
    kind: int
    id: int
    finish_reason: int
    text: int | None
    text_len: int
    done: int
    total: int
    logprob: float
    top_count: int
    top: Any
    stop_index: int
    reserved: int
    _fields_ = [
        ("size", c_uint32),
        ("kind", c_int32),
        ("id", c_int32),
        ("finish_reason", c_int32),
        ("text", c_void_p),
        ("text_len", c_uint64),
        ("done", c_uint64),
        ("total", c_uint64),
        ("logprob", c_float),
        ("top_count", c_uint32),
        ("top", POINTER(infer_logprob)),
        ("stop_index", c_int32),
        ("reserved", c_uint32),
    ]

infer_event_fn = CFUNCTYPE(c_int32, c_void_p, POINTER(infer_event))

infer_clock_fn = CFUNCTYPE(c_uint64, c_void_p)


class infer_error(Structure):
    size: int
    code: int
    offset: int
    file: Any
    name: Any
    text: Any
    _fields_ = [
        ("size", c_uint32),
        ("code", c_int32),
        ("offset", c_uint64),
        ("file", c_char * 256),
        ("name", c_char * 128),
        ("text", c_char * 512),
    ]


class infer_request_event(Structure):
    size: int
    kind: int
    choice: int
    id: int
    finish_reason: int
    stop_index: int
    text: int | None
    text_len: int
    done: int
    total: int
    logprob: float
    top_count: int
    top: Any
    error: Any
    _fields_ = [
        ("size", c_uint32),
        ("kind", c_int32),
        ("choice", c_uint32),
        ("id", c_int32),
        ("finish_reason", c_int32),
        ("stop_index", c_int32),
        ("text", c_void_p),
        ("text_len", c_uint64),
        ("done", c_uint64),
        ("total", c_uint64),
        ("logprob", c_float),
        ("top_count", c_uint32),
        ("top", POINTER(infer_logprob)),
        ("error", POINTER(infer_error)),
    ]

infer_request_fn = CFUNCTYPE(None, c_void_p, c_void_p, POINTER(infer_request_event))


class infer_allocator(Structure):
    size: int
    reserved: int
    user: int | None
    alloc: Any
    free: Any
    _fields_ = [
        ("size", c_uint32),
        ("reserved", c_uint32),
        ("user", c_void_p),
        ("alloc", CFUNCTYPE(c_void_p, c_void_p, c_uint64, c_uint64)),
        ("free", CFUNCTYPE(None, c_void_p, c_void_p, c_uint64, c_uint64)),
    ]


class infer_executor(Structure):
    size: int
    concurrency: int
    user: int | None
    run: Any
    _fields_ = [
        ("size", c_uint32),
        ("concurrency", c_uint32),
        ("user", c_void_p),
        ("run", CFUNCTYPE(c_int32, c_void_p, c_uint32, infer_task_fn, c_void_p)),
    ]


class infer_engine_options(Structure):
    size: int
    cpu: int
    numerics: int
    threads: int
    kv_budget: int
    allocator: Any
    log: Any
    log_user: int | None
    log_level: int
    reserved: int
    executor: Any
    cache_bytes: int
    cache_dir: int | None
    cache_dir_len: int
    cache_dir_bytes: int
    cache_write_bytes: int
    memory_limit: int
    _fields_ = [
        ("size", c_uint32),
        ("cpu", c_int32),
        ("numerics", c_int32),
        ("threads", c_uint32),
        ("kv_budget", c_uint64),
        ("allocator", POINTER(infer_allocator)),
        ("log", infer_log_fn),
        ("log_user", c_void_p),
        ("log_level", c_int32),
        ("reserved", c_uint32),
        ("executor", POINTER(infer_executor)),
        ("cache_bytes", c_uint64),
        ("cache_dir", c_void_p),
        ("cache_dir_len", c_uint64),
        ("cache_dir_bytes", c_uint64),
        ("cache_write_bytes", c_uint64),
        ("memory_limit", c_uint64),
    ]


class infer_engine_info(Structure):
    size: int
    cpu: int
    numerics: int
    threads: int
    kv_bytes: int
    kv_budget: int
    memory_bytes: int
    memory_peak: int
    memory_limit: int
    _fields_ = [
        ("size", c_uint32),
        ("cpu", c_int32),
        ("numerics", c_int32),
        ("threads", c_uint32),
        ("kv_bytes", c_uint64),
        ("kv_budget", c_uint64),
        ("memory_bytes", c_uint64),
        ("memory_peak", c_uint64),
        ("memory_limit", c_uint64),
    ]


class infer_source(Structure):
    size: int
    kind: int
    name: int | None
    name_len: int
    descriptor: int
    data: int | None
    length: int
    user: int | None
    open: Any
    _fields_ = [
        ("size", c_uint32),
        ("kind", c_int32),
        ("name", c_void_p),
        ("name_len", c_uint64),
        ("descriptor", c_int64),
        ("data", c_void_p),
        ("length", c_uint64),
        ("user", c_void_p),
        ("open", infer_open_fn),
    ]


class infer_open_options(Structure):
    size: int
    map: int
    cancel: int | None
    n_ctx: int
    quantise: int
    _fields_ = [
        ("size", c_uint32),
        ("map", c_int32),
        ("cancel", c_void_p),
        ("n_ctx", c_uint32),
        ("quantise", c_int32),
    ]


class infer_tensor_info(Structure):
    size: int
    type: int
    name: int | None
    name_len: int
    shape: Any
    dims: int
    part: int
    offset: int
    data: int | None
    data_len: int
    _fields_ = [
        ("size", c_uint32),
        ("type", c_int32),
        ("name", c_void_p),
        ("name_len", c_uint64),
        ("shape", c_uint64 * 4),
        ("dims", c_uint32),
        ("part", c_uint32),
        ("offset", c_uint64),
        ("data", c_void_p),
        ("data_len", c_uint64),
    ]


class infer_value(Structure):
    size: int
    kind: int
    item_kind: int
    width: int
    count: int
    u: int
    i: int
    f: float
    data: int | None
    _fields_ = [
        ("size", c_uint32),
        ("kind", c_int32),
        ("item_kind", c_int32),
        ("width", c_uint32),
        ("count", c_uint64),
        ("u", c_uint64),
        ("i", c_int64),
        ("f", c_double),
        ("data", c_void_p),
    ]


class infer_tokenizer_info(Structure):
    size: int
    kind: int
    vocab_size: int
    bos: int
    eos: int
    eot: int
    unk: int
    sep: int
    pad: int
    mask: int
    add_bos: int
    add_eos: int
    reserved: int
    _fields_ = [
        ("size", c_uint32),
        ("kind", c_int32),
        ("vocab_size", c_uint32),
        ("bos", c_int32),
        ("eos", c_int32),
        ("eot", c_int32),
        ("unk", c_int32),
        ("sep", c_int32),
        ("pad", c_int32),
        ("mask", c_int32),
        ("add_bos", c_int32),
        ("add_eos", c_int32),
        ("reserved", c_uint32),
    ]


class infer_detokenizer(Structure):
    size: int
    flags: int
    pending_len: int
    started: int
    pending: Any
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("pending_len", c_uint32),
        ("started", c_uint32),
        ("pending", c_uint8 * 16),
    ]


class infer_token_info(Structure):
    size: int
    kind: int
    score: float
    ends_turn: int
    piece: int | None
    piece_len: int
    bytes: int | None
    bytes_len: int
    _fields_ = [
        ("size", c_uint32),
        ("kind", c_int32),
        ("score", c_float),
        ("ends_turn", c_int32),
        ("piece", c_void_p),
        ("piece_len", c_uint64),
        ("bytes", c_void_p),
        ("bytes_len", c_uint64),
    ]


class infer_render_options(Structure):
    size: int
    reserved: int
    now: int
    max_output: int
    max_steps: int
    max_memory: int
    cancel: int | None
    _fields_ = [
        ("size", c_uint32),
        ("reserved", c_uint32),
        ("now", c_int64),
        ("max_output", c_uint64),
        ("max_steps", c_uint64),
        ("max_memory", c_uint64),
        ("cancel", c_void_p),
    ]


class infer_model_info(Structure):
    size: int
    vocab_size: int
    n_layer: int
    n_embd: int
    n_head: int
    n_head_kv: int
    head_dim: int
    n_ctx_train: int
    window: int
    reserved: int
    n_params: int
    weight_bytes: int
    architecture: Any
    name: Any
    tokenizer_problem: Any
    template_problem: Any
    embedding_width: int
    pooling: int
    encoder: int
    embed_tokens: int
    _fields_ = [
        ("size", c_uint32),
        ("vocab_size", c_uint32),
        ("n_layer", c_uint32),
        ("n_embd", c_uint32),
        ("n_head", c_uint32),
        ("n_head_kv", c_uint32),
        ("head_dim", c_uint32),
        ("n_ctx_train", c_uint32),
        ("window", c_uint32),
        ("reserved", c_uint32),
        ("n_params", c_uint64),
        ("weight_bytes", c_uint64),
        ("architecture", c_char * 32),
        ("name", c_char * 128),
        ("tokenizer_problem", c_char * 256),
        ("template_problem", c_char * 256),
        ("embedding_width", c_uint32),
        ("pooling", c_int32),
        ("encoder", c_int32),
        ("embed_tokens", c_uint32),
    ]


class infer_model_memory(Structure):
    size: int
    n_expert: int
    n_expert_used: int
    reserved: int
    weight_bytes: int
    resident_bytes: int
    expert_bytes: int
    expert_resident_bytes: int
    own_bytes: int
    _fields_ = [
        ("size", c_uint32),
        ("n_expert", c_uint32),
        ("n_expert_used", c_uint32),
        ("reserved", c_uint32),
        ("weight_bytes", c_uint64),
        ("resident_bytes", c_uint64),
        ("expert_bytes", c_uint64),
        ("expert_resident_bytes", c_uint64),
        ("own_bytes", c_uint64),
    ]


class infer_estimate_options(Structure):
    size: int
    kv_type: int
    n_ctx: int
    sessions: int
    kv_recent: int
    threads: int
    budget: int
    _fields_ = [
        ("size", c_uint32),
        ("kv_type", c_int32),
        ("n_ctx", c_uint32),
        ("sessions", c_uint32),
        ("kv_recent", c_uint32),
        ("threads", c_uint32),
        ("budget", c_uint64),
    ]


class infer_estimate(Structure):
    size: int
    n_ctx: int
    weight_bytes: int
    mapped_bytes: int
    own_bytes: int
    kv_bytes: int
    scratch_bytes: int
    open_bytes: int
    memory_bytes: int
    total_bytes: int
    _fields_ = [
        ("size", c_uint32),
        ("n_ctx", c_uint32),
        ("weight_bytes", c_uint64),
        ("mapped_bytes", c_uint64),
        ("own_bytes", c_uint64),
        ("kv_bytes", c_uint64),
        ("scratch_bytes", c_uint64),
        ("open_bytes", c_uint64),
        ("memory_bytes", c_uint64),
        ("total_bytes", c_uint64),
    ]


class infer_session_options(Structure):
    size: int
    n_ctx: int
    kv_type: int
    kv_recent: int
    cache_flags: int
    salt_len: int
    salt: int | None
    _fields_ = [
        ("size", c_uint32),
        ("n_ctx", c_uint32),
        ("kv_type", c_int32),
        ("kv_recent", c_uint32),
        ("cache_flags", c_uint32),
        ("salt_len", c_uint32),
        ("salt", c_void_p),
    ]


class infer_message(Structure):
    role: int | None
    role_len: int
    content: int | None
    content_len: int
    _fields_ = [
        ("role", c_void_p),
        ("role_len", c_uint64),
        ("content", c_void_p),
        ("content_len", c_uint64),
    ]


class infer_session_info(Structure):
    size: int
    n_ctx: int
    length: int
    computed: int
    kv_bytes: int
    logits_rows: int
    kv_shared_bytes: int
    kv_mapped_bytes: int
    approximate: int
    kv_recent: int
    adapters: int
    _fields_ = [
        ("size", c_uint32),
        ("n_ctx", c_uint32),
        ("length", c_uint64),
        ("computed", c_uint64),
        ("kv_bytes", c_uint64),
        ("logits_rows", c_uint64),
        ("kv_shared_bytes", c_uint64),
        ("kv_mapped_bytes", c_uint64),
        ("approximate", c_int32),
        ("kv_recent", c_uint32),
        ("adapters", c_uint64),
    ]


class infer_hidden(Structure):
    size: int
    elements: int
    mask: int | None
    layers: Any
    layer_count: int
    reserved: int
    out: Any
    capacity: int
    rows: int
    _fields_ = [
        ("size", c_uint32),
        ("elements", c_int32),
        ("mask", c_void_p),
        ("layers", POINTER(c_int32)),
        ("layer_count", c_uint32),
        ("reserved", c_uint32),
        ("out", POINTER(c_float)),
        ("capacity", c_uint64),
        ("rows", c_uint64),
    ]


class infer_step_item(Structure):
    size: int
    status: int
    session: int | None
    max_elements: int
    mask: int | None
    logits: int
    reserved: int
    done: int
    hidden: Any
    _fields_ = [
        ("size", c_uint32),
        ("status", c_int32),
        ("session", c_void_p),
        ("max_elements", c_uint64),
        ("mask", c_void_p),
        ("logits", c_int32),
        ("reserved", c_uint32),
        ("done", c_uint64),
        ("hidden", POINTER(infer_hidden)),
    ]


class infer_bias(Structure):
    id: int
    bias: float
    _fields_ = [
        ("id", c_int32),
        ("bias", c_float),
    ]


class infer_sampling(Structure):
    size: int
    top_k: int
    temperature: float
    top_p: float
    min_p: float
    typical_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    penalty_last_n: int
    seed: int
    bias: Any
    bias_count: int
    callback: Any
    callback_user: int | None
    top_logprobs: int
    logprobs: int
    _fields_ = [
        ("size", c_uint32),
        ("top_k", c_uint32),
        ("temperature", c_float),
        ("top_p", c_float),
        ("min_p", c_float),
        ("typical_p", c_float),
        ("repetition_penalty", c_float),
        ("presence_penalty", c_float),
        ("frequency_penalty", c_float),
        ("penalty_last_n", c_uint32),
        ("seed", c_uint64),
        ("bias", POINTER(infer_bias)),
        ("bias_count", c_uint64),
        ("callback", infer_logits_fn),
        ("callback_user", c_void_p),
        ("top_logprobs", c_uint32),
        ("logprobs", c_int32),
    ]


class infer_sample_result(Structure):
    size: int
    id: int
    logprob: float
    top_count: int
    top: Any
    _fields_ = [
        ("size", c_uint32),
        ("id", c_int32),
        ("logprob", c_float),
        ("top_count", c_uint32),
        ("top", POINTER(infer_logprob)),
    ]


class infer_score(Structure):
    size: int
    top_logprobs: int
    logprobs: Any
    top: Any
    first: int
    sum: float
    _fields_ = [
        ("size", c_uint32),
        ("top_logprobs", c_uint32),
        ("logprobs", POINTER(c_float)),
        ("top", POINTER(infer_logprob)),
        ("first", c_uint64),
        ("sum", c_double),
    ]


class infer_text(Structure):
    text: int | None
    text_len: int
    _fields_ = [
        ("text", c_void_p),
        ("text_len", c_uint64),
    ]


class infer_generate_options(Structure):
    size: int
    flags: int
    max_tokens: int
    shift_keep: int
    shift_drop: int
    stops: Any
    stop_count: int
    stop_ids: Any
    stop_id_count: int
    repeat_guard: int
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("max_tokens", c_uint64),
        ("shift_keep", c_uint64),
        ("shift_drop", c_uint64),
        ("stops", POINTER(infer_text)),
        ("stop_count", c_uint64),
        ("stop_ids", POINTER(c_int32)),
        ("stop_id_count", c_uint64),
        ("repeat_guard", c_uint64),
    ]


class infer_adapter_info(Structure):
    size: int
    kind: int
    hash: Any
    targets: int
    bytes: int
    own_bytes: int
    rank: int
    rows: int
    invocation_count: int
    reserved: int
    base: Any
    _fields_ = [
        ("size", c_uint32),
        ("kind", c_int32),
        ("hash", c_uint8 * 16),
        ("targets", c_uint64),
        ("bytes", c_uint64),
        ("own_bytes", c_uint64),
        ("rank", c_uint32),
        ("rows", c_uint32),
        ("invocation_count", c_uint32),
        ("reserved", c_uint32),
        ("base", c_char * 128),
    ]


class infer_adapter_use(Structure):
    size: int
    mode: int
    adapter: int | None
    scale: float
    first_layer: int
    layer_count: int
    reserved: int
    _fields_ = [
        ("size", c_uint32),
        ("mode", c_int32),
        ("adapter", c_void_p),
        ("scale", c_float),
        ("first_layer", c_uint32),
        ("layer_count", c_uint32),
        ("reserved", c_uint32),
    ]


class infer_embed_options(Structure):
    size: int
    pooling: int
    flags: int
    dimensions: int
    max_tokens: int
    _fields_ = [
        ("size", c_uint32),
        ("pooling", c_int32),
        ("flags", c_uint32),
        ("dimensions", c_uint32),
        ("max_tokens", c_uint64),
    ]


class infer_embed_item(Structure):
    size: int
    status: int
    text: int | None
    text_len: int
    ids: Any
    id_count: int
    out: Any
    capacity: int
    rows: int
    tokens: int
    truncated: int
    reserved: int
    _fields_ = [
        ("size", c_uint32),
        ("status", c_int32),
        ("text", c_void_p),
        ("text_len", c_uint64),
        ("ids", POINTER(c_int32)),
        ("id_count", c_uint64),
        ("out", POINTER(c_float)),
        ("capacity", c_uint64),
        ("rows", c_uint64),
        ("tokens", c_uint64),
        ("truncated", c_int32),
        ("reserved", c_uint32),
    ]


class infer_checkpoint_info(Structure):
    size: int
    n_ctx: int
    kv_type: int
    approximate: int
    length: int
    computed: int
    kv_bytes: int
    kv_shared_bytes: int
    kv_mapped_bytes: int
    logits_rows: int
    generating: int
    kv_recent: int
    bytes: int
    adapters: int
    _fields_ = [
        ("size", c_uint32),
        ("n_ctx", c_uint32),
        ("kv_type", c_int32),
        ("approximate", c_int32),
        ("length", c_uint64),
        ("computed", c_uint64),
        ("kv_bytes", c_uint64),
        ("kv_shared_bytes", c_uint64),
        ("kv_mapped_bytes", c_uint64),
        ("logits_rows", c_uint64),
        ("generating", c_int32),
        ("kv_recent", c_uint32),
        ("bytes", c_uint64),
        ("adapters", c_uint64),
    ]


class infer_store_options(Structure):
    size: int
    reserved: int
    max_bytes: int
    max_count: int
    _fields_ = [
        ("size", c_uint32),
        ("reserved", c_uint32),
        ("max_bytes", c_uint64),
        ("max_count", c_uint64),
    ]


class infer_store_entry(Structure):
    size: int
    name_len: int
    bytes: int
    length: int
    computed: int
    kv_type: int
    approximate: int
    name: Any
    _fields_ = [
        ("size", c_uint32),
        ("name_len", c_uint32),
        ("bytes", c_uint64),
        ("length", c_uint64),
        ("computed", c_uint64),
        ("kv_type", c_int32),
        ("approximate", c_int32),
        ("name", c_char * 256),
    ]


class infer_store_info(Structure):
    size: int
    reserved: int
    count: int
    bytes: int
    _fields_ = [
        ("size", c_uint32),
        ("reserved", c_uint32),
        ("count", c_uint64),
        ("bytes", c_uint64),
    ]


class infer_cache_report(Structure):
    size: int
    reason: int
    wanted: int
    reused: int
    rerun: int
    difference: int
    near_length: int
    own_reason: int
    reserved: int
    _fields_ = [
        ("size", c_uint32),
        ("reason", c_int32),
        ("wanted", c_uint64),
        ("reused", c_uint64),
        ("rerun", c_uint64),
        ("difference", c_uint64),
        ("near_length", c_uint64),
        ("own_reason", c_int32),
        ("reserved", c_uint32),
    ]


class infer_cache_stats(Structure):
    size: int
    reserved: int
    lookups: int
    hits: int
    partial_hits: int
    saved: int
    rerun: int
    insertions: int
    evictions: int
    bytes: int
    nodes: int
    ghosts: int
    ghost_bytes: int
    disk_files: int
    disk_bytes: int
    disk_written: int
    disk_skipped: int
    disk_loaded: int
    disk_damaged: int
    _fields_ = [
        ("size", c_uint32),
        ("reserved", c_uint32),
        ("lookups", c_uint64),
        ("hits", c_uint64),
        ("partial_hits", c_uint64),
        ("saved", c_uint64),
        ("rerun", c_uint64),
        ("insertions", c_uint64),
        ("evictions", c_uint64),
        ("bytes", c_uint64),
        ("nodes", c_uint64),
        ("ghosts", c_uint64),
        ("ghost_bytes", c_uint64),
        ("disk_files", c_uint64),
        ("disk_bytes", c_uint64),
        ("disk_written", c_uint64),
        ("disk_skipped", c_uint64),
        ("disk_loaded", c_uint64),
        ("disk_damaged", c_uint64),
    ]


class infer_save_options(Structure):
    size: int
    flags: int
    parent: int | None
    parent_len: int
    level: int
    reserved: int
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("parent", c_void_p),
        ("parent_len", c_uint64),
        ("level", c_int32),
        ("reserved", c_uint32),
    ]


class infer_load_options(Structure):
    size: int
    map: int
    verify: int
    reserved: int
    adapters: int
    _fields_ = [
        ("size", c_uint32),
        ("map", c_int32),
        ("verify", c_int32),
        ("reserved", c_uint32),
        ("adapters", c_uint64),
    ]


class infer_scheduler_options(Structure):
    size: int
    max_active: int
    max_waiting: int
    step_elements: int
    kv_budget: int
    reserve_tokens: int
    clock: Any
    clock_user: int | None
    spill_path: int | None
    spill_path_len: int
    _fields_ = [
        ("size", c_uint32),
        ("max_active", c_uint32),
        ("max_waiting", c_uint32),
        ("step_elements", c_uint32),
        ("kv_budget", c_uint64),
        ("reserve_tokens", c_uint64),
        ("clock", infer_clock_fn),
        ("clock_user", c_void_p),
        ("spill_path", c_void_p),
        ("spill_path_len", c_uint64),
    ]


class infer_scheduler_info(Structure):
    size: int
    active: int
    waiting: int
    suspended: int
    submitted: int
    finished: int
    cancelled: int
    failed: int
    steps: int
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    preemptions: int
    kv_bytes: int
    kv_budget: int
    computed: int
    _fields_ = [
        ("size", c_uint32),
        ("active", c_uint32),
        ("waiting", c_uint64),
        ("suspended", c_uint64),
        ("submitted", c_uint64),
        ("finished", c_uint64),
        ("cancelled", c_uint64),
        ("failed", c_uint64),
        ("steps", c_uint64),
        ("prompt_tokens", c_uint64),
        ("cached_tokens", c_uint64),
        ("generated_tokens", c_uint64),
        ("preemptions", c_uint64),
        ("kv_bytes", c_uint64),
        ("kv_budget", c_uint64),
        ("computed", c_uint64),
    ]


class infer_request_options(Structure):
    size: int
    flags: int
    priority: int
    n: int
    client: int
    ids: Any
    id_count: int
    text: int | None
    text_len: int
    messages: Any
    message_count: int
    render: Any
    text_flags: int
    reserved: int
    session: Any
    checkpoint: int | None
    adapters: Any
    adapter_count: int
    prompts: Any
    prompt_count: int
    sampling: Any
    generate: Any
    time_limit: int
    callback: Any
    callback_user: int | None
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("priority", c_int32),
        ("n", c_uint32),
        ("client", c_uint64),
        ("ids", POINTER(c_int32)),
        ("id_count", c_uint64),
        ("text", c_void_p),
        ("text_len", c_uint64),
        ("messages", POINTER(infer_message)),
        ("message_count", c_uint64),
        ("render", POINTER(infer_render_options)),
        ("text_flags", c_uint32),
        ("reserved", c_uint32),
        ("session", POINTER(infer_session_options)),
        ("checkpoint", c_void_p),
        ("adapters", POINTER(infer_adapter_use)),
        ("adapter_count", c_uint64),
        ("prompts", POINTER(c_void_p)),
        ("prompt_count", c_uint64),
        ("sampling", POINTER(infer_sampling)),
        ("generate", POINTER(infer_generate_options)),
        ("time_limit", c_uint64),
        ("callback", infer_request_fn),
        ("callback_user", c_void_p),
    ]


class infer_request_info(Structure):
    size: int
    cache_reason: int
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    near_length: int
    difference: int
    preemptions: int
    submitted: int
    started: int
    first_token: int
    ended: int
    prompt_logprob: float
    own_reason: int
    reserved: int
    _fields_ = [
        ("size", c_uint32),
        ("cache_reason", c_int32),
        ("prompt_tokens", c_uint64),
        ("cached_tokens", c_uint64),
        ("generated_tokens", c_uint64),
        ("near_length", c_uint64),
        ("difference", c_uint64),
        ("preemptions", c_uint64),
        ("submitted", c_uint64),
        ("started", c_uint64),
        ("first_token", c_uint64),
        ("ended", c_uint64),
        ("prompt_logprob", c_double),
        ("own_reason", c_int32),
        ("reserved", c_uint32),
    ]


# Name -> result, parameters.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "infer_version": (c_char_p, []),
    "infer_abi_version": (c_int32, []),
    "infer_numerics_version": (c_int32, []),
    "infer_capabilities": (c_char_p, []),
    "infer_status_message": (c_char_p, [c_int32]),
    "infer_status_name": (c_char_p, [c_int32]),
    "infer_init": (None, [c_void_p, c_uint32]),
    "infer_cancel_create": (c_int32, [POINTER(c_void_p), POINTER(infer_error)]),
    "infer_cancel_ref": (c_void_p, [c_void_p]),
    "infer_cancel_release": (None, [c_void_p]),
    "infer_cancel_set": (None, [c_void_p]),
    "infer_cancel_clear": (None, [c_void_p]),
    "infer_cancel_is_set": (c_int32, [c_void_p]),
    "infer_engine_create": (c_int32, [POINTER(infer_engine_options), POINTER(c_void_p), POINTER(infer_error)]),
    "infer_engine_ref": (c_void_p, [c_void_p]),
    "infer_engine_release": (None, [c_void_p]),
    "infer_engine_get_info": (c_int32, [c_void_p, POINTER(infer_engine_info), POINTER(infer_error)]),
    "infer_cpu_name": (c_char_p, [c_int32]),
    "infer_cpu_from_name": (c_int32, [c_void_p, c_uint64]),
    "infer_source_path": (None, [POINTER(infer_source), c_void_p, c_uint64]),
    "infer_source_descriptor": (None, [POINTER(infer_source), c_int32]),
    "infer_source_memory": (None, [POINTER(infer_source), c_void_p, c_uint64]),
    "infer_source_callback": (None, [POINTER(infer_source), c_void_p, c_uint64, infer_open_fn, c_void_p]),
    "infer_type_name": (c_char_p, [c_int32]),
    "infer_file_open": (c_int32, [c_void_p, POINTER(infer_source), POINTER(infer_open_options), POINTER(c_void_p), POINTER(infer_error)]),
    "infer_file_ref": (c_void_p, [c_void_p]),
    "infer_file_release": (None, [c_void_p]),
    "infer_file_tensor_count": (c_uint64, [c_void_p]),
    "infer_file_tensor": (c_int32, [c_void_p, c_uint64, POINTER(infer_tensor_info), POINTER(infer_error)]),
    "infer_file_find_tensor": (c_int32, [c_void_p, c_void_p, c_uint64, POINTER(c_uint64), POINTER(infer_error)]),
    "infer_file_tensor_f32": (c_int32, [c_void_p, c_uint64, c_uint64, c_uint64, POINTER(c_float), POINTER(infer_error)]),
    "infer_file_meta_count": (c_uint64, [c_void_p]),
    "infer_file_meta": (c_int32, [c_void_p, c_uint64, POINTER(c_void_p), POINTER(c_uint64), POINTER(infer_value), POINTER(infer_error)]),
    "infer_file_find_meta": (c_int32, [c_void_p, c_void_p, c_uint64, POINTER(infer_value), POINTER(infer_error)]),
    "infer_file_value_item": (c_int32, [c_void_p, POINTER(infer_value), c_uint64, POINTER(infer_value), POINTER(infer_error)]),
    "infer_tokenizer_open": (c_int32, [c_void_p, POINTER(infer_source), POINTER(infer_open_options), POINTER(c_void_p), POINTER(infer_error)]),
    "infer_tokenizer_ref": (c_void_p, [c_void_p]),
    "infer_tokenizer_release": (None, [c_void_p]),
    "infer_tokenizer_get_info": (c_int32, [c_void_p, POINTER(infer_tokenizer_info), POINTER(infer_error)]),
    "infer_tokenize": (c_int32, [c_void_p, c_void_p, c_uint64, c_uint32, POINTER(c_int32), c_uint64, POINTER(c_uint64), POINTER(infer_error)]),
    "infer_detokenize": (c_int32, [c_void_p, POINTER(c_int32), c_uint64, c_uint32, c_void_p, c_uint64, POINTER(c_uint64), POINTER(infer_error)]),
    "infer_detokenizer_next": (c_int32, [c_void_p, POINTER(infer_detokenizer), c_int32, c_void_p, c_uint64, POINTER(c_uint64), POINTER(infer_error)]),
    "infer_tokenizer_token": (c_int32, [c_void_p, c_int32, POINTER(infer_token_info), POINTER(infer_error)]),
    "infer_template_parse": (c_int32, [c_void_p, c_void_p, c_uint64, POINTER(c_void_p), POINTER(infer_error)]),
    "infer_template_open": (c_int32, [c_void_p, POINTER(infer_source), POINTER(infer_open_options), POINTER(c_void_p), POINTER(infer_error)]),
    "infer_template_ref": (c_void_p, [c_void_p]),
    "infer_template_release": (None, [c_void_p]),
    "infer_template_is_fallback": (c_int32, [c_void_p]),
    "infer_template_text": (None, [c_void_p, POINTER(c_void_p), POINTER(c_uint64)]),
    "infer_template_render": (c_int32, [c_void_p, c_void_p, c_uint64, POINTER(infer_render_options), c_void_p, c_uint64, POINTER(c_uint64), POINTER(infer_error)]),
    "infer_model_open": (c_int32, [c_void_p, POINTER(infer_source), POINTER(infer_open_options), POINTER(c_void_p), POINTER(infer_error)]),
    "infer_model_open_path": (c_int32, [c_void_p, c_void_p, POINTER(c_void_p), POINTER(infer_error)]),
    "infer_model_ref": (c_void_p, [c_void_p]),
    "infer_model_release": (None, [c_void_p]),
    "infer_model_tokenizer": (c_void_p, [c_void_p]),
    "infer_model_template": (c_void_p, [c_void_p]),
    "infer_model_file": (c_void_p, [c_void_p]),
    "infer_model_engine": (c_void_p, [c_void_p]),
    "infer_model_get_info": (c_int32, [c_void_p, POINTER(infer_model_info), POINTER(infer_error)]),
    "infer_model_get_memory": (c_int32, [c_void_p, POINTER(infer_model_memory), POINTER(infer_error)]),
    "infer_model_estimate": (c_int32, [c_void_p, POINTER(infer_source), POINTER(infer_open_options), POINTER(infer_estimate_options), POINTER(infer_estimate), POINTER(infer_error)]),
    "infer_session_create": (c_int32, [c_void_p, POINTER(infer_session_options), POINTER(c_void_p), POINTER(infer_error)]),
    "infer_session_ref": (c_void_p, [c_void_p]),
    "infer_session_release": (None, [c_void_p]),
    "infer_session_model": (c_void_p, [c_void_p]),
    "infer_session_append": (c_int32, [c_void_p, POINTER(c_int32), c_uint64, POINTER(infer_error)]),
    "infer_session_append_text": (c_int32, [c_void_p, c_void_p, c_uint64, c_uint32, POINTER(infer_error)]),
    "infer_session_append_chat": (c_int32, [c_void_p, POINTER(infer_message), c_uint64, POINTER(infer_render_options), POINTER(infer_error)]),
    "infer_session_append_rows": (c_int32, [c_void_p, POINTER(c_float), POINTER(c_uint64), c_uint64, POINTER(infer_error)]),
    "infer_session_get_info": (c_int32, [c_void_p, POINTER(infer_session_info), POINTER(infer_error)]),
    "infer_session_tokens": (c_int32, [c_void_p, c_uint64, c_uint64, POINTER(c_int32), POINTER(infer_error)]),
    "infer_session_truncate": (c_int32, [c_void_p, c_uint64, POINTER(c_uint64), POINTER(infer_error)]),
    "infer_session_fork": (c_int32, [c_void_p, POINTER(c_void_p), POINTER(infer_error)]),
    "infer_step": (c_int32, [POINTER(infer_step_item), c_uint64, c_void_p, POINTER(infer_error)]),
    "infer_session_logits": (c_int32, [c_void_p, c_uint64, POINTER(POINTER(c_float)), POINTER(c_uint64), POINTER(infer_error)]),
    "infer_sampling_default": (c_int32, [POINTER(infer_sampling), POINTER(infer_error)]),
    "infer_session_set_sampling": (c_int32, [c_void_p, POINTER(infer_sampling), POINTER(infer_error)]),
    "infer_session_sample": (c_int32, [c_void_p, POINTER(infer_sample_result), POINTER(infer_error)]),
    "infer_session_score": (c_int32, [c_void_p, POINTER(c_int32), c_uint64, POINTER(infer_score), c_void_p, POINTER(infer_error)]),
    "infer_generate_begin": (c_int32, [c_void_p, POINTER(infer_generate_options), POINTER(infer_error)]),
    "infer_generate_next": (c_int32, [c_void_p, POINTER(infer_event), c_void_p, POINTER(infer_error)]),
    "infer_generate": (c_int32, [c_void_p, POINTER(infer_generate_options), infer_event_fn, c_void_p, c_void_p, POINTER(infer_error)]),
    "infer_adapter_open": (c_int32, [c_void_p, POINTER(infer_source), POINTER(infer_open_options), POINTER(c_void_p), POINTER(infer_error)]),
    "infer_adapter_open_path": (c_int32, [c_void_p, c_void_p, POINTER(c_void_p), POINTER(infer_error)]),
    "infer_adapter_ref": (c_void_p, [c_void_p]),
    "infer_adapter_release": (None, [c_void_p]),
    "infer_adapter_model": (c_void_p, [c_void_p]),
    "infer_adapter_find": (c_int32, [c_void_p, c_void_p, POINTER(c_void_p), POINTER(infer_error)]),
    "infer_adapter_get_info": (c_int32, [c_void_p, POINTER(infer_adapter_info), POINTER(infer_error)]),
    "infer_adapter_target": (c_char_p, [c_void_p, c_uint64]),
    "infer_adapter_invocation": (POINTER(c_int32), [c_void_p, POINTER(c_uint64)]),
    "infer_session_set_adapters": (c_int32, [c_void_p, POINTER(infer_adapter_use), c_uint64, POINTER(infer_error)]),
    "infer_session_adapter": (c_int32, [c_void_p, c_uint64, POINTER(infer_adapter_use), POINTER(infer_error)]),
    "infer_session_append_adapter": (c_int32, [c_void_p, c_void_p, POINTER(infer_error)]),
    "infer_embed": (c_int32, [c_void_p, POINTER(infer_embed_item), c_uint64, POINTER(infer_embed_options), c_void_p, POINTER(infer_error)]),
    "infer_checkpoint_create": (c_int32, [c_void_p, POINTER(c_void_p), POINTER(infer_error)]),
    "infer_checkpoint_ref": (c_void_p, [c_void_p]),
    "infer_checkpoint_release": (None, [c_void_p]),
    "infer_checkpoint_model": (c_void_p, [c_void_p]),
    "infer_checkpoint_get_info": (c_int32, [c_void_p, POINTER(infer_checkpoint_info), POINTER(infer_error)]),
    "infer_checkpoint_tokens": (c_int32, [c_void_p, c_uint64, c_uint64, POINTER(c_int32), POINTER(infer_error)]),
    "infer_session_restore": (c_int32, [c_void_p, c_void_p, POINTER(infer_error)]),
    "infer_checkpoint_session": (c_int32, [c_void_p, POINTER(c_void_p), POINTER(infer_error)]),
    "infer_store_open": (c_int32, [c_void_p, c_void_p, c_uint64, POINTER(infer_store_options), POINTER(c_void_p), POINTER(infer_error)]),
    "infer_store_ref": (c_void_p, [c_void_p]),
    "infer_store_release": (None, [c_void_p]),
    "infer_store_put": (c_int32, [c_void_p, c_void_p, c_uint64, c_void_p, c_uint32, c_void_p, POINTER(infer_error)]),
    "infer_store_get": (c_int32, [c_void_p, c_void_p, c_void_p, c_uint64, c_void_p, POINTER(c_void_p), POINTER(infer_error)]),
    "infer_store_branch": (c_int32, [c_void_p, c_void_p, c_uint64, c_void_p, c_uint64, c_uint32, POINTER(infer_error)]),
    "infer_store_rename": (c_int32, [c_void_p, c_void_p, c_uint64, c_void_p, c_uint64, c_uint32, POINTER(infer_error)]),
    "infer_store_delete": (c_int32, [c_void_p, c_void_p, c_uint64, POINTER(infer_error)]),
    "infer_store_next": (c_int32, [c_void_p, c_void_p, c_uint64, POINTER(infer_store_entry), POINTER(infer_error)]),
    "infer_store_get_info": (c_int32, [c_void_p, POINTER(infer_store_info), POINTER(infer_error)]),
    "infer_session_cache_report": (c_int32, [c_void_p, POINTER(infer_cache_report), POINTER(infer_error)]),
    "infer_engine_cache_stats": (c_int32, [c_void_p, POINTER(infer_cache_stats), POINTER(infer_error)]),
    "infer_engine_cache_flush": (c_int32, [c_void_p, c_void_p, POINTER(infer_error)]),
    "infer_engine_cache_clear": (c_int32, [c_void_p, POINTER(infer_error)]),
    "infer_checkpoint_save": (c_int32, [c_void_p, c_void_p, c_uint64, POINTER(infer_save_options), c_void_p, POINTER(infer_error)]),
    "infer_checkpoint_open": (c_int32, [c_void_p, c_void_p, c_uint64, POINTER(infer_load_options), c_void_p, POINTER(c_void_p), POINTER(infer_error)]),
    "infer_checkpoint_clone_file": (c_int32, [c_void_p, c_void_p, c_uint64, c_void_p, c_uint64, c_void_p, POINTER(infer_error)]),
    "infer_model_fingerprint": (c_int32, [c_void_p, c_int32, c_void_p, c_void_p, POINTER(infer_error)]),
    "infer_session_shift": (c_int32, [c_void_p, c_uint64, c_uint64, POINTER(infer_error)]),
    "infer_session_graft": (c_int32, [c_void_p, c_void_p, c_uint64, c_uint64, c_uint64, POINTER(c_uint64), c_void_p, POINTER(infer_error)]),
    "infer_scheduler_create": (c_int32, [c_void_p, POINTER(infer_scheduler_options), POINTER(c_void_p), POINTER(infer_error)]),
    "infer_scheduler_ref": (c_void_p, [c_void_p]),
    "infer_scheduler_release": (None, [c_void_p]),
    "infer_scheduler_step": (c_int32, [c_void_p, POINTER(c_int32), c_void_p, POINTER(infer_error)]),
    "infer_scheduler_wait": (c_int32, [c_void_p, POINTER(infer_error)]),
    "infer_scheduler_wake": (None, [c_void_p]),
    "infer_scheduler_get_info": (c_int32, [c_void_p, POINTER(infer_scheduler_info), POINTER(infer_error)]),
    "infer_scheduler_submit": (c_int32, [c_void_p, POINTER(infer_request_options), POINTER(c_void_p), POINTER(infer_error)]),
    "infer_request_ref": (c_void_p, [c_void_p]),
    "infer_request_release": (None, [c_void_p]),
    "infer_request_cancel": (None, [c_void_p]),
    "infer_request_next": (c_int32, [c_void_p, POINTER(infer_request_event), POINTER(infer_error)]),
    "infer_request_get_info": (c_int32, [c_void_p, POINTER(infer_request_info), POINTER(infer_error)]),
    "infer_request_checkpoint": (c_int32, [c_void_p, c_uint32, POINTER(c_void_p), POINTER(infer_error)]),
}
