//! Which token and number go behind a pickle of `multiprocessing`, and to whom one goes that was found behind one: seen from the frames of the
//! library's functions that pickle and unpickle.
//!
//! | who pickles | the token is | the number is |
//! | --- | --- | --- |
//! | `Connection.send`, `SimpleQueue.put` | the running process's | given out now, if the program has called them |
//! | the feeder thread of a `Queue` | that of who put the object in, kept with the queue's buffer; of a call of a process pool's, its future's | kept there, too |
//! | the task thread of a `Pool` | the call's, kept with its result | none: nobody is told of its receipt |
//!
//! Results of pools arrive in threads of the library, which hand them on: there a token waits for the future that is set next.

use super::{buffers, numbers, pools};
use crate::{
    host::instruments::Instrument,
    instrument::{
        modules::{self, Module},
        originals, parcels, passing, tokens,
        watch::{self, Ended, Handler},
    },
    library::{loops::loop_tokens, multiprocess},
    processes::spawning::attribute,
    thread::here::Here,
};
use inviso_core::{
    flags::Flags,
    messages::About,
    seq::{Carried, Sending},
    tracee::Kind,
};
use inviso_cpython::{
    capture,
    frames::frame::{code_qualname, Frame},
    interpreter::calling,
    object::held::Held,
};
use inviso_term::record::numbered::Number;
use pyo3::{ffi, prelude::*};
use std::{
    cell::RefCell,
    sync::atomic::{AtomicUsize, Ordering},
};

/// What pickles and unpickles.
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

/// What else tokens pass on their way: what starts processes, methods that send, results.
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

/// What calls back with a result in a thread of the library: `Future._invoke_callbacks`, `_set` of `ApplyResult` and `MapResult`.
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

/// Functions that put something into a pool's queues for the pool's own threads to see: no message.
const WAKERS: [&str; 3] = ["_PoolCache.__delitem__", "Pool.close", "Pool._terminate_pool"];

/// How an object comes by its token.
pub enum Way {
    /// It was sent earlier, to this queue.
    Kept(Carried, u64),
    /// It is being sent by the running process, by a method of a queue or connection: its frame.
    Now(Frame),
    /// It has none.
    None,
}

/// Codes whose ends are watched.
static SEND_CODE: AtomicUsize = AtomicUsize::new(0);
static PUT_CODE: AtomicUsize = AtomicUsize::new(0);

/// What is being written, and may not get through.
struct Sent {
    /// The frame of the method that sends it.
    frame: usize,
    to: u64,
    message: Option<Py<PyAny>>,
    sending: Sending,
}

/// Methods inside each other (by a signal's handler) that this thread keeps in mind.
const SENDS: usize = 16;

thread_local! {
    /// What this thread is sending.
    static SENDING: RefCell<Vec<Sent>> = const { RefCell::new(Vec::new()) };
    /// What a result carries that this thread of the library is about to hand on.
    static WAITING: RefCell<Option<Carried>> = const { RefCell::new(None) };
}

/// A result has arrived that another process waits for.
pub fn leave(carried: Carried) {
    WAITING.set(Some(carried));
}

/// What the result carries that this thread hands on now.
pub fn waiting() -> Option<Carried> {
    WAITING.take()
}

/// The frame that has called what calls this package now.
///
/// # Safety
/// The calling thread is attached.
unsafe fn caller() -> Option<Frame> {
    // SAFETY: the callers': attached.
    unsafe { Frame::current_python(inviso_cpython::interpreter::tstate())?.caller() }
}

/// Functions between what pickles and what the library has called for it, at most: the program's own, around ours.
const BETWEEN: usize = 8;

/// The library's frame that has had an object pickled.
///
/// # Safety
/// As [`caller`].
unsafe fn library() -> Option<Frame> {
    // SAFETY: the callers': attached; whoever called a frame that runs does, too.
    unsafe {
        let mut frames = std::iter::successors(caller(), |frame| frame.caller()).take(BETWEEN);
        frames.find(|frame| passing::is_library(*frame))
    }
}

/// Whether a function of this name runs in a frame.
///
/// # Safety
/// The frame runs; attached.
pub unsafe fn is(frame: Frame, name: &str) -> bool {
    // SAFETY: the callers': the frame runs, attached.
    unsafe { capture::is_text(code_qualname(frame.code()), name) }
}

