use crate::cancel::CancelFlag;
use crate::engine::Engine;
use crate::error::Result;
use crate::ffi::{self, Handle};
use crate::model::Model;
use crate::sampling::LogitsCallback;
use crate::session::{count_of, KvType, Session};
use crate::source::Map;
use libinfer_sys as sys;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::Arc;

/// A session's whole state at one moment: elements, computed state, logits, sampling, and an answer that is being made. Immutable. What goes on
/// from it has the same bits as what would have gone on then.
#[derive(Clone)]
pub struct Checkpoint {
    handle: Handle<sys::infer_checkpoint>,
    model: Model,
    sampler: Option<Arc<LogitsCallback>>,
}

impl Checkpoint {
    pub(crate) fn of(handle: Handle<sys::infer_checkpoint>, model: &Model, sampler: Option<Arc<LogitsCallback>>) -> Self {
        Checkpoint { handle, model: model.clone(), sampler }
    }

    pub(crate) fn raw(&self) -> *mut sys::infer_checkpoint {
        self.handle.get()
    }

    pub(crate) fn sampler(&self) -> Option<Arc<LogitsCallback>> {
        self.sampler.clone()
    }

    /// Opens a checkpoint file of this model.
    pub fn open(model: &Model, path: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let bytes = ffi::path_bytes(path.as_ref())?;
        let (p, len) = ffi::parts(&bytes);
        let raw = options.raw();
        let cancel = CancelFlag::raw(options.cancel.as_ref());
        // SAFETY: all handles are live; len bytes lie at p.
        let handle = ffi::make(|out, err| unsafe { sys::infer_checkpoint_open(model.raw(), p, len, &raw, cancel, out, err) })?;
        Ok(Self::of(handle, model, None))
    }

    /// Writes a file: under a temporary name, synced, and renamed over whatever had the name.
    pub fn save(&self, path: impl AsRef<Path>, options: &SaveOptions) -> Result<()> {
        let bytes = ffi::path_bytes(path.as_ref())?;
        let (p, len) = ffi::parts(&bytes);
        let parent = match &options.parent {
            Some(parent) => Some(ffi::path_bytes(parent)?),
            None => None,
        };
        let mut raw = sys::infer_save_options::init();
        raw.flags = options.flags as u32;
        raw.level = options.level;
        if let Some(parent) = &parent {
            (raw.parent, raw.parent_len) = ffi::parts(parent);
        }
        let cancel = CancelFlag::raw(options.cancel.as_ref());
        // SAFETY: all handles are live; the paths outlive the call.
        ffi::call(|err| unsafe { sys::infer_checkpoint_save(self.raw(), p, len, &raw, cancel, err) })
    }

    /// Copies a checkpoint file, whole or not at all; its blocks are shared where the file system can do that.
    pub fn clone_file(engine: Option<&Engine>, from: impl AsRef<Path>, to: impl AsRef<Path>, cancel: Option<&CancelFlag>) -> Result<()> {
        ffi::check_abi()?;
        let e = engine.map_or(null_mut(), Engine::raw);
        let (from, to) = (ffi::path_bytes(from.as_ref())?, ffi::path_bytes(to.as_ref())?);
        let ((f, f_len), (t, t_len)) = (ffi::parts(&from), ffi::parts(&to));
        // SAFETY: all handles are live; the paths outlive the call.
        ffi::call(|err| unsafe { sys::infer_checkpoint_clone_file(e, f, f_len, t, t_len, CancelFlag::raw(cancel), err) })
    }

    /// The model that it is of.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// A new session with this state.
    pub fn session(&self) -> Result<Session> {
        // SAFETY: the handle is live.
        let handle = ffi::make(|out, err| unsafe { sys::infer_checkpoint_session(self.raw(), out, err) })?;
        Ok(Session::of(handle, &self.model, self.sampler.clone()))
    }

    /// What it holds.
    pub fn info(&self) -> Result<CheckpointInfo> {
        let mut raw = sys::infer_checkpoint_info::init();
        // SAFETY: the handle is live, raw is ours.
        ffi::call(|err| unsafe { sys::infer_checkpoint_get_info(self.raw(), &mut raw, err) })?;
        Ok(CheckpointInfo {
            n_ctx: raw.n_ctx,
            kv_type: KvType::from_raw(raw.kv_type),
            approximate: raw.approximate != 0,
            length: raw.length,
            computed: raw.computed,
            kv_bytes: raw.kv_bytes,
            kv_shared_bytes: raw.kv_shared_bytes,
            kv_mapped_bytes: raw.kv_mapped_bytes,
            logits_rows: raw.logits_rows,
            generating: raw.generating != 0,
            kv_recent: raw.kv_recent,
            bytes: raw.bytes,
            adapters: raw.adapters,
        })
    }

