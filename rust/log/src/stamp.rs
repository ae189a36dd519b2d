//! The timestamp of a message: the last element of a `trace_ts` tuple, and of a `seq_trace` tuple of four elements.

use crate::frame::Record;
use inviso_term::{
    etf::{self, tag, DecodeError, Decoder, Limits, Visit},
    record::{Kind, TRACE, TRACE_TS},
    term::Term,
};
use num_traits::ToPrimitive;

const SEQ_TRACE: &str = Kind::Seq.tag();

const TRACE_NAME: &[u8] = TRACE.as_bytes();
const TRACE_TS_NAME: &[u8] = TRACE_TS.as_bytes();
const SEQ_TRACE_NAME: &[u8] = SEQ_TRACE.as_bytes();

/// The timestamp of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Its clock. Timestamps of two clocks can't be compared.
    pub clock: Clock,
    /// Nanoseconds since an instant of the clock. Erlang's monotonic time may be negative.
    pub ns: i128,
    /// The number among strict monotonic timestamps of one instant.
    pub unique: i64,
}

/// A clock of timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    /// `{MegaSecs, Secs, MicroSecs}`, of `timestamp` and `cpu_timestamp`.
    Wall,
    /// Nanoseconds, of `monotonic_timestamp`; with a number, of `strict_monotonic_timestamp`.
    Monotonic,
}

/// The timestamp of a message; None without one, or if the message is not a term.
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
    match usual(payload, Shapes::All) {
        Some(stamp) => stamp,
        None => decoded(payload),
    }
}

/// A term as a timestamp.
#[must_use]
pub fn of_term(term: &Term) -> Option<Stamp> {
    let int = |term: &Term| match term {
        Term::Int(n) => n.to_i64(),
        _ => None,
    };
    match term {
        Term::Tuple(parts) => match &parts[..] {
            [megas, secs, micros] => Some(wall(int(megas)?, int(secs)?, int(micros)?)),
            [ns, unique] => Some(Stamp { clock: Clock::Monotonic, ns: int(ns)?.into(), unique: int(unique)? }),
            _ => None,
        },
        term => Some(Stamp { clock: Clock::Monotonic, ns: int(term)?.into(), unique: 0 }),
    }
}

/// A timestamp as a term. The wall clock is cut to microseconds.
///
/// ```
/// use inviso_log::stamp::{of_term, to_term, Clock, Stamp};
/// let stamp = Stamp { clock: Clock::Wall, ns: 1_700_000_000_000_005_000, unique: 0 };
/// assert_eq!(to_term(stamp).to_string(), "{1700,0,5}");
/// assert_eq!(of_term(&to_term(stamp)), Some(stamp));
/// ```
#[must_use]
pub fn to_term(stamp: Stamp) -> Term {
    let int = |n: i128| Term::Int(n.into());
    match (stamp.clock, stamp.unique) {
        (Clock::Wall, _) => {
            let micros = stamp.ns.div_euclid(1000);
            let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
            let (megas, seconds) = (seconds.div_euclid(1_000_000), seconds.rem_euclid(1_000_000));
            Term::Tuple(vec![int(megas), int(seconds), int(micros)])
        }
        (Clock::Monotonic, 0) => int(stamp.ns),
        (Clock::Monotonic, unique) => Term::Tuple(vec![int(stamp.ns), Term::from(unique)]),
    }
}

/// The messages that have a timestamp.
/// Only other crates of the workspace use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shapes {
    /// All `trace_ts` tuples of any length, and `seq_trace` tuples of four elements.
    #[default]
    All,
    /// Only `trace_ts` tuples of five or six elements, as in Inviso.
    Inviso,
}

/// The timestamp of a message whose whole term was checked.
/// Only other crates of the workspace use it.
///
/// # Errors
/// As [`Record::check`].
#[inline(always)]
pub fn checked(payload: &[u8], shapes: Shapes) -> Result<Option<Stamp>, DecodeError> {
    match usual(payload, shapes) {
        Some(stamp) => Ok(stamp),
        None => unusual(payload, shapes),
    }
}

/// The timestamp of a message with unusual parts.
#[cold]
fn unusual(payload: &[u8], shapes: Shapes) -> Result<Option<Stamp>, DecodeError> {
    Record::Term(payload).check()?;
    let inflated = match payload {
        [etf::VERSION, 80, ..] => Some(etf::encode_versioned(&Record::Term(payload).message()?)),
        _ => None,
    };
    Ok(match (shapes, inflated.as_deref().unwrap_or(payload)) {
        (Shapes::Inviso, [etf::VERSION, tag::SMALL_TUPLE, 5 | 6, tag::SMALL_ATOM_UTF8, 8, rest @ ..])
            if rest.starts_with(TRACE_TS.as_bytes()) =>
        {
            decoded(payload)
        }
        (Shapes::Inviso, _) => None,
        (Shapes::All, _) => decoded(payload),
    })
}

