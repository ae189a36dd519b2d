//! Events of sequential tracing: their records, and the terms that these stand for.
//!
//! A record has the raw numbers of the token and its processes, the label, and the message: mostly one cache line. The consumer writes
//! out both pids and the event's names. A token from another node names a process of that node. Such tokens are rare, and their records
//! contain the whole term.
#![forbid(unsafe_code)]

use crate::record::{event::Event, header::Head, identity as tracee};
use inviso_term::{
    etf::{self, Encoder, Full},
    record::Kind,
    term::Identifier,
};
use std::borrow::Cow;

/// An event and its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeqEventKind {
    Send { from: u64, to: u64 },
    Receive { from: u64, at: u64 },
    Print { by: u64 },
}

/// The first byte of each kind of record. A whole term begins with the tag of a tuple instead.
const SEND: u8 = 1;
const RECEIVE: u8 = 2;
const PRINT: u8 = 3;

/// Bytes before the label: kind of event, length of the label, two serials.
const FIXED: usize = 1 + 2 + 8 + 8;

/// Enough bytes for a term without label and message: tags, names, numbers and two pids.
const AROUND: usize = 256;

impl SeqEventKind {
    /// The process of the event.
    pub fn process(self) -> u64 {
        match self {
            SeqEventKind::Send { from: process, .. }
            | SeqEventKind::Receive { at: process, .. }
            | SeqEventKind::Print { by: process } => process,
        }
    }

    /// The first byte of its record, its sender, and its receiver (0 for none).
    fn parts(self) -> (u8, u64, u64) {
        match self {
            SeqEventKind::Send { from, to } => (SEND, from, to),
            SeqEventKind::Receive { from, at } => (RECEIVE, from, at),
            SeqEventKind::Print { by } => (PRINT, by, 0),
        }
    }
}

/// The fields of a token that a record has.
pub(crate) struct TokenFields<'a> {
    /// The label; its length fits a u16.
    pub label: &'a [u8],
    /// The previous serial and the token's own.
    pub serial: (i64, i64),
    /// The sender, if it is a process of another node.
    pub away: Option<&'a Identifier>,
}

/// Enough bytes for the record of an event without its message.
pub(crate) fn around(token: &TokenFields<'_>) -> usize {
    let away = token.away.map_or(0, |away| away.node.len());
    token.label.len() + AROUND + away
}

/// Writes the payload of an event's record. `message` writes the sent or printed term.
pub(crate) fn write(
    out: &mut Encoder<'_>, token: &TokenFields<'_>, event: SeqEventKind,
    message: impl FnOnce(&mut Encoder<'_>) -> Result<(), Full>,
) -> Result<Head, Full> {
    let (form, from, to) = event.parts();
    let head = match token.away {
        None => {
            let mut fixed = [form; FIXED];
            fixed[1..3].copy_from_slice(&(token.label.len() as u16).to_ne_bytes());
            fixed[3..11].copy_from_slice(&token.serial.0.to_ne_bytes());
            fixed[11..].copy_from_slice(&token.serial.1.to_ne_bytes());
            out.raw(&fixed)?;
            out.raw(token.label)?;
            Head { tracee: from, kind: Kind::Seq, what: to, more: 0 }
        }
        Some(away) => {
            before(out, token.label, form, token.serial, |out| foreign(out, away), to)?;
            Head { tracee: to, kind: Kind::Seq, what: 0, more: 0 }
        }
    };
    let mark = out.mark();
    message(out).or_else(|Full| {
        out.truncate(mark);
        out.cut("message")
    })?;
    Ok(head)
}

/// The term `{Label, Info}` of an event's record. A payload that is a whole term is answered as it is.
#[must_use]
pub fn pair<B: AsRef<[u8]>>(event: &Event<B>) -> Cow<'_, [u8]> {
    let payload = event.payload.as_ref();
    written_out(event.tracee, event.what, payload).map_or(Cow::Borrowed(payload), Cow::Owned)
}

