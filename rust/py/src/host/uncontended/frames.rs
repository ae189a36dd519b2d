//! On 3.11: the frames of both functions are answered where they would be evaluated, see [`crate::ffi::eval`].

use super::End;
use crate::{
    ffi::{eval, frame::Frame, tstate},
    host::{here::Here, originals, queues::Caller},
};
use pyo3::{ffi::PyObject, prelude::*, types::PyType};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The code of both; null while they are not taken.
static PUT: AtomicPtr<PyObject> = AtomicPtr::new(std::ptr::null_mut());
static GET: AtomicPtr<PyObject> = AtomicPtr::new(std::ptr::null_mut());

/// Takes the frames of both, if all is as known: `class` is `queue.Queue`.
///
/// # Errors
/// What the interpreter raises; nothing is taken then.
pub fn take(class: &Bound<'_, PyType>, _seen: &Bound<'_, PyAny>) -> PyResult<()> {
    if super::learn(class)? {
        for (code, name) in [(&PUT, "put"), (&GET, "get")] {
            // held with what was learned
            code.store(class.getattr(name)?.getattr("__code__")?.as_ptr(), Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Lets both be evaluated again.
pub fn give_back(py: Python<'_>) {
    [&PUT, &GET].into_iter().for_each(|code| code.store(std::ptr::null_mut(), Ordering::Relaxed));
    super::forget(py);
}

/// What a frame that is about to be evaluated answers, a new reference, if it is one of these and nobody else would see it; null
/// with an exception set.
///
/// # Safety
/// The frame evaluation function was given it, and it has not begun; attached, without an exception.
#[inline(always)]
pub unsafe fn answer(here: &mut Here, frame: Frame) -> Option<*mut PyObject> {
    // SAFETY: the caller's promise.
    unsafe {
        let code = frame.code();
        if code == PUT.load(Ordering::Relaxed) {
            done(here, frame, End::Put)
        } else if code == GET.load(Ordering::Relaxed) {
            done(here, frame, End::Get)
        } else {
            None
        }
    }
}

/// # Safety
/// As [`answer`]: a frame of this function.
#[inline(never)]
unsafe fn done(here: &mut Here, frame: Frame, end: End) -> Option<*mut PyObject> {
    // SAFETY: the caller's promise; the frame has its arguments, which stand as long as it does.
    unsafe {
        let first = match end {
            End::Put => 2,
            End::Get => 1,
        };
        let usual = super::is_bool(frame.local(first)) && super::is_no_negative(frame.local(first + 1));
        if !usual || here.host.node.traces_functions() || !eval::is_unseen(tstate()) {
            return None;
        }
        let queue = frame.local(0);
        let locked = super::lock(queue, end)?;
        // it is not linked yet
        let caller = Caller::Frame(originals::past(frame.code(), Frame::current_python(tstate())));
        Some(match end {
            End::Put => locked.put(here, caller, queue, frame.local(1)),
            End::Get => locked.get(here, caller, queue),
        })
    }
}
