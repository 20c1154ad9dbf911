use crate::cache::CacheStats;
use crate::cancel::CancelFlag;
use crate::error::{Error, ErrorKind, Result};
use crate::ffi::{self, Handle};
use crate::hook::{self, Executor, Hooks, MemoryHook};
use crate::model::Model;
use crate::source::{OpenOptions, Source};
use libinfer_sys as sys;
use std::fmt;
use std::os::raw::c_void;
use std::path::PathBuf;
use std::ptr::null;
use std::sync::Arc;

c_enum! {
    /// Processor variants, least to most capable.
    Cpu or Unknown {
        /// The best that runs here.
        Auto = INFER_CPU_AUTO,
        /// Plain C.
        Scalar = INFER_CPU_SCALAR,
        /// AVX2 with FMA and F16C.
        Avx2 = INFER_CPU_AVX2,
        /// AVX-VNNI.
        AvxVnni = INFER_CPU_AVXVNNI,
        /// AVX-512 F, BW, VL, DQ.
        Avx512 = INFER_CPU_AVX512,
        /// AVX-512 with VNNI.
        Avx512Vnni = INFER_CPU_AVX512VNNI,
        /// NEON.
        Neon = INFER_CPU_NEON,
        /// NEON with dot products.
        Dotprod = INFER_CPU_DOTPROD,
        /// NEON with int8 matrix products.
        I8mm = INFER_CPU_I8MM,
    }
}

impl Cpu {
    /// "scalar", "avx2" and so on; "" when the library does not know it.
    pub fn name(self) -> &'static str {
        // SAFETY: any number may be asked; the string is static or NULL.
        unsafe { ffi::static_str(sys::infer_cpu_name(self.raw())) }
    }

    /// The variant of a name.
    pub fn from_name(name: &str) -> Option<Cpu> {
        let (text, len) = ffi::parts(name.as_bytes());
        // SAFETY: len bytes lie at text.
        match unsafe { sys::infer_cpu_from_name(text, len) } {
            -1 => None,
            number => Some(Cpu::from_raw(number)),
        }
    }
}

c_enum! {
    /// How matrix products treat activations.
    Numerics or Unknown {
        /// int8 activations against quantised weights, a fixed order of every sum: the default.
        Exact = INFER_NUMERICS_EXACT,
        /// Activations stay f32; slower.
        Precise = INFER_NUMERICS_PRECISE,
        /// May use other arithmetic where that is faster.
        Fast = INFER_NUMERICS_FAST,
    }
}

c_enum! {
    /// How much matters of a line of the log.
    LogLevel or Unknown {
        /// Something failed.
        Error = INFER_LOG_ERROR,
        /// Something is not as it should be.
        Warning = INFER_LOG_WARNING,
        /// What is going on.
        Info = INFER_LOG_INFO,
        /// For those who look for errors in the library.
        Debug = INFER_LOG_DEBUG,
    }
}

/// The device (today: the processor), its threads and the memory of computed state. Models of one engine share them.
#[derive(Clone)]
pub struct Engine {
    handle: Handle<sys::infer_engine>,
    hooks: Option<Arc<Hooks>>, // after the handle: dropped when that is gone
}

impl Engine {
    /// An engine with default options.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// Sets options first.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// # Safety
    /// p is an engine whose hooks these are.
    pub(crate) unsafe fn share(p: *mut sys::infer_engine, hooks: &Option<Arc<Hooks>>) -> Option<Self> {
        // SAFETY: the caller's promise.
        Some(Engine { handle: unsafe { Handle::share(p) }?, hooks: hooks.clone() })
    }

    pub(crate) fn raw(&self) -> *mut sys::infer_engine {
        self.handle.get()
    }

    pub(crate) fn hooks(&self) -> Option<Arc<Hooks>> {
        self.hooks.clone()
    }

    /// Opens a model on this engine.
    pub fn open_model<'a>(&self, source: impl Into<Source<'a>>, options: &OpenOptions) -> Result<Model> {
        Model::open(Some(self), source, options)
    }

    /// What is in use.
    pub fn info(&self) -> Result<EngineInfo> {
        let mut raw = sys::infer_engine_info::init();
        // SAFETY: the handle is live, raw is ours.
        ffi::call(|err| unsafe { sys::infer_engine_get_info(self.raw(), &mut raw, err) })?;
        Ok(EngineInfo {
            cpu: Cpu::from_raw(raw.cpu),
            numerics: Numerics::from_raw(raw.numerics),
            threads: raw.threads,
            kv_bytes: raw.kv_bytes,
            kv_budget: raw.kv_budget,
            memory_bytes: raw.memory_bytes,
            memory_peak: raw.memory_peak,
            memory_limit: raw.memory_limit,
        })
    }

    /// What the prefix cache does. All zero without one.
    pub fn cache_stats(&self) -> Result<CacheStats> {
        let mut raw = sys::infer_cache_stats::init();
        // SAFETY: as above.
        ffi::call(|err| unsafe { sys::infer_engine_cache_stats(self.raw(), &mut raw, err) })?;
        Ok(CacheStats::from_c(&raw))
    }

    /// Writes everything that the prefix cache keeps to its folder, within its budgets: before an orderly shutdown.
    pub fn cache_flush(&self, cancel: Option<&CancelFlag>) -> Result<()> {
        // SAFETY: the handles are live.
        ffi::call(|err| unsafe { sys::infer_engine_cache_flush(self.raw(), CancelFlag::raw(cancel), err) })
    }

    /// Forgets everything that the prefix cache keeps in memory.
    pub fn cache_clear(&self) -> Result<()> {
        // SAFETY: the handle is live.
        ffi::call(|err| unsafe { sys::infer_engine_cache_clear(self.raw(), err) })
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Engine").field(&self.info().ok()).finish()
    }
}

