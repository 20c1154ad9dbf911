use crate::adapter::{Adapter, AdapterUse};
use crate::cache::CacheReason;
use crate::checkpoint::Checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{text, top, FinishReason, TokenLogprob};
use crate::ffi::{self, guard, Handle};
use crate::generate::GenerateOptions;
use crate::sampling::{LogitsCallback, Sampling};
use crate::scheduler::Scheduler;
use crate::session::{Message, SessionOptions};
use crate::template::RenderOptions;
use crate::tokenizer::text_flags;
use libinfer_sys as sys;
use std::borrow::Cow;
use std::fmt;
use std::os::raw::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What is asked: a prompt, and how it is to be answered.
#[derive(Clone, Debug)]
pub struct RequestOptions<'a> {
    prompt: Prompt<'a>,
    flags: i32,
    priority: i32,
    n: u32,
    client: u64,
    render: RenderOptions,
    text_flags: u32,
    session: SessionOptions,
    checkpoint: Option<&'a Checkpoint>,
    adapters: Vec<AdapterUse<'a>>,
    prompts: Vec<&'a Adapter>,
    sampling: Sampling,
    generate: GenerateOptions,
    time_limit: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Prompt<'a> {
    Ids(&'a [i32]),
    Text(&'a str),
    Messages(&'a [Message<'a>]),
    Nothing,
}

impl<'a> RequestOptions<'a> {
    fn new(prompt: Prompt<'a>) -> Self {
        RequestOptions {
            prompt,
            flags: 0,
            priority: 0,
            n: 0,
            client: 0,
            render: RenderOptions::new(),
            text_flags: text_flags(true, false),
            session: SessionOptions::new(),
            checkpoint: None,
            adapters: Vec::new(),
            prompts: Vec::new(),
            sampling: Sampling::greedy(),
            generate: GenerateOptions::new(),
            time_limit: Duration::ZERO,
        }
    }

