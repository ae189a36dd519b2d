//! Sockets: their C methods, which all work goes through, and the initialiser of `socket.socket`.
//!
//! Reads of asyncio's sockets are seen here; its transports report the writes (see `transport`). Data of an
//! `ssl.SSLSocket` are reported before they are encrypted, at the methods of its C half.
//!
//! # Roles
//! Attached threads use sockets. The instrument replaces the methods and gives them back.
//!
//! # States
//! Each hook's method is the original or ours (see
//! [`Method`]).
//!
//! # Orderings
//! `Method`'s own. `BUSY` is a hint, read `Relaxed`.
//!
//! # Checked by
//! `tests/python/test_ports.py`.

use super::{
    kinds::socket_classes,
    passages,
    traffic::{busy, closed, known, opened, opens, port, read, runs, written, BUSY},
};
use crate::{
    control::originals,
    directory::exit_reason,
    door,
    instrument::{sent_values::bytes_of, watch},
    state::{
        host::Host,
        instrument::{Ended, Handler},
        thread::ThreadState,
        untraced::untraced,
    },
};
use inviso_core::host::tracee::Tracee;
use inviso_cpython::{
    capture,
    frames::{
        code::is_parameter,
        frame::{code_qualname, module_of, Frame},
    },
    hooks::method::{Keywords, KeywordsCall, Method, Plain, PlainCall, PositionalCall, Wrapper},
    interpreter::{calling, generic, tls, tstate},
};
use inviso_term::record;
use pyo3::{
    ffi,
    prelude::*,
    types::{PyBytes, PyList, PyTuple},
};
use std::{
    sync::{atomic::Ordering, Arc},
    time::{Duration, Instant},
};

/// `socket.socket.__init__`.
pub static INIT: Handler = Handler { begin: Some(on_begin), end: Some(on_init), ..Handler::NONE };

/// All of them.
pub static HANDLERS: [&Handler; 1] = [&INIT];

/// Where the data of a call are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    /// There are none.
    None,
    /// Written: the first argument, as many bytes as the result says.
    Sent,
    /// Written: all of the first argument, known before the call.
    SentAll,
    /// Written: buffers, the first argument.
    SentBuffers,
    /// Read: the result. The number is the index of the flags' argument.
    Got(usize),
    /// Read: the first item of the result. The number is the index of the flags' argument.
    GotFrom(usize),
    /// Read: into the first argument, as many bytes as the result says. The number is the index of the flags' argument.
    GotInto(usize),
    /// Read: into the first argument, as many bytes as the result's first item says. The number is the index of the
    /// flags' argument.
    GotFromInto(usize),
    /// Read: into buffers, the first argument, as many bytes as the result's first item says. The number is the index
    /// of the flags' argument.
    GotIntoBuffers(usize),
    /// The socket is closed, or given away.
    Closed,
    /// Written, by the C half of a TLS connection: the argument, as many bytes as the result says.
    Encrypted,
    /// Read, by the same half: the result, or into the second argument.
    Decrypted,
}

/// A method of sockets.
struct SocketMethod {
    name: &'static str,
    method: Method,
    /// The command's name at ports; `None` if there is none.
    command: Option<&'static str>,
    data: Data,
}

const fn hook(name: &'static str, command: Option<&'static str>, data: Data) -> SocketMethod {
    SocketMethod { name, method: Method::new(), command, data }
}

const COMMAND: Option<&str> = Some("command");
const CONTROL: Option<&str> = Some("control");

/// All hooks. A wrapper's number is its hook's index.
static HOOKS: [SocketMethod; 23] = [
    hook("send", COMMAND, Data::Sent),
    hook("sendall", COMMAND, Data::SentAll),
    hook("sendto", COMMAND, Data::Sent),
    hook("sendmsg", COMMAND, Data::SentBuffers),
    hook("recv", None, Data::Got(1)),
    hook("recvfrom", None, Data::GotFrom(1)),
    hook("recvmsg", None, Data::GotFrom(2)),
    hook("recv_into", None, Data::GotInto(2)),
    hook("recvfrom_into", None, Data::GotFromInto(2)),
    hook("recvmsg_into", None, Data::GotIntoBuffers(2)),
    hook("close", Some("close"), Data::Closed),
    hook("detach", Some("close"), Data::Closed),
    hook("connect", Some("connect"), Data::None),
    hook("connect_ex", Some("connect"), Data::None),
    hook("bind", CONTROL, Data::None),
    hook("listen", CONTROL, Data::None),
    hook("shutdown", CONTROL, Data::None),
    hook("setsockopt", CONTROL, Data::None),
    hook("_accept", None, Data::None),
    hook("getsockopt", Some("info"), Data::None),
    hook("getsockname", Some("info"), Data::None),
    // of `_ssl._SSLSocket`
    hook("write", COMMAND, Data::Encrypted),
    hook("read", None, Data::Decrypted),
];

