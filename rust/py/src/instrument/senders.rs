//! The senders of a queue's items, their numbers, and the tokens that travel with them. They are kept while sessions
//! trace both sends and receipts, a match spec looks at the senders of messages that arrive, or a token of sequential
//! tracing is in use.
//!
//! An item is known by its address while it is in the queue, which holds it. An item that is in a queue twice has two
//! senders, in the order in which it will be taken.
//!
//! # Roles
//! Attached threads put and take items. Sessions set the three reasons for which senders are kept.
//!
//! # States
//! `NUMBERS`, `SENDERS` and `TOKENS` are the reasons. A queue's `count` is the number of addresses that it holds,
//! `UNDER_WAY` their sum.
//!
//! # Orderings
//! A queue's items are changed under its lock (or the GIL). `count` and `UNDER_WAY` are hints for a first look; the
//! lock decides. A put near a change of the reasons may be missed.
//!
//! # Checked by
//! `tests/python/test_message_numbers.py`, `tests/python/test_seq_carriers.py`, `tests/python/test_trace_messages.py`.

use super::tokens;
use crate::{
    state::{
        origin::{Origin, Sender},
        process,
    },
    thread::state::ThreadState,
};
use inviso_core::{node::Node, seq::Carried, tracee::Tracee};
use inviso_cpython::object::gil_cell::GilCell;
use pyo3::{ffi::PyObject, Python};
use rustc_hash::FxHashMap;
use std::{
    collections::{hash_map::Entry, VecDeque},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Whether both sends and receipts are traced; a match spec looks at senders; a token is in use, or may come into use.
static NUMBERS: AtomicBool = AtomicBool::new(false);
static SENDERS: AtomicBool = AtomicBool::new(false);
static TOKENS: AtomicBool = AtomicBool::new(false);

/// The number of addresses in all queues, for a first look.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// The sender of an item, and the token that it carries.
pub struct QueuedItem {
    /// A process.
    pub sender: u64,
    /// The message's number, or 0.
    pub number: u64,
    /// A token, perhaps; None if nothing looked for one, since no token was in use.
    pub carried: Option<Carried>,
}

impl QueuedItem {
    /// The origin of a message that was taken out of a queue.
    #[inline(always)]
    pub fn origin(put: Option<&QueuedItem>) -> Origin {
        match put {
            Some(put) => Origin::new(Sender::Process(put.sender), put.number),
            None => Sender::Unknown.into(),
        }
    }
}

/// The items of one queue by address, with their senders.
#[derive(Default)]
pub struct Senders {
    items: GilCell<Items>,
    /// The number of addresses, for a first look.
    count: AtomicUsize,
}

/// Items by address.
#[derive(Default)]
struct Items {
    /// In the order of the puts, as long as each item is taken at one of the ends (nearly always).
    line: VecDeque<(usize, QueuedItem)>,
    /// By address, after an item was taken from the middle.
    others: FxHashMap<usize, Puts>,
    is_mixed: bool,
}

/// The puts of an item, oldest first: nearly always one.
struct Puts {
    oldest: QueuedItem,
    more: VecDeque<QueuedItem>,
}

impl Items {
    fn len(&self) -> usize {
        self.line.len() + self.others.len()
    }

    #[inline(always)]
    fn add(&mut self, item: usize, put: QueuedItem) {
        if self.is_mixed {
            self.add_to_others(item, put);
        } else {
            self.line.push_back((item, put));
        }
    }

    #[inline(never)]
    fn add_to_others(&mut self, item: usize, put: QueuedItem) {
        match self.others.entry(item) {
            Entry::Vacant(place) => drop(place.insert(Puts { oldest: put, more: VecDeque::new() })),
            Entry::Occupied(mut puts) => puts.get_mut().more.push_back(put),
        }
    }

    /// The oldest put at this address; the newest if `last`.
    #[inline(always)]
    fn take(&mut self, item: usize, last: bool) -> Option<QueuedItem> {
        let end = if last { self.line.back() } else { self.line.front() };
        if end.is_some_and(|(known, _)| *known == item) {
            let taken = if last { self.line.pop_back() } else { self.line.pop_front() };
            return taken.map(|(_, put)| put);
        }
        self.take_of_others(item, last)
    }

    #[inline(never)]
    fn take_of_others(&mut self, item: usize, last: bool) -> Option<QueuedItem> {
        if !self.is_mixed {
            if self.line.is_empty() {
                return None;
            }
            self.is_mixed = true;
            for (item, put) in std::mem::take(&mut self.line) {
                self.add_to_others(item, put);
            }
        }
        let Entry::Occupied(mut puts) = self.others.entry(item) else { return None };
        let Puts { oldest, more } = puts.get_mut();
        let next = if last { more.pop_back() } else { more.pop_front().map(|next| std::mem::replace(oldest, next)) };
        let taken = next.or_else(|| Some(puts.remove().oldest));
        self.is_mixed = !self.others.is_empty();
        taken
    }

    /// Keeps the addresses for which `keep` is true of some put.
    fn retain(&mut self, mut keep: impl FnMut(&mut QueuedItem) -> bool) {
        self.line.retain_mut(|(_, put)| keep(put));
        self.line.shrink_to_fit();
        self.others.retain(|_, puts| {
            let mut kept = false;
            for put in std::iter::once(&mut puts.oldest).chain(&mut puts.more) {
                kept |= keep(put); // each is asked
            }
            kept
        });
        self.others.shrink_to_fit();
        self.is_mixed = !self.others.is_empty();
    }
}

impl Senders {
    /// Reads or changes the items; no code of the program runs meanwhile.
    #[inline(always)]
    fn with<R>(&self, py: Python<'_>, with: impl FnOnce(&mut Items) -> R) -> R {
        let mut items = self.items.lock(py);
        let done = with(&mut items);
        let (was, is) = (self.count.load(Ordering::Relaxed), items.len());
        if was != is {
            self.count.store(is, Ordering::Release);
            now_under_way(was, is);
        }
        done
    }

    fn add(&self, py: Python<'_>, item: *mut PyObject, put: QueuedItem) {
        self.with(py, |items| items.add(item as usize, put));
    }

    fn take(&self, py: Python<'_>, item: *mut PyObject, last: bool) -> Option<QueuedItem> {
        self.with(py, |items| items.take(item as usize, last))
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }
}

impl Drop for Senders {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(*self.count.get_mut(), Ordering::AcqRel);
    }
}

/// A queue's number of addresses has changed. With the GIL only a drop may come between, and its subtraction be lost.
/// Then the sum is too high, and a first look skips less.
#[inline(always)]
fn now_under_way(was: usize, is: usize) {
    let more = is.wrapping_sub(was); // wraps where it is less
    if cfg!(Py_GIL_DISABLED) {
        UNDER_WAY.fetch_add(more, Ordering::AcqRel);
    } else {
        UNDER_WAY.store(UNDER_WAY.load(Ordering::Relaxed).wrapping_add(more), Ordering::Release);
    }
}

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

/// The queue is gone, and its items with it.
pub fn gone(py: Python<'_>, senders: &Senders) {
    drop(senders.with(py, std::mem::take));
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
    // SAFETY: the pool and the result stand; callbacks run attached on this thread.
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
