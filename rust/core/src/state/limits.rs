//! Limits of the system that a session watches (trace.md, `system/3`).
//!
//! # Roles
//! The control side sets limits. Any thread compares.
//!
//! # States
//! A limit is [`OFF`] or a number.
//!
//! # Orderings
//! `Relaxed`: no data depends on a limit.
//!
//! # Checked by
//! `tests/kinds.rs`, `tests/python/test_system.py`.
#![forbid(unsafe_code)]

use crate::sync::AtomicU64;

/// A system event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitEvent {
    /// A collection took this many milliseconds.
    LongGc = 0,
    /// This many messages wait for a process.
    LongMessageQueue = 1,
    /// A process or port ran for this many milliseconds without a break.
    LongSchedule = 2,
    /// Memory has this many words after a collection.
    LargeHeap = 3,
    /// A process waits because a port doesn't accept its data.
    BusyPort = 4,
    /// A process waits because another node doesn't accept its messages.
    BusyDistPort = 5,
}

impl LimitEvent {
    /// All events with the names that users write, in the order of their numbers.
    pub const NAMES: [(&'static str, LimitEvent); 6] = [
        ("long_gc", LimitEvent::LongGc),
        ("long_message_queue", LimitEvent::LongMessageQueue),
        ("long_schedule", LimitEvent::LongSchedule),
        ("large_heap", LimitEvent::LargeHeap),
        ("busy_port", LimitEvent::BusyPort),
        ("busy_dist_port", LimitEvent::BusyDistPort),
    ];

    /// The name that users write.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }
}

/// No limit.
pub(crate) const OFF: u64 = u64::MAX;

/// A session's limits, by event. A queue has a second one, `disable`.
pub(crate) struct Limits {
    pub limits: [AtomicU64; 6],
    pub disable: AtomicU64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { limits: std::array::from_fn(|_| AtomicU64::new(OFF)), disable: AtomicU64::new(0) }
    }
}
