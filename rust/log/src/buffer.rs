//! A file that is written in whole records.

use crate::{
    about::{Heads, Item},
    blocks::{self, Packer},
    frame::{self, Next},
    options::{Form, Options},
    own::Own,
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::Path,
};

/// Pending records and their file.
#[derive(Debug)]
pub(crate) struct Buffer {
    file: Own<File>,
    waiting: Vec<u8>,
    /// Messages in `waiting`: its terms and those that its drop records count.
    messages: u64,
    /// Terms in `waiting`.
    terms: u64,
    room: usize,
    /// Bytes written to the file. The file has other bytes if another program empties or writes it.
    written: u64,
    /// Messages that could not be written and are not in a drop record yet.
    lost: u64,
    /// Messages that could not be written, ever.
    lost_ever: u64,
    /// Bytes of whole records in all files.
    written_ever: u64,
    packer: Option<Packer>,
    block: Vec<u8>,
    about: Heads,
}

impl Buffer {
    /// Creates or empties the file; with `new` only creates it. Only its owner may read it.
    pub(crate) fn create(path: &Path, options: Options) -> io::Result<Buffer> {
        let Options { form, room, new } = options;
        let file = Own::new(private(path, new)?)?;
        let waiting = Vec::new();
        let room = if form == Form::Blocks { room.min(blocks::ROOM) } else { room };
        let packer = (form == Form::Blocks).then(Packer::default);
        let block = Vec::new();
        let mut buffer = Buffer {
            file,
            waiting,
            messages: 0,
            terms: 0,
            room,
            written: 0,
            lost: 0,
            lost_ever: 0,
            written_ever: 0,
            packer,
            block,
            about: Heads::default(),
        };
        if form == Form::Blocks {
            buffer.file.write_all(&blocks::MAGIC)?;
            buffer.written = blocks::MAGIC.len() as u64;
            buffer.written_ever = buffer.written;
        }
        Ok(buffer)
    }

    /// Bytes of the file and the pending records.
    pub(crate) fn length(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    /// Bytes that the system accepted, and messages that it did not.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.written_ever, self.lost_ever)
    }

    /// Messages that were lost, here or before, and are not in a drop record.
    pub(crate) fn unreported(&self) -> u64 {
        self.lost
    }

