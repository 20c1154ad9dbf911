use crate::cancel::CancelFlag;
use crate::error::{Error, ErrorKind, Result};
use crate::ffi::{self, guard};
use crate::file::TensorType;
use libinfer_sys as sys;
use std::fmt;
use std::io;
use std::os::raw::{c_char, c_void};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A file of yours, read at any place: what [`Source::reader`] opens.
pub trait Reader: Send {
    /// Bytes in the file.
    fn length(&self) -> u64;
    /// Fills the buffer with the bytes at this offset.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

type Memory = Arc<dyn AsRef<[u8]> + Send + Sync>;
type Open<'a> = dyn FnMut(&str) -> io::Result<Box<dyn Reader>> + 'a;

/// Where a model, tokenizer, adapter or other file comes from.
pub struct Source<'a>(Kind<'a>);

enum Kind<'a> {
    Path(PathBuf),
    #[cfg(unix)]
    File(&'a std::fs::File),
    Memory(Memory),
    Reader(String, Box<Open<'a>>),
}

impl<'a> Source<'a> {
    /// A file, or a folder in the form that Hugging Face models have.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Source(Kind::Path(path.into()))
    }

    /// An open file; its position is neither used nor changed.
    #[cfg(unix)]
    pub fn file(file: &'a std::fs::File) -> Self {
        Source(Kind::File(file))
    }

    /// Bytes in memory: a `Vec<u8>`, a `&'static [u8]`, an `Arc<[u8]>`, a memory map of yours... They are kept as long as what is opened
    /// from them, and used in place when they are aligned to 32 bytes.
    pub fn bytes(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Source(Kind::Memory(Arc::new(bytes)))
    }

    /// A file that a closure opens. It is called with `name`, and for a split file or a folder with the names of its siblings; it runs only inside
    /// the call that opens. `io::ErrorKind::NotFound`: there is no such file, a folder is none; any other error ends the call.
    pub fn reader(name: &str, open: impl FnMut(&str) -> io::Result<Box<dyn Reader>> + 'a) -> Self {
        Source(Kind::Reader(name.to_owned(), Box::new(open)))
    }

    /// Runs a call that takes a source.
    pub(crate) fn with<T>(self, f: impl FnOnce(*const sys::infer_source) -> Result<T>) -> Result<T> {
        ffi::check_abi()?;
        let mut raw = sys::infer_source::init();
        match self.0 {
            Kind::Path(path) => {
                let bytes = ffi::path_bytes(&path)?;
                let (text, len) = ffi::parts(&bytes);
                // SAFETY: raw is a source to fill; the path outlives the call below.
                unsafe { sys::infer_source_path(&mut raw, text, len) };
                f(&raw)
            }
            #[cfg(unix)]
            Kind::File(file) => {
                use std::os::unix::io::AsRawFd;
                // SAFETY: raw is a source to fill; the file is open for 'a.
                unsafe { sys::infer_source_descriptor(&mut raw, file.as_raw_fd()) };
                f(&raw)
            }
            // by callback: a stream's memory is given back exactly when the library needs it no more
            Kind::Memory(memory) => {
                let mut only = |name: &str| match name {
                    "" => Ok(Content::Memory(memory.clone())),
                    _ => Err(io::ErrorKind::NotFound.into()), // nothing lies beside it
                };
                by_callback("", &mut only, f)
            }
            Kind::Reader(name, mut open) => by_callback(&name, &mut |name| open(name).map(Content::Reader), f),
        }
    }
}

impl From<PathBuf> for Source<'_> {
    fn from(path: PathBuf) -> Self {
        Source::path(path)
    }
}

impl From<&str> for Source<'_> {
    fn from(path: &str) -> Self {
        Source::path(path)
    }
}

impl From<&std::path::Path> for Source<'_> {
    fn from(path: &std::path::Path) -> Self {
        Source::path(path)
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Path(path) => write!(f, "Source({})", path.display()),
            #[cfg(unix)]
            Kind::File(file) => write!(f, "Source({file:?})"),
            Kind::Memory(_) => f.write_str("Source(bytes)"),
            Kind::Reader(name, ..) => write!(f, "Source(reader {name})"),
        }
    }
}

// ---- Streams ----

enum Content {
    Memory(Memory),
    Reader(Box<dyn Reader>),
}

/// What the library's open callback is called with.
struct Context<'c> {
    open: &'c mut dyn FnMut(&str) -> io::Result<Content>,
    error: Arc<Mutex<Option<Error>>>,
}

/// One opened stream: owned by the library until it calls release.
struct Stream {
    content: Mutex<Content>,
    error: Arc<Mutex<Option<Error>>>,
}

fn status_of(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::OutOfMemory => ErrorKind::NoMemory,
        io::ErrorKind::UnexpectedEof => ErrorKind::Truncated,
        _ => ErrorKind::Io,
    }
}

/// Keeps the host's error for the end of the call, and tells the library its number.
fn note(slot: &Mutex<Option<Error>>, error: &io::Error) -> sys::infer_status {
    let kind = status_of(error);
    if let Ok(mut slot) = slot.lock() {
        // what is not there may not have been needed; any other failure ends the call
        if slot.as_ref().map_or(true, |first| first.kind() == ErrorKind::NotFound && kind != ErrorKind::NotFound) {
            *slot = Some(Error::new(kind, error.to_string()));
        }
    }
    kind.raw()
}

