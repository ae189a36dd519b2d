//! From the rings of a session to whoever takes its messages, in the order of time; and knowing when all of them have
//! arrived.
//!
//! What one thread's record brought about in another one's comes after it, however far the taker lags: what a drain takes is
//! older than all that it leaves, and than what is written while it looks at one ring after the other.
//!
//! # Roles
//! One drain of a session at a time, by a lock that is only tried; a second one is told so and may wait. A [`spill`] is one, too: by
//! a thread that writes, of a session whose taker lags and of which nothing is to be lost.
//!
//! # States
//! A record is in its ring, or spilled, then with the drain that sorts it among those of other rings, then with the taker. A
//! [`Mark`] is open until everything that was in a ring when it was made is with the taker.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `delivered` | drain, `Release`, after the taker's last record | [`Mark::passed`], `Acquire` | what the taker did with the records |
//!
//! A ring's own `tail` will not do for that: it moves when a record leaves the ring, before it is sorted and handed over.
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

/// Where a loss stands that this drain has no record of the same ring before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    /// At the time of the record after it.
    Between,
    /// Before everything else: of rings that overwrite, what was lost is older than all that is there.
    First,
}

/// What a drain of several sessions did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// How many records it took, losses included as one each.
    pub took: usize,
    /// When the oldest was that it left, if it took as many as it might.
    pub until: Option<u64>,
}

/// Takes up to `max` records out of the session's rings, oldest first, and hands them on in the order of time. What one drain
/// leaves is not older than what it takes.
///
/// Returns how many it took, losses included as one each. A loss has the time of the record before it in its ring, or of
/// the one after it where this drain has none before. What was given up ([`Session::give_up`]) comes first.
///
/// # Errors
/// [`Busy`] when another drain of the session is under way; nothing was taken then.
pub fn drain(session: &Session, max: usize, mut take: impl FnMut(Record)) -> Result<usize, Busy> {
    drain_borrowed(session, max, Losses::Between, |record| take(record.to_owned()))
}

/// As [`drain`], for a taker that copies what it keeps.
///
/// # Errors
/// [`Busy`], as there.
pub fn drain_borrowed(
    session: &Session, max: usize, losses: Losses, mut take: impl FnMut(&Record<&[u8]>),
) -> Result<usize, Busy> {
    let drain = Drain::of(&[session], || session.ticks());
    if drain.sessions.is_empty() {
        return Err(Busy);
    }
    Ok(drain.run(max, losses, |_, record| take(record)).took)
}

/// As [`drain_borrowed`], of several sessions in one order, the newer session first where the time is the same. `take` is told
/// which of them a record is of. Sessions that another drain is at are left out.
pub fn drain_all(
    sessions: &[&Session], max: usize, losses: Losses, take: impl FnMut(usize, &Record<&[u8]>),
) -> Drained {
    let Some(first) = sessions.first() else { return Drained::default() };
    Drain::of(sessions, || first.ticks()).run(max, losses, take)
}

/// Brings what is in the session's rings to where there is room for more of it, until it is drained: for a session whose taker lags,
/// and of which nothing is to be lost. Does nothing while it is drained, or where that has [`MOST`] already.
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

/// Bytes that are spilled at most, before the rings overflow.
const MOST: usize = 1 << 28;

impl Spilled {
    /// Takes what is not later than `limit`, of the session `of`; `done` gets what is to be said of rings then.
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
    /// Its place among those that the caller named.
    at: usize,
    session: &'s Session,
    feeds: Vec<Arc<Feed>>,
    one: Option<MutexGuard<'s, Spilled>>,
}

impl<'s> Draining<'s> {
    fn of(at: usize, session: &'s Session) -> Result<Self, Busy> {
        let one = match session.draining.try_lock() {
            Ok(one) => Some(one),
            // a taker panicked: its drain is over all the same
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
    /// It takes what was written until then. No ring was looked at before, nor looked for: what is written while they are looked at
    /// one after the other has more ticks. Else one that is looked at late could show what came of something that was not yet in
    /// one that was looked at early.
    now: u64,
    sessions: Vec<Draining<'s>>,
}

impl<'s> Drain<'s> {
    /// Of those of the sessions that no other drain is at; `read` reads the counter.
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
            // a ring that is forgotten is waited for by no mark
            if draining.spilled().is_none_or(|spilled| spilled.batches.is_empty()) {
                draining.session.forget_ended_rings();
            }
        }
        Drained { took: records.len(), until }
    }

