//! The needs of all sessions together, and two words of them that are hints for every thread.
//!
//! # Roles
//! The thread that installs instruments stores the words. Every thread reads them.
//!
//! # States
//! | word | is |
//! | --- | --- |
//! | `WANTED`, `MONITORED` | the flags and system events that some session needs: hints, checked first |
//!
//! # Orderings
//! Both words are relaxed: they are hints, and the flags of sessions decide.
//!
//! # Checked by
//! `tests/python/test_trace_messages.py`, `tests/python/test_system.py`.

use inviso_core::host::{flags::Flags, monitor::LimitEvent};
use std::sync::atomic::{AtomicU32, AtomicU8, Ordering};

/// The needs of all sessions together.
#[derive(Clone, Copy, Default, Debug)]
pub struct Wants {
    /// Flags that a process has or will have.
    pub processes: Flags,
    /// Flags that a port has or will have.
    pub ports: Flags,
    /// System events that are watched for, one bit each.
    pub monitored: u8,
    /// Whether a token of sequential tracing is in use, or a match spec may set one.
    pub tokens: bool,
    /// Whether processes are linked, monitored or named: then their ends matter.
    pub related: bool,
    /// Whether a match spec reads messages that arrive, and so their senders.
    pub senders: bool,
    /// Whether a port has a name or a link: then its end matters.
    pub related_ports: bool,
    /// Whether ends of calls are emitted or measured.
    pub ends: bool,
}

impl Wants {
    /// Whether messages are traced, or carry tokens.
    pub fn messages(&self) -> bool {
        self.tokens || self.processes.has(Flags::SEND | Flags::RECEIVE)
    }

    /// Whether a system event is watched for.
    pub fn watches(&self, event: LimitEvent) -> bool {
        self.monitored & 1 << event as u8 != 0
    }
}

/// The flags that some session needs now: see [`wanted`].
pub static WANTED: AtomicU32 = AtomicU32::new(0);

/// The system events that some session watches for now: see [`monitored`].
pub static MONITORED: AtomicU8 = AtomicU8::new(0);

/// Whether some session watches for a system event; a hint, checked first.
#[inline(always)]
pub fn monitored(event: LimitEvent) -> bool {
    MONITORED.load(Ordering::Relaxed) & 1 << event as u8 != 0
}

/// Whether some session needs one of these flags of processes; a hint, checked before any other work.
#[inline(always)]
pub fn wanted(flags: Flags) -> bool {
    WANTED.load(Ordering::Relaxed) & flags.0 != 0
}
