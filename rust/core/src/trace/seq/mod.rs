//! Sequential tracing: a token that belongs to a process and travels with each message that it sends.
//!
//! Rules: seq_trace.md, its serial algorithm as written; gold README 36 to 42. Hosts call [`Node::seq_send`] where a message
//! leaves its sender, keep what it answers with the message, and call [`Node::seq_receive`] where it is taken.
//!
//! # Roles
//! The thread that runs a process changes its standing; whoever starts it, or resets all of them, does too. A short lock each;
//! nothing else is locked under it. Whoever tells an event looks for the system tracer inside a section, in the snapshot; one that is
//! a module is called, and that outside.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | the era, see [`census`](crate::state::token_liveness) | reset, `SeqCst` | everybody, `Acquire` | a token of an earlier era is empty, in a process and in a message |
//! | the system tracer's place | who sets it, `Release` | who tells an event, `Acquire` | a snapshot that is looked at after it has that session, unless it has ended |
//!
//! A reset only begins another era: what is left of earlier ones is found to be empty where it is looked at, so that no token can
//! slip past a reset between its parts.
//!
//! # Checked by
//! `models::seq` (loom); mutant `seq_revived`; the tests below.
#![forbid(unsafe_code)]

use crate::{
    delivery::drain::spill,
    emit::{ask, deferred, emit},
    record::seq_event::{self, TokenFields, Told},
    state::{
        flags::Flags,
        node::Node,
        session::Session,
        thread::Thread,
        token_liveness::Census,
        tracee::Tracee,
        tracer::{Group, SEQ_TRACE},
    },
    sync::{
        mutants::mutant,
        AtomicBool, AtomicU64, Mutex,
        Ordering::{Acquire, Relaxed, Release},
        Unpoisoned,
    },
    trace::messages::About,
};
use inviso_term::{
    etf::{self, Encoder, Full},
    order,
    term::{Identifier, Term},
};
use std::sync::Arc;

pub use crate::state::token_liveness::{Label, Living};

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
    fn fields(&self) -> TokenFields<'_> {
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

/// A message that is about to leave its sender, and may not: [`Node::seq_sent`] or [`Node::seq_take_back`] follows.
#[must_use]
pub struct Sending {
    token: Token,
    era: u64,
    /// What the sender had: its counter, and its token's serial and sender.
    before: (i64, (i64, i64), u64, Option<Arc<Identifier>>),
}

impl Sending {
    /// What the message carries.
    #[must_use]
    pub fn carried(&self) -> Carried {
        Carried::Token(self.token.clone(), self.era)
    }
}

/// A process's token and its counters, in an era.
#[derive(Default)]
struct Standing {
    era: u64,
    token: Option<Token>,
    previous: i64,
    current: i64,
    /// The counter was below 0 and has been counted on since, see [`rank`].
    was_below: bool,
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

impl Standing {
    /// Counts from a token's serial on, if that is larger; see [`FAR`].
    fn count(&mut self, serial: i64) {
        if self.current >= FAR && serial < FAR {
            (self.current, self.was_below) = (serial.max(0), false);
        } else if rank(serial, false) > rank(self.current, self.was_below) {
            (self.current, self.was_below) = (serial, serial < 0);
        }
    }

    /// Another sequence begins in this process; see [`FAR`].
    fn begin(&mut self) {
        if self.current >= FAR {
            (self.previous, self.current, self.was_below) = (0, 0, false);
        }
    }

