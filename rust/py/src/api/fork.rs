//! What Python calls after a fork.

use super::seq;
use crate::host::forking;
use pyo3::prelude::*;

/// In a forked child: stops all tracing.
#[pyfunction]
pub fn after_fork_in_child(py: Python<'_>) -> PyResult<()> {
    seq::forget();
    forking::after_in_child(py)
}
