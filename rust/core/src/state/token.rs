//! Tokens of sequential tracing, and a process's own token and counters.
//!
//! Rules: seq_trace.md, with its serial algorithm; gold README 36 to 42.
//!
//! # Roles
//! The thread that runs a process changes its token, and so does a thread that starts the process. Each takes a short lock. Under it no
//! other lock is taken.
//!
//! # States
//! A [`TokenState`] belongs to an era. In another era it counts as empty.
//!
//! # Orderings
//! The lock's. `maybe` is a hint for the thread that runs the process.
//!
//! # Checked by
//! `models::seq` (loom); mutant `seq_revived`; `tests/seq.rs`.
#![forbid(unsafe_code)]

use crate::{
    record::seq_event::TokenFields,
    sync::{mutants::mutant, AtomicBool, AtomicU64, Mutex, Ordering::Relaxed, Unpoisoned},
};
use inviso_term::{
    etf, order,
    term::{Identifier, Term},
};
use std::sync::Arc;

pub use super::token_liveness::{Label, TokenGuard};

/// The flags of a token, a bit each.
pub mod flags {
    /// Sent messages.
    pub const SEND: u32 = 1;
    /// Received messages.
    pub const RECEIVE: u32 = 2;
    /// Printed terms.
    pub const PRINT: u32 = 4;
    /// `(megasecs, secs, microsecs)`.
    pub const TIMESTAMP: u32 = 8;
    /// `(nanoseconds, unique)`.
    pub const STRICT_MONOTONIC_TIMESTAMP: u32 = 16;
    /// Nanoseconds.
    pub const MONOTONIC_TIMESTAMP: u32 = 32;
    /// All flags.
    pub const ALL: u32 = 63;
    /// All flags with the names that users write.
    pub const NAMES: [(&str, u32); 6] = [
        ("send", SEND),
        ("receive", RECEIVE),
        ("print", PRINT),
        ("timestamp", TIMESTAMP),
        ("strict_monotonic_timestamp", STRICT_MONOTONIC_TIMESTAMP),
        ("monotonic_timestamp", MONOTONIC_TIMESTAMP),
    ];
}

/// The largest size of a label in bytes, so that a record in the system tracer's ring also has space for a message.
pub const LABEL: usize = 32 << 10;

/// Counters never reach this by themselves. A counter that an external serial pushed past it restarts at the next token: a received one
/// with a smaller serial, or a new one of the process itself.
pub const FAR: i64 = 1 << 61;

/// Accepted external serials are below this. So a sequence with a serial above [`FAR`] can still continue for long.
pub const END: i64 = 1 << 62;

/// A label for tokens. Equal terms have equal bytes, regardless of the order of the pairs of maps and of the members of sets. `None` for
/// a label that is too long.
#[must_use]
pub fn label(term: Term) -> Option<Label> {
    let bytes = etf::encode(&sorted(term));
    (bytes.len() <= LABEL).then(|| bytes.into())
}

/// The same term with sorted maps and sets. Terms that are equal in Erlang, such as text and bytes, have an order, too.
fn sorted(term: Term) -> Term {
    let all = |terms: Vec<Term>| terms.into_iter().map(sorted).collect::<Vec<_>>();
    let by = |a: &Term, b: &Term| order::exact(a, b).then_with(|| etf::encode(a).cmp(&etf::encode(b)));
    match term {
        Term::Tuple(elements) => Term::Tuple(all(elements)),
        Term::List(elements) => Term::List(all(elements)),
        Term::ImproperList(elements, tail) => Term::ImproperList(all(elements), Box::new(sorted(*tail))),
        Term::Map(pairs) => {
            let mut pairs: Vec<_> = pairs.into_iter().map(|(key, value)| (sorted(key), sorted(value))).collect();
            pairs.sort_by(|a, b| by(&a.0, &b.0));
            Term::Map(pairs)
        }
        Term::Set(members) => {
            let mut members = all(members);
            members.sort_by(by);
            Term::Set(members)
        }
        Term::Record(mut record) => {
            record.fields = record.fields.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            Term::Record(record)
        }
        leaf => leaf,
    }
}

