//! Counts of a log: messages by tag, calls by function, messages by process, and the time range.

use crate::scan::Bytes;
use inviso_log::{
    frame::Record,
    stamp::{self, Clock, Stamp},
};
use inviso_term::{
    etf::{self, tag, DecodeError},
    record::{self, Kind},
    term::Term,
};
use num_traits::ToPrimitive;
use rustc_hash::FxHashMap;

const TRACE: &[u8] = record::TRACE.as_bytes();
const TRACE_TS: &[u8] = record::TRACE_TS.as_bytes();
const SEQ_TRACE: &[u8] = Kind::Seq.tag().as_bytes();

/// Counts of a log.
///
/// ```
/// use inviso_export::counts::Counts;
/// use inviso_term::{etf, term::{Identifier, Term}};
/// let mfa = Term::Tuple(vec![Term::atom("m"), Term::atom("f"), Term::List(vec![Term::from(7)])]);
/// let parts = vec![Term::atom("trace"), Term::Pid(Identifier::own(4)), Term::atom("call"), mfa];
/// let mut counts = Counts::default();
/// counts.message(&etf::encode_versioned(&Term::Tuple(parts))).unwrap();
/// assert_eq!(counts.messages, 1);
/// assert_eq!(counts.functions(), [(("m".to_owned(), "f".to_owned(), 1), 1)]);
/// ```
#[derive(Debug, Default)]
pub struct Counts {
    /// All messages.
    pub messages: u64,
    /// Messages that are not trace messages.
    pub other: u64,
    /// Messages about tokens.
    pub seq: u64,
    /// The smallest and the largest timestamp of the first one's clock.
    pub times: Option<(Stamp, Stamp)>,
    tags: Tally,
    functions: Tally,
    processes: Tally,
    /// A buffer for the key of a function: its bytes and arity.
    key: Vec<u8>,
}

/// Counts of keys. Recent keys are looked up first.
#[derive(Debug, Default)]
struct Tally {
    numbers: FxHashMap<Box<[u8]>, u32>,
    counts: Vec<(Box<[u8]>, u64)>,
    /// The numbers of recent keys, by a few of their bytes.
    recent: Vec<u32>,
}

/// How many recent keys are found without the table.
const RECENT: usize = 64;

impl Tally {
    #[inline]
    fn add(&mut self, key: &[u8]) {
        let at = place(key);
        if let Some((known, count)) = self.recent.get(at).and_then(|number| self.counts.get_mut(*number as usize)) {
            if **known == *key {
                *count += 1;
                return;
            }
        }
        self.look_up(key, at);
    }

    fn look_up(&mut self, key: &[u8], at: usize) {
        let number = match self.numbers.get(key) {
            Some(number) => *number,
            None => {
                let number = self.counts.len() as u32;
                self.numbers.insert(key.into(), number);
                self.counts.push((key.into(), 0));
                number
            }
        };
        if self.recent.is_empty() {
            self.recent.resize(RECENT, u32::MAX);
        }
        if let Some(recent) = self.recent.get_mut(at) {
            *recent = number;
        }
        if let Some((_, count)) = self.counts.get_mut(number as usize) {
            *count += 1;
        }
    }
}

/// The slot of a key among the recent ones.
#[inline]
fn place(key: &[u8]) -> usize {
    // names and pids differ near their ends
    let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight));
    let (n, half) = (key.len(), key.len() / 2);
    let last = word(key.get(n.saturating_sub(8)..).unwrap_or_default());
    let before = word(key.get(n.saturating_sub(16)..).unwrap_or_default());
    let middle = word(key.get(half..).unwrap_or_default());
    let mixed = (last ^ before.rotate_left(23) ^ middle.rotate_left(41) ^ n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as usize
}

const _: () = assert!(RECENT == 1 << (64 - 58));

impl Counts {
    /// Counts a message.
    ///
    /// # Errors
    /// The payload is not a term. Then it was not counted.
    #[inline]
    pub fn message(&mut self, payload: &[u8]) -> Result<(), DecodeError> {
        match self.usual(payload) {
            Some(()) => Ok(()),
            None => self.unusual(payload),
        }
    }

