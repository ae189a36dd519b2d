//! From the rings of a session to whoever takes its messages, in the order of time; and knowing when all of them have
//! arrived.
//!
//! # Roles
//! One drain of a session at a time, by a lock that is only tried; a second one is told so and may wait.
//!
//! # States
//! A record is in its ring, then with the drain that sorts it among those of other rings, then with the taker. A [`Mark`]
//! is open until everything that was in a ring when it was made is with the taker.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `delivered` | drain, `Release`, after the taker's last record | [`Mark::passed`], `Acquire` | what the taker did with the records |
//!
//! A ring's own `tail` will not do for that: it moves when a record leaves the ring, before it is sorted and handed over.
//!
//! # Checked by
//! `models::delivery` (loom); mutants `drains_mix`, `delivered_early`, `delivered_relaxed`; `tests/exact.rs`.
#![forbid(unsafe_code)]

use crate::{
    emit::stamp,
    mutants::{mutant, unless},
    ring::{Busy, RecordRef, Ring},
    session::Session,
    sync::{
        Arc, AtomicU64,
        Ordering::{self, Acquire, Release},
        TryLockError,
    },
};
use std::ops::ControlFlow;

const DELIVERED: Ordering = unless(mutant!("delivered_relaxed"), Release);

/// A scheduler's ring of a session, and how far its records have come.
pub struct Feed {
    /// The ring.
    pub ring: Arc<Ring>,
    /// The ring's tail when its records were last handed over.
    delivered: AtomicU64,
}

impl Feed {
    pub(crate) fn new(ring: Arc<Ring>) -> Self {
        Feed { ring, delivered: AtomicU64::new(0) }
    }
}

/// A record on its way to a tracer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When it happened, in ticks.
    pub ticks: u64,
    /// What happened.
    pub what: What,
}

/// What a record tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// An event.
    Event(Event),
    /// So many records were lost here.
    Lost(u64),
}

/// An event as the trace point wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// See [`inviso_term::record::Kind`].
    pub kind: u8,
    /// See [`stamp`].
    pub stamps: u8,
    /// The scheduler that wrote it.
    pub scheduler: u16,
    /// The process that it is about.
    pub tracee: u64,
    /// A name's number, another process: what the kind says.
    pub what: u64,
    /// The stamp's nanoseconds where the record has them itself ([`stamp::CARRIED`]), else 0.
    pub carried: u64,
    /// The number that makes a strict stamp unique; 0 for other stamps.
    pub unique: u64,
    /// Terms, in the external term format.
    pub payload: Vec<u8>,
    /// What a match spec adds to the message, a term; or nothing.
    pub extra: Vec<u8>,
}

/// A number that stands before the payload, if there is one, and the rest.
fn number(payload: &[u8], is_there: bool) -> (Option<u64>, &[u8]) {
    match payload.split_first_chunk() {
        Some((first, rest)) if is_there => (Some(u64::from_ne_bytes(*first)), rest),
        _ => (None, payload),
    }
}

/// The payload, and the term that stands behind it, if there is one.
fn extra(payload: &[u8], is_there: bool) -> (&[u8], &[u8]) {
    match payload.split_last_chunk() {
        Some((rest, length)) if is_there => {
            rest.split_at(rest.len().saturating_sub(u32::from_ne_bytes(*length) as usize))
        }
        _ => (payload, &[]),
    }
}

pub(crate) fn record(header: [u64; 4], payload: &[u8]) -> Record {
    let stamps = (header[0] >> 40) as u8;
    let (carried, payload) = number(payload, stamps & stamp::CARRIED != 0);
    let (unique, payload) = number(payload, stamps & stamp::MASK == stamp::STRICT);
    let (payload, extra) = extra(payload, stamps & stamp::EXTRA != 0);
    let event = Event {
        kind: (header[0] >> 32) as u8,
        stamps,
        scheduler: (header[0] >> 48) as u16,
        tracee: header[2],
        what: header[3],
        carried: carried.unwrap_or_default(),
        unique: unique.unwrap_or_default(),
        payload: payload.to_vec(),
        extra: extra.to_vec(),
    };
    Record { ticks: header[1], what: What::Event(event) }
}

/// Takes up to `max` records out of each ring of the session and hands them on in the order of time.
///
/// Returns how many it took, losses included as one each. A loss has the time of the record before it in its ring, or of
/// the one after it where this drain has none before.
///
/// # Errors
/// [`Busy`] when another drain of the session is under way; nothing was taken then.
pub fn drain(session: &Session, max: usize, mut take: impl FnMut(Record)) -> Result<usize, Busy> {
    let one = match session.draining.try_lock() {
        Ok(one) => Some(one),
        // a taker panicked: its drain is over all the same
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => return Err(Busy),
    };
    let one = one.filter(|_| !mutant!("drains_mix"));
    let feeds = session.feeds();
    let mut all: Vec<Record> = Vec::new();
    let mut tails = Vec::with_capacity(feeds.len());
    for feed in &feeds {
        let first = all.len();
        let drained = feed.ring.drain(max, |seen| {
            let before = all[first..].last().map_or(0, |r| r.ticks);
            all.push(match seen {
                RecordRef::Event { header, payload } => record(header, payload),
                RecordRef::Drop { count, .. } => Record { ticks: before, what: What::Lost(count) },
            });
            ControlFlow::Continue(())
        });
        if let [Record { ticks, what: What::Lost(_) }, after, ..] = &mut all[first..] {
            *ticks = after.ticks;
        }
        if drained.is_ok() {
            tails.push((feed, feed.ring.tail()));
        }
    }
    if feeds.len() > 1 {
        all.sort_by_key(|r| r.ticks);
    }
    let taken = all.len();
    let deliver = || tails.iter().for_each(|(feed, tail)| feed.delivered.store(*tail, DELIVERED));
    if mutant!("delivered_early") {
        deliver();
    }
    all.into_iter().for_each(&mut take);
    deliver();
    session.forget_ended_rings();
    drop(one);
    Ok(taken)
}

/// How far each ring of a session had been written at one moment.
pub struct Mark {
    heads: Vec<(Arc<Feed>, u64)>,
}

impl Mark {
    /// Remembers where the session's rings stand now.
    #[must_use]
    pub fn of(session: &Session) -> Mark {
        let with_head = |feed: Arc<Feed>| {
            let head = feed.ring.head();
            (feed, head)
        };
        Mark { heads: session.feeds().into_iter().map(with_head).collect() }
    }

    /// Whether the taker has everything that was written before the mark.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.heads.iter().all(|(feed, head)| feed.delivered.load(Acquire) >= *head)
    }
}

/// How many records of the session were lost so far.
#[must_use]
pub fn lost(session: &Session) -> u64 {
    session.lost()
}
