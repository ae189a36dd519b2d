//! Thread objects of the threading module: their functions, whether they can start, have begun or are over.

use crate::{
    instrument::sent_values,
    state::{thread::ThreadState, untraced},
};
use inviso_cpython::{
    capture::{self, Limits},
    interpreter::{generic::attribute, Aside},
};
use inviso_term::etf::{Encoder, Full};
use pyo3::{ffi, prelude::*, types::*};

/// `(module, function, arguments)` of a thread object's target, as a call that an executor shall make.
pub(super) fn thread_name(
    state: &mut ThreadState, thread: *mut ffi::PyObject, out: &mut Encoder<'_>,
) -> Result<(), Full> {
    // SAFETY: the thread is attached; generic attribute access runs no code of the program for these plain attributes,
    // whose values are held meanwhile.
    unsafe {
        let call = untraced::build_untraced(state, |py| {
            let target = attribute(py, thread, "_target").filter(|target| !target.is_none())?;
            let args = attribute(py, thread, "_args").unwrap_or_else(|| PyTuple::empty(py).into_any());
            let args = match args.cast::<PyList>() {
                Ok(list) => list.to_tuple(),
                Err(_) => args.cast_into::<PyTuple>().unwrap_or_else(|_| PyTuple::empty(py)),
            };
            let keywords = attribute(py, thread, "_kwargs");
            let keywords = keywords.as_ref().map_or(std::ptr::null_mut(), Bound::as_ptr);
            sent_values::of_call(py, target.as_ptr(), args.as_ptr(), keywords).ok()
        });
        out.tuple(3)?;
        if call.is_null() {
            capture::name_of_run(thread, out)?;
            out.list(1)?;
            capture::encode(thread, out, &Limits::DEFAULT)?;
            return out.nil();
        }
        let part = |n| ffi::PyTuple_GET_ITEM(call.as_ptr(), n);
        capture::encode(part(0), out, &Limits::DEFAULT)?;
        capture::encode(part(1), out, &Limits::DEFAULT)?;
        capture::list_of(part(2), out)
    }
}

/// Whether a thread object has been made and not been started yet.
pub(super) fn can_start(thread: *mut ffi::PyObject) -> bool {
    Python::attach(|py| {
        // SAFETY: the thread is attached; generic attribute access runs no code of the program for these plain
        // attributes.
        unsafe {
            let is_set = |of: *mut ffi::PyObject, name: &str| {
                attribute(py, of, name).is_some_and(|flag| flag.is_truthy().unwrap_or(false))
            };
            let started = attribute(py, thread, "_started");
            is_set(thread, "_initialized") && !started.is_some_and(|event| is_set(event.as_ptr(), "_flag"))
        }
    })
}

/// Whether a thread object's thread has been started and has not yet set `_started`.
pub(super) fn is_beginning(object: usize) -> bool {
    Python::attach(|py| {
        let beginning = || {
            inviso_cpython::interpreter::standard::module(py, "threading")?
                .getattr("_limbo")?
                .cast_into::<PyDict>()
                .map_err(PyErr::from)
        };
        // by identity: a class of threads may define its own equality
        beginning().is_ok_and(|all| all.values().iter().any(|thread| thread.as_ptr() as usize == object))
    })
}

/// Whether a thread object's thread has run and is over. A thread is in one of the threading module's tables from
/// before it sets `_started` until it ends. It moves from the first table to the second.
pub(super) fn has_ended(thread: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = thread.py();
    // SAFETY: the thread is attached, and holds the object; plain attributes of the module's own classes.
    let has_begun = unsafe {
        attribute(py, thread.as_ptr(), "_started")
            .and_then(|event| attribute(py, event.as_ptr(), "_flag"))
            .is_some_and(|flag| flag.is_truthy().unwrap_or(false))
    };
    let threading = inviso_cpython::interpreter::standard::module(py, "threading")?;
    let stands = |table: &str| -> PyResult<bool> {
        let table = threading.getattr(table)?.cast_into::<PyDict>()?;
        Ok(table.values().iter().any(|other| other.is(thread)))
    };
    Ok(has_begun && !stands("_limbo")? && !stands("_active")?)
}

/// A weak reference to a thread object, if there can be one.
pub(super) fn weakly(object: usize) -> Option<Py<PyAny>> {
    Python::attach(|py| {
        // SAFETY: the thread is attached; the caller's thread object stands. An exception that is set would look like
        // one of this call.
        unsafe {
            let _aside = Aside::new();
            let made = ffi::PyWeakref_NewRef(object as *mut ffi::PyObject, std::ptr::null_mut());
            if made.is_null() {
                ffi::PyErr_Clear();
            }
            Bound::from_owned_ptr_or_opt(py, made).map(Bound::unbind)
        }
    })
}