    /// A conversation, by the model's chat template.
    pub fn chat(messages: &'a [Message<'a>]) -> Self {
        Self::new(Prompt::Messages(messages))
    }

    /// A text.
    pub fn text(text: &'a str) -> Self {
        Self::new(Prompt::Text(text))
    }

    /// Token ids.
    pub fn ids(ids: &'a [i32]) -> Self {
        Self::new(Prompt::Ids(ids))
    }

    /// Goes on where a checkpoint stands.
    pub fn resume(checkpoint: &'a Checkpoint) -> Self {
        Self::new(Prompt::Nothing).append_to(checkpoint)
    }

    /// Of a text: as in [`Tokenizer::encode_with`](crate::Tokenizer::encode_with). Unless told otherwise, special tokens are added where nothing comes before it.
    pub fn text_flags(mut self, add_special: bool, parse_special: bool) -> Self {
        self.text_flags = text_flags(add_special, parse_special);
        self
    }

    /// Limits of rendering a conversation.
    pub fn render(mut self, options: RenderOptions) -> Self {
        self.render = options;
        self
    }

    /// Begins at a checkpoint: the prompt is everything, and what the checkpoint has in common with it from the start on is reused.
    pub fn checkpoint(mut self, checkpoint: &'a Checkpoint) -> Self {
        self.checkpoint = Some(checkpoint);
        self
    }

    /// Begins at a checkpoint, to whose elements the prompt is appended.
    pub fn append_to(mut self, checkpoint: &'a Checkpoint) -> Self {
        self.checkpoint = Some(checkpoint);
        self.flags |= sys::INFER_REQUEST_CONTINUE;
        self.text_flags &= !text_flags(true, false);
        self
    }

    /// Context length, KV type, salt and use of the prefix cache. With a checkpoint only the last two count.
    pub fn session(mut self, options: SessionOptions) -> Self {
        self.session = options;
        self
    }

    /// How tokens are chosen; else greedily. Choice i draws with seed + i.
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// When answers end.
    pub fn generate(mut self, options: GenerateOptions) -> Self {
        if options.with(|raw| raw.flags as i32 & sys::INFER_GENERATE_IGNORE_EOS != 0) {
            self.flags |= sys::INFER_REQUEST_IGNORE_EOS;
        }
        if options.with(|raw| raw.flags as i32 & sys::INFER_GENERATE_SHOW_SPECIAL != 0) {
            self.flags |= sys::INFER_REQUEST_SHOW_SPECIAL;
        }
        self.generate = options;
        self
    }

    /// So many answers, which share the prompt; at most 128.
    pub fn choices(mut self, n: u32) -> Self {
        self.n = n;
        self
    }

    /// Higher goes first, and may set aside lower ones.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Whose request it is: waiting requests of equal priority take turns by client.
    pub fn client(mut self, client: u64) -> Self {
        self.client = client;
        self
    }

    /// From submission; then each choice ends with [`FinishReason::Time`]. Needs a clock.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Adds an adapter for prompt and answer.
    pub fn adapter(mut self, adapter: AdapterUse<'a>) -> Self {
        self.adapters.push(adapter);
        self
    }

    /// Adds a soft prompt or prefix that goes before the prompt.
    pub fn soft_prompt(mut self, adapter: &'a Adapter) -> Self {
        self.prompts.push(adapter);
        self
    }

    /// Tells the tokens of the prompt too.
    pub fn echo(mut self) -> Self {
        self.flags |= sys::INFER_REQUEST_ECHO;
        self
    }

    /// Tells the tokens of the prompt and their log-probabilities.
    pub fn prompt_logprobs(mut self) -> Self {
        self.flags |= sys::INFER_REQUEST_ECHO | sys::INFER_REQUEST_PROMPT_LOGPROBS;
        self
    }

    /// Ends when the prompt has been computed: scoring, warming the cache.
    pub fn prompt_only(mut self) -> Self {
        self.flags |= sys::INFER_REQUEST_PROMPT_ONLY;
        self
    }

    /// Keeps each choice's state for [`Request::checkpoint`].
    pub fn keep(mut self) -> Self {
        self.flags |= sys::INFER_REQUEST_KEEP;
        self
    }

    /// Runs a call with the library's struct.
    fn with<T>(&self, f: impl FnOnce(&mut sys::infer_request_options) -> T) -> T {
        let mut raw = sys::infer_request_options::init();
        let messages: Vec<_> = match self.prompt {
            Prompt::Messages(messages) => messages.iter().map(Message::raw).collect(),
            _ => Vec::new(),
        };
        match self.prompt {
            Prompt::Ids(ids) => {
                raw.ids = ids.as_ptr();
                raw.id_count = ids.len() as u64;
            }
            Prompt::Text(text) => (raw.text, raw.text_len) = ffi::parts(text.as_bytes()),
            Prompt::Messages(_) => {
                raw.messages = messages.as_ptr();
                raw.message_count = messages.len() as u64;
            }
            Prompt::Nothing => {}
        }
        let (render, session, sampling) = (self.render.raw(), self.session.raw(), self.sampling.to_raw());
        let adapters: Vec<_> = self.adapters.iter().map(AdapterUse::raw).collect();
        let prompts: Vec<_> = self.prompts.iter().map(|adapter| adapter.raw()).collect();
        raw.flags = self.flags as u32;
        raw.priority = self.priority;
        raw.n = self.n;
        raw.client = self.client;
        raw.render = &render;
        raw.text_flags = self.text_flags;
        raw.session = &session;
        raw.checkpoint = self.checkpoint.map_or(std::ptr::null_mut(), Checkpoint::raw);
        raw.adapters = ffi::slice_ptr(&adapters);
        raw.adapter_count = adapters.len() as u64;
        raw.prompts = ffi::slice_ptr(&prompts);
        raw.prompt_count = prompts.len() as u64;
        raw.sampling = &sampling;
        raw.time_limit = u64::try_from(self.time_limit.as_micros()).unwrap_or(u64::MAX);
        self.generate.with(|generate| {
            let generate = sys::infer_generate_options { flags: 0, ..*generate }; // they are the request's
            raw.generate = &generate;
            f(&mut raw)
        })
    }
}

