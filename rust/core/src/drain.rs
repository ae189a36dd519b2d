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
pub struct Record<B = Vec<u8>> {
    /// When it happened, in ticks.
    pub ticks: u64,
    /// What happened.
    pub what: What<B>,
}

/// What a record tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What<B = Vec<u8>> {
    /// An event.
    Event(Event<B>),
    /// So many records were lost here.
    Lost(u64),
}

/// An event as the trace point wrote it; its terms are owned, or borrowed while it is handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<B = Vec<u8>> {
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
    pub payload: B,
    /// What a match spec adds to the message, a term; or nothing.
    pub extra: B,
}

impl Record {
    /// The same record, its terms borrowed.
    #[must_use]
    pub fn borrowed(&self) -> Record<&[u8]> {
        let what = match &self.what {
            What::Lost(count) => What::Lost(*count),
            What::Event(event) => {
                What::Event(Event { payload: event.payload.as_slice(), extra: event.extra.as_slice(), ..event.head() })
            }
        };
        Record { ticks: self.ticks, what }
    }
}

impl<B> Event<B> {
    /// The event without its terms.
    fn head<C: Default>(&self) -> Event<C> {
        Event {
            kind: self.kind,
            stamps: self.stamps,
            scheduler: self.scheduler,
            tracee: self.tracee,
            what: self.what,
            carried: self.carried,
            unique: self.unique,
            payload: C::default(),
            extra: C::default(),
        }
    }
}

impl Record<&[u8]> {
    fn to_owned(&self) -> Record {
        let what = match &self.what {
            What::Lost(count) => What::Lost(*count),
            What::Event(event) => What::Event(event.to_owned()),
        };
        Record { ticks: self.ticks, what }
    }
}

impl Event<&[u8]> {
    pub(crate) fn to_owned(&self) -> Event {
        Event { payload: self.payload.to_vec(), extra: self.extra.to_vec(), ..self.head() }
    }
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

pub(crate) fn event(header: [u64; 4], payload: &[u8]) -> Event<&[u8]> {
    let stamps = (header[0] >> 40) as u8;
    let (carried, payload) = number(payload, stamps & stamp::CARRIED != 0);
    let (unique, payload) = number(payload, stamps & stamp::MASK == stamp::STRICT);
    let (payload, extra) = extra(payload, stamps & stamp::EXTRA != 0);
    Event {
        kind: (header[0] >> 32) as u8,
        stamps,
        scheduler: (header[0] >> 48) as u16,
        tracee: header[2],
        what: header[3],
        carried: carried.unwrap_or_default(),
        unique: unique.unwrap_or_default(),
        payload,
        extra,
    }
}

/// A record that was taken out of its ring, its payload among those of all.
#[derive(Clone, Copy)]
struct Taken {
    ticks: u64,
    what: Bytes,
}

#[derive(Clone, Copy)]
enum Bytes {
    Of { header: [u64; 4], from: usize, to: usize },
    Lost(u64),
}

impl Taken {
    fn record<'b>(&self, bytes: &'b [u8]) -> Record<&'b [u8]> {
        let what = match self.what {
            Bytes::Lost(count) => What::Lost(count),
            Bytes::Of { header, from, to } => What::Event(event(header, bytes.get(from..to).unwrap_or_default())),
        };
        Record { ticks: self.ticks, what }
    }
}

/// Where a loss stands that this drain has no record of the same ring before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    /// At the time of the record after it.
    Between,
    /// Before everything else: of rings that overwrite, what was lost is older than all that is there.
    First,
}

/// Takes up to `max` records out of each ring of the session and hands them on in the order of time.
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
    let one = match session.draining.try_lock() {
        Ok(one) => Some(one),
        // a taker panicked: its drain is over all the same
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => return Err(Busy),
    };
    let one = one.filter(|_| !mutant!("drains_mix"));
    let feeds = session.feeds();
    let (mut all, mut bytes): (Vec<Taken>, Vec<u8>) = Default::default();
    let mut tails = Vec::with_capacity(feeds.len());
    // older than all that is there
    let untold = session.take_untold();
    all.extend((untold > 0).then_some(Taken { ticks: 0, what: Bytes::Lost(untold) }));
    for feed in &feeds {
        let first = all.len();
        let drained = feed.ring.drain(max, |seen| {
            let before = all[first..].last().map_or(0, |r| r.ticks);
            all.push(match seen {
                RecordRef::Event { header, payload } => {
                    let from = bytes.len();
                    bytes.extend_from_slice(payload);
                    Taken { ticks: header[1], what: Bytes::Of { header, from, to: bytes.len() } }
                }
                RecordRef::Drop { count, .. } => Taken { ticks: before, what: Bytes::Lost(count) },
            });
            ControlFlow::Continue(())
        });
        if let [Taken { ticks, what: Bytes::Lost(_) }, after, ..] = &mut all[first..] {
            *ticks = if losses == Losses::First { 0 } else { after.ticks };
        }
        if drained.is_ok() {
            tails.push((feed, feed.ring.tail()));
        }
    }
    if feeds.len() > 1 {
        all.sort_by_key(|r| r.ticks);
    }
    let deliver = || tails.iter().for_each(|(feed, tail)| feed.delivered.store(*tail, DELIVERED));
    if mutant!("delivered_early") {
        deliver();
    }
    all.iter().for_each(|taken| take(&taken.record(&bytes)));
    deliver();
    session.forget_ended_rings();
    drop(one);
    Ok(all.len())
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
