use crate::cancel::CancelFlag;
use crate::error::{Error, ErrorKind, Result};
use crate::ffi::{self, guard, Handle};
use crate::model::Model;
use crate::request::{Request, RequestEvent, RequestOptions};
use libinfer_sys as sys;
use std::cell::Cell;
use std::fmt;
use std::os::raw::c_void;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// Options of a [`Scheduler`].
pub struct SchedulerOptions {
    max_active: u32,
    max_waiting: u32,
    step_elements: u32,
    kv_budget: u64,
    reserve_tokens: u64,
    spill_path: Option<PathBuf>,
    clock: Option<Clock>,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        let start = Instant::now();
        SchedulerOptions {
            max_active: 0,
            max_waiting: 0,
            step_elements: 0,
            kv_budget: 0,
            reserve_tokens: 0,
            spill_path: None,
            clock: Some(Box::new(move || start.elapsed())),
        }
    }
}

impl SchedulerOptions {
    /// The defaults, with the time of [`Instant`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers in a batch at most; 0: 16; at most 256.
    pub fn max_active(mut self, answers: u32) -> Self {
        self.max_active = answers;
        self
    }

    /// Requests that wait for their first step; further ones are refused; 0: 1,024.
    pub fn max_waiting(mut self, requests: u32) -> Self {
        self.max_waiting = requests;
        self
    }

    /// Most prompt elements computed in one step while answers are running; 0: 64; at most 256.
    pub fn step_elements(mut self, elements: u32) -> Self {
        self.step_elements = elements;
        self
    }

    /// Bytes of KV memory that active requests may take; 0: the engine's limit.
    pub fn kv_budget(mut self, bytes: u64) -> Self {
        self.kv_budget = bytes;
        self
    }

    /// A request becomes active when its prompt and so many tokens of each answer fit the budget; 0: 256.
    pub fn reserve_tokens(mut self, tokens: u64) -> Self {
        self.reserve_tokens = tokens;
        self
    }

    /// A folder, this process's own, for the state of answers that are set aside when memory is short.
    pub fn spill_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.spill_path = Some(path.into());
        self
    }

    /// A clock that never goes back, called from any thread, in place of [`Instant`].
    pub fn clock(mut self, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// No limits of time; all times are told as 0.
    pub fn no_clock(mut self) -> Self {
        self.clock = None;
        self
    }
}

impl fmt::Debug for SchedulerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SchedulerOptions(max_active {}, kv_budget {})", self.max_active, self.kv_budget)
    }
}

unsafe extern "C" fn read_clock(user: *mut c_void) -> u64 {
    guard(0, || {
        // SAFETY: user is the scheduler's clock, which outlives it.
        let clock = unsafe { &*user.cast::<Clock>() };
        u64::try_from(clock().as_micros()).unwrap_or(u64::MAX)
    })
}

thread_local! {
    static STEPPING: Cell<bool> = const { Cell::new(false) };
}

/// While this lives its thread is inside a step. Closures that run there and stepped or waited again would wait for themselves for ever.
struct Stepping;

impl Stepping {
    fn refuse() -> Result<()> {
        match STEPPING.with(Cell::get) {
            true => Err(Error::new(ErrorKind::State, "a closure that runs inside a step must not step or wait")),
            false => Ok(()),
        }
    }

    fn begin() -> Result<Self> {
        Self::refuse()?;
        STEPPING.with(|stepping| stepping.set(true));
        Ok(Stepping)
    }
}

impl Drop for Stepping {
    fn drop(&mut self) {
        STEPPING.with(|stepping| stepping.set(false));
    }
}

/// The queue of one model's requests: many answers, computed together. Requests come from any thread. Somebody calls [`step`](Self::step) again and again:
/// a thread of yours, or those that iterate over a [`Request`].
#[derive(Clone)]
pub struct Scheduler(Arc<Inner>);

struct Inner {
    handle: Handle<sys::infer_scheduler>, // dropped first
    model: Model,
    _clock: Option<Box<Clock>>,
}

impl Scheduler {
    /// A scheduler for a model. When its last clone and its last request are dropped, all that still runs ends as cancelled.
    pub fn new(model: &Model, options: SchedulerOptions) -> Result<Self> {
        let mut raw = sys::infer_scheduler_options::init();
        raw.max_active = options.max_active;
        raw.max_waiting = options.max_waiting;
        raw.step_elements = options.step_elements;
        raw.kv_budget = options.kv_budget;
        raw.reserve_tokens = options.reserve_tokens;
        let clock = options.clock.map(Box::new);
        if let Some(clock) = &clock {
            let user: *const Clock = &**clock;
            raw.clock = Some(read_clock);
            raw.clock_user = user as *mut c_void;
        }
        let path = match &options.spill_path {
            Some(path) => Some(ffi::path_bytes(path)?),
            None => None,
        };
        if let Some(path) = &path {
            (raw.spill_path, raw.spill_path_len) = ffi::parts(path);
        }
        // SAFETY: the model is live; the path outlives the call, and the clock the scheduler.
        let handle = ffi::make(|out, err| unsafe { sys::infer_scheduler_create(model.raw(), &raw, out, err) })?;
        Ok(Scheduler(Arc::new(Inner { handle, model: model.clone(), _clock: clock })))
    }

