//! What the package needs of the interpreter: calls in its main thread, and functions for programs that the package runs. A
//! program sees no frame of this package, and no module that only this package needs.

use crate::door;
use inviso_cpython::{
    frames::bottom,
    interpreter::{
        again,
        calling::{self, call},
        standard,
    },
};
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

/// Has the interpreter's main thread call `function(True)` soon, between two instructions, and again as long as it
/// returns True. If the queue is full then, it calls `function(False)`, once. False if the queue is full now.
#[pyfunction]
pub fn call_soon(function: Py<PyAny>) -> bool {
    let raw = function.into_ptr();
    let queued = queue(raw.cast());
    if !queued {
        // SAFETY: the queue has not taken the reference.
        Python::attach(|py| drop(unsafe { Bound::from_owned_ptr(py, raw) }));
    }
    queued
}

/// Whether the interpreter is initialised; 3.15 runs `site` before that.
#[pyfunction]
pub fn is_ready() -> bool {
    // SAFETY: a plain question
    unsafe { pyo3::ffi::Py_IsInitialized() != 0 }
}

/// Takes the reference if it returns true.
fn queue(function: *mut std::ffi::c_void) -> bool {
    // SAFETY: any thread may call this; `run_queued` takes the reference.
    unsafe { pyo3::ffi::Py_AddPendingCall(Some(run_queued), function) == 0 }
}

extern "C" fn run_queued(raw: *mut std::ffi::c_void) -> std::ffi::c_int {
    let again = door::guard(|| {
        calling::attached(|py| {
            // SAFETY: the reference that `queue` took stands until `queue` or `drop` below.
            let function = unsafe { Bound::from_borrowed_ptr(py, raw.cast()) };
            called(&function, true)
        })
    });
    let again = again.unwrap_or(false);
    // No Python code may run after it: since 3.13 an instruction that runs in a pending call, and finds others pending,
    // forgets them.
    if again && queue(raw) {
        return 0;
    }
    door::guard(|| {
        calling::attached(|py| {
            // SAFETY: the queue's reference is released here; the thread is attached.
            let function = unsafe { Bound::from_owned_ptr(py, raw.cast()) };
            if again {
                called(&function, false);
            }
        });
    });
    0
}

/// Calls the function; returns whether it asks for another call.
fn called(function: &Bound<'_, PyAny>, may_wait: bool) -> bool {
    call(function, (may_wait,)).and_then(|again| again.is_truthy()).unwrap_or_else(|error| {
        again::report(function.py(), error);
        false
    })
}
