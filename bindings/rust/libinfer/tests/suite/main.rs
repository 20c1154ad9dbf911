//! Tests of the safe crate, on models/tiny.gguf and the fixtures of tests/data.
mod adapters;
mod engine;
mod files;
mod generate;
mod panics;
mod scheduler;
mod sessions;
mod state;
mod types;

use libinfer::{Engine, EngineBuilder, Model, OpenOptions, Session, SessionOptions};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
}

fn tiny_path() -> PathBuf {
    root().join("models/tiny.gguf")
}

fn data(name: &str) -> PathBuf {
    root().join("tests/data").join(name)
}

/// The tiny model on an engine of one thread.
fn tiny() -> Model {
    tiny_on(Engine::builder())
}

fn tiny_on(builder: EngineBuilder) -> Model {
    let engine = builder.threads(1).build().unwrap();
    engine.open_model(tiny_path(), &OpenOptions::new()).unwrap()
}

fn session(model: &Model) -> Session {
    model.session(&SessionOptions::new()).unwrap()
}

/// A folder that is removed at the end.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        loop {
            let name = format!("libinfer-rust-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            match std::fs::create_dir(&path) {
                Ok(()) => return TempDir(path),
                // of a process of the same number that was killed
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}"),
            }
        }
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bits(floats: &[f32]) -> Vec<u32> {
    floats.iter().map(|float| float.to_bits()).collect()
}
