use crate::cancel::CancelFlag;
use crate::engine::Engine;
use crate::error::Result;
use crate::ffi::{self, Handle};
use crate::hook::Hooks;
use crate::source::{OpenOptions, Source};
use libinfer_sys as sys;
use std::fmt;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// A chat template: messages to text.
#[derive(Clone)]
pub struct Template {
    handle: Handle<sys::infer_template>,
    _hooks: Option<Arc<Hooks>>,
}

impl Template {
    /// Compiles a Jinja template as Hugging Face models carry them.
    pub fn parse(engine: Option<&Engine>, text: &str) -> Result<Self> {
        ffi::check_abi()?;
        let e = engine.map_or(null_mut(), Engine::raw);
        let (p, len) = ffi::parts(text.as_bytes());
        // SAFETY: len bytes lie at p.
        let handle = ffi::make(|out, err| unsafe { sys::infer_template_parse(e, p, len, out, err) })?;
        Ok(Template { handle, _hooks: engine.and_then(Engine::hooks) })
    }

    /// The template in a model file's metadata; ChatML when it has none, which [`is_fallback`](Self::is_fallback) tells.
    pub fn open<'a>(engine: Option<&Engine>, source: impl Into<Source<'a>>, options: &OpenOptions) -> Result<Self> {
        let raw = options.raw();
        let e = engine.map_or(null_mut(), Engine::raw);
        let handle = source.into().with(|source| {
            // SAFETY: all pointers live through the call.
            ffi::make(|out, err| unsafe { sys::infer_template_open(e, source, &raw, out, err) })
        })?;
        Ok(Template { handle, _hooks: engine.and_then(Engine::hooks) })
    }

    /// # Safety
    /// p is a template of an engine with these hooks.
    pub(crate) unsafe fn share(p: *mut sys::infer_template, hooks: Option<Arc<Hooks>>) -> Option<Self> {
        // SAFETY: the caller's promise.
        Some(Template { handle: unsafe { Handle::share(p) }?, _hooks: hooks })
    }

    /// Whether it is ChatML in place of a template that the file lacks or that cannot be compiled.
    pub fn is_fallback(&self) -> bool {
        // SAFETY: the handle is live.
        unsafe { sys::infer_template_is_fallback(self.handle.get()) != 0 }
    }

    /// Its source text.
    pub fn text(&self) -> &str {
        let (mut text, mut len) = (null(), 0);
        // SAFETY: the handle is live; the text lives as long as it, and it is borrowed.
        unsafe {
            sys::infer_template_text(self.handle.get(), &mut text, &mut len);
            std::str::from_utf8(ffi::slice(text.cast(), len)).unwrap_or("")
        }
    }

    /// Renders with variables given as a JSON object, usually `{"messages":[{"role":"user","content":"..."}],"add_generation_prompt":true}`.
    pub fn render(&self, json: &str, options: &RenderOptions) -> Result<String> {
        let raw = options.raw();
        let (p, len) = ffi::parts(json.as_bytes());
        let bytes = ffi::fill(json.len() * 2 + 1024, |text: *mut u8, capacity, need, err| {
            // SAFETY: the handle is live; len bytes lie at p, and capacity bytes fit at text.
            unsafe { sys::infer_template_render(self.handle.get(), p, len, &raw, text.cast(), capacity, need, err) }
        })?;
        Ok(ffi::text_of(bytes))
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({} bytes{})", self.text().len(), if self.is_fallback() { ", fallback" } else { "" })
    }
}

/// Limits of rendering a template, and what time it is there.
#[derive(Clone, Debug, Default)]
pub struct RenderOptions {
    now: i64,
    max_output: u64,
    max_steps: u64,
    max_memory: u64,
    cancel: Option<CancelFlag>,
}

impl RenderOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// For `strftime_now`: seconds since 1970-01-01 00:00:00 in the zone whose time is to be shown.
    pub fn now(mut self, seconds: i64) -> Self {
        self.now = seconds;
        self
    }

    /// Bytes of output at most; 0: 16 MiB.
    pub fn max_output(mut self, bytes: u64) -> Self {
        self.max_output = bytes;
        self
    }

    /// Steps of evaluation at most; 0: 10,000,000.
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.max_steps = steps;
        self
    }

    /// Bytes of working memory at most; 0: 256 MiB.
    pub fn max_memory(mut self, bytes: u64) -> Self {
        self.max_memory = bytes;
        self
    }

    /// A flag that ends the rendering.
    pub fn cancel(mut self, flag: &CancelFlag) -> Self {
        self.cancel = Some(flag.clone());
        self
    }

    pub(crate) fn raw(&self) -> sys::infer_render_options {
        let mut raw = sys::infer_render_options::init();
        raw.now = self.now;
        raw.max_output = self.max_output;
        raw.max_steps = self.max_steps;
        raw.max_memory = self.max_memory;
        raw.cancel = CancelFlag::raw(self.cancel.as_ref());
        raw
    }
}
