//! Time: raw ticks on the hot path, nanoseconds and wall time when something is read.
#![forbid(unsafe_code)]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The clock of one node. A tick is whatever the cheapest trustworthy counter counts (the TSC where it is
/// invariant, else the operating system's monotonic clock).
pub struct Clock {
    source: quanta::Clock,
    raw: u64,
    monotonic: u64,
    wall: u64,
}

impl Clock {
    /// A clock whose monotonic nanoseconds begin at `monotonic` now, so that a host can line them up with its own.
    #[must_use]
    pub fn starting_at(monotonic: u64) -> Self {
        let source = quanta::Clock::new();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        let raw = source.raw();
        Clock { source, raw, monotonic, wall }
    }

    /// A clock that begins at 0.
    #[must_use]
    pub fn new() -> Self {
        let start = Instant::now();
        let mut clock = Self::starting_at(0);
        clock.monotonic = start.elapsed().as_nanos() as u64;
        clock
    }

    /// Now, in ticks.
    #[inline(always)]
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.source.raw()
    }

    /// How many nanoseconds a span of ticks took.
    #[must_use]
    pub fn nanos(&self, ticks: u64) -> u64 {
        self.source.delta_as_nanos(0, ticks)
    }

    /// Monotonic nanoseconds of a moment in ticks.
    #[must_use]
    pub fn monotonic(&self, ticks: u64) -> u64 {
        if ticks >= self.raw {
            self.monotonic + self.nanos(ticks - self.raw)
        } else {
            self.monotonic.saturating_sub(self.nanos(self.raw - ticks))
        }
    }

    /// Wall clock nanoseconds since 1970 of a moment in ticks.
    #[must_use]
    pub fn wall(&self, ticks: u64) -> u64 {
        self.wall + self.monotonic(ticks) - self.monotonic
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_grow_and_line_up_with_the_start() {
        let clock = Clock::starting_at(5_000);
        let (a, b) = (clock.ticks(), clock.ticks());
        assert!(b >= a);
        assert!(clock.monotonic(a) >= 5_000);
        let before = Instant::now();
        let t = clock.ticks();
        while before.elapsed().as_millis() < 20 {}
        let span = clock.nanos(clock.ticks() - t);
        assert!((19_000_000..40_000_000).contains(&span), "{span}");
    }
}
