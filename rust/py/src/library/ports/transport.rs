//! asyncio's transports: the writes to them, their pipes, and the TLS over a socket.
//!
//! A transport over a socket is that socket's port. Its reads are seen at the socket. A write is reported here, once
//! and for the process that writes, whatever happens to it in the transport's buffer. The transport of a pipe is a port
//! itself; but the pipes of a subprocess belong to the subprocess's port. Loops written in C (uvloop) show nothing of
//! this.
//!
//! # Roles
//! The threads of event loops run the handlers, attached. The instrument watches the functions.
//!
//! # States
//! `DATA` is `usize::MAX`, or the index of a local variable.
//!
//! # Orderings
//! The atomics are read `Relaxed`, as hints: data near a change may be missed.
//!
//! # Checked by
//! `tests/python/test_ports.py`, `tests/python/test_unnoticed.py`.

use super::{
    kinds::{is_one_of, transport_classes},
    passages::encrypts,
    traffic::{busy, closed, make_self_pipe, opened, opens, own, port, read, serves, written, BUSY},
};
use crate::{
    control::originals,
    directory::exit_reason,
    instrument::{message_view, sent_values::bytes_of, watch},
    state::{
        host::Host,
        instrument::{Ended, Handler},
        thread::{Served, ThreadState},
        untraced::untraced,
    },
};
use inviso_core::host::tracee::{Kind, Tracee};
use inviso_cpython::{
    capture,
    frames::frame::{code_qualname, CodeLayout, Frame},
    interpreter::generic::attribute,
};
use pyo3::{
    ffi,
    prelude::*,
    types::{PyBytes, PyTuple},
};
use std::{
    cell::Cell,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
};

/// `_SelectorTransport.__init__`.
pub static SOCKET: Handler = Handler { begin: Some(on_socket), ..Handler::NONE };

/// `write` of transports.
pub static WRITE: Handler = Handler { begin: Some(on_write), ..Handler::NONE };

/// `sendto` of transports.
pub static SENDTO: Handler = Handler { end: Some(on_sendto), ..Handler::NONE };

/// `writelines` of transports, and the function by which it writes its buffers.
pub static WRITELINES: Handler = Handler { begin: Some(on_writelines), ..Handler::NONE };

/// `__init__` of transports of pipes.
pub static PIPE: Handler = Handler { begin: Some(on_begin), end: Some(on_pipe), ..Handler::NONE };

/// `_UnixReadPipeTransport._read_ready`.
pub static READ: Handler = Handler { end: Some(on_read), ..Handler::NONE };

/// `_call_connection_lost` of transports of pipes.
pub static LOST: Handler = Handler { end: Some(on_lost), ..Handler::NONE };

/// Methods in which a transport stops its writer and lets it continue.
pub static FLOW: Handler = Handler { end: Some(on_flow), ..Handler::NONE };

/// `SSLProtocol.connection_made`.
pub static TLS: Handler = Handler { begin: Some(on_tls), ..Handler::NONE };

/// `BaseSelectorEventLoop._make_self_pipe`.
pub static SELF_PIPE: Handler = Handler { begin: Some(on_self_pipe), end: Some(on_self_pipe_made), ..Handler::NONE };

/// All of them.
pub static HANDLERS: [&Handler; 10] =
    [&SOCKET, &WRITE, &SENDTO, &WRITELINES, &PIPE, &READ, &LOST, &FLOW, &TLS, &SELF_PIPE];

/// The index of the local variable of `_read_ready` that has the data.
static DATA: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The codes of methods of these classes.
fn codes<'py, const N: usize>(methods: [(&Bound<'py, PyAny>, &str); N]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let each = methods.iter().map(|(class, name)| originals::codes(class, &[name]));
    Ok(each.collect::<PyResult<Vec<_>>>()?.concat())
}

