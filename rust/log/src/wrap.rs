//! A log in a ring of files.

use crate::{
    about::Item,
    buffer::Buffer,
    names::{ignore_missing, Names},
    options::Options,
    sink::{closed, Sink},
};
use std::{
    fs, io,
    time::{Duration, Instant},
};

/// When the set begins its next file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// When the file has this many bytes. Records are never split: the one that reaches the size is the file's last. With 0 each
    /// record has its own file.
    Bytes(u64),
    /// When the file was open this long, whatever its size. The time is that of [`Sink::tick`].
    Time(Duration),
}

impl Default for Limit {
    /// 128 KiB, as in Erlang.
    fn default() -> Self {
        Limit::Bytes(128 << 10)
    }
}

/// A log in at most `files` files. The oldest is deleted when a new one begins. No drop record counts the deleted messages.
///
/// Numbers, sizes and the order of deletion are Erlang's. The files are readable by their owner only and written like
/// [`FileLog`](crate::file::FileLog)'s. The oldest file is deleted before the newest is created. So there is a gap at any time,
/// also after the process was killed.
///
/// ```
/// use inviso_log::{names::Names, sink::Sink, wrap::{Limit, WrapLog}};
/// # fn main() -> std::io::Result<()> {
/// let folder = tempfile::tempdir()?;
/// let names = Names::new(&folder.path().join("trace"), ".log")?;
/// let mut log = WrapLog::create(names.clone(), Limit::Bytes(20), 3, std::time::Instant::now())?;
/// for _ in 0..8 {
///     log.term(&[131, 109, 0, 0, 0, 4, b't', b'e', b's', b't'])?; // 15 bytes: two to a file
/// }
/// log.close()?;
/// assert_eq!(names.present()?, [2, 3, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WrapLog {
    names: Names,
    limit: Limit,
    files: u64,
    /// The number of the file that is written.
    number: u64,
    /// Files that were begun after the first.
    files_begun: u64,
    opened: Instant,
    buffer: Option<Buffer>,
    /// The counts of a closed log.
    counts: (u64, u64),
}

impl WrapLog {
    /// Deletes the set's existing files and begins with number 0. `files` is the largest number of files, 1 or more; Erlang's
    /// default is 8.
    ///
    /// # Errors
    /// The error of the system; `InvalidInput` for no files.
    pub fn create(names: Names, limit: Limit, files: u32, now: Instant) -> io::Result<WrapLog> {
        if files == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a wrap set of no files"));
        }
        names.delete()?;
        let buffer = Some(Buffer::create(&names.path(0), Options::default())?);
        Ok(WrapLog {
            names,
            limit,
            files: files.into(),
            number: 0,
            files_begun: 0,
            opened: now,
            buffer,
            counts: (0, 0),
        })
    }

    /// The number of the file that is written now.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    fn open(&mut self) -> io::Result<&mut Buffer> {
        self.buffer.as_mut().ok_or_else(closed)
    }

    fn next_file_if_full(&mut self, added: io::Result<()>) -> io::Result<()> {
        let length = self.open()?.length();
        match self.limit {
            Limit::Bytes(size) if length >= size => self.next_file().and(added),
            _ => added,
        }
    }

    /// Begins the next file. Numbers go from 0 to `files`: one more than there are files.
    fn next_file(&mut self) -> io::Result<()> {
        let files = self.files;
        let after = |number| if number == files { 0 } else { number + 1 };
        let number = after(self.number);
        let flushed = self.open()?.flush();
        ignore_missing(fs::remove_file(self.names.path(after(number))))?;
        let path = self.names.path(number);
        self.open()?.next_file(&path)?;
        self.number = number;
        self.files_begun += 1;
        flushed
    }
}

impl Sink for WrapLog {
    fn term(&mut self, term: &[u8]) -> io::Result<()> {
        let added = self.open()?.term(term);
        self.next_file_if_full(added)
    }

    fn dropped(&mut self, n: u64) -> io::Result<()> {
        let added = self.open()?.dropped(n);
        self.next_file_if_full(added)
    }

    fn about(&mut self, item: &Item) {
        if let Some(buffer) = &mut self.buffer {
            buffer.about(item);
        }
    }

    fn file(&self) -> u64 {
        self.files_begun
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open()?.flush()
    }

    fn due(&self) -> Option<Instant> {
        match self.limit {
            Limit::Time(time) if self.buffer.is_some() => self.opened.checked_add(time),
            _ => None,
        }
    }

    fn tick(&mut self, now: Instant) -> io::Result<()> {
        if self.due().is_some_and(|due| due <= now) {
            self.opened = now;
            return self.next_file();
        }
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        let Some(mut buffer) = self.buffer.take() else { return Ok(()) };
        let flushed = buffer.flush();
        self.counts = buffer.counts();
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

impl Drop for WrapLog {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seven bytes as a record.
    const NIL: [u8; 2] = [131, 106];

    fn log(folder: &tempfile::TempDir, limit: Limit) -> (Names, WrapLog) {
        let names = Names::new(&folder.path().join("trace"), ".log").unwrap();
        (names.clone(), WrapLog::create(names, limit, 2, Instant::now()).unwrap())
    }

    #[test]
    fn numbers_wrap_and_the_next_one_is_the_gap() {
        let folder = tempfile::tempdir().unwrap();
        let (names, mut log) = log(&folder, Limit::Bytes(7));
        for (number, there) in [(1, [0, 1]), (2, [1, 2]), (0, [2, 0]), (1, [0, 1])] {
            log.term(&NIL).unwrap();
            assert_eq!((log.number(), names.present().unwrap()), (number, there.to_vec()));
        }
        log.dropped(3).unwrap();
        assert_eq!((log.number(), log.bytes()), (1, 28), "five bytes are too few");
        log.flush().unwrap();
        assert_eq!(log.bytes(), 33);
    }

    #[test]
    fn a_closed_log_has_all_messages_and_accepts_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let (names, mut log) = log(&folder, Limit::default());
        log.term(&NIL).unwrap();
        assert_eq!((log.bytes(), log.lost()), (0, 0));
        log.close().unwrap();
        log.close().unwrap();
        assert_eq!((log.bytes(), log.lost(), fs::read(names.path(0)).unwrap().len()), (7, 0, 7));
        let errors = [log.term(&NIL), log.dropped(1), log.flush()].map(|done| done.unwrap_err().kind());
        assert_eq!(errors, [io::ErrorKind::NotConnected; 3]);
    }

    #[test]
    fn a_dropped_log_is_written_and_an_abandoned_one_is_not() {
        for (abandons, length) in [(false, 7), (true, 0)] {
            let folder = tempfile::tempdir().unwrap();
            let (names, mut log) = log(&folder, Limit::default());
            log.term(&NIL).unwrap();
            if abandons {
                log.abandon();
            }
            drop(log);
            assert_eq!(fs::read(names.path(0)).unwrap().len(), length);
        }
    }
}
