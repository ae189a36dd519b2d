//! Where messages go.

use crate::about::Item;
use std::{io, time::Instant};

/// A writer of trace messages: a file, a wrap set, an IP port.
///
/// An error never costs the order: what could not be written is counted, and where writing works again a drop record stands
/// at its place. So whoever gets one may go on, or close.
///
/// ```
/// use inviso_log::sink::Sink;
/// use std::{io, time::Instant};
///
/// /// Empties a source of messages into any sink.
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
    /// One message in the external term format, with its version byte or without.
    ///
    /// # Errors
    /// What the system says; `InvalidInput` for a term of 4 GiB or more; `NotConnected` after [`Sink::close`].
    fn term(&mut self, term: &[u8]) -> io::Result<()>;

    /// So many messages were lost here, before they came.
    ///
    /// # Errors
    /// As [`Sink::term`].
    fn dropped(&mut self, n: u64) -> io::Result<()>;

    /// What a reader of ours is to know of the program: an item of [`crate::about`], which stands behind the next term. A sink that has no
    /// place for it forgets it.
    fn about(&mut self, _item: &Item) {}

    /// How many files of a set were begun before the one that gets the next term. Each is to be readable alone: what [`Sink::about`] said
    /// in another one is to be said again.
    fn file(&self) -> u64 {
        0
    }

    /// Hands to the system what was given so far.
    ///
    /// # Errors
    /// As [`Sink::term`].
    fn flush(&mut self) -> io::Result<()>;

    /// When [`Sink::tick`] wants to be called next.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Does what is due at a time.
    ///
    /// # Errors
    /// As [`Sink::term`].
    fn tick(&mut self, _now: Instant) -> io::Result<()> {
        Ok(())
    }

    /// Flushes, and takes nothing more. A second time does nothing.
    ///
    /// # Errors
    /// As [`Sink::term`].
    fn close(&mut self) -> io::Result<()>;

    /// Lets go of everything at once: what waits is not written. In a process that was forked, so that it leaves its parent's log
    /// alone; [`Sink::pause`] comes before the fork.
    fn abandon(&mut self);

    /// Ends its threads until [`Sink::resume`]; what comes meanwhile waits. So a fork finds none.
    fn pause(&mut self) {}

    /// Starts its threads again.
    ///
    /// # Errors
    /// What the system says; what waits goes on waiting.
    fn resume(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Bytes that the system has taken so far.
    fn bytes(&self) -> u64;

    /// Messages that came and could not be written, or sent, so far; drop records tell of them.
    fn lost(&self) -> u64;
}

#[cold]
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the log is closed")
}
