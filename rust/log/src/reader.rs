//! The records of a file or a stream.

use crate::{
    blocks,
    damage::{Damage, What},
    frame::{self, Next, Record},
    hole,
    records::{begins_as_term, no_term},
};
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Bytes in one read.
const STEP: usize = 64 << 10;

/// A record, or the damage in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A record.
    Record {
        /// The offset of its header, in bytes of Erlang's form.
        at: u64,
        /// The record.
        record: Record<'a>,
    },
    /// Damage.
    Damage(Damage),
}

/// Reads a log of either form, record by record, from any stream of bytes.
///
/// It holds the present record and the rest of its read, at most [`Reader::limit`] bytes. At the end of the bytes it ends, and
/// reports a record that is cut off. With [`Reader::follow`] it never ends: it returns None while there is no whole record, and
/// continues when there is one.
///
/// ```
/// use inviso_log::{damage::{Damage, What}, frame::Record, reader::{Event, Reader}};
/// # fn main() -> std::io::Result<()> {
/// let mut reader = Reader::new(&[0, 0, 0, 0, 2, 131, 106, 7][..]);
/// assert_eq!(reader.read()?, Some(Event::Record { at: 0, record: Record::Term(&[131, 106]) }));
/// assert_eq!(reader.read()?, Some(Event::Damage(Damage { at: 7, what: What::Op(7) })));
/// assert_eq!(reader.read()?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    form: InputForm,
    limit: usize,
    follow: bool,
    ended: bool,
    /// The offset of the hole that is being read. Meanwhile the hole's last zeros stay in the window.
    hole: Option<u64>,
    records: Window,
    blocks: Window,
}

/// The form of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputForm {
    /// Nothing was read yet.
    Unknown,
    Erlang,
    /// Compressed. While `lost`, the next block after reported damage is searched.
    Blocks {
        lost: bool,
    },
}

/// A buffer of read bytes. The first of them were taken.
#[derive(Debug, Default)]
struct Window {
    /// The bytes after `filled` are free space.
    bytes: Vec<u8>,
    taken: usize,
    filled: usize,
    /// How many bytes were taken before the first of `bytes`.
    before: u64,
}

impl Reader<File> {
    /// Opens a file.
    ///
    /// # Errors
    /// The error of the system.
    pub fn open(path: &Path) -> io::Result<Reader<File>> {
        File::open(path).map(Reader::new)
    }
}

impl<R: Read> Reader<R> {
    /// Creates a reader with a limit of 256 MiB.
    pub fn new(from: R) -> Reader<R> {
        let (records, blocks) = (Window::default(), Window::default());
        Reader {
            from,
            form: InputForm::Unknown,
            limit: 256 << 20,
            follow: false,
            ended: false,
            hole: None,
            records,
            blocks,
        }
    }

    /// Sets the longest record or block, in bytes.
    #[must_use]
    pub fn limit(self, limit: usize) -> Reader<R> {
        Reader { limit, ..self }
    }

    /// Whether more bytes may come after the end, as in a growing file.
    #[must_use]
    pub fn follow(mut self, follow: bool) -> Reader<R> {
        self.set_follow(follow);
        self
    }

    /// As [`Reader::follow`]. After false, a cut record is reported at the end.
    pub fn set_follow(&mut self, follow: bool) {
        self.follow = follow;
    }

