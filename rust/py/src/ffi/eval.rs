//! CPython 3.11's way to see every call: a frame evaluation function (PEP 523) in front of the interpreter's own.
//!
//! There is one per interpreter. Ours calls on whatever was there before (the interpreter's own, or another tool's), and is
//! never unloaded: frames that were entered through it end through it, also after [`remove`].
//!
//! While one is in, each Python call takes C stack, which it doesn't on an untouched 3.11: some 420 bytes and the
//! function's own frame. [`Stack::room`] tells when to stop; the rest of the function should be in cold helpers.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi::{self, _PyFrameEvalFunction as EvalFunction, _PyInterpreterFrame, PyObject, PyThreadState};
use pyo3::prelude::*;

/// C stack that must be left before a frame evaluation function may do more than call on.
pub const RESERVE: usize = 64 * 1024;

extern "C" {
    fn _PyEval_EvalFrameDefault(
        tstate: *mut PyThreadState, frame: *mut _PyInterpreterFrame, throwflag: c_int,
    ) -> *mut PyObject;
}

/// The function that ours calls on; null while there has been none.
static PREDECESSOR: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Puts `function` in, in front of what is there. Installing it twice changes nothing.
///
/// # Safety
/// `function` is never unloaded, and answers every frame by [`call_on`] or as it would. There is one such function in this
/// process. The frames that already run are not seen; what they call from now on is.
pub unsafe fn install(_py: Python<'_>, function: EvalFunction) {
    // SAFETY: attached, so the interpreter is there and nobody else changes its function meanwhile. The predecessor is
    // stored before a frame can reach `function`.
    unsafe {
        let interpreter = ffi::PyInterpreterState_Get();
        let there = ffi::_PyInterpreterState_GetEvalFrameFunc(interpreter);
        if there as usize == function as usize {
            return;
        }
        PREDECESSOR.store(there as *mut c_void, Ordering::Release);
        ffi::_PyInterpreterState_SetEvalFrameFunc(interpreter, Some(function));
    }
}

/// Takes `function` out again, if it is on top; false if another tool put its own in front, which then stays, and so does
/// ours beneath it: it should call on.
///
/// # Safety
/// `function` is the one that was installed.
pub unsafe fn remove(_py: Python<'_>, function: EvalFunction) -> bool {
    // SAFETY: attached; the predecessor is a function of this type, stored by `install`.
    unsafe {
        if !is_installed(_py, function) {
            return false;
        }
        ffi::_PyInterpreterState_SetEvalFrameFunc(ffi::PyInterpreterState_Get(), Some(predecessor()));
    }
    true
}

/// Whether `function` is on top.
pub fn is_installed(_py: Python<'_>, function: EvalFunction) -> bool {
    // SAFETY: attached, so the interpreter is there.
    let there = unsafe { ffi::_PyInterpreterState_GetEvalFrameFunc(ffi::PyInterpreterState_Get()) };
    there as usize == function as usize
}

/// A frame evaluation function through which a thread may be unwound.
pub type Unwinding = unsafe extern "C-unwind" fn(*mut PyThreadState, *mut _PyInterpreterFrame, c_int) -> *mut PyObject;

/// Evaluates the frame as if we were not there.
///
/// # Safety
/// With the arguments that the frame evaluation function was given, once.
#[inline(always)]
pub unsafe fn call_on(tstate: *mut PyThreadState, frame: *mut _PyInterpreterFrame, throwflag: c_int) -> *mut PyObject {
    // SAFETY: the caller's promise. At the interpreter's end a daemon thread is unwound through here by `pthread_exit`, so
    // the call is made as one that may be.
    unsafe { std::mem::transmute::<EvalFunction, Unwinding>(predecessor())(tstate, frame, throwflag) }
}

#[inline(always)]
unsafe fn predecessor() -> EvalFunction {
    let stored = PREDECESSOR.load(Ordering::Relaxed);
    if stored.is_null() {
        return _PyEval_EvalFrameDefault;
    }
    // SAFETY: only functions of this type are stored.
    unsafe { std::mem::transmute::<*mut c_void, EvalFunction>(stored) }
}

/// How far the calling thread's C stack may grow down: measured once a thread, then one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    floor: usize,
}

impl Stack {
    /// Measures the calling thread's stack; takes some µs. Where that can't be done the result never has room.
    #[cold]
    pub fn of_this_thread() -> Stack {
        Stack { floor: lowest_address().map_or(usize::MAX, |low| low.saturating_add(RESERVE)) }
    }

    /// Whether more than [`RESERVE`] bytes are left. To be asked on the thread that was measured.
    #[inline(always)]
    pub fn room(&self) -> bool {
        let here = 0u8;
        &raw const here as usize > self.floor
    }

    /// Bytes left above the reserve.
    pub fn left(&self) -> usize {
        let here = 0u8;
        (&raw const here as usize).saturating_sub(self.floor)
    }
}

#[cfg(target_os = "linux")]
fn lowest_address() -> Option<usize> {
    /// Room for a `pthread_attr_t`: 56 bytes with glibc and musl on 64-bit machines.
    #[repr(C, align(16))]
    struct Attributes([u8; 128]);
    extern "C" {
        fn pthread_self() -> usize;
        fn pthread_getattr_np(thread: usize, attributes: *mut Attributes) -> c_int;
        fn pthread_attr_getstack(attributes: *const Attributes, address: *mut *mut c_void, size: *mut usize) -> c_int;
        fn pthread_attr_getguardsize(attributes: *const Attributes, size: *mut usize) -> c_int;
        fn pthread_attr_destroy(attributes: *mut Attributes) -> c_int;
    }
    let mut attributes = MaybeUninit::<Attributes>::uninit();
    let (mut address, mut size, mut guard) = (ptr::null_mut(), 0, 0);
    // SAFETY: the calls fill what they are given; the attributes are initialised by the first and destroyed by the last.
    unsafe {
        if pthread_getattr_np(pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let got = pthread_attr_getstack(attributes.as_ptr(), &raw mut address, &raw mut size);
        pthread_attr_getguardsize(attributes.as_ptr(), &raw mut guard);
        pthread_attr_destroy(attributes.as_mut_ptr());
        (got == 0 && !address.is_null()).then_some(address as usize + guard)
    }
}

#[cfg(not(target_os = "linux"))]
fn lowest_address() -> Option<usize> {
    None
}
