//! Several logs as one, in the order of their time stamps.
//!
//! The order of a log stays as it is: the log whose next record is the oldest gives the next one, of equals the first log.
//! What has no time stamp (messages without one, drop records, damage) comes right behind what it followed in its log; before
//! the first time stamp of its log it comes first. A log that goes back in time is taken as if that time were the latest it
//! had before. Stamps of another clock than the first one that was seen count as none, and how many is told
//! ([`Merge::other_clock`]). Of each log no more is held than its reader holds: one record.

use crate::{
    frame::Record,
    reader::{Event, Found},
    source::Source,
    stamp::{self, Clock, Stamp},
};
use std::{cmp::Reverse, collections::BinaryHeap, io, path::PathBuf};

/// The records of several logs, one after the other.
///
/// ```
/// use inviso_log::{merge::Merge, reader::Event, source::Source};
/// use inviso_term::{etf, term::Term};
/// # fn main() -> std::io::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// let log = |name: &str, times: &[i64]| {
///     let mut bytes = Vec::new();
///     for ns in times {
///         let message = Term::Tuple(vec![Term::atom("trace_ts"), Term::from(*ns)]);
///         inviso_log::frame::put_term(&mut bytes, &etf::encode(&message))?;
///     }
///     let path = folder.path().join(name);
///     std::fs::write(&path, bytes)?;
///     Source::open(&path, false)
/// };
/// let mut merge = Merge::new(vec![log("a", &[1, 4, 5])?, log("b", &[2, 3, 9])?]);
/// let mut order = Vec::new();
/// while let Some((log, _)) = merge.read()? {
///     order.push(log);
/// }
/// assert_eq!(order, [0, 1, 1, 0, 0, 1]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Merge {
    heads: Vec<Head>,
    /// The logs that have a record, by its time.
    queue: BinaryHeap<Reverse<(Option<Stamp>, usize)>>,
    /// The logs whose next record is not known: at first all, then the one that gave the last.
    due: Vec<usize>,
    clock: Option<Clock>,
    other_clock: u64,
}

#[derive(Debug)]
struct Head {
    source: Source,
    found: Option<Found>,
    /// The latest time so far.
    time: Option<Stamp>,
}

impl Merge {
    /// All of the logs from their beginning.
    #[must_use]
    pub fn new(sources: Vec<Source>) -> Merge {
        let heads: Vec<_> = sources.into_iter().map(|source| Head { source, found: None, time: None }).collect();
        let due = (0..heads.len()).rev().collect();
        Merge { heads, queue: BinaryHeap::new(), due, clock: None, other_clock: 0 }
    }

    /// The next record or damage, with the number of its log.
    ///
    /// # Errors
    /// What reading a log says. It can be tried again.
    pub fn read(&mut self) -> io::Result<Option<(usize, Event<'_>)>> {
        while let Some(at) = self.due.last().copied() {
            self.advance(at)?;
            self.due.pop();
        }
        let Some(Reverse((_, at))) = self.queue.pop() else { return Ok(None) };
        self.due.push(at);
        let head = self.heads.get(at);
        Ok(head.and_then(|head| Some((at, head.source.event(head.found?)))))
    }

    /// The number of the log that gave the last record.
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        self.due.last().copied()
    }

    /// The file of the log of this number that the last record was in.
    #[must_use]
    pub fn path(&self, log: usize) -> Option<PathBuf> {
        self.heads.get(log).and_then(|head| head.source.path())
    }

    /// The number of that file in a wrap set.
    #[must_use]
    pub fn number(&self, log: usize) -> Option<u64> {
        self.heads.get(log).and_then(|head| head.source.number())
    }

    /// How many time stamps so far were of another clock than the first, and counted as none.
    #[must_use]
    pub fn other_clock(&self) -> u64 {
        self.other_clock
    }

    fn advance(&mut self, at: usize) -> io::Result<()> {
        let Some(head) = self.heads.get_mut(at) else { return Ok(()) };
        head.found = head.source.find()?;
        let Some(found) = head.found else { return Ok(()) };
        if let Event::Record { record: Record::Term(payload), .. } = head.source.event(found) {
            if let Some(stamp) = stamp::stamp(payload) {
                if *self.clock.get_or_insert(stamp.clock) == stamp.clock {
                    head.time = head.time.max(Some(stamp));
                } else {
                    self.other_clock += 1;
                }
            }
        }
        self.queue.push(Reverse((head.time, at)));
        Ok(())
    }
}
