//! The one mutable pointer that every traced call reads. The value behind it is immutable. A change swaps the whole value.
//!
//! # Roles
//! Any thread reads the current value while it is pinned or inside its section. The *stager*, the holder of the control lock, swaps in
//! the next value.
//!
//! # States
//! A value is current until the next swap. Then it is retired until a grace period has passed that began after the swap. The control
//! side frees it, never a traced thread.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | root | stager, `AcqRel` swap | pinned reader, `Acquire` load | a reader of the pointer sees the whole value |
//! | pin before free | reader's pin and unpin | [`crate::sync::grace::wait`], by the epoch | a retired value has no reader left |
//! | section before free | reader's section | [`crate::sync::section::wait`] | a retired value has no reader left |
//!
//! # Checked by
//! `models::current` (loom): two functions switched at one point, no reader after the grace period; mutants
//! `swap_relaxed`, `load_relaxed`, `free_early`. `models::section` (loom) for readers inside sections.
//!
//! Only other crates of the workspace use it.

use crate::sync::{
    mutants::Edge,
    section::Inside,
    Ordering::{AcqRel, Acquire},
};
use crossbeam_epoch::{Atomic, Guard, Owned};

const ROOT: Edge = Edge(AcqRel, "swap_relaxed");
const ROOT_SEEN: Edge = Edge(Acquire, "load_relaxed");

/// The pointer to the current value.
pub struct Current<T>(Atomic<T>);

/// A value that is no longer current but may still have readers.
pub struct Retired<T>(*const T);

// SAFETY: readers use a retired value through shared references only, so `T: Sync` is enough for them. The owner of this drops it,
// possibly on another thread, so `T: Send` is enough for that.
unsafe impl<T: Send + Sync> Send for Retired<T> {}

impl<T> Current<T> {
    /// Begins with a value.
    #[must_use]
    pub fn new(first: T) -> Self {
        Current(Atomic::new(first))
    }

    /// The current value, readable while `guard` pins the thread.
    #[inline(always)]
    pub fn load<'g>(&self, guard: &'g Guard) -> &'g T {
        let shared = self.0.load(ROOT_SEEN.order(), guard);
        // SAFETY: the pointer is never null: `new` sets it, and `swap` replaces it by another value. A replaced value is freed only by
        // `Retired::free`, after a grace period. That can't end while `guard` pins this thread (Orderings, pin before free).
        unsafe { shared.deref() }
    }

    /// The current value, readable while the thread is `inside` its section.
    #[inline(always)]
    pub fn load_inside<'i>(&self, _inside: &'i Inside) -> &'i T {
        // SAFETY: `load` below is the only use of this guard and only reads the pointer. `_inside` protects the value instead.
        let guard = unsafe { crossbeam_epoch::unprotected() };
        let shared = self.0.load(ROOT_SEEN.order(), guard);
        // SAFETY: the pointer is never null, as in `load`. A replaced value is freed only after `Node::grace`, which also waits for all
        // sections, and this thread is inside one (Orderings, section before free).
        unsafe { shared.deref() }
    }

    /// Makes `next` current. The caller frees the answered value after a grace period, see [`Retired::free`].
    pub fn swap(&self, next: T, guard: &Guard) -> Retired<T> {
        Retired(self.0.swap(Owned::new(next), ROOT.order(), guard).as_raw())
    }
}

impl<T> Drop for Current<T> {
    fn drop(&mut self) {
        // SAFETY: `&mut self` proves that no reader is left, so reading the pointer needs no guard.
        let guard = unsafe { crossbeam_epoch::unprotected() };
        let last = self.0.swap(crossbeam_epoch::Shared::null(), AcqRel, guard);
        // SAFETY: no reader is left, as above. The pointer is never null, and the swap took the only copy.
        drop(unsafe { last.into_owned() });
    }
}

impl<T> Retired<T> {
    /// Frees the value. The grace period `_after` must have begun after the swap.
    pub fn free(self, _after: &crate::sync::grace::Passed) {
        // SAFETY: the swap took the last shared pointer. `_after` proves that every reader that could have loaded it before the swap has
        // unpinned since (Orderings, pin before free).
        drop(unsafe { Box::from_raw(self.0.cast_mut()) });
    }
}
