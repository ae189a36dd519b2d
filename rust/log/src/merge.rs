//! Merges several logs by their timestamps.
//!
//! The order within a log is kept. The log whose next record is the oldest gives the next one; of equal ones, the first log does.
//! A record without a timestamp (a message without one, a drop record, damage) directly follows its predecessor in its log.
//! Before the first timestamp of its log it comes first. If time goes back within a log, the latest time so far counts.
//! Timestamps of another clock than the first one are ignored and counted ([`Merge::other_clock`]). Each log is held in memory
//! only as far as its reader holds it: one record.
//!
//! In causal order ([`Merge::causal`]) a receipt that is earlier than its sending counts as having the sending's time. So do the
//! records after it in its log, until the log's own time is later. These are the smallest changes of times that put no receipt
//! before its sending.

use crate::{
    causal::{End, Moved, Passages},
    damage::{Damage, What},
    frame::Record,
    reader::{Event, Found},
    shift::Shift,
    source::Source,
    stamp::{self, Clock, Shapes, Stamp},
};
use rustc_hash::FxHashMap;
use std::{
    cmp::Reverse,
    collections::{binary_heap::PeekMut, BinaryHeap},
    io,
    path::PathBuf,
};

/// The records of several logs in one order.
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
    order: Order,
    /// The logs that have a record, by its time.
    queue: BinaryHeap<Reverse<(Key, usize)>>,
    /// The logs that were not read yet.
    fresh: Vec<usize>,
    /// Whether the record of the queue's first log was returned.
    given: bool,
    clock: Option<Clock>,
    other_clock: u64,
    causal: Option<Box<Causal>>,
}

/// The state of the messages between logs.
#[derive(Debug, Default)]
struct Causal {
    passages: Passages,
    /// Of each log, the number of receipts of a passage.
    seen: Vec<FxHashMap<usize, usize>>,
    /// The times of the sendings so far, by passage.
    sent: FxHashMap<usize, Vec<Key>>,
    /// The logs whose next record is a receipt of the passage, each with the number of sendings that it follows.
    waiting: FxHashMap<usize, Vec<(usize, usize)>>,
    moved: Vec<Moved>,
    unordered: u64,
}

/// The place of records without a timestamp, and which records have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Directly after their predecessor in their log. [`stamp::stamp`] finds the timestamp of all messages.
    #[default]
    Follow,
    /// As in Inviso: before everything else, as soon as they are next in their log. That also holds for messages whose timestamp
    /// Inviso does not look for ([`stamp::Shapes::Inviso`]).
    Inviso,
}

/// The timestamp of a record, if it is of the merge's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// As the log has it. What else is known of the log's host has the times of this clock.
    pub own: Option<Stamp>,
    /// Shifted as the log is.
    pub shifted: Option<Stamp>,
}

#[derive(Debug)]
struct Head {
    source: Source,
    found: Option<Found>,
    /// Of the present record.
    stamps: Stamps,
    shift: Shift,
    /// The latest time so far.
    latest: Key,
    /// The end of a message between logs that the present record is.
    end: Option<End>,
}

/// A timestamp of the merge's clock as one number. A missing one is less than all others. Times outside 64 bits (before 1677 or
/// after 2262) are cut to that range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    #[inline]
    fn of(stamp: Option<&Stamp>) -> Key {
        let ordered = |n: i64| n as u64 ^ 1 << 63;
        stamp.map_or(Key(0), |stamp| {
            let ns = i64::try_from(stamp.ns).unwrap_or(if stamp.ns < 0 { i64::MIN } else { i64::MAX });
            Key(u128::from(ordered(ns).max(1)) << 64 | u128::from(ordered(stamp.unique)))
        })
    }

    /// The nanoseconds from another one to this one.
    fn since(self, other: Key) -> i128 {
        (self.0 >> 64) as i128 - (other.0 >> 64) as i128
    }
}

impl Merge {
    /// Merges logs from their beginning.
    #[must_use]
    pub fn new(sources: Vec<Source>) -> Merge {
        Merge::ordered(sources, Order::Follow)
    }

    /// Merges logs in an order of this kind.
    #[must_use]
    pub fn ordered(sources: Vec<Source>, order: Order) -> Merge {
        let heads: Vec<_> = sources
            .into_iter()
            .map(|source| Head {
                source,
                found: None,
                stamps: Stamps::default(),
                shift: Shift::default(),
                latest: Key(0),
                end: None,
            })
            .collect();
        let fresh = (0..heads.len()).rev().collect();
        Merge { heads, order, queue: BinaryHeap::new(), fresh, given: false, clock: None, other_clock: 0, causal: None }
    }

