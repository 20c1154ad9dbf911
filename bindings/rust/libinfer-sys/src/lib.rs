//! The C interface of libinfer, as its headers `infer/infer.h`, `infer/state.h` and `infer/scheduler.h`
//! declare it. `src/bindings.rs` is made by `scripts/gen-rust`; its texts are the headers' own. Use the crate `libinfer` instead, unless you write
//! another binding.
#![allow(non_camel_case_types)]

#[allow(clippy::all, rustdoc::all)]
mod bindings;
pub use bindings::*;
