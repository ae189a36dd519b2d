//! Ports: sockets, subprocesses and asyncio's pipes as links to the outside world.
//!
//! A port is known by the address of its object, as a task is. The C methods of sockets (`socket`) and of pipes' files
//! (`pipe`) show what happens to it, and functions of the standard library (`subprocess`, `transport`). The instrument
//! is in place only while a session traces ports or watches for busy ones, or a port has a name or a link by
//! `inviso.link`.
//!
//! Rules: trace.md, `port/4`. Data that arrive are a message of the port to its reader, `(port, ("data", bytes))`. Data
//! that are written are a message of the writer to the port, `(pid, ("command", bytes))`.
//!
//! # Roles
//! Attached threads open, use and close ports. Instruments switch this on and off.
//!
//! # States
//! An object is in `OPENING` while the call that makes it a port runs. A port lives from its first event or sight until
//! it is closed, which `Node::end_process` lets happen once. `WANTED` and `BUSY` are what sessions trace; `LINKED`
//! counts the links by `inviso.link`.
//!
//! # Orderings
//! Mutexes order the lists. The atomics are read `Relaxed`, as hints: an event near a change may be missed.
//!
//! # Checked by
//! `tests/python/test_ports.py`.

pub mod functions;
pub mod pipe;
pub mod socket;
pub mod subprocess;
pub mod transport;

