//! Converts logs to rows with two threads.
//!
//! A log has to be read in order, but its pieces can be converted in parallel. The two threads pass the log to each other: each
//! reads a piece, passes the log on, and converts its piece while the other one reads the next. The batches come in the order of
//! the log. Each thread has dictionaries of its own.
//!
//! # Roles
//!
//! Two worker threads and the consumer of the batches.
//!
//! # States
//!
//! A worker waits for the log, reads a piece, converts it, and waits for a place in its channel. It ends when the log ends or the
//! consumer has gone.
//!
//! # Orderings
//!
//! None of its own: channels carry the log and the batches. The consumer takes from the two channels in turn, which gives the
//! order of the log.
//!
//! # Checked by
//!
//! The tests below.

use crate::{
    export::{Summary, Take},
    table::{Batch, Table, Values, ROWS},
};
use std::{
    collections::VecDeque,
    io, mem, process,
    sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender},
    thread::{self, JoinHandle},
};

/// Bytes of a full piece.
const FULL: usize = 4 << 20;

/// Records that were read and not converted yet.
#[derive(Debug, Default)]
pub struct Piece {
    terms: Vec<u8>,
    /// The end of each term. A piece has less than 4 GiB: the first record after 4 MiB makes it full.
    ends: Vec<u32>,
    /// Records without a term, each with the number of terms before it.
    between: Vec<(usize, Between)>,
}

#[derive(Debug)]
enum Between {
    Dropped(u64),
    Damage(String),
}

impl Piece {
    /// Whether it has enough records.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.ends.len() + self.between.len() >= ROWS || self.terms.len() >= FULL
    }

    fn clear(&mut self) {
        self.terms.clear();
        self.ends.clear();
        self.between.clear();
    }

    /// Converts its records with a table. Answers the batches.
    fn rows(&mut self, table: &mut Table) -> Vec<Batch> {
        let mut batches = Vec::new();
        let mut between = self.between.drain(..).peekable();
        let mut start = 0;
        for count in 0..=self.ends.len() {
            while let Some((_, other)) = between.next_if(|(before, _)| *before == count) {
                match other {
                    Between::Dropped(lost) => table.dropped(lost),
                    Between::Damage(text) => table.damage(&text),
                }
            }
            if let Some(end) = self.ends.get(count) {
                let end = *end as usize;
                table.term(self.terms.get(start..end).unwrap_or_default());
                start = end;
            }
            if table.is_full() {
                batches.extend(table.batch());
            }
        }
        batches.extend(table.batch());
        batches
    }
}

impl Take for Piece {
    #[inline]
    fn term(&mut self, bytes: &[u8]) {
        self.terms.extend_from_slice(bytes);
        self.ends.push(self.terms.len() as u32);
    }

    fn dropped(&mut self, count: u64) {
        self.between.push((self.ends.len(), Between::Dropped(count)));
    }

    fn damage(&mut self, text: &str) {
        self.between.push((self.ends.len(), Between::Damage(text.to_owned())));
    }
}

/// Reads a piece. Answers whether there may be more.
pub type Feed = Box<dyn FnMut(&mut Piece) -> io::Result<bool> + Send>;

/// The result for a piece.
struct PieceRows {
    batches: Vec<Batch>,
    summary: Summary,
    /// Whether there may be more.
    read: io::Result<bool>,
}

/// Batches of the pieces of a [`Feed`], in their order.
///
/// ```
/// use inviso_export::{export::Take, pieces::Pieces, table::Values};
/// use inviso_term::{etf, term::Term};
/// let mut left = 40_000;
/// let mut pieces = Pieces::new(Values::Text, Box::new(move |piece| {
///     while left > 0 && !piece.is_full() {
///         piece.term(&etf::encode(&Term::from(left)));
///         left -= 1;
///     }
///     Ok(left > 0)
/// }))?;
/// let mut rows = 0;
/// while let Some(batch) = pieces.next()? {
///     rows += batch.rows;
/// }
/// assert_eq!((rows, pieces.summary().unknown), (40_000, 40_000));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Pieces {
    ready: VecDeque<Batch>,
    /// The results of the threads, each in turn.
    results: [Option<Receiver<PieceRows>>; 2],
    turn: usize,
    failed: Option<io::Error>,
    ended: bool,
    summary: Summary,
    threads: Vec<JoinHandle<()>>,
    process: u32,
}

impl Pieces {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system refuses the threads.
    pub fn new(values: Values, feed: Feed) -> io::Result<Pieces> {
        let ((to_one, at_one), (to_other, at_other)) = (channel(), channel());
        // the first thread gets the feed, the other one only the end of its channel
        let _ = to_one.send(feed);
        let (mut results, mut threads) = ([None, None], Vec::new());
        for (place, (turn, next)) in results.iter_mut().zip([(at_one, to_other), (at_other, to_one)]) {
            // few batches wait for a slow reader
            let (out, from) = sync_channel(1);
            let work = move || work(Table::new(values), &turn, &next, &out);
            threads.push(thread::Builder::new().name("inviso-rows".to_owned()).spawn(work)?);
            *place = Some(from);
        }
        let (ready, summary) = (VecDeque::new(), Summary::default());
        let process = process::id();
        Ok(Pieces { ready, results, turn: 0, failed: None, ended: false, summary, threads, process })
    }

