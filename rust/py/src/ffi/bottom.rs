//! Calls at the bottom of the stack: the called code sees no frame below its own, like the program that an interpreter
//! starts with.
//!
//! The frames of the calling thread are taken off its chain during the call. They stay in place and keep their objects
//! alive, and the chain is restored before any of them continues. The levels of recursion that they have taken are
//! given back for the same time.
//!
//! The collector of a free-threaded build looks through the frames of all threads for references that are not counted.
//! So the frames stay visible there, and where the offsets are not known.

use super::{
    frame::Frame,
    layout::{self, at as read},
    state,
};
use pyo3::{
    ffi::{self as api, PyThreadState},
    prelude::*,
    types::{PyCode, PyTuple},
};

/// The words (of 4 bytes) of a thread's state among which the levels of recursion are counted.
const WORDS: std::ops::Range<usize> = 6..24;

/// The least levels of recursion that are left after the call: the following code has to run, whatever limit was set.
const LEFT: i32 = 64;

/// Calls a function, or runs a code object with these globals, at the bottom of the stack.
#[pyfunction]
pub fn call_at_bottom(what: &Bound<'_, PyAny>, arguments: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
    let py = what.py();
    let is_code = what.is_exact_instance_of::<PyCode>();
    if is_code {
        py.import("sys")?.call_method1("audit", ("exec", what))?; // as the interpreter does when it runs the code
    }
    let globals = if is_code { Some(arguments.get_item(0)?) } else { None };
    let _bottom = Bottom::enter(py);
    // SAFETY: the thread is attached; valid objects, and the result is owned.
    unsafe {
        let result = match &globals {
            Some(globals) => api::PyEval_EvalCode(what.as_ptr(), globals.as_ptr(), globals.as_ptr()),
            None => api::PyObject_Call(what.as_ptr(), arguments.as_ptr(), std::ptr::null_mut()),
        };
        Bound::from_owned_ptr_or_err(py, result).map(Bound::unbind)
    }
}

/// While it exists, the calling thread's stack begins here.
struct Bottom {
    tstate: *mut PyThreadState,
    hidden: *mut u8,
    /// The counter of the levels that are left, and the number that were taken.
    levels: Option<(*mut i32, i32)>,
}

impl Bottom {
    fn enter(_py: Python<'_>) -> Option<Bottom> {
        if cfg!(Py_GIL_DISABLED) || !layout::raw_ok() {
            return None;
        }
        // SAFETY: the thread is attached, and the offsets are checked; the chain of frames ends with null.
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
        // SAFETY: the same thread, attached; the called code has returned, and the frames have stayed in place.
        unsafe {
            set(self.tstate, self.hidden);
            if let Some((left, taken)) = self.levels {
                *left = (*left - taken).max(LEFT.min(*left));
            }
        }
    }
}

/// The record with the pointer to the current frame.
///
/// # Safety
/// `tstate` is the calling thread's, and the offsets are checked.
unsafe fn base(tstate: *mut PyThreadState) -> *mut u8 {
    #[cfg(not(Py_3_13))]
    // SAFETY: the caller promises that `tstate` is the calling thread's, and the offsets are checked.
    return unsafe { read(tstate.cast(), layout::thread::CFRAME) };
    #[cfg(Py_3_13)]
    tstate.cast()
}

/// # Safety
/// As [`base`]; `frame` is null or stands on the thread's stack.
unsafe fn set(tstate: *mut PyThreadState, frame: *mut u8) {
    // SAFETY: the word that `Frame::current` reads.
    unsafe { base(tstate).add(layout::thread::CURRENT_FRAME).cast::<*mut u8>().write(frame) }
}

/// The interpreter's counter of the levels of recursion that are left, and the number that the calling thread has
/// taken: the only word that is followed by the limit. None if there is no single one.
///
/// # Safety
/// `tstate` is the calling thread's, which is attached.
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
