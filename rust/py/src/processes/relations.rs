//! Links, monitors and exit signals between processes: Erlang's, for threads and tasks.
//!
//! An exit signal cancels a task. A thread raises SystemExit at its current or next call into this package. Rules:
//! erlang.md (`link/1`, `monitor/2`, `exit/2`), gold README 33.
//!
//! # Roles
//! Any attached thread relates processes and ends them. The main thread, or a thread that waits for a message, settles
//! the orphans (see `directory::orphans`).
//!
//! # States
//! A link is in `GROUPED` while the program's own structure (a task group) accounts for it.
//!
//! # Orderings
//! Mutexes order all lists. `process::go` marks a process gone before its links and monitors are taken, and a new
//! link or monitor looks for that mark after it is in place: so either side finds the other.
//!
//! # Checked by
//! `tests/python/test_process_links.py`, `tests/python/test_exit.py`.

use crate::{
    convert::terms,
    directory::{
        exit_reason,
        orphans::{are_any, orphan, settle_soon, take_monitors, Monitors, Orphan, Untold, MONITORS, ORPHANS},
    },
    door,
    instrument::{lengths, message_view, tokens},
    state::{
        exits,
        host::Host,
        lock,
        mailbox::Letter,
        origin::{Origin, Sender},
        process,
        thread::ThreadState,
        wants::{self, Wants},
    },
};
use inviso_core::host::{
    flags::Flags,
    messages::About,
    seq::Carried,
    thread::Thread,
    tracee::{Kind, Tracee},
};
use inviso_cpython::{
    interpreter::{calling, Aside},
    tasks::steps,
};
use inviso_term::{etf, term::Term};
use pyo3::prelude::*;
use rustc_hash::FxHashSet;
use std::sync::{atomic::Ordering, Arc, Mutex};

/// The meaning of a link for its two processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tie {
    /// Erlang's: the end of one is a signal to the other.
    Link,
    /// The program itself passes the end on: a task group and its children.
    Group,
}

static GROUPED: Mutex<Option<FxHashSet<(u64, u64)>>> = Mutex::new(None);

/// Links two processes for the program's own structure, unless it has done so.
pub fn group(state: &mut ThreadState, parent: &Tracee, child: &Tracee) {
    if lock(&GROUPED).get_or_insert_default().insert((parent.pid, child.pid)) {
        state.host.node.link(&mut state.thread, parent, child);
    }
}

/// The same for a `child` that has not yet emitted its start: [`emit_announced`] emits the other half.
pub fn group_announced(state: &mut ThreadState, parent: &Tracee, child: &Tracee) {
    lock(&GROUPED).get_or_insert_default().insert((parent.pid, child.pid));
    if state.host.node.link_begin(&mut state.thread, parent, child, true) {
        process::process(child).linked_by.store(parent.pid, Ordering::Release);
    }
}

fn tie(one: u64, other: u64) -> Tie {
    let mut all = lock(&GROUPED);
    let grouped = all.as_mut().is_some_and(|all| all.remove(&(one, other)) || all.remove(&(other, one)));
    if grouped {
        Tie::Group
    } else {
        Tie::Link
    }
}

/// The running process starts `child`; links itself to it and monitors it, if it said so before.
pub fn link_announced(state: &mut ThreadState, child: &Tracee) {
    let (linked, watched) = (std::mem::take(&mut state.linking), state.watching.take());
    if let Some(reference) = watched {
        let _always_there = watch(child, reference, state.thread.current().pid);
    }
    if linked {
        let parent = state.thread.current().clone();
        if state.host.node.link_begin(&mut state.thread, &parent, child, true) {
            process::process(child).linked_by.store(parent.pid, Ordering::Release);
        }
    }
}

/// The running process has been started: emits the other half of [`link_announced`].
pub fn emit_announced(state: &mut ThreadState) {
    let own = state.thread.current().clone();
    let by = process::process(&own).linked_by.swap(0, Ordering::AcqRel);
    if by != 0 {
        state.host.node.on_getting_linked(&mut state.thread, &own, by);
    }
}

/// A process ends for `reason`, a term: signals those that are linked to it or monitor it.
pub fn exit(host: &'static Host, thread: &mut Thread, tracee: &Arc<Tracee>, reason: &[u8]) {
    let (links, monitors) = leave(host, thread, tracee, reason);
    emit(host, thread, tracee, reason, links, monitors);
}

/// As [`exit`], for the thread itself.
pub fn exit_thread(state: &mut ThreadState, own: &Arc<Tracee>, reason: &[u8]) {
    let (links, monitors) = leave_thread(state, own, reason);
    emit(state.host, &mut state.thread, own, reason, links, monitors);
}