/// What an engine has in use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineInfo {
    /// The processor variant.
    pub cpu: Cpu,
    /// How products are computed.
    pub numerics: Numerics,
    /// Threads, or the executor's concurrency.
    pub threads: u32,
    /// KV memory taken from the device now, in bytes.
    pub kv_bytes: u64,
    /// Its limit; 0: none.
    pub kv_budget: u64,
    /// Bytes taken from the allocator now, by the engine and all that was made with it.
    pub memory_bytes: u64,
    /// The most of that so far.
    pub memory_peak: u64,
    /// Its limit; 0: none.
    pub memory_limit: u64,
}

/// Options of an [`Engine`].
pub struct EngineBuilder {
    raw: sys::infer_engine_options,
    cache_dir: Option<PathBuf>,
    hooks: Hooks,
}

// SAFETY: raw's pointers are all NULL until build.
unsafe impl Send for EngineBuilder {}

impl Default for EngineBuilder {
    fn default() -> Self {
        EngineBuilder {
            raw: sys::infer_engine_options::init(),
            cache_dir: None,
            hooks: Hooks { log: None, memory: None, executor: None },
        }
    }
}

impl EngineBuilder {
    /// A processor variant; refused when the machine or the build lacks it.
    pub fn cpu(mut self, cpu: Cpu) -> Self {
        self.raw.cpu = cpu.raw();
        self
    }

    /// How products are computed.
    pub fn numerics(mut self, numerics: Numerics) -> Self {
        self.raw.numerics = numerics.raw();
        self
    }

    /// Threads; 0: the physical cores that this process may use. At most 256.
    pub fn threads(mut self, threads: u32) -> Self {
        self.raw.threads = threads;
        self
    }

    /// Bytes of KV memory over all sessions; 0: no limit.
    pub fn kv_budget(mut self, bytes: u64) -> Self {
        self.raw.kv_budget = bytes;
        self
    }

    /// Bytes that the engine and all that is made with it may take; 0: no limit. What goes beyond it fails with [`ErrorKind::NoMemory`], and
    /// everything stays usable. [`Estimate`](crate::Estimate) tells how much is needed.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.raw.memory_limit = bytes;
        self
    }

    /// Receives lines of text up to this level. The closure is called from inside the library and must not call it.
    pub fn log(mut self, level: LogLevel, log: impl Fn(LogLevel, &str) + Send + Sync + 'static) -> Self {
        self.raw.log_level = level.raw();
        self.hooks.log = Some(Box::new(log));
        self
    }

    /// Hears of all memory that is taken.
    pub fn memory_hook(mut self, hook: impl MemoryHook + 'static) -> Self {
        self.hooks.memory = Some(Box::new(hook));
        self
    }

    /// Runs the engine's work on threads of yours; threads must then be 0.
    pub fn executor(mut self, executor: impl Executor + 'static) -> Self {
        self.hooks.executor = Some(Box::new(executor));
        self
    }

    /// Bytes that the prefix cache may keep beyond what sessions hold; 0: no cache.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.raw.cache_bytes = bytes;
        self
    }

    /// Where state that the cache evicts is written and found again, also after a restart. Needs cache_bytes.
    pub fn cache_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(dir.into());
        self
    }

    /// Bytes of the files there; 0: no limit.
    pub fn cache_dir_bytes(mut self, bytes: u64) -> Self {
        self.raw.cache_dir_bytes = bytes;
        self
    }

    /// Bytes that this engine may write there in all; 0: no limit.
    pub fn cache_write_bytes(mut self, bytes: u64) -> Self {
        self.raw.cache_write_bytes = bytes;
        self
    }

    /// Makes the engine.
    pub fn build(self) -> Result<Engine> {
        ffi::check_abi()?;
        let mut raw = self.raw;
        let hooks = Arc::new(self.hooks);
        let user = Arc::as_ptr(&hooks) as *mut c_void;
        let mut allocator = sys::infer_allocator::init();
        let mut executor = sys::infer_executor::init();
        if hooks.log.is_some() {
            raw.log = Some(hook::log);
            raw.log_user = user;
        }
        if hooks.memory.is_some() {
            allocator.user = user;
            allocator.alloc = Some(hook::take);
            allocator.free = Some(hook::give);
            raw.allocator = &allocator;
        }
        if let Some(host) = &hooks.executor {
            executor.concurrency = host.concurrency();
            executor.user = user;
            executor.run = Some(hook::run);
            raw.executor = &executor;
        }
        let dir = match &self.cache_dir {
            Some(dir) => Some(ffi::path_bytes(dir)?),
            None => None,
        };
        raw.cache_dir = dir.as_ref().map_or(null(), |dir| dir.as_ptr().cast());
        raw.cache_dir_len = dir.as_ref().map_or(0, |dir| dir.len() as u64);
        if dir.as_ref().map_or(false, |dir| dir.is_empty()) {
            return Err(Error::new(ErrorKind::Argument, "cache_dir: is empty"));
        }
        // SAFETY: raw and what it points to live through the call; the hooks live as long as anything of the engine.
        let handle = ffi::make(|out, err| unsafe { sys::infer_engine_create(&raw, out, err) })?;
        Ok(Engine { handle, hooks: Some(hooks) })
    }
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBuilder").field("raw", &self.raw).field("cache_dir", &self.cache_dir).finish()
    }
}
