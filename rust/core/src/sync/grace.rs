//! Grace periods: waiting until every thread that was inside a pinned section has left it.
#![forbid(unsafe_code)]

use crate::sync::{
    mutants::mutant,
    thread, Arc, AtomicBool,
    Ordering::{Acquire, Release},
};
use crossbeam_epoch::{Guard, LocalHandle};

/// Pins the calling thread until the guard is dropped. Guards nest; the outermost one counts.
///
/// loom treats a `SeqCst` access as `AcqRel`, and on x86 crossbeam's pin is one. So a model gets the fence that crossbeam has
/// on other machines; its partner is the fence where crossbeam tries to advance the epoch.
#[inline(always)]
#[must_use]
pub fn pin(local: &LocalHandle) -> Guard {
    let guard = local.pin();
    #[cfg(loom)]
    crate::sync::fence(crate::sync::Ordering::SeqCst);
    guard
}

/// Rounds without a pause; where nobody is pinned one is enough.
const SPINS: u32 = if cfg!(loom) { 1 } else { 4 };

/// A token: a grace period has passed since it was asked for.
pub struct Passed(());

/// Waits for a grace period. The calling thread must not be pinned and must hold nothing that a pinned section of
/// another thread could wait for; a pinned section waits for nothing, so this always ends.
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
            pause(rounds);
        }
    }
    Passed(())
}

fn pause(rounds: u32) {
    #[cfg(not(loom))]
    if rounds > 64 {
        std::thread::sleep(std::time::Duration::from_micros(50));
        return;
    }
    let _ = rounds;
    thread::yield_now();
}
