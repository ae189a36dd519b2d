//! Tokens of sequential tracing on their way through a Python program: the messages that carry them, and the processes
//! that get them.
//!
//! # Roles
//! Attached threads send and receive.
//!
//! # States
//! A future or queue keeps a token under its own lock. A queue's `carrier` is one of [`carrier`]'s values.
//!
//! # Orderings
//! All atomics here are single words.
//!
//! # Checked by
//! `tests/python/test_seq_trace.py`, `tests/python/test_seq_carriers.py`; the core's `models::seq`.

use super::queue_classes;
use crate::{
    state::{process, senders::QueuedItem, thread::ThreadState},
    thread::late,
};
use inviso_core::host::{
    messages::About,
    seq::{flags, Carried},
    session::Session,
    sync::Unpoisoned,
    tracee::{Kind, Tracee},
};
use inviso_cpython::{capture, object::held::Held, tasks::running as tasks};
use inviso_term::{
    etf::{self, Encoder, Full},
    term::{Identifier, Term},
};
use pyo3::ffi::PyObject;
use std::sync::{atomic::Ordering, MutexGuard};

/// A function that writes a message for the system tracer.
///
/// # Safety
/// `message` is null (it could not be made) or stands while the result is used; the thread is attached.
pub unsafe fn writing(message: *mut PyObject) -> impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full> {
    move |out, session| {
        if message.is_null() {
            return out.cut("message");
        }
        // SAFETY: the caller promises that `message` is null (it could not be made) or stands while the result is used
        // and the thread is attached.
        unsafe { capture::encode(message, out, &late::limits(&session.options.capture)) }
    }
}

/// The token of an item that the running process puts into this queue, whose items [carry](carries()) tokens.
///
/// # Safety
/// The item stands; the thread is attached.
#[inline]
pub unsafe fn sent_to_queue(state: &mut ThreadState, queue: u64, item: *mut PyObject) -> Carried {
    // SAFETY: the caller promises that the item stands and the thread is attached.
    unsafe { state.host.node.seq_send(&mut state.thread, About::Current, queue, writing(item)) }
}

/// Whether items of a queue carry tokens, see `Process::carrier`: by the program's word, or by the queue's kind.
pub mod carrier {
    /// Neither is known.
    pub const UNKNOWN: u8 = 0;
    /// The program says that they do.
    pub const SAID_YES: u8 = 1;
    /// It says that they do not.
    pub const SAID_NO: u8 = 2;
    /// They do, by the kind of most queues.
    pub const YES: u8 = 3;
    /// They do not: the queue's newest item comes first.
    pub const NO: u8 = 4;
}

/// Whether the program says that items of a queue carry no tokens.
pub fn is_said_not_to_carry(state: &ThreadState, queue: *mut PyObject) -> bool {
    let known = state.host.directory.known(queue as usize);
    known.is_some_and(|queue| process::process(&queue).carrier.load(Ordering::Relaxed) == carrier::SAID_NO)
}

/// Whether items of a queue carry tokens. A queue whose newest item comes first is a pool of objects and carries none,
/// unless `seq_trace.carrier` says otherwise.
///
/// # Safety
/// The queue stands; the thread is attached.
pub unsafe fn carries(queue: &Tracee, object: *mut PyObject) -> bool {
    let word = &process::process(queue).carrier;
    let mut known = word.load(Ordering::Relaxed);
    if known == carrier::UNKNOWN {
        // SAFETY: the caller promises that the queue stands and the thread is attached.
        let pool = queue_classes::is_lifo(unsafe { pyo3::ffi::Py_TYPE(object) });
        let by_kind = if pool { carrier::NO } else { carrier::YES };
        // the program may say it at this moment
        known = match word.compare_exchange(known, by_kind, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => by_kind,
            Err(said) => said,
        };
    }
    matches!(known, carrier::SAID_YES | carrier::YES)
}

/// The running process has taken an item out of a queue.
///
/// # Safety
/// Queue and item stand; the thread is attached.
pub unsafe fn taken_from_queue(
    state: &mut ThreadState, object: *mut PyObject, put: Option<QueuedItem>, item: *mut PyObject,
) {
    let carried = match put.and_then(|put| put.carried) {
        Some(carried) => carried,
        None if !state.host.node.seq_may_have(state.thread.current()) => return,
        // an item without a token, or one that was put in before tokens were in use
        None => match state.host.directory.known(object as usize) {
            // SAFETY: the caller promises that queue and item stand, and the thread is attached.
            Some(queue) if unsafe { !carries(&queue, object) } => Carried::Nothing,
            // SAFETY: the caller promises that queue and item stand, and the thread is attached.
            None if queue_classes::is_lifo(unsafe { pyo3::ffi::Py_TYPE(object) }) => Carried::Nothing,
            _ => Carried::Empty,
        },
    };
    // SAFETY: the caller promises that queue and item stand, and the thread is attached.
    unsafe { state.host.node.seq_receive(&mut state.thread, About::Current, carried, writing(item)) };
}

