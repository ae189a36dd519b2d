//! CPython 3.11's way to see every call: a frame evaluation function (PEP 523) in front of the interpreter's own.
//!
//! There is one per interpreter. Ours calls on whatever was there before (the interpreter's own, or another tool's), and is
//! never unloaded: frames that were entered through it end through it, also after [`remove`].
//!
//! While one is in, each Python call takes C stack, which it doesn't on an untouched 3.11: some 420 bytes and the
//! function's own frame, so that the rest of the function should be in cold helpers. See [`super::stack`] for where the
//! stack ends.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi::{self, _PyFrameEvalFunction as EvalFunction, _PyInterpreterFrame, PyObject, PyThreadState};
use pyo3::prelude::*;

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
    unsafe { behind()(tstate, frame, throwflag) }
}

/// The function that [`call_on`] calls.
#[inline(always)]
pub fn behind() -> Unwinding {
    // SAFETY: the same function; only what may pass through it differs.
    unsafe { std::mem::transmute::<EvalFunction, Unwinding>(predecessor()) }
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
