"""What the library tells about things; include/infer/*.h says what each field means."""
# Made by bindings/python/generate.py from include/infer/*.h: do not edit.

from __future__ import annotations

from dataclasses import dataclass

from . import _c
from .enums import AdapterKind, CacheReason, Cpu, KvType, Numerics, Pooling, TokenizerKind


@dataclass(frozen=True)
class EngineInfo:
    """infer_engine_info"""

    cpu: Cpu
    numerics: Numerics
    threads: int
    kv_bytes: int
    kv_budget: int
    memory_bytes: int
    memory_peak: int
    memory_limit: int

    @classmethod
    def _of(cls, c: _c.infer_engine_info) -> EngineInfo:
        return cls(
            cpu=Cpu(c.cpu),
            numerics=Numerics(c.numerics),
            threads=c.threads,
            kv_bytes=c.kv_bytes,
            kv_budget=c.kv_budget,
            memory_bytes=c.memory_bytes,
            memory_peak=c.memory_peak,
            memory_limit=c.memory_limit,
        )


@dataclass(frozen=True)
class TokenizerInfo:
    """infer_tokenizer_info"""

    kind: TokenizerKind
    vocab_size: int
    bos: int
    eos: int
    eot: int
    unk: int
    sep: int
    pad: int
    mask: int
    add_bos: bool
    add_eos: bool

    @classmethod
    def _of(cls, c: _c.infer_tokenizer_info) -> TokenizerInfo:
        return cls(
            kind=TokenizerKind(c.kind),
            vocab_size=c.vocab_size,
            bos=c.bos,
            eos=c.eos,
            eot=c.eot,
            unk=c.unk,
            sep=c.sep,
            pad=c.pad,
            mask=c.mask,
            add_bos=bool(c.add_bos),
            add_eos=bool(c.add_eos),
        )


@dataclass(frozen=True)
class ModelInfo:
    """infer_model_info"""

    vocab_size: int
    n_layer: int
    n_embd: int
    n_head: int
    n_head_kv: int
    head_dim: int
    n_ctx_train: int
    window: int
    n_params: int
    weight_bytes: int
    architecture: str
    name: str
    tokenizer_problem: str
    template_problem: str
    embedding_width: int
    pooling: Pooling
    encoder: bool
    embed_tokens: int

    @classmethod
    def _of(cls, c: _c.infer_model_info) -> ModelInfo:
        return cls(
            vocab_size=c.vocab_size,
            n_layer=c.n_layer,
            n_embd=c.n_embd,
            n_head=c.n_head,
            n_head_kv=c.n_head_kv,
            head_dim=c.head_dim,
            n_ctx_train=c.n_ctx_train,
            window=c.window,
            n_params=c.n_params,
            weight_bytes=c.weight_bytes,
            architecture=c.architecture.decode("utf-8", "replace"),
            name=c.name.decode("utf-8", "replace"),
            tokenizer_problem=c.tokenizer_problem.decode("utf-8", "replace"),
            template_problem=c.template_problem.decode("utf-8", "replace"),
            embedding_width=c.embedding_width,
            pooling=Pooling(c.pooling),
            encoder=bool(c.encoder),
            embed_tokens=c.embed_tokens,
        )


@dataclass(frozen=True)
class ModelMemory:
    """infer_model_memory"""

    n_expert: int
    n_expert_used: int
    weight_bytes: int
    resident_bytes: int
    expert_bytes: int
    expert_resident_bytes: int
    own_bytes: int

    @classmethod
    def _of(cls, c: _c.infer_model_memory) -> ModelMemory:
        return cls(
            n_expert=c.n_expert,
            n_expert_used=c.n_expert_used,
            weight_bytes=c.weight_bytes,
            resident_bytes=c.resident_bytes,
            expert_bytes=c.expert_bytes,
            expert_resident_bytes=c.expert_resident_bytes,
            own_bytes=c.own_bytes,
        )


@dataclass(frozen=True)
class Estimate:
    """infer_estimate"""

    n_ctx: int
    weight_bytes: int
    mapped_bytes: int
    own_bytes: int
    kv_bytes: int
    scratch_bytes: int
    open_bytes: int
    memory_bytes: int
    total_bytes: int

    @classmethod
    def _of(cls, c: _c.infer_estimate) -> Estimate:
        return cls(
            n_ctx=c.n_ctx,
            weight_bytes=c.weight_bytes,
            mapped_bytes=c.mapped_bytes,
            own_bytes=c.own_bytes,
            kv_bytes=c.kv_bytes,
            scratch_bytes=c.scratch_bytes,
            open_bytes=c.open_bytes,
            memory_bytes=c.memory_bytes,
            total_bytes=c.total_bytes,
        )


@dataclass(frozen=True)
class SessionInfo:
    """infer_session_info"""

    n_ctx: int
    length: int
    computed: int
    kv_bytes: int
    logits_rows: int
    kv_shared_bytes: int
    kv_mapped_bytes: int
    approximate: bool
    kv_recent: int
    adapters: int

    @classmethod
    def _of(cls, c: _c.infer_session_info) -> SessionInfo:
        return cls(
            n_ctx=c.n_ctx,
            length=c.length,
            computed=c.computed,
            kv_bytes=c.kv_bytes,
            logits_rows=c.logits_rows,
            kv_shared_bytes=c.kv_shared_bytes,
            kv_mapped_bytes=c.kv_mapped_bytes,
            approximate=bool(c.approximate),
            kv_recent=c.kv_recent,
            adapters=c.adapters,
        )


