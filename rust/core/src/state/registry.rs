//! The processes and ports of a node that live, and the sessions whose flags new ones get.
//!
//! # Roles
//! All of it is behind one lock, which whoever starts or ends a process takes once: a program may start many thousands. Who
//! changes the flags of many, or ends a session, passes through the same lock, and so misses none and leaves nothing behind.
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

/// Who lives.
#[derive(Default)]
pub(crate) struct Registry {
    /// Processes and ports by their numbers.
    pub living: FxHashMap<u64, Arc<Tracee>>,
    /// Sessions that exist, and some whose end is not done.
    sessions: Vec<Arc<Session>>,
    /// The last number that was given out.
    last: u64,
}

impl Registry {
    /// A number that nothing has had, and that no process or port will have.
    pub fn number(&mut self) -> u64 {
        self.last += 1; // pids from 4 on: smaller ones are reserved, see `cells::FOLDED`
        self.last
    }

    /// A new process or port: it has the flags that `parent` hands down, or else those of new ones.
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

    /// A new process whose beginning nobody is told of: it has no flags before somebody sets them on it.
    pub fn admit(&mut self) -> Arc<Tracee> {
        let pid = self.number() << 2 | Kind::Thread as u64;
        let tracee = in_place::arc(|| Tracee::new(pid, Kind::Thread, 0));
        self.living.insert(pid, tracee.clone());
        tracee
    }

    /// New processes have flags of this session from now on.
    pub fn add_session(&mut self, session: &Arc<Session>) {
        self.sessions.push(session.clone());
    }

    /// The session has ended: nobody has flags of it, nor will.
    pub fn remove_session(&mut self, session: &Session) {
        self.sessions.retain(|known| known.id != session.id);
        self.clear(session);
    }

    /// Nobody has flags of this session.
    pub fn clear(&self, session: &Session) {
        self.living.values().for_each(|tracee| tracee.set(session.index, Flags::NONE));
    }
}
