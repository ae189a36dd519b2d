//! Modules of the standard library that this package uses, where the program has files of the same names.
//!
//! [`cover`] takes such a module out of the program's sight: it leaves `sys.modules` before the program begins, so the program imports
//! its own file. This package gets its modules from [`module`], which still answers the library's.

use pyo3::{prelude::*, sync::PyOnceLock, types::PyDict};

static COVERED: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// Keeps a module that is no longer in `sys.modules`.
///
/// # Errors
/// What putting it into a dict raises.
pub fn cover(py: Python<'_>, name: &str, module: &Bound<'_, PyAny>) -> PyResult<()> {
    COVERED.get_or_init(py, || PyDict::new(py).unbind()).bind(py).set_item(name, module)
}

/// A module of the standard library, also where the program has one of its name.
///
/// # Errors
/// What importing it raises.
pub fn module<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    if let Some(covered) = COVERED.get(py) {
        if let Some(module) = covered.bind(py).get_item(name)? {
            return Ok(module.cast_into()?);
        }
    }
    py.import(name)
}

/// A module of the standard library that was imported before; `None` if it was not.
pub fn present<'py>(py: Python<'py>, name: &str) -> Option<Bound<'py, PyAny>> {
    let covered = COVERED.get(py).and_then(|all| all.bind(py).get_item(name).ok()?);
    covered.or_else(|| py.import("sys").ok()?.getattr("modules").ok()?.get_item(name).ok())
}
