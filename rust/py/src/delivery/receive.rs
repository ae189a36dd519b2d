//! A process waits for a message in its mailbox, and brings in what waits for it elsewhere.
//!
//! # Roles
//! The mailbox's process waits. Any attached thread brings in.
//!
//! # States
//! See [`Mailbox`].
//!
//! # Orderings
//! A waiting thread holds the queue's lock until it sleeps, so it misses no message.
//!
//! # Checked by
//! `tests/python/test_trace_messages.py`, `tests/python/test_trace_order.py`.

use super::pump::pump_all;
use crate::state::{
    above::above,
    lock,
    mailbox::{Letter, Mailbox},
};
use pyo3::prelude::*;
use std::{
    sync::Weak,
    time::{Duration, Instant},
};

use inviso_core::host::drain::Mark;

/// How long a wait lasts before signals are checked.
const SIGNALS: Duration = Duration::from_millis(50);
/// How long a wait lasts before rings are read, while sessions feed the mailbox.
const RINGS: Duration = Duration::from_millis(2);

impl Mailbox {
    /// Brings in the posted messages, and the records that waited in the rings of the feeding sessions at the call. It
    /// may leave out what is written meanwhile, so that a fast producer can't hold it.
    ///
    /// # Errors
    /// The error of making the messages (no memory), or of a signal's handler.
    pub fn pump(&self, py: Python<'_>) -> PyResult<()> {
        self.bring_in(py, true).map(drop)
    }

    /// The same, or one step of it; returns whether any session feeds this mailbox.
    fn bring_in(&self, py: Python<'_>, whole: bool) -> PyResult<bool> {
        let feeders: Vec<_> = {
            let mut feeders = lock(&self.feeders);
            feeders.retain(|f| f.strong_count() > 0);
            feeders.iter().filter_map(Weak::upgrade).collect()
        };
        let marked = if whole { &feeders[..] } else { &[] };
        let marks: Vec<_> = marked.iter().map(|delivery| Mark::of(&delivery.session)).collect();
        pump_all(py, self, &feeders, &marks)?;
        Ok(!feeders.is_empty())
    }

    /// Waits for a message that `matches` accepts; `None` when the time is over or `open` says that there will be no
    /// more.
    ///
    /// # Errors
    /// The error of `matches`, `open` or a signal handler.
    pub fn receive(
        &self, py: Python<'_>, matches: Option<&Bound<'_, PyAny>>, timeout: Option<Duration>,
        open: impl Fn() -> PyResult<bool>,
    ) -> PyResult<Option<Letter>> {
        let deadline = timeout.map(|t| Instant::now() + t);
        let mut from = 0;
        loop {
            let was_open = open()?;
            // a message in the queue came first, and a pump releases the GIL
            if let Some(message) = self.take(py, matches, &mut from)? {
                return Ok(Some(message));
            }
            // without `matches` the first message is enough, and the others take less space in the rings
            let fed = self.bring_in(py, matches.is_some())?;
            if let Some(message) = self.take(py, matches, &mut from)? {
                return Ok(Some(message));
            }
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if !was_open || left == Some(Duration::ZERO) {
                return Ok(None);
            }
            let slice = if fed { RINGS } else { SIGNALS }.min(left.unwrap_or(SIGNALS));
            py.detach(|| {
                let queue = lock(&self.queue);
                if queue.len() <= from && !self.has_posted() {
                    drop(self.arrived.wait_timeout(queue, slice));
                }
            });
            py.check_signals()?;
            (above().settle)(); // nothing else may run in the main thread meanwhile
        }
    }
}
