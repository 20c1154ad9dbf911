use crate::adapter::{Adapter, AdapterUse};
use crate::cache::CacheReport;
use crate::cancel::CancelFlag;
use crate::checkpoint::Checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::event::top;
use crate::ffi::{self, Handle};
use crate::model::Model;
use crate::sampling::{LogitsCallback, Sample, Sampling};
use crate::step::{step, Hidden, Logits, Rows, StepItem};
use crate::template::RenderOptions;
use crate::tokenizer::text_flags;
use libinfer_sys as sys;
use std::fmt;
use std::ops::Range;
use std::ptr::null;
use std::sync::Arc;

c_enum! {
    /// How a session keeps its keys and values.
    KvType or Unknown {
        /// 16 bits: the default.
        F16 = INFER_KV_F16,
        /// 32 bits.
        F32 = INFER_KV_F32,
        /// bfloat16.
        Bf16 = INFER_KV_BF16,
        /// 8 bits, with a scale per 32 dimensions: about half of F16's memory.
        Int8 = INFER_KV_INT8,
        /// The same with a scale per 64.
        Int8By64 = INFER_KV_INT8_64,
        /// Int8, and beside it F16 for the most recent elements.
        MixedF16 = INFER_KV_MIXED_F16,
        /// Int8, and beside it F32 for the most recent elements.
        MixedF32 = INFER_KV_MIXED_F32,
    }
}

/// Options of a [`Session`].
#[derive(Clone, Debug)]
pub struct SessionOptions {
    n_ctx: u32,
    kv_type: KvType,
    kv_recent: u32,
    cache_flags: i32,
    salt: Vec<u8>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions { n_ctx: 0, kv_type: KvType::F16, kv_recent: 0, cache_flags: 0, salt: Vec::new() }
    }
}

impl SessionOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Most elements that the session may hold; 0: the model's training context.
    pub fn n_ctx(mut self, n_ctx: u32) -> Self {
        self.n_ctx = n_ctx;
        self
    }

    /// How keys and values are kept.
    pub fn kv_type(mut self, kv_type: KvType) -> Self {
        self.kv_type = kv_type;
        self
    }

    /// Of the mixed types: elements kept in the exact type; 0: 64.
    pub fn kv_recent(mut self, elements: u32) -> Self {
        self.kv_recent = elements;
        self
    }

    /// Takes nothing from the prefix cache.
    pub fn no_cache_lookup(mut self) -> Self {
        self.cache_flags |= sys::INFER_CACHE_NO_LOOKUP;
        self
    }

    /// Leaves nothing behind in the prefix cache.
    pub fn no_cache_insert(mut self) -> Self {
        self.cache_flags |= sys::INFER_CACHE_NO_INSERT;
        self
    }

    /// Only sessions with the same salt share by the prefix cache: one for each tenant, of at most 64 bytes.
    pub fn salt(mut self, salt: impl Into<Vec<u8>>) -> Self {
        self.salt = salt.into();
        self
    }

    /// The library's struct: its pointer lives as long as self.
    pub(crate) fn raw(&self) -> sys::infer_session_options {
        let mut raw = sys::infer_session_options::init();
        raw.n_ctx = self.n_ctx;
        raw.kv_type = self.kv_type.raw();
        raw.kv_recent = self.kv_recent;
        raw.cache_flags = self.cache_flags as u32;
        raw.salt_len = u32::try_from(self.salt.len()).unwrap_or(u32::MAX);
        raw.salt = ffi::slice_ptr(&self.salt).cast();
        raw
    }
}

/// One message of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// "system", "user", "assistant", or what else the template knows.
    pub role: &'a str,
    /// What is said.
    pub content: &'a str,
}

impl<'a> Message<'a> {
    /// A message of any role.
    pub fn new(role: &'a str, content: &'a str) -> Self {
        Message { role, content }
    }

    /// What the user says.
    pub fn user(content: &'a str) -> Self {
        Self::new("user", content)
    }

    /// What the model said.
    pub fn assistant(content: &'a str) -> Self {
        Self::new("assistant", content)
    }

    /// What the conversation is about.
    pub fn system(content: &'a str) -> Self {
        Self::new("system", content)
    }

    pub(crate) fn raw(&self) -> sys::infer_message {
        let ((role, role_len), (content, content_len)) = (ffi::parts(self.role.as_bytes()), ffi::parts(self.content.as_bytes()));
        sys::infer_message { role, role_len, content, content_len }
    }
}

