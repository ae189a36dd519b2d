//! Waiting for space in a ring (`overflow="block"`): detached from the interpreter, which the reader needs.

use pyo3::ffi;

/// Calls `wait` while other threads may run Python.
pub fn detached(wait: &mut dyn FnMut()) {
    // SAFETY: a thread with a state is attached, as events are; one without (its very end) has nothing to release.
    // Nothing touches Python between the two calls.
    unsafe {
        if ffi::compat::PyThreadState_GetUnchecked().is_null() {
            return wait();
        }
        let state = ffi::PyEval_SaveThread();
        wait();
        ffi::PyEval_RestoreThread(state);
    }
}