use crate::{
    convert::terms,
    instrument::{
        message_view::{self, Message},
        modules, watch,
    },
    processes::relations,
    state::{
        host::Host,
        instrument::{Ended, Instrument, Module},
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
use inviso_core::{
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
use std::sync::{
    atomic::{AtomicBool, AtomicU32, Ordering},
    Arc, Mutex,
};

/// Ports.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.ports != Flags::NONE || wants.watches(LimitEvent::BusyPort) || wants.related_ports,
    begin,
    end,
    forget,
);

/// The modules that ports come from.
pub static MODULES: [Module; 3] = [
    Module::new("socket", |py, host, _| match modules::is_there(py, "_socket")? {
        true => modules::is_there(py, "socket").and_then(|_| socket::begin(py, host)),
        false => Ok(()),
    }),
    Module::new("subprocess", |py, host, _| match modules::is_there(py, "_posixsubprocess")? {
        true => modules::is_there(py, "subprocess").and_then(|_| subprocess::begin(py, host)),
        false => Ok(()),
    }),
    Module::new("asyncio", |py, host, _| match modules::is_there(py, "asyncio.base_subprocess")? {
        true => modules::is_there(py, "asyncio").and_then(|_| transport::begin(py, host)),
        false => Ok(()),
    }),
];

/// Flags that a port has or will have.
static WANTED: AtomicU32 = AtomicU32::new(0);

/// Whether a session watches for busy ports.
static BUSY: AtomicBool = AtomicBool::new(false);

/// Objects that are being made ports, by address. The call that saw the beginning reports each.
static OPENING: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn own(port: &Tracee) -> &Own {
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

/// Whether a port has a name, or a link by `inviso.link`.
pub fn are_related(host: &Host) -> bool {
    LINKED.load(Ordering::Relaxed) != 0 || host.node.is_port_named()
}

/// The words of messages.
struct PortAtoms {
    command: Py<PyAny>,
    data: Py<PyAny>,
}

fn words(py: Python<'_>) -> PyResult<&'static PortAtoms> {
    static WORDS: PyOnceLock<PortAtoms> = PyOnceLock::new();
    WORDS.get_or_try_init(py, || Ok(PortAtoms { command: terms::atom(py, "command")?, data: terms::atom(py, "data")? }))
}

fn begin(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    words(py)?;
    pipe::begin(py)?;
    modules::want(py, host, &MODULES)?;
    leave_closed(py, host)?;
    refresh(py, host)
}

fn end(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    socket::end();
    pipe::end();
    lock(&OPENING).clear();
    watch::remove(py, host, &socket::HANDLERS)?;
    watch::remove(py, host, &subprocess::HANDLERS)?;
    watch::remove(py, host, &transport::HANDLERS)?;
    modules::leave(py, host, &MODULES)?;
    // the ends of ports are no longer seen, and their links would stay for ever
    for port in host.node.ports() {
        for other in host.node.links(port.pid) {
            host.node.part(port.pid, other);
        }
    }
    Ok(())
}

/// Resets everything in a forked child: no instrument is installed there.
fn forget(_py: Python<'_>) {
    modules::forget(&MODULES);
    WANTED.store(0, Ordering::Relaxed);
    BUSY.store(false, Ordering::Relaxed);
    LINKED.store(0, Ordering::Relaxed);
    socket::end();
    pipe::end();
    transport::forget();
    // a thread that no longer exists may hold the lock
    if let Ok(mut opening) = OPENING.try_lock() {
        opening.clear();
    }
}

/// The kind of a port, and whether it is open.
pub struct Seen {
    /// Its kind, in Erlang's words.
    pub driver: &'static str,
    /// Whether it is open.
    pub is_open: bool,
}

/// Looks at an object that may be a port; `None` if it is not. Runs no code of the program.
fn look(object: &Bound<'_, PyAny>) -> Option<Seen> {
    socket::look(object).or_else(|| subprocess::look(object)).or_else(|| transport::look(object))
}

/// Takes in every port that exists and has not been seen yet. One that is being opened is not a port before that is
/// reported.
///
/// # Errors
/// The error of listing them.
pub fn refresh(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    if !INSTRUMENT.on.load(Ordering::Acquire) {
        leave_closed(py, host)?;
    }
    for object in py.import("gc")?.call_method0("get_objects")?.cast_into::<pyo3::types::PyList>()?.iter() {
        let open = look(&object).filter(|seen| seen.is_open);
        // after the look: an object that is open and not in the list has been reported
        if let Some(seen) = open.filter(|_| !lock(&OPENING).contains(&(object.as_ptr() as usize))) {
            let port = host.directory.object_process(host, Kind::Port, object.as_ptr() as usize, None);
            own(&port).driver.get_or_init(|| seen.driver);
            subprocess::adopt(&object, &port);
        } else {
            transport::adopt(host, &object);
        }
    }
    Ok(())
}

/// Drops the ports that were closed while the instrument was off. While it is on, a port that is found closed will be
/// reported by the call that closes it, or when its object is freed.
fn leave_closed(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    for port in host.node.ports() {
        if !is_open(py, host, &port)? {
            leave(host, &port);
        }
    }
    Ok(())
}

/// Whether a port was closed while the instrument was off. If so, this ends it.
pub fn was_closed(py: Python<'_>, host: &'static Host, port: &Arc<Tracee>) -> bool {
    if INSTRUMENT.on.load(Ordering::Acquire) || is_open(py, host, port).unwrap_or(true) {
        return false;
    }
    leave(host, port);
    true
}

/// Whether the object of a port exists, and is open.
fn is_open(py: Python<'_>, host: &Host, port: &Arc<Tracee>) -> PyResult<bool> {
    let object = host.directory.object(py, port)?;
    Ok(object.is_some_and(|object| look(&object).is_some_and(|seen| seen.is_open)))
}

/// The open port of an object. It is made at first sight, if the object is open.
///
/// # Safety
/// The object stands; the thread is attached.
#[inline]
unsafe fn port(state: &mut ThreadState, object: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
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
unsafe fn known(state: &mut ThreadState, object: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
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
unsafe fn silence(host: &Host, object: *mut ffi::PyObject) {
    let port = host.directory.object_process(host, Kind::Port, object as usize, None);
    // another thread may have seen it opened as a port before its owner was known
    leave(host, &port);
}

/// A call begins that makes an object a port.
fn opens(object: *mut ffi::PyObject) {
    lock(&OPENING).push(object as usize);
}

/// That call is over. If the object is a port, the running process has opened it, and is linked to it.
///
/// # Safety
/// The object stands; the thread is attached.
unsafe fn opened(state: &mut ThreadState, object: *mut ffi::PyObject, how: Ended) {
    if let Ended::Returned(_) = how {
        // SAFETY: the caller promises that the object stands and the thread is attached.
        unsafe { tell_opened(state, object) };
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
unsafe fn tell_opened(state: &mut ThreadState, object: *mut ffi::PyObject) {
    if transport::is_loops_own() {
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
fn runs(host: &Host, thread: &mut Thread, port: &Tracee, kind: record::Kind, command: Option<&str>) {
    if asked(Flags::RUNNING_PORTS) && host.node.is_asked(thread, About::Other(port), Flags::RUNNING_PORTS) {
        let command = etf::encode(&command.map_or(Term::Int(0.into()), Term::atom));
        host.node.emit_event(thread, About::Other(port), Flags::RUNNING_PORTS, kind, 0, &command);
    }
}

/// A port serves a call that has been made, or is about to be. The events of `tell` stand between `in` and `out`.
fn serves(state: &mut ThreadState, port: &Tracee, command: Option<&str>, tell: impl FnOnce(&mut ThreadState)) {
    runs(state.host, &mut state.thread, port, record::Kind::In, command);
    tell(state);
    runs(state.host, &mut state.thread, port, record::Kind::Out, command);
}

/// A port is closed for `reason`, a term. Only the first time counts.
fn closed(host: &'static Host, thread: &mut Thread, port: &Arc<Tracee>, reason: &[u8]) {
    if !host.node.end_process(port) {
        return;
    }
    host.node.emit_event(thread, About::Other(port), Flags::PORTS, record::Kind::Closed, 0, reason);
    let linked = forget_port(port);
    attached(|py| relations::port_closed(py, host, thread, port, &linked, reason));
}

/// A port emits no more events. Returns the processes that linked themselves to it.
fn forget_port(port: &Tracee) -> Vec<u64> {
    transport::forget_tls(port);
    pipe::forget(port);
    let linked = std::mem::take(&mut *lock(&own(port).linked));
    LINKED.fetch_sub(linked.len(), Ordering::Relaxed);
    linked
}

/// A port was closed, without an event.
fn leave(host: &Host, port: &Tracee) {
    if host.node.end_process(port) {
        forget_port(port);
        host.node.unrelate(None, port);
    }
}

/// The object of a port is about to be freed.
pub fn collected(host: &'static Host, port: &Arc<Tracee>) {
    if !port.is_alive() {
        return;
    }
    let close = |state: &mut ThreadState| {
        untraced(state, |_, state| {
            // SAFETY: the thread is attached.
            unsafe { state.running.identify(state.host, &mut state.thread) };
            closed(host, &mut state.thread, port, &crate::directory::exit_reason::normal());
        });
    };
    // SAFETY: attached.
    let told = INSTRUMENT.on.load(Ordering::Relaxed) && unsafe { crate::door::enter(close) }.is_some();
    if !told {
        leave(host, port);
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
fn written<'py>(state: &mut ThreadState, port: &Tracee, data: impl FnOnce(Python<'py>) -> Option<Bound<'py, PyAny>>) {
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
fn read<'py>(state: &mut ThreadState, port: &Tracee, data: impl FnOnce(Python<'py>) -> Option<Bound<'py, PyAny>>) {
    if !passes(state, port, Flags::RECEIVE, Flags::SEND) {
        return;
    }
    let reader = state.thread.current().pid;
    untraced(state, |_, state| {
        // SAFETY: `untraced` is attached; the objects made here are dropped here.
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
fn busy(state: &mut ThreadState, port: &Tracee) {
    // SAFETY: handlers and wrappers run attached on this thread.
    unsafe { state.running.identify(state.host, &mut state.thread) };
    let waiting = state.thread.current().pid;
    state.host.node.alarm(&mut state.thread, waiting, LimitEvent::BusyPort, |_, _| {
        Some(Term::Port(Identifier::own(port.pid >> 2)))
    });
}
