//! What a session traces of messages.
#![forbid(unsafe_code)]

use inviso_match::Program;
use std::sync::Arc;

/// Which messages a session traces, of the processes that have the flag (trace.md, `send/3`, `recv/3`).
#[derive(Clone, Default, Debug)]
pub enum Pattern {
    /// All.
    #[default]
    All,
    /// None.
    Nothing,
    /// Those that a match spec takes.
    Spec(Arc<Program>),
}

/// A session's patterns for messages.
#[derive(Clone, Default, Debug)]
pub struct Patterns {
    /// For those that are sent: the spec sees `[Receiver, Message]`.
    pub send: Pattern,
    /// For those that arrive: the spec sees `[Node, Sender, Message]`.
    pub receive: Pattern,
}