pub(crate) fn emit(
    host: &'static Host, thread: &mut Thread, tracee: &Arc<Tracee>, reason: &[u8], links: Vec<u64>, monitors: Monitors,
) {
    if !links.is_empty() || !monitors.is_empty() {
        calling::attach(|py| pass_on(py, host, thread, tracee, reason, links, monitors));
    }
}

/// An announced process has not come into being, for `reason`, a term. The starter has an exception and gets no signal.
pub fn unborn(host: &Host, thread: &mut Thread, tracee: &Arc<Tracee>, reason: &[u8]) {
    let (links, monitors) = leave(host, thread, tracee, reason);
    for other in links.into_iter().filter_map(|pid| host.node.tracee(pid)) {
        host.node.on_getting_unlinked(thread, &other, tracee.pid);
    }
    calling::attach(|_| drop(monitors));
}

/// Signals the processes that are linked to a process that has ended, or monitor it.
fn pass_on(
    py: Python<'_>, host: &'static Host, thread: &mut Thread, tracee: &Arc<Tracee>, reason: &[u8], links: Vec<u64>,
    monitors: Monitors,
) {
    // an exception that is set stays set
    let aside = PyErr::take(py);
    for other in links {
        let Some(other) = host.node.tracee(other) else { continue };
        let tie = tie(tracee.pid, other.pid);
        let carried = match tie {
            Tie::Link => exit_token(host, thread, tracee, other.pid, reason),
            Tie::Group => Carried::Nothing,
        };
        if let Err(error) = signal(py, host, thread, &other, tracee.pid, reason, Some(tie), carried) {
            error.write_unraisable(py, None);
        }
    }
    for (reference, watcher) in monitors {
        if let Err(error) = down(py, host, thread, reference, watcher, tracee.pid, reason) {
            error.write_unraisable(py, None);
        }
    }
    if let Some(error) = aside {
        error.restore(py);
    }
}

/// As [`exit_thread`] after the thread has left the interpreter: the main thread signals the others soon.
pub fn exit_unattached(state: &mut ThreadState, own: &Arc<Tracee>, reason: &[u8]) {
    let (links, monitors) = leave_thread(state, own, reason);
    orphan(Orphan { tracee: own.clone(), reason: reason.to_vec(), links, monitors, untold: None });
}

/// A task is gone without an event of its end: it was destroyed while it waited, or was found to be done. Sessions get
/// the event at once, or soon if this thread is inside this package. Linked processes and monitors get theirs soon.
///
/// # Safety
/// The thread is attached; nothing of the task has been cleared.
pub unsafe fn task_gone(py: Python<'_>, host: &'static Host, tracee: &Arc<Tracee>, task: *mut pyo3::ffi::PyObject) {
    let asked = wants::wanted(ENDS);
    if !tracee.is_alive() || !(asked || are_any(host)) || process::go(&host.node, tracee) {
        return;
    }
    // SAFETY: the thread is attached; nothing of the task has been cleared (the caller's promise). The state is not
    // used beyond this block.
    unsafe {
        let _aside = Aside::new();
        let done = steps::is_done_task(py, task);
        let reason = if done { exit_reason::reason_of_task(tracee, task) } else { exit_reason::normal() };
        let untold = Untold { name: host.node.name_of(tracee.pid), destroyed: !done };
        let links = host.node.unrelate(None, tracee);
        let monitors = take_monitors(tracee);
        let mut gone = Orphan { tracee: tracee.clone(), reason, links, monitors, untold: asked.then_some(untold) };
        if asked {
            door::enter(|state| {
                state.running.identify(state.host, &mut state.thread);
                gone.emit(state.host, &mut state.thread);
            });
        }
        orphan(gone);
    }
}

/// The flags that trace ends.
const ENDS: Flags = Flags(Flags::PROCS.0 | Flags::EXITING.0);

/// Signals the ends that wait. The caller is attached and not inside this package: the main thread between two
/// instructions, or a thread that waits for a message.
pub fn settle() {
    let orphans = std::mem::take(&mut *lock(&ORPHANS));
    if orphans.is_empty() {
        return;
    }
    calling::attach(|py| {
        if door::is_inside() {
            // this thread runs Python inside this package: again, after that
            lock(&ORPHANS).splice(0..0, orphans);
            settle_soon();
            return;
        }
        let emit_all = |state: &mut ThreadState| {
            for mut orphan in orphans {
                orphan.emit(state.host, &mut state.thread);
                let Orphan { tracee, reason, links, monitors, .. } = orphan;
                pass_on(py, state.host, &mut state.thread, &tracee, &reason, links, monitors);
            }
        };
        // SAFETY: the thread is attached.
        unsafe { door::enter(emit_all) };
    });
}

