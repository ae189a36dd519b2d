//! What a node keeps of sequential tracing.
#![forbid(unsafe_code)]

use super::{session::Session, token_liveness::TokenLiveness};
use crate::sync::{AtomicU64, Mutex};
use std::sync::Arc;

/// Sequential tracing of a node.
#[derive(Default)]
pub(crate) struct Seq {
    pub liveness: Arc<TokenLiveness>,
    pub overflows: AtomicU64,
    /// Where events go: the session that stands for the system tracer.
    pub tracer: Mutex<Option<Arc<Session>>>,
    /// Where that stands in the snapshot, see `trace::seq`. Written under the lock.
    pub place: AtomicU64,
}
