//! Calls that an exception has left: their `return_to` waits for the frame that handles it.
#![forbid(unsafe_code)]

use super::{
    accepted,
    activation::{Activation, Exit},
};
use crate::{
    emit::{deferred, emit, Recipient},
    record::header::Head,
    state::{
        flags::Flags,
        node::Node,
        snapshot::Snapshot,
        thread::{Thread, SCRATCH},
    },
};
use inviso_term::{etf::Encoder, record::Kind};

/// A frame handles an exception. If calls that one has left wait, the frame that it had reached resumes: either that frame handles
/// this exception, or C code had already swallowed the earlier one. So the host reports every call that an exception leaves while
/// [`Thread::waits_for_handler`].
#[inline(always)]
pub fn on_handled(node: &Node, thread: &mut Thread) {
    if !thread.pending.sessions.is_empty() {
        let inside = thread.shared.section.enter();
        let snapshot = node.snapshot.load_inside(&inside);
        emit_pending(node, thread, snapshot);
        drop(inside);
        if !thread.deferred.is_empty() {
            deferred::run_events(node, thread);
        }
    }
}

/// Writes a name into a buffer, in place of its contents.
pub(super) fn write_name(name: &mut Vec<u8>, write: impl FnOnce(&mut Encoder<'_>)) {
    name.resize(SCRATCH, 0);
    let mut out = Encoder::new(name);
    write(&mut out);
    let len = out.len();
    name.truncate(len);
}

/// An event after calls were left by an exception. If the awaited frame is unwound itself, its caller is awaited instead. Any other
/// event, such as the unwinding of another frame, means that the awaited frame has resumed.
#[cold]
#[inline(never)]
pub(super) fn settle_pending<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, call: &A, exit: Option<(Exit, usize)>,
) {
    if exit != Some((Exit::Unwind, thread.pending.at)) {
        return emit_pending(node, thread, snapshot);
    }
    let mut scratch = std::mem::take(&mut thread.scratch);
    scratch.resize(scratch.len().max(SCRATCH), 0);
    let mut out = Encoder::new(&mut scratch);
    thread.pending.at = call.caller(&mut out);
    thread.pending.name.clear();
    thread.pending.name.extend_from_slice(out.written());
    thread.scratch = scratch;
}

/// As [`settle_pending`], when a call begins or is resumed; also runs the deferred work.
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

/// Emits the `return_to` messages that wait.
#[cold]
#[inline(never)]
fn emit_pending(node: &Node, thread: &mut Thread, snapshot: &Snapshot) {
    let mut pending = std::mem::take(&mut thread.pending);
    let now = node.clock.ticks();
    if let Some(of) = pending.of.take().filter(|_| pending.at != 0) {
        let head = Head { tracee: of.pid, kind: Kind::ReturnTo, what: 0, more: 0 };
        for (index, id) in pending.sessions.drain(..) {
            let flags = of.flags(index);
            if let Some(session) = snapshot.session(index, id) {
                if flags.has(Flags::CALL) && flags.has(Flags::RETURN_TO) {
                    emit(Recipient { node, session, flags, now }, thread, head, &pending.name);
                }
            }
        }
    }
    pending.sessions.clear();
    pending.name.clear();
    pending.at = 0;
    thread.pending = pending;
}
