//! Runs a function of the API as the running process.

use crate::{
    door,
    state::{start, thread::ThreadState},
};
use pyo3::{exceptions::PyRuntimeError, prelude::*};

/// Runs `with` as the process of the calling thread or task. RuntimeError if the thread is ending.
pub fn as_process<R>(py: Python<'_>, with: impl FnOnce(Python<'_>, &mut ThreadState) -> PyResult<R>) -> PyResult<R> {
    start::host(py)?;
    let ran = |state: &mut ThreadState| {
        // SAFETY: the thread is attached, and the state's scheduler is its own.
        unsafe { state.running.identify(state.host, &mut state.thread) };
        with(py, state)
    };
    // SAFETY: the thread is attached.
    let done = unsafe { door::call(ran) };
    done.unwrap_or_else(|| Err(PyRuntimeError::new_err("this thread is ending")))
}
