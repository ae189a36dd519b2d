//! A thread switches to another stack of calls: a greenlet, a fiber.
#![forbid(unsafe_code)]

use crate::state::{
    frame::Timer,
    node::Node,
    snapshot::Snapshot,
    thread::{Pending, Thread},
};

/// A thread's data of the calls on one stack while another stack runs. Empty if no traced call is open on it.
#[derive(Default)]
pub struct Suspended {
    pub(crate) stack: Vec<crate::state::frame::Frame>,
    pub(crate) timers: Vec<Timer>,
    pub(crate) pending: Pending,
}

impl Suspended {
    /// Whether no traced call is open on the stack.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stack.is_empty() && self.pending.sessions.is_empty()
    }
}

/// Resumes the calls of `other`, which gets the calls that ran until now. Time and memory since the last event are charged to the stack
/// that is left. `allocated` is the host's count of bytes, see [`Activation::allocated`](super::Activation::allocated).
pub fn on_switch(node: &Node, thread: &mut Thread, other: &mut Suspended, allocated: u64) {
    let now = node.clock.ticks();
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    let lives = |index: usize, timer: &Timer, snapshot: &Snapshot| {
        u16::try_from(index).is_ok_and(|index| snapshot.has_session(index, timer.id))
    };
    for (index, timer) in thread.timers.iter_mut().enumerate() {
        if lives(index, timer, snapshot) {
            timer.pause(now, allocated);
        } else {
            *timer = Timer::default();
        }
    }
    drop(inside);
    std::mem::swap(&mut thread.stack, &mut other.stack);
    std::mem::swap(&mut thread.timers, &mut other.timers);
    std::mem::swap(&mut thread.pending, &mut other.pending);
    thread.timers.iter_mut().for_each(|timer| timer.resume(now, allocated));
}
