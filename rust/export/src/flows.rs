//! Which message that was received is which that was sent.
//!
//! A trace message `receive` does not say who sent it. It is the oldest message that was sent to this process with the same contents;
//! if there is none, the oldest with the same contents that was sent to a queue or to a name. A seq_trace `receive` is the `send` with the
//! same label, serial and sender. So many messages can be under way; of more the oldest are forgotten.

use crate::{
    event::{Seq, Trace},
    scan::{Bytes, Identity},
};
use inviso_term::record::Kind;
use rustc_hash::FxHashMap;
use std::{
    collections::{hash_map::DefaultHasher, VecDeque},
    hash::{Hash, Hasher},
};

/// Messages under way at most.
const UNDER_WAY: usize = 1 << 16;

/// One end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It begins here.
    Begin(u64),
    /// It ends here.
    End(u64),
}

/// Messages under way.
#[derive(Debug, Default)]
pub struct Flows {
    /// The number of the first of `taken`.
    first: u64,
    /// Whether each was received, and under what keys it waits.
    taken: VecDeque<(bool, [u64; 2])>,
    waiting: FxHashMap<u64, VecDeque<u64>>,
    erlang: bool,
}

fn key(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Flows {
    /// None yet. `erlang`: pids are an Erlang node's, none of which is a queue.
    #[must_use]
    pub fn new(erlang: bool) -> Flows {
        Flows { erlang, ..Flows::default() }
    }

    /// The arrow of a message about a tracee.
    pub fn of_trace(&mut self, trace: &Trace<'_>) -> Option<Flow> {
        let value = trace.value?;
        match trace.kind {
            Some(Kind::Send) => {
                let to = trace.other?;
                let direct = key((0, to, value));
                let any = if takes_for_others(to, self.erlang) { key((1, value)) } else { direct };
                Some(Flow::Begin(self.send([direct, any])))
            }
            Some(Kind::Receive) => {
                let direct = self.receive(key((0, trace.tracee, value)));
                direct.or_else(|| self.receive(key((1, value)))).map(Flow::End)
            }
            _ => None,
        }
    }

    /// The arrow of a message about a token.
    pub fn of_seq(&mut self, seq: &Seq<'_>) -> Option<Flow> {
        let key = key((2, seq.label, seq.serial?, seq.from?));
        match seq.word {
            b"send" => Some(Flow::Begin(self.send([key, key]))),
            b"receive" => self.receive(key).map(Flow::End),
            _ => None,
        }
    }

    fn send(&mut self, keys: [u64; 2]) -> u64 {
        let [direct, any] = keys;
        let number = self.first + self.taken.len() as u64;
        self.taken.push_back((false, keys));
        self.waiting.entry(direct).or_default().push_back(number);
        if any != direct {
            self.waiting.entry(any).or_default().push_back(number);
        }
        while self.taken.len() > UNDER_WAY || self.taken.front().is_some_and(|(taken, _)| *taken) {
            self.forget();
        }
        // arrows are numbered from 1
        number + 1
    }

    /// The oldest is no longer waited for.
    fn forget(&mut self) {
        let Some((_, keys)) = self.taken.pop_front() else { return };
        for key in keys {
            if let Some(numbers) = self.waiting.get_mut(&key) {
                while numbers.front().is_some_and(|number| *number <= self.first) {
                    numbers.pop_front();
                }
                if numbers.is_empty() {
                    self.waiting.remove(&key);
                }
            }
        }
        self.first += 1;
    }

    fn receive(&mut self, key: u64) -> Option<u64> {
        let numbers = self.waiting.get_mut(&key)?;
        let mut found = None;
        while let Some(number) = numbers.pop_front() {
            let place = number.checked_sub(self.first).and_then(|at| self.taken.get_mut(at as usize));
            if let Some(place) = place.filter(|(taken, _)| !taken) {
                place.0 = true;
                found = Some(number + 1);
                break;
            }
        }
        if numbers.is_empty() {
            self.waiting.remove(&key);
        }
        found
    }
}

/// Whether somebody else receives what is sent there: it is a queue of this system, or a name.
fn takes_for_others(to: Bytes<'_>, erlang: bool) -> bool {
    const QUEUE: u64 = 2;
    match Identity::of(to) {
        Some(of) => !erlang && !of.is_port && of.is_own() && of.id & 3 == QUEUE,
        None => true,
    }
}
