use crate::adapter::Adapter;
use crate::cancel::CancelFlag;
use crate::embed::{EmbedInput, EmbedOptions, Embedding, Pooling};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ffi::{self, Handle};
use crate::file::File;
use crate::hook::Hooks;
use crate::session::{Session, SessionOptions};
use crate::source::{OpenOptions, Source};
use crate::template::Template;
use crate::tokenizer::Tokenizer;
use libinfer_sys as sys;
use std::fmt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

c_enum! {
    /// What of a model's file a fingerprint covers.
    Fingerprint {
        /// Metadata, the directory of tensors, and samples of the weights.
        Quick = INFER_FINGERPRINT_QUICK,
        /// All bytes.
        Full = INFER_FINGERPRINT_FULL,
    }
}

/// Weights, tokenizer and template: immutable, and shared by its clones.
#[derive(Clone)]
pub struct Model {
    handle: Handle<sys::infer_model>,
    hooks: Option<Arc<Hooks>>,
    pub(crate) vocab_size: usize,
    pub(crate) n_embd: usize,
}

impl Model {
    /// Opens a model on an engine; None: a private one with default options.
    pub fn open<'a>(engine: Option<&Engine>, source: impl Into<Source<'a>>, options: &OpenOptions) -> Result<Self> {
        let raw = options.raw();
        let e = engine.map_or(null_mut(), Engine::raw);
        let handle = source.into().with(|source| {
            // SAFETY: all pointers live through the call.
            ffi::make(|out, err| unsafe { sys::infer_model_open(e, source, &raw, out, err) })
        })?;
        Self::of(handle, engine.and_then(Engine::hooks))
    }

    /// Opens a model file or folder with default options.
    pub fn open_path(path: impl AsRef<Path>) -> Result<Self> {
        Self::open(None, path.as_ref(), &OpenOptions::new())
    }

    fn of(handle: Handle<sys::infer_model>, hooks: Option<Arc<Hooks>>) -> Result<Self> {
        let mut model = Model { handle, hooks, vocab_size: 0, n_embd: 0 };
        let info = model.info()?;
        model.vocab_size = info.vocab_size as usize;
        model.n_embd = info.n_embd as usize;
        Ok(model)
    }

    pub(crate) fn raw(&self) -> *mut sys::infer_model {
        self.handle.get()
    }

    pub(crate) fn hooks(&self) -> Option<Arc<Hooks>> {
        self.hooks.clone()
    }

    /// An empty session of it.
    pub fn session(&self, options: &SessionOptions) -> Result<Session> {
        Session::create(self, options)
    }

    /// Its tokenizer; None when the file has none that is known ([`ModelInfo::tokenizer_problem`] says why).
    pub fn tokenizer(&self) -> Option<Tokenizer> {
        // SAFETY: the handle is live, and the tokenizer is of the same engine.
        unsafe { Tokenizer::share(sys::infer_model_tokenizer(self.raw()), self.hooks()) }
    }

    /// Its chat template; ChatML stands in where the file has none.
    pub fn template(&self) -> Result<Template> {
        // SAFETY: the handle is live, and the template is of the same engine.
        unsafe { Template::share(sys::infer_model_template(self.raw()), self.hooks()) }.ok_or_else(|| missing("template"))
    }

    /// The file as data.
    pub fn file(&self) -> Result<File> {
        // SAFETY: the handle is live, and the file is of the same engine.
        unsafe { File::share(sys::infer_model_file(self.raw()), self.hooks()) }.ok_or_else(|| missing("file"))
    }

    /// The engine that it was opened on.
    pub fn engine(&self) -> Result<Engine> {
        // SAFETY: the handle is live, and the hooks are the engine's.
        unsafe { Engine::share(sys::infer_model_engine(self.raw()), &self.hooks) }.ok_or_else(|| missing("engine"))
    }

    /// What the model is.
    pub fn info(&self) -> Result<ModelInfo> {
        let mut raw = sys::infer_model_info::init();
        // SAFETY: the handle is live, raw is ours.
        ffi::call(|err| unsafe { sys::infer_model_get_info(self.raw(), &mut raw, err) })?;
        Ok(ModelInfo::from_c(&raw))
    }

    /// How much of it is in memory. Takes some milliseconds for tens of gigabytes.
    pub fn memory(&self) -> Result<ModelMemory> {
        let mut raw = sys::infer_model_memory::init();
        // SAFETY: as above.
        ffi::call(|err| unsafe { sys::infer_model_get_memory(self.raw(), &mut raw, err) })?;
        Ok(ModelMemory {
            n_expert: raw.n_expert,
            n_expert_used: raw.n_expert_used,
            weight_bytes: raw.weight_bytes,
            resident_bytes: raw.resident_bytes,
            expert_bytes: raw.expert_bytes,
            expert_resident_bytes: raw.expert_resident_bytes,
            own_bytes: raw.own_bytes,
        })
    }

    /// What tells this model's file from others; the same for copies on any machine. No defence against forgery.
    pub fn fingerprint(&self, kind: Fingerprint, cancel: Option<&CancelFlag>) -> Result<[u8; 32]> {
        let mut out = [0; 32];
        let flag = CancelFlag::raw(cancel);
        // SAFETY: the handles are live, out has 32 bytes.
        ffi::call(|err| unsafe { sys::infer_model_fingerprint(self.raw(), kind.raw(), out.as_mut_ptr(), flag, err) })?;
        Ok(out)
    }

    /// Opens an adapter for this model.
    pub fn open_adapter<'a>(&self, source: impl Into<Source<'a>>, options: &OpenOptions) -> Result<Adapter> {
        Adapter::open(self, source, options)
    }

    /// The adapter that is open for this model and has this content, as [`AdapterInfo::hash`](crate::AdapterInfo::hash) tells it.
    pub fn find_adapter(&self, hash: &[u8; 16]) -> Result<Adapter> {
        Adapter::find(self, hash)
    }

    /// Embeddings of texts or token ids, several of them in one pass: the first failure, or all.
    pub fn embed(&self, inputs: &[EmbedInput<'_>], options: &EmbedOptions) -> Result<Vec<Embedding>> {
        self.embed_each(inputs, options)?.into_iter().collect()
    }

    /// The same, with a result for each: one that fails leaves the others.
    pub fn embed_each(&self, inputs: &[EmbedInput<'_>], options: &EmbedOptions) -> Result<Vec<Result<Embedding>>> {
        crate::embed::embed(self, inputs, options)
    }
}

fn missing(what: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("the model has no {what}"))
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info() {
            Ok(info) => write!(f, "Model({} {:?})", info.architecture, info.name),
            Err(error) => write!(f, "Model({error})"),
        }
    }
}

