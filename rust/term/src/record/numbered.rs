//! The number of a message, after the term of a trace message `send` or `receive`.
//!
//! The sending and the receipt of one message have the same number. It disturbs no reader: Erlang and other readers of a term
//! stop at its end (`tests/python/test_message_numbers.py` checks that with a real OTP).
//!
//! | bytes | place |
//! | --- | --- |
//! | `B1`, the number (8) | a sending; a receipt of a message of the same operating system process |
//! | `B2`, the number (8), the sender's creation (4) | a receipt of another process's message |
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

/// The kind of a message, as its sender recorded it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageKind {
    /// A message of the program itself, or the receipt of any message.
    #[default]
    Item,
    /// A request to another thread or an event loop to make a call.
    Call,
    /// The result of a call, task or future.
    Result,
    /// The exception of a call, task or future.
    Exception,
}

impl MessageKind {
    /// All kinds, by their numbers.
    pub const ALL: [MessageKind; 4] = [Self::Item, Self::Call, Self::Result, Self::Exception];
}

/// The number of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Number {
    /// The number that the sender gave it, unique in that process.
    pub number: u64,
    /// The creation in the sender's pid if the tracee is of another process; else 0.
    pub sender: u32,
    /// The kind of the message, for a sending.
    pub kind: MessageKind,
}

/// The first byte: neither a term's tag nor a version.
const MARK: u8 = 0xb1;
const WITH_SENDER: u8 = 0xb2;
/// The number of a [`MessageKind`] other than `Item` is added to it.
const WITH_KIND: u8 = 0xb2;

/// Appends the number.
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

/// The number at the beginning of the bytes after a term, if there is one. Other bytes may follow.
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

/// The length of the number at the beginning of the bytes after a term.
#[inline]
#[must_use]
pub fn length(rest: &[u8]) -> usize {
    match of(rest) {
        Some(_) if rest.first() == Some(&WITH_SENDER) => 13,
        Some(_) => 9,
        None => 0,
    }
}
