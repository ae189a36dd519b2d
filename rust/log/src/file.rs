//! A log in one file.

use crate::{
    about::Item,
    buffer::Buffer,
    frame::Record,
    sink::{closed, Sink},
};
use std::{io, path::Path};

pub use crate::options::{Form, Options};

/// A log in one file, readable by its owner only.
///
/// Records wait in the process until there are [`Options::room`] bytes of them, or [`Sink::flush`]. One system call then writes
/// them all. So a killed process leaves whole records: all flushed ones, and of a write in progress the ones that the system had
/// accepted.
///
/// ```
/// use inviso_log::{file::{FileLog, Form, Options}, sink::Sink};
/// # fn main() -> std::io::Result<()> {
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("trace");
/// let mut log = FileLog::create(&path, Options::default())?;
/// log.term(&[131, 97, 7])?;
/// assert_eq!(std::fs::read(&path)?, []);
/// log.flush()?;
/// assert_eq!(std::fs::read(&path)?, [0, 0, 0, 0, 3, 131, 97, 7]);
///
/// // a compact one, for the readers of this crate
/// let mut log = FileLog::create(&path, Options { form: Form::Blocks, ..Options::default() })?;
/// log.term(&[131, 97, 7])?;
/// log.close()
/// # }
/// ```
#[derive(Debug)]
pub struct FileLog {
    /// `None` after the end.
    buffer: Option<Buffer>,
    /// [`Buffer::counts`] at the end.
    counts: (u64, u64),
    /// [`Buffer::unreported`] at the end.
    unreported: u64,
}

impl FileLog {
    /// Empties or creates the file.
    ///
    /// # Errors
    /// The error of the system.
    pub fn create(path: &Path, options: Options) -> io::Result<FileLog> {
        Buffer::create(path, options).map(|buffer| FileLog { buffer: Some(buffer), counts: (0, 0), unreported: 0 })
    }

    /// Adds a record of another log unchanged, also a drop record of 0. The bytes of a term are not checked.
    ///
    /// # Errors
    /// As [`Sink::term`].
    #[inline]
    pub fn copy(&mut self, record: Record<'_>) -> io::Result<()> {
        self.open()?.copy(record)
    }

    /// Adds a record of another log, also a drop record of 0.
    ///
    /// # Errors
    /// As [`Sink::term`].
    pub fn record(&mut self, record: Record<'_>) -> io::Result<()> {
        match record {
            Record::Term(term) => self.term(term),
            Record::Dropped(n) => self.open()?.drop_record(n),
        }
    }

    /// Messages that were lost, here or before, and that no drop record in the file counts: those of the last failed write.
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn unreported(&self) -> u64 {
        self.buffer.as_ref().map_or(self.unreported, Buffer::unreported)
    }

    fn open(&mut self) -> io::Result<&mut Buffer> {
        self.buffer.as_mut().ok_or_else(closed)
    }
}

impl Sink for FileLog {
    fn term(&mut self, term: &[u8]) -> io::Result<()> {
        self.open()?.term(term)
    }

    fn dropped(&mut self, n: u64) -> io::Result<()> {
        self.open()?.dropped(n)
    }

    fn about(&mut self, item: &Item) {
        if let Some(buffer) = &mut self.buffer {
            buffer.about(item);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open()?.flush()
    }

    fn close(&mut self) -> io::Result<()> {
        let Some(mut buffer) = self.buffer.take() else { return Ok(()) };
        let flushed = buffer.flush();
        (self.counts, self.unreported) = (buffer.counts(), buffer.unreported());
        flushed
    }

    fn abandon(&mut self) {
        self.buffer = None;
    }

    fn bytes(&self) -> u64 {
        self.buffer.as_ref().map_or(self.counts.0, |buffer| buffer.counts().0)
    }

    fn lost(&self) -> u64 {
        self.buffer.as_ref().map_or(self.counts.1, |buffer| buffer.counts().1)
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seven bytes as a record.
    const NIL: [u8; 2] = [131, 106];

    #[test]
    fn a_dropped_log_is_written_and_an_abandoned_one_is_not() {
        for (abandons, length) in [(false, 7), (true, 0)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("trace");
            let mut log = FileLog::create(&path, Options::default()).unwrap();
            log.term(&NIL).unwrap();
            if abandons {
                log.abandon();
            }
            drop(log);
            assert_eq!(std::fs::read(&path).unwrap().len(), length);
        }
    }

    #[test]
    fn records_of_another_log_stay_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let mut log = FileLog::create(&path, Options::default()).unwrap();
        for record in [Record::Term(&NIL), Record::Dropped(0), Record::Dropped(3)] {
            log.copy(record).unwrap();
            log.record(record).unwrap();
        }
        log.close().unwrap();
        let (nil, none, three) = ([0, 0, 0, 0, 2, 131, 106], [1, 0, 0, 0, 0], [1, 0, 0, 0, 3]);
        assert_eq!(std::fs::read(&path).unwrap(), [&nil[..], &nil, &none, &none, &three, &three].concat());
        let errors = [log.copy(Record::Dropped(1)), log.record(Record::Dropped(1)), log.record(Record::Term(&NIL))];
        assert_eq!(errors.map(|done| done.unwrap_err().kind()), [io::ErrorKind::NotConnected; 3]);
    }
}
