//! The living processes and ports of a node, and the sessions whose flags new ones get.
//!
//! # Roles
//! The start and the end of a process take the node's lock of the registry once each: a program may start many thousands. A change of the
//! flags of many processes, and the end of a session, take it, too. So they miss no process and leave no flag behind.
//!
//! # States
//! A process is in `living` from its start to its end. A session is in `sessions` until its end is done.
//!
//! # Orderings
//! The lock's.
//!
//! # Checked by
//! `models::node` (loom), mutants `flags_unlocked`, `destroy_keeps_flags`, `process_ends_unlocked`.
#![forbid(unsafe_code)]

use crate::{
    record::identity::Kind,
    state::{flags::Flags, session::Session, tracee::Tracee},
    sync::{in_place, Ordering::Relaxed},
};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The living processes and ports, and the sessions.
#[derive(Default)]
pub(crate) struct Registry {
    /// Processes and ports by their numbers.
    pub living: FxHashMap<u64, Arc<Tracee>>,
    /// Living sessions, and sessions whose end is not done.
    sessions: Vec<Arc<Session>>,
    /// The latest number.
    last: u64,
}

impl Registry {
    /// A new number.
    pub fn number(&mut self) -> u64 {
        self.last += 1; // so pids begin at 4; smaller ones are reserved, see `cells::FOLDED`
        self.last
    }

    /// Adds a new process or port. It inherits the flags of `parent`, or gets those of new ones.
    pub fn adopt(&mut self, kind: Kind, object: usize, parent: Option<&Tracee>) -> Arc<Tracee> {
        let pid = self.number() << 2 | kind as u64;
        let tracee = in_place::arc(|| Tracee::new(pid, kind, object));
        for session in self.sessions.iter().filter(|session| session.is_alive()) {
            if session.tracer.load(Relaxed) != pid {
                let inherited = parent.and_then(|parent| parent.inherit(session.index));
                tracee.set(session.index, inherited.unwrap_or_else(|| session.new_flags(kind)));
            }
        }
        self.living.insert(pid, tracee.clone());
        tracee
    }

    /// Adds a new process without an event and without flags.
    pub fn admit(&mut self) -> Arc<Tracee> {
        let pid = self.number() << 2 | Kind::Thread as u64;
        let tracee = in_place::arc(|| Tracee::new(pid, Kind::Thread, 0));
        self.living.insert(pid, tracee.clone());
        tracee
    }

    /// Adds a session: new processes get its flags from now on.
    pub fn add_session(&mut self, session: &Arc<Session>) {
        self.sessions.push(session.clone());
    }

    /// Removes an ended session: no process has its flags, now or later.
    pub fn remove_session(&mut self, session: &Session) {
        self.sessions.retain(|known| known.id != session.id);
        self.clear(session);
    }

    /// Clears the flags of a session in all processes.
    pub fn clear(&self, session: &Session) {
        self.living.values().for_each(|tracee| tracee.set(session.index, Flags::NONE));
    }
}
