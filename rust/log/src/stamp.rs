//! The time stamp of a message: the last element of a `trace_ts` tuple, and of a `seq_trace` tuple that has four.

use inviso_term::{
    etf::{DecodeError, Decoder, Limits, Visit},
    record::{Kind, TRACE_TS},
};

const SEQ_TRACE: &str = Kind::Seq.tag();

/// When a message was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Which clock says so. Stamps of two clocks say nothing about each other.
    pub clock: Clock,
    /// Nanoseconds since an instant of the clock's own; Erlang's monotonic time may be negative.
    pub ns: i128,
    /// Which one it is of those of one instant, of strict monotonic stamps.
    pub unique: i64,
}

/// A clock of time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    /// `{MegaSecs, Secs, MicroSecs}`, of `timestamp` and `cpu_timestamp`.
    Wall,
    /// Nanoseconds, of `monotonic_timestamp`; and with a number, of `strict_monotonic_timestamp`.
    Monotonic,
}

/// The time stamp of a message; None if it has none, or is no term.
///
/// ```
/// use inviso_log::stamp::{stamp, Clock, Stamp};
/// use inviso_term::{etf, term::Term};
/// let message = |stamp: Term| etf::encode_versioned(&Term::Tuple(vec![Term::atom("trace_ts"), Term::from(1), stamp]));
/// let wall = Term::Tuple(vec![Term::from(1), Term::from(2), Term::from(3)]);
/// let ns = 1_000_002_000_003_000;
/// assert_eq!(stamp(&message(wall)), Some(Stamp { clock: Clock::Wall, ns, unique: 0 }));
/// assert_eq!(stamp(&message(Term::from(-5))), Some(Stamp { clock: Clock::Monotonic, ns: -5, unique: 0 }));
/// assert_eq!(stamp(&message(Term::atom("none"))), None);
/// ```
#[must_use]
pub fn stamp(payload: &[u8]) -> Option<Stamp> {
    let seen = Decoder::new(payload, Limits::default()).and_then(|mut decoder| decoder.read(&mut Look));
    match seen {
        Ok(Seen::Message(stamp)) => Some(stamp),
        _ => None,
    }
}

struct Look;

/// What a term may be a part of.
#[derive(Clone, Copy)]
enum Seen {
    Other,
    Int(i64),
    TraceTs,
    SeqTrace,
    Stamp(Stamp),
    /// A whole message.
    Message(Stamp),
}

type Made = Result<Seen, DecodeError>;

fn as_stamp(seen: Seen) -> Option<Stamp> {
    match seen {
        Seen::Int(ns) => Some(Stamp { clock: Clock::Monotonic, ns: ns.into(), unique: 0 }),
        Seen::Stamp(stamp) => Some(stamp),
        _ => None,
    }
}

impl Visit for Look {
    type Value = Seen;
    type Error = DecodeError;

    fn int(&mut self, n: i64) -> Made {
        Ok(Seen::Int(n))
    }

    fn atom(&mut self, name: &str) -> Made {
        Ok(match name {
            TRACE_TS => Seen::TraceTs,
            SEQ_TRACE => Seen::SeqTrace,
            _ => Seen::Other,
        })
    }

    fn tuple(&mut self, elements: Vec<Seen>) -> Made {
        let message = |last: &Seen| as_stamp(*last).map_or(Seen::Other, Seen::Message);
        Ok(match &elements[..] {
            [Seen::Int(megas), Seen::Int(secs), Seen::Int(micros)] => {
                let seconds = i128::from(*megas) * 1_000_000 + i128::from(*secs);
                let ns = (seconds * 1_000_000 + i128::from(*micros)) * 1000;
                Seen::Stamp(Stamp { clock: Clock::Wall, ns, unique: 0 })
            }
            [Seen::Int(ns), Seen::Int(unique)] => {
                Seen::Stamp(Stamp { clock: Clock::Monotonic, ns: (*ns).into(), unique: *unique })
            }
            [Seen::TraceTs, .., last] | [Seen::SeqTrace, _, _, last] => message(last),
            _ => Seen::Other,
        })
    }

    inviso_term::alike! {
        Ok(Seen::Other); big float str bytes bits list improper map record set pid port reference fun opaque cut
    }
}
