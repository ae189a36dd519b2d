//! Messages between processes: sending and receiving.
//!
//! A host calls [`on_send`] and [`on_receive`] with a [`MessageSource`], whose methods run only when they are needed. As in
//! [`crate::trace::event`], only cold functions allocate or take a lock, and match specifications that add to a message.
#![forbid(unsafe_code)]

use super::recipients::each_recipient;
use crate::{
    emit::{
        deferred::{self, Source},
        values::with_values,
        Recipient,
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

pub use super::about::About;
pub use crate::state::patterns::{Pattern, Patterns};

/// A message that is sent or has arrived, as its host shows it. Match specifications see the elements of the lists in [`Patterns`].
pub trait MessageSource: Subject {
    /// Writes the message.
    ///
    /// # Errors
    /// [`Full`] if it doesn't fit; the bytes that were written are ignored.
    fn message(&self, out: &mut Encoder<'_>, capture: &Capture) -> Result<(), Full>;
    /// Writes the message for a session that does not take [`Takes::Values`]. Outside the section: the program's code may run.
    fn message_late(&self, out: &mut Vec<u8>, session: &Session, scheduler: u16);
    /// The receiver: a process, queue or port; 0 if the sender named it otherwise.
    fn process(&self) -> u64;
    /// The sender's name for the receiver, if [`MessageSource::process`] is 0.
    fn name(&self) -> Term;
    /// When a message is sent, the answer of [`reserve`], or 0. When it has arrived, the answer of [`on_send`] for it, or 0 if the host
    /// doesn't know it.
    fn number(&self) -> u64;
    /// The kind of a message that is sent.
    fn kind(&self) -> MessageKind;
    /// The creation of the operating system process that sent a message that has arrived, if that is another one: the number belongs to
    /// it. Else 0.
    fn sender(&self) -> u32;
}

/// A number for a message that leaves before the record of its sending is written.
#[must_use]
pub fn reserve(node: &Node, thread: &mut Thread) -> u64 {
    message_number(thread.shared.number, node.clock.ticks())
}

/// A message is sent; `exists` is false if nobody can receive it. Answers the message's number, for [`on_receive`]; 0 if no session has
/// a record of the sending.
#[inline(always)]
pub fn on_send<M: MessageSource>(node: &Node, thread: &mut Thread, from: About<'_>, exists: bool, message: &M) -> u64 {
    let kind = if exists { Kind::Send } else { Kind::SendToNonExisting };
    match emit_all(MessageEvent { node, about: from, kind, message }, thread, Flags::SEND) {
        0 => 0,
        ticks => match message.number() {
            0 => message_number(thread.shared.number, ticks),
            reserved => reserved,
        },
    }
}

/// A message has arrived at a process.
#[inline(always)]
pub fn on_receive<M: MessageSource>(node: &Node, thread: &mut Thread, at: About<'_>, message: &M) {
    emit_all(MessageEvent { node, about: at, kind: Kind::Receive, message }, thread, Flags::RECEIVE);
}

/// A message that is sent or has arrived.
struct MessageEvent<'a, M> {
    node: &'a Node,
    about: About<'a>,
    kind: Kind,
    message: &'a M,
}

impl<M> Clone for MessageEvent<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for MessageEvent<'_, M> {}

/// Emits the event to each session with the flag. One function for sending and receiving: two take too much of a processor's first
/// instruction cache from the interpreter. Answers the ticks of the records of a sending, which are the same in each session; 0 if
/// there is no record.
#[inline(never)]
fn emit_all<M: MessageSource>(event: MessageEvent<'_, M>, thread: &mut Thread, wanted: Flags) -> u64 {
    let MessageEvent { node, about, kind, .. } = event;
    thread.sent_at = 0;
    let wants = |flags: Flags| flags.has(wanted).then_some(());
    each_recipient(node, thread, about, wants, |thread, to, patterns, ()| {
        if to.session.tracer.load(Relaxed) == MODULE {
            let pid = about.tracee(thread).pid;
            return deferred::defer_question(thread, to.session, kind, pid, 0);
        }
        match_and_emit(event, thread, to, patterns);
    });
    let sent_at = thread.sent_at;
    if !thread.deferred.is_empty() {
        run_deferred(event, thread);
    }
    sent_at
}

/// A tracer module wants a message: match specifications run now.
#[cold]
#[inline(never)]
fn on_accepted<M: MessageSource>(event: MessageEvent<'_, M>, thread: &mut Thread, question: &Question) {
    let node = event.node;
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    let index = question.session.index;
    let Some((session, patterns)) = snapshot.standing(index) else { return };
    if session.id == question.session.id {
        thread.sent_at = 0;
        let flags = event.about.tracee(thread).flags(index);
        match_and_emit(event, thread, Recipient { node, session, flags, now: 0 }, patterns);
    }
}

impl<M: MessageSource> Source for MessageEvent<'_, M> {
    fn write(&self, kind: Kind, payload: &mut Vec<u8>, session: &Session, scheduler: u16) {
        self.message.message_late(payload, session, scheduler);
        write_word(payload, kind, self.message);
        if kind != Kind::Receive {
            write_receiver(payload, self.message);
        }
    }

    fn accepted(&self, _: &Node, thread: &mut Thread, question: &Question) {
        on_accepted(MessageEvent { kind: question.kind, ..*self }, thread, question);
    }
}

#[cold]
#[inline(never)]
fn run_deferred<M: MessageSource>(event: MessageEvent<'_, M>, thread: &mut Thread) {
    deferred::run_all(event.node, thread, &event);
}

#[inline(always)]
fn match_and_emit<M: MessageSource>(
    event: MessageEvent<'_, M>, thread: &mut Thread, to: Recipient<'_>, patterns: &Patterns,
) {
    let pattern = if event.kind == Kind::Receive { &patterns.receive } else { &patterns.send };
    match pattern {
        Pattern::All => write(event, thread, to, &[]),
        Pattern::Nothing => {}
        Pattern::Spec(program) => filtered(event, thread, to, program),
    }
}

/// A match specification decides. Silence hides only messages that one has taken (gold README, 19).
#[inline(never)]
fn filtered<M: MessageSource>(event: MessageEvent<'_, M>, thread: &mut Thread, to: Recipient<'_>, program: &Program) {
    let mut extra = std::mem::take(&mut thread.extra);
    let tracee = event.about.tracee(thread);
    let decision = matching::decide(to.node, tracee, to.session, program, event.message, &mut extra);
    let flags = tracee.flags(to.session.index);
    let added = match decision.map(|decision| decision.message) {
        Some(Disclosure::Plain) => Some(0),
        Some(Disclosure::Extra(length)) => Some(length),
        Some(Disclosure::Suppressed) | None => None,
    };
    if let Some(length) = added.filter(|_| !flags.has(Flags::SILENT)) {
        write(event, thread, Recipient { flags, ..to }, &extra[..length]);
    }
    thread.extra = extra;
    if let Some(decision) = decision {
        decision.end(to.session);
    }
}

#[inline(always)]
fn write<M: MessageSource>(event: MessageEvent<'_, M>, thread: &mut Thread, to: Recipient<'_>, extra: &[u8]) {
    let MessageEvent { node, about, kind, message } = event;
    let (now, what) = match kind {
        Kind::Receive => (node.clock.ticks(), message.number()),
        _ => {
            if thread.sent_at == 0 {
                thread.sent_at = node.clock.ticks();
            }
            (thread.sent_at, message.process())
        }
    };
    let to = Recipient { now, ..to };
    let word = word(kind, message);
    let more = if word == 0 { 0 } else { stamp::NUMBERED } | (message.kind() as u8) << stamp::KIND_SHIFT;
    let head = Head { tracee: about.tracee(thread).pid, kind, what, more };
    if to.session.options.capture.takes != Takes::Values {
        return deferred::defer_values(to, thread, head, extra);
    }
    if what == 0 && kind != Kind::Receive {
        return with_name(to, thread, head, extra, message);
    }
    if word != 0 {
        return with_word(to, thread, head, extra, message);
    }
    with_values(to, thread, head, extra, |out, capture| message.message(out, capture).or_else(|Full| cut(out, 0)));
}

/// The part of a message's number that stands before the payload ([`stamp::NUMBERED`]); 0 if there is none.
#[inline(always)]
fn word<M: MessageSource>(kind: Kind, message: &M) -> u64 {
    match kind {
        Kind::Receive => message.sender().into(),
        _ => message.number(),
    }
}

/// Inserts that word before a payload, unless it is 0.
fn write_word<M: MessageSource>(payload: &mut Vec<u8>, kind: Kind, message: &M) {
    match word(kind, message) {
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
fn with_word<M: MessageSource>(to: Recipient<'_>, thread: &mut Thread, head: Head, extra: &[u8], message: &M) {
    let word = word(head.kind, message).to_ne_bytes();
    with_values(to, thread, head, extra, |out, capture| {
        out.raw(&word)?;
        message.message(out, capture).or_else(|Full| cut(out, word.len()))
    });
}

#[cold]
#[inline(never)]
fn with_name<M: MessageSource>(to: Recipient<'_>, thread: &mut Thread, head: Head, extra: &[u8], message: &M) {
    let name = receiver_bytes(&message.name());
    let mut word = Vec::new();
    write_word(&mut word, head.kind, message);
    with_values(to, thread, head, extra, |out, capture| {
        out.raw(&word)?;
        message.message(out, capture).or_else(|Full| cut(out, word.len()))?;
        out.raw(&name)
    });
}

/// The bytes of a receiver's name after a message: a term, and its length.
fn receiver_bytes(name: &Term) -> Vec<u8> {
    let mut bytes = etf::encode(name);
    let length = bytes.len() as u32;
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes
}

/// Adds the receiver's name if the sender did not give its id.
fn write_receiver<M: MessageSource>(payload: &mut Vec<u8>, message: &M) {
    if message.process() == 0 {
        payload.extend_from_slice(&receiver_bytes(&message.name()));
    }
}
