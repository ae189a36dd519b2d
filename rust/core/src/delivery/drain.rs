//! Takes records out of the rings of a session, in the order of time.
//!
//! A record never precedes its cause in another ring, however slow the consumer: the records that a drain takes are older than all
//! that it leaves, and older than those that are written while it reads one ring after the other.
//!
//! # Roles
//! One drain of a session at a time holds the session's lock; a second one fails with [`Busy`] and may wait. A [`spill`] is a drain,
//! too, of a session that may lose nothing and whose consumer is slow. The thread that writes runs it.
//!
//! # States
//! | state of a record | meaning |
//! | --- | --- |
//! | in its ring | written |
//! | spilled | moved to the session's buffer |
//! | gathered | a drain sorts it among the records of other rings |
//! | delivered | the consumer has it |
//!
//! A [`Mark`] is open until all records that were in rings when it was made are delivered.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `delivered` | drain, `Release`, after the consumer's last record | [`Mark::passed`], `Acquire` | the reader sees what the consumer did with the records |
//!
//! A ring's own `tail` can't serve as that edge: it moves when a record leaves the ring, before the record is sorted and delivered.
//!
//! # Checked by
//! `models::delivery` (loom); mutants `drains_mix`, `drain_uncut`, `drain_lists_early`, `delivered_early`, `delivered_relaxed`,
//! `spilled_delivered`; `tests/drain.rs`, `tests/exact.rs`.
#![forbid(unsafe_code)]

use crate::{
    ring::{Busy, RecordRef},
    state::{
        feed::Feed,
        session::Session,
        spilled::{Batch, Bytes, Spilled, Tails, Taken},
    },
    sync::{
        mutants::{mutant, Edge},
        Arc, MutexGuard,
        Ordering::Release,
        TryLockError,
    },
};
use std::{cmp::Reverse, collections::BinaryHeap, ops::ControlFlow};

pub use super::mark::Mark;
pub use crate::record::event::{Event, Record, What};

const DELIVERED: Edge = Edge(Release, "delivered_relaxed");

/// The place of a loss if this drain has no earlier record of the same ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    /// At the time of the record after it.
    Between,
    /// Before everything else: in rings that overwrite, lost records are older than all others.
    First,
}

/// The result of a drain of several sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Records that it took; a loss counts as one.
    pub took: usize,
    /// Ticks of the oldest record that it left, if it took as many as it might.
    pub until: Option<u64>,
}

/// Takes up to `max` records out of the session's rings, oldest first, in the order of time. Records that a drain leaves are not
/// older than those that it takes.
///
/// Returns how many it took; a loss counts as one. A loss has the time of the record before it in its ring, or of the record after it
/// if this drain has none before. The loss of records that were given up ([`Session::give_up`]) comes first.
///
/// # Errors
/// [`Busy`] if another drain of the session is under way; then nothing was taken.
pub fn drain(session: &Session, max: usize, mut take: impl FnMut(Record)) -> Result<usize, Busy> {
    drain_borrowed(session, max, Losses::Between, |record| take(record.to_owned()))
}

/// As [`drain`], for a consumer that copies what it keeps.
///
/// # Errors
/// [`Busy`], as [`drain`].
pub fn drain_borrowed(
    session: &Session, max: usize, losses: Losses, mut take: impl FnMut(&Record<&[u8]>),
) -> Result<usize, Busy> {
    let drain = Drain::of(&[session], || session.ticks());
    if drain.sessions.is_empty() {
        return Err(Busy);
    }
    Ok(drain.run(max, losses, |_, record| take(record)).took)
}

/// As [`drain_borrowed`], of several sessions in one order; at the same time the newer session comes first. `take` gets the place of
/// the record's session among `sessions`. Sessions that another drain holds are left out.
pub fn drain_all(
    sessions: &[&Session], max: usize, losses: Losses, take: impl FnMut(usize, &Record<&[u8]>),
) -> Drained {
    let Some(first) = sessions.first() else { return Drained::default() };
    Drain::of(sessions, || first.ticks()).run(max, losses, take)
}

/// Moves the records of the session's rings to its buffer, for a session that may lose nothing and whose consumer is slow. Does nothing
/// while the session is drained, or if the buffer holds [`MOST`] bytes already.
#[cold]
#[inline(never)]
pub fn spill(session: &Session) {
    let mut drain = Drain::of(&[session], || session.ticks());
    if drain.sessions.first_mut().and_then(Draining::spilled).is_none_or(|spilled| spilled.bytes >= MOST) {
        return;
    }
    let (batch, tails, _) = drain.gather(usize::MAX, Losses::Between, false);
    if let Some(spilled) = drain.sessions.first_mut().and_then(Draining::spilled) {
        spilled.put(batch, tails);
    }
}

