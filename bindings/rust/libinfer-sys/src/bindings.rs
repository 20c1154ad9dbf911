// Made by scripts/gen-rust from include/infer/*.h.
use std::os::raw::{c_char, c_void};

/// Of this header.
pub const INFER_VERSION_MAJOR: i32 = 1;
/// grows with additions
pub const INFER_VERSION_MINOR: i32 = 0;
/// grows with everything else
pub const INFER_VERSION_PATCH: i32 = 0;
/// the three
pub const INFER_VERSION_STRING: &str = "1.0.0";
/// libinfer.so.1
pub const INFER_ABI_VERSION: i32 = 1;
/// Changes when, and only when, the bits of EXACT results change; see docs/numerics.md.
pub const INFER_NUMERICS_VERSION: i32 = 1;
/// A string length that means "zero-terminated".
pub const INFER_ZSTR: u64 = 18446744073709551615;
/// Texts of more bytes than this are refused with INFER_ERROR_LIMIT.
pub const INFER_MAX_TEXT: u64 = 1073741824;
/// Most bytes of infer_session_options.salt.
pub const INFER_CACHE_SALT_MAX: i32 = 64;
/// success
pub const INFER_OK: infer_status = 0;
/// invalid argument
pub const INFER_ERROR_ARGUMENT: infer_status = -1;
/// call not allowed in this state
pub const INFER_ERROR_STATE: infer_status = -2;
/// out of memory
pub const INFER_ERROR_NO_MEMORY: infer_status = -3;
/// a limit was exceeded
pub const INFER_ERROR_LIMIT: infer_status = -4;
/// cancelled
pub const INFER_ERROR_CANCELLED: infer_status = -5;
/// not supported
pub const INFER_ERROR_UNSUPPORTED: infer_status = -6;
/// buffer too small
pub const INFER_ERROR_BUFFER: infer_status = -7;
/// internal error
pub const INFER_ERROR_INTERNAL: infer_status = -8;
/// a callback of the host failed
pub const INFER_ERROR_HOST: infer_status = -9;
/// input/output error
pub const INFER_ERROR_IO: infer_status = -20;
/// not found
pub const INFER_ERROR_NOT_FOUND: infer_status = -21;
/// malformed file
pub const INFER_ERROR_FORMAT: infer_status = -22;
/// file ends early
pub const INFER_ERROR_TRUNCATED: infer_status = -23;
/// file changed while in use
pub const INFER_ERROR_CHANGED: infer_status = -24;
/// already exists
pub const INFER_ERROR_EXISTS: infer_status = -25;
/// unknown model architecture
pub const INFER_ERROR_ARCHITECTURE: infer_status = -40;
/// required key or tensor is missing
pub const INFER_ERROR_MISSING: infer_status = -41;
/// tensor has the wrong shape or type
pub const INFER_ERROR_SHAPE: infer_status = -42;
/// value out of range
pub const INFER_ERROR_VALUE: infer_status = -43;
/// invalid token id
pub const INFER_ERROR_TOKEN: infer_status = -60;
/// invalid UTF-8
pub const INFER_ERROR_ENCODING: infer_status = -61;
/// syntax error
pub const INFER_ERROR_SYNTAX: infer_status = -62;
/// template failed or raised an exception
pub const INFER_ERROR_TEMPLATE: infer_status = -63;
/// context is full
pub const INFER_ERROR_CONTEXT_FULL: infer_status = -80;
/// the model produced a value that is not finite
pub const INFER_ERROR_NONFINITE: infer_status = -81;
/// a thread could not be started
pub const INFER_ERROR_THREAD: infer_status = -82;
/// INFER_OK or a negative INFER_ERROR_*.
pub type infer_status = i32;
/// What failed, and where.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_error {
    /// set by INFER_INIT
    pub size: u32,
    /// an infer_status
    pub code: i32,
    /// byte offset in the file or text, or UINT64_MAX
    pub offset: u64,
    /// file name or ""
    pub file: [c_char; 256],
    /// metadata key, tensor or option, or ""
    pub name: [c_char; 128],
    /// what happened, in English
    pub text: [c_char; 512],
}
impl infer_error {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_error>() == 912);
    assert!(core::mem::align_of::<infer_error>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_error, size) == 0);
    assert!(core::mem::offset_of!(infer_error, code) == 4);
    assert!(core::mem::offset_of!(infer_error, offset) == 8);
    assert!(core::mem::offset_of!(infer_error, file) == 16);
    assert!(core::mem::offset_of!(infer_error, name) == 272);
    assert!(core::mem::offset_of!(infer_error, text) == 400);
};
/// device, threads, KV memory, allocator, log
#[repr(C)]
#[derive(Debug)]
pub struct infer_engine {
    _private: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}
/// a weights file as data: tensors and metadata
#[repr(C)]
#[derive(Debug)]
pub struct infer_file {
    _private: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}
/// text <-> token ids
#[repr(C)]
#[derive(Debug)]
pub struct infer_tokenizer {
    _private: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}
/// a chat template: messages -> text
#[repr(C)]
#[derive(Debug)]
pub struct infer_template {
    _private: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}
/// weights, tokenizer, template: immutable
#[repr(C)]
#[derive(Debug)]
pub struct infer_model {
    _private: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}
/// one sequence and its computed state
#[repr(C)]
#[derive(Debug)]
pub struct infer_session {
    _private: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}
/// a session's state at one moment: immutable
#[repr(C)]
#[derive(Debug)]
pub struct infer_checkpoint {
    _private: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}
/// checkpoints by name
#[repr(C)]
#[derive(Debug)]
pub struct infer_store {
    _private: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}
/// LoRA, steering vector, soft prompt or prefix, for one model: immutable
#[repr(C)]
#[derive(Debug)]
pub struct infer_adapter {
    _private: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}
/// a flag that stops long calls
#[repr(C)]
#[derive(Debug)]
pub struct infer_cancel {
    _private: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}
