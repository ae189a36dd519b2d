//! Processes for Python: the running one, all of them, their names.

use super::running::as_process;
use crate::{
    convert::{errors, pid::Pid},
    door,
    state::{host, process, start, thread::ThreadState},
};
use inviso_core::host::{
    sync::Unpoisoned,
    tracee::{Kind, Tracee},
};
use pyo3::{exceptions::PyException, prelude::*};
use std::sync::Arc;

/// The process that runs the caller.
pub(super) fn current(py: Python<'_>) -> PyResult<Arc<Tracee>> {
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
    let tracee = pid.tracee(py).ok_or_else(|| errors::raise(inviso_core::host::error::Error::ProcessDead))?;
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
