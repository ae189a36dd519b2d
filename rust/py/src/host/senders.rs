//! Who put what into a queue, and the token that travels with it: kept while a match spec of some session looks at the senders of
//! messages that arrive, or a token of sequential tracing is in use.
//!
//! An item is known by its address while it is in the queue, which holds it. An item that is in a queue twice has two senders, in
//! the order in which it will be taken.

use super::{directory, here::Here, tokens};
use inviso_core::{node::Node, seq::Carried, tracee::Tracee};
use pyo3::ffi::PyObject;
use rustc_hash::FxHashMap;
use std::{
    collections::{hash_map::Entry, VecDeque},
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Mutex, MutexGuard,
    },
};

/// Whether a match spec looks at senders, and whether a token is in use, or may come into use.
static SENDERS: AtomicBool = AtomicBool::new(false);
static TOKENS: AtomicBool = AtomicBool::new(false);

/// How many addresses there are in all queues: a first look.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Who put an item in, and what it carries.
pub struct Put {
    /// A process.
    pub sender: u64,
    /// A token, perhaps.
    pub carried: Carried,
}

/// Of one queue: items by address, and who put them in.
#[derive(Default)]
pub struct Senders {
    items: Mutex<FxHashMap<usize, Puts>>,
    /// How many addresses are there: a first look.
    count: AtomicUsize,
}

/// Who put an item in, oldest first: one, nearly always.
struct Puts {
    oldest: Put,
    more: VecDeque<Put>,
}

/// The items of a queue, locked.
struct Items<'a>(MutexGuard<'a, FxHashMap<usize, Puts>>, &'a AtomicUsize);

impl Senders {
    fn lock(&self) -> Items<'_> {
        Items(self.items.lock().unwrap_or_else(|e| e.into_inner()), &self.count)
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

impl Items<'_> {
    fn add(&mut self, item: *mut PyObject, put: Put) {
        match self.0.entry(item as usize) {
            Entry::Vacant(place) => drop(place.insert(Puts { oldest: put, more: VecDeque::new() })),
            Entry::Occupied(mut puts) => puts.get_mut().more.push_back(put),
        }
    }

    fn take(&mut self, item: *mut PyObject, last: bool) -> Option<Put> {
        let Entry::Occupied(mut puts) = self.0.entry(item as usize) else { return None };
        let Puts { oldest, more } = puts.get_mut();
        let next = if last { more.pop_back() } else { more.pop_front().map(|next| std::mem::replace(oldest, next)) };
        next.or_else(|| Some(puts.remove().oldest))
    }
}

impl Drop for Items<'_> {
    fn drop(&mut self) {
        let (was, is) = (self.1.load(Ordering::Relaxed), self.0.len());
        if was != is {
            self.1.store(is, Ordering::Release);
            UNDER_WAY.fetch_add(is.wrapping_sub(was), Ordering::AcqRel); // wraps where it is less
        }
    }
}

/// For what senders are wanted from now on.
pub fn want(senders: bool, tokens: bool) {
    SENDERS.store(senders, Ordering::Release);
    TOKENS.store(tokens, Ordering::Release);
}

/// Whether it matters who puts an item into this queue, or takes one out: senders are wanted, or the running process, which is
/// known, or an item has a token.
///
/// # Safety
/// The queue stands; attached.
#[inline(always)]
pub unsafe fn matter(here: &Here, queue: *mut PyObject) -> bool {
    if SENDERS.load(Ordering::Relaxed) {
        return true;
    }
    TOKENS.load(Ordering::Relaxed)
        && (here.host.node.seq_may_have(here.thread.current())
            || UNDER_WAY.load(Ordering::Acquire) != 0 && has_some(here, queue))
}

/// Does something with the record of a queue that has been met before, and nothing that may run other code.
#[inline(always)]
fn with_known<R>(here: &Here, queue: *mut PyObject, with: impl FnOnce(&Tracee) -> R) -> Option<R> {
    let address = queue as usize;
    match here.places.tracee(address) {
        Some(queue) => Some(with(queue)),
        None => here.host.directory.known(address).map(|queue| with(&queue)),
    }
}

/// Whether it is known who put some item into a queue.
fn has_some(here: &Here, queue: *mut PyObject) -> bool {
    with_known(here, queue, |queue| !directory::process(queue).senders.is_empty()) == Some(true)
}

/// The queue is gone: nobody takes what was in it.
pub fn gone(senders: &Senders) {
    drop(std::mem::take(&mut *senders.lock().0));
}

/// Tokens were reset: lets go of those of before, and of what is of no use without them.
pub fn empty(node: &Node, senders: &Senders) {
    let wanted = SENDERS.load(Ordering::Acquire);
    let mut items = senders.lock();
    items.0.retain(|_, puts| {
        let mut has_tokens = false;
        for put in std::iter::once(&mut puts.oldest).chain(&mut puts.more) {
            node.seq_empty(&mut put.carried);
            has_tokens |= matches!(put.carried, Carried::Token(..));
        }
        wanted || has_tokens
    });
    items.0.shrink_to_fit();
}

/// How a queue's length is found.
pub type Length = unsafe fn(*mut PyObject) -> Option<u64>;

/// The running process puts an item into a queue. `length` is for one that items may leave in ways that nobody is told of.
///
/// # Safety
/// Both stand; attached.
#[inline(always)]
pub unsafe fn put(here: &mut Here, object: *mut PyObject, item: *mut PyObject, length: Option<Length>) {
    // SAFETY: the caller's promise.
    unsafe {
        if matter(here, object) {
            keep(here, object, item, length);
        }
    }
}

/// # Safety
/// As [`put`].
#[cold]
#[inline(never)]
unsafe fn keep(here: &mut Here, object: *mut PyObject, item: *mut PyObject, length: Option<Length>) {
    let sender = here.thread.current().pid;
    // SAFETY: the caller's promise.
    let Some((to, carries)) = with_known(here, object, |queue| (queue.pid, unsafe { tokens::carries(queue, object) }))
    else {
        return;
    };
    // SAFETY: the caller's promise.
    let carried = if carries { unsafe { tokens::sent_to_queue(here, to, item) } } else { Carried::Nothing };
    // SAFETY: the caller's promise. Not while others wait: a program's own class may be asked.
    let is_left = length.is_some_and(|length| has_some(here, object) && unsafe { length(object) } == Some(0));
    with_known(here, object, |queue| {
        let mut senders = directory::process(queue).senders.lock();
        if is_left {
            senders.0.clear();
        }
        senders.add(item, Put { sender, carried });
    });
}

/// An item is put into what holds a queue's items until they are pickled.
pub fn leave(buffer: &Tracee, item: *mut PyObject, put: Put) {
    directory::process(buffer).senders.lock().add(item, put);
}

/// It is taken out of there: the oldest of the items at that address.
pub fn pick(buffer: &Tracee, item: *mut PyObject) -> Option<Put> {
    directory::process(buffer).senders.lock().take(item, false)
}

/// It did not get there after all.
pub fn pick_last(buffer: &Tracee, item: *mut PyObject) -> Option<Put> {
    directory::process(buffer).senders.lock().take(item, true)
}

/// Who put an item in that is taken out now; `last` says that the newest comes first.
///
/// # Safety
/// As [`put`].
#[inline(always)]
pub unsafe fn take(here: &mut Here, object: *mut PyObject, item: *mut PyObject, last: bool) -> Option<Put> {
    // SAFETY: the caller's promise.
    if unsafe { !matter(here, object) } {
        return None;
    }
    with_known(here, object, |queue| if last { pick_last(queue, item) } else { pick(queue, item) })?
}
