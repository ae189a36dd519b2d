//! The tokens and numbers that go after a pickle of `multiprocessing`, and the receiver of a token that was found
//! there. Both follow from the frames of the library's functions that pickle and unpickle.
//!
//! | pickled by | the token is | the number is |
//! | --- | --- | --- |
//! | `Connection.send`, `SimpleQueue.put` | the running process's | reserved now, if the program has called them |
//! | the feeder thread of a `Queue` | the one of the process that put the object in, kept with the queue's buffer; for a call of a process pool its future's | kept there, too |
//! | the task thread of a `Pool` | the call's, kept with its result | none: its receipt emits no event |
//!
//! Results of pools arrive in threads of the library, which pass them on. There a token waits for the future that is
//! set next.
//!
//! # Roles
//! Threads that send and receive run the functions below, attached. Instruments fill in the codes when they begin.
//!
//! # States
//! `SEND_CODE` and `PUT_CODE` are 0, or the code whose ends are watched. All other state belongs to one thread.
//!
//! # Orderings
//! A code is stored `Release` after its handler is in place and loaded `Acquire`: a thread that finds the code sees its
//! end.
//!
//! # Checked by
//! `tests/python/test_seq_multiprocess.py`, `tests/python/test_process_message_numbers.py`.

use super::{
    buffers,
    calls::{self, is},
    numbers, pools,
};
use crate::{
    control::originals,
    instrument::{callback_tokens, message_view, modules, sent_values, tokens, watch},
    state::{
        instrument::{Ended, Handler, Instrument, Module},
        thread::ThreadState,
        untraced,
    },
};
use inviso_core::host::{
    flags::Flags,
    messages::About,
    seq::{Carried, Sending},
    tracee::Kind,
};
use inviso_cpython::{
    capture,
    frames::frame::Frame,
    interpreter::{calling, generic::attribute},
    object::held::Held,
};
use inviso_term::record::numbered::Number;
use pyo3::{ffi, prelude::*};
use std::{
    cell::RefCell,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Pickling and unpickling.
pub static PICKLER: Instrument = Instrument::new(
    |wants| wants.messages(),
    |py, host| {
        buffers::begin();
        modules::want(py, host, &MODULES[..1])
    },
    |py, host| {
        modules::leave(py, host, &MODULES[..1])?;
        remove(py, "remove_pickler")
    },
    |py| forget(py, &MODULES[..1], "remove_pickler"),
);

/// The other ways of tokens: starting processes, methods that send, results.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.tokens,
    |py, host| modules::want(py, host, &MODULES[1..]),
    |py, host| {
        watch::remove(py, host, &[&GOT, &CALLBACKS, &SENT])?;
        modules::leave(py, host, &MODULES[1..])?;
        remove(py, "remove_start")
    },
    |py| forget(py, &MODULES[1..], "remove_start"),
);

fn remove(py: Python<'_>, how: &str) -> PyResult<()> {
    calling::method(&ours(py)?, how, ()).map(drop)
}

fn forget(py: Python<'_>, modules: &'static [Module], how: &str) {
    modules::forget(modules);
    if let Err(error) = remove(py, how) {
        error.write_unraisable(py, None);
    }
}

/// `ApplyResult.get`.
pub static GOT: Handler = Handler { end: Some(on_got), ..Handler::NONE };

/// Functions that call back with a result in a thread of the library: `Future._invoke_callbacks`, `_set` of
/// `ApplyResult` and `MapResult`.
pub static CALLBACKS: Handler = Handler { begin: Some(on_callbacks), end: Some(on_called_back), ..Handler::NONE };
/// `SimpleQueue.put`, and a connection's `send`.
pub static SENT: Handler = Handler { end: Some(on_sent), ..Handler::NONE };

/// Where they are defined; the first for [`PICKLER`].
pub static MODULES: [Module; 6] = [
    Module::new("multiprocessing.reduction", |py, _, module| install(py, "install_pickler", module)),
    Module::new("multiprocessing.process", |py, _, module| install(py, "install_start", module)),
    Module::new("multiprocessing.queues", |py, host, module| {
        let simple = &["self", "obj"];
        modules::watch_all(py, host, module, &[("SimpleQueue.put", simple, &SENT)])?;
        modules::keep(&PUT_CODE, modules::code(module, "SimpleQueue.put", simple)?);
        Ok(())
    }),
    Module::new("multiprocessing.connection", |py, host, module| {
        let (name, send) = ("_ConnectionBase.send", &["self", "obj"]);
        modules::watch_all(py, host, module, &[(name, send, &SENT)])?;
        modules::keep(&SEND_CODE, modules::code(module, name, send)?);
        Ok(())
    }),
    Module::new("multiprocessing.pool", |py, host, module| {
        let set = [
            ("ApplyResult.get", &["self", "timeout"][..], &GOT),
            ("ApplyResult._set", &["self", "i", "obj"], &CALLBACKS),
            ("MapResult._set", &["self", "i", "success_result"], &CALLBACKS),
        ];
        modules::watch_all(py, host, module, &set)
    }),
    Module::new("concurrent.futures._base", |py, host, module| {
        modules::watch_all(py, host, module, &[("Future._invoke_callbacks", &["self"], &CALLBACKS)])
    }),
];