/// One sequence of elements (token ids, or embedding rows) and what was computed of it. Appended elements are pending until a step, or
/// an answer, computes them.
pub struct Session {
    handle: Handle<sys::infer_session>,
    model: Model,
    cancel: Option<CancelFlag>,
    sampler: Option<Arc<LogitsCallback>>,
}

impl Session {
    pub(crate) fn create(model: &Model, options: &SessionOptions) -> Result<Self> {
        let raw = options.raw();
        // SAFETY: the model is live; raw and its salt outlive the call.
        let handle = ffi::make(|out, err| unsafe { sys::infer_session_create(model.raw(), &raw, out, err) })?;
        Ok(Self::of(handle, model, None))
    }

    pub(crate) fn of(handle: Handle<sys::infer_session>, model: &Model, sampler: Option<Arc<LogitsCallback>>) -> Self {
        Session { handle, model: model.clone(), cancel: None, sampler }
    }

    pub(crate) fn raw(&self) -> *mut sys::infer_session {
        self.handle.get()
    }

    /// The model that it is of.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// A flag that ends this session's long calls (steps, answers, scores, grafts) from another thread; None: nothing does.
    pub fn set_cancel(&mut self, flag: Option<&CancelFlag>) {
        self.cancel = flag.cloned();
    }

    pub(crate) fn cancel_flag(&self) -> Option<CancelFlag> {
        self.cancel.clone()
    }

    // ---- What it holds ----

    /// Appends token ids: all, or none on an error.
    pub fn append(&mut self, ids: &[i32]) -> Result<()> {
        // SAFETY: the session is live; the ids lie there.
        ffi::call(|err| unsafe { sys::infer_session_append(self.raw(), ffi::slice_ptr(ids), ids.len() as u64, err) })
    }

    /// Appends a text. The first of a session begins with BOS where the model wants it; spellings of control tokens are plain text.
    pub fn append_text(&mut self, text: &str) -> Result<()> {
        let first = self.info()?.length == 0;
        self.append_text_with(text, first, false)
    }

    /// Appends a text; the flags are those of [`Tokenizer::encode_with`](crate::Tokenizer::encode_with).
    pub fn append_text_with(&mut self, text: &str, add_special: bool, parse_special: bool) -> Result<()> {
        let flags = text_flags(add_special, parse_special);
        let (p, len) = ffi::parts(text.as_bytes());
        // SAFETY: the session is live; len bytes lie at p.
        ffi::call(|err| unsafe { sys::infer_session_append_text(self.raw(), p, len, flags, err) })
    }

