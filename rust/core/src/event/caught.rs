//! Calls that an exception has left wait for the frame that goes on.
#![forbid(unsafe_code)]

use super::{Activation, Exit};
use crate::{
    emit::{emit, Head},
    flags::Flags,
    late,
    node::Node,
    slots::Snapshot,
    thread::Thread,
};
use inviso_term::{etf::Encoder, record::Kind};

/// An exception is caught by `call`, which goes on.
#[inline(always)]
pub fn on_handled<A: Activation>(node: &Node, thread: &mut Thread, call: &A) {
    if !thread.pending.sessions.is_empty() {
        let inside = thread.shared.section.enter();
        let snapshot = node.snapshot.load_inside(&inside);
        thread.pending.at = call.address();
        goes_on(node, thread, snapshot, Some(call));
        drop(inside);
        if !thread.late.is_empty() {
            late::take_events(node, thread);
        }
    }
}

/// How large a name may become; longer ones are cut by the encoder's own rule.
pub(super) const SCRATCH: usize = 4096;

/// Puts a name into a buffer.
pub(super) fn write_name(name: &mut Vec<u8>, write: impl FnOnce(&mut Encoder<'_>)) {
    name.resize(SCRATCH, 0);
    let mut out = Encoder::new(name);
    write(&mut out);
    let len = out.len();
    name.truncate(len);
}

/// Calls that an exception has left wait for the frame that goes on. If the host did not see it caught, the next event
/// tells: an unwinding of that frame means it was not; anything else means that this frame goes on.
#[cold]
#[inline(never)]
pub(super) fn settle_pending<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, call: &A, exit: Option<(Exit, usize)>,
) {
    if let Some((Exit::Unwind, at)) = exit {
        if at == thread.pending.at {
            let mut scratch = std::mem::take(&mut thread.scratch);
            scratch.resize(scratch.len().max(SCRATCH), 0);
            let mut out = Encoder::new(&mut scratch);
            thread.pending.at = call.caller(&mut out);
            thread.pending.name.clear();
            thread.pending.name.extend_from_slice(out.written());
            thread.scratch = scratch;
        }
        return;
    }
    goes_on::<A>(node, thread, snapshot, None);
}

/// The same where a call begins or goes on.
#[cold]
#[inline(never)]
pub(super) fn settle<A: Activation>(node: &Node, thread: &mut Thread, code: usize, call: &A) {
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    settle_pending(node, thread, snapshot, call, None);
    drop(inside);
    if !thread.late.is_empty() {
        late::take(node, thread, code, call);
    }
}

#[cold]
#[inline(never)]
pub(super) fn goes_on<A: Activation>(node: &Node, thread: &mut Thread, snapshot: &Snapshot, call: Option<&A>) {
    let mut pending = std::mem::take(&mut thread.pending);
    let now = node.moment(&mut thread.turn);
    if let Some(call) = call {
        write_name(&mut pending.name, |out| {
            call.name(out);
        });
        call.identify(thread);
    }
    if pending.at != 0 {
        for (index, id) in pending.sessions.drain(..) {
            let flags = thread.current.flags(index);
            if let Some(session) = snapshot.session(index, id) {
                if flags.has(Flags::CALL) && flags.has(Flags::RETURN_TO) {
                    emit(node, thread, session, flags, Head::new(thread, Kind::ReturnTo, 0), &pending.name, now);
                }
            }
        }
    }
    pending.sessions.clear();
    pending.name.clear();
    pending.at = 0;
    thread.pending = pending;
}
