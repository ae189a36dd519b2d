//! Links, monitors, names and exit signals, as Python calls them.

use super::running::as_process;
use crate::{
    convert::{pid::Pid, terms},
    directory::{exit_reason, orphans::MONITORS},
    door,
    instrument::{message_view::Message, tokens},
    processes::relations::{deliver, down, exit, hear, is_gone, signal, watch, with_ports, Tie},
    state::{
        exits, lock,
        origin::{Origin, Sender},
        process,
        thread::ThreadState,
        wants::Wants,
    },
};
use inviso_core::host::{
    flags::Flags,
    messages::{self, About},
    seq::Carried,
    tracee::Kind,
};
use inviso_cpython::capture::{self, Raised};
use inviso_term::{etf, record, term::Term};
use pyo3::prelude::*;
use std::sync::atomic::Ordering;

/// The running process links itself to another, or to a port.
#[pyfunction]
pub fn link(py: Python<'_>, who: &Bound<'_, PyAny>) -> PyResult<()> {
    let id = terms::local_number(who).unwrap_or_default();
    with(py, with_ports(id, true), |py, state| {
        let own = state.thread.current().clone();
        match state.host.directory.living(py, state.host, id) {
            Some(other) => {
                if other.kind == Kind::Port {
                    process::process(&other).port.note_link(own.pid, true);
                }
                state.host.node.link(&mut state.thread, &own, &other);
                // the other may have ended without seeing the link
                if is_gone(&other) && state.host.node.part(own.pid, other.pid) {
                    let reason = etf::encode(&Term::atom("noproc"));
                    return signal(
                        py,
                        state.host,
                        &mut state.thread,
                        &own,
                        id,
                        &reason,
                        Some(Tie::Link),
                        Carried::Empty,
                    );
                }
                Ok(())
            }
            None => {
                state.host.node.emit_event(
                    &mut state.thread,
                    About::Current,
                    Flags::PROCS,
                    record::Kind::Link,
                    id,
                    &[],
                );
                let reason = etf::encode(&Term::atom("noproc"));
                signal(py, state.host, &mut state.thread, &own, id, &reason, Some(Tie::Link), Carried::Empty)
            }
        }
    })
}

/// The running process removes its link to another, or to a port.
#[pyfunction]
pub fn unlink(py: Python<'_>, who: &Bound<'_, PyAny>) -> PyResult<()> {
    let id = terms::local_number(who).unwrap_or_default();
    with(py, None, |_, state| {
        let own = state.thread.current().clone();
        if let Some(port) = state.host.node.tracee(id).filter(|other| other.kind == Kind::Port) {
            process::process(&port).port.note_link(own.pid, false);
        }
        state.host.node.unlink(&mut state.thread, &own, id);
        Ok(())
    })
}

/// The pids that a process is linked to.
#[pyfunction]
pub fn links_of(py: Python<'_>, pid: &Pid) -> PyResult<Vec<Py<PyAny>>> {
    crate::state::start::host(py)?.node.links(pid.id).into_iter().map(|id| terms::identity(py, id)).collect()
}

/// The running process shall get a message at the end of another: `("DOWN", reference, "process", pid, reason)`.
#[pyfunction]
pub fn monitor(py: Python<'_>, pid: &Pid, reference: Py<PyAny>) -> PyResult<()> {
    with(py, with_ports(0, true), |py, state| {
        let own = state.thread.current().pid;
        let untold = match pid.tracee(py) {
            Some(tracee) => watch(&tracee, reference, own),
            None => Some(reference),
        };
        match untold {
            None => Ok(()),
            Some(reference) => {
                let reason = etf::encode(&Term::atom("noproc"));
                down(py, state.host, &mut state.thread, reference, own, pid.id, &reason)
            }
        }
    })
}

