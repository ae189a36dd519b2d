//! Several logs as one, in the order of their time stamps.
//!
//! The order of a log stays as it is: the log whose next record is the oldest gives the next one, of equals the first log.
//! What has no time stamp (messages without one, drop records, damage) comes right behind what it followed in its log; before
//! the first time stamp of its log it comes first. A log that goes back in time is taken as if that time were the latest it
//! had before. Stamps of another clock than the first one that was seen count as none, and how many is told
//! ([`Merge::other_clock`]). Of each log no more is held than its reader holds: one record.
//!
//! In causal order ([`Merge::causal`]) the receipt of a message counts as if it had the time of its sending, where its own is before
//! that; so does what follows it in its log until the log's own time is later. That is the least by which times can be changed so that
//! nothing is received before it was sent.

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
    order: Order,
    /// The logs that have a record, by its time.
    queue: BinaryHeap<Reverse<(Key, usize)>>,
    /// The logs of which nothing was read yet.
    fresh: Vec<usize>,
    /// Whether the first log of the queue gave its record.
    given: bool,
    clock: Option<Clock>,
    other_clock: u64,
    causal: Option<Box<Causal>>,
}

/// What is known of the messages between logs.
#[derive(Debug, Default)]
struct Causal {
    passages: Passages,
    /// Of each log, how many receipts of a passage there were.
    seen: Vec<FxHashMap<usize, usize>>,
    /// The times of the sendings so far, by passage.
    sent: FxHashMap<usize, Vec<Key>>,
    /// The logs whose next record is the receipt that follows so many sendings of a passage.
    waiting: FxHashMap<usize, Vec<(usize, usize)>>,
    moved: Vec<Moved>,
    unordered: u64,
}

/// Where records without a time stamp go, and which have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Right behind what they followed in their log. All messages have a stamp that [`stamp::stamp`] finds.
    #[default]
    Follow,
    /// As in Inviso: before everything else, as soon as they are the next of their log. So do all messages whose stamp Inviso does
    /// not look for ([`stamp::Shapes::Inviso`]).
    Inviso,
}

#[derive(Debug)]
struct Head {
    source: Source,
    found: Option<Found>,
    /// The stamp of the record that was found, shifted.
    stamp: Option<Stamp>,
    shift: Shift,
    /// The latest time so far.
    latest: Key,
    /// What the record that was found is of a message between logs.
    end: Option<End>,
}

/// A time stamp of the merge's clock, or none, which is less than all, as one number. What 64 bits can't hold, which is before 1677 or
/// after 2262, is as far as they go.
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

    /// By how many nanoseconds it is after another one.
    fn since(self, other: Key) -> i128 {
        (self.0 >> 64) as i128 - (other.0 >> 64) as i128
    }
}

impl Merge {
    /// All of the logs from their beginning.
    #[must_use]
    pub fn new(sources: Vec<Source>) -> Merge {
        Merge::ordered(sources, Order::Follow)
    }

    /// The same in an order.
    #[must_use]
    pub fn ordered(sources: Vec<Source>, order: Order) -> Merge {
        let heads: Vec<_> = sources
            .into_iter()
            .map(|source| Head { source, found: None, stamp: None, shift: Shift::default(), latest: Key(0), end: None })
            .collect();
        let fresh = (0..heads.len()).rev().collect();
        Merge { heads, order, queue: BinaryHeap::new(), fresh, given: false, clock: None, other_clock: 0, causal: None }
    }

    /// The same with the wall clocks of the logs, in their order, shifted so that they are one clock.
    #[must_use]
    pub fn shifted(mut self, shifts: impl IntoIterator<Item = Shift>) -> Merge {
        for (head, shift) in self.heads.iter_mut().zip(shifts) {
            head.shift = shift;
        }
        self
    }

    /// The same in causal order, by the messages that went from log to log ([`Passages::of`] the same logs). An order in which all
    /// messages have a time stamp.
    #[must_use]
    pub fn causal(mut self, passages: Passages) -> Merge {
        let logs = self.heads.len();
        let (seen, moved) = (vec![FxHashMap::default(); logs], vec![Moved::default(); logs]);
        self.causal = Some(Box::new(Causal { passages, seen, moved, ..Causal::default() }));
        self
    }

    /// Which receipts of each log were moved so far; nothing unless the order is causal.
    #[must_use]
    pub fn moved(&self) -> &[Moved] {
        self.causal.as_ref().map_or(&[], |causal| &causal.moved)
    }

    /// How many receipts so far stand before their sendings all the same: logs that wait for each other contradict each other.
    #[must_use]
    pub fn unordered(&self) -> u64 {
        self.causal.as_ref().map_or(0, |causal| causal.unordered)
    }

