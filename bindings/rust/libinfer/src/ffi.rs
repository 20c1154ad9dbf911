//! What every module needs to cross into C and back: handles, errors, panics, strings and buffers.
use crate::error::{Error, ErrorKind, Result};
use libinfer_sys as sys;
use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::CStr;
use std::os::raw::c_char;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr::{null, null_mut, NonNull};

// ---- Panics ----

thread_local! {
    /// The panic of a callback that ran on this thread, until the call that it ran in returns.
    static PANIC: RefCell<Option<Box<dyn Any + Send>>> = const { RefCell::new(None) };
    /// The same for an error that a callback returned.
    static HOST_ERROR: RefCell<Option<Error>> = const { RefCell::new(None) };
}


/// Runs a host's closure inside a C callback: a panic is kept for [`resume_panic`], and `failed` returned.
pub(crate) fn guard<R>(failed: R, f: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => result,
        Err(panic) => {
            let mut panic = Some(panic);
            let _ = PANIC.try_with(|slot| {
                let mut slot = slot.borrow_mut();
                if slot.is_none() {
                    *slot = panic.take();
                }
            });
            std::mem::forget(panic); // a second one: dropping it could panic again, and unwind into C
            failed
        }
    }
}

/// Lets a panic that a callback left behind go on, now that the library has returned.
pub(crate) fn resume_panic() {
    let panic = PANIC.try_with(|slot| slot.borrow_mut().take()).unwrap_or(None);
    if let Some(panic) = panic {
        if !std::thread::panicking() {
            resume_unwind(panic);
        }
    }
}

// ---- Calls ----

/// A call that tells a status and may fill an error.
pub(crate) fn call(f: impl FnOnce(*mut sys::infer_error) -> sys::infer_status) -> Result<()> {
    let mut err = sys::infer_error::init();
    let status = f(&mut err);
    let own = HOST_ERROR.try_with(|slot| slot.borrow_mut().take()).unwrap_or(None); // first: a panic must not leave it to a later call
    resume_panic();
    if status == sys::INFER_OK {
        return Ok(());
    }
    Err(own.filter(|own| own.code() == status).unwrap_or_else(|| Error::from_c(status, &err)))
}

/// Keeps the error that a host's closure returned, with its words, for the call that it ran in.
pub(crate) fn note_error(error: Error) {
    let _ = HOST_ERROR.try_with(|slot| *slot.borrow_mut() = Some(error));
}

/// The library that is linked must have the ABI of these bindings.
pub(crate) fn check_abi() -> Result<()> {
    // SAFETY: no conditions.
    let abi = unsafe { sys::infer_abi_version() };
    if abi == sys::INFER_ABI_VERSION {
        return Ok(());
    }
    let text = format!("the library's ABI is {abi}, these bindings are for {}", sys::INFER_ABI_VERSION);
    Err(Error::new(ErrorKind::Unsupported, text))
}

// ---- Handles ----

/// A reference-counted object of the library.
pub(crate) trait Counted: Sized {
    /// # Safety
    /// p is a live handle.
    unsafe fn add(p: *mut Self);
    /// # Safety
    /// p is a live handle, and one reference on it is the caller's to give up.
    unsafe fn drop_one(p: *mut Self);
}

/// Objects that any thread may use at any time: all but sessions.
pub(crate) trait AnyThread: Counted {}

macro_rules! counted {
    ($type:ident, $add:ident, $release:ident) => {
        impl Counted for sys::$type {
            unsafe fn add(p: *mut Self) {
                // SAFETY: the caller's promise.
                unsafe { sys::$add(p) };
            }
            unsafe fn drop_one(p: *mut Self) {
                // SAFETY: the caller's promise.
                unsafe { sys::$release(p) };
            }
        }
    };
}
counted!(infer_session, infer_session_ref, infer_session_release);
counted!(infer_engine, infer_engine_ref, infer_engine_release);
counted!(infer_file, infer_file_ref, infer_file_release);
counted!(infer_tokenizer, infer_tokenizer_ref, infer_tokenizer_release);
counted!(infer_template, infer_template_ref, infer_template_release);
counted!(infer_model, infer_model_ref, infer_model_release);
counted!(infer_adapter, infer_adapter_ref, infer_adapter_release);
counted!(infer_checkpoint, infer_checkpoint_ref, infer_checkpoint_release);
counted!(infer_store, infer_store_ref, infer_store_release);
counted!(infer_cancel, infer_cancel_ref, infer_cancel_release);
counted!(infer_scheduler, infer_scheduler_ref, infer_scheduler_release);
counted!(infer_request, infer_request_ref, infer_request_release);

impl AnyThread for sys::infer_engine {}
impl AnyThread for sys::infer_file {}
impl AnyThread for sys::infer_tokenizer {}
impl AnyThread for sys::infer_template {}
impl AnyThread for sys::infer_model {}
impl AnyThread for sys::infer_adapter {}
impl AnyThread for sys::infer_checkpoint {}
impl AnyThread for sys::infer_store {}
impl AnyThread for sys::infer_cancel {}
impl AnyThread for sys::infer_scheduler {}
impl AnyThread for sys::infer_request {}

/// One reference on an object of the library.
pub(crate) struct Handle<T: Counted>(NonNull<T>);

// SAFETY: every object of the library may move between threads; those that are AnyThread may be used from several at once.
unsafe impl<T: Counted> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: AnyThread> Sync for Handle<T> {}

