//! How a thread waits for room in a ring (`overflow="block"`): without the interpreter, which the reader needs.

use pyo3::ffi;

/// Calls `wait` while other threads may run Python.
pub fn detached(wait: &mut dyn FnMut()) {
    // SAFETY: a thread that has a state is attached, as events are; one without (its very end) has nothing to let go of. Between
    // the two calls nothing touches Python.
    unsafe {
        if ffi::compat::PyThreadState_GetUnchecked().is_null() {
            return wait();
        }
        let state = ffi::PyEval_SaveThread();
        wait();
        ffi::PyEval_RestoreThread(state);
    }
}
