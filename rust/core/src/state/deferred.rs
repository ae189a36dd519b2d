//! What a trace point leaves to be done when the section has been left: see `emit::deferred`.
#![forbid(unsafe_code)]

use super::{flags::Flags, session::Session};
use crate::{record::header::Head, sync::AtomicBool};
use inviso_term::record::Kind;
use std::sync::Arc;

/// What is still to be done.
pub(crate) enum Deferred {
    /// A message is made.
    Values(Values),
    /// A tracer module is told.
    Event {
        session: Arc<Session>,
        header: [u64; 4],
        payload: Vec<u8>,
        /// Whether it has said that it wants to be.
        asked: bool,
    },
    /// A tracer module is asked about a call or a message, and what is set on that goes on.
    Question(Question),
}

/// A call's message without its arguments, or without the value that it returned.
pub(crate) struct Values {
    pub session: Arc<Session>,
    pub flags: Flags,
    pub head: Head,
    pub now: u64,
    /// What a match spec adds to the message, as a term.
    pub extra: Vec<u8>,
    /// See `emit::carried`: what the arguments take is not in the stamp.
    pub carried: Option<u64>,
    pub asked: bool,
}

/// What a tracer module is asked before any match spec runs.
pub(crate) struct Question {
    pub session: Arc<Session>,
    pub kind: Kind,
    pub tracee: u64,
    /// Of a call, the kinds of messages that it is about.
    pub which: u16,
    /// Of a call's meta messages, where an answer that the tracer is none any more is noted.
    pub meta_lost: Option<Arc<AtomicBool>>,
}
