//! The bindings against the library that is linked.
use libinfer_sys as sys;
use std::ffi::CStr;

/// Sizes and alignments are checked while compiling, and so are the offsets where the compiler has offset_of.
#[test]
#[cfg(target_pointer_width = "64")]
fn fields_lie_where_c_puts_them() {
    let layout = sys::layout();
    assert!(layout.len() > 300, "only {} fields", layout.len());
    for (name, field, found, expected) in layout {
        assert_eq!(found, expected, "{name}.{field}");
    }
}

#[test]
fn the_library_has_the_version_of_the_bindings() {
    // SAFETY: no conditions; the string is static.
    unsafe {
        assert_eq!(sys::infer_abi_version(), sys::INFER_ABI_VERSION);
        assert_eq!(CStr::from_ptr(sys::infer_version()).to_str(), Ok(sys::INFER_VERSION_STRING));
        assert_eq!(sys::infer_numerics_version(), sys::INFER_NUMERICS_VERSION);
    }
}

#[test]
fn init_does_what_infer_init_does() {
    let ours = sys::infer_sampling::init();
    let mut theirs = ours;
    theirs.top_k = 7;
    // SAFETY: theirs is a struct of that size.
    unsafe { sys::infer_init((&mut theirs as *mut sys::infer_sampling).cast(), std::mem::size_of_val(&theirs) as u32) };
    assert_eq!((theirs.size, theirs.top_k), (ours.size, ours.top_k));
    assert_eq!(ours.size as usize, std::mem::size_of::<sys::infer_sampling>());
}

#[test]
fn status_numbers_are_the_library_s() {
    let check = |code, name: &str| {
        // SAFETY: any number may be asked; the string is static.
        let told = unsafe { CStr::from_ptr(sys::infer_status_name(code)) };
        assert_eq!(told.to_str(), Ok(name));
    };
    check(sys::INFER_ERROR_ARGUMENT, "INFER_ERROR_ARGUMENT");
    check(sys::INFER_ERROR_NOT_FOUND, "INFER_ERROR_NOT_FOUND");
    check(sys::INFER_ERROR_THREAD, "INFER_ERROR_THREAD");
}
