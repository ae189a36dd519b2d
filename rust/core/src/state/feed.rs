//! A session's rings as its drain knows them: how far each has been handed over.
#![forbid(unsafe_code)]

use crate::{
    ring::Ring,
    sync::{Arc, AtomicU64},
};

/// A scheduler's ring of a session, and how far its records have come.
pub struct Feed {
    /// The ring.
    pub ring: Arc<Ring>,
    /// The ring's tail when its records were last handed over.
    pub(crate) delivered: AtomicU64,
}

impl Feed {
    pub(crate) fn new(ring: Arc<Ring>) -> Self {
        Feed { ring, delivered: AtomicU64::new(0) }
    }
}
