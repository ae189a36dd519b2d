//! Which message that was received is which that was sent.
//!
//! | pairing | what says so |
//! | --- | --- |
//! | exact | the number ([`inviso_term::record::numbered`]), which messages of this system have: the receipt has that of the sending, and says which process's it is if that is another |
//! | serial | the label, serial and sender of the token that the message carried |
//! | content | nothing else: it is the oldest that was sent to this process with the same contents; if there is none, the oldest with the same contents that was sent to a queue or to a name |
//!
//! So many messages can be under way; of more the oldest are forgotten.

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

/// How the sending of a message that was received was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// By its number.
    Exact,
    /// By the serial of its token.
    Serial,
    /// It is the oldest with the same contents.
    Content,
}

/// Messages that were sent and not yet received, each with what is known of its sending.
#[derive(Debug)]
pub struct Pairs<T> {
    most: usize,
    erlang: bool,
    /// The place of the first of `sent` among all.
    first: u64,
    sent: VecDeque<Option<Sent<T>>>,
    numbers: FxHashMap<u64, u64>,
    serials: FxHashMap<u64, u64>,
    contents: FxHashMap<u64, Row>,
}

#[derive(Debug)]
struct Sent<T> {
    number: Option<u64>,
    serial: Option<u64>,
    content: Option<u64>,
    /// Those with the same contents before and after it.
    before: Option<u64>,
    next: Option<u64>,
    known: T,
}

/// Messages of the same contents, in the order in which they were sent: the oldest and the newest.
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

/// The key of a number: those of several operating system processes may be the same. A process is known by the creation in its pids, whatever
/// its node is called, then or after a merge.
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
    /// No message yet, and at most so many. `erlang`: pids are an Erlang node's, none of which is a queue.
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

    /// A message that a process sent: its place among all. None if nothing says what it is, or to whom.
    pub fn sent(&mut self, trace: &Trace<'_>, known: T) -> Option<u64> {
        let (value, to) = (trace.value?, trace.other?);
        let content = if takes_for_others(to, self.erlang) { key((1, value)) } else { key((0, to, value)) };
        Some(self.add(numbered(trace), None, Some(content), known))
    }

    /// A message whose sending only its token tells of.
    pub fn sent_with(&mut self, seq: &Seq<'_>, known: T) -> Option<u64> {
        Some(self.add(None, Some(serial(seq)?), None, known))
    }

    /// The message at this place carries this token.
    pub fn carries(&mut self, place: u64, seq: &Seq<'_>) -> Option<&mut T> {
        let serial = serial(seq)?;
        let sent = self.at(place)?;
        sent.serial = Some(serial);
        self.serials.insert(serial, place);
        self.at(place).map(|sent| &mut sent.known)
    }

    /// What was received, by its number.
    pub fn numbered(&mut self, trace: &Trace<'_>) -> Option<(u64, T)> {
        let place = self.numbers.remove(&numbered(trace)?)?;
        self.take(place)
    }

    /// What was received, by its token.
    pub fn with(&mut self, seq: &Seq<'_>) -> Option<(u64, T)> {
        let place = self.serials.remove(&serial(seq)?)?;
        self.take(place)
    }

    /// What was received, by its contents.
    pub fn alike(&mut self, tracee: Bytes<'_>, value: Bytes<'_>) -> Option<(u64, T)> {
        [key((0, tracee, value)), key((1, value))].into_iter().find_map(|content| {
            let place = self.contents.get(&content)?.oldest;
            self.take(place)
        })
    }

    /// The oldest, where there are too many, or at the end.
    pub fn forget(&mut self, all: bool) -> Option<(u64, T)> {
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.first += 1;
        }
        if self.sent.is_empty() || !all && self.sent.len() <= self.most {
            return None;
        }
        self.take(self.first)
    }

    fn at(&mut self, place: u64) -> Option<&mut Sent<T>> {
        let at = usize::try_from(place.checked_sub(self.first)?).ok()?;
        self.sent.get_mut(at)?.as_mut()
    }

    fn add(&mut self, number: Option<u64>, serial: Option<u64>, content: Option<u64>, known: T) -> u64 {
        let place = self.first + self.sent.len() as u64;
        self.sent.push_back(Some(Sent { number, serial, content, before: None, next: None, known }));
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

    /// Takes one out: it is under way no longer.
    fn take(&mut self, place: u64) -> Option<(u64, T)> {
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

    /// The one comes right before the other among those of the same contents.
    fn join(&mut self, before: Option<u64>, next: Option<u64>) {
        if let Some(sent) = before.and_then(|place| self.at(place)) {
            sent.next = next;
        }
        if let Some(sent) = next.and_then(|place| self.at(place)) {
            sent.before = before;
        }
    }
}

/// Whether somebody else receives what is sent there: it is a queue of this system, or a name.
fn takes_for_others(to: Bytes<'_>, erlang: bool) -> bool {
    const QUEUE: u64 = 2;
    match Identity::of(to) {
        Some(of) => !erlang && !of.is_port && of.id & 3 == QUEUE,
        None => true,
    }
}