    /// Shifts the wall clock of each log, in the order of the logs, so that they become one clock.
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn shifted(mut self, shifts: impl IntoIterator<Item = Shift>) -> Merge {
        for (head, shift) in self.heads.iter_mut().zip(shifts) {
            head.shift = shift;
        }
        self
    }

    /// Merges in causal order, by the messages between the logs ([`Passages::of`] the same logs). Requires an order in which all
    /// messages have a timestamp.
    #[must_use]
    pub fn causal(mut self, passages: Passages) -> Merge {
        let logs = self.heads.len();
        let (seen, moved) = (vec![FxHashMap::default(); logs], vec![Moved::default(); logs]);
        self.causal = Some(Box::new(Causal { passages, seen, moved, ..Causal::default() }));
        self
    }

    /// The receipts that were moved so far, for each log; empty unless the order is causal.
    #[must_use]
    pub fn moved(&self) -> &[Moved] {
        self.causal.as_ref().map_or(&[], |causal| &causal.moved)
    }

    /// How many receipts so far are before their sendings all the same: logs that wait for each other in a circle.
    #[must_use]
    pub fn unordered(&self) -> u64 {
        self.causal.as_ref().map_or(0, |causal| causal.unordered)
    }

    /// The next record or damage, with the number of its log. A record without a valid term is damage ([`What::Term`]).
    ///
    /// # Errors
    /// The error of a log's reader. The call can be repeated.
    #[inline]
    pub fn read(&mut self) -> io::Result<Option<(usize, Event<'_>)>> {
        let Some(at) = self.step()? else { return Ok(None) };
        let head = self.heads.get(at);
        Ok(head.and_then(|head| Some((at, head.source.event(head.found?)))))
    }

    /// As [`Merge::read`], with the record's timestamp.
    ///
    /// # Errors
    /// As [`Merge::read`].
    #[inline]
    pub fn read_stamped(&mut self) -> io::Result<Option<(usize, Event<'_>, Stamps)>> {
        let Some(at) = self.step()? else { return Ok(None) };
        let head = self.heads.get(at);
        Ok(head.and_then(|head| Some((at, head.source.event(head.found?), head.stamps))))
    }

    /// Moves to the next record. Answers the number of its log.
    fn step(&mut self) -> io::Result<Option<usize>> {
        while let Some(at) = self.fresh.last().copied() {
            if let Some(key) = self.advance_log(at)? {
                self.queue.push(Reverse((key, at)));
            }
            self.fresh.pop();
        }
        if let Some(at) = self.last() {
            let left = self.heads.get(at).and_then(|head| Some((head.end?, head.latest)));
            let next = self.advance_log(at)?;
            self.given = false;
            if let Some(mut first) = self.queue.peek_mut() {
                match next {
                    Some(key) => first.0 .0 = key,
                    None => drop(PeekMut::pop(first)),
                }
            }
            if let Some((End::Sent(passage), time)) = left {
                self.add_sending(passage, time);
            }
        }
        if self.queue.is_empty() {
            self.release_oldest();
        }
        let first = self.queue.peek().map(|Reverse((_, at))| *at);
        self.given = first.is_some();
        Ok(first)
    }

    /// Records a sending and queues the logs that waited for it.
    fn add_sending(&mut self, passage: usize, time: Key) {
        let Some(causal) = &mut self.causal else { return };
        let sent = causal.sent.entry(passage).or_default();
        sent.push(time);
        let Some(waiting) = causal.waiting.get_mut(&passage) else { return };
        for (_, log) in waiting.extract_if(.., |(after, _)| *after <= sent.len()) {
            let Some(head) = self.heads.get_mut(log) else { continue };
            head.apply_receipt(causal.moved.get_mut(log), time);
            self.queue.push(Reverse((head.latest, log)));
        }
    }

