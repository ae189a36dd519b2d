//! What happens to a port: it is opened, runs, is written to and read from, and is closed.
//!
//! # Roles
//! Attached threads open, use and close ports.
//!
//! # States
//! An object is in `OPENING` while the call that makes it a port runs. A port lives from its first event or sight until
//! it is closed, which `Node::end_process` lets happen once. `WANTED` and `BUSY` are what sessions trace.
//!
//! # Orderings
//! The mutex orders the list. The atomics are read `Relaxed`, as hints: an event near a change may be missed.
//!
//! # Checked by
//! `tests/python/test_ports.py`.

use super::{
    kinds::look,
    passages::{forget_pipes, forget_tls},
};
use crate::{
    convert::terms,
    instrument::message_view::{self, Message},
    processes::relations,
    state::{
        host::Host,
        instrument::Ended,
        lock,
        object_cache::CachedObject,
        origin::{Origin, Sender},
        port::{Own, LINKED},
        process,
        thread::ThreadState,
        untraced::untraced,
        wants::{wanted, Wants},
    },
};
use inviso_core::host::{
    flags::Flags,
    messages::{self, About},
    monitor::LimitEvent,
    thread::Thread,
    tracee::{Kind, Tracee},
};
use inviso_cpython::interpreter::calling::attached;
use inviso_term::{
    etf, record,
    term::{Identifier, Term},
};
use pyo3::{ffi, prelude::*, sync::PyOnceLock};
use std::{
    cell::Cell,
    sync::{
        atomic::{AtomicBool, AtomicU32, Ordering},
        Arc, Mutex,
    },
};

/// Flags that a port has or will have.
static WANTED: AtomicU32 = AtomicU32::new(0);

/// Whether a session watches for busy ports.
pub static BUSY: AtomicBool = AtomicBool::new(false);

/// Objects that are being made ports, by address. The call that saw the beginning reports each.
pub static OPENING: Mutex<Vec<usize>> = Mutex::new(Vec::new());

pub fn own(port: &Tracee) -> &Own {
    &process::process(port).port
}

/// Records what sessions trace, all of them together.
pub fn note(wants: &Wants) {
    WANTED.store(wants.ports.0, Ordering::Relaxed);
    BUSY.store(wants.watches(LimitEvent::BusyPort), Ordering::Relaxed);
}

/// Whether some port has, or will have, one of these flags.
#[inline(always)]
fn asked(flags: Flags) -> bool {
    WANTED.load(Ordering::Relaxed) & flags.0 != 0
}

/// The words of messages.
pub struct PortAtoms {
    command: Py<PyAny>,
    data: Py<PyAny>,
}

