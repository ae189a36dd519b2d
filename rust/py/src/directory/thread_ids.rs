//! Threads by the numbers that the operating system gives them.

use pyo3::{prelude::*, types::*};

extern "C" {
    fn PyThread_get_thread_native_id() -> std::ffi::c_ulong;
}

/// The operating system's number of the calling thread.
pub fn native_id() -> u64 {
    // SAFETY: the function has no preconditions.
    unsafe { PyThread_get_thread_native_id() as u64 }
}

/// Whether the threading module knows only one thread.
pub fn is_one_thread(py: Python<'_>) -> PyResult<bool> {
    Ok(threads(py)?.len() <= 1)
}

/// The number and object of each thread that Python knows. Reads the threading module's own table and runs none of its
/// code.
pub fn threads(py: Python<'_>) -> PyResult<Vec<(u64, Bound<'_, PyAny>)>> {
    let Some(threading) = inviso_cpython::interpreter::standard::present(py, "threading") else {
        return Ok(Vec::new());
    };
    let active = threading.getattr("_active")?.cast_into::<PyDict>()?.copy()?;
    let mut all = Vec::new();
    for thread in active.values() {
        if let Ok(id) = thread.getattr("_native_id") {
            if let Ok(id) = id.extract::<u64>() {
                all.push((id, thread));
            }
        }
    }
    Ok(all)
}