fn ours(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    calling::import(py, "inviso._pickles")
}

fn install(py: Python<'_>, how: &str, module: &Bound<'_, PyAny>) -> PyResult<()> {
    calling::method(&ours(py)?, how, (module,)).map(drop)
}

/// Functions that put an item into a pool's queues to wake the pool's own threads. It is not a message.
const WAKERS: [&str; 3] = ["_PoolCache.__delitem__", "Pool.close", "Pool._terminate_pool"];

/// How an object gets its token.
pub enum PickleToken {
    /// It was sent earlier, to this queue.
    Kept(Carried, u64),
    /// The running process is sending it now, by the method of a queue or connection in this frame.
    Now(Frame),
    /// It gets no token.
    None,
}

/// Codes whose ends are watched.
static SEND_CODE: AtomicUsize = AtomicUsize::new(0);
static PUT_CODE: AtomicUsize = AtomicUsize::new(0);

/// An object that is being written, which may fail.
struct WrittenObject {
    /// The frame of the method that sends it.
    frame: usize,
    to: u64,
    message: Option<Py<PyAny>>,
    sending: Sending,
}

/// The most nested methods (by a signal's handler) that this thread remembers.
const SENDS: usize = 16;

thread_local! {
    /// The objects that this thread is sending.
    static SENDING: RefCell<Vec<WrittenObject>> = const { RefCell::new(Vec::new()) };
}

/// The frame of the function that called into this package.
///
/// # Safety
/// The calling thread is attached.
unsafe fn caller() -> Option<Frame> {
    // SAFETY: the callers promise that the thread is attached.
    unsafe { Frame::current_python(inviso_cpython::interpreter::tstate())?.caller() }
}

/// The most functions between this package and the library's function that pickles: wrappers of the program.
const BETWEEN: usize = 8;

/// The library's frame in which an object is being pickled.
///
/// # Safety
/// As [`caller`].
unsafe fn library() -> Option<Frame> {
    // SAFETY: the callers promise that the thread is attached; the callers of a running frame run, too.
    unsafe {
        let mut frames = std::iter::successors(caller(), |frame| frame.caller()).take(BETWEEN);
        frames.find(|frame| message_view::is_library(*frame))
    }
}

/// How an object that has been pickled gets its token; and its number, or 0.
///
/// # Safety
/// The thread is attached, in a function of this package that the library called to pickle; the running process is
/// known.
pub unsafe fn leaving(state: &mut ThreadState, object: &Bound<'_, PyAny>) -> (PickleToken, u64) {
    // SAFETY: the caller promises that the thread is attached, in a function of this package that the library called to
    // pickle, and the running process is known; the callers of a running frame run, too.
    unsafe {
        let Some(frame) = library() else { return (PickleToken::None, 0) };
        let tokens = state.host.node.seq_in_use();
        if is(frame, "Queue._feed") {
            return match taken(state, frame, object) {
                Some((number, carried @ Carried::Token(..), buffer)) if tokens => {
                    (PickleToken::Kept(carried, buffer), number)
                }
                Some((number, ..)) => (PickleToken::None, number),
                None => (PickleToken::None, 0),
            };
        }
        let sends = is(frame, "SimpleQueue.put") || is(frame, "_ConnectionBase.send");
        let by_program = sends && !message_view::is_inner(originals::caller(frame));
        let number = if by_program { numbers::give(state, frame) } else { 0 };
        (if tokens { way(state, frame, object) } else { PickleToken::None }, number)
    }
}

/// An object could not be pickled: takes it off the queue's buffer, if it was there.
///
/// # Safety
/// As [`leaving`].
pub unsafe fn failed(state: &mut ThreadState, object: &Bound<'_, PyAny>) {
    // SAFETY: the caller promises that the thread is attached, in a function of this package that the library called to
    // pickle, and the running process is known.
    unsafe {
        if let Some(frame) = library().filter(|frame| is(*frame, "Queue._feed")) {
            drop(taken(state, frame, object));
        }
    }
}

