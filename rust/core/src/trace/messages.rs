//! Messages between processes: what a session traces of those that are sent, and of those that arrive.
//!
//! A host calls [`on_send`] and [`on_receive`] with a [`MessageSource`], which it asks for what is needed. As in [`crate::trace::event`] nothing
//! here allocates, locks or formats but in what is marked cold and where a match spec adds to a message.
#![forbid(unsafe_code)]

use crate::{
    emit::{
        deferred::{self, Source},
        values::with_values,
    },
    record::{
        event::message_number,
        header::{stamp, Head},
    },
    state::{
        deferred::Question,
        flags::Flags,
        node::Node,
        session::{Capture, Session, Takes, MODULE},
        snapshot::Snapshot,
        thread::Thread,
    },
    sync::Ordering::Relaxed,
    trace::matching::{self, Disclosure, Subject},
};
use inviso_match::Program;
use inviso_term::{
    etf::{self, Encoder, Full},
    record::{numbered::MessageKind, Kind},
    term::Term,
};
use std::sync::Arc;

pub use super::about::About;
pub use crate::state::patterns::{Pattern, Patterns};

/// A message on its way, as its host sees it. What match specs look at are the elements of the lists above.
pub trait MessageSource: Subject {
    /// Writes the message.
    ///
    /// # Errors
    /// [`Full`] when it doesn't fit; what was written is then ignored.
    fn message(&self, out: &mut Encoder<'_>, capture: &Capture) -> Result<(), Full>;
    /// Writes it for a session that does not take [`Takes::Values`]. Outside the section: any code may run.
    fn message_late(&self, out: &mut Vec<u8>, session: &Session, scheduler: u16);
    /// The process, queue or port that it is sent to; 0 if the sender called it otherwise.
    fn process(&self) -> u64;
    /// What the sender called the receiver, where [`MessageSource::process`] is 0.
    fn name(&self) -> Term;
    /// Of one that has arrived: what [`on_send`] answered for it, or 0 where that is not known. Of one that is sent: what [`reserve`] has
    /// answered, or 0.
    fn number(&self) -> u64;
    /// Of one that is sent: what it is.
    fn kind(&self) -> MessageKind;
    /// Of one that has arrived from another operating system process: the creation in that one's pids, which the number is of; else 0.
    fn sender(&self) -> u32;
}

/// A number for a message that leaves before the record of its sending is written.
#[must_use]
pub fn reserve(node: &Node, thread: &mut Thread) -> u64 {
    message_number(thread.shared.number, node.moment(&mut thread.turn))
}

/// A message is sent; `exists` says whether to somebody who can get it. Answers the message's number, for [`on_receive`]; 0 if no session
/// has a record of the sending.
#[inline(always)]
pub fn on_send<P: MessageSource>(node: &Node, thread: &mut Thread, from: About<'_>, exists: bool, parcel: &P) -> u64 {
    let kind = if exists { Kind::Send } else { Kind::SendToNonExisting };
    match pass(node, thread, from, Flags::SEND, kind, parcel) {
        0 => 0,
        ticks => match parcel.number() {
            0 => message_number(thread.shared.number, ticks),
            reserved => reserved,
        },
    }
}

/// A message has arrived at a process.
#[inline(always)]
pub fn on_receive<P: MessageSource>(node: &Node, thread: &mut Thread, at: About<'_>, parcel: &P) {
    pass(node, thread, at, Flags::RECEIVE, Kind::Receive, parcel);
}

/// One body for what is sent and what arrives: two leave the interpreter too little of a processor's first cache of instructions.
/// Answers the ticks of the records of a sending, the same in each session; 0 if there is none.
#[inline(never)]
fn pass<P: MessageSource>(
    node: &Node, thread: &mut Thread, about: About<'_>, wanted: Flags, kind: Kind, parcel: &P,
) -> u64 {
    thread.sent_at = 0;
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    for index in 0..snapshot.width() {
        if about.tracee(thread).flags(index).has(wanted) {
            emit_message(node, thread, snapshot, index, about, kind, parcel);
        }
    }
    let sent_at = thread.sent_at;
    if !thread.deferred.is_empty() {
        drop(inside);
        run_deferred(node, thread, about, parcel);
    }
    sent_at
}

#[inline(always)]
fn emit_message<P: MessageSource>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, index: u16, about: About<'_>, kind: Kind, parcel: &P,
) {
    let Some((session, patterns)) = snapshot.standing(index) else { return };
    let pid = about.tracee(thread).pid;
    let tracer = session.tracer.load(Relaxed);
    if tracer == pid {
        return;
    }
    if tracer == MODULE {
        return deferred::defer_question(thread, session, kind, pid, 0);
    }
    match_and_emit(node, thread, session, patterns, index, about, kind, parcel);
}

/// A message that a tracer module wants to be told of: match specs run now.
#[cold]
#[inline(never)]
fn on_accepted<P: MessageSource>(node: &Node, thread: &mut Thread, about: About<'_>, question: &Question, parcel: &P) {
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    let index = question.session.index;
    let Some((session, patterns)) = snapshot.standing(index) else { return };
    if session.id == question.session.id {
        thread.sent_at = 0;
        match_and_emit(node, thread, session, patterns, index, about, question.kind, parcel);
    }
}

/// A message.
struct OfMessage<'a, P>(About<'a>, &'a P);