    /// The token that the next event of this process has, by the algorithm. The system tracer's own events don't count.
    fn step(&mut self, tracee: &Tracee, tracer: u64, overflows: &AtomicU64) -> Option<&Token> {
        let token = self.token.as_mut()?;
        if tracer != tracee.pid {
            match self.current.checked_add(1) {
                Some(next) => self.current = next,
                None => drop(overflows.fetch_add(1, Relaxed)),
            }
            token.serial = (self.previous, self.current);
            token.from = tracee.pid;
            token.away = None;
        }
        Some(token)
    }
}

/// A process's place in sequential tracing, made at its first token.
#[derive(Default)]
pub(crate) struct Place {
    standing: Mutex<Option<Box<Standing>>>,
    /// Whether it may have a token: a first look of the thread that runs the process. Written under the lock.
    maybe: AtomicBool,
}

impl Place {
    /// What stands there in this era; nothing of an earlier one does.
    fn with<R>(&self, era: u64, with: impl FnOnce(&mut Standing) -> R) -> R {
        let mut place = self.standing.lock().unpoisoned();
        let standing = place.get_or_insert_default();
        if standing.era != era && !mutant!("seq_revived") {
            **standing = Standing { era, ..Standing::default() };
        }
        let done = with(standing);
        self.maybe.store(standing.token.is_some(), Relaxed);
        done
    }
}

/// Sequential tracing of a node.
#[derive(Default)]
pub(crate) struct Seq {
    census: Arc<Census>,
    overflows: AtomicU64,
    /// Where events go: the session that stands for the system tracer.
    tracer: Mutex<Option<Arc<Session>>>,
    /// Where that stands in the snapshot, see [`place_of`]. Written under the lock.
    place: AtomicU64,
}

/// There is no system tracer.
const NO_TRACER: u64 = 0;

/// The system tracer is a module, which is called and may do anything.
const IS_MODULE: u64 = 1 << 63;

/// The place of a session: its index, one more than that, and its id.
fn place_of(session: &Session) -> u64 {
    let module = if session.options.tracer.is_some() { IS_MODULE } else { 0 };
    module | (u64::from(session.index) + 1) << 32 | u64::from(session.id as u32)
}

/// A token as it is made in a process that has none.
fn fresh(tracee: &Tracee, standing: &mut Standing) -> Token {
    standing.begin();
    Token { flags: 0, label: vec![97, 0].into(), serial: (standing.previous, 0), from: tracee.pid, away: None }
}

/// A process takes a token, by the algorithm.
fn take(tracee: &Tracee, era: u64, token: Token) {
    tracee.seq.with(era, |standing| {
        standing.count(token.serial.1);
        standing.previous = token.serial.1;
        standing.token = Some(token);
    });
}

impl Node {
    /// Whether tokens are in use: since one was set, until a reset or [`Node::seq_end`]. A host may leave out everything about tokens
    /// while they are not.
    #[inline(always)]
    #[must_use]
    pub fn seq_in_use(&self) -> bool {
        self.seq.census.is_in_use()
    }

    fn seq_era(&self) -> u64 {
        self.seq.census.era()
    }

    /// A token is about to be set: tokens are in use at least as long as this is kept.
    #[must_use]
    pub fn seq_begin(&self) -> Living {
        self.seq.census.token()
    }

    /// A token has left this node, or one may come from outside: they are in use until a reset, though no process of this node has one.
    pub fn seq_go_abroad(&self) {
        self.seq.census.go_abroad();
    }

    /// What to call where the last token of this node has gone, see [`Node::seq_end`]: by any thread, in the midst of anything. Once for
    /// a node.
    pub fn seq_on_last(&self, gone: fn()) {
        self.seq.census.tell(gone);
    }

    /// Whether tokens are in use for no reason but that there were some.
    pub fn seq_is_idle(&self) -> bool {
        self.seq.census.is_idle()
    }

    /// Tokens are out of use, if there is none in this node and none has left it; whether that is so.
    pub fn seq_end(&self) -> bool {
        self.seq.census.end()
    }

    /// Whether a process may have a token, as the thread that runs it sees it: a first look.
    #[inline(always)]
    #[must_use]
    pub fn seq_may_have(&self, tracee: &Tracee) -> bool {
        self.seq_in_use() && tracee.seq.maybe.load(Relaxed)
    }

    /// The token of a process as it stands, and its era: for what the process leaves to be run by another.
    #[must_use]
    pub fn seq_copy(&self, tracee: &Tracee) -> Carried {
        if !self.seq_may_have(tracee) {
            return Carried::Empty;
        }
        tracee.seq.with(self.seq_era(), |standing| match &standing.token {
            Some(token) => Carried::Token(token.clone(), standing.era),
            None => Carried::Empty,
        })
    }

    /// A process goes on with such a token, as if that had come with a message that nobody is told of.
    pub fn seq_lend(&self, tracee: &Tracee, lent: Carried) {
        match lent {
            Carried::Token(token, era) if era == self.seq_era() => take(tracee, era, token),
            _ => drop(self.seq_clear(tracee)),
        }
    }

    /// The token of a process.
    #[must_use]
    pub fn seq_token(&self, tracee: &Tracee) -> Option<Token> {
        if !self.seq_in_use() {
            return None;
        }
        tracee.seq.with(self.seq_era(), |standing| standing.token.clone())
    }

