//! The parts of a call's event that are the same for all sessions.
#![forbid(unsafe_code)]

use crate::{
    emit::Recipient,
    state::{flags::Flags, node::Node, session::Session, snapshot::Snapshot},
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
    /// Ticks of the event; 0 until an action needs them.
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
    /// A session that gets a record of the event.
    #[inline(always)]
    pub fn to<'s>(&self, session: &'s Arc<Session>, flags: Flags) -> Recipient<'s>
    where
        'a: 's,
    {
        Recipient { node: self.node, session, flags, now: self.now }
    }
}
