//! A followed file, which other programs may empty.

use crate::{
    damage::{Damage, What},
    reader::{Found, Reader},
};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

/// How many bytes at the file's beginning and before the read position are compared again.
const COMPARED: usize = 512;

/// A file that may be written while it is read.
#[derive(Debug)]
pub(crate) struct Growing {
    pub(crate) file: File,
    /// The bytes to compare, if the file is followed and regular. Other files can't be read twice.
    fingerprint: Option<Fingerprint>,
}

#[derive(Debug, Default)]
struct Fingerprint {
    at: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Growing {
    /// Reads a file from its beginning.
    pub(crate) fn reader(file: File, follow: bool) -> io::Result<Reader<Growing>> {
        let fingerprint = (follow && file.metadata()?.is_file()).then(Fingerprint::default);
        Ok(Reader::new(Growing { file, fingerprint }).follow(follow))
    }

    /// At the end for now: starts from the beginning if the file was restarted.
    pub(crate) fn restarted(reader: &mut Reader<Growing>) -> io::Result<Option<Found>> {
        if !reader.get_ref().is_restarted()? {
            return Ok(None);
        }
        let damage = Damage { at: reader.at(), what: What::Anew };
        *reader = Growing::reader(reader.get_ref().file.try_clone()?, true)?;
        Ok(Some(Found::Damage(damage)))
    }

    /// Whether the file was restarted.
    fn is_restarted(&self) -> io::Result<bool> {
        match &self.fingerprint {
            Some(fingerprint) => Ok(!fingerprint.has_compared(&self.file)?),
            None => Ok(false),
        }
    }
}

impl Read for Growing {
    /// Reads no bytes of a restarted file.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(fingerprint) = &mut self.fingerprint else { return self.file.read(buffer) };
        self.file.seek(SeekFrom::Start(fingerprint.at))?;
        let read = self.file.read(buffer)?;
        // compared after the read: the bytes read before may be a restarted file's
        if read == 0 || !fingerprint.has_compared(&self.file)? {
            return Ok(0);
        }
        fingerprint.add(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

impl Fingerprint {
    fn add(&mut self, bytes: &[u8]) {
        let more = COMPARED.saturating_sub(self.first.len()).min(bytes.len());
        self.first.extend_from_slice(bytes.get(..more).unwrap_or_default());
        self.last.extend_from_slice(bytes.get(bytes.len().saturating_sub(COMPARED)..).unwrap_or_default());
        self.last.drain(..self.last.len().saturating_sub(COMPARED));
        self.at += bytes.len() as u64;
    }

    /// Whether the file still has the compared bytes.
    fn has_compared(&self, mut file: &File) -> io::Result<bool> {
        let mut present = [0; COMPARED];
        let mut has = |at: u64, bytes: &[u8]| {
            let present = present.get_mut(..bytes.len()).unwrap_or_default();
            file.seek(SeekFrom::Start(at))?;
            match file.read_exact(present) {
                Ok(()) => Ok(present == bytes),
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
                Err(e) => Err(e),
            }
        };
        Ok(has(0, &self.first)? && has(self.at - self.last.len() as u64, &self.last)?)
    }
}
