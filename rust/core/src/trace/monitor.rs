//! What the system itself does that somebody wants to be told of: long collections, long queues, long steps, large memory, busy
//! ports (trace.md, `system/3`).
//!
//! # Roles
//! The control side sets limits; hosts ask whether anybody watches, and report.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | a limit | any, `Relaxed` | hosts, `Relaxed` | a limit is a wish about the future; no data hangs on it |
//! | what a node watches | any, `Relaxed` | hosts, `Relaxed` | a host that sees it late reports late |
#![forbid(unsafe_code)]

use crate::{
    emit::emit,
    record::header::Head,
    state::{flags::Flags, limits::OFF, node::Node, session::Session, thread::Thread},
    sync::Ordering::Relaxed,
};
use inviso_term::{etf, record::Kind, term::Term};

pub use crate::state::limits::LimitEvent;

impl Session {
    /// The limit of an event, `None` if it isn't watched for.
    #[must_use]
    pub fn limit(&self, event: LimitEvent) -> Option<u64> {
        Some(self.limits.limits[event as usize].load(Relaxed)).filter(|limit| *limit != OFF)
    }

    /// The length that a long queue has to fall to before it is not long any more.
    #[must_use]
    pub fn short_queue(&self) -> u64 {
        self.limits.disable.load(Relaxed)
    }

    /// Sets or removes the limit of an event.
    pub fn set_limit(&self, event: LimitEvent, limit: Option<u64>) {
        self.limits.limits[event as usize].store(limit.unwrap_or(OFF), Relaxed);
    }

    /// Sets the length below which a long queue is short again.
    pub fn set_short_queue(&self, length: u64) {
        self.limits.disable.store(length, Relaxed);
    }
}

impl Node {
    /// Whether some living session watches for an event: the lowest limit.
    #[must_use]
    pub fn watched(&self, event: LimitEvent) -> Option<u64> {
        self.sessions().iter().filter_map(|session| session.limit(event)).min()
    }

    /// Reports an event of a process or port to each session whose limit is reached, as `info_of` says there is to say
    /// about it to that session.
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
                let now = self.moment(&mut thread.turn);
                emit(self, thread, session, Flags::NONE, head, &payload, now);
            }
        }
    }
}
