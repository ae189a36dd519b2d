//! Time: raw ticks on the hot path, nanoseconds and wall time for readers.
//!
//! The length of a tick is measured once. Over hours its error, and adjustments of the machine's clock, would show. So a reader calls
//! [`Clock::follow`], which reads the operating system's clocks now and then. Each such reading begins a new *stretch* of time. Ticks
//! become nanoseconds by the stretch that they fall into. Nanoseconds never go back as ticks grow: a stretch begins at the end of the
//! last one, and a stretch that is ahead of the operating system runs slower.
//!
//! # Roles
//! Any thread reads ticks. Readers of records convert ticks and add stretches.
//!
//! # States
//! `stretches` has at least one stretch after the constructor, and [`REMEMBERED`] at most. A stretch never changes.
//!
//! # Orderings
//! The lock's. `due` is `Relaxed`: a hint for the next reader, which checks the clock under the lock.
//!
//! # Checked by
//! The tests below.
#![deny(unsafe_code)] // but in `tsc`

mod tsc;

use crate::sync::{AtomicU64, Mutex, Ordering::Relaxed, Unpoisoned};

use std::{
    collections::VecDeque,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The clock of one node. Its ticks come from the cheapest trustworthy counter: the TSC if it is invariant, the system counter on
/// aarch64, else the operating system's monotonic clock. No counter is ordered with loads: a tick may be read some hundred
/// instructions early. From a cause in one thread to its effect in another one Python code runs, which is longer.
pub struct Clock {
    counter: Counter,
    started: Instant,
    /// Monotonic nanoseconds at `started`.
    base: u64,
    /// Reads the CPU time of the calling thread, if the system has such a clock.
    cpu: Option<fn() -> u64>,
    /// Ticks at which the next reading of the system's clocks is due.
    due: AtomicU64,
    stretches: Mutex<VecDeque<Stretch>>,
}

/// The counter of ticks, the same for the whole program.
pub(crate) struct Counter {
    source: quanta::Clock,
    /// Whether the source's ticks are the processor's own.
    processor: bool,
}

impl Counter {
    pub fn new() -> Self {
        let source = quanta::Clock::new();
        let (before, ticks, after) = (tsc::read(), source.raw(), tsc::read());
        Counter { source, processor: before < ticks && ticks < after }
    }

    /// Now.
    #[inline(always)]
    pub fn read(&self) -> u64 {
        // as the source does, but without a call
        if self.processor {
            tsc::read()
        } else {
            self.read_source()
        }
    }

    // on other processors each tick is read here
    #[cfg_attr(all(target_arch = "x86_64", not(inviso_portable)), cold, inline(never))]
    fn read_source(&self) -> u64 {
        self.source.raw()
    }

    /// Now, read before everything that the caller loads afterwards.
    pub fn read_before_loads(&self) -> u64 {
        let now = self.read();
        tsc::settle();
        now
    }
}

/// How ticks become nanoseconds, from one reading of the system's clocks to the next.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    ticks: u64,
    monotonic: u64,
    /// Wall clock nanoseconds since 1970 at the same moment.
    wall: u64,
    /// The length of a tick, in billionths of the measured length. Less while this clock is ahead.
    speed: u64,
}

/// The time between two readings. A stretch that is ahead is level again after this time.
const APART: Duration = Duration::from_millis(50);

/// How many stretches are kept. Older ticks are converted by the first.
const REMEMBERED: usize = 1024;

/// The speed of a stretch that is not ahead.
const LEVEL: u64 = 1_000_000_000;

impl Clock {
    /// A clock whose monotonic nanoseconds are `monotonic` now, so that a host can align them with its own clock.
    #[must_use]
    pub fn starting_at(monotonic: u64) -> Self {
        Self::lined_up(Instant::now(), monotonic)
    }

    /// A clock whose monotonic nanoseconds were `monotonic` at the moment `started`.
    #[must_use]
    pub fn lined_up(started: Instant, monotonic: u64) -> Self {
        let clock = Clock {
            counter: Counter::new(),
            started,
            base: monotonic,
            cpu: None,
            due: AtomicU64::new(0),
            stretches: Mutex::new(VecDeque::new()),
        };
        clock.follow();
        clock
    }

