//! Who put what into a queue, and the token that travels with it: kept while a match spec of some session looks at the senders of
//! messages that arrive, or a token of sequential tracing is in use.
//!
//! An item is known by its address while it is in the queue, which holds it. An item that is in a queue twice has two senders, in
//! the order in which it will be taken.

use super::{directory, here::Here, tokens};
use inviso_core::{seq::Carried, tracee::Tracee};
use pyo3::ffi::PyObject;
use rustc_hash::FxHashMap;
use std::{
    collections::VecDeque,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
};

static ON: AtomicBool = AtomicBool::new(false);

/// Who put an item in, and what it carries.
pub struct Put {
    /// A process.
    pub sender: u64,
    /// A token, perhaps.
    pub carried: Carried,
}

/// Items by address, and who put them in, oldest first.
#[derive(Default)]
pub struct Senders(FxHashMap<usize, VecDeque<Put>>);

/// Whether senders are wanted from now on.
pub fn want(how: bool) {
    ON.store(how, Ordering::Release);
}

/// Whether they are wanted.
#[inline(always)]
pub fn are_wanted() -> bool {
    ON.load(Ordering::Relaxed)
}

fn queue(here: &Here, number: u64) -> Option<Arc<Tracee>> {
    here.host.node.tracee(number)
}

/// The running process puts an item into a queue.
///
/// # Safety
/// Both stand; attached.
#[inline(always)]
pub unsafe fn put(here: &mut Here, object: *mut PyObject, number: u64, item: *mut PyObject) {
    if ON.load(Ordering::Relaxed) {
        // SAFETY: the caller's promise.
        unsafe { keep(here, object, number, item) };
    }
}

#[cold]
#[inline(never)]
unsafe fn keep(here: &mut Here, object: *mut PyObject, number: u64, item: *mut PyObject) {
    let Some(tracee) = queue(here, number) else { return };
    let sender = here.thread.current().pid;
    // SAFETY: the caller's promise.
    let carried = unsafe { tokens::sent_to_queue(here, &tracee, object, item) };
    let mut senders = directory::process(&tracee).senders.lock().unwrap_or_else(|e| e.into_inner());
    // items may leave a queue in ways that nobody is told of
    // SAFETY: the caller's promise.
    if unsafe { super::lengths::length(object) } == Some(0) {
        senders.0.clear();
    }
    senders.0.entry(item as usize).or_default().push_back(Put { sender, carried });
}

/// Who put an item in that is taken out now; `last` says that the newest comes first.
///
/// # Safety
/// As [`put`].
#[inline(always)]
pub unsafe fn take(here: &mut Here, number: u64, item: *mut PyObject, last: bool) -> Option<Put> {
    if !ON.load(Ordering::Relaxed) {
        return None;
    }
    let tracee = queue(here, number)?;
    let mut senders = directory::process(&tracee).senders.lock().unwrap_or_else(|e| e.into_inner());
    let all = senders.0.get_mut(&(item as usize))?;
    let put = if last { all.pop_back() } else { all.pop_front() };
    if all.is_empty() {
        senders.0.remove(&(item as usize));
    }
    put
}
