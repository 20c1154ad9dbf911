use crate::engine::Engine;
use crate::error::Result;
use crate::ffi;
use crate::session::KvType;
use crate::source::{OpenOptions, Source};
use libinfer_sys as sys;
use std::ptr::null_mut;

/// What an [`Estimate`] is asked for.
#[derive(Clone, Debug)]
pub struct EstimateOptions {
    kv_type: KvType,
    n_ctx: u32,
    sessions: u32,
    kv_recent: u32,
    threads: u32,
    budget: u64,
}

impl Default for EstimateOptions {
    fn default() -> Self {
        EstimateOptions { kv_type: KvType::F16, n_ctx: 0, sessions: 0, kv_recent: 0, threads: 0, budget: 0 }
    }
}

impl EstimateOptions {
    /// One session with the model's own context.
    pub fn new() -> Self {
        Self::default()
    }

    /// How the sessions keep keys and values.
    pub fn kv_type(mut self, kv_type: KvType) -> Self {
        self.kv_type = kv_type;
        self
    }

    /// Elements of each session; 0: the model's own or, with a budget, the most that fits. Of encoders: tokens of a text.
    pub fn n_ctx(mut self, n_ctx: u32) -> Self {
        self.n_ctx = n_ctx;
        self
    }

    /// Sessions that are full at once; 0: 1. Of encoders: texts of a call.
    pub fn sessions(mut self, sessions: u32) -> Self {
        self.sessions = sessions;
        self
    }

    /// As [`SessionOptions::kv_recent`](crate::SessionOptions::kv_recent).
    pub fn kv_recent(mut self, elements: u32) -> Self {
        self.kv_recent = elements;
        self
    }

    /// Of the engine; 0: those of the one given, or of one with default options.
    pub fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    /// Bytes that all must fit into; 0: none.
    pub fn budget(mut self, bytes: u64) -> Self {
        self.budget = bytes;
        self
    }
}

/// Upper bounds of what a model will take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimate {
    /// Elements of each session.
    pub n_ctx: u32,
    /// All tensors as they will be in memory.
    pub weight_bytes: u64,
    /// Files that are mapped, or memory that the host lends.
    pub mapped_bytes: u64,
    /// Tables, tokenizer, and the weights that are read, converted or quantised.
    pub own_bytes: u64,
    /// Keys and values of all sessions when they are full.
    pub kv_bytes: u64,
    /// Activations, logits, sampling.
    pub scratch_bytes: u64,
    /// The most that is taken while the model is opened.
    pub open_bytes: u64,
    /// What [`EngineBuilder::memory_limit`](crate::EngineBuilder::memory_limit) must be at least.
    pub memory_bytes: u64,
    /// All of it: `mapped_bytes` and `memory_bytes`.
    pub total_bytes: u64,
}

impl Estimate {
    /// What a model would take, opened with these options on an engine like this one (None: one with default options). Its weights are not read.
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit): it does not fit into the budget.
    pub fn of<'a>(engine: Option<&Engine>, source: impl Into<Source<'a>>, open: &OpenOptions, options: &EstimateOptions) -> Result<Self> {
        let open = open.raw();
        let e = engine.map_or(null_mut(), Engine::raw);
        let mut raw = sys::infer_estimate_options::init();
        raw.kv_type = options.kv_type.raw();
        raw.n_ctx = options.n_ctx;
        raw.sessions = options.sessions;
        raw.kv_recent = options.kv_recent;
        raw.threads = options.threads;
        raw.budget = options.budget;
        let mut out = sys::infer_estimate::init();
        source.into().with(|source| {
            // SAFETY: all pointers live through the call.
            ffi::call(|err| unsafe { sys::infer_model_estimate(e, source, &open, &raw, &mut out, err) })
        })?;
        Ok(Estimate {
            n_ctx: out.n_ctx,
            weight_bytes: out.weight_bytes,
            mapped_bytes: out.mapped_bytes,
            own_bytes: out.own_bytes,
            kv_bytes: out.kv_bytes,
            scratch_bytes: out.scratch_bytes,
            open_bytes: out.open_bytes,
            memory_bytes: out.memory_bytes,
            total_bytes: out.total_bytes,
        })
    }
}
