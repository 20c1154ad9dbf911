use crate::cancel::CancelFlag;
use crate::error::Result;
use crate::event::{Event, FinishReason};
use crate::ffi;
use crate::session::Session;
use libinfer_sys as sys;

/// When an answer ends, and what of it is shown.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    flags: i32,
    max_tokens: u64,
    shift_keep: u64,
    shift_drop: u64,
    stops: Vec<Vec<u8>>,
    stop_ids: Vec<i32>,
    repeat_guard: u64,
}

impl GenerateOptions {
    /// The defaults: until the model ends its turn, or the context is full.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tokens at most; 0: until the context is full. The end-of-turn token counts.
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// A string that ends the answer, whatever tokens it comes in; nothing of it is given out. At most 64 of 1 to 1,024 bytes.
    pub fn stop(mut self, stop: impl Into<Vec<u8>>) -> Self {
        self.stops.push(stop.into());
        self
    }

    /// A further token that ends the answer. At most 64.
    pub fn stop_id(mut self, id: i32) -> Self {
        self.stop_ids.push(id);
        self
    }

    /// End-of-turn tokens do not end the answer.
    pub fn ignore_eos(mut self) -> Self {
        self.flags |= sys::INFER_GENERATE_IGNORE_EOS;
        self
    }

    /// Control tokens give their spelling as text.
    pub fn show_special(mut self) -> Self {
        self.flags |= sys::INFER_GENERATE_SHOW_SPECIAL;
        self
    }

    /// When the context is full, drops `drop` elements behind the first `keep`, and goes on: what follows is approximate.
    pub fn shift(mut self, keep: u64, drop: u64) -> Self {
        self.shift_keep = keep;
        self.shift_drop = drop;
        self
    }

    /// Ends an answer whose last so many tokens are a pattern over and over: 16 to 4,096; 0: never.
    pub fn repeat_guard(mut self, tokens: u64) -> Self {
        self.repeat_guard = tokens;
        self
    }

    /// Runs a call with the library's struct.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&sys::infer_generate_options) -> T) -> T {
        let text = |stop: &Vec<u8>| {
            let (text, text_len) = ffi::parts(stop);
            sys::infer_text { text, text_len }
        };
        let stops: Vec<_> = self.stops.iter().map(text).collect();
        let mut raw = sys::infer_generate_options::init();
        raw.flags = self.flags as u32;
        raw.max_tokens = self.max_tokens;
        raw.shift_keep = self.shift_keep;
        raw.shift_drop = self.shift_drop;
        raw.stops = ffi::slice_ptr(&stops);
        raw.stop_count = stops.len() as u64;
        raw.stop_ids = ffi::slice_ptr(&self.stop_ids);
        raw.stop_id_count = self.stop_ids.len() as u64;
        raw.repeat_guard = self.repeat_guard;
        f(&raw)
    }
}

impl Session {
    /// Begins an answer; without new input it goes on where the session stands. The session keeps all tokens of it.
    pub fn generate(&mut self, options: &GenerateOptions) -> Result<Generation<'_>> {
        // SAFETY: the session is live; the options outlive the call.
        options.with(|raw| ffi::call(|err| unsafe { sys::infer_generate_begin(self.raw(), raw, err) }))?;
        Ok(self.resume())
    }

    /// Goes on with an answer that was begun: after an error, after cancelling, or from a checkpoint.
    pub fn resume(&mut self) -> Generation<'_> {
        Generation { session: self, ended: false }
    }
}

/// An answer that is being made: an iterator over [`Event`]s, each a bounded piece of work. It ends after [`Event::Done`] or an error; after an
/// error, [`Session::resume`] goes on with the same answer, and so does dropping this early.
#[derive(Debug)]
pub struct Generation<'s> {
    session: &'s mut Session,
    ended: bool,
}

impl Generation<'_> {
    /// The next event, with text borrowed from the session; None after the last. A call that failed may be repeated.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>> {
        if self.ended {
            return Ok(None);
        }
        let mut raw = sys::infer_event::init();
        let cancel = self.session.cancel_flag();
        let flag = CancelFlag::raw(cancel.as_ref());
        // SAFETY: the session is live, raw is ours.
        ffi::call(|err| unsafe { sys::infer_generate_next(self.session.raw(), &mut raw, flag, err) })?;
        self.ended = raw.kind == sys::INFER_EVENT_DONE;
        // SAFETY: raw was just filled; the event borrows self, and with it the session.
        Ok(Some(unsafe { Event::of(&raw) }))
    }

    /// The rest of the answer's text, and why it ended.
    pub fn text(mut self) -> Result<(String, FinishReason)> {
        let (mut text, mut reason) = (String::new(), FinishReason::Unknown);
        while let Some(event) = self.next_event()? {
            text.push_str(event.text());
            reason = event.finish_reason().unwrap_or(reason);
        }
        Ok((text, reason))
    }

    /// The session: to look at what it holds between two events.
    pub fn session(&self) -> &Session {
        self.session
    }
}

impl Iterator for Generation<'_> {
    type Item = Result<Event<'static>>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_event().map(|event| event.map(Event::into_owned)).transpose();
        if let Some(Err(_)) = next {
            self.ended = true;
        }
        next
    }
}

impl std::iter::FusedIterator for Generation<'_> {}
