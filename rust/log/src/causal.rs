//! Which messages went from one log to another, so that none is received before it was sent.
//!
//! The token messages of sequential tracing say so: a sending and a receipt belong together that have the same label, serial and
//! sender. A serial can come again, as after a reset; then the n-th receipt in a log belongs to the n-th sending. Where a log has more
//! receipts than there are sendings, some of those were lost, and it is not known which: as many receipts as are too many may
//! belong to them, and the n-th belongs to the n-th or a later one but for these. What several logs sent, whose nodes have neither
//! names nor creations to be told apart by, belongs nowhere.

use crate::{frame::Record, reader::Event, source::Source};
use inviso_term::{etf, record::Kind, term::Term};
use rustc_hash::FxHashMap;
use std::io;

/// The messages that went between logs.
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

/// The sendings of one serial, and their receipts in other logs.
#[derive(Debug)]
struct Passage {
    from: usize,
    sent: usize,
    /// Whether several logs have sendings: of nodes that can't be told apart.
    is_ambiguous: bool,
    /// How many were received in each log.
    taken: FxHashMap<usize, usize>,
}

/// An end of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The sendings of this passage.
    Sent(usize),
    /// The receipt of this passage that follows so many of its sendings.
    Taken(usize, usize),
}

/// Which receipts of a log were moved behind their sendings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// How many.
    pub receipts: u64,
    /// The farthest, in nanoseconds.
    pub most: i128,
    /// When by the merge's clock, and by how many nanoseconds: the first thousand.
    pub first: Vec<(i128, i128)>,
}

/// Receipts that [`Moved::first`] has.
const TOLD: usize = 1000;

impl Moved {
    pub(crate) fn add(&mut self, when: i128, by: i128) {
        self.receipts += 1;
        self.most = self.most.max(by);
        if self.first.len() < TOLD {
            self.first.push((when, by));
        }
    }
}

impl Passages {
    /// Reads logs whole, in the order in which they will be merged.
    ///
    /// # Errors
    /// What reading a log says.
    pub fn of(sources: Vec<Source>) -> io::Result<Passages> {
        let mut found = Passages::default();
        // sendings first: of most serials nothing was received elsewhere
        let mut taken: FxHashMap<Box<[u8]>, FxHashMap<usize, usize>> = FxHashMap::default();
        for (log, mut source) in sources.into_iter().enumerate() {
            while let Some(event) = source.read()? {
                let Event::Record { record: Record::Term(payload), .. } = event else { continue };
                match event_of(payload) {
                    Some((true, key)) => found.sent(log, key),
                    Some((false, key)) => *taken.entry(key).or_default().entry(log).or_default() += 1,
                    None => {}
                }
            }
        }
        for (key, logs) in taken {
            if let Some(passage) = found.by_key.get(&key).and_then(|at| found.all.get_mut(*at)) {
                if !passage.is_ambiguous {
                    passage.taken = logs;
                    passage.taken.remove(&passage.from);
                }
            }
        }
        let all = &found.all;
        found.by_key.retain(|_, at| all.get(*at).is_some_and(|passage| !passage.taken.is_empty()));
        Ok(found)
    }

    fn sent(&mut self, log: usize, key: Box<[u8]>) {
        let at = *self.by_key.entry(key).or_insert(self.all.len());
        match self.all.get_mut(at) {
            Some(passage) if passage.from == log => passage.sent += 1,
            Some(passage) => passage.is_ambiguous = true,
            None => self.all.push(Passage { from: log, sent: 1, is_ambiguous: false, taken: FxHashMap::default() }),
        }
    }

    /// Which end of a passage the next message of a log is, that has to be asked for each of its messages in their order.
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
        let taken = *passage.taken.get(&log)?;
        let number = seen.entry(at).or_default();
        *number += 1;
        let behind = number.saturating_sub(taken.saturating_sub(passage.sent));
        (behind > 0).then_some(End::Taken(at, behind.min(passage.sent)))
    }

    /// How many passages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether nothing went from log to log.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

/// Whether a message tells of a sending or of a receipt, and of which: its label, serial and sender.
fn event_of(payload: &[u8]) -> Option<(bool, Box<[u8]>)> {
    const HEAD: &[u8] = Kind::Seq.tag().as_bytes();
    // what is compressed, or written in another way, is none that a token's tracer writes
    let [etf::VERSION, 104, 3 | 4, _, 9, rest @ ..] = payload else { return None };
    if !rest.starts_with(HEAD) {
        return None;
    }
    let Ok(Term::Tuple(parts)) = etf::decode(payload) else { return None };
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
