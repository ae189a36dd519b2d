//! The number of a message, behind the term of a trace message `send` or `receive`.
//!
//! The sending and the receipt of one message have the same number. It is in nobody's way: Erlang, and whatever else reads a term out of
//! bytes, stops at its end (a real OTP does, `tests/python/test_message_numbers.py`).
//!
//! | bytes | where |
//! | --- | --- |
//! | `B1`, the number (8) | a sending; the receipt of what the same operating system process sent |
//! | `B2`, the number (8), the sender's creation (4) | the receipt of what another one sent |
//! | `B3`, `B4` or `B5`, the number (8) | the sending of a call, a result or an exception |
//!
//! ```
//! use inviso_term::record::numbered::{self, MessageKind, Number};
//! for (sender, kind, length) in [(0, MessageKind::Item, 9), (77, MessageKind::Item, 13), (0, MessageKind::Result, 9)] {
//!     let (mut bytes, number) = (vec![131, 106], Number { number: 7, sender, kind });
//!     numbered::put(&mut bytes, number);
//!     assert_eq!((numbered::length(&bytes[2..]), numbered::of(&bytes[2..])), (length, Some(number)));
//! }
//! assert_eq!((numbered::length(&[]), numbered::of(&[])), (0, None));
//! ```

/// What a message is, as its sender says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageKind {
    /// A message of the program's own, or the receipt of any message.
    #[default]
    Item,
    /// A call that another thread or an event loop is asked to make.
    Call,
    /// The value that a call, task or future has come to.
    Result,
    /// The exception that a call, task or future has come to.
    Exception,
}

impl MessageKind {
    /// All of them, by their numbers.
    pub const ALL: [MessageKind; 4] = [Self::Item, Self::Call, Self::Result, Self::Exception];
}

/// Which message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Number {
    /// What the sender called it: no other message of that process has the same.
    pub number: u64,
    /// The creation in the sender's pid, if it is of another process than the one that the message is about; else 0.
    pub sender: u32,
    /// Of a sending, what the message is.
    pub kind: MessageKind,
}

/// What begins it: no term's tag, and no version.
const MARK: u8 = 0xb1;
const WITH_SENDER: u8 = 0xb2;
/// With the number of a [`MessageKind`] other than `Item` added.
const WITH_KIND: u8 = 0xb2;

/// Adds it.
#[inline]
pub fn put(out: &mut Vec<u8>, number: Number) {
    out.push(match (number.sender, number.kind) {
        (0, MessageKind::Item) => MARK,
        (0, kind) => WITH_KIND + kind as u8,
        _ => WITH_SENDER,
    });
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
    let (sender, kind) = match *mark {
        MARK => (0, MessageKind::Item),
        WITH_SENDER => (u32::from_be_bytes(*rest.first_chunk()?), MessageKind::Item),
        mark => (0, *MessageKind::ALL.get(usize::from(mark.checked_sub(WITH_KIND)?))?),
    };
    Some(Number { number: u64::from_be_bytes(*number), sender, kind })
}

/// How many bytes of what is behind a term are its number.
#[inline]
#[must_use]
pub fn length(rest: &[u8]) -> usize {
    match of(rest) {
        Some(_) if rest.first() == Some(&WITH_SENDER) => 13,
        Some(_) => 9,
        None => 0,
    }
}
