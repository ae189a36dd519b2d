//! Logs: reading them into Python objects, and writing them as other logs.
//!
//! A batch of records is read and copied detached, then made into objects attached. A reader makes the parts that many
//! messages have in common only once ([`Cache`]).
//!
//! # Roles
//! One thread at a time reads from a reader; any thread may close it.
//!
//! # States
//! A reader is open, then closed (`closed`), for ever.
//!
//! # Orderings
//! The mutex orders the state. `closed` is stored `Release` before the mutex is tried: a thread that finds the mutex
//! taken and `closed` set reports the end.
//!
//! # Checked by
//! `tests/python/test_log.py`.

use super::etf::{self, Cache, Cached};
use crate::convert::{errors::of_system, terms};
use inviso_cpython::interpreter::calling::call;
use inviso_log::{
    causal::Passages,
    damage::{Damage, What},
    file::{FileLog, Form, Options},
    frame::{Record, HEADER},
    merge::{Merge, Order},
    names::Names,
    reader::Event,
    shift::Shift,
    sink::Sink,
    source::Source,
    stamp::Stamp,
};
use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyList};
use std::{
    io::{self, ErrorKind},
    net::{TcpStream, ToSocketAddrs},
    ops::Range,
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, Ordering},
        Mutex, TryLockError,
    },
    time::Duration,
};

/// Bytes of records in a batch, about.
const BATCH: usize = 1 << 20;

/// Bytes of records in a block that is written. A reader of the block holds as many.
pub const BLOCK: usize = 1 << 19;

/// How long one wait for a stream lasts.
const LOOK: Duration = Duration::from_millis(50);

/// Records that are written before signals are checked.
const STEP: usize = 1 << 16;

/// The most damage that is reported one by one; the rest is counted.
pub const TOLD: usize = 1000;

/// A log as Python names it: a path, and the suffix if it is a wrap set.
pub type Named = (PathBuf, Option<String>);

/// Damage for Python: its place, its kind, its description, its file.
pub type Told = (u64, String, String, Option<PathBuf>);

/// One log or several.
pub enum Logs {
    /// One after the other. Followed logs are read in turn, beginning with the one of this number.
    Chain(Vec<Source>, usize),
    /// In the order of time.
    Merged(Box<Merge>),
}

/// A record that was read and is not an object yet.
enum LogItem {
    /// The place where it began, its payload, and the number of its file.
    Term(u64, Range<usize>, usize),
    Dropped(u32),
    Damage(Box<Told>),
}

/// The result of reading one record.
pub enum Read {
    /// A record or damage.
    Some,
    /// There is no record, for now or for ever.
    None,
}

struct ReadState {
    from: Logs,
    follow: bool,
    /// The payloads of [`ReadState::items`].
    payloads: Vec<u8>,
    items: Vec<LogItem>,
    /// The files of the items.
    files: Vec<Option<PathBuf>>,
    /// The place of the last file.
    place: Option<(usize, u64)>,
    /// An error that came after the items.
    failed: Option<io::Error>,
    bytes: u64,
    cache: Cache,
}

/// Reads records in batches, of one log or several.
#[pyclass(frozen, module = "inviso._native.log")]
pub struct LogReader {
    state: Mutex<ReadState>,
    closed: AtomicBool,
    drop: Py<PyAny>,
    damage: Py<PyAny>,
}

fn open((path, suffix): &Named, follow: bool) -> io::Result<Source> {
    match suffix {
        None => Source::open(path, follow),
        Some(suffix) => Source::open_set(Names::new(path, suffix)?, follow),
    }
}

/// Opens logs of files each, or of one wrap set.
fn sources(logs: Vec<Vec<Named>>, follow: bool) -> PyResult<Vec<Source>> {
    let one = |mut files: Vec<Named>| {
        let first = files.first().map(|(path, _)| path.clone());
        let source = match (files.pop(), files.is_empty()) {
            (Some(file), true) => open(&file, follow),
            (last, _) => Source::files(files.into_iter().chain(last).map(|(path, _)| path).collect()),
        };
        source.map_err(|error| of_system(&error, first.as_deref()))
    };
    logs.into_iter().map(one).collect()
}

