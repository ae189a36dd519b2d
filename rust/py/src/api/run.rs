//! Functions for programs that this package runs. A program sees no frame of this package, and no module that only this
//! package needs.

use inviso_cpython::{frames::bottom, interpreter::standard};
use pyo3::{prelude::*, types::PyTuple};

/// Keeps a module that is no longer in `sys.modules`.
#[pyfunction]
pub fn cover(py: Python<'_>, name: &str, module: &Bound<'_, PyAny>) -> PyResult<()> {
    standard::cover(py, name, module)
}

/// Calls a function, or runs a code object with these globals, at the bottom of the stack.
#[pyfunction]
pub fn call_at_bottom(what: &Bound<'_, PyAny>, arguments: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
    bottom::call_at_bottom(what, arguments)
}
