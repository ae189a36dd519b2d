//! Waits for space in a ring, under the blocking policy.
//!
//! # Roles
//!
//! The producer waits. The reader wakes it after each page that it frees. A thread that closes the
//! ring wakes it, too.
//!
//! # States
//!
//! Only the lock's. The producer waits for a change of a frame's word or of `closed`.
//!
//! # Orderings
//!
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | the lock | waker, after its change | waiter, before it checks | the waiter sees the change, or the waker finds it waiting |
//!
//! # Checked by
//!
//! The blocking models of `ring`. loom has no clock: under loom a finite limit is over at the second
//! check, and only `Duration::MAX` really waits. So a lost wake-up shows as a deadlock.

use std::time::{Duration, Instant};

use crate::sync::{mutants::mutant, spin_loop, Condvar, Mutex, MutexGuard, Unpoisoned};

/// Checks before the thread sleeps: some microseconds, about the time in which a reader ends a page.
const SPINS: u32 = if cfg!(loom) { 0 } else { 128 };

pub(super) struct Backpressure {
    gate: Mutex<()>,
    freed: Condvar,
}

impl Backpressure {
    pub(super) fn new() -> Backpressure {
        Backpressure { gate: Mutex::new(()), freed: Condvar::new() }
    }

    /// Waits until `ready` is true, at most for `limit`. Returns the last answer of `ready`.
    pub(super) fn wait(&self, limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
        if limit.is_zero() {
            return ready();
        }
        for _ in 0..SPINS {
            if ready() {
                return true;
            }
            spin_loop();
        }
        let deadline = Deadline::after(limit);
        let mut gate = self.lock();
        if mutant!("waits_unchecked") {
            gate = self.sleep(gate, &deadline).unwrap_or_else(|| self.lock());
        }
        while !ready() {
            match self.sleep(gate, &deadline) {
                Some(woken) => gate = woken,
                None => return ready(),
            }
        }
        true
    }

    /// Wakes the waiting thread. The caller makes its change before.
    pub(super) fn wake(&self) {
        if !mutant!("wakes_unlocked") {
            drop(self.lock());
        }
        self.freed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unpoisoned()
    }

    /// Sleeps until a wake-up. `None` when the time is over.
    #[cfg(not(loom))]
    fn sleep<'a>(&'a self, gate: MutexGuard<'a, ()>, deadline: &Deadline) -> Option<MutexGuard<'a, ()>> {
        let left = match deadline.0 {
            Some(end) => end.saturating_duration_since(Instant::now()),
            None => Duration::MAX,
        };
        if left.is_zero() {
            return None;
        }
        let (gate, _) = self.freed.wait_timeout(gate, left).unpoisoned();
        Some(gate)
    }

    #[cfg(loom)]
    fn sleep<'a>(&'a self, gate: MutexGuard<'a, ()>, deadline: &Deadline) -> Option<MutexGuard<'a, ()>> {
        if deadline.0.is_some() {
            drop(gate);
            crate::sync::thread::yield_now();
            return None;
        }
        Some(self.freed.wait(gate).unpoisoned())
    }
}

/// The end of a wait; `None` for never.
struct Deadline(Option<Instant>);

impl Deadline {
    fn after(limit: Duration) -> Deadline {
        Deadline(Instant::now().checked_add(limit))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_its_time_is_over() {
        let (backpressure, mut looks) = (Backpressure::new(), 0);
        let begun = Instant::now();
        assert!(!backpressure.wait(Duration::from_millis(20), || {
            looks += 1;
            false
        }));
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert!(looks > SPINS);
    }

    #[test]
    fn no_time_is_one_look() {
        let mut looks = 0;
        assert!(!Backpressure::new().wait(Duration::ZERO, || {
            looks += 1;
            false
        }));
        assert_eq!(looks, 1);
    }

    #[test]
    fn a_wait_for_ever_ends_by_a_wake() {
        use crate::sync::{Arc, AtomicBool, Ordering::Relaxed};
        let shared = Arc::new((Backpressure::new(), AtomicBool::new(false)));
        let waker = crate::sync::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                shared.1.store(true, Relaxed);
                shared.0.wake();
            }
        });
        assert!(shared.0.wait(Duration::MAX, || shared.1.load(Relaxed)));
        waker.join().unwrap();
    }
}