/// What happened to a request. Text is borrowed while a closure runs, or owned by a `RequestEvent<'static>`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RequestEvent<'a> {
    /// A token of the prompt, in order, with [`RequestOptions::echo`].
    Prompt {
        /// The token.
        id: i32,
        /// Its text.
        text: Cow<'a, str>,
        /// ln of its probability, when asked for; 0 of the first.
        logprob: f32,
        /// Alternatives.
        top: Cow<'a, [TokenLogprob]>,
    },
    /// The prompt has been computed.
    Started {
        /// Elements from cache or checkpoint.
        cached: u64,
        /// Elements of the prompt.
        total: u64,
    },
    /// A token was chosen.
    Token {
        /// Of which answer, from 0.
        choice: u32,
        /// The token.
        id: i32,
        /// Its text: whole characters; may be empty.
        text: Cow<'a, str>,
        /// ln of its probability, when asked for; else 0.
        logprob: f32,
        /// Alternatives, when asked for.
        top: Cow<'a, [TokenLogprob]>,
    },
    /// An answer has ended.
    Done {
        /// Which, from 0.
        choice: u32,
        /// Why.
        reason: FinishReason,
        /// Text that was held back until now.
        text: Cow<'a, str>,
        /// Which of the stop strings, when one ended it.
        stop_index: Option<usize>,
        /// What failed, with [`FinishReason::Error`].
        error: Option<Error>,
    },
    /// All have ended: the last event.
    End,
}

impl<'a> RequestEvent<'a> {
    /// # Safety
    /// raw is an event of the library whose text lives as long as 'a.
    unsafe fn of(raw: &sys::infer_request_event) -> Self {
        // SAFETY: the caller's promise.
        let (text, top, error) = unsafe { (text(raw.text, raw.text_len), top(raw.top, raw.top_count), raw.error.as_ref()) };
        let (choice, id, logprob, top) = (raw.choice, raw.id, raw.logprob, Cow::Borrowed(top));
        match raw.kind {
            sys::INFER_REQUEST_EVENT_PROMPT => RequestEvent::Prompt { id, text, logprob, top },
            sys::INFER_REQUEST_EVENT_STARTED => RequestEvent::Started { cached: raw.done, total: raw.total },
            sys::INFER_REQUEST_EVENT_TOKEN => RequestEvent::Token { choice, id, text, logprob, top },
            sys::INFER_REQUEST_EVENT_DONE => RequestEvent::Done {
                choice,
                reason: FinishReason::from_raw(raw.finish_reason),
                text,
                stop_index: usize::try_from(raw.stop_index).ok(),
                error: error.map(|error| Error::from_c(error.code, error)),
            },
            _ => RequestEvent::End,
        }
    }

    /// The text that this event adds to an answer; "" when it adds none.
    pub fn text(&self) -> &str {
        match self {
            RequestEvent::Token { text, .. } | RequestEvent::Done { text, .. } => text,
            _ => "",
        }
    }

    /// The same with text of its own.
    pub fn into_owned(self) -> RequestEvent<'static> {
        let text_of = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        let top_of = |top: Cow<'a, [TokenLogprob]>| Cow::Owned(top.into_owned());
        match self {
            RequestEvent::Prompt { id, text, logprob, top } => {
                RequestEvent::Prompt { id, text: text_of(text), logprob, top: top_of(top) }
            }
            RequestEvent::Started { cached, total } => RequestEvent::Started { cached, total },
            RequestEvent::Token { choice, id, text, logprob, top } => {
                RequestEvent::Token { choice, id, text: text_of(text), logprob, top: top_of(top) }
            }
            RequestEvent::Done { choice, reason, text, stop_index, error } => {
                RequestEvent::Done { choice, reason, text: text_of(text), stop_index, error }
            }
            RequestEvent::End => RequestEvent::End,
        }
    }
}