/// Begins to watch.
///
/// # Errors
/// The error of importing asyncio, or of `sys.monitoring`.
pub fn begin(py: Python<'_>, host: &Host) -> PyResult<()> {
    let Some(classes) = transport_classes(py) else { return Ok(()) };
    let module = py.import("asyncio.selector_events")?;
    let (stream, datagram) =
        (module.getattr("_SelectorSocketTransport")?, module.getattr("_SelectorDatagramTransport")?);
    let [reader, writer] = &classes.pipes;
    let (reader, writer) = (reader.bind(py), writer.bind(py));
    watch::add(py, host, &SOCKET, &codes([(classes.selector.bind(py), "__init__")])?)?;
    watch::add(py, host, &WRITE, &codes([(&stream, "write"), (writer, "write")])?)?;
    watch::add(py, host, &SENDTO, &codes([(&datagram, "sendto")])?)?;
    if stream.getattr("__dict__")?.contains("writelines")? {
        let writers = codes([(&stream, "writelines"), (&stream, "_write_sendmsg"), (&stream, "_write_send")])?;
        watch::add(py, host, &WRITELINES, &writers)?;
    }
    watch::add(py, host, &PIPE, &codes([(reader, "__init__"), (writer, "__init__")])?)?;
    let ready = codes([(reader, "_read_ready")])?;
    for code in &ready {
        let names: Vec<String> = code.getattr("co_varnames")?.extract()?;
        DATA.store(names.iter().position(|name| name == "data").unwrap_or(usize::MAX), Ordering::Relaxed);
    }
    watch::add(py, host, &READ, &ready)?;
    watch::add(py, host, &LOST, &codes([(reader, "_call_connection_lost"), (writer, "_call_connection_lost")])?)?;
    let flow = py.import("asyncio.transports")?.getattr("_FlowControlMixin")?;
    super::subprocess::begin_transport(py, host)?;
    watch::add(py, host, &FLOW, &codes([(&flow, "_maybe_pause_protocol"), (&flow, "_maybe_resume_protocol")])?)?;
    watch::add(py, host, &SELF_PIPE, &codes([(classes.event_loop.bind(py), "_make_self_pipe")])?)?;
    watch::add(py, host, &TLS, &codes([(classes.tls.bind(py), "connection_made")])?)
}

/// Takes in the transport and the TLS of a socket that exists already.
pub fn adopt(host: &'static Host, object: &Bound<'_, PyAny>) {
    let py = object.py();
    let Some(classes) = transport_classes(py) else { return };
    let port = |socket: Option<Bound<'_, PyAny>>| {
        let socket = socket?;
        let seen = crate::library::ports::kinds::look(&socket).filter(|seen| seen.is_open)?;
        let port = host.directory.object_process(host, Kind::Port, socket.as_ptr() as usize, None);
        own(&port).driver.get_or_init(|| seen.driver);
        Some(port)
    };
    // SAFETY: plain attributes of objects that are held.
    unsafe {
        if is_one_of(object.as_ptr(), &classes.selector) {
            if let Some(port) = port(attribute(py, object.as_ptr(), "_sock")) {
                own(&port).by_transport.store(true, Ordering::Relaxed);
            }
        } else if is_one_of(object.as_ptr(), &classes.tls) {
            let transport = attribute(py, object.as_ptr(), "_transport");
            let socket = transport.and_then(|transport| attribute(py, transport.as_ptr(), "_sock"));
            if let Some(port) = port(socket) {
                encrypts(py, object.as_ptr(), port);
            }
        } else if is_one_of(object.as_ptr(), &classes.event_loop) {
            for name in ["_ssock", "_csock"] {
                if let Some(socket) = attribute(py, object.as_ptr(), name).filter(|socket| !socket.is_none()) {
                    crate::library::ports::traffic::silence(host, socket.as_ptr());
                }
            }
        }
    }
}

