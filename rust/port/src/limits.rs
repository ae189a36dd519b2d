//! How much a trace port takes before it closes by itself.

use std::time::{Duration, Instant};

/// Why it took no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// So many messages were asked for.
    Limit(u64),
    /// More messages than that in so many milliseconds.
    Rate(u64, u64),
    /// So many messages were lost.
    Lost(u64),
}

/// Counts messages against a limit, a rate, and a bound of lost ones; the first that is passed is the last word.
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
    /// Sets what is not `None`; a limit counts from here on, a rate is of messages in so many milliseconds.
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

    /// Why nothing more is taken.
    pub fn why(&self) -> Option<Why> {
        self.why
    }

    /// One message more. (Its own time may be that of another, where nobody asked for time stamps.)
    pub fn saw(&mut self) {
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

    /// So many messages were lost.
    pub fn lost(&mut self, number: u64) {
        self.lost = self.lost.saturating_add(number);
        if self.most_lost.is_some_and(|most| self.lost > most) {
            self.why = self.why.or(Some(Why::Lost(self.lost)));
        }
    }
}
