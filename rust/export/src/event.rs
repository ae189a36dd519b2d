//! Parses a trace message as far as exports need it. Its terms stay bytes.
//!
//! The shapes are those of the table ([`Kind::shape`]). After a kind's own elements may come the term that a match specification
//! added (`{message, X}`), the scheduler's number and the timestamp, in this order. Only `trace_ts` messages have a timestamp.
//! One element may be either of the first two: in a `call`, `send` or `receive` it is the added term, in all others the
//! scheduler's number, because those have no added term.

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
    /// The function's name.
    pub function: &'a [u8],
    /// The number of parameters.
    pub arity: u32,
    /// The encoded names.
    pub written: Bytes<'a>,
}

/// A timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its clock.
    pub clock: Clock,
    /// Nanoseconds: since 1970, or since a start of the clock.
    pub at: i64,
    /// Distinguishes strict timestamps of one moment.
    pub unique: Option<i64>,
}

/// The clock of timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `timestamp`: the wall clock, `{Megaseconds, Seconds, Microseconds}`.
    Wall,
    /// `monotonic_timestamp` and `strict_monotonic_timestamp`.
    Monotonic,
}

/// A message about a tracee.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a> {
    /// Its kind; the first one of several kinds with one tag. None for an unknown tag.
    pub kind: Option<Kind>,
    /// Its tag, encoded.
    pub word: &'a [u8],
    /// The tracee, a pid or port.
    pub tracee: Bytes<'a>,
    /// The function of the event, if it has one.
    pub name: Option<Name<'a>>,
    /// A list: the arguments of a call or of a new process's function.
    pub arguments: Option<Bytes<'a>>,
    /// The message, result, exception, reason or other subject of the event.
    pub value: Option<Bytes<'a>>,
    /// The other process, port or name: the receiver, the new process, the linked one, the opener.
    pub other: Option<Bytes<'a>>,
    /// The term that a match specification added.
    pub extra: Option<Bytes<'a>>,
    /// The scheduler's number.
    pub scheduler: Option<i64>,
    /// The number of the sent or received message ([`numbered`]), if it is known.
    pub number: Option<Number>,
}

impl Trace<'_> {
    /// The names of `value` and `other`; "" without `other`.
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
    /// The sender of the message, or the printing process.
    pub from: Option<Bytes<'a>>,
    /// The receiver.
    pub to: Option<Bytes<'a>>,
    /// The message, or the printed term.
    pub value: Option<Bytes<'a>>,
}

/// The kind of a record.
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
        /// The details.
        value: Bytes<'a>,
    },
    /// This many messages were lost here.
    Dropped(u64),
    /// A term that is not a trace message.
    Term(Bytes<'a>),
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Its contents.
    pub what: What<'a>,
    /// Its timestamp, if it has one.
    pub stamp: Option<Stamp>,
}

impl<'a> Event<'a> {
    /// Parses a term that is not compressed, with or without a version byte. None if it is not a term.
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

/// Parses the `n` elements before the timestamp.
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

/// Parses `{M, F, Args}` or `{M, F, Arity}`; another term is left out. It fills `trace` directly: returning the parts and copying
/// them is slower.
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

/// Parses `{Megaseconds, Seconds, Microseconds}`, nanoseconds, or `{Nanoseconds, Unique}`.
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