/// What a model is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelInfo {
    /// Logits per position.
    pub vocab_size: u32,
    /// Layers.
    pub n_layer: u32,
    /// Width of an embedding row.
    pub n_embd: u32,
    /// Heads.
    pub n_head: u32,
    /// Heads of keys and values.
    pub n_head_kv: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Context length that the file declares.
    pub n_ctx_train: u32,
    /// Length of the sliding window; 0: none.
    pub window: u32,
    /// Elements of all weights.
    pub n_params: u64,
    /// Bytes of all weights.
    pub weight_bytes: u64,
    /// "llama" and so on.
    pub architecture: String,
    /// "" when the file has none.
    pub name: String,
    /// Why there is no tokenizer; else "".
    pub tokenizer_problem: String,
    /// Why the file's template is not used; else "".
    pub template_problem: String,
    /// Floats of a vector of [`Model::embed`].
    pub embedding_width: u32,
    /// How a text's rows become one vector.
    pub pooling: Pooling,
    /// An encoder: embeddings only, no sessions.
    pub encoder: bool,
    /// Most tokens of a text that [`Model::embed`] takes unless told otherwise.
    pub embed_tokens: u32,
}

impl ModelInfo {
    fn from_c(raw: &sys::infer_model_info) -> Self {
        ModelInfo {
            vocab_size: raw.vocab_size,
            n_layer: raw.n_layer,
            n_embd: raw.n_embd,
            n_head: raw.n_head,
            n_head_kv: raw.n_head_kv,
            head_dim: raw.head_dim,
            n_ctx_train: raw.n_ctx_train,
            window: raw.window,
            n_params: raw.n_params,
            weight_bytes: raw.weight_bytes,
            architecture: ffi::array_text(&raw.architecture),
            name: ffi::array_text(&raw.name),
            tokenizer_problem: ffi::array_text(&raw.tokenizer_problem),
            template_problem: ffi::array_text(&raw.template_problem),
            embedding_width: raw.embedding_width,
            pooling: Pooling::from_raw(raw.pooling),
            encoder: raw.encoder != 0,
            embed_tokens: raw.embed_tokens,
        }
    }
}

/// How much of a model is in memory, in bytes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelMemory {
    /// Experts of each layer that has some; 0: none has.
    pub n_expert: u32,
    /// Of them for an element.
    pub n_expert_used: u32,
    /// Of all tensors of the file.
    pub weight_bytes: u64,
    /// Of these, in memory now.
    pub resident_bytes: u64,
    /// Of the experts' tensors.
    pub expert_bytes: u64,
    /// Of these, in memory now.
    pub expert_resident_bytes: u64,
    /// Copies made at open, in another form than the file's.
    pub own_bytes: u64,
}
