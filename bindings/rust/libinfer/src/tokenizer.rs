use crate::engine::Engine;
use crate::error::Result;
use crate::ffi::{self, Handle};
use crate::hook::Hooks;
use crate::source::{OpenOptions, Source};
use libinfer_sys as sys;
use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;

c_enum! {
    /// Kinds of tokenizers.
    TokenizerKind or Unknown {
        /// Byte pairs.
        Bpe = INFER_TOKENIZER_BPE,
        /// SentencePiece.
        Spm = INFER_TOKENIZER_SPM,
        /// WordPiece (BERT).
        WordPiece = INFER_TOKENIZER_WORDPIECE,
        /// Unigram.
        Unigram = INFER_TOKENIZER_UNIGRAM,
        /// Whole words.
        WordLevel = INFER_TOKENIZER_WORDLEVEL,
    }
}

c_enum! {
    /// Kinds of tokens.
    TokenKind or Unknown {
        /// A piece of text.
        Normal = INFER_TOKEN_NORMAL,
        /// Stands for what the vocabulary does not have.
        Unk = INFER_TOKEN_UNKNOWN,
        /// A control token, such as an end of turn.
        Control = INFER_TOKEN_CONTROL,
        /// Added by whoever made the model.
        UserDefined = INFER_TOKEN_USER_DEFINED,
        /// Not used.
        Unused = INFER_TOKEN_UNUSED,
        /// A single byte.
        Byte = INFER_TOKEN_BYTE,
    }
}

/// Text to token ids and back.
#[derive(Clone)]
pub struct Tokenizer {
    handle: Handle<sys::infer_tokenizer>,
    _hooks: Option<Arc<Hooks>>,
}

impl Tokenizer {
    /// Opens the tokenizer of a model file or folder (whose weights may be absent), or a tokenizer.json.
    pub fn open<'a>(engine: Option<&Engine>, source: impl Into<Source<'a>>, options: &OpenOptions) -> Result<Self> {
        let raw = options.raw();
        let e = engine.map_or(null_mut(), Engine::raw);
        let handle = source.into().with(|source| {
            // SAFETY: all pointers live through the call.
            ffi::make(|out, err| unsafe { sys::infer_tokenizer_open(e, source, &raw, out, err) })
        })?;
        Ok(Tokenizer { handle, _hooks: engine.and_then(Engine::hooks) })
    }

    /// # Safety
    /// p is NULL or a tokenizer of an engine with these hooks.
    pub(crate) unsafe fn share(p: *mut sys::infer_tokenizer, hooks: Option<Arc<Hooks>>) -> Option<Self> {
        // SAFETY: the caller's promise.
        Some(Tokenizer { handle: unsafe { Handle::share(p) }?, _hooks: hooks })
    }

    fn raw(&self) -> *mut sys::infer_tokenizer {
        self.handle.get()
    }

    /// Token ids of a text. Spellings of control tokens in it are plain text.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>> {
        self.encode_with(text.as_bytes(), false, false)
    }

    /// Token ids of bytes (what is not UTF-8 becomes U+FFFD). `add_special`: begin and end with BOS, EOS and their like as the model file says.
    /// `parse_special`: spellings of control tokens ("<|im_end|>") become those tokens.
    pub fn encode_with(&self, text: &[u8], add_special: bool, parse_special: bool) -> Result<Vec<i32>> {
        let flags = text_flags(add_special, parse_special);
        let (p, len) = ffi::parts(text);
        ffi::fill(text.len() / 2 + 8, |ids, capacity, count, err| {
            // SAFETY: the handle is live; len bytes lie at p, and capacity ids fit at ids.
            unsafe { sys::infer_tokenize(self.raw(), p, len, flags, ids, capacity, count, err) }
        })
    }

    /// The text of token ids; control tokens give nothing. Bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[i32]) -> Result<String> {
        Ok(ffi::text_of(self.decode_bytes(ids, false)?))
    }

    /// The exact bytes of token ids. `show_special`: control tokens give their spelling.
    pub fn decode_bytes(&self, ids: &[i32], show_special: bool) -> Result<Vec<u8>> {
        let flags = if show_special { sys::INFER_DETOKENIZE_SHOW_SPECIAL as u32 } else { 0 };
        let p = ffi::slice_ptr(ids);
        ffi::fill(ids.len() * 6 + 16, |text: *mut u8, capacity, len, err| {
            // SAFETY: the handle is live; the ids lie at p, and capacity bytes fit at text.
            unsafe { sys::infer_detokenize(self.raw(), p, ids.len() as u64, flags, text.cast(), capacity, len, err) }
        })
    }

    /// Decodes one id after another.
    pub fn detokenizer(&self, show_special: bool) -> Detokenizer {
        let mut state = sys::infer_detokenizer::init();
        state.flags = if show_special { sys::INFER_DETOKENIZE_SHOW_SPECIAL as u32 } else { 0 };
        Detokenizer { tokenizer: self.clone(), state }
    }

    /// What the tokenizer is.
    pub fn info(&self) -> Result<TokenizerInfo> {
        let mut raw = sys::infer_tokenizer_info::init();
        // SAFETY: the handle is live, raw is ours.
        ffi::call(|err| unsafe { sys::infer_tokenizer_get_info(self.raw(), &mut raw, err) })?;
        let id = |id: i32| if id < 0 { None } else { Some(id) };
        Ok(TokenizerInfo {
            kind: TokenizerKind::from_raw(raw.kind),
            vocab_size: raw.vocab_size,
            bos: id(raw.bos),
            eos: id(raw.eos),
            eot: id(raw.eot),
            unk: id(raw.unk),
            sep: id(raw.sep),
            pad: id(raw.pad),
            mask: id(raw.mask),
            add_bos: raw.add_bos != 0,
            add_eos: raw.add_eos != 0,
        })
    }

    /// What is known of a token.
    pub fn token(&self, id: i32) -> Result<TokenInfo<'_>> {
        let mut raw = sys::infer_token_info::init();
        // SAFETY: the handle is live, raw is ours.
        ffi::call(|err| unsafe { sys::infer_tokenizer_token(self.raw(), id, &mut raw, err) })?;
        // SAFETY: both live as long as the tokenizer, which is borrowed.
        let (piece, bytes) = unsafe { (ffi::slice(raw.piece.cast(), raw.piece_len), ffi::slice(raw.bytes.cast(), raw.bytes_len)) };
        Ok(TokenInfo { kind: TokenKind::from_raw(raw.kind), score: raw.score, ends_turn: raw.ends_turn != 0, piece, bytes })
    }
}

