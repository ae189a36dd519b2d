//! A trace message taken apart as far as exports need it: its terms stay bytes.
//!
//! The shapes are those of trace.md and seq_trace.md. Behind them may stand what a match specification added (`{message, X}`), the
//! scheduler's number and the time stamp, in this order. Only `trace_ts` messages have the last. Where one of the first two can be
//! meant, it is what was added in a `call`, `send` or `receive`, and the scheduler in all others, which get nothing added.

use crate::scan::{Bytes, Scan};

/// What a message tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tag {
    /// A function was called.
    Call,
    /// It returned.
    ReturnFrom,
    /// An exception left it.
    ExceptionFrom,
    /// Execution went back to a function.
    ReturnTo,
    /// A message was sent.
    Send,
    /// A message was sent to nobody.
    SendToNonExisting,
    /// A message came.
    Receive,
    /// The tracee made a process.
    Spawn,
    /// The tracee was made.
    Spawned,
    /// The tracee ended.
    Exit,
    /// The tracee runs.
    In,
    /// It no longer does.
    Out,
    /// As `In`, on its way to its end.
    InExiting,
    /// As `Out`, on its way to its end.
    OutExiting,
    /// It ran for the last time.
    OutExited,
    /// A port was opened.
    Open,
    /// The port was closed.
    Closed,
    /// A link to, or from, another process or port was made or taken away.
    Link,
    /// Anything else about a tracee.
    Other,
}

impl Tag {
    #[inline]
    fn of(name: &[u8]) -> Tag {
        match name {
            b"call" => Tag::Call,
            b"return_from" => Tag::ReturnFrom,
            b"exception_from" => Tag::ExceptionFrom,
            b"return_to" => Tag::ReturnTo,
            b"send" => Tag::Send,
            b"send_to_non_existing_process" => Tag::SendToNonExisting,
            b"receive" => Tag::Receive,
            b"spawn" => Tag::Spawn,
            b"spawned" => Tag::Spawned,
            b"exit" => Tag::Exit,
            b"in" => Tag::In,
            b"out" => Tag::Out,
            b"in_exiting" => Tag::InExiting,
            b"out_exiting" => Tag::OutExiting,
            b"out_exited" => Tag::OutExited,
            b"open" => Tag::Open,
            b"closed" => Tag::Closed,
            b"link" | b"unlink" | b"getting_linked" | b"getting_unlinked" => Tag::Link,
            _ => Tag::Other,
        }
    }

    /// What the value and the other one of a message with this tag are called; "" where there is no other one.
    pub(crate) fn labels(self) -> (&'static str, &'static str) {
        match self {
            Tag::Send | Tag::SendToNonExisting => ("message", "to"),
            Tag::Receive => ("message", ""),
            Tag::Exit | Tag::Closed => ("reason", ""),
            Tag::Open => ("driver", "by"),
            Tag::Spawned => ("function", "by"),
            _ => ("value", "with"),
        }
    }
}

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
    /// What it tells.
    pub tag: Tag,
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
    /// use inviso_export::event::{Event, Tag, What};
    /// use inviso_term::{etf, term::{Identifier, Term}};
    /// let mfa = Term::Tuple(vec![Term::atom("m"), Term::atom("f"), Term::from(2)]);
    /// let pid = Term::Pid(Identifier::own(8));
    /// let bytes = etf::encode(&Term::Tuple(vec![Term::atom("trace_ts"), pid, Term::atom("call"), mfa, Term::from(5)]));
    /// let event = Event::parse(&bytes).unwrap();
    /// let What::Trace(trace) = event.what else { unreachable!() };
    /// assert_eq!((trace.tag, trace.name.unwrap().arity, event.stamp.unwrap().at), (Tag::Call, 2, 5));
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
        b"trace_ts" => trace(scan, n.checked_sub(1)?, true),
        b"trace" => trace(scan, n, false),
        b"seq_trace" => seq(scan, n),
        b"monitor" if n == 4 => {
            let what = What::Monitor { who: scan.process()?, word: scan.name()?, value: scan.term()? };
            Some(Event { what, stamp: None })
        }
        b"drop" if n == 2 => Some(Event { what: What::Dropped(u64::try_from(scan.int()?).ok()?), stamp: None }),
        _ => None,
    }
}

/// `n` elements without the stamp.
#[inline(always)]
fn trace(mut scan: Scan<'_>, n: usize, stamped: bool) -> Option<Event<'_>> {
    let mut left = n.checked_sub(3)?;
    let tracee = scan.process()?;
    let word = scan.name()?;
    let tag = Tag::of(word);
    let (name, arguments, value, other, extra, scheduler) = (None, None, None, None, None, None);
    let mut trace = Trace { tag, word, tracee, name, arguments, value, other, extra, scheduler };
    match tag {
        Tag::Call | Tag::ReturnFrom | Tag::ExceptionFrom => {
            left = left.checked_sub(1)?;
            function(&mut scan, &mut trace)?;
            if tag != Tag::Call {
                left = left.checked_sub(1)?;
                trace.value = Some(scan.term()?);
            }
        }
        Tag::ReturnTo | Tag::In | Tag::Out | Tag::InExiting | Tag::OutExiting | Tag::OutExited => {
            left = left.checked_sub(1)?;
            let at = scan;
            if function(&mut scan, &mut trace).is_none() {
                scan = at;
                trace.value = Some(scan.term()?);
            }
            trace.arguments = None;
        }
        Tag::Send | Tag::SendToNonExisting => {
            left = left.checked_sub(1)?;
            trace.value = Some(scan.term()?);
            left = left.checked_sub(1)?;
            trace.other = Some(scan.term()?);
        }
        Tag::Spawn | Tag::Spawned | Tag::Open => {
            left = left.checked_sub(1)?;
            trace.other = Some(scan.term()?);
            left = left.checked_sub(1)?;
            let at = scan;
            if function(&mut scan, &mut trace).is_none() {
                scan = at;
                trace.value = Some(scan.term()?);
            }
        }
        Tag::Link => {
            left = left.checked_sub(1)?;
            trace.other = Some(scan.term()?);
        }
        Tag::Receive | Tag::Exit | Tag::Closed => {
            left = left.checked_sub(1)?;
            trace.value = Some(scan.term()?);
        }
        Tag::Other if left > 0 => {
            left = left.checked_sub(1)?;
            trace.value = Some(scan.term()?);
        }
        Tag::Other => {}
    }
    let gets_more = matches!(tag, Tag::Call | Tag::Send | Tag::SendToNonExisting | Tag::Receive);
    if left > 1 || (left == 1 && gets_more) {
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
    Some(Event { what: What::Trace(trace), stamp: if stamped { Some(stamp(&mut scan)?) } else { None } })
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
