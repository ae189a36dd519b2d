//! Converts records to the bytes of a format, in their order.

use crate::{
    event::{Clock, Event, What},
    places::Titles,
    tracks::Tracks,
};
use inviso_log::{about, damage::Damage, frame::Record, names::Names, reader, set::SetReader};
use inviso_term::etf;
use std::{fs::File, io, path::Path};

/// Bytes of messages that are learned from before the first is exported.
const LEARN: usize = 4 << 20;

/// A consumer of a log's records.
pub trait Take {
    /// Adds a message in the external term format.
    fn term(&mut self, bytes: &[u8]);
    /// Adds a count of lost messages.
    fn dropped(&mut self, count: u64);
    /// Adds a damage.
    fn damage(&mut self, text: &str);
}

/// A log to read.
#[derive(Debug)]
pub enum Input {
    /// One file.
    File(reader::Reader<File>),
    /// A wrap set.
    Set(SetReader),
}

impl Input {
    /// Opens a file of either form.
    ///
    /// # Errors
    /// The error of the system.
    pub fn file(path: &Path) -> io::Result<Input> {
        reader::Reader::open(path).map(Input::File)
    }

    /// Opens a wrap set.
    ///
    /// # Errors
    /// The error of the system, or `InvalidInput` for an impossible name.
    pub fn set(name: &Path, suffix: &str) -> io::Result<Input> {
        SetReader::open(Names::new(name, suffix)?, false).map(Input::Set)
    }

