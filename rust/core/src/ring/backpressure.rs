//! Waiting for room: the blocking policy's only meeting point.
//!
//! # Roles
//!
//! The producer waits, the reader wakes it each time that it has freed a page, and so does whoever
//! closes the ring.
//!
//! # States
//!
//! None beyond the lock's: what is waited for is a frame's word or `closed`.
//!
//! # Orderings
//!
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | the lock | waker, after its change | waiter, before it looks | either the waiter sees the change or the waker finds it waiting |
//!
//! # Checked by
//!
//! The blocking models of `ring`. loom has no clock: there, a finite limit is over at the second
//! look and only `Duration::MAX` really waits, so that a wake-up that is lost shows as a deadlock.

use std::time::{Duration, Instant};

use crate::sync::{mutants::mutant, spin_loop, Condvar, Mutex, MutexGuard};

/// Looks before the thread sleeps: some microseconds, what a reader needs to end a page.
const SPINS: u32 = if cfg!(loom) { 0 } else { 128 };

pub(super) struct Backpressure {
    gate: Mutex<()>,
    freed: Condvar,
}

impl Backpressure {
    pub(super) fn new() -> Backpressure {
        Backpressure { gate: Mutex::new(()), freed: Condvar::new() }
    }

    /// Waits until `ready` says so, or for `limit`. Returns what `ready` said last.
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

    /// Wakes who waits. The caller's change comes before it.
    pub(super) fn wake(&self) {
        if !mutant!("wakes_unlocked") {
            drop(self.lock());
        }
        self.freed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Sleeps until somebody wakes it; `None` when the time is over.
    #[cfg(not(loom))]
    fn sleep<'a>(&'a self, gate: MutexGuard<'a, ()>, deadline: &Deadline) -> Option<MutexGuard<'a, ()>> {
        let left = match deadline.0 {
            Some(end) => end.saturating_duration_since(Instant::now()),
            None => Duration::MAX,
        };
        if left.is_zero() {
            return None;
        }
        let (gate, _) = self.freed.wait_timeout(gate, left).unwrap_or_else(|poisoned| poisoned.into_inner());
        Some(gate)
    }

    #[cfg(loom)]
    fn sleep<'a>(&'a self, gate: MutexGuard<'a, ()>, deadline: &Deadline) -> Option<MutexGuard<'a, ()>> {
        if deadline.0.is_some() {
            drop(gate);
            crate::sync::thread::yield_now();
            return None;
        }
        Some(self.freed.wait(gate).unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

/// When to give up; `None` is never.
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