/// Memory functions of the host; both are required. They are called from any thread that is inside the library and from its
/// pool threads, also while the library holds locks: they must not call it. Not from them come only: cancel flags (24 bytes each), handles opened without an engine, and what the system's own
/// thread functions take when the pool starts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_allocator {
    pub size: u32,
    pub reserved: u32,
    /// given to both functions
    pub user: *mut c_void,
    /// NULL: out of memory. align is a power of two
    pub alloc: Option<unsafe extern "C" fn(user: *mut c_void, bytes: u64, align: u64) -> *mut c_void>,
    /// bytes and align are those of alloc; block is never NULL
    pub free: Option<unsafe extern "C" fn(user: *mut c_void, block: *mut c_void, bytes: u64, align: u64)>,
}
impl infer_allocator {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_allocator>() == 32);
    assert!(core::mem::align_of::<infer_allocator>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_allocator, size) == 0);
    assert!(core::mem::offset_of!(infer_allocator, reserved) == 4);
    assert!(core::mem::offset_of!(infer_allocator, user) == 8);
    assert!(core::mem::offset_of!(infer_allocator, alloc) == 16);
    assert!(core::mem::offset_of!(infer_allocator, free) == 24);
};
pub const INFER_LOG_ERROR: i32 = 1;
pub const INFER_LOG_WARNING: i32 = 2;
pub const INFER_LOG_INFO: i32 = 3;
pub const INFER_LOG_DEBUG: i32 = 4;
/// Receives one line of text, without a newline. It must not call the library.
pub type infer_log_fn = Option<unsafe extern "C" fn(user: *mut c_void, level: i32, text: *const c_char, text_len: u64)>;
/// Runs worker number index of a job: part of the job's work, on the thread that calls it.
pub type infer_task_fn = Option<unsafe extern "C" fn(task_arg: *mut c_void, index: u32)>;
/// Lends the host's own threads to an engine, which then starts none. For each job (a forward pass has about a hundred, of microseconds to
/// milliseconds) the engine calls run from inside infer_step, infer_generate_next and their kin, on the thread that called those. run must call
/// task(task_arg, i) once for each i from 0 to count - 1, in any order, on any threads, at once or one after the other, and return when all
/// these calls have returned: 0, or anything else for failure. count is at most concurrency. Calls share out the work between them: one that
/// comes late finds less left, or nothing, and none waits for another. Results do not depend on how they are run. A task neither blocks, nor
/// allocates, nor calls the host, needs at most 64 KiB of stack, and leaves the thread's floating-point settings as it found them.
/// Inside run the host must not call the library for this engine or its models and sessions, other than by task. An executor may be given to
/// several engines, which may then call run at the same time.
/// The contract is checked: when run fails, leaves a call out, makes one twice or returns while one is inside, no task is lost or run twice,
/// and the step fails with INFER_ERROR_HOST, its sessions as they were.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_executor {
    pub size: u32,
    /// how many workers a job is cut into at most: 1 to 256
    pub concurrency: u32,
    /// given to run
    pub user: *mut c_void,
    /// see above
    pub run: Option<unsafe extern "C" fn(user: *mut c_void, count: u32, task: infer_task_fn, task_arg: *mut c_void) -> i32>,
}
impl infer_executor {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_executor>() == 24);
    assert!(core::mem::align_of::<infer_executor>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_executor, size) == 0);
    assert!(core::mem::offset_of!(infer_executor, concurrency) == 4);
    assert!(core::mem::offset_of!(infer_executor, user) == 8);
    assert!(core::mem::offset_of!(infer_executor, run) == 16);
};
/// CPU variants, least to most capable; a forced one is refused with INFER_ERROR_UNSUPPORTED when the machine or the build lacks it.
pub const INFER_CPU_AUTO: i32 = 0;
/// CPU variants, least to most capable; a forced one is refused with INFER_ERROR_UNSUPPORTED when the machine or the build lacks it.
pub const INFER_CPU_SCALAR: i32 = 1;
/// with FMA and F16C
pub const INFER_CPU_AVX2: i32 = 10;
/// CPU variants, least to most capable; a forced one is refused with INFER_ERROR_UNSUPPORTED when the machine or the build lacks it.
pub const INFER_CPU_AVXVNNI: i32 = 11;
/// F, BW, VL, DQ
pub const INFER_CPU_AVX512: i32 = 12;
/// CPU variants, least to most capable; a forced one is refused with INFER_ERROR_UNSUPPORTED when the machine or the build lacks it.
pub const INFER_CPU_AVX512VNNI: i32 = 13;
/// CPU variants, least to most capable; a forced one is refused with INFER_ERROR_UNSUPPORTED when the machine or the build lacks it.
pub const INFER_CPU_NEON: i32 = 30;
/// CPU variants, least to most capable; a forced one is refused with INFER_ERROR_UNSUPPORTED when the machine or the build lacks it.
pub const INFER_CPU_DOTPROD: i32 = 31;
/// CPU variants, least to most capable; a forced one is refused with INFER_ERROR_UNSUPPORTED when the machine or the build lacks it.
pub const INFER_CPU_I8MM: i32 = 32;
/// the default: int8 activations against quantised weights, fixed order of every sum
pub const INFER_NUMERICS_EXACT: i32 = 0;
/// activations stay f32: equals dequantise-then-multiply; slower
pub const INFER_NUMERICS_PRECISE: i32 = 1;
/// may use other arithmetic where that is faster, as independent of batch, chunks and threads as the others, but
/// not of the CPU variant or the version of the library. Today nothing tried was faster: it computes as EXACT
pub const INFER_NUMERICS_FAST: i32 = 2;
/// How an engine is made.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_engine_options {
    pub size: u32,
    /// INFER_CPU_*; default: the best that runs here
    pub cpu: i32,
    /// INFER_NUMERICS_*
    pub numerics: i32,
    /// 0: the physical cores that this process may use (affinity, CPU quota rounded up); at most 256
    pub threads: u32,
    /// bytes of KV memory over all sessions; 0: no limit
    pub kv_budget: u64,
    /// NULL: the C library's. Copied
    pub allocator: *const infer_allocator,
    /// NULL: no log
    pub log: infer_log_fn,
    pub log_user: *mut c_void,
    /// lines above it are not produced; 0: INFER_LOG_WARNING
    pub log_level: i32,
    pub reserved: u32,
    /// NULL: own threads. Copied; threads must then be 0
    pub executor: *const infer_executor,
    /// what the prefix cache may keep beyond what sessions hold; 0: no cache. Counts in kv_budget, and gives way
    pub cache_bytes: u64,
    /// NULL: none. Where state that the cache evicts is written, and found again, also after a restart and by other
    /// processes. Needs cache_bytes. See docs/state.md. Made, for this user alone, when it is not there
    pub cache_dir: *const c_char,
    pub cache_dir_len: u64,
    /// of the files there; 0: no limit
    pub cache_dir_bytes: u64,
    /// how much this engine may write there in all; 0: no limit
    pub cache_write_bytes: u64,
    /// bytes that the engine and all that is made with it (models, sessions, caches, adapters, ...) may take from
    /// the allocator; 0: no limit. See MEMORY PLANNING
    pub memory_limit: u64,
}
impl infer_engine_options {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_engine_options>() == 112);
    assert!(core::mem::align_of::<infer_engine_options>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_engine_options, size) == 0);
    assert!(core::mem::offset_of!(infer_engine_options, cpu) == 4);
    assert!(core::mem::offset_of!(infer_engine_options, numerics) == 8);
    assert!(core::mem::offset_of!(infer_engine_options, threads) == 12);
    assert!(core::mem::offset_of!(infer_engine_options, kv_budget) == 16);
    assert!(core::mem::offset_of!(infer_engine_options, allocator) == 24);
    assert!(core::mem::offset_of!(infer_engine_options, log) == 32);
    assert!(core::mem::offset_of!(infer_engine_options, log_user) == 40);
    assert!(core::mem::offset_of!(infer_engine_options, log_level) == 48);
    assert!(core::mem::offset_of!(infer_engine_options, reserved) == 52);
    assert!(core::mem::offset_of!(infer_engine_options, executor) == 56);
    assert!(core::mem::offset_of!(infer_engine_options, cache_bytes) == 64);
    assert!(core::mem::offset_of!(infer_engine_options, cache_dir) == 72);
    assert!(core::mem::offset_of!(infer_engine_options, cache_dir_len) == 80);
    assert!(core::mem::offset_of!(infer_engine_options, cache_dir_bytes) == 88);
    assert!(core::mem::offset_of!(infer_engine_options, cache_write_bytes) == 96);
    assert!(core::mem::offset_of!(infer_engine_options, memory_limit) == 104);
};
/// An engine as it is now.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_engine_info {
    pub size: u32,
    /// the INFER_CPU_* in use
    pub cpu: i32,
    /// the INFER_NUMERICS_* in use
    pub numerics: i32,
    /// or the executor's concurrency
    pub threads: u32,
    /// KV memory taken from the device now: whole slabs, so more than the sessions' pages add up to
    pub kv_bytes: u64,
    /// in force; 0: none
    pub kv_budget: u64,
    /// taken from the allocator now: by the engine and all that was made with it
    pub memory_bytes: u64,
    /// the most of that so far
    pub memory_peak: u64,
    /// in force; 0: none
    pub memory_limit: u64,
}
impl infer_engine_info {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_engine_info>() == 56);
    assert!(core::mem::align_of::<infer_engine_info>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_engine_info, size) == 0);
    assert!(core::mem::offset_of!(infer_engine_info, cpu) == 4);
    assert!(core::mem::offset_of!(infer_engine_info, numerics) == 8);
    assert!(core::mem::offset_of!(infer_engine_info, threads) == 12);
    assert!(core::mem::offset_of!(infer_engine_info, kv_bytes) == 16);
    assert!(core::mem::offset_of!(infer_engine_info, kv_budget) == 24);
    assert!(core::mem::offset_of!(infer_engine_info, memory_bytes) == 32);
    assert!(core::mem::offset_of!(infer_engine_info, memory_peak) == 40);
    assert!(core::mem::offset_of!(infer_engine_info, memory_limit) == 48);
};
/// One opened file, filled by a host's open callback. Either data (the whole file in memory, valid until release) or read. release comes from the thread that
/// lets go of the file last, and must not call the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_stream {
    pub size: u32,
    pub reserved: u32,
    /// of the file, bytes
    pub length: u64,
    /// or NULL
    pub data: *const c_void,
    /// given to read and release
    /// Reads exactly bytes at offset into dst. 0, or a negative infer_status, which ends the call and is reported with the file and the offset.
    pub user: *mut c_void,
    pub read: Option<unsafe extern "C" fn(user: *mut c_void, offset: u64, dst: *mut c_void, bytes: u64) -> infer_status>,
    /// may be NULL
    pub release: Option<unsafe extern "C" fn(user: *mut c_void)>,
}
impl infer_stream {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_stream>() == 48);
    assert!(core::mem::align_of::<infer_stream>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_stream, size) == 0);
    assert!(core::mem::offset_of!(infer_stream, reserved) == 4);
    assert!(core::mem::offset_of!(infer_stream, length) == 8);
    assert!(core::mem::offset_of!(infer_stream, data) == 16);
    assert!(core::mem::offset_of!(infer_stream, user) == 24);
    assert!(core::mem::offset_of!(infer_stream, read) == 32);
    assert!(core::mem::offset_of!(infer_stream, release) == 40);
};
/// Opens the file of this name (the source's own name, or a sibling: another part of a split model, a file of the folder that was named). 0, or a negative
/// infer_status. NOT_FOUND: there is no such file (a folder is none); the library may do without it, or ask for another. Anything else ends the call and is
/// reported with the name: nothing more is asked for.
pub type infer_open_fn = Option<unsafe extern "C" fn(user: *mut c_void, name: *const c_char, name_len: u64, out: *mut infer_stream) -> infer_status>;
pub const INFER_SOURCE_PATH: i32 = 1;
pub const INFER_SOURCE_DESCRIPTOR: i32 = 2;
pub const INFER_SOURCE_MEMORY: i32 = 3;
pub const INFER_SOURCE_CALLBACK: i32 = 4;
/// Filled by one of the helpers below; everything it points to must live until the call that takes it returns, and memory
/// (which is used in place when it is aligned to 32 bytes, else copied) as long as the handle that was opened from it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_source {
    pub size: u32,
    /// INFER_SOURCE_*
    pub kind: i32,
    /// path; for the other kinds a name for messages and for finding the parts of a split file; may be NULL
    pub name: *const c_char,
    pub name_len: u64,
    /// stays open and owned by the host; file position is not used or changed
    pub descriptor: i64,
    /// of MEMORY
    pub data: *const c_void,
    /// bytes in data
    pub length: u64,
    /// given to open
    pub user: *mut c_void,
    /// of CALLBACK
    pub open: infer_open_fn,
}
impl infer_source {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_source>() == 64);
    assert!(core::mem::align_of::<infer_source>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_source, size) == 0);
    assert!(core::mem::offset_of!(infer_source, kind) == 4);
    assert!(core::mem::offset_of!(infer_source, name) == 8);
    assert!(core::mem::offset_of!(infer_source, name_len) == 16);
    assert!(core::mem::offset_of!(infer_source, descriptor) == 24);
    assert!(core::mem::offset_of!(infer_source, data) == 32);
    assert!(core::mem::offset_of!(infer_source, length) == 40);
    assert!(core::mem::offset_of!(infer_source, user) == 48);
    assert!(core::mem::offset_of!(infer_source, open) == 56);
};
/// MMAP where the system has it, else READ
pub const INFER_MAP_AUTO: i32 = 0;
/// map the file: fast to open, shared between processes; the file must not shrink while it is open
pub const INFER_MAP_MMAP: i32 = 1;
/// copy the file into memory: immune to later changes of the file
pub const INFER_MAP_READ: i32 = 2;
/// How files are opened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_open_options {
    pub size: u32,
    /// INFER_MAP_*
    pub map: i32,
    /// polled while opening; may be NULL
    pub cancel: *mut infer_cancel,
    /// of models: how many elements the sessions hold that do not say it themselves; 0: what the file declares. Models
    /// whose rotations come in a version for short contexts and one for long ones (LongRoPE: Phi 3) take the short one
    /// where n_ctx fits into the context that it is for, else the long one; no session of such a model may then hold
    /// more. The two are different models to checkpoints and caches
    pub n_ctx: u32,
    /// of infer_model_open: matrices stored as F32, F16 or BF16 become this INFER_TYPE_* in memory: Q8_0, Q4_0, Q4_K or
    /// Q6_K. 0: they stay. Rows that are not whole blocks take Q8_0, or stay; the output matrix takes Q6_K, or
    /// Q8_0; vectors and routers stay. docs/models.md tells more
    pub quantise: i32,
}
impl infer_open_options {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_open_options>() == 24);
    assert!(core::mem::align_of::<infer_open_options>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_open_options, size) == 0);
    assert!(core::mem::offset_of!(infer_open_options, map) == 4);
    assert!(core::mem::offset_of!(infer_open_options, cancel) == 8);
    assert!(core::mem::offset_of!(infer_open_options, n_ctx) == 16);
    assert!(core::mem::offset_of!(infer_open_options, quantise) == 20);
};
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_F32: i32 = 0;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_F16: i32 = 1;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q4_0: i32 = 2;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q4_1: i32 = 3;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q5_0: i32 = 6;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q5_1: i32 = 7;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q8_0: i32 = 8;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q8_1: i32 = 9;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q2_K: i32 = 10;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q3_K: i32 = 11;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q4_K: i32 = 12;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q5_K: i32 = 13;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q6_K: i32 = 14;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q8_K: i32 = 15;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_IQ2_XXS: i32 = 16;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_IQ2_XS: i32 = 17;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_IQ3_XXS: i32 = 18;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_IQ1_S: i32 = 19;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_IQ4_NL: i32 = 20;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_IQ3_S: i32 = 21;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_IQ2_S: i32 = 22;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_IQ4_XS: i32 = 23;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_I8: i32 = 24;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_I16: i32 = 25;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_I32: i32 = 26;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_I64: i32 = 27;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_F64: i32 = 28;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_IQ1_M: i32 = 29;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_BF16: i32 = 30;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_TQ1_0: i32 = 34;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_TQ2_0: i32 = 35;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_MXFP4: i32 = 39;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_NVFP4: i32 = 40;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q1_0: i32 = 41;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_Q2_0: i32 = 42;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_F8_E4M3: i32 = 64;
/// 4 and 3: no infinities, as float8_e4m3fn; 5 and 2: as in IEEE 754
pub const INFER_TYPE_F8_E5M2: i32 = 65;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_BOOL: i32 = 66;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_U8: i32 = 67;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_U16: i32 = 68;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_U32: i32 = 69;
/// Storage types of tensors; the values below 64 are GGUF's.
pub const INFER_TYPE_U64: i32 = 70;
/// One tensor of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_tensor_info {
    pub size: u32,
    /// INFER_TYPE_*
    pub type_: i32,
    /// borrowed; not zero-terminated
    pub name: *const c_char,
    pub name_len: u64,
    /// elements; shape[0] varies fastest (the length of a row); unused ones are 1. The outermost of more than 4
    /// dimensions (safetensors) are multiplied into one; 0 in a safetensors file: an empty tensor
    pub shape: [u64; 4],
    /// 1-4
    pub dims: u32,
    /// which part of a split file, from 0
    pub part: u32,
    /// of the data in its part, bytes
    pub offset: u64,
    /// borrowed: the packed bytes
    pub data: *const c_void,
    /// bytes
    pub data_len: u64,
}
impl infer_tensor_info {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_tensor_info>() == 88);
    assert!(core::mem::align_of::<infer_tensor_info>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_tensor_info, size) == 0);
    assert!(core::mem::offset_of!(infer_tensor_info, type_) == 4);
    assert!(core::mem::offset_of!(infer_tensor_info, name) == 8);
    assert!(core::mem::offset_of!(infer_tensor_info, name_len) == 16);
    assert!(core::mem::offset_of!(infer_tensor_info, shape) == 24);
    assert!(core::mem::offset_of!(infer_tensor_info, dims) == 56);
    assert!(core::mem::offset_of!(infer_tensor_info, part) == 60);
    assert!(core::mem::offset_of!(infer_tensor_info, offset) == 64);
    assert!(core::mem::offset_of!(infer_tensor_info, data) == 72);
    assert!(core::mem::offset_of!(infer_tensor_info, data_len) == 80);
};
/// u: u8, u16, u32, u64
pub const INFER_VALUE_UINT: i32 = 1;
/// i: i8, i16, i32, i64
pub const INFER_VALUE_INT: i32 = 2;
/// f: f32, f64
pub const INFER_VALUE_FLOAT: i32 = 3;
/// u: 0 or 1
pub const INFER_VALUE_BOOL: i32 = 4;
/// data, count bytes; not zero-terminated, not checked to be UTF-8
pub const INFER_VALUE_STRING: i32 = 5;
/// count items, each read by infer_file_value_item
pub const INFER_VALUE_ARRAY: i32 = 6;
/// A value of metadata.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_value {
    pub size: u32,
    /// INFER_VALUE_*
    pub kind: i32,
    /// of an array's items, else 0
    pub item_kind: i32,
    /// bytes of a number, or of each item of an array of numbers, as stored; else 0
    pub width: u32,
    /// bytes of a string, items of an array
    pub count: u64,
    /// UINT, BOOL
    pub u: u64,
    /// INT
    pub i: i64,
    /// FLOAT
    pub f: f64,
    /// borrowed: a string's bytes; an array's items as stored (little-endian, unaligned)
    pub data: *const c_void,
}
impl infer_value {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_value>() == 56);
    assert!(core::mem::align_of::<infer_value>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_value, size) == 0);
    assert!(core::mem::offset_of!(infer_value, kind) == 4);
    assert!(core::mem::offset_of!(infer_value, item_kind) == 8);
    assert!(core::mem::offset_of!(infer_value, width) == 12);
    assert!(core::mem::offset_of!(infer_value, count) == 16);
    assert!(core::mem::offset_of!(infer_value, u) == 24);
    assert!(core::mem::offset_of!(infer_value, i) == 32);
    assert!(core::mem::offset_of!(infer_value, f) == 40);
    assert!(core::mem::offset_of!(infer_value, data) == 48);
};
pub const INFER_TOKENIZER_BPE: i32 = 1;
pub const INFER_TOKENIZER_SPM: i32 = 2;
pub const INFER_TOKENIZER_WORDPIECE: i32 = 3;
pub const INFER_TOKENIZER_UNIGRAM: i32 = 4;
pub const INFER_TOKENIZER_WORDLEVEL: i32 = 5;
/// What a tokenizer is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_tokenizer_info {
    pub size: u32,
    /// INFER_TOKENIZER_*
    pub kind: i32,
    /// ids are 0 .. vocab_size - 1
    pub vocab_size: u32,
    /// token ids, -1: none
    pub bos: i32,
    /// token ids, -1: none
    pub eos: i32,
    /// token ids, -1: none
    pub eot: i32,
    /// token ids, -1: none
    pub unk: i32,
    /// token ids, -1: none
    pub sep: i32,
    /// token ids, -1: none
    pub pad: i32,
    /// token ids, -1: none
    pub mask: i32,
    /// 1: INFER_TOKENIZE_ADD_SPECIAL adds it
    pub add_bos: i32,
    /// 1: INFER_TOKENIZE_ADD_SPECIAL adds it
    pub add_eos: i32,
    pub reserved: u32,
}
impl infer_tokenizer_info {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_tokenizer_info>() == 52);
    assert!(core::mem::align_of::<infer_tokenizer_info>() == 4);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_tokenizer_info, size) == 0);
    assert!(core::mem::offset_of!(infer_tokenizer_info, kind) == 4);
    assert!(core::mem::offset_of!(infer_tokenizer_info, vocab_size) == 8);
    assert!(core::mem::offset_of!(infer_tokenizer_info, bos) == 12);
    assert!(core::mem::offset_of!(infer_tokenizer_info, eos) == 16);
    assert!(core::mem::offset_of!(infer_tokenizer_info, eot) == 20);
    assert!(core::mem::offset_of!(infer_tokenizer_info, unk) == 24);
    assert!(core::mem::offset_of!(infer_tokenizer_info, sep) == 28);
    assert!(core::mem::offset_of!(infer_tokenizer_info, pad) == 32);
    assert!(core::mem::offset_of!(infer_tokenizer_info, mask) == 36);
    assert!(core::mem::offset_of!(infer_tokenizer_info, add_bos) == 40);
    assert!(core::mem::offset_of!(infer_tokenizer_info, add_eos) == 44);
    assert!(core::mem::offset_of!(infer_tokenizer_info, reserved) == 48);
};
/// begin (and end) with BOS, EOS, CLS, SEP as the model file says
pub const INFER_TOKENIZE_ADD_SPECIAL: i32 = 1;
/// the spelling of control tokens in the text ("<|im_end|>") becomes that token; else it is plain text
pub const INFER_TOKENIZE_PARSE_SPECIAL: i32 = 2;
/// control tokens give their spelling; else they give nothing
pub const INFER_DETOKENIZE_SHOW_SPECIAL: i32 = 1;
/// Streaming decoder: a caller-owned struct, INFER_INIT at the start of each text. Concatenated outputs equal infer_detokenize of all ids.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_detokenizer {
    pub size: u32,
    /// INFER_DETOKENIZE_SHOW_SPECIAL; set after INFER_INIT
    pub flags: u32,
    /// bytes of an unfinished character
    pub pending_len: u32,
    /// 0 before the first token
    pub started: u32,
    /// those bytes
    pub pending: [u8; 16],
}
impl infer_detokenizer {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_detokenizer>() == 32);
    assert!(core::mem::align_of::<infer_detokenizer>() == 4);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_detokenizer, size) == 0);
    assert!(core::mem::offset_of!(infer_detokenizer, flags) == 4);
    assert!(core::mem::offset_of!(infer_detokenizer, pending_len) == 8);
    assert!(core::mem::offset_of!(infer_detokenizer, started) == 12);
    assert!(core::mem::offset_of!(infer_detokenizer, pending) == 16);
};
pub const INFER_TOKEN_NORMAL: i32 = 1;
pub const INFER_TOKEN_UNKNOWN: i32 = 2;
pub const INFER_TOKEN_CONTROL: i32 = 3;
pub const INFER_TOKEN_USER_DEFINED: i32 = 4;
pub const INFER_TOKEN_UNUSED: i32 = 5;
pub const INFER_TOKEN_BYTE: i32 = 6;
/// One token of a vocabulary.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_token_info {
    pub size: u32,
    /// INFER_TOKEN_*
    pub kind: i32,
    /// as stored; 0 when the file has none
    pub score: f32,
    /// 1: generation stops at this token
    pub ends_turn: i32,
    /// borrowed: the vocabulary's own spelling, not zero-terminated
    pub piece: *const c_char,
    pub piece_len: u64,
    /// borrowed: the text bytes that the token stands for in the middle of a text
    pub bytes: *const c_char,
    pub bytes_len: u64,
}
impl infer_token_info {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_token_info>() == 48);
    assert!(core::mem::align_of::<infer_token_info>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_token_info, size) == 0);
    assert!(core::mem::offset_of!(infer_token_info, kind) == 4);
    assert!(core::mem::offset_of!(infer_token_info, score) == 8);
    assert!(core::mem::offset_of!(infer_token_info, ends_turn) == 12);
    assert!(core::mem::offset_of!(infer_token_info, piece) == 16);
    assert!(core::mem::offset_of!(infer_token_info, piece_len) == 24);
    assert!(core::mem::offset_of!(infer_token_info, bytes) == 32);
    assert!(core::mem::offset_of!(infer_token_info, bytes_len) == 40);
};
/// Limits and clock of a rendering.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_render_options {
    pub size: u32,
    pub reserved: u32,
    /// for strftime_now: seconds since 1970-01-01 00:00:00 in the zone whose time is to be shown
    pub now: i64,
    /// bytes; 0: 16 MiB
    pub max_output: u64,
    /// evaluation steps; 0: 10,000,000
    pub max_steps: u64,
    /// bytes of working memory; 0: 256 MiB
    pub max_memory: u64,
    /// polled while rendering; may be NULL
    pub cancel: *mut infer_cancel,
}
impl infer_render_options {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_render_options>() == 48);
    assert!(core::mem::align_of::<infer_render_options>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_render_options, size) == 0);
    assert!(core::mem::offset_of!(infer_render_options, reserved) == 4);
    assert!(core::mem::offset_of!(infer_render_options, now) == 8);
    assert!(core::mem::offset_of!(infer_render_options, max_output) == 16);
    assert!(core::mem::offset_of!(infer_render_options, max_steps) == 24);
    assert!(core::mem::offset_of!(infer_render_options, max_memory) == 32);
    assert!(core::mem::offset_of!(infer_render_options, cancel) == 40);
};
/// What a model is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_model_info {
    pub size: u32,
    /// logits per position
    pub vocab_size: u32,
    /// layers
    pub n_layer: u32,
    /// width of an embedding row
    pub n_embd: u32,
    /// attention heads of a layer
    pub n_head: u32,
    /// of keys and values
    pub n_head_kv: u32,
    /// width of a head
    pub head_dim: u32,
    /// context length that the file declares
    pub n_ctx_train: u32,
    /// sliding-window length, 0: none
    pub window: u32,
    pub reserved: u32,
    /// elements of all weights
    pub n_params: u64,
    /// as stored
    pub weight_bytes: u64,
    /// zero-terminated
    pub architecture: [c_char; 32],
    /// "" when the file has none
    pub name: [c_char; 128],
    /// why infer_model_tokenizer is NULL, else ""
    pub tokenizer_problem: [c_char; 256],
    /// why the file's template is not used, else ""
    pub template_problem: [c_char; 256],
    /// floats of a vector of infer_embed
    pub embedding_width: u32,
    /// INFER_POOLING_*: how the file says that a text's rows become one vector; where it says nothing, MEAN for
    /// encoders, LAST for others
    pub pooling: i32,
    /// 1: an encoder (BERT and its kind): infer_embed only, no sessions
    pub encoder: i32,
    /// most tokens of a text that infer_embed takes unless told otherwise
    pub embed_tokens: u32,
}
impl infer_model_info {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_model_info>() == 744);
    assert!(core::mem::align_of::<infer_model_info>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_model_info, size) == 0);
    assert!(core::mem::offset_of!(infer_model_info, vocab_size) == 4);
    assert!(core::mem::offset_of!(infer_model_info, n_layer) == 8);
    assert!(core::mem::offset_of!(infer_model_info, n_embd) == 12);
    assert!(core::mem::offset_of!(infer_model_info, n_head) == 16);
    assert!(core::mem::offset_of!(infer_model_info, n_head_kv) == 20);
    assert!(core::mem::offset_of!(infer_model_info, head_dim) == 24);
    assert!(core::mem::offset_of!(infer_model_info, n_ctx_train) == 28);
    assert!(core::mem::offset_of!(infer_model_info, window) == 32);
    assert!(core::mem::offset_of!(infer_model_info, reserved) == 36);
    assert!(core::mem::offset_of!(infer_model_info, n_params) == 40);
    assert!(core::mem::offset_of!(infer_model_info, weight_bytes) == 48);
    assert!(core::mem::offset_of!(infer_model_info, architecture) == 56);
    assert!(core::mem::offset_of!(infer_model_info, name) == 88);
    assert!(core::mem::offset_of!(infer_model_info, tokenizer_problem) == 216);
    assert!(core::mem::offset_of!(infer_model_info, template_problem) == 472);
    assert!(core::mem::offset_of!(infer_model_info, embedding_width) == 728);
    assert!(core::mem::offset_of!(infer_model_info, pooling) == 732);
    assert!(core::mem::offset_of!(infer_model_info, encoder) == 736);
    assert!(core::mem::offset_of!(infer_model_info, embed_tokens) == 740);
};
/// How much of a model is in memory. A mapped file is read as its weights are first used, and the system may drop what is not used for long; of a
/// mixture of experts the experts that no element has chosen stay on disk.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_model_memory {
    pub size: u32,
    /// of each layer that has experts; 0: none has
    pub n_expert: u32,
    /// of them for an element
    pub n_expert_used: u32,
    pub reserved: u32,
    /// of all tensors of the file
    pub weight_bytes: u64,
    /// of these, in memory now
    pub resident_bytes: u64,
    /// of the experts' tensors
    pub expert_bytes: u64,
    /// of these, in memory now
    pub expert_resident_bytes: u64,
    /// copies that were made at open, in another form than the file's
    pub own_bytes: u64,
}
impl infer_model_memory {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_model_memory>() == 56);
    assert!(core::mem::align_of::<infer_model_memory>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_model_memory, size) == 0);
    assert!(core::mem::offset_of!(infer_model_memory, n_expert) == 4);
    assert!(core::mem::offset_of!(infer_model_memory, n_expert_used) == 8);
    assert!(core::mem::offset_of!(infer_model_memory, reserved) == 12);
    assert!(core::mem::offset_of!(infer_model_memory, weight_bytes) == 16);
    assert!(core::mem::offset_of!(infer_model_memory, resident_bytes) == 24);
    assert!(core::mem::offset_of!(infer_model_memory, expert_bytes) == 32);
    assert!(core::mem::offset_of!(infer_model_memory, expert_resident_bytes) == 40);
    assert!(core::mem::offset_of!(infer_model_memory, own_bytes) == 48);
};
/// What shall be held at once.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_estimate_options {
    pub size: u32,
    /// INFER_KV_* of the sessions
    pub kv_type: i32,
    /// elements of each session; 0: what sessions have that do not say it or, with a budget, the most that fits: a multiple of 64,
    /// or all of what sessions have that do not say it. Of encoders: tokens of a text
    pub n_ctx: u32,
    /// that are full at once; 0: 1. Of encoders: texts of a call of infer_embed
    pub sessions: u32,
    /// as in infer_session_options
    pub kv_recent: u32,
    /// of the engine; 0: those of the one given, or of one with default options
    pub threads: u32,
    /// bytes that total_bytes must fit into; 0: none
    pub budget: u64,
}
impl infer_estimate_options {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_estimate_options>() == 32);
    assert!(core::mem::align_of::<infer_estimate_options>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_estimate_options, size) == 0);
    assert!(core::mem::offset_of!(infer_estimate_options, kv_type) == 4);
    assert!(core::mem::offset_of!(infer_estimate_options, n_ctx) == 8);
    assert!(core::mem::offset_of!(infer_estimate_options, sessions) == 12);
    assert!(core::mem::offset_of!(infer_estimate_options, kv_recent) == 16);
    assert!(core::mem::offset_of!(infer_estimate_options, threads) == 20);
    assert!(core::mem::offset_of!(infer_estimate_options, budget) == 24);
};
/// Upper bounds, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_estimate {
    pub size: u32,
    /// of each session; of encoders of each text
    pub n_ctx: u32,
    /// of all tensors as they will be in memory, wherever they lie
    pub weight_bytes: u64,
    /// files that are mapped, or memory that the host lends: not in memory_bytes
    pub mapped_bytes: u64,
    /// engine, tables, tokenizer, template, and the weights that are read, converted or quantised
    pub own_bytes: u64,
    /// keys and values of all sessions when they are full, in whole blocks
    pub kv_bytes: u64,
    /// activations, logits, sampling, lists of elements
    pub scratch_bytes: u64,
    /// the most that is taken while the model is opened
    pub open_bytes: u64,
    /// what memory_limit must be at least: own_bytes + kv_bytes + scratch_bytes, or open_bytes if that is more
    pub memory_bytes: u64,
    /// mapped_bytes + memory_bytes
    pub total_bytes: u64,
}
impl infer_estimate {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_estimate>() == 72);
    assert!(core::mem::align_of::<infer_estimate>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_estimate, size) == 0);
    assert!(core::mem::offset_of!(infer_estimate, n_ctx) == 4);
    assert!(core::mem::offset_of!(infer_estimate, weight_bytes) == 8);
    assert!(core::mem::offset_of!(infer_estimate, mapped_bytes) == 16);
    assert!(core::mem::offset_of!(infer_estimate, own_bytes) == 24);
    assert!(core::mem::offset_of!(infer_estimate, kv_bytes) == 32);
    assert!(core::mem::offset_of!(infer_estimate, scratch_bytes) == 40);
    assert!(core::mem::offset_of!(infer_estimate, open_bytes) == 48);
    assert!(core::mem::offset_of!(infer_estimate, memory_bytes) == 56);
    assert!(core::mem::offset_of!(infer_estimate, total_bytes) == 64);
};
/// How a session keeps its keys and values. INT8, INT8_64: 8 bits and, per 32 or 64 dimensions of a position's head, a scale: about half of F16's
/// memory, and answers a little further from the model's (docs/accuracy.md). MIXED_F16, MIXED_F32: INT8, and beside it F16 or F32 for the elements
/// that lie at most kv_recent back (docs/state.md).
pub const INFER_KV_F16: i32 = 0;
/// How a session keeps its keys and values. INT8, INT8_64: 8 bits and, per 32 or 64 dimensions of a position's head, a scale: about half of F16's
/// memory, and answers a little further from the model's (docs/accuracy.md). MIXED_F16, MIXED_F32: INT8, and beside it F16 or F32 for the elements
/// that lie at most kv_recent back (docs/state.md).
pub const INFER_KV_F32: i32 = 1;
/// How a session keeps its keys and values. INT8, INT8_64: 8 bits and, per 32 or 64 dimensions of a position's head, a scale: about half of F16's
/// memory, and answers a little further from the model's (docs/accuracy.md). MIXED_F16, MIXED_F32: INT8, and beside it F16 or F32 for the elements
/// that lie at most kv_recent back (docs/state.md).
pub const INFER_KV_BF16: i32 = 2;
/// How a session keeps its keys and values. INT8, INT8_64: 8 bits and, per 32 or 64 dimensions of a position's head, a scale: about half of F16's
/// memory, and answers a little further from the model's (docs/accuracy.md). MIXED_F16, MIXED_F32: INT8, and beside it F16 or F32 for the elements
/// that lie at most kv_recent back (docs/state.md).
pub const INFER_KV_INT8: i32 = 3;
/// How a session keeps its keys and values. INT8, INT8_64: 8 bits and, per 32 or 64 dimensions of a position's head, a scale: about half of F16's
/// memory, and answers a little further from the model's (docs/accuracy.md). MIXED_F16, MIXED_F32: INT8, and beside it F16 or F32 for the elements
/// that lie at most kv_recent back (docs/state.md).
pub const INFER_KV_INT8_64: i32 = 4;
/// How a session keeps its keys and values. INT8, INT8_64: 8 bits and, per 32 or 64 dimensions of a position's head, a scale: about half of F16's
/// memory, and answers a little further from the model's (docs/accuracy.md). MIXED_F16, MIXED_F32: INT8, and beside it F16 or F32 for the elements
/// that lie at most kv_recent back (docs/state.md).
pub const INFER_KV_MIXED_F16: i32 = 5;
/// How a session keeps its keys and values. INT8, INT8_64: 8 bits and, per 32 or 64 dimensions of a position's head, a scale: about half of F16's
/// memory, and answers a little further from the model's (docs/accuracy.md). MIXED_F16, MIXED_F32: INT8, and beside it F16 or F32 for the elements
/// that lie at most kv_recent back (docs/state.md).
pub const INFER_KV_MIXED_F32: i32 = 6;
/// How a session is made.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_session_options {
    pub size: u32,
    /// most elements that the session may hold, at most 2^24; 0: the model's training context. More than that is
    /// allowed where positions are computed (answers get worse). Memory grows as it fills
    pub n_ctx: u32,
    /// INFER_KV_*
    pub kv_type: i32,
    /// of the mixed types: elements kept in the exact type; rounded up to a multiple of 64, at most 4,096; 0: 64
    pub kv_recent: u32,
    /// INFER_CACHE_NO_*
    pub cache_flags: u32,
    /// at most INFER_CACHE_SALT_MAX
    pub salt_len: u32,
    /// only sessions with the same salt share by the prefix cache: one for each tenant. Copied
    pub salt: *const c_void,
}
impl infer_session_options {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_session_options>() == 32);
    assert!(core::mem::align_of::<infer_session_options>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_session_options, size) == 0);
    assert!(core::mem::offset_of!(infer_session_options, n_ctx) == 4);
    assert!(core::mem::offset_of!(infer_session_options, kv_type) == 8);
    assert!(core::mem::offset_of!(infer_session_options, kv_recent) == 12);
    assert!(core::mem::offset_of!(infer_session_options, cache_flags) == 16);
    assert!(core::mem::offset_of!(infer_session_options, salt_len) == 20);
    assert!(core::mem::offset_of!(infer_session_options, salt) == 24);
};
/// INFER_CACHE_NO_LOOKUP: computes everything itself. INFER_CACHE_NO_INSERT: leaves nothing behind for others.
pub const INFER_CACHE_NO_LOOKUP: i32 = 1;
/// INFER_CACHE_NO_LOOKUP: computes everything itself. INFER_CACHE_NO_INSERT: leaves nothing behind for others.
pub const INFER_CACHE_NO_INSERT: i32 = 2;
/// One message of a conversation. This struct never grows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_message {
    /// "system", "user", "assistant", or what else the template knows
    pub role: *const c_char,
    pub role_len: u64,
    /// what is said
    pub content: *const c_char,
    pub content_len: u64,
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_message>() == 32);
    assert!(core::mem::align_of::<infer_message>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_message, role) == 0);
    assert!(core::mem::offset_of!(infer_message, role_len) == 8);
    assert!(core::mem::offset_of!(infer_message, content) == 16);
    assert!(core::mem::offset_of!(infer_message, content_len) == 24);
};
/// A session as it is now.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_session_info {
    pub size: u32,
    /// most elements
    pub n_ctx: u32,
    /// elements, computed and pending
    pub length: u64,
    /// of them computed
    pub computed: u64,
    /// KV memory that this session holds, shared pages included
    pub kv_bytes: u64,
    /// rows that infer_session_logits can give now
    pub logits_rows: u64,
    /// of kv_bytes, what other sessions, checkpoints or the cache hold too
    pub kv_shared_bytes: u64,
    /// of kv_bytes, what lies in a mapped checkpoint file and not in the engine's KV memory
    pub kv_mapped_bytes: u64,
    /// 1: part of the state was grafted or shifted, not computed
    pub approximate: i32,
    /// of the mixed types: in force; else 0
    pub kv_recent: u32,
    /// identity of the adapters in force for what is appended next, their scales, modes and layers; 0: none
    pub adapters: u64,
}
impl infer_session_info {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_session_info>() == 72);
    assert!(core::mem::align_of::<infer_session_info>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_session_info, size) == 0);
    assert!(core::mem::offset_of!(infer_session_info, n_ctx) == 4);
    assert!(core::mem::offset_of!(infer_session_info, length) == 8);
    assert!(core::mem::offset_of!(infer_session_info, computed) == 16);
    assert!(core::mem::offset_of!(infer_session_info, kv_bytes) == 24);
    assert!(core::mem::offset_of!(infer_session_info, logits_rows) == 32);
    assert!(core::mem::offset_of!(infer_session_info, kv_shared_bytes) == 40);
    assert!(core::mem::offset_of!(infer_session_info, kv_mapped_bytes) == 48);
    assert!(core::mem::offset_of!(infer_session_info, approximate) == 56);
    assert!(core::mem::offset_of!(infer_session_info, kv_recent) == 60);
    assert!(core::mem::offset_of!(infer_session_info, adapters) == 64);
};
/// of the last element computed, when this step computes the last pending one
pub const INFER_ROWS_LAST: i32 = 0;
pub const INFER_ROWS_NONE: i32 = 1;
pub const INFER_ROWS_ALL: i32 = 2;
/// of the elements whose byte in mask is not 0
pub const INFER_ROWS_MASK: i32 = 3;
/// Hidden states of elements that a step computes: for probes, steering vectors, embeddings of one's own making. Elements whose hidden states are
/// wanted are computed, never taken from the prefix cache.
pub const INFER_HIDDEN_FINAL: i32 = -1;
/// Which hidden states a step gives, and where to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_hidden {
    pub size: u32,
    /// which: INFER_ROWS_LAST, NONE, ALL or MASK, as for logits. LAST of a session without pending elements computes its
    /// last element again
    pub elements: i32,
    /// for INFER_ROWS_MASK: one byte for each pending element
    pub mask: *const u8,
    /// [layer_count] numbers from 0: what has flowed through that layer (the residual stream, adapters' additions included);
    /// or INFER_HIDDEN_FINAL, which NULL with a count of 0 means too
    pub layers: *const i32,
    pub layer_count: u32,
    pub reserved: u32,
    /// [rows][layer_count][n_embd]: elements in order, layers in the order of the list
    pub out: *mut f32,
    /// floats in out
    pub capacity: u64,
    /// out: elements that were written; what lies behind them is undefined
    pub rows: u64,
}
impl infer_hidden {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_hidden>() == 56);
    assert!(core::mem::align_of::<infer_hidden>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_hidden, size) == 0);
    assert!(core::mem::offset_of!(infer_hidden, elements) == 4);
    assert!(core::mem::offset_of!(infer_hidden, mask) == 8);
    assert!(core::mem::offset_of!(infer_hidden, layers) == 16);
    assert!(core::mem::offset_of!(infer_hidden, layer_count) == 24);
    assert!(core::mem::offset_of!(infer_hidden, reserved) == 28);
    assert!(core::mem::offset_of!(infer_hidden, out) == 32);
    assert!(core::mem::offset_of!(infer_hidden, capacity) == 40);
    assert!(core::mem::offset_of!(infer_hidden, rows) == 48);
};
/// One session's part of a step.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_step_item {
    pub size: u32,
    /// out: an infer_status of this session
    pub status: i32,
    /// whose pending elements are computed
    pub session: *mut infer_session,
    /// of the pending ones, how many at most; 0: all
    pub max_elements: u64,
    /// for INFER_ROWS_MASK: one byte for each pending element
    pub mask: *const u8,
    /// INFER_ROWS_*
    pub logits: i32,
    pub reserved: u32,
    /// out: elements computed, or taken from the prefix cache
    pub done: u64,
    /// hidden states to give; NULL: none. One struct an item; too small a capacity is BUFFER, for the whole call
    pub hidden: *mut infer_hidden,
}
impl infer_step_item {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_step_item>() == 56);
    assert!(core::mem::align_of::<infer_step_item>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_step_item, size) == 0);
    assert!(core::mem::offset_of!(infer_step_item, status) == 4);
    assert!(core::mem::offset_of!(infer_step_item, session) == 8);
    assert!(core::mem::offset_of!(infer_step_item, max_elements) == 16);
    assert!(core::mem::offset_of!(infer_step_item, mask) == 24);
    assert!(core::mem::offset_of!(infer_step_item, logits) == 32);
    assert!(core::mem::offset_of!(infer_step_item, reserved) == 36);
    assert!(core::mem::offset_of!(infer_step_item, done) == 40);
    assert!(core::mem::offset_of!(infer_step_item, hidden) == 48);
};
/// May change the logits before sampling: vocab_size floats, in place; -INFINITY forbids a token, NaN and +INFINITY are errors. ids: the session's
/// elements so far. Returns 0, or a negative infer_status, which ends the call. It may call the library, for other sessions too, and of its own
/// session infer_session_get_info and infer_session_release: then what the call has to tell is gone when it returns.
pub type infer_logits_fn = Option<unsafe extern "C" fn(user: *mut c_void, logits: *mut f32, vocab_size: u64, ids: *const i32, count: u64) -> infer_status>;
/// This struct never grows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_bias {
    /// token id
    pub id: i32,
    /// added to the logit; -INFINITY forbids the token
    pub bias: f32,
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_bias>() == 8);
    assert!(core::mem::align_of::<infer_bias>() == 4);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_bias, id) == 0);
    assert!(core::mem::offset_of!(infer_bias, bias) == 4);
};
/// Applied in this order: host callback, bias, penalties, temperature, top_k, top_p, min_p, typical; then one draw. After INFER_INIT,
/// infer_sampling_default, or both, set what differs. NaN in any field is refused.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_sampling {
    pub size: u32,
    /// keep the k most likely; 0: all
    pub top_k: u32,
    /// logits are divided by it; 0: greedy (ties go to the lower id)
    pub temperature: f32,
    /// keep the smallest set with at least this much probability; 0 or 1: all
    pub top_p: f32,
    /// drop tokens less likely than this share of the most likely; 0: none
    pub min_p: f32,
    /// locally typical sampling; 0 or 1: all
    pub typical_p: f32,
    /// positive logits of seen tokens are divided by it, negative multiplied; 0 or 1: none
    pub repetition_penalty: f32,
    /// subtracted once from the logit of each seen token
    pub presence_penalty: f32,
    /// subtracted once per occurrence
    pub frequency_penalty: f32,
    /// how many elements back count as seen; 0: all
    pub penalty_last_n: u32,
    /// the draw for position p is a function of (seed, p) alone
    pub seed: u64,
    /// copied
    pub bias: *const infer_bias,
    pub bias_count: u64,
    /// or NULL
    pub callback: infer_logits_fn,
    pub callback_user: *mut c_void,
    /// alternatives to report with each token, at most 20
    pub top_logprobs: u32,
    /// 1: report the log-probability of each sampled token, before temperature and filters (after callback, bias and penalties)
    pub logprobs: i32,
}
impl infer_sampling {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_sampling>() == 88);
    assert!(core::mem::align_of::<infer_sampling>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_sampling, size) == 0);
    assert!(core::mem::offset_of!(infer_sampling, top_k) == 4);
    assert!(core::mem::offset_of!(infer_sampling, temperature) == 8);
    assert!(core::mem::offset_of!(infer_sampling, top_p) == 12);
    assert!(core::mem::offset_of!(infer_sampling, min_p) == 16);
    assert!(core::mem::offset_of!(infer_sampling, typical_p) == 20);
    assert!(core::mem::offset_of!(infer_sampling, repetition_penalty) == 24);
    assert!(core::mem::offset_of!(infer_sampling, presence_penalty) == 28);
    assert!(core::mem::offset_of!(infer_sampling, frequency_penalty) == 32);
    assert!(core::mem::offset_of!(infer_sampling, penalty_last_n) == 36);
    assert!(core::mem::offset_of!(infer_sampling, seed) == 40);
    assert!(core::mem::offset_of!(infer_sampling, bias) == 48);
    assert!(core::mem::offset_of!(infer_sampling, bias_count) == 56);
    assert!(core::mem::offset_of!(infer_sampling, callback) == 64);
    assert!(core::mem::offset_of!(infer_sampling, callback_user) == 72);
    assert!(core::mem::offset_of!(infer_sampling, top_logprobs) == 80);
    assert!(core::mem::offset_of!(infer_sampling, logprobs) == 84);
};
/// This struct never grows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_logprob {
    /// token id
    pub id: i32,
    /// natural logarithm
    pub logprob: f32,
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_logprob>() == 8);
    assert!(core::mem::align_of::<infer_logprob>() == 4);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_logprob, id) == 0);
    assert!(core::mem::offset_of!(infer_logprob, logprob) == 4);
};
/// A drawn token.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_sample_result {
    pub size: u32,
    /// the token
    pub id: i32,
    /// when asked for, else 0
    pub logprob: f32,
    /// items of top
    pub top_count: u32,
    /// borrowed until the session is used again; most likely first
    pub top: *const infer_logprob,
}
impl infer_sample_result {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_sample_result>() == 24);
    assert!(core::mem::align_of::<infer_sample_result>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_sample_result, size) == 0);
    assert!(core::mem::offset_of!(infer_sample_result, id) == 4);
    assert!(core::mem::offset_of!(infer_sample_result, logprob) == 8);
    assert!(core::mem::offset_of!(infer_sample_result, top_count) == 12);
    assert!(core::mem::offset_of!(infer_sample_result, top) == 16);
};
/// How likely given tokens are.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_score {
    pub size: u32,
    /// alternatives to give with each id, at most 20
    pub top_logprobs: u32,
    /// [count] out: of each id, natural logarithms; NULL: not wanted
    pub logprobs: *mut f32,
    /// [count][top_logprobs] out: what would have been most likely instead, most likely first (the id itself among it, where it is;
    /// of a smaller vocabulary the rest has id -1); NULL: not wanted
    pub top: *mut infer_logprob,
    /// out: ids at the beginning without a log-probability, for which 0 (and alternatives -1) is written: 1 when no logits come
    /// before the first id (the session was empty, or ended with a prefix), else 0
    pub first: u64,
    /// out: of the log-probabilities of the others
    pub sum: f64,
}
impl infer_score {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_score>() == 40);
    assert!(core::mem::align_of::<infer_score>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_score, size) == 0);
    assert!(core::mem::offset_of!(infer_score, top_logprobs) == 4);
    assert!(core::mem::offset_of!(infer_score, logprobs) == 8);
    assert!(core::mem::offset_of!(infer_score, top) == 16);
    assert!(core::mem::offset_of!(infer_score, first) == 24);
    assert!(core::mem::offset_of!(infer_score, sum) == 32);
};
/// part of the prompt was computed: done, total
pub const INFER_EVENT_PREFILL: i32 = 1;
/// a token was chosen: id, text (may be empty: half a character, or what may become a stop string), logprobs
pub const INFER_EVENT_TOKEN: i32 = 2;
/// the end: finish_reason, text (what was held back)
pub const INFER_EVENT_DONE: i32 = 3;
/// the context was full and its middle was dropped: done elements, total are left; only with shift_drop
pub const INFER_EVENT_SHIFT: i32 = 4;
/// an end-of-turn token, or one of stop_ids
pub const INFER_FINISH_STOP: i32 = 1;
/// max_tokens
pub const INFER_FINISH_LENGTH: i32 = 2;
/// the context is full
pub const INFER_FINISH_CONTEXT: i32 = 3;
/// one of stops
pub const INFER_FINISH_STOP_STRING: i32 = 4;
/// repeat_guard
pub const INFER_FINISH_REPETITION: i32 = 5;
/// of a scheduler's request: its time_limit
pub const INFER_FINISH_TIME: i32 = 6;
/// of a scheduler's request: infer_request_cancel
pub const INFER_FINISH_CANCELLED: i32 = 7;
/// of a scheduler's request: see its event's error
pub const INFER_FINISH_ERROR: i32 = 8;
/// What a piece of generation did.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_event {
    pub size: u32,
    /// INFER_EVENT_*
    pub kind: i32,
    /// -1 unless TOKEN
    pub id: i32,
    /// INFER_FINISH_*
    pub finish_reason: i32,
    /// never NULL; borrowed until the session is used again; whole characters (at DONE with what was begun of the last one)
    pub text: *const c_char,
    pub text_len: u64,
    /// PREFILL, SHIFT: elements
    pub done: u64,
    /// PREFILL, SHIFT: elements
    pub total: u64,
    /// TOKEN, when asked for
    pub logprob: f32,
    /// items of top
    pub top_count: u32,
    /// TOKEN: alternatives, most likely first; borrowed as text is
    pub top: *const infer_logprob,
    /// DONE with INFER_FINISH_STOP_STRING: which of stops; else -1
    pub stop_index: i32,
    pub reserved: u32,
}
impl infer_event {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_event>() == 72);
    assert!(core::mem::align_of::<infer_event>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_event, size) == 0);
    assert!(core::mem::offset_of!(infer_event, kind) == 4);
    assert!(core::mem::offset_of!(infer_event, id) == 8);
    assert!(core::mem::offset_of!(infer_event, finish_reason) == 12);
    assert!(core::mem::offset_of!(infer_event, text) == 16);
    assert!(core::mem::offset_of!(infer_event, text_len) == 24);
    assert!(core::mem::offset_of!(infer_event, done) == 32);
    assert!(core::mem::offset_of!(infer_event, total) == 40);
    assert!(core::mem::offset_of!(infer_event, logprob) == 48);
    assert!(core::mem::offset_of!(infer_event, top_count) == 52);
    assert!(core::mem::offset_of!(infer_event, top) == 56);
    assert!(core::mem::offset_of!(infer_event, stop_index) == 64);
    assert!(core::mem::offset_of!(infer_event, reserved) == 68);
};
/// A string. This struct never grows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_text {
    /// UTF-8, or any bytes where the function says so
    pub text: *const c_char,
    pub text_len: u64,
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_text>() == 16);
    assert!(core::mem::align_of::<infer_text>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_text, text) == 0);
    assert!(core::mem::offset_of!(infer_text, text_len) == 8);
};
/// How an answer ends.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_generate_options {
    pub size: u32,
    /// INFER_GENERATE_IGNORE_EOS, INFER_GENERATE_SHOW_SPECIAL
    pub flags: u32,
    /// 0: until the context is full. The end-of-turn token counts
    pub max_tokens: u64,
    /// with shift_drop: the first elements, which stay
    pub shift_keep: u64,
    /// when the context is full, drop so many elements behind those as infer_session_shift does, and go on: what follows is
    /// approximate. 0: never, the answer ends there. keep + drop must be less than n_ctx
    pub shift_drop: u64,
    /// strings that end the answer, whatever tokens they come in: nothing of one is given out, nor what follows it, and text
    /// that may become one is held back until it is known, at the latest to DONE. The answer ends at the first byte at which
    /// a stop string is complete; of several the longest counts, of equal ones the first. They are bytes, and may begin or
    /// end inside a character. At most 64 of 1 to 1,024 bytes. Copied. Text of the prompt, and of what is appended while
    /// the answer is being made, takes no part
    pub stops: *const infer_text,
    pub stop_count: u64,
    /// further tokens that end the answer, as end-of-turn tokens do, but also with INFER_GENERATE_IGNORE_EOS; at most 64. Copied
    pub stop_ids: *const i32,
    pub stop_id_count: u64,
    /// ends an answer that repeats itself without end: when its last repeat_guard tokens are a pattern of at most a quarter of
    /// their number, over and over. At least 16, at most 4,096; 0: never. What is appended while the answer is being made
    /// begins the count anew
    pub repeat_guard: u64,
}
impl infer_generate_options {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_generate_options>() == 72);
    assert!(core::mem::align_of::<infer_generate_options>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_generate_options, size) == 0);
    assert!(core::mem::offset_of!(infer_generate_options, flags) == 4);
    assert!(core::mem::offset_of!(infer_generate_options, max_tokens) == 8);
    assert!(core::mem::offset_of!(infer_generate_options, shift_keep) == 16);
    assert!(core::mem::offset_of!(infer_generate_options, shift_drop) == 24);
    assert!(core::mem::offset_of!(infer_generate_options, stops) == 32);
    assert!(core::mem::offset_of!(infer_generate_options, stop_count) == 40);
    assert!(core::mem::offset_of!(infer_generate_options, stop_ids) == 48);
    assert!(core::mem::offset_of!(infer_generate_options, stop_id_count) == 56);
    assert!(core::mem::offset_of!(infer_generate_options, repeat_guard) == 64);
};
pub const INFER_GENERATE_IGNORE_EOS: i32 = 1;
pub const INFER_GENERATE_SHOW_SPECIAL: i32 = 2;
/// Return 0 to go on, anything else to stop: the call then returns INFER_ERROR_CANCELLED, after DONE too. Must not call back into the session.
pub type infer_event_fn = Option<unsafe extern "C" fn(user: *mut c_void, event: *const infer_event) -> i32>;
/// PEFT or GGUF: beside matrices of the base. Attached
pub const INFER_ADAPTER_LORA: i32 = 1;
/// a vector for each of some layers. Attached
pub const INFER_ADAPTER_STEERING: i32 = 2;
/// learned embedding rows. Appended
pub const INFER_ADAPTER_SOFT_PROMPT: i32 = 3;
/// learned keys and values of every layer. Appended
pub const INFER_ADAPTER_PREFIX: i32 = 4;
/// What an open adapter is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_adapter_info {
    pub size: u32,
    /// INFER_ADAPTER_*
    pub kind: i32,
    /// of the content (names, shapes, scales, numbers), not of the file: equal on all machines. XXH3: no defence against forgery
    pub hash: [u8; 16],
    /// LoRA: matrices; steering: layers; else 0
    pub targets: u64,
    /// of the numbers, as stored
    pub bytes: u64,
    /// of memory beside the mapped file
    pub own_bytes: u64,
    /// LoRA: the largest; else 0
    pub rank: u32,
    /// soft prompts and prefixes: elements that appending makes; else 0
    pub rows: u32,
    /// aLoRA: tokens that infer_adapter_invocation gives; 0: acts everywhere
    pub invocation_count: u32,
    pub reserved: u32,
    /// what the file calls its base model, zero-terminated; ""
    pub base: [c_char; 128],
}
impl infer_adapter_info {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_adapter_info>() == 192);
    assert!(core::mem::align_of::<infer_adapter_info>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_adapter_info, size) == 0);
    assert!(core::mem::offset_of!(infer_adapter_info, kind) == 4);
    assert!(core::mem::offset_of!(infer_adapter_info, hash) == 8);
    assert!(core::mem::offset_of!(infer_adapter_info, targets) == 24);
    assert!(core::mem::offset_of!(infer_adapter_info, bytes) == 32);
    assert!(core::mem::offset_of!(infer_adapter_info, own_bytes) == 40);
    assert!(core::mem::offset_of!(infer_adapter_info, rank) == 48);
    assert!(core::mem::offset_of!(infer_adapter_info, rows) == 52);
    assert!(core::mem::offset_of!(infer_adapter_info, invocation_count) == 56);
    assert!(core::mem::offset_of!(infer_adapter_info, reserved) == 60);
    assert!(core::mem::offset_of!(infer_adapter_info, base) == 64);
};
/// steering: scale * v is added to what leaves the layer. LoRA: always
pub const INFER_ADAPTER_ADD: i32 = 0;
/// steering: scale times the part that points along v is taken out
pub const INFER_ADAPTER_PROJECT: i32 = 1;
/// An adapter as a session uses it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_adapter_use {
    pub size: u32,
    /// INFER_ADAPTER_ADD, INFER_ADAPTER_PROJECT
    pub mode: i32,
    /// LoRA or steering
    pub adapter: *mut infer_adapter,
    /// 1: as the file has it. 0: the item does nothing, to the bit. -65,536 to 65,536
    pub scale: f32,
    /// acts on the layers from this one on ...
    pub first_layer: u32,
    /// ... so many; 0: to the last
    pub layer_count: u32,
    pub reserved: u32,
}
impl infer_adapter_use {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_adapter_use>() == 32);
    assert!(core::mem::align_of::<infer_adapter_use>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_adapter_use, size) == 0);
    assert!(core::mem::offset_of!(infer_adapter_use, mode) == 4);
    assert!(core::mem::offset_of!(infer_adapter_use, adapter) == 8);
    assert!(core::mem::offset_of!(infer_adapter_use, scale) == 16);
    assert!(core::mem::offset_of!(infer_adapter_use, first_layer) == 20);
    assert!(core::mem::offset_of!(infer_adapter_use, layer_count) == 24);
    assert!(core::mem::offset_of!(infer_adapter_use, reserved) == 28);
};
/// as the file says: infer_model_info.pooling
pub const INFER_POOLING_MODEL: i32 = 0;
/// one vector for each token
pub const INFER_POOLING_NONE: i32 = 1;
/// How the hidden states of a text become one vector. RANK is what rerankers declare; it cannot be computed yet.
pub const INFER_POOLING_MEAN: i32 = 2;
/// the first token's
pub const INFER_POOLING_CLS: i32 = 3;
/// How the hidden states of a text become one vector. RANK is what rerankers declare; it cannot be computed yet.
pub const INFER_POOLING_LAST: i32 = 4;
/// How the hidden states of a text become one vector. RANK is what rerankers declare; it cannot be computed yet.
pub const INFER_POOLING_RANK: i32 = 5;
/// vectors as they come; else each is scaled to length 1 (with INFER_POOLING_NONE none is)
pub const INFER_EMBED_RAW: i32 = 1;
/// texts with more than max_tokens tokens lose their end (not the special tokens there); else they are refused
pub const INFER_EMBED_TRUNCATE: i32 = 2;
/// texts get no special tokens; else those that the model file says, as INFER_TOKENIZE_ADD_SPECIAL
pub const INFER_EMBED_NO_SPECIAL: i32 = 4;
/// as INFER_TOKENIZE_PARSE_SPECIAL
pub const INFER_EMBED_PARSE_SPECIAL: i32 = 8;
/// How embeddings are made.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_embed_options {
    pub size: u32,
    /// INFER_POOLING_*, but not RANK
    pub pooling: i32,
    /// INFER_EMBED_*
    pub flags: u32,
    /// keep the first so many floats of a vector and scale those: for models that were trained for it ("Matryoshka"); 0: all
    pub dimensions: u32,
    /// of a text, special tokens included; 0: infer_model_info.embed_tokens. More than the model was trained for is ARGUMENT where
    /// positions are learned
    pub max_tokens: u64,
}
impl infer_embed_options {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_embed_options>() == 24);
    assert!(core::mem::align_of::<infer_embed_options>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_embed_options, size) == 0);
    assert!(core::mem::offset_of!(infer_embed_options, pooling) == 4);
    assert!(core::mem::offset_of!(infer_embed_options, flags) == 8);
    assert!(core::mem::offset_of!(infer_embed_options, dimensions) == 12);
    assert!(core::mem::offset_of!(infer_embed_options, max_tokens) == 16);
};
/// One text and its embedding.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_embed_item {
    pub size: u32,
    /// out: an infer_status of this text
    pub status: i32,
    /// UTF-8; or NULL, and ids
    pub text: *const c_char,
    pub text_len: u64,
    /// [id_count] token ids, taken as they are
    pub ids: *const i32,
    pub id_count: u64,
    /// [rows][width]: width is infer_model_info.embedding_width (n_embd for INFER_POOLING_NONE), or options.dimensions
    pub out: *mut f32,
    /// floats in out
    pub capacity: u64,
    /// out: 1, or with INFER_POOLING_NONE the number of tokens; also with BUFFER
    pub rows: u64,
    /// out: tokens of the whole text, special ones included
    pub tokens: u64,
    /// out: 1: not all of them were used
    pub truncated: i32,
    pub reserved: u32,
}
impl infer_embed_item {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_embed_item>() == 80);
    assert!(core::mem::align_of::<infer_embed_item>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_embed_item, size) == 0);
    assert!(core::mem::offset_of!(infer_embed_item, status) == 4);
    assert!(core::mem::offset_of!(infer_embed_item, text) == 8);
    assert!(core::mem::offset_of!(infer_embed_item, text_len) == 16);
    assert!(core::mem::offset_of!(infer_embed_item, ids) == 24);
    assert!(core::mem::offset_of!(infer_embed_item, id_count) == 32);
    assert!(core::mem::offset_of!(infer_embed_item, out) == 40);
    assert!(core::mem::offset_of!(infer_embed_item, capacity) == 48);
    assert!(core::mem::offset_of!(infer_embed_item, rows) == 56);
    assert!(core::mem::offset_of!(infer_embed_item, tokens) == 64);
    assert!(core::mem::offset_of!(infer_embed_item, truncated) == 72);
    assert!(core::mem::offset_of!(infer_embed_item, reserved) == 76);
};
/// the queue of one model's requests
#[repr(C)]
#[derive(Debug)]
pub struct infer_scheduler {
    _private: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}
