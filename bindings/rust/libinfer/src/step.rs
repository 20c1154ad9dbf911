use crate::cancel::CancelFlag;
use crate::error::{Error, ErrorKind, Result};
use crate::ffi;
use crate::session::Session;
use libinfer_sys as sys;
use std::ptr::{null, null_mut};

/// In the layers of a [`Hidden`]: what lies behind the last layer and the final norm.
pub const HIDDEN_FINAL: i32 = sys::INFER_HIDDEN_FINAL;

/// Of which elements a step gives logits or hidden states.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// Of the last, when the step computes the last pending one.
    Last,
    /// Of none.
    None,
    /// Of all.
    All,
    /// Of those with true: one for each pending element.
    Mask(&'a [bool]),
}

impl Rows<'_> {
    fn raw(&self) -> i32 {
        match self {
            Rows::Last => sys::INFER_ROWS_LAST,
            Rows::None => sys::INFER_ROWS_NONE,
            Rows::All => sys::INFER_ROWS_ALL,
            Rows::Mask(_) => sys::INFER_ROWS_MASK,
        }
    }

    /// The mask, which must be as long as there are pending elements.
    fn mask(&self, pending: u64) -> Result<*const u8> {
        match self {
            Rows::Mask(mask) if mask.len() as u64 != pending => {
                let text = format!("mask: {} for {pending} pending elements", mask.len());
                Err(Error::new(ErrorKind::Argument, text))
            }
            Rows::Mask(mask) => Ok(ffi::slice_ptr(mask).cast()),
            _ => Ok(null()),
        }
    }

    /// How many rows there can be.
    fn most(&self, pending: u64) -> u64 {
        match self {
            Rows::Last => 1,
            Rows::None => 0,
            Rows::All => pending,
            Rows::Mask(mask) => mask.iter().filter(|&&wanted| wanted).count() as u64,
        }
    }
}

/// The logits of one element, borrowed from its session.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Logits<'a> {
    /// vocab_size floats.
    pub values: &'a [f32],
    /// Which element of the session it is.
    pub position: u64,
}

/// Hidden states to give: for probes, steering vectors, embeddings of one's own making. Elements whose hidden states are wanted are computed, never
/// taken from the prefix cache.
#[derive(Clone, Copy, Debug)]
pub struct Hidden<'a> {
    rows: Rows<'a>,
    layers: &'a [i32],
}

impl<'a> Hidden<'a> {
    /// Of these elements: what has flowed through these layers, from 0, or [`HIDDEN_FINAL`], which an empty list means too. The result is
    /// `[rows][layers][n_embd]` floats, elements in order.
    pub fn new(rows: Rows<'a>, layers: &'a [i32]) -> Self {
        Hidden { rows, layers }
    }
}

/// What one session takes part with in a [`step`].
#[derive(Debug)]
pub struct StepItem<'a> {
    session: &'a mut Session,
    logits: Rows<'a>,
    max_elements: u64,
    hidden: Option<Hidden<'a>>,
    states: Vec<f32>,
    status: i32,
    done: u64,
}

impl<'a> StepItem<'a> {
    /// All pending elements, with logits of the last.
    pub fn new(session: &'a mut Session) -> Self {
        StepItem { session, logits: Rows::Last, max_elements: 0, hidden: None, states: Vec::new(), status: 0, done: 0 }
    }

    /// Logits of these elements instead.
    pub fn logits(mut self, rows: Rows<'a>) -> Self {
        self.logits = rows;
        self
    }

    /// So many of the pending elements at most; 0: all.
    pub fn max_elements(mut self, count: u64) -> Self {
        self.max_elements = count;
        self
    }

    /// Hidden states too.
    pub fn hidden(mut self, hidden: Hidden<'a>) -> Self {
        self.hidden = Some(hidden);
        self
    }

    /// After a step: elements computed, or taken from the prefix cache.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// After a step: how it went for this session.
    pub fn result(&self) -> Result<()> {
        match self.status {
            sys::INFER_OK => Ok(()),
            status => Err(Error::of_status(status)),
        }
    }

    /// After a step: the hidden states.
    pub fn take_hidden(&mut self) -> Vec<f32> {
        std::mem::take(&mut self.states)
    }

    /// Floats of one element's hidden states.
    fn hidden_width(&self, hidden: &Hidden<'_>) -> usize {
        hidden.layers.len().max(1) * self.session.model().n_embd
    }

    /// Fills the library's struct; `raw` and self must outlive it.
    fn fill(&mut self, raw: &mut sys::infer_hidden) -> Result<sys::infer_step_item> {
        let info = self.session.info()?;
        let pending = info.length - info.computed;
        let mut item = sys::infer_step_item::init();
        item.session = self.session.raw();
        item.max_elements = self.max_elements;
        item.logits = self.logits.raw();
        item.mask = self.logits.mask(pending)?;
        item.hidden = null_mut();
        if let Some(hidden) = self.hidden {
            let floats = (hidden.rows.most(pending) as usize).checked_mul(self.hidden_width(&hidden));
            self.states = ffi::filled(0.0, floats.ok_or_else(|| Error::new(ErrorKind::Limit, "hidden: too many floats"))?)?;
            raw.elements = hidden.rows.raw();
            raw.mask = hidden.rows.mask(pending)?;
            raw.layers = ffi::slice_ptr(hidden.layers);
            raw.layer_count = u32::try_from(hidden.layers.len()).unwrap_or(u32::MAX);
            raw.out = self.states.as_mut_ptr();
            raw.capacity = self.states.len() as u64;
            item.hidden = raw;
        }
        Ok(item)
    }

    fn take(&mut self, item: &sys::infer_step_item, raw: &sys::infer_hidden) {
        self.status = item.status;
        self.done = item.done;
        if let Some(hidden) = self.hidden {
            self.states.truncate(raw.rows as usize * self.hidden_width(&hidden));
        }
    }
}

/// Computes pending elements of different sessions of one model, together. The first failure is told; each item tells its own result and
/// progress. Cancelling keeps whole chunks of at most 256 elements.
pub fn step(items: &mut [StepItem<'_>], cancel: Option<&CancelFlag>) -> Result<()> {
    let mut hidden = vec![sys::infer_hidden::init(); items.len()];
    let mut raw = Vec::with_capacity(items.len());
    for (item, hidden) in items.iter_mut().zip(hidden.iter_mut()) {
        raw.push(item.fill(hidden)?);
    }
    // SAFETY: sessions are live and borrowed mutably, so no two are the same; masks and buffers have the lengths that are said.
    let told = ffi::call(|err| unsafe { sys::infer_step(raw.as_mut_ptr(), raw.len() as u64, CancelFlag::raw(cancel), err) });
    for ((item, raw), hidden) in items.iter_mut().zip(&raw).zip(&hidden) {
        item.take(raw, hidden);
    }
    told
}
