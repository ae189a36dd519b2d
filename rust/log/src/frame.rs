//! The records of a trace port: an operation (1 byte), a number (4 bytes, big-endian), and for a term as many bytes as the
//! number.
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
/// Only other crates of the workspace use it.
pub const HEADER: usize = 5;

pub(crate) const TERM: u8 = 0;
pub(crate) const DROP: u8 = 1;

/// A record, without its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A message in the external term format. A reader returns only payloads that begin with the version byte. It does not check
    /// the rest.
    Term(&'a [u8]),
    /// This many messages were lost here.
    Dropped(u32),
}

impl Record<'_> {
    /// Whether the message can be read. The term is walked but not built. Erlang reads terms of any depth. Of a term that is
    /// nested too deep for this crate, only the lengths of the parts are checked. Bytes after the term are ignored.
    ///
    /// ```
    /// use inviso_log::frame::Record;
    /// assert!(Record::Term(&[131, 97, 7]).check().is_ok());
    /// assert_eq!(Record::Term(&[131, 255]).check().unwrap_err().to_string(), "unknown tag 255");
    /// ```
    ///
    /// # Errors
    /// The payload is not a term.
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

    /// The message as the handler of `dbg:trace_client/3` gets it: `{drop, N}` for lost messages. Bytes after the term are
    /// ignored.
    ///
    /// ```
    /// use inviso_log::frame::Record;
    /// assert_eq!(Record::Term(&[131, 97, 7]).message().unwrap().to_string(), "7");
    /// assert_eq!(Record::Dropped(3).message().unwrap().to_string(), "{drop,3}");
    /// ```
    ///
    /// # Errors
    /// The payload is not a term.
    pub fn message(self) -> Result<Term, DecodeError> {
        match self {
            Record::Term(payload) => Decoder::new(payload, Limits::default())?.term(),
            Record::Dropped(n) => Ok(Term::Tuple(vec![Term::atom(Kind::Drop.tag()), Term::from(i64::from(n))])),
        }
    }
}

/// The beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A record and its length with the header. The payload is not checked.
    Record(Record<'a>, usize),
    /// The beginning of a record, or no bytes. The record has this many bytes, as far as is known yet.
    Partial(u64),
    /// A byte that begins no record.
    Op(u8),
}

/// The first record of `bytes`.
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

/// Appends the record of a term as Erlang reads it: with a version byte, and without parts that Erlang would refuse
/// ([`etf::portable`]).
///
/// # Errors
/// `InvalidInput` if it has 4 GiB or more. Then nothing was appended.
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

/// Appends a record unchanged.
pub(crate) fn put(out: &mut Vec<u8>, record: Record<'_>) {
    let (op, n, payload) = match record {
        Record::Term(payload) => (TERM, payload.len() as u32, payload),
        Record::Dropped(n) => (DROP, n, &[][..]),
    };
    out.push(op);
    out.extend_from_slice(&n.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Appends a drop record. It appends several for more than 32 bits hold, and no record for 0. A count above 68 billion is cut to
/// that.
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
    fn records_are_parsed_as_far_as_they_are_whole() {
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
    fn erlang_reads_the_appended_records() {
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