/// The timestamp of a message with the usual parts. The whole message is checked in one pass.
#[inline(always)]
fn usual(payload: &[u8], shapes: Shapes) -> Option<Option<Stamp>> {
    let term = payload.strip_prefix(&[etf::VERSION])?;
    let &[tag::SMALL_TUPLE, n, tag::SMALL_ATOM_UTF8, length, ref rest @ ..] = term else {
        return etf::is_plain(term).then_some(None);
    };
    let (name, rest) = rest.split_at_checked(length.into())?;
    let n = usize::from(n).checked_sub(1)?;
    let has_stamp = match (name, shapes) {
        (TRACE_TS_NAME, Shapes::All) => n > 0,
        (TRACE_TS_NAME, Shapes::Inviso) => matches!(n, 4 | 5),
        (SEQ_TRACE_NAME, Shapes::All) => n == 3,
        (TRACE_NAME, _) => false,
        _ => return etf::is_plain(term).then_some(None),
    };
    if !has_stamp {
        return etf::plain(rest, n).map(|_| None);
    }
    let last = rest.get(etf::plain(rest, n - 1)?..)?;
    match begins(last) {
        Some(stamp) => Some(Some(stamp)),
        None => etf::plain(last, 1).map(|_| None),
    }
}

/// The timestamp at the beginning of `bytes`.
/// Only other crates of the workspace use it.
#[inline(always)]
#[must_use]
pub fn begins(bytes: &[u8]) -> Option<Stamp> {
    if let [tag::SMALL_TUPLE, n @ (2 | 3), rest @ ..] = bytes {
        let (first, rest) = int(rest)?;
        let (second, rest) = int(rest)?;
        if *n == 2 {
            return Some(Stamp { clock: Clock::Monotonic, ns: first.into(), unique: second });
        }
        let (third, _) = int(rest)?;
        return Some(wall(first, second, third));
    }
    let (ns, _) = int(bytes)?;
    Some(Stamp { clock: Clock::Monotonic, ns: ns.into(), unique: 0 })
}

#[inline(always)]
fn wall(megas: i64, secs: i64, micros: i64) -> Stamp {
    // today's times need no 128 bits
    let all =
        megas.checked_mul(1_000_000).and_then(|s| s.checked_add(secs)?.checked_mul(1_000_000)?.checked_add(micros));
    let ns = match all.and_then(|all| all.checked_mul(1000)) {
        Some(ns) => i128::from(ns),
        None => ((i128::from(megas) * 1_000_000 + i128::from(secs)) * 1_000_000 + i128::from(micros)) * 1000,
    };
    Stamp { clock: Clock::Wall, ns, unique: 0 }
}

/// The 64-bit integer at the beginning of `bytes`, and the bytes after it.
#[inline(always)]
fn int(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    match *tag {
        tag::SMALL_INTEGER => rest.split_first().map(|(n, rest)| (i64::from(*n), rest)),
        tag::INTEGER => rest.split_first_chunk().map(|(n, rest)| (i64::from(i32::from_be_bytes(*n)), rest)),
        tag::SMALL_BIG => {
            let (&[length, sign], rest) = rest.split_first_chunk()?;
            let (digits, rest) = rest.split_at_checked(length.into())?;
            let value = match digits.first_chunk() {
                Some(all) if digits.len() == 8 => u64::from_le_bytes(*all),
                _ => {
                    let mut value = [0; 8];
                    value.get_mut(..digits.len())?.copy_from_slice(digits);
                    u64::from_le_bytes(value)
                }
            };
            let n = if sign == 0 { i64::try_from(value).ok()? } else { 0_i64.checked_sub_unsigned(value)? };
            Some((n, rest))
        }
        _ => None,
    }
}

/// The timestamp of any message that the decoder can read.
#[cold]
fn decoded(payload: &[u8]) -> Option<Stamp> {
    let part = Decoder::new(payload, Limits::default()).and_then(|mut decoder| decoder.read(&mut StampVisitor));
    match part {
        Ok(Part::Message(stamp)) => Some(stamp),
        _ => None,
    }
}

struct StampVisitor;

/// A term, as far as timestamps need it.
#[derive(Clone, Copy)]
enum Part {
    Other,
    Int(i64),
    TraceTs,
    SeqTrace,
    Stamp(Stamp),
    /// A whole message.
    Message(Stamp),
}

type VisitResult = Result<Part, DecodeError>;

fn as_stamp(part: Part) -> Option<Stamp> {
    match part {
        Part::Int(ns) => Some(Stamp { clock: Clock::Monotonic, ns: ns.into(), unique: 0 }),
        Part::Stamp(stamp) => Some(stamp),
        _ => None,
    }
}

impl Visit for StampVisitor {
    type Value = Part;
    type Error = DecodeError;

    fn int(&mut self, n: i64) -> VisitResult {
        Ok(Part::Int(n))
    }

    fn atom(&mut self, name: &str) -> VisitResult {
        Ok(match name {
            TRACE_TS => Part::TraceTs,
            SEQ_TRACE => Part::SeqTrace,
            _ => Part::Other,
        })
    }