/// Bytes of a session's buffer at most; beyond it the rings overflow.
const MOST: usize = 1 << 28;

impl Spilled {
    /// Takes the records that are not later than `limit`, of the session `of`; `done` gets how far the rings have come by them.
    fn read(&mut self, of: u32, limit: u64, into: &mut Batch, done: &mut Tails) -> Left {
        loop {
            let Some(first) = self.batches.front_mut() else { return Left::Nothing };
            while let Some(taken) = first.batch.records.get(first.read) {
                if taken.ticks > limit {
                    return Left::Later(taken.ticks);
                }
                if into.records.len() >= into.max {
                    return Left::Unread(taken.ticks);
                }
                into.copy(of, taken, &first.batch.bytes);
                first.read += 1;
            }
            self.bytes -= first.batch.size();
            done.append(&mut first.tails);
            self.batches.pop_front();
        }
    }
}

/// A session that is being drained.
struct Draining<'s> {
    /// Its place among the sessions that the caller named.
    at: usize,
    session: &'s Session,
    feeds: Vec<Arc<Feed>>,
    one: Option<MutexGuard<'s, Spilled>>,
}

impl<'s> Draining<'s> {
    fn of(at: usize, session: &'s Session) -> Result<Self, Busy> {
        let one = match session.draining.try_lock() {
            Ok(one) => Some(one),
            // a consumer panicked: its drain is over all the same
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => return Err(Busy),
        };
        let one = one.filter(|_| !mutant!("drains_mix"));
        Ok(Draining { at, session, feeds: session.feeds(), one })
    }

    fn spilled(&mut self) -> Option<&mut Spilled> {
        self.one.as_deref_mut()
    }
}

/// A drain under way.
pub(crate) struct Drain<'s> {
    /// It takes records with at most these ticks. They are read before the rings are listed, so a record that is written while the
    /// rings are read has more ticks. Otherwise a ring that is read late could show the effect of a record that was not yet in a ring
    /// that was read early.
    now: u64,
    sessions: Vec<Draining<'s>>,
}

