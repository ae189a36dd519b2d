//! What is done at a trace point after the section has been left: whatever may run code of the program, or of a tracer module.
//!
//! Sessions that take texts or the objects themselves run the program's code (its `__repr__`, a destructor), tracer modules their
//! own; both may change patterns and wait for a grace period. Inside a section that would wait for itself. So what is to be done is
//! put down there, and done when the section has been left, still before the call goes on: what comes after it in the ring comes
//! after it in time.
#![forbid(unsafe_code)]

use crate::{
    emit::{ask, carried, emit_numbered},
    record::header::{stamp, Head},
    state::{
        deferred::{Deferred, Question, Values},
        flags::Flags,
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

/// Puts a call down.
#[cold]
#[inline(never)]
#[allow(clippy::too_many_arguments)]
pub(crate) fn defer_values(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, head: Head, extra: &[u8], now: u64,
) {
    let carried = carried(node, session, flags);
    let (extra, session, asked) = (extra.to_vec(), session.clone(), thread.accepted);
    thread.deferred.push(Deferred::Values(Values { session, flags, head, now, extra, carried, asked }));
}

/// Puts a question down; not while a tracer module is at work here.
#[cold]
#[inline(never)]
pub(crate) fn defer_question(thread: &mut Thread, session: &Arc<Session>, kind: Kind, tracee: u64, which: u16) {
    if !gate::is_inside() {
        let session = session.clone();
        thread.deferred.push(Deferred::Question(Question { session, kind, tracee, which, meta_lost: None }));
    }
}

/// The same, of a call's meta messages.
#[cold]
#[inline(never)]
pub(crate) fn defer_meta_question(thread: &mut Thread, entry: &Entry, tracee: u64) {
    if !gate::is_inside() {
        let (session, meta_lost) = (entry.session.clone(), entry.meta_lost.clone());
        let question = Question { session, kind: Kind::Call, tracee, which: kinds::META, meta_lost };
        thread.deferred.push(Deferred::Question(question));
    }
}

/// Where what was put down comes from.
pub(crate) trait Source {
    /// Writes what a message lacks.
    fn write(&self, kind: Kind, payload: &mut Vec<u8>, session: &Session, scheduler: u16);
    /// Goes on where a tracer module was asked, and wants to be told.
    fn accepted(&self, node: &Node, thread: &mut Thread, question: &Question);
}

/// Something else, of which all was said.
struct OfEvent;

impl Source for OfEvent {
    fn write(&self, _: Kind, _: &mut Vec<u8>, _: &Session, _: u16) {}
    fn accepted(&self, _: &Node, _: &mut Thread, _: &Question) {}
}

/// The same of any other event.
#[cold]
#[inline(never)]
pub(crate) fn run_events(node: &Node, thread: &mut Thread) {
    run_all(node, thread, &OfEvent);
}

pub(crate) fn run_all(node: &Node, thread: &mut Thread, source: &dyn Source) {
    for late in std::mem::take(&mut thread.deferred) {
        match late {
            Deferred::Values(values) => make(node, thread, values, source),
            Deferred::Event { session, header, payload, asked } => {
                ask::call_tracer(node, thread, &session, header, &payload, asked);
            }
            Deferred::Question(question) => {
                let (kind, tracee) = (question.kind, question.tracee);
                let (group, session) = (Group::of(kind, tracee), &question.session);
                let wanted = match &question.meta_lost {
                    Some(lost) => match ask::answer(thread, session, group, kind.tag(), Some(tracee)) {
                        Answer::Remove => {
                            lost.store(true, Release);
                            false
                        }
                        answer => answer == Answer::Trace,
                    },
                    None => ask::ask(node, thread, session, group, kind.tag(), Some(tracee)),
                };
                if wanted {
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

fn make(node: &Node, thread: &mut Thread, values: Values, source: &dyn Source) {
    let Values { session, flags, head, now, extra, carried, asked } = values;
    let mut payload = Vec::new();
    source.write(head.kind, &mut payload, &session, thread.shared.number);
    let more = stamp::with_extra(&mut payload, &extra);
    thread.accepted = asked;
    emit_numbered(node, thread, &session, flags, head.with(more), carried, &payload, now);
    thread.accepted = false;
}
