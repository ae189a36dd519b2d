//! A failure of the tracer's own, on request: tests of the door need one.

use crate::{
    instrument::watch::{self, Handler},
    thread::here::Here,
};
use inviso_cpython::frames::frame::Frame;
use pyo3::prelude::*;

/// The handler that fails.
pub static FAULT: Handler = Handler { begin: Some(fail), ..Handler::NONE };

fn fail(_here: &mut Here, _frame: Frame) {
    panic!("a test asked for this failure");
}

/// The tracer fails at the beginning of each call of this code object, until the process ends. For tests.
///
/// # Errors
/// What `sys.monitoring` raises.
#[pyfunction]
pub fn fail_at(py: Python<'_>, code: Bound<'_, PyAny>) -> PyResult<()> {
    watch::add(py, crate::host::host(py)?, &FAULT, &[code])
}
