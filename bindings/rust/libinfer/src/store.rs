use crate::cancel::CancelFlag;
use crate::checkpoint::Checkpoint;
use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::ffi::{self, Handle};
use crate::hook::Hooks;
use crate::model::Model;
use crate::session::KvType;
use libinfer_sys as sys;
use std::fmt;
use std::path::Path;
use std::ptr::null;
use std::sync::Arc;

/// Limits of a [`Store`].
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreOptions {
    max_bytes: u64,
    max_count: u64,
}

impl StoreOptions {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of all checkpoints; 0: no limit.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Checkpoints; 0: no limit.
    pub fn max_count(mut self, count: u64) -> Self {
        self.max_count = count;
        self
    }
}

/// Checkpoints by name, in memory or in a folder. Names are UTF-8 of 1 to 255 bytes without '/' and control characters. Every call is atomic.
#[derive(Clone)]
pub struct Store {
    handle: Handle<sys::infer_store>,
    _hooks: Option<Arc<Hooks>>,
}

impl Store {
    /// A store in memory: nothing is copied.
    pub fn in_memory(engine: &Engine, options: &StoreOptions) -> Result<Self> {
        Self::open(engine, None, options)
    }

    /// A store in a folder, which is made if there is none: a checkpoint file for each name. Other processes may use it too.
    pub fn in_folder(engine: &Engine, path: impl AsRef<Path>, options: &StoreOptions) -> Result<Self> {
        Self::open(engine, Some(path.as_ref()), options)
    }

    fn open(engine: &Engine, path: Option<&Path>, options: &StoreOptions) -> Result<Self> {
        let bytes = match path {
            Some(path) => Some(ffi::path_bytes(path)?),
            None => None,
        };
        let (p, len) = bytes.as_ref().map_or((null(), 0), |bytes| ffi::parts(bytes));
        let mut raw = sys::infer_store_options::init();
        raw.max_bytes = options.max_bytes;
        raw.max_count = options.max_count;
        // SAFETY: the engine is live; the path outlives the call.
        let handle = ffi::make(|out, err| unsafe { sys::infer_store_open(engine.raw(), p, len, &raw, out, err) })?;
        Ok(Store { handle, _hooks: engine.hooks() })
    }

    fn raw(&self) -> *mut sys::infer_store {
        self.handle.get()
    }

    /// Keeps a checkpoint under a name. `replace`: in place of an entry that has it, which otherwise is [`ErrorKind::Exists`].
    pub fn put(&self, name: &str, checkpoint: &Checkpoint, replace: bool, cancel: Option<&CancelFlag>) -> Result<()> {
        let (p, len) = ffi::parts(name.as_bytes());
        // SAFETY: all handles are live; len bytes lie at p.
        ffi::call(|err| unsafe {
            sys::infer_store_put(self.raw(), p, len, checkpoint.raw(), flags(replace), CancelFlag::raw(cancel), err)
        })
    }

    /// The checkpoint of a name.
    pub fn get(&self, model: &Model, name: &str, cancel: Option<&CancelFlag>) -> Result<Checkpoint> {
        let (p, len) = ffi::parts(name.as_bytes());
        let flag = CancelFlag::raw(cancel);
        // SAFETY: as above.
        let handle = ffi::make(|out, err| unsafe { sys::infer_store_get(self.raw(), model.raw(), p, len, flag, out, err) })?;
        Ok(Checkpoint::of(handle, model, None))
    }

    /// The checkpoint of one name under a second one too.
    pub fn branch(&self, from: &str, to: &str, replace: bool) -> Result<()> {
        let ((f, f_len), (t, t_len)) = (ffi::parts(from.as_bytes()), ffi::parts(to.as_bytes()));
        // SAFETY: the handle is live; the names outlive the call.
        ffi::call(|err| unsafe { sys::infer_store_branch(self.raw(), f, f_len, t, t_len, flags(replace), err) })
    }

    /// Gives an entry another name.
    pub fn rename(&self, from: &str, to: &str, replace: bool) -> Result<()> {
        let ((f, f_len), (t, t_len)) = (ffi::parts(from.as_bytes()), ffi::parts(to.as_bytes()));
        // SAFETY: as above.
        ffi::call(|err| unsafe { sys::infer_store_rename(self.raw(), f, f_len, t, t_len, flags(replace), err) })
    }

    /// Removes an entry; what came from it stays.
    pub fn delete(&self, name: &str) -> Result<()> {
        let (p, len) = ffi::parts(name.as_bytes());
        // SAFETY: as above.
        ffi::call(|err| unsafe { sys::infer_store_delete(self.raw(), p, len, err) })
    }

    /// The entry that follows a name in the order of bytes, whether or not that one exists; None of name: the first. None: no more.
    pub fn next(&self, after: Option<&str>) -> Result<Option<StoreEntry>> {
        let (p, len) = after.map_or((null(), 0), |name| ffi::parts(name.as_bytes()));
        let mut raw = sys::infer_store_entry::init();
        // SAFETY: as above; raw is ours.
        match ffi::call(|err| unsafe { sys::infer_store_next(self.raw(), p, len, &mut raw, err) }) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            told => told?,
        }
        Ok(Some(StoreEntry {
            name: ffi::array_text(&raw.name),
            bytes: raw.bytes,
            length: raw.length,
            computed: raw.computed,
            kv_type: KvType::from_raw(raw.kv_type),
            approximate: raw.approximate != 0,
        }))
    }

    /// All entries, in the order of their names; ends at an error.
    pub fn entries(&self) -> impl Iterator<Item = Result<StoreEntry>> + '_ {
        let mut last: Option<String> = None;
        let mut ended = false;
        std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let entry = self.next(last.as_deref()).transpose();
            match &entry {
                Some(Ok(entry)) => last = Some(entry.name.clone()),
                _ => ended = true,
            }
            entry
        })
    }

    /// How much there is.
    pub fn info(&self) -> Result<StoreInfo> {
        let mut raw = sys::infer_store_info::init();
        // SAFETY: the handle is live, raw is ours.
        ffi::call(|err| unsafe { sys::infer_store_get_info(self.raw(), &mut raw, err) })?;
        Ok(StoreInfo { count: raw.count, bytes: raw.bytes })
    }
}

fn flags(replace: bool) -> u32 {
    if replace {
        sys::INFER_STORE_REPLACE as u32
    } else {
        0
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.info().ok()).finish()
    }
}

/// An entry of a [`Store`]. Of a damaged file only name and bytes are known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreEntry {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub bytes: u64,
    /// Elements.
    pub length: u64,
    /// Of them computed.
    pub computed: u64,
    /// How keys and values are kept.
    pub kv_type: KvType,
    /// Part of the state was grafted or shifted, not computed.
    pub approximate: bool,
}

/// How much is in a [`Store`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreInfo {
    /// Entries.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}