/// The index of the first hook of `_ssl._SSLSocket`.
const OF_TLS: usize = 21;

macro_rules! wrappers {
    ($($number:literal)*) => {
        [$([
            Wrapper::Plain(plain::<$number>),
            Wrapper::Positional(positional::<$number>),
            Wrapper::Keywords(keywords::<$number>),
        ]),*]
    };
}

static WRAPPERS: [[Wrapper; 3]; HOOKS.len()] = wrappers!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22);

/// The time from which on a call that writes counts as waiting.
const LONG: Duration = Duration::from_millis(1);

/// Begins to watch.
///
/// # Errors
/// The error of importing the socket module; RuntimeError if it is not CPython's.
pub fn begin(py: Python<'_>, host: &Host) -> PyResult<()> {
    let class = socket_classes(py)?.class.bind(py);
    let init = originals::codes(py.import("socket")?.as_any(), &["socket.__init__"])?;
    watch::add(py, host, &INIT, &init)?;
    let ssl = py.import("_ssl").and_then(|module| module.getattr("_SSLSocket")).ok();
    for (at, (hook, wrappers)) in HOOKS.iter().zip(&WRAPPERS).enumerate() {
        let class = if at < OF_TLS { Some(class) } else { ssl.as_ref() };
        if let Some(class) = class {
            // SAFETY: the wrappers call the originals, whatever else they do.
            unsafe { hook.method.take(class, hook.name, wrappers)? };
        }
    }
    Ok(())
}

/// Gives the methods back.
pub fn end() {
    for (hook, wrappers) in HOOKS.iter().zip(&WRAPPERS) {
        hook.method.give_back(wrappers);
    }
}

/// A socket is about to be made.
fn on_begin(_here: &mut ThreadState, frame: Frame) {
    // SAFETY: the first argument of a method whose frame stands; the thread is attached.
    opens(unsafe { frame.local(0) });
}

/// A socket has been made, or not.
fn on_init(state: &mut ThreadState, frame: Frame, how: Ended) {
    // SAFETY: the first argument of a method whose frame still stands; the thread is attached.
    unsafe { opened(state, frame.local(0), how) };
}

const _: Plain = plain::<0>;
const _: Keywords = keywords::<0>;

/// A method whose arguments come as one object, or null.
///
/// # Safety
/// Only the interpreter calls it, for the method that it was put into.
unsafe extern "C" fn plain<const N: usize>(this: *mut ffi::PyObject, args: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let hook = &HOOKS[N];
    // SAFETY: the wrapper of this method, which is called so; the original gets the interpreter's arguments.
    unsafe {
        let original = hook.method.original::<PlainCall>();
        around(hook, this, args, || original(this, args))
    }
}

/// As [`plain`], for arguments that come without a tuple (3.15). The code that reads them gets a tuple.
///
/// # Safety
/// As [`plain`].
unsafe extern "C" fn positional<const N: usize>(
    this: *mut ffi::PyObject, args: *const *mut ffi::PyObject, count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    let hook = &HOOKS[N];
    // SAFETY: the wrapper of this method, which is called so; the original gets the interpreter's arguments. The tuple
    // holds the arguments, has as many as it says, and is released attached.
    unsafe {
        let original = hook.method.original::<PositionalCall>();
        // this allocation doesn't count as the program's
        let allocated = tls::bytes();
        let tuple = ffi::PyTuple_New(count);
        tls::set_bytes(allocated);
        if tuple.is_null() {
            ffi::PyErr_Clear();
            return calling::on_guard(|| original(this, args, count));
        }
        for n in 0..count {
            let argument = *args.offset(n);
            ffi::Py_INCREF(argument);
            ffi::PyTuple_SET_ITEM(tuple, n, argument);
        }
        let result = around(hook, this, tuple, || original(this, args, count));
        ffi::Py_DECREF(tuple);
        result
    }
}

