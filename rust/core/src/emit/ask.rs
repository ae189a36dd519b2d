//! Calls of a tracer module: outside the section, in the traced thread.
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

/// Runs a callback of the session's tracer module. Afterwards the thread's process is the same as before: a host may look it up anew
/// during the callback.
fn run<R>(thread: &mut Thread, session: &Session, callback: impl FnOnce() -> R) -> Option<R> {
    let current = thread.current.clone();
    let done = session.calls.run(&session.tracer_errors, callback);
    thread.switch(current);
    done
}

/// Asks the tracer module whether it wants an event. Its answer `remove` is carried out here.
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

/// The answer of the tracer module; `Discard` if it can't be asked.
pub(crate) fn answer(
    thread: &mut Thread, session: &Session, group: Group, tag: &'static str, tracee: Option<u64>,
) -> Answer {
    let Some(Module(tracer)) = &session.options.tracer else { return Answer::Discard };
    let asked = || tracer.ask(group, tag, tracee);
    run(thread, session, asked).unwrap_or(Answer::Discard)
}

/// Calls the tracer module with a deferred record; asks it first unless that was done.
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
    /// Asks the tracer module whether it is still a tracer, of a process or port or in general. `None` if there is no module, or if it
    /// can't be asked: from inside its own callbacks, or after the session's end.
    #[must_use]
    pub fn tracer_status(&self, tracee: Option<u64>) -> Option<Answer> {
        let Module(tracer) = self.options.tracer.as_ref()?;
        self.calls.run(&self.tracer_errors, || tracer.enabled(TRACE_STATUS, tracee))
    }
}

impl Node {
    /// Asks a session's tracer module whether it is still a tracer, of a process or port, or of those to come. If not, their flags are
    /// removed and the answer is `false`. `true` for a session without a module.
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

    /// The tracer of a process or port has ended: its flags are removed.
    pub(crate) fn remove_tracer(&self, session: &Session, pid: u64) {
        // as in `flags`: checked under the lock, so that the flags of the next session of this index stay as they are
        let registry = self.registry.lock().unpoisoned();
        if session.is_alive() {
            if let Some(tracee) = registry.living.get(&pid) {
                tracee.set(session.index, Flags::NONE);
            }
        }
    }
}
