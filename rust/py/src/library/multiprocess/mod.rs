//! `multiprocessing`: objects that its queues and connections exchange with other operating system processes, and calls
//! that its pools are asked to make.
//!
//! The message is the object at the outer call. Feeder threads, pickling, and the connections inside queues and pools
//! emit no messages.
//!
//! # Roles
//! The adopting functions fill the words when the program has imported the modules. Handlers read them, on any attached
//! thread.
//!
//! # States
//! A word is 0 until its module is adopted, and then an object that is kept for ever.
//!
//! # Orderings
//! All words are stored with `Release` and loaded with `Acquire`. What one thread alone uses lies in thread-local
//! storage.
//!
//! # Checked by
//! `tests/python/test_multiprocess.py`, `tests/python/test_process_message_numbers.py`.

pub mod buffers;
pub mod calls;
pub mod numbers;
pub mod pickles;
pub mod pools;

use super::{
    multiprocess::calls::{ask, call, is_sure, NO_LIMIT},
    pool_queues,
    results::{self, outcome},
};
use crate::{
    instrument::{
        message_view::{self, Message},
        modules,
        sent_values::{self, bytes_of},
        watch,
    },
    state::{
        host::Host,
        instrument::{Ended, Handler, Instrument, Module},
        origin::{Origin, Sender},
        thread::ThreadState,
        untraced::{self, untraced},
    },
};
use inviso_core::host::{
    flags::Flags,
    messages::{self, About},
    monitor::LimitEvent,
};
use inviso_cpython::{capture, frames::frame::Frame, interpreter::generic::attribute};
use inviso_term::term::{Identifier, Term};
use pyo3::{ffi, prelude::*, types::*};
use std::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// The instrument of queues, connections and pools.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.messages(),
    |py, host| modules::want(py, host, &MODULES[..3]),
    |py, host| {
        let pools = [&APPLY, &APPLIED, &AWAIT, &pools::ASK, &pools::CHUNK, &pools::ITEM, &pools::NEXT];
        watch::remove(py, host, &[&PUT, &PUT_SIMPLE, &GET, &SEND, &RECEIVE, &RECEIVE_INTO])?;
        watch::remove(py, host, &pools)?;
        pool_queues::forget();
        modules::leave(py, host, &MODULES[..3])
    },
    |_| {
        pool_queues::forget();
        modules::forget(&MODULES[..3]);
    },
);

/// The instrument of connections that are slow to accept data.
pub static BUSY_SENDS: Instrument = Instrument::new(
    |wants| wants.watches(LimitEvent::BusyDistPort),
    |py, host| modules::want(py, host, &MODULES[3..]),
    |py, host| {
        watch::remove(py, host, &[&BUSY])?;
        modules::leave(py, host, &MODULES[3..])
    },
    |_| modules::forget(&MODULES[3..]),
);

/// `put` of `Queue` and `JoinableQueue`.
pub static PUT: Handler = Handler { begin: Some(on_put), end: Some(on_put_done), ..Handler::NONE };

/// `SimpleQueue.put`.
pub static PUT_SIMPLE: Handler = Handler { begin: Some(on_put_simple), end: Some(on_put_simple_done), ..Handler::NONE };

/// `get` of any of them.
pub static GET: Handler = Handler { end: Some(on_got), ..Handler::NONE };

/// `Connection._send_bytes`: the data of `send` or `send_bytes` are about to be written.
pub static SEND: Handler = Handler { begin: Some(on_send), ..Handler::NONE };

/// `recv` and `recv_bytes` of a connection.
pub static RECEIVE: Handler = Handler { end: Some(on_received), ..Handler::NONE };

/// `recv_bytes_into`.
pub static RECEIVE_INTO: Handler = Handler { end: Some(on_received_into), ..Handler::NONE };

/// `Connection._send_bytes`, timed.
pub static BUSY: Handler = Handler { begin: Some(on_write), end: Some(on_written), ..Handler::NONE };