    pub(crate) fn term(&mut self, term: &[u8]) -> io::Result<()> {
        if self.packer.is_some() && term.len() > blocks::LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a term of more than 1 GiB in a block"));
        }
        let flushed = self.flush_unless_fits(frame::HEADER + 1 + term.len());
        let begin = self.waiting.len();
        frame::put_term(&mut self.waiting, term)?;
        if self.about.are_any() {
            self.about.put(&mut self.waiting, begin);
        }
        self.messages += 1;
        self.terms += 1;
        flushed
    }

    /// Adds an item to the next term.
    pub(crate) fn about(&mut self, item: &Item) {
        self.about.add(item);
    }

    pub(crate) fn dropped(&mut self, n: u64) -> io::Result<()> {
        let flushed = self.flush_unless_fits(frame::HEADER);
        frame::put_dropped(&mut self.waiting, n);
        self.messages = self.messages.saturating_add(n);
        flushed
    }

    /// Adds a record of another log unchanged.
    #[inline]
    pub(crate) fn copy(&mut self, record: frame::Record<'_>) -> io::Result<()> {
        let term = match record {
            frame::Record::Term(term) => term,
            frame::Record::Dropped(n) => return self.drop_record(n),
        };
        let full = self.waiting.len() + frame::HEADER + term.len() > self.room;
        let flushed = if full || self.lost > 0 { self.flush_unless_fits(frame::HEADER + term.len()) } else { Ok(()) };
        frame::put(&mut self.waiting, record);
        self.messages += 1;
        self.terms += 1;
        flushed
    }

    /// Adds a drop record of any count.
    pub(crate) fn drop_record(&mut self, n: u32) -> io::Result<()> {
        let flushed = self.flush_unless_fits(frame::HEADER);
        frame::put(&mut self.waiting, frame::Record::Dropped(n));
        self.messages = self.messages.saturating_add(n.into());
        flushed
    }

    /// Continues in a new file. Pending records go there, too.
    pub(crate) fn next_file(&mut self, path: &Path) -> io::Result<()> {
        self.file = Own::new(private(path, false)?)?;
        self.written = 0;
        Ok(())
    }

    /// Writes all pending records, in one system call if the system takes them all.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.add_drop_record();
        if self.waiting.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.file.check() {
            self.count_lost();
            return Err(error);
        }
        let bytes = match &mut self.packer {
            None => &self.waiting,
            Some(packer) => {
                self.block.clear();
                packer.put(&mut self.block, &self.waiting);
                &self.block
            }
        };
        if let Err(Cut { written, last, error }) = write(&mut self.file, bytes) {
            let whole = if written == last { self.keep_whole(written) } else { 0 };
            self.truncate_tail(last - whole);
            self.count_lost();
            return Err(error);
        }
        self.written += bytes.len() as u64;
        self.written_ever += bytes.len() as u64;
        self.clear();
        Ok(())
    }

    /// Returns how many of the written bytes are whole records. These records stay in the file and are not counted as lost. Part of
    /// a block can't be read, so nothing of it stays.
    #[cold]
    fn keep_whole(&mut self, written: u64) -> u64 {
        let mut whole = 0;
        if self.packer.is_none() {
            let mut rest = self.waiting.get(..written as usize).unwrap_or_default();
            while let Next::Record(record, bytes) = frame::next(rest) {
                let (messages, terms) = match record {
                    frame::Record::Term(_) => (1, 1),
                    frame::Record::Dropped(n) => (n.into(), 0),
                };
                self.messages = self.messages.saturating_sub(messages);
                self.terms -= terms;
                whole += bytes as u64;
                rest = rest.get(bytes..).unwrap_or_default();
            }
        }
        self.written += whole;
        self.written_ever += whole;
        whole
    }

    /// Counts the pending records as lost.
    #[cold]
    fn count_lost(&mut self) {
        self.lost = self.lost.saturating_add(self.messages);
        self.lost_ever = self.lost_ever.saturating_add(self.terms);
        self.clear();
    }

    fn clear(&mut self) {
        self.waiting.clear();
        (self.messages, self.terms) = (0, 0);
    }

    /// Flushes if a record of this size does not fit. A longer record is alone in the buffer.
    fn flush_unless_fits(&mut self, bytes: usize) -> io::Result<()> {
        let full = self.waiting.len() + bytes > self.room;
        let flushed = if full { self.flush() } else { Ok(()) };
        self.add_drop_record();
        flushed
    }

    /// Adds a drop record at the place of the lost messages. At a loss nothing is pending, so the place is right.
    fn add_drop_record(&mut self) {
        self.messages = self.messages.saturating_add(self.lost);
        frame::put_dropped(&mut self.waiting, std::mem::take(&mut self.lost));
    }

    /// Truncates the last written bytes, which end in the middle of a record, if they are the last of the file. If that fails, or
    /// another program wrote after them, a reader finds a record cut off.
    #[cold]
    fn truncate_tail(&mut self, bytes: u64) {
        let (Ok(end), Ok(file)) = (self.file.stream_position(), self.file.metadata()) else { return };
        let begin = end.saturating_sub(bytes);
        if bytes > 0 && file.len() == end && self.file.set_len(begin).is_ok() {
            let _ = self.file.seek(SeekFrom::Start(begin));
        }
    }
}

/// Opens a file for its owner only and empties it. With `new`, only creates it. Each write appends to the present end of the
/// file: other programs may empty it or write to it.
/// Only other crates of the workspace use it.
///
/// # Errors
/// The file can't be opened, or `new` and it exists.
#[cfg(unix)]
pub fn private(path: &Path, new: bool) -> io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let file = OpenOptions::new().append(true).create(true).create_new(new).mode(0o600).open(path)?;
    if file.metadata()?.is_file() {
        file.set_permissions(PermissionsExt::from_mode(0o600))?;
        file.set_len(0)?;
    }
    Ok(file)
}

/// Opens a file and empties it.
/// Only other crates of the workspace use it.
///
/// # Errors
/// As above.
#[cfg(not(unix))]
pub fn private(path: &Path, new: bool) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).create_new(new).open(path)
}

/// A write that failed.
struct Cut {
    /// Bytes that were written before.
    written: u64,
    /// Of them, the last ones that are one piece at the file's present place.
    last: u64,
    error: io::Error,
}

