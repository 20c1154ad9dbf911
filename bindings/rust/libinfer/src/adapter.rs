use crate::error::Result;
use crate::ffi::{self, Handle};
use crate::model::Model;
use crate::source::{OpenOptions, Source};
use libinfer_sys as sys;
use std::fmt;

c_enum! {
    /// What an adapter is.
    AdapterKind or Unknown {
        /// Low-rank matrices beside those of the base. Attached.
        Lora = INFER_ADAPTER_LORA,
        /// A vector for each of some layers. Attached.
        Steering = INFER_ADAPTER_STEERING,
        /// Learned embedding rows. Appended.
        SoftPrompt = INFER_ADAPTER_SOFT_PROMPT,
        /// Learned keys and values of every layer. Appended.
        Prefix = INFER_ADAPTER_PREFIX,
    }
}

/// What changes a model's behaviour for some sessions, beside the weights: opened once, and attached to any number of sessions.
#[derive(Clone)]
pub struct Adapter {
    handle: Handle<sys::infer_adapter>,
    model: Model,
}

impl Adapter {
    /// Opens a LoRA, steering vector, soft prompt or prefix for a model: a GGUF, safetensors or torch file, or a PEFT folder.
    pub fn open<'a>(model: &Model, source: impl Into<Source<'a>>, options: &OpenOptions) -> Result<Self> {
        let raw = options.raw();
        let handle = source.into().with(|source| {
            // SAFETY: all pointers live through the call.
            ffi::make(|out, err| unsafe { sys::infer_adapter_open(model.raw(), source, &raw, out, err) })
        })?;
        Ok(Adapter { handle, model: model.clone() })
    }

    pub(crate) fn find(model: &Model, hash: &[u8; 16]) -> Result<Self> {
        // SAFETY: the model is live; the hash has 16 bytes.
        let handle = ffi::make(|out, err| unsafe { sys::infer_adapter_find(model.raw(), hash.as_ptr(), out, err) })?;
        Ok(Adapter { handle, model: model.clone() })
    }

    /// # Safety
    /// p is NULL or an adapter of this model.
    pub(crate) unsafe fn share(p: *mut sys::infer_adapter, model: &Model) -> Option<Self> {
        // SAFETY: the caller's promise.
        Some(Adapter { handle: unsafe { Handle::share(p) }?, model: model.clone() })
    }

    pub(crate) fn raw(&self) -> *mut sys::infer_adapter {
        self.handle.get()
    }

    /// The model that it was opened for.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What it is.
    pub fn info(&self) -> Result<AdapterInfo> {
        let mut raw = sys::infer_adapter_info::init();
        // SAFETY: the handle is live, raw is ours.
        ffi::call(|err| unsafe { sys::infer_adapter_get_info(self.raw(), &mut raw, err) })?;
        Ok(AdapterInfo {
            kind: AdapterKind::from_raw(raw.kind),
            hash: raw.hash,
            targets: raw.targets,
            bytes: raw.bytes,
            own_bytes: raw.own_bytes,
            rank: raw.rank,
            rows: raw.rows,
            base: ffi::array_text(&raw.base),
        })
    }

    /// Names of the matrices that a LoRA adapter acts on, as GGUF names them.
    pub fn targets(&self) -> impl Iterator<Item = &str> + '_ {
        (0..).map_while(move |index| {
            // SAFETY: the handle is live; the name lives as long as it, and it is borrowed.
            unsafe {
                let name = sys::infer_adapter_target(self.raw(), index);
                (!name.is_null()).then(|| std::ffi::CStr::from_ptr(name).to_str().unwrap_or(""))
            }
        })
    }

    /// The tokens from which on an aLoRA acts; empty: it acts everywhere.
    pub fn invocation(&self) -> &[i32] {
        let mut count = 0;
        // SAFETY: the handle is live; the ids live as long as it, and it is borrowed.
        unsafe {
            let ids = sys::infer_adapter_invocation(self.raw(), &mut count);
            ffi::slice(ids, count)
        }
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Adapter").field(&self.info().ok()).finish()
    }
}

/// What an adapter is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdapterInfo {
    /// Its kind.
    pub kind: AdapterKind,
    /// Of the content: equal on all machines. No defence against forgery.
    pub hash: [u8; 16],
    /// LoRA: matrices; steering: layers; else 0.
    pub targets: u64,
    /// Bytes of the numbers, as stored.
    pub bytes: u64,
    /// Bytes of memory beside the mapped file.
    pub own_bytes: u64,
    /// LoRA: the largest; else 0.
    pub rank: u32,
    /// Soft prompts and prefixes: elements that appending makes; else 0.
    pub rows: u32,
    /// What the file calls its base model; "".
    pub base: String,
}

/// How an adapter is used by a session.
#[derive(Clone, Copy, Debug)]
pub struct AdapterUse<'a> {
    adapter: &'a Adapter,
    mode: i32,
    scale: f32,
    first_layer: u32,
    layer_count: u32,
}

impl<'a> AdapterUse<'a> {
    /// As the file has it: scale 1, all layers.
    pub fn new(adapter: &'a Adapter) -> Self {
        AdapterUse { adapter, mode: sys::INFER_ADAPTER_ADD, scale: 1.0, first_layer: 0, layer_count: 0 }
    }

    /// How strongly; 0: not at all. -65,536 to 65,536.
    pub fn scale(mut self, scale: f32) -> Self {
        self.scale = scale;
        self
    }

    /// Steering: takes out the part that points along the vector, instead of adding the vector.
    pub fn project(mut self) -> Self {
        self.mode = sys::INFER_ADAPTER_PROJECT;
        self
    }

    /// Acts on `count` layers from `first` on; count 0: to the last.
    pub fn layers(mut self, first: u32, count: u32) -> Self {
        self.first_layer = first;
        self.layer_count = count;
        self
    }

    pub(crate) fn raw(&self) -> sys::infer_adapter_use {
        let mut raw = sys::infer_adapter_use::init();
        raw.mode = self.mode;
        raw.adapter = self.adapter.raw();
        raw.scale = self.scale;
        raw.first_layer = self.first_layer;
        raw.layer_count = self.layer_count;
        raw
    }
}
