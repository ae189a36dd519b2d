//! Sequential tracing: a token that belongs to a process and travels with each message that it sends.
//!
//! Rules: seq_trace.md, its serial algorithm as written; gold README 36 to 42. Hosts call [`Node::seq_send`] where a message
//! leaves its sender, keep what it answers with the message, and call [`Node::seq_receive`] where it is taken.
//!
//! [`Node::seq_send`]: crate::state::node::Node::seq_send
//! [`Node::seq_receive`]: crate::state::node::Node::seq_receive
//!
//! # Roles
//! The thread that runs a process changes its standing; whoever starts it, or resets all of them, does too. A short lock each;
//! nothing else is locked under it. Whoever tells an event looks for the system tracer inside a section, in the snapshot; one that is
//! a module is called, and that outside.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | the era, see [`token_liveness`](crate::state::token_liveness) | reset, `SeqCst` | everybody, `Acquire` | a token of an earlier era is empty, in a process and in a message |
//! | the system tracer's place | who sets it, `Release` | who tells an event, `Acquire` | a snapshot that is looked at after it has that session, unless it has ended |
//!
//! A reset only begins another era: what is left of earlier ones is found to be empty where it is looked at, so that no token can
//! slip past a reset between its parts.
//!
//! # Checked by
//! `models::seq` (loom); mutant `seq_revived`; `tests/seq.rs`.
#![forbid(unsafe_code)]

mod receive;
mod send;
mod tokens;
mod tracer;

pub use crate::state::token::{flags, label, Carried, Label, Token, TokenGuard, END, FAR, LABEL};
pub use send::Sending;