pub fn words(py: Python<'_>) -> PyResult<&'static PortAtoms> {
    static WORDS: PyOnceLock<PortAtoms> = PyOnceLock::new();
    WORDS.get_or_try_init(py, || Ok(PortAtoms { command: terms::atom(py, "command")?, data: terms::atom(py, "data")? }))
}

/// The open port of an object. It is made at first sight, if the object is open.
///
/// # Safety
/// The object stands; the thread is attached.
#[inline]
pub unsafe fn port(state: &mut ThreadState, object: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    if let Some(port) = state.places.tracee(object as usize) {
        return Some(port.clone());
    }
    // SAFETY: the caller promises that the object stands and the thread is attached.
    unsafe { meet(state, object) }
}

/// As [`port`], for an object that is about to be closed, if it is a known port. An object that is not known has had no
/// event; or its end was reported when it was freed, and its finaliser closes it only after that.
///
/// # Safety
/// As [`port`].
pub unsafe fn known(state: &mut ThreadState, object: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    state.host.directory.known(object as usize)?;
    // SAFETY: the caller promises that the object stands and the thread is attached.
    unsafe { port(state, object) }
}

/// As [`port`], if the thread has not met the object lately.
///
/// # Safety
/// As [`port`].
#[cold]
#[inline(never)]
unsafe fn meet(state: &mut ThreadState, object: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    let known = state.host.directory.known(object as usize);
    let port = match known {
        Some(known) => known,
        // SAFETY: the caller promises that the object stands and the thread is attached.
        None => untraced(state, |py, state| unsafe {
            let seen = look(&Bound::from_borrowed_ptr(py, object)).filter(|seen| seen.is_open)?;
            let port = state.host.directory.object_process(state.host, Kind::Port, object as usize, None);
            own(&port).driver.get_or_init(|| seen.driver);
            Some(port)
        })?,
    };
    if port.kind != Kind::Port || !port.is_alive() {
        return None;
    }
    state.places.keep(CachedObject::new(port.clone()));
    Some(port)
}

/// Makes an object that is not a port for the program or for sessions.
///
/// # Safety
/// The object stands and supports weak references; the thread is attached, and takes no events meanwhile.
pub unsafe fn silence(host: &Host, object: *mut ffi::PyObject) {
    let port = host.directory.object_process(host, Kind::Port, object as usize, None);
    // another thread may have seen it opened as a port before its owner was known
    leave(host, &port);
}

/// A call begins that makes an object a port.
pub fn opens(object: *mut ffi::PyObject) {
    lock(&OPENING).push(object as usize);
}

/// That call is over. If the object is a port, the running process has opened it, and is linked to it.
///
/// # Safety
/// The object stands; the thread is attached.
pub unsafe fn opened(state: &mut ThreadState, object: *mut ffi::PyObject, how: Ended) {
    if let Ended::Returned(_) = how {
        // SAFETY: the caller promises that the object stands and the thread is attached.
        unsafe { emit_opened(state, object) };
    }
    let mut opening = lock(&OPENING);
    if let Some(at) = opening.iter().position(|known| *known == object as usize) {
        opening.swap_remove(at);
    }
}

/// The running process has opened a port.
///
/// # Safety
/// The object stands; the thread is attached.
unsafe fn emit_opened(state: &mut ThreadState, object: *mut ffi::PyObject) {
    if is_loops_own() {
        // SAFETY: the caller promises that the object stands and the thread is attached.
        return untraced(state, |_, state| unsafe { silence(state.host, object) });
    }
    // SAFETY: the caller promises that the object stands and the thread is attached.
    let port = unsafe {
        state.running.identify(state.host, &mut state.thread);
        match state.host.directory.known(object as usize) {
            Some(_) => return,
            None => meet(state, object),
        }
    };
    let Some(port) = port.filter(|_| asked(Flags(!0))) else { return };
    let opener = state.thread.current().clone();
    let (node, thread) = (&state.host.node, &mut state.thread);
    if node.is_asked(thread, About::Other(&port), Flags::PORTS | Flags::RUNNING_PORTS) {
        runs(state.host, thread, &port, record::Kind::In, Some("open"));
        let driver = etf::encode(&Term::atom(own(&port).driver.get().unwrap_or(&"port")));
        node.emit_event(thread, About::Other(&port), Flags::PORTS, record::Kind::Open, opener.pid, &driver);
        node.link(thread, &opener, &port);
        runs(state.host, thread, &port, record::Kind::Out, Some("open"));
    } else {
        node.link(thread, &opener, &port);
    }
}

/// A port begins to run a command, or has run one; `None` for a command without a name.
pub fn runs(host: &Host, thread: &mut Thread, port: &Tracee, kind: record::Kind, command: Option<&str>) {
    if asked(Flags::RUNNING_PORTS) && host.node.is_asked(thread, About::Other(port), Flags::RUNNING_PORTS) {
        let command = etf::encode(&command.map_or(Term::Int(0.into()), Term::atom));
        host.node.emit_event(thread, About::Other(port), Flags::RUNNING_PORTS, kind, 0, &command);
    }
}

/// A port serves a call that has been made, or is about to be. The events of `emit` stand between `in` and `out`.
pub fn serves(state: &mut ThreadState, port: &Tracee, command: Option<&str>, emit: impl FnOnce(&mut ThreadState)) {
    runs(state.host, &mut state.thread, port, record::Kind::In, command);
    emit(state);
    runs(state.host, &mut state.thread, port, record::Kind::Out, command);
}

/// A port is closed for `reason`, a term. Only the first time counts.
pub fn closed(host: &'static Host, thread: &mut Thread, port: &Arc<Tracee>, reason: &[u8]) {
    if !host.node.end_process(port) {
        return;
    }
    host.node.emit_event(thread, About::Other(port), Flags::PORTS, record::Kind::Closed, 0, reason);
    let linked = forget_port(port);
    attached(|py| relations::port_closed(py, host, thread, port, &linked, reason));
}

/// A port emits no more events. Returns the processes that linked themselves to it.
fn forget_port(port: &Tracee) -> Vec<u64> {
    forget_tls(port);
    forget_pipes(port);
    let linked = std::mem::take(&mut *lock(&own(port).linked));
    LINKED.fetch_sub(linked.len(), Ordering::Relaxed);
    linked
}

/// A port was closed, without an event.
pub fn leave(host: &Host, port: &Tracee) {
    if host.node.end_process(port) {
        forget_port(port);
        host.node.unrelate(None, port);
    }
}

/// Whether a session traces messages of the running process, or of the port, by these flags.
#[inline]
fn passes(state: &mut ThreadState, port: &Tracee, of_process: Flags, of_port: Flags) -> bool {
    let (port_asked, process_asked) = (asked(of_port), asked(Flags(!0)) && wanted(of_process));
    if !port_asked && !process_asked {
        return false;
    }
    // SAFETY: handlers and wrappers run attached on this thread.
    unsafe { state.running.identify(state.host, &mut state.thread) };
    let (node, thread) = (&state.host.node, &state.thread);
    port_asked && node.is_asked(thread, About::Other(port), of_port)
        || process_asked && node.is_asked(thread, About::Current, of_process)
}

/// The running process writes to a port the data that `data` makes.
pub fn written<'py>(
    state: &mut ThreadState, port: &Tracee, data: impl FnOnce(Python<'py>) -> Option<Bound<'py, PyAny>>,
) {
    if !passes(state, port, Flags::SEND, Flags::RECEIVE) {
        return;
    }
    let writer = state.thread.current().pid;
    untraced(state, |_, state| {
        // SAFETY: `untraced` is attached; the objects made here are dropped here.
        let py: Python<'py> = unsafe { Python::assume_attached() };
        let made = || -> PyResult<Option<Bound<'_, PyAny>>> {
            let Some(data) = data(py) else { return Ok(None) };
            let pid = terms::identity(py, writer)?;
            Ok(Some((pid, (&words(py)?.command, data)).into_pyobject(py)?.into_any()))
        };
        let Ok(Some(message)) = made() else { return };
        let (node, thread) = (&state.host.node, &mut state.thread);
        // SAFETY: held; the thread is attached.
        unsafe {
            let parcel = Message::to(message.as_ptr(), port.pid);
            let number = messages::on_send(node, thread, About::Current, true, &parcel);
            let origin = Origin::new(Sender::Process(writer), number);
            message_view::arrived(state.host, thread, port, origin, message.as_ptr());
        }
    });
}