type Watch = Box<dyn FnMut(&RequestEvent<'_>) + Send>;

/// A host's closure, owned by the library from submission to the event END.
struct Watcher {
    watch: Mutex<Watch>,
    _sampler: Option<Arc<LogitsCallback>>,
}

unsafe extern "C" fn tell(user: *mut c_void, _: *mut sys::infer_request, event: *const sys::infer_request_event) {
    let user = user.cast::<Watcher>();
    // SAFETY: the library's event lives until this returns.
    let event = unsafe { &*event };
    guard((), || {
        // SAFETY: the watcher lives until END.
        let watcher = unsafe { &*user };
        // one that has panicked is not called again
        if let Ok(mut watch) = watcher.watch.try_lock() {
            // SAFETY: the event's text lives until this returns.
            watch(&unsafe { RequestEvent::of(event) });
        }
    });
    if event.kind == sys::INFER_REQUEST_EVENT_END {
        // SAFETY: END is the last event; submit gave the watcher away.
        guard((), || drop(unsafe { Box::from_raw(user) }));
    }
}

/// One prompt and its answers, in a [`Scheduler`]'s queue. Clones are one request.
#[derive(Clone)]
pub struct Request(Arc<Inner>);

struct Inner {
    handle: Handle<sys::infer_request>, // dropped before the scheduler
    scheduler: Scheduler,
    sampler: Option<Arc<LogitsCallback>>,
    asked: bool,          // no closure hears of the events
    borrowed: Mutex<()>,  // held while an event's text is borrowed from the library
    ended: AtomicBool,    // END was given out
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.asked {
            // SAFETY: the handle is live. Nobody can hear of its events any more.
            unsafe { sys::infer_request_cancel(self.handle.get()) }
        }
    }
}

impl Request {
    pub(crate) fn submit(scheduler: &Scheduler, options: &RequestOptions<'_>, watch: Option<Watch>) -> Result<Self> {
        let sampler = options.sampling.keep();
        let asked = watch.is_none();
        let watcher = watch.map(|watch| Box::into_raw(Box::new(Watcher { watch: Mutex::new(watch), _sampler: sampler.clone() })));
        let made = options.with(|raw| {
            if let Some(watcher) = watcher {
                raw.callback = Some(tell);
                raw.callback_user = watcher.cast();
            }
            // SAFETY: the scheduler is live; options and what they point to outlive the call, and the watcher the request.
            ffi::make(|out, err| unsafe { sys::infer_scheduler_submit(scheduler.raw(), raw, out, err) })
        });
        match made {
            Ok(handle) => {
                let (borrowed, ended) = (Mutex::new(()), AtomicBool::new(false));
                Ok(Request(Arc::new(Inner { handle, scheduler: scheduler.clone(), sampler, asked, borrowed, ended })))
            }
            Err(error) => {
                if let Some(watcher) = watcher {
                    // SAFETY: the request was refused, so the library does not have it.
                    drop(unsafe { Box::from_raw(watcher) });
                }
                Err(error)
            }
        }
    }

    fn raw(&self) -> *mut sys::infer_request {
        self.0.handle.get()
    }

    /// The scheduler that it was submitted to.
    pub fn scheduler(&self) -> &Scheduler {
        &self.0.scheduler
    }

    /// Ends it before the next batch: its choices end with [`FinishReason::Cancelled`] when somebody steps.
    pub fn cancel(&self) {
        // SAFETY: the handle is live.
        unsafe { sys::infer_request_cancel(self.raw()) }
    }

