//! A trace message taken apart as far as exports need it: its terms stay bytes.
//!
//! The shapes are those of the table ([`Kind::shape`]). After a kind's own elements them may stand what a match specification added (`{message, X}`), the
//! scheduler's number and the time stamp, in this order. Only `trace_ts` messages have the last. Where one of the first two can be
//! meant, it is what was added in a `call`, `send` or `receive`, and the scheduler in all others, which get nothing added.

use crate::scan::{Bytes, Scan};
use inviso_term::record::{
    self,
    numbered::{self, Number},
    Element, Kind,
};

const TRACE: &[u8] = record::TRACE.as_bytes();
const TRACE_TS: &[u8] = record::TRACE_TS.as_bytes();

/// Module, function and arity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name<'a> {
    /// The module's name.
    pub module: &'a [u8],
    /// The function's.
    pub function: &'a [u8],
    /// How many parameters it has.
    pub arity: u32,
    /// Both names as they were written.
    pub written: Bytes<'a>,
}

/// A time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which clock.
    pub clock: Clock,
    /// Nanoseconds: since 1970, or since some moment.
    pub at: i64,
    /// What tells stamps of one moment apart, in strict ones.
    pub unique: Option<i64>,
}

/// What time stamps count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `timestamp`: the time of day, `{Megaseconds, Seconds, Microseconds}`.
    Wall,
    /// `monotonic_timestamp` and `strict_monotonic_timestamp`.
    Monotonic,
}

/// A message about a tracee.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a> {
    /// What it tells: of kinds with one tag the first. None of a tag that is no kind's.
    pub kind: Option<Kind>,
    /// Its second word, as it was written.
    pub word: &'a [u8],
    /// The tracee, a pid or port.
    pub tracee: Bytes<'a>,
    /// The function of the event, if it has one.
    pub name: Option<Name<'a>>,
    /// A list: the arguments of a call, or of a new process's function.
    pub arguments: Option<Bytes<'a>>,
    /// The message, result, exception or reason, or what else the event is about.
    pub value: Option<Bytes<'a>>,
    /// The other process or port, or a name: who gets the message, who was made, linked to, opened by.
    pub other: Option<Bytes<'a>>,
    /// What a match specification added.
    pub extra: Option<Bytes<'a>>,
    /// The scheduler's number.
    pub scheduler: Option<i64>,
    /// Which message was sent or has arrived ([`numbered`]), where that is known.
    pub number: Option<Number>,
}

impl Trace<'_> {
    /// What the value and the other one are called; "" where there is no other one.
    pub(crate) fn labels(&self) -> (&'static str, &'static str) {
        match self.kind {
            Some(Kind::Send | Kind::SendToNonExisting) => ("message", "to"),
            Some(Kind::Receive) => ("message", ""),
            Some(Kind::Exit | Kind::Closed) => ("reason", ""),
            Some(Kind::Open) => ("driver", "by"),
            Some(Kind::Spawned) => ("function", "by"),
            _ => ("value", "with"),
        }
    }
}

/// A message about a token.
#[derive(Clone, Copy, Debug)]
pub struct Seq<'a> {
    /// `send`, `receive` or `print`.
    pub word: &'a [u8],
    /// The token's label.
    pub label: Bytes<'a>,
    /// The two numbers of its serial.
    pub serial: Option<(i64, i64)>,
    /// Who sent the message, or printed.
    pub from: Option<Bytes<'a>>,
    /// Who it is for.
    pub to: Option<Bytes<'a>>,
    /// The message, or what was printed.
    pub value: Option<Bytes<'a>>,
}