/// As [`plain`], with keyword arguments.
///
/// # Safety
/// As [`plain`].
unsafe extern "C" fn keywords<const N: usize>(
    this: *mut ffi::PyObject, args: *mut ffi::PyObject, keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let hook = &HOOKS[N];
    // SAFETY: the wrapper of this method, which is called so; the original gets the interpreter's arguments.
    unsafe {
        let original = hook.method.original::<KeywordsCall>();
        around(hook, this, args, || original(this, args, keywords))
    }
}

/// A call of a method: the work before it, the call, the work after it.
///
/// # Safety
/// `this` and `args` stand throughout; the calling thread is attached.
#[inline(always)]
unsafe fn around(
    hook: &'static SocketMethod, this: *mut ffi::PyObject, args: *mut ffi::PyObject,
    call: impl FnOnce() -> *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the thread is attached.
    let before = unsafe { door::enter(|state| before(state, hook, this, args)) };
    let Some(before) = before.flatten() else { return calling::on_guard(call) };
    let result = calling::on_guard(call);
    // SAFETY: attached again; the interpreter holds the object and its arguments during the call.
    unsafe {
        door::enter(|state| after(state, hook, &before, args, result));
    }
    result
}

/// The facts about a call from before it.
struct Before {
    port: Arc<Tracee>,
    /// Whether its write has been reported already.
    is_told: bool,
    /// When it began, if a session watches for busy ports and the call may wait.
    began: Option<Instant>,
}

/// A method is about to be called; `None` if its object is not a port.
///
/// # Safety
/// `this` stands; `args` is null or stands; the thread is attached.
unsafe fn before(
    state: &mut ThreadState, hook: &SocketMethod, this: *mut ffi::PyObject, args: *mut ffi::PyObject,
) -> Option<Before> {
    // SAFETY: the caller promises that `this` stands, `args` is null or stands, and the thread is attached.
    let port = unsafe {
        match hook.data {
            Data::Encrypted | Data::Decrypted => tls_port(state, this)?,
            Data::Closed => known(state, this)?,
            _ => port(state, this)?,
        }
    };
    runs(state.host, &mut state.thread, &port, record::Kind::In, hook.command);
    let mut is_told = hook.data == Data::SentAll;
    // all of it is written or the connection is lost: reported before a peer can have read it
    // SAFETY: the caller promises that `args` is null or stands, and the thread is attached; the result, null, is not
    // read. The argument of the C half's method stands.
    unsafe {
        if is_told {
            pass(state, hook.data, &port, args, std::ptr::null_mut());
        } else if hook.data == Data::Encrypted {
            let written_before = of_sendall();
            is_told = written_before.is_some();
            if written_before == Some(0) {
                written(state, &port, |py| Some(bytes_of(py, args, None)));
            }
        }
    }
    let mut began = None;
    if hook.command == COMMAND && hook.data != Data::Encrypted && BUSY.load(Ordering::Relaxed) {
        // SAFETY: the caller promises that `this` stands and the thread is attached.
        match unsafe { waits(state, this) } {
            Waits::Now => busy(state, &port),
            Waits::Perhaps => began = Some(Instant::now()),
            Waits::Never => {}
        }
    }
    Some(Before { port, is_told, began })
}

/// The bytes that `ssl.SSLSocket.sendall` has written before this write, if it is the caller. It passes on all that is
/// left, again and again.
///
/// # Safety
/// The thread is attached.
unsafe fn of_sendall() -> Option<usize> {
    /// The local variable of `sendall` with that number.
    const COUNT: usize = 3;
    // SAFETY: the thread is attached; the callers of a running frame run, too. A local variable's value stands while
    // its frame does nothing.
    unsafe {
        let sendall = Frame::current_python(tstate())?.caller()?;
        let code = sendall.code();
        let is_it = capture::is_text(code_qualname(code), "SSLSocket.sendall")
            && capture::is_text(module_of(sendall.globals()).as_ptr(), "ssl")
            && is_parameter(code, COUNT, "count");
        let count = if is_it { sendall.local(COUNT) } else { std::ptr::null_mut() };
        (!count.is_null()).then(|| size(count)).flatten()
    }
}