    /// All logs wait for each other: queues the one whose record is the oldest.
    #[cold]
    fn release_oldest(&mut self) {
        let Some(causal) = &mut self.causal else { return };
        let time = |log: usize| self.heads.get(log).map(|head| head.latest);
        let all = causal.waiting.iter().flat_map(|(passage, logs)| logs.iter().map(|(_, log)| (*passage, *log)));
        let Some((passage, log)) = all.min_by_key(|(_, log)| (time(*log), *log)) else { return };
        causal.unordered += 1;
        if let Some(logs) = causal.waiting.get_mut(&passage) {
            logs.retain(|(_, other)| *other != log);
        }
        self.queue.extend(time(log).map(|time| Reverse((time, log))));
    }

    /// The number of the log that gave the last record.
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        self.queue.peek().filter(|_| self.given).map(|Reverse((_, at))| *at)
    }

    /// The file of a log that its last record was in.
    #[must_use]
    pub fn path(&self, log: usize) -> Option<PathBuf> {
        self.heads.get(log).and_then(|head| head.source.path())
    }

    /// The number of that file in a wrap set.
    #[must_use]
    pub fn number(&self, log: usize) -> Option<u64> {
        self.heads.get(log).and_then(|head| head.source.number())
    }

    /// How many timestamps so far were of another clock than the first, and were ignored.
    #[must_use]
    pub fn other_clock(&self) -> u64 {
        self.other_clock
    }

    /// Moves a log to its next record. Answers its place among the others; `None` at the end, or while the record waits for its
    /// sending.
    #[inline]
    fn advance_log(&mut self, at: usize) -> io::Result<Option<Key>> {
        let Some(head) = self.heads.get_mut(at) else { return Ok(None) };
        head.stamps = Stamps::default();
        head.found = head.source.find()?;
        head.end = None;
        let Some(found) = head.found else { return Ok(None) };
        if let Event::Record { at: place, record: Record::Term(payload) } = head.source.event(found) {
            let shapes = if self.order == Order::Inviso { Shapes::Inviso } else { Shapes::All };
            match stamp::checked(payload, shapes) {
                Ok(None) => {}
                Ok(Some(mut stamp)) if *self.clock.get_or_insert(stamp.clock) == stamp.clock => {
                    head.stamps.own = Some(stamp);
                    if stamp.clock == Clock::Wall {
                        stamp.ns += head.shift.of(stamp.ns);
                    }
                    head.stamps.shifted = Some(stamp);
                }
                Ok(Some(_)) => self.other_clock += 1,
                Err(e) => head.found = Some(Found::Damage(Damage { at: place, what: What::Term(e) })),
            }
            if let Some(causal) = &mut self.causal {
                let seen = causal.seen.get_mut(at);
                head.end = seen.and_then(|seen| causal.passages.end(at, payload, seen));
            }
        }
        let key = Key::of(head.stamps.shifted.as_ref());
        if key > head.latest {
            head.latest = key;
        }
        if let (Some(causal), Some(End::Received(passage, after))) = (&mut self.causal, head.end) {
            let sent = causal.sent.get(&passage).and_then(|sent| sent.get(after.checked_sub(1)?));
            match sent {
                Some(time) => head.apply_receipt(causal.moved.get_mut(at), *time),
                None => {
                    causal.waiting.entry(passage).or_default().push((after, at));
                    return Ok(None);
                }
            }
        }
        Ok(Some(if self.order == Order::Inviso { key } else { head.latest }))
    }
}

impl Head {
    /// The present record is the receipt of a message that was sent at this time.
    fn apply_receipt(&mut self, moved: Option<&mut Moved>, sent: Key) {
        let own = Key::of(self.stamps.shifted.as_ref());
        if let (Some(stamp), Some(moved), true) = (self.stamps.shifted, moved, sent > own) {
            moved.add(stamp.ns, sent.since(own));
        }
        self.latest = self.latest.max(sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_time_and_a_missing_one_is_first() {
        let key = |ns: i128, unique| Key::of(Some(&Stamp { clock: Clock::Monotonic, ns, unique }));
        let keys = [
            Key::of(None),
            key(-(1 << 80), 0),
            key(-(1 << 62), 0),
            key(-1, 0),
            key(0, i64::MIN),
            key(0, -1),
            key(0, 0),
            key(0, 1),
            key(0, i64::MAX),
            key(1, -5),
            key(1 << 62, 0),
            key(1 << 80, 0),
        ];
        assert!(keys.windows(2).all(|two| two[0] < two[1]), "{keys:?}");
        assert_eq!([key(-(1 << 80), 7), key(1 << 80, 7)], [key(i64::MIN.into(), 7), key(i64::MAX.into(), 7)]);
    }
}
