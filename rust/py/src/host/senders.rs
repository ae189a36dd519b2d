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
    collections::VecDeque,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Arc, Mutex, MutexGuard,
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

/// Of one queue: items by address, and who put them in, oldest first.
#[derive(Default)]
pub struct Senders {
    items: Mutex<FxHashMap<usize, VecDeque<Put>>>,
    /// How many addresses are there: a first look.
    count: AtomicUsize,
}

/// The items of a queue, locked.
struct Items<'a>(MutexGuard<'a, FxHashMap<usize, VecDeque<Put>>>, &'a AtomicUsize);

impl Senders {
    fn lock(&self) -> Items<'_> {
        Items(self.items.lock().unwrap_or_else(|e| e.into_inner()), &self.count)
    }
}

impl Drop for Senders {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(*self.count.get_mut(), Ordering::AcqRel);
    }
}

impl Items<'_> {
    fn take(&mut self, item: *mut PyObject, last: bool) -> Option<Put> {
        let all = self.0.get_mut(&(item as usize))?;
        let put = if last { all.pop_back() } else { all.pop_front() };
        if all.is_empty() {
            self.0.remove(&(item as usize));
        }
        put
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
            || UNDER_WAY.load(Ordering::Acquire) != 0
                && known(here, queue)
                    .is_some_and(|queue| directory::process(&queue).senders.count.load(Ordering::Acquire) != 0))
}

/// The record of a queue that has been met before.
#[inline]
fn known(here: &Here, queue: *mut PyObject) -> Option<Arc<Tracee>> {
    let address = queue as usize;
    here.places.tracee(address).cloned().or_else(|| here.host.directory.known(address))
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
        puts.iter_mut().for_each(|put| node.seq_empty(&mut put.carried));
        wanted || puts.iter().any(|put| matches!(put.carried, Carried::Token(..)))
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
    let Some(tracee) = known(here, object) else { return };
    let sender = here.thread.current().pid;
    // SAFETY: the caller's promise.
    let carried = unsafe { tokens::sent_to_queue(here, &tracee, object, item) };
    // SAFETY: the caller's promise. Not while others wait: a program's own class may be asked.
    let is_empty = length.is_some_and(|length| unsafe { length(object) } == Some(0));
    let mut senders = directory::process(&tracee).senders.lock();
    if is_empty {
        senders.0.clear();
    }
    senders.0.entry(item as usize).or_default().push_back(Put { sender, carried });
}

/// An item is put into what holds a queue's items until they are pickled.
pub fn leave(buffer: &Tracee, item: *mut PyObject, put: Put) {
    directory::process(buffer).senders.lock().0.entry(item as usize).or_default().push_back(put);
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
    let queue = known(here, object)?;
    if last {
        pick_last(&queue, item)
    } else {
        pick(&queue, item)
    }
}
