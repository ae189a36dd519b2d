//! Work of a trace point that runs after the section is left: the program's code, or a tracer module's.
//!
//! A session that takes texts or objects runs the program's code (a `__repr__`, a destructor). Both kinds of code may change
//! patterns, and so wait for a grace period: inside a section they would wait for themselves. The work is queued inside the section
//! and runs after leaving it, before the traced call continues. Records that follow in the ring are therefore later in time, too.
#![forbid(unsafe_code)]

use crate::{
    emit::{ask, carried, emit_numbered, Recipient},
    record::header::{stamp, Head},
    state::{
        deferred::{Deferred, Question, Values},
        gate,
        node::Node,
        plan::Entry,
        session::Session,
        setting::kinds,
        thread::Thread,
        tracer::{Answer, Group},
    },
    sync::Ordering::Release,
};
use inviso_term::record::Kind;
use std::sync::Arc;

/// Queues a message whose values are read after the section.
#[cold]
#[inline(never)]
pub(crate) fn defer_values(to: Recipient<'_>, thread: &mut Thread, head: Head, extra: &[u8]) {
    let Recipient { node, session, flags, now } = to;
    let carried = carried(node, session, flags);
    let (extra, session, asked) = (extra.to_vec(), session.clone(), thread.accepted);
    thread.deferred.push(Deferred::Values(Values { session, flags, head, now, extra, carried, asked }));
}

/// Queues a question to a tracer module, unless this thread runs one.
#[cold]
#[inline(never)]
pub(crate) fn defer_question(thread: &mut Thread, session: &Arc<Session>, kind: Kind, tracee: u64, which: u16) {
    if !gate::is_inside() {
        let session = session.clone();
        thread.deferred.push(Deferred::Question(Question { session, kind, tracee, which, meta_lost: None }));
    }
}

/// Queues a question about the meta messages of a call.
#[cold]
#[inline(never)]
pub(crate) fn defer_meta_question(thread: &mut Thread, entry: &Entry, tracee: u64) {
    if !gate::is_inside() {
        let (session, meta_lost) = (entry.session.clone(), entry.meta_lost.clone());
        let question = Question { session, kind: Kind::Call, tracee, which: kinds::META, meta_lost };
        thread.deferred.push(Deferred::Question(question));
    }
}

/// The event that deferred work belongs to.
pub(crate) trait Source {
    /// Writes the values that a message lacks.
    fn write(&self, kind: Kind, payload: &mut Vec<u8>, session: &Session, scheduler: u16);
    /// Continues after a tracer module has accepted the event.
    fn accepted(&self, node: &Node, thread: &mut Thread, question: &Question);
}

/// An event whose records are complete and whose tracer is asked when they are emitted.
struct OfEvent;

impl Source for OfEvent {
    fn write(&self, _: Kind, _: &mut Vec<u8>, _: &Session, _: u16) {}
    fn accepted(&self, _: &Node, _: &mut Thread, _: &Question) {}
}

/// Runs the deferred work of an event that is no call and no message.
#[cold]
#[inline(never)]
pub(crate) fn run_events(node: &Node, thread: &mut Thread) {
    run_all(node, thread, &OfEvent);
}

/// Runs the deferred work of an event, and the work that it defers itself.
pub(crate) fn run_all(node: &Node, thread: &mut Thread, source: &dyn Source) {
    for deferred in std::mem::take(&mut thread.deferred) {
        match deferred {
            Deferred::Values(values) => emit_values(node, thread, values, source),
            Deferred::Event { session, header, payload, asked } => {
                ask::call_tracer(node, thread, &session, header, &payload, asked);
            }
            Deferred::Question(question) => {
                if is_accepted(node, thread, &question) {
                    thread.accepted = true;
                    source.accepted(node, thread, &question);
                    thread.accepted = false;
                }
            }
        }
        if !thread.deferred.is_empty() {
            run_all(node, thread, source);
        }
    }
}

/// Asks a tracer module whether it wants an event.
fn is_accepted(node: &Node, thread: &mut Thread, question: &Question) -> bool {
    let Question { session, kind, tracee, .. } = question;
    let group = Group::of(*kind, *tracee);
    let Some(lost) = &question.meta_lost else {
        return ask::ask(node, thread, session, group, kind.tag(), Some(*tracee));
    };
    let answer = ask::answer(thread, session, group, kind.tag(), Some(*tracee));
    if answer == Answer::Remove {
        lost.store(true, Release);
    }
    answer == Answer::Trace
}

fn emit_values(node: &Node, thread: &mut Thread, values: Values, source: &dyn Source) {
    let Values { session, flags, head, now, extra, carried, asked } = values;
    let mut payload = Vec::new();
    source.write(head.kind, &mut payload, &session, thread.shared.number);
    let more = stamp::with_extra(&mut payload, &extra);
    thread.accepted = asked;
    emit_numbered(Recipient { node, session: &session, flags, now }, thread, head.with(more), carried, &payload);
    thread.accepted = false;
}
