//! The recorder's bell: what wakes a thread, without a descriptor, so that a program that closes those it doesn't know neither
//! stops it nor has a file of its own read.
//!
//! # Roles
//!
//! One thread waits. Everybody rings: traced threads, and a signal's handler, which may do a call of the system and no more.
//!
//! # Orderings
//!
//! What was written before a ring is seen by who was woken by it: both swap the word with `AcqRel`.

use std::{
    ptr,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// 1: it has rung.
static BELL: AtomicU32 = AtomicU32::new(0);

/// Wakes who waits, or will wait next. May be called in a signal's handler.
pub fn ring() {
    if BELL.swap(1, Ordering::AcqRel) == 0 {
        // SAFETY: wakes a thread that waits for a word that is always there.
        unsafe { libc::syscall(libc::SYS_futex, BELL.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
    }
}

/// Waits until it rings, or so long; now and then it returns before.
pub fn wait(most: Option<Duration>) {
    if BELL.swap(0, Ordering::AcqRel) != 0 {
        return;
    }
    let time = most.map(|most| libc::timespec {
        tv_sec: libc::time_t::try_from(most.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(most.subsec_nanos() as i32),
    });
    let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    let how = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is always there, the time for the call; the system compares and sleeps in one.
    unsafe { libc::syscall(libc::SYS_futex, BELL.as_ptr(), how, 0, time) };
    BELL.swap(0, Ordering::AcqRel);
}