@dataclass(frozen=True)
class AdapterInfo:
    """infer_adapter_info"""

    kind: AdapterKind
    hash: bytes
    targets: int
    bytes: int
    own_bytes: int
    rank: int
    rows: int
    invocation_count: int
    base: str

    @classmethod
    def _of(cls, c: _c.infer_adapter_info) -> AdapterInfo:
        return cls(
            kind=AdapterKind(c.kind),
            hash=bytes(c.hash),
            targets=c.targets,
            bytes=c.bytes,
            own_bytes=c.own_bytes,
            rank=c.rank,
            rows=c.rows,
            invocation_count=c.invocation_count,
            base=c.base.decode("utf-8", "replace"),
        )


@dataclass(frozen=True)
class CheckpointInfo:
    """infer_checkpoint_info"""

    n_ctx: int
    kv_type: KvType
    approximate: bool
    length: int
    computed: int
    kv_bytes: int
    kv_shared_bytes: int
    kv_mapped_bytes: int
    logits_rows: int
    generating: bool
    kv_recent: int
    bytes: int
    adapters: int

    @classmethod
    def _of(cls, c: _c.infer_checkpoint_info) -> CheckpointInfo:
        return cls(
            n_ctx=c.n_ctx,
            kv_type=KvType(c.kv_type),
            approximate=bool(c.approximate),
            length=c.length,
            computed=c.computed,
            kv_bytes=c.kv_bytes,
            kv_shared_bytes=c.kv_shared_bytes,
            kv_mapped_bytes=c.kv_mapped_bytes,
            logits_rows=c.logits_rows,
            generating=bool(c.generating),
            kv_recent=c.kv_recent,
            bytes=c.bytes,
            adapters=c.adapters,
        )


@dataclass(frozen=True)
class StoreEntry:
    """infer_store_entry"""

    name_len: int
    bytes: int
    length: int
    computed: int
    kv_type: KvType
    approximate: bool
    name: str

    @classmethod
    def _of(cls, c: _c.infer_store_entry) -> StoreEntry:
        return cls(
            name_len=c.name_len,
            bytes=c.bytes,
            length=c.length,
            computed=c.computed,
            kv_type=KvType(c.kv_type),
            approximate=bool(c.approximate),
            name=c.name.decode("utf-8", "replace"),
        )


@dataclass(frozen=True)
class StoreInfo:
    """infer_store_info"""

    count: int
    bytes: int

    @classmethod
    def _of(cls, c: _c.infer_store_info) -> StoreInfo:
        return cls(
            count=c.count,
            bytes=c.bytes,
        )


@dataclass(frozen=True)
class CacheReport:
    """infer_cache_report"""

    reason: CacheReason
    wanted: int
    reused: int
    rerun: int
    difference: int
    near_length: int
    own_reason: CacheReason

    @classmethod
    def _of(cls, c: _c.infer_cache_report) -> CacheReport:
        return cls(
            reason=CacheReason(c.reason),
            wanted=c.wanted,
            reused=c.reused,
            rerun=c.rerun,
            difference=c.difference,
            near_length=c.near_length,
            own_reason=CacheReason(c.own_reason),
        )


@dataclass(frozen=True)
class CacheStats:
    """infer_cache_stats"""

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

    @classmethod
    def _of(cls, c: _c.infer_cache_stats) -> CacheStats:
        return cls(
            lookups=c.lookups,
            hits=c.hits,
            partial_hits=c.partial_hits,
            saved=c.saved,
            rerun=c.rerun,
            insertions=c.insertions,
            evictions=c.evictions,
            bytes=c.bytes,
            nodes=c.nodes,
            ghosts=c.ghosts,
            ghost_bytes=c.ghost_bytes,
            disk_files=c.disk_files,
            disk_bytes=c.disk_bytes,
            disk_written=c.disk_written,
            disk_skipped=c.disk_skipped,
            disk_loaded=c.disk_loaded,
            disk_damaged=c.disk_damaged,
        )


@dataclass(frozen=True)
class SchedulerInfo:
    """infer_scheduler_info"""

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

    @classmethod
    def _of(cls, c: _c.infer_scheduler_info) -> SchedulerInfo:
        return cls(
            active=c.active,
            waiting=c.waiting,
            suspended=c.suspended,
            submitted=c.submitted,
            finished=c.finished,
            cancelled=c.cancelled,
            failed=c.failed,
            steps=c.steps,
            prompt_tokens=c.prompt_tokens,
            cached_tokens=c.cached_tokens,
            generated_tokens=c.generated_tokens,
            preemptions=c.preemptions,
            kv_bytes=c.kv_bytes,
            kv_budget=c.kv_budget,
            computed=c.computed,
        )


@dataclass(frozen=True)
class RequestInfo:
    """infer_request_info"""

    cache_reason: CacheReason
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
    own_reason: CacheReason

    @classmethod
    def _of(cls, c: _c.infer_request_info) -> RequestInfo:
        return cls(
            cache_reason=CacheReason(c.cache_reason),
            prompt_tokens=c.prompt_tokens,
            cached_tokens=c.cached_tokens,
            generated_tokens=c.generated_tokens,
            near_length=c.near_length,
            difference=c.difference,
            preemptions=c.preemptions,
            submitted=c.submitted,
            started=c.started,
            first_token=c.first_token,
            ended=c.ended,
            prompt_logprob=c.prompt_logprob,
            own_reason=CacheReason(c.own_reason),
        )
