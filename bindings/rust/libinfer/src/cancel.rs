use crate::error::Result;
use crate::ffi::{self, Handle};
use libinfer_sys as sys;
use std::fmt;
use std::ptr::null_mut;

/// A flag that ends long calls from another thread: they return [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) soon after it is set, with
/// their objects as they were or part of the work done. Clones are one flag.
#[derive(Clone)]
pub struct CancelFlag(Handle<sys::infer_cancel>);

impl CancelFlag {
    /// A flag that is not set.
    pub fn new() -> Result<Self> {
        ffi::check_abi()?;
        // SAFETY: both pointers are good.
        ffi::make(|out, err| unsafe { sys::infer_cancel_create(out, err) }).map(CancelFlag)
    }

    /// Sets it.
    pub fn set(&self) {
        // SAFETY: the handle is live; any thread may call this.
        unsafe { sys::infer_cancel_set(self.0.get()) }
    }

    /// Makes it ready for use again.
    pub fn clear(&self) {
        // SAFETY: as above.
        unsafe { sys::infer_cancel_clear(self.0.get()) }
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        // SAFETY: as above.
        unsafe { sys::infer_cancel_is_set(self.0.get()) != 0 }
    }

    /// The pointer that calls take: NULL for None. Live as long as the flag is.
    pub(crate) fn raw(flag: Option<&CancelFlag>) -> *mut sys::infer_cancel {
        flag.map_or(null_mut(), |flag| flag.0.get())
    }
}

impl fmt::Debug for CancelFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CancelFlag({})", self.is_set())
    }
}