/// Whether a call that writes is going to wait for space.
enum Waits {
    Now,
    Perhaps,
    Never,
}

/// Whether a write to a socket is going to wait.
///
/// # Safety
/// `this` stands; the thread is attached.
unsafe fn waits(state: &mut ThreadState, this: *mut ffi::PyObject) -> Waits {
    untraced(state, |py, _| {
        let look = || -> PyResult<Waits> {
            let classes = socket_classes(py)?;
            // SAFETY: the caller promises that `this` stands and the thread is attached.
            let this = unsafe { Bound::from_borrowed_ptr(py, this) };
            let timeout = classes.timeout.bind(py).call1((&this,))?;
            if timeout.extract::<Option<f64>>()? == Some(0.0) {
                return Ok(Waits::Never);
            }
            let fd = classes.fileno.bind(py).call1((&this,))?.extract()?;
            let mut asked = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
            // SAFETY: one record; the call asks and doesn't wait.
            let ready = unsafe { libc::poll(&raw mut asked, 1, 0) };
            Ok(if ready == 0 { Waits::Now } else { Waits::Perhaps })
        };
        look().unwrap_or(Waits::Never)
    })
}

/// A method has been called; `result` is null if it has failed.
///
/// # Safety
/// `args` and `result` are null or stand; the thread is attached.
unsafe fn after(
    state: &mut ThreadState, hook: &SocketMethod, before: &Before, args: *mut ffi::PyObject, result: *mut ffi::PyObject,
) {
    let port = &before.port;
    if before.began.is_some_and(|began| began.elapsed() >= LONG) {
        busy(state, port);
    }
    if !result.is_null() && !before.is_told {
        // SAFETY: the caller promises that `args` and `result` are null or stand, and the thread is attached.
        unsafe { pass(state, hook.data, port, args, result) };
    }
    if hook.data == Data::Closed {
        untraced(state, |_, state| closed(state.host, &mut state.thread, port, &exit_reason::normal()));
    }
    runs(state.host, &mut state.thread, port, record::Kind::Out, hook.command);
}

/// Emits the events of data that have been written or read.
///
/// # Safety
/// `args` is null or stands; `result` stands, except for [`Data::SentAll`]; the thread is attached.
unsafe fn pass(
    state: &mut ThreadState, data: Data, port: &Tracee, args: *mut ffi::PyObject, result: *mut ffi::PyObject,
) {
    // SAFETY: arguments of a METH_VARARGS method are a tuple, which holds them; the type is checked before it is read.
    let argument = |n: usize| unsafe {
        let there = !args.is_null() && ffi::PyTuple_Check(args) != 0 && ffi::PyTuple_GET_SIZE(args) > n as isize;
        there.then(|| ffi::PyTuple_GET_ITEM(args, n as isize))
    };
    let own = crate::library::ports::traffic::own(port);
    let by_itself = matches!(data, Data::Sent | Data::SentAll | Data::SentBuffers);
    if by_itself && own.by_transport.load(Ordering::Relaxed) {
        return;
    }
    if !matches!(data, Data::Encrypted | Data::Decrypted) && own.is_encrypted.load(Ordering::Relaxed) {
        return;
    }
    // data that stay in the socket will be read again
    let peeks = |n: usize| argument(n).and_then(number).is_some_and(|flags| flags & MSG_PEEK != 0);
    // SAFETY: a call's arguments and result stand until it is over; the thread is attached.
    unsafe {
        match data {
            Data::None | Data::Closed => {}
            Data::Sent => written(state, port, |py| Some(bytes_of(py, argument(0)?, Some(size(result)?)))),
            Data::SentAll => written(state, port, |py| Some(bytes_of(py, argument(0)?, None))),
            Data::SentBuffers => written(state, port, |py| gathered(py, argument(0)?, size(result)?)),
            Data::Encrypted => written(state, port, |py| Some(bytes_of(py, args, Some(size(result)?)))),
            Data::Got(flags) if !is_empty(result) && !peeks(flags) => {
                read(state, port, |py| Some(Bound::from_borrowed_ptr(py, result)));
            }
            Data::GotFrom(flags) if !peeks(flags) => {
                let stream = own.driver.get() == Some(&"tcp_inet");
                let Some(item) = first(result).filter(|item| !(stream && is_empty(*item))) else { return };
                read(state, port, |py| Some(Bound::from_borrowed_ptr(py, item)));
            }
            Data::GotInto(flags) if size(result) != Some(0) && !peeks(flags) => {
                read(state, port, |py| Some(bytes_of(py, argument(0)?, Some(size(result)?))));
            }
            Data::GotFromInto(flags) if !peeks(flags) => {
                let Some(length) = first(result).and_then(size) else { return };
                read(state, port, |py| Some(bytes_of(py, argument(0)?, Some(length))));
            }
            Data::GotIntoBuffers(flags) if !peeks(flags) => {
                let Some(length) = first(result).and_then(size) else { return };
                read(state, port, |py| gathered(py, argument(0)?, length));
            }
            Data::Decrypted if ffi::PyBytes_Check(result) != 0 && !is_empty(result) => {
                read(state, port, |py| Some(Bound::from_borrowed_ptr(py, result)));
            }
            Data::Decrypted if size(result).is_some_and(|size| size > 0) => {
                read(state, port, |py| Some(bytes_of(py, argument(1)?, Some(size(result)?))));
            }
            _ => {}
        }
    }
}