/// Removes a monitor; False if there is none.
#[pyfunction]
pub fn demonitor(py: Python<'_>, reference: &Bound<'_, PyAny>) -> PyResult<bool> {
    for tracee in crate::state::start::host(py)?.node.processes() {
        let mut found = None;
        {
            let mut monitors = lock(&process::process(&tracee).monitors);
            if let Some(at) = monitors.iter().position(|(known, _)| known.is(reference)) {
                found = Some(monitors.remove(at));
            }
        }
        if found.is_some() {
            MONITORS.fetch_sub(1, Ordering::Relaxed);
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sets whether exit signals come to the running process as messages; returns the old value.
#[pyfunction]
pub fn trap_exit(py: Python<'_>, on: bool) -> PyResult<bool> {
    with(py, None, |_, state| Ok(process::process(state.thread.current()).traps_exit.swap(on, Ordering::AcqRel)))
}

/// Sends an exit signal.
#[pyfunction]
pub fn exit_signal(py: Python<'_>, pid: &Pid, reason: &Bound<'_, PyAny>) -> PyResult<()> {
    let reason = snapshot(reason);
    with(py, None, |py, state| {
        let from = state.thread.current().pid;
        match pid.tracee(py) {
            Some(to) => signal(py, state.host, &mut state.thread, &to, from, &reason, None, Carried::Empty),
            None => Ok(()),
        }
    })
}

/// The running process is about to end for this reason, by this exception.
#[pyfunction]
pub fn note_exit(py: Python<'_>, reason: &Bound<'_, PyAny>, error: &Bound<'_, PyAny>) -> PyResult<()> {
    let reason = snapshot(reason);
    with(py, None, |py, state| {
        let own = state.thread.current();
        let exit = process::process(own).exits.add(py, own.pid, reason)?;
        exits::mark(error, &exit)
    })
}

/// Sets whether the process that the running one starts next is linked to it, and the reference of its monitor. Returns
/// the reference of an earlier call if no process has been started since.
#[pyfunction]
#[pyo3(signature = (on, reference=None))]
pub fn linking(py: Python<'_>, on: bool, reference: Option<Py<PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    with(py, with_ports(0, on || reference.is_some()), |_, state| {
        state.linking = on;
        Ok(std::mem::replace(&mut state.watching, reference))
    })
}

/// The calling thread is about to end, by this exception or by None.
#[pyfunction]
pub fn leaving(py: Python<'_>, error: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let emit = |state: &mut ThreadState| {
        state.thread.switch_to_own();
        let own = state.thread.own().clone();
        // SAFETY: the exception is held by the caller.
        let error = error.map(|error| unsafe { Raised::made(error.as_ptr()) });
        let reason = exit_reason::reason(&own, error);
        state.told_exit = true;
        exit(state.host, &mut state.thread, &own, &reason);
    };
    let _ = py;
    // SAFETY: the thread is attached.
    unsafe { door::call(emit) };
    Ok(())
}

/// Gives a process a name. Returns None, or the reason why it can't have the name.
#[pyfunction]
pub fn register(py: Python<'_>, name: &str, who: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    let id = terms::local_number(who).unwrap_or_default();
    with(py, with_ports(id, true), |py, state| {
        use inviso_core::host::relations::Unnamed;
        let Some(tracee) = state.host.directory.living(py, state.host, id) else { return Ok(Some("dead")) };
        Ok(match state.host.node.register(&mut state.thread, name, &tracee) {
            Ok(()) => None,
            Err(Unnamed::Dead) => Some("dead"),
            Err(Unnamed::Taken) => Some("taken"),
            Err(Unnamed::HasName) => Some("has a name"),
        })
    })
}

/// Removes a name; False if it wasn't in use.
#[pyfunction]
pub fn unregister(py: Python<'_>, name: &str) -> PyResult<bool> {
    with(py, None, |_, state| Ok(state.host.node.unregister(&mut state.thread, name)))
}

/// The process that has a name.
#[pyfunction]
pub fn whereis(py: Python<'_>, name: &str) -> PyResult<Option<Py<PyAny>>> {
    let host = crate::state::start::host(py)?;
    let living = host.node.whereis(name).and_then(|tracee| host.directory.living(py, host, tracee.pid));
    living.map(|tracee| terms::identity(py, tracee.pid)).transpose()
}

