//! When the senders of a queue's items are kept, with their numbers and the tokens that travel with them: while sessions
//! trace both sends and receipts, a match spec looks at the senders of messages that arrive, or a token of sequential
//! tracing is in use.
//!
//! # Roles
//! Attached threads put and take items. Sessions set the three reasons for which senders are kept.
//!
//! # States
//! `NUMBERS`, `SENDERS` and `TOKENS` are the reasons.
//!
//! # Orderings
//! A put near a change of the reasons may be missed.
//!
//! # Checked by
//! `tests/python/test_message_numbers.py`, `tests/python/test_seq_carriers.py`, `tests/python/test_trace_messages.py`.

use super::tokens;
use crate::state::{
    process,
    senders::{gone, QueuedItem, Senders, UNDER_WAY},
    thread::ThreadState,
};
use inviso_core::host::{node::Node, seq::Carried, tracee::Tracee};
use pyo3::{ffi::PyObject, Python};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether both sends and receipts are traced; a match spec looks at senders; a token is in use, or may come into use.
static NUMBERS: AtomicBool = AtomicBool::new(false);
static SENDERS: AtomicBool = AtomicBool::new(false);
static TOKENS: AtomicBool = AtomicBool::new(false);

/// Whether a token is in use, or may come into use.
pub fn with_tokens() -> bool {
    TOKENS.load(Ordering::Acquire)
}

/// Sets the reasons for which senders are kept.
pub fn want(numbers: bool, senders: bool, tokens: bool) {
    NUMBERS.store(numbers, Ordering::Release);
    SENDERS.store(senders, Ordering::Release);
    TOKENS.store(tokens, Ordering::Release);
}

/// Whether the sender of an item of this queue matters: senders are wanted, the running process (which is known) has a
/// token, or the queue has a sender for some item.
///
/// # Safety
/// The queue stands; the thread is attached.
#[inline(always)]
pub unsafe fn matter(state: &ThreadState, queue: *mut PyObject) -> bool {
    if SENDERS.load(Ordering::Relaxed) {
        return true;
    }
    TOKENS.load(Ordering::Relaxed) && state.host.node.seq_may_have(state.thread.current())
        || UNDER_WAY.load(Ordering::Acquire) != 0 && has_some(state, queue)
}

/// Runs `with` on the record of a queue that is known. `with` runs no other code.
#[inline(always)]
fn with_known<R>(state: &ThreadState, queue: *mut PyObject, with: impl FnOnce(&Tracee) -> R) -> Option<R> {
    let address = queue as usize;
    match state.places.tracee(address) {
        Some(queue) => Some(with(queue)),
        None => state.host.directory.known(address).map(|queue| with(&queue)),
    }
}

/// Whether the queue has a sender for some item.
fn has_some(state: &ThreadState, queue: *mut PyObject) -> bool {
    with_known(state, queue, |queue| !process::process(queue).senders.is_empty()) == Some(true)
}

/// Drops the tokens of before a reset, and the puts that are of no use without them.
pub fn empty(py: Python<'_>, node: &Node, senders: &Senders) {
    let wanted = SENDERS.load(Ordering::Acquire);
    senders.with(py, |items| {
        items.retain(|put| {
            put.carried.iter_mut().for_each(|carried| node.seq_empty(carried));
            wanted || put.number != 0 || matches!(put.carried, Some(Carried::Token(..)))
        });
    });
}

/// A function that finds a queue's length.
pub type Length = unsafe fn(*mut PyObject) -> Option<u64>;

/// The running process puts an item into a queue. `length` is given for a queue that items may leave unseen.
///
/// # Safety
/// Queue and item stand; the thread is attached.
#[inline(always)]
pub unsafe fn put(
    state: &mut ThreadState, object: *mut PyObject, item: *mut PyObject, number: u64, length: Option<Length>,
) {
    // SAFETY: the caller promises that queue and item stand, and the thread is attached.
    unsafe {
        if number != 0 && NUMBERS.load(Ordering::Relaxed) || matter(state, object) {
            keep(state, object, item, number, length);
        }
    }
}

/// # Safety
/// As [`put`].
#[inline(never)]
unsafe fn keep(
    state: &mut ThreadState, object: *mut PyObject, item: *mut PyObject, number: u64, length: Option<Length>,
) {
    let sender = state.thread.current().pid;
    // SAFETY: the caller promises that queue and item stand, and the thread is attached.
    let carried = unsafe { carried(state, object, item) };
    // SAFETY: the caller promises that queue and item stand, and the thread is attached. It is called without the lock,
    // since a class of the program may run.
    let is_left = length.is_some_and(|length| has_some(state, object) && unsafe { length(object) } == Some(0));
    with_known(state, object, |queue| {
        let senders = &process::process(queue).senders;
        // SAFETY: the caller promises that queue and item stand, and the thread is attached.
        let py = unsafe { Python::assume_attached() };
        if is_left {
            gone(py, senders);
        }
        senders.add(py, item, QueuedItem { sender, number, carried });
    });
}

/// The token that goes with an item, if tokens are in use.
///
/// # Safety
/// As [`put`].
#[inline(always)]
unsafe fn carried(state: &mut ThreadState, object: *mut PyObject, item: *mut PyObject) -> Option<Carried> {
    if !TOKENS.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: the caller promises that queue and item stand, and the thread is attached.
    let of = |queue: &Tracee| (queue.pid, unsafe { tokens::carries(queue, object) });
    Some(match with_known(state, object, of) {
        // SAFETY: the caller promises that queue and item stand, and the thread is attached.
        Some((to, true)) => unsafe { tokens::sent_to_queue(state, to, item) },
        _ => Carried::Nothing,
    })
}

/// An item is put into a queue of a pool of threads.
pub fn leave(py: Python<'_>, buffer: &Tracee, item: *mut PyObject, put: QueuedItem) {
    process::process(buffer).senders.add(py, item, put);
}

/// An item is taken out of such a queue: the oldest put at that address.
pub fn pick(py: Python<'_>, buffer: &Tracee, item: *mut PyObject) -> Option<QueuedItem> {
    process::process(buffer).senders.take(py, item, false)
}

/// The put of an item that is taken out now; `last` says that the newest comes first.
///
/// # Safety
/// As [`put`].
#[inline(always)]
pub unsafe fn take(
    state: &mut ThreadState, object: *mut PyObject, item: *mut PyObject, last: bool,
) -> Option<QueuedItem> {
    // SAFETY: the caller promises that queue and item stand, and the thread is attached.
    if unsafe { !matter(state, object) } {
        return None;
    }
    // SAFETY: the caller promises that queue and item stand, and the thread is attached.
    let py = unsafe { Python::assume_attached() };
    with_known(state, object, |queue| process::process(queue).senders.take(py, item, last))?
}
