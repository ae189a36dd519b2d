//! Asking and telling a tracer module: outside the section, in the traced thread.
#![forbid(unsafe_code)]

use crate::{
    record::event,
    state::{
        flags::Flags,
        node::Node,
        session::Session,
        thread::Thread,
        tracee,
        tracer::{self, Answer, Event, Group, Module, TRACE_STATUS},
    },
    sync::Unpoisoned,
};
use inviso_term::record::Kind;

/// Runs a callback of the session's tracer module. The thread runs the same process after it: a host may look anew which one runs.
fn run<R>(thread: &mut Thread, session: &Session, callback: impl FnOnce() -> R) -> Option<R> {
    let current = thread.current.clone();
    let done = session.calls.run(&session.tracer_errors, callback);
    thread.switch(current);
    done
}

/// Asks whether to tell of an event; `remove` is done here.
#[cold]
#[inline(never)]
pub(crate) fn ask(
    node: &Node, thread: &mut Thread, session: &Session, group: Group, tag: &'static str, tracee: Option<u64>,
) -> bool {
    match answer(thread, session, group, tag, tracee) {
        Answer::Trace => true,
        Answer::Remove if tag == tracer::SEQ_TRACE => {
            node.lose_tracer(session);
            false
        }
        Answer::Remove => {
            if let Some(pid) = tracee {
                node.remove_tracer(session, pid);
            }
            false
        }
        Answer::Discard => false,
    }
}

/// What the tracer says; `Discard` where it can't be asked.
pub(crate) fn answer(
    thread: &mut Thread, session: &Session, group: Group, tag: &'static str, tracee: Option<u64>,
) -> Answer {
    let Some(Module(tracer)) = &session.options.tracer else { return Answer::Discard };
    let asked = || tracer.ask(group, tag, tracee);
    run(thread, session, asked).unwrap_or(Answer::Discard)
}

/// Tells of a record that was put down, and asks first if nobody has.
#[cold]
#[inline(never)]
pub(crate) fn call_tracer(
    node: &Node, thread: &mut Thread, session: &Session, header: [u64; 4], payload: &[u8], asked: bool,
) {
    let record = event::event(header, payload).to_owned();
    let Some(kind) = Kind::from_u8(record.kind) else { return };
    let group = Group::of(kind, record.tracee);
    let event = Event {
        session: session.id,
        names: &node.names,
        stamps_cpu_time: node.stamps_cpu_time(),
        record: &record,
        kind,
    };
    if !asked && !ask(node, thread, session, group, event.tag(), event.tracee()) {
        return;
    }
    let Some(Module(tracer)) = &session.options.tracer else { return };
    run(thread, session, || tracer.emit(group, &event));
}

impl Session {
    /// Asks the tracer module whether it still is one, for a process or port or for none; `None` without a module, and where it
    /// can't be asked: not from inside its own callbacks, not after the session's end.
    #[must_use]
    pub fn tracer_status(&self, tracee: Option<u64>) -> Option<Answer> {
        let Module(tracer) = self.options.tracer.as_ref()?;
        self.calls.run(&self.tracer_errors, || tracer.enabled(TRACE_STATUS, tracee))
    }
}

impl Node {
    /// Asks a session's tracer module whether it still is one, for a process or port, or for those to come; where it says that it
    /// isn't, their flags are removed. `true` of a session without one.
    pub fn trace_status(&self, session: &Session, tracee: Option<&tracee::Tracee>) -> bool {
        if session.tracer_status(tracee.map(|tracee| tracee.pid)) != Some(Answer::Remove) {
            return true;
        }
        match tracee {
            Some(tracee) => self.remove_tracer(session, tracee.pid),
            None => [tracee::Class::Process, tracee::Class::Port]
                .into_iter()
                .for_each(|class| session.change_new_flags(class, false, Flags::ALL)),
        }
        false
    }

    /// The tracer of a process or port is gone, and its flags with it.
    pub(crate) fn remove_tracer(&self, session: &Session, pid: u64) {
        // as in `flags`: asked under the lock, so that the flags of the next session of this index stay as they are
        let registry = self.registry.lock().unpoisoned();
        if session.is_alive() {
            if let Some(tracee) = registry.living.get(&pid) {
                tracee.set(session.index, Flags::NONE);
            }
        }
    }
}