/// The record of an object that the feeder, whose frame this is, has taken out of its buffer; and the buffer.
///
/// # Safety
/// As [`leaving`].
unsafe fn taken(state: &mut ThreadState, feeder: Frame, object: &Bound<'_, PyAny>) -> Option<(u64, Carried, u64)> {
    // SAFETY: the first parameter, which the method never assigns to.
    let buffer = state.host.directory.known(unsafe { feeder.local(0) } as usize)?;
    let (number, carried) = buffers::take(&buffer, object.as_ptr())?;
    Some((number, carried, buffer.pid))
}

/// How an object that is being sent now gets its token.
///
/// # Safety
/// As [`leaving`]; tokens are in use.
unsafe fn way(state: &mut ThreadState, frame: Frame, object: &Bound<'_, PyAny>) -> PickleToken {
    // SAFETY: the caller promises that the thread is attached, in a function of this package that the library called to
    // pickle, the running process is known, and tokens are in use; these are parameters of running functions, which
    // assign to none of them before this.
    unsafe {
        if is(frame, "SimpleQueue.put") {
            let wakes = frame.caller().filter(|caller| message_view::is_library(*caller));
            let wakes = wakes.is_some_and(|caller| WAKERS.iter().any(|name| is(caller, name)));
            return if wakes || is_apart(state, frame) { PickleToken::None } else { PickleToken::Now(frame) };
        }
        if !is(frame, "_ConnectionBase.send") {
            return PickleToken::None;
        }
        match frame.caller().filter(|frame| is(*frame, "Pool._handle_tasks")) {
            None => PickleToken::Now(frame),
            Some(tasks) => match pools::task(state, object, tasks) {
                Some((carried, to)) => PickleToken::Kept(carried, to),
                None => PickleToken::None,
            },
        }
    }
}

/// An object has been unpickled that came with this number. The event of its receipt has the number.
///
/// # Safety
/// The thread is attached, in a function of this package that the library called to unpickle; the running process is
/// known.
pub unsafe fn came(state: &mut ThreadState, number: Option<Number>) {
    // SAFETY: the caller promises that the thread is attached, in a function of this package that the library called to
    // unpickle, and the running process is known.
    unsafe {
        if let Some(frame) = caller().filter(|frame| message_view::is_library(*frame)) {
            numbers::come(frame, number.filter(|_| sent_values::is_asked(state, Flags::RECEIVE)));
        }
    }
}

/// Whether the object being unpickled is a result that the running thread, one of the library's, passes on.
///
/// # Safety
/// The thread is attached, in a function of this package that the library called to unpickle.
pub unsafe fn is_for_another() -> bool {
    // SAFETY: the caller promises that the thread is attached, in a function of this package that the library called to
    // unpickle; the callers of a running frame run, too.
    unsafe {
        let mut frame = caller();
        for _ in 0..4 {
            let Some(state) = frame.filter(|frame| message_view::is_library(*frame)) else { return false };
            if is(state, "Pool._handle_results") || is(state, "_ExecutorManagerThread.wait_result_broken_or_wakeup") {
                return true;
            }
            frame = state.caller();
        }
        false
    }
}

/// Functions that take from a connection for the library itself: a manager's process reports to the process that starts
/// it, and a pool that is terminated discards items.
const OWN_TAKERS: [&str; 2] = ["BaseManager.start", "Pool._help_stuff_finish"];

/// Whether the object being unpickled is not a message, since one of [`OWN_TAKERS`] takes it.
///
/// # Safety
/// As [`is_for_another`].
pub unsafe fn is_no_message() -> bool {
    // SAFETY: the caller promises that the thread is attached, in a function of this package that the library called to
    // unpickle; the callers of a running frame run, too.
    unsafe {
        let taker = caller().filter(|recv| message_view::is_library(*recv)).and_then(|recv| recv.caller());
        taker.is_some_and(|taker| message_view::is_library(taker) && OWN_TAKERS.iter().any(|name| is(taker, name)))
    }
}

/// Whether the object being unpickled comes out of a queue whose items carry no tokens, as the program says.
///
/// # Safety
/// As [`is_for_another`].
pub unsafe fn is_of_no_carrier(state: &ThreadState) -> bool {
    // SAFETY: the caller promises that the thread is attached, in a function of this package that the library called to
    // unpickle.
    unsafe {
        caller().is_some_and(|frame| {
            message_view::is_library(frame)
                && (is(frame, "Queue.get") || is(frame, "SimpleQueue.get"))
                && is_apart(state, frame)
        })
    }
}

