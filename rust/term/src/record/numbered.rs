//! The number of a message, behind the term of a trace message `send` or `receive`.
//!
//! The sending and the receipt of one message have the same number. It is in nobody's way: Erlang, and whatever else reads a term out of
//! bytes, stops at its end (a real OTP does, `tests/python/test_message_numbers.py`).
//!
//! | bytes | where |
//! | --- | --- |
//! | `B1`, the number (8) | a sending; the receipt of what the same operating system process sent |
//! | `B2`, the number (8), the sender's creation (4) | the receipt of what another one sent |
//!
//! ```
//! use inviso_term::record::numbered::{self, Number};
//! for (sender, length) in [(0, 9), (77, 13)] {
//!     let (mut bytes, number) = (vec![131, 106], Number { number: 7, sender });
//!     numbered::put(&mut bytes, number);
//!     assert_eq!((numbered::length(&bytes[2..]), numbered::of(&bytes[2..])), (length, Some(number)));
//! }
//! assert_eq!((numbered::length(&[]), numbered::of(&[])), (0, None));
//! ```

/// Which message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Number {
    /// What the sender called it: no other message of that process has the same.
    pub number: u64,
    /// The creation in the sender's pid, if it is of another process than the one that the message is about; else 0.
    pub sender: u32,
}

/// What begins it: no term's tag, and no version.
const MARK: u8 = 0xb1;
const WITH_SENDER: u8 = 0xb2;

/// Adds it.
#[inline]
pub fn put(out: &mut Vec<u8>, number: Number) {
    out.push(if number.sender == 0 { MARK } else { WITH_SENDER });
    out.extend_from_slice(&number.number.to_be_bytes());
    if number.sender != 0 {
        out.extend_from_slice(&number.sender.to_be_bytes());
    }
}

/// The number in what is behind a term, if there is one; something else may follow.
#[inline]
#[must_use]
pub fn of(rest: &[u8]) -> Option<Number> {
    let (mark, rest) = rest.split_first()?;
    let (number, rest) = rest.split_first_chunk()?;
    let sender = match *mark {
        MARK => 0,
        WITH_SENDER => u32::from_be_bytes(*rest.first_chunk()?),
        _ => return None,
    };
    Some(Number { number: u64::from_be_bytes(*number), sender })
}

/// How many bytes of what is behind a term are its number.
#[inline]
#[must_use]
pub fn length(rest: &[u8]) -> usize {
    match of(rest) {
        Some(_) if rest.first() == Some(&MARK) => 9,
        Some(_) => 13,
        None => 0,
    }
}
