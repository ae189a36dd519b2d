//! The limits after which a trace port closes by itself.

use std::time::{Duration, Instant};

/// Why a port closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It wrote as many messages as this limit.
    Limit(u64),
    /// More messages than the first number came within a time of the second number, in milliseconds.
    Rate(u64, u64),
    /// This many messages were lost.
    Lost(u64),
}

/// Counts messages against a limit, a rate and a bound of lost messages. The first one that is reached is the reason.
#[derive(Default)]
pub struct Limits {
    limit: Option<u64>,
    rate: Option<(u64, u64)>,
    most_lost: Option<u64>,
    seen: u64,
    lost: u64,
    in_window: u64,
    begun: Option<Instant>,
    why: Option<Why>,
}

impl Limits {
    /// Changes the limits that are not `None`. A limit counts from now on. A rate is a number of messages in a number of
    /// milliseconds.
    pub fn change(&mut self, limit: Option<u64>, rate: Option<(u64, u64)>, lost: Option<u64>) {
        if limit.is_some() {
            (self.limit, self.seen) = (limit, 0);
        }
        if rate.is_some() {
            (self.rate, self.in_window) = (rate, 0);
        }
        self.most_lost = lost.or(self.most_lost);
    }

    /// Whether there is a limit or a rate.
    pub fn is_set(&self) -> bool {
        self.limit.is_some() || self.rate.is_some()
    }

    /// Why nothing more is written; `None` while the port writes.
    pub fn why(&self) -> Option<Why> {
        self.why
    }

    /// Counts one message. Uses the time now: the message's own timestamp may be another event's if the session writes no
    /// timestamps.
    pub fn count_message(&mut self) {
        self.seen += 1;
        if let Some(limit) = self.limit.filter(|limit| self.seen >= *limit) {
            self.why = self.why.or(Some(Why::Limit(limit)));
        }
        if let Some((most, milliseconds)) = self.rate {
            let (now, span) = (Instant::now(), Duration::from_millis(milliseconds));
            if self.begun.is_none_or(|begun| now.saturating_duration_since(begun) >= span) {
                (self.begun, self.in_window) = (Some(now), 0);
            }
            self.in_window += 1;
            if self.in_window > most {
                self.why = self.why.or(Some(Why::Rate(most, milliseconds)));
            }
        }
    }

    /// Counts lost messages.
    pub fn count_lost(&mut self, number: u64) {
        self.lost = self.lost.saturating_add(number);
        if self.most_lost.is_some_and(|most| self.lost > most) {
            self.why = self.why.or(Some(Why::Lost(self.lost)));
        }
    }
}
