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
        flags::Flags,
        node::Node,
        plan::{kinds, Entry},
        session::Session,
        thread::Thread,
        tracer::{Answer, Group},
    },
    sync::{AtomicBool, Ordering::Release},
    trace::{
        event::{on_granted, Activation},
        messages::{self, write_receiver, write_word, About, Parcel},
    },
};
use inviso_term::record::Kind;
use std::sync::Arc;

/// What is still to be done.
pub(crate) enum Late {
    /// A message is made.
    Values(Values),
    /// A tracer module is told.
    Event {
        session: Arc<Session>,
        header: [u64; 4],
        payload: Vec<u8>,
        /// Whether it has said that it wants to be.
        asked: bool,
    },
    /// A tracer module is asked about a call or a message, and what is set on that goes on.
    Question(Question),
}

/// A call's message without its arguments, or without the value that it returned.
pub(crate) struct Values {
    session: Arc<Session>,
    flags: Flags,
    head: Head,
    now: u64,
    /// What a match spec adds to the message, as a term.
    extra: Vec<u8>,
    /// See [`carried`]: what the arguments take is not in the stamp.
    carried: Option<u64>,
    asked: bool,
}

/// What a tracer module is asked before any match spec runs.
pub(crate) struct Question {
    pub session: Arc<Session>,
    pub kind: Kind,
    pub tracee: u64,
    /// Of a call, the kinds of messages that it is about.
    pub which: u16,
    /// Of a call's meta messages, where an answer that the tracer is none any more is noted.
    meta_lost: Option<Arc<AtomicBool>>,
}

/// Puts a call down.
#[cold]
#[inline(never)]
#[allow(clippy::too_many_arguments)]
pub(crate) fn leave(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, head: Head, extra: &[u8], now: u64,
) {
    let carried = carried(node, session, flags);
    let (extra, session, asked) = (extra.to_vec(), session.clone(), thread.granted);
    thread.late.push(Late::Values(Values { session, flags, head, now, extra, carried, asked }));
}

/// Puts a question down; not while a tracer module is at work here.
#[cold]
#[inline(never)]
pub(crate) fn question(thread: &mut Thread, session: &Arc<Session>, kind: Kind, tracee: u64, which: u16) {
    if !ask::is_inside() {
        let session = session.clone();
        thread.late.push(Late::Question(Question { session, kind, tracee, which, meta_lost: None }));
    }
}

/// The same, of a call's meta messages.
#[cold]
#[inline(never)]
pub(crate) fn question_of_meta(thread: &mut Thread, entry: &Entry, tracee: u64) {
    if !ask::is_inside() {
        let (session, meta_lost) = (entry.session.clone(), entry.meta_lost.clone());
        let question = Question { session, kind: Kind::Call, tracee, which: kinds::META, meta_lost };
        thread.late.push(Late::Question(question));
    }
}

/// Where what was put down comes from.
trait Source {
    /// Writes what a message lacks.
    fn write(&self, kind: Kind, payload: &mut Vec<u8>, session: &Session, scheduler: u16);
    /// Goes on where a tracer module was asked, and wants to be told.
    fn go_on(&self, node: &Node, thread: &mut Thread, question: &Question);
}

/// A call of a function, by the host's key.
struct OfCall<'a, A>(usize, &'a A);

impl<A: Activation> Source for OfCall<'_, A> {
    fn write(&self, kind: Kind, payload: &mut Vec<u8>, session: &Session, scheduler: u16) {
        match kind {
            Kind::Call => self.1.arguments_late(payload, session, scheduler),
            _ => self.1.result_late(payload, session, scheduler),
        }
    }

    fn go_on(&self, node: &Node, thread: &mut Thread, question: &Question) {
        on_granted(node, thread, self.0, question, self.1);
    }
}

/// A message.
struct OfMessage<'a, P>(About<'a>, &'a P);

impl<P: Parcel> Source for OfMessage<'_, P> {
    fn write(&self, kind: Kind, payload: &mut Vec<u8>, session: &Session, scheduler: u16) {
        self.1.message_late(payload, session, scheduler);
        write_word(payload, kind, self.1);
        if kind != Kind::Receive {
            write_receiver(payload, self.1);
        }
    }

    fn go_on(&self, node: &Node, thread: &mut Thread, question: &Question) {
        messages::on_granted(node, thread, self.0, question, self.1);
    }
}

/// Something else, of which all was said.
struct OfEvent;

impl Source for OfEvent {
    fn write(&self, _: Kind, _: &mut Vec<u8>, _: &Session, _: u16) {}
    fn go_on(&self, _: &Node, _: &mut Thread, _: &Question) {}
}

/// Does what was put down at a call of the function `code`. Not inside a section, as those below.
#[cold]
#[inline(never)]
pub(crate) fn take<A: Activation>(node: &Node, thread: &mut Thread, code: usize, call: &A) {
    take_all(node, thread, &OfCall(code, call));
}

/// The same where a message was sent or has arrived.
#[cold]
#[inline(never)]
pub(crate) fn take_message<P: Parcel>(node: &Node, thread: &mut Thread, about: About<'_>, parcel: &P) {
    take_all(node, thread, &OfMessage(about, parcel));
}

/// The same of any other event.
#[cold]
#[inline(never)]
pub(crate) fn take_events(node: &Node, thread: &mut Thread) {
    take_all(node, thread, &OfEvent);
}

fn take_all(node: &Node, thread: &mut Thread, source: &dyn Source) {
    for late in std::mem::take(&mut thread.late) {
        match late {
            Late::Values(values) => make(node, thread, values, source),
            Late::Event { session, header, payload, asked } => {
                ask::tell(node, thread, &session, header, &payload, asked);
            }
            Late::Question(question) => {
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
                    thread.granted = true;
                    source.go_on(node, thread, &question);
                    thread.granted = false;
                }
            }
        }
        if !thread.late.is_empty() {
            take_all(node, thread, source);
        }
    }
}

fn make(node: &Node, thread: &mut Thread, values: Values, source: &dyn Source) {
    let Values { session, flags, head, now, extra, carried, asked } = values;
    let mut payload = Vec::new();
    source.write(head.kind, &mut payload, &session, thread.shared.number);
    let more = stamp::with_extra(&mut payload, &extra);
    thread.granted = asked;
    emit_numbered(node, thread, &session, flags, head.with(more), carried, &payload, now);
    thread.granted = false;
}