/// The port of a transport: its socket's, its own, or its subprocess's.
///
/// # Safety
/// The transport is as [`attribute`] requires; an exception may be set.
unsafe fn port_of(state: &mut ThreadState, transport: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    let object = untraced(state, |py, _| {
        let classes = transport_classes(py)?;
        // SAFETY: plain attributes of an object that the caller holds.
        unsafe {
            if is_one_of(transport, &classes.selector) {
                return attribute(py, transport, "_sock").map(Bound::unbind);
            }
            let protocol = attribute(py, transport, "_protocol")?;
            if is_one_of(protocol.as_ptr(), &classes.of_subprocess) {
                let subprocess = attribute(py, protocol.as_ptr(), "proc")?;
                return attribute(py, subprocess.as_ptr(), "_proc").map(Bound::unbind);
            }
            Some(Bound::from_borrowed_ptr(py, transport).unbind())
        }
    })?;
    // SAFETY: `object` is held; the thread is attached.
    let port = unsafe { port(state, object.as_ptr()) };
    untraced(state, |py, _| drop(object.into_bound(py)));
    port
}

/// The port for which an event loop calls a callback: a method of its transport or of the TLS above that, a method of a
/// protocol with the transport as argument, or a method of the loop with the socket as argument.
///
/// # Safety
/// The thread is attached and takes no events meanwhile.
pub unsafe fn served(
    state: &mut ThreadState, callback: &Bound<'_, PyAny>, args: Option<&Bound<'_, PyTuple>>,
) -> Option<Served> {
    let py = callback.py();
    let classes = transport_classes(py)?;
    // SAFETY: the callback is held, and holds its parts; plain attributes of objects that are held.
    unsafe {
        let (owner, function) = capture::parts_of_method(callback.as_ptr())?;
        let argument = |n: usize| args.and_then(|args| args.get_item(n).ok());
        // an object of the program's own is not examined further
        let transport = |state: &mut ThreadState, object: *mut ffi::PyObject| {
            let is_one =
                is_one_of(object, &classes.selector) || classes.pipes.iter().any(|class| is_one_of(object, class));
            if is_one {
                port_of(state, object)
            } else {
                None
            }
        };
        let port = if is_one_of(owner, &classes.event_loop) {
            (0..2).find_map(|n| port(state, argument(n)?.as_ptr()).filter(|port| port.kind == Kind::Port))
        } else if is_one_of(owner, &classes.tls) {
            transport(state, attribute(py, owner, "_transport")?.as_ptr())
        } else {
            transport(state, owner).or_else(|| transport(state, argument(0)?.as_ptr()))
        }?;
        let called = |name: &str| {
            let name = name.rsplit('.').next().unwrap_or_default();
            match name {
                "_read_ready" | "_accept_connection" | "_sock_accept" => "input",
                "_write_ready" => "output",
                _ if name.starts_with("_sock_recv") => "input",
                _ if name.starts_with("_sock_send") => "output",
                _ if name.ends_with("_timeout") => "timeout",
                _ => "event",
            }
        };
        let mut what = "event";
        if ffi::PyFunction_Check(function) != 0 {
            capture::text_is(code_qualname(ffi::PyFunction_GetCode(function)), |name| {
                what = called(name);
                true
            });
        }
        Some((port, what))
    }
}

/// A transport takes a socket over.
fn on_socket(state: &mut ThreadState, frame: Frame) {
    // SAFETY: the third argument of a method whose frame stands; the thread is attached.
    if let Some(port) = unsafe { port(state, frame.local(2)) } {
        own(&port).by_transport.store(true, Ordering::Relaxed);
    }
}

/// Data are written to a transport.
fn on_write(state: &mut ThreadState, frame: Frame) {
    // SAFETY: arguments of a method whose frame stands; the thread is attached.
    unsafe {
        let (transport, data) = (frame.local(0), frame.local(1));
        let Some(port) = port_of(state, transport).filter(|_| has_length(data)) else { return };
        if !own(&port).is_encrypted.load(Ordering::Relaxed) && takes(state, transport) {
            emit_write(state, &port, |py| Some(bytes_of(py, data, None)));
        }
    }
}

