//! Run language models inside your program: the safe interface of libinfer.
//!
//! ```no_run
//! use libinfer::{GenerateOptions, Message, Model, SessionOptions};
//!
//! fn main() -> libinfer::Result<()> {
//!     let model = Model::open_path("model.gguf")?;
//!     let mut session = model.session(&SessionOptions::new())?;
//!     session.append_chat(&[Message::user("Why is the sky blue?")])?;
//!     for event in session.generate(&GenerateOptions::new().max_tokens(200))? {
//!         print!("{}", event?.text());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Ownership and threads
//!
//! [`Engine`], [`Model`], [`Tokenizer`], [`Template`], [`File`], [`Adapter`], [`Checkpoint`], [`Store`], [`CancelFlag`], [`Scheduler`] and
//! [`Request`] are handles: cloning one is cheap, and any thread may use it at any time. Each keeps what it needs, so they may be dropped in any order.
//!
//! A [`Session`] is one sequence and what was computed of it. It may be moved to another thread, but is used by one at a time: it is `Send`, not
//! `Sync`, and what changes it takes `&mut self`. Logits borrow the session, so they cannot be looked at after a further step:
//!
//! ```no_run
//! # fn main() -> libinfer::Result<()> {
//! # let model = libinfer::Model::open_path("model.gguf")?;
//! # let mut session = model.session(&libinfer::SessionOptions::new())?;
//! session.append(&[1, 2, 3])?;
//! session.step()?;
//! let logits = session.logits()?;
//! println!("{}", logits[0]);
//! session.step()?;
//! # Ok(())
//! # }
//! ```
//!
//! ```compile_fail,E0502
//! # fn main() -> libinfer::Result<()> {
//! # let model = libinfer::Model::open_path("model.gguf")?;
//! # let mut session = model.session(&libinfer::SessionOptions::new())?;
//! session.append(&[1, 2, 3])?;
//! session.step()?;
//! let logits = session.logits()?;
//! session.step()?; // error: the session is borrowed
//! println!("{}", logits[0]);
//! # Ok(())
//! # }
//! ```
//!
//! A session cannot be shared by two threads:
//!
//! ```compile_fail,E0277
//! fn shared<T: Sync>() {}
//! shared::<libinfer::Session>();
//! ```
//!
//! # Errors and panics
//!
//! What fails returns an [`Error`], which says what happened and where: code, text, file, key or field, byte offset. A failed call leaves its objects as
//! they were. A closure of yours that panics inside the library (a log, a sampling callback, an executor...) does not unwind through it: the call
//! ends, and the panic goes on in your thread when it returns.
//!
//! # Exactness
//!
//! For one model file, KV type and numerics version, the logits of a position are one fixed array of bits, whatever the batch, the chunking of the
//! prompt, the number of threads or the processor.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

#[macro_use]
mod ffi;
mod adapter;
mod cache;
mod cancel;
mod checkpoint;
mod embed;
mod engine;
mod error;
mod estimate;
mod event;
mod file;
mod generate;
mod hook;
mod model;
mod request;
mod sampling;
mod scheduler;
mod score;
mod session;
mod source;
mod step;
mod store;
mod template;
mod tokenizer;

pub use adapter::{Adapter, AdapterInfo, AdapterKind, AdapterUse};
pub use cache::{CacheReason, CacheReport, CacheStats};
pub use cancel::CancelFlag;
pub use checkpoint::{Checkpoint, CheckpointInfo, LoadOptions, SaveOptions, Verify};
pub use embed::{EmbedInput, EmbedOptions, Embedding, Pooling};
pub use engine::{Cpu, Engine, EngineBuilder, EngineInfo, LogLevel, Numerics};
pub use error::{Error, ErrorKind, Result};
pub use estimate::{Estimate, EstimateOptions};
pub use event::{Event, FinishReason, TokenLogprob};
pub use file::{Array, File, Tensor, TensorType, Value};
pub use generate::{GenerateOptions, Generation};
pub use hook::{Executor, MemoryHook};
pub use model::{Fingerprint, Model, ModelInfo, ModelMemory};
pub use request::{Request, RequestEvent, RequestInfo, RequestOptions};
pub use sampling::{Sample, Sampling};
pub use scheduler::{Scheduler, SchedulerInfo, SchedulerOptions};
pub use score::Score;
pub use session::{KvType, Message, Session, SessionInfo, SessionOptions};
pub use source::{Map, OpenOptions, Reader, Source};
pub use step::{step, Hidden, Logits, Rows, StepItem, HIDDEN_FINAL};
pub use store::{Store, StoreEntry, StoreInfo, StoreOptions};
pub use template::{RenderOptions, Template};
pub use tokenizer::{Detokenizer, TokenInfo, TokenKind, Tokenizer, TokenizerInfo, TokenizerKind};

use libinfer_sys as sys;

/// The version of the library that is linked, such as "1.0.0".
pub fn version() -> &'static str {
    // SAFETY: the string is static and zero-terminated.
    unsafe { ffi::static_str(sys::infer_version()) }
}

/// What the library can do, in lines of `key: value`: no network, writes by these functions alone, and so on. The same as its ELF note.
pub fn capabilities() -> &'static str {
    // SAFETY: the string is static and zero-terminated.
    unsafe { ffi::static_str(sys::infer_capabilities()) }
}

/// The number that changes when, and only when, the bits of results change.
pub fn numerics_version() -> i32 {
    // SAFETY: no conditions.
    unsafe { sys::infer_numerics_version() }
}
