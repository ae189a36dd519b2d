//! Trace flags of processes and ports.
#![forbid(unsafe_code)]

use crate::{
    record::identity::Class,
    state::{
        error::Error,
        flags::Flags,
        node::{Node, Who},
        registry::Registry,
        session::Session,
        tracee::Tracee,
    },
    sync::{mutants::mutant, MutexGuard, Unpoisoned},
};
use std::sync::Arc;

impl Node {
    /// Switches trace flags of processes or ports; answers how many matched (trace.md, `process/4`, `port/4`). A class to which none of
    /// the flags applies stays as it is, and matches nothing. When flags are switched on, a tracer module is asked about each
    /// process: see [`Node::trace_status`]. `cpu_timestamp` belongs to the node; after a change of it call
    /// [`Node::forget_remembered`].
    ///
    /// # Errors
    /// [`Error::SessionDead`], [`Error::ProcessDead`].
    pub fn flags(&self, session: &Arc<Session>, who: Who<'_>, how: bool, flags: Flags) -> Result<usize, Error> {
        let lived = session.is_alive();
        // The end of a session, and the loss of its tracer, pass through this lock later and clear the flags that are set here. So no
        // flag is left for the next session of this index.
        let registry = self.registry.lock().unpoisoned();
        if !(session.is_alive() || lived && mutant!("flags_unlocked")) {
            return Err(Error::SessionDead);
        }
        if let Who::All(class) | Who::Existing(class) | Who::New(class) = who {
            if flags.of(class) == Flags::NONE && !flags.has(Flags::CPU_TIMESTAMP) {
                return Ok(0);
            }
        }
        let flags = if session.has_tracer() { flags } else { Flags::NONE };
        if flags.has(Flags::CPU_TIMESTAMP) {
            self.ask_cpu_stamps(session, how);
        }
        let flags = Flags(flags.0 & !Flags::CPU_TIMESTAMP.0);
        match who {
            Who::One(tracee) => self.flags_of_one(registry, session, tracee, how, flags),
            Who::All(class) => Ok(self.flags_of_class(registry, session, class, (true, true), how, flags)),
            Who::Existing(class) => Ok(self.flags_of_class(registry, session, class, (true, false), how, flags)),
            Who::New(class) => Ok(self.flags_of_class(registry, session, class, (false, true), how, flags)),
        }
    }

    fn flags_of_one(
        &self, registry: MutexGuard<'_, Registry>, session: &Session, tracee: &Tracee, how: bool, flags: Flags,
    ) -> Result<usize, Error> {
        if !tracee.is_alive() {
            return Err(Error::ProcessDead);
        }
        tracee.change(session.index, how, flags);
        drop(registry);
        if how {
            self.trace_status(session, Some(tracee));
        }
        Ok(1)
    }

    /// Of those that exist, those to come, or both.
    fn flags_of_class(
        &self, registry: MutexGuard<'_, Registry>, session: &Session, class: Class, (existing, new): (bool, bool),
        how: bool, flags: Flags,
    ) -> usize {
        if new {
            session.change_new_flags(class, how, flags);
        }
        let mut count = 0;
        let mut asked = Vec::new();
        let asks = how && session.options.tracer.is_some();
        if existing {
            for tracee in registry.living.values().filter(|tracee| class.has(tracee.kind)) {
                count += 1;
                tracee.change(session.index, how, flags);
                if asks {
                    asked.push(tracee.clone());
                }
            }
        }
        drop(registry);
        for tracee in asked {
            self.trace_status(session, Some(&tracee));
        }
        if asks && new {
            self.trace_status(session, None);
        }
        count
    }
}