/// Whether the error says that there is nothing for now.
fn is_pause(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl Logs {
    /// Opens logs of files each, or of one wrap set: in an order, with their clocks shifted, or one after the other.
    ///
    /// # Errors
    /// The system's error.
    pub fn of(logs: Vec<Vec<Named>>, follow: bool, order: Option<Order>, shifts: Vec<Shift>) -> PyResult<Logs> {
        let sources = sources(logs, follow)?;
        Ok(match order {
            Some(order) => Logs::Merged(Box::new(Merge::ordered(sources, order).shifted(shifts))),
            None => Logs::Chain(sources, 0),
        })
    }

    /// Opens logs in causal order, which reads them twice.
    ///
    /// # Errors
    /// The system's error.
    pub fn causal(logs: Vec<Vec<Named>>, shifts: Vec<Shift>) -> PyResult<Logs> {
        let passages = Passages::of(sources(logs.clone(), false)?).map_err(|error| of_system(&error, None))?;
        let merge = Merge::new(sources(logs, false)?).shifted(shifts).causal(passages);
        Ok(Logs::Merged(Box::new(merge)))
    }

    /// Opens logs.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(logs: Vec<Named>, follow: bool, merge: bool) -> PyResult<Logs> {
        let open = |log: Named| open(&log, follow).map_err(|error| of_system(&error, Some(&log.0)));
        let sources = logs.into_iter().map(open).collect::<PyResult<Vec<_>>>()?;
        Ok(if merge { Logs::Merged(Box::new(Merge::new(sources))) } else { Logs::Chain(sources, 0) })
    }

    /// Passes on the next record or damage.
    fn read(&mut self, follow: bool, mut take: impl FnMut(Event<'_>)) -> io::Result<Read> {
        self.read_stamped(follow, |_, event, _| take(event))
    }

    /// The same, with the number of its log and, if there is an order, with its time stamp, as the log has it.
    ///
    /// # Errors
    /// The error of reading.
    #[inline]
    pub fn read_stamped(
        &mut self, follow: bool, mut take: impl FnMut(usize, Event<'_>, Option<Stamp>),
    ) -> io::Result<Read> {
        match self {
            Logs::Merged(merge) => {
                let Some((log, event, stamps)) = merge.read_stamped()? else { return Ok(Read::None) };
                take(log, event, stamps.own);
                Ok(Read::Some)
            }
            Logs::Chain(sources, at) => {
                for _ in 0..sources.len() {
                    let Some(source) = sources.get_mut(*at) else { return Ok(Read::None) };
                    if let Some(event) = source.read()? {
                        take(*at, event, None);
                        return Ok(Read::Some);
                    }
                    *at += 1;
                    if follow && *at == sources.len() {
                        *at = 0;
                    }
                }
                Ok(Read::None)
            }
        }
    }

    /// Whether the next record is there without a read.
    fn is_ready(&self) -> bool {
        match self {
            Logs::Merged(_) => false,
            Logs::Chain(sources, at) => sources.get(*at).is_some_and(Source::is_ready),
        }
    }

    /// Whether reading may wait.
    fn waits(&self) -> bool {
        matches!(self, Logs::Chain(sources, _) if sources.iter().any(Source::is_stream))
    }

    /// The key of the current file: the log, and the number of the file in its set.
    fn place(&self) -> (usize, u64) {
        match self {
            Logs::Merged(merge) => merge.last().map_or((0, 0), |log| (log, merge.number(log).unwrap_or(0))),
            Logs::Chain(sources, at) => (*at, sources.get(*at).and_then(Source::number).unwrap_or(0)),
        }
    }

    /// The file of the last record.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Logs::Merged(merge) => merge.last().and_then(|log| merge.path(log)),
            Logs::Chain(sources, at) => sources.get(*at).and_then(Source::path),
        }
    }
}