/// How an object that has been pickled comes by its token, and its number, or 0.
///
/// # Safety
/// Attached, in a function of this package that the library called to pickle; the running process is known.
pub unsafe fn leaving(here: &mut Here, object: &Bound<'_, PyAny>) -> (Way, u64) {
    // SAFETY: the caller's promise; whoever called a frame that runs does, too.
    unsafe {
        let Some(frame) = library() else { return (Way::None, 0) };
        let tokens = here.host.node.seq_in_use();
        if is(frame, "Queue._feed") {
            return match taken(here, frame, object) {
                Some((number, carried @ Carried::Token(..), buffer)) if tokens => (Way::Kept(carried, buffer), number),
                Some((number, ..)) => (Way::None, number),
                None => (Way::None, 0),
            };
        }
        let sends = is(frame, "SimpleQueue.put") || is(frame, "_ConnectionBase.send");
        let by_program = sends && !passing::is_inner(originals::caller(frame));
        let number = if by_program { numbers::give(here, frame) } else { 0 };
        (if tokens { way(here, frame, object) } else { Way::None }, number)
    }
}

/// An object could not be pickled: if it was in a queue's buffer, it is not any more.
///
/// # Safety
/// As [`leaving`].
pub unsafe fn failed(here: &mut Here, object: &Bound<'_, PyAny>) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(frame) = library().filter(|frame| is(*frame, "Queue._feed")) {
            drop(taken(here, frame, object));
        }
    }
}

/// What is known of an object that the feeder, whose frame this is, has taken out of its buffer; and the buffer.
///
/// # Safety
/// As [`leaving`].
unsafe fn taken(here: &mut Here, feeder: Frame, object: &Bound<'_, PyAny>) -> Option<(u64, Carried, u64)> {
    // SAFETY: the first parameter, which is not assigned to.
    let buffer = here.host.directory.known(unsafe { feeder.local(0) } as usize)?;
    let (number, carried) = buffers::take(&buffer, object.as_ptr())?;
    Some((number, carried, buffer.pid))
}

/// How an object that is being sent now comes by its token.
///
/// # Safety
/// As [`leaving`]; tokens are in use.
unsafe fn way(here: &mut Here, frame: Frame, object: &Bound<'_, PyAny>) -> Way {
    // SAFETY: the caller's promise; parameters of running functions, none of which is assigned to before this.
    unsafe {
        if is(frame, "SimpleQueue.put") {
            let wakes = frame.caller().filter(|caller| passing::is_library(*caller));
            let wakes = wakes.is_some_and(|caller| WAKERS.iter().any(|name| is(caller, name)));
            return if wakes || is_apart(here, frame) { Way::None } else { Way::Now(frame) };
        }
        if !is(frame, "_ConnectionBase.send") {
            return Way::None;
        }
        match frame.caller().filter(|frame| is(*frame, "Pool._handle_tasks")) {
            None => Way::Now(frame),
            Some(tasks) => match pools::task(here, object, tasks) {
                Some((carried, to)) => Way::Kept(carried, to),
                None => Way::None,
            },
        }
    }
}

/// An object has been unpickled that came with this number: who gives it to the program is told of by it.
///
/// # Safety
/// As [`leaving`], called to unpickle.
pub unsafe fn came(here: &mut Here, number: Option<Number>) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(frame) = caller().filter(|frame| passing::is_library(*frame)) {
            numbers::come(frame, number.filter(|_| parcels::is_asked(here, Flags::RECEIVE)));
        }
    }
}

/// Whether what is being unpickled is a result that the running thread, one of the library's, hands on.
///
/// # Safety
/// Attached, in a function of this package that the library called to unpickle.
pub unsafe fn is_for_another() -> bool {
    // SAFETY: the caller's promise; whoever called a frame that runs does, too.
    unsafe {
        let mut frame = caller();
        for _ in 0..4 {
            let Some(here) = frame.filter(|frame| passing::is_library(*frame)) else { return false };
            if is(here, "Pool._handle_results") || is(here, "_ExecutorManagerThread.wait_result_broken_or_wakeup") {
                return true;
            }
            frame = here.caller();
        }
        false
    }
}

/// Who takes from a connection for the library itself: what a manager's process tells who starts it, and what a pool that is
/// terminated throws away.
const OWN_TAKERS: [&str; 2] = ["BaseManager.start", "Pool._help_stuff_finish"];

/// Whether what is being unpickled is no message to anybody: one of [`OWN_TAKERS`] takes it.
///
/// # Safety
/// As [`is_for_another`].
pub unsafe fn is_no_message() -> bool {
    // SAFETY: the caller's promise; whoever called a frame that runs does, too.
    unsafe {
        let taker = caller().filter(|recv| passing::is_library(*recv)).and_then(|recv| recv.caller());
        taker.is_some_and(|taker| passing::is_library(taker) && OWN_TAKERS.iter().any(|name| is(taker, name)))
    }
}

