//! Finds the exit signal behind the exception that ends a process. A process that survived a signal may end much later,
//! for another reason.
//!
//! A signal is a tuple, `("EXIT", from, reason)`. For a task it is the message of its cancellation, which asyncio
//! copies from one exception to the next. For a thread, and for `exit/1`, it is an attribute of the exception. It is
//! recognised by its address, so the last signals are held.
//!
//! # Roles
//! A sender adds a signal, on any attached thread. The process that ends looks it up.
//!
//! # States
//! The list has the last [`KNOWN`] signals, the latest at the end.
//!
//! # Orderings
//! The mutex orders everything. No Python code runs under it.
//!
//! # Checked by
//! `tests/python/test_process_links.py`.

use crate::convert::terms;
use inviso_core::host::sync::Unpoisoned;
use inviso_cpython::{
    capture::{self, Raised},
    object::{
        held::{dict_get, Held},
        interned::Interned,
    },
};
use pyo3::{ffi, prelude::*, types::*};
use std::sync::{Mutex, MutexGuard};

/// How many signals of a process are recognised.
const KNOWN: usize = 8;
/// How many exceptions of a chain of contexts are searched.
const DEPTH: usize = 16;

static ATTRIBUTE: Interned = Interned::new(c"_inviso_exit");

/// The latest signals that a process received, and those that it sent to itself.
#[derive(Default)]
pub struct Exits(Mutex<Vec<Exit>>);

struct Exit {
    signal: Py<PyTuple>,
    /// A term.
    reason: Vec<u8>,
}

impl Exits {
    fn lock(&self) -> MutexGuard<'_, Vec<Exit>> {
        self.0.lock().unpoisoned()
    }

    /// Adds a signal, and returns the object that represents it from now on.
    ///
    /// # Errors
    /// An error that making the objects raises.
    pub fn add<'py>(&self, py: Python<'py>, from: u64, reason: Vec<u8>) -> PyResult<Bound<'py, PyTuple>> {
        let parts = (terms::atom(py, "EXIT")?, terms::identity(py, from)?, terms::object(py, &reason)?);
        let signal = parts.into_pyobject(py)?;
        let exit = Exit { signal: signal.clone().unbind(), reason };
        let oldest = {
            let mut all = self.lock();
            let oldest = (all.len() == KNOWN).then(|| all.remove(0));
            all.push(exit);
            oldest
        };
        drop(oldest);
        Ok(signal)
    }

    /// The latest signal.
    pub fn last<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyTuple>> {
        self.lock().last().map(|exit| exit.signal.bind(py).clone())
    }

    /// The reason of the latest signal, a term.
    pub fn last_reason(&self) -> Option<Vec<u8>> {
        self.lock().last().map(|exit| exit.reason.clone())
    }

    /// The reason of a signal that is recognised, a term.
    pub fn reason_of(&self, signal: *mut ffi::PyObject) -> Option<Vec<u8>> {
        let all = self.lock();
        all.iter().find(|exit| exit.signal.as_ptr() == signal).map(|exit| exit.reason.clone())
    }
}

/// Marks an exception as this signal's.
///
/// # Errors
/// An error that setting an attribute raises.
pub fn mark(error: &Bound<'_, PyAny>, signal: &Bound<'_, PyTuple>) -> PyResult<()> {
    // SAFETY: attached, no exception is set; the name is kept for ever.
    let name = unsafe { Bound::from_borrowed_ptr_or_opt(error.py(), ATTRIBUTE.get()) };
    let name = name.ok_or_else(|| pyo3::exceptions::PyMemoryError::new_err(()))?;
    error.setattr(name.cast::<PyString>()?, signal)
}

/// The reason of the signal, one of `exits`, that caused this exception, which ends a process: a term. An exception without arguments
/// may have been raised while the signal's exception was handled.
///
/// # Safety
/// Attached, no exception is set; `error` stands.
pub unsafe fn told(exits: &Exits, error: Raised) -> Option<Vec<u8>> {
    if exits.lock().is_empty() {
        return None;
    }
    // SAFETY: attached, no exception is set, and `error` stands. The types are checked, each exception is held, and no
    // code of the program runs.
    unsafe {
        if capture::exception_class(error) != "exit" {
            return None;
        }
        let mut error = Held::borrowed(error.object());
        for _ in 0..DEPTH {
            if error.is_null() || ffi::PyExceptionInstance_Check(error.as_ptr()) == 0 {
                return None;
            }
            let (message, is_plain) = message(error.as_ptr());
            let found =
                exits.reason_of(message.as_ptr()).or_else(|| exits.reason_of(attribute(error.as_ptr()).as_ptr()));
            if found.is_some() || !is_plain {
                return found;
            }
            error = Held::owned(ffi::PyException_GetContext(error.as_ptr()));
        }
        None
    }
}

/// The first argument of an exception, or null, and whether it has no arguments.
///
/// # Safety
/// Attached; the exception stands.
unsafe fn message(error: *mut ffi::PyObject) -> (Held, bool) {
    // SAFETY: attached, and the exception stands. The tuple of arguments is held and holds its items, even if the
    // exception gets other arguments meanwhile.
    unsafe {
        let arguments = capture::exception_arguments(error);
        if arguments.is_null() || ffi::PyTuple_GET_SIZE(arguments.as_ptr()) == 0 {
            return (Held::borrowed(std::ptr::null_mut()), true);
        }
        let first = ffi::PyTuple_GET_ITEM(arguments.as_ptr(), 0);
        ffi::Py_INCREF(first);
        (Held::owned(first), false)
    }
}

/// The attribute that [`mark`] has set, or null.
///
/// # Safety
/// As [`message`], and no exception is set.
unsafe fn attribute(error: *mut ffi::PyObject) -> Held {
    // SAFETY: attached, the exception stands and no exception is set. The exact type of the dict is checked.
    unsafe {
        let dict = capture::instance_dict(error);
        if dict.is_null() || ffi::PyDict_CheckExact(dict.as_ptr()) == 0 {
            return Held::borrowed(std::ptr::null_mut());
        }
        dict_get(dict.as_ptr(), ATTRIBUTE.get())
    }
}
