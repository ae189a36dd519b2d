//! Knowing when everything that was written has arrived.
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
    /// Remembers where the session's rings stand now.
    #[must_use]
    pub fn of(session: &Session) -> Mark {
        let with_head = |feed: Arc<Feed>| {
            let head = feed.ring.head();
            (feed, head)
        };
        Mark { heads: session.feeds().into_iter().map(with_head).collect() }
    }

    /// Whether the taker has everything that was written before the mark.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.heads.iter().all(|(feed, head)| feed.delivered.load(Acquire) >= *head)
    }
}
