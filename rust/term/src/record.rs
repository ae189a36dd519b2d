//! The head of a trace record, as it stands in a ring.

use bytemuck::{Pod, Zeroable};

/// 32 bytes before the payload.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Header {
    /// Bytes of the record with its payload, without padding.
    pub len: u32,
    /// A [`Kind`].
    pub kind: u8,
    /// Which time stamp the message gets.
    pub stamps: u8,
    /// The scheduler that wrote it.
    pub scheduler: u16,
    /// When, in ticks.
    pub ticks: u64,
    /// The process that it is about.
    pub tracee: u64,
    /// What the kind says: a name's number, another process.
    pub what: u64,
}

const _: () = assert!(size_of::<Header>() == 32);

impl Header {
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

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
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
}

impl Kind {
    /// The kind of a number.
    #[must_use]
    pub fn from_u8(n: u8) -> Option<Kind> {
        Some(match n {
            1 => Kind::Call,
            2 => Kind::CallArity,
            3 => Kind::ReturnTo,
            4 => Kind::Spawn,
            5 => Kind::Spawned,
            6 => Kind::Exit,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_four_words_and_back() {
        let header = Header {
            len: 40,
            kind: Kind::Exit as u8,
            stamps: 5,
            scheduler: 7,
            ticks: 1,
            tracee: 2,
            what: 3,
        };
        assert_eq!(Header::from_words(header.words()), header);
        assert_eq!(header.words()[0] as u32, 40);
        assert!((0..=255)
            .filter_map(Kind::from_u8)
            .all(|k| Kind::from_u8(k as u8) == Some(k)));
    }
}