    /// Whether a whole record is in memory, so that [`Reader::read`] returns it without a read.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(frame::next(self.records.left()), Next::Record(..))
    }

    /// The end of the last record, in bytes of Erlang's form.
    pub(crate) fn at(&self) -> u64 {
        self.records.at()
    }

    /// The stream that it reads.
    pub fn get_ref(&self) -> &R {
        &self.from
    }

    /// The next record or damage; None at the end. When following, None means that there is none for now.
    ///
    /// # Errors
    /// The error of the stream. The call can be repeated, and no record is lost.
    #[inline]
    pub fn read(&mut self) -> io::Result<Option<Event<'_>>> {
        let found = self.find()?;
        Ok(found.map(|found| self.event(found)))
    }

    /// As [`Reader::read`]. [`Reader::event`] has the result until the next call.
    #[inline]
    pub(crate) fn find(&mut self) -> io::Result<Option<Found>> {
        loop {
            if let Next::Record(record, length) = frame::next(self.records.left()) {
                if !begins_as_term(record) {
                    return self.no_term(length);
                }
                let at = self.records.at();
                self.records.take(length);
                return Ok(Some(Found::Record { at, length }));
            }
            match self.more()? {
                More::Bytes => {}
                More::Damage(damage) => return Ok(Some(Found::Damage(damage))),
                More::None => return Ok(None),
            }
        }
    }

    /// Skips a record of this length without a term, or a whole hole.
    #[cold]
    fn no_term(&mut self, length: usize) -> io::Result<Option<Found>> {
        let at = self.records.at();
        if length > frame::HEADER {
            self.records.take(length);
            return Ok(Some(Found::Damage(Damage { at, what: What::NoTerm })));
        }
        let at = *self.hole.get_or_insert(at);
        // a block has whole records
        let mut last = self.form != InputForm::Erlang;
        loop {
            let zeros = hole::zeros(self.records.left());
            self.records.take(zeros.saturating_sub(frame::HEADER));
            let left = self.records.left();
            let all = self.records.at() - at + hole::zeros(left) as u64;
            if let Some(taken) = hole::end(left, all, self.limit, last) {
                self.records.take(taken);
                self.hole = None;
                return Ok(Some(Found::Damage(Damage { at, what: no_term(self.records.at() - at) })));
            }
            if self.records.fill(&mut self.from)? == 0 {
                if self.follow {
                    return Ok(None);
                }
                last = true;
            }
        }
    }

    #[inline]
    pub(crate) fn event(&self, found: Found) -> Event<'_> {
        match found {
            Found::Damage(damage) => Event::Damage(damage),
            Found::Record { at, length } => match frame::next(self.records.last(length)) {
                Next::Record(record, _) => Event::Record { at, record },
                _ => Event::Damage(Damage { at, what: What::NoTerm }),
            },
        }
    }

    /// Reads more bytes: those in memory begin with no whole record.
    #[cold]
    fn more(&mut self) -> io::Result<More> {
        if self.ended {
            return Ok(More::None);
        }
        match (frame::next(self.records.left()), self.form) {
            (Next::Op(op), InputForm::Erlang) => return Ok(self.end(self.records.at(), What::Op(op))),
            // the decompressed bytes were not a log
            (Next::Op(op), InputForm::Blocks { .. }) => {
                let damage = Damage { at: self.records.at(), what: What::Op(op) };
                self.records.take(self.records.left().len());
                return Ok(More::Damage(damage));
            }
            (Next::Partial(length), _) if length > self.limit.saturating_add(frame::HEADER) as u64 => {
                return Ok(self.end(self.records.at(), What::Long(length - frame::HEADER as u64)));
            }
            _ => {}
        }
        if let InputForm::Blocks { lost } = self.form {
            return self.block(lost);
        }
        let read = self.records.fill(&mut self.from)?;
        if self.form == InputForm::Unknown {
            let bytes = self.records.left();
            let same = |with: &[u8]| bytes.iter().zip(with).take_while(|(a, b)| a == b).count();
            let (magic, mark) = (same(&blocks::MAGIC), same(&blocks::MARK));
            if magic == blocks::MAGIC.len() || mark == blocks::MARK.len() {
                std::mem::swap(&mut self.blocks, &mut self.records);
                self.blocks.take(if magic > mark { magic } else { 0 });
                self.form = InputForm::Blocks { lost: false };
            } else if magic.max(mark) < bytes.len() {
                self.form = InputForm::Erlang;
            }
        }
        Ok(if read > 0 { More::Bytes } else { self.no_more() })
    }

    /// There are no more bytes, for now or at all.
    fn no_more(&mut self) -> More {
        if self.follow {
            return More::None;
        }
        // the last bytes of a damaged block can look like the first of another
        if self.form == (InputForm::Blocks { lost: true }) && self.blocks.left().len() < blocks::MARK.len() {
            return More::None;
        }
        let from = if self.blocks.left().is_empty() { &self.records } else { &self.blocks };
        match (from.left().len() as u64, from.at()) {
            (0, _) => More::None,
            (left, at) => self.end(at, What::Cut(left)),
        }
    }

    /// Ends the reading.
    fn end(&mut self, at: u64, what: What) -> More {
        self.ended = true;
        More::Damage(Damage { at, what })
    }

    /// Reads the next block and appends its records to the window.
    fn block(&mut self, lost: bool) -> io::Result<More> {
        loop {
            let at = self.blocks.at();
            let (limit, left) = (self.limit, self.blocks.left());
            let what = match self.records.extend(|records| blocks::next_block(left, limit, records)) {
                blocks::NextBlock::Block(length) => {
                    self.blocks.take(length);
                    self.form = InputForm::Blocks { lost: false };
                    return Ok(More::Bytes);
                }
                blocks::NextBlock::Partial(_) => match self.blocks.fill(&mut self.from)? {
                    // a damaged length may hide whole blocks
                    0 if !self.follow && self.next_mark().is_some() => What::Block,
                    0 => return Ok(self.no_more()),
                    _ => continue,
                },
                blocks::NextBlock::Long(length) => What::Long(length),
                blocks::NextBlock::Damaged => What::Block,
            };
            self.seek();
            if !lost {
                self.form = InputForm::Blocks { lost: true };
                return Ok(More::Damage(Damage { at, what }));
            }
        }
    }

    /// The distance of the next block's mark.
    fn next_mark(&self) -> Option<usize> {
        let rest = self.blocks.left().get(1..)?;
        rest.windows(blocks::MARK.len()).position(|four| four == blocks::MARK).map(|at| at + 1)
    }

    /// Skips to the next possible block.
    fn seek(&mut self) {
        // the end of the window may be the beginning of a mark
        let all = self.blocks.left().len().saturating_sub(blocks::MARK.len() - 1).max(1);
        let skip = self.next_mark().unwrap_or(all);
        self.blocks.take(skip);
    }
}

