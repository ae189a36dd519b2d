//! Writes a record into a ring: its timestamp, its header, its payload.
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

/// A session that gets a record of an event.
#[derive(Clone, Copy)]
pub(crate) struct Recipient<'a> {
    pub node: &'a Node,
    pub session: &'a Arc<Session>,
    /// The flags of the process or port in this session.
    pub flags: Flags,
    /// Ticks of the event.
    pub now: u64,
}

/// Writes a record into this scheduler's ring of the session.
#[inline(always)]
pub(crate) fn emit(to: Recipient<'_>, thread: &mut Thread, head: Head, payload: &[u8]) {
    let (stamps, carried) = (stamps(to.flags), carried(to.node, to.session, to.flags));
    let (Some(stamps), None) = (stamps, carried) else {
        return emit_numbered(to, thread, head, carried, payload);
    };
    let header = header(thread, head, stamps | head.more, payload.len(), to.now);
    let _counted_by_the_ring = thread.push(to.session, header, payload);
}

/// Writes a record with numbers before its payload: see [`stamp::CARRIED`] and [`stamp::STRICT`].
#[inline(never)]
pub(crate) fn emit_numbered(to: Recipient<'_>, thread: &mut Thread, head: Head, carried: Option<u64>, payload: &[u8]) {
    let scheduler = if to.flags.has(Flags::SCHEDULER_ID) { stamp::SCHEDULER } else { 0 };
    let mut stamps = head.more | stamps(to.flags).unwrap_or(stamp::STRICT | scheduler);
    let mut long = Vec::with_capacity(16 + payload.len());
    if let Some(carried) = carried {
        stamps |= stamp::CARRIED;
        long.extend_from_slice(&carried.to_ne_bytes());
    }
    if stamps & stamp::MASK == stamp::STRICT {
        long.extend_from_slice(&to.node.unique().to_ne_bytes());
    }
    long.extend_from_slice(payload);
    let header = header(thread, head, stamps, long.len(), to.now);
    let _counted_by_the_ring = thread.push(to.session, header, &long);
}

/// The timestamp of an event that happens now, if it is not made of ticks at delivery.
#[inline(always)]
pub(crate) fn carried(node: &Node, session: &Session, flags: Flags) -> Option<u64> {
    if !flags.has(Flags::STAMPS) || !node.stamps_cpu_time() && session.options.clock == Stamps::Ticks {
        return None;
    }
    read_clock(node, session, flags)
}

/// Rule: trace.md, `process/4`, cpu_timestamp: CPU time replaces the wall clock of `timestamp`. The monotonic flags ignore it.
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

/// The stamp of a process's records; `None` for [`stamp::STRICT`], whose unique number stands in the payload.
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