/// Writes all bytes, in one system call if the system takes them all.
fn write(file: &mut File, bytes: &[u8]) -> Result<(), Cut> {
    let (mut rest, mut last, mut end) = (bytes, 0, None);
    while !rest.is_empty() {
        let failed = match file.write(rest) {
            Ok(0) => io::ErrorKind::WriteZero.into(),
            Ok(n) => {
                rest = rest.get(n..).unwrap_or_default();
                if !rest.is_empty() {
                    let now = file.stream_position().ok();
                    let follows = end.map(|end: u64| end + n as u64) == now;
                    last = if follows { last + n as u64 } else { n as u64 };
                    end = now;
                }
                continue;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => e,
        };
        return Err(Cut { written: (bytes.len() - rest.len()) as u64, last, error: failed });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_write_is_truncated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let there = || std::fs::read(&path).unwrap();
        let mut buffer = Buffer::create(&path, Options { form: Form::Erlang, room: 100, new: false }).unwrap();
        buffer.file.write_all(b"whole, part").unwrap();
        buffer.truncate_tail(4);
        assert_eq!(there(), b"whole, ");
        buffer.truncate_tail(0);
        buffer.file.write_all(b"part").unwrap();
        let mut other = OpenOptions::new().append(true).open(&path).unwrap();
        other.write_all(b"another's").unwrap();
        buffer.truncate_tail(4);
        assert_eq!(there(), b"whole, partanother's");
        other.set_len(0).unwrap();
        buffer.truncate_tail(4);
        buffer.file.write_all(b"end").unwrap();
        assert_eq!(there(), b"end");
    }

    /// A buffer, and a function that reads its file.
    fn buffer(room: usize) -> (tempfile::TempDir, Buffer, impl Fn() -> Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let buffer = Buffer::create(&path, Options { form: Form::Erlang, room, new: false }).unwrap();
        (folder, buffer, move || std::fs::read(&path).unwrap())
    }

    /// Seven bytes as a record.
    const NIL: [u8; 2] = [131, 106];

    #[test]
    fn a_buffer_is_written_when_the_next_record_does_not_fit() {
        type Add = fn(&mut Buffer) -> io::Result<()>;
        let ways: [Add; 2] = [|to| to.term(&NIL[1..]), |to| to.copy(frame::Record::Term(&NIL))];
        for add in ways {
            let (_folder, mut buffer, there) = buffer(14);
            for (length, written) in [(7, 0), (14, 0), (21, 14), (28, 14), (35, 28)] {
                add(&mut buffer).unwrap();
                assert_eq!((buffer.length(), there().len() as u64, buffer.counts()), (length, written, (written, 0)));
            }
        }
        let (_folder, mut buffer, there) = buffer(14);
        (0..4).for_each(|n| buffer.drop_record(n).unwrap());
        assert_eq!((buffer.length(), there().len()), (20, 10));
    }

    #[test]
    fn lost_messages_are_reported_before_the_next_one() {
        let lost = [1, 0, 0, 0, 3];
        let (_folder, mut buffer, there) = buffer(100);
        buffer.lost = 3;
        buffer.copy(frame::Record::Term(&NIL)).unwrap();
        buffer.lost = 3;
        buffer.term(&NIL).unwrap();
        buffer.lost = 3;
        assert_eq!(buffer.unreported(), 3);
        buffer.dropped(4).unwrap();
        buffer.lost = 3;
        buffer.flush().unwrap();
        let nil = [0, 0, 0, 0, 2, 131, 106];
        assert_eq!(there(), [&lost[..], &nil, &lost, &nil, &lost, &[1, 0, 0, 0, 4], &lost].concat());
        assert_eq!((buffer.unreported(), buffer.counts().1), (0, 0));
    }

    #[test]
    fn messages_that_cannot_be_written_are_counted() {
        let (_folder, mut buffer, _) = buffer(100);
        buffer.term(&NIL).unwrap();
        buffer.dropped(4).unwrap();
        buffer.copy(frame::Record::Term(&NIL)).unwrap();
        buffer.drop_record(5).unwrap();
        buffer.count_lost();
        assert_eq!((buffer.unreported(), buffer.counts(), buffer.length()), (11, (0, 2), 0));
        buffer.flush().unwrap();
        assert_eq!((buffer.unreported(), buffer.counts(), buffer.length()), (0, (5, 2), 5));
    }
}