/// The term, written out. `None` if the payload is a whole term.
fn written_out(tracee: u64, what: u64, payload: &[u8]) -> Option<Vec<u8>> {
    let (form, rest) = payload.split_first().filter(|(form, _)| (SEND..=PRINT).contains(*form))?;
    let (length, rest) = rest.split_first_chunk()?;
    let (previous, rest) = rest.split_first_chunk()?;
    let (current, rest) = rest.split_first_chunk()?;
    let (label, message) = rest.split_at_checked(u16::from_ne_bytes(*length).into())?;
    let mut bytes = vec![0; payload.len() + AROUND];
    let mut out = Encoder::new(&mut bytes);
    let serial = (i64::from_ne_bytes(*previous), i64::from_ne_bytes(*current));
    before(&mut out, label, *form, serial, |out| identity(out, tracee), what).ok()?;
    out.raw(message).ok()?;
    let length = out.len();
    bytes.truncate(length);
    Some(bytes)
}

/// Writes the term up to the sent or printed message, which is its end.
fn before(
    out: &mut Encoder<'_>, label: &[u8], form: u8, serial: (i64, i64),
    from: impl FnOnce(&mut Encoder<'_>) -> Result<(), Full>, to: u64,
) -> Result<(), Full> {
    out.tuple(2)?;
    out.raw(label)?;
    out.tuple(5)?;
    out.atom(match form {
        SEND => "send",
        RECEIVE => "receive",
        _ => "print",
    })?;
    out.tuple(2)?;
    out.int(serial.0)?;
    out.int(serial.1)?;
    from(out)?;
    match to {
        0 => out.nil(),
        to => identity(out, to),
    }
}

/// A process of another node.
fn foreign(out: &mut Encoder<'_>, of: &Identifier) -> Result<(), Full> {
    out.pid_of(etf::Node { name: &of.node, id: of.id, rest: of.rest, creation: of.creation })
}

/// A process or a port of this node.
fn identity(out: &mut Encoder<'_>, id: u64) -> Result<(), Full> {
    if tracee::Kind::of(id) == tracee::Kind::Port {
        out.port(id >> 2)
    } else {
        out.pid(id)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use inviso_term::term::Term;
    use std::sync::Arc;

    fn event(tracee: u64, what: u64, payload: &[u8]) -> Event<&[u8]> {
        let kind = Kind::Seq as u8;
        Event { kind, stamps: 0, scheduler: 0, tracee, what, carried: 0, unique: 0, numbered: 0, payload, extra: &[] }
    }

    /// The text of the term that an event's record stands for.
    fn text(event: SeqEventKind, away: Option<Arc<Identifier>>, room: usize) -> Option<String> {
        let label = etf::encode(&Term::str("order"));
        let token = TokenFields { label: &label, serial: (3, -9), away: away.as_deref() };
        let mut room = vec![0; room];
        let mut out = Encoder::new(&mut room);
        let head = write(&mut out, &token, event, |out| out.str(&"sent".repeat(99))).ok()?;
        let event = super::tests::event(head.tracee, head.what, out.written());
        Some(etf::decode(&pair(&event)).unwrap().to_string())
    }

    #[test]
    fn a_record_stands_for_the_whole_term() {
        let own = |id| Term::Pid(Identifier::own(id));
        let port = Term::Port(Identifier::own((4 | tracee::Kind::Port as u64) >> 2));
        let away = Arc::new(Identifier::new(4, "shop@far", 7));
        let far = Term::Pid((*away).clone());
        for (event, away, what) in [
            (SeqEventKind::Send { from: 8, to: 12 }, None, format!("send,{{3,-9}},{},{}", own(8), own(12))),
            (
                SeqEventKind::Send { from: 8, to: 4 | tracee::Kind::Port as u64 },
                None,
                format!("send,{{3,-9}},{},{port}", own(8)),
            ),
            (SeqEventKind::Receive { from: 8, at: 12 }, None, format!("receive,{{3,-9}},{},{}", own(8), own(12))),
            (SeqEventKind::Receive { from: 0, at: 12 }, Some(away), format!("receive,{{3,-9}},{far},{}", own(12))),
            (SeqEventKind::Print { by: 8 }, None, format!("print,{{3,-9}},{},[]", own(8))),
        ] {
            let whole = text(event, away.clone(), 4096).unwrap();
            assert!(whole.contains(&what), "{whole}, not {what}");
            assert!(whole.contains("order") && whole.contains("sentsent"), "{whole}");
            // without space for the message, a mark is in its place
            let short = text(event, away, 200).unwrap();
            assert!(short.contains(&what) && !short.contains("sentsent"), "{short}");
        }
    }

    #[test]
    fn what_is_no_record_stays_as_it_is() {
        for bytes in [&[][..], &[1], &[97, 1], &[1, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 97]] {
            assert_eq!(pair(&event(8, 12, bytes)), bytes);
        }
    }
}
