//! From records to the bytes of a format, as they come.

use crate::{
    event::{Clock, Event, What},
    places::Titles,
    tracks::Tracks,
};
use inviso_log::{about, damage::Damage, frame::Record, names::Names, reader, set::SetReader};
use inviso_term::etf;
use std::{fs::File, io, path::Path};

/// Bytes of messages that are looked at before the first is exported.
const LEARN: usize = 4 << 20;

/// Something that takes the records of a log.
pub trait Take {
    /// A message in the external term format.
    fn term(&mut self, bytes: &[u8]);
    /// So many messages were lost here.
    fn dropped(&mut self, count: u64);
    /// This could not be read.
    fn damage(&mut self, text: &str);
}

/// A log that is read.
#[derive(Debug)]
pub enum Input {
    /// One file.
    File(reader::Reader<File>),
    /// A wrap set.
    Set(SetReader),
}

impl Input {
    /// A file, in either form.
    ///
    /// # Errors
    /// What the system says.
    pub fn file(path: &Path) -> io::Result<Input> {
        reader::Reader::open(path).map(Input::File)
    }

    /// A wrap set.
    ///
    /// # Errors
    /// What the system says, or `InvalidInput` for a name that none can have.
    pub fn set(name: &Path, suffix: &str) -> io::Result<Input> {
        SetReader::open(Names::new(name, suffix)?, false).map(Input::Set)
    }

    /// Gives records to `take` until that has enough or there are no more; whether there may be more.
    ///
    /// # Errors
    /// What reading says.
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
                Some(reader::Event::Damage(damage)) => take.damage(&told(&damage, number)),
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

fn told(damage: &Damage, number: Option<u64>) -> String {
    match number {
        Some(number) => format!("file {number} of the set, {damage}"),
        None => damage.to_string(),
    }
}

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Messages, drop records not among them.
    pub messages: u64,
    /// Messages that were lost, as drop records tell.
    pub dropped: u64,
    /// Messages without a time stamp, or with one of another clock than the first that has one. They are put behind what came before them.
    pub untimed: u64,
    /// Terms that are no trace messages. They are left out, but of tables.
    pub unknown: u64,
    /// What could not be read: how much, and the first hundred.
    pub damaged: u64,
    /// What the first of it was.
    pub damage: Vec<String>,
}

/// How much damage a summary has in words.
const MOST_DAMAGE: usize = 100;

impl Summary {
    /// Counts damage.
    pub fn note(&mut self, text: &str) {
        self.damaged += 1;
        if self.damage.len() < MOST_DAMAGE {
            self.damage.push(text.to_owned());
        }
    }

    /// Counts what was exported behind it, too.
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

/// What a trace's times are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The clock; None if no message has a stamp. A message is a microsecond behind the one before it then.
    pub clock: Option<Clock>,
    /// The earliest moment of the beginning of the trace, in nanoseconds.
    pub first: i64,
}

