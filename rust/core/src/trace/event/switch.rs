//! Another stack of calls goes on in a thread: a greenlet, a fiber.
#![forbid(unsafe_code)]

use crate::state::{
    frame::Timer,
    node::Node,
    snapshot::Snapshot,
    thread::{Pending, Thread},
};

/// What a thread keeps of the calls of one stack while another one runs on it. Empty for a stack on which no traced call is under way.
#[derive(Default)]
pub struct Suspended {
    pub(crate) stack: Vec<crate::state::frame::Frame>,
    pub(crate) timers: Vec<Timer>,
    pub(crate) pending: Pending,
}

impl Suspended {
    /// Whether no traced call is under way there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stack.is_empty() && self.pending.sessions.is_empty()
    }
}

/// The thread goes on with the calls of `other`, which gets those that ran until now. What ran since the last event is charged to
/// the stack that is left. `allocated` is the host's count of bytes, see [`Activation::allocated`](super::Activation::allocated).
pub fn on_switch(node: &Node, thread: &mut Thread, other: &mut Suspended, allocated: u64) {
    let now = node.moment(&mut thread.turn);
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