    /// The next record or damage, with the number of its log. A record that holds no term is damage ([`What::Term`]).
    ///
    /// # Errors
    /// What reading a log says. It can be tried again.
    #[inline]
    pub fn read(&mut self) -> io::Result<Option<(usize, Event<'_>)>> {
        let Some(at) = self.step()? else { return Ok(None) };
        let head = self.heads.get(at);
        Ok(head.and_then(|head| Some((at, head.source.event(head.found?)))))
    }

    /// The same with the record's time stamp, if it has one of the merge's clock; shifted as the log is.
    ///
    /// # Errors
    /// As [`Merge::read`].
    #[inline]
    pub fn read_stamped(&mut self) -> io::Result<Option<(usize, Event<'_>, Option<Stamp>)>> {
        let Some(at) = self.step()? else { return Ok(None) };
        let head = self.heads.get(at);
        Ok(head.and_then(|head| Some((at, head.source.event(head.found?), head.stamp))))
    }

    /// On to the next record; the number of its log.
    fn step(&mut self) -> io::Result<Option<usize>> {
        while let Some(at) = self.fresh.last().copied() {
            if let Some(key) = self.advance(at)? {
                self.queue.push(Reverse((key, at)));
            }
            self.fresh.pop();
        }
        if let Some(at) = self.last() {
            let left = self.heads.get(at).and_then(|head| Some((head.end?, head.latest)));
            let next = self.advance(at)?;
            self.given = false;
            if let Some(mut first) = self.queue.peek_mut() {
                match next {
                    Some(key) => first.0 .0 = key,
                    None => drop(PeekMut::pop(first)),
                }
            }
            if let Some((End::Sent(passage), time)) = left {
                self.sent(passage, time);
            }
        }
        if self.queue.is_empty() {
            self.give_up();
        }
        let first = self.queue.peek().map(|Reverse((_, at))| *at);
        self.given = first.is_some();
        Ok(first)
    }

    /// A message was sent: the logs go on that waited for that.
    fn sent(&mut self, passage: usize, time: Key) {
        let Some(causal) = &mut self.causal else { return };
        let sent = causal.sent.entry(passage).or_default();
        sent.push(time);
        let Some(waiting) = causal.waiting.get_mut(&passage) else { return };
        for (_, log) in waiting.extract_if(.., |(behind, _)| *behind <= sent.len()) {
            let Some(head) = self.heads.get_mut(log) else { continue };
            head.receive(causal.moved.get_mut(log), time);
            self.queue.push(Reverse((head.latest, log)));
        }
    }

    /// All logs wait for each other: the one goes on whose record is the oldest.
    #[cold]
    fn give_up(&mut self) {
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

    /// On to the next record of a log; its place among the others, unless there is none, or it has to wait.
    #[inline]
    fn advance(&mut self, at: usize) -> io::Result<Option<Key>> {
        let Some(head) = self.heads.get_mut(at) else { return Ok(None) };
        head.stamp = None;
        head.found = head.source.find()?;
        head.end = None;
        let Some(found) = head.found else { return Ok(None) };
        if let Event::Record { at: place, record: Record::Term(payload) } = head.source.event(found) {
            let shapes = if self.order == Order::Inviso { Shapes::Inviso } else { Shapes::All };
            match stamp::checked(payload, shapes) {
                Ok(None) => {}
                Ok(Some(mut stamp)) if *self.clock.get_or_insert(stamp.clock) == stamp.clock => {
                    if stamp.clock == Clock::Wall {
                        stamp.ns += head.shift.of(stamp.ns);
                    }
                    head.stamp = Some(stamp);
                }
                Ok(Some(_)) => self.other_clock += 1,
                Err(e) => head.found = Some(Found::Damage(Damage { at: place, what: What::Term(e) })),
            }
            if let Some(causal) = &mut self.causal {
                let seen = causal.seen.get_mut(at);
                head.end = seen.and_then(|seen| causal.passages.end(at, payload, seen));
            }
        }
        let key = Key::of(head.stamp.as_ref());
        if key > head.latest {
            head.latest = key;
        }
        if let (Some(causal), Some(End::Taken(passage, behind))) = (&mut self.causal, head.end) {
            let sent = causal.sent.get(&passage).and_then(|sent| sent.get(behind.checked_sub(1)?));
            match sent {
                Some(time) => head.receive(causal.moved.get_mut(at), *time),
                None => {
                    causal.waiting.entry(passage).or_default().push((behind, at));
                    return Ok(None);
                }
            }
        }
        Ok(Some(if self.order == Order::Inviso { key } else { head.latest }))
    }
}

impl Head {
    /// What was found was sent at this time.
    fn receive(&mut self, moved: Option<&mut Moved>, sent: Key) {
        let own = Key::of(self.stamp.as_ref());
        if let (Some(stamp), Some(moved), true) = (self.stamp, moved, sent > own) {
            moved.add(stamp.ns, sent.since(own));
        }
        self.latest = self.latest.max(sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_time_and_what_has_none_is_first() {
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
