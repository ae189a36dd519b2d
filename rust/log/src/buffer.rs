//! A file that gets whole records only.

use crate::{
    about::{Heads, Item},
    blocks::{self, Packer},
    file::{Form, Options},
    frame::{self, Next},
    own::Own,
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::Path,
};

/// Records that wait, and the file that they go to.
#[derive(Debug)]
pub(crate) struct Buffer {
    file: Own<File>,
    waiting: Vec<u8>,
    /// Terms in `waiting`, and what its drop records count.
    messages: u64,
    /// Terms in `waiting`.
    terms: u64,
    room: usize,
    /// Bytes that were written to the file. It has others where somebody empties it or writes to it as well.
    written: u64,
    /// Messages that could not be written and that no drop record tells of yet.
    lost: u64,
    /// Messages that could not be written.
    lost_ever: u64,
    /// Bytes of all files that are whole records.
    written_ever: u64,
    packer: Option<Packer>,
    block: Vec<u8>,
    about: Heads,
}

impl Buffer {
    /// Empties the file or makes it, or only makes it, for its owner only.
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

    /// Bytes of the file, with those that wait.
    pub(crate) fn length(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    /// Bytes that the system has taken, and messages that it has not.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.written_ever, self.lost_ever)
    }

    /// Messages that were lost, here or before, and that no drop record tells of.
    pub(crate) fn untold(&self) -> u64 {
        self.lost
    }

    pub(crate) fn term(&mut self, term: &[u8]) -> io::Result<()> {
        if self.packer.is_some() && term.len() > blocks::LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a term of more than 1 GiB in a block"));
        }
        let flushed = self.make_room(frame::HEADER + 1 + term.len());
        let begin = self.waiting.len();
        frame::put_term(&mut self.waiting, term)?;
        if self.about.are_any() {
            self.about.put(&mut self.waiting, begin);
        }
        self.messages += 1;
        self.terms += 1;
        flushed
    }

    /// An item that stands behind the next term.
    pub(crate) fn about(&mut self, item: &Item) {
        self.about.add(item);
    }

    pub(crate) fn dropped(&mut self, n: u64) -> io::Result<()> {
        let flushed = self.make_room(frame::HEADER);
        frame::put_dropped(&mut self.waiting, n);
        self.messages = self.messages.saturating_add(n);
        flushed
    }

    /// A record as it was read.
    #[inline]
    pub(crate) fn copy(&mut self, record: frame::Record<'_>) -> io::Result<()> {
        let term = match record {
            frame::Record::Term(term) => term,
            frame::Record::Dropped(n) => return self.drop_record(n),
        };
        let full = self.waiting.len() + frame::HEADER + term.len() > self.room;
        let flushed = if full || self.lost > 0 { self.make_room(frame::HEADER + term.len()) } else { Ok(()) };
        frame::put(&mut self.waiting, record);
        self.messages += 1;
        self.terms += 1;
        flushed
    }

    /// A drop record, whatever it says.
    pub(crate) fn drop_record(&mut self, n: u32) -> io::Result<()> {
        let flushed = self.make_room(frame::HEADER);
        frame::put(&mut self.waiting, frame::Record::Dropped(n));
        self.messages = self.messages.saturating_add(n.into());
        flushed
    }

    /// Goes on in a new file. What waits goes there too.
    pub(crate) fn next(&mut self, path: &Path) -> io::Result<()> {
        self.file = Own::new(private(path, false)?)?;
        self.written = 0;
        Ok(())
    }

    /// All that waits, in one call of the system if that takes it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.put_lost();
        if self.waiting.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.file.check() {
            self.lose();
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
            self.take_back(last - whole);
            self.lose();
            return Err(error);
        }
        self.written += bytes.len() as u64;
        self.written_ever += bytes.len() as u64;
        self.clear();
        Ok(())
    }

    /// Of so many bytes that were written, those that are whole records. They stay in the file and are not counted as lost. Part of
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

    /// What waits is lost.
    #[cold]
    fn lose(&mut self) {
        self.lost = self.lost.saturating_add(self.messages);
        self.lost_ever = self.lost_ever.saturating_add(self.terms);
        self.clear();
    }

    fn clear(&mut self) {
        self.waiting.clear();
        (self.messages, self.terms) = (0, 0);
    }

    /// A record of so many bytes makes the buffer longer than the room only where it is alone in it.
    fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        let full = self.waiting.len() + bytes > self.room;
        let flushed = if full { self.flush() } else { Ok(()) };
        self.put_lost();
        flushed
    }

    /// A drop record at the place of what could not be written: something is lost only when nothing waits.
    fn put_lost(&mut self) {
        self.messages = self.messages.saturating_add(self.lost);
        frame::put_dropped(&mut self.waiting, std::mem::take(&mut self.lost));
    }

    /// Takes back so many bytes that were written last and end in the middle of a record, where they are the file's last. Where
    /// that fails, or somebody wrote behind them, a reader finds a record cut off.
    #[cold]
    fn take_back(&mut self, bytes: u64) {
        let (Ok(end), Ok(file)) = (self.file.stream_position(), self.file.metadata()) else { return };
        let begin = end.saturating_sub(bytes);
        if bytes > 0 && file.len() == end && self.file.set_len(begin).is_ok() {
            let _ = self.file.seek(SeekFrom::Start(begin));
        }
    }
}