impl<T: Counted> Handle<T> {
    /// A further reference on a borrowed object; None for NULL.
    ///
    /// # Safety
    /// p is NULL or a live handle.
    pub(crate) unsafe fn share(p: *mut T) -> Option<Self> {
        let p = NonNull::new(p)?;
        // SAFETY: the caller's promise.
        unsafe { T::add(p.as_ptr()) };
        Some(Handle(p))
    }

    pub(crate) fn get(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: AnyThread> Clone for Handle<T> {
    fn clone(&self) -> Self {
        // SAFETY: self is a live handle.
        unsafe { T::add(self.get()) };
        Handle(self.0)
    }
}

impl<T: Counted> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: this reference is ours.
        unsafe { T::drop_one(self.get()) };
        resume_panic(); // a scheduler's last release calls callbacks
    }
}

/// A call that makes a handle.
pub(crate) fn make<T: Counted>(f: impl FnOnce(*mut *mut T, *mut sys::infer_error) -> sys::infer_status) -> Result<Handle<T>> {
    let mut out = null_mut();
    let mut err = sys::infer_error::init();
    let status = f(&mut out, &mut err);
    let handle = NonNull::new(out).map(Handle);
    resume_panic(); // after the handle has its owner
    match handle {
        Some(handle) if status == sys::INFER_OK => Ok(handle),
        _ => Err(Error::from_c(status, &err)),
    }
}

// ---- Strings and buffers ----

/// Pointer and length of bytes as the library takes them.
pub(crate) fn parts(bytes: &[u8]) -> (*const c_char, u64) {
    (bytes.as_ptr().cast(), bytes.len() as u64)
}

/// A path's bytes; on Windows its UTF-8.
pub(crate) fn path_bytes(path: &Path) -> Result<Cow<'_, [u8]>> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Ok(Cow::Borrowed(path.as_os_str().as_bytes()))
    }
    #[cfg(not(unix))]
    {
        match path.to_str() {
            Some(text) => Ok(Cow::Borrowed(text.as_bytes())),
            None => Err(Error::new(ErrorKind::Encoding, format!("{}: no Unicode path", path.display()))),
        }
    }
}

/// # Safety
/// p is a zero-terminated string that lives for ever.
pub(crate) unsafe fn static_str(p: *const c_char) -> &'static str {
    if p.is_null() {
        return "";
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(p) }.to_str().unwrap_or("")
}

/// The text of a zero-terminated array of a struct.
pub(crate) fn array_text(array: &[c_char]) -> String {
    let bytes: Vec<u8> = array.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A slice of the library's memory; empty for NULL.
///
/// # Safety
/// p is NULL, or len items lie there, aligned and unchanged for as long as 'a.
pub(crate) unsafe fn slice<'a, T>(p: *const T, len: u64) -> &'a [T] {
    if p.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(p, len as usize) }
}

/// A call that fills a caller's buffer: (buffer, capacity, needed or written, error). Called again with more room when that is needed.
pub(crate) fn fill<T: Copy + Default>(
    guess: usize,
    mut f: impl FnMut(*mut T, u64, *mut u64, *mut sys::infer_error) -> sys::infer_status,
) -> Result<Vec<T>> {
    let mut buffer = filled(T::default(), guess)?;
    loop {
        let mut len = 0;
        let mut err = sys::infer_error::init();
        let pointer = if buffer.is_empty() { null_mut() } else { buffer.as_mut_ptr() };
        let status = f(pointer, buffer.len() as u64, &mut len, &mut err);
        resume_panic();
        let len = len as usize;
        if status == sys::INFER_ERROR_BUFFER && len > buffer.len() {
            buffer = filled(T::default(), len)?;
        } else if status != sys::INFER_OK {
            return Err(Error::from_c(status, &err));
        } else {
            buffer.truncate(len);
            return Ok(buffer);
        }
    }
}

/// A vector of len items; an error when there is no memory for it.
pub(crate) fn filled<T: Clone>(item: T, len: usize) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    if vector.try_reserve_exact(len).is_err() {
        return Err(Error::new(ErrorKind::NoMemory, format!("no memory for {len} items")));
    }
    vector.resize(len, item);
    Ok(vector)
}

/// Text of the library's; whatever is not UTF-8 in it becomes U+FFFD.
pub(crate) fn text_of(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

/// NULL for an empty slice, as the library wants it.
pub(crate) fn slice_ptr<T>(items: &[T]) -> *const T {
    if items.is_empty() {
        null()
    } else {
        items.as_ptr()
    }
}

/// An enum whose values are the library's constants. `Name or Unknown`: with a variant for numbers that these bindings do not know.
macro_rules! c_enum {
    ($(#[$doc:meta])* $name:ident or $other:ident { $($(#[$item_doc:meta])* $item:ident = $value:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$item_doc])* $item,)+
            /// One that this version of the crate does not know.
            $other,
        }
        impl $name {
            #[allow(dead_code)]
            pub(crate) fn raw(self) -> i32 {
                match self {
                    $($name::$item => libinfer_sys::$value,)+
                    $name::$other => i32::MIN,
                }
            }
            #[allow(dead_code)]
            pub(crate) fn from_raw(value: i32) -> Self {
                match value {
                    $(libinfer_sys::$value => $name::$item,)+
                    _ => $name::$other,
                }
            }
        }
    };
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $value:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$item_doc])* $item,)+
        }
        impl $name {
            pub(crate) fn raw(self) -> i32 {
                match self {
                    $($name::$item => libinfer_sys::$value,)+
                }
            }
        }
    };
}