    /// Appends messages by the model's chat template, with a generation prompt. Spellings of control tokens inside messages count as such, as in
    /// every chat template: clean what strangers write.
    pub fn append_chat(&mut self, messages: &[Message<'_>]) -> Result<()> {
        self.append_chat_with(messages, &RenderOptions::new())
    }

    /// The same with limits of rendering.
    pub fn append_chat_with(&mut self, messages: &[Message<'_>], options: &RenderOptions) -> Result<()> {
        let messages: Vec<_> = messages.iter().map(Message::raw).collect();
        let raw = options.raw();
        // SAFETY: the session is live; the messages and what they point to outlive the call.
        ffi::call(|err| unsafe {
            sys::infer_session_append_chat(self.raw(), ffi::slice_ptr(&messages), messages.len() as u64, &raw, err)
        })
    }

    /// Appends embedding rows: `n_embd` floats for each key. Keys identify the rows' content for caches: equal keys promise equal rows.
    pub fn append_rows(&mut self, rows: &[f32], keys: &[[u64; 2]]) -> Result<()> {
        if Some(rows.len()) != keys.len().checked_mul(self.model.n_embd) {
            let text = format!("rows: {} floats for {} keys; a row has {}", rows.len(), keys.len(), self.model.n_embd);
            return Err(Error::new(ErrorKind::Argument, text));
        }
        let (r, k) = (ffi::slice_ptr(rows), ffi::slice_ptr(keys));
        // SAFETY: the session is live; there are keys.len() rows, each of n_embd floats, and as many keys.
        ffi::call(|err| unsafe { sys::infer_session_append_rows(self.raw(), r, k.cast(), keys.len() as u64, err) })
    }

    /// How long it is, and what it takes.
    pub fn info(&self) -> Result<SessionInfo> {
        let mut raw = sys::infer_session_info::init();
        // SAFETY: the session is live, raw is ours.
        ffi::call(|err| unsafe { sys::infer_session_get_info(self.raw(), &mut raw, err) })?;
        Ok(SessionInfo {
            n_ctx: raw.n_ctx,
            length: raw.length,
            computed: raw.computed,
            kv_bytes: raw.kv_bytes,
            logits_rows: raw.logits_rows,
            kv_shared_bytes: raw.kv_shared_bytes,
            kv_mapped_bytes: raw.kv_mapped_bytes,
            approximate: raw.approximate != 0,
            kv_recent: raw.kv_recent,
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
        // SAFETY: the session is live; ids has count items.
        ffi::call(|err| unsafe { sys::infer_session_tokens(self.raw(), range.start, count as u64, ids.as_mut_ptr(), err) })?;
        Ok(ids)
    }

    /// Rolls back to a length. Tells how many elements must be computed again.
    pub fn truncate(&mut self, length: u64) -> Result<u64> {
        let mut rerun = 0;
        // SAFETY: the session is live.
        ffi::call(|err| unsafe { sys::infer_session_truncate(self.raw(), length, &mut rerun, err) })?;
        Ok(rerun)
    }

    /// A second session with the same elements, state, logits and sampler: nothing is copied until one of them changes. Takes microseconds.
    pub fn fork(&mut self) -> Result<Session> {
        // SAFETY: the session is live.
        let handle = ffi::make(|out, err| unsafe { sys::infer_session_fork(self.raw(), out, err) })?;
        Ok(Self::of(handle, &self.model, self.sampler.clone()))
    }

    // ---- Computing ----

    /// Computes what is pending; then [`logits`](Self::logits) are those of the last element. Tells how many elements were computed, or taken from
    /// the prefix cache.
    pub fn step(&mut self) -> Result<u64> {
        self.step_rows(Rows::Last)
    }

    /// Computes what is pending, with logits of these elements.
    pub fn step_rows(&mut self, rows: Rows<'_>) -> Result<u64> {
        let cancel = self.cancel.clone();
        let mut items = [StepItem::new(self).logits(rows)];
        step(&mut items, cancel.as_ref())?;
        Ok(items[0].done())
    }

    /// Computes what is pending, and gives hidden states: see [`Hidden`].
    pub fn step_hidden(&mut self, hidden: Hidden<'_>) -> Result<Vec<f32>> {
        let cancel = self.cancel.clone();
        let mut items = [StepItem::new(self).hidden(hidden)];
        step(&mut items, cancel.as_ref())?;
        Ok(items[0].take_hidden())
    }

    /// The logits of the last row of the last step: vocab_size floats, borrowed from the session.
    pub fn logits(&self) -> Result<&[f32]> {
        let rows = self.info()?.logits_rows;
        Ok(self.logits_row(rows.saturating_sub(1))?.values)
    }

    /// The logits of one row of the last step, in element order.
    pub fn logits_row(&self, row: u64) -> Result<Logits<'_>> {
        let (mut logits, mut position) = (null(), 0);
        // SAFETY: the session is live.
        ffi::call(|err| unsafe { sys::infer_session_logits(self.raw(), row, &mut logits, &mut position, err) })?;
        // SAFETY: vocab_size floats, until the session changes: for that it must be borrowed mutably.
        let values = unsafe { ffi::slice(logits, self.model.vocab_size as u64) };
        Ok(Logits { values, position })
    }

    /// How tokens are chosen from now on. On an error the old settings stay.
    pub fn set_sampling(&mut self, sampling: &Sampling) -> Result<()> {
        let raw = sampling.to_raw();
        // SAFETY: the session is live; raw's list outlives the call.
        ffi::call(|err| unsafe { sys::infer_session_set_sampling(self.raw(), &raw, err) })?;
        self.sampler = sampling.keep();
        Ok(())
    }

    /// Draws a token from the last row of logits; it is not appended.
    pub fn sample(&mut self) -> Result<Sample> {
        let mut raw = sys::infer_sample_result::init();
        // SAFETY: the session is live, raw is ours.
        ffi::call(|err| unsafe { sys::infer_session_sample(self.raw(), &mut raw, err) })?;
        // SAFETY: top lives until the session is used again.
        Ok(Sample { id: raw.id, logprob: raw.logprob, top: unsafe { top(raw.top, raw.top_count) }.to_vec() })
    }

    // ---- Adapters ----

    /// What is in force for the elements that are appended from now on: this list of at most 16 LoRA adapters and steering vectors, in place of the
    /// one before.
    pub fn set_adapters(&mut self, uses: &[AdapterUse<'_>]) -> Result<()> {
        let uses: Vec<_> = uses.iter().map(AdapterUse::raw).collect();
        // SAFETY: the session is live, and so are the adapters, which it then keeps.
        ffi::call(|err| unsafe { sys::infer_session_set_adapters(self.raw(), ffi::slice_ptr(&uses), uses.len() as u64, err) })
    }

    /// The adapters in force and their scales.
    pub fn adapters(&self) -> Result<Vec<(Adapter, f32)>> {
        let mut all = Vec::new();
        loop {
            let mut raw = sys::infer_adapter_use::init();
            // SAFETY: the session is live, raw is ours.
            match ffi::call(|err| unsafe { sys::infer_session_adapter(self.raw(), all.len() as u64, &mut raw, err) }) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(all),
                told => told?,
            }
            // SAFETY: the adapter is live: the session holds it.
            match unsafe { Adapter::share(raw.adapter, &self.model) } {
                Some(adapter) => all.push((adapter, raw.scale)),
                None => return Err(Error::new(ErrorKind::Internal, "an adapter is NULL")),
            }
        }
    }

    /// Appends a soft prompt or a prefix.
    pub fn append_adapter(&mut self, adapter: &Adapter) -> Result<()> {
        // SAFETY: both are live.
        ffi::call(|err| unsafe { sys::infer_session_append_adapter(self.raw(), adapter.raw(), err) })
    }

    // ---- State ----

    /// Its whole state at this moment; nothing is copied.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        // SAFETY: the session is live.
        let handle = ffi::make(|out, err| unsafe { sys::infer_checkpoint_create(self.raw(), out, err) })?;
        Ok(Checkpoint::of(handle, &self.model, self.sampler.clone()))
    }

    /// Replaces everything that the session holds by a checkpoint's state.
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        // SAFETY: both are live.
        ffi::call(|err| unsafe { sys::infer_session_restore(self.raw(), checkpoint.raw(), err) })?;
        self.sampler = checkpoint.sampler();
        Ok(())
    }

    /// Drops the elements `keep` to `keep + drop` and moves those behind them down: what follows is approximate.
    pub fn shift(&mut self, keep: u64, drop: u64) -> Result<()> {
        // SAFETY: the session is live.
        ffi::call(|err| unsafe { sys::infer_session_shift(self.raw(), keep, drop, err) })
    }

    /// Appends the elements `range` of a checkpoint with their state; the first `recompute` of them are computed here. Approximate, unless the session's
    /// elements are just those before them in the checkpoint. Tells how many are or must be computed.
    pub fn graft(&mut self, checkpoint: &Checkpoint, range: Range<u64>, recompute: u64) -> Result<u64> {
        let count = range.end.saturating_sub(range.start);
        let cancel = CancelFlag::raw(self.cancel.as_ref());
        let mut rerun = 0;
        // SAFETY: all handles are live.
        ffi::call(|err| unsafe {
            sys::infer_session_graft(self.raw(), checkpoint.raw(), range.start, count, recompute, &mut rerun, cancel, err)
        })?;
        Ok(rerun)
    }

    /// What the last look-up in the prefix cache gave.
    pub fn cache_report(&self) -> Result<CacheReport> {
        CacheReport::of(self)
    }
}

/// How many elements a range has, if all of it lies within a length.
pub(crate) fn count_of(range: &Range<u64>, length: u64) -> Result<usize> {
    if range.start > range.end || range.end > length {
        let text = format!("range: {} to {} of {length} elements", range.start, range.end);
        return Err(Error::new(ErrorKind::Argument, text));
    }
    usize::try_from(range.end - range.start).map_err(|_| Error::new(ErrorKind::Limit, "range: too long"))
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.info().ok()).finish()
    }
}

/// How long a session is, and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Most elements that it may hold.
    pub n_ctx: u32,
    /// Elements, computed and pending.
    pub length: u64,
    /// Of them computed.
    pub computed: u64,
    /// Bytes of KV memory that it holds, shared pages included.
    pub kv_bytes: u64,
    /// Rows that [`Session::logits_row`] can give now.
    pub logits_rows: u64,
    /// Of `kv_bytes`, what others hold too.
    pub kv_shared_bytes: u64,
    /// Of `kv_bytes`, what lies in a mapped checkpoint file.
    pub kv_mapped_bytes: u64,
    /// Part of the state was grafted or shifted, not computed.
    pub approximate: bool,
    /// Of the mixed KV types: elements in the exact type.
    pub kv_recent: u32,
    /// Identity of the adapters in force, their scales, modes and layers; 0: none.
    pub adapters: u64,
}