    /// Empties the token of a process; answers what it was.
    pub fn seq_clear(&self, tracee: &Tracee) -> Option<Token> {
        if !self.seq_may_have(tracee) {
            return None;
        }
        tracee.seq.with(self.seq_era(), |standing| standing.token.take())
    }

    /// A process has ended for good: nothing that it does carries its token any more.
    pub fn seq_leave(&self, tracee: &Tracee) {
        if self.seq_in_use() {
            let _let_go_of_outside_the_lock = tracee.seq.standing.lock().unpoisoned().take();
            tracee.seq.maybe.store(false, Relaxed);
        }
    }

    /// Changes the token of a process, which gets one if it has none.
    pub fn seq_change<R>(&self, tracee: &Tracee, change: impl FnOnce(&mut Token) -> R) -> R {
        self.seq_set_with(tracee, |_, token| change(token))
    }

    /// Sets the label of a process's token; answers what it was.
    pub fn seq_set_label(&self, tracee: &Tracee, label: Label) -> Label {
        self.seq_set_with(tracee, |standing, token| {
            if standing.current >= FAR && token.label != label {
                standing.begin();
                token.serial = (0, 0);
            }
            std::mem::replace(&mut token.label, label)
        })
    }

    /// Sets the serial of a process's token, and with it the process's own counters; answers what it was: of an empty token the serial of a
    /// new one, the last that the process took and 0.
    pub fn seq_set_serial(&self, tracee: &Tracee, serial: (i64, i64)) -> (i64, i64) {
        self.seq_set_with(tracee, |standing, token| {
            (standing.previous, standing.current) = serial;
            standing.was_below = serial.1 < 0;
            std::mem::replace(&mut token.serial, serial)
        })
    }

    fn seq_set_with<R>(&self, tracee: &Tracee, change: impl FnOnce(&mut Standing, &mut Token) -> R) -> R {
        let living = self.seq_begin();
        tracee.seq.with(living.era, |standing| {
            let mut token = standing.token.take().unwrap_or_else(|| fresh(tracee, standing));
            let answer = change(standing, &mut token);
            let label = token.label.living(living);
            standing.token = Some(Token { label, ..token });
            answer
        })
    }

    /// Sets a component of a process's token, as `set_token/2` does; `None` if there is no such component, or the value is none of
    /// it.
    pub fn seq_set(&self, tracee: &Tracee, component: &Term, value: &Term) -> Option<()> {
        let name: &str = match component {
            Term::Atom(name) => name,
            Term::Str(name) => name,
            _ => return None,
        };
        match name {
            "label" => {
                let label = label(value.clone())?;
                self.seq_set_label(tracee, label);
            }
            "serial" => {
                let Term::Tuple(pair) = value else { return None };
                let [Term::Int(previous), Term::Int(serial)] = &pair[..] else { return None };
                self.seq_set_serial(tracee, (previous.try_into().ok()?, serial.try_into().ok()?));
            }
            _ => {
                let (_, bit) = flags::NAMES.into_iter().find(|(known, _)| *known == name)?;
                let on = match value {
                    Term::Atom(word) if &**word == "true" => true,
                    Term::Atom(word) if &**word == "false" => false,
                    _ => return None,
                };
                self.seq_change(tracee, |token| token.flags = if on { token.flags | bit } else { token.flags & !bit });
            }
        }
        Some(())
    }

    /// Puts what a message would carry in the place of a process's token, whose counters stay as they are; answers what it was.
    pub fn seq_exchange(&self, tracee: &Tracee, carried: Carried) -> Carried {
        if !self.seq_in_use() {
            return Carried::Empty;
        }
        let era = self.seq_era();
        let token = match carried {
            Carried::Token(token, sent) if sent == era => Some(token),
            _ => None,
        };
        let was = tracee.seq.with(era, |standing| {
            if let Some(token) = token.as_ref().filter(|token| standing.current.max(token.serial.1) >= FAR) {
                standing.count(token.serial.1);
                standing.previous = token.serial.0;
            }
            std::mem::replace(&mut standing.token, token)
        });
        was.map_or(Carried::Empty, |token| Carried::Token(token, era))
    }

    /// What a message of another node carries, whose token was sent to this one.
    pub fn seq_arrived(&self, token: Token) -> Carried {
        self.seq_go_abroad();
        self.seq_came(token, self.seq_begin())
    }

    /// What a message carries that comes back from outside with a token of this node, of that era.
    pub fn seq_returned(&self, token: Token, era: u64) -> Carried {
        self.seq.census.token_of(era).map_or(Carried::Empty, |living| self.seq_came(token, living))
    }

