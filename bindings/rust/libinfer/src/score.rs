use crate::cancel::CancelFlag;
use crate::error::Result;
use crate::event::TokenLogprob;
use crate::ffi;
use crate::session::Session;
use libinfer_sys as sys;
use std::ptr::null_mut;

/// How likely a row of tokens is, under the model's own distribution.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Score {
    /// Of each token; 0 for those at the beginning without one.
    pub logprobs: Vec<f32>,
    /// For each token what would have been most likely, most likely first, as many as were asked for (of a smaller vocabulary, fewer).
    pub top: Vec<Vec<TokenLogprob>>,
    /// Tokens at the beginning without a log-probability: 1 when nothing comes before the first, else 0.
    pub first: u64,
    /// The sum of the log-probabilities.
    pub sum: f64,
}

pub(crate) fn score(session: &mut Session, ids: &[i32], top_logprobs: u32, cancel: *mut sys::infer_cancel) -> Result<Score> {
    let wanted = top_logprobs.min(20) as usize; // more than 20 is refused below
    let mut logprobs = ffi::filled(0.0, ids.len())?;
    let mut alternatives = ffi::filled(sys::infer_logprob { id: -1, logprob: 0.0 }, ids.len().saturating_mul(wanted))?;
    let mut raw = sys::infer_score::init();
    raw.top_logprobs = top_logprobs;
    raw.logprobs = logprobs.as_mut_ptr();
    raw.top = if wanted == 0 { null_mut() } else { alternatives.as_mut_ptr() };
    // SAFETY: the session is live; the arrays have room for count and count times top_logprobs (at most 20) items.
    ffi::call(|err| unsafe { sys::infer_session_score(session.raw(), ffi::slice_ptr(ids), ids.len() as u64, &mut raw, cancel, err) })?;
    let token = |item: &sys::infer_logprob| TokenLogprob { id: item.id, logprob: item.logprob };
    let top = match wanted {
        0 => Vec::new(),
        _ => alternatives.chunks(wanted).map(|row| row.iter().filter(|item| item.id >= 0).map(token).collect()).collect(),
    };
    Ok(Score { logprobs, top, first: raw.first, sum: raw.sum })
}

impl Session {
    /// Appends ids, and tells how likely each is after all that stands before it. What is pending is computed first; the last id is left pending. To
    /// score again, roll back with [`truncate`](Session::truncate). A failure leaves the session as it was.
    pub fn score(&mut self, ids: &[i32], top_logprobs: u32) -> Result<Score> {
        let cancel = self.cancel_flag();
        score(self, ids, top_logprobs, CancelFlag::raw(cancel.as_ref()))
    }
}