const MSG_PEEK: i64 = 2;

/// The value of an int; `None` for any other object.
fn number(object: *mut ffi::PyObject) -> Option<i64> {
    // SAFETY: the call holds the object; C code alone reads an int.
    unsafe { (ffi::PyLong_Check(object) != 0).then(|| ffi::PyLong_AsLongLong(object)) }
}

fn size(object: *mut ffi::PyObject) -> Option<usize> {
    number(object).and_then(|number| usize::try_from(number).ok())
}

/// Whether it is empty bytes.
///
/// # Safety
/// `object` stands.
unsafe fn is_empty(object: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller promises that `object` stands.
    unsafe { ffi::PyBytes_Check(object) != 0 && ffi::Py_SIZE(object) == 0 }
}

/// The first item of a tuple.
///
/// # Safety
/// `object` stands throughout; the calling thread is attached.
unsafe fn first(object: *mut ffi::PyObject) -> Option<*mut ffi::PyObject> {
    // SAFETY: the caller promises that `object` stands; the type is checked.
    unsafe {
        (ffi::PyTuple_Check(object) != 0 && ffi::PyTuple_GET_SIZE(object) > 0).then(|| ffi::PyTuple_GET_ITEM(object, 0))
    }
}

/// The first bytes of a list or tuple of buffers, joined; `None` for any other object, which may be exhausted.
///
/// # Safety
/// `buffers` stands throughout; the calling thread is attached.
unsafe fn gathered<'py>(py: Python<'py>, buffers: *mut ffi::PyObject, length: usize) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the caller promises that `buffers` stands and the thread is attached.
    let buffers = unsafe { Bound::from_borrowed_ptr(py, buffers) };
    let parts: Vec<Bound<'py, PyAny>> = if let Ok(list) = buffers.cast_exact::<PyList>() {
        list.iter().collect()
    } else {
        buffers.cast_exact::<PyTuple>().ok()?.iter().collect()
    };
    let mut all = Vec::new();
    for part in parts {
        // SAFETY: held by `parts`.
        let bytes = unsafe { bytes_of(py, part.as_ptr(), None) };
        all.extend_from_slice(bytes.cast::<PyBytes>().ok()?.as_bytes());
        if all.len() >= length {
            all.truncate(length);
            break;
        }
    }
    Some(PyBytes::new(py, &all).into_any())
}

/// The port of the C half of a TLS connection: its socket's, or that of asyncio's transport.
///
/// # Safety
/// `half` is an `_ssl._SSLSocket` that stands; the thread is attached.
unsafe fn tls_port(state: &mut ThreadState, half: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    let owner = untraced(state, |py, _| {
        // SAFETY: the caller's object stands; the thread is attached and has no exception set. C code reads the
        // attribute.
        unsafe { generic::attribute(py, half, "owner") }.map(Bound::unbind)
    })?;
    if let Some(port) = passages::of_tls(owner.as_ptr() as usize) {
        return Some(port);
    }
    // SAFETY: `owner` is held; the thread is attached.
    let port = unsafe { port(state, owner.as_ptr()) };
    untraced(state, |py, _| drop(owner.into_bound(py)));
    port
}
