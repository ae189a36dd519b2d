//! The head of a trace record, as it stands in a ring.
//!
//! ```
//! use inviso_term::record::{Header, Kind};
//! let header = Header { len: 32, kind: Kind::CallArity as u8, tracee: 4, what: 7, ..Header::default() };
//! let words: [u64; 4] = header.into();
//! assert_eq!(Header::from(words).kind(), Some(Kind::CallArity));
//! ```

use bytemuck::{Pod, Zeroable};

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

/// What happened.
///
/// Events have numbers from 1 up, records about the log itself from 240 up. A number is never used for anything else
/// later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// A call; the payload is the list of its arguments.
    Call = 1,
    /// A call, without its arguments.
    CallArity = 2,
    /// Execution goes on in the function that the payload names.
    ReturnTo = 3,
    /// The process started another; the payload says with what.
    Spawn = 4,
    /// The process was started by another.
    Spawned = 5,
    /// The process ended; the payload is the reason.
    Exit = 6,
    /// A call has returned; the payload is its value.
    ReturnFrom = 7,
    /// An exception has left a call; the payload is its class and value.
    ExceptionFrom = 8,
    /// The process sent a message: the payload is the message; its receiver is the process `what`, or, where that is 0, a
    /// second term.
    Send = 9,
    /// As [`Kind::Send`], to a process that does not exist.
    SendToNonExisting = 10,
    /// A message has arrived; the payload is the message.
    Receive = 11,
    /// The process got the name that is the payload.
    Register = 12,
    /// The process lost the name that is the payload.
    Unregister = 13,
    /// The process linked itself to the process `what`.
    Link = 14,
    /// The process removed its link to the process `what`.
    Unlink = 15,
    /// The process was linked to by the process `what`.
    GettingLinked = 16,
    /// The process `what` is linked to it no longer.
    GettingUnlinked = 17,
    /// It begins to run; the payload is where.
    In = 18,
    /// It stops running; the payload is where.
    Out = 19,
    /// It begins to run while it ends.
    InExiting = 20,
    /// It stops running while it ends.
    OutExiting = 21,
    /// It has stopped running for ever.
    OutExited = 22,
    /// A collection of the young generation begins; the payload is a list of pairs.
    GcMinorStart = 23,
    /// It ends.
    GcMinorEnd = 24,
    /// A full collection begins.
    GcMajorStart = 25,
    /// It ends.
    GcMajorEnd = 26,
    /// The limit of memory was passed in a collection.
    GcMaxHeapSize = 27,
    /// A port was opened by the process `what`; the payload is its driver.
    Open = 28,
    /// A port was closed; the payload is the reason.
    Closed = 29,
    /// A system event that `system/3` watches for; the payload is a pair of its name and what is said about it.
    Monitor = 30,
    /// An event of sequential tracing; the core's `seq_event` says what it holds.
    Seq = 31,
    /// Here `what` records were lost; no payload.
    Drop = 240,
    /// All that was traced before is delivered; `what` is the number of the reference that was asked with.
    Delivered = 241,
}

impl Kind {
    /// Every kind, by number.
    pub const ALL: [Kind; 33] = [
        Kind::Call,
        Kind::CallArity,
        Kind::ReturnTo,
        Kind::Spawn,
        Kind::Spawned,
        Kind::Exit,
        Kind::ReturnFrom,
        Kind::ExceptionFrom,
        Kind::Send,
        Kind::SendToNonExisting,
        Kind::Receive,
        Kind::Register,
        Kind::Unregister,
        Kind::Link,
        Kind::Unlink,
        Kind::GettingLinked,
        Kind::GettingUnlinked,
        Kind::In,
        Kind::Out,
        Kind::InExiting,
        Kind::OutExiting,
        Kind::OutExited,
        Kind::GcMinorStart,
        Kind::GcMinorEnd,
        Kind::GcMajorStart,
        Kind::GcMajorEnd,
        Kind::GcMaxHeapSize,
        Kind::Open,
        Kind::Closed,
        Kind::Monitor,
        Kind::Seq,
        Kind::Drop,
        Kind::Delivered,
    ];

    /// The kind of a number.
    #[inline]
    #[must_use]
    pub fn from_u8(n: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_four_words_and_back() {
        let header = Header { len: 40, kind: Kind::Exit as u8, flags: 5, extra: 7, stamp: 1, tracee: 2, what: 3 };
        assert_eq!(Header::from_words(header.words()), header);
        #[cfg(target_endian = "little")]
        assert_eq!(header.words(), [40 | 6 << 32 | 5 << 40 | 7 << 48, 1, 2, 3]);
    }

    #[test]
    fn a_kind_is_known_by_its_number_alone() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_u8(kind as u8), Some(kind));
        }
        assert_eq!((0..=255).filter_map(Kind::from_u8).count(), Kind::ALL.len());
        assert_eq!(Header::default().kind(), None);
    }
}
