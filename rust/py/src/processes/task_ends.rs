//! The ends of tasks: seen where the outermost coroutine ends, or after the last step.
//!
//! # Roles
//! Instruments switch `ON`, attached. Any attached thread makes and runs tasks.
//!
//! # States
//! `ON`: tasks are announced.
//!
//! # Orderings
//! `ON` is read `Relaxed`: a task that is made near the switch may be missed.
//!
//! # Checked by
//! `tests/python/test_trace_processes.py`.

use super::{relations, task_turns};
use crate::{
    directory::exit_reason::{reason, reason_of_return},
    instrument::watch,
    state::{
        host::Host,
        instrument::{Ended, Handler},
        process,
        thread::ThreadState,
        untraced::untraced,
    },
};
use inviso_core::host::tracee::Kind;
use inviso_cpython::{frames::frame::Frame, tasks::steps};
use pyo3::{ffi, prelude::*};
use std::sync::atomic::{AtomicBool, Ordering};

pub static ON: AtomicBool = AtomicBool::new(false);

/// Coroutines that tasks run. What is run by other objects (`collections.abc.Coroutine`, a coroutine of Cython's) has no code to be
/// watched: see [`task_turns::watch_ends`].
pub static COROUTINE: Handler = Handler { end: Some(on_coroutine_end), ..Handler::NONE };

/// Keeps the name of the task that was made last. Before 3.13 a task gets its name after its initialiser, and before
/// anything else happens.
#[cfg(not(Py_3_13))]
pub fn note_made(state: &mut ThreadState) {
    let Some(made) = state.made.take() else { return };
    let task = made.object.load(Ordering::Acquire) as *mut ffi::PyObject;
    if !task.is_null() {
        // SAFETY: attached, with a GIL, so that the task stands as long as its process has its address.
        unsafe { process::note_name(&made, task) };
    }
}

/// A coroutine ends. If it is the outermost one of a task, so does the task.
fn on_coroutine_end(state: &mut ThreadState, frame: Frame, how: Ended) {
    // SAFETY: the thread is attached; the event's frame still stands.
    unsafe {
        let generator = frame.generator() as usize;
        state.running.identify(state.host, &mut state.thread);
        #[cfg(not(Py_3_13))]
        note_made(state);
        let current = state.thread.current().clone();
        if generator == 0 || current.kind != Kind::Task {
            return;
        }
        if process::process(&current).coroutine.load(Ordering::Acquire) == generator {
            // the task's step runs, so the task stands
            let task = current.object.load(Ordering::Acquire) as *mut ffi::PyObject;
            let reason = match how {
                Ended::Returned(_) if !task.is_null() => untraced(state, |_, _| reason_of_return(&current, task)),
                _ => reason(&current, how.error()),
            };
            if !task.is_null() {
                state.running.note_name(state.host, task as usize);
            }
            relations::exit(state.host, &mut state.thread, &current, &reason);
            state.host.node.end_process(&current);
        }
    }
}

/// Watches the end of the task that runs this coroutine.
///
/// # Errors
/// The error of `sys.monitoring`.
///
/// # Safety
/// The coroutine stands; no exception is set.
pub unsafe fn watch_end(py: Python<'_>, host: &Host, coroutine: *mut ffi::PyObject) -> PyResult<()> {
    // SAFETY: the caller promises that the coroutine stands and no exception is set; the coroutine holds its frame.
    unsafe {
        match steps::frame_of(coroutine) {
            Some(frame) => watch::add(py, host, &COROUTINE, &[Bound::from_borrowed_ptr(py, frame.code())]),
            None => task_turns::watch_ends(py),
        }
    }
}