/// A trace token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// See [`flags`].
    pub flags: u32,
    /// A term, see [`label`].
    pub label: Label,
    /// The previous serial and its own.
    pub serial: (i64, i64),
    /// The sender, if it is a process of this node.
    pub from: u64,
    /// The sender, if it is a process of another node; then `from` is 0.
    pub away: Option<Arc<Identifier>>,
}

impl Token {
    /// The fields for a record.
    pub(crate) fn fields(&self) -> TokenFields<'_> {
        TokenFields { label: &self.label, serial: self.serial, away: self.away.as_deref() }
    }

    /// As `seq_trace:get_token/0` has it: `{Flags, Label, Serial, From, Previous}`.
    #[must_use]
    pub fn term(&self) -> Term {
        Term::Tuple(vec![
            Term::from(i64::from(self.flags)),
            etf::decode(&self.label).unwrap_or_else(|_| Term::atom("undefined")),
            Term::from(self.serial.1),
            Term::Pid(self.away.as_deref().cloned().unwrap_or_else(|| Identifier::own(self.from))),
            Term::from(self.serial.0),
        ])
    }
}

/// The token information of a message.
#[derive(Clone, Debug, Default)]
pub enum Carried {
    /// Nothing: the receiver keeps its token. For messages of timers, and messages about ends of processes.
    #[default]
    Nothing,
    /// An empty token: it clears the receiver's token.
    Empty,
    /// A token, and the era of its sending.
    Token(Token, u64),
}

/// A process's token and its counters, in an era.
#[derive(Default)]
pub(crate) struct TokenState {
    pub era: u64,
    pub token: Option<Token>,
    pub previous: i64,
    pub current: i64,
    /// Whether the counter was below 0 and has grown since, see [`rank`].
    pub was_below: bool,
}

/// The size of a counter or a serial in comparisons. OTP's counters have no numbers below 0: a negative value is larger than any count of
/// a process, and remains larger when it has grown to 0 and beyond.
fn rank(serial: i64, was_below: bool) -> i64 {
    const AROUND: i64 = 1 << 60;
    if serial < 0 || was_below {
        serial.saturating_add(AROUND)
    } else {
        serial
    }
}

impl TokenState {
    /// Continues from a token's serial if that is larger; see [`FAR`].
    pub fn count(&mut self, serial: i64) {
        if self.current >= FAR && serial < FAR {
            (self.current, self.was_below) = (serial.max(0), false);
        } else if rank(serial, false) > rank(self.current, self.was_below) {
            (self.current, self.was_below) = (serial, serial < 0);
        }
    }

    /// Begins another sequence in this process; see [`FAR`].
    pub fn begin(&mut self) {
        if self.current >= FAR {
            (self.previous, self.current, self.was_below) = (0, 0, false);
        }
    }

    /// The token of the next event of this process, by the serial algorithm. The system tracer's own events don't count.
    pub fn step(&mut self, pid: u64, tracer: u64, overflows: &AtomicU64) -> Option<&Token> {
        let token = self.token.as_mut()?;
        if tracer != pid {
            match self.current.checked_add(1) {
                Some(next) => self.current = next,
                None => drop(overflows.fetch_add(1, Relaxed)),
            }
            token.serial = (self.previous, self.current);
            token.from = pid;
            token.away = None;
        }
        Some(token)
    }
}

/// The place of a process's token and counters.
#[derive(Default)]
pub(crate) struct TokenSlot {
    /// Empty before the first token.
    pub standing: Mutex<Option<Box<TokenState>>>,
    /// Whether there may be a token: a hint for the thread that runs the process. Written under the lock.
    pub maybe: AtomicBool,
}

impl TokenSlot {
    /// Passes the state of this era to a function. The state of another era is cleared before.
    pub fn with<R>(&self, era: u64, with: impl FnOnce(&mut TokenState) -> R) -> R {
        let mut slot = self.standing.lock().unpoisoned();
        let state = slot.get_or_insert_default();
        if state.era != era && !mutant!("seq_revived") {
            **state = TokenState { era, ..TokenState::default() };
        }
        let done = with(state);
        self.maybe.store(state.token.is_some(), Relaxed);
        done
    }
}
