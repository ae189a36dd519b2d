//! From the rings of a session to whoever takes its messages, in the order of time; and knowing when all of them have
//! arrived.
//!
//! # Roles
//! One drain of a session at a time; a second one is told so and may wait.
//!
//! # States
//! A [`Mark`] is open until every ring's tail, which is stored after the taker took the records, has passed the head that
//! the mark remembers.
#![forbid(unsafe_code)]

use crate::{
    event::stamp,
    ring::{Busy, RecordRef},
    session::Session,
};
use std::{ops::ControlFlow, sync::Arc};

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
    /// The number that makes a strict stamp unique; 0 for other stamps.
    pub unique: u64,
    /// Terms, in the external term format.
    pub payload: Vec<u8>,
}

fn record(header: [u64; 4], payload: &[u8]) -> Record {
    let stamps = (header[0] >> 40) as u8;
    let (unique, payload) = if stamps & stamp::MASK == stamp::STRICT && payload.len() >= 8 {
        let (first, rest) = payload.split_at(8);
        (u64::from_ne_bytes(first.try_into().unwrap_or_default()), rest)
    } else {
        (0, payload)
    };
    let event = Event {
        kind: (header[0] >> 32) as u8,
        stamps,
        scheduler: (header[0] >> 48) as u16,
        tracee: header[2],
        what: header[3],
        unique,
        payload: payload.to_vec(),
    };
    Record { ticks: header[1], what: What::Event(event) }
}

/// Takes up to `max` records out of each ring of the session and hands them on in the order of time.
///
/// Returns how many it took, losses included as one each.
///
/// # Errors
/// [`Busy`] when another thread drains one of the rings; nothing that was taken is lost.
pub fn drain(session: &Session, max: usize, mut take: impl FnMut(Record)) -> Result<usize, Busy> {
    let rings = session.rings();
    let mut all: Vec<Record> = Vec::new();
    let mut busy = None;
    for ring in &rings {
        let mut last = all.last().map_or(0, |r| r.ticks);
        let drained = ring.drain(max, |seen| {
            all.push(match seen {
                RecordRef::Event { header, payload } => record(header, payload),
                RecordRef::Drop { count, .. } => Record { ticks: last, what: What::Lost(count) },
            });
            last = all.last().map_or(0, |r| r.ticks);
            ControlFlow::Continue(())
        });
        if let Err(b) = drained {
            busy = Some(b);
        }
    }
    if rings.len() > 1 {
        all.sort_by_key(|r| r.ticks);
    }
    let taken = all.len();
    all.into_iter().for_each(&mut take);
    session.forget_ended_rings();
    match busy {
        Some(busy) => Err(busy),
        None => Ok(taken),
    }
}

/// How far each ring of a session had been written at one moment.
pub struct Mark {
    heads: Vec<(Arc<crate::ring::Ring>, u64)>,
}

impl Mark {
    /// Remembers where the session's rings stand now.
    #[must_use]
    pub fn of(session: &Session) -> Mark {
        Mark { heads: session.rings().into_iter().map(|r| { let head = r.head(); (r, head) }).collect() }
    }

    /// Whether everything that was written before the mark has been taken.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.heads.iter().all(|(ring, head)| ring.tail() >= *head)
    }
}

/// How many records of the session were lost so far.
#[must_use]
pub fn lost(session: &Session) -> u64 {
    session.lost_by_ended_rings() + session.rings().iter().map(|r| r.lost()).sum::<u64>()
}
