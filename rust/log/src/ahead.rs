//! Bytes that a thread reads before they are asked for.

use std::{
    io::{self, Read},
    mem,
    sync::mpsc::{sync_channel, Receiver, SyncSender},
    thread,
};

/// Bytes of a chunk. All chunks together stay in a processor's cache.
const CHUNK: usize = 128 << 10;

/// As many are read ahead.
const CHUNKS: usize = 4;

/// Reads as what it was made of does, whose bytes a thread fetches meanwhile: for a file that is read from its beginning to its end.
///
/// The copy of a file out of the system's memory takes as long as a sixth of the work on the records of a log. What is ahead is 512 KiB.
/// The thread ends with the bytes, or when this is dropped; one that waits for bytes then (as from a pipe) ends when they come.
///
/// ```
/// use inviso_log::{ahead::Ahead, frame::Record, reader::{Event, Reader}};
/// # fn main() -> std::io::Result<()> {
/// let mut reader = Reader::new(Ahead::new([1, 0, 0, 0, 3].as_slice())?);
/// assert_eq!(reader.read()?, Some(Event::Record { at: 0, record: Record::Dropped(3) }));
/// assert_eq!(reader.read()?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Ahead {
    /// None at the end.
    chunks: Option<Chunks>,
    /// The one that bytes are taken from, and how many were.
    chunk: Vec<u8>,
    taken: usize,
    /// The process that has the thread: a fork has none.
    process: u32,
}

#[derive(Debug)]
struct Chunks {
    /// An empty one is the end.
    full: Receiver<io::Result<Vec<u8>>>,
    used: SyncSender<Vec<u8>>,
}

impl Ahead {
    /// Begins to read.
    ///
    /// # Errors
    /// What the system says where it makes no thread.
    pub fn new(from: impl Read + Send + 'static) -> io::Result<Ahead> {
        let (to_reader, full) = sync_channel(CHUNKS);
        let (used, from_reader) = sync_channel(CHUNKS);
        thread::Builder::new().name("inviso-ahead".to_owned()).spawn(move || {
            let empty = (0..CHUNKS).map(|_| Vec::new()).chain(from_reader);
            fetch(from, empty, &to_reader);
        })?;
        Ok(Ahead { chunks: Some(Chunks { full, used }), chunk: Vec::new(), taken: 0, process: std::process::id() })
    }

    /// On to the next chunk, or an empty one at the end.
    #[cold]
    fn next(&mut self) -> io::Result<()> {
        let Some(chunks) = &self.chunks else { return Ok(()) };
        if self.process != std::process::id() {
            return Err(io::Error::other("the process that opened this reads it, not a fork of that"));
        }
        let chunk = match chunks.full.recv() {
            Ok(chunk) => chunk?,
            Err(_) => return Err(io::Error::other("the thread that read this has died")),
        };
        if chunk.is_empty() {
            self.chunks = None;
        } else {
            // there is room for all
            let _ = chunks.used.try_send(mem::take(&mut self.chunk));
        }
        (self.chunk, self.taken) = (chunk, 0);
        Ok(())
    }
}

impl Read for Ahead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.chunk.len() {
            self.next()?;
        }
        let count = self.chunk.get(self.taken..).unwrap_or_default().read(into)?;
        self.taken += count;
        Ok(count)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // the thread may have been in the midst of something
            mem::forget(self.chunks.take());
        }
    }
}

/// Fills empty chunks until there are no more bytes, or nobody takes them. After an error it tries again, as whoever asks can.
fn fetch(mut from: impl Read, empty: impl Iterator<Item = Vec<u8>>, full: &SyncSender<io::Result<Vec<u8>>>) {
    for mut chunk in empty {
        chunk.resize(CHUNK, 0);
        let read = loop {
            match from.read(&mut chunk) {
                Ok(read) => break read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    if full.send(Err(e)).is_err() {
                        return;
                    }
                }
            }
        };
        chunk.truncate(read);
        if full.send(Ok(chunk)).is_err() || read == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many bytes, a few at a time; now and then it can't.
    struct Fitful(usize, usize);

    impl Read for Fitful {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 += 1;
            match self.1 % 6 {
                2 => return Err(io::ErrorKind::TimedOut.into()),
                5 => return Err(io::ErrorKind::Interrupted.into()),
                _ => {}
            }
            let count = self.0.min(into.len()).min(70_001);
            for (at, byte) in into.iter_mut().take(count).enumerate() {
                *byte = (self.0 - at) as u8;
            }
            self.0 -= count;
            Ok(count)
        }
    }

    #[test]
    fn all_bytes_come_in_order_whatever_goes_wrong_between() {
        for length in [0, 1, CHUNK, 10 * CHUNK + 7] {
            let mut ahead = Ahead::new(Fitful(length, 0)).unwrap();
            let (mut found, mut part, mut failed) = (Vec::new(), [0; 4096], 0);
            loop {
                match ahead.read(&mut part) {
                    Ok(0) => break,
                    Ok(count) => found.extend_from_slice(&part[..count]),
                    Err(e) => {
                        assert_eq!(e.kind(), io::ErrorKind::TimedOut);
                        failed += 1;
                    }
                }
            }
            assert!(found.iter().copied().eq((0..length).map(|at| (length - at) as u8)));
            assert_eq!(failed > 0, length > 0);
            assert_eq!(ahead.read(&mut part).unwrap(), 0);
        }
    }

    #[test]
    fn what_nobody_reads_ends_the_thread() {
        struct Told(std::sync::mpsc::Sender<()>);
        impl Read for Told {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                Ok(into.len())
            }
        }
        impl Drop for Told {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let (sender, ended) = std::sync::mpsc::channel();
        let mut ahead = Ahead::new(Told(sender)).unwrap();
        assert_eq!(ahead.read(&mut [0; 9]).unwrap(), 9);
        drop(ahead);
        ended.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
    }
}
