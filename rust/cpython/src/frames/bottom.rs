//! Calls at the bottom of the stack: what is called sees no frame below its own, as the program that an interpreter starts with.
//!
//! The frames of the calling thread are taken off its chain for the time of the call. They stand on, what they hold stays alive, and
//! the chain is put together again before anything of theirs goes on. The levels of recursion that they have taken are given back for
//! the same time.
//!
//! A free-threaded build's collector looks through the frames of all threads for references that are not counted, so there the frames
//! stay visible. So they do where the offsets are not known.

use super::frame::Frame;
use crate::{
    interpreter::state,
    layout::{self, at as read},
};
use pyo3::{
    ffi::{self as api, PyThreadState},
    prelude::*,
    types::{PyCode, PyTuple},
};

/// Words (of 4 bytes) of a thread's state among which the levels of recursion are counted.
const WORDS: std::ops::Range<usize> = 6..24;

/// Levels of recursion that are left after the call at least: what comes next has to run, whatever limit was set.
const LEFT: i32 = 64;

/// Calls a function, or runs a code object with these globals, at the bottom of the stack.
///
/// # Errors
/// What it raises.
pub fn call_at_bottom(what: &Bound<'_, PyAny>, arguments: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
    let py = what.py();
    let is_code = what.is_exact_instance_of::<PyCode>();
    if is_code {
        py.import("sys")?.call_method1("audit", ("exec", what))?; // as where the interpreter runs it
    }
    let globals = if is_code { Some(arguments.get_item(0)?) } else { None };
    let _bottom = Bottom::enter(py);
    // SAFETY: attached; valid objects, and the answer is owned.
    unsafe {
        let result = match &globals {
            Some(globals) => api::PyEval_EvalCode(what.as_ptr(), globals.as_ptr(), globals.as_ptr()),
            None => api::PyObject_Call(what.as_ptr(), arguments.as_ptr(), std::ptr::null_mut()),
        };
        Bound::from_owned_ptr_or_err(py, result).map(Bound::unbind)
    }
}

/// While it stands, the calling thread's stack begins here.
struct Bottom {
    tstate: *mut PyThreadState,
    hidden: *mut u8,
    /// Where the levels that are left are counted, and how many were taken.
    levels: Option<(*mut i32, i32)>,
}

impl Bottom {
    fn enter(_py: Python<'_>) -> Option<Bottom> {
        if cfg!(Py_GIL_DISABLED) || !layout::raw_ok() {
            return None;
        }
        // SAFETY: attached, and the offsets are checked; the chain of frames ends with null.
        unsafe {
            let tstate = state::current();
            let hidden: *mut u8 = read(base(tstate), layout::thread::CURRENT_FRAME);
            let mut last = Frame::from_ptr(hidden)?;
            while let Some(below) = last.below() {
                last = below;
            }
            let bottom = if last.is_shim() { last.address() as *mut u8 } else { std::ptr::null_mut() };
            let levels = levels(tstate);
            if let Some((left, taken)) = levels {
                *left += taken;
            }
            set(tstate, bottom);
            Some(Bottom { tstate, hidden, levels })
        }
    }
}

impl Drop for Bottom {
    fn drop(&mut self) {
        // SAFETY: the same thread, attached; all that was called has returned, and the frames have stood all the time.
        unsafe {
            set(self.tstate, self.hidden);
            if let Some((left, taken)) = self.levels {
                *left = (*left - taken).max(LEFT.min(*left));
            }
        }
    }
}

/// What holds the pointer to the current frame.
///
/// # Safety
/// The calling thread's state, and the offsets are checked.
unsafe fn base(tstate: *mut PyThreadState) -> *mut u8 {
    #[cfg(not(Py_3_13))]
    // SAFETY: the caller's promise.
    return unsafe { read(tstate.cast(), layout::thread::CFRAME) };
    #[cfg(Py_3_13)]
    tstate.cast()
}

/// # Safety
/// As [`base`]; `frame` is null or stands at the thread's stack.
unsafe fn set(tstate: *mut PyThreadState, frame: *mut u8) {
    // SAFETY: the word that `Frame::current` reads.
    unsafe { base(tstate).add(layout::thread::CURRENT_FRAME).cast::<*mut u8>().write(frame) }
}

/// Where the interpreter counts the levels of recursion that are left, and how many the calling thread has taken: the only word that
/// has the limit behind it. None where that is not clear.
///
/// # Safety
/// The calling thread's state, attached.
unsafe fn levels(tstate: *mut PyThreadState) -> Option<(*mut i32, i32)> {
    // SAFETY: the words lie inside a thread's state on all versions.
    unsafe {
        let (words, limit) = (tstate.cast::<i32>(), api::Py_GetRecursionLimit());
        let found = |i: &usize| *words.add(i + 1) == limit && (1..limit).contains(&(limit - *words.add(*i)));
        let mut all = WORDS.filter(found);
        let place = all.next().filter(|_| all.next().is_none())?;
        Some((words.add(place), limit - *words.add(place)))
    }
}
