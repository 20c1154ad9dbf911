"""The library's constants as enumerations; include/infer/*.h says what each means."""
# Made by bindings/python/generate.py from include/infer/*.h: do not edit.

from __future__ import annotations

from enum import IntEnum


class _Open(IntEnum):
    """Knows values of a later library too, as UNKNOWN_n."""

    @classmethod
    def _missing_(cls, value: object) -> _Open:
        number = int(value) # type: ignore[call-overload]
        unknown = int.__new__(cls, number)
        unknown._name_ = f"UNKNOWN_{number}"
        unknown._value_ = number
        return unknown


class Status(_Open):
    """INFER_*"""

    OK = 0
    ERROR_ARGUMENT = -1
    ERROR_STATE = -2
    ERROR_NO_MEMORY = -3
    ERROR_LIMIT = -4
    ERROR_CANCELLED = -5
    ERROR_UNSUPPORTED = -6
    ERROR_BUFFER = -7
    ERROR_INTERNAL = -8
    ERROR_HOST = -9
    ERROR_IO = -20
    ERROR_NOT_FOUND = -21
    ERROR_FORMAT = -22
    ERROR_TRUNCATED = -23
    ERROR_CHANGED = -24
    ERROR_EXISTS = -25
    ERROR_ARCHITECTURE = -40
    ERROR_MISSING = -41
    ERROR_SHAPE = -42
    ERROR_VALUE = -43
    ERROR_TOKEN = -60
    ERROR_ENCODING = -61
    ERROR_SYNTAX = -62
    ERROR_TEMPLATE = -63
    ERROR_CONTEXT_FULL = -80
    ERROR_NONFINITE = -81
    ERROR_THREAD = -82


class LogLevel(_Open):
    """INFER_LOG_*"""

    ERROR = 1
    WARNING = 2
    INFO = 3
    DEBUG = 4


class Cpu(_Open):
    """INFER_CPU_*"""

    AUTO = 0
    SCALAR = 1
    AVX2 = 10
    AVXVNNI = 11
    AVX512 = 12
    AVX512VNNI = 13
    NEON = 30
    DOTPROD = 31
    I8MM = 32


class Numerics(_Open):
    """INFER_NUMERICS_*"""

    EXACT = 0
    PRECISE = 1
    FAST = 2


class Map(_Open):
    """INFER_MAP_*"""

    AUTO = 0
    MMAP = 1
    READ = 2


class TensorType(_Open):
    """INFER_TYPE_*"""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41
    Q2_0 = 42
    F8_E4M3 = 64
    F8_E5M2 = 65
    BOOL = 66
    U8 = 67
    U16 = 68
    U32 = 69
    U64 = 70


class ValueKind(_Open):
    """INFER_VALUE_*"""

    UINT = 1
    INT = 2
    FLOAT = 3
    BOOL = 4
    STRING = 5
    ARRAY = 6


class TokenizerKind(_Open):
    """INFER_TOKENIZER_*"""

    BPE = 1
    SPM = 2
    WORDPIECE = 3
    UNIGRAM = 4
    WORDLEVEL = 5


class TokenKind(_Open):
    """INFER_TOKEN_*"""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class KvType(_Open):
    """INFER_KV_*"""

    F16 = 0
    F32 = 1
    BF16 = 2
    INT8 = 3
    INT8_64 = 4
    MIXED_F16 = 5
    MIXED_F32 = 6


class Rows(_Open):
    """INFER_ROWS_*"""

    LAST = 0
    NONE = 1
    ALL = 2
    MASK = 3


class EventKind(_Open):
    """INFER_EVENT_*"""

    PREFILL = 1
    TOKEN = 2
    DONE = 3
    SHIFT = 4


class Finish(_Open):
    """INFER_FINISH_*"""

    STOP = 1
    LENGTH = 2
    CONTEXT = 3
    STOP_STRING = 4
    REPETITION = 5
    TIME = 6
    CANCELLED = 7
    ERROR = 8


class AdapterKind(_Open):
    """INFER_ADAPTER_*"""

    LORA = 1
    STEERING = 2
    SOFT_PROMPT = 3
    PREFIX = 4


class AdapterMode(_Open):
    """INFER_ADAPTER_*"""

    ADD = 0
    PROJECT = 1


class Pooling(_Open):
    """INFER_POOLING_*"""

    MODEL = 0
    NONE = 1
    MEAN = 2
    CLS = 3
    LAST = 4
    RANK = 5


class CacheReason(_Open):
    """INFER_CACHE_REASON_*"""

    OFF = 0
    HIT = 1
    ENDS = 2
    DIFFERS = 3
    EVICTED = 4
    OTHER_ADAPTERS = 5
    OTHER_SALT = 6
    OTHER_KV_TYPE = 7
    EMPTY = 8
    FAILED = 9


class Verify(_Open):
    """INFER_VERIFY_*"""

    FIRST_USE = 0
    LOAD = 1


class Fingerprint(_Open):
    """INFER_FINGERPRINT_*"""

    QUICK = 1
    FULL = 2


class RequestEventKind(_Open):
    """INFER_REQUEST_EVENT_*"""

    PROMPT = 1
    STARTED = 2
    TOKEN = 3
    DONE = 4
    END = 5
