use crate::error::Result;
use crate::event::TokenLogprob;
use crate::ffi::{self, guard};
use libinfer_sys as sys;
use std::fmt;
use std::os::raw::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

type LogitsFn = dyn Fn(&mut [f32], &[i32]) -> Result<()> + Send + Sync;

/// A host's closure. The library hands the pointer that it was given on to forks, checkpoints and stores, for longer than any owner here can tell; so
/// that pointer is a number, and REGISTRY says which closure it is, as long as there is one.
pub(crate) struct LogitsCallback {
    id: usize,
    f: Box<LogitsFn>,
}

/// In the order of the numbers, which are never used again.
static REGISTRY: Mutex<Vec<(usize, Weak<LogitsCallback>)>> = Mutex::new(Vec::new());
static NEXT: AtomicUsize = AtomicUsize::new(1);

fn registry() -> MutexGuard<'static, Vec<(usize, Weak<LogitsCallback>)>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogitsCallback {
    fn new(f: Box<LogitsFn>) -> Arc<Self> {
        let mut all = registry();
        let callback = Arc::new(LogitsCallback { id: NEXT.fetch_add(1, Ordering::Relaxed), f });
        all.push((callback.id, Arc::downgrade(&callback)));
        callback
    }

    fn find(id: usize) -> Option<Arc<Self>> {
        let all = registry();
        let at = all.binary_search_by_key(&id, |entry| entry.0).ok()?;
        all[at].1.upgrade()
    }
}

impl Drop for LogitsCallback {
    fn drop(&mut self) {
        let mut all = registry();
        if let Ok(at) = all.binary_search_by_key(&self.id, |entry| entry.0) {
            all.remove(at);
        }
    }
}

unsafe extern "C" fn change_logits(user: *mut c_void, logits: *mut f32, vocab_size: u64, ids: *const i32, count: u64) -> sys::infer_status {
    guard(sys::INFER_ERROR_HOST, || {
        let callback = match LogitsCallback::find(user as usize) {
            Some(callback) => callback,
            None => return sys::INFER_ERROR_HOST, // the closure is gone: see Sampling::callback
        };
        // SAFETY: the library gives this call alone vocab_size floats, and count ids.
        let (logits, ids) = unsafe { (std::slice::from_raw_parts_mut(logits, vocab_size as usize), ffi::slice(ids, count)) };
        match (callback.f)(logits, ids) {
            Ok(()) => sys::INFER_OK,
            Err(error) => {
                let code = error.code();
                ffi::note_error(error);
                code
            }
        }
    })
}

/// How tokens are chosen. Applied in this order: callback, bias, penalties, temperature, top_k, top_p, min_p, typical; then one draw.
#[derive(Clone)]
pub struct Sampling {
    raw: sys::infer_sampling,
    bias: Vec<sys::infer_bias>,
    callback: Option<Arc<LogitsCallback>>,
}

// SAFETY: raw's pointers are NULL until with_raw.
unsafe impl Send for Sampling {}
// SAFETY: as above.
unsafe impl Sync for Sampling {}

impl Default for Sampling {
    /// What infer-cli uses: temperature 0.7, top_k 40, top_p 0.95, min_p 0.05, seed 0.
    fn default() -> Self {
        let mut sampling = Sampling::greedy();
        // SAFETY: raw is a struct of its size; that is all that could fail.
        unsafe { sys::infer_sampling_default(&mut sampling.raw, null_mut()) };
        sampling
    }
}

impl Sampling {
    /// Always the most likely token.
    pub fn greedy() -> Self {
        Sampling { raw: sys::infer_sampling::init(), bias: Vec::new(), callback: None }
    }

    /// Logits are divided by it; 0: greedy. 0 to 1000.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.raw.temperature = temperature;
        self
    }

    /// Keeps the k most likely; 0: all.
    pub fn top_k(mut self, k: u32) -> Self {
        self.raw.top_k = k;
        self
    }

    /// Keeps the smallest set with at least this much probability; 0 or 1: all.
    pub fn top_p(mut self, p: f32) -> Self {
        self.raw.top_p = p;
        self
    }

    /// Drops tokens less likely than this share of the most likely; 0: none.
    pub fn min_p(mut self, p: f32) -> Self {
        self.raw.min_p = p;
        self
    }

    /// Locally typical sampling; 0 or 1: all.
    pub fn typical_p(mut self, p: f32) -> Self {
        self.raw.typical_p = p;
        self
    }

    /// Positive logits of seen tokens are divided by it, negative multiplied; 0 or 1: none.
    pub fn repetition_penalty(mut self, penalty: f32) -> Self {
        self.raw.repetition_penalty = penalty;
        self
    }

    /// Subtracted once from the logit of each seen token.
    pub fn presence_penalty(mut self, penalty: f32) -> Self {
        self.raw.presence_penalty = penalty;
        self
    }

    /// Subtracted once per occurrence.
    pub fn frequency_penalty(mut self, penalty: f32) -> Self {
        self.raw.frequency_penalty = penalty;
        self
    }

    /// How many elements back count as seen; 0: all.
    pub fn penalty_last_n(mut self, n: u32) -> Self {
        self.raw.penalty_last_n = n;
        self
    }

    /// The draw for a position is a function of this seed and the position alone.
    pub fn seed(mut self, seed: u64) -> Self {
        self.raw.seed = seed;
        self
    }

    /// Adds to the logit of a token; `f32::NEG_INFINITY` forbids it.
    pub fn bias(mut self, id: i32, bias: f32) -> Self {
        self.bias.push(sys::infer_bias { id, bias });
        self
    }

    /// May change the logits before anything else does; the second argument is the session's elements so far. `f32::NEG_INFINITY` forbids a
    /// token; NaN and infinity are errors. An error ends the call and is what that returns.
    ///
    /// The closure lives as long as a session, checkpoint or request that was made with it, or a clone of this; forks keep it. A checkpoint that
    /// comes back from a [`Store`](crate::Store) after all of those are gone fails with [`ErrorKind::Host`](crate::ErrorKind::Host) until
    /// its session is given another sampling. Checkpoint files have none.
    pub fn callback(mut self, callback: impl Fn(&mut [f32], &[i32]) -> Result<()> + Send + Sync + 'static) -> Self {
        self.callback = Some(LogitsCallback::new(Box::new(callback)));
        self
    }

    /// Reports the log-probability of each token.
    pub fn logprobs(mut self) -> Self {
        self.raw.logprobs = 1;
        self
    }

    /// Reports so many alternatives with each token, at most 20.
    pub fn top_logprobs(mut self, count: u32) -> Self {
        self.raw.top_logprobs = count;
        self
    }

    pub(crate) fn keep(&self) -> Option<Arc<LogitsCallback>> {
        self.callback.clone()
    }

    /// The library's struct: its pointers live as long as self.
    pub(crate) fn to_raw(&self) -> sys::infer_sampling {
        let mut raw = self.raw;
        raw.bias = ffi::slice_ptr(&self.bias);
        raw.bias_count = self.bias.len() as u64;
        if let Some(callback) = &self.callback {
            raw.callback = Some(change_logits);
            raw.callback_user = callback.id as *mut c_void;
        }
        raw
    }
}

impl fmt::Debug for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sampling").field(&self.to_raw()).finish()
    }
}

/// A token that was drawn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// The token; it is not appended.
    pub id: i32,
    /// ln of its probability, when asked for; else 0.
    pub logprob: f32,
    /// Alternatives, when asked for, most likely first.
    pub top: Vec<TokenLogprob>,
}
