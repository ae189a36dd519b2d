//! A record in a ring: which time stamp it gets, its header, its payload.
#![forbid(unsafe_code)]

pub(crate) mod ask;
pub(crate) mod deferred;
pub(crate) mod values;

use crate::{
    record::header::{stamp, Head},
    state::{
        flags::Flags,
        node::Node,
        session::{Session, Stamps},
        thread::Thread,
    },
};
use inviso_term::record::Kind;
use std::sync::Arc;

impl Head {
    /// Of a record about the process that runs now.
    #[inline(always)]
    pub fn new(thread: &Thread, kind: Kind, what: u64) -> Head {
        Head { tracee: thread.current.pid, kind, what, more: 0 }
    }
}

/// Writes a record into this scheduler's ring of the session.
#[inline(always)]
pub(crate) fn emit(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, head: Head, payload: &[u8], now: u64,
) {
    let (stamps, carried) = (stamps(flags), carried(node, session, flags));
    let (Some(stamps), None) = (stamps, carried) else {
        return emit_numbered(node, thread, session, flags, head, carried, payload, now);
    };
    let header = header(thread, head, stamps | head.more, payload.len(), now);
    let _counted_by_the_ring = thread.push(session, header, payload);
}

/// A record with numbers before its payload: see [`stamp::CARRIED`] and [`stamp::STRICT`].
#[allow(clippy::too_many_arguments)]
#[inline(never)]
pub(crate) fn emit_numbered(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, head: Head, carried: Option<u64>,
    payload: &[u8], now: u64,
) {
    let scheduler = if flags.has(Flags::SCHEDULER_ID) { stamp::SCHEDULER } else { 0 };
    let mut stamps = head.more | stamps(flags).unwrap_or(stamp::STRICT | scheduler);
    let mut long = Vec::with_capacity(16 + payload.len());
    if let Some(carried) = carried {
        stamps |= stamp::CARRIED;
        long.extend_from_slice(&carried.to_ne_bytes());
    }
    if stamps & stamp::MASK == stamp::STRICT {
        long.extend_from_slice(&node.unique().to_ne_bytes());
    }
    long.extend_from_slice(payload);
    let header = header(thread, head, stamps, long.len(), now);
    let _counted_by_the_ring = thread.push(session, header, &long);
}

/// The stamp of an event that happens now, where it is not made of ticks later.
#[inline(always)]
pub(crate) fn carried(node: &Node, session: &Session, flags: Flags) -> Option<u64> {
    if !flags.has(Flags::STAMPS) || !node.stamps_cpu_time() && session.options.clock == Stamps::Ticks {
        return None;
    }
    read_clock(node, session, flags)
}

/// Rule: trace.md, `process/4`, cpu_timestamp: it is what `timestamp` means, and nothing under the monotonic flags.
#[cold]
#[inline(never)]
fn read_clock(node: &Node, session: &Session, flags: Flags) -> Option<u64> {
    let wall = flags.has(Flags::TIMESTAMP);
    if wall && node.stamps_cpu_time() && !flags.has(Flags::MONOTONIC_TIMESTAMP | Flags::STRICT_MONOTONIC_TIMESTAMP) {
        if let Some(cpu) = node.clock.cpu() {
            return Some(cpu);
        }
    }
    match session.options.clock {
        Stamps::Ticks => None,
        Stamps::System if wall => Some(node.clock.system_wall()),
        Stamps::System => Some(node.clock.system_monotonic()),
    }
}

#[inline(always)]
fn header(thread: &Thread, head: Head, stamps: u8, payload: usize, now: u64) -> [u64; 4] {
    [first_word(thread, head.kind, stamps, payload), now, head.tracee, head.what]
}

#[inline(always)]
pub(crate) fn first_word(thread: &Thread, kind: Kind, stamps: u8, payload: usize) -> u64 {
    (32 + payload as u64) | (kind as u64) << 32 | u64::from(stamps) << 40 | u64::from(thread.shared.number) << 48
}

/// The stamp of a process's records; `None` for [`stamp::STRICT`], which needs a payload.
#[inline(always)]
pub(crate) fn stamps(flags: Flags) -> Option<u8> {
    let scheduler = if flags.has(Flags::SCHEDULER_ID) { stamp::SCHEDULER } else { 0 };
    if !flags.has(Flags::STAMPS) {
        Some(scheduler)
    } else if flags.has(Flags::TIMESTAMP) {
        Some(scheduler | stamp::TIMESTAMP)
    } else if flags.has(Flags::STRICT_MONOTONIC_TIMESTAMP) {
        None
    } else {
        Some(scheduler | stamp::MONOTONIC)
    }
}