/// All names.
#[pyfunction]
pub fn registered(py: Python<'_>) -> PyResult<Vec<String>> {
    Ok(crate::state::start::host(py)?.node.registered().into_iter().map(|(name, _)| name.into_string()).collect())
}

/// Sends a message to a process or port by its pid, or to the holder of `name` (`to` is then the holder, if there is
/// one). False if there is no receiver.
#[pyfunction]
#[pyo3(signature = (to, message, name=None))]
pub fn send(
    py: Python<'_>, to: Option<&Pid>, message: Bound<'_, PyAny>, name: Option<Bound<'_, PyAny>>,
) -> PyResult<bool> {
    with(py, None, |py, state| {
        let own = state.thread.current().pid;
        let tracee = to.and_then(|to| to.tracee(py));
        let (node, thread) = (&state.host.node, &mut state.thread);
        let number = match (&name, to) {
            (Some(name), _) => {
                let parcel = Message::to_name(&message, name);
                messages::on_send(node, thread, About::Current, true, &parcel)
            }
            // SAFETY: held; the thread is attached.
            (None, Some(pid)) => unsafe {
                let parcel = Message::to(message.as_ptr(), pid.id);
                messages::on_send(node, thread, About::Current, tracee.is_some(), &parcel)
            },
            (None, None) => 0,
        };
        let Some(tracee) = tracee else { return Ok(false) };
        // SAFETY: held; the thread is attached.
        let write = unsafe { tokens::writing(message.as_ptr()) };
        let carried = state.host.node.seq_send(thread, About::Current, tracee.pid, write);
        let origin = Origin::new(Sender::Process(own), number);
        deliver(py, state.host, thread, &tracee, origin, message, carried)?;
        Ok(true)
    })
}

/// Puts a message of this package into a process's mailbox, after the messages that were sent before. It emits no event
/// and carries no token.
#[pyfunction]
pub fn put_in(py: Python<'_>, to: &Pid, message: Bound<'_, PyAny>) -> PyResult<bool> {
    let Some(tracee) = to.tracee(py) else { return Ok(false) };
    let mailbox = process::process(&tracee).mailbox.clone();
    mailbox.pump(py)?;
    mailbox.put(py, [message.unbind()]);
    Ok(true)
}

/// A timer sends a message, which has no sender.
#[pyfunction]
pub fn send_by_clock(py: Python<'_>, to: &Pid, message: Bound<'_, PyAny>) -> PyResult<bool> {
    with(py, None, |py, state| {
        let Some(tracee) = to.tracee(py) else { return Ok(false) };
        deliver(py, state.host, &mut state.thread, &tracee, Sender::Clock, message, Carried::Nothing)?;
        Ok(true)
    })
}

/// The term of a value, as bytes.
fn snapshot(value: &Bound<'_, PyAny>) -> Vec<u8> {
    let mut bytes = vec![0; 8192];
    let mut out = etf::Encoder::new(&mut bytes);
    // SAFETY: held; the thread is attached.
    if unsafe { capture::encode(value.as_ptr(), &mut out, &capture::Limits::DEFAULT) }.is_err() {
        out.truncate(0);
        let _ = out.cut("reason");
    }
    let len = out.len();
    bytes.truncate(len);
    bytes
}

/// Runs `with` as the running process. `related` is given if processes or ports are about to be related, so that their
/// ends are watched.
fn with<R>(
    py: Python<'_>, related: Option<Wants>, with: impl FnOnce(Python<'_>, &mut ThreadState) -> PyResult<R>,
) -> PyResult<R> {
    if let Some(wants) = related {
        crate::state::start::host(py)?.adjust(py, wants)?;
    }
    as_process(py, |py, state| {
        hear(py, state.thread.current())?;
        with(py, state)
    })
}
