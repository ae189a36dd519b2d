//! Holes: zeros in the place of a record.
//!
//! A hole arises when another program empties the file and the writer continues at its old offset, or when the system is switched
//! off before it writes. In the format five zeros are a record without a term. But a hole has any length, so the record after it
//! need not be aligned to five.

use crate::frame::{self, Next, Record, HEADER};
use inviso_term::etf::{self, tag, DecodeError, Decoder, Limits};

/// How many zeros `bytes` begins with.
pub(crate) fn zeros(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len())
}

/// The end of a hole in `bytes`, which begins with the hole's last zeros (five or more); `all` is the number of all its zeros.
/// `None` if more bytes are needed and these are not the `last`. A record's header may itself begin with up to four zeros. So the
/// hole ends at the first place where
///
/// 1. a record begins that has exactly one whole term, or
/// 2. after all zeros a drop record comes, and after that such a record.
///
/// Without such a place nothing is guessed: each five zeros count as a record without a term.
pub(crate) fn end(bytes: &[u8], all: u64, limit: usize, last: bool) -> Option<usize> {
    let zeros = zeros(bytes);
    if zeros == bytes.len() {
        return last.then_some(zeros);
    }
    for at in zeros.saturating_sub(HEADER - 1)..=zeros {
        let rest = bytes.get(at..).unwrap_or_default();
        let term = match rest.first() {
            Some(&frame::DROP) => rest.get(HEADER..).unwrap_or_default(),
            _ => rest,
        };
        match has_term(term, limit) {
            Some(true) => return Some(at),
            None if !last => return None,
            _ => {}
        }
    }
    Some(zeros - (all % HEADER as u64) as usize)
}

/// Whether `bytes` begins with a record of exactly one whole term; `None` if more bytes are needed.
fn has_term(bytes: &[u8], limit: usize) -> Option<bool> {
    match frame::next(bytes) {
        Next::Record(Record::Term(payload), _) => is_term(payload).or(Some(false)),
        Next::Partial(length) if length <= (limit as u64).saturating_add(HEADER as u64) => {
            // these bytes may be enough to see that it is not a term
            is_term(bytes.get(HEADER..).unwrap_or_default()).and(Some(false))
        }
        _ => Some(false),
    }
}

/// Whether `bytes` is exactly one whole term; `None` if it ends in the middle of one.
fn is_term(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [] | [etf::VERSION] => return None,
        [etf::VERSION, ..] => {}
        _ => return Some(false),
    }
    let mut decoder = Decoder::new(bytes, Limits::default()).ok()?;
    match decoder.skip() {
        Ok(()) => Some(decoder.rest().is_empty()),
        Err(DecodeError::Deep) => bytes.get(1..).is_some_and(etf::is_whole).then_some(true),
        Err(DecodeError::Short) => None,
        // a compressed term that is cut off looks like a damaged one
        Err(_) => (bytes.get(1) != Some(&tag::COMPRESSED)).then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two records for each length of a header, and records that may follow a hole.
    fn records() -> Vec<Vec<u8>> {
        let binary = |length: usize| {
            let mut record = Vec::new();
            let term = [&[109][..], &(length as u32).to_be_bytes(), &vec![131; length]].concat();
            frame::put_term(&mut record, &term).unwrap();
            record
        };
        let mut all: Vec<_> = [1, 125, 249, 250, 600, 33_000, 65_529, 65_530, 1 << 17, 1 << 24].map(binary).into();
        all.push([vec![1, 0, 0, 1, 131], binary(3)].concat());
        all
    }

    #[test]
    fn a_hole_of_any_length_ends_at_the_next_record() {
        for record in records() {
            for length in 5..16 {
                let bytes = [&vec![0; length][..], &record].concat();
                for last in [false, true] {
                    assert_eq!(end(&bytes, zeros(&bytes) as u64, 1 << 28, last), Some(length));
                }
                if record.len() < 200 {
                    for cut in length..bytes.len() {
                        assert_eq!(end(&bytes[..cut], zeros(&bytes[..cut]) as u64, 1 << 28, false), None);
                    }
                }
            }
        }
    }

    #[test]
    fn zeros_before_other_bytes_are_records_without_a_term() {
        // a byte after the term, not a term, a drop record before the end, a record that is too long
        for rest in [&[4, 131, 97, 1, 0][..], &[2, 131, 255], &[1, 0, 0, 0, 5], &[2, 7, 7], &[3, 0, 0, 131, 97]] {
            for length in 5..10 {
                let bytes = [&vec![0; length][..], rest].concat();
                assert_eq!(end(&bytes, length as u64, 1 << 16, true), Some(5));
            }
        }
        assert_eq!(end(&[0; 7], 7, 1 << 16, true), Some(7));
        assert_eq!(end(&[0; 7], 7, 1 << 16, false), None);
    }
}
