//! Where the fields of CPython's own structures lie, by version.
//!
//! The offsets are of 64-bit Linux and stable within a minor version by CPython's own rule (debuggers rely on it). They
//! are trusted only after [`calibrate::check`](super::calibrate::check) has found each in its place: until then
//! [`raw_ok`] is false and nobody may read raw.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pyo3::ffi::{self, PyObject};

/// Whether frames are read by public functions alone: slower, but right on any CPython from 3.12 on. The build decides
/// (`build.rs`).
pub const PUBLIC: bool = cfg!(inviso_public_api);

/// Whether there is a table for the interpreter of this build, which uses it.
pub const KNOWN: bool = !PUBLIC
    && cfg!(all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        target_os = "linux",
        Py_3_11,
        not(Py_3_16),
        not(py_sys_config = "Py_TRACE_REFS"),
    ));

/// Bytes of the head of every object: 16, or 32 on a free-threaded build.
pub const HEAD: usize = size_of::<PyObject>();

/// In `PyThreadState`.
pub mod thread {
    /// The record that points to the current frame (before 3.13).
    #[cfg(not(Py_3_13))]
    pub const CFRAME: usize = 56;
    /// The current frame: in the thread state, before 3.13 in the record at `CFRAME`.
    pub const CURRENT_FRAME: usize = if cfg!(Py_3_13) {
        72
    } else if cfg!(Py_3_12) {
        0
    } else {
        8
    };
    /// The current `contextvars.Context`, or null.
    pub const CONTEXT: usize = if cfg!(Py_3_15) {
        232
    } else if cfg!(Py_3_12) {
        208
    } else {
        224
    };
    /// The profile function, and the object that goes with it. See [`check`](crate::hooks::profile::check).
    #[cfg(not(Py_3_12))]
    pub const PROFILE_FUNCTION: usize = 64;
    /// The profile function's object.
    #[cfg(not(Py_3_12))]
    pub const PROFILE_OBJECT: usize = 80;
    /// A u64 that every entry to and exit from a context increments.
    pub const CONTEXT_VERSION: usize = CONTEXT + 8;
    /// The running asyncio loop, or null (3.13; it is elsewhere before, and not needed after).
    #[cfg(all(Py_3_13, not(Py_3_14)))]
    pub const RUNNING_LOOP: usize = 304;
    /// The running asyncio task, or null (3.14 on).
    #[cfg(Py_3_14)]
    pub const RUNNING_TASK: usize = if cfg!(Py_3_15) { 1032 } else { 872 };
}

/// In `_PyInterpreterFrame`.
pub mod frame {
    /// The code object.
    pub const CODE: usize = if cfg!(Py_3_12) { 0 } else { 32 };
    /// The function object.
    pub const FUNCTION: usize = if cfg!(Py_3_12) { 16 } else { 0 };
    /// The frame below.
    pub const PREVIOUS: usize = if cfg!(Py_3_12) { 8 } else { 48 };
    /// The globals.
    pub const GLOBALS: usize = if cfg!(Py_3_12) { 24 } else { 8 };
    /// The owner of the frame's memory, an i8.
    pub const OWNER: usize = if cfg!(all(Py_3_14, Py_GIL_DISABLED)) {
        78
    } else if cfg!(Py_3_14) {
        74
    } else if cfg!(Py_3_12) {
        70
    } else {
        69
    };
    /// The first local variable.
    pub const LOCALS: usize = if cfg!(Py_3_14) { 80 } else { 72 };
}

/// In `PyCodeObject`.
pub mod code {
    use super::HEAD;
    /// `co_flags`, an i32.
    pub const FLAGS: usize = HEAD + 32;
    /// The constants, a tuple.
    pub const CONSTANTS: usize = HEAD + 8;
    /// `co_argcount`, an i32.
    pub const ARGCOUNT: usize = HEAD + if cfg!(Py_3_12) { 36 } else { 40 };
    /// `co_posonlyargcount`, an i32.
    pub const POSONLYARGCOUNT: usize = ARGCOUNT + 4;
    /// `co_kwonlyargcount`, an i32.
    pub const KWONLYARGCOUNT: usize = ARGCOUNT + 8;
    /// `co_firstlineno`, an i32.
    pub const FIRSTLINENO: usize = ARGCOUNT + 16;
    /// `co_localsplusnames`, a tuple.
    pub const LOCALSPLUSNAMES: usize = HEAD + 80;
    /// `co_localspluskinds`, a bytes object.
    pub const LOCALSPLUSKINDS: usize = HEAD + 88;
    /// `co_filename`.
    pub const FILENAME: usize = HEAD + 96;
    /// `co_qualname`.
    pub const QUALNAME: usize = HEAD + 112;
}

