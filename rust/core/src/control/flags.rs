//! Trace flags of processes and ports are switched.
#![forbid(unsafe_code)]

use crate::{
    state::{
        error::Error,
        flags::Flags,
        node::{Node, Who},
        session::Session,
    },
    sync::{mutants::mutant, Unpoisoned},
};
use std::sync::Arc;

impl Node {
    /// Switches trace flags of processes, or of ports; answers how many matched (trace.md, `process/4`, `port/4`). A group that can
    /// have none of the flags is left alone, and matches nothing. A tracer module is asked about each process when flags are
    /// switched on: see [`Node::trace_status`].
    /// After a change of `cpu_timestamp`, which is no process's, call [`Node::forget_remembered`].
    ///
    /// # Errors
    /// [`Error::SessionDead`], [`Error::ProcessDead`].
    pub fn flags(&self, session: &Arc<Session>, who: Who<'_>, how: bool, flags: Flags) -> Result<usize, Error> {
        let lived = session.is_alive();
        let registry = self.registry.lock().unpoisoned();
        // Asked while no process can be cleared: one who ends the session, or takes its tracer, passes through this lock
        // later and clears what is set here. Else flags could be left for the next session of this index.
        if !(session.is_alive() || lived && mutant!("flags_unlocked")) {
            return Err(Error::SessionDead);
        }
        if let Who::All(class) | Who::Existing(class) | Who::New(class) = who {
            if flags.of(class) == Flags::NONE && !flags.has(Flags::CPU_TIMESTAMP) {
                return Ok(0);
            }
        }
        let flags = if session.has_tracer() { flags } else { Flags::NONE };
        if how && flags.has(Flags::STAMPS | Flags::CPU_TIMESTAMP) {
            self.order.timed();
        }
        if flags.has(Flags::CPU_TIMESTAMP) {
            self.ask_cpu_stamps(session, how);
        }
        let flags = Flags(flags.0 & !Flags::CPU_TIMESTAMP.0);
        let mut count = 0;
        if let Who::One(tracee) = who {
            if !tracee.is_alive() {
                return Err(Error::ProcessDead);
            }
            tracee.change(session.index, how, flags);
            drop(registry);
            if how {
                self.trace_status(session, Some(tracee));
            }
            return Ok(1);
        }
        let (class, which) = match who {
            Who::One(_) => return Ok(0),
            Who::All(class) => (class, (true, true)),
            Who::Existing(class) => (class, (true, false)),
            Who::New(class) => (class, (false, true)),
        };
        if which.1 {
            session.change_new_flags(class, how, flags);
        }
        let mut asked = Vec::new();
        let asks = how && session.options.tracer.is_some();
        if which.0 {
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
        if asks && which.1 {
            self.trace_status(session, None);
        }
        Ok(count)
    }
}
