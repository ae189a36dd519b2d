//! Arguments and messages that are not copied at once: for sessions that take texts or the objects themselves.
//!
//! Both may run any of the program's code (its `__repr__`, a destructor), which may change patterns and wait for a grace period.
//! Inside a section that would wait for itself. So the call is put down there, and its message made when the section has been
//! left, still before the call goes on: what comes after it in the ring comes after it in time.
#![forbid(unsafe_code)]

use crate::{
    emit::{carried, emit_numbered, stamp, Head},
    event::Activation,
    flags::Flags,
    messages::{write_receiver, Parcel},
    node::Node,
    session::Session,
    thread::Thread,
};
use inviso_term::record::Kind;
use std::sync::Arc;

/// A call's message without its arguments, or without the value that it returned.
pub(crate) struct Late {
    session: Arc<Session>,
    flags: Flags,
    head: Head,
    now: u64,
    /// What a match spec adds to the message, as a term.
    extra: Vec<u8>,
    /// See [`carried`]: what the arguments take is not in the stamp.
    carried: Option<u64>,
}

/// Puts a call down.
#[cold]
#[inline(never)]
#[allow(clippy::too_many_arguments)]
pub(crate) fn leave(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, head: Head, extra: &[u8], now: u64,
) {
    let carried = carried(node, session, flags);
    let extra = extra.to_vec();
    thread.late.push(Late { session: session.clone(), flags, head, now, extra, carried });
}

/// Makes the messages of the calls that were put down. Not inside a section.
#[cold]
#[inline(never)]
pub(crate) fn take<A: Activation>(node: &Node, thread: &mut Thread, call: &A) {
    make(node, thread, |kind, payload, session, scheduler| match kind {
        Kind::Call => call.arguments_late(payload, session, scheduler),
        _ => call.result_late(payload, session, scheduler),
    });
}

/// The same of what was put down where a message was sent or has arrived.
#[cold]
#[inline(never)]
pub(crate) fn take_message<P: Parcel>(node: &Node, thread: &mut Thread, parcel: &P) {
    make(node, thread, |kind, payload, session, scheduler| {
        parcel.message_late(payload, session, scheduler);
        if kind != Kind::Receive {
            write_receiver(payload, parcel);
        }
    });
}

fn make(node: &Node, thread: &mut Thread, mut write: impl FnMut(Kind, &mut Vec<u8>, &Session, u16)) {
    let mut payload = Vec::new();
    for late in std::mem::take(&mut thread.late) {
        let Late { session, flags, head, now, extra, carried } = late;
        let was = std::mem::replace(&mut thread.busy, true);
        payload.clear();
        write(head.kind, &mut payload, &session, thread.shared.number);
        thread.busy = was;
        let more = stamp::with_extra(&mut payload, &extra);
        emit_numbered(node, thread, &session, flags, head.with(more), carried, &payload, now);
    }
}