    fn seq_came(&self, token: Token, living: Living) -> Carried {
        let era = living.era;
        Carried::Token(Token { label: token.label.living(living), ..token }, era)
    }

    /// Empties all tokens, those of messages under way included, and sets all counters to 0.
    pub fn seq_reset(&self) {
        self.seq.census.reset();
    }

    /// Lets go of a token of before a reset: an empty one is what it counts as.
    pub fn seq_empty(&self, carried: &mut Carried) {
        if matches!(carried, Carried::Token(_, era) if *era != self.seq_era()) {
            *carried = Carried::Empty;
        }
    }

    /// The session that stands for the system tracer, if there is one that lives.
    #[must_use]
    pub fn seq_tracer(&self) -> Option<Arc<Session>> {
        let mut tracer = self.seq.tracer.lock().unpoisoned();
        if tracer.as_ref().is_some_and(|session| !lives(session)) {
            *tracer = None;
            self.seq.place.store(NO_TRACER, Release);
        }
        tracer.clone()
    }

    /// Hands the system tracer on, if there is one that lives. What is in a snapshot costs no lock and no count of references.
    #[inline(always)]
    fn with_seq_tracer<R>(&self, thread: &mut Thread, with: impl FnOnce(&mut Thread, Option<&Arc<Session>>) -> R) -> R {
        let place = self.seq.place.load(Acquire);
        if place == NO_TRACER {
            return with(thread, None);
        }
        if place & IS_MODULE == 0 {
            let inside = thread.shared.section.enter();
            let snapshot = self.snapshot.load_inside(&inside);
            let index = ((place >> 32) - 1) as u16;
            if let Some(session) = snapshot.session(index, place as u32).filter(|session| lives(session)) {
                return with(thread, Some(session));
            }
        }
        let tracer = self.seq_tracer();
        with(thread, tracer.as_ref())
    }

    /// Sets the session that stands for the system tracer; answers the one before.
    pub fn set_seq_tracer(&self, session: Option<Arc<Session>>) -> Option<Arc<Session>> {
        let mut tracer = self.seq.tracer.lock().unpoisoned();
        self.seq.place.store(session.as_deref().map_or(NO_TRACER, place_of), Release);
        std::mem::replace(&mut *tracer, session)
    }

    /// How many serials have come to their end: beyond it they don't order events any more.
    #[must_use]
    pub fn seq_overflows(&self) -> u64 {
        self.seq.overflows.load(Relaxed)
    }

    /// A message leaves its sender for `to`: what it carries. `message` writes it.
    pub fn seq_send(
        &self, thread: &mut Thread, from: About<'_>, to: u64,
        message: impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full>,
    ) -> Carried {
        if !self.seq_may_have(from.tracee(thread)) {
            return Carried::Empty;
        }
        self.with_seq_tracer(thread, |thread, tracer| {
            let tracee = from.tracee(thread);
            let (pid, tracer_pid) = (tracee.pid, pid_of(tracer));
            let stepped = tracee.seq.with(self.seq_era(), |standing| {
                let token = standing.step(tracee, tracer_pid, &self.seq.overflows)?.clone();
                Some((token, standing.era))
            });
            let Some((token, era)) = stepped else { return Carried::Empty };
            self.seq_tell(thread, tracer, token, Told::Send { from: pid, to }, message, |_, token| {
                Carried::Token(token, era)
            })
        })
    }

    /// A message is about to leave a process, and may not after all: who sends it learns that by an error. `None` without a token.
    pub fn seq_begin_send(&self, tracee: &Tracee) -> Option<Sending> {
        if !self.seq_may_have(tracee) {
            return None;
        }
        let tracer = pid_of(self.seq_tracer().as_ref());
        tracee.seq.with(self.seq_era(), |standing| {
            let current = standing.current;
            let before =
                standing.token.as_ref().map(|token| (current, token.serial, token.from, token.away.clone()))?;
            let token = standing.step(tracee, tracer, &self.seq.overflows)?.clone();
            Some(Sending { token, era: standing.era, before })
        })
    }

    /// It has left.
    pub fn seq_sent(
        &self, thread: &mut Thread, from: About<'_>, to: u64, sending: Sending,
        message: impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full>,
    ) {
        if sending.era == self.seq_era() {
            let told = Told::Send { from: from.tracee(thread).pid, to };
            self.with_seq_tracer(thread, |thread, tracer| {
                self.seq_tell(thread, tracer, sending.token, told, message, |_, token| drop(token));
            });
        }
    }