/// one prompt and its answers
#[repr(C)]
#[derive(Debug)]
pub struct infer_request {
    _private: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}
/// Microseconds of a clock that never goes back. Called from any thread.
pub type infer_clock_fn = Option<unsafe extern "C" fn(user: *mut c_void) -> u64>;
/// How a scheduler is made.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_scheduler_options {
    pub size: u32,
    /// answers in a batch at most (a request with n choices counts n); 0: 16; at most 256
    pub max_active: u32,
    /// requests that wait for their first step; further ones are refused with LIMIT; 0: 1,024
    pub max_waiting: u32,
    /// most prompt elements computed in one step while answers are running: bounds the time between two tokens; 0: 64; at most 256.
    /// While none is running a step takes 256
    pub step_elements: u32,
    /// bytes of KV memory that active requests may take; 0: infer_engine_options.kv_budget; that 0 too: no limit
    pub kv_budget: u64,
    /// a request becomes active when its prompt and min(max_tokens, this) tokens of each answer fit the budget; 0: 256
    pub reserve_tokens: u64,
    /// NULL: no limits of time, and all times are told as 0
    pub clock: infer_clock_fn,
    pub clock_user: *mut c_void,
    /// a folder, this process's own, for the KV of answers that are set aside when memory is short: read back later. NULL: it is computed
    /// again. Made when it is not there
    pub spill_path: *const c_char,
    pub spill_path_len: u64,
}
impl infer_scheduler_options {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_scheduler_options>() == 64);
    assert!(core::mem::align_of::<infer_scheduler_options>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_scheduler_options, size) == 0);
    assert!(core::mem::offset_of!(infer_scheduler_options, max_active) == 4);
    assert!(core::mem::offset_of!(infer_scheduler_options, max_waiting) == 8);
    assert!(core::mem::offset_of!(infer_scheduler_options, step_elements) == 12);
    assert!(core::mem::offset_of!(infer_scheduler_options, kv_budget) == 16);
    assert!(core::mem::offset_of!(infer_scheduler_options, reserve_tokens) == 24);
    assert!(core::mem::offset_of!(infer_scheduler_options, clock) == 32);
    assert!(core::mem::offset_of!(infer_scheduler_options, clock_user) == 40);
    assert!(core::mem::offset_of!(infer_scheduler_options, spill_path) == 48);
    assert!(core::mem::offset_of!(infer_scheduler_options, spill_path_len) == 56);
};
/// A scheduler as it is now, and what it has done.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_scheduler_info {
    pub size: u32,
    /// answers in the batch now
    pub active: u32,
    /// requests that wait for their first step
    pub waiting: u64,
    /// answers set aside
    pub suspended: u64,
    /// requests so far
    pub submitted: u64,
    /// requests so far
    pub finished: u64,
    /// requests so far
    pub cancelled: u64,
    /// requests so far
    pub failed: u64,
    /// so far
    pub steps: u64,
    /// computed or taken from the cache
    pub prompt_tokens: u64,
    /// of these, taken from the cache or a checkpoint
    pub cached_tokens: u64,
    /// of all answers
    pub generated_tokens: u64,
    /// answers set aside so far
    pub preemptions: u64,
    /// of active and suspended requests now; what they share is counted once
    pub kv_bytes: u64,
    /// in force; 0: none
    pub kv_budget: u64,
    /// elements that steps computed: of prompts, of answers, and what was computed again
    pub computed: u64,
}
impl infer_scheduler_info {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_scheduler_info>() == 120);
    assert!(core::mem::align_of::<infer_scheduler_info>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_scheduler_info, size) == 0);
    assert!(core::mem::offset_of!(infer_scheduler_info, active) == 4);
    assert!(core::mem::offset_of!(infer_scheduler_info, waiting) == 8);
    assert!(core::mem::offset_of!(infer_scheduler_info, suspended) == 16);
    assert!(core::mem::offset_of!(infer_scheduler_info, submitted) == 24);
    assert!(core::mem::offset_of!(infer_scheduler_info, finished) == 32);
    assert!(core::mem::offset_of!(infer_scheduler_info, cancelled) == 40);
    assert!(core::mem::offset_of!(infer_scheduler_info, failed) == 48);
    assert!(core::mem::offset_of!(infer_scheduler_info, steps) == 56);
    assert!(core::mem::offset_of!(infer_scheduler_info, prompt_tokens) == 64);
    assert!(core::mem::offset_of!(infer_scheduler_info, cached_tokens) == 72);
    assert!(core::mem::offset_of!(infer_scheduler_info, generated_tokens) == 80);
    assert!(core::mem::offset_of!(infer_scheduler_info, preemptions) == 88);
    assert!(core::mem::offset_of!(infer_scheduler_info, kv_bytes) == 96);
    assert!(core::mem::offset_of!(infer_scheduler_info, kv_budget) == 104);
    assert!(core::mem::offset_of!(infer_scheduler_info, computed) == 112);
};
/// a token of the prompt, in order: id, text; with INFER_REQUEST_PROMPT_LOGPROBS its logprob and alternatives (none of the first
/// element). Only with INFER_REQUEST_ECHO. choice is 0: they are told once
pub const INFER_REQUEST_EVENT_PROMPT: i32 = 1;
/// the prompt has been computed: total elements, done of them from cache or checkpoint
pub const INFER_REQUEST_EVENT_STARTED: i32 = 2;
/// a token was chosen: id, text (may be empty: half a character, or what may become a stop string), logprob, top
pub const INFER_REQUEST_EVENT_TOKEN: i32 = 3;
/// one choice has ended: finish_reason, text (what was held back), stop_index, error
pub const INFER_REQUEST_EVENT_DONE: i32 = 4;
/// all choices have ended: the last event of every request
pub const INFER_REQUEST_EVENT_END: i32 = 5;
/// What happened to a request.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_request_event {
    pub size: u32,
    /// INFER_REQUEST_EVENT_*
    pub kind: i32,
    /// from 0
    pub choice: u32,
    /// token id; -1: none
    pub id: i32,
    /// DONE: INFER_FINISH_*
    pub finish_reason: i32,
    /// DONE with INFER_FINISH_STOP_STRING: which of the stop strings; else -1
    pub stop_index: i32,
    /// never NULL, whole characters; borrowed: until the callback returns, or the next infer_request_next of this request
    pub text: *const c_char,
    pub text_len: u64,
    /// STARTED
    pub done: u64,
    /// STARTED
    pub total: u64,
    /// when asked for
    pub logprob: f32,
    /// items of top
    pub top_count: u32,
    /// borrowed as text is
    pub top: *const infer_logprob,
    /// DONE with INFER_FINISH_ERROR: what failed; else NULL. Borrowed as text is
    pub error: *const infer_error,
}
impl infer_request_event {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_request_event>() == 80);
    assert!(core::mem::align_of::<infer_request_event>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_request_event, size) == 0);
    assert!(core::mem::offset_of!(infer_request_event, kind) == 4);
    assert!(core::mem::offset_of!(infer_request_event, choice) == 8);
    assert!(core::mem::offset_of!(infer_request_event, id) == 12);
    assert!(core::mem::offset_of!(infer_request_event, finish_reason) == 16);
    assert!(core::mem::offset_of!(infer_request_event, stop_index) == 20);
    assert!(core::mem::offset_of!(infer_request_event, text) == 24);
    assert!(core::mem::offset_of!(infer_request_event, text_len) == 32);
    assert!(core::mem::offset_of!(infer_request_event, done) == 40);
    assert!(core::mem::offset_of!(infer_request_event, total) == 48);
    assert!(core::mem::offset_of!(infer_request_event, logprob) == 56);
    assert!(core::mem::offset_of!(infer_request_event, top_count) == 60);
    assert!(core::mem::offset_of!(infer_request_event, top) == 64);
    assert!(core::mem::offset_of!(infer_request_event, error) == 72);
};
/// Hears of a request's events, on the thread that steps.
pub type infer_request_fn = Option<unsafe extern "C" fn(user: *mut c_void, request: *mut infer_request, event: *const infer_request_event)>;
pub const INFER_REQUEST_IGNORE_EOS: i32 = 1;
/// control tokens are shown as text
pub const INFER_REQUEST_SHOW_SPECIAL: i32 = 2;
/// events PROMPT
pub const INFER_REQUEST_ECHO: i32 = 4;
/// with a checkpoint: the prompt is appended to what it holds. Without this flag the prompt is everything, and what the
/// checkpoint has in common with it from the start on is reused
pub const INFER_REQUEST_CONTINUE: i32 = 8;
/// keeps each choice's state for infer_request_checkpoint
pub const INFER_REQUEST_KEEP: i32 = 16;
/// ends when the prompt has been computed (finish reason LENGTH): scoring, warming the cache. n must be 0 or 1
pub const INFER_REQUEST_PROMPT_ONLY: i32 = 32;
/// with ECHO: log-probabilities of the prompt's tokens, with sampling's top_logprobs alternatives
pub const INFER_REQUEST_PROMPT_LOGPROBS: i32 = 64;
/// A request.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_request_options {
    pub size: u32,
    /// INFER_REQUEST_*
    pub flags: u32,
    /// higher goes first, and may set aside lower ones; but a request that 256 later ones overtook goes before all
    pub priority: i32,
    /// choices; 0: 1; at most 128. They share the prompt. Choice i draws with seed + i
    pub n: u32,
    /// whose request it is: waiting requests of equal priority take turns by client; 0 is a client too
    /// The prompt, exactly one of: ids; text; messages (rendered by the model's template as infer_session_append_chat does); none of them with
    /// INFER_REQUEST_CONTINUE. All is copied.
    pub client: u64,
    /// [id_count] token ids
    pub ids: *const i32,
    pub id_count: u64,
    /// tokenized with text_flags
    pub text: *const c_char,
    pub text_len: u64,
    /// [message_count] of a conversation
    pub messages: *const infer_message,
    pub message_count: u64,
    /// or NULL
    pub render: *const infer_render_options,
    /// of text: as for infer_tokenize
    pub text_flags: u32,
    pub reserved: u32,
    /// n_ctx, kv_type, salt, cache flags; NULL: defaults. With a checkpoint: only salt and cache flags count
    pub session: *const infer_session_options,
    /// where to begin; or NULL
    pub checkpoint: *mut infer_checkpoint,
    /// in force for prompt and answer; in place of the checkpoint's
    pub adapters: *const infer_adapter_use,
    pub adapter_count: u64,
    /// soft prompts and prefixes that go before the prompt; not with a checkpoint
    pub prompts: *const *mut infer_adapter,
    pub prompt_count: u64,
    /// NULL: greedy
    pub sampling: *const infer_sampling,
    /// max_tokens, stops, guards; its flags are not used. NULL: until the context is full.
    /// max_tokens is of each choice
    pub generate: *const infer_generate_options,
    /// microseconds from submission; then each choice ends with INFER_FINISH_TIME; 0: none
    pub time_limit: u64,
    /// or NULL: infer_request_next
    pub callback: infer_request_fn,
    pub callback_user: *mut c_void,
}
impl infer_request_options {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_request_options>() == 176);
    assert!(core::mem::align_of::<infer_request_options>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_request_options, size) == 0);
    assert!(core::mem::offset_of!(infer_request_options, flags) == 4);
    assert!(core::mem::offset_of!(infer_request_options, priority) == 8);
    assert!(core::mem::offset_of!(infer_request_options, n) == 12);
    assert!(core::mem::offset_of!(infer_request_options, client) == 16);
    assert!(core::mem::offset_of!(infer_request_options, ids) == 24);
    assert!(core::mem::offset_of!(infer_request_options, id_count) == 32);
    assert!(core::mem::offset_of!(infer_request_options, text) == 40);
    assert!(core::mem::offset_of!(infer_request_options, text_len) == 48);
    assert!(core::mem::offset_of!(infer_request_options, messages) == 56);
    assert!(core::mem::offset_of!(infer_request_options, message_count) == 64);
    assert!(core::mem::offset_of!(infer_request_options, render) == 72);
    assert!(core::mem::offset_of!(infer_request_options, text_flags) == 80);
    assert!(core::mem::offset_of!(infer_request_options, reserved) == 84);
    assert!(core::mem::offset_of!(infer_request_options, session) == 88);
    assert!(core::mem::offset_of!(infer_request_options, checkpoint) == 96);
    assert!(core::mem::offset_of!(infer_request_options, adapters) == 104);
    assert!(core::mem::offset_of!(infer_request_options, adapter_count) == 112);
    assert!(core::mem::offset_of!(infer_request_options, prompts) == 120);
    assert!(core::mem::offset_of!(infer_request_options, prompt_count) == 128);
    assert!(core::mem::offset_of!(infer_request_options, sampling) == 136);
    assert!(core::mem::offset_of!(infer_request_options, generate) == 144);
    assert!(core::mem::offset_of!(infer_request_options, time_limit) == 152);
    assert!(core::mem::offset_of!(infer_request_options, callback) == 160);
    assert!(core::mem::offset_of!(infer_request_options, callback_user) == 168);
};
/// How a request stands.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_request_info {
    pub size: u32,
    /// INFER_CACHE_REASON_*: why no more of the prompt was in the cache
    pub cache_reason: i32,
    /// elements of the prompt, what a checkpoint holds included
    pub prompt_tokens: u64,
    /// of these, not computed for this request: from the cache or the checkpoint
    pub cached_tokens: u64,
    /// of all choices
    pub generated_tokens: u64,
    /// as in infer_cache_report
    pub near_length: u64,
    /// as in infer_cache_report
    pub difference: u64,
    /// how often its answers were set aside
    pub preemptions: u64,
    /// by the scheduler's clock; 0: not yet
    pub submitted: u64,
    /// by the scheduler's clock; 0: not yet
    pub started: u64,
    /// by the scheduler's clock; 0: not yet
    pub first_token: u64,
    /// by the scheduler's clock; 0: not yet
    pub ended: u64,
    /// with INFER_REQUEST_PROMPT_LOGPROBS: the sum over the prompt's tokens; else 0
    pub prompt_logprob: f64,
    /// as in infer_cache_report: what a tenant may be told
    pub own_reason: i32,
    pub reserved: u32,
}
impl infer_request_info {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_request_info>() == 104);
    assert!(core::mem::align_of::<infer_request_info>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_request_info, size) == 0);
    assert!(core::mem::offset_of!(infer_request_info, cache_reason) == 4);
    assert!(core::mem::offset_of!(infer_request_info, prompt_tokens) == 8);
    assert!(core::mem::offset_of!(infer_request_info, cached_tokens) == 16);
    assert!(core::mem::offset_of!(infer_request_info, generated_tokens) == 24);
    assert!(core::mem::offset_of!(infer_request_info, near_length) == 32);
    assert!(core::mem::offset_of!(infer_request_info, difference) == 40);
    assert!(core::mem::offset_of!(infer_request_info, preemptions) == 48);
    assert!(core::mem::offset_of!(infer_request_info, submitted) == 56);
    assert!(core::mem::offset_of!(infer_request_info, started) == 64);
    assert!(core::mem::offset_of!(infer_request_info, first_token) == 72);
    assert!(core::mem::offset_of!(infer_request_info, ended) == 80);
    assert!(core::mem::offset_of!(infer_request_info, prompt_logprob) == 88);
    assert!(core::mem::offset_of!(infer_request_info, own_reason) == 96);
    assert!(core::mem::offset_of!(infer_request_info, reserved) == 100);
};
/// What a checkpoint holds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_checkpoint_info {
    pub size: u32,
    /// as in infer_session_info
    pub n_ctx: u32,
    /// INFER_KV_*
    pub kv_type: i32,
    /// as in infer_session_info
    pub approximate: i32,
    /// elements, computed and pending
    pub length: u64,
    /// of them computed
    pub computed: u64,
    /// this and the next two as in infer_session_info
    pub kv_bytes: u64,
    /// of kv_bytes, held by others too
    pub kv_shared_bytes: u64,
    /// of kv_bytes, in a mapped file
    pub kv_mapped_bytes: u64,
    /// as in infer_session_info
    pub logits_rows: u64,
    /// 1: in the middle of an answer
    pub generating: i32,
    /// as in infer_session_info
    pub kv_recent: u32,
    /// memory that its state takes, were it alone: kv_bytes and what is not KV
    pub bytes: u64,
    /// as in infer_session_info
    pub adapters: u64,
}
impl infer_checkpoint_info {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_checkpoint_info>() == 88);
    assert!(core::mem::align_of::<infer_checkpoint_info>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_checkpoint_info, size) == 0);
    assert!(core::mem::offset_of!(infer_checkpoint_info, n_ctx) == 4);
    assert!(core::mem::offset_of!(infer_checkpoint_info, kv_type) == 8);
    assert!(core::mem::offset_of!(infer_checkpoint_info, approximate) == 12);
    assert!(core::mem::offset_of!(infer_checkpoint_info, length) == 16);
    assert!(core::mem::offset_of!(infer_checkpoint_info, computed) == 24);
    assert!(core::mem::offset_of!(infer_checkpoint_info, kv_bytes) == 32);
    assert!(core::mem::offset_of!(infer_checkpoint_info, kv_shared_bytes) == 40);
    assert!(core::mem::offset_of!(infer_checkpoint_info, kv_mapped_bytes) == 48);
    assert!(core::mem::offset_of!(infer_checkpoint_info, logits_rows) == 56);
    assert!(core::mem::offset_of!(infer_checkpoint_info, generating) == 64);
    assert!(core::mem::offset_of!(infer_checkpoint_info, kv_recent) == 68);
    assert!(core::mem::offset_of!(infer_checkpoint_info, bytes) == 72);
    assert!(core::mem::offset_of!(infer_checkpoint_info, adapters) == 80);
};
/// Limits of a store.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_store_options {
    pub size: u32,
    pub reserved: u32,
    /// of all checkpoints: in memory each counted as infer_checkpoint_info.bytes says, in a directory its file; 0: no limit
    pub max_bytes: u64,
    /// 0: no limit
    pub max_count: u64,
}
impl infer_store_options {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_store_options>() == 24);
    assert!(core::mem::align_of::<infer_store_options>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_store_options, size) == 0);
    assert!(core::mem::offset_of!(infer_store_options, reserved) == 4);
    assert!(core::mem::offset_of!(infer_store_options, max_bytes) == 8);
    assert!(core::mem::offset_of!(infer_store_options, max_count) == 16);
};
/// an entry of the new name is replaced; without it, that is EXISTS
pub const INFER_STORE_REPLACE: i32 = 1;
/// A checkpoint in a store.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_store_entry {
    pub size: u32,
    pub name_len: u32,
    /// as its limit counts them
    pub bytes: u64,
    /// elements
    pub length: u64,
    /// of them computed
    pub computed: u64,
    /// INFER_KV_*
    pub kv_type: i32,
    /// as in infer_session_info
    pub approximate: i32,
    /// zero-terminated
    pub name: [c_char; 256],
}
impl infer_store_entry {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_store_entry>() == 296);
    assert!(core::mem::align_of::<infer_store_entry>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_store_entry, size) == 0);
    assert!(core::mem::offset_of!(infer_store_entry, name_len) == 4);
    assert!(core::mem::offset_of!(infer_store_entry, bytes) == 8);
    assert!(core::mem::offset_of!(infer_store_entry, length) == 16);
    assert!(core::mem::offset_of!(infer_store_entry, computed) == 24);
    assert!(core::mem::offset_of!(infer_store_entry, kv_type) == 32);
    assert!(core::mem::offset_of!(infer_store_entry, approximate) == 36);
    assert!(core::mem::offset_of!(infer_store_entry, name) == 40);
};
/// What a store holds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_store_info {
    pub size: u32,
    pub reserved: u32,
    /// entries
    pub count: u64,
    /// as the limit counts them
    pub bytes: u64,
}
impl infer_store_info {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_store_info>() == 24);
    assert!(core::mem::align_of::<infer_store_info>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_store_info, size) == 0);
    assert!(core::mem::offset_of!(infer_store_info, reserved) == 4);
    assert!(core::mem::offset_of!(infer_store_info, count) == 8);
    assert!(core::mem::offset_of!(infer_store_info, bytes) == 16);
};
/// no cache, or none for this session, or nothing was looked up yet
pub const INFER_CACHE_REASON_OFF: i32 = 0;
/// all that may be reused was: everything but the last element
pub const INFER_CACHE_REASON_HIT: i32 = 1;
/// what is stored ends at `difference`; what follows is new
pub const INFER_CACHE_REASON_ENDS: i32 = 2;
/// what is stored goes on differently from element `difference` on
pub const INFER_CACHE_REASON_DIFFERS: i32 = 3;
/// more was stored once, and evicted
pub const INFER_CACHE_REASON_EVICTED: i32 = 4;
/// the same tokens are stored under other adapters from element `difference` on
pub const INFER_CACHE_REASON_OTHER_ADAPTERS: i32 = 5;
/// more of it is stored under another salt. For the host's eyes: tenants are told
/// own_reason
pub const INFER_CACHE_REASON_OTHER_SALT: i32 = 6;
/// more of it is stored in another KV type
pub const INFER_CACHE_REASON_OTHER_KV_TYPE: i32 = 7;
/// nothing is stored for this model, KV type and salt
pub const INFER_CACHE_REASON_EMPTY: i32 = 8;
/// memory ran out while looking up; the session computes everything
pub const INFER_CACHE_REASON_FAILED: i32 = 9;
/// What a session's last look-up gave. One takes place at the first step of a session that has computed nothing, and at every step with more
/// than 64 pending elements. The last element, and elements whose logits a step wants, are always computed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_cache_report {
    pub size: u32,
    /// INFER_CACHE_REASON_*
    pub reason: i32,
    /// elements of the session then
    pub wanted: u64,
    /// elements that were taken from the cache
    pub reused: u64,
    /// elements that are stored, but were computed again: sliding windows go on only from certain places
    pub rerun: u64,
    /// the first element that is not stored
    pub difference: u64,
    /// not 0: a near miss. A stored prefix of this length is the same in at least 1,024 elements and 9 of 10 of its length,
    /// and then differs: look for a date or a counter in the prompt
    pub near_length: u64,
    /// the same as reason, but found without a look at other salts: what may be told to a tenant. It depends on what sessions of
    /// this salt did (and on memory) alone
    pub own_reason: i32,
    pub reserved: u32,
}
impl infer_cache_report {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_cache_report>() == 56);
    assert!(core::mem::align_of::<infer_cache_report>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_cache_report, size) == 0);
    assert!(core::mem::offset_of!(infer_cache_report, reason) == 4);
    assert!(core::mem::offset_of!(infer_cache_report, wanted) == 8);
    assert!(core::mem::offset_of!(infer_cache_report, reused) == 16);
    assert!(core::mem::offset_of!(infer_cache_report, rerun) == 24);
    assert!(core::mem::offset_of!(infer_cache_report, difference) == 32);
    assert!(core::mem::offset_of!(infer_cache_report, near_length) == 40);
    assert!(core::mem::offset_of!(infer_cache_report, own_reason) == 48);
    assert!(core::mem::offset_of!(infer_cache_report, reserved) == 52);
};
/// What the prefix cache of an engine holds and has done.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_cache_stats {
    pub size: u32,
    pub reserved: u32,
    /// so far
    pub lookups: u64,
    /// of these, that gave all they could
    pub hits: u64,
    /// that gave something
    pub partial_hits: u64,
    /// elements that were not computed
    pub saved: u64,
    /// elements that were computed although stored
    pub rerun: u64,
    /// of nodes
    pub insertions: u64,
    /// of nodes
    pub evictions: u64,
    /// kept now: pages and tokens; what sessions hold too is counted in
    pub bytes: u64,
    /// pieces of prefixes kept now
    pub nodes: u64,
    /// pieces that were evicted, and are remembered without their state
    pub ghosts: u64,
    /// memory that they take
    pub ghost_bytes: u64,
    /// in cache_dir, as last seen
    pub disk_files: u64,
    /// of these files
    pub disk_bytes: u64,
    /// bytes, by this engine
    pub disk_written: u64,
    /// pieces that were not written: no budget, or an error (logged)
    pub disk_skipped: u64,
    /// pieces that were read back
    pub disk_loaded: u64,
    /// files that were found damaged, not used, and removed
    pub disk_damaged: u64,
}
impl infer_cache_stats {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_cache_stats>() == 144);
    assert!(core::mem::align_of::<infer_cache_stats>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_cache_stats, size) == 0);
    assert!(core::mem::offset_of!(infer_cache_stats, reserved) == 4);
    assert!(core::mem::offset_of!(infer_cache_stats, lookups) == 8);
    assert!(core::mem::offset_of!(infer_cache_stats, hits) == 16);
    assert!(core::mem::offset_of!(infer_cache_stats, partial_hits) == 24);
    assert!(core::mem::offset_of!(infer_cache_stats, saved) == 32);
    assert!(core::mem::offset_of!(infer_cache_stats, rerun) == 40);
    assert!(core::mem::offset_of!(infer_cache_stats, insertions) == 48);
    assert!(core::mem::offset_of!(infer_cache_stats, evictions) == 56);
    assert!(core::mem::offset_of!(infer_cache_stats, bytes) == 64);
    assert!(core::mem::offset_of!(infer_cache_stats, nodes) == 72);
    assert!(core::mem::offset_of!(infer_cache_stats, ghosts) == 80);
    assert!(core::mem::offset_of!(infer_cache_stats, ghost_bytes) == 88);
    assert!(core::mem::offset_of!(infer_cache_stats, disk_files) == 96);
    assert!(core::mem::offset_of!(infer_cache_stats, disk_bytes) == 104);
    assert!(core::mem::offset_of!(infer_cache_stats, disk_written) == 112);
    assert!(core::mem::offset_of!(infer_cache_stats, disk_skipped) == 120);
    assert!(core::mem::offset_of!(infer_cache_stats, disk_loaded) == 128);
    assert!(core::mem::offset_of!(infer_cache_stats, disk_damaged) == 136);
};
/// compress, for cold storage: opening then unpacks everything instead of mapping it
pub const INFER_SAVE_ZSTD: i32 = 1;
/// store the full fingerprint of the model, which opening then checks: reads all weights, both times
pub const INFER_SAVE_FULL_MODEL: i32 = 2;
/// How a checkpoint file is written.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_save_options {
    pub size: u32,
    /// INFER_SAVE_*
    pub flags: u32,
    /// path of a checkpoint file of the same model in the same folder (written the same way): the new file holds only the
    /// elements and pages that this one and its ancestors lack, and needs them all when it is opened. NULL: whole
    pub parent: *const c_char,
    pub parent_len: u64,
    /// of zstd, 1 to 19; 0: 3
    pub level: i32,
    pub reserved: u32,
}
impl infer_save_options {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_save_options>() == 32);
    assert!(core::mem::align_of::<infer_save_options>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_save_options, size) == 0);
    assert!(core::mem::offset_of!(infer_save_options, flags) == 4);
    assert!(core::mem::offset_of!(infer_save_options, parent) == 8);
    assert!(core::mem::offset_of!(infer_save_options, parent_len) == 16);
    assert!(core::mem::offset_of!(infer_save_options, level) == 24);
    assert!(core::mem::offset_of!(infer_save_options, reserved) == 28);
};
/// everything but the pages of computed state at once; each page before the first step that reads it. A damaged
/// one fails that step with FORMAT and leaves the session as it was
pub const INFER_VERIFY_FIRST_USE: i32 = 0;
/// everything at once
pub const INFER_VERIFY_LOAD: i32 = 1;
/// How a checkpoint file is opened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct infer_load_options {
    pub size: u32,
    /// INFER_MAP_*. MMAP: pages are used in place, copied when written; the file must not shrink or change while anything
    /// restored from it lives (that it did not shrink is checked before steps, as for models; replacing it by rename is fine).
    /// READ: copied into memory, immune to whatever happens to the file. Neither counts against the KV budget
    pub map: i32,
    /// INFER_VERIFY_*
    pub verify: i32,
    pub reserved: u32,
    /// not 0: what infer_session_info.adapters said of the session must be this, else VALUE. The adapters that the checkpoint's
    /// elements were computed under must be open for the model, whatever stands here: VALUE names the first that is not
    pub adapters: u64,
}
impl infer_load_options {
    /// All zero, and the size set: what INFER_INIT does.
    pub fn init() -> Self {
        // SAFETY: numbers, raw pointers and optional functions only: all may be zero.
        let mut x: Self = unsafe { core::mem::zeroed() };
        x.size = core::mem::size_of::<Self>() as u32;
        x
    }
}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::size_of::<infer_load_options>() == 24);
    assert!(core::mem::align_of::<infer_load_options>() == 8);
};
#[cfg(all(target_pointer_width = "64", infer_offset_of))]
const _: () = {
    assert!(core::mem::offset_of!(infer_load_options, size) == 0);
    assert!(core::mem::offset_of!(infer_load_options, map) == 4);
    assert!(core::mem::offset_of!(infer_load_options, verify) == 8);
    assert!(core::mem::offset_of!(infer_load_options, reserved) == 12);
    assert!(core::mem::offset_of!(infer_load_options, adapters) == 16);
};
/// metadata, the directory of tensors, and samples of the weights: what checkpoint files are checked against
pub const INFER_FINGERPRINT_QUICK: i32 = 1;
/// all bytes of the model's files
pub const INFER_FINGERPRINT_FULL: i32 = 2;

