//! What stands in a record before its payload, and which numbers and terms its payload has besides the message's own.
#![forbid(unsafe_code)]

use inviso_term::record::Kind;

/// Which stamp a record's message gets; the strongest of those that are set.
pub mod stamp {
    /// None: the message begins with `trace`.
    pub const NONE: u8 = 0;
    /// `(megasecs, secs, microsecs)`.
    pub const TIMESTAMP: u8 = 1;
    /// `(nanoseconds, unique)`; the unique number is the payload's first 8 bytes, after those of [`CARRIED`].
    pub const STRICT: u8 = 2;
    /// Nanoseconds.
    pub const MONOTONIC: u8 = 3;
    /// The stamp's bits.
    pub const MASK: u8 = 3;
    /// The scheduler's number comes before the stamp.
    pub const SCHEDULER: u8 = 4;
    /// The stamp's nanoseconds are the payload's first 8 bytes.
    pub const CARRIED: u8 = 8;
    /// At the payload's end there is one more term, what a match spec adds to the message, and its length (a u32).
    pub const EXTRA: u8 = 16;
    /// Of a message's number the record has a part itself: the payload's first 8 bytes, after those of [`CARRIED`] and [`STRICT`]. Of a
    /// sending it is the number; of a receipt the creation of the operating system process that sent the message, another than this one.
    pub const NUMBERED: u8 = 32;
    /// Of a sending: the number of the message's [`MessageKind`](inviso_term::record::numbered::MessageKind), in the two highest bits.
    pub const KIND: u8 = 0xc0;
    /// Where those bits are.
    pub const KIND_SHIFT: u32 = 6;

    /// Adds such a term, if there is one, and answers the mark for it.
    pub(crate) fn with_extra(payload: &mut Vec<u8>, extra: &[u8]) -> u8 {
        if extra.is_empty() {
            return 0;
        }
        payload.extend_from_slice(extra);
        payload.extend_from_slice(&(extra.len() as u32).to_ne_bytes());
        EXTRA
    }
}

/// What a record says before its payload.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    /// The process or port that it is about.
    pub tracee: u64,
    pub kind: Kind,
    /// What the kind says.
    pub what: u64,
    /// [`stamp::EXTRA`], [`stamp::NUMBERED`], [`stamp::KIND`], or none of them.
    pub more: u8,
}

impl Head {
    /// The same, with such a mark, too.
    #[inline(always)]
    pub fn with(self, more: u8) -> Head {
        Head { more: self.more | more, ..self }
    }
}