/// Whether the program says of the queue whose method runs that its items carry no tokens.
///
/// # Safety
/// The frame is a method's and runs, or begins or ends; the thread is attached.
unsafe fn is_apart(state: &ThreadState, frame: Frame) -> bool {
    // SAFETY: the caller promises that it is a method's frame, which has a first parameter.
    tokens::is_said_not_to_carry(state, unsafe { frame.local(0) })
}

/// Whether the library starts a process for itself.
///
/// # Safety
/// The thread is attached, in a function of this package that the library called to start a process.
pub unsafe fn is_started_by_library() -> bool {
    // SAFETY: the caller promises that the thread is attached, in a function of this package that the library called to
    // start a process.
    unsafe { caller().is_some_and(|frame| message_view::is_library(frame)) }
}

/// Whether a worker of a pool takes a task, or puts a result.
///
/// # Safety
/// As [`is_for_another`].
unsafe fn is_worker() -> bool {
    // SAFETY: the caller promises that the thread is attached, in a function of this package that the library called to
    // unpickle; the callers of a running frame run, too.
    unsafe {
        let library = library().filter(|frame| is(*frame, "SimpleQueue.get") || is(*frame, "SimpleQueue.put"));
        let worker = library.and_then(|frame| frame.caller());
        worker.is_some_and(|worker| message_view::is_library(worker) && is(worker, "worker"))
    }
}

/// The message of a pickled object. For an item of a process pool it is the call, or its result.
///
/// # Safety
/// The thread is attached; the running process is known.
pub unsafe fn message_of(state: &mut ThreadState, object: &Bound<'_, PyAny>) -> Held {
    let mut buffer = [0; 256];
    // SAFETY: the caller promises that the thread is attached and the running process is known; the objects stand.
    unsafe {
        if is_worker() {
            return pools::told_as(state, object.as_ptr());
        }
        let kind = capture::type_name(ffi::Py_TYPE(object.as_ptr()), &mut buffer);
        let at = object.as_ptr();
        if kind == "concurrent.futures.process._CallItem" {
            return untraced::build_untraced(state, |py| {
                let [function, args, keywords] = ["fn", "args", "kwargs"].map(|name| attribute(py, at, name));
                sent_values::of_call(py, function?.as_ptr(), args?.as_ptr(), keywords?.as_ptr()).ok()
            });
        }
        if kind == "concurrent.futures.process._ResultItem" {
            return untraced::build_untraced(state, |py| match attribute(py, at, "exception") {
                Some(error) if !error.is_none() => sent_values::of_exception(py, error.as_ptr()).ok(),
                _ => attribute(py, at, "result"),
            });
        }
        ffi::Py_INCREF(object.as_ptr());
        Held::owned(object.as_ptr())
    }
}

/// The running process, which is known, sends an object by a method that runs: what the object carries, and the
/// receiver. The event follows when the method has returned.
///
/// # Safety
/// The frame runs; the thread is attached; the object stands.
pub unsafe fn begin_send(state: &mut ThreadState, frame: Frame, object: &Bound<'_, PyAny>) -> (Carried, u64) {
    // SAFETY: the caller promises that the frame runs, the thread is attached, and the object stands; a method has a
    // first parameter.
    unsafe {
        let to = message_view::queue(state, frame.local(0));
        let message = message_of(state, object);
        let code = frame.code() as usize;
        if ![&SEND_CODE, &PUT_CODE].iter().any(|known| known.load(Ordering::Acquire) == code) {
            let write = tokens::writing(message.as_ptr());
            return (state.host.node.seq_send(&mut state.thread, About::Current, to, write), to);
        }
        let Some(sending) = state.host.node.seq_begin_send(state.thread.current()) else { return (Carried::Empty, to) };
        let carried = sending.carried();
        let message = Bound::from_borrowed_ptr_or_opt(object.py(), message.as_ptr()).map(Bound::unbind);
        let sent = WrittenObject { frame: frame.address(), to, message, sending };
        let stale = SENDING.with_borrow_mut(|all| {
            let stale = if all.len() == SENDS { std::mem::take(all) } else { Vec::new() };
            all.push(sent);
            stale
        });
        drop(stale);
        (carried, to)
    }
}

/// A method that sends has ended.
fn on_sent(state: &mut ThreadState, frame: Frame, how: Ended) {
    let found = SENDING.with_borrow_mut(|all| {
        let at = all.iter().rposition(|sent| sent.frame == frame.address())?;
        Some(all.split_off(at))
    });
    let Some(WrittenObject { to, message, sending, .. }) = found.and_then(|found| found.into_iter().next()) else {
        return;
    };
    // SAFETY: the thread is attached; the message is held.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        if let Ended::Returned(_) = how {
            let write = tokens::writing(message.as_ref().map_or(std::ptr::null_mut(), Py::as_ptr));
            state.host.node.seq_sent(&mut state.thread, About::Current, to, sending, write);
        } else {
            state.host.node.seq_take_back(state.thread.current(), sending);
        }
    }
}