pub(crate) fn text_flags(add_special: bool, parse_special: bool) -> u32 {
    let add = if add_special { sys::INFER_TOKENIZE_ADD_SPECIAL } else { 0 };
    let parse = if parse_special { sys::INFER_TOKENIZE_PARSE_SPECIAL } else { 0 };
    (add | parse) as u32
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tokenizer").field(&self.info().ok()).finish()
    }
}

/// What a tokenizer is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TokenizerInfo {
    /// Its kind.
    pub kind: TokenizerKind,
    /// Ids are 0 to this, less one.
    pub vocab_size: u32,
    /// Begin of text.
    pub bos: Option<i32>,
    /// End of text.
    pub eos: Option<i32>,
    /// End of turn.
    pub eot: Option<i32>,
    /// What the vocabulary does not have.
    pub unk: Option<i32>,
    /// Separator.
    pub sep: Option<i32>,
    /// Padding.
    pub pad: Option<i32>,
    /// Mask.
    pub mask: Option<i32>,
    /// Whether texts begin with `bos`.
    pub add_bos: bool,
    /// Whether texts end with `eos`.
    pub add_eos: bool,
}

/// What is known of a token.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TokenInfo<'a> {
    /// Its kind.
    pub kind: TokenKind,
    /// As stored; 0 when the file has none.
    pub score: f32,
    /// Whether generation stops at it.
    pub ends_turn: bool,
    /// The vocabulary's own spelling.
    pub piece: &'a [u8],
    /// The bytes that it stands for in the middle of a text.
    pub bytes: &'a [u8],
}

/// Decodes one id after another and never gives half a character.
#[derive(Clone, Debug)]
pub struct Detokenizer {
    tokenizer: Tokenizer,
    state: sys::infer_detokenizer,
}

impl Detokenizer {
    /// Adds an id, and gives the text that is complete now.
    pub fn push(&mut self, id: i32) -> Result<String> {
        let tokenizer = self.tokenizer.raw();
        let bytes = ffi::fill(64, |text: *mut u8, capacity, len, err| {
            // SAFETY: tokenizer and state are live; capacity bytes fit at text.
            unsafe { sys::infer_detokenizer_next(tokenizer, &mut self.state, id, text.cast(), capacity, len, err) }
        })?;
        Ok(ffi::text_of(bytes))
    }

    /// Ends the text, and gives what was unfinished.
    pub fn finish(mut self) -> Result<String> {
        self.push(-1)
    }
}
