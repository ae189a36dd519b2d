//! The core's errors as Python's, exhaustively, and the system's errors.

use inviso_core::host::error::Error;
use pyo3::{
    exceptions::{PyLookupError, PyOSError, PyRuntimeError},
    prelude::*,
};
use std::{io, path::Path};

pyo3::create_exception!(_native, SessionDead, PyLookupError, "The session has been destroyed.");
pyo3::create_exception!(_native, ProcessDead, PyLookupError, "The process has ended.");
pyo3::create_exception!(_native, LimitReached, PyRuntimeError, "A limit of the implementation was reached.");

/// An error of the core for Python. The package's own modules reword it for users.
pub fn raise(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::SessionDead => SessionDead::new_err(text),
        Error::ProcessDead => ProcessDead::new_err(text),
        Error::Limit(_) => LimitReached::new_err(text),
        Error::GlobalWith(_) | Error::Reentered => PyRuntimeError::new_err(text),
    }
}

/// A system error with its text and number, and the file as Python's own errors name it.
pub fn of_system(error: &io::Error, path: Option<&Path>) -> PyErr {
    let text = error.to_string();
    let Some(number) = error.raw_os_error() else {
        return PyOSError::new_err(path.map_or_else(|| text.clone(), |path| format!("{}: {text}", path.display())));
    };
    let text = text.strip_suffix(&format!(" (os error {number})")).unwrap_or(&text).to_owned();
    match path {
        Some(path) => PyOSError::new_err((number, text, path.as_os_str().to_owned())),
        None => PyOSError::new_err((number, text)),
    }
}