extern "C" {
    /// "1.0.0": of the library, not of this header
    pub fn infer_version() -> *const c_char;
    /// INFER_ABI_VERSION of the library
    pub fn infer_abi_version() -> i32;
    /// INFER_NUMERICS_VERSION of the library
    pub fn infer_numerics_version() -> i32;
    /// What the library can do to its host and the machine, for hosts, packagers and auditors: one "key: value" line each, static text in ASCII. The value is "none",
    /// or a list separated by spaces. The same bytes, with the terminating zero, are in the shared library as an ELF note (section
    /// .note.libinfer, owner "libinfer", type 1), so that they can be read without running anything. Keys may be added; a "none" never turns into a list within one ABI version.
    /// library         name and version
    /// network         sockets and names of hosts
    /// processes       starting programs, forking, waiting
    /// environment     reading or changing environment variables
    /// clock           reading the time (schedulers call infer_scheduler_options.clock)
    /// locale          reading or changing it, or calling what depends on it
    /// signals         sending or waiting for signals, handlers, and the mask of the host's threads
    /// output          standard input, output and error, terminals, the system's log
    /// exit            ending the process or jumping out of a call
    /// code            loading libraries, making memory executable
    /// threads         the option that says how many are started; 1, or an executor: none
    /// reads           functions that read, or open for later reading, a file that the host names
    /// reads-system    files, and folders with files, that tell how many processors may be used: read when an engine is made with 0 threads
    /// writes          functions that write, rename or remove files or make folders, where the host names a file or folder
    /// writes-folders  options that name a folder, in which the engine or scheduler then keeps files while it works
    /// docs/security.md tells more, and how to have the system enforce it.
    pub fn infer_capabilities() -> *const c_char;
    /// The message of a status; "unknown status" for others. Static.
    pub fn infer_status_message(status: infer_status) -> *const c_char;
    /// The name of a status, such as "INFER_ERROR_IO"; "unknown" for others. Static.
    pub fn infer_status_name(status: infer_status) -> *const c_char;
    /// What INFER_INIT calls.
    pub fn infer_init(x: *mut c_void, size: u32);
    /// Makes a flag, unset. Long calls take one (or NULL) and end with CANCELLED, as if they had failed, some milliseconds after it is set (docs/state.md). One that is
    /// set before the call ends it at once, whatever there is to do: nothing has been done then (but that infer_generate has begun its answer).
    pub fn infer_cancel_create(out: *mut *mut infer_cancel, err: *mut infer_error) -> infer_status;
    pub fn infer_cancel_ref(cancel: *mut infer_cancel) -> *mut infer_cancel;
    pub fn infer_cancel_release(cancel: *mut infer_cancel);
    /// from any thread, and from a signal handler
    pub fn infer_cancel_set(cancel: *mut infer_cancel);
    /// makes it ready for use again
    pub fn infer_cancel_clear(cancel: *mut infer_cancel);
    /// 1: it is set.
    pub fn infer_cancel_is_set(cancel: *const infer_cancel) -> i32;
    /// An engine owns the device (today: the CPU), its threads and the memory of computed state. options may be NULL.
    /// Errors: ARGUMENT, UNSUPPORTED (cpu), NO_MEMORY. Threads are started when there is work for them: at the first step, at
    /// quantising while a model opens, and anew after fork(). That call says THREAD when none can be started, and may be repeated; with some of them the engine
    /// goes on. When idle they sleep.
    pub fn infer_engine_create(options: *const infer_engine_options, out: *mut *mut infer_engine, err: *mut infer_error) -> infer_status;
    pub fn infer_engine_ref(engine: *mut infer_engine) -> *mut infer_engine;
    pub fn infer_engine_release(engine: *mut infer_engine);
    /// Threads, processor and memory in use.
    pub fn infer_engine_get_info(engine: *mut infer_engine, out: *mut infer_engine_info, err: *mut infer_error) -> infer_status;
    /// "scalar", "avx2", ... of an INFER_CPU_*; NULL for unknown values. Static.
    pub fn infer_cpu_name(cpu: i32) -> *const c_char;
    /// The INFER_CPU_* of a name, or -1.
    pub fn infer_cpu_from_name(name: *const c_char, name_len: u64) -> i32;
    /// A file or folder. This and the next three fill *source (which needs no INFER_INIT) and never fail: what is wrong shows when the source is opened.
    pub fn infer_source_path(source: *mut infer_source, path: *const c_char, path_len: u64);
    /// An open descriptor (POSIX): regular files only.
    pub fn infer_source_descriptor(source: *mut infer_source, descriptor: i32);
    /// length bytes in memory.
    pub fn infer_source_memory(source: *mut infer_source, data: *const c_void, length: u64);
    /// What the host's open gives, called with this name and those of parts. open and read come from the thread that makes the call; they may call the library,
    /// and release the engine or model that the call was given: it lives until that returns.
    pub fn infer_source_callback(source: *mut infer_source, name: *const c_char, name_len: u64, open: infer_open_fn, user: *mut c_void);
    /// "Q4_K" and so on; NULL for values that are not a type. Static.
    pub fn infer_type_name(type_: i32) -> *const c_char;
    /// Opens a model file (GGUF, safetensors or PyTorch, recognised by its content) as a directory of tensors and metadata; nothing is interpreted, so files of
    /// unknown architecture and without weights open too. A split file opens by its first part; the others are found by name.
    /// engine (may be NULL) lends allocator and log. options may be NULL.
    /// Errors: ARGUMENT (also for a later part of a split file; the text names the first), IO, NOT_FOUND, FORMAT, TRUNCATED, UNSUPPORTED
    /// (big-endian, version, tensor type, a split file that does not come from a path or callback), MISSING and VALUE (the format's own keys),
    /// NO_MEMORY, LIMIT, CANCELLED.
    pub fn infer_file_open(engine: *mut infer_engine, source: *const infer_source, options: *const infer_open_options, out: *mut *mut infer_file, err: *mut infer_error) -> infer_status;
    pub fn infer_file_ref(file: *mut infer_file) -> *mut infer_file;
    pub fn infer_file_release(file: *mut infer_file);
    /// Tensors of all parts.
    pub fn infer_file_tensor_count(file: *const infer_file) -> u64;
    /// Tensor number index, in file order. Errors: ARGUMENT.
    pub fn infer_file_tensor(file: *const infer_file, index: u64, out: *mut infer_tensor_info, err: *mut infer_error) -> infer_status;
    /// Errors: NOT_FOUND.
    pub fn infer_file_find_tensor(file: *const infer_file, name: *const c_char, name_len: u64, index: *mut u64, err: *mut infer_error) -> infer_status;
    /// Decodes elements [first, first + count) of a tensor, in file order, to f32 exactly as its format defines (wide integers and F64 are
    /// rounded to nearest; BOOL is 0 or 1). first and count must be multiples of the type's block. Errors: ARGUMENT.
    pub fn infer_file_tensor_f32(file: *const infer_file, index: u64, first: u64, count: u64, out: *mut f32, err: *mut infer_error) -> infer_status;
    /// Metadata entries.
    pub fn infer_file_meta_count(file: *const infer_file) -> u64;
    /// Metadata entry number index, in file order. key is borrowed and not zero-terminated. Errors: ARGUMENT.
    pub fn infer_file_meta(file: *const infer_file, index: u64, key: *mut *const c_char, key_len: *mut u64, out: *mut infer_value, err: *mut infer_error) -> infer_status;
    /// Errors: NOT_FOUND.
    pub fn infer_file_find_meta(file: *const infer_file, key: *const c_char, key_len: u64, out: *mut infer_value, err: *mut infer_error) -> infer_status;
    /// Item number index of an array. Constant time for numbers; for strings and nested arrays, reading on in order is constant time per item.
    /// Errors: ARGUMENT.
    pub fn infer_file_value_item(file: *const infer_file, array: *const infer_value, index: u64, out: *mut infer_value, err: *mut infer_error) -> infer_status;
    /// Opens the tokenizer of a model file or folder whose weights may be absent and whose architecture may be unknown, or a tokenizer.json.
    /// Errors: as infer_file_open; MISSING, VALUE, UNSUPPORTED name the key.
    pub fn infer_tokenizer_open(engine: *mut infer_engine, source: *const infer_source, options: *const infer_open_options, out: *mut *mut infer_tokenizer, err: *mut infer_error) -> infer_status;
    pub fn infer_tokenizer_ref(tokenizer: *mut infer_tokenizer) -> *mut infer_tokenizer;
    pub fn infer_tokenizer_release(tokenizer: *mut infer_tokenizer);
    /// Kind, size and special tokens.
    pub fn infer_tokenizer_get_info(tokenizer: *const infer_tokenizer, out: *mut infer_tokenizer_info, err: *mut infer_error) -> infer_status;
    /// Encodes text (malformed UTF-8 is replaced by U+FFFD, as Unicode recommends). ids may be NULL when capacity is 0. *count: ids
    /// written or, with INFER_ERROR_BUFFER, needed. Errors: ARGUMENT, LIMIT, NO_MEMORY, BUFFER.
    pub fn infer_tokenize(tokenizer: *const infer_tokenizer, text: *const c_char, text_len: u64, flags: u32, ids: *mut i32, capacity: u64, count: *mut u64, err: *mut infer_error) -> infer_status;
    /// Decodes ids to text. The result may hold malformed UTF-8 when the ids do. Errors: TOKEN, LIMIT, NO_MEMORY, BUFFER (*text_len is the need).
    pub fn infer_detokenize(tokenizer: *const infer_tokenizer, ids: *const i32, count: u64, flags: u32, text: *mut c_char, capacity: u64, text_len: *mut u64, err: *mut infer_error) -> infer_status;
    /// Adds one id and writes the text that is complete now: never half a character. A capacity of the token's length + 16 always
    /// suffices. id -1 ends the text and flushes what is unfinished. Errors: as infer_detokenize; after BUFFER the call may be repeated.
    pub fn infer_detokenizer_next(tokenizer: *const infer_tokenizer, state: *mut infer_detokenizer, id: i32, text: *mut c_char, capacity: u64, text_len: *mut u64, err: *mut infer_error) -> infer_status;
    /// Errors: TOKEN.
    pub fn infer_tokenizer_token(tokenizer: *const infer_tokenizer, id: i32, out: *mut infer_token_info, err: *mut infer_error) -> infer_status;
    /// Compiles a Jinja template as Hugging Face models carry them. engine may be NULL. Errors: SYNTAX (offset set), LIMIT, NO_MEMORY.
    pub fn infer_template_parse(engine: *mut infer_engine, text: *const c_char, text_len: u64, out: *mut *mut infer_template, err: *mut infer_error) -> infer_status;
    /// The template in a model file's metadata; a file without one gives ChatML, which infer_template_is_fallback tells.
    pub fn infer_template_open(engine: *mut infer_engine, source: *const infer_source, options: *const infer_open_options, out: *mut *mut infer_template, err: *mut infer_error) -> infer_status;
    pub fn infer_template_ref(tmpl: *mut infer_template) -> *mut infer_template;
    pub fn infer_template_release(tmpl: *mut infer_template);
    /// 1: it is ChatML, for want of a template of the file's own.
    pub fn infer_template_is_fallback(tmpl: *const infer_template) -> i32;
    /// The template's source text: borrowed.
    pub fn infer_template_text(tmpl: *const infer_template, text: *mut *const c_char, text_len: *mut u64);
    /// Renders with variables given as a JSON object in UTF-8 (key order is kept), usually {"messages":[{"role":"user","content":"..."}],
    /// "add_generation_prompt":true}; bos_token, eos_token, tools and others as the template wants them. options may be NULL.
    /// Errors: SYNTAX (bad JSON; offset set), TEMPLATE (raised or failed; the text says what), LIMIT, NO_MEMORY, CANCELLED, BUFFER (*out_len is the need).
    pub fn infer_template_render(tmpl: *const infer_template, json: *const c_char, json_len: u64, options: *const infer_render_options, out: *mut c_char, capacity: u64, out_len: *mut u64, err: *mut infer_error) -> infer_status;
    /// Opens a model of a known architecture: a GGUF file, or a Hugging Face folder. engine NULL: a private engine with default options. options may be NULL.
    /// Errors: as infer_file_open; ARCHITECTURE, MISSING, SHAPE, VALUE name the key or tensor. A tokenizer that the library does not
    /// know does not fail the model: infer_model_tokenizer is then NULL.
    pub fn infer_model_open(engine: *mut infer_engine, source: *const infer_source, options: *const infer_open_options, out: *mut *mut infer_model, err: *mut infer_error) -> infer_status;
    /// The same for a path (zero-terminated) with default options.
    pub fn infer_model_open_path(engine: *mut infer_engine, path: *const c_char, out: *mut *mut infer_model, err: *mut infer_error) -> infer_status;
    pub fn infer_model_ref(model: *mut infer_model) -> *mut infer_model;
    pub fn infer_model_release(model: *mut infer_model);
    /// Borrowed; NULL when the file has none that is known (infer_model_info says why).
    pub fn infer_model_tokenizer(model: *const infer_model) -> *mut infer_tokenizer;
    /// Borrowed; never NULL: ChatML stands in (infer_template_is_fallback), also when the file's own cannot be compiled.
    pub fn infer_model_template(model: *const infer_model) -> *mut infer_template;
    /// borrowed
    pub fn infer_model_file(model: *const infer_model) -> *mut infer_file;
    /// borrowed
    pub fn infer_model_engine(model: *const infer_model) -> *mut infer_engine;
    /// What the model is. Never fails for a model.
    pub fn infer_model_get_info(model: *const infer_model, out: *mut infer_model_info, err: *mut infer_error) -> infer_status;
    /// Asks the system about each page: some milliseconds for tens of gigabytes. Where it does not tell, all counts as in memory.
    pub fn infer_model_get_memory(model: *const infer_model, out: *mut infer_model_memory, err: *mut infer_error) -> infer_status;
    /// What the model would take, opened with these options in an engine like this one (NULL: with default options), with so many sessions that are filled
    /// token by token or at once and generate with any settings. Weights are not read: of the files the metadata, the directory of tensors and the tokenizer
    /// are (streams of a callback, which have no directory to look at alone, are read whole, as infer_model_open does). open and options may be NULL.
    /// Not included: forks, checkpoints, stores, adapters, schedulers, the prefix cache, logits of more than one element of a session at a time,
    /// infer_embed with models that are no encoders; and texts: while one is tokenised it takes up to some hundred bytes a byte. How to reckon with each is in
    /// docs/memory.md. In short: a fork that goes on, and an answer of a scheduler, is at most one more of sessions; a checkpoint is at most the bytes that
    /// infer_checkpoint_info says of it; an adapter twice its own_bytes while it is opened; the prefix cache a few per cent more than cache_bytes. The call itself
    /// takes what the tokenizer takes, from the engine's allocator.
    /// Errors: those of infer_model_open and, for the options, of infer_session_create; LIMIT: it does not fit into the budget, or the engine's kv_budget
    /// (with n_ctx 0: not even with a context of 64); the text says how much is needed.
    pub fn infer_model_estimate(engine: *mut infer_engine, source: *const infer_source, open: *const infer_open_options, options: *const infer_estimate_options, out: *mut infer_estimate, err: *mut infer_error) -> infer_status;
    /// Makes an empty session. options may be NULL. Errors: ARGUMENT, UNSUPPORTED (an encoder: see infer_embed), NO_MEMORY.
    pub fn infer_session_create(model: *mut infer_model, options: *const infer_session_options, out: *mut *mut infer_session, err: *mut infer_error) -> infer_status;
    pub fn infer_session_ref(session: *mut infer_session) -> *mut infer_session;
    pub fn infer_session_release(session: *mut infer_session);
    /// borrowed
    pub fn infer_session_model(session: *const infer_session) -> *mut infer_model;
    /// Appends token ids. Errors: TOKEN (id negative or >= the vocabulary), CONTEXT_FULL, NO_MEMORY; none are appended then.
    pub fn infer_session_append(session: *mut infer_session, ids: *const i32, count: u64, err: *mut infer_error) -> infer_status;
    /// Tokenizes text and appends the ids; flags as for infer_tokenize: INFER_TOKENIZE_ADD_SPECIAL belongs to the first text of a session only.
    /// Errors: also STATE (model without tokenizer).
    pub fn infer_session_append_text(session: *mut infer_session, text: *const c_char, text_len: u64, flags: u32, err: *mut infer_error) -> infer_status;
    /// Renders the model's chat template with these messages, a generation prompt, bos_token and eos_token, and appends the tokens (with BOS
    /// before them where the model wants it, the session is empty, and the template has not written it). Spellings of control tokens inside
    /// messages count as such, as in every chat template: clean what strangers write. A model without a template gets ChatML
    /// (infer_template_is_fallback tells). Other variables: infer_template_render and infer_session_append_text. options may be NULL.
    /// Errors: STATE (model without tokenizer), ENCODING, those of infer_template_render, CONTEXT_FULL.
    pub fn infer_session_append_chat(session: *mut infer_session, messages: *const infer_message, count: u64, options: *const infer_render_options, err: *mut infer_error) -> infer_status;
    /// Appends embedding rows [count][n_embd] (finite values; used in place of the token embedding, after its scaling). keys: two 64-bit
    /// words per row that identify its content for caches: equal keys promise equal rows. Copied. Errors: ARGUMENT, VALUE, CONTEXT_FULL, NO_MEMORY.
    pub fn infer_session_append_rows(session: *mut infer_session, rows: *const f32, keys: *const u64, count: u64, err: *mut infer_error) -> infer_status;
    /// Lengths and memory of the session.
    pub fn infer_session_get_info(session: *const infer_session, out: *mut infer_session_info, err: *mut infer_error) -> infer_status;
    /// The ids of elements [first, first + count); an embedding row gives -1. Errors: ARGUMENT.
    pub fn infer_session_tokens(session: *const infer_session, first: u64, count: u64, ids: *mut i32, err: *mut infer_error) -> infer_status;
    /// Rolls back to a length (in elements). State that must be computed again becomes pending; *rerun (may be NULL) tells how many
    /// elements. Logits of the last step are gone: the next step or generation computes the last element again for them. Errors: ARGUMENT (length above the present one), NO_MEMORY.
    pub fn infer_session_truncate(session: *mut infer_session, length: u64, rerun: *mut u64, err: *mut infer_error) -> infer_status;
    /// A second session with the same elements, state, logits and sampler, not generating: computed state is shared, not copied, until one side
    /// changes it. Takes microseconds and a few kilobytes, whatever the length. Errors: NO_MEMORY.
    pub fn infer_session_fork(session: *mut infer_session, out: *mut *mut infer_session, err: *mut infer_error) -> infer_status;
    /// Computes pending elements of count different sessions of one model in batches. Bad items (ARGUMENT) fail the whole call before
    /// anything is done or written. Else returns INFER_OK when every item succeeded, or the first item's failure, and each item tells its own
    /// status and progress. Long work is cut into chunks of at most 256 elements over all sessions; cancelling (cancel may be NULL) drops the chunk in
    /// work, no other. A session without pending elements is done at once and keeps its logits; if the last element's are not there (rolled back,
    /// or not asked for) and the item says INFER_ROWS_LAST, it is computed again. Of any other session the logits of the step before are
    /// gone, also when this one fails.
    /// Errors per item: LIMIT (KV budget), NO_MEMORY, NONFINITE, CANCELLED, CHANGED (a mapped file shrank), FORMAT (a page of a mapped
    /// checkpoint file is damaged), HOST (the executor), THREAD (none of the engine's could be started).
    pub fn infer_step(items: *mut infer_step_item, count: u64, cancel: *mut infer_cancel, err: *mut infer_error) -> infer_status;
    /// Logits of row number `row` of the last step, in element order: vocab_size floats, borrowed until the session is used again.
    /// *position (may be NULL) is the element's index. Errors: ARGUMENT, STATE (none).
    pub fn infer_session_logits(session: *const infer_session, row: u64, logits: *mut *const f32, position: *mut u64, err: *mut infer_error) -> infer_status;
    /// What infer-cli uses: temperature 0.7, top_k 40, top_p 0.95, min_p 0.05, seed 0. INFER_INIT alone means greedy. size must be set.
    pub fn infer_sampling_default(sampling: *mut infer_sampling, err: *mut infer_error) -> infer_status;
    /// Sets a session's sampling; takes effect at the next sampled token. Bounds: temperature 0 to 1000, repetition_penalty 0 or 0.001 to
    /// 1000, presence and frequency penalties -1000 to 1000, biases -1e6 to 1e6 or -INFINITY. Errors: ARGUMENT (names the field), TOKEN (an
    /// id of the bias list), NO_MEMORY; the old settings stay then.
    pub fn infer_session_set_sampling(session: *mut infer_session, sampling: *const infer_sampling, err: *mut infer_error) -> infer_status;
    /// Draws the next token from the last logits row; it is not appended. Errors: STATE (no logits, or every token is forbidden), NONFINITE,
    /// HOST (the callback failed or wrote NaN or +INFINITY), NO_MEMORY.
    pub fn infer_session_sample(session: *mut infer_session, out: *mut infer_sample_result, err: *mut infer_error) -> infer_status;
    /// Appends count ids, as infer_session_append does, and tells how likely each is after all that stands before it: under the model's own distribution,
    /// whatever the session's sampling says. What is pending is computed first; the last id is left pending, and the logits that the session has then are
    /// those of some of the last elements. At most 32 rows of logits are kept at a time, whatever count is. To score again, roll back: a session of which
    /// only the prompt was computed scores one continuation after another with infer_session_truncate, or forks do.
    /// A failure leaves the session as it was (its prompt may have gone to the prefix cache), and what is in the arrays undefined.
    /// Errors: ARGUMENT, CONTEXT_FULL, TOKEN, and those of infer_step.
    pub fn infer_session_score(session: *mut infer_session, ids: *const i32, count: u64, score: *mut infer_score, cancel: *mut infer_cancel, err: *mut infer_error) -> infer_status;
    /// Begins an answer: counts start anew; without new input it goes on where the session stands. options may be NULL. The session keeps all tokens of
    /// the answer, those of a stop string too: infer_session_truncate drops them, and ends an answer that is being made (what is held back is lost).
    /// Checkpoints keep an answer that is being made, forks do not. Of several reasons to end at one token the first of these is told: a stop string, an
    /// end-of-turn or stop token, repetition, max_tokens.
    /// Errors: ARGUMENT (names the field), TOKEN (a stop id that the model has not), STATE (the session is empty), UNSUPPORTED (shift_drop with learned
    /// positions; stops without a tokenizer), NO_MEMORY; an answer that was being made then goes on.
    pub fn infer_generate_begin(session: *mut infer_session, options: *const infer_generate_options, err: *mut infer_error) -> infer_status;
    /// Does a bounded piece of work, one chunk of the prompt or one token, and tells what happened. A chosen token is appended to the
    /// session (the end-of-turn token too). After DONE, STATE until the next begin. A failed or cancelled call may be repeated.
    /// Errors: STATE, and those of infer_step and infer_session_sample.
    pub fn infer_generate_next(session: *mut infer_session, event: *mut infer_event, cancel: *mut infer_cancel, err: *mut infer_error) -> infer_status;
    /// begin and next until DONE, each event to the callback, which is required. After the callback has stopped it before DONE, or an error of next,
    /// infer_generate_next may go on with the same answer. Errors: those of begin and next.
    pub fn infer_generate(session: *mut infer_session, options: *const infer_generate_options, callback: infer_event_fn, user: *mut c_void, cancel: *mut infer_cancel, err: *mut infer_error) -> infer_status;
    /// Opens an adapter: a GGUF LoRA or control vector; a PEFT folder, or the weights in one; a steering vector or a soft prompt in a safetensors or
    /// torch file. Each matrix finds its place in the model, and what it is used with is prepared, so that attaching it later is quick. The file is used
    /// in place: what is said of models' files holds. The handle keeps the model. options may be NULL.
    /// Errors name the tensor or key: those of infer_file_open, and MISSING (a target that the model does not have, adapter_config.json), SHAPE, VALUE (for
    /// another architecture, a layer beyond the last, a number that is not finite), UNSUPPORTED (a method that is not built, or a matrix whose products take no
    /// adapter, such as experts'; a build without xxHash).
    pub fn infer_adapter_open(model: *mut infer_model, source: *const infer_source, options: *const infer_open_options, out: *mut *mut infer_adapter, err: *mut infer_error) -> infer_status;
    /// The same for a path (zero-terminated) of a file or folder, with default options.
    pub fn infer_adapter_open_path(model: *mut infer_model, path: *const c_char, out: *mut *mut infer_adapter, err: *mut infer_error) -> infer_status;
    pub fn infer_adapter_ref(adapter: *mut infer_adapter) -> *mut infer_adapter;
    pub fn infer_adapter_release(adapter: *mut infer_adapter);
    /// borrowed
    pub fn infer_adapter_model(adapter: *const infer_adapter) -> *mut infer_model;
    /// A new reference on an adapter that is open for the model and has this content, as infer_adapter_info.hash tells it. Errors: NOT_FOUND.
    pub fn infer_adapter_find(model: *mut infer_model, hash: *const u8, out: *mut *mut infer_adapter, err: *mut infer_error) -> infer_status;
    /// Kind, content hash and sizes.
    pub fn infer_adapter_get_info(adapter: *const infer_adapter, out: *mut infer_adapter_info, err: *mut infer_error) -> infer_status;
    /// Name of target number index of a LoRA adapter, as GGUF names it: borrowed, zero-terminated. NULL: there is none.
    pub fn infer_adapter_target(adapter: *const infer_adapter, index: u64) -> *const c_char;
    /// The invocation tokens of an aLoRA: borrowed. NULL: none.
    pub fn infer_adapter_invocation(adapter: *const infer_adapter, count: *mut u64) -> *const i32;
    /// What is in force for the elements that are appended to the session from now on: this list (at most 16 items, in the order in which they are
    /// applied; each filled by INFER_INIT), in place of the list before. count 0: nothing. May be called at any time, also in the middle of an answer. Elements
    /// that the session has already keep the adapters that they were appended under, computed or not: nothing is computed again. An aLoRA comes into force with
    /// its invocation tokens. The adapters are kept. Takes microseconds. Errors: ARGUMENT (another model's adapter; a scale that is not a number or too
    /// large; a layer range; a kind that is appended), NO_MEMORY: the list before stays then.
    pub fn infer_session_set_adapters(session: *mut infer_session, uses: *const infer_adapter_use, count: u64, err: *mut infer_error) -> infer_status;
    /// Item number index of the list; INFER_ERROR_NOT_FOUND beyond its last. uses with scale 0 are not in it. The adapter is borrowed.
    pub fn infer_session_adapter(session: *const infer_session, index: u64, out: *mut infer_adapter_use, err: *mut infer_error) -> infer_status;
    /// Appends a soft prompt (its rows, as infer_session_append_rows does) or a prefix (elements that are not computed: their keys and values are
    /// written; no logits come from them). Errors: ARGUMENT (another kind or model), CONTEXT_FULL, NO_MEMORY.
    pub fn infer_session_append_adapter(session: *mut infer_session, adapter: *mut infer_adapter, err: *mut infer_error) -> infer_status;
    /// Makes embeddings of count texts, several of them in one pass: with encoders, and with any other model from its final hidden states. A text's bits
    /// depend on it and the model alone, not on the texts beside it. Keys and values are in f32. Encoders are computed layer by layer: besides the
    /// weights that takes memory for one layer's keys and values and three rows of activations for each token of the longest text (8,192 tokens of
    /// width 768: about 130 MB, kept by the engine for later calls). Other models use KV memory as sessions do. Adapters take no part: for those, step a
    /// session with an infer_hidden. Instructions ("search_query: ", "query: ") are part of the text: the host writes them.
    /// Bad items (ARGUMENT) fail the whole call before anything is done or written. Else returns INFER_OK when every text succeeded, or the first
    /// failure, and each item tells its own status. options may be NULL. Errors per item: STATE (a text, but the model has no tokenizer), CONTEXT_FULL (too
    /// many tokens), TOKEN (an id), VALUE (no tokens), BUFFER, LIMIT, NO_MEMORY, NONFINITE, CANCELLED, CHANGED, HOST, THREAD.
    /// Errors of the call: UNSUPPORTED (the file declares a kind of pooling that is not supported, and options.pooling is MODEL).
    pub fn infer_embed(model: *mut infer_model, items: *mut infer_embed_item, count: u64, options: *const infer_embed_options, cancel: *mut infer_cancel, err: *mut infer_error) -> infer_status;
    /// options may be NULL. Errors: ARGUMENT, UNSUPPORTED (an encoder), NO_MEMORY; of spill_path those of infer_store_open.
    pub fn infer_scheduler_create(model: *mut infer_model, options: *const infer_scheduler_options, out: *mut *mut infer_scheduler, err: *mut infer_error) -> infer_status;
    pub fn infer_scheduler_ref(scheduler: *mut infer_scheduler) -> *mut infer_scheduler;
    /// The last release ends all requests as cancelled; their callbacks are called from here.
    pub fn infer_scheduler_release(scheduler: *mut infer_scheduler);
    /// One batch. *more (may be NULL): 1 while there is work left. Failures of single requests end those requests (INFER_FINISH_ERROR) and are no errors of the step.
    /// Errors: CANCELLED (nothing is lost: step again).
    pub fn infer_scheduler_step(scheduler: *mut infer_scheduler, more: *mut i32, cancel: *mut infer_cancel, err: *mut infer_error) -> infer_status;
    /// Sleeps until there is work or infer_scheduler_wake is called. In a build without threads: returns at once.
    pub fn infer_scheduler_wait(scheduler: *mut infer_scheduler, err: *mut infer_error) -> infer_status;
    /// Lets the present or the next infer_scheduler_wait return. From any thread.
    pub fn infer_scheduler_wake(scheduler: *mut infer_scheduler);
    /// Counts and memory.
    pub fn infer_scheduler_get_info(scheduler: *mut infer_scheduler, out: *mut infer_scheduler_info, err: *mut infer_error) -> infer_status;
    /// Checks the request, tokenizes, and puts it into the queue: *out is set before the first callback. out may be NULL with a callback. Errors: ARGUMENT
    /// (names the field), LIMIT (the queue is full, or the request could never fit the budget), STATE (the last handle is being released), CONTEXT_FULL, those of infer_session_append_text and
    /// infer_session_append_chat, infer_session_set_sampling, infer_session_set_adapters.
    pub fn infer_scheduler_submit(scheduler: *mut infer_scheduler, options: *const infer_request_options, out: *mut *mut infer_request, err: *mut infer_error) -> infer_status;
    pub fn infer_request_ref(request: *mut infer_request) -> *mut infer_request;
    /// does not cancel it
    pub fn infer_request_release(request: *mut infer_request);
    /// Ends it before the next batch: DONE with INFER_FINISH_CANCELLED for each choice that runs, and END, come from the thread that steps. From any thread.
    pub fn infer_request_cancel(request: *mut infer_request);
    /// For requests without a callback: the next event. Errors: NOT_FOUND (none now: step, or wait), STATE (it has a callback, or END was told).
    pub fn infer_request_next(request: *mut infer_request, out: *mut infer_request_event, err: *mut infer_error) -> infer_status;
    /// Counts and times so far.
    pub fn infer_request_get_info(request: *mut infer_request, out: *mut infer_request_info, err: *mut infer_error) -> infer_status;
    /// With INFER_REQUEST_KEEP, from a choice's DONE on: its state, as long as the request lives. Errors: STATE (not kept, not ended), ARGUMENT (no such choice).
    pub fn infer_request_checkpoint(request: *mut infer_request, choice: u32, out: *mut *mut infer_checkpoint, err: *mut infer_error) -> infer_status;
    /// Of the session as it stands, pending elements included. The session goes on unchanged. Errors: NO_MEMORY.
    pub fn infer_checkpoint_create(session: *const infer_session, out: *mut *mut infer_checkpoint, err: *mut infer_error) -> infer_status;
    pub fn infer_checkpoint_ref(checkpoint: *mut infer_checkpoint) -> *mut infer_checkpoint;
    pub fn infer_checkpoint_release(checkpoint: *mut infer_checkpoint);
    /// borrowed
    pub fn infer_checkpoint_model(checkpoint: *const infer_checkpoint) -> *mut infer_model;
    /// Lengths and memory of the checkpoint.
    pub fn infer_checkpoint_get_info(checkpoint: *const infer_checkpoint, out: *mut infer_checkpoint_info, err: *mut infer_error) -> infer_status;
    /// As infer_session_tokens.
    pub fn infer_checkpoint_tokens(checkpoint: *const infer_checkpoint, first: u64, count: u64, ids: *mut i32, err: *mut infer_error) -> infer_status;
    /// Replaces everything that the session holds by the checkpoint's state, its context length and KV type included; the handle stays, and
    /// so do cache flags and salt. A failed call leaves the session as it was. Errors: ARGUMENT (a checkpoint of another model), NO_MEMORY.
    pub fn infer_session_restore(session: *mut infer_session, checkpoint: *const infer_checkpoint, err: *mut infer_error) -> infer_status;
    /// A new session with the checkpoint's state, and the cache flags and salt of the session that it was made of. Files do not keep those: for a tenant's
    /// file, create a session with the tenant's salt and restore into it. Errors: NO_MEMORY.
    pub fn infer_checkpoint_session(checkpoint: *const infer_checkpoint, out: *mut *mut infer_session, err: *mut infer_error) -> infer_status;
    /// path NULL (with path_len 0): a store in memory, which keeps a reference on each checkpoint; nothing is copied. Else a store in that directory, which
    /// is made, for this user alone, if there is none (but not its parents): a checkpoint file for each name, whole and synced when put returns, mapped when it is got. Other
    /// processes may use the directory too; a copy or snapshot of it, taken at any moment, is a store. There, the calls below may also give the errors of
    /// infer_checkpoint_save and infer_checkpoint_open, and names are at most 247 bytes long, bytes other than a-z 0-9 _ - . and those above 127 counted
    /// three times (ARGUMENT). engine is required; options may be NULL. Errors: ARGUMENT, NO_MEMORY; of directories IO, NOT_FOUND, UNSUPPORTED (a build without xxHash).
    pub fn infer_store_open(engine: *mut infer_engine, path: *const c_char, path_len: u64, options: *const infer_store_options, out: *mut *mut infer_store, err: *mut infer_error) -> infer_status;
    pub fn infer_store_ref(store: *mut infer_store) -> *mut infer_store;
    pub fn infer_store_release(store: *mut infer_store);
    /// Keeps a checkpoint under a name. Errors: ARGUMENT (name), EXISTS, LIMIT (of the store: nothing is dropped to make room), NO_MEMORY.
    pub fn infer_store_put(store: *mut infer_store, name: *const c_char, name_len: u64, checkpoint: *mut infer_checkpoint, flags: u32, cancel: *mut infer_cancel, err: *mut infer_error) -> infer_status;
    /// The checkpoint of that name. Errors: NOT_FOUND, ARGUMENT (name; in memory: it belongs to another model).
    pub fn infer_store_get(store: *mut infer_store, model: *mut infer_model, name: *const c_char, name_len: u64, cancel: *mut infer_cancel, out: *mut *mut infer_checkpoint, err: *mut infer_error) -> infer_status;
    /// The checkpoint of one name under a second one too. Errors: NOT_FOUND, EXISTS, LIMIT, ARGUMENT, NO_MEMORY.
    pub fn infer_store_branch(store: *mut infer_store, from: *const c_char, from_len: u64, to: *const c_char, to_len: u64, flags: u32, err: *mut infer_error) -> infer_status;
    /// Errors: NOT_FOUND, EXISTS, ARGUMENT.
    pub fn infer_store_rename(store: *mut infer_store, from: *const c_char, from_len: u64, to: *const c_char, to_len: u64, flags: u32, err: *mut infer_error) -> infer_status;
    /// Sessions and checkpoints that came from it stay. Errors: NOT_FOUND, ARGUMENT.
    pub fn infer_store_delete(store: *mut infer_store, name: *const c_char, name_len: u64, err: *mut infer_error) -> infer_status;
    /// Lists: the entry that follows the name `after` in the order of bytes, whether or not that one exists (NULL with length 0: the first).
    /// Of a damaged file in a directory only name and bytes are known; the rest is 0. Errors: NOT_FOUND (no more).
    pub fn infer_store_next(store: *mut infer_store, after: *const c_char, after_len: u64, out: *mut infer_store_entry, err: *mut infer_error) -> infer_status;
    /// Entries and bytes.
    pub fn infer_store_get_info(store: *mut infer_store, out: *mut infer_store_info, err: *mut infer_error) -> infer_status;
    /// What the last look-up in the prefix cache gave. Errors: none for a session.
    pub fn infer_session_cache_report(session: *const infer_session, out: *mut infer_cache_report, err: *mut infer_error) -> infer_status;
    /// All zero without a cache.
    pub fn infer_engine_cache_stats(engine: *mut infer_engine, out: *mut infer_cache_stats, err: *mut infer_error) -> infer_status;
    /// Writes everything that is kept to cache_dir, within its budgets: before an orderly shutdown. What a call that failed did not write the next one writes.
    /// Errors: STATE (no cache_dir), IO, NOT_FOUND (the folder has gone), NO_MEMORY, CANCELLED.
    pub fn infer_engine_cache_flush(engine: *mut infer_engine, cancel: *mut infer_cancel, err: *mut infer_error) -> infer_status;
    /// Forgets everything that is kept in memory. Sessions and files are not affected.
    pub fn infer_engine_cache_clear(engine: *mut infer_engine, err: *mut infer_error) -> infer_status;
    /// Writes a file: under a temporary name, synced, renamed over whatever had the name; so the path names the old file, or the new one whole, even after a
    /// crash (IO with a text that begins "done, but": it names the new one, which may not survive a crash). Temporary files of processes that died in this folder are removed. options may be NULL. The checkpoint may be used meanwhile.
    /// Errors: IO (the text says when the disk is full), NOT_FOUND (the folder, or the parent), ARGUMENT (also a path that an ancestor has), UNSUPPORTED (no zstd in this build; a folder,
    /// device or pipe has the name), LIMIT (the parent has 64 ancestors: save whole), CANCELLED, NO_MEMORY, those of opening the parent, FORMAT or CHANGED when the checkpoint itself came
    /// from a file that is damaged.
    pub fn infer_checkpoint_save(checkpoint: *const infer_checkpoint, path: *const c_char, path_len: u64, options: *const infer_save_options, cancel: *mut infer_cancel, err: *mut infer_error) -> infer_status;
    /// Opens a file as a checkpoint of this model. options may be NULL. A delta file opens its ancestors too.
    /// Errors: NOT_FOUND (the file, or a parent), IO, FORMAT (no checkpoint file, or damaged), TRUNCATED, VALUE (made with another model, tokenizer, adapter
    /// set, KV layout, numerics mode or numerics version: the text says which), UNSUPPORTED (a newer format, or compressed and this build has no
    /// zstd), CHANGED (the parent is not the file it was made from), LIMIT (also the KV budget, when compressed), CANCELLED, NO_MEMORY.
    pub fn infer_checkpoint_open(model: *mut infer_model, path: *const c_char, path_len: u64, options: *const infer_load_options, cancel: *mut infer_cancel, out: *mut *mut infer_checkpoint, err: *mut infer_error) -> infer_status;
    /// Copies a file, whole or not at all; its blocks are shared where the file system can do that (Btrfs, XFS, ZFS with block cloning). A delta file needs its
    /// ancestors in the new folder too. engine lends allocator and log; NULL: the defaults.
    pub fn infer_checkpoint_clone_file(engine: *mut infer_engine, from: *const c_char, from_len: u64, to: *const c_char, to_len: u64, cancel: *mut infer_cancel, err: *mut infer_error) -> infer_status;
    /// What tells this model's file from others; the same for copies of the file on any machine. XXH3, so no defence against forgery. Errors: UNSUPPORTED,
    /// CHANGED, CANCELLED.
    pub fn infer_model_fingerprint(model: *mut infer_model, kind: i32, out: *mut u8, cancel: *mut infer_cancel, err: *mut infer_error) -> infer_status;
    /// Context shift: drops the elements [keep, keep + drop) and moves those behind them down. The first `keep` stay as attention sinks: models need their
    /// first few elements (4, or the system prompt). Where a sliding window has lost what it would see now, the elements behind `keep` become pending
    /// instead: that is exact. Errors: ARGUMENT (keep or drop beyond the length; named), UNSUPPORTED (a model with learned positions), and those of
    /// infer_step.
    pub fn infer_session_shift(session: *mut infer_session, keep: u64, drop: u64, err: *mut infer_error) -> infer_status;
    /// Graft: appends the elements [first, first + count) of a checkpoint of the same model and KV type, with their state taken from it. The first
    /// `recompute` of them are computed here, after the session's own elements, which mends the seam. All keep the adapters that they have there. When the
    /// session's elements are just those that lie
    /// before `first` in the checkpoint, nothing is recomputed, pages are shared, and the result is exact and not marked. *rerun (may be NULL): how many of the
    /// elements were or (where a sliding window lacks what it needs: pending now) have to be computed.
    /// Errors: ARGUMENT (another model or KV type; first, count or recompute beyond what is there; named), STATE (the session has pending elements),
    /// CONTEXT_FULL, UNSUPPORTED (learned positions, and not exact), those of infer_step.
    pub fn infer_session_graft(session: *mut infer_session, checkpoint: *const infer_checkpoint, first: u64, count: u64, recompute: u64, rerun: *mut u64, cancel: *mut infer_cancel, err: *mut infer_error) -> infer_status;
}

