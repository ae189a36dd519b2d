//! A mark waits until all records that were written before it are delivered.
//!
//! # Roles
//! Any thread makes a mark and asks it. Drains move [`Feed::delivered`].
//!
//! # States
//! A mark is open until every ring has delivered what it held at the mark; then it has passed for good.
//!
//! # Orderings
//! Those of [`super::drain`]: `delivered`, and the ring's `head`.
//!
//! # Checked by
//! `models::delivery` (loom); mutants `delivered_early`, `delivered_relaxed`; `tests/drain.rs`.
#![forbid(unsafe_code)]

use crate::{
    state::{feed::Feed, session::Session},
    sync::{Arc, Ordering::Acquire},
};

/// How far each ring of a session had been written at one moment.
pub struct Mark {
    heads: Vec<(Arc<Feed>, u64)>,
}

impl Mark {
    /// Reads how far the session's rings are written now.
    #[must_use]
    pub fn of(session: &Session) -> Mark {
        let with_head = |feed: Arc<Feed>| {
            let head = feed.ring.head();
            (feed, head)
        };
        Mark { heads: session.feeds().into_iter().map(with_head).collect() }
    }

    /// Whether the consumer has all records that were written before the mark.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.heads.iter().all(|(feed, head)| feed.delivered.load(Acquire) >= *head)
    }
}