impl ReadState {
    /// Reads up to `n` records; returns whether there may be more.
    fn fill(&mut self, n: usize) -> io::Result<bool> {
        self.payloads.clear();
        self.items.clear();
        self.files.clear();
        self.place = None;
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        let waits = self.from.waits();
        while self.items.len() < n && self.payloads.len() < BATCH {
            if waits && !self.items.is_empty() && !self.from.is_ready() {
                return Ok(true);
            }
            let mut damage = None;
            let (items, payloads, bytes) = (&mut self.items, &mut self.payloads, &mut self.bytes);
            let read = self.from.read(self.follow, |event| match event {
                Event::Record { at, record: Record::Term(payload) } => {
                    let from = payloads.len();
                    payloads.extend_from_slice(payload);
                    *bytes += (HEADER + payload.len()) as u64;
                    items.push(LogItem::Term(at, from..payloads.len(), 0));
                }
                Event::Record { record: Record::Dropped(n), .. } => {
                    *bytes += HEADER as u64;
                    items.push(LogItem::Dropped(n));
                }
                Event::Damage(found) => damage = Some(found),
            });
            match read {
                Ok(Read::Some) => {}
                Ok(Read::None) => return Ok(self.follow),
                Err(e) if is_pause(&e) => return Ok(true),
                Err(e) if self.items.is_empty() => return Err(e),
                Err(e) => {
                    self.failed = Some(e);
                    return Ok(true);
                }
            }
            let place = self.from.place();
            if self.place != Some(place) {
                self.place = Some(place);
                self.files.push(self.from.path());
            }
            if let (None, Some(LogItem::Term(_, _, file))) = (damage, self.items.last_mut()) {
                *file = self.files.len() - 1;
            }
            if let Some(found) = damage {
                let told = (found.at, found.what.name().to_owned(), found.what.to_string(), self.from.path());
                self.items.push(LogItem::Damage(Box::new(told)));
            }
        }
        Ok(true)
    }
}

#[pymethods]
impl LogReader {
    /// Opens logs, each `(path, None)` or `(path, suffix)` of a wrap set, to read them one after the other, or merged.
    /// `drop` makes an object of a drop record's number, `damage` of `(at, kind, what, path)`.
    #[new]
    fn new(
        py: Python<'_>, logs: Vec<Named>, follow: bool, merge: bool, drop: Py<PyAny>, damage: Py<PyAny>,
    ) -> PyResult<LogReader> {
        let from = py.detach(|| Logs::open(logs, follow, merge))?;
        Ok(LogReader::of(from, follow, drop, damage))
    }

    /// Up to `n` messages, or the objects in their place; an empty list if there are none for now, None at the end.
    fn batch(&self, py: Python<'_>, n: usize) -> PyResult<Option<Py<PyList>>> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            // the thread that holds it may be closing the reader
            Err(TryLockError::WouldBlock) if self.closed.load(Ordering::Acquire) => return Ok(None),
            Err(TryLockError::WouldBlock) => {
                return Err(PyRuntimeError::new_err("another thread reads from this log"));
            }
        };
        let state = &mut *state;
        let may_go_on = py.detach(|| state.fill(n));
        let may_go_on = may_go_on.map_err(|error| of_system(&error, state.from.path().as_deref()))?;
        if state.items.is_empty() && !may_go_on {
            return Ok(None);
        }
        let makers = Cached { classes: terms::classes(py)?, cache: &state.cache };
        let mut made = Vec::with_capacity(state.items.len());
        for item in &state.items {
            made.push(match item {
                LogItem::Term(at, place, file) => {
                    let payload = state.payloads.get(place.clone()).unwrap_or_default();
                    match etf::message(py, payload, &makers)? {
                        Ok(message) => message,
                        Err(why) => {
                            let path = state.files.get(*file).cloned().flatten();
                            call(self.damage.bind(py), (*at, "term", why, path))?
                        }
                    }
                }
                LogItem::Dropped(n) => call(self.drop.bind(py), (*n,))?,
                LogItem::Damage(told) => {
                    let (at, kind, what, path) = &**told;
                    call(self.damage.bind(py), (*at, kind, what, path))?
                }
            });
        }
        Ok(Some(PyList::new(py, made)?.unbind()))
    }

    /// Closes the files and connections, unless another thread is reading. Nothing more is read.
    fn close(&self, py: Python<'_>) {
        self.closed.store(true, Ordering::Release);
        if let Ok(mut state) = self.state.try_lock() {
            state.follow = false;
            let from = std::mem::replace(&mut state.from, Logs::Chain(Vec::new(), 0));
            py.detach(|| drop(from));
        }
    }

    /// Bytes of records so far, as Erlang writes them.
    #[getter]
    fn bytes(&self) -> u64 {
        self.state.try_lock().map_or(0, |state| state.bytes)
    }

    /// The number of time stamps so far of another clock than the first, which a merge can't compare.
    #[getter]
    fn other_clock(&self) -> u64 {
        match self.state.try_lock() {
            Ok(state) => match &state.from {
                Logs::Merged(merge) => merge.other_clock(),
                Logs::Chain(..) => 0,
            },
            Err(_) => 0,
        }
    }
}

