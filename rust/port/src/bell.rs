//! The recorder's bell: a futex that wakes a thread. It has no file descriptor, so a program that closes or reads descriptors of
//! others does not disturb it.
//!
//! # Roles
//!
//! One thread waits: the recorder. Traced threads and a signal handler ring. The handler makes no more than one system call.
//!
//! # States
//!
//! | `BELL` | is |
//! | --- | --- |
//! | 0 | nobody has rung since the last wait |
//! | 1 | rung; the next wait returns at once |
//!
//! # Orderings
//!
//! Both sides swap the word with `AcqRel`, so a woken thread sees all writes from before the ring.
//!
//! # Checked by
//!
//! `tests/python/test_flight_recorder.py`.
//!
//! Only other crates of the workspace use it.

use std::{
    ptr,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

static BELL: AtomicU32 = AtomicU32::new(0);

/// Wakes the waiting thread, or makes its next wait return at once. Async-signal-safe.
pub fn ring() {
    if BELL.swap(1, Ordering::AcqRel) == 0 {
        // SAFETY: the futex word is a static, so its address is always valid.
        unsafe { libc::syscall(libc::SYS_futex, BELL.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
    }
}

/// Waits for a ring, for `most` at the longest. May return early.
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
    // SAFETY: the word is a static and the timeout lives until the call returns. The system compares the word and sleeps in one
    // step.
    unsafe { libc::syscall(libc::SYS_futex, BELL.as_ptr(), how, 0, time) };
    BELL.swap(0, Ordering::AcqRel);
}
