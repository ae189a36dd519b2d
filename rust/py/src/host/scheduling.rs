//! Which task runs when.

use super::Host;
use pyo3::prelude::*;

/// A coroutine that a task is about to run: its steps are to be seen while somebody asks for scheduling.
///
/// # Errors
/// What `sys.monitoring` raises.
pub fn watch(_py: Python<'_>, _host: &Host, _code: &Bound<'_, PyAny>) -> PyResult<()> {
    Ok(())
}
