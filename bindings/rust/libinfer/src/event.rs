use crate::ffi;
use libinfer_sys as sys;
use std::borrow::Cow;

c_enum! {
    /// Why an answer ended.
    FinishReason or Unknown {
        /// An end-of-turn token, or one of the stop ids.
        Stop = INFER_FINISH_STOP,
        /// As many tokens as were wanted.
        Length = INFER_FINISH_LENGTH,
        /// The context is full.
        Context = INFER_FINISH_CONTEXT,
        /// One of the stop strings.
        StopString = INFER_FINISH_STOP_STRING,
        /// It repeated itself.
        Repetition = INFER_FINISH_REPETITION,
        /// Of a request: its time limit.
        Time = INFER_FINISH_TIME,
        /// Of a request: it was cancelled.
        Cancelled = INFER_FINISH_CANCELLED,
        /// Of a request: it failed; the event has the error.
        Error = INFER_FINISH_ERROR,
    }
}

/// A token and the natural logarithm of its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct TokenLogprob {
    /// The token.
    pub id: i32,
    /// ln of its probability.
    pub logprob: f32,
}

const _: () = assert!(std::mem::size_of::<TokenLogprob>() == std::mem::size_of::<sys::infer_logprob>());

/// # Safety
/// count items lie at top for as long as 'a.
pub(crate) unsafe fn top<'a>(top: *const sys::infer_logprob, count: u32) -> &'a [TokenLogprob] {
    // SAFETY: the caller's promise; the two structs are laid out alike.
    unsafe { ffi::slice(top.cast(), u64::from(count)) }
}

/// # Safety
/// len bytes lie at text for as long as 'a.
pub(crate) unsafe fn text<'a>(text: *const std::os::raw::c_char, len: u64) -> Cow<'a, str> {
    // SAFETY: the caller's promise.
    String::from_utf8_lossy(unsafe { ffi::slice(text.cast(), len) })
}

/// What happened while an answer was made. Text is borrowed from the session, or owned by an `Event<'static>`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Part of the prompt was computed.
    Prefill {
        /// Elements computed so far.
        done: u64,
        /// Of so many.
        total: u64,
    },
    /// A token was chosen.
    Token {
        /// The token.
        id: i32,
        /// Its text: whole characters; empty when it ends inside one, or may be the beginning of a stop string.
        text: Cow<'a, str>,
        /// ln of its probability, when asked for; else 0.
        logprob: f32,
        /// Alternatives, when asked for, most likely first.
        top: Cow<'a, [TokenLogprob]>,
    },
    /// The context was full, and its middle was dropped.
    Shift {
        /// Elements dropped.
        dropped: u64,
        /// Elements left.
        left: u64,
    },
    /// The answer has ended.
    Done {
        /// Why.
        reason: FinishReason,
        /// Text that was held back until now.
        text: Cow<'a, str>,
        /// Which of the stop strings, when one ended it.
        stop_index: Option<usize>,
    },
}

impl<'a> Event<'a> {
    /// # Safety
    /// raw was filled by infer_generate_next, and its session is not used while 'a lasts.
    pub(crate) unsafe fn of(raw: &sys::infer_event) -> Self {
        // SAFETY: the caller's promise.
        let (text, top) = unsafe { (text(raw.text, raw.text_len), top(raw.top, raw.top_count)) };
        match raw.kind {
            sys::INFER_EVENT_PREFILL => Event::Prefill { done: raw.done, total: raw.total },
            sys::INFER_EVENT_SHIFT => Event::Shift { dropped: raw.done, left: raw.total },
            sys::INFER_EVENT_TOKEN => Event::Token { id: raw.id, text, logprob: raw.logprob, top: Cow::Borrowed(top) },
            _ => Event::Done {
                reason: FinishReason::from_raw(raw.finish_reason),
                text,
                stop_index: usize::try_from(raw.stop_index).ok(),
            },
        }
    }

    /// The text that this event adds to the answer; "" when it adds none.
    pub fn text(&self) -> &str {
        match self {
            Event::Token { text, .. } | Event::Done { text, .. } => text,
            _ => "",
        }
    }

    /// Why the answer ended, if it did.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        match self {
            Event::Done { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    /// The same with text of its own.
    pub fn into_owned(self) -> Event<'static> {
        match self {
            Event::Prefill { done, total } => Event::Prefill { done, total },
            Event::Shift { dropped, left } => Event::Shift { dropped, left },
            Event::Token { id, text, logprob, top } => {
                Event::Token { id, text: Cow::Owned(text.into_owned()), logprob, top: Cow::Owned(top.into_owned()) }
            }
            Event::Done { reason, text, stop_index } => Event::Done { reason, text: Cow::Owned(text.into_owned()), stop_index },
        }
    }
}