    fn tuple(&mut self, elements: Vec<Part>) -> VisitResult {
        let message = |last: &Part| as_stamp(*last).map_or(Part::Other, Part::Message);
        Ok(match &elements[..] {
            [Part::Int(megas), Part::Int(secs), Part::Int(micros)] => Part::Stamp(wall(*megas, *secs, *micros)),
            [Part::Int(ns), Part::Int(unique)] => {
                Part::Stamp(Stamp { clock: Clock::Monotonic, ns: (*ns).into(), unique: *unique })
            }
            [Part::TraceTs, .., last] | [Part::SeqTrace, _, _, last] => message(last),
            _ => Part::Other,
        })
    }

    inviso_term::alike! {
        Ok(Part::Other); big float str bytes bits list improper map record set pid port reference fun opaque cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Term> {
        let stamps = [
            Term::from(0),
            Term::from(-7),
            Term::from(1 << 40),
            Term::from(i64::MIN),
            Term::Int(num_bigint::BigInt::from(1) << 64),
            Term::Tuple(vec![Term::from(5), Term::from(i64::MAX)]),
            Term::Tuple(vec![Term::from(1), Term::from(2), Term::from(3)]),
            Term::Tuple(vec![Term::from(i64::MAX), Term::from(i64::MIN), Term::from(3)]),
            Term::Tuple(vec![Term::from(1), Term::from(2), Term::atom("a")]),
            Term::Tuple(vec![]),
            Term::str("no stamp"),
            Term::Float(1.5),
        ];
        let mut all = Vec::new();
        for head in ["trace_ts", "trace", "seq_trace", "trace_tsx", "drop", ""] {
            for stamp in &stamps {
                for between in 0..8 {
                    let parts = (0..between).map(|n| Term::List(vec![Term::from(n), stamp.clone()]));
                    all.push(Term::Tuple([Term::atom(head)].into_iter().chain(parts).chain([stamp.clone()]).collect()));
                }
            }
        }
        all.extend([Term::Tuple(vec![]), Term::atom("trace_ts"), Term::Tuple(vec![Term::atom("trace_ts")])]);
        all
    }

    #[test]
    fn the_fast_path_finds_what_the_decoder_finds() {
        for message in messages() {
            let bytes = etf::encode_versioned(&message);
            assert_eq!(usual(&bytes, Shapes::All), Some(decoded(&bytes)), "{message}");
            for length in 0..bytes.len() {
                let cut = &bytes[..length];
                assert_eq!(usual(cut, Shapes::All), None, "{message}, {length} bytes");
                assert_eq!(checked(cut, Shapes::All).is_err(), Record::Term(cut).check().is_err());
            }
        }
    }

    #[test]
    fn a_stamp_is_read_back_from_its_term() {
        for ns in [0, 1000, -1000, 999_999_000, 1_700_000_000_000_005_000, -1_700_000_000_000_005_000] {
            let stamp = Stamp { clock: Clock::Wall, ns, unique: 0 };
            assert_eq!(of_term(&to_term(stamp)), Some(stamp));
            for unique in [0, 1, -1, i64::MAX] {
                let stamp = Stamp { clock: Clock::Monotonic, ns, unique };
                assert_eq!(of_term(&to_term(stamp)), Some(stamp));
            }
        }
        let shown = |clock, ns, unique| to_term(Stamp { clock, ns, unique }).to_string();
        assert_eq!(shown(Clock::Wall, -1000, 0), "{-1,999999,999999}");
        assert_eq!([shown(Clock::Monotonic, 5, 0), shown(Clock::Monotonic, 5, 7)], ["5", "{5,7}"]);
        for none in [Term::atom("a"), Term::Tuple(vec![]), Term::Tuple(vec![Term::from(1), Term::atom("a")])] {
            assert_eq!(of_term(&none), None);
        }
    }

    #[test]
    fn a_wall_time_is_in_nanoseconds() {
        let some = [0, 1, -1, 7, 1_720, 999_999, 1 << 40, i64::MAX, i64::MIN];
        for (megas, secs, micros) in some.iter().flat_map(|a| some.iter().flat_map(|b| some.map(|c| (*a, *b, c)))) {
            let ns = [(megas, 10i128.pow(15)), (secs, 10i128.pow(9)), (micros, 1000)];
            let ns = ns.into_iter().map(|(n, unit)| i128::from(n) * unit).sum();
            assert_eq!(wall(megas, secs, micros), Stamp { clock: Clock::Wall, ns, unique: 0 });
        }
    }

    #[test]
    fn inviso_accepts_only_five_or_six_elements() {
        for message in messages() {
            let Term::Tuple(elements) = &message else { continue };
            let bytes = etf::encode_versioned(&message);
            let is_one = elements.first() == Some(&Term::atom("trace_ts")) && matches!(elements.len(), 5 | 6);
            let expected = if is_one { decoded(&bytes) } else { None };
            assert_eq!(checked(&bytes, Shapes::Inviso), Ok(expected), "{message}");
            assert_eq!(unusual(&bytes, Shapes::Inviso), Ok(expected), "{message}");
        }
    }
}