    /// Passes records to `take` until it has enough or the log ends. Answers whether there may be more.
    ///
    /// # Errors
    /// The error of the reader.
    pub fn read<T: Take + ?Sized>(&mut self, take: &mut T, enough: impl Fn(&T) -> bool) -> io::Result<bool> {
        while !enough(take) {
            let number = match self {
                Input::File(_) => None,
                Input::Set(set) => set.number(),
            };
            let event = match self {
                Input::File(reader) => reader.read()?,
                Input::Set(set) => set.read()?,
            };
            match event {
                Some(reader::Event::Record { record: Record::Term(bytes), .. }) => take.term(bytes),
                Some(reader::Event::Record { record: Record::Dropped(count), .. }) => take.dropped(u64::from(count)),
                Some(reader::Event::Damage(damage)) => take.damage(&damage_text(&damage, number)),
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

fn damage_text(damage: &Damage, number: Option<u64>) -> String {
    match number {
        Some(number) => format!("file {number} of the set, {damage}"),
        None => damage.to_string(),
    }
}

/// The counts of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Messages without the drop records.
    pub messages: u64,
    /// Messages that drop records count.
    pub dropped: u64,
    /// Messages without a timestamp, or with one of another clock than the first. They follow their predecessors.
    pub untimed: u64,
    /// Terms that are not trace messages. Only tables have them.
    pub unknown: u64,
    /// The number of damages.
    pub damaged: u64,
    /// The texts of the first hundred of them.
    pub damage: Vec<String>,
}

/// The largest number of texts in a summary.
const MOST_DAMAGE: usize = 100;

impl Summary {
    /// Counts a damage.
    pub fn note(&mut self, text: &str) {
        self.damaged += 1;
        if self.damage.len() < MOST_DAMAGE {
            self.damage.push(text.to_owned());
        }
    }

    /// Adds the counts of a later part.
    pub fn add(&mut self, more: Summary) {
        let Summary { messages, dropped, untimed, unknown, damaged, damage } = more;
        self.messages += messages;
        self.dropped += dropped;
        self.untimed += untimed;
        self.unknown += unknown;
        self.damaged += damaged;
        self.damage.extend(damage);
        self.damage.truncate(MOST_DAMAGE);
    }
}

/// The times of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The clock; None if no message has a timestamp. Then each message is a microsecond after its predecessor.
    pub clock: Option<Clock>,
    /// The earliest moment of the trace's beginning, in nanoseconds.
    pub first: i64,
}

/// A writer of one format. It appends its output to `out`.
pub trait Write: Send {
    /// Begins the output.
    fn begin(&mut self, tracks: Tracks, times: Times, out: &mut Vec<u8>);
    /// Adds the items after a message of this process, which comes next.
    fn about(&mut self, _of: &[u8], _items: Vec<about::Item>) {}
    /// Adds a message.
    ///
    /// # Errors
    /// The error of writing a temporary file.
    fn event(&mut self, event: &Event<'_>, at: i64, out: &mut Vec<u8>) -> io::Result<()>;
    /// Adds lost messages, or a damage if `dropped` is None.
    ///
    /// # Errors
    /// As [`Write::event`].
    fn lost(&mut self, text: &str, dropped: Option<u64>, at: i64, out: &mut Vec<u8>) -> io::Result<()>;
    /// Writes a part of the end. Answers whether it was the last part.
    ///
    /// # Errors
    /// As [`Write::event`].
    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<bool>;
}

/// The reason why bytes are not a message, in the words of the log's reader.
#[cold]
pub(crate) fn unreadable(bytes: &[u8]) -> String {
    match Record::Term(bytes).check() {
        Err(e) => e.to_string(),
        Ok(()) => "a record without a term".to_owned(),
    }
}

/// Passes on a record's items and the process that it is about.
#[inline]
pub(crate) fn learn_about(bytes: &[u8], learn: impl FnOnce(&[u8], Vec<about::Item>)) {
    let (_, items) = about::split(bytes);
    if let (false, Some(of)) = (items.is_empty(), inviso_log::nodes::tracee(bytes)) {
        learn(of, about::items(items));
    }
}

/// Passes on a term, decompressed if needed.
pub(crate) fn with_plain<T>(bytes: &[u8], see: impl FnOnce(&[u8]) -> T) -> T {
    if let [etf::VERSION, etf::tag::COMPRESSED, ..] = bytes {
        if let Ok(term) = etf::decode(bytes) {
            return see(&etf::encode(&term));
        }
    }
    see(bytes)
}

/// An export in progress.
pub struct Export {
    writer: Box<dyn Write>,
    /// The tracks for the writer's beginning.
    tracks: Option<Tracks>,
    /// Records that are learned from first.
    first: Vec<u8>,
    times: Times,
    last: i64,
    count: i64,
    error: Option<io::Error>,
    /// The counts so far.
    pub summary: Summary,
    /// Output that the caller has not taken yet.
    pub out: Vec<u8>,
}

const TERM: u8 = 0;
const DROP: u8 = 1;
const DAMAGE: u8 = 2;

impl Export {
    /// Creates an export with a writer and names of processes. `erlang`: the pids are an Erlang node's, which has no queues.
    #[must_use]
    pub fn new(writer: Box<dyn Write>, titles: Titles, erlang: bool) -> Export {
        Export {
            writer,
            tracks: Some(Tracks::new(titles, erlang)),
            first: Vec::new(),
            times: Times { clock: None, first: 0 },
            last: 0,
            count: 0,
            error: None,
            summary: Summary::default(),
            out: Vec::new(),
        }
    }

    fn keep_record(&mut self, kind: u8, bytes: &[u8]) {
        self.first.push(kind);
        self.first.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.first.extend_from_slice(bytes);
        if self.first.len() >= LEARN {
            self.begin();
        }
    }

    /// Learns from the kept records and exports them.
    fn begin(&mut self) {
        let Some(mut tracks) = self.tracks.take() else { return };
        let first = std::mem::take(&mut self.first);
        for (kind, bytes) in kept_records(&first) {
            if kind != TERM {
                continue;
            }
            learn_about(bytes, |of, items| tracks.about(of, items));
            with_plain(bytes, |bytes| {
                let Some(event) = Event::parse(bytes) else { return };
                if let Some(stamp) = event.stamp {
                    match self.times.clock {
                        None => self.times = Times { clock: Some(stamp.clock), first: stamp.at },
                        Some(clock) if clock == stamp.clock => self.times.first = self.times.first.min(stamp.at),
                        Some(_) => {}
                    }
                }
                if let What::Trace(trace) = event.what {
                    tracks.learn(&trace);
                }
            });
        }
        tracks.finish_learning();
        self.last = self.times.first;
        self.writer.begin(tracks, self.times, &mut self.out);
        for (kind, bytes) in kept_records(&first) {
            match kind {
                TERM => self.put(bytes),
                DROP => self.put_dropped(u64::from_le_bytes(bytes.try_into().unwrap_or_default())),
                _ => self.put_damage(&String::from_utf8_lossy(bytes)),
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        with_plain(bytes, |bytes| {
            let Some(event) = Event::parse(bytes) else {
                return self.put_damage(&unreadable(bytes));
            };
            if let What::Dropped(count) = event.what {
                return self.put_dropped(count);
            }
            self.summary.messages += 1;
            self.count += 1;
            if let What::Term(_) = event.what {
                self.summary.unknown += 1;
                return;
            }
            let at = match (event.stamp, self.times.clock) {
                (Some(stamp), Some(clock)) if stamp.clock == clock => stamp.at,
                (_, None) => {
                    self.summary.untimed += 1;
                    self.count * 1000
                }
                _ => {
                    self.summary.untimed += 1;
                    self.last
                }
            };
            self.last = at;
            let done = self.writer.event(&event, at, &mut self.out);
            self.note_error(done.err());
        });
    }

    fn put_dropped(&mut self, count: u64) {
        self.summary.dropped += count;
        let text = format!("{count} message{} dropped", if count == 1 { "" } else { "s" });
        let done = self.writer.lost(&text, Some(count), self.last, &mut self.out);
        self.note_error(done.err());
    }

    fn put_damage(&mut self, text: &str) {
        self.summary.note(text);
        let done = self.writer.lost(&format!("damage: {text}"), None, self.last, &mut self.out);
        self.note_error(done.err());
    }

    fn note_error(&mut self, error: Option<io::Error>) {
        if self.error.is_none() {
            self.error = error;
        }
    }

    /// The first error.
    ///
    /// # Errors
    /// That error.
    pub fn check(&mut self) -> io::Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Writes a part of the end to [`Export::out`]. Answers whether it was the last part.
    ///
    /// # Errors
    /// The first error so far.
    pub fn end(&mut self) -> io::Result<bool> {
        self.begin();
        self.check()?;
        self.writer.end(&mut self.out)
    }
}

impl Take for Export {
    fn term(&mut self, bytes: &[u8]) {
        match self.tracks {
            Some(_) => self.keep_record(TERM, bytes),
            None => {
                learn_about(bytes, |of, items| self.writer.about(of, items));
                self.put(bytes);
            }
        }
    }

    fn dropped(&mut self, count: u64) {
        match self.tracks {
            Some(_) => self.keep_record(DROP, &count.to_le_bytes()),
            None => self.put_dropped(count),
        }
    }

    fn damage(&mut self, text: &str) {
        match self.tracks {
            Some(_) => self.keep_record(DAMAGE, text.as_bytes()),
            None => self.put_damage(text),
        }
    }
}

fn kept_records(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<9>()?;
        let length = u64::from_le_bytes(*head.last_chunk()?) as usize;
        let (record, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        Some((head[0], record))
    })
}
