//! CPython 3.11's way to see every call: a frame evaluation function (PEP 523) in front of the interpreter's own.
//!
//! There is one per interpreter. Ours calls on whatever was there before (the interpreter's own, or another tool's), and is
//! never unloaded: frames that were entered through it end through it, also after [`remove`].
//!
//! Another tool may put its function in front of ours meanwhile, and may or may not call on to it. Ours then stays where it
//! is, at rest. Before it is put in once more it is found out whether a frame still comes to it: if so, it would call itself
//! from in front, without end. If not, it goes in front of the other tool's as well, and is what it was when it comes out: the other tool may
//! yet call on to it, or go and put it back.
//!
//! While one is in, each Python call takes C stack, which it doesn't on an untouched 3.11: some 420 bytes and the
//! function's own frame, so that the rest of the function should be in cold helpers. See [`super::stack`] for where the
//! stack ends.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::layout::{at, thread};
use pyo3::ffi::{self, _PyFrameEvalFunction as EvalFunction, _PyInterpreterFrame, PyObject, PyThreadState};
use pyo3::prelude::*;

extern "C" {
    fn _PyEval_EvalFrameDefault(
        tstate: *mut PyThreadState, frame: *mut _PyInterpreterFrame, throwflag: c_int,
    ) -> *mut PyObject;
}

/// The function that ours calls on; null while there has been none.
static PREDECESSOR: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// While ours is in front of another tool's that was put in front of it: what it calls on from its old place, else null.
static BENEATH: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Whether frames are looked at; else ours is out, or another tool's function keeps it in.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether a frame came to our function while it was at rest.
static REACHED: AtomicBool = AtomicBool::new(false);

/// From now on every frame that begins comes to `function`. Asking twice changes nothing.
///
/// # Safety
/// `function` is never unloaded, and answers every frame by [`call_on`] or as it would. There is one such function in this
/// process. The frames that already run are not seen; what they call from now on is.
///
/// # Errors
/// What evaluating nothing gave: no memory.
pub unsafe fn install(py: Python<'_>, function: EvalFunction) -> PyResult<()> {
    if ACTIVE.load(Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: attached, so the interpreter is there and nobody else changes its function meanwhile. The predecessor is
    // stored before a frame can reach `function`.
    unsafe {
        let interpreter = ffi::PyInterpreterState_Get();
        let there = ffi::_PyInterpreterState_GetEvalFrameFunc(interpreter);
        if there as usize != function as usize && !is_reached(py)? {
            let there = ffi::_PyInterpreterState_GetEvalFrameFunc(interpreter);
            let old = PREDECESSOR.swap(there as *mut c_void, Ordering::AcqRel);
            let is_elsewhere =
                there as usize != _PyEval_EvalFrameDefault as *const () as usize && old != there as *mut c_void;
            BENEATH.store(if is_elsewhere { old } else { ptr::null_mut() }, Ordering::Relaxed);
            ffi::_PyInterpreterState_SetEvalFrameFunc(interpreter, Some(function));
        }
    }
    ACTIVE.store(true, Ordering::Relaxed);
    Ok(())
}

/// From now on no frame is looked at. `function` goes out, if no other tool put its own in front.
///
/// # Safety
/// `function` is the one that was installed.
pub unsafe fn remove(_py: Python<'_>, function: EvalFunction) {
    ACTIVE.store(false, Ordering::Relaxed);
    // SAFETY: attached, so the interpreter is there; the predecessor is a function of this type, stored by `install`.
    unsafe {
        let interpreter = ffi::PyInterpreterState_Get();
        if ffi::_PyInterpreterState_GetEvalFrameFunc(interpreter) as usize == function as usize {
            ffi::_PyInterpreterState_SetEvalFrameFunc(interpreter, Some(predecessor()));
            let old = BENEATH.swap(ptr::null_mut(), Ordering::Relaxed);
            if !old.is_null() {
                PREDECESSOR.store(old, Ordering::Release);
            }
        }
    }
}

/// Whether frames come to our function, which is at rest, through somebody else's.
fn is_reached(py: Python<'_>) -> PyResult<bool> {
    if PREDECESSOR.load(Ordering::Acquire).is_null() {
        return Ok(false); // it was never in
    }
    REACHED.store(false, Ordering::Relaxed);
    crate::interpreter::calling::run(py, c"None", &pyo3::types::PyDict::new(py))?;
    Ok(REACHED.load(Ordering::Relaxed))
}

/// Whether our function is to look at the frame that it was given.
#[inline(always)]
pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Evaluates a frame that nobody looks at.
///
/// # Safety
/// As [`call_on`].
#[cold]
#[inline(never)]
pub unsafe fn pass(tstate: *mut PyThreadState, frame: *mut _PyInterpreterFrame, throwflag: c_int) -> *mut PyObject {
    REACHED.store(true, Ordering::Relaxed);
    // SAFETY: the caller's promise.
    unsafe { call_on(tstate, frame, throwflag) }
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

/// Whether nobody would see a frame if it were evaluated now: behind ours is the interpreter's own function, and the thread has neither a trace function nor
/// a profile function that is called.
///
/// # Safety
/// `tstate` is the calling thread's, which is attached; the offsets are checked.
#[inline(always)]
pub unsafe fn is_unseen(tstate: *mut PyThreadState) -> bool {
    // SAFETY: the record of the thread's evaluation stands, and begins with the byte `use_tracing`. The function is not called.
    unsafe {
        let record: *mut u8 = at(tstate.cast(), thread::CFRAME);
        at::<u8>(record, 0) == 0 && predecessor() as usize == _PyEval_EvalFrameDefault as *const () as usize
    }
}

/// What was there before ours; the interpreter's own as long as ours never was in.
///
/// # Safety
/// Nothing is asked; what it answers is to be called as [`call_on`] says.
#[inline(always)]
unsafe fn predecessor() -> EvalFunction {
    let stored = PREDECESSOR.load(Ordering::Relaxed);
    if stored.is_null() {
        return _PyEval_EvalFrameDefault;
    }
    // SAFETY: only functions of this type are stored.
    unsafe { std::mem::transmute::<*mut c_void, EvalFunction>(stored) }
}