/// A port has been closed for `reason`, a term. `linked` are the processes that linked themselves to it by a call of
/// this package; they get an exit signal. The program itself handles the others.
pub fn port_closed(
    py: Python<'_>, host: &'static Host, thread: &mut Thread, port: &Arc<Tracee>, linked: &[u64], reason: &[u8],
) {
    let links = host.node.unrelate(Some(thread), port);
    if links.is_empty() {
        return;
    }
    for other in links {
        let Some(other) = host.node.tracee(other) else { continue };
        let tie = if linked.contains(&other.pid) { Tie::Link } else { Tie::Group };
        if let Err(error) = signal(py, host, thread, &other, port.pid, reason, Some(tie), Carried::Nothing) {
            error.write_unraisable(py, None);
        }
    }
}

/// Emits a process's end and marks it gone. Returns its links and monitors.
fn leave(host: &Host, thread: &mut Thread, tracee: &Arc<Tracee>, reason: &[u8]) -> (Vec<u64>, Monitors) {
    host.node.on_process_exit(thread, About::Other(tracee), reason);
    process::go(&host.node, tracee);
    let links = host.node.unrelate(Some(thread), tracee);
    (links, take_monitors(tracee))
}

/// As [`leave`], for the thread itself, which emits all of its end before it is gone.
fn leave_thread(state: &mut ThreadState, own: &Arc<Tracee>, reason: &[u8]) -> (Vec<u64>, Monitors) {
    let host = state.host;
    host.node.on_process_exit(&mut state.thread, About::Other(own), reason);
    let mut links = host.node.unrelate(Some(&mut state.thread), own);
    crate::processes::turns::thread_ended(state);
    process::go(&host.node, own);
    // links made meanwhile
    links.extend(host.node.unrelate(Some(&mut state.thread), own));
    (links, take_monitors(own))
}

/// The token that the exit signal of an ending process carries over a link.
fn exit_token(host: &Host, thread: &mut Thread, ending: &Tracee, to: u64, reason: &[u8]) -> Carried {
    host.node.seq_send(thread, About::Other(ending), to, |out, _| {
        out.tuple(3)?;
        out.atom("EXIT")?;
        out.pid(ending.pid)?;
        out.raw(reason)
    })
}

fn is_normal(reason: &[u8]) -> bool {
    reason == exit_reason::normal()
}

/// An exit signal arrives at a process: over a link of this kind, or by `exit/2`.
#[allow(clippy::too_many_arguments)]
pub(crate) fn signal(
    py: Python<'_>, host: &'static Host, thread: &mut Thread, to: &Arc<Tracee>, from: u64, reason: &[u8],
    link: Option<Tie>, carried: Carried,
) -> PyResult<()> {
    if link == Some(Tie::Group) {
        host.node.on_getting_unlinked(thread, to, from);
        return Ok(());
    }
    if to.kind == Kind::Port {
        // a port stays open after its linked process ends, as Python's objects do
        if link.is_some() {
            process::process(to).port.note_link(from, false);
            host.node.on_getting_unlinked(thread, to, from);
        }
        return Ok(());
    }
    let own = process::process(to);
    let kill = link.is_none() && reason == etf::encode(&Term::atom("kill"));
    if !kill && own.traps_exit.load(Ordering::Acquire) {
        if link.is_some() {
            host.node.on_getting_unlinked(thread, to, from);
        }
        let reason = terms::object(py, reason)?;
        let message = (terms::atom(py, "EXIT")?, terms::identity(py, from)?, reason).into_pyobject(py)?.into_any();
        return deliver(py, host, thread, to, Sender::Process(from), message, carried);
    }
    // a process's own signal with the reason normal ends it (erlang.md, `exit/2`)
    let itself = link.is_none() && from == to.pid;
    if is_normal(reason) && !itself {
        if link.is_some() {
            host.node.on_getting_unlinked(thread, to, from);
        }
        return Ok(());
    }
    let reason = if kill { etf::encode(&Term::atom("killed")) } else { reason.to_vec() };
    end(py, host, to, from, reason)
}

/// Ends a process.
fn end(py: Python<'_>, host: &'static Host, tracee: &Arc<Tracee>, from: u64, reason: Vec<u8>) -> PyResult<()> {
    let own = process::process(tracee);
    let exit = own.exits.add(py, from, reason)?;
    if tracee.kind == Kind::Task {
        if let Some(task) = host.directory.object(py, tracee)? {
            let event_loop = calling::method(&task, "get_loop", ())?;
            if !calling::method(&event_loop, "is_closed", ())?.is_truthy()? {
                calling::method(&event_loop, "call_soon_threadsafe", (task.getattr("cancel")?, exit))?;
            }
        }
        return Ok(());
    }
    own.told.store(true, Ordering::Release);
    own.mailbox.wake();
    Ok(())
}