    /// Counts a message with the usual parts. None for any other message, which is not counted.
    #[inline]
    fn usual(&mut self, payload: &[u8]) -> Option<()> {
        let term = payload.strip_prefix(&[etf::VERSION])?;
        let &[tag::SMALL_TUPLE, n, tag::SMALL_ATOM_UTF8, length, ref rest @ ..] = term else {
            return self.other(term, 1);
        };
        let (head, rest) = rest.split_at_checked(length.into())?;
        let n = usize::from(n);
        let is_timed = head == TRACE_TS;
        if !(is_timed || head == TRACE) || n < 3 {
            return if head == SEQ_TRACE && n > 2 { self.seq(rest, n - 1) } else { self.other(term, 1) };
        }
        let tracee = process(rest)?;
        let after = rest.get(tracee.len()..)?;
        let &[tag::SMALL_ATOM_UTF8, length, ref after @ ..] = after else { return None };
        let (tag, rest) = after.split_at_checked(length.into())?;
        if !tag.is_ascii() || !ascii_of(tracee) {
            return None;
        }
        // true, false and undefined are not text
        if matches!(tag, b"true" | b"false" | b"undefined") {
            return None;
        }
        let left = n - 3;
        let time = match left.checked_sub(1).filter(|_| is_timed) {
            Some(left) => {
                let last = rest.get(etf::plain(rest, left)?..)?;
                etf::plain(last, 1)?;
                stamp::begins(last)
            }
            // a message without a time: its tag is in the time's place
            None => {
                etf::plain(rest, left)?;
                None
            }
        };
        self.messages += 1;
        self.tags.add(tag);
        self.processes.add(tracee);
        if tag == b"call" && left > 0 {
            self.call(rest);
        }
        self.time(time);
        Some(())
    }

    fn other(&mut self, term: &[u8], n: usize) -> Option<()> {
        etf::plain(term, n)?;
        self.messages += 1;
        self.other += 1;
        Some(())
    }

    fn seq(&mut self, rest: &[u8], n: usize) -> Option<()> {
        let last = rest.get(etf::plain(rest, n - 1)?..)?;
        etf::plain(last, 1)?;
        self.messages += 1;
        self.seq += 1;
        self.time(if n > 2 { stamp::begins(last) } else { None });
        Some(())
    }

    /// Counts the function `{M, F, Args}` or `{M, F, Arity}` at the beginning of `bytes`.
    #[inline]
    fn call(&mut self, bytes: &[u8]) {
        self.key.clear();
        if function(bytes, &mut self.key).is_some() {
            self.functions.add(&self.key);
        }
    }

    #[inline]
    fn time(&mut self, time: Option<Stamp>) {
        let Some(stamp) = time else { return };
        match &mut self.times {
            None => self.times = Some((stamp, stamp)),
            Some((first, last)) if first.clock == stamp.clock => {
                if stamp < *first {
                    *first = stamp;
                }
                if stamp > *last {
                    *last = stamp;
                }
            }
            Some(_) => {}
        }
    }

    /// Counts a message with any parts.
    #[cold]
    fn unusual(&mut self, payload: &[u8]) -> Result<(), DecodeError> {
        let record = Record::Term(payload);
        record.check()?;
        let Ok(Term::Tuple(parts)) = record.message() else {
            self.messages += 1;
            self.other += 1;
            return Ok(());
        };
        self.messages += 1;
        let text = |term: &Term| match term {
            Term::Atom(name) if !matches!(&**name, "true" | "false" | "undefined") => Some(name.to_string()),
            Term::Str(text) => Some(text.to_string()),
            _ => None,
        };
        let head = parts.first().and_then(text).unwrap_or_default();
        let rest = parts.get(3..).unwrap_or_default();
        match (&*head, parts.get(1), parts.get(2).and_then(text)) {
            ("trace" | "trace_ts", Some(tracee @ (Term::Pid(_) | Term::Port(_))), Some(tag)) => {
                self.tags.add(tag.as_bytes());
                self.processes.add(&etf::encode(tracee));
                if let ("call", Some(Term::Tuple(mfa))) = (&*tag, rest.first()) {
                    let arity = mfa.get(2).and_then(|last| match last {
                        Term::Int(n) => n.to_u32(),
                        Term::List(arguments) => u32::try_from(arguments.len()).ok(),
                        _ => None,
                    });
                    if let ([module, function, _], Some(arity)) = (&mfa[..], arity) {
                        if let (Some(module), Some(function)) = (text(module), text(function)) {
                            self.key.clear();
                            put_key(module.as_bytes(), function.as_bytes(), arity, &mut self.key);
                            self.functions.add(&self.key);
                        }
                    }
                }
                let time = if head == "trace_ts" { parts.last().and_then(stamp::of_term) } else { None };
                self.time(time);
            }
            ("seq_trace", ..) if parts.len() > 2 => {
                self.seq += 1;
                self.time(rest.last().and_then(stamp::of_term));
            }
            _ => self.other += 1,
        }
        Ok(())
    }

