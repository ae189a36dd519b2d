//! What is remembered of calls that can be suspended, from their beginning to their end: they may go on in any thread, so this is
//! the node's, not a thread's.
//!
//! # Roles
//! Any thread keeps and takes. A call is on one thread at a time, so nobody else keeps or takes the same.
//!
//! # Orderings
//! The locks'. `len` is a hint for those who look first: a call's own thread sees what it kept itself, and a call that goes on in
//! another thread was handed over by the program's own synchronisation.
#![forbid(unsafe_code)]

use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering::Relaxed};
use rustc_hash::FxHashMap;

/// A call that has begun.
#[derive(Clone, Copy)]
pub(crate) struct PendingCall {
    /// See [`crate::state::frame::exit_actions`].
    pub exit_actions: u16,
    /// Ticks at its beginning.
    pub start: u64,
}

type Shard = FxHashMap<(usize, u32), PendingCall>;

/// Locks, so that threads seldom meet.
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };

/// Calls that a shard remembers; beyond it they are forgotten together (their latency and return_to are lost).
const MOST: usize = 1 << 13;

/// The suspendable calls of a node, by address and session id, or another number of the session's.
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
        self.shards[(at >> 4 ^ at >> 12) % SHARDS].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether nothing is kept.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }

    /// Keeps a call.
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

    /// Takes a call out.
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
