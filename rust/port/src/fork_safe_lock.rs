//! A lock that a forked child can always take. A thread of the parent may hold it during the fork. That thread does not exist in
//! the child and never unlocks.
//!
//! # Roles
//!
//! Any thread locks. The child's only thread calls [`ForkSafeLock::in_child`] once, right after the fork.
//!
//! # States
//!
//! `generation` is the place of the mutex in use. It grows by one in a child whose parent held the lock during the fork.
//!
//! # Orderings
//!
//! The mutexes order the values. `generation` changes only while the child has one thread.
//!
//! # Checked by
//!
//! `tests/python/test_trace_ports.py`, `test_flight_recorder.py`.

use inviso_core::host::sync::Unpoisoned;
use std::sync::{
    atomic::{AtomicUsize, Ordering},
    Mutex, MutexGuard,
};

/// How many nested forks may each find the lock held.
const GENERATIONS: usize = 16;

/// The lock and its value.
pub struct ForkSafeLock<T> {
    all: [Mutex<T>; GENERATIONS],
    generation: AtomicUsize,
}

impl<T> ForkSafeLock<T> {
    /// Creates the lock with a value for each generation.
    pub const fn new(all: [Mutex<T>; GENERATIONS]) -> ForkSafeLock<T> {
        ForkSafeLock { all, generation: AtomicUsize::new(0) }
    }

    fn current(&self) -> &Mutex<T> {
        &self.all[self.generation.load(Ordering::Acquire) % GENERATIONS]
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.current().lock().unpoisoned()
    }

    /// In a forked child: answers the parent's value. `None` if the parent held the lock: the value is then lost, and the next
    /// generation's value is used from now on.
    pub fn in_child(&self) -> Option<MutexGuard<'_, T>> {
        let inherited = self.current().try_lock().ok();
        if inherited.is_none() {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        inherited
    }
}