    pub(crate) fn raw(&self) -> *mut sys::infer_scheduler {
        self.0.handle.get()
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.0.model
    }

    /// Puts a request into the queue; its events are asked for ([`Request::events`], [`Request::try_next`]). Dropping all its handles cancels it.
    pub fn submit(&self, options: &RequestOptions<'_>) -> Result<Request> {
        Request::submit(self, options, None)
    }

    /// Puts a request into the queue whose events go to a closure, on the thread that steps. It may use requests and schedulers, but not
    /// step and wait ([`ErrorKind::State`]).
    /// It goes on to the end, whether or not the handle is kept; a closure that owns a handle of its own request keeps the scheduler for ever.
    pub fn submit_with(&self, options: &RequestOptions<'_>, watch: impl FnMut(&RequestEvent<'_>) + Send + 'static) -> Result<Request> {
        Request::submit(self, options, Some(Box::new(watch)))
    }

    /// Computes one batch; tells whether there is work left. Failures of single requests end those requests and are no errors here.
    pub fn step(&self, cancel: Option<&CancelFlag>) -> Result<bool> {
        let _stepping = Stepping::begin()?;
        let mut more = 0;
        // SAFETY: the handles are live.
        ffi::call(|err| unsafe { sys::infer_scheduler_step(self.raw(), &mut more, CancelFlag::raw(cancel), err) })?;
        Ok(more != 0)
    }

    /// Steps until there is no work left.
    pub fn run(&self, cancel: Option<&CancelFlag>) -> Result<()> {
        while self.step(cancel)? {}
        Ok(())
    }

    /// Sleeps until there is work, or [`wake`](Self::wake) is called.
    pub fn wait(&self) -> Result<()> {
        Stepping::refuse()?;
        // SAFETY: the handle is live.
        ffi::call(|err| unsafe { sys::infer_scheduler_wait(self.raw(), err) })
    }

    /// Lets the present or the next [`wait`](Self::wait) return.
    pub fn wake(&self) {
        // SAFETY: the handle is live.
        unsafe { sys::infer_scheduler_wake(self.raw()) }
    }

    /// What it does.
    pub fn info(&self) -> Result<SchedulerInfo> {
        let mut raw = sys::infer_scheduler_info::init();
        // SAFETY: the handle is live, raw is ours.
        ffi::call(|err| unsafe { sys::infer_scheduler_get_info(self.raw(), &mut raw, err) })?;
        Ok(SchedulerInfo {
            active: raw.active,
            waiting: raw.waiting,
            suspended: raw.suspended,
            submitted: raw.submitted,
            finished: raw.finished,
            cancelled: raw.cancelled,
            failed: raw.failed,
            steps: raw.steps,
            prompt_tokens: raw.prompt_tokens,
            cached_tokens: raw.cached_tokens,
            generated_tokens: raw.generated_tokens,
            preemptions: raw.preemptions,
            kv_bytes: raw.kv_bytes,
            kv_budget: raw.kv_budget,
            computed: raw.computed,
        })
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scheduler").field(&self.info().ok()).finish()
    }
}

/// What a [`Scheduler`] does and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerInfo {
    /// Answers in the batch now.
    pub active: u32,
    /// Requests that wait for their first step.
    pub waiting: u64,
    /// Answers set aside.
    pub suspended: u64,
    /// Requests so far.
    pub submitted: u64,
    /// Of them ended by themselves.
    pub finished: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Failed.
    pub failed: u64,
    /// Batches.
    pub steps: u64,
    /// Tokens of prompts, computed or taken from the cache.
    pub prompt_tokens: u64,
    /// Of these, taken from the cache or a checkpoint.
    pub cached_tokens: u64,
    /// Tokens of answers.
    pub generated_tokens: u64,
    /// How often an answer was set aside.
    pub preemptions: u64,
    /// Bytes of KV memory now.
    pub kv_bytes: u64,
    /// Their limit; 0: none.
    pub kv_budget: u64,
    /// Elements that steps computed.
    pub computed: u64,
}
