//! A file that is followed, and that somebody may empty.

use crate::{
    damage::{Damage, What},
    reader::{Found, Reader},
};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

/// Bytes at a file's beginning, and at the place where it is read, that are looked at again.
const SEEN: usize = 512;

/// A file that may be written while it is read.
#[derive(Debug)]
pub(crate) struct Growing {
    pub(crate) file: File,
    /// What was read of it, if it is followed. What is no regular file can't be looked at again.
    seen: Option<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    at: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Growing {
    /// Reads a file from its beginning.
    pub(crate) fn reader(file: File, follow: bool) -> io::Result<Reader<Growing>> {
        let seen = (follow && file.metadata()?.is_file()).then(Seen::default);
        Ok(Reader::new(Growing { file, seen }).follow(follow))
    }

    /// Where there is nothing more for now: reads it from its beginning, if it was begun anew.
    pub(crate) fn anew(reader: &mut Reader<Growing>) -> io::Result<Option<Found>> {
        if !reader.get_ref().is_anew()? {
            return Ok(None);
        }
        let damage = Damage { at: reader.at(), what: What::Anew };
        *reader = Growing::reader(reader.get_ref().file.try_clone()?, true)?;
        Ok(Some(Found::Damage(damage)))
    }

    /// Whether it is not the file any more that was read.
    fn is_anew(&self) -> io::Result<bool> {
        match &self.seen {
            Some(seen) => Ok(!seen.is_there(&self.file)?),
            None => Ok(false),
        }
    }
}

impl Read for Growing {
    /// Nothing of a file that was begun anew.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(seen) = &mut self.seen else { return self.file.read(buffer) };
        self.file.seek(SeekFrom::Start(seen.at))?;
        let read = self.file.read(buffer)?;
        // behind reading: what was there then may have been another file's
        if read == 0 || !seen.is_there(&self.file)? {
            return Ok(0);
        }
        seen.add(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

impl Seen {
    fn add(&mut self, bytes: &[u8]) {
        let more = SEEN.saturating_sub(self.first.len()).min(bytes.len());
        self.first.extend_from_slice(bytes.get(..more).unwrap_or_default());
        self.last.extend_from_slice(bytes.get(bytes.len().saturating_sub(SEEN)..).unwrap_or_default());
        self.last.drain(..self.last.len().saturating_sub(SEEN));
        self.at += bytes.len() as u64;
    }

    /// Whether a file still has the bytes that were read, as far as they are looked at.
    fn is_there(&self, mut file: &File) -> io::Result<bool> {
        let mut there = [0; SEEN];
        let mut has = |at: u64, bytes: &[u8]| {
            let there = there.get_mut(..bytes.len()).unwrap_or_default();
            file.seek(SeekFrom::Start(at))?;
            match file.read_exact(there) {
                Ok(()) => Ok(there == bytes),
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
                Err(e) => Err(e),
            }
        };
        Ok(has(0, &self.first)? && has(self.at - self.last.len() as u64, &self.last)?)
    }
}