/// A datagram has been written to a transport. The address at which a transport takes it depends on an object of the
/// program, so this is reported after the call.
fn on_sendto(state: &mut ThreadState, frame: Frame, how: Ended) {
    // SAFETY: arguments of a method whose frame still stands; the thread is attached.
    unsafe {
        let (transport, data) = (frame.local(0), frame.local(1));
        // before 3.13 an empty one is not sent
        let is_sent = has_length(data) || cfg!(Py_3_13) && is_buffer(data);
        if matches!(how, Ended::Raised(_)) || !is_sent || !takes(state, transport) {
            return;
        }
        if let Some(port) = port_of(state, transport) {
            emit_write(state, &port, |py| Some(bytes_of(py, data, None)));
        }
    }
}

/// A write to a transport. The `in` and `out` of a socket's port are emitted when the data reach the socket.
fn emit_write<'py>(
    state: &mut ThreadState, port: &Tracee, data: impl FnOnce(Python<'py>) -> Option<Bound<'py, PyAny>>,
) {
    if own(port).by_transport.load(Ordering::Relaxed) {
        written(state, port, data);
    } else {
        serves(state, port, Some("command"), |state| written(state, port, data));
    }
}

thread_local! {
    /// The `writelines` that this thread runs: its frame, and how many buffers waited before its own.
    static LINES: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Several buffers are written to a transport. They may be an iterator of the program, which this package must not run.
/// So they are reported when they stand in the transport's buffer, before any of them has been written.
fn on_writelines(state: &mut ThreadState, frame: Frame) {
    // SAFETY: arguments of methods whose frames stand; the callers of a running frame run, too; the thread is
    // attached.
    unsafe {
        let transport = frame.local(0);
        if CodeLayout::read(frame.code()).arity() > 1 {
            let waiting = untraced(state, |py, _| attribute(py, transport, "_buffer").and_then(|all| all.len().ok()));
            return LINES.set(waiting.filter(|_| takes(state, transport)).map_or((0, 0), |all| (frame.address(), all)));
        }
        let (lines, before) = LINES.get();
        if lines == 0 || message_view::caller(frame).is_none_or(|caller| caller.address() != lines) {
            return;
        }
        LINES.set((0, 0));
        let Some(port) = port_of(state, transport) else { return };
        if !own(&port).is_encrypted.load(Ordering::Relaxed) {
            written(state, &port, |py| joined(py, attribute(py, transport, "_buffer")?.try_iter().ok()?.skip(before)));
        }
    }
}

/// The bytes of buffers, joined; `None` if there are none.
fn joined<'py>(
    py: Python<'py>, buffers: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
) -> Option<Bound<'py, PyAny>> {
    let mut all = Vec::new();
    for buffer in buffers {
        let buffer = buffer.ok()?;
        // SAFETY: held; the thread is attached, and takes no events meanwhile.
        let bytes = unsafe { bytes_of(py, buffer.as_ptr(), None) };
        all.extend_from_slice(bytes.cast::<PyBytes>().ok()?.as_bytes());
    }
    (!all.is_empty()).then(|| PyBytes::new(py, &all).into_any())
}

/// Whether it is of a type that transports take.
///
/// # Safety
/// `data` is null or stands throughout; the calling thread is attached.
unsafe fn is_buffer(data: *mut ffi::PyObject) -> bool {
    // SAFETY: null, or an object that stands.
    unsafe {
        !data.is_null()
            && (ffi::PyBytes_Check(data) != 0
                || ffi::PyByteArray_Check(data) != 0
                || ffi::PyMemoryView_Check(data) != 0)
    }
}

/// Whether it is bytes that are not empty.
///
/// # Safety
/// `data` is null or stands throughout; the calling thread is attached.
unsafe fn has_length(data: *mut ffi::PyObject) -> bool {
    // SAFETY: null, or an object that stands.
    unsafe {
        if data.is_null() {
            return false;
        }
        if ffi::PyMemoryView_Check(data) != 0 {
            let size = ffi::PyObject_Size(data);
            if size < 0 {
                ffi::PyErr_Clear(); // it has been released, or has no dimension
            }
            return size > 0;
        }
        (ffi::PyBytes_Check(data) != 0 || ffi::PyByteArray_Check(data) != 0) && ffi::Py_SIZE(data) > 0
    }
}

