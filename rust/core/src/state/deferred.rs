//! Work that a trace point queues inside the section and that runs after leaving it: see `emit::deferred`.
#![forbid(unsafe_code)]

use super::{flags::Flags, session::Session};
use crate::{record::header::Head, sync::AtomicBool};
use inviso_term::record::Kind;
use std::sync::Arc;

/// A piece of deferred work.
pub(crate) enum Deferred {
    /// Creates a message.
    Values(Values),
    /// Calls a tracer module with an event.
    Event {
        session: Arc<Session>,
        header: [u64; 4],
        payload: Vec<u8>,
        /// Whether the module has already accepted the event.
        asked: bool,
    },
    /// Asks a tracer module about a call or a message, and continues with the accepted kinds.
    Question(Question),
}

/// A call's message, still without its arguments or its return value.
pub(crate) struct Values {
    pub session: Arc<Session>,
    pub flags: Flags,
    pub head: Head,
    pub now: u64,
    /// The term that a match spec adds to the message.
    pub extra: Vec<u8>,
    /// See `emit::carried`: the timestamp doesn't include the time for the arguments.
    pub carried: Option<u64>,
    pub asked: bool,
}

/// A question to a tracer module, before any match spec runs.
pub(crate) struct Question {
    pub session: Arc<Session>,
    pub kind: Kind,
    pub tracee: u64,
    /// For a call: the kinds of its messages.
    pub which: u16,
    /// For a call's meta messages: set if the tracer answers that it no longer accepts events.
    pub meta_lost: Option<Arc<AtomicBool>>,
}
