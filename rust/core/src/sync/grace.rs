//! Grace periods: a wait until every thread that was pinned has unpinned.
//!
//! # Roles
//! A reader pins its thread. The control side waits.
//!
//! # States
//! Those of crossbeam's epochs.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `passed` | the thread that runs the deferred closure, `Release` | [`wait`], `Acquire` | the caller sees that all earlier pins have ended |
//!
//! # Checked by
//! `models::current` (loom), mutant `free_early`.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::sync::{
    mutants::mutant,
    pause, Arc, AtomicBool,
    Ordering::{Acquire, Release},
};
use crossbeam_epoch::{Guard, LocalHandle};

/// Pins the calling thread until the guard is dropped. Guards nest: the outermost one ends the pin.
///
/// On x86, crossbeam's pin is a `SeqCst` access, and loom treats that as `AcqRel`. So a model uses the fence that crossbeam has on
/// other machines. Its partner is the fence of crossbeam's attempt to advance the epoch.
#[inline(always)]
#[must_use]
pub fn pin(local: &LocalHandle) -> Guard {
    let guard = local.pin();
    #[cfg(loom)]
    crate::sync::fence(crate::sync::Ordering::SeqCst);
    guard
}

/// Rounds without a pause. One is enough if no thread is pinned.
const SPINS: u32 = if cfg!(loom) { 1 } else { 4 };

/// Rounds without a sleep.
const YIELDS: u32 = 64;

/// Proof that a grace period has passed since [`wait`] was called.
pub struct Passed(());

/// Waits for a grace period. The calling thread must not be pinned. It must not hold anything that a pinned thread could wait for.
/// Pinned threads wait for nothing, so this always ends.
pub fn wait(local: &LocalHandle) -> Passed {
    if mutant!("free_early") {
        return Passed(());
    }
    let passed = Arc::new(AtomicBool::new(false));
    {
        let guard = pin(local);
        let seen = passed.clone();
        guard.defer(move || seen.store(true, Release));
        guard.flush();
    }
    let mut rounds = 0u32;
    while !passed.load(Acquire) {
        pin(local).flush();
        rounds += 1;
        if rounds > SPINS {
            pause(rounds, YIELDS);
        }
    }
    Passed(())
}