    /// The next batch; None at the end.
    ///
    /// # Errors
    /// The error of the reader, after all batches from before it. Then there are no more batches.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> io::Result<Option<Batch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.ended {
                return Ok(None);
            }
            if self.process != process::id() {
                self.ended = true;
                return Err(io::Error::other("this process was forked from the one that began to read"));
            }
            let results = self.results.get(self.turn).and_then(Option::as_ref).and_then(|results| results.recv().ok());
            let Some(PieceRows { batches, summary, read }) = results else {
                self.ended = true;
                return Err(io::Error::other("a thread that made rows has failed"));
            };
            self.turn ^= 1;
            self.ready.extend(batches);
            self.summary.add(summary);
            match read {
                Ok(more) => self.ended = !more,
                Err(error) => (self.ended, self.failed) = (true, Some(error)),
            }
        }
    }

    /// The counts of the batches so far.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.results = [None, None];
        for thread in self.threads.drain(..) {
            if self.process == process::id() {
                let _a_panic_was_told = thread.join();
            } else {
                mem::forget(thread); // the thread belongs to the parent
            }
        }
    }
}

/// The body of a thread: takes its turns until the log ends or the consumer has gone.
fn work(mut table: Table, turn: &Receiver<Feed>, next: &Sender<Feed>, out: &SyncSender<PieceRows>) {
    let mut piece = Piece::default();
    while let Ok(mut feed) = turn.recv() {
        piece.clear();
        let read = feed(&mut piece);
        let more = matches!(read, Ok(true));
        if more {
            let _the_other_has_ended = next.send(feed);
        }
        let batches = piece.rows(&mut table);
        let summary = mem::take(&mut table.summary);
        if out.send(PieceRows { batches, summary, read }).is_err() || !more {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Data;
    use inviso_term::{
        etf,
        term::{Identifier, Term},
    };

    fn message(n: i64) -> Vec<u8> {
        let pid = Term::Pid(Identifier::own(4 + n as u64 % 3));
        etf::encode_versioned(&Term::Tuple(vec![Term::atom("trace"), pid, Term::atom("receive"), Term::from(n)]))
    }

    /// Feeds numbered messages, and other records between them.
    fn feed(total: i64, fails: bool) -> Feed {
        let mut n = 0;
        Box::new(move |piece| {
            while n < total && !piece.is_full() {
                piece.term(&message(n));
                match n % 1000 {
                    7 => piece.dropped(n as u64),
                    8 => piece.damage("a hole"),
                    _ => {}
                }
                n += 1;
            }
            if fails && n == total {
                return Err(io::Error::other("no more to be had"));
            }
            Ok(n < total)
        })
    }

    /// The values and dropped columns of all batches.
    fn all(pieces: &mut Pieces) -> (Vec<String>, Vec<i64>, io::Result<()>) {
        let (mut values, mut lost) = (Vec::new(), Vec::new());
        loop {
            let batch = match pieces.next() {
                Ok(Some(batch)) => batch,
                Ok(None) => return (values, lost, Ok(())),
                Err(error) => return (values, lost, Err(error)),
            };
            let [.., dropped, _] = &*batch.columns else { unreachable!() };
            let Data::Int64(dropped) = &dropped.data else { unreachable!() };
            lost.extend(dropped.iter().filter(|lost| **lost > 0));
            let Data::Bytes(ends, data) = &batch.columns[11].data else { unreachable!() };
            let text = |pair: &[i32]| String::from_utf8_lossy(&data[pair[0] as usize..pair[1] as usize]).into_owned();
            values.extend(ends.windows(2).map(text).filter(|text| !text.is_empty()));
        }
    }

    #[test]
    fn batches_are_in_the_order_of_the_log() {
        let total = 100_000;
        let mut pieces = Pieces::new(Values::Text, feed(total, false)).unwrap();
        let (values, lost, end) = all(&mut pieces);
        end.unwrap();
        let due: Vec<String> = (0..total)
            .flat_map(|n| [Some(n.to_string()), (n % 1000 == 8).then(|| "a hole".to_owned())])
            .flatten()
            .collect();
        assert_eq!(values, due);
        assert_eq!(lost, (0..total).filter(|n| n % 1000 == 7).collect::<Vec<_>>());
        let summary = pieces.summary();
        assert_eq!((summary.messages, summary.damaged, summary.damage.len()), (total as u64, 100, 100));
        assert_eq!(summary.dropped, lost.iter().sum::<i64>() as u64);
    }

    #[test]
    fn an_error_follows_the_records_before_it() {
        let mut pieces = Pieces::new(Values::Text, feed(20_000, true)).unwrap();
        let (values, _, end) = all(&mut pieces);
        assert_eq!(values.len(), 20_020);
        assert_eq!(end.unwrap_err().to_string(), "no more to be had");
        assert!(pieces.next().unwrap().is_none());
    }

    #[test]
    fn a_panic_of_a_thread_is_an_error() {
        let mut count = 0;
        let feed: Feed = Box::new(move |piece| {
            count += 1;
            assert!(count < 3, "meant");
            piece.term(&message(0));
            Ok(true)
        });
        let mut pieces = Pieces::new(Values::None, feed).unwrap();
        assert_eq!(pieces.next().unwrap().unwrap().rows, 1);
        assert_eq!(pieces.next().unwrap().unwrap().rows, 1);
        assert!(pieces.next().unwrap_err().to_string().contains("failed"));
    }

    #[test]
    fn a_consumer_that_stops_early_ends_the_threads() {
        let mut pieces = Pieces::new(Values::Binary, feed(i64::MAX, false)).unwrap();
        assert!(pieces.next().unwrap().is_some());
        drop(pieces);
    }
}
