//! The hook for every call on CPython 3.11: a frame evaluation function (PEP 523) in front of the interpreter's own.
//!
//! There is one per interpreter. Ours calls the former one (the interpreter's own, or another tool's), and is never
//! unloaded: frames that were entered through it end through it, also after [`remove`].
//!
//! Another tool may put its function in front of ours meanwhile, and may or may not call ours. Then ours stays in
//! place, inactive. Before it is installed once more, a test shows whether a frame still reaches it. If so, installing
//! it would make it call itself without end. If not, it goes in front of the other tool's as well, and its former state
//! is restored when it is removed: the other tool may still call it, or remove its own function and restore ours.
//!
//! While one is installed, each Python call takes C stack, which it doesn't on an untouched 3.11: some 420 bytes and
//! the function's own frame. So the rest of the function should be in cold helpers. See [`super::stack`] for the end of
//! the stack.
//!
//! # Roles
//! Attached threads install and remove it. Every thread that runs Python code calls it. The GIL lets one thread run at
//! a time.
//!
//! # States
//! | `ACTIVE` | `PREDECESSOR` | `BENEATH` | ours is |
//! | --- | --- | --- | --- |
//! | false | null | null | not installed yet |
//! | true | set | null | installed in front |
//! | true | set | set | installed in front of another tool's that stands in front of its old place |
//! | false | set | null | removed, or left in place behind another tool's |
//!
//! # Orderings
//! The GIL orders all of them. `PREDECESSOR` is stored before a frame can reach ours.
//!
//! # Checked by
//! `tests/python/test_pep523.py`.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pyo3::ffi::{self, _PyFrameEvalFunction as EvalFunction, _PyInterpreterFrame, PyObject, PyThreadState};
use pyo3::prelude::*;

extern "C" {
    fn _PyEval_EvalFrameDefault(
        tstate: *mut PyThreadState, frame: *mut _PyInterpreterFrame, throwflag: c_int,
    ) -> *mut PyObject;
}

/// The function that ours calls; null before the first installation.
static PREDECESSOR: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The function that ours calls from its old place, while it is also in front of another tool's; else null.
static BENEATH: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Whether frames are examined; else ours is removed, or another tool's function keeps it in place.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether a frame came to our function while it was inactive.
static REACHED: AtomicBool = AtomicBool::new(false);

/// From now on every frame that begins comes to `function`. A second call changes nothing.
///
/// # Safety
/// `function` is never unloaded, and handles every frame by [`call_on`] or in its place. There is one such function in
/// this process. Frames that already run are not seen; the frames that they call from now on are.
///
/// # Errors
/// The error of evaluating nothing: no memory.
pub unsafe fn install(py: Python<'_>, function: EvalFunction) -> PyResult<()> {
    if ACTIVE.load(Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the thread is attached, so the interpreter exists and no other thread changes its function meanwhile. The
    // predecessor is stored before a frame can reach `function`.
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

/// From now on no frame is examined. Removes `function`, if no other tool put its own in front.
///
/// # Safety
/// `function` is the installed one.
pub unsafe fn remove(_py: Python<'_>, function: EvalFunction) {
    ACTIVE.store(false, Ordering::Relaxed);
    // SAFETY: the thread is attached, so the interpreter exists; the predecessor is a function of this type, stored
    // by `install`.
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

/// Whether frames come to our inactive function through another tool's.
fn is_reached(py: Python<'_>) -> PyResult<bool> {
    if PREDECESSOR.load(Ordering::Acquire).is_null() {
        return Ok(false); // it was never in
    }
    REACHED.store(false, Ordering::Relaxed);
    crate::interpreter::calling::run(py, c"None", &pyo3::types::PyDict::new(py))?;
    Ok(REACHED.load(Ordering::Relaxed))
}

/// Whether our function examines its frame.
#[inline(always)]
pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Evaluates a frame that is not examined.
///
/// # Safety
/// As [`call_on`].
#[cold]
#[inline(never)]
pub unsafe fn pass(tstate: *mut PyThreadState, frame: *mut _PyInterpreterFrame, throwflag: c_int) -> *mut PyObject {
    REACHED.store(true, Ordering::Relaxed);
    // SAFETY: the caller promises that the arguments are those of the frame evaluation function, used once.
    unsafe { call_on(tstate, frame, throwflag) }
}

/// A frame evaluation function through which a thread may be unwound.
pub type Unwinding = unsafe extern "C-unwind" fn(*mut PyThreadState, *mut _PyInterpreterFrame, c_int) -> *mut PyObject;

/// Evaluates the frame as if our function did not exist.
///
/// # Safety
/// The arguments are those of the frame evaluation function, used once.
#[inline(always)]
pub unsafe fn call_on(tstate: *mut PyThreadState, frame: *mut _PyInterpreterFrame, throwflag: c_int) -> *mut PyObject {
    // SAFETY: the caller promises the frame evaluation function's own arguments. At the interpreter's end
    // `pthread_exit` unwinds a daemon thread through here, so the call is made as one that may unwind.
    unsafe { behind()(tstate, frame, throwflag) }
}

/// The function that [`call_on`] calls.
#[inline(always)]
pub fn behind() -> Unwinding {
    // SAFETY: the same function; only the unwinding through it differs.
    unsafe { std::mem::transmute::<EvalFunction, Unwinding>(predecessor()) }
}

/// The function before ours; the interpreter's own before the first installation.
///
/// # Safety
/// None for the call; the result has the contract of [`call_on`].
#[inline(always)]
unsafe fn predecessor() -> EvalFunction {
    let stored = PREDECESSOR.load(Ordering::Relaxed);
    if stored.is_null() {
        return _PyEval_EvalFrameDefault;
    }
    // SAFETY: only functions of this type are stored.
    unsafe { std::mem::transmute::<*mut c_void, EvalFunction>(stored) }
}
