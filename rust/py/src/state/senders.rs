//! The senders of a queue's items, their numbers, and the tokens that travel with them.
//!
//! An item is known by its address while it is in the queue, which holds it. An item that is in a queue twice has two
//! senders, in the order in which it will be taken.
//!
//! # Roles
//! Attached threads put and take items.
//!
//! # States
//! A queue's `count` is the number of addresses that it holds, `UNDER_WAY` their sum.
//!
//! # Orderings
//! A queue's items are changed under its lock (or the GIL). `count` and `UNDER_WAY` are hints for a first look; the
//! lock decides.
//!
//! # Checked by
//! `tests/python/test_message_numbers.py`, `tests/python/test_seq_carriers.py`.

use super::origin::{Origin, Sender};
use inviso_core::host::seq::Carried;
use inviso_cpython::object::gil_cell::GilCell;
use pyo3::{ffi::PyObject, Python};
use rustc_hash::FxHashMap;
use std::{
    collections::{hash_map::Entry, VecDeque},
    sync::atomic::{AtomicUsize, Ordering},
};

/// The number of addresses in all queues, for a first look.
pub static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

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
pub struct Items {
    /// In the order of the puts, as long as each item is taken at one of the ends (nearly always).
    line: VecDeque<(usize, QueuedItem)>,
    /// By address, after an item was taken from the middle.
    others: FxHashMap<usize, Puts>,
    is_mixed: bool,
}

/// The puts of an item, oldest first: nearly always one.
pub struct Puts {
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
    pub fn retain(&mut self, mut keep: impl FnMut(&mut QueuedItem) -> bool) {
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
    pub fn with<R>(&self, py: Python<'_>, with: impl FnOnce(&mut Items) -> R) -> R {
        let mut items = self.items.lock(py);
        let done = with(&mut items);
        let (was, is) = (self.count.load(Ordering::Relaxed), items.len());
        if was != is {
            self.count.store(is, Ordering::Release);
            now_under_way(was, is);
        }
        done
    }

    /// Adds a put.
    pub fn add(&self, py: Python<'_>, item: *mut PyObject, put: QueuedItem) {
        self.with(py, |items| items.add(item as usize, put));
    }

    /// Takes the put of an item: the oldest at its address, or the newest if `last`.
    pub fn take(&self, py: Python<'_>, item: *mut PyObject, last: bool) -> Option<QueuedItem> {
        self.with(py, |items| items.take(item as usize, last))
    }

    /// Whether it holds no address.
    pub fn is_empty(&self) -> bool {
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
pub fn now_under_way(was: usize, is: usize) {
    let more = is.wrapping_sub(was); // wraps where it is less
    if cfg!(Py_GIL_DISABLED) {
        UNDER_WAY.fetch_add(more, Ordering::AcqRel);
    } else {
        UNDER_WAY.store(UNDER_WAY.load(Ordering::Relaxed).wrapping_add(more), Ordering::Release);
    }
}

/// The queue is gone, and its items with it.
pub fn gone(py: Python<'_>, senders: &Senders) {
    drop(senders.with(py, std::mem::take));
}