/// Whether a transport takes the data that are written to it: it has not lost its connection, has not had `write_eof`,
/// and sends no file.
///
/// # Safety
/// As [`port_of`].
unsafe fn takes(state: &mut ThreadState, transport: *mut ffi::PyObject) -> bool {
    untraced(state, |py, _| {
        let is_set = |name: &str| {
            // SAFETY: plain attributes of an object that the caller holds.
            let value = unsafe { attribute(py, transport, name) };
            value.is_some_and(|value| value.is_truthy().unwrap_or(false))
        };
        !is_set("_conn_lost") && !is_set("_eof") && !is_set("_empty_waiter")
    })
}

/// A pipe is about to get a transport.
fn on_begin(_here: &mut ThreadState, frame: Frame) {
    // SAFETY: the first argument of a method whose frame stands; the thread is attached.
    opens(unsafe { frame.local(0) });
}

/// A pipe has got a transport, or not.
fn on_pipe(state: &mut ThreadState, frame: Frame, how: Ended) {
    // SAFETY: the first argument of a method whose frame still stands; the thread is attached.
    unsafe { opened(state, frame.local(0), how) };
}

/// A pipe has been read.
fn on_read(state: &mut ThreadState, frame: Frame, _how: Ended) {
    let place = DATA.load(Ordering::Relaxed);
    // SAFETY: arguments and a local of a method whose frame still stands; the thread is attached.
    unsafe {
        let data = if place == usize::MAX { std::ptr::null_mut() } else { frame.local(place) };
        if !has_length(data) {
            return;
        }
        if let Some(port) = port_of(state, frame.local(0)) {
            serves(state, &port, None, |state| read(state, &port, |py| Some(bytes_of(py, data, None))));
        }
    }
}

/// A pipe's transport is done with the pipe.
fn on_lost(state: &mut ThreadState, frame: Frame, _how: Ended) {
    // SAFETY: the first argument of a method whose frame still stands; the thread is attached.
    let port = unsafe { state.host.directory.known(frame.local(0) as usize) };
    if let Some(port) = port.filter(|port| port.kind == Kind::Port) {
        untraced(state, |_, state| {
            // SAFETY: the thread is attached.
            unsafe { state.running.identify(state.host, &mut state.thread) };
            closed(state.host, &mut state.thread, &port, &exit_reason::normal());
        });
    }
}

/// A transport may have stopped its writer, or let it continue.
fn on_flow(state: &mut ThreadState, frame: Frame, _how: Ended) {
    if !BUSY.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the first argument of a method whose frame still stands; the thread is attached.
    unsafe {
        let transport = frame.local(0);
        let stopped = untraced(state, |py, _| {
            attribute(py, transport, "_protocol_paused").is_some_and(|paused| paused.is_truthy().unwrap_or(false))
        });
        let Some(port) = port_of(state, transport) else { return };
        if stopped && !own(&port).is_full.swap(true, Ordering::Relaxed) {
            busy(state, &port);
        } else if !stopped {
            own(&port).is_full.store(false, Ordering::Relaxed);
        }
    }
}

/// A TLS protocol gets its transport: from now on it encrypts what it writes there.
fn on_tls(state: &mut ThreadState, frame: Frame) {
    // SAFETY: arguments of a method whose frame stands; the thread is attached.
    unsafe {
        if let Some(port) = port_of(state, frame.local(1)) {
            untraced(state, |py, _| encrypts(py, frame.local(0), port));
        }
    }
}

fn on_self_pipe(_here: &mut ThreadState, _frame: Frame) {
    make_self_pipe(true);
}

fn on_self_pipe_made(_here: &mut ThreadState, _frame: Frame, _how: Ended) {
    make_self_pipe(false);
}
