//! Finds the sending of each received message.
//!
//! | pairing | the evidence |
//! | --- | --- |
//! | exact | the number ([`inviso_term::record::numbered`]), which messages of this system have: the receipt has the number of the sending, and the sender's creation if that is another process |
//! | serial | the label, serial and sender of the token that the message carried |
//! | content | the contents: the oldest message with the same contents to this process; if there is none, the oldest one to a queue or to a name |
//!
//! The number of pending messages is bounded. The oldest ones above it are dropped.

use crate::{
    event::{Seq, Trace},
    places::RANDOM,
    scan::{Bytes, Identity},
};
use rustc_hash::{FxHashMap, FxHasher};
use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
};

/// How the sending of a received message was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// By its number.
    Exact,
    /// By the serial of its token.
    Serial,
    /// By its contents: the oldest with the same ones.
    Content,
}

/// The pending messages: sent and not yet received. Each has a value of the caller.
#[derive(Debug)]
pub struct Pairs<T> {
    most: usize,
    erlang: bool,
    /// The place of the first of `sent` among all messages.
    first: u64,
    sent: VecDeque<Option<Pending<T>>>,
    numbers: FxHashMap<u64, u64>,
    serials: FxHashMap<u64, u64>,
    contents: FxHashMap<u64, Row>,
}

#[derive(Debug)]
struct Pending<T> {
    number: Option<u64>,
    serial: Option<u64>,
    content: Option<u64>,
    /// The neighbours among those with the same contents.
    before: Option<u64>,
    next: Option<u64>,
    known: T,
}

/// The queue of messages with the same contents: the oldest and the newest.
#[derive(Debug)]
struct Row {
    oldest: u64,
    newest: u64,
}

fn key(of: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The key of a message's number. Numbers of several operating system processes may be the same, so the sender is part of the
/// key. A process is identified by the creation in its pids, whatever its node's name is before or after a merge.
#[must_use]
pub fn numbered(trace: &Trace<'_>) -> Option<u64> {
    let number = trace.number?;
    let whose = match Identity::of(trace.tracee) {
        _ if number.sender != 0 => (&[][..], number.sender),
        Some(of) if of.creation < RANDOM => (of.node, of.creation),
        Some(of) => (&[][..], of.creation),
        None => (&[][..], 0),
    };
    Some(key((whose, number.number)))
}

fn serial(seq: &Seq<'_>) -> Option<u64> {
    Some(key((seq.label, seq.serial?, seq.from?)))
}

impl<T> Pairs<T> {
    /// Creates an empty set of at most this many messages. `erlang`: the pids are an Erlang node's, which has no queues.
    #[must_use]
    pub fn new(most: usize, erlang: bool) -> Pairs<T> {
        Pairs {
            most,
            erlang,
            first: 0,
            sent: VecDeque::new(),
            numbers: FxHashMap::default(),
            serials: FxHashMap::default(),
            contents: FxHashMap::default(),
        }
    }

    /// Adds a sent message. Answers its place among all; None without contents or receiver.
    pub fn sent(&mut self, trace: &Trace<'_>, known: T) -> Option<u64> {
        let (value, to) = (trace.value?, trace.other?);
        let content = if takes_for_others(to, self.erlang) { key((1, value)) } else { key((0, to, value)) };
        Some(self.add(numbered(trace), None, Some(content), known))
    }

    /// Adds a message whose sending only its token's event shows.
    pub fn sent_with(&mut self, seq: &Seq<'_>, known: T) -> Option<u64> {
        Some(self.add(None, Some(serial(seq)?), None, known))
    }

    /// Adds a token to the message at this place.
    pub fn carries(&mut self, place: u64, seq: &Seq<'_>) -> Option<&mut T> {
        let serial = serial(seq)?;
        let sent = self.at(place)?;
        sent.serial = Some(serial);
        self.serials.insert(serial, place);
        self.at(place).map(|sent| &mut sent.known)
    }

    /// Removes the message with the number of this receipt.
    pub fn numbered(&mut self, trace: &Trace<'_>) -> Option<(u64, T)> {
        let place = self.numbers.remove(&numbered(trace)?)?;
        self.remove(place)
    }

    /// Removes the message with the token of this receipt.
    pub fn with(&mut self, seq: &Seq<'_>) -> Option<(u64, T)> {
        let place = self.serials.remove(&serial(seq)?)?;
        self.remove(place)
    }

    /// Removes the message with the contents of this receipt.
    pub fn alike(&mut self, tracee: Bytes<'_>, value: Bytes<'_>) -> Option<(u64, T)> {
        [key((0, tracee, value)), key((1, value))].into_iter().find_map(|content| {
            let place = self.contents.get(&content)?.oldest;
            self.remove(place)
        })
    }

    /// Removes the oldest message if there are too many, or at the end.
    pub fn forget(&mut self, all: bool) -> Option<(u64, T)> {
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.first += 1;
        }
        if self.sent.is_empty() || !all && self.sent.len() <= self.most {
            return None;
        }
        self.remove(self.first)
    }

    fn at(&mut self, place: u64) -> Option<&mut Pending<T>> {
        let at = usize::try_from(place.checked_sub(self.first)?).ok()?;
        self.sent.get_mut(at)?.as_mut()
    }

    fn add(&mut self, number: Option<u64>, serial: Option<u64>, content: Option<u64>, known: T) -> u64 {
        let place = self.first + self.sent.len() as u64;
        self.sent.push_back(Some(Pending { number, serial, content, before: None, next: None, known }));
        if let Some(number) = number {
            self.numbers.insert(number, place);
        }
        if let Some(serial) = serial {
            self.serials.insert(serial, place);
        }
        if let Some(content) = content {
            let row = self.contents.entry(content).or_insert(Row { oldest: place, newest: place });
            let before = Some(std::mem::replace(&mut row.newest, place)).filter(|before| *before != place);
            self.join(before, Some(place));
        }
        place
    }

    /// Removes a message.
    fn remove(&mut self, place: u64) -> Option<(u64, T)> {
        let at = usize::try_from(place.checked_sub(self.first)?).ok()?;
        let sent = self.sent.get_mut(at)?.take()?;
        let of = |map: &mut FxHashMap<u64, u64>, key: Option<u64>| {
            if let Some(key) = key.filter(|key| map.get(key) == Some(&place)) {
                map.remove(&key);
            }
        };
        of(&mut self.numbers, sent.number);
        of(&mut self.serials, sent.serial);
        if let Some(content) = sent.content {
            match (sent.before, sent.next, self.contents.get_mut(&content)) {
                (None, None, _) => drop(self.contents.remove(&content)),
                (None, Some(next), Some(row)) => row.oldest = next,
                (Some(before), None, Some(row)) => row.newest = before,
                _ => {}
            }
            self.join(sent.before, sent.next);
        }
        Some((place, sent.known))
    }

    /// Makes two messages neighbours among those of the same contents.
    fn join(&mut self, before: Option<u64>, next: Option<u64>) {
        if let Some(sent) = before.and_then(|place| self.at(place)) {
            sent.next = next;
        }
        if let Some(sent) = next.and_then(|place| self.at(place)) {
            sent.before = before;
        }
    }
}

/// Whether another process receives messages to this destination: it is a queue of this system, or a name.
fn takes_for_others(to: Bytes<'_>, erlang: bool) -> bool {
    const QUEUE: u64 = 2;
    match Identity::of(to) {
        Some(of) => !erlang && !of.is_port && of.id & 3 == QUEUE,
        None => true,
    }
}
