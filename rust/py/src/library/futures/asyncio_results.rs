//! The results of asyncio's futures that are written in C, and the tasks that wait for them.
//!
//! # Roles
//! `asyncio_futures::adopt` fills the words when the program has imported `_asyncio`. Any attached thread reads them.
//!
//! # States
//! Each word is null until then, and afterwards an object that is held for ever.
//!
//! # Orderings
//! The words are stored with `Release`. Readers load them with `Acquire` and so see the object behind the pointer.
//!
//! # Checked by
//! `tests/python/test_futures.py`.

use crate::{
    instrument::{message_view, sent_values, tokens},
    library::{
        inner_callbacks::{is, COPIES},
        results::{as_message, closed_over, emit, outcome, receive},
    },
    state::{thread::ThreadState, untraced::untraced},
};
use inviso_core::host::{messages::About, tracee::Tracee};
use inviso_cpython::{capture, frames::frame::code_qualname, interpreter::generic::attribute, object::held::Held};
use pyo3::{ffi, prelude::*, types::*};
use std::sync::{
    atomic::{AtomicPtr, Ordering},
    Arc,
};

/// How deep such futures may be nested.
pub const DEPTH: u32 = 8;

pub const GATHERS: &str = "gather.<locals>._done_callback";

/// A descriptor of the class that reads a field of its instances.
pub type Field = AtomicPtr<ffi::PyObject>;

/// The fields of a future: waiting callbacks, value, exception.
pub static CALLBACKS: Field = AtomicPtr::new(std::ptr::null_mut());

pub static RESULT_FIELD: Field = AtomicPtr::new(std::ptr::null_mut());

pub static EXCEPTION_FIELD: Field = AtomicPtr::new(std::ptr::null_mut());

/// The task class.
pub static TASK: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());

/// The running process, or a task that the future wakes, takes the result of a future. Nothing happens if the result
/// was already taken and carries no token.
///
/// # Safety
/// Attached, with no exception set; the future, one of asyncio's, stands.
pub unsafe fn take_known(state: &mut ThreadState, at: About<'_>, record: &Tracee, future: *mut ffi::PyObject) {
    let now = *outcome(record);
    let own = matches!(at, About::Current);
    if now.is_set && (own && !now.is_taken || tokens::waits(state, record)) {
        // SAFETY: the caller promises that the future stands, and the thread is attached and has no exception set.
        unsafe {
            if own {
                state.running.identify(state.host, &mut state.thread);
            }
            take_set(state, at, record, future);
        }
    }
}

/// A process takes the result of a future that is done: `await` is about to take it, or the future wakes a task that
/// waits for it.
///
/// # Safety
/// Attached, with no exception set; the future, one of asyncio's, stands.
unsafe fn take_set(state: &mut ThreadState, at: About<'_>, record: &Tracee, future: *mut ffi::PyObject) {
    // SAFETY: the caller promises that the thread is attached, and this interpreter is ours.
    unsafe {
        let Some((value, is_error)) = held(state, future) else { return };
        match at {
            About::Current => receive(state, record, value.as_ptr(), is_error),
            // the trace message was emitted when the result was set
            About::Other(_) => {
                tokens::receive_by(state, at, record, |state| as_message(state, value.as_ptr(), is_error));
            }
        }
    }
}

/// The value that a done future holds, and whether it is an exception.
///
/// # Safety
/// As [`take_set`].
pub unsafe fn held(state: &mut ThreadState, future: *mut ffi::PyObject) -> Option<(Held, bool)> {
    // SAFETY: attached, no exception is set, and the future stands. Each result is a new reference.
    unsafe {
        untraced(state, |py, _| {
            let error = error(py, future)?;
            if error.is_none() {
                return Some((Held::owned(field(py, &RESULT_FIELD, future)?.into_ptr()), false));
            }
            Some((Held::owned(error.into_ptr()), true))
        })
    }
}

/// The exception that a future holds, or None.
///
/// # Safety
/// As [`take_set`].
pub unsafe fn error(py: Python<'_>, future: *mut ffi::PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: attached, no exception is set, and the future stands.
    unsafe { field(py, &EXCEPTION_FIELD, future) }
}

/// A result that was sent to one future has reached a task that waits for another.
///
/// # Safety
/// The value stands; callbacks run attached on this thread.
pub unsafe fn reach(
    state: &mut ThreadState, waiter: &Tracee, from: &Tracee, value: *mut ffi::PyObject, is_error: bool,
) {
    let was = {
        let mut outcome = outcome(from);
        let was = *outcome;
        outcome.is_taken = true;
        was
    };
    if !was.is_taken && sent_values::is_asked_of(state, waiter) {
        // SAFETY: the caller promises that the future stands, and the thread is attached and has no exception set.
        unsafe {
            emit(state, value, is_error, |state, message| {
                message_view::arrived(state.host, &mut state.thread, waiter, was.origin(), message);
            });
        }
    }
}

