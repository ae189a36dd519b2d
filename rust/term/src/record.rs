//! The head of a trace record in a ring, and the table of messages' shapes ([`Shape`]).
//!
//! ```
//! use inviso_term::record::{Header, Kind};
//! let header = Header { len: 32, kind: Kind::CallArity as u8, tracee: 4, what: 7, ..Header::default() };
//! let words: [u64; 4] = header.into();
//! assert_eq!(Header::from(words).kind(), Some(Kind::CallArity));
//! ```

pub mod numbered;
mod shapes;

use bytemuck::{Pod, Zeroable};
pub use shapes::{Element, Kind, Shape, TRACE, TRACE_TS};

/// The 32 bytes before the payload. They stay in memory, in the machine's byte order.
///
/// As words of a little-endian machine: `len | kind << 32 | flags << 40 | extra << 48`, then stamp, tracee, what.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Header {
    /// The length of header and payload in bytes, without the padding after them.
    pub len: u32,
    /// A [`Kind`].
    pub kind: u8,
    /// The kind of the message's timestamp.
    pub flags: u8,
    /// The number of the scheduler that wrote the record.
    pub extra: u16,
    /// The time, in ticks of the session's clock.
    pub stamp: u64,
    /// The process of the event.
    pub tracee: u64,
    /// Depends on the kind: a name's number, another process, a count.
    pub what: u64,
}

const _: () = assert!(size_of::<Header>() == Header::SIZE && align_of::<Header>() == 8);

impl Header {
    /// The length of a header in bytes.
    pub const SIZE: usize = 32;

    /// The kind, if this version knows it.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_u8(self.kind)
    }

    /// The header as the ring's words.
    #[inline(always)]
    #[must_use]
    pub fn words(self) -> [u64; 4] {
        bytemuck::cast(self)
    }

    /// The header of the ring's words.
    #[inline(always)]
    #[must_use]
    pub fn from_words(words: [u64; 4]) -> Header {
        bytemuck::cast(words)
    }
}

impl From<Header> for [u64; 4] {
    #[inline(always)]
    fn from(header: Header) -> Self {
        header.words()
    }
}

impl From<[u64; 4]> for Header {
    #[inline(always)]
    fn from(words: [u64; 4]) -> Self {
        Header::from_words(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_four_words_and_back() {
        let header = Header { len: 40, kind: Kind::Exit as u8, flags: 5, extra: 7, stamp: 1, tracee: 2, what: 3 };
        assert_eq!(Header::from_words(header.words()), header);
        assert_eq!(Header::from(<[u64; 4]>::from(header)), header);
        assert_eq!((header.kind(), Header { kind: 0, ..header }.kind()), (Some(Kind::Exit), None));
        #[cfg(target_endian = "little")]
        assert_eq!(header.words(), [40 | 6 << 32 | 5 << 40 | 7 << 48, 1, 2, 3]);
    }
}