/// Whether what is being unpickled comes out of a queue whose items carry no tokens, as the program says.
///
/// # Safety
/// As [`is_for_another`].
pub unsafe fn is_of_no_carrier(here: &Here) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        caller().is_some_and(|frame| {
            passing::is_library(frame)
                && (is(frame, "Queue.get") || is(frame, "SimpleQueue.get"))
                && is_apart(here, frame)
        })
    }
}

/// Whether the program says of the queue whose method runs that its items carry no tokens.
///
/// # Safety
/// The frame is a method's and runs, or begins or ends; attached.
unsafe fn is_apart(here: &Here, frame: Frame) -> bool {
    // SAFETY: the callers': the first parameter.
    tokens::is_said_not_to_carry(here, unsafe { frame.local(0) })
}

/// Whether the library starts a process for itself.
///
/// # Safety
/// As [`is_for_another`], called to start a process.
pub unsafe fn is_started_by_library() -> bool {
    // SAFETY: the caller's promise.
    unsafe { caller().is_some_and(|frame| passing::is_library(frame)) }
}

/// Whether a worker of a pool takes a task, or puts a result.
///
/// # Safety
/// As [`is_for_another`].
unsafe fn is_worker() -> bool {
    // SAFETY: the caller's promise; whoever called a frame that runs does, too.
    unsafe {
        let library = library().filter(|frame| is(*frame, "SimpleQueue.get") || is(*frame, "SimpleQueue.put"));
        let worker = library.and_then(|frame| frame.caller());
        worker.is_some_and(|worker| passing::is_library(worker) && is(worker, "worker"))
    }
}

/// The message that a pickled object is: of a process pool's items the call, and its result.
///
/// # Safety
/// Attached; the running process is known.
pub unsafe fn message_of(here: &mut Here, object: &Bound<'_, PyAny>) -> Held {
    let mut buffer = [0; 256];
    // SAFETY: the caller's promise; the objects stand.
    unsafe {
        if is_worker() {
            return pools::told_as(here, object.as_ptr());
        }
        let kind = capture::type_name(ffi::Py_TYPE(object.as_ptr()), &mut buffer);
        let at = object.as_ptr();
        if kind == "concurrent.futures.process._CallItem" {
            return parcels::made(here, |py| {
                let [function, args, keywords] = ["fn", "args", "kwargs"].map(|name| attribute(py, at, name));
                parcels::of_call(py, function?.as_ptr(), args?.as_ptr(), keywords?.as_ptr()).ok()
            });
        }
        if kind == "concurrent.futures.process._ResultItem" {
            return parcels::made(here, |py| match attribute(py, at, "exception") {
                Some(error) if !error.is_none() => parcels::of_exception(py, error.as_ptr()).ok(),
                _ => attribute(py, at, "result"),
            });
        }
        ffi::Py_INCREF(object.as_ptr());
        Held::owned(object.as_ptr())
    }
}