/// `ApplyResult.__init__`: a pool is asked for a call.
pub static APPLY: Handler = Handler { begin: Some(on_apply), ..Handler::NONE };

/// `ApplyResult._set`: the call's result arrives.
pub static APPLIED: Handler = Handler { begin: Some(on_applied), ..Handler::NONE };

/// `ApplyResult.get` raises.
pub static AWAIT: Handler = Handler { end: Some(on_await_failed), raises_only: true, ..Handler::NONE };

/// The modules that define them; the last one is for [`BUSY_SENDS`].
pub static MODULES: [Module; 4] = [
    Module::new("multiprocessing.queues", adopt_queues),
    Module::new("multiprocessing.connection", adopt_connections),
    Module::new("multiprocessing.pool", adopt_pools),
    Module::new("multiprocessing.connection", adopt_writes),
];

/// A send that takes this long has waited for the other side to read.
const BUSY_AFTER: Duration = Duration::from_millis(5);

/// Code objects of callers that handlers look for.
static SEND_CODE: AtomicUsize = AtomicUsize::new(0);
static SEND_BYTES_CODE: AtomicUsize = AtomicUsize::new(0);
static APPLY_CODE: AtomicUsize = AtomicUsize::new(0);
/// `queue.Empty`.
static EMPTY: AtomicUsize = AtomicUsize::new(0);

fn adopt_queues(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    modules::keep(&EMPTY, module.getattr("Empty")?);
    // small, written in C, and needed by every queue
    let limit = py.import("_multiprocessing")?.getattr("SemLock")?.getattr("SEM_VALUE_MAX")?;
    NO_LIMIT.store(limit.extract()?, Ordering::Release);
    let put = &["self", "obj", "block", "timeout"];
    modules::watch_all(
        py,
        host,
        module,
        &[
            ("Queue.put", put, &PUT),
            ("JoinableQueue.put", put, &PUT),
            ("SimpleQueue.put", &["self", "obj"], &PUT_SIMPLE),
            ("Queue.get", &["self", "block", "timeout"], &GET),
            ("SimpleQueue.get", &["self"], &GET),
        ],
    )
}

fn adopt_connections(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    modules::keep(&SEND_CODE, modules::code(module, "_ConnectionBase.send", &["self", "obj"])?);
    modules::keep(&SEND_BYTES_CODE, modules::code(module, "_ConnectionBase.send_bytes", &["self", "buf"])?);
    modules::watch_all(
        py,
        host,
        module,
        &[
            ("Connection._send_bytes", &["self", "buf"], &SEND),
            ("_ConnectionBase.recv", &["self"], &RECEIVE),
            ("_ConnectionBase.recv_bytes", &["self"], &RECEIVE),
            ("_ConnectionBase.recv_bytes_into", &["self", "buf", "offset"], &RECEIVE_INTO),
        ],
    )
}

fn adopt_pools(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    modules::keep(&APPLY_CODE, modules::code(module, "Pool.apply_async", &["self", "func", "args", "kwds"])?);
    modules::watch_all(
        py,
        host,
        module,
        &[
            ("ApplyResult.__init__", &["self", "pool"], &APPLY),
            ("ApplyResult._set", &["self", "i", "obj"], &APPLIED),
            ("ApplyResult.get", &["self", "timeout"], &AWAIT),
        ],
    )?;
    pools::adopt(py, host, module)
}

fn adopt_writes(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    modules::watch_all(py, host, module, &[("Connection._send_bytes", &["self", "buf"], &BUSY)])
}

/// The running process puts an object into a queue or connection. `number` is the number that was reserved for it, or
/// 0. Returns its number.
///
/// # Safety
/// `into` and `object` are null or stand; callbacks run attached on this thread.
unsafe fn send(state: &mut ThreadState, into: *mut ffi::PyObject, object: *mut ffi::PyObject, number: u64) -> u64 {
    if into.is_null() || object.is_null() {
        return 0;
    }
    // SAFETY: both stand; callbacks run attached on this thread.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        if !sent_values::is_asked(state, Flags::SEND) {
            return 0;
        }
        let to = message_view::queue(state, into);
        let parcel = Message::to(object, to).numbered(number);
        messages::on_send(&state.host.node, &mut state.thread, About::Current, true, &parcel)
    }
}