    /// Ids of all elements; an embedding row gives -1.
    pub fn tokens(&self) -> Result<Vec<i32>> {
        self.tokens_in(0..self.info()?.length)
    }

    /// Ids of some elements.
    pub fn tokens_in(&self, range: Range<u64>) -> Result<Vec<i32>> {
        let count = count_of(&range, self.info()?.length)?;
        let mut ids = ffi::filled(0, count)?;
        // SAFETY: the handle is live; ids has count items.
        ffi::call(|err| unsafe { sys::infer_checkpoint_tokens(self.raw(), range.start, count as u64, ids.as_mut_ptr(), err) })?;
        Ok(ids)
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checkpoint").field(&self.info().ok()).finish()
    }
}

/// What a checkpoint holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointInfo {
    /// Most elements that its session may hold.
    pub n_ctx: u32,
    /// How keys and values are kept.
    pub kv_type: KvType,
    /// Part of the state was grafted or shifted, not computed.
    pub approximate: bool,
    /// Elements, computed and pending.
    pub length: u64,
    /// Of them computed.
    pub computed: u64,
    /// Bytes of KV memory, shared pages included.
    pub kv_bytes: u64,
    /// Of these, what others hold too.
    pub kv_shared_bytes: u64,
    /// Of these, what lies in a mapped file.
    pub kv_mapped_bytes: u64,
    /// Rows of logits.
    pub logits_rows: u64,
    /// Whether it is in the middle of an answer.
    pub generating: bool,
    /// Of the mixed KV types: elements in the exact type.
    pub kv_recent: u32,
    /// Memory that its state takes, were it alone.
    pub bytes: u64,
    /// Identity of the adapters in force; 0: none.
    pub adapters: u64,
}

/// How a checkpoint file is written.
#[derive(Clone, Debug, Default)]
pub struct SaveOptions {
    flags: i32,
    parent: Option<PathBuf>,
    level: i32,
    cancel: Option<CancelFlag>,
}

impl SaveOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Compressed: opening then unpacks everything instead of mapping it. Level 1 to 19; 0: 3.
    pub fn zstd(mut self, level: i32) -> Self {
        self.flags |= sys::INFER_SAVE_ZSTD;
        self.level = level;
        self
    }

    /// Stores the full fingerprint of the model, which opening then checks: reads all weights, both times.
    pub fn full_model(mut self) -> Self {
        self.flags |= sys::INFER_SAVE_FULL_MODEL;
        self
    }

    /// A checkpoint file in the same folder: the new one holds only what that one and its ancestors lack, and needs them when it is opened.
    pub fn parent(mut self, path: impl Into<PathBuf>) -> Self {
        self.parent = Some(path.into());
        self
    }

    /// A flag that ends the writing.
    pub fn cancel(mut self, flag: &CancelFlag) -> Self {
        self.cancel = Some(flag.clone());
        self
    }
}

c_enum! {
    /// When a checkpoint file's pages are checked.
    Verify {
        /// Each before the first step that reads it.
        FirstUse = INFER_VERIFY_FIRST_USE,
        /// All when it is opened.
        Load = INFER_VERIFY_LOAD,
    }
}

/// How a checkpoint file is opened.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    map: Map,
    verify: Verify,
    adapters: u64,
    cancel: Option<CancelFlag>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions { map: Map::Auto, verify: Verify::FirstUse, adapters: 0, cancel: None }
    }
}

impl LoadOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Used in place, or copied into memory.
    pub fn map(mut self, map: Map) -> Self {
        self.map = map;
        self
    }

    /// When pages are checked.
    pub fn verify(mut self, verify: Verify) -> Self {
        self.verify = verify;
        self
    }

    /// What [`SessionInfo::adapters`](crate::SessionInfo::adapters) must have said of the session; 0: anything.
    pub fn adapters(mut self, identity: u64) -> Self {
        self.adapters = identity;
        self
    }

    /// A flag that ends the opening.
    pub fn cancel(mut self, flag: &CancelFlag) -> Self {
        self.cancel = Some(flag.clone());
        self
    }

    fn raw(&self) -> sys::infer_load_options {
        let mut raw = sys::infer_load_options::init();
        raw.map = self.map.raw();
        raw.verify = self.verify.raw();
        raw.adapters = self.adapters;
        raw
    }
}
