//! The head of a trace record, as it stands in a ring, and the table of what a record's message looks like ([`Shape`]).
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

/// 32 bytes before the payload. In memory only: the byte order is the machine's.
///
/// As words, on a little-endian machine: `len | kind << 32 | flags << 40 | extra << 48`, then stamp, tracee, what.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Header {
    /// Bytes of the record: this header and the payload, without the padding after it.
    pub len: u32,
    /// A [`Kind`].
    pub kind: u8,
    /// Which time stamp the message gets.
    pub flags: u8,
    /// The number of the scheduler that wrote it.
    pub extra: u16,
    /// When, in ticks of the session's clock.
    pub stamp: u64,
    /// The process that it is about.
    pub tracee: u64,
    /// What the kind says: a name's number, another process, a count.
    pub what: u64,
}

const _: () = assert!(size_of::<Header>() == Header::SIZE && align_of::<Header>() == 8);

impl Header {
    /// Bytes of a header.
    pub const SIZE: usize = 32;

    /// The kind, if it is one that this version knows.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_u8(self.kind)
    }

    /// The header as the ring takes it.
    #[inline(always)]
    #[must_use]
    pub fn words(self) -> [u64; 4] {
        bytemuck::cast(self)
    }

    /// The header of a record that the ring gives.
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
