//! Thread objects of the threading module: their functions, whether they can start, have begun or are over.

use inviso_cpython::interpreter::{generic::attribute, Aside};
use pyo3::{ffi, prelude::*, types::*};

/// Whether a thread object has been made and not been started yet.
pub fn can_start(thread: *mut ffi::PyObject) -> bool {
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
pub fn is_beginning(object: usize) -> bool {
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
pub fn has_ended(thread: &Bound<'_, PyAny>) -> PyResult<bool> {
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
pub fn weakly(object: usize) -> Option<Py<PyAny>> {
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
