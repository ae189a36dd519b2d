//! The frames of the library's functions, and calls that a pool is asked to make.
//!
//! # Roles
//! The instrument fills in `NO_LIMIT`. Any attached thread reads it.
//!
//! # States
//! `NO_LIMIT` is the largest number until the module of queues is adopted.
//!
//! # Orderings
//! `NO_LIMIT` is stored with `Release` and loaded with `Acquire`.
//!
//! # Checked by
//! `tests/python/test_multiprocess.py`.

use crate::{
    instrument::{message_view, sent_values, tokens},
    library::results::{outcome, record},
    state::{
        thread::ThreadState,
        untraced::{build_untraced, untraced},
    },
};
use inviso_core::host::{flags::Flags, messages::About, tracee::Tracee};
use inviso_cpython::{
    capture,
    frames::frame::{code_qualname, Frame},
    interpreter::generic::attribute,
};
use inviso_term::record::numbered::MessageKind;
use pyo3::{ffi, prelude::*, types::*};
use std::sync::{
    atomic::{AtomicI64, Ordering},
    Arc,
};

/// Whether a function of this name runs in a frame.
///
/// # Safety
/// The frame runs; the thread is attached.
pub unsafe fn is(frame: Frame, name: &str) -> bool {
    // SAFETY: the callers promise that the frame runs and the thread is attached.
    unsafe { capture::is_text(code_qualname(frame.code()), name) }
}

/// The maximum length of a queue without a limit.
pub static NO_LIMIT: AtomicI64 = AtomicI64::new(i64::MAX);

/// Whether the `put` of this event's frame is sure to succeed if it ever ends. If so, the message is sent before any
/// process can receive it.
pub fn is_sure(state: &mut ThreadState, frame: Frame) -> bool {
    // SAFETY: these are the parameters of `put`, which assigns to none of them. `True` and `None` live for ever.
    unsafe {
        if frame.local(2) == ffi::Py_True() && frame.local(3) == ffi::Py_None() {
            return true;
        }
        let limit = untraced(state, |py, _| attribute(py, frame.local(0), "_maxsize")?.extract::<i64>().ok());
        limit == Some(NO_LIMIT.load(Ordering::Acquire))
    }
}

/// The message of such a call. Its arguments may be any iterable, and only a tuple or a list is iterated over.
///
/// # Safety
/// `function`, `args` and `keywords` live throughout, and the calling thread is attached to the interpreter.
pub unsafe fn call<'py>(
    py: Python<'py>, function: *mut ffi::PyObject, args: *mut ffi::PyObject, keywords: *mut ffi::PyObject,
) -> Option<Bound<'py, PyAny>> {
    // SAFETY: all three stand, the thread is attached and no exception is set; types are checked.
    unsafe {
        let args = Bound::from_borrowed_ptr(py, args);
        let args = match (args.cast_exact::<PyTuple>(), args.cast_exact::<PyList>()) {
            (Ok(args), _) => args.clone(),
            (_, Ok(args)) => args.to_tuple(),
            _ => PyTuple::new(py, [&args]).ok()?,
        };
        let keywords = if ffi::PyDict_CheckExact(keywords) != 0 { keywords } else { std::ptr::null_mut() };
        sent_values::of_call(py, function, args.as_ptr(), keywords).ok()
    }
}

/// The running process asks a pool for `result`. `make` makes the message, if it is traced or carries a token. Returns
/// the result's record, or `None` if there is no result. `note_pool` is called with the pool.
///
/// # Safety
/// The pool stands, and the result unless it is null; callbacks run attached on this thread.
pub unsafe fn ask(
    state: &mut ThreadState, pool: *mut ffi::PyObject, result: *mut ffi::PyObject,
    make: impl FnOnce(Python<'_>) -> Option<Bound<'_, PyAny>>,
    note_pool: unsafe fn(&mut ThreadState, *mut ffi::PyObject),
) -> Option<Arc<Tracee>> {
    if result.is_null() {
        return None;
    }
    // SAFETY: the caller promises that the thread is attached, and this interpreter is ours.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        let own = state.thread.current().pid;
        let result = record(state, result);
        {
            let mut outcome = outcome(&result);
            (outcome.reply_to, outcome.comes_from_afar) = (own, true);
        }
        let asked = sent_values::is_asked(state, Flags::SEND);
        if asked || tokens::has(state) {
            let to = message_view::queue(state, pool);
            let message = build_untraced(state, make);
            if asked {
                sent_values::send(state, to, &message, MessageKind::Call);
            }
            note_pool(state, pool);
            tokens::send_by(state, About::Current, &result, to, message.as_ptr());
        }
        Some(result)
    }
}
