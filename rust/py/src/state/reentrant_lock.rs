//! A lock under which Python may run. A waiting thread is detached, so the holder can go on. A signal handler, a
//! finaliser or a pending call may bring the holder back to the lock; it then learns that it already holds it.
//!
//! # Roles
//! Any attached thread enters, and leaves by dropping [`Entered`]. A forked child resets the lock.
//!
//! # States
//! `holder` is 0 while the lock is free, else the address of the holder's `ME`.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `holder` | the holder that leaves, `Release` | the next one, `Acquire` | it sees everything done under the lock |
//!
//! # Checked by
//! `tests/python/test_exit.py`, `tests/python/test_host_fork.py` and `tests/python/test_stress.py`, through instruments
//! and mailboxes.

use inviso_cpython::interpreter::calling;
use pyo3::Python;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// How long a waiter sleeps between two tries.
const SLICE: Duration = Duration::from_micros(50);

thread_local! {
    static ME: u8 = const { 0 };
}

/// The lock.
#[derive(Default)]
pub struct ReentrantLock {
    /// The thread that holds it: the address of its `ME`, or 0 if the lock is free.
    holder: AtomicUsize,
}

/// Holds the lock until this is dropped.
pub struct Entered<'a>(&'a ReentrantLock);

impl ReentrantLock {
    /// A free lock.
    pub const fn new() -> ReentrantLock {
        ReentrantLock { holder: AtomicUsize::new(0) }
    }

    /// Waits for the lock. Returns `None` if this thread already holds it, or if another thread holds it while the
    /// interpreter ends: the interpreter may have stopped that thread.
    pub fn enter(&self, py: Python<'_>) -> Option<Entered<'_>> {
        let me = ME.try_with(|me| std::ptr::from_ref(me) as usize).ok()?;
        loop {
            match self.holder.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Entered(self)),
                Err(holder) if holder == me || calling::is_ending(py) => return None,
                Err(_) => py.detach(|| std::thread::sleep(SLICE)),
            }
        }
    }

    /// Frees the lock in a forked child: the thread that held it does not exist there.
    pub fn forget(&self) {
        self.holder.store(0, Ordering::Release);
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Release);
    }
}
