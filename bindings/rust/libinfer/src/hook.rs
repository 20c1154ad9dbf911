//! What a host lends an engine: memory accounts, threads, a log. All of it is called from inside the library.
use crate::engine::LogLevel;
use crate::ffi::{self, guard};
use libinfer_sys as sys;
use std::alloc::{alloc, dealloc, Layout};
use std::os::raw::{c_char, c_void};
use std::ptr::null_mut;

/// Hears of every block that an engine, its models and their sessions take, and may refuse it. The memory itself is the Rust allocator's.
/// Called from any thread that is inside the library; it must not call the library.
pub trait MemoryHook: Send + Sync {
    /// A block of so many bytes is wanted; false: refuse it, as if memory had run out.
    fn allocate(&self, bytes: u64) -> bool;
    /// A block of so many bytes was given back.
    fn release(&self, bytes: u64);
}

/// Lends the host's own threads to an engine, which then starts none. Results do not depend on how tasks are run.
pub trait Executor: Send + Sync {
    /// Into how many workers a job is cut at most: 1 to 256.
    fn concurrency(&self) -> u32;
    /// Calls `task(i)` once for each i below `count`, in any order, on any threads, and returns when all have returned. The step fails with
    /// [`ErrorKind::Host`](crate::ErrorKind::Host) when a call is left out or made twice. Called for every job (about a hundred in a forward pass), from
    /// inside a call on this engine: it must not call the library otherwise.
    fn run(&self, count: u32, task: &(dyn Fn(u32) + Sync));
}

pub(crate) type Log = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

/// Closures of an engine's host. Everything made with the engine keeps them, so they live until the last C object of it is gone.
pub(crate) struct Hooks {
    pub(crate) log: Option<Log>,
    pub(crate) memory: Option<Box<dyn MemoryHook>>,
    pub(crate) executor: Option<Box<dyn Executor>>,
}

/// # Safety
/// user is a Hooks that lives.
unsafe fn hooks<'a>(user: *mut c_void) -> &'a Hooks {
    // SAFETY: the caller's promise.
    unsafe { &*user.cast::<Hooks>() }
}

pub(crate) unsafe extern "C" fn log(user: *mut c_void, level: i32, text: *const c_char, text_len: u64) {
    guard((), || {
        // SAFETY: user is the engine's Hooks; text has text_len bytes.
        let (hooks, text) = unsafe { (hooks(user), ffi::slice(text.cast::<u8>(), text_len)) };
        if let Some(log) = &hooks.log {
            log(LogLevel::from_raw(level), &String::from_utf8_lossy(text));
        }
    })
}

fn layout(bytes: u64, align: u64) -> Option<Layout> {
    Layout::from_size_align(usize::try_from(bytes.max(1)).ok()?, usize::try_from(align).ok()?).ok()
}

pub(crate) unsafe extern "C" fn take(user: *mut c_void, bytes: u64, align: u64) -> *mut c_void {
    guard(null_mut(), || {
        // SAFETY: user is the engine's Hooks.
        let memory = match unsafe { &hooks(user).memory } {
            Some(memory) => memory,
            None => return null_mut(),
        };
        let layout = match layout(bytes, align) {
            Some(layout) if memory.allocate(bytes) => layout,
            _ => return null_mut(),
        };
        // SAFETY: the layout's size is not 0.
        let block = unsafe { alloc(layout) };
        if block.is_null() {
            memory.release(bytes);
        }
        block.cast()
    })
}

pub(crate) unsafe extern "C" fn give(user: *mut c_void, block: *mut c_void, bytes: u64, align: u64) {
    if let (Some(layout), false) = (layout(bytes, align), block.is_null()) {
        // SAFETY: the block came from take with these numbers.
        unsafe { dealloc(block.cast(), layout) };
    }
    guard((), || {
        // SAFETY: user is the engine's Hooks.
        if let Some(memory) = unsafe { &hooks(user).memory } {
            memory.release(bytes);
        }
    })
}

/// What tasks of a job are called with: pointers that C said any thread may use.
struct Job {
    task: unsafe extern "C" fn(*mut c_void, u32),
    arg: *mut c_void,
    count: u32,
}
// SAFETY: the library's contract: tasks run on any threads, at once.
unsafe impl Sync for Job {}

impl Job {
    fn run(&self, index: u32) {
        if index < self.count {
            // SAFETY: the library checks that each index comes once; the job lives until run returns, and the borrow keeps tasks inside it.
            unsafe { (self.task)(self.arg, index) }
        }
    }
}

pub(crate) unsafe extern "C" fn run(user: *mut c_void, count: u32, task: sys::infer_task_fn, arg: *mut c_void) -> i32 {
    guard(1, || {
        // SAFETY: user is the engine's Hooks.
        let (executor, task) = match (unsafe { &hooks(user).executor }, task) {
            (Some(executor), Some(task)) => (executor, task),
            _ => return 1,
        };
        let job = Job { task, arg, count };
        executor.run(count, &|index| job.run(index));
        0
    })
}