impl<'s> Drain<'s> {
    /// A drain of the sessions that no other drain holds; `read` reads the ticks.
    pub(crate) fn of(sessions: &[&'s Session], read: impl Fn() -> u64) -> Self {
        let mut now = read();
        let sessions = (0..).zip(sessions).filter_map(|(at, session)| Draining::of(at, session).ok()).collect();
        if mutant!("drain_lists_early") {
            now = read();
        }
        Drain { now: if mutant!("drain_uncut") { u64::MAX } else { now }, sessions }
    }

    /// Takes at most `max` records, oldest first.
    pub(crate) fn run(mut self, max: usize, losses: Losses, mut take: impl FnMut(usize, &Record<&[u8]>)) -> Drained {
        let (batch, tails, until) = self.gather(max, losses, true);
        let deliver = || tails.iter().for_each(|(feed, tail)| feed.delivered.store(*tail, DELIVERED.order()));
        if mutant!("delivered_early") {
            deliver();
        }
        let Batch { records, bytes, .. } = &batch;
        records.iter().for_each(|taken| take(self.sessions[taken.of as usize].at, &taken.record(bytes)));
        deliver();
        for draining in &mut self.sessions {
            // no mark may still wait for a ring that is dropped
            if draining.spilled().is_none_or(|spilled| spilled.batches.is_empty()) {
                draining.session.forget_ended_rings();
            }
        }
        Drained { took: records.len(), until }
    }

    /// Takes records out of the rings and, with `spilled`, out of the buffers. Also answers how far the rings have come then, and the
    /// ticks of the oldest record that it left, if it took as many as it might.
    fn gather(&mut self, max: usize, losses: Losses, spilled: bool) -> (Batch, Tails, Option<u64>) {
        let now = self.now;
        let mut batch = Batch::of(max);
        let there = self.sessions.iter().flat_map(|draining| &draining.feeds);
        let there = there.map(|feed| feed.ring.head().saturating_sub(feed.ring.tail()) as usize);
        batch.records.reserve(there.sum::<usize>().min(max).min(EXPECTED));
        let ids: Vec<_> = self.sessions.iter().map(|draining| draining.session.id).collect();
        let mut sources = Vec::new();
        for (of, draining) in (0..).zip(&mut self.sessions) {
            // a loss that is older than all records
            let untold = if spilled { draining.session.take_untold() } else { 0 };
            batch.records.extend((untold > 0).then_some(Taken { of, ticks: 0, what: Bytes::Lost(untold) }));
            if let Some(before) = draining.one.as_deref_mut().filter(|before| spilled && !before.batches.is_empty()) {
                sources.push(RecordSource::Spilled(of, before, Vec::new()));
            }
            sources.extend(draining.feeds.iter().map(|feed| RecordSource::Ring(RingSource::new(of, feed))));
        }
        // sources by the ticks of their next record; 0 until it has been read
        let mut next: BinaryHeap<_> = (0..sources.len()).map(|index| Reverse((0, index))).collect();
        let mut until = None;
        while let Some(Reverse((_, index))) = next.pop() {
            let limit = next.peek().map_or(now, |Reverse((ticks, _))| now.min(*ticks));
            let left = match &mut sources[index] {
                RecordSource::Ring(ring) => ring.read(limit, losses, &mut batch),
                RecordSource::Spilled(of, before, done) => before.read(*of, limit, &mut batch, done),
            };
            match left {
                Left::Later(ticks) if ticks <= now => next.push(Reverse((ticks, index))),
                Left::Later(_) | Left::Nothing => (),
                Left::Unread(ticks) => {
                    until = Some(ticks);
                    break;
                }
            }
        }
        if sources.len() > 1 {
            // almost in order already: a thread may write a record after others that are later
            batch.records.sort_by_key(|taken| (taken.ticks, Reverse(ids[taken.of as usize])));
        }
        let (mut done, mut tails) = (Tails::new(), Vec::new());
        for source in sources {
            match source {
                RecordSource::Spilled(_, _, read) => done.extend(read),
                RecordSource::Ring(ring) => tails.extend(ring.tail().map(|tail| (ring.of, tail))),
            }
        }
        for (of, tail) in tails {
            // records that were spilled earlier are still to be delivered
            let before = self.sessions[of as usize].spilled().filter(|_| spilled && !mutant!("spilled_delivered"));
            match before.and_then(|before| before.batches.back_mut()) {
                Some(last) => last.tails.push(tail),
                None => done.push(tail),
            }
        }
        (batch, done, until)
    }
}

/// Records that a batch reserves at most: rings count lost records, too.
const EXPECTED: usize = 1 << 16;

/// A source of records.
enum RecordSource<'s> {
    /// A ring.
    Ring(RingSource<'s>),
    /// The buffer of a session, and how far its rings have come by the records that were read from it.
    Spilled(u32, &'s mut Spilled, Tails),
}

/// A ring that is being read.
struct RingSource<'s> {
    /// Its session's place among the drained ones.
    of: u32,
    feed: &'s Arc<Feed>,
    /// Ticks of the record that was taken last.
    last: Option<u64>,
    /// Places in the batch of losses that were taken before any record.
    untimed: Vec<usize>,
    /// Whether it could be read: no other drain held it.
    was_read: bool,
}

/// The next record of a source.
enum Left {
    /// It is later than the limit, at these ticks.
    Later(u64),
    /// There is none, or another drain holds the source.
    Nothing,
    /// It has these ticks, and the batch is full.
    Unread(u64),
}

impl<'s> RingSource<'s> {
    fn new(of: u32, feed: &'s Arc<Feed>) -> Self {
        RingSource { of, feed, last: None, untimed: Vec::new(), was_read: false }
    }

    /// Takes the records that are not later than `limit`.
    fn read(&mut self, limit: u64, losses: Losses, batch: &mut Batch) -> Left {
        let mut left = Left::Nothing;
        let Batch { records, bytes, max } = batch;
        let read = self.feed.ring.drain(usize::MAX, |seen| {
            let is_full = records.len() >= *max;
            let (ticks, what) = match seen {
                // a loss belongs to the record before it
                RecordRef::Drop { .. } if is_full => {
                    left = Left::Unread(self.last.unwrap_or(0));
                    return ControlFlow::Break(());
                }
                RecordRef::Drop { count } => {
                    if self.last.is_none() && losses == Losses::Between {
                        self.untimed.push(records.len());
                    }
                    (self.last.unwrap_or(0), Bytes::Lost(count))
                }
                RecordRef::Event { header, payload } => {
                    let ticks = header[1];
                    self.untimed.drain(..).for_each(|lost| records[lost].ticks = ticks);
                    if ticks > limit || is_full {
                        left = if ticks > limit { Left::Later(ticks) } else { Left::Unread(ticks) };
                        return ControlFlow::Break(());
                    }
                    let from = bytes.len();
                    bytes.extend_from_slice(payload);
                    self.last = Some(ticks);
                    (ticks, Bytes::Of { header, from, length: payload.len() as u32 })
                }
            };
            records.push(Taken { of: self.of, ticks, what });
            ControlFlow::Continue(())
        });
        self.was_read |= read.is_ok();
        left
    }