    /// The number of messages for each tag, in the order of their first messages.
    #[must_use]
    pub fn tags(&self) -> Vec<(String, u64)> {
        let tags = self.tags.counts.iter();
        tags.map(|(tag, count)| (String::from_utf8_lossy(tag).into_owned(), *count)).collect()
    }

    /// The number of calls of each function.
    #[must_use]
    pub fn functions(&self) -> Vec<((String, String, u32), u64)> {
        let named = |(key, count): &(Box<[u8]>, u64)| {
            let (names, arity) = key.split_last_chunk()?;
            let (length, names) = names.split_first_chunk()?;
            let (module, function) = names.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Some(((text(module), text(function), u32::from_le_bytes(*arity)), *count))
        };
        self.functions.counts.iter().filter_map(named).collect()
    }

    /// The number of messages of each process or port (a term).
    #[must_use]
    pub fn processes(&self) -> Vec<(Bytes<'_>, u64)> {
        self.processes.counts.iter().map(|(process, count)| (&**process, *count)).collect()
    }

    /// The clock of the timestamps.
    #[must_use]
    pub fn clock(&self) -> Option<Clock> {
        self.times.map(|(first, _)| first.clock)
    }
}

/// The pid or port at the beginning of `bytes`, in today's encoding.
#[inline]
fn process(bytes: &[u8]) -> Option<&[u8]> {
    match *bytes {
        [88 | 120, tag::SMALL_ATOM_UTF8, length, ..] => bytes.get(..3 + usize::from(length) + 12),
        _ => None,
    }
}

#[inline]
fn ascii_of(process: &[u8]) -> bool {
    process.get(3..process.len().saturating_sub(12)).is_some_and(<[u8]>::is_ascii)
}

/// Appends the key of the function at the beginning of `bytes`.
#[inline]
fn function(bytes: &[u8], key: &mut Vec<u8>) -> Option<()> {
    let rest = bytes.strip_prefix(&[tag::SMALL_TUPLE, 3])?;
    let (module, rest) = name(rest)?;
    let (function, rest) = name(rest)?;
    let arity = match *rest {
        [97, arity, ..] => u32::from(arity),
        [98, a, b, c, d, ..] => u32::try_from(i32::from_be_bytes([a, b, c, d])).ok()?,
        [106, ..] => 0,
        [107, a, b, ..] => u32::from(u16::from_be_bytes([a, b])),
        // a proper list
        [108, a, b, c, d, ref rest @ ..] => {
            let n = u32::from_be_bytes([a, b, c, d]);
            let end = etf::plain(rest, n as usize)?;
            (rest.get(end) == Some(&106)).then_some(n)?
        }
        _ => return None,
    };
    put_key(module, function, arity, key);
    Some(())
}

/// Appends the key of a function: the length of the module's name, both names, the arity.
#[inline]
fn put_key(module: &[u8], function: &[u8], arity: u32, key: &mut Vec<u8>) {
    key.extend_from_slice(&(module.len() as u32).to_le_bytes());
    key.extend_from_slice(module);
    key.extend_from_slice(function);
    key.extend_from_slice(&arity.to_le_bytes());
}