/// Writes one format. What is to be written is added to `out`.
pub trait Write: Send {
    /// The beginning.
    fn begin(&mut self, tracks: Tracks, times: Times, out: &mut Vec<u8>);
    /// What a program has written of itself behind a message about this process of it, which comes next.
    fn about(&mut self, _of: &[u8], _items: Vec<about::Item>) {}
    /// A message.
    ///
    /// # Errors
    /// What writing to a temporary file says.
    fn event(&mut self, event: &Event<'_>, at: i64, out: &mut Vec<u8>) -> io::Result<()>;
    /// Lost messages, or damage where `dropped` is None.
    ///
    /// # Errors
    /// As [`Write::event`].
    fn lost(&mut self, text: &str, dropped: Option<u64>, at: i64, out: &mut Vec<u8>) -> io::Result<()>;
    /// A part of the end; whether that was all.
    ///
    /// # Errors
    /// As [`Write::event`].
    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<bool>;
}

/// Why bytes are no message, in the words of who reads logs.
#[cold]
pub(crate) fn unread(bytes: &[u8]) -> String {
    match Record::Term(bytes).check() {
        Err(e) => e.to_string(),
        Ok(()) => "a record without a term".to_owned(),
    }
}

/// What a record has behind its term, and the process that it is about.
#[inline]
pub(crate) fn learn_about(bytes: &[u8], learn: impl FnOnce(&[u8], Vec<about::Item>)) {
    let (_, behind) = about::split(bytes);
    if let (false, Some(of)) = (behind.is_empty(), inviso_log::nodes::tracee(bytes)) {
        learn(of, about::items(behind));
    }
}

/// A term that is looked at, inflated if it has to be.
pub(crate) fn with_plain<T>(bytes: &[u8], see: impl FnOnce(&[u8]) -> T) -> T {
    const COMPRESSED: u8 = 80;
    if let [etf::VERSION, COMPRESSED, ..] = bytes {
        if let Ok(term) = etf::decode(bytes) {
            return see(&etf::encode(&term));
        }
    }
    see(bytes)
}

/// An export in the making.
pub struct Export {
    writer: Box<dyn Write>,
    /// What the writer gets at its beginning.
    tracks: Option<Tracks>,
    /// Records that are looked at first.
    first: Vec<u8>,
    times: Times,
    last: i64,
    count: i64,
    error: Option<io::Error>,
    /// What was exported.
    pub summary: Summary,
    /// What was written and not yet taken.
    pub out: Vec<u8>,
}

const TERM: u8 = 0;
const DROP: u8 = 1;
const DAMAGE: u8 = 2;

impl Export {
    /// With a writer, and names of processes. `erlang`: they are an Erlang node's, none of which is a queue.
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

    fn keep(&mut self, kind: u8, bytes: &[u8]) {
        self.first.push(kind);
        self.first.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.first.extend_from_slice(bytes);
        if self.first.len() >= LEARN {
            self.begin();
        }
    }

    /// What was kept is looked at, and then exported.
    fn begin(&mut self) {
        let Some(mut tracks) = self.tracks.take() else { return };
        let first = std::mem::take(&mut self.first);
        for (kind, bytes) in kept(&first) {
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
        tracks.learned();
        self.last = self.times.first;
        self.writer.begin(tracks, self.times, &mut self.out);
        for (kind, bytes) in kept(&first) {
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
                return self.put_damage(&unread(bytes));
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
            self.failed(done.err());
        });
    }

    fn put_dropped(&mut self, count: u64) {
        self.summary.dropped += count;
        let text = format!("{count} message{} dropped", if count == 1 { "" } else { "s" });
        let done = self.writer.lost(&text, Some(count), self.last, &mut self.out);
        self.failed(done.err());
    }

    fn put_damage(&mut self, text: &str) {
        self.summary.note(text);
        let done = self.writer.lost(&format!("damage: {text}"), None, self.last, &mut self.out);
        self.failed(done.err());
    }

    fn failed(&mut self, error: Option<io::Error>) {
        if self.error.is_none() {
            self.error = error;
        }
    }

    /// The first thing that went wrong.
    ///
    /// # Errors
    /// That.
    pub fn check(&mut self) -> io::Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// A part of the end, in [`Export::out`]; whether that was all.
    ///
    /// # Errors
    /// What went wrong until now.
    pub fn end(&mut self) -> io::Result<bool> {
        self.begin();
        self.check()?;
        self.writer.end(&mut self.out)
    }
}

impl Take for Export {
    fn term(&mut self, bytes: &[u8]) {
        match self.tracks {
            Some(_) => self.keep(TERM, bytes),
            None => {
                learn_about(bytes, |of, items| self.writer.about(of, items));
                self.put(bytes);
            }
        }
    }

    fn dropped(&mut self, count: u64) {
        match self.tracks {
            Some(_) => self.keep(DROP, &count.to_le_bytes()),
            None => self.put_dropped(count),
        }
    }

    fn damage(&mut self, text: &str) {
        match self.tracks {
            Some(_) => self.keep(DAMAGE, text.as_bytes()),
            None => self.put_damage(text),
        }
    }
}

fn kept(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<9>()?;
        let length = u64::from_le_bytes(*head.last_chunk()?) as usize;
        let (record, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        Some((head[0], record))
    })
}
