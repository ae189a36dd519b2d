//! Calls that an exception has left wait for the frame that goes on.
#![forbid(unsafe_code)]

use super::{
    accepted,
    activation::{Activation, Exit},
};
use crate::{
    emit::{deferred, emit},
    record::header::Head,
    state::{
        flags::Flags,
        node::Node,
        snapshot::Snapshot,
        thread::{Thread, SCRATCH},
    },
};
use inviso_term::{etf::Encoder, record::Kind};

/// An exception is caught. If calls that one has left wait, the frame that it had reached goes on: that catches it, or it was caught
/// there before, where nobody could see it (in C), and this is another. So the host has to tell of every call that an exception leaves
/// while [`Thread::waits_for_handler`].
#[inline(always)]
pub fn on_handled(node: &Node, thread: &mut Thread) {
    if !thread.pending.sessions.is_empty() {
        let inside = thread.shared.section.enter();
        let snapshot = node.snapshot.load_inside(&inside);
        goes_on(node, thread, snapshot);
        drop(inside);
        if !thread.deferred.is_empty() {
            deferred::run_events(node, thread);
        }
    }
}

/// Puts a name into a buffer.
pub(super) fn write_name(name: &mut Vec<u8>, write: impl FnOnce(&mut Encoder<'_>)) {
    name.resize(SCRATCH, 0);
    let mut out = Encoder::new(name);
    write(&mut out);
    let len = out.len();
    name.truncate(len);
}

/// Calls that an exception has left wait for the frame that goes on: an unwinding of that frame means that it does not; anything else,
/// the unwinding of another one too, that it does.
#[cold]
#[inline(never)]
pub(super) fn settle_pending<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, call: &A, exit: Option<(Exit, usize)>,
) {
    if exit != Some((Exit::Unwind, thread.pending.at)) {
        return goes_on(node, thread, snapshot);
    }
    let mut scratch = std::mem::take(&mut thread.scratch);
    scratch.resize(scratch.len().max(SCRATCH), 0);
    let mut out = Encoder::new(&mut scratch);
    thread.pending.at = call.caller(&mut out);
    thread.pending.name.clear();
    thread.pending.name.extend_from_slice(out.written());
    thread.scratch = scratch;
}

/// The same where a call begins or goes on.
#[cold]
#[inline(never)]
pub(super) fn settle<A: Activation>(node: &Node, thread: &mut Thread, code: usize, call: &A) {
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    settle_pending(node, thread, snapshot, call, None);
    drop(inside);
    if !thread.deferred.is_empty() {
        accepted::run_deferred(node, thread, code, call);
    }
}

#[cold]
#[inline(never)]
fn goes_on(node: &Node, thread: &mut Thread, snapshot: &Snapshot) {
    let mut pending = std::mem::take(&mut thread.pending);
    let now = node.moment(&mut thread.turn);
    if let Some(of) = pending.of.take().filter(|_| pending.at != 0) {
        let head = Head { tracee: of.pid, kind: Kind::ReturnTo, what: 0, more: 0 };
        for (index, id) in pending.sessions.drain(..) {
            let flags = of.flags(index);
            if let Some(session) = snapshot.session(index, id) {
                if flags.has(Flags::CALL) && flags.has(Flags::RETURN_TO) {
                    emit(node, thread, session, flags, head, &pending.name, now);
                }
            }
        }
    }
    pending.sessions.clear();
    pending.name.clear();
    pending.at = 0;
    thread.pending = pending;
}
