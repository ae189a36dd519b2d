//! Tokens of sequential tracing, and what a process keeps of them: its token and its counters.
//!
//! Rules: seq_trace.md, its serial algorithm as written; gold README 36 to 42.
//!
//! # Roles
//! The thread that runs a process changes its standing; a thread that starts the process does too. Each takes a short lock, under which
//! nothing else is locked.
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

/// The flags of a token, a bit each, as they stand in it.
pub mod flags {
    /// Messages that are sent.
    pub const SEND: u32 = 1;
    /// Messages that are taken.
    pub const RECEIVE: u32 = 2;
    /// What is printed.
    pub const PRINT: u32 = 4;
    /// `(megasecs, secs, microsecs)`.
    pub const TIMESTAMP: u32 = 8;
    /// `(nanoseconds, unique)`.
    pub const STRICT_MONOTONIC_TIMESTAMP: u32 = 16;
    /// Nanoseconds.
    pub const MONOTONIC_TIMESTAMP: u32 = 32;
    /// All of them.
    pub const ALL: u32 = 63;
    /// Those with the names that users write.
    pub const NAMES: [(&str, u32); 6] = [
        ("send", SEND),
        ("receive", RECEIVE),
        ("print", PRINT),
        ("timestamp", TIMESTAMP),
        ("strict_monotonic_timestamp", STRICT_MONOTONIC_TIMESTAMP),
        ("monotonic_timestamp", MONOTONIC_TIMESTAMP),
    ];
}

/// Bytes of a label, at most: a record of the system tracer's ring has room for it, and for a message.
pub const LABEL: usize = 32 << 10;

/// No process counts so far. A counter that a serial from outside has brought here begins anew with the next token that it counts for: one
/// that is taken with a serial below, or one of the process's own.
pub const FAR: i64 = 1 << 61;

/// Serials that are taken from outside are below this. Between [`FAR`] and here a sequence that has met with such a serial can still
/// go its way.
pub const END: i64 = 1 << 62;

/// A label as tokens have it: the same bytes for the same term, in whatever order the pairs of its maps and the members of its sets
/// came. `None` of one that is too long.
#[must_use]
pub fn label(term: Term) -> Option<Label> {
    let bytes = etf::encode(&sorted(term));
    (bytes.len() <= LABEL).then(|| bytes.into())
}

/// The same term, its maps and sets in one order. Terms that are equal to Erlang, as text and bytes are, keep one too.
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
    /// The serial before, and its own.
    pub serial: (i64, i64),
    /// The process of this node that sent it.
    pub from: u64,
    /// The process of another node that sent it: then `from` is 0.
    pub away: Option<Arc<Identifier>>,
}

impl Token {
    /// What a record has of it.
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

/// What a message carries.
#[derive(Clone, Debug, Default)]
pub enum Carried {
    /// Nothing: who takes it keeps its token. Timers' messages and those about ends of processes.
    #[default]
    Nothing,
    /// An empty token, which clears that of who takes it.
    Empty,
    /// A token, and the era that it was sent in.
    Token(Token, u64),
}

/// A process's token and its counters, in an era.
#[derive(Default)]
pub(crate) struct TokenState {
    pub era: u64,
    pub token: Option<Token>,
    pub previous: i64,
    pub current: i64,
    /// The counter was below 0 and has been counted on since, see [`rank`].
    pub was_below: bool,
}

/// How large a counter or a serial is where two are compared. OTP's counters know no numbers below 0: what is set to one is larger than
/// what any process counts to, and stays so when it has been counted on to 0 and beyond.
fn rank(serial: i64, was_below: bool) -> i64 {
    const AROUND: i64 = 1 << 60;
    if serial < 0 || was_below {
        serial.saturating_add(AROUND)
    } else {
        serial
    }
}

impl TokenState {
    /// Counts from a token's serial on, if that is larger; see [`FAR`].
    pub fn count(&mut self, serial: i64) {
        if self.current >= FAR && serial < FAR {
            (self.current, self.was_below) = (serial.max(0), false);
        } else if rank(serial, false) > rank(self.current, self.was_below) {
            (self.current, self.was_below) = (serial, serial < 0);
        }
    }

    /// Another sequence begins in this process; see [`FAR`].
    pub fn begin(&mut self) {
        if self.current >= FAR {
            (self.previous, self.current, self.was_below) = (0, 0, false);
        }
    }

    /// The token that the next event of this process has, by the algorithm. The system tracer's own events don't count.
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

/// A process's place in sequential tracing, made at its first token.
#[derive(Default)]
pub(crate) struct TokenSlot {
    pub standing: Mutex<Option<Box<TokenState>>>,
    /// Whether it may have a token: a first look of the thread that runs the process. Written under the lock.
    pub maybe: AtomicBool,
}

impl TokenSlot {
    /// What stands there in this era; nothing of an earlier one does.
    pub fn with<R>(&self, era: u64, with: impl FnOnce(&mut TokenState) -> R) -> R {
        let mut place = self.standing.lock().unpoisoned();
        let standing = place.get_or_insert_default();
        if standing.era != era && !mutant!("seq_revived") {
            **standing = TokenState { era, ..TokenState::default() };
        }
        let done = with(standing);
        self.maybe.store(standing.token.is_some(), Relaxed);
        done
    }
}