/// Whether a message of the running process may have a token.
#[inline]
pub fn has(state: &ThreadState) -> bool {
    state.host.node.seq_may_have(state.thread.current())
}

/// A call or a result travels by this future, with the sender's token. `message` is null if no process has a token.
///
/// # Safety
/// The message is null or stands; the thread is attached.
pub unsafe fn send_by(state: &mut ThreadState, from: About<'_>, future: &Tracee, to: u64, message: *mut PyObject) {
    if state.host.node.seq_in_use() {
        // SAFETY: the caller promises that the message is null or stands and the thread is attached.
        let carried = unsafe { state.host.node.seq_send(&mut state.thread, from, to, writing(message)) };
        let relayed = matches!((from, &carried), (About::Current, Carried::Empty)) && relays(state);
        *kept(future) = Some(if relayed { Carried::Nothing } else { carried });
    }
}

/// It is received. `message` makes it if an event needs it. False if the future has no token.
///
/// # Safety
/// The thread is attached.
pub unsafe fn receive_by(
    state: &mut ThreadState, at: About<'_>, future: &Tracee, message: impl FnOnce(&mut ThreadState) -> Held,
) -> bool {
    if !state.host.node.seq_in_use() {
        return false;
    }
    let Some(carried) = kept(future).take() else { return false };
    let message = message_for(state, &carried, message);
    // SAFETY: held; the caller promises that the thread is attached.
    unsafe { state.host.node.seq_receive(&mut state.thread, at, carried, writing(message.as_ptr())) };
    true
}

/// A message, if its token asks for an event of the receipt; else null.
pub fn message_for(state: &mut ThreadState, carried: &Carried, make: impl FnOnce(&mut ThreadState) -> Held) -> Held {
    match carried {
        Carried::Token(token, _) if token.flags & flags::RECEIVE != 0 => make(state),
        _ => Held::borrowed(std::ptr::null_mut()),
    }
}

/// Moves the token of one future to another.
pub fn forward(from: &Tracee, to: &Tracee) {
    let carried = kept(from).take();
    *kept(to) = carried;
}

/// Whether a token may wait at this future.
pub fn waits(state: &ThreadState, future: &Tracee) -> bool {
    state.host.node.seq_in_use() && kept(future).is_some()
}

/// Takes a future's token, which travels on by other means.
pub fn kept_by(future: &Tracee) -> Option<Carried> {
    kept(future).take()
}

/// A copy of a future's token.
pub fn shown_by(future: &Tracee) -> Option<Carried> {
    kept(future).clone()
}

/// Keeps the token of a result that has come from elsewhere.
pub fn keep(future: &Tracee, carried: Carried) {
    *kept(future) = Some(carried);
}

/// The lock of a future's token.
pub fn kept(future: &Tracee) -> MutexGuard<'_, Option<Carried>> {
    process::process(future).carried.lock().unpoisoned()
}

/// The running process starts another; `name` is `(module, function, arguments)` as terms.
pub fn spawned(state: &mut ThreadState, child: &Tracee, name: &[u8]) {
    if !state.host.node.seq_in_use() {
        return;
    }
    let (function, arguments) = match etf::decode(name) {
        Ok(Term::Tuple(parts)) => match <[Term; 3]>::try_from(parts) {
            Ok([module, function, Term::List(arguments)]) => {
                let arity = Term::from(arguments.len() as i64);
                (Term::Tuple(vec![module, function, arity]), Term::List(arguments))
            }
            _ => (Term::atom("undefined"), Term::List(Vec::new())),
        },
        _ => (Term::atom("undefined"), Term::List(Vec::new())),
    };
    let parent = Term::Pid(Identifier::own(state.thread.current().pid));
    let reference = Term::Ref(Identifier::own(state.host.node.unique()));
    let options = if state.linking { vec![Term::atom("link")] } else { Vec::new() };
    let request = Term::Tuple(vec![
        Term::atom("spawn_request"),
        reference.clone(),
        parent,
        Term::atom("undefined"), // in Erlang the group leader, which a Python process has not
        function,
        Term::List(options),
        Term::atom("spawn_reply"),
        arguments,
    ]);
    let child_pid = Term::Pid(Identifier::own(child.pid));
    let reply = Term::Tuple(vec![Term::atom("spawn_reply"), reference, Term::atom("ok"), child_pid]);
    state.host.node.seq_spawn(&mut state.thread, child, &etf::encode(&request), &etf::encode(&reply));
}

/// Whether the running process is an event loop's thread that passes on data from outside, in a callback of a socket or
/// pipe. Ports carry no token, so a result that such a callback sets neither sets nor clears one.
pub fn relays(state: &ThreadState) -> bool {
    let own = state.thread.current().kind == Kind::Thread;
    // SAFETY: called in events only, which are attached and have no exception set.
    own && !state.lent.last().is_some_and(|lent| lent.by_program) && unsafe { tasks::runs_here(std::ptr::null_mut()) }
}