/// The running process takes an object out, by the method in this frame.
///
/// # Safety
/// As [`send`].
unsafe fn receive(state: &mut ThreadState, frame: Frame, from: *mut ffi::PyObject, object: *mut ffi::PyObject) {
    // SAFETY: the frame is that of the current event; attached.
    let (number, creation) = unsafe { numbers::came(frame) }.map_or((0, 0), |number| (number.number, number.sender));
    if from.is_null() || object.is_null() {
        return;
    }
    // SAFETY: both stand; callbacks run attached on this thread.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        if sent_values::is_asked(state, Flags::RECEIVE) {
            let sender = Sender::Process(message_view::queue(state, from));
            message_view::received(state, Origin { sender, number, creation }, object);
        }
    }
}

/// Whether the queue of this `put` is closed, so the call will raise.
pub fn is_closed(state: &mut ThreadState, frame: Frame) -> bool {
    // SAFETY: the event's frame runs, so its first parameter stands; `True` lives for ever.
    untraced(state, |py, _| unsafe {
        attribute(py, frame.local(0), "_closed").is_some_and(|closed| closed.as_ptr() == ffi::Py_True())
    })
}

/// An object is about to be put. It is sent now if the `put` is sure to succeed.
fn on_put(state: &mut ThreadState, frame: Frame) {
    if is_closed(state, frame) {
        return;
    }
    // SAFETY: the event's frame begins, so its first two parameters are there; its caller runs; attached.
    unsafe {
        let library = message_view::caller(frame).filter(|caller| message_view::is_inner(Some(*caller)));
        state.running.identify(state.host, &mut state.thread);
        let number = match library {
            Some(_) => 0,
            None if is_sure(state, frame) => send(state, frame.local(0), frame.local(1), 0),
            // the feeder may take it before it is known whether it is sent
            None => numbers::reserve(state),
        };
        let carried = pickles::put(state, frame, library);
        buffers::leave(state, frame, number, carried);
    }
}

/// The `put` has ended, with or without success.
fn on_put_done(state: &mut ThreadState, frame: Frame, how: Ended) {
    let is_there = matches!(how, Ended::Returned(_));
    // SAFETY: the event's frame ends; its parameters stand.
    unsafe {
        let number = buffers::end(frame, is_there);
        if is_there && !is_sure(state, frame) && !message_view::is_inner(message_view::caller(frame)) {
            send(state, frame.local(0), frame.local(1), number);
            pickles::put_done(state, frame);
        }
    }
}

thread_local! {
    /// Calls of `SimpleQueue.put` that have not written yet: their frames and objects. The method assigns a new value
    /// to its parameter.
    static PUTTING: RefCell<Vec<(usize, Py<PyAny>)>> = const { RefCell::new(Vec::new()) };
}

/// An object is about to be pickled, and then written to a queue's connection: see [`on_send`].
fn on_put_simple(state: &mut ThreadState, frame: Frame) {
    // SAFETY: the event's frame begins, so its second parameter, if not null, stands.
    unsafe {
        if frame.local(1).is_null() || message_view::is_inner(message_view::caller(frame)) {
            return;
        }
        let object = untraced(state, |py, _| Bound::from_borrowed_ptr(py, frame.local(1)).unbind());
        // a call whose end was not seen may have left an entry
        let left = putting(frame);
        PUTTING.with_borrow_mut(|all| all.push((frame.address(), object)));
        untraced(state, |_, _| drop(left));
    }
}

/// The `put` has ended, with or without success.
fn on_put_simple_done(state: &mut ThreadState, frame: Frame, _how: Ended) {
    let left = putting(frame);
    untraced(state, |_, _| drop(left));
}

