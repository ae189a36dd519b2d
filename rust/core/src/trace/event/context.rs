//! The parts of a call's event that are the same for all sessions.
#![forbid(unsafe_code)]

use super::activation::Activation;
use crate::{
    emit::Recipient,
    state::{flags::Flags, frame::exit_actions, node::Node, session::Session, snapshot::Snapshot},
};
use std::sync::Arc;

/// A call that begins, is resumed, is suspended or ends.
pub(super) struct CallContext<'a, A> {
    pub node: &'a Node,
    /// The snapshot that is current in the section.
    pub snapshot: &'a Snapshot,
    pub call: &'a A,
    /// The call's address: see [`Activation::address`](super::Activation::address).
    pub at: usize,
    /// Ticks of the event; 0 until an action needs them: see [`CallContext::read_clock`].
    pub now: u64,
}

impl<A> Clone for CallContext<'_, A> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for CallContext<'_, A> {}

impl<'a, A> CallContext<'a, A> {
    /// Reads the clock, unless the event has its time already.
    #[inline(always)]
    pub fn read_clock(&mut self) {
        if self.now == 0 {
            self.now = self.node.clock.ticks();
        }
    }

    /// What a call is charged by: ticks for [`exit_actions::TIME`], or bytes that the thread has allocated.
    #[inline(always)]
    pub fn amount(&mut self, exit_actions: u16) -> u64
    where
        A: Activation,
    {
        if exit_actions != exit_actions::TIME {
            return self.call.allocated();
        }
        self.read_clock();
        self.now
    }

    /// A session that gets a record of the event.
    #[inline(always)]
    pub fn to<'s>(&self, session: &'s Arc<Session>, flags: Flags) -> Recipient<'s>
    where
        'a: 's,
    {
        Recipient { node: self.node, session, flags, now: self.now }
    }
}
