//! The frames of a thread's calls: those of calls whose end was not seen, and what a call's end is awaited for.
#![forbid(unsafe_code)]

use super::activation::Activation;
use crate::state::{frame::Frame, node::Node, plan::Entry, suspended_calls::PendingCall, thread::Thread};

/// Frames with the address of a call that begins belong to calls whose end was not seen.
#[cold]
#[inline(never)]
pub(super) fn drop_stale(thread: &mut Thread, at: usize) {
    while thread.stack.last().is_some_and(|f| f.at == at) {
        thread.stack.pop();
    }
}

/// Drops what lies above the frames of a call that ends; `false` if it has none.
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

/// Remembers what is wanted at a call's end.
#[inline(always)]
pub(super) fn await_end<A: Activation>(
    node: &Node, thread: &mut Thread, entry: &Entry, exit_actions: u16, call: &A, at: usize, now: u64,
) {
    if exit_actions == 0 {
    } else if call.is_generator() {
        node.suspended_calls.keep(at, entry.id, PendingCall { exit_actions, start: now });
    } else {
        thread.stack.push(Frame::new(at, entry.id, entry.index, exit_actions, now));
    }
}