/// An object is about to be put, and pickled later. `library` is the caller's frame unless the program calls. Returns
/// what the object carries.
///
/// # Safety
/// The frame is that of the current event, of a `put` that begins; its caller runs; the thread is attached; the running
/// process is known.
pub unsafe fn put(state: &mut ThreadState, frame: Frame, library: Option<Frame>) -> Carried {
    if !state.host.node.seq_in_use() {
        return Carried::Nothing;
    }
    // SAFETY: the caller promises the frame of a `put` that begins, whose caller runs, and an attached thread.
    unsafe {
        match library {
            None if is_apart(state, frame) => Carried::Nothing,
            None if calls::is_sure(state, frame) => send(state, frame),
            // the feeder may take it before the sending is certain
            None => state.host.node.seq_would_send(state.thread.current()),
            Some(manager) if is(manager, "_ExecutorManagerThread.add_call_item_to_queue") => {
                let future = untraced::build_untraced(state, |py| attribute(py, manager.local(2), "future"));
                let record = state.host.directory.known(future.as_ptr() as usize);
                record.and_then(|record| tokens::kept_by(&record)).unwrap_or_default()
            }
            Some(_) => Carried::Nothing,
        }
    }
}

/// The program has put an object by a `put` that was not certain before.
///
/// # Safety
/// The frame is that of the current event, of a `put` that ends; the thread is attached.
pub unsafe fn put_done(state: &mut ThreadState, frame: Frame) {
    // SAFETY: the caller promises that the frame is that of the current event, of a `put` that ends, and the thread is
    // attached.
    unsafe {
        if state.host.node.seq_in_use() && !is_apart(state, frame) {
            state.running.identify(state.host, &mut state.thread);
            drop(send(state, frame));
        }
    }
}

/// The running process, which is known, puts an object into a queue.
///
/// # Safety
/// The frame is that of the current event, of a `put`; the thread is attached.
unsafe fn send(state: &mut ThreadState, frame: Frame) -> Carried {
    // SAFETY: the first two parameters, which stand as long as the event's frame.
    unsafe {
        let to = message_view::queue(state, frame.local(0));
        state.host.node.seq_send(&mut state.thread, About::Current, to, tokens::writing(frame.local(1)))
    }
}

/// A result is there, and the program's callbacks are about to be called with it. They get its token without an event,
/// also where a thread of the library calls them.
fn on_callbacks(state: &mut ThreadState, frame: Frame) {
    // SAFETY: the event's frame begins, and has its parameter; the thread is attached.
    unsafe {
        let Some(record) = state.host.directory.known(frame.local(0) as usize) else { return };
        if !crate::library::results::outcome(&record).is_set {
            return; // cancelled, or not all of it
        }
        state.running.identify(state.host, &mut state.thread);
        let own = state.thread.current().clone();
        let result = pools::last_of(&record).or_else(|| tokens::shown_by(&record));
        match result {
            Some(Carried::Token(token, era)) if own.kind == Kind::Thread && token.from != own.pid => {
                let way = callback_tokens::CallbackToken::Unseen(Carried::Token(token, era));
                callback_tokens::begin(state, frame.address(), way, |_| Held::borrowed(std::ptr::null_mut()));
            }
            _ => {} // it is the running process's own
        }
    }
}

/// The callbacks have been called.
fn on_called_back(state: &mut ThreadState, frame: Frame, _how: Ended) {
    callback_tokens::end(state, frame.address());
}

/// The program has got the result of a pool's call, or its exception.
fn on_got(state: &mut ThreadState, frame: Frame, how: Ended) {
    // SAFETY: the event's frame ends, and its value or exception is held; the thread is attached.
    unsafe {
        let Some(record) = state.host.directory.known(frame.local(0) as usize) else { return };
        // also where the library does it for the program, as in `Pool.apply`
        if !crate::library::results::outcome(&record).is_set || pools::take_all(state, &record, frame, how) {
            return;
        }
        state.running.identify(state.host, &mut state.thread);
        tokens::receive_by(state, About::Current, &record, |state| match how {
            Ended::Returned(value) => {
                ffi::Py_INCREF(value);
                Held::owned(value)
            }
            Ended::Raised(error) => {
                untraced::build_untraced(state, |py| sent_values::of_exception(py, error.object()).ok())
            }
        });
    }
}
