//! The core's errors as Python's, exhaustively.

use inviso_core::error::Error;
use pyo3::{
    exceptions::{PyLookupError, PyRuntimeError},
    prelude::*,
};

pyo3::create_exception!(_native, SessionDead, PyLookupError, "The session has been destroyed.");
pyo3::create_exception!(_native, ProcessDead, PyLookupError, "The process has ended.");
pyo3::create_exception!(_native, LimitReached, PyRuntimeError, "A limit of the implementation was reached.");

/// An error of the core for Python; the package's own modules word it for users.
pub fn raise(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::SessionDead => SessionDead::new_err(text),
        Error::ProcessDead => ProcessDead::new_err(text),
        Error::Limit(_) => LimitReached::new_err(text),
        Error::GlobalWith(_) | Error::Reentered => PyRuntimeError::new_err(text),
    }
}