/// The name (an atom or text) at the beginning of `bytes`, and the bytes after it.
#[inline]
fn name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = match *bytes {
        [tag::SMALL_ATOM_UTF8, length, ref rest @ ..] => (usize::from(length), rest),
        [118, a, b, ref rest @ ..] => (usize::from(u16::from_be_bytes([a, b])), rest),
        [109, a, b, c, d, ref rest @ ..] => (u32::from_be_bytes([a, b, c, d]) as usize, rest),
        _ => return None,
    };
    let (name, rest) = rest.split_at_checked(length)?;
    if bytes.first() != Some(&109) && matches!(name, b"true" | b"false" | b"undefined") {
        return None;
    }
    Some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use inviso_term::term::Identifier;

    fn messages() -> Vec<Term> {
        let (pid, port) = (Term::Pid(Identifier::own(5)), Term::Port(Identifier::new(1 << 40, "a@b", 2)));
        let of = |last: Term| Term::Tuple(vec![Term::atom("m"), Term::atom("f"), last]);
        let functions = [
            of(Term::from(2)),
            of(Term::from(300)),
            of(Term::List(vec![])),
            of(Term::List(vec![Term::from(1), Term::str("a")])),
            of(Term::List(vec![Term::Fun("m".into(), "f".into(), 1), Term::Ref(Identifier::own(3))])),
            of(Term::from(-1)),
            of(Term::ImproperList(vec![Term::from(1)], Box::new(Term::from(2)))),
            of(Term::atom("x")),
            Term::Tuple(vec![Term::str("m"), Term::atom("g"), Term::from(1)]),
            Term::Tuple(vec![Term::atom("true"), Term::atom("g"), Term::from(1)]),
            Term::Tuple(vec![Term::atom("é"), Term::atom("g"), Term::from(1)]),
            Term::atom("nothing"),
        ];
        let stamps = [
            Term::from(7),
            Term::from(-7),
            Term::Tuple(vec![Term::from(1), Term::from(2), Term::from(3)]),
            Term::str("x"),
        ];
        let mut all = vec![Term::Tuple(vec![]), Term::from(1), Term::Tuple(vec![Term::atom("drop"), Term::from(3)])];
        for head in ["trace", "trace_ts", "seq_trace", "other"] {
            for tracee in [&pid, &port, &Term::atom("nobody")] {
                for tag in [Term::atom("call"), Term::atom("é"), Term::str("text"), Term::from(1), Term::atom("true")]
                {
                    let begin = vec![Term::atom(head), tracee.clone(), tag];
                    all.push(Term::Tuple(begin.clone()));
                    for mfa in &functions {
                        all.push(Term::Tuple([&begin[..], std::slice::from_ref(mfa)].concat()));
                        for stamp in &stamps {
                            all.push(Term::Tuple([&begin[..], &[mfa.clone(), stamp.clone()]].concat()));
                        }
                    }
                }
            }
        }
        all
    }

    #[test]
    fn the_fast_path_counts_the_same_as_the_decoder() {
        for message in messages() {
            let bytes = etf::encode_versioned(&message);
            let (mut quick, mut long) = (Counts::default(), Counts::default());
            quick.message(&bytes).unwrap();
            long.unusual(&bytes).unwrap();
            let all = |counts: &Counts| {
                let processes: Vec<_> = counts.processes().into_iter().map(|(p, n)| (p.to_vec(), n)).collect();
                (counts.messages, counts.other, counts.seq, counts.times, counts.tags(), counts.functions(), processes)
            };
            assert_eq!(all(&quick), all(&long), "{message}");
            for length in 1..bytes.len() {
                let cut = bytes.get(..length).unwrap_or_default();
                assert_eq!(quick.message(cut).is_err(), Record::Term(cut).check().is_err(), "{message}");
            }
        }
    }

    #[test]
    fn colliding_keys_are_distinguished() {
        let mut tally = Tally::default();
        for turn in 0..3 {
            for n in 0..1000_u32 {
                tally.add(&n.to_be_bytes());
            }
            assert!(tally.counts.iter().all(|(_, count)| *count == turn + 1));
        }
        assert_eq!(tally.counts.len(), 1000);
    }
}