/// The object that a call of `SimpleQueue.put` is about to put.
fn putting(frame: Frame) -> Option<Py<PyAny>> {
    PUTTING.with_borrow_mut(|all| {
        let at = all.iter().rposition(|(known, _)| *known == frame.address())?;
        Some(all.swap_remove(at).1)
    })
}

/// An object was taken out of a queue, or none came in time.
fn on_got(state: &mut ThreadState, frame: Frame, how: Ended) {
    // SAFETY: the event's frame ends, and the interpreter holds its result or exception; `queue.Empty` is kept for
    // ever.
    unsafe {
        if message_view::is_inner(message_view::caller(frame)) {
            return;
        }
        match how {
            Ended::Returned(object) => receive(state, frame, frame.local(0), object),
            Ended::Raised(error) => {
                let empty = EMPTY.load(Ordering::Acquire) as *mut ffi::PyObject;
                if !empty.is_null() && error.is_a(empty) {
                    message_view::timed_out(state);
                }
            }
        }
    }
}

/// Bytes are about to be written to a connection.
fn on_send(state: &mut ThreadState, frame: Frame) {
    // SAFETY: the event's frame begins; its caller runs.
    unsafe {
        let Some(caller) = message_view::caller(frame) else { return };
        let code = caller.code() as usize;
        let bytes = code == SEND_BYTES_CODE.load(Ordering::Acquire);
        if let Some((put, object)) = caller.caller().filter(|_| bytes).and_then(|put| Some((put, putting(put)?))) {
            send(state, put.local(0), object.as_ptr(), numbers::given(put));
            return untraced(state, |_, _| drop(object));
        }
        if !(bytes || code == SEND_CODE.load(Ordering::Acquire)) || message_view::is_inner(caller.caller()) {
            return;
        }
        let (connection, whole) = (caller.local(0), caller.local(1));
        if !bytes {
            send(state, connection, whole, numbers::given(caller));
            return;
        }
        state.running.identify(state.host, &mut state.thread);
        if sent_values::is_asked(state, Flags::SEND) {
            let message = untraced::build_untraced(state, |py| sent_bytes(py, whole, frame.local(1)));
            send(state, connection, message.as_ptr(), 0);
        }
    }
}

/// The part of `whole` that is written; `part` is a view of it. This is `whole` itself if it is bytes and all of it is
/// written.
///
/// # Safety
/// `whole` and `part` are null or stand; attached, and no events are handled on this thread.
unsafe fn sent_bytes<'py>(
    py: Python<'py>, whole: *mut ffi::PyObject, part: *mut ffi::PyObject,
) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the caller promises a Python function that stands, and an attached thread without an exception. The
    // closure may be null; the types are checked.
    unsafe {
        if part.is_null() {
            return None;
        }
        let is_all = !whole.is_null()
            && ffi::PyBytes_CheckExact(whole) != 0
            && ffi::PyMemoryView_Check(part) != 0
            && Bound::from_borrowed_ptr(py, part).len().is_ok_and(|length| length as isize == ffi::Py_SIZE(whole));
        Some(if is_all { Bound::from_borrowed_ptr(py, whole) } else { bytes_of(py, part, None) })
    }
}

/// An object, or bytes, came out of a connection.
fn on_received(state: &mut ThreadState, frame: Frame, how: Ended) {
    let Ended::Returned(object) = how else { return };
    // SAFETY: the event's frame ends; the result is held.
    unsafe {
        if !message_view::is_inner(message_view::caller(frame)) {
            receive(state, frame, frame.local(0), object);
        }
    }
}