/// The result of [`Reader::more`].
enum More {
    Bytes,
    Damage(Damage),
    None,
}

/// The result of [`Reader::find`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// The record that was taken last, of this length.
    Record {
        at: u64,
        length: usize,
    },
    Damage(Damage),
}

impl Window {
    #[inline]
    fn left(&self) -> &[u8] {
        self.bytes.get(self.taken..self.filled).unwrap_or_default()
    }

    /// The offset of [`Window::left`].
    #[inline]
    fn at(&self) -> u64 {
        self.before + self.taken as u64
    }

    #[inline]
    fn take(&mut self, n: usize) {
        self.taken = (self.taken + n).min(self.filled);
    }

    /// The last `n` taken bytes.
    #[inline]
    fn last(&self, n: usize) -> &[u8] {
        self.bytes.get(self.taken.saturating_sub(n)..self.taken).unwrap_or_default()
    }

    /// Removes the taken bytes if they are most of the buffer.
    fn forget(&mut self) {
        if self.taken > 0 && self.taken >= self.left().len() {
            self.bytes.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.before += self.taken as u64;
            self.taken = 0;
        }
    }

    /// Reads as many bytes as there is space for. Answers how many. The space is at least the length of the bytes that are left,
    /// so the buffer doubles.
    fn fill(&mut self, from: &mut impl Read) -> io::Result<usize> {
        self.forget();
        let most = self.filled + STEP.max(self.left().len());
        if self.bytes.len() < most {
            self.bytes.resize(most, 0);
        }
        loop {
            match from.read(self.bytes.get_mut(self.filled..).unwrap_or_default()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
                Ok(read) => {
                    self.filled = (self.filled + read).min(self.bytes.len());
                    return Ok(read);
                }
            }
        }
    }

    /// Appends to the buffer.
    fn extend<T>(&mut self, add: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.forget();
        self.bytes.truncate(self.filled);
        let added = add(&mut self.bytes);
        self.filled = self.bytes.len();
        added
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocks::Packer;

    /// Seven bytes as a record.
    const NIL: [u8; 7] = [0, 0, 0, 0, 2, 131, 106];

    #[test]
    fn a_block_of_other_bytes_costs_only_itself() {
        let mut bytes = blocks::MAGIC.to_vec();
        for records in [&NIL[..], &[9, 1, 2], &NIL] {
            Packer::default().put(&mut bytes, records);
        }
        let mut reader = Reader::new(&bytes[..]);
        let record = |at| Some(Event::Record { at, record: Record::Term(&NIL[5..]) });
        assert_eq!(reader.read().unwrap(), record(0));
        assert_eq!(reader.read().unwrap(), Some(Event::Damage(Damage { at: 7, what: What::Op(9) })));
        assert_eq!(reader.read().unwrap(), record(10));
        assert_eq!(reader.read().unwrap(), None);
    }

    #[test]
    fn a_long_log_takes_the_memory_of_a_few_steps() {
        let erlang = NIL.repeat(200_000);
        let mut blocks = blocks::MAGIC.to_vec();
        erlang.chunks(7 * 1000).for_each(|records| Packer::default().put(&mut blocks, records));
        for log in [erlang, blocks] {
            let mut reader = Reader::new(&log[..]);
            let mut count = 0;
            while let Some(event) = reader.read().unwrap() {
                assert_eq!(event, Event::Record { at: 7 * count, record: Record::Term(&NIL[5..]) });
                count += 1;
            }
            assert_eq!(count, 200_000);
            assert!(reader.records.bytes.len() + reader.blocks.bytes.len() <= 4 * STEP);
        }
    }
}