/// The running process, which is known, sends an object by a method that runs: what that carries, and where to. It is told of when the
/// method has ended well.
///
/// # Safety
/// The frame runs; attached; the object stands.
pub unsafe fn begin_send(here: &mut Here, frame: Frame, object: &Bound<'_, PyAny>) -> (Carried, u64) {
    // SAFETY: the caller's promise; the first parameter of a method.
    unsafe {
        let to = passing::queue(here, frame.local(0));
        let message = message_of(here, object);
        let code = frame.code() as usize;
        if ![&SEND_CODE, &PUT_CODE].iter().any(|known| known.load(Ordering::Acquire) == code) {
            let write = tokens::writing(message.as_ptr());
            return (here.host.node.seq_send(&mut here.thread, About::Current, to, write), to);
        }
        let Some(sending) = here.host.node.seq_begin_send(here.thread.current()) else { return (Carried::Empty, to) };
        let carried = sending.carried();
        let message = Bound::from_borrowed_ptr_or_opt(object.py(), message.as_ptr()).map(Bound::unbind);
        let sent = Sent { frame: frame.address(), to, message, sending };
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
fn on_sent(here: &mut Here, frame: Frame, how: Ended) {
    let found = SENDING.with_borrow_mut(|all| {
        let at = all.iter().rposition(|sent| sent.frame == frame.address())?;
        Some(all.split_off(at))
    });
    let Some(Sent { to, message, sending, .. }) = found.and_then(|found| found.into_iter().next()) else { return };
    // SAFETY: attached; the message is held.
    unsafe {
        here.running.identify(here.host, &mut here.thread);
        if let Ended::Returned(_) = how {
            let write = tokens::writing(message.as_ref().map_or(std::ptr::null_mut(), Py::as_ptr));
            here.host.node.seq_sent(&mut here.thread, About::Current, to, sending, write);
        } else {
            here.host.node.seq_take_back(here.thread.current(), sending);
        }
    }
}

/// An object is about to be put, to be pickled later, by `library` if that is no program's call: what it carries.
///
/// # Safety
/// The frame is that of the event that is being taken, of a `put` that begins; its caller runs; attached; the running process is known.
pub unsafe fn put(here: &mut Here, frame: Frame, library: Option<Frame>) -> Carried {
    if !here.host.node.seq_in_use() {
        return Carried::Nothing;
    }
    // SAFETY: the caller's promise.
    unsafe {
        match library {
            None if is_apart(here, frame) => Carried::Nothing,
            None if multiprocess::is_sure(here, frame) => send(here, frame),
            // the feeder may have it before it is known whether it is sent
            None => here.host.node.seq_would_send(here.thread.current()),
            Some(manager) if is(manager, "_ExecutorManagerThread.add_call_item_to_queue") => {
                let future = parcels::made(here, |py| attribute(py, manager.local(2), "future"));
                let record = here.host.directory.known(future.as_ptr() as usize);
                record.and_then(|record| tokens::kept_by(&record)).unwrap_or_default()
            }
            Some(_) => Carried::Nothing,
        }
    }
}

/// It was put by the program, where that was not sure.
///
/// # Safety
/// As [`put`], at its end.
pub unsafe fn put_done(here: &mut Here, frame: Frame) {
    // SAFETY: the caller's promise.
    unsafe {
        if here.host.node.seq_in_use() && !is_apart(here, frame) {
            here.running.identify(here.host, &mut here.thread);
            drop(send(here, frame));
        }
    }
}

/// The running process, which is known, puts an object into a queue.
///
/// # Safety
/// The frame is that of the event that is being taken, of a `put`; attached.
unsafe fn send(here: &mut Here, frame: Frame) -> Carried {
    // SAFETY: the first two parameters, which stand.
    unsafe {
        let to = passing::queue(here, frame.local(0));
        here.host.node.seq_send(&mut here.thread, About::Current, to, tokens::writing(frame.local(1)))
    }
}

/// A result is there, with which the program's callbacks are about to be called: they have its token, unseen, also where a thread of the
/// library calls them.
fn on_callbacks(here: &mut Here, frame: Frame) {
    // SAFETY: the event's frame begins, and has its parameter; attached.
    unsafe {
        let Some(record) = here.host.directory.known(frame.local(0) as usize) else { return };
        if !crate::library::futures::outcome(&record).is_set {
            return; // cancelled, or not all of it
        }
        here.running.identify(here.host, &mut here.thread);
        let own = here.thread.current().clone();
        let result = pools::last_of(&record).or_else(|| tokens::shown_by(&record));
        match result {
            Some(Carried::Token(token, era)) if own.kind == Kind::Thread && token.from != own.pid => {
                let way = loop_tokens::Way::Unseen(Carried::Token(token, era));
                loop_tokens::begin(here, frame.address(), way, |_| Held::borrowed(std::ptr::null_mut()));
            }
            _ => {} // it is the running process's own
        }
    }
}

/// They have been called.
fn on_called_back(here: &mut Here, frame: Frame, _how: Ended) {
    loop_tokens::end(here, frame.address());
}

/// The program has the result of a pool's call, or its exception.
fn on_got(here: &mut Here, frame: Frame, how: Ended) {
    // SAFETY: the event's frame ends, and what ends it is held; attached.
    unsafe {
        let Some(record) = here.host.directory.known(frame.local(0) as usize) else { return };
        // also where the library does it for the program, as in `Pool.apply`
        if !crate::library::futures::outcome(&record).is_set || pools::take_all(here, &record, frame, how) {
            return;
        }
        here.running.identify(here.host, &mut here.thread);
        tokens::receive_by(here, About::Current, &record, |here| match how {
            Ended::Returned(value) => {
                ffi::Py_INCREF(value);
                Held::owned(value)
            }
            Ended::Raised(error) => parcels::made(here, |py| parcels::of_exception(py, error.object()).ok()),
        });
    }
}
