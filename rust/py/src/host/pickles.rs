//! Which token goes behind a pickle of `multiprocessing`, and to whom one goes that was found behind one: seen from the frames of the
//! library's functions that pickle and unpickle.
//!
//! | who pickles | the token is |
//! | --- | --- |
//! | `Connection.send`, `SimpleQueue.put` | the running process's |
//! | the feeder thread of a `Queue` | that of who put the object in, kept with the queue's buffer; of a call of a process pool's, its future's |
//! | the task thread of a `Pool` | the call's, kept with its result |
//!
//! Results of pools arrive in threads of the library, which hand them on: there a token waits for the future that is set next.

use super::{
    here::Here,
    instruments::Instrument,
    loop_tokens,
    modules::{self, Module},
    multiprocess, parcels, passing, pools,
    senders::{self, Put},
    spawning::attribute,
    tokens,
    watch::{self, Ended, Handler},
};
use crate::{
    capture,
    ffi::{
        calling,
        frame::{code_qualname, Frame},
        held::Held,
    },
};
use inviso_core::{
    messages::About,
    seq::{Carried, Sending},
    tracee::{Kind, Tracee},
};
use pyo3::{ffi, prelude::*};
use std::{
    cell::RefCell,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
};

/// What pickles, and what starts processes; and queues whose feeders pickle.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.tokens,
    |py, host| modules::want(py, host, &MODULES),
    |py, host| {
        watch::remove(py, host, &[&PUT, &GOT, &CALLBACKS, &SENT])?;
        modules::leave(py, host, &MODULES)?;
        calling::method(&ours(py)?, "remove", ()).map(drop)
    },
    |py| {
        modules::forget(&MODULES);
        if let Err(error) = ours(py).and_then(|ours| calling::method(&ours, "remove", ())) {
            error.write_unraisable(py, None);
        }
    },
);

/// `put` of `Queue` and `JoinableQueue`.
pub static PUT: Handler = Handler { begin: Some(on_put), end: Some(on_put_done), ..Handler::NONE };

/// `ApplyResult.get`.
pub static GOT: Handler = Handler { end: Some(on_got), ..Handler::NONE };

/// What calls back with a result in a thread of the library: `Future._invoke_callbacks`, `_set` of `ApplyResult` and `MapResult`.
pub static CALLBACKS: Handler = Handler { begin: Some(on_callbacks), end: Some(on_called_back), ..Handler::NONE };
/// `SimpleQueue.put`, and a connection's `send`.
pub static SENT: Handler = Handler { end: Some(on_sent), ..Handler::NONE };

/// Where they are defined.
pub static MODULES: [Module; 6] = [
    Module::new("multiprocessing.reduction", |py, _, module| install(py, "install_pickler", module)),
    Module::new("multiprocessing.process", |py, _, module| install(py, "install_start", module)),
    Module::new("multiprocessing.queues", |py, host, module| {
        let put = &["self", "obj", "block", "timeout"];
        let simple = &["self", "obj"];
        modules::watch_all(
            py,
            host,
            module,
            &[("Queue.put", put, &PUT), ("JoinableQueue.put", put, &PUT), ("SimpleQueue.put", simple, &SENT)],
        )?;
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
    unsafe { Frame::current_python(crate::ffi::tstate())?.caller() }
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

/// How an object that is being pickled comes by its token.
///
/// # Safety
/// Attached, in a function of this package that the library called to pickle; the running process is known.
pub unsafe fn leaving(here: &mut Here, object: &Bound<'_, PyAny>) -> Way {
    // SAFETY: the caller's promise; parameters of running functions, none of which is assigned to before this.
    unsafe {
        let Some(frame) = library() else { return Way::None };
        if is(frame, "Queue._feed") {
            let buffer = frame.local(0);
            let Some(record) = here.host.directory.known(buffer as usize) else { return Way::None };
            return match senders::pick(object.py(), &record, object.as_ptr()) {
                Some(Put { carried: Some(carried), .. }) => Way::Kept(carried, record.pid),
                _ => Way::None,
            };
        }
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

/// The record of what holds a queue's objects until they are pickled.
///
/// # Safety
/// The frame is that of the event that is being taken, of a method of a queue; attached.
unsafe fn buffer_of(here: &mut Here, frame: Frame) -> Option<Arc<Tracee>> {
    let buffer = parcels::made(here, |py| {
        // SAFETY: the callers': the first parameter of a method, whose frame runs.
        unsafe { attribute(py, frame.local(0), "_buffer") }
    });
    // SAFETY: held by the queue; attached on this thread.
    (!buffer.is_null()).then(|| unsafe { super::futures::record(here, buffer.as_ptr()) })
}

/// An object is about to be put, to be pickled later.
fn on_put(here: &mut Here, frame: Frame) {
    if !here.host.node.seq_in_use() {
        return;
    }
    // SAFETY: the event's frame begins; its caller runs; attached.
    unsafe {
        here.running.identify(here.host, &mut here.thread);
        let item = frame.local(1);
        let carried = match passing::caller(frame).filter(|caller| passing::is_inner(Some(*caller))) {
            None if multiprocess::is_closed(here, frame) || is_apart(here, frame) => return,
            None if multiprocess::is_sure(here, frame) => send(here, frame),
            // the feeder may have it before it is known whether it is sent
            None => here.host.node.seq_would_send(here.thread.current()),
            Some(manager) if is(manager, "_ExecutorManagerThread.add_call_item_to_queue") => {
                let future = parcels::made(here, |py| attribute(py, manager.local(2), "future"));
                let record = here.host.directory.known(future.as_ptr() as usize);
                record.and_then(|record| tokens::kept_by(&record)).unwrap_or_default()
            }
            Some(_) => return,
        };
        if let (Carried::Token(..), Some(buffer)) = (&carried, buffer_of(here, frame)) {
            let sender = here.thread.current().pid;
            senders::leave(Python::assume_attached(), &buffer, item, Put { sender, number: 0, carried: Some(carried) });
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

/// It was put, or was not.
fn on_put_done(here: &mut Here, frame: Frame, how: Ended) {
    if !here.host.node.seq_in_use() {
        return;
    }
    // SAFETY: the event's frame ends; its parameters stand.
    unsafe {
        here.running.identify(here.host, &mut here.thread);
        let by_program = !passing::caller(frame).is_some_and(|caller| passing::is_inner(Some(caller)));
        if let Ended::Returned(_) = how {
            if by_program && !multiprocess::is_sure(here, frame) && !is_apart(here, frame) {
                drop(send(here, frame));
            }
            return;
        }
        // nothing of it was left where the process has no token, and where the queue was closed
        let nothing = || !matches!(here.host.node.seq_would_send(here.thread.current()), Carried::Token(..));
        if by_program && (nothing() || multiprocess::is_closed(here, frame) || is_apart(here, frame)) {
            return;
        }
        if let Some(buffer) = buffer_of(here, frame) {
            drop(senders::pick_last(Python::assume_attached(), &buffer, frame.local(1)));
        }
    }
}

/// A result is there, with which the program's callbacks are about to be called: they have its token, unseen, also where a thread of the
/// library calls them.
fn on_callbacks(here: &mut Here, frame: Frame) {
    // SAFETY: the event's frame begins, and has its parameter; attached.
    unsafe {
        let Some(record) = here.host.directory.known(frame.local(0) as usize) else { return };
        if !super::futures::outcome(&record).is_set {
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
        if !super::futures::outcome(&record).is_set || pools::take_all(here, &record, frame, how) {
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
