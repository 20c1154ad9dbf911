"""libinfer: run language models inside your program.

    import libinfer

    with libinfer.Model.open("model.gguf") as model, model.session() as session:
        session.append_chat([("user", "Why is the sky blue?")])
        for text in session.stream(max_tokens=200):
            print(text, end="", flush=True)

Threads: engines, models, adapters, files, tokenizers, templates, checkpoints, stores, schedulers and cancel flags may be used from any thread at once; of a
session, one thread at a time is inside and others wait. Python's global lock is released in every call.

Failures raise subclasses of libinfer.Error with the code and the place; what a call worked on is then as it was before. What the host's own callbacks raise
comes out of the call that ran them."""

from __future__ import annotations

from ._c import INFER_ABI_VERSION as ABI_VERSION
from ._core import Cancel
from ._library import lib as _lib
from ._sources import Source
from .adapters import Adapter, AdapterUse
from .engine import Engine
from .enums import (
                    AdapterKind,
                    AdapterMode,
                    CacheReason,
                    Cpu,
                    EventKind,
                    Fingerprint,
                    Finish,
                    KvType,
                    LogLevel,
                    Map,
                    Numerics,
                    Pooling,
                    RequestEventKind,
                    Rows,
                    Status,
                    TensorType,
                    TokenizerKind,
                    TokenKind,
                    ValueKind,
                    Verify,
)
from .errors import (
                    ArchitectureError,
                    ArgumentError,
                    CancelledError,
                    ChangedError,
                    ContextFullError,
                    EncodingError,
                    Error,
                    ExistsError,
                    FileError,
                    FormatError,
                    HostError,
                    InternalError,
                    LimitError,
                    MissingError,
                    ModelError,
                    ModelValueError,
                    NonFiniteError,
                    NotFoundError,
                    OutOfMemoryError,
                    ReadWriteError,
                    RunError,
                    ShapeError,
                    StateError,
                    TemplateError,
                    TemplateSyntaxError,
                    TextError,
                    ThreadError,
                    TokenError,
                    TruncatedError,
                    UnsupportedError,
)
from .file import File, Metadata, Tensor, Tensors
from .generation import Event, Generation, TextStream
from .model import Embedding, Model
from .records import (
                    AdapterInfo,
                    CacheReport,
                    CacheStats,
                    CheckpointInfo,
                    EngineInfo,
    Estimate,
                    ModelInfo,
                    ModelMemory,
                    RequestInfo,
                    SchedulerInfo,
                    SessionInfo,
                    StoreEntry,
                    StoreInfo,
                    TokenizerInfo,
)
from .sampling import LogitsCallback, Logprob, Sample, Sampling
from .scheduler import Choice, Request, RequestEvent, Scheduler
from .session import FINAL, Hidden, Score, Session, StepItem, StepResult, step
from .state import Checkpoint, Store, clone_file
from .text import Decoder, Message, Template, TokenInfo, Tokenizer

__all__ = [
    "ABI_VERSION",
    "FINAL",
    "NUMERICS_VERSION",
    "Adapter",
    "AdapterInfo",
    "AdapterKind",
    "AdapterMode",
    "AdapterUse",
    "ArchitectureError",
    "ArgumentError",
    "CacheReason",
    "CacheReport",
    "CacheStats",
    "Cancel",
    "CancelledError",
    "ChangedError",
    "Checkpoint",
    "CheckpointInfo",
    "Choice",
    "ContextFullError",
    "Cpu",
    "Decoder",
    "Embedding",
    "EncodingError",
    "Engine",
    "EngineInfo",
    "Error",
    "Estimate",
    "Event",
    "EventKind",
    "ExistsError",
    "File",
    "FileError",
    "Fingerprint",
    "Finish",
    "FormatError",
    "Generation",
    "Hidden",
    "HostError",
    "InternalError",
    "KvType",
    "LimitError",
    "LogLevel",
    "LogitsCallback",
    "Logprob",
    "Map",
    "Message",
    "Metadata",
    "MissingError",
    "Model",
    "ModelError",
    "ModelInfo",
    "ModelMemory",
    "ModelValueError",
    "NonFiniteError",
    "NotFoundError",
    "Numerics",
    "OutOfMemoryError",
    "Pooling",
    "ReadWriteError",
    "Request",
    "RequestEvent",
    "RequestEventKind",
    "RequestInfo",
    "Rows",
    "RunError",
    "Sample",
    "Sampling",
    "Scheduler",
    "SchedulerInfo",
    "Score",
    "Session",
    "SessionInfo",
    "ShapeError",
    "Source",
    "StateError",
    "Status",
    "StepItem",
    "StepResult",
    "Store",
    "StoreEntry",
    "StoreInfo",
    "Template",
    "TemplateError",
    "TemplateSyntaxError",
    "Tensor",
    "TensorType",
    "Tensors",
    "TextError",
    "TextStream",
    "ThreadError",
    "TokenError",
    "TokenInfo",
    "TokenKind",
    "Tokenizer",
    "TokenizerInfo",
    "TokenizerKind",
    "TruncatedError",
    "UnsupportedError",
    "ValueKind",
    "Verify",
    "__version__",
    "capabilities",
    "clone_file",
    "step",
]

#: Of the library that is loaded.
__version__: str = _lib.infer_version().decode()
NUMERICS_VERSION: int = _lib.infer_numerics_version()


def capabilities() -> dict[str, str]:
    """What the library can do to its host, by its own manifest (docs/security.md): {"network": "none", ...}."""
    lines = bytes(_lib.infer_capabilities()).decode().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
