//! Matches messages between logs, so that a merge has each receipt after its sending.
//!
//! The token messages of sequential tracing are matched. A sending and a receipt belong together if they have the same label,
//! serial and sender. A serial can repeat, for example after a reset. Then the n-th receipt in a log belongs to the n-th sending.
//! A log with more receipts than sendings shows that some sendings were lost. Which ones is unknown: each of the surplus receipts
//! may belong to a lost sending. So the n-th receipt then follows only the first n sendings less the surplus. Sendings of one
//! serial in several logs match nothing: their nodes have neither names nor creations and can't be distinguished.

use crate::{frame::Record, reader::Event, source::Source};
use inviso_term::{
    etf::{self, Decoder, Limits},
    record::Kind,
    term::Term,
};
use rustc_hash::FxHashMap;
use std::io;

/// The messages between logs.
///
/// ```
/// use inviso_log::{causal::Passages, frame, merge::Merge, source::Source};
/// use inviso_term::{etf, term::{Identifier, Term}};
/// # fn main() -> std::io::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// let log = |name: &str, what: &str, seconds: i64| {
///     let (serial, pid) = (Term::Tuple(vec![Term::from(0), Term::from(1)]), Term::Pid(Identifier::new(4, "shop@h", 1)));
///     let info = Term::Tuple(vec![Term::atom(what), serial, pid.clone(), pid, Term::atom("hello")]);
///     let time = Term::Tuple(vec![Term::from(0), Term::from(seconds), Term::from(0)]);
///     let message = Term::Tuple(vec![Term::atom("seq_trace"), Term::from(17), info, time]);
///     let mut bytes = Vec::new();
///     frame::put_term(&mut bytes, &etf::encode(&message))?;
///     let path = folder.path().join(name);
///     std::fs::write(&path, bytes)?;
///     Source::open(&path, false)
/// };
/// let logs = || -> std::io::Result<_> { Ok(vec![log("web", "receive", 2)?, log("shop", "send", 5)?]) };
/// let mut merge = Merge::new(logs()?).causal(Passages::of(logs()?)?);
/// let mut order = Vec::new();
/// while let Some((log, _)) = merge.read()? {
///     order.push(log);
/// }
/// assert_eq!(order, [1, 0]); // not by the clock
/// let moved = &merge.moved()[0];
/// assert_eq!((moved.receipts, moved.most, moved.first.as_slice()), (1, 3_000_000_000, &[(2_000_000_000, 3_000_000_000)][..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Passages {
    by_key: FxHashMap<Box<[u8]>, usize>,
    all: Vec<Passage>,
}

/// The sendings of one serial and their receipts in other logs.
#[derive(Debug)]
struct Passage {
    from: usize,
    sent: usize,
    /// Whether several logs have sendings: their nodes can't be distinguished.
    is_ambiguous: bool,
    /// The number of receipts in each log.
    receipts: FxHashMap<usize, usize>,
}

/// One end of a message between logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A sending of this passage.
    Sent(usize),
    /// A receipt of this passage. The second number is the count of sendings that it follows.
    Received(usize, usize),
}

/// The receipts of a log that were moved after their sendings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Their number.
    pub receipts: u64,
    /// The longest move, in nanoseconds.
    pub most: i128,
    /// The times by the merge's clock and the lengths of the moves, in nanoseconds: the first thousand.
    pub first: Vec<(i128, i128)>,
}

/// The largest length of [`Moved::first`].
const LISTED: usize = 1000;

impl Moved {
    pub(crate) fn add(&mut self, when: i128, by: i128) {
        self.receipts += 1;
        self.most = self.most.max(by);
        if self.first.len() < LISTED {
            self.first.push((when, by));
        }
    }
}

impl Passages {
    /// Reads whole logs, in the order of the later merge.
    ///
    /// # Errors
    /// The error of a log's reader.
    pub fn of(sources: Vec<Source>) -> io::Result<Passages> {
        let mut found = Passages::default();
        // sendings first: most serials have no receipt in another log
        let mut receipts: FxHashMap<Box<[u8]>, FxHashMap<usize, usize>> = FxHashMap::default();
        for (log, mut source) in sources.into_iter().enumerate() {
            while let Some(event) = source.read()? {
                let Event::Record { record: Record::Term(payload), .. } = event else { continue };
                match event_of(payload) {
                    Some((true, key)) => found.add_sending(log, key),
                    Some((false, key)) => *receipts.entry(key).or_default().entry(log).or_default() += 1,
                    None => {}
                }
            }
        }
        for (key, logs) in receipts {
            if let Some(passage) = found.by_key.get(&key).and_then(|at| found.all.get_mut(*at)) {
                if !passage.is_ambiguous {
                    passage.receipts = logs;
                    passage.receipts.remove(&passage.from);
                }
            }
        }
        let all = &found.all;
        found.by_key.retain(|_, at| all.get(*at).is_some_and(|passage| !passage.receipts.is_empty()));
        Ok(found)
    }

    fn add_sending(&mut self, log: usize, key: Box<[u8]>) {
        let at = *self.by_key.entry(key).or_insert(self.all.len());
        match self.all.get_mut(at) {
            Some(passage) if passage.from == log => passage.sent += 1,
            Some(passage) => passage.is_ambiguous = true,
            None => self.all.push(Passage { from: log, sent: 1, is_ambiguous: false, receipts: FxHashMap::default() }),
        }
    }

    /// The end that the next message of a log is. Call it once for each message of the log, in order.
    pub(crate) fn end(&self, log: usize, payload: &[u8], seen: &mut FxHashMap<usize, usize>) -> Option<End> {
        if self.by_key.is_empty() {
            return None;
        }
        let (is_sending, key) = event_of(payload)?;
        let at = *self.by_key.get(&key)?;
        let passage = self.all.get(at)?;
        if is_sending {
            return (passage.from == log).then_some(End::Sent(at));
        }
        let receipts = *passage.receipts.get(&log)?;
        let number = seen.entry(at).or_default();
        *number += 1;
        let after = number.saturating_sub(receipts.saturating_sub(passage.sent));
        (after > 0).then_some(End::Received(at, after.min(passage.sent)))
    }

    /// The number of passages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether no message went from log to log.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

/// Whether a message is a sending (true) or a receipt, and its label, serial and sender.
fn event_of(payload: &[u8]) -> Option<(bool, Box<[u8]>)> {
    const HEAD: &[u8] = Kind::Seq.tag().as_bytes();
    // compressed messages and other encodings are never written by a token's tracer
    let [etf::VERSION, 104, 3 | 4, _, 9, rest @ ..] = payload else { return None };
    if !rest.starts_with(HEAD) {
        return None;
    }
    // items about the log's program may follow the term
    let Ok(Term::Tuple(parts)) = Decoder::new(payload, Limits::default()).and_then(|mut decoder| decoder.term()) else {
        return None;
    };
    let [_, label, Term::Tuple(info), ..] = &parts[..] else { return None };
    let [Term::Atom(what), serial, Term::Pid(sender) | Term::Port(sender), ..] = &info[..] else { return None };
    let is_sending = match &**what {
        "send" => true,
        "receive" => false,
        _ => return None,
    };
    let key = etf::encode(&Term::Tuple(vec![label.clone(), serial.clone(), Term::Pid(sender.clone())]));
    Some((is_sending, key.into()))
}