/// The running process reads from a port the data that `data` makes.
pub fn read<'py>(state: &mut ThreadState, port: &Tracee, data: impl FnOnce(Python<'py>) -> Option<Bound<'py, PyAny>>) {
    if !passes(state, port, Flags::RECEIVE, Flags::SEND) {
        return;
    }
    let reader = state.thread.current().pid;
    untraced(state, |_, state| {
        // SAFETY: as in `written`.
        let py: Python<'py> = unsafe { Python::assume_attached() };
        let made = || -> PyResult<Option<Bound<'_, PyAny>>> {
            let Some(data) = data(py) else { return Ok(None) };
            let identity = match own(port).identity.get() {
                Some(known) => known,
                None => {
                    let made = terms::identity(py, port.pid)?;
                    own(port).identity.get_or_init(|| made)
                }
            };
            Ok(Some((identity, (&words(py)?.data, data)).into_pyobject(py)?.into_any()))
        };
        let Ok(Some(message)) = made() else { return };
        let (node, thread) = (&state.host.node, &mut state.thread);
        // SAFETY: held; the thread is attached.
        unsafe {
            let parcel = Message::to(message.as_ptr(), reader);
            let number = messages::on_send(node, thread, About::Other(port), true, &parcel);
            let origin = Origin::new(Sender::Process(port.pid), number);
            let parcel = Message::from(message.as_ptr(), origin);
            messages::on_receive(node, thread, About::Current, &parcel);
        }
    });
}

/// The running process waits because a port doesn't take its data.
pub fn busy(state: &mut ThreadState, port: &Tracee) {
    // SAFETY: handlers and wrappers run attached on this thread.
    unsafe { state.running.identify(state.host, &mut state.thread) };
    let waiting = state.thread.current().pid;
    state.host.node.alarm(&mut state.thread, waiting, LimitEvent::BusyPort, |_, _| {
        Some(Term::Port(Identifier::own(port.pid >> 2)))
    });
}

/// In a forked child: sessions trace nothing, and no object is being made a port.
pub fn forget() {
    WANTED.store(0, Ordering::Relaxed);
    BUSY.store(false, Ordering::Relaxed);
    LINKED.store(0, Ordering::Relaxed);
    // a thread that no longer exists may hold the lock
    if let Ok(mut opening) = OPENING.try_lock() {
        opening.clear();
    }
}

thread_local! {
    /// Whether a loop is making the sockets by which it wakes itself.
    static MAKES_SELF_PIPE: Cell<bool> = const { Cell::new(false) };
}

/// A loop makes the sockets by which it wakes itself, or has made them.
pub fn make_self_pipe(how: bool) {
    MAKES_SELF_PIPE.set(how);
}

/// Whether a socket that is made now is an event loop's own, which is not a link to the outside world.
fn is_loops_own() -> bool {
    MAKES_SELF_PIPE.get()
}
