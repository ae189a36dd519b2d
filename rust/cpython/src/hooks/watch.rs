//! Code and function watchers (3.12 on): CPython calls back when a code object or a function is made, changed or
//! destroyed.
//!
//! There are eight of each per interpreter, shared by all tools. A callback runs on the thread that made the change, at
//! the same time on many threads of a free-threaded build, and must not raise: it should push the object to a list and
//! return 0.

use std::ffi::c_int;
use std::fmt;

use pyo3::ffi::PyObject;
use pyo3::prelude::*;

/// A code object is about to be freed; its memory is still whole.
pub const CODE_DESTROY: c_int = 1;
/// A function has been made: every `def`, `lambda` and closure that runs, and one for each `exec`.
pub const FUNCTION_CREATE: c_int = 0;

/// Called with the event and the code object, borrowed. Returns 0.
pub type CodeCallback = unsafe extern "C" fn(event: c_int, code: *mut PyObject) -> c_int;
/// Called with the event, the function and the new value (or null), borrowed. Returns 0.
pub type FunctionCallback = unsafe extern "C" fn(event: c_int, function: *mut PyObject, value: *mut PyObject) -> c_int;

extern "C" {
    fn PyCode_AddWatcher(callback: CodeCallback) -> c_int;
    fn PyCode_ClearWatcher(id: c_int) -> c_int;
    fn PyFunction_AddWatcher(callback: FunctionCallback) -> c_int;
    fn PyFunction_ClearWatcher(id: c_int) -> c_int;
}

/// The kind of objects of a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Code objects.
    Code,
    /// Functions.
    Function,
}

/// A watcher that is in place, until [`Watcher::clear`].
#[derive(Debug)]
#[must_use = "the watcher stays in place until it is cleared"]
pub struct Watcher {
    kind: Kind,
    id: c_int,
}

/// Other tools hold all eight watchers of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoWatcher {
    kind: Kind,
    said: String,
}

impl Watcher {
    /// Watches code objects.
    ///
    /// # Safety
    /// `callback` is never unloaded, leaves no exception, and may be called on any thread.
    ///
    /// # Errors
    /// No slot is left.
    pub unsafe fn code(py: Python<'_>, callback: CodeCallback) -> Result<Watcher, NoWatcher> {
        // SAFETY: the thread is attached; the caller promises the callback's contract.
        Watcher::made(py, Kind::Code, unsafe { PyCode_AddWatcher(callback) })
    }

    /// Watches functions.
    ///
    /// # Safety
    /// As [`Watcher::code`].
    ///
    /// # Errors
    /// No slot is left.
    pub unsafe fn function(py: Python<'_>, callback: FunctionCallback) -> Result<Watcher, NoWatcher> {
        // SAFETY: the thread is attached; the caller promises the callback's contract.
        Watcher::made(py, Kind::Function, unsafe { PyFunction_AddWatcher(callback) })
    }

    /// Gives the slot back. On a free-threaded build a callback may still be running on another thread when this
    /// returns.
    pub fn clear(self, py: Python<'_>) {
        // SAFETY: the thread is attached, and the id is ours until here.
        let done = unsafe {
            match self.kind {
                Kind::Code => PyCode_ClearWatcher(self.id),
                Kind::Function => PyFunction_ClearWatcher(self.id),
            }
        };
        if done < 0 {
            // other code cleared our id: there is nothing left to give back
            drop(PyErr::take(py));
        }
    }

    fn made(py: Python<'_>, kind: Kind, id: c_int) -> Result<Watcher, NoWatcher> {
        if id >= 0 {
            return Ok(Watcher { kind, id });
        }
        let said = PyErr::take(py).map_or_else(String::new, |e| e.value(py).to_string());
        Err(NoWatcher { kind, said })
    }
}

impl fmt::Display for NoWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Code => "code",
            Kind::Function => "function",
        };
        write!(f, "no {kind} watcher is left: other tools hold all eight of this interpreter ({})", self.said)
    }
}

impl std::error::Error for NoWatcher {}
