//! The one mutable pointer that every traced call reads: what stands there is immutable, a change swaps it whole.
//!
//! # Roles
//! Any thread reads the current value while it is pinned. One stager (the holder of the control lock) swaps the next one
//! in.
//!
//! # States
//! A value is current from its swap to the next swap, and retired until a grace period that began after that has passed;
//! then the control side, not a traced thread, frees it.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | root | stager, `AcqRel` swap | pinned reader, `Acquire` load | who sees the pointer sees the whole value |
//! | pin before free | reader's pin and unpin | [`crate::sync::grace::wait`], by the epoch | a retired value has no reader left |
//!
//! # Checked by
//! `models::current` (loom): two functions switched at one point, no reader after the grace period; mutants
//! `swap_relaxed`, `load_relaxed`, `free_early`.

use crate::sync::{
    mutants::Edge,
    section::Inside,
    Ordering::{AcqRel, Acquire},
};
use crossbeam_epoch::{Atomic, Guard, Owned};

const ROOT: Edge = Edge(AcqRel, "swap_relaxed");
const ROOT_SEEN: Edge = Edge(Acquire, "load_relaxed");

/// Where the current value stands.
pub struct Current<T>(Atomic<T>);

/// A value that is no longer current but may still have readers.
pub struct Retired<T>(*const T);

// SAFETY: a retired value is only read through shared references by its readers, which is fine for `T: Sync`, and is
// dropped by whoever holds this, which is fine for `T: Send`.
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
        // SAFETY: the pointer is never null (it is set in `new` and only ever swapped for another value), and a value
        // that was swapped out is freed only by the holder of its `Retired` after a grace period, which can't end
        // while `guard` pins this thread (Orderings, pin before free).
        unsafe { shared.deref() }
    }

    /// The current value, readable while the thread is `inside` its section.
    #[inline(always)]
    pub fn load_inside<'i>(&self, _inside: &'i Inside) -> &'i T {
        // SAFETY: only the pointer is read with it, and `_inside` stands for the guard: see below.
        let guard = unsafe { crossbeam_epoch::unprotected() };
        let shared = self.0.load(ROOT_SEEN.order(), guard);
        // SAFETY: as in `load`; who holds a `Retired` frees it only after it has waited for every section, too
        // ([`crate::state::node::Node::grace`]), and this thread is inside one.
        unsafe { shared.deref() }
    }

    /// Makes `next` current. Free what it answers after a grace period, see [`Retired::free`].
    pub fn swap(&self, next: T, guard: &Guard) -> Retired<T> {
        Retired(self.0.swap(Owned::new(next), ROOT.order(), guard).as_raw())
    }
}

impl<T> Drop for Current<T> {
    fn drop(&mut self) {
        // SAFETY: `&mut self` says that there is no reader left, so no guard is needed to look at the pointer.
        let guard = unsafe { crossbeam_epoch::unprotected() };
        let last = self.0.swap(crossbeam_epoch::Shared::null(), AcqRel, guard);
        // SAFETY: as above; the pointer is never null, and the swap took it.
        drop(unsafe { last.into_owned() });
    }
}

impl<T> Retired<T> {
    /// Frees the value. Only after a grace period that began after the swap.
    pub fn free(self, _after: &crate::sync::grace::Passed) {
        // SAFETY: the swap took the last shared pointer, and `_after` says that every reader which could have loaded it
        // before the swap has unpinned since (Orderings, pin before free).
        drop(unsafe { Box::from_raw(self.0.cast_mut()) });
    }
}
