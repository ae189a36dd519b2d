//! On 3.11: the frames of the functions are answered where they would be evaluated, see [`crate::ffi::eval`]; those of `full` and `empty`, too,
//! which `asyncio.Queue` asks before.

use super::{tasks, threads};
use crate::{
    ffi::{eval, frame::Frame, tstate},
    host::{here::Here, originals, queues::Caller},
};
use pyo3::{ffi::PyObject, prelude::*, types::PyType};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The code of each while it is taken, else null.
type Code = AtomicPtr<PyObject>;
static PUT: Code = Code::new(std::ptr::null_mut());
static GET: Code = Code::new(std::ptr::null_mut());
static PUT_NOWAIT: Code = Code::new(std::ptr::null_mut());
static GET_NOWAIT: Code = Code::new(std::ptr::null_mut());
static FULL: Code = Code::new(std::ptr::null_mut());
static EMPTY: Code = Code::new(std::ptr::null_mut());

/// Those of `queue.Queue`, and those of `asyncio.Queue`, whose `put` and `get` ask the last two.
static ALL: [&[(&Code, &str)]; 2] = [
    &[(&PUT, "put"), (&GET, "get")],
    &[(&PUT_NOWAIT, "put_nowait"), (&GET_NOWAIT, "get_nowait"), (&FULL, "full"), (&EMPTY, "empty")],
];

/// Takes the frames of a class's functions, if all is as known: `class` is `queue.Queue` (`which` is 0) or `asyncio.Queue`.
///
/// # Errors
/// What the interpreter raises; nothing is taken then.
pub fn take(class: &Bound<'_, PyType>, which: usize, _seen: &Bound<'_, PyAny>) -> PyResult<()> {
    if if which == 0 { threads::learn(class)? } else { tasks::learn(class)? } {
        for &(code, name) in ALL[which] {
            // held with what was learned
            code.store(class.getattr(name)?.getattr("__code__")?.as_ptr(), Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Lets all of them be evaluated again.
pub fn give_back(py: Python<'_>) {
    ALL.iter().copied().flatten().for_each(|(code, _)| code.store(std::ptr::null_mut(), Ordering::Relaxed));
    threads::forget(py);
    tasks::forget(py);
}

/// What a frame that is about to be evaluated answers, a new reference, if it is one of these and nobody else would see it; null
/// with an exception set.
///
/// # Safety
/// The frame evaluation function was given it, and it has not begun; attached, without an exception.
#[inline(always)]
pub unsafe fn answer(here: &mut Here, frame: Frame) -> Option<*mut PyObject> {
    // SAFETY: the caller's promise.
    let code = unsafe { frame.code() };
    let is = |(known, _): &(&Code, &str)| known.load(Ordering::Relaxed) == code;
    // SAFETY: the caller's promise.
    ALL.iter().copied().flatten().any(is).then(|| unsafe { done(here, frame) }).flatten()
}

/// # Safety
/// As [`answer`]: a frame of one of the functions.
#[inline(never)]
unsafe fn done(here: &mut Here, frame: Frame) -> Option<*mut PyObject> {
    // SAFETY: the caller's promise; the frame has its arguments, which stand as long as it does.
    unsafe {
        if here.host.node.traces_functions() || !eval::is_unseen(tstate()) {
            return None;
        }
        let code = frame.code();
        // it is not linked yet
        let caller = Caller::Frame(originals::past(code, Frame::current_python(tstate())));
        let is = |known: &Code| known.load(Ordering::Relaxed) == code;
        let usual = |n| threads::is_bool(frame.local(n)) && threads::is_no_negative(frame.local(n + 1));
        let queue = frame.local(0);
        if is(&PUT) {
            return if usual(2) { threads::put(here, caller, queue, frame.local(1)) } else { None };
        }
        if is(&GET) {
            return if usual(1) { threads::get(here, caller, queue) } else { None };
        }
        if is(&PUT_NOWAIT) {
            return tasks::put(here, caller, queue, frame.local(1));
        }
        if is(&GET_NOWAIT) {
            return tasks::get(here, caller, queue);
        }
        let found = if is(&FULL) { tasks::is_full(queue) } else { tasks::is_empty(queue) };
        found.map(|found| pyo3::ffi::PyBool_FromLong(found.into()))
    }
}