/// (struct, field, offset found, offset in C) of every field: for compilers without offset_of.
#[cfg(target_pointer_width = "64")]
pub fn layout() -> Vec<(&'static str, &'static str, usize, usize)> {
    macro_rules! at {
        ($s:ident, $f:ident, $n:expr) => {{
            let x = core::mem::MaybeUninit::<$s>::uninit();
            let base = x.as_ptr();
            // SAFETY: only the address is taken.
            let field = unsafe { core::ptr::addr_of!((*base).$f) };
            (stringify!($s), stringify!($f), field as usize - base as usize, $n)
        }};
    }
    vec![
        at!(infer_error, size, 0),
        at!(infer_error, code, 4),
        at!(infer_error, offset, 8),
        at!(infer_error, file, 16),
        at!(infer_error, name, 272),
        at!(infer_error, text, 400),
        at!(infer_allocator, size, 0),
        at!(infer_allocator, reserved, 4),
        at!(infer_allocator, user, 8),
        at!(infer_allocator, alloc, 16),
        at!(infer_allocator, free, 24),
        at!(infer_executor, size, 0),
        at!(infer_executor, concurrency, 4),
        at!(infer_executor, user, 8),
        at!(infer_executor, run, 16),
        at!(infer_engine_options, size, 0),
        at!(infer_engine_options, cpu, 4),
        at!(infer_engine_options, numerics, 8),
        at!(infer_engine_options, threads, 12),
        at!(infer_engine_options, kv_budget, 16),
        at!(infer_engine_options, allocator, 24),
        at!(infer_engine_options, log, 32),
        at!(infer_engine_options, log_user, 40),
        at!(infer_engine_options, log_level, 48),
        at!(infer_engine_options, reserved, 52),
        at!(infer_engine_options, executor, 56),
        at!(infer_engine_options, cache_bytes, 64),
        at!(infer_engine_options, cache_dir, 72),
        at!(infer_engine_options, cache_dir_len, 80),
        at!(infer_engine_options, cache_dir_bytes, 88),
        at!(infer_engine_options, cache_write_bytes, 96),
        at!(infer_engine_options, memory_limit, 104),
        at!(infer_engine_info, size, 0),
        at!(infer_engine_info, cpu, 4),
        at!(infer_engine_info, numerics, 8),
        at!(infer_engine_info, threads, 12),
        at!(infer_engine_info, kv_bytes, 16),
        at!(infer_engine_info, kv_budget, 24),
        at!(infer_engine_info, memory_bytes, 32),
        at!(infer_engine_info, memory_peak, 40),
        at!(infer_engine_info, memory_limit, 48),
        at!(infer_stream, size, 0),
        at!(infer_stream, reserved, 4),
        at!(infer_stream, length, 8),
        at!(infer_stream, data, 16),
        at!(infer_stream, user, 24),
        at!(infer_stream, read, 32),
        at!(infer_stream, release, 40),
        at!(infer_source, size, 0),
        at!(infer_source, kind, 4),
        at!(infer_source, name, 8),
        at!(infer_source, name_len, 16),
        at!(infer_source, descriptor, 24),
        at!(infer_source, data, 32),
        at!(infer_source, length, 40),
        at!(infer_source, user, 48),
        at!(infer_source, open, 56),
        at!(infer_open_options, size, 0),
        at!(infer_open_options, map, 4),
        at!(infer_open_options, cancel, 8),
        at!(infer_open_options, n_ctx, 16),
        at!(infer_open_options, quantise, 20),
        at!(infer_tensor_info, size, 0),
        at!(infer_tensor_info, type_, 4),
        at!(infer_tensor_info, name, 8),
        at!(infer_tensor_info, name_len, 16),
        at!(infer_tensor_info, shape, 24),
        at!(infer_tensor_info, dims, 56),
        at!(infer_tensor_info, part, 60),
        at!(infer_tensor_info, offset, 64),
        at!(infer_tensor_info, data, 72),
        at!(infer_tensor_info, data_len, 80),
        at!(infer_value, size, 0),
        at!(infer_value, kind, 4),
        at!(infer_value, item_kind, 8),
        at!(infer_value, width, 12),
        at!(infer_value, count, 16),
        at!(infer_value, u, 24),
        at!(infer_value, i, 32),
        at!(infer_value, f, 40),
        at!(infer_value, data, 48),
        at!(infer_tokenizer_info, size, 0),
        at!(infer_tokenizer_info, kind, 4),
        at!(infer_tokenizer_info, vocab_size, 8),
        at!(infer_tokenizer_info, bos, 12),
        at!(infer_tokenizer_info, eos, 16),
        at!(infer_tokenizer_info, eot, 20),
        at!(infer_tokenizer_info, unk, 24),
        at!(infer_tokenizer_info, sep, 28),
        at!(infer_tokenizer_info, pad, 32),
        at!(infer_tokenizer_info, mask, 36),
        at!(infer_tokenizer_info, add_bos, 40),
        at!(infer_tokenizer_info, add_eos, 44),
        at!(infer_tokenizer_info, reserved, 48),
        at!(infer_detokenizer, size, 0),
        at!(infer_detokenizer, flags, 4),
        at!(infer_detokenizer, pending_len, 8),
        at!(infer_detokenizer, started, 12),
        at!(infer_detokenizer, pending, 16),
        at!(infer_token_info, size, 0),
        at!(infer_token_info, kind, 4),
        at!(infer_token_info, score, 8),
        at!(infer_token_info, ends_turn, 12),
        at!(infer_token_info, piece, 16),
        at!(infer_token_info, piece_len, 24),
        at!(infer_token_info, bytes, 32),
        at!(infer_token_info, bytes_len, 40),
        at!(infer_render_options, size, 0),
        at!(infer_render_options, reserved, 4),
        at!(infer_render_options, now, 8),
        at!(infer_render_options, max_output, 16),
        at!(infer_render_options, max_steps, 24),
        at!(infer_render_options, max_memory, 32),
        at!(infer_render_options, cancel, 40),
        at!(infer_model_info, size, 0),
        at!(infer_model_info, vocab_size, 4),
        at!(infer_model_info, n_layer, 8),
        at!(infer_model_info, n_embd, 12),
        at!(infer_model_info, n_head, 16),
        at!(infer_model_info, n_head_kv, 20),
        at!(infer_model_info, head_dim, 24),
        at!(infer_model_info, n_ctx_train, 28),
        at!(infer_model_info, window, 32),
        at!(infer_model_info, reserved, 36),
        at!(infer_model_info, n_params, 40),
        at!(infer_model_info, weight_bytes, 48),
        at!(infer_model_info, architecture, 56),
        at!(infer_model_info, name, 88),
        at!(infer_model_info, tokenizer_problem, 216),
        at!(infer_model_info, template_problem, 472),
        at!(infer_model_info, embedding_width, 728),
        at!(infer_model_info, pooling, 732),
        at!(infer_model_info, encoder, 736),
        at!(infer_model_info, embed_tokens, 740),
        at!(infer_model_memory, size, 0),
        at!(infer_model_memory, n_expert, 4),
        at!(infer_model_memory, n_expert_used, 8),
        at!(infer_model_memory, reserved, 12),
        at!(infer_model_memory, weight_bytes, 16),
        at!(infer_model_memory, resident_bytes, 24),
        at!(infer_model_memory, expert_bytes, 32),
        at!(infer_model_memory, expert_resident_bytes, 40),
        at!(infer_model_memory, own_bytes, 48),
        at!(infer_estimate_options, size, 0),
        at!(infer_estimate_options, kv_type, 4),
        at!(infer_estimate_options, n_ctx, 8),
        at!(infer_estimate_options, sessions, 12),
        at!(infer_estimate_options, kv_recent, 16),
        at!(infer_estimate_options, threads, 20),
        at!(infer_estimate_options, budget, 24),
        at!(infer_estimate, size, 0),
        at!(infer_estimate, n_ctx, 4),
        at!(infer_estimate, weight_bytes, 8),
        at!(infer_estimate, mapped_bytes, 16),
        at!(infer_estimate, own_bytes, 24),
        at!(infer_estimate, kv_bytes, 32),
        at!(infer_estimate, scratch_bytes, 40),
        at!(infer_estimate, open_bytes, 48),
        at!(infer_estimate, memory_bytes, 56),
        at!(infer_estimate, total_bytes, 64),
        at!(infer_session_options, size, 0),
        at!(infer_session_options, n_ctx, 4),
        at!(infer_session_options, kv_type, 8),
        at!(infer_session_options, kv_recent, 12),
        at!(infer_session_options, cache_flags, 16),
        at!(infer_session_options, salt_len, 20),
        at!(infer_session_options, salt, 24),
        at!(infer_message, role, 0),
        at!(infer_message, role_len, 8),
        at!(infer_message, content, 16),
        at!(infer_message, content_len, 24),
        at!(infer_session_info, size, 0),
        at!(infer_session_info, n_ctx, 4),
        at!(infer_session_info, length, 8),
        at!(infer_session_info, computed, 16),
        at!(infer_session_info, kv_bytes, 24),
        at!(infer_session_info, logits_rows, 32),
        at!(infer_session_info, kv_shared_bytes, 40),
        at!(infer_session_info, kv_mapped_bytes, 48),
        at!(infer_session_info, approximate, 56),
        at!(infer_session_info, kv_recent, 60),
        at!(infer_session_info, adapters, 64),
        at!(infer_hidden, size, 0),
        at!(infer_hidden, elements, 4),
        at!(infer_hidden, mask, 8),
        at!(infer_hidden, layers, 16),
        at!(infer_hidden, layer_count, 24),
        at!(infer_hidden, reserved, 28),
        at!(infer_hidden, out, 32),
        at!(infer_hidden, capacity, 40),
        at!(infer_hidden, rows, 48),
        at!(infer_step_item, size, 0),
        at!(infer_step_item, status, 4),
        at!(infer_step_item, session, 8),
        at!(infer_step_item, max_elements, 16),
        at!(infer_step_item, mask, 24),
        at!(infer_step_item, logits, 32),
        at!(infer_step_item, reserved, 36),
        at!(infer_step_item, done, 40),
        at!(infer_step_item, hidden, 48),
        at!(infer_bias, id, 0),
        at!(infer_bias, bias, 4),
        at!(infer_sampling, size, 0),
        at!(infer_sampling, top_k, 4),
        at!(infer_sampling, temperature, 8),
        at!(infer_sampling, top_p, 12),
        at!(infer_sampling, min_p, 16),
        at!(infer_sampling, typical_p, 20),
        at!(infer_sampling, repetition_penalty, 24),
        at!(infer_sampling, presence_penalty, 28),
        at!(infer_sampling, frequency_penalty, 32),
        at!(infer_sampling, penalty_last_n, 36),
        at!(infer_sampling, seed, 40),
        at!(infer_sampling, bias, 48),
        at!(infer_sampling, bias_count, 56),
        at!(infer_sampling, callback, 64),
        at!(infer_sampling, callback_user, 72),
        at!(infer_sampling, top_logprobs, 80),
        at!(infer_sampling, logprobs, 84),
        at!(infer_logprob, id, 0),
        at!(infer_logprob, logprob, 4),
        at!(infer_sample_result, size, 0),
        at!(infer_sample_result, id, 4),
        at!(infer_sample_result, logprob, 8),
        at!(infer_sample_result, top_count, 12),
        at!(infer_sample_result, top, 16),
        at!(infer_score, size, 0),
        at!(infer_score, top_logprobs, 4),
        at!(infer_score, logprobs, 8),
        at!(infer_score, top, 16),
        at!(infer_score, first, 24),
        at!(infer_score, sum, 32),
        at!(infer_event, size, 0),
        at!(infer_event, kind, 4),
        at!(infer_event, id, 8),
        at!(infer_event, finish_reason, 12),
        at!(infer_event, text, 16),
        at!(infer_event, text_len, 24),
        at!(infer_event, done, 32),
        at!(infer_event, total, 40),
        at!(infer_event, logprob, 48),
        at!(infer_event, top_count, 52),
        at!(infer_event, top, 56),
        at!(infer_event, stop_index, 64),
        at!(infer_event, reserved, 68),
        at!(infer_text, text, 0),
        at!(infer_text, text_len, 8),
        at!(infer_generate_options, size, 0),
        at!(infer_generate_options, flags, 4),
        at!(infer_generate_options, max_tokens, 8),
        at!(infer_generate_options, shift_keep, 16),
        at!(infer_generate_options, shift_drop, 24),
        at!(infer_generate_options, stops, 32),
        at!(infer_generate_options, stop_count, 40),
        at!(infer_generate_options, stop_ids, 48),
        at!(infer_generate_options, stop_id_count, 56),
        at!(infer_generate_options, repeat_guard, 64),
        at!(infer_adapter_info, size, 0),
        at!(infer_adapter_info, kind, 4),
        at!(infer_adapter_info, hash, 8),
        at!(infer_adapter_info, targets, 24),
        at!(infer_adapter_info, bytes, 32),
        at!(infer_adapter_info, own_bytes, 40),
        at!(infer_adapter_info, rank, 48),
        at!(infer_adapter_info, rows, 52),
        at!(infer_adapter_info, invocation_count, 56),
        at!(infer_adapter_info, reserved, 60),
        at!(infer_adapter_info, base, 64),
        at!(infer_adapter_use, size, 0),
        at!(infer_adapter_use, mode, 4),
        at!(infer_adapter_use, adapter, 8),
        at!(infer_adapter_use, scale, 16),
        at!(infer_adapter_use, first_layer, 20),
        at!(infer_adapter_use, layer_count, 24),
        at!(infer_adapter_use, reserved, 28),
        at!(infer_embed_options, size, 0),
        at!(infer_embed_options, pooling, 4),
        at!(infer_embed_options, flags, 8),
        at!(infer_embed_options, dimensions, 12),
        at!(infer_embed_options, max_tokens, 16),
        at!(infer_embed_item, size, 0),
        at!(infer_embed_item, status, 4),
        at!(infer_embed_item, text, 8),
        at!(infer_embed_item, text_len, 16),
        at!(infer_embed_item, ids, 24),
        at!(infer_embed_item, id_count, 32),
        at!(infer_embed_item, out, 40),
        at!(infer_embed_item, capacity, 48),
        at!(infer_embed_item, rows, 56),
        at!(infer_embed_item, tokens, 64),
        at!(infer_embed_item, truncated, 72),
        at!(infer_embed_item, reserved, 76),
        at!(infer_scheduler_options, size, 0),
        at!(infer_scheduler_options, max_active, 4),
        at!(infer_scheduler_options, max_waiting, 8),
        at!(infer_scheduler_options, step_elements, 12),
        at!(infer_scheduler_options, kv_budget, 16),
        at!(infer_scheduler_options, reserve_tokens, 24),
        at!(infer_scheduler_options, clock, 32),
        at!(infer_scheduler_options, clock_user, 40),
        at!(infer_scheduler_options, spill_path, 48),
        at!(infer_scheduler_options, spill_path_len, 56),
        at!(infer_scheduler_info, size, 0),
        at!(infer_scheduler_info, active, 4),
        at!(infer_scheduler_info, waiting, 8),
        at!(infer_scheduler_info, suspended, 16),
        at!(infer_scheduler_info, submitted, 24),
        at!(infer_scheduler_info, finished, 32),
        at!(infer_scheduler_info, cancelled, 40),
        at!(infer_scheduler_info, failed, 48),
        at!(infer_scheduler_info, steps, 56),
        at!(infer_scheduler_info, prompt_tokens, 64),
        at!(infer_scheduler_info, cached_tokens, 72),
        at!(infer_scheduler_info, generated_tokens, 80),
        at!(infer_scheduler_info, preemptions, 88),
        at!(infer_scheduler_info, kv_bytes, 96),
        at!(infer_scheduler_info, kv_budget, 104),
        at!(infer_scheduler_info, computed, 112),
        at!(infer_request_event, size, 0),
        at!(infer_request_event, kind, 4),
        at!(infer_request_event, choice, 8),
        at!(infer_request_event, id, 12),
        at!(infer_request_event, finish_reason, 16),
        at!(infer_request_event, stop_index, 20),
        at!(infer_request_event, text, 24),
        at!(infer_request_event, text_len, 32),
        at!(infer_request_event, done, 40),
        at!(infer_request_event, total, 48),
        at!(infer_request_event, logprob, 56),
        at!(infer_request_event, top_count, 60),
        at!(infer_request_event, top, 64),
        at!(infer_request_event, error, 72),
        at!(infer_request_options, size, 0),
        at!(infer_request_options, flags, 4),
        at!(infer_request_options, priority, 8),
        at!(infer_request_options, n, 12),
        at!(infer_request_options, client, 16),
        at!(infer_request_options, ids, 24),
        at!(infer_request_options, id_count, 32),
        at!(infer_request_options, text, 40),
        at!(infer_request_options, text_len, 48),
        at!(infer_request_options, messages, 56),
        at!(infer_request_options, message_count, 64),
        at!(infer_request_options, render, 72),
        at!(infer_request_options, text_flags, 80),
        at!(infer_request_options, reserved, 84),
        at!(infer_request_options, session, 88),
        at!(infer_request_options, checkpoint, 96),
        at!(infer_request_options, adapters, 104),
        at!(infer_request_options, adapter_count, 112),
        at!(infer_request_options, prompts, 120),
        at!(infer_request_options, prompt_count, 128),
        at!(infer_request_options, sampling, 136),
        at!(infer_request_options, generate, 144),
        at!(infer_request_options, time_limit, 152),
        at!(infer_request_options, callback, 160),
        at!(infer_request_options, callback_user, 168),
        at!(infer_request_info, size, 0),
        at!(infer_request_info, cache_reason, 4),
        at!(infer_request_info, prompt_tokens, 8),
        at!(infer_request_info, cached_tokens, 16),
        at!(infer_request_info, generated_tokens, 24),
        at!(infer_request_info, near_length, 32),
        at!(infer_request_info, difference, 40),
        at!(infer_request_info, preemptions, 48),
        at!(infer_request_info, submitted, 56),
        at!(infer_request_info, started, 64),
        at!(infer_request_info, first_token, 72),
        at!(infer_request_info, ended, 80),
        at!(infer_request_info, prompt_logprob, 88),
        at!(infer_request_info, own_reason, 96),
        at!(infer_request_info, reserved, 100),
        at!(infer_checkpoint_info, size, 0),
        at!(infer_checkpoint_info, n_ctx, 4),
        at!(infer_checkpoint_info, kv_type, 8),
        at!(infer_checkpoint_info, approximate, 12),
        at!(infer_checkpoint_info, length, 16),
        at!(infer_checkpoint_info, computed, 24),
        at!(infer_checkpoint_info, kv_bytes, 32),
        at!(infer_checkpoint_info, kv_shared_bytes, 40),
        at!(infer_checkpoint_info, kv_mapped_bytes, 48),
        at!(infer_checkpoint_info, logits_rows, 56),
        at!(infer_checkpoint_info, generating, 64),
        at!(infer_checkpoint_info, kv_recent, 68),
        at!(infer_checkpoint_info, bytes, 72),
        at!(infer_checkpoint_info, adapters, 80),
        at!(infer_store_options, size, 0),
        at!(infer_store_options, reserved, 4),
        at!(infer_store_options, max_bytes, 8),
        at!(infer_store_options, max_count, 16),
        at!(infer_store_entry, size, 0),
        at!(infer_store_entry, name_len, 4),
        at!(infer_store_entry, bytes, 8),
        at!(infer_store_entry, length, 16),
        at!(infer_store_entry, computed, 24),
        at!(infer_store_entry, kv_type, 32),
        at!(infer_store_entry, approximate, 36),
        at!(infer_store_entry, name, 40),
        at!(infer_store_info, size, 0),
        at!(infer_store_info, reserved, 4),
        at!(infer_store_info, count, 8),
        at!(infer_store_info, bytes, 16),
        at!(infer_cache_report, size, 0),
        at!(infer_cache_report, reason, 4),
        at!(infer_cache_report, wanted, 8),
        at!(infer_cache_report, reused, 16),
        at!(infer_cache_report, rerun, 24),
        at!(infer_cache_report, difference, 32),
        at!(infer_cache_report, near_length, 40),
        at!(infer_cache_report, own_reason, 48),
        at!(infer_cache_report, reserved, 52),
        at!(infer_cache_stats, size, 0),
        at!(infer_cache_stats, reserved, 4),
        at!(infer_cache_stats, lookups, 8),
        at!(infer_cache_stats, hits, 16),
        at!(infer_cache_stats, partial_hits, 24),
        at!(infer_cache_stats, saved, 32),
        at!(infer_cache_stats, rerun, 40),
        at!(infer_cache_stats, insertions, 48),
        at!(infer_cache_stats, evictions, 56),
        at!(infer_cache_stats, bytes, 64),
        at!(infer_cache_stats, nodes, 72),
        at!(infer_cache_stats, ghosts, 80),
        at!(infer_cache_stats, ghost_bytes, 88),
        at!(infer_cache_stats, disk_files, 96),
        at!(infer_cache_stats, disk_bytes, 104),
        at!(infer_cache_stats, disk_written, 112),
        at!(infer_cache_stats, disk_skipped, 120),
        at!(infer_cache_stats, disk_loaded, 128),
        at!(infer_cache_stats, disk_damaged, 136),
        at!(infer_save_options, size, 0),
        at!(infer_save_options, flags, 4),
        at!(infer_save_options, parent, 8),
        at!(infer_save_options, parent_len, 16),
        at!(infer_save_options, level, 24),
        at!(infer_save_options, reserved, 28),
        at!(infer_load_options, size, 0),
        at!(infer_load_options, map, 4),
        at!(infer_load_options, verify, 8),
        at!(infer_load_options, reserved, 12),
        at!(infer_load_options, adapters, 16),
    ]
}