/// What a record of a log is.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// About a tracee.
    Trace(Trace<'a>),
    /// About a token.
    Seq(Seq<'a>),
    /// A system event: `{monitor, Who, Event, Info}`.
    Monitor {
        /// The process or port.
        who: Bytes<'a>,
        /// The event's name.
        word: &'a [u8],
        /// What is told about it.
        value: Bytes<'a>,
    },
    /// So many messages were lost here.
    Dropped(u64),
    /// A term that is no trace message.
    Term(Bytes<'a>),
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// What it tells.
    pub what: What<'a>,
    /// When, if it says so.
    pub stamp: Option<Stamp>,
}

impl<'a> Event<'a> {
    /// The message of a term that is not compressed, with or without a version byte. None if it is no term.
    ///
    /// ```
    /// use inviso_export::event::{Event, What};
    /// use inviso_term::{etf, record::Kind, term::{Identifier, Term}};
    /// let mfa = Term::Tuple(vec![Term::atom("m"), Term::atom("f"), Term::from(2)]);
    /// let pid = Term::Pid(Identifier::own(8));
    /// let bytes = etf::encode(&Term::Tuple(vec![Term::atom("trace_ts"), pid, Term::atom("call"), mfa, Term::from(5)]));
    /// let event = Event::parse(&bytes).unwrap();
    /// let What::Trace(trace) = event.what else { unreachable!() };
    /// assert_eq!((trace.kind, trace.name.unwrap().arity, event.stamp.unwrap().at), (Some(Kind::Call), 2, 5));
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn parse(bytes: Bytes<'a>) -> Option<Event<'a>> {
        let bytes = bytes.strip_prefix(&[inviso_term::etf::VERSION]).unwrap_or(bytes);
        match message(bytes) {
            Some(event) => Some(event),
            None => Some(Event { what: What::Term(Scan(bytes).term()?), stamp: None }),
        }
    }
}

#[inline(always)]
fn message(bytes: Bytes<'_>) -> Option<Event<'_>> {
    let mut scan = Scan(bytes);
    let n = scan.tuple()?;
    match scan.name()? {
        TRACE_TS => trace(scan, n.checked_sub(1)?, true),
        TRACE => trace(scan, n, false),
        word => other(scan, n, Kind::of_tag(word)?),
    }
}

fn other(mut scan: Scan<'_>, n: usize, kind: Kind) -> Option<Event<'_>> {
    let what = match kind {
        Kind::Seq => return seq(scan, n),
        Kind::Monitor if n == 4 => What::Monitor { who: scan.process()?, word: scan.name()?, value: scan.term()? },
        Kind::Drop if n == 2 => What::Dropped(u64::try_from(scan.int()?).ok()?),
        _ => return None,
    };
    Some(Event { what, stamp: None })
}

/// `n` elements without the stamp.
#[inline(always)]
fn trace(mut scan: Scan<'_>, n: usize, stamped: bool) -> Option<Event<'_>> {
    let mut left = n.checked_sub(3)?;
    let tracee = scan.process()?;
    let word = scan.name()?;
    let kind = Kind::of_tag(word).filter(|kind| kind.shape().elements.first() == Some(&Element::Trace));
    let (name, arguments, value, other, extra, scheduler) = (None, None, None, None, None, None);
    let mut trace = Trace { kind, word, tracee, name, arguments, value, other, extra, scheduler, number: None };
    let own = kind.map_or(&[Element::Term][..left.min(1)], |kind| kind.shape().own);
    left = left.checked_sub(own.len())?;
    for element in own {
        match element {
            Element::Call | Element::Function => function(&mut scan, &mut trace)?,
            Element::Caller | Element::Place | Element::Start => {
                let at = scan;
                if function(&mut scan, &mut trace).is_none() {
                    scan = at;
                    trace.value = Some(scan.term()?);
                }
                if *element != Element::Start {
                    trace.arguments = None;
                }
            }
            Element::Receiver | Element::Peer => trace.other = Some(scan.term()?),
            // any term
            _ => trace.value = Some(scan.term()?),
        }
    }
    if left > 1 || (left == 1 && kind.is_some_and(|kind| kind.shape().has(Element::Extra))) {
        trace.extra = Some(scan.term()?);
        left -= 1;
    }
    if left > 0 {
        trace.scheduler = scan.int();
        if trace.scheduler.is_none() {
            scan.skip()?;
        }
        left -= 1;
    }
    if left > 0 {
        return None;
    }
    let stamp = if stamped { Some(stamp(&mut scan)?) } else { None };
    if !scan.0.is_empty() {
        trace.number = numbered::of(scan.0);
    }
    Some(Event { what: What::Trace(trace), stamp })
}

/// `{M, F, Args}` or `{M, F, Arity}`; nothing where something else stands. Filled in where it stands, and not answered: to copy
/// what was just written costs more than to read it.
#[inline(always)]
fn function<'a>(scan: &mut Scan<'a>, trace: &mut Trace<'a>) -> Option<()> {
    if scan.tuple()? != 3 {
        return None;
    }
    let begin = scan.0;
    let (module, function) = (scan.name()?, scan.name()?);
    let written = begin.get(..begin.len() - scan.0.len())?;
    let arity = if let Some(arity) = scan.int() {
        u32::try_from(arity).ok()?
    } else {
        let arguments = scan.term()?;
        let arity = match arguments {
            // a list of small integers
            [107, a, b, ..] => u32::from(u16::from_be_bytes([*a, *b])),
            _ => u32::try_from(Scan(arguments).list()?).ok()?,
        };
        trace.arguments = Some(arguments);
        arity
    };
    trace.name = Some(Name { module, function, arity, written });
    Some(())
}

fn seq(mut scan: Scan<'_>, n: usize) -> Option<Event<'_>> {
    if !(3..=4).contains(&n) {
        return None;
    }
    let label = scan.term()?;
    let all = scan.term()?;
    let stamp = if n == 4 { Some(stamp(&mut scan)?) } else { None };
    let mut info = Scan(all);
    let seq = (|| {
        let n = info.tuple()?;
        let word = info.name()?;
        if n != 5 {
            return None;
        }
        let serial = (info.tuple()? == 2).then(|| Some((info.int()?, info.int()?)))??;
        let (from, to, value) = (info.term()?, info.term()?, info.term()?);
        Some(Seq { word, label, serial: Some(serial), from: Some(from), to: Some(to), value: Some(value) })
    })();
    let bare = Seq { word: b"", label, serial: None, from: None, to: None, value: Some(all) };
    Some(Event { what: What::Seq(seq.unwrap_or(bare)), stamp })
}

/// `{Megaseconds, Seconds, Microseconds}`, nanoseconds, or `{Nanoseconds, Unique}`.
#[inline(always)]
fn stamp(scan: &mut Scan<'_>) -> Option<Stamp> {
    if let Some(at) = scan.int() {
        return Some(Stamp { clock: Clock::Monotonic, at, unique: None });
    }
    match scan.tuple()? {
        2 => {
            let (at, unique) = (scan.int()?, scan.int()?);
            Some(Stamp { clock: Clock::Monotonic, at, unique: Some(unique) })
        }
        3 => {
            let (mega, seconds, micro) = (scan.int()?, scan.int()?, scan.int()?);
            let seconds = mega.checked_mul(1_000_000)?.checked_add(seconds)?;
            let at = seconds.checked_mul(1_000_000)?.checked_add(micro)?.checked_mul(1000)?;
            Some(Stamp { clock: Clock::Wall, at, unique: None })
        }
        _ => None,
    }
}
