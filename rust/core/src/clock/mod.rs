//! Time: raw ticks on the hot path, nanoseconds and wall time when something is read.
//!
//! A tick's length is measured once, and over hours the rest of that error would be seen; so would the slewing of the machine's
//! clock. Who reads therefore calls [`Clock::follow`], which looks at the operating system's clocks now and then. Each look
//! begins a new stretch of time, and ticks become nanoseconds by the stretch that they fall into. These never go back as ticks
//! grow: a stretch begins where the last one has got to, and one that is ahead of the operating system runs slower.
#![deny(unsafe_code)] // but in `tsc`

pub mod order;
mod tsc;

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering::Relaxed};

use std::{
    collections::VecDeque,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The clock of one node. A tick is whatever the cheapest trustworthy counter counts (the TSC where it is invariant, else the
/// operating system's monotonic clock).
pub struct Clock {
    counter: Counter,
    started: Instant,
    /// Monotonic nanoseconds at `started`.
    base: u64,
    /// The CPU time of the calling thread, where there is such a clock.
    cpu: Option<fn() -> u64>,
    /// Ticks from which on it is time for another look.
    due: AtomicU64,
    stretches: Mutex<VecDeque<Stretch>>,
}

/// What counts ticks: all of a program count the same.
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
        // what the source would do, without a call
        if self.processor {
            tsc::read()
        } else {
            self.source.raw()
        }
    }
}

/// How ticks become nanoseconds from one look on.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    ticks: u64,
    monotonic: u64,
    /// Wall clock nanoseconds since 1970 at the same moment.
    wall: u64,
    /// Nanoseconds of a tick in billionths of what they were measured to be; less while this clock is ahead.
    speed: u64,
}

/// Looks are so far apart, and a stretch that is ahead is level after as long.
const APART: Duration = Duration::from_millis(50);

/// Stretches that are remembered; older ticks are reckoned by the first.
const REMEMBERED: usize = 1024;

/// The speed of a stretch that is not ahead.
const LEVEL: u64 = 1_000_000_000;

impl Clock {
    /// A clock whose monotonic nanoseconds begin at `monotonic` now, so that a host can line them up with its own.
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

    /// With a clock of the CPU time that the calling thread has taken, in nanoseconds.
    #[must_use]
    pub fn with_cpu(self, cpu: Option<fn() -> u64>) -> Self {
        Clock { cpu, ..self }
    }

    /// CPU time of the calling thread in nanoseconds; `None` where there is no such clock.
    #[must_use]
    pub fn cpu(&self) -> Option<u64> {
        self.cpu.map(|read| read())
    }

    /// The operating system's monotonic clock now, in nanoseconds, lined up as [`Clock::monotonic`] is.
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

    /// How many nanoseconds a span of ticks took.
    #[must_use]
    pub fn nanos(&self, ticks: u64) -> u64 {
        self.counter.source.delta_as_nanos(0, ticks)
    }

    /// Lines this clock up with the operating system's, if the last time is long ago. For whoever reads, before it does.
    pub fn follow(&self) {
        if self.ticks() < self.due.load(Relaxed) {
            return;
        }
        let mut stretches = self.lock();
        let (ticks, monotonic, wall) = self.look();
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
        self.reckon(&self.stretch(ticks), ticks)
    }

    /// Wall clock nanoseconds since 1970 of a moment in ticks.
    #[must_use]
    pub fn wall(&self, ticks: u64) -> u64 {
        let stretch = self.stretch(ticks);
        (stretch.wall + self.reckon(&stretch, ticks)).saturating_sub(stretch.monotonic)
    }

    /// The stretch that follows `last`, given what the operating system's clocks say.
    fn after(&self, last: &Stretch, ticks: u64, monotonic: u64, wall: u64) -> Stretch {
        let reckoned = self.reckon(last, ticks);
        let ahead = reckoned.saturating_sub(monotonic);
        let apart = APART.as_nanos() as u64;
        let speed = LEVEL - (LEVEL / 2).min(ahead.saturating_mul(LEVEL) / apart);
        Stretch { ticks, monotonic: reckoned.max(monotonic), wall, speed }
    }

    fn reckon(&self, stretch: &Stretch, ticks: u64) -> u64 {
        let scaled = |span| (u128::from(self.nanos(span)) * u128::from(stretch.speed) / u128::from(LEVEL)) as u64;
        if ticks >= stretch.ticks {
            stretch.monotonic + scaled(ticks - stretch.ticks)
        } else {
            stretch.monotonic.saturating_sub(scaled(stretch.ticks - ticks))
        }
    }

    fn stretch(&self, ticks: u64) -> Stretch {
        let stretches = self.lock();
        let after = stretches.partition_point(|s| s.ticks <= ticks);
        stretches[after.saturating_sub(1)]
    }

    /// Ticks, monotonic and wall nanoseconds of one moment: of some looks the one that took least.
    fn look(&self) -> (u64, u64, u64) {
        let look = || {
            let before = self.ticks();
            let (elapsed, wall) = (self.started.elapsed(), SystemTime::now());
            let after = self.ticks();
            let wall = wall.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
            (after - before, (before + (after - before) / 2, self.base + elapsed.as_nanos() as u64, wall))
        };
        (0..4).map(|_| look()).min_by_key(|(took, _)| *took).expect("four looks").1
    }

    /// About how many ticks a span has.
    fn source_ticks(&self, span: Duration) -> u64 {
        let unit = 1u64 << 20;
        (span.as_nanos() * u128::from(unit) / u128::from(self.nanos(unit).max(1))) as u64
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Stretch>> {
        self.stretches.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
        assert_eq!(clock.lock().len(), 2);
        let (wall, now) = (clock.wall(clock.ticks()), SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
        assert!(now.as_nanos().abs_diff(u128::from(wall)) < 10_000_000);
    }

    #[test]
    fn a_clock_that_is_ahead_slows_down_and_never_goes_back() {
        let clock = Clock::new();
        let start = *clock.lock().back().unwrap();
        let second = clock.source_ticks(Duration::from_secs(1));
        let apart = APART.as_nanos() as u64;
        // after a second the operating system is 10 ms behind
        let ahead = clock.after(&start, start.ticks + second, start.monotonic + 990_000_000, 7);
        assert_eq!(clock.reckon(&ahead, ahead.ticks), clock.reckon(&start, ahead.ticks));
        let later = ahead.ticks + clock.source_ticks(APART);
        let level = clock.reckon(&ahead, later) - ahead.monotonic;
        assert!(level.abs_diff(apart - 10_000_000) < 100_000, "{level}");
        // and far ahead: it still moves on
        let far = clock.after(&start, start.ticks + second, start.monotonic, 7);
        assert!(clock.reckon(&far, later) - far.monotonic >= apart / 2 - 100_000);
        // behind: it jumps forward
        let behind = clock.after(&start, start.ticks + second, start.monotonic + 2_000_000_000, 7);
        assert_eq!((behind.monotonic, behind.speed), (start.monotonic + 2_000_000_000, LEVEL));
    }

    #[test]
    fn old_ticks_keep_their_stretch() {
        let clock = Clock::new();
        let t = clock.ticks();
        let told = clock.monotonic(t);
        let mut last = clock.monotonic(clock.ticks());
        for _ in 0..5 {
            wait(APART + Duration::from_millis(1));
            clock.follow();
            let now = clock.monotonic(clock.ticks());
            assert!(now > last);
            last = now;
        }
        assert_eq!(clock.monotonic(t), told);
    }
}
