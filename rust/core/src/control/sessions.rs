//! Sessions begin and end.
#![forbid(unsafe_code)]

use super::{settle::Leftovers, Arm};
use crate::{
    state::{
        error::Error,
        node::Node,
        plan::Plan,
        session::{Options, Session},
        setting::kinds,
        snapshot::Snapshot,
        tracee::MAX_SESSIONS,
    },
    sync::{mutants::mutant, Ordering::Relaxed, Unpoisoned},
};
use std::sync::Arc;

impl Node {
    /// Creates a session (trace.md, `session_create/3`).
    ///
    /// # Errors
    /// [`Error::Limit`] when [`MAX_SESSIONS`] exist.
    pub fn session_create(&self, name: &str, tracer: u64, options: Options) -> Result<Arc<Session>, Error> {
        if let Some(tracer) = self.tracee(tracer) {
            tracer.note_tracer();
        }
        let mut control = self.control.lock().unpoisoned();
        let mut table = self.read(Snapshot::session_table);
        let index = table.iter().position(Option::is_none).unwrap_or(table.len());
        if index >= MAX_SESSIONS {
            return Err(Error::Limit("too many sessions"));
        }
        control.next_session += 1;
        let session = Arc::new(Session::new(control.next_session, index as u16, name, tracer, options));
        if index == table.len() {
            table.push(None);
        }
        table[index] = Some(session.clone());
        let retired = self.publish(|old| old.with_sessions(table));
        self.width.fetch_max(index as u32 + 1, Relaxed);
        self.registry.lock().unpoisoned().add_session(&session);
        control.retired.push(retired);
        Ok(session)
    }

    /// Ends a session: removes its entries from every plan and its flags from every process. `false` if it had ended before
    /// (trace.md, `session_destroy/1`).
    pub fn session_destroy(&self, session: &Arc<Session>, host: &dyn Arm) -> bool {
        if !session.begin_end() {
            return false;
        }
        let mut control = self.control.lock().unpoisoned();
        let mut left = Leftovers { changed_running: true, ..Leftovers::default() };
        let mut changes = Vec::new();
        let mut table = self.read(|snapshot| {
            for (key, plan) in snapshot.plans() {
                if let Some(entry) = plan.entry(session.id) {
                    if entry.has & kinds::COUNT != 0 {
                        left.counters.push(entry.count);
                    }
                    let rest = plan.entries.iter().filter(|e| e.session.id != session.id).cloned().collect();
                    changes.push((key, plan.events, Plan::of(plan.slot, plan.name, plan.foreign, rest)));
                }
            }
            snapshot.session_table()
        });
        // a session of another node (in a forked child, the parent's) has nothing here
        let Some(place) = table.get_mut(session.index as usize).filter(|there| is_it(there, session)) else {
            return false;
        };
        *place = None;
        if let Some(entry) = session.on_load().filter(|e| e.has & kinds::COUNT != 0) {
            left.counters.push(entry.count);
        }
        session.set_on_load(None);
        self.settle(&mut control, changes, left, host, |next| next.with_sessions(table));
        if !mutant!("destroy_keeps_flags") {
            self.registry.lock().unpoisoned().remove_session(session);
        }
        self.ask_cpu_stamps(session, false);
        session.finish_end();
        drop(control); // a tracer module that runs now may wait for it
        session.calls.close();
        true
    }
}

fn is_it(there: &Option<Arc<Session>>, session: &Arc<Session>) -> bool {
    there.as_ref().is_some_and(|there| Arc::ptr_eq(there, session))
}
