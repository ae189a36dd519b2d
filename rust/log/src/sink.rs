//! The trait of all writers.

use crate::about::Item;
use std::{io, time::Instant};

/// A writer of trace messages: a file, a wrap set, an IP port.
///
/// An error never changes the order. Messages that could not be written are counted. When writing works again, a drop record is
/// at their place. So after an error the caller may continue or close.
///
/// ```
/// use inviso_log::sink::Sink;
/// use std::{io, time::Instant};
///
/// /// Writes messages to any sink.
/// fn drain(messages: &[&[u8]], lost: u64, sink: &mut dyn Sink) -> io::Result<()> {
///     messages.iter().try_for_each(|message| sink.term(message))?;
///     sink.dropped(lost)?;
///     sink.tick(Instant::now())?;
///     sink.flush()
/// }
/// # let folder = tempfile::tempdir().unwrap();
/// # let mut log = inviso_log::file::FileLog::create(&folder.path().join("t"), Default::default()).unwrap();
/// # drain(&[&[131, 106]], 2, &mut log).unwrap();
/// # assert_eq!(std::fs::read(folder.path().join("t")).unwrap(), [0, 0, 0, 0, 2, 131, 106, 1, 0, 0, 0, 2]);
/// ```
pub trait Sink {
    /// Adds one message in the external term format, with or without its version byte.
    ///
    /// # Errors
    /// The error of the system; `InvalidInput` for a term of 4 GiB or more; `NotConnected` after [`Sink::close`].
    fn term(&mut self, term: &[u8]) -> io::Result<()>;

    /// Counts messages that were lost here before they reached the sink.
    ///
    /// # Errors
    /// As [`Sink::term`].
    fn dropped(&mut self, n: u64) -> io::Result<()>;

    /// Adds an item of [`crate::about`] after the next term, for the readers of this crate. A sink without a place for it ignores
    /// it.
    fn about(&mut self, _item: &Item) {}

    /// How many files of a set were begun before the file of the next term. Each file has to be readable alone, so the items of
    /// [`Sink::about`] have to be repeated in each.
    fn file(&self) -> u64 {
        0
    }

    /// Hands everything so far to the system.
    ///
    /// # Errors
    /// As [`Sink::term`].
    fn flush(&mut self) -> io::Result<()>;

    /// When [`Sink::tick`] has to be called next.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Does the work that is due at a time.
    ///
    /// # Errors
    /// As [`Sink::term`].
    fn tick(&mut self, _now: Instant) -> io::Result<()> {
        Ok(())
    }

    /// Flushes and ends. A second call does nothing.
    ///
    /// # Errors
    /// As [`Sink::term`].
    fn close(&mut self) -> io::Result<()>;

    /// Releases everything at once without writing the pending messages. A forked child calls it to leave its parent's log alone;
    /// [`Sink::pause`] comes before the fork.
    fn abandon(&mut self);

    /// Ends its threads until [`Sink::resume`], for a fork. Messages meanwhile wait.
    fn pause(&mut self) {}

    /// Starts its threads again.
    ///
    /// # Errors
    /// The error of the system. The pending messages then stay pending.
    fn resume(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Bytes that the system accepted so far.
    fn bytes(&self) -> u64;

    /// Messages that could not be written or sent so far. Drop records count them.
    fn lost(&self) -> u64;
}

#[cold]
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the log is closed")
}
