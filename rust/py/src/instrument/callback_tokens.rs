//! Tokens of callbacks. A callback runs in the process of its thread, with the token of the process that scheduled it.
//! The thread gets its own token back afterwards.

use super::tokens;
use crate::state::thread::{Lent, ThreadState};
use inviso_core::host::{messages::About, seq::Carried};
use inviso_cpython::{frames::frame::Frame, object::held::Held};

/// How a callback gets its token.
pub enum CallbackToken {
    /// By a message, which may be traced.
    Message(Carried),
    /// Without a message: it was scheduled in the loop's own thread.
    Unseen(Carried),
    /// Not at all: the callback is the library's own.
    None,
}

/// Set in the key of a callback whose end is never missed. No frame has such a key.
pub const SURE: usize = 1;

/// Whether a callback whose beginning was seen runs on this thread. Ends the entry of a callback whose frame ended
/// unseen, for example because a reset removed the instruments.
///
/// # Safety
/// Attached.
pub unsafe fn is_inside(state: &mut ThreadState) -> bool {
    let runs = |key: usize| {
        // SAFETY: the caller promises that the thread is attached.
        let innermost = unsafe { Frame::current_python(inviso_cpython::interpreter::tstate()) };
        // SAFETY: the caller of a frame that runs also runs.
        let mut frames = std::iter::successors(innermost, |frame| unsafe { frame.caller() });
        key & SURE != 0 || frames.any(|frame| frame.address() == key)
    };
    if let Some(ended) = state.lent.iter().map(|lent| lent.key).find(|key| !runs(*key)) {
        end(state, ended);
    }
    !state.lent.is_empty()
}

/// A callback is about to run. No other callback on this thread has the same `key`; for example, it is the address of
/// the frame of `Handle._run`. `message` makes the message by which it came.
///
/// # Safety
/// Attached.
pub unsafe fn begin(
    state: &mut ThreadState, key: usize, way: CallbackToken, message: impl FnOnce(&mut ThreadState) -> Held,
) {
    if !state.host.node.seq_in_use() {
        return;
    }
    end(state, key); // a frame that ended unseen has left its own
    let own = state.thread.own().clone();
    let had = state.host.node.seq_copy(&own);
    state.lent.push(Lent { key, had, by_program: !matches!(way, CallbackToken::None) });
    match way {
        CallbackToken::None => {}
        CallbackToken::Unseen(carried) => state.host.node.seq_lend(&own, carried),
        CallbackToken::Message(carried) => {
            let message = tokens::message_for(state, &carried, message);
            // SAFETY: held; the thread is attached.
            let write = unsafe { tokens::writing(message.as_ptr()) };
            state.host.node.seq_receive(&mut state.thread, About::Other(&own), carried, write);
        }
    }
}

/// The callback of this key has run.
pub fn end(state: &mut ThreadState, key: usize) {
    let Some(at) = state.lent.iter().rposition(|lent| lent.key == key) else { return };
    if let Some(Lent { had, .. }) = state.lent.drain(at..).next() {
        let own = state.thread.own().clone();
        state.host.node.seq_exchange(&own, had);
    }
}
