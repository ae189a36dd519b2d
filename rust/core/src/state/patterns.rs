//! The message patterns of a session.
#![forbid(unsafe_code)]

use inviso_match::Program;
use std::sync::Arc;

/// Which messages a session traces, of the processes that have the flag (trace.md, `send/3`, `recv/3`).
#[derive(Clone, Default, Debug)]
pub enum Pattern {
    /// All messages.
    #[default]
    All,
    /// No message.
    Nothing,
    /// The messages that a match spec accepts.
    Spec(Arc<Program>),
}

/// A session's message patterns.
#[derive(Clone, Default, Debug)]
pub struct Patterns {
    /// For sent messages: the spec sees `[Receiver, Message]`.
    pub send: Pattern,
    /// For received messages: the spec sees `[Node, Sender, Message]`.
    pub receive: Pattern,
}
