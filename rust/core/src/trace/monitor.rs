//! System events: long collections, long queues, long steps, large memory, busy ports (trace.md, `system/3`).
//!
//! # Roles
//! The control side sets limits. Hosts read them and report events.
//!
//! # States
//! A limit is off or a number.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | a limit | any, `Relaxed` | hosts, `Relaxed` | no data depends on it: a host that sees a change late reports late |
//!
//! # Checked by
//! `tests/python/test_system.py`.
#![forbid(unsafe_code)]

use crate::{
    emit::{emit, Recipient},
    record::header::Head,
    state::{flags::Flags, limits::OFF, node::Node, session::Session, thread::Thread},
    sync::Ordering::Relaxed,
};
use inviso_term::{etf, record::Kind, term::Term};

pub use crate::state::limits::LimitEvent;

impl Session {
    /// The limit of an event; `None` if it is off.
    #[must_use]
    pub fn limit(&self, event: LimitEvent) -> Option<u64> {
        Some(self.limits.limits[event as usize].load(Relaxed)).filter(|limit| *limit != OFF)
    }

    /// A long queue is short again when its length has fallen to this.
    #[must_use]
    pub fn short_queue(&self) -> u64 {
        self.limits.disable.load(Relaxed)
    }

    /// Sets or removes the limit of an event.
    pub fn set_limit(&self, event: LimitEvent, limit: Option<u64>) {
        self.limits.limits[event as usize].store(limit.unwrap_or(OFF), Relaxed);
    }

    /// Sets the length at which a long queue is short again.
    pub fn set_short_queue(&self, length: u64) {
        self.limits.disable.store(length, Relaxed);
    }
}

impl Node {
    /// The lowest limit of an event in the living sessions; `None` if all are off.
    #[must_use]
    pub fn watched(&self, event: LimitEvent) -> Option<u64> {
        self.sessions().iter().filter_map(|session| session.limit(event)).min()
    }

    /// Reports an event of a process or port to each session that has a limit for it. `info_of` gets the session and its limit, and
    /// answers `None` if the limit is not reached. Sessions with a tracer module have no limits, so nothing is deferred.
    pub fn alarm(
        &self, thread: &mut Thread, about: u64, event: LimitEvent,
        mut info_of: impl FnMut(&Session, u64) -> Option<Term>,
    ) {
        let inside = thread.shared.section.enter();
        let snapshot = self.snapshot.load_inside(&inside);
        for session in snapshot.sessions() {
            let Some(limit) = session.limit(event).filter(|_| session.has_tracer()) else { continue };
            if session.tracer.load(Relaxed) == about {
                continue;
            }
            if let Some(info) = info_of(session, limit) {
                let payload = etf::encode(&Term::Tuple(vec![Term::atom(event.name()), info]));
                let head = Head { tracee: about, kind: Kind::Monitor, what: 0, more: 0 };
                let now = self.clock.ticks();
                emit(Recipient { node: self, session, flags: Flags::NONE, now }, thread, head, &payload);
            }
        }
    }
}
