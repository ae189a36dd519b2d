//! Limits of the system that a session watches (trace.md, `system/3`).
#![forbid(unsafe_code)]

use crate::sync::AtomicU64;

/// An event of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitEvent {
    /// A collection took so many milliseconds.
    LongGc = 0,
    /// A process has so many messages waiting.
    LongMessageQueue = 1,
    /// A process or port ran for so many milliseconds on end.
    LongSchedule = 2,
    /// Memory is so many words after a collection.
    LargeHeap = 3,
    /// A process waits for a port to take what it writes.
    BusyPort = 4,
    /// A process waits for another node to take what it sends.
    BusyDistPort = 5,
}

impl LimitEvent {
    /// All of them with the names that users write, in the order of their numbers.
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

/// No limit is set: nobody watches.
pub(crate) const OFF: u64 = u64::MAX;

/// A session's limits, by event; for a queue there are two.
pub(crate) struct Limits {
    pub limits: [AtomicU64; 6],
    pub disable: AtomicU64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { limits: std::array::from_fn(|_| AtomicU64::new(OFF)), disable: AtomicU64::new(0) }
    }
}
