//! A file that gets whole records only.

use crate::{
    blocks::{self, Packer},
    file::Form,
    frame,
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
    file: Own,
    waiting: Vec<u8>,
    /// Terms in `waiting`, and what its drop records count.
    messages: u64,
    /// Terms in `waiting`.
    terms: u64,
    room: usize,
    /// Bytes of the file that are whole records.
    written: u64,
    /// Messages that could not be written and that no drop record tells of yet.
    lost: u64,
    /// Messages that could not be written.
    lost_ever: u64,
    /// Bytes of all files that are whole records.
    written_ever: u64,
    packer: Option<Packer>,
    block: Vec<u8>,
}

impl Buffer {
    /// Empties the file or makes it, for its owner only.
    pub(crate) fn create(path: &Path, form: Form, room: usize) -> io::Result<Buffer> {
        let file = Own::new(private(path)?)?;
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
        };
        if form == Form::Blocks {
            buffer.written = write(&mut buffer.file, &blocks::MAGIC)?;
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
        frame::put_term(&mut self.waiting, term)?;
        self.messages += 1;
        self.terms += 1;
        flushed
    }

    pub(crate) fn dropped(&mut self, n: u64) -> io::Result<()> {
        let flushed = self.make_room(frame::HEADER);
        frame::put_dropped(&mut self.waiting, n);
        self.messages = self.messages.saturating_add(n);
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
        self.file = Own::new(private(path)?)?;
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
        let done = match &mut self.packer {
            None => write(&mut self.file, &self.waiting),
            Some(packer) => {
                self.block.clear();
                packer.put(&mut self.block, &self.waiting);
                write(&mut self.file, &self.block)
            }
        };
        match done {
            Ok(bytes) => {
                self.written += bytes;
                self.written_ever += bytes;
            }
            Err(_) => {
                self.lost = self.lost.saturating_add(self.messages);
                self.lost_ever = self.lost_ever.saturating_add(self.terms);
                self.take_back_the_rest();
            }
        }
        self.waiting.clear();
        (self.messages, self.terms) = (0, 0);
        done.map(drop)
    }

    /// What waits is lost.
    #[cold]
    fn lose(&mut self) {
        self.lost = self.lost.saturating_add(self.messages);
        self.lost_ever = self.lost_ever.saturating_add(self.terms);
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

    /// Takes back a record that was written in part. Where that fails a reader finds it cut off, and nothing behind it.
    #[cold]
    fn take_back_the_rest(&mut self) {
        if self.file.set_len(self.written).is_ok() {
            let _ = self.file.seek(SeekFrom::Start(self.written));
        }
    }
}

/// The file, empty, that only its owner may read, also if it was there before.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        let file = options.mode(0o600).open(path)?;
        if file.metadata()?.is_file() {
            file.set_permissions(PermissionsExt::from_mode(0o600))?;
        }
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
}

/// How many they were.
fn write(file: &mut File, bytes: &[u8]) -> io::Result<u64> {
    file.write_all(bytes)?;
    Ok(bytes.len() as u64)
}
