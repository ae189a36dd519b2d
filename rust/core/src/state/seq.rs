//! A node's data of sequential tracing.
//!
//! # Roles
//! Traced threads read. A thread that sets the system tracer writes.
//!
//! # States
//! `place` is 0 without a system tracer; see `trace::seq`.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `place` | a setter of the tracer, `Release`, under the lock of `tracer` | traced threads, `Acquire` | a reader sees everything from before the change |
//!
//! `overflows` is a number, `Relaxed`.
//!
//! # Checked by
//! `models::seq` (loom), `tests/seq.rs`.
#![forbid(unsafe_code)]

use super::{session::Session, token_liveness::TokenLiveness};
use crate::sync::{AtomicU64, Mutex};
use std::sync::Arc;

/// Sequential tracing of a node.
#[derive(Default)]
pub(crate) struct Seq {
    pub liveness: Arc<TokenLiveness>,
    /// How often a process's counter could not grow.
    pub overflows: AtomicU64,
    /// The session of the system tracer, which gets the events.
    pub tracer: Mutex<Option<Arc<Session>>>,
    /// The place of that session in the snapshot, see `trace::seq`. Written under the lock.
    pub place: AtomicU64,
}
