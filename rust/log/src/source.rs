//! One type for all kinds of logs to read.

use crate::{
    growing::Growing,
    names::Names,
    reader::{Event, Found, Reader},
    set::SetReader,
};
use std::{
    collections::VecDeque,
    fs::File,
    io,
    net::TcpStream,
    path::{Path, PathBuf},
};

/// A file, a wrap set, or the stream of an IP port.
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
    Files(Files),
    Stream(Reader<TcpStream>),
}

/// Files of one log, read one after the other.
#[derive(Debug)]
struct Files {
    current: (Reader<Growing>, PathBuf),
    rest: VecDeque<PathBuf>,
    /// How many files came before.
    number: u64,
}

impl Source {
    /// Opens a file. With `follow` it also reads later writes ([`Reader::follow`]), and the file's new contents after it was
    /// emptied ([`What::Anew`](crate::damage::What::Anew)).
    ///
    /// # Errors
    /// The error of the system.
    pub fn open(path: &Path, follow: bool) -> io::Result<Source> {
        Ok(Source(Kind::File(Growing::reader(File::open(path)?, follow)?, path.to_owned())))
    }

    /// Opens a wrap set ([`SetReader`]).
    ///
    /// # Errors
    /// The error of the system.
    pub fn open_set(names: Names, follow: bool) -> io::Result<Source> {
        SetReader::open(names, follow).map(|reader| Source(Kind::Set(reader)))
    }

    /// Opens several files as one log, in this order. The first is opened now, each other one at its turn.
    ///
    /// # Errors
    /// The error of the system for the first file; `InvalidInput` without a file.
    pub fn files(paths: Vec<PathBuf>) -> io::Result<Source> {
        let mut rest = VecDeque::from(paths);
        let Some(path) = rest.pop_front() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a log of no files"));
        };
        let reader = Growing::reader(File::open(&path)?, false)?;
        Ok(Source(Kind::Files(Files { current: (reader, path), rest, number: 0 })))
    }

    /// Reads from an IP port ([`ip::connect`](crate::ip::connect)).
    #[must_use]
    pub fn stream(stream: TcpStream) -> Source {
        Source(Kind::Stream(Reader::new(stream)))
    }

    /// The next record or damage; None at the end, or for now if more may come.
    ///
    /// # Errors
    /// The error of the system. The call can be repeated. A stream's time-out is an error, too.
    pub fn read(&mut self) -> io::Result<Option<Event<'_>>> {
        let found = self.find()?;
        Ok(found.map(|found| self.event(found)))
    }

    /// Whether a whole record is in memory, so that reading it does not wait.
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            Kind::File(reader, _) => reader.is_ready(),
            Kind::Set(reader) => reader.is_ready(),
            Kind::Files(files) => files.current.0.is_ready(),
            Kind::Stream(reader) => reader.is_ready(),
        }
    }

    /// Whether it is a stream. Reading one may wait.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self.0, Kind::Stream(_))
    }

    /// The file of the last record or damage; a stream has none.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match &self.0 {
            Kind::File(_, path) => Some(path.clone()),
            Kind::Set(reader) => reader.path(),
            Kind::Files(files) => Some(files.current.1.clone()),
            Kind::Stream(_) => None,
        }
    }

    /// The number of that file in the wrap set or among the log's files.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match &self.0 {
            Kind::Set(reader) => reader.number(),
            Kind::Files(files) => Some(files.number),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn find(&mut self) -> io::Result<Option<Found>> {
        match &mut self.0 {
            Kind::File(reader, _) => match reader.find()? {
                None => Growing::restarted(reader),
                found => Ok(found),
            },
            Kind::Set(reader) => reader.find(),
            Kind::Files(files) => files.find(),
            Kind::Stream(reader) => reader.find(),
        }
    }

    #[inline]
    pub(crate) fn event(&self, found: Found) -> Event<'_> {
        match &self.0 {
            Kind::File(reader, _) => reader.event(found),
            Kind::Set(reader) => reader.event(found),
            Kind::Files(files) => files.current.0.event(found),
            Kind::Stream(reader) => reader.event(found),
        }
    }
}

impl Files {
    fn find(&mut self) -> io::Result<Option<Found>> {
        loop {
            if let Some(found) = self.current.0.find()? {
                return Ok(Some(found));
            }
            let Some(path) = self.rest.front() else { return Ok(None) };
            let reader = Growing::reader(File::open(path)?, false)?;
            if let Some(path) = self.rest.pop_front() {
                self.current = (reader, path);
                self.number += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Record;
    use std::{fs, io::Write, net::TcpListener};

    fn dropped(source: &mut Source) -> Option<u32> {
        source.read().unwrap().map(|event| match event {
            Event::Record { record: Record::Dropped(n), .. } => n,
            event => panic!("{event:?}"),
        })
    }

    fn record(n: u8) -> [u8; 5] {
        [1, 0, 0, 0, n]
    }

    #[test]
    fn files_say_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let names = Names::new(&folder.path().join("set"), ".log").unwrap();
        let paths: Vec<_> = (0..3).map(|n| names.path(n)).collect();
        for (path, n) in paths.iter().zip(0..) {
            fs::write(path, [record(2 * n), record(2 * n + 1)].concat()).unwrap();
        }
        let file = Source::open(&paths[0], false).unwrap();
        let set = Source::open_set(names, false).unwrap();
        let files = Source::files(paths.clone()).unwrap();
        // each with the numbers of its files
        for (mut source, numbers) in [(file, None), (set, Some(0..3)), (files, Some(0..3))] {
            assert!(!source.is_stream() && !source.is_ready());
            for (n, path) in (0..).zip(&paths).take(numbers.map_or(1, |numbers| numbers.count())) {
                assert_eq!(dropped(&mut source), Some(2 * n));
                assert!(source.is_ready(), "the second came with the first");
                assert_eq!(dropped(&mut source), Some(2 * n + 1));
                assert!(!source.is_ready());
                assert_eq!(source.path().as_ref(), Some(path));
                let is_numbered = !matches!(source.0, Kind::File(..));
                assert_eq!(source.number(), is_numbered.then_some(n.into()));
            }
            assert_eq!((dropped(&mut source), source.is_ready()), (None, false));
        }
        assert!(Source::files(vec![]).is_err());
    }

    #[test]
    fn a_stream_has_no_file() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        listener.accept().unwrap().0.write_all(&record(7)).unwrap();
        let mut source = Source::stream(stream);
        assert_eq!((source.is_stream(), source.is_ready(), source.path(), source.number()), (true, false, None, None));
        assert_eq!([dropped(&mut source), dropped(&mut source)], [Some(7), None]);
    }
}