    /// Takes them out of the rings and, if told to, of what was spilled; with how far the rings have come then, and when the oldest
    /// was that it left, if it took as many as it might.
    fn gather(&mut self, max: usize, losses: Losses, spilled: bool) -> (Batch, Tails, Option<u64>) {
        let now = self.now;
        let mut batch = Batch::of(max);
        let there = self.sessions.iter().flat_map(|draining| &draining.feeds);
        let there = there.map(|feed| feed.ring.head().saturating_sub(feed.ring.tail()) as usize);
        batch.records.reserve(there.sum::<usize>().min(max).min(EXPECTED));
        let ids: Vec<_> = self.sessions.iter().map(|draining| draining.session.id).collect();
        let mut sources = Vec::new();
        for (of, draining) in (0..).zip(&mut self.sessions) {
            // older than all that is there
            let untold = if spilled { draining.session.take_untold() } else { 0 };
            batch.records.extend((untold > 0).then_some(Taken { of, ticks: 0, what: Bytes::Lost(untold) }));
            if let Some(before) = draining.one.as_deref_mut().filter(|before| spilled && !before.batches.is_empty()) {
                sources.push(RecordSource::Spilled(of, before, Vec::new()));
            }
            sources.extend(draining.feeds.iter().map(|feed| RecordSource::Ring(RingSource::new(of, feed))));
        }
        // those that may have something, by the ticks of what they have next; 0 until it has been seen
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
            // all but in order: only what a thread wrote late may have been before what it wrote earlier
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
            // what was spilled before it has still to be handed over
            let before = self.sessions[of as usize].spilled().filter(|_| spilled && !mutant!("spilled_delivered"));
            match before.and_then(|before| before.batches.back_mut()) {
                Some(last) => last.tails.push(tail),
                None => done.push(tail),
            }
        }
        (batch, done, until)
    }
}

/// Records that there is room for from the start; of those that rings count, many may be lost.
const EXPECTED: usize = 1 << 16;

/// Where records come from.
enum RecordSource<'s> {
    /// A ring.
    Ring(RingSource<'s>),
    /// What was spilled of a session, and how far its rings have come by what has been read.
    Spilled(u32, &'s mut Spilled, Tails),
}

/// A ring that is being read.
struct RingSource<'s> {
    /// Its session's place among those that are drained.
    of: u32,
    feed: &'s Arc<Feed>,
    /// The ticks of what was taken last.
    last: Option<u64>,
    /// The losses that were taken before anything else.
    untimed: Vec<usize>,
    /// Whether it could be read, and no other drain was at it.
    was_read: bool,
}

/// What a source has left.
enum Left {
    /// Something later than was asked for.
    Later(u64),
    /// Nothing, or another drain is at it.
    Nothing,
    /// This, and as many were taken as may be.
    Unread(u64),
}

impl<'s> RingSource<'s> {
    fn new(of: u32, feed: &'s Arc<Feed>) -> Self {
        RingSource { of, feed, last: None, untimed: Vec::new(), was_read: false }
    }

    /// Takes what is not later than `limit`.
    fn read(&mut self, limit: u64, losses: Losses, batch: &mut Batch) -> Left {
        let mut left = Left::Nothing;
        let Batch { records, bytes, max } = batch;
        let read = self.feed.ring.drain(usize::MAX, |seen| {
            let is_full = records.len() >= *max;
            let (ticks, what) = match seen {
                // goes with the record before it
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

/// How many records of the session were lost so far.
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
            // this drain has nothing before the loss either
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
        // what is drained makes room
        session.draining.lock().unwrap().bytes = 2 * one + 7;
        let mut taken = vec![];
        assert_eq!(drain(&session, 9, |record| taken.push(record.ticks)), Ok(4));
        assert_eq!((taken, bytes(&session)), (vec![1, 2, 2, 2], 7));
    }
}
