//! The number of a message, behind the term of a trace message `send` or `receive`.
//!
//! The sending and the receipt of one message have the same number. It is in nobody's way: Erlang, and whatever else reads a term out of
//! bytes, stops at its end (a real OTP does, `tests/python/test_message_numbers.py`).
//!
//! ```
//! use inviso_term::record::numbered;
//! let mut bytes = vec![131, 106];
//! numbered::put(&mut bytes, 7);
//! assert_eq!((bytes.len(), numbered::of(&bytes[2..])), (2 + numbered::SIZE, Some(7)));
//! assert_eq!(numbered::of(&[]), None);
//! ```

/// What begins it: no term's tag, and no version.
const MARK: u8 = 0xb1;

/// Bytes that it takes.
pub const SIZE: usize = 9;

/// Adds it.
#[inline]
pub fn put(out: &mut Vec<u8>, number: u64) {
    out.push(MARK);
    out.extend_from_slice(&number.to_be_bytes());
}

/// The number in what is behind a term, if there is one; something else may follow.
#[inline]
#[must_use]
pub fn of(rest: &[u8]) -> Option<u64> {
    match rest.split_first_chunk::<SIZE>()?.0 {
        [MARK, number @ ..] => Some(u64::from_be_bytes(*number)),
        _ => None,
    }
}