/// The file, empty, that only its owner may read, also if it was there before, unless it has to be new. Each write goes to its
/// end, wherever that is then: others may empty it, or write to it as well.
///
/// # Errors
/// It can't be opened, or `new` and it is there.
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

/// The file, empty.
///
/// # Errors
/// The same.
#[cfg(not(unix))]
pub fn private(path: &Path, new: bool) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).create_new(new).open(path)
}

/// A write that failed.
struct Cut {
    /// Bytes that were written before.
    written: u64,
    /// Of them, the last ones that stand together where the file is at.
    last: u64,
    error: io::Error,
}

/// All of the bytes, in one call of the system if that takes it.
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
    fn only_what_was_written_last_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let there = || std::fs::read(&path).unwrap();
        let mut buffer = Buffer::create(&path, Options { form: Form::Erlang, room: 100, new: false }).unwrap();
        buffer.file.write_all(b"whole, part").unwrap();
        buffer.take_back(4);
        assert_eq!(there(), b"whole, ");
        buffer.take_back(0);
        buffer.file.write_all(b"part").unwrap();
        let mut other = OpenOptions::new().append(true).open(&path).unwrap();
        other.write_all(b"another's").unwrap();
        buffer.take_back(4);
        assert_eq!(there(), b"whole, partanother's");
        other.set_len(0).unwrap();
        buffer.take_back(4);
        buffer.file.write_all(b"end").unwrap();
        assert_eq!(there(), b"end");
    }

    /// A buffer, and what its file has.
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
    fn what_was_lost_is_told_before_what_comes_next() {
        let lost = [1, 0, 0, 0, 3];
        let (_folder, mut buffer, there) = buffer(100);
        buffer.lost = 3;
        buffer.copy(frame::Record::Term(&NIL)).unwrap();
        buffer.lost = 3;
        buffer.term(&NIL).unwrap();
        buffer.lost = 3;
        assert_eq!(buffer.untold(), 3);
        buffer.dropped(4).unwrap();
        buffer.lost = 3;
        buffer.flush().unwrap();
        let nil = [0, 0, 0, 0, 2, 131, 106];
        assert_eq!(there(), [&lost[..], &nil, &lost, &nil, &lost, &[1, 0, 0, 0, 4], &lost].concat());
        assert_eq!((buffer.untold(), buffer.counts().1), (0, 0));
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        let (_folder, mut buffer, _) = buffer(100);
        buffer.term(&NIL).unwrap();
        buffer.dropped(4).unwrap();
        buffer.copy(frame::Record::Term(&NIL)).unwrap();
        buffer.drop_record(5).unwrap();
        buffer.lose();
        assert_eq!((buffer.untold(), buffer.counts(), buffer.length()), (11, (0, 2), 0));
        buffer.flush().unwrap();
        assert_eq!((buffer.untold(), buffer.counts(), buffer.length()), (0, (5, 2), 5));
    }
}
