//! A failure of the tracer on request, for tests of the door.

use crate::{
    instrument::watch,
    state::{instrument::Handler, thread::ThreadState},
};
use inviso_cpython::frames::frame::Frame;
use pyo3::prelude::*;

/// The handler that fails.
pub static FAULT: Handler = Handler { begin: Some(fail), ..Handler::NONE };

fn fail(_here: &mut ThreadState, _frame: Frame) {
    panic!("a test asked for this failure");
}

/// Makes the tracer fail at the beginning of each call of this code object, until the process ends. For tests.
///
/// # Errors
/// An error that `sys.monitoring` raises.
#[pyfunction]
pub fn fail_at(py: Python<'_>, code: Bound<'_, PyAny>) -> PyResult<()> {
    watch::add(py, crate::state::start::host(py)?, &FAULT, &[code])
}
