use crate::cancel::CancelFlag;
use crate::error::{Error, Result};
use crate::ffi;
use crate::model::Model;
use libinfer_sys as sys;

c_enum! {
    /// How the hidden states of a text become one vector.
    Pooling or Unknown {
        /// As the model's file says.
        Model = INFER_POOLING_MODEL,
        /// One vector for each token.
        None = INFER_POOLING_NONE,
        /// Their mean.
        Mean = INFER_POOLING_MEAN,
        /// The first token's.
        Cls = INFER_POOLING_CLS,
        /// The last token's.
        Last = INFER_POOLING_LAST,
        /// What rerankers declare; it cannot be computed yet.
        Rank = INFER_POOLING_RANK,
    }
}

/// How embeddings are made.
#[derive(Clone, Debug)]
pub struct EmbedOptions {
    pooling: Pooling,
    flags: i32,
    dimensions: u32,
    max_tokens: u64,
    cancel: Option<CancelFlag>,
}

impl Default for EmbedOptions {
    fn default() -> Self {
        EmbedOptions { pooling: Pooling::Model, flags: 0, dimensions: 0, max_tokens: 0, cancel: None }
    }
}

impl EmbedOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How rows become one vector.
    pub fn pooling(mut self, pooling: Pooling) -> Self {
        self.pooling = pooling;
        self
    }

    /// Vectors as they come; else each is scaled to length 1.
    pub fn raw_vectors(mut self) -> Self {
        self.flags |= sys::INFER_EMBED_RAW;
        self
    }

    /// Texts that are too long lose their end; else they are refused.
    pub fn truncate(mut self) -> Self {
        self.flags |= sys::INFER_EMBED_TRUNCATE;
        self
    }

    /// Texts get no special tokens.
    pub fn no_special(mut self) -> Self {
        self.flags |= sys::INFER_EMBED_NO_SPECIAL;
        self
    }

    /// Spellings of control tokens become those tokens.
    pub fn parse_special(mut self) -> Self {
        self.flags |= sys::INFER_EMBED_PARSE_SPECIAL;
        self
    }

    /// Keeps the first so many floats of a vector; 0: all.
    pub fn dimensions(mut self, dimensions: u32) -> Self {
        self.dimensions = dimensions;
        self
    }

    /// Tokens of a text at most, special ones included; 0: what the model was made for.
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// A flag that ends the call.
    pub fn cancel(mut self, flag: &CancelFlag) -> Self {
        self.cancel = Some(flag.clone());
        self
    }

    fn raw(&self) -> sys::infer_embed_options {
        let mut raw = sys::infer_embed_options::init();
        raw.pooling = self.pooling.raw();
        raw.flags = self.flags as u32;
        raw.dimensions = self.dimensions;
        raw.max_tokens = self.max_tokens;
        raw
    }
}

/// What an embedding is made of.
#[derive(Clone, Copy, Debug)]
pub enum EmbedInput<'a> {
    /// A text.
    Text(&'a str),
    /// Token ids, taken as they are.
    Ids(&'a [i32]),
}

impl<'a> From<&'a str> for EmbedInput<'a> {
    fn from(text: &'a str) -> Self {
        EmbedInput::Text(text)
    }
}

/// What one text gave.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Embedding {
    /// One vector, or with [`Pooling::None`] one for each token, one after the other.
    pub vectors: Vec<f32>,
    /// Floats of a vector.
    pub width: usize,
    /// Tokens of the whole text, special ones included.
    pub tokens: u64,
    /// Whether not all of them were used.
    pub truncated: bool,
}

impl Embedding {
    /// The vectors.
    pub fn rows(&self) -> std::slice::Chunks<'_, f32> {
        self.vectors.chunks(self.width.max(1))
    }
}

fn item_of(input: &EmbedInput<'_>, out: &mut [f32]) -> sys::infer_embed_item {
    let mut item = sys::infer_embed_item::init();
    match input {
        EmbedInput::Text(text) => {
            let (p, len) = ffi::parts(text.as_bytes());
            item.text = p;
            item.text_len = len;
        }
        EmbedInput::Ids(ids) => {
            item.ids = ids.as_ptr(); // not NULL, also when there are none
            item.id_count = ids.len() as u64;
        }
    }
    item.out = out.as_mut_ptr();
    item.capacity = out.len() as u64;
    item
}

/// The items whose buffer was too small are computed again with one that is large enough: only with one vector for each token.
pub(crate) fn embed(model: &Model, inputs: &[EmbedInput<'_>], options: &EmbedOptions) -> Result<Vec<Result<Embedding>>> {
    let info = model.info()?;
    let each = options.pooling == Pooling::None || options.pooling == Pooling::Model && info.pooling == Pooling::None;
    let whole = if each { info.n_embd } else { info.embedding_width };
    let width = if options.dimensions != 0 { options.dimensions } else { whole } as usize;
    let raw = options.raw();
    let mut rows = vec![1; inputs.len()];
    let mut results: Vec<Option<Result<Embedding>>> = (0..inputs.len()).map(|_| None).collect();
    loop {
        let todo: Vec<usize> = (0..inputs.len()).filter(|&i| results[i].is_none()).collect();
        if todo.is_empty() {
            return Ok(results.into_iter().flatten().collect());
        }
        let mut buffers = Vec::with_capacity(todo.len());
        for &i in &todo {
            buffers.push(ffi::filled(0.0, width.saturating_mul(rows[i] as usize))?);
        }
        let mut items: Vec<_> = todo.iter().zip(&mut buffers).map(|(&i, out)| item_of(&inputs[i], out)).collect();
        let cancel = CancelFlag::raw(options.cancel.as_ref());
        // SAFETY: the model is live; inputs and buffers outlive the call and have the lengths that are said.
        let told = ffi::call(|err| unsafe { sys::infer_embed(model.raw(), items.as_mut_ptr(), items.len() as u64, &raw, cancel, err) });
        if let Err(error) = &told {
            if items.iter().all(|item| item.status == sys::INFER_OK) {
                return Err(error.clone()); // of the call
            }
        }
        let mut words = told.err(); // those of the first item that failed
        for ((i, item), mut vectors) in todo.into_iter().zip(&items).zip(buffers) {
            let needed = item.rows.saturating_mul(width as u64);
            if item.status == sys::INFER_ERROR_BUFFER && needed > vectors.len() as u64 {
                rows[i] = item.rows;
                words = words.filter(|error| error.code() != item.status);
                continue;
            }
            results[i] = Some(if item.status == sys::INFER_OK {
                vectors.truncate(needed as usize);
                Ok(Embedding { vectors, width, tokens: item.tokens, truncated: item.truncated != 0 })
            } else {
                Err(words.take().filter(|error| error.code() == item.status).unwrap_or_else(|| Error::of_status(item.status)))
            });
        }
    }
}