    /// The next event that is there now; None: none (step, or wait), or [`RequestEvent::End`] was given out. Of a request with a closure: an error.
    pub fn try_next(&self) -> Result<Option<RequestEvent<'static>>> {
        if self.0.ended.load(Ordering::Acquire) {
            return Ok(None);
        }
        let _borrowed = self.0.borrowed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut raw = sys::infer_request_event::init();
        // SAFETY: the handle is live, raw is ours.
        match ffi::call(|err| unsafe { sys::infer_request_next(self.raw(), &mut raw, err) }) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(_) if self.0.ended.load(Ordering::Acquire) => return Ok(None), // another thread took it
            told => told?,
        }
        // SAFETY: nobody asks for a further event while the lock is held.
        let event = unsafe { RequestEvent::of(&raw) }.into_owned();
        if event == RequestEvent::End {
            self.0.ended.store(true, Ordering::Release);
        }
        Ok(Some(event))
    }

    /// Its events up to [`RequestEvent::End`], which is not among them. Steps the scheduler when none is there, so that one thread is enough; with several, they take turns.
    pub fn events(&self) -> impl Iterator<Item = Result<RequestEvent<'static>>> + '_ {
        let mut ended = false;
        std::iter::from_fn(move || {
            while !ended {
                match self.try_next().transpose() {
                    Some(Ok(RequestEvent::End)) => ended = true,
                    Some(Err(error)) => {
                        ended = true;
                        return Some(Err(error));
                    }
                    Some(event) => return Some(event),
                    None if self.0.ended.load(Ordering::Acquire) => ended = true,
                    None => {
                        if let Err(error) = self.0.scheduler.step(None) {
                            ended = true;
                            return Some(Err(error));
                        }
                    }
                }
            }
            None
        })
    }

    /// How it went so far.
    pub fn info(&self) -> Result<RequestInfo> {
        let mut raw = sys::infer_request_info::init();
        // SAFETY: the handle is live, raw is ours.
        ffi::call(|err| unsafe { sys::infer_request_get_info(self.raw(), &mut raw, err) })?;
        Ok(RequestInfo {
            cache_reason: CacheReason::from_raw(raw.cache_reason),
            own_reason: CacheReason::from_raw(raw.own_reason),
            prompt_tokens: raw.prompt_tokens,
            cached_tokens: raw.cached_tokens,
            generated_tokens: raw.generated_tokens,
            near_length: raw.near_length,
            difference: raw.difference,
            preemptions: raw.preemptions,
            submitted: Duration::from_micros(raw.submitted),
            started: Duration::from_micros(raw.started),
            first_token: Duration::from_micros(raw.first_token),
            ended: Duration::from_micros(raw.ended),
            prompt_logprob: raw.prompt_logprob,
        })
    }

    /// With [`RequestOptions::keep`], once a choice has ended: its state.
    pub fn checkpoint(&self, choice: u32) -> Result<Checkpoint> {
        // SAFETY: the handle is live.
        let handle = ffi::make(|out, err| unsafe { sys::infer_request_checkpoint(self.raw(), choice, out, err) })?;
        Ok(Checkpoint::of(handle, self.0.scheduler.model(), self.0.sampler.clone()))
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Request").field(&self.info().ok()).finish()
    }
}

/// How a request went. Times are the scheduler's clock's; 0: not yet.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RequestInfo {
    /// Why no more of the prompt was in the cache.
    pub cache_reason: CacheReason,
    /// The same without a look at other salts: what a tenant may be told.
    pub own_reason: CacheReason,
    /// Elements of the prompt, what a checkpoint holds included.
    pub prompt_tokens: u64,
    /// Of these, from the cache or the checkpoint.
    pub cached_tokens: u64,
    /// Tokens of all answers.
    pub generated_tokens: u64,
    /// As in [`CacheReport`](crate::CacheReport).
    pub near_length: u64,
    /// As in [`CacheReport`](crate::CacheReport).
    pub difference: u64,
    /// How often an answer of it was set aside.
    pub preemptions: u64,
    /// When it was submitted.
    pub submitted: Duration,
    /// When its first batch began.
    pub started: Duration,
    /// When its first token was chosen.
    pub first_token: Duration,
    /// When it ended.
    pub ended: Duration,
    /// The sum of the log-probabilities of the prompt's tokens, when asked for; else 0.
    pub prompt_logprob: f64,
}