    /// It has not: its sender has what it had, unless it has done something else since.
    pub fn seq_take_back(&self, tracee: &Tracee, sending: Sending) {
        tracee.seq.with(self.seq_era(), |standing| {
            let Sending { token: sent, era, before: (current, serial, from, away) } = sending;
            if era == standing.era && standing.current == sent.serial.1 {
                if let Some(token) = standing.token.as_mut().filter(|token| **token == sent) {
                    standing.current = current;
                    (token.serial, token.from, token.away) = (serial, from, away);
                }
            }
        });
    }

    /// What a message would carry that the process sent now: for one that may not be sent after all, and that somebody else may have before it
    /// is known. Where it has been sent, [`Node::seq_send`] follows, before the process does anything else.
    pub fn seq_would_send(&self, tracee: &Tracee) -> Carried {
        if !self.seq_may_have(tracee) {
            return Carried::Empty;
        }
        let tracer = pid_of(self.seq_tracer().as_ref());
        let token = tracee.seq.with(self.seq_era(), |standing| {
            let mut token = standing.token.clone()?;
            if tracer != tracee.pid {
                let next = standing.current.saturating_add(1);
                (token.serial, token.from, token.away) = ((standing.previous, next), tracee.pid, None);
            }
            Some((token, standing.era))
        });
        token.map_or(Carried::Empty, |(token, era)| Carried::Token(token, era))
    }

    /// A message is taken by a process, with what it carries.
    pub fn seq_receive(
        &self, thread: &mut Thread, at: About<'_>, carried: Carried,
        message: impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full>,
    ) {
        if !self.seq_in_use() {
            return;
        }
        let tracee = at.tracee(thread);
        match carried {
            Carried::Nothing => {}
            Carried::Token(token, era) if era == self.seq_era() => {
                let told = Told::Receive { from: token.from, at: tracee.pid };
                let took = |thread: &mut Thread, token| take(at.tracee(thread), era, token);
                if token.flags & flag(told) == 0 {
                    return took(thread, token);
                }
                self.with_seq_tracer(thread, |thread, tracer| {
                    self.seq_tell(thread, tracer, token, told, message, took);
                });
            }
            Carried::Empty | Carried::Token(..) => drop(self.seq_clear(tracee)),
        }
    }

    /// A process prints into its sequential trace: whatever its label is, or only under this one.
    pub fn seq_print(
        &self, thread: &mut Thread, label: Option<&[u8]>,
        info: impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full>,
    ) {
        if !self.seq_in_use() {
            return;
        }
        self.with_seq_tracer(thread, |thread, tracer| {
            let (tracee, tracer_pid) = (&thread.current, pid_of(tracer));
            let pid = tracee.pid;
            let token = tracee.seq.with(self.seq_era(), |standing| {
                standing.token.as_ref().filter(|token| label.is_none_or(|label| *label == *token.label))?;
                standing.step(tracee, tracer_pid, &self.seq.overflows).cloned()
            });
            if let Some(token) = token {
                self.seq_tell(thread, tracer, token, Told::Print { by: pid }, info, |_, token| drop(token));
            }
        });
    }

    /// A process starts another, which gets the token that the reply to its starting leaves it with: four events, a request and
    /// a reply, each sent and received. `name` is `(module, function, arguments)`, `reference` a reference's number.
    pub fn seq_spawn(&self, thread: &mut Thread, child: &Tracee, request: &[u8], reply: &[u8]) {
        if !self.seq_in_use() {
            return;
        }
        let parent = thread.current.clone();
        let sent = self.seq_send(thread, About::Current, child.pid, |out, _| out.raw(request));
        let Carried::Token(token, era) = sent else { return };
        let left = self.seq_token(&parent);
        self.seq_receive(thread, About::Other(child), Carried::Token(token, era), |out, _| out.raw(request));
        let answered = self.seq_send(thread, About::Other(child), parent.pid, |out, _| out.raw(reply));
        self.seq_receive(thread, About::Current, answered, |out, _| out.raw(reply));
        // the reply leaves the parent's token as it was; its counters go on as with any other message
        parent.seq.with(era, |standing| standing.token = left);
    }