impl<P: MessageSource> Source for OfMessage<'_, P> {
    fn write(&self, kind: Kind, payload: &mut Vec<u8>, session: &Session, scheduler: u16) {
        self.1.message_late(payload, session, scheduler);
        write_word(payload, kind, self.1);
        if kind != Kind::Receive {
            write_receiver(payload, self.1);
        }
    }

    fn accepted(&self, node: &Node, thread: &mut Thread, question: &Question) {
        on_accepted(node, thread, self.0, question, self.1);
    }
}

/// Does what was put down where a message was sent or has arrived.
#[cold]
#[inline(never)]
fn run_deferred<P: MessageSource>(node: &Node, thread: &mut Thread, about: About<'_>, parcel: &P) {
    deferred::run_all(node, thread, &OfMessage(about, parcel));
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn match_and_emit<P: MessageSource>(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, patterns: &Patterns, index: u16, about: About<'_>,
    kind: Kind, parcel: &P,
) {
    let tracee = about.tracee(thread);
    let pattern = if kind == Kind::Receive { &patterns.receive } else { &patterns.send };
    match pattern {
        Pattern::All => {
            let (flags, pid) = (tracee.flags(index), tracee.pid);
            write(node, thread, session, flags, pid, kind, &[], parcel);
        }
        Pattern::Nothing => {}
        Pattern::Spec(program) => filtered(node, thread, session, index, about, kind, program, parcel),
    }
}

/// A match spec decides. Silence hides messages only where there is one (gold README, 19).
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn filtered<P: MessageSource>(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, index: u16, about: About<'_>, kind: Kind,
    program: &Program, parcel: &P,
) {
    let mut extra = std::mem::take(&mut thread.extra);
    let tracee = about.tracee(thread);
    let decision = matching::decide(node, tracee, session, program, parcel, &mut extra);
    let (flags, pid) = (tracee.flags(index), tracee.pid);
    let added = match decision.map(|decision| decision.message) {
        Some(Disclosure::Plain) => Some(0),
        Some(Disclosure::Extra(length)) => Some(length),
        Some(Disclosure::Suppressed) | None => None,
    };
    if let Some(length) = added.filter(|_| !flags.has(Flags::SILENT)) {
        write(node, thread, session, flags, pid, kind, &extra[..length], parcel);
    }
    thread.extra = extra;
    if let Some(decision) = decision {
        decision.end(session);
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn write<P: MessageSource>(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, tracee: u64, kind: Kind, extra: &[u8],
    parcel: &P,
) {
    let (now, what) = match kind {
        Kind::Receive => (node.moment(&mut thread.turn), parcel.number()),
        _ => {
            if thread.sent_at == 0 {
                thread.sent_at = node.moment(&mut thread.turn);
            }
            (thread.sent_at, parcel.process())
        }
    };
    let word = word(kind, parcel);
    let more = if word == 0 { 0 } else { stamp::NUMBERED } | (parcel.kind() as u8) << stamp::KIND_SHIFT;
    let head = Head { tracee, kind, what, more };
    if session.options.capture.takes != Takes::Values {
        return deferred::defer_values(node, thread, session, flags, head, extra, now);
    }
    if what == 0 && kind != Kind::Receive {
        return with_name(node, thread, session, flags, head, extra, now, parcel);
    }
    if word != 0 {
        return with_word(node, thread, session, flags, head, extra, now, parcel);
    }
    with_values(node, thread, session, flags, head, extra, now, |out, capture| {
        parcel.message(out, capture).or_else(|Full| cut(out, 0))
    });
}

/// What the record has of the message's number itself, before its payload ([`stamp::NUMBERED`]); 0 if nothing.
#[inline(always)]
fn word<P: MessageSource>(kind: Kind, parcel: &P) -> u64 {
    match kind {
        Kind::Receive => parcel.sender().into(),
        _ => parcel.number(),
    }
}

/// Puts that word before a payload, unless it is 0.
fn write_word<P: MessageSource>(payload: &mut Vec<u8>, kind: Kind, parcel: &P) {
    match word(kind, parcel) {
        0 => {}
        word => drop(payload.splice(..0, word.to_ne_bytes())),
    }
}

fn cut(out: &mut Encoder<'_>, at: usize) -> Result<(), Full> {
    out.truncate(at);
    out.cut("message")
}

#[cold]
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn with_word<P: MessageSource>(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, head: Head, extra: &[u8], now: u64,
    parcel: &P,
) {
    let word = word(head.kind, parcel).to_ne_bytes();
    with_values(node, thread, session, flags, head, extra, now, |out, capture| {
        out.raw(&word)?;
        parcel.message(out, capture).or_else(|Full| cut(out, word.len()))
    });
}

#[cold]
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn with_name<P: MessageSource>(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, head: Head, extra: &[u8], now: u64,
    parcel: &P,
) {
    let name = receiver_bytes(&parcel.name());
    let mut word = Vec::new();
    write_word(&mut word, head.kind, parcel);
    with_values(node, thread, session, flags, head, extra, now, |out, capture| {
        out.raw(&word)?;
        parcel.message(out, capture).or_else(|Full| cut(out, word.len()))?;
        out.raw(&name)
    });
}

/// A receiver's name as it stands behind a message: a term, and its length.
fn receiver_bytes(name: &Term) -> Vec<u8> {
    let mut bytes = etf::encode(name);
    let length = bytes.len() as u32;
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes
}

/// Adds the name of the receiver, if the message is for one.
fn write_receiver<P: MessageSource>(payload: &mut Vec<u8>, parcel: &P) {
    if parcel.process() == 0 {
        payload.extend_from_slice(&receiver_bytes(&parcel.name()));
    }
}
