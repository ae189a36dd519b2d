//! On 3.11: the frames of the functions are answered where they would be evaluated, see [`crate::ffi::eval`]; and those of the coroutines `put` and
//! `get` of `asyncio.Queue`, which call them.

use super::{tasks, threads};
use crate::{
    ffi::{eval, frame::Frame, tstate},
    host::{here::Here, originals, queues::Caller, watch},
};
use pyo3::{ffi::PyObject, prelude::*, types::PyType};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The code of a function while its frames are taken, else null.
struct Code(AtomicPtr<PyObject>);

static PUT: Code = Code::new();
static GET: Code = Code::new();
static PUT_NOWAIT: Code = Code::new();
static GET_NOWAIT: Code = Code::new();
static AWAITED_PUT: Code = Code::new();
static AWAITED_GET: Code = Code::new();

/// Those that are called, and those whose coroutines are awaited.
static CALLED: [&Code; 4] = [&PUT, &GET, &PUT_NOWAIT, &GET_NOWAIT];
static AWAITED: [&Code; 2] = [&AWAITED_PUT, &AWAITED_GET];

impl Code {
    const fn new() -> Code {
        Code(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Frames of this code are taken from now on; it is held with what was learned.
    fn take(&self, code: *mut PyObject) {
        self.0.store(code, Ordering::Relaxed);
    }

    fn give_back(&self) {
        self.0.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn is(&self, code: *mut PyObject) -> bool {
        self.0.load(Ordering::Relaxed) == code
    }
}

/// Takes the frames of a class's functions, if all is as known: `class` is `queue.Queue` (`which` is 0) or `asyncio.Queue`.
///
/// # Errors
/// What the interpreter raises; nothing is taken then.
pub fn take(class: &Bound<'_, PyType>, which: usize, _seen: &Bound<'_, PyAny>) -> PyResult<()> {
    let code = |name| Ok::<_, PyErr>(class.getattr(name)?.getattr("__code__")?.as_ptr());
    if which == 0 {
        if threads::learn(class)? {
            let (put, get) = (code("put")?, code("get")?);
            PUT.take(put);
            GET.take(get);
        }
    } else if tasks::learn(class)? {
        let (put, get) = (code("put_nowait")?, code("get_nowait")?);
        PUT_NOWAIT.take(put);
        GET_NOWAIT.take(get);
        if let Some([put, get]) = tasks::coroutines(class.py()) {
            AWAITED_PUT.take(put);
            AWAITED_GET.take(get);
        }
    }
    Ok(())
}

/// Lets all of them be evaluated again.
pub fn give_back(py: Python<'_>) {
    CALLED.iter().chain(&AWAITED).for_each(|code| code.give_back());
    threads::forget(py);
    tasks::forget(py);
}

/// What a frame that is about to be evaluated answers, a new reference, if it is one of these and nobody else would see it; null
/// with an exception set. `coroutine` says whether it is that of a generator or coroutine.
///
/// # Safety
/// The frame evaluation function was given it without an exception; attached, without an exception.
#[inline(always)]
pub unsafe fn answer(here: &mut Here, frame: Frame, coroutine: bool) -> Option<*mut PyObject> {
    // SAFETY: the caller's promise.
    unsafe {
        let code = frame.code();
        if coroutine {
            return AWAITED.iter().any(|known| known.is(code)).then(|| awaited(here, frame)).flatten();
        }
        is_called(code).then(|| called(here, frame)).flatten()
    }
}

/// Whether the code is that of one of the functions that are called.
#[inline(always)]
pub fn is_called(code: *mut PyObject) -> bool {
    CALLED.iter().any(|known| known.is(code))
}

/// Who has called the function of a frame that is about to be evaluated; `None` where somebody would see the frame.
///
/// # Safety
/// As [`answer`].
#[inline(always)]
unsafe fn caller(here: &Here, frame: Frame) -> Option<Caller> {
    // SAFETY: the caller's promise.
    unsafe {
        let is_unseen = !here.host.node.traces_functions() && eval::is_unseen(tstate());
        // it is not linked yet
        is_unseen.then(|| Caller::Frame(originals::past(frame.code(), Frame::current_python(tstate()))))
    }
}

/// # Safety
/// As [`answer`]: a frame of one of the functions, which has not begun.
#[inline(never)]
unsafe fn called(here: &mut Here, frame: Frame) -> Option<*mut PyObject> {
    // SAFETY: the caller's promise; the frame has its arguments, which stand as long as it does.
    unsafe {
        let (code, caller) = (frame.code(), caller(here, frame)?);
        let usual = |n| threads::is_bool(frame.local(n)) && threads::is_no_negative(frame.local(n + 1));
        let queue = frame.local(0);
        if PUT.is(code) {
            return if usual(2) { threads::put(here, caller, queue, frame.local(1)) } else { None };
        }
        if GET.is(code) {
            return if usual(1) { threads::get(here, caller, queue) } else { None };
        }
        if PUT_NOWAIT.is(code) {
            return tasks::put(here, caller, queue, frame.local(1));
        }
        tasks::get(here, caller, queue)
    }
}

/// A coroutine that doesn't have to wait does what the function does that it would call, and ends; the interpreter clears its frame.
///
/// # Safety
/// As [`answer`]: a frame of one of the coroutines.
#[inline(never)]
unsafe fn awaited(here: &mut Here, frame: Frame) -> Option<*mut PyObject> {
    // SAFETY: the caller's promise; the frame has its arguments, which stand as long as it does.
    unsafe {
        // its code is watched if a task is made of it; somebody may see in the frame object how far it has come
        if frame.has_begun() || watch::find(frame.code()).is_some() || !frame.frame_object().is_null() {
            return None;
        }
        let (caller, queue) = (caller(here, frame)?, frame.local(0));
        if AWAITED_PUT.is(frame.code()) {
            return tasks::put(here, caller, queue, frame.local(1));
        }
        tasks::get(here, caller, queue)
    }
}