/// A field of an asyncio future.
///
/// # Safety
/// `future` lives throughout, and the calling thread is attached to the interpreter.
unsafe fn field<'py>(py: Python<'py>, field: &Field, future: *mut ffi::PyObject) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the descriptor lives for ever. It reads a field of an object of its own class, and returns a new
    // reference or null.
    unsafe {
        let descriptor = field.load(Ordering::Acquire);
        let get = (*ffi::Py_TYPE(descriptor)).tp_descr_get?;
        let value = Bound::from_owned_ptr_or_opt(py, get(descriptor, future, ffi::Py_TYPE(future).cast()));
        if value.is_none() {
            ffi::PyErr_Clear();
        }
        value
    }
}

/// The first task that an asyncio future wakes and that gets its result. The task waits for this future or for one that
/// the library sets with this one's result. `None` if there is no such task.
///
/// # Safety
/// `future` lives throughout, and the calling thread is attached to the interpreter, with no exception set.
pub unsafe fn waiting_task(py: Python<'_>, future: *mut ffi::PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the future lives throughout, attached, no exception is set.
    unsafe { waiting_outside(py, future, DEPTH) }
}

/// # Safety
/// As [`waiting_task`].
unsafe fn waiting_outside(py: Python<'_>, future: *mut ffi::PyObject, depth: u32) -> Option<Bound<'_, PyAny>> {
    // SAFETY: each type is checked before its layout is read.
    unsafe {
        for entry in field(py, &CALLBACKS, future)?.cast::<PyList>().ok()?.iter() {
            let callback = entry.cast::<PyTuple>().ok()?.get_item(0).ok()?;
            if ffi::PyCFunction_CheckExact(callback.as_ptr()) == 0 {
                let outer = outside(py, callback.as_ptr()).filter(|_| depth > 0);
                if let Some(task) = outer.and_then(|outer| waiting_outside(py, outer.as_ptr(), depth - 1)) {
                    return Some(task);
                }
                continue;
            }
            let owner = ffi::PyCFunction_GetSelf(callback.as_ptr());
            let task =
                !owner.is_null() && ffi::PyType_IsSubtype(ffi::Py_TYPE(owner), TASK.load(Ordering::Acquire)) != 0;
            if task {
                return Some(Bound::from_borrowed_ptr(py, owner));
            }
            ffi::PyErr_Clear();
        }
        None
    }
}

/// The process of that task.
///
/// # Safety
/// As [`waiting_task`].
pub unsafe fn waiter(state: &mut ThreadState, future: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    // SAFETY: the future lives throughout, attached, no exception is set.
    untraced(state, |py, state| unsafe {
        let task = waiting_task(py, future)?;
        Some(state.host.directory.task(state.host, task.as_ptr() as usize, None))
    })
}

/// The first task that waits for a future of `concurrent.futures` through an asyncio future (`asyncio.wrap_future`).
///
/// # Safety
/// As [`waiting_task`].
pub unsafe fn chained_task(py: Python<'_>, future: *mut ffi::PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the future lives throughout, attached, no exception is set.
    unsafe {
        let callbacks = attribute(py, future, "_done_callbacks")?.cast_into::<PyList>().ok()?;
        callbacks.iter().find_map(|callback| {
            let outer = outside(py, callback.as_ptr())?;
            waiting_task(py, outer.as_ptr())
        })
    }
}

/// The outer future, if this is the callback by which the library will set it; a new reference.
///
/// # Safety
/// The callback stands; attached, with no exception set.
unsafe fn outside(py: Python<'_>, callback: *mut ffi::PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the callback stands, attached, no exception is set; the type is checked.
    unsafe {
        if ffi::PyFunction_Check(callback) == 0 {
            return None;
        }
        let function = code_qualname(ffi::PyFunction_GetCode(callback));
        let (destination, outer) = ("_chain_future.<locals>._call_set_state", [COPIES[1], GATHERS]);
        let named = if capture::is_text(function, destination) {
            "destination"
        } else if outer.iter().any(|known| capture::is_text(function, known)) {
            "outer"
        } else {
            return None;
        };
        let future = closed_over(py, callback, named)?;
        is(future.as_ptr()).then(|| Bound::from_borrowed_ptr(py, future.as_ptr()))
    }
}
