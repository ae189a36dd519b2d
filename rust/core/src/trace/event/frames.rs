//! A thread's shadow stack: frames of calls whose end was not seen, and frames of calls that wait for their end.
#![forbid(unsafe_code)]

use super::{activation::Activation, context::CallContext};
use crate::state::{frame::Frame, plan::Entry, suspended_calls::PendingCall, thread::Thread};

/// Drops frames with the address of a call that begins: the end of their calls was not seen.
#[cold]
#[inline(never)]
pub(super) fn drop_stale(thread: &mut Thread, at: usize) {
    while is_top(thread, at) {
        thread.stack.pop();
    }
}

/// Whether the newest frame is one of the call with this address.
#[inline(always)]
pub(super) fn is_top(thread: &Thread, at: usize) -> bool {
    thread.stack.last().is_some_and(|frame| frame.at == at)
}

/// Drops the frames above those of a call that ends; `false` if the call has none.
#[cold]
#[inline(never)]
pub(super) fn uncover(thread: &mut Thread, at: usize) -> bool {
    match thread.stack.iter().rposition(|f| f.at == at) {
        Some(top) => {
            thread.stack.truncate(top + 1);
            true
        }
        None => false,
    }
}

/// Keeps what is to be done at the call's end: on the shadow stack, or with the node for a call that can be suspended.
#[inline(always)]
pub(super) fn await_end<A: Activation>(
    context: CallContext<'_, A>, thread: &mut Thread, entry: &Entry, exit_actions: u16,
) {
    let CallContext { node, call, at, now, .. } = context;
    if exit_actions == 0 {
    } else if call.is_generator() {
        node.suspended_calls.keep(at, entry.id, PendingCall { exit_actions, start: now });
    } else {
        thread.stack.push(Frame::new(at, entry.id, entry.index, exit_actions, now));
    }
}