    /// A clock that begins at 0.
    #[must_use]
    pub fn new() -> Self {
        Self::starting_at(0)
    }

    /// The same clock, with a function that reads the CPU time of the calling thread in nanoseconds.
    #[must_use]
    pub fn with_cpu(self, cpu: Option<fn() -> u64>) -> Self {
        Clock { cpu, ..self }
    }

    /// The CPU time of the calling thread in nanoseconds; `None` without such a clock.
    #[must_use]
    pub fn cpu(&self) -> Option<u64> {
        self.cpu.map(|read| read())
    }

    /// The operating system's monotonic clock now, in nanoseconds, aligned as [`Clock::monotonic`].
    #[must_use]
    pub fn system_monotonic(&self) -> u64 {
        self.base + self.started.elapsed().as_nanos() as u64
    }

    /// The operating system's wall clock now: nanoseconds since 1970.
    #[must_use]
    pub fn system_wall(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
    }

    /// Now, in ticks.
    #[inline(always)]
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.counter.read()
    }

    /// Whether ticks are a counter of the processor: the TSC, or the system counter of aarch64. Otherwise the operating system is asked
    /// for each tick.
    #[must_use]
    pub fn is_processors(&self) -> bool {
        self.counter.processor || cfg!(target_arch = "aarch64")
    }

    /// The length of a tick in nanoseconds.
    #[must_use]
    pub fn tick(&self) -> f64 {
        let many = 1u64 << 32;
        self.nanos(many) as f64 / many as f64
    }

    /// How many nanoseconds a span of ticks took.
    #[must_use]
    pub fn nanos(&self, ticks: u64) -> u64 {
        self.counter.source.delta_as_nanos(0, ticks)
    }

    /// Aligns this clock with the operating system's if the last time is long ago. For readers of records, before they convert ticks.
    pub fn follow(&self) {
        if self.ticks() < self.due.load(Relaxed) {
            return;
        }
        let mut stretches = self.stretches.lock().unpoisoned();
        let (ticks, monotonic, wall) = self.read_system();
        let next = match stretches.back() {
            Some(last) => self.after(last, ticks, monotonic, wall),
            None => Stretch { ticks, monotonic, wall, speed: LEVEL },
        };
        if stretches.len() == REMEMBERED {
            stretches.pop_front();
        }
        stretches.push_back(next);
        self.due.store(ticks + self.source_ticks(APART), Relaxed);
    }

    /// Monotonic nanoseconds of a moment in ticks.
    #[must_use]
    pub fn monotonic(&self, ticks: u64) -> u64 {
        self.convert(&self.stretch(ticks), ticks)
    }

    /// Wall clock nanoseconds since 1970 of a moment in ticks.
    #[must_use]
    pub fn wall(&self, ticks: u64) -> u64 {
        let stretch = self.stretch(ticks);
        (stretch.wall + self.convert(&stretch, ticks)).saturating_sub(stretch.monotonic)
    }

    /// The stretch after `last`, from a reading of the operating system's clocks.
    fn after(&self, last: &Stretch, ticks: u64, monotonic: u64, wall: u64) -> Stretch {
        let converted = self.convert(last, ticks);
        let ahead = converted.saturating_sub(monotonic);
        let apart = APART.as_nanos() as u64;
        let speed = LEVEL - (LEVEL / 2).min(ahead.saturating_mul(LEVEL) / apart);
        Stretch { ticks, monotonic: converted.max(monotonic), wall, speed }
    }

    /// Monotonic nanoseconds of a moment, by one stretch.
    fn convert(&self, stretch: &Stretch, ticks: u64) -> u64 {
        let scaled = |span| (u128::from(self.nanos(span)) * u128::from(stretch.speed) / u128::from(LEVEL)) as u64;
        if ticks >= stretch.ticks {
            stretch.monotonic + scaled(ticks - stretch.ticks)
        } else {
            stretch.monotonic.saturating_sub(scaled(stretch.ticks - ticks))
        }
    }

    fn stretch(&self, ticks: u64) -> Stretch {
        let stretches = self.stretches.lock().unpoisoned();
        let after = stretches.partition_point(|s| s.ticks <= ticks);
        stretches[after.saturating_sub(1)]
    }

    /// Ticks, monotonic and wall nanoseconds of one moment: the fastest of several readings.
    fn read_system(&self) -> (u64, u64, u64) {
        let read = || {
            let before = self.ticks();
            let (elapsed, wall) = (self.started.elapsed(), SystemTime::now());
            let after = self.ticks();
            let wall = wall.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
            (after - before, (before + (after - before) / 2, self.base + elapsed.as_nanos() as u64, wall))
        };
        (0..4).map(|_| read()).min_by_key(|(took, _)| *took).expect("four readings").1
    }

    /// About how many ticks a span has.
    fn source_ticks(&self, span: Duration) -> u64 {
        let unit = 1u64 << 20;
        (span.as_nanos() * u128::from(unit) / u128::from(self.nanos(unit).max(1))) as u64
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn wait(span: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < span {}
    }

    #[test]
    fn ticks_grow_and_line_up_with_the_start() {
        let clock = Clock::starting_at(5_000);
        let (a, b) = (clock.ticks(), clock.ticks());
        assert!(b >= a);
        assert!(clock.monotonic(a) >= 5_000);
        let (t, begun) = (clock.ticks(), Instant::now());
        wait(Duration::from_millis(20));
        let (span, took) = (clock.nanos(clock.ticks() - t), begun.elapsed().as_nanos() as u64);
        assert!(span.abs_diff(took) < took / 100, "{span} {took}");
    }

    #[test]
    fn it_follows_the_operating_systems_clock() {
        let begun = Instant::now();
        let clock = Clock::new();
        wait(2 * APART);
        clock.follow();
        let (before, now, after) = (begun.elapsed(), clock.monotonic(clock.ticks()), begun.elapsed());
        let slack = Duration::from_millis(1);
        assert!(before <= Duration::from_nanos(now) + slack && Duration::from_nanos(now) <= after + slack);
        assert_eq!(clock.stretches.lock().unwrap().len(), 2);
        let (wall, now) = (clock.wall(clock.ticks()), SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
        assert!(now.as_nanos().abs_diff(u128::from(wall)) < 10_000_000);
    }

    #[test]
    fn a_clock_that_is_ahead_slows_down_and_never_goes_back() {
        let clock = Clock::new();
        let start = *clock.stretches.lock().unwrap().back().unwrap();
        let second = clock.source_ticks(Duration::from_secs(1));
        let apart = APART.as_nanos() as u64;
        // after a second the operating system is 10 ms behind
        let ahead = clock.after(&start, start.ticks + second, start.monotonic + 990_000_000, 7);
        assert_eq!(clock.convert(&ahead, ahead.ticks), clock.convert(&start, ahead.ticks));
        let later = ahead.ticks + clock.source_ticks(APART);
        let level = clock.convert(&ahead, later) - ahead.monotonic;
        assert!(level.abs_diff(apart - 10_000_000) < 100_000, "{level}");
        // and far ahead: it still moves on
        let far = clock.after(&start, start.ticks + second, start.monotonic, 7);
        assert!(clock.convert(&far, later) - far.monotonic >= apart / 2 - 100_000);
        // behind: it jumps forward
        let behind = clock.after(&start, start.ticks + second, start.monotonic + 2_000_000_000, 7);
        assert_eq!((behind.monotonic, behind.speed), (start.monotonic + 2_000_000_000, LEVEL));
    }

    #[test]
    fn old_ticks_keep_their_stretch() {
        let clock = Clock::new();
        let t = clock.ticks();
        let before = clock.monotonic(t);
        let mut last = clock.monotonic(clock.ticks());
        for _ in 0..5 {
            wait(APART + Duration::from_millis(1));
            clock.follow();
            let now = clock.monotonic(clock.ticks());
            assert!(now > last);
            last = now;
        }
        assert_eq!(clock.monotonic(t), before);
    }
}
