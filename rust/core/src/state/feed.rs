//! A session's ring with the position up to which its records are delivered.
//!
//! # Roles
//! The drain of the session writes `delivered`. Any thread reads it, by a mark.
//!
//! # States
//! `delivered` only grows, up to the ring's tail.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `delivered` | the drain, `Release`, after the consumer has the records | a mark, `Acquire` | the effects of the consumer are visible |
//!
//! # Checked by
//! `models::delivery` (loom), mutants `delivered_early`, `delivered_relaxed`, `spilled_delivered`.
#![forbid(unsafe_code)]

use crate::{
    ring::Ring,
    sync::{Arc, AtomicU64},
};

/// A scheduler's ring of a session, and how far its records are delivered.
pub struct Feed {
    /// The ring.
    pub ring: Arc<Ring>,
    /// The ring's tail at the last hand-over of records.
    pub(crate) delivered: AtomicU64,
}

impl Feed {
    pub(crate) fn new(ring: Arc<Ring>) -> Self {
        Feed { ring, delivered: AtomicU64::new(0) }
    }
}