fn by_callback<T>(
    name: &str,
    open: &mut dyn FnMut(&str) -> io::Result<Content>,
    f: impl FnOnce(*const sys::infer_source) -> Result<T>,
) -> Result<T> {
    let error = Arc::new(Mutex::new(None));
    let mut context = Context { open, error: error.clone() };
    let mut raw = sys::infer_source::init();
    let (text, len) = ffi::parts(name.as_bytes());
    let user: *mut Context = &mut context;
    // SAFETY: raw is a source to fill; name and context outlive the call below, which is the only one that opens.
    unsafe { sys::infer_source_callback(&mut raw, text, len, Some(open_stream), user.cast()) };
    f(&raw).map_err(|told| {
        let own = error.lock().ok().and_then(|mut slot| slot.take());
        match own {
            Some(own) if own.code() == told.code() => told.with_text_of(own),
            _ => told,
        }
    })
}

unsafe extern "C" fn open_stream(user: *mut c_void, name: *const c_char, name_len: u64, out: *mut sys::infer_stream) -> sys::infer_status {
    guard(sys::INFER_ERROR_HOST, || {
        // SAFETY: user is by_callback's context, used by this call alone; name has name_len bytes.
        let (context, name) = unsafe { (&mut *user.cast::<Context>(), ffi::slice(name.cast::<u8>(), name_len)) };
        let content = match (context.open)(&String::from_utf8_lossy(name)) {
            Ok(content) => content,
            Err(error) => return note(&context.error, &error),
        };
        // SAFETY: out is the library's stream to fill.
        let out = unsafe { &mut *out };
        match &content {
            Content::Memory(memory) => {
                let bytes = (**memory).as_ref(); // borrows from the Arc, which the stream keeps
                out.length = bytes.len() as u64;
                out.data = bytes.as_ptr().cast();
            }
            Content::Reader(reader) => {
                out.length = reader.length();
                out.read = Some(read_stream);
            }
        }
        let stream = Box::new(Stream { content: Mutex::new(content), error: context.error.clone() });
        out.user = Box::into_raw(stream).cast();
        out.release = Some(release_stream);
        sys::INFER_OK
    })
}

unsafe extern "C" fn read_stream(user: *mut c_void, offset: u64, dst: *mut c_void, bytes: u64) -> sys::infer_status {
    guard(sys::INFER_ERROR_HOST, || {
        // SAFETY: user is open_stream's, alive until release.
        let stream = unsafe { &*user.cast::<Stream>() };
        if bytes == 0 {
            return sys::INFER_OK;
        }
        // SAFETY: the library gives room for that many bytes; they are zeroed first, as a safe reader may look at its buffer.
        let buffer = unsafe {
            std::ptr::write_bytes(dst.cast::<u8>(), 0, bytes as usize);
            std::slice::from_raw_parts_mut(dst.cast::<u8>(), bytes as usize)
        };
        let mut content = match stream.content.lock() {
            Ok(content) => content,
            Err(_) => return sys::INFER_ERROR_HOST, // it panicked before
        };
        match &mut *content {
            Content::Reader(reader) => match reader.read_at(offset, buffer) {
                Ok(()) => sys::INFER_OK,
                Err(error) => note(&stream.error, &error),
            },
            Content::Memory(_) => sys::INFER_ERROR_HOST, // it has data, and is not read
        }
    })
}

unsafe extern "C" fn release_stream(user: *mut c_void) {
    guard((), || {
        // SAFETY: the library calls this once for each stream that open_stream made. The host's drop may panic: hence the guard.
        drop(unsafe { Box::from_raw(user.cast::<Stream>()) });
    })
}

// ---- Options ----

c_enum! {
    /// How a file gets into memory.
    Map {
        /// Mapped where the system can do it, else read.
        Auto = INFER_MAP_AUTO,
        /// Mapped: quick to open and shared between processes; the file must not shrink or change while it is in use.
        Mmap = INFER_MAP_MMAP,
        /// Copied into memory: nothing that happens to the file later matters.
        Read = INFER_MAP_READ,
    }
}

/// How to open a file or model.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    map: Map,
    cancel: Option<CancelFlag>,
    n_ctx: u32,
    quantise: Option<TensorType>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions { map: Map::Auto, cancel: None, n_ctx: 0, quantise: None }
    }
}

impl OpenOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How the file gets into memory.
    pub fn map(mut self, map: Map) -> Self {
        self.map = map;
        self
    }

    /// A flag that ends the opening.
    pub fn cancel(mut self, flag: &CancelFlag) -> Self {
        self.cancel = Some(flag.clone());
        self
    }

    /// Of models: how many elements the sessions hold that do not say it themselves; 0: what the file declares.
    pub fn n_ctx(mut self, n_ctx: u32) -> Self {
        self.n_ctx = n_ctx;
        self
    }

    /// Of models: matrices stored as F32, F16 or BF16 become this type in memory: Q8_0, Q4_0, Q4_K or Q6_K.
    pub fn quantise(mut self, to: TensorType) -> Self {
        self.quantise = Some(to);
        self
    }

    pub(crate) fn raw(&self) -> sys::infer_open_options {
        let mut raw = sys::infer_open_options::init();
        raw.map = self.map.raw();
        raw.cancel = CancelFlag::raw(self.cancel.as_ref());
        raw.n_ctx = self.n_ctx;
        raw.quantise = self.quantise.map_or(0, TensorType::raw);
        raw
    }
}