/// Offsets that only a frame evaluation function needs.
#[cfg(not(Py_3_12))]
pub mod eval {
    /// In `_PyInterpreterFrame`: the frame object, or null.
    pub const FRAME_OBJECT: usize = 40;
    /// In `_PyInterpreterFrame`: the instruction that ran last.
    pub const LAST_INSTRUCTION: usize = 56;
    /// In `PyCodeObject`: `co_exceptiontable`, a bytes object.
    pub const EXCEPTION_TABLE: usize = super::HEAD + 24;
    /// In `PyCodeObject`: the index of the first instruction of the function's own, an i32.
    pub const FIRST_TRACEABLE: usize = 168;
    /// In `PyCodeObject`: the first instruction.
    pub const INSTRUCTIONS: usize = 184;
    /// From a generator's frame back to the generator's state, an i8.
    pub const STATE_BEFORE_FRAME: usize = 5;
    /// The state of a generator that has yielded.
    pub const SUSPENDED: i8 = -1;
}

/// In `PyFunctionObject`.
pub mod function {
    /// `func_qualname`.
    pub const QUALNAME: usize = super::HEAD + 24;
}

/// From a generator object to the frame in it.
pub const GENERATOR_FRAME: usize = HEAD + if cfg!(Py_3_12) { 56 } else { 64 };
/// From a generator object to its state, an i8 that grows from its beginning to its end.
pub const GENERATOR_STATE: usize = GENERATOR_FRAME - 5;
/// From a bytes object to its first byte.
pub const BYTES_DATA: usize = HEAD + 16;
/// From a cell to its contents.
pub const CELL_CONTENTS: usize = HEAD;
/// The owner of a frame that lies in a generator.
pub const OWNER_GENERATOR: i8 = 1;
/// From this owner on a frame is not a Python function's.
pub const OWNER_SHIM: i8 = 3;
/// The bits of a frame's word that are an object's address.
pub const OBJECT_MASK: usize = if cfg!(Py_3_14) { !3 } else { !0 };

pub(crate) static RAW: AtomicBool = AtomicBool::new(false);
pub(crate) static DUNDER_NAME: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// Whether raw reads are right on this interpreter: [`calibrate::check`](super::calibrate::check) has run and found
/// every offset as expected.
#[inline(always)]
pub fn raw_ok() -> bool {
    KNOWN && RAW.load(Ordering::Relaxed)
}

/// Whether frames and code objects can be read, raw or by public functions.
#[inline(always)]
pub fn is_readable() -> bool {
    PUBLIC || raw_ok()
}

/// The `T` at `offset` from `base`.
///
/// # Safety
/// There is an aligned, initialised `T` there.
#[inline(always)]
pub(crate) unsafe fn at<T: Copy>(base: *mut u8, offset: usize) -> T {
    // SAFETY: the caller promises that there is an aligned, initialised `T` there.
    unsafe { base.add(offset).cast::<T>().read() }
}

/// Whether a call of `code` makes a generator, coroutine or asynchronous generator.
///
/// # Safety
/// `code` is a code object, and the offsets are checked.
#[inline]
pub unsafe fn makes_generator(code: *mut PyObject) -> bool {
    const GENERATORS: i32 = ffi::CO_GENERATOR | ffi::CO_COROUTINE | ffi::CO_ASYNC_GENERATOR;
    // SAFETY: a plain integer.
    unsafe { at::<i32>(code.cast(), code::FLAGS) & GENERATORS != 0 }
}

/// The interned str `"__name__"`, borrowed; null before [`calibrate::check`](super::calibrate::check) has run.
#[inline(always)]
pub(crate) fn dunder_name() -> *mut PyObject {
    DUNDER_NAME.load(Ordering::Relaxed)
}