    /// How far the ring has come.
    fn tail(&self) -> Option<(Arc<Feed>, u64)> {
        self.was_read.then(|| (self.feed.clone(), self.feed.ring.tail()))
    }
}

/// Records of the session that were lost so far.
#[must_use]
pub fn lost(session: &Session) -> u64 {
    session.lost()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{
        ring::{Overflow, Pushed, Ring},
        state::session::Options,
    };

    /// Ticks of events, and how many were lost, of up to so many records.
    fn taken(session: &Session, max: usize, losses: Losses) -> Vec<(u64, Option<u64>)> {
        let mut taken = vec![];
        let took = drain_borrowed(session, max, losses, |record| match record.what {
            What::Lost(count) => taken.push((record.ticks, Some(count))),
            What::Event(_) => taken.push((record.ticks, None)),
        });
        assert_eq!(took, Ok(taken.len()));
        taken
    }

    #[test]
    fn a_loss_has_the_time_of_what_is_before_it_or_else_after_it() {
        let lose = |producer: &mut crate::ring::Producer| {
            assert_eq!(producer.push([0; 4], &[0; 1 << 16]), Pushed::Lost);
        };
        let store = |producer: &mut crate::ring::Producer, ticks| {
            assert_eq!(producer.push([0, ticks, 0, 0], &[0; 8]), Pushed::Stored);
        };
        for (losses, first) in [(Losses::Between, 5), (Losses::First, 0)] {
            let session = Session::new(1, 0, "", 0, Options::default());
            let (mut producer, ring) = Ring::split(0, Overflow::Drop);
            assert!(session.add_ring(ring));
            (0..3).for_each(|_| lose(&mut producer));
            store(&mut producer, 5);
            (0..2).for_each(|_| lose(&mut producer));
            store(&mut producer, 9);
            assert_eq!(taken(&session, 0, losses), []);
            assert_eq!(taken(&session, 2, losses), [(first, Some(3)), (5, None)]);
            // this drain has no record before the loss either
            let second = if losses == Losses::Between { 9 } else { 0 };
            assert_eq!(taken(&session, 1, losses), [(second, Some(2))]);
            assert_eq!(taken(&session, 1, losses), [(9, None)]);
            lose(&mut producer);
            assert_eq!(taken(&session, 9, losses), [(0, Some(1))], "there is nothing after it");
            session.give_up(4, 4);
            store(&mut producer, 12);
            assert_eq!(taken(&session, 9, losses), [(0, Some(4)), (12, None)]);
            assert_eq!(session.lost(), 10);
        }
    }

    #[test]
    fn no_more_is_spilled_than_is_allowed() {
        let session = Session::new(1, 0, "", 0, Options::default());
        let (mut producer, ring) = Ring::split(1 << 16, Overflow::Drop);
        assert!(session.add_ring(ring.clone()));
        let bytes = |session: &Session| session.draining.lock().unwrap().bytes;
        let mut push = |ticks| assert_eq!(producer.push([0, ticks, 0, 0], &[0; 8]), Pushed::Stored);
        push(1);
        spill(&session);
        let one = bytes(&session);
        assert_eq!((one, ring.tail()), (size_of::<Taken>() + 8, 1));
        for (before, after, tail) in [(MOST - 1, MOST - 1 + one, 2), (MOST, MOST, 2), (MOST + 1, MOST + 1, 2)] {
            session.draining.lock().unwrap().bytes = before;
            push(2);
            spill(&session);
            assert_eq!((bytes(&session), ring.tail()), (after, tail));
        }
        // a drain empties the buffer
        session.draining.lock().unwrap().bytes = 2 * one + 7;
        let mut taken = vec![];
        assert_eq!(drain(&session, 9, |record| taken.push(record.ticks)), Ok(4));
        assert_eq!((taken, bytes(&session)), (vec![1, 2, 2, 2], 7));
    }
}
