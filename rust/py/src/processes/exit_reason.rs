//! Why a task or thread ends, as a term: the reason of its exit.

use super::{exits, process};
use inviso_core::tracee::Tracee;
use inviso_cpython::{
    capture::{self, Limits, Raised},
    tasks::steps::{self, Outcome},
};
use inviso_term::etf::{Encoder, Full};
use pyo3::ffi;

/// Why a task ends whose coroutine returns. A cancellation that was asked for in its last step it meets now.
///
/// # Safety
/// Attached, no exception is set; the task stands.
pub(super) unsafe fn reason_of_return(ending: &Tracee, task: *mut ffi::PyObject) -> Vec<u8> {
    // SAFETY: the caller's promise; the message is held.
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

/// Why a task that is done has ended, as terms: what the task itself says. It gives the exception of a cancellation away once only,
/// so that is not asked for, and has no arguments.
///
/// # Safety
/// Attached, no exception is set; the task stands.
pub unsafe fn reason_of_task(ending: &Tracee, task: *mut ffi::PyObject) -> Vec<u8> {
    // SAFETY: the caller's promise; what the task has said is held.
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
    // SAFETY: attached, and nothing is set; the exception is held by whoever raised it.
    if let Some(told) = error.and_then(|error| unsafe { exits::told(ending, error) }) {
        return told;
    }
    written(|out| match error {
        None => out.atom("normal"),
        // SAFETY: attached, and nothing is set; the exception is held by whoever raised it.
        Some(error) => unsafe { capture::exception(error, out, &Limits::DEFAULT) },
    })
}

/// What `write` writes, or `"normal"` if that doesn't fit.
pub(super) fn written(write: impl FnOnce(&mut Encoder<'_>) -> Result<(), Full>) -> Vec<u8> {
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

/// The reason of a process that ends well, as terms.
pub fn normal() -> Vec<u8> {
    let mut bytes = vec![0; 32];
    let mut out = Encoder::new(&mut bytes);
    let _ = out.atom("normal");
    let len = out.len();
    bytes.truncate(len);
    bytes
}
