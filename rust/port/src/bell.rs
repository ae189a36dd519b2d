//! The recorder's bell: a word that wakes a thread (a futex on Linux). It has no file descriptor, so a program that closes or reads descriptors of
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

use crate::platform;
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

static BELL: AtomicU32 = AtomicU32::new(0);

/// Wakes the waiting thread, or makes its next wait return at once. Async-signal-safe.
pub fn ring() {
    if BELL.swap(1, Ordering::AcqRel) == 0 {
        platform::wake(&BELL);
    }
}

/// Waits for a ring, for `most` at the longest. May return early.
pub fn wait(most: Option<Duration>) {
    if BELL.swap(0, Ordering::AcqRel) != 0 {
        return;
    }
    platform::sleep_while_zero(&BELL, most);
    BELL.swap(0, Ordering::AcqRel);
}
