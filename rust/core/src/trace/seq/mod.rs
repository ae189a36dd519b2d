//! Sequential tracing: a token that belongs to a process and travels with each message that it sends.
//!
//! Rules: seq_trace.md, its serial algorithm as written; gold README 36 to 42. A host calls [`Node::seq_send`] when a message leaves
//! its sender, keeps the answer with the message, and calls [`Node::seq_receive`] when the message is received.
//!
//! [`Node::seq_send`]: crate::state::node::Node::seq_send
//! [`Node::seq_receive`]: crate::state::node::Node::seq_receive
//!
//! # Roles
//! The thread that runs a process changes its [`TokenState`](crate::state::token::TokenState); so do a thread that starts the process,
//! and a reset. Each takes a short lock, under which nothing else is locked. A thread that emits an event reads the system tracer from
//! the snapshot, inside a section. A tracer module is called outside the section.
//!
//! # States
//! A process has no token, a token, or a token of an earlier era, which counts as none. A message carries nothing, an empty token, or a
//! token with its era ([`Carried`]).
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | the era, see [`token_liveness`](crate::state::token_liveness) | reset, `SeqCst` | all threads, `Acquire` | a token of an earlier era is empty, in a process and in a message |
//! | the system tracer's place | [`Node::set_seq_tracer`](crate::state::node::Node::set_seq_tracer), `Release` | a thread that emits an event, `Acquire` | a snapshot that is read afterwards has that session, unless it has ended |
//!
//! A reset only begins another era. Tokens of earlier eras are recognised as empty when they are read, so no token escapes a reset.
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
