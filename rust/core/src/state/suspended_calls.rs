//! State of suspendable calls, from entry to exit. They may resume on another thread, so the node owns it.
//!
//! # Roles
//! Any thread adds and takes calls. A call runs on one thread at a time, so no two threads use the same call.
//!
//! # States
//! A call is present from its beginning to its end, or forgotten when its shard is full.
//!
//! # Orderings
//! The locks'. `len` is a hint, read first. A thread sees the calls that it added. When a call resumes on another thread, the program's
//! own synchronisation has handed it over.
//!
//! # Checked by
//! The tests below.
#![forbid(unsafe_code)]

use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering::Relaxed, Unpoisoned};
use rustc_hash::FxHashMap;

/// A suspendable call that has begun.
#[derive(Clone, Copy)]
pub(crate) struct PendingCall {
    /// See [`crate::state::frame::exit_actions`].
    pub exit_actions: u16,
    /// Ticks at its beginning.
    pub start: u64,
}

type Shard = FxHashMap<(usize, u32), PendingCall>;

/// The number of locks, so that threads seldom wait.
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };

/// The largest number of calls of a shard. A full shard forgets all its calls: their latency and return_to are lost.
const MOST: usize = 1 << 13;

/// The suspendable calls of a node, by address and session id, or by address and another number of the session.
pub(crate) struct SuspendedCalls {
    shards: [Mutex<Shard>; SHARDS],
    len: AtomicUsize,
}

impl Default for SuspendedCalls {
    fn default() -> Self {
        SuspendedCalls { shards: std::array::from_fn(|_| Mutex::default()), len: AtomicUsize::new(0) }
    }
}

impl SuspendedCalls {
    fn shard(&self, at: usize) -> MutexGuard<'_, Shard> {
        self.shards[(at >> 4 ^ at >> 12) % SHARDS].lock().unpoisoned()
    }

    /// Whether there is no call.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }

    /// Adds a call.
    pub fn keep(&self, at: usize, id: u32, begun: PendingCall) {
        let mut shard = self.shard(at);
        if shard.len() >= MOST {
            self.len.fetch_sub(shard.len(), Relaxed);
            shard.clear();
        }
        if shard.insert((at, id), begun).is_none() {
            self.len.fetch_add(1, Relaxed);
        }
    }

    /// Removes a call and answers it.
    pub fn take(&self, at: usize, id: u32) -> Option<PendingCall> {
        let begun = self.shard(at).remove(&(at, id))?;
        self.len.fetch_sub(1, Relaxed);
        Some(begun)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_taken_once() {
        let kept = SuspendedCalls::default();
        assert!(kept.is_empty());
        kept.keep(64, 1, PendingCall { exit_actions: 4, start: 7 });
        kept.keep(64, 1, PendingCall { exit_actions: 4, start: 8 });
        assert!(!kept.is_empty());
        assert!(kept.take(64, 2).is_none());
        assert_eq!(kept.take(64, 1).map(|b| b.start), Some(8));
        assert!(kept.take(64, 1).is_none());
        assert!(kept.is_empty());
    }

    #[test]
    fn it_is_bounded() {
        let kept = SuspendedCalls::default();
        for at in 0..SHARDS * MOST * 2 {
            kept.keep(at * 16, 1, PendingCall { exit_actions: 4, start: 0 });
        }
        assert!(kept.len.load(Relaxed) <= SHARDS * MOST);
    }
}
