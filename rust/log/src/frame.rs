//! The records of a trace port: an operation (1 byte), a number (4 bytes, high end first), and for a term so many bytes of it.
//!
//! ```
//! use inviso_log::frame::{self, Next, Record};
//! let mut bytes = Vec::new();
//! frame::put_term(&mut bytes, &[131, 97, 7]).unwrap();
//! frame::put_dropped(&mut bytes, 300);
//! assert_eq!(bytes, [0, 0, 0, 0, 3, 131, 97, 7, 1, 0, 0, 1, 44]);
//! assert_eq!(frame::next(&bytes), Next::Record(Record::Term(&[131, 97, 7]), 8));
//! ```

use inviso_term::{
    etf::{self, DecodeError, Decoder, Limits},
    record::Kind,
    term::Term,
};
use std::io;

/// Bytes before the payload.
pub const HEADER: usize = 5;

pub(crate) const TERM: u8 = 0;
pub(crate) const DROP: u8 = 1;

/// A record, without its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A message in the external term format. A reader gives only payloads that begin with its version byte; it doesn't look
    /// further.
    Term(&'a [u8]),
    /// Here so many messages were lost.
    Dropped(u32),
}

impl Record<'_> {
    /// Whether the message can be read: its term is walked over, and nothing made of it. Erlang reads terms of any depth, so of one that
    /// is nested deeper than ours the lengths of its parts have to be right. Bytes behind the term are nothing.
    ///
    /// ```
    /// use inviso_log::frame::Record;
    /// assert!(Record::Term(&[131, 97, 7]).check().is_ok());
    /// assert_eq!(Record::Term(&[131, 255]).check().unwrap_err().to_string(), "unknown tag 255");
    /// ```
    ///
    /// # Errors
    /// The payload is no term.
    pub fn check(self) -> Result<(), DecodeError> {
        let Record::Term(payload) = self else { return Ok(()) };
        let term = payload.strip_prefix(&[etf::VERSION]).unwrap_or(payload);
        if etf::is_plain(term) {
            return Ok(());
        }
        match Decoder::new(payload, Limits::default())?.skip() {
            Err(DecodeError::Deep) if etf::is_whole(term) => Ok(()),
            checked => checked,
        }
    }

    /// The message, as `dbg:trace_client/3` gives it to its handler: `{drop, N}` for lost ones. Bytes behind the term are nothing.
    ///
    /// ```
    /// use inviso_log::frame::Record;
    /// assert_eq!(Record::Term(&[131, 97, 7]).message().unwrap().to_string(), "7");
    /// assert_eq!(Record::Dropped(3).message().unwrap().to_string(), "{drop,3}");
    /// ```
    ///
    /// # Errors
    /// The payload is no term.
    pub fn message(self) -> Result<Term, DecodeError> {
        match self {
            Record::Term(payload) => Decoder::new(payload, Limits::default())?.term(),
            Record::Dropped(n) => Ok(Term::Tuple(vec![Term::atom(Kind::Drop.tag()), Term::from(i64::from(n))])),
        }
    }
}

/// What bytes begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A record, and how many bytes it takes with its header. The payload can be anything.
    Record(Record<'a>, usize),
    /// The beginning of a record, or nothing: it takes so many bytes, as far as that can be said yet.
    Partial(u64),
    /// A byte that no record begins with.
    Op(u8),
}

/// The record that bytes begin with.
#[inline]
#[must_use]
pub fn next(bytes: &[u8]) -> Next<'_> {
    let Some((&[op, a, b, c, d], rest)) = bytes.split_first_chunk() else {
        return match bytes.first() {
            Some(op) if *op > DROP => Next::Op(*op),
            _ => Next::Partial(HEADER as u64),
        };
    };
    let n = u32::from_be_bytes([a, b, c, d]);
    match op {
        TERM => match rest.get(..n as usize) {
            Some(payload) => Next::Record(Record::Term(payload), HEADER + payload.len()),
            None => Next::Partial(HEADER as u64 + u64::from(n)),
        },
        DROP => Next::Record(Record::Dropped(n), HEADER),
        op => Next::Op(op),
    }
}

/// Adds the record of a term, as Erlang reads it: with its version byte, if it came without, and without what Erlang would
/// refuse ([`etf::portable`]).
///
/// # Errors
/// `InvalidInput` if it has 4 GiB or more; then nothing was added.
pub fn put_term(out: &mut Vec<u8>, term: &[u8]) -> io::Result<()> {
    let term = etf::portable(term);
    let version: &[u8] = if term.first() == Some(&etf::VERSION) { &[] } else { &[etf::VERSION] };
    let length = u32::try_from(version.len() + term.len()).map_err(|_| too_long())?;
    out.reserve(HEADER + length as usize);
    out.push(TERM);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(version);
    out.extend_from_slice(&term);
    Ok(())
}

/// Adds a record as it was read.
pub(crate) fn put(out: &mut Vec<u8>, record: Record<'_>) {
    let (op, n, payload) = match record {
        Record::Term(payload) => (TERM, payload.len() as u32, payload),
        Record::Dropped(n) => (DROP, n, &[][..]),
    };
    out.push(op);
    out.extend_from_slice(&n.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Adds a drop record; more than one for what 32 bits can't hold, none for nothing. More than 68 billion messages are told as
/// so many.
pub fn put_dropped(out: &mut Vec<u8>, n: u64) {
    let mut n = n.min(16 * u64::from(u32::MAX));
    while n > 0 {
        let part = u32::try_from(n).unwrap_or(u32::MAX);
        out.push(DROP);
        out.extend_from_slice(&part.to_be_bytes());
        n -= u64::from(part);
    }
}

#[cold]
fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a term of 4 GiB or more")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_taken_as_far_as_they_are_there() {
        let bytes = [0, 0, 0, 0, 2, 131, 106, 1];
        for length in 0..5 {
            assert_eq!(next(&bytes[..length]), Next::Partial(5));
        }
        assert_eq!(next(&bytes[..6]), Next::Partial(7));
        assert_eq!(next(&bytes), Next::Record(Record::Term(&[131, 106]), 7));
        assert_eq!(next(&bytes[7..]), Next::Partial(5));
        assert_eq!(next(&[2]), Next::Op(2));
        assert_eq!(next(&[255, 0, 0, 0, 0]), Next::Op(255));
        assert_eq!(next(&[0, 255, 255, 255, 255]), Next::Partial(5 + 0xffff_ffff));
        assert_eq!(next(&[1, 0, 0, 0, 0]), Next::Record(Record::Dropped(0), 5));
    }

    #[test]
    fn what_is_added_is_what_erlang_reads() {
        let mut bytes = Vec::new();
        put_term(&mut bytes, &[106]).unwrap();
        assert_eq!(bytes, [0, 0, 0, 0, 2, 131, 106]);
        bytes.clear();
        put_term(&mut bytes, &[70, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(bytes, [0, 0, 0, 0, 6, 131, 119, 3, b'n', b'a', b'n']);
        bytes.clear();
        put_dropped(&mut bytes, 0);
        assert!(bytes.is_empty());
        put_dropped(&mut bytes, 0x1_0000_0001);
        assert_eq!(bytes, [1, 255, 255, 255, 255, 1, 0, 0, 0, 2]);
        bytes.clear();
        put_dropped(&mut bytes, u64::MAX);
        assert_eq!(bytes, [1, 255, 255, 255, 255].repeat(16));
    }
}