impl LogReader {
    fn of(from: Logs, follow: bool, drop: Py<PyAny>, damage: Py<PyAny>) -> LogReader {
        let (payloads, items, files, cache) = (Vec::new(), Vec::new(), Vec::new(), Cache::default());
        let state = ReadState { from, follow, payloads, items, files, place: None, failed: None, bytes: 0, cache };
        LogReader { state: Mutex::new(state), closed: AtomicBool::new(false), drop, damage }
    }
}

/// A reader of an IP port; OSError if no trace port listens there, or answers within `seconds`.
#[pyfunction]
pub fn connect(
    py: Python<'_>, host: String, port: u16, seconds: f64, drop: Py<PyAny>, damage: Py<PyAny>,
) -> PyResult<LogReader> {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(LOOK);
    let stream = py.detach(|| {
        let mut failed = io::Error::new(ErrorKind::NotFound, "the host has no address");
        for address in (host.as_str(), port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, time) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(LOOK))?;
                    return Ok(stream);
                }
                Err(e) => failed = e,
            }
        }
        Err(failed)
    });
    let stream = stream.map_err(|error: io::Error| of_system(&error, None))?;
    Ok(LogReader::of(Logs::Chain(vec![Source::stream(stream)], 0), false, drop, damage))
}

/// Counts of writing: records, messages lost by their drop records, damage, the number of all damage, and time stamps
/// of another clock.
type Written = (u64, u64, Vec<Told>, u64, u64);

/// Writes logs, one after the other or merged, to a file in Erlang's form or in blocks.
#[pyfunction]
pub fn write(py: Python<'_>, logs: Vec<Named>, merge: bool, out: PathBuf, blocks: bool) -> PyResult<Written> {
    let form = if blocks { Form::Blocks } else { Form::Erlang };
    let room = if blocks { BLOCK } else { BATCH / 4 };
    let to = |error: io::Error| of_system(&error, Some(&out));
    let (mut from, mut log) = py.detach(|| -> PyResult<(Logs, FileLog)> {
        let from = Logs::open(logs, false, merge)?;
        Ok((from, FileLog::create(&out, Options { form, room, ..Options::default() }).map_err(to)?))
    })?;
    let mut done: Written = (0, 0, Vec::new(), 0, 0);
    while py.detach(|| write_some(&mut from, &mut log, &mut done, to))? {
        py.check_signals()?;
    }
    py.detach(|| log.close()).map_err(to)?;
    if let Logs::Merged(merge) = &from {
        done.4 = merge.other_clock();
    }
    Ok(done)
}

/// Writes some records; returns whether there is more. `to` makes the exception of an error of writing.
fn write_some(
    from: &mut Logs, log: &mut FileLog, done: &mut Written, to: impl Fn(io::Error) -> PyErr,
) -> PyResult<bool> {
    let is_merged = matches!(from, Logs::Merged(_));
    for _ in 0..STEP {
        let mut damage = None;
        let mut written = Ok(());
        let read = from.read(false, |event| match event {
            // a merge has checked all of it
            Event::Record { at, record } => match if is_merged { Ok(()) } else { record.check() } {
                Ok(()) => {
                    done.0 += 1;
                    if let Record::Dropped(n) = record {
                        done.1 += u64::from(n);
                    }
                    written = log.record(record);
                }
                Err(e) => damage = Some(Damage { at, what: What::Term(e) }),
            },
            Event::Damage(found) => damage = Some(found),
        });
        let read = read.map_err(|error| of_system(&error, from.path().as_deref()))?;
        written.map_err(&to)?;
        if let Some(found) = damage {
            done.3 += 1;
            if done.2.len() < TOLD {
                done.2.push((found.at, found.what.name().to_owned(), found.what.to_string(), from.path()));
            }
        }
        if matches!(read, Read::None) {
            return Ok(false);
        }
    }
    Ok(true)
}
