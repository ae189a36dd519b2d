//! A log to read, whatever it is.

use crate::{
    damage::{Damage, What},
    names::Names,
    reader::{Event, Found, Reader},
    set::SetReader,
};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    net::TcpStream,
    path::{Path, PathBuf},
};

/// A file, a wrap set, or what an IP port sends.
///
/// ```
/// use inviso_log::{frame::Record, reader::Event, source::Source};
/// # fn main() -> std::io::Result<()> {
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("trace");
/// std::fs::write(&path, [1, 0, 0, 0, 3])?;
/// let mut log = Source::open(&path, false)?;
/// assert_eq!(log.read()?, Some(Event::Record { at: 0, record: Record::Dropped(3) }));
/// assert_eq!(log.read()?, None);
/// assert_eq!(log.path(), Some(path));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Source(Kind);

#[derive(Debug)]
enum Kind {
    File(Reader<Growing>, PathBuf),
    Set(SetReader),
    Stream(Reader<TcpStream>),
}

impl Source {
    /// A file; with `follow` also what is still written to it ([`Reader::follow`]), and what is written to it when it has been
    /// emptied ([`What::Anew`]).
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path, follow: bool) -> io::Result<Source> {
        Ok(Source(Kind::File(Growing::reader(File::open(path)?, follow)?, path.to_owned())))
    }

    /// A wrap set ([`SetReader`]).
    ///
    /// # Errors
    /// What the system says.
    pub fn open_set(names: Names, follow: bool) -> io::Result<Source> {
        SetReader::open(names, follow).map(|reader| Source(Kind::Set(reader)))
    }

    /// What comes from an IP port ([`ip::connect`](crate::ip::connect)).
    #[must_use]
    pub fn stream(stream: TcpStream) -> Source {
        Source(Kind::Stream(Reader::new(stream)))
    }

    /// The next record, or damage; None at the end, or for now where more may come.
    ///
    /// # Errors
    /// What the system says; it can be tried again. That a stream has nothing within its time-out is one, too.
    pub fn read(&mut self) -> io::Result<Option<Event<'_>>> {
        let found = self.find()?;
        Ok(found.map(|found| self.event(found)))
    }

    /// Whether a whole record is here already, so that reading it asks nobody.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            Kind::File(reader, _) => reader.is_ready(),
            Kind::Set(reader) => reader.is_ready(),
            Kind::Stream(reader) => reader.is_ready(),
        }
    }

    /// Whether it is a stream, for which reading may wait.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self.0, Kind::Stream(_))
    }

    /// The file that the last record or damage was in; a stream has none.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match &self.0 {
            Kind::File(_, path) => Some(path.clone()),
            Kind::Set(reader) => reader.path(),
            Kind::Stream(_) => None,
        }
    }

    /// The number of that file in a wrap set.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match &self.0 {
            Kind::Set(reader) => reader.number(),
            _ => None,
        }
    }

    pub(crate) fn find(&mut self) -> io::Result<Option<Found>> {
        match &mut self.0 {
            Kind::File(reader, _) => match reader.find()? {
                None if reader.get_ref().is_anew()? => {
                    let damage = Damage { at: reader.at(), what: What::Anew };
                    *reader = Growing::reader(reader.get_ref().file.try_clone()?, true)?;
                    Ok(Some(Found::Damage(damage)))
                }
                found => Ok(found),
            },
            Kind::Set(reader) => reader.find(),
            Kind::Stream(reader) => reader.find(),
        }
    }

    pub(crate) fn event(&self, found: Found) -> Event<'_> {
        match &self.0 {
            Kind::File(reader, _) => reader.event(found),
            Kind::Set(reader) => reader.event(found),
            Kind::Stream(reader) => reader.event(found),
        }
    }
}

/// Bytes at a file's beginning, and at the place where it is read, that are looked at again.
const SEEN: usize = 512;

/// A file that may be written while it is read.
#[derive(Debug)]
struct Growing {
    file: File,
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
    fn reader(file: File, follow: bool) -> io::Result<Reader<Growing>> {
        let seen = (follow && file.metadata()?.is_file()).then(Seen::default);
        Ok(Reader::new(Growing { file, seen }).follow(follow))
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
