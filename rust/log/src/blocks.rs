//! The compact form of a log: blocks of whole records. Each block is compressed by itself (Deflate) and has a checksum.
//!
//! The file begins with [`MAGIC`], which no record of Erlang's form begins with. A block is [`MARK`], the compressed length and
//! the original length (4 bytes each, big-endian), a CRC-32 of both lengths and the data, and the data. Equal lengths mean that
//! the data is not compressed. One system call writes a block. So a killed process loses no block that was written, and damage
//! costs only its block. A file that was emptied while it was written has no [`MAGIC`] and begins with a block.
//!
//! [`Reader`] reads this form as it reads Erlang's. [`to_erlang`] converts it to Erlang's.

use crate::{
    damage::{Damage, What},
    frame,
    reader::{Event, Reader},
};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::io::{self, Read, Write};

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
pub(crate) enum Next {
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
pub(crate) fn next(bytes: &[u8], limit: usize, out: &mut Vec<u8>) -> Next {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
        let known = bytes.len().min(MARK.len());
        return if bytes.get(..known) == MARK.get(..known) { Next::Partial(HEADER) } else { Next::Damaged };
    };
    let word = |at: usize| {
        let four = header.get(at..).and_then(|rest| rest.first_chunk());
        four.map_or(0, |four| u32::from_be_bytes(*four))
    };
    let (length, before) = (word(4) as usize, word(8) as usize);
    if word(0) != u32::from_be_bytes(MARK) || length > before || before > length.saturating_mul(RATIO) {
        return Next::Damaged;
    }
    if before > limit {
        return Next::Long(before as u64);
    }
    let Some(data) = rest.get(..length) else { return Next::Partial(HEADER + length) };
    if checksum(header.get(4..12).unwrap_or_default(), data) != word(12) {
        return Next::Damaged;
    }
    let begin = out.len();
    if length == before {
        out.extend_from_slice(data);
        return Next::Block(HEADER + length);
    }
    out.resize(begin + before, 0);
    let mut inflate = Decompress::new(false);
    let place = out.get_mut(begin..).unwrap_or_default();
    match inflate.decompress(data, place, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) if inflate.total_out() == before as u64 => Next::Block(HEADER + length),
        _ => {
            out.truncate(begin);
            Next::Damaged
        }
    }
}

fn checksum(lengths: &[u8], data: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(lengths);
    sum.update(data);
    sum.finalize()
}

/// The result of [`to_erlang`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// The number of written records.
    pub records: u64,
    /// The damage of the input.
    pub damage: Vec<Damage>,
}

/// Writes a log of either form in Erlang's form.
///
/// ```
/// use inviso_log::{blocks, file::{FileLog, Form, Options}, sink::Sink};
/// # fn main() -> std::io::Result<()> {
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("trace");
/// let mut log = FileLog::create(&path, Options { form: Form::Blocks, ..Options::default() })?;
/// for _ in 0..1000 {
///     log.term(&[131, 104, 2, 97, 1, 97, 2])?;
/// }
/// log.close()?;
/// assert!(path.metadata()?.len() < 200);
///
/// let mut plain = Vec::new();
/// let done = blocks::to_erlang(std::fs::File::open(&path)?, &mut plain)?;
/// assert_eq!((done.records, done.damage), (1000, vec![]));
/// assert_eq!(plain, [0, 0, 0, 0, 7, 131, 104, 2, 97, 1, 97, 2].repeat(1000));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The error of the reader or the writer.
pub fn to_erlang(from: impl Read, to: &mut impl Write) -> io::Result<Converted> {
    let mut reader = Reader::new(from);
    let mut done = Converted::default();
    let mut waiting = Vec::new();
    while let Some(event) = reader.read()? {
        match event {
            Event::Record { at, record } => match record.check() {
                Ok(()) => {
                    done.records += 1;
                    frame::put(&mut waiting, record);
                }
                Err(e) => done.damage.push(Damage { at, what: What::Term(e) }),
            },
            Event::Damage(damage) => done.damage.push(damage),
        }
        if waiting.len() >= 64 << 10 {
            to.write_all(&waiting)?;
            waiting.clear();
        }
    }
    to.write_all(&waiting)?;
    to.flush()?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use inviso_term::etf::DecodeError;

    #[test]
    fn blocks_are_read_back_also_incompressible_ones() {
        let noise: Vec<u8> = (0..1000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for records in [&b""[..], b"a", &[7; 10_000], &noise] {
            let mut bytes = Vec::new();
            Packer::default().put(&mut bytes, records);
            bytes.extend(b"more");
            let mut out = b"before".to_vec();
            assert_eq!(next(&bytes, 10_000, &mut out), Next::Block(bytes.len() - 4));
            assert_eq!(out, [b"before", records].concat());
            for length in 0..bytes.len() - 4 {
                assert!(matches!(next(&bytes[..length], 10_000, &mut out), Next::Partial(most) if most > length));
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
                let found = next(&damaged, 1 << 20, &mut out);
                assert!(!matches!(found, Next::Block(_)), "{at}: {found:?}");
                assert!(out.is_empty());
            }
        }
    }

    #[test]
    fn an_impossible_length_is_refused() {
        let header =
            |length: u32, before: u32| [&MARK[..], &length.to_be_bytes(), &before.to_be_bytes(), &[0; 4]].concat();
        let mut out = Vec::new();
        assert_eq!(next(&header(10, 1 << 24), 1 << 30, &mut out), Next::Damaged);
        assert_eq!(next(&header(1 << 19, 1 << 30), 1 << 29, &mut out), Next::Damaged);
        assert_eq!(next(&header(1 << 24, 1 << 30), 1 << 29, &mut out), Next::Long(1 << 30));
        assert_eq!(next(&header(2, 1), 1 << 29, &mut out), Next::Damaged);
        assert_eq!(out.capacity(), 0);
    }

    #[test]
    fn a_conversion_has_all_records_and_all_damage() {
        let (nil, none) = ([0, 0, 0, 0, 2, 131, 106], [0, 0, 0, 0, 2, 131, 255]);
        // more than one write
        let many = nil.repeat(30_000);
        let mut log = MAGIC.to_vec();
        for records in [&many[..], &none, &nil] {
            Packer::default().put(&mut log, records);
        }
        for (from, cut) in [(log, None), ([&many[..], &none, &nil, &[0]].concat(), Some(1))] {
            let mut out = Vec::new();
            let done = to_erlang(&from[..], &mut out).unwrap();
            assert_eq!((done.records, &out), (30_001, &[&many[..], &nil].concat()));
            let at = many.len() as u64;
            let mut damage = vec![Damage { at, what: What::Term(DecodeError::Tag(255)) }];
            damage.extend(cut.map(|n| Damage { at: at + 14, what: What::Cut(n) }));
            assert_eq!(done.damage, damage);
        }
    }
}