/// Names of all functions.
pub const FUNCTIONS: &[&str] = &[
    "infer_version",
    "infer_abi_version",
    "infer_numerics_version",
    "infer_capabilities",
    "infer_status_message",
    "infer_status_name",
    "infer_init",
    "infer_cancel_create",
    "infer_cancel_ref",
    "infer_cancel_release",
    "infer_cancel_set",
    "infer_cancel_clear",
    "infer_cancel_is_set",
    "infer_engine_create",
    "infer_engine_ref",
    "infer_engine_release",
    "infer_engine_get_info",
    "infer_cpu_name",
    "infer_cpu_from_name",
    "infer_source_path",
    "infer_source_descriptor",
    "infer_source_memory",
    "infer_source_callback",
    "infer_type_name",
    "infer_file_open",
    "infer_file_ref",
    "infer_file_release",
    "infer_file_tensor_count",
    "infer_file_tensor",
    "infer_file_find_tensor",
    "infer_file_tensor_f32",
    "infer_file_meta_count",
    "infer_file_meta",
    "infer_file_find_meta",
    "infer_file_value_item",
    "infer_tokenizer_open",
    "infer_tokenizer_ref",
    "infer_tokenizer_release",
    "infer_tokenizer_get_info",
    "infer_tokenize",
    "infer_detokenize",
    "infer_detokenizer_next",
    "infer_tokenizer_token",
    "infer_template_parse",
    "infer_template_open",
    "infer_template_ref",
    "infer_template_release",
    "infer_template_is_fallback",
    "infer_template_text",
    "infer_template_render",
    "infer_model_open",
    "infer_model_open_path",
    "infer_model_ref",
    "infer_model_release",
    "infer_model_tokenizer",
    "infer_model_template",
    "infer_model_file",
    "infer_model_engine",
    "infer_model_get_info",
    "infer_model_get_memory",
    "infer_model_estimate",
    "infer_session_create",
    "infer_session_ref",
    "infer_session_release",
    "infer_session_model",
    "infer_session_append",
    "infer_session_append_text",
    "infer_session_append_chat",
    "infer_session_append_rows",
    "infer_session_get_info",
    "infer_session_tokens",
    "infer_session_truncate",
    "infer_session_fork",
    "infer_step",
    "infer_session_logits",
    "infer_sampling_default",
    "infer_session_set_sampling",
    "infer_session_sample",
    "infer_session_score",
    "infer_generate_begin",
    "infer_generate_next",
    "infer_generate",
    "infer_adapter_open",
    "infer_adapter_open_path",
    "infer_adapter_ref",
    "infer_adapter_release",
    "infer_adapter_model",
    "infer_adapter_find",
    "infer_adapter_get_info",
    "infer_adapter_target",
    "infer_adapter_invocation",
    "infer_session_set_adapters",
    "infer_session_adapter",
    "infer_session_append_adapter",
    "infer_embed",
    "infer_scheduler_create",
    "infer_scheduler_ref",
    "infer_scheduler_release",
    "infer_scheduler_step",
    "infer_scheduler_wait",
    "infer_scheduler_wake",
    "infer_scheduler_get_info",
    "infer_scheduler_submit",
    "infer_request_ref",
    "infer_request_release",
    "infer_request_cancel",
    "infer_request_next",
    "infer_request_get_info",
    "infer_request_checkpoint",
    "infer_checkpoint_create",
    "infer_checkpoint_ref",
    "infer_checkpoint_release",
    "infer_checkpoint_model",
    "infer_checkpoint_get_info",
    "infer_checkpoint_tokens",
    "infer_session_restore",
    "infer_checkpoint_session",
    "infer_store_open",
    "infer_store_ref",
    "infer_store_release",
    "infer_store_put",
    "infer_store_get",
    "infer_store_branch",
    "infer_store_rename",
    "infer_store_delete",
    "infer_store_next",
    "infer_store_get_info",
    "infer_session_cache_report",
    "infer_engine_cache_stats",
    "infer_engine_cache_flush",
    "infer_engine_cache_clear",
    "infer_checkpoint_save",
    "infer_checkpoint_open",
    "infer_checkpoint_clone_file",
    "infer_model_fingerprint",
    "infer_session_shift",
    "infer_session_graft",
];