/// A message of this package, or one that a process sent, arrives at a mailbox.
///
/// # Errors
/// The error of bringing in the trace messages before it.
pub fn deliver(
    py: Python<'_>, host: &'static Host, thread: &mut Thread, to: &Arc<Tracee>, origin: impl Into<Origin>,
    message: Bound<'_, PyAny>, carried: Carried,
) -> PyResult<()> {
    let mailbox = process::process(to).mailbox.clone();
    mailbox.pump(py)?;
    // SAFETY: held; the thread is attached.
    unsafe { message_view::arrived(host, thread, to, origin, message.as_ptr()) };
    mailbox.put_letters(py, [Letter { message: message.unbind(), carried }]);
    if lengths::are_wanted() {
        lengths::changed(host, thread, to, mailbox.len() as u64);
    }
    Ok(())
}

/// The running process has taken a message out of its mailbox.
pub fn taken(_py: Python<'_>, own: &Tracee, message: &Py<PyAny>, carried: Carried) {
    let emit = |state: &mut ThreadState| {
        if lengths::are_wanted() {
            let length = process::process(own).mailbox.len() as u64;
            lengths::changed(state.host, &mut state.thread, own, length);
        }
        if state.host.node.seq_in_use() {
            // SAFETY: held; the thread is attached.
            let write = unsafe { tokens::writing(message.as_ptr()) };
            state.host.node.seq_receive(&mut state.thread, About::Other(own), carried, write);
        }
    };
    // SAFETY: the callers are attached.
    unsafe { door::call(emit) };
}

pub(crate) fn down(
    py: Python<'_>, host: &'static Host, thread: &mut Thread, reference: Py<PyAny>, watcher: u64, pid: u64,
    reason: &[u8],
) -> PyResult<()> {
    let Some(to) = host.node.tracee(watcher) else { return Ok(()) };
    let (word, kind) = (terms::atom(py, "DOWN")?, terms::atom(py, "process")?);
    let message = (word, reference, kind, terms::identity(py, pid)?, terms::object(py, reason)?).into_pyobject(py)?;
    deliver(py, host, thread, &to, Sender::Process(pid), message.into_any(), Carried::Nothing)
}

/// Raises SystemExit in a thread that got an exit signal.
///
/// # Errors
/// SystemExit, if so.
pub fn hear(py: Python<'_>, own: &Tracee) -> PyResult<()> {
    let process = process::process(own);
    if process.told.load(Ordering::Relaxed) && process.told.swap(false, Ordering::AcqRel) {
        let exit = process.exits.last(py);
        let reason = exit.as_ref().map(|exit| exit.get_item(2)).transpose()?;
        let error = pyo3::exceptions::PySystemExit::new_err((reason.map(Bound::unbind),));
        if let Some(exit) = exit {
            exits::mark(error.value(py), &exit)?;
        }
        return Err(error);
    }
    Ok(())
}

pub(crate) fn with_ports(id: u64, on: bool) -> Option<Wants> {
    let port = Kind::of(id) == Kind::Port;
    on.then(|| Wants { related: true, related_ports: port, ..Wants::default() })
}

pub(crate) fn is_gone(tracee: &Tracee) -> bool {
    process::process(tracee).is_gone()
}

/// Adds a monitor of a process for `own`. Returns the reference if the process has ended already.
pub(crate) fn watch(tracee: &Tracee, reference: Py<PyAny>, own: u64) -> Option<Py<PyAny>> {
    let mut monitors = lock(&process::process(tracee).monitors);
    if is_gone(tracee) {
        return Some(reference);
    }
    MONITORS.fetch_add(1, Ordering::Relaxed);
    monitors.push((reference, own));
    None
}

/// The thread ends.
pub fn end_of_thread(mut state: ThreadState) {
    let own = state.thread.own().clone();
    state.thread.switch_to_own();
    if !state.told_exit {
        // its first frames were not seen to end: code before the hook on 3.11, or a thread without the threading
        // module
        let reason = state.reason.take().unwrap_or_else(exit_reason::normal);
        exit_unattached(&mut state, &own, &reason);
    }
    crate::processes::turns::thread_ended(&mut state);
    let host = state.host;
    host.node.end_thread(state.thread);
    host.directory.thread_ended(host, &own);
}

/// A task's step has ended. If it was the last one, and no coroutine was seen to end, emits the task's end.
///
/// # Safety
/// The thread is attached and has no exception set; the task stands.
pub unsafe fn step_ended(state: &mut ThreadState, task: *mut pyo3::ffi::PyObject) {
    // SAFETY: the caller promises that the thread is attached and has no exception set, and the task stands.
    unsafe {
        if !steps::is_done(task) {
            return;
        }
        let Some(tracee) = state.host.directory.known(task as usize).filter(|tracee| tracee.is_alive()) else { return };
        if !process::go(&state.host.node, &tracee) {
            let reason = exit_reason::reason_of_task(&tracee, task);
            exit(state.host, &mut state.thread, &tracee, &reason);
        }
        state.host.node.end_process(&tracee);
    }
}