    /// Tells the system tracer of an event, if the token asks for it, and it isn't the tracer's own; before that is done, `go_on` has
    /// the token go its way. A lock that it takes waits for what was written before it, and a record takes long: it comes behind.
    fn seq_tell<R>(
        &self, thread: &mut Thread, tracer: Option<&Arc<Session>>, token: Token, told: Told,
        write: impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full>,
        go_on: impl FnOnce(&mut Thread, Token) -> R,
    ) -> R {
        let wanted =
            |session: &&Arc<Session>| token.flags & flag(told) != 0 && session.tracer.load(Relaxed) != told.process();
        let Some(session) = tracer.filter(wanted) else { return go_on(thread, token) };
        if session.options.tracer.is_none() {
            return self.seq_write(thread, session, token, told, write, go_on);
        }
        let gone_on = go_on(thread, token.clone());
        if ask::ask(self, thread, session, Group::General, SEQ_TRACE, Some(told.process())) {
            thread.granted = true;
            self.seq_write(thread, session, token, told, write, |_, token| drop(token));
            thread.granted = false;
            if !thread.late.is_empty() {
                deferred::take_events(self, thread);
            }
        }
        gone_on
    }

    fn seq_write<R>(
        &self, thread: &mut Thread, session: &Arc<Session>, token: Token, told: Told,
        write: impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full>,
        go_on: impl FnOnce(&mut Thread, Token) -> R,
    ) -> R {
        let flags = stamps(token.flags);
        if flags != Flags::NONE {
            self.order.timed(); // the token may come from another node
        }
        let now = self.moment(&mut thread.turn);
        let mut room = std::mem::take(&mut thread.scratch);
        let total = session.options.capture.total + seq_event::around(&token.fields());
        room.resize(room.len().max(total), 0);
        let mut out = Encoder::new(&mut room);
        let head = seq_event::write(&mut out, &token.fields(), told, |out| write(out, session));
        let gone_on = go_on(thread, token);
        if let Ok(head) = head {
            emit(self, thread, session, flags, head, out.written(), now);
            if thread.take_pressure(session) {
                spill(session);
            }
        }
        thread.scratch = room;
        gone_on
    }
}

/// Whether a session can be told of anything.
fn lives(session: &Session) -> bool {
    session.has_tracer() && session.is_alive()
}

/// The process that a session tells, 0 if it is none.
fn pid_of(tracer: Option<&Arc<Session>>) -> u64 {
    tracer.map_or(0, |session| session.tracer.load(Relaxed))
}

/// The flag of a token that asks for an event.
fn flag(told: Told) -> u32 {
    match told {
        Told::Send { .. } => flags::SEND,
        Told::Receive { .. } => flags::RECEIVE,
        Told::Print { .. } => flags::PRINT,
    }
}

/// The time stamp that a token's flags ask for.
fn stamps(flags: u32) -> Flags {
    [
        (flags::TIMESTAMP, Flags::TIMESTAMP),
        (flags::STRICT_MONOTONIC_TIMESTAMP, Flags::STRICT_MONOTONIC_TIMESTAMP),
        (flags::MONOTONIC_TIMESTAMP, Flags::MONOTONIC_TIMESTAMP),
    ]
    .into_iter()
    .fold(Flags::NONE, |all, (bit, flag)| if flags & bit != 0 { all | flag } else { all })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{
        clock::Clock,
        control::Arm,
        delivery::drain::drain,
        state::{session::Options, tracee},
    };

    #[test]
    fn a_label_is_the_same_in_whatever_order_it_came() {
        let int = Term::from;
        let pairs =
            |keys: [i64; 3]| Term::Map(keys.into_iter().map(|k| (int(k), Term::Set(vec![int(k), int(0)]))).collect());
        let odd = |a: Term, b: Term| Term::List(vec![Term::Set(vec![a, b])]);
        let one = |term: Term| label(term).unwrap();
        assert_eq!(one(pairs([1, 2, 3])), one(pairs([3, 1, 2])));
        assert_eq!(one(odd(int(0), int(8))), one(odd(int(8), int(0))));
        // equal to Erlang, but two members
        let (text, bytes) = (Term::str("a"), Term::Bytes((*b"a").into()));
        assert_eq!(one(odd(text.clone(), bytes.clone())), one(odd(bytes, text)));
        assert_ne!(one(int(1)), one(Term::Float(1.0)));
        assert!(label(Term::Bytes(vec![0; LABEL].into())).is_none());
    }

    #[test]
    fn counters_and_tokens_go_with_a_reset_and_come_anew() {
        let node = Node::new(Clock::new());
        let process = node.process(tracee::Kind::Thread, 0);
        let mut thread = node.thread(process.clone());
        assert!(!node.seq_in_use() && node.seq_token(&process).is_none());
        node.seq_change(&process, |token| token.flags = flags::SEND);
        assert_eq!(node.seq_set_serial(&process, (3, 5)), (0, 0));
        let sent = node.seq_send(&mut thread, About::Current, 99, |_, _| Ok(()));
        assert!(matches!(&sent, Carried::Token(token, 0) if token.serial == (3, 6)), "{sent:?}");
        node.seq_reset();
        assert!(!node.seq_in_use() && node.seq_token(&process).is_none());
        node.seq_change(&process, |token| token.flags = flags::RECEIVE);
        assert_eq!(node.seq_token(&process).map(|token| token.serial), Some((0, 0)));
        node.seq_receive(&mut thread, About::Current, sent, |_, _| Ok(()));
        assert!(node.seq_token(&process).is_none(), "a token of before the reset is empty, and empties");
        let next = node.seq_send(&mut thread, About::Current, 99, |_, _| Ok(()));
        assert!(matches!(next, Carried::Empty));
    }

    #[test]
    fn an_event_goes_to_no_session_that_came_after_the_system_tracer_s() {
        /// A host without functions.
        struct Nothing;
        impl Arm for Nothing {
            fn arm(&self, _: &[(usize, u8)], _: u8) {}
        }
        let node = Node::new(Clock::new());
        let (process, tracer) = (node.process(tracee::Kind::Thread, 0), node.process(tracee::Kind::Thread, 0));
        let mut thread = node.thread(process.clone());
        let session = || node.session_create("s", tracer.pid, Options::default()).unwrap();
        let told = |session: &Session| drain(session, 9, |_| ()).unwrap();
        let system = session();
        node.set_seq_tracer(Some(system.clone()));
        node.seq_change(&process, |token| token.flags = flags::SEND);
        let mut send = || drop(node.seq_send(&mut thread, About::Current, 99, |out, _| out.nil()));
        send();
        assert_eq!(told(&system), 1);
        // as a thread finds it that has looked where the system tracer stands, and is held up there
        let place = node.seq.place.load(Relaxed);
        assert!(node.set_seq_tracer(None).is_some());
        send();
        assert!(node.session_destroy(&system, &Nothing));
        let other = session();
        assert_eq!((other.index, told(&system)), (system.index, 0), "the index is used again");
        node.seq.place.store(place, Relaxed);
        send();
        assert_eq!((told(&other), node.seq.place.load(Relaxed)), (0, place));
        node.set_seq_tracer(Some(other.clone()));
        send();
        assert_eq!(told(&other), 1);
    }

    #[test]
    fn what_is_lent_is_given_back_and_a_reset_takes_both() {
        let node = Node::new(Clock::new());
        let (owner, other) = (node.process(tracee::Kind::Thread, 0), node.process(tracee::Kind::Thread, 0));
        assert!(!node.seq_may_have(&owner) && matches!(node.seq_copy(&owner), Carried::Empty));
        node.seq_change(&owner, |token| token.flags = flags::PRINT);
        node.seq_set_serial(&owner, (3, 5));
        node.seq_change(&other, |token| token.flags = flags::SEND);
        let had = node.seq_copy(&other);
        node.seq_lend(&other, node.seq_copy(&owner));
        assert_eq!(node.seq_token(&other).map(|token| (token.flags, token.serial)), Some((flags::PRINT, (3, 5))));
        node.seq_exchange(&other, had.clone());
        assert_eq!(node.seq_token(&other).map(|token| token.flags), Some(flags::SEND));
        node.seq_exchange(&other, Carried::Empty);
        assert!(node.seq_token(&other).is_none() && !node.seq_may_have(&other));
        let lent = node.seq_copy(&owner);
        node.seq_reset();
        node.seq_change(&node.process(tracee::Kind::Thread, 0), |_| ());
        node.seq_lend(&other, lent);
        node.seq_exchange(&owner, had);
        assert!(node.seq_token(&other).is_none() && node.seq_token(&owner).is_none());
    }

    #[test]
    fn a_token_of_another_node_is_taken_by_the_algorithm_and_sent_on_as_one_s_own() {
        let node = Node::new(Clock::new());
        let process = node.process(tracee::Kind::Thread, 0);
        let mut thread = node.thread(process.clone());
        let away = Arc::new(Identifier::new(4, "shop@far", 7));
        let label = etf::encode(&Term::str("order")).into();
        let token = Token { flags: flags::SEND, label, serial: (3, 9), from: 0, away: Some(away.clone()) };
        let arrived = node.seq_arrived(token);
        node.seq_receive(&mut thread, About::Current, arrived, |_, _| Ok(()));
        let Some(taken) = node.seq_token(&process) else { panic!("no token") };
        let Term::Tuple(parts) = taken.term() else { panic!("{taken:?}") };
        assert_eq!(parts[2..], [Term::from(9), Term::Pid((*away).clone()), Term::from(3)]);
        let sent = node.seq_send(&mut thread, About::Current, 99, |_, _| Ok(()));
        let Carried::Token(sent, _) = sent else { panic!("{sent:?}") };
        assert_eq!((sent.serial, sent.from, sent.away), ((9, 10), process.pid, None));
    }

    /// As OTP 29 does it.
    #[test]
    fn a_counter_below_0_is_larger_than_all_that_come_also_when_it_has_been_counted_on() {
        let node = Node::new(Clock::new());
        let (process, other) = (node.process(tracee::Kind::Thread, 0), node.process(tracee::Kind::Thread, 0));
        let (mut thread, mut theirs) = (node.thread(process.clone()), node.thread(other.clone()));
        let next = |thread: &mut Thread| match node.seq_send(thread, About::Current, 99, |_, _| Ok(())) {
            Carried::Token(token, era) => (token.serial, Carried::Token(token, era)),
            other => panic!("{other:?}"),
        };
        node.seq_set_serial(&other, (0, 6));
        let (_, seven) = next(&mut theirs);
        node.seq_set_serial(&process, (2, -2));
        assert_eq!(next(&mut thread).0, (2, -1));
        let take = |thread: &mut Thread, carried: &Carried| {
            node.seq_receive(thread, About::Current, carried.clone(), |_, _| Ok(()));
        };
        take(&mut thread, &seven);
        let (zero, below) = next(&mut thread);
        assert_eq!(zero, (7, 0));
        take(&mut thread, &seven);
        assert_eq!(next(&mut thread).0, (7, 1));
        // one that comes is larger than other counters
        node.seq_set_serial(&process, (0, -9));
        let (_, far_below) = next(&mut thread);
        take(&mut theirs, &below);
        assert_eq!(next(&mut theirs).0, (0, 8));
        take(&mut theirs, &far_below);
        assert_eq!(next(&mut theirs).0, (-8, -7));
        node.seq_set_serial(&process, (0, 3));
        take(&mut thread, &seven);
        assert_eq!(next(&mut thread).0, (7, 8));
    }

    #[test]
    fn a_token_that_is_put_aside_comes_back_and_the_counters_go_on() {
        let node = Node::new(Clock::new());
        let process = node.process(tracee::Kind::Thread, 0);
        let mut thread = node.thread(process.clone());
        node.seq_change(&process, |token| token.flags = flags::SEND);
        let aside = node.seq_exchange(&process, Carried::Empty);
        assert!(node.seq_token(&process).is_none());
        node.seq_set_serial(&process, (0, 5));
        assert!(matches!(node.seq_exchange(&process, aside), Carried::Token(token, 0) if token.flags == 0));
        assert_eq!(node.seq_token(&process).map(|token| token.flags), Some(flags::SEND));
        let sent = node.seq_send(&mut thread, About::Current, 99, |_, _| Ok(()));
        assert!(matches!(sent, Carried::Token(token, 0) if token.serial == (0, 6)));
        let aside = node.seq_exchange(&process, Carried::Empty);
        node.seq_reset();
        node.seq_change(&process, |_| ());
        node.seq_exchange(&process, aside);
        assert!(node.seq_token(&process).is_none(), "a token of before the reset is empty");
    }

    #[test]
    fn a_message_without_a_token_clears_and_a_timer_s_does_not() {
        let node = Node::new(Clock::new());
        let process = node.process(tracee::Kind::Thread, 0);
        let mut thread = node.thread(process.clone());
        node.seq_change(&process, |_| ());
        node.seq_receive(&mut thread, About::Current, Carried::Nothing, |_, _| Ok(()));
        assert!(node.seq_token(&process).is_some());
        node.seq_receive(&mut thread, About::Current, Carried::Empty, |_, _| Ok(()));
        assert!(node.seq_token(&process).is_none());
    }
}
