//! Why a task or thread ends, as a term: the reason of its exit.

use crate::state::{exits, process};
use inviso_core::host::tracee::Tracee;
use inviso_cpython::{
    capture::{self, Limits, Raised},
    tasks::steps::{self, Outcome},
};
use inviso_term::etf::{Encoder, Full};
use pyo3::ffi;

/// The exit reason of a task whose coroutine returns. A cancellation that was requested in its last step takes effect
/// now.
///
/// # Safety
/// The thread is attached and has no exception set; the task stands.
pub unsafe fn reason_of_return(ending: &Tracee, task: *mut ffi::PyObject) -> Vec<u8> {
    // SAFETY: the caller promises that the event loop stands and callbacks run attached on this thread; the message is
    // held.
    unsafe {
        let Some(message) = steps::cancellation(task) else { return normal() };
        let told = process::process(ending).exits.reason_of(message.as_ptr());
        told.unwrap_or_else(|| {
            written(|out| {
                out.tuple(2)?;
                out.atom("asyncio.exceptions.CancelledError")?;
                if message.is_null() || message.as_ptr() == ffi::Py_None() {
                    return out.tuple(0);
                }
                out.tuple(1)?;
                capture::encode(message.as_ptr(), out, &Limits::DEFAULT)
            })
        })
    }
}

/// The exit reason of a task that is done, as terms, by the task's own outcome. A task gives away the exception of its
/// cancellation only once, so this doesn't take it, and the reason has no arguments.
///
/// # Safety
/// The thread is attached and has no exception set; the task stands.
pub unsafe fn reason_of_task(ending: &Tracee, task: *mut ffi::PyObject) -> Vec<u8> {
    // SAFETY: the caller promises that the thread is attached and has no exception set, and the task stands; the
    // outcome is held.
    unsafe {
        match steps::outcome(task) {
            Outcome::Returned => return reason(ending, None),
            Outcome::Raised(error) => return reason(ending, Some(Raised::made(error.as_ptr()))),
            Outcome::Cancelled => {}
        }
        if let Some(told) = process::process(ending).exits.last_reason() {
            return told;
        }
        written(|out| {
            out.tuple(2)?;
            out.atom("asyncio.exceptions.CancelledError")?;
            out.tuple(0)
        })
    }
}

/// `"normal"`, or `(type name, args)` of an exception, as terms.
pub fn reason(ending: &Tracee, error: Option<Raised>) -> Vec<u8> {
    // SAFETY: the thread is attached, and no exception is set; the thread that raised the exception holds it.
    if let Some(told) = error.and_then(|error| unsafe { exits::told(&process::process(ending).exits, error) }) {
        return told;
    }
    written(|out| match error {
        None => out.atom("normal"),
        // SAFETY: the thread is attached, and no exception is set; the thread that raised the exception holds it.
        Some(error) => unsafe { capture::exception(error, out, &Limits::DEFAULT) },
    })
}

/// The bytes that `write` writes, or `"normal"` if they don't fit.
pub fn written(write: impl FnOnce(&mut Encoder<'_>) -> Result<(), Full>) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let mut out = Encoder::new(&mut bytes);
    if write(&mut out).is_err() {
        out.truncate(0);
        let _ = out.atom("normal");
    }
    let len = out.len();
    bytes.truncate(len);
    bytes
}

/// The reason of a process that ends normally, as terms.
pub fn normal() -> Vec<u8> {
    let mut bytes = vec![0; 32];
    let mut out = Encoder::new(&mut bytes);
    let _ = out.atom("normal");
    let len = out.len();
    bytes.truncate(len);
    bytes
}
