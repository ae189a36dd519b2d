//! Processes for Python: the running one, all of them, their mailboxes.

use super::running::as_process;
use crate::{
    convert::{errors, pid::Pid},
    door,
    instrument::message_view,
    processes::relations,
    state::{host, process, start, thread::ThreadState},
};
use inviso_core::{
    sync::Unpoisoned,
    tracee::{Kind, Tracee},
};
use inviso_cpython::interpreter::{
    again,
    calling::{self, call},
};
use pyo3::{exceptions::PyException, prelude::*};
use std::{sync::Arc, time::Duration};

/// The process that runs the caller.
fn current(py: Python<'_>) -> PyResult<Arc<Tracee>> {
    as_process(py, |_, state| Ok(state.thread.current().clone()))
}

/// The pid of the process that runs the caller.
#[pyfunction]
pub fn self_pid(py: Python<'_>) -> PyResult<Pid> {
    Ok(Pid::new(current(py)?.pid))
}

/// The pid of a thread, task or queue object; None for other objects and for ended ones.
#[pyfunction]
pub fn pid_of(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Option<Pid>> {
    let host = start::host(py)?;
    let found = host.directory.of_object(host, object)?;
    Ok(found.filter(|t| t.is_alive() && !process::process(t).is_gone()).map(|t| Pid::new(t.pid)))
}

/// The pid of a task that has just been made, and may have ended; None for other objects.
#[pyfunction]
pub fn pid_of_made(py: Python<'_>, task: &Bound<'_, PyAny>) -> PyResult<Option<Pid>> {
    let host = start::host(py)?;
    Ok(host.directory.of_made(host, task)?.map(|t| Pid::new(t.pid)))
}

/// The thread or task object of a process; None if it is gone.
#[pyfunction]
pub fn object_of(py: Python<'_>, pid: &Pid) -> PyResult<Option<Py<PyAny>>> {
    let (Some(tracee), Some(host)) = (pid.tracee(py), host::try_host()) else { return Ok(None) };
    Ok(host.directory.object(py, &tracee)?.map(Bound::unbind))
}

/// A new process of a tracer, without a thread; a thread has to call `become`.
#[pyfunction]
pub fn new_process(py: Python<'_>, name: String) -> PyResult<Pid> {
    let host = start::host(py)?;
    let tracee = host.node.tracer_process();
    *process::process(&tracee).name.lock().unpoisoned() = Some(name);
    Ok(Pid::new(tracee.pid))
}

/// Makes the calling thread that process.
#[pyfunction]
#[pyo3(name = "become")]
pub fn become_process(py: Python<'_>, pid: &Pid) -> PyResult<()> {
    let tracee = pid.tracee(py).ok_or_else(|| errors::raise(inviso_core::error::Error::ProcessDead))?;
    change_own(py, tracee)
}

/// Takes the calling thread's process away, so that nothing finds the thread. Its former process, if any, goes on.
#[pyfunction]
pub fn resign(py: Python<'_>) -> PyResult<()> {
    let host = start::host(py)?;
    let own = host.node.hidden();
    host.directory.replace_own(&own);
    // SAFETY: the thread is attached.
    unsafe { door::call(|state| door::become_process(state, own)) };
    Ok(())
}

/// Hides the calling thread, which is not the program's: nothing finds it, and it has never been a process.
#[pyfunction]
pub fn hide(py: Python<'_>) -> PyResult<()> {
    let own = start::host(py)?.node.hidden();
    change_own(py, own)
}

fn change_own(py: Python<'_>, own: Arc<Tracee>) -> PyResult<()> {
    let host = start::host(py)?;
    let change = |state: &mut ThreadState| {
        let known = host.directory.replace_own(&own);
        let was = door::become_process(state, own);
        state.turn.told = true; // nor was it told that it began
                                // a search for threads may have found it before it had a process of its own
        let found = known.filter(|known| was.as_ref().is_none_or(|was| !Arc::ptr_eq(known, was)));
        for before in was.iter().chain(&found) {
            host.node.end_process(before);
        }
    };
    // SAFETY: the thread is attached.
    unsafe { door::call(change) };
    Ok(())
}

/// Announces the process of a thread object, before the thread is started.
#[pyfunction]
pub fn announce_thread(py: Python<'_>, thread: &Bound<'_, PyAny>) -> PyResult<Pid> {
    let parent = current(py)?;
    let host = start::host(py)?;
    Ok(Pid::new(host.spawning.announce(host, thread.as_ptr() as usize, &parent).pid))
}

/// Hides a thread object that is going to be started: its thread emits nothing, and nothing finds it as a process.
#[pyfunction]
pub fn hide_thread(py: Python<'_>, thread: &Bound<'_, PyAny>) -> PyResult<()> {
    let host = start::host(py)?;
    host.spawning.hide(host, thread.as_ptr() as usize);
    Ok(())
}

/// A thread object that was announced, or hidden, could not be started.
#[pyfunction]
pub fn renounce_thread(py: Python<'_>, thread: &Bound<'_, PyAny>) -> PyResult<()> {
    let host = start::host(py)?;
    host.spawning.renounce(host, thread.as_ptr() as usize);
    Ok(())
}

/// The calling thread becomes the process that was announced for it, unless it is that already.
#[pyfunction]
pub fn enter_process(py: Python<'_>) -> PyResult<()> {
    current(py).map(drop)
}

/// All living processes.
#[pyfunction]
pub fn processes(py: Python<'_>) -> PyResult<Vec<Pid>> {
    let host = start::host(py)?;
    host.directory.refresh(py, host)?;
    let living = host.node.processes().into_iter().filter(|t| !process::process(t).is_gone());
    Ok(living.map(|t| Pid::new(t.pid)).collect())
}

/// The names of all living processes and of the latest that have ended; a process whose name raises is left out.
#[pyfunction]
pub fn process_names(py: Python<'_>) -> PyResult<Vec<(Pid, String)>> {
    // without a host nothing of this process was traced
    let Some(host) = host::try_host() else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for pid in processes(py)? {
        match pid.name(py) {
            Ok(name) => names.push((pid, name)),
            Err(error) if error.is_instance_of::<PyException>(py) => {}
            Err(error) => return Err(error),
        }
    }
    names.extend(host.directory.ended_names(py).into_iter().map(|(pid, name)| (Pid::new(pid), name)));
    Ok(names)
}

/// Gives a process a name of its own.
#[pyfunction]
pub fn set_process_name(py: Python<'_>, pid: &Pid, name: String) {
    if let Some(tracee) = pid.tracee(py) {
        if tracee.kind == Kind::Task {
            inviso_port::learned::task(tracee.pid, name.clone());
        }
        *process::process(&tracee).name.lock().unpoisoned() = Some(name);
    }
}

/// Puts a message into a process's mailbox, after the trace messages that wait for it; False if the process has ended.
#[pyfunction]
pub fn mailbox_put(py: Python<'_>, pid: &Pid, message: Py<PyAny>) -> PyResult<bool> {
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
pub fn mailbox_receive(
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
pub fn mailbox_wait(py: Python<'_>, waiter: Bound<'_, PyAny>, seen: usize) -> PyResult<()> {
    process::process(&*current(py)?).mailbox.clone().when_arrived(waiter, seen)
}

/// Removes a waiter.
#[pyfunction]
pub fn mailbox_leave(py: Python<'_>, waiter: Bound<'_, PyAny>) -> PyResult<()> {
    process::process(&*current(py)?).mailbox.clone().leave(&waiter);
    Ok(())
}

/// The messages in a process's mailbox (the caller's without `pid`), without taking them.
#[pyfunction]
#[pyo3(signature = (pid=None))]
pub fn mailbox_peek(py: Python<'_>, pid: Option<&Pid>) -> PyResult<Vec<Py<PyAny>>> {
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

/// This node's name.
#[pyfunction]
pub fn node_name() -> String {
    inviso_port::node::name()
}

/// Names this node.
#[pyfunction]
pub fn set_node_name(name: &str) {
    inviso_port::node::set_name(name);
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

/// The trace control word.
#[pyfunction]
pub fn control_word(py: Python<'_>) -> PyResult<u32> {
    Ok(start::host(py)?.node.control_word())
}

/// Sets the trace control word; returns the old one.
#[pyfunction]
pub fn set_control_word(py: Python<'_>, value: u32) -> PyResult<u32> {
    Ok(start::host(py)?.node.set_control_word(value))
}
