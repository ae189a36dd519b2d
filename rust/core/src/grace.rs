//! Grace periods: waiting until every thread that was inside a pinned section has left it.
#![forbid(unsafe_code)]

use crate::sync::{thread, Arc, AtomicBool, Ordering::{Acquire, Release}};
use crossbeam_epoch::LocalHandle;

/// A token: a grace period has passed since it was asked for.
pub struct Passed(());

/// Waits for a grace period. The calling thread must not be pinned and must hold nothing that a pinned section of
/// another thread could wait for; a pinned section waits for nothing, so this always ends.
pub fn wait(local: &LocalHandle) -> Passed {
    let passed = Arc::new(AtomicBool::new(false));
    {
        let guard = local.pin();
        let seen = passed.clone();
        guard.defer(move || seen.store(true, Release));
        guard.flush();
    }
    let mut rounds = 0u32;
    while !passed.load(Acquire) {
        local.pin().flush();
        rounds += 1;
        if rounds > 4 {
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
