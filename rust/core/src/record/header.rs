//! The header of a record, and the numbers and terms that its payload has besides those of the message.
#![forbid(unsafe_code)]

use inviso_term::record::Kind;

/// The timestamp of a record's message, and marks for additional parts of its payload.
pub mod stamp {
    /// No timestamp: the message begins with `trace`.
    pub const NONE: u8 = 0;
    /// `(megasecs, secs, microsecs)`.
    pub const TIMESTAMP: u8 = 1;
    /// `(nanoseconds, unique)`. The unique number is the first 8 bytes of the payload, after those of [`CARRIED`].
    pub const STRICT: u8 = 2;
    /// Nanoseconds.
    pub const MONOTONIC: u8 = 3;
    /// The bits of the timestamp.
    pub const MASK: u8 = 3;
    /// The scheduler's number comes before the timestamp.
    pub const SCHEDULER: u8 = 4;
    /// The timestamp's nanoseconds are the first 8 bytes of the payload.
    pub const CARRIED: u8 = 8;
    /// The payload ends with the term that a match spec adds to the message, and the term's length (a u32).
    pub const EXTRA: u8 = 16;
    /// The payload's first 8 bytes, after those of [`CARRIED`] and [`STRICT`], are a part of the message's number. In a sending it is the
    /// number. In a receipt it is the creation of the other operating system process that sent the message.
    pub const NUMBERED: u8 = 32;
    /// The bits of the message's [`MessageKind`](inviso_term::record::numbered::MessageKind), in a sending.
    pub const KIND: u8 = 0xc0;
    /// The lowest of those bits.
    pub const KIND_SHIFT: u32 = 6;

    /// Appends the term of a match spec, if there is one. Answers its mark.
    pub(crate) fn with_extra(payload: &mut Vec<u8>, extra: &[u8]) -> u8 {
        if extra.is_empty() {
            return 0;
        }
        payload.extend_from_slice(extra);
        payload.extend_from_slice(&(extra.len() as u32).to_ne_bytes());
        EXTRA
    }
}

/// The fields of a record's header that the event decides.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    /// The process or port of the event.
    pub tracee: u64,
    pub kind: Kind,
    /// The kind decides the meaning.
    pub what: u64,
    /// Any of [`stamp::EXTRA`], [`stamp::NUMBERED`], [`stamp::KIND`].
    pub more: u8,
}

impl Head {
    /// The same header with more marks.
    #[inline(always)]
    pub fn with(self, more: u8) -> Head {
        Head { more: self.more | more, ..self }
    }
}
