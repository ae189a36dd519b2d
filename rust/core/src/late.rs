//! Arguments that are not copied at once: for sessions that take texts or the objects themselves.
//!
//! Both may run any of the program's code (its `__repr__`, a destructor), which may change patterns and wait for a grace period.
//! Inside a section that would wait for itself. So the call is put down there, and its message made when the section has been
//! left, still before the call goes on: what comes after it in the ring comes after it in time.
#![forbid(unsafe_code)]

use crate::{
    event::{carried, emit_numbered, Activation},
    flags::Flags,
    node::Node,
    session::Session,
    thread::Thread,
};
use inviso_term::record::Kind;
use std::sync::Arc;

/// A call message without its arguments.
pub(crate) struct Late {
    session: Arc<Session>,
    flags: Flags,
    name: u32,
    now: u64,
    /// See [`carried`]: what the arguments take is not in the stamp.
    carried: Option<u64>,
}

/// Puts a call down.
#[cold]
#[inline(never)]
pub(crate) fn leave(node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, name: u32, now: u64) {
    let carried = carried(node, session, flags);
    thread.late.push(Late { session: session.clone(), flags, name, now, carried });
}

/// Makes the messages of the calls that were put down. Not inside a section.
#[cold]
#[inline(never)]
pub(crate) fn take<A: Activation>(node: &Node, thread: &mut Thread, call: &A) {
    let mut payload = Vec::new();
    for late in std::mem::take(&mut thread.late) {
        let was = std::mem::replace(&mut thread.busy, true);
        payload.clear();
        call.arguments_late(&mut payload, &late.session, thread.shared.number);
        thread.busy = was;
        let Late { session, flags, name, now, carried } = late;
        emit_numbered(node, thread, &session, flags, carried, Kind::Call, u64::from(name), &payload, now);
    }
}
