//! Functions and tables of higher rooms that lower rooms use. The module gives them once, when it is made. No other
//! arrow between rooms points up.

use super::{
    host::Host,
    instrument::{Handler, Module},
    thread::{Served, ThreadState},
};
use inviso_core::host::tracee::Tracee;
#[cfg(Py_3_12)]
use inviso_cpython::hooks::{monitoring::Event, vectorcall::Function};
use pyo3::{ffi::PyObject, prelude::*, types::PyTuple};
use std::sync::{Arc, OnceLock};

/// Finds the port that a callback with these arguments serves. See [`Above::served`].
type PortOfCallback = unsafe fn(&mut ThreadState, &Bound<'_, PyAny>, Option<&Bound<'_, PyTuple>>) -> Option<Served>;

/// The functions and tables.
pub struct Above {
    /// All handlers of functions of the standard library. Handlers of the same function run in this order.
    pub handlers: &'static [&'static Handler],
    /// All modules that instruments wait for.
    pub modules: &'static [&'static [Module]],
    /// The state of a thread at its first event. The door holds it, and the directory finds the thread's process.
    pub thread_begins: fn(&'static Host) -> ThreadState,
    /// A thread ends: its process emits its end, and the processes that are linked to it get signals.
    pub thread_ends: fn(ThreadState),
    /// Greenlets have to be looked at before the event that the door lets in.
    pub greenlet_changed: fn(&mut ThreadState),
    /// The object of a port is about to be freed.
    pub port_gone: fn(&'static Host, &Arc<Tracee>),
    /// A task is gone without an event of its end: sessions, linked processes and monitors get to know.
    ///
    /// # Safety
    /// The thread is attached; nothing of the task has been cleared.
    pub task_gone: unsafe fn(Python<'_>, &'static Host, &Arc<Tracee>, *mut PyObject),
    /// A task is about to resume with the result of a future that it waited for.
    ///
    /// # Safety
    /// Attached, with no exception set; task and future stand.
    pub woken: unsafe fn(&mut ThreadState, *mut PyObject, *mut PyObject),
    /// The port for which an event loop calls a callback with these arguments.
    ///
    /// # Safety
    /// The thread is attached and takes no events meanwhile.
    pub served: PortOfCallback,
    /// Signals the ends of processes that could not be signalled where they happened.
    pub settle: fn(),
    /// The functions that the interpreter calls, with their events.
    #[cfg(Py_3_12)]
    pub callbacks: &'static [(Event, Function)],
    /// The frame evaluation function.
    #[cfg(not(Py_3_12))]
    pub evaluate: pyo3::ffi::_PyFrameEvalFunction,
    /// What a profile function does for functions written in C.
    #[cfg(not(Py_3_12))]
    pub profile: inviso_cpython::hooks::profile::Handler,
    /// The last token has gone, or a thread has ended: perhaps the instruments that carry tokens are not needed.
    pub tokens_idle: fn(),
}

static ABOVE: OnceLock<Above> = OnceLock::new();

/// Gives the functions and tables. Only the first call counts: the module may be made again in another interpreter.
pub fn give(above: Above) {
    let _again = ABOVE.set(above);
}

/// The functions and tables.
///
/// # Panics
/// If the module has not been made.
pub fn above() -> &'static Above {
    ABOVE.get().expect("the module gives it when it is made")
}