/// Bytes were written into a buffer of the program. The message is a copy of them if the buffer is a bytearray or a
/// memoryview, else the buffer.
fn on_received_into(state: &mut ThreadState, frame: Frame, how: Ended) {
    let Ended::Returned(size) = how else { return };
    // SAFETY: the event's frame ends. The type and the range are checked before bytes are read.
    unsafe {
        if message_view::is_inner(message_view::caller(frame)) {
            return;
        }
        let (connection, buffer) = (frame.local(0), frame.local(1));
        if buffer.is_null() || ffi::PyByteArray_CheckExact(buffer) == 0 && ffi::PyMemoryView_Check(buffer) == 0 {
            return receive(state, frame, connection, buffer);
        }
        let offset = frame.local(2);
        let copy = untraced::build_untraced(state, |py| {
            let number = |object| Bound::from_borrowed_ptr_or_opt(py, object)?.extract::<usize>().ok();
            let (offset, size) = (number(offset)?, number(size)?);
            let all = bytes_of(py, buffer, None).cast_into::<PyBytes>().ok()?;
            Some(PyBytes::new(py, all.as_bytes().get(offset..offset.checked_add(size)?)?).into_any())
        });
        receive(state, frame, connection, copy.as_ptr());
    }
}

thread_local! {
    /// The write that this thread is in: its frame, and when it began.
    static WRITING: Cell<Option<(usize, Instant)>> = const { Cell::new(None) };
}

fn on_write(_here: &mut ThreadState, frame: Frame) {
    WRITING.set(Some((frame.address(), Instant::now())));
}

/// The write has ended, with or without success.
fn on_written(state: &mut ThreadState, frame: Frame, _how: Ended) {
    let began = WRITING.take().filter(|(address, _)| *address == frame.address());
    if began.is_none_or(|(_, began)| began.elapsed() < BUSY_AFTER) {
        return;
    }
    // SAFETY: the event's frame ends; callbacks run attached.
    unsafe {
        let connection = frame.local(0);
        if connection.is_null() {
            return;
        }
        state.running.identify(state.host, &mut state.thread);
        let (own, connection) = (state.thread.current().pid, message_view::queue(state, connection));
        let host = state.host;
        host.node.alarm(&mut state.thread, own, LimitEvent::BusyDistPort, |_, _| {
            Some(Term::Pid(Identifier::own(connection)))
        });
    }
}

/// A pool is asked for a call.
fn on_apply(state: &mut ThreadState, frame: Frame) {
    // SAFETY: the event's frame begins; its caller runs, and still has its parameters.
    unsafe {
        let caller = message_view::caller(frame);
        let Some(caller) = caller.filter(|c| c.code() as usize == APPLY_CODE.load(Ordering::Acquire)) else { return };
        let [pool, function, args, keywords] = [0, 1, 2, 3].map(|n| caller.local(n));
        if ![pool, function, args, keywords].contains(&std::ptr::null_mut()) {
            ask(state, pool, frame.local(0), |py| call(py, function, args, keywords), pools::asked);
        }
    }
}

/// The result of such a call arrives: whether it succeeded, and the value or exception.
fn on_applied(state: &mut ThreadState, frame: Frame) {
    // SAFETY: the event's frame begins, so it has its parameters; the type is checked before items are read.
    unsafe {
        let (result, pair) = (frame.local(0), frame.local(2));
        let Some(record) = state.host.directory.known(result as usize) else { return };
        if outcome(&record).reply_to == 0 || pair.is_null() || ffi::PyTuple_Check(pair) == 0 {
            return;
        }
        if ffi::PyTuple_GET_SIZE(pair) == 2 {
            state.running.identify(state.host, &mut state.thread);
            let is_error = ffi::PyTuple_GET_ITEM(pair, 0) != ffi::Py_True();
            results::reply_with(state, &record, None, ffi::PyTuple_GET_ITEM(pair, 1), is_error);
        }
    }
}

/// Waiting for such a result has failed.
fn on_await_failed(state: &mut ThreadState, frame: Frame, how: Ended) {
    let Some(error) = how.error() else { return };
    // SAFETY: the event's frame ends; the exception is held.
    unsafe {
        if message_view::is_inner(message_view::caller(frame)) {
            return;
        }
        let known = state.host.directory.known(frame.local(0) as usize);
        let waits = known.is_some_and(|record| !outcome(&record).is_set);
        let mut name = [0; 256];
        let class = ffi::Py_TYPE(error.object());
        if waits && capture::type_name(class, &mut name) == "multiprocessing.context.TimeoutError" {
            message_view::timed_out(state);
        }
    }
}
