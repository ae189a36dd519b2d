//! The compact form of a log: blocks of whole records. Each block is compressed by itself (Deflate) and has a checksum.
//!
//! The file begins with [`MAGIC`], which no record of Erlang's form begins with. A block is [`MARK`], the compressed length and
//! the original length (4 bytes each, big-endian), a CRC-32 of both lengths and the data, and the data. Equal lengths mean that
//! the data is not compressed. One system call writes a block. So a killed process loses no block that was written, and damage
//! costs only its block. A file that was emptied while it was written has no [`MAGIC`] and begins with a block.
//!
//! [`Reader`](crate::reader::Reader) reads this form as it reads Erlang's. [`to_erlang`](crate::convert::to_erlang) converts it.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// The first bytes of the file. The last byte is the version of the form.
pub const MAGIC: [u8; 8] = *b"\xb1inviso\x01";

/// The first bytes of a block.
pub const MARK: [u8; 4] = *b"\xb1blk";

/// Bytes of a block before its data.
const HEADER: usize = 16;

/// The longest records of a block, in bytes. A longer record has a block of its own.
pub(crate) const ROOM: usize = 16 << 20;

/// The longest term of a block, in bytes.
pub(crate) const LONGEST: usize = 1 << 30;

/// The largest expansion of Deflate.
const RATIO: usize = 1032;

/// The beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextBlock {
    /// A whole block of this many bytes; its records were appended.
    Block(usize),
    /// The beginning of a block. It has this many bytes, as far as is known yet.
    Partial(usize),
    /// A block that is longer than allowed.
    Long(u64),
    /// No block.
    Damaged,
}

/// Compresses records into blocks.
///
/// ```
/// use inviso_log::{blocks::{self, Packer}, frame::Record, reader::{Event, Reader}};
/// let mut bytes = blocks::MAGIC.to_vec();
/// Packer::default().put(&mut bytes, &[1, 0, 0, 0, 9]);
/// let mut reader = Reader::new(&bytes[..]);
/// assert_eq!(reader.read().unwrap(), Some(Event::Record { at: 0, record: Record::Dropped(9) }));
/// ```
#[derive(Debug)]
pub struct Packer(Compress);

impl Default for Packer {
    fn default() -> Self {
        Packer(Compress::new(Compression::fast(), false))
    }
}

impl Packer {
    /// Appends a block of whole records, less than 4 GiB.
    pub fn put(&mut self, out: &mut Vec<u8>, records: &[u8]) {
        let begin = out.len();
        out.resize(begin + HEADER + records.len(), 0);
        self.0.reset();
        let place = out.get_mut(begin + HEADER..).unwrap_or_default();
        let ended = matches!(self.0.compress(records, place, FlushCompress::Finish), Ok(Status::StreamEnd));
        if ended && self.0.total_out() < records.len() as u64 {
            out.truncate(begin + HEADER + self.0.total_out() as usize);
        } else {
            place.copy_from_slice(records);
        }
        let (header, data) = out.split_at_mut(begin + HEADER);
        let lengths = [(data.len() as u32).to_be_bytes(), (records.len() as u32).to_be_bytes()].concat();
        let sum = checksum(&lengths, data).to_be_bytes();
        if let Some(header) = header.get_mut(begin..) {
            header.copy_from_slice(&[&MARK[..], &lengths, &sum].concat());
        }
    }
}

/// Appends the records of the first block of `bytes`.
pub(crate) fn next_block(bytes: &[u8], limit: usize, out: &mut Vec<u8>) -> NextBlock {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
        let known = bytes.len().min(MARK.len());
        return if bytes.get(..known) == MARK.get(..known) { NextBlock::Partial(HEADER) } else { NextBlock::Damaged };
    };
    let word = |at: usize| {
        let four = header.get(at..).and_then(|rest| rest.first_chunk());
        four.map_or(0, |four| u32::from_be_bytes(*four))
    };
    let (length, before) = (word(4) as usize, word(8) as usize);
    if word(0) != u32::from_be_bytes(MARK) || length > before || before > length.saturating_mul(RATIO) {
        return NextBlock::Damaged;
    }
    if before > limit {
        return NextBlock::Long(before as u64);
    }
    let Some(data) = rest.get(..length) else { return NextBlock::Partial(HEADER + length) };
    if checksum(header.get(4..12).unwrap_or_default(), data) != word(12) {
        return NextBlock::Damaged;
    }
    let begin = out.len();
    if length == before {
        out.extend_from_slice(data);
        return NextBlock::Block(HEADER + length);
    }
    out.resize(begin + before, 0);
    let mut inflate = Decompress::new(false);
    let place = out.get_mut(begin..).unwrap_or_default();
    match inflate.decompress(data, place, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) if inflate.total_out() == before as u64 => NextBlock::Block(HEADER + length),
        _ => {
            out.truncate(begin);
            NextBlock::Damaged
        }
    }
}

fn checksum(lengths: &[u8], data: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(lengths);
    sum.update(data);
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_back_also_incompressible_ones() {
        let noise: Vec<u8> = (0..1000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for records in [&b""[..], b"a", &[7; 10_000], &noise] {
            let mut bytes = Vec::new();
            Packer::default().put(&mut bytes, records);
            bytes.extend(b"more");
            let mut out = b"before".to_vec();
            assert_eq!(next_block(&bytes, 10_000, &mut out), NextBlock::Block(bytes.len() - 4));
            assert_eq!(out, [b"before", records].concat());
            for length in 0..bytes.len() - 4 {
                assert!(
                    matches!(next_block(&bytes[..length], 10_000, &mut out), NextBlock::Partial(most) if most > length)
                );
            }
        }
    }

    #[test]
    fn a_change_of_any_byte_is_noticed() {
        let mut bytes = Vec::new();
        Packer::default().put(&mut bytes, &b"a record, and another record, ".repeat(20));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let mut out = Vec::new();
                let found = next_block(&damaged, 1 << 20, &mut out);
                assert!(!matches!(found, NextBlock::Block(_)), "{at}: {found:?}");
                assert!(out.is_empty());
            }
        }
    }

    #[test]
    fn an_impossible_length_is_refused() {
        let header =
            |length: u32, before: u32| [&MARK[..], &length.to_be_bytes(), &before.to_be_bytes(), &[0; 4]].concat();
        let mut out = Vec::new();
        assert_eq!(next_block(&header(10, 1 << 24), 1 << 30, &mut out), NextBlock::Damaged);
        assert_eq!(next_block(&header(1 << 19, 1 << 30), 1 << 29, &mut out), NextBlock::Damaged);
        assert_eq!(next_block(&header(1 << 24, 1 << 30), 1 << 29, &mut out), NextBlock::Long(1 << 30));
        assert_eq!(next_block(&header(2, 1), 1 << 29, &mut out), NextBlock::Damaged);
        assert_eq!(out.capacity(), 0);
    }
}
