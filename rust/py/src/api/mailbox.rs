//! Mailboxes for Python.

use super::processes::current;
use crate::{convert::pid::Pid, door, instrument::message_view, processes::relations, state::process};
use pyo3::prelude::*;
use std::time::Duration;

/// Puts a message into a process's mailbox, after the trace messages that wait for it; False if the process has ended.
#[pyfunction]
pub fn put(py: Python<'_>, pid: &Pid, message: Py<PyAny>) -> PyResult<bool> {
    let Some(tracee) = pid.tracee(py) else { return Ok(false) };
    let mailbox = process::process(&tracee).mailbox.clone();
    mailbox.pump(py)?;
    mailbox.put(py, [message]);
    Ok(true)
}

/// Takes the first message that `matches` accepts from the caller's mailbox: `(message,)`, or None when the time is
/// over.
#[pyfunction]
#[pyo3(signature = (matches, timeout))]
pub fn receive(
    py: Python<'_>, matches: Option<&Bound<'_, PyAny>>, timeout: Option<f64>,
) -> PyResult<Option<(Py<PyAny>,)>> {
    let own = current(py)?;
    let mailbox = process::process(&own).mailbox.clone();
    let timeout = timeout.map(|t| Duration::try_from_secs_f64(t.max(0.0)).unwrap_or(Duration::MAX / 4));
    let message = mailbox.receive(py, matches, timeout, || relations::hear(py, &own).map(|()| true))?;
    Ok(message.map(|letter| {
        relations::taken(py, &own, &letter.message, letter.carried);
        (letter.message,)
    }))
}

/// The running process has waited for a message in vain.
#[pyfunction]
pub fn timed_out(py: Python<'_>) -> PyResult<()> {
    current(py)?;
    // SAFETY: the thread is attached.
    unsafe { door::call(message_view::timed_out) };
    Ok(())
}

/// Calls `waiter` once when something arrives in the caller's mailbox beyond its first `seen` messages.
#[pyfunction]
pub fn wait(py: Python<'_>, waiter: Bound<'_, PyAny>, seen: usize) -> PyResult<()> {
    process::process(&*current(py)?).mailbox.clone().when_arrived(waiter, seen)
}

/// Removes a waiter.
#[pyfunction]
pub fn leave(py: Python<'_>, waiter: Bound<'_, PyAny>) -> PyResult<()> {
    process::process(&*current(py)?).mailbox.clone().leave(&waiter);
    Ok(())
}

/// The messages in a process's mailbox (the caller's without `pid`), without taking them.
#[pyfunction]
#[pyo3(signature = (pid=None))]
pub fn peek(py: Python<'_>, pid: Option<&Pid>) -> PyResult<Vec<Py<PyAny>>> {
    let own = current(py)?;
    relations::hear(py, &own)?;
    let tracee = match pid {
        Some(pid) => pid.tracee(py),
        None => Some(own),
    };
    let Some(tracee) = tracee else { return Ok(Vec::new()) };
    let mailbox = process::process(&tracee).mailbox.clone();
    mailbox.pump(py)?;
    Ok(mailbox.peek(py))
}
