//! Logs merged, or one after the other, as lines, as another log, or as objects with the names of their processes.
//!
//! Records are read, ordered, named and written without Python. Python runs between batches only, for signals and for
//! objects.
//!
//! # Roles
//! One thread at a time reads from a merge.
//!
//! # States
//! A merge is open until its files are closed; its counts stay.
//!
//! # Orderings
//! The mutex orders everything. It is not locked while objects are made.
//!
//! # Checked by
//! `tests/python/test_merge.py`, `tests/python/test_merge_cli.py`.

use super::{
    etf::{self, Cache, Cached},
    log::{Logs, Named, Read, Told, BLOCK, TOLD},
    merge_state::{aliases_of, About, Count, MadeObjects, MergeItem, MergeState, Placed, PART, STEP},
    merge_text::style,
};
use crate::convert::{errors::of_system, terms};
use inviso_core::host::sync::Unpoisoned;
use inviso_cpython::interpreter::calling::call;
use inviso_export::{counts::Counts, erlang, export::Take, scan::Identity};
use inviso_log::{
    damage::{Damage, What},
    file::{FileLog, Form, Options},
    frame::Record,
    merge::Order,
    nodes::{self, Nodes},
    private,
    reader::Event,
    shift::Shift,
    sink::Sink,
    stamp::{Clock, Stamp},
    ti::Aliases,
};
use inviso_term::etf as format;
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyList, PyTuple},
};
use rustc_hash::FxHashMap;
use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    sync::{Mutex, MutexGuard},
};

/// The items that [`LogMerge::taken`] has read.
struct Batch {
    /// The number of the log, those of the tracee's names, the time stamp.
    items: Vec<(usize, Vec<u32>, Option<Stamp>, RawObject)>,
    /// Names that have no object yet, by log and number.
    names: FxHashMap<(usize, u32), Vec<u8>>,
    more: bool,
}

/// The material of an object.
enum RawObject {
    Term(u64, Vec<u8>),
    Dropped(u32),
    Damage(Told),
}

/// Logs in one order.
#[pyclass(frozen, module = "inviso._native.log")]
pub struct LogMerge {
    state: Mutex<MergeState>,
    drop: Py<PyAny>,
    damage: Py<PyAny>,
}

/// A log: its node's name, its files or the set, the trace information files.
type Input = (Option<String>, Vec<Named>, Vec<PathBuf>);

/// The most records of a log that are searched in advance for its node.
const LOOKED: usize = 1000;

/// The first message of a log that is about a tracee. It shows which pids are the log's own, which must be known before
/// a record of another log is written. Empty if there is no such message, or nothing can be read now.
fn first_tracee(files: &[Named]) -> Vec<u8> {
    let Ok(mut from) = Logs::of(vec![files.to_vec()], false, None, Vec::new()) else { return Vec::new() };
    let mut found = Vec::new();
    for _ in 0..LOOKED {
        let read = from.read_stamped(false, |_, event, _| {
            if let Event::Record { record: Record::Term(payload), .. } = event {
                if nodes::tracee(payload).is_some_and(|tracee| nodes::pid(tracee).is_some()) {
                    found = payload.to_vec();
                }
            }
        });
        if !found.is_empty() || !matches!(read, Ok(Read::Some)) {
            break;
        }
    }
    found
}

/// A time stamp as an object.
fn stamp_object<'py>(py: Python<'py>, stamp: Option<Stamp>) -> PyResult<Bound<'py, PyAny>> {
    match stamp {
        None => Ok(py.None().into_bound(py)),
        Some(Stamp { clock, ns, unique }) => {
            let clock = if clock == Clock::Wall { "wall" } else { "monotonic" };
            Ok((clock, ns, unique).into_pyobject(py)?.into_any())
        }
    }
}

#[pymethods]
impl LogMerge {
    /// Opens logs; with `merge` they are read in the order of time, else one after the other. `order` is `follow` or
    /// `inviso`. `drop` and `damage` make objects, as [`LogReader`](crate::api::log::LogReader) says. `shifts` has for
    /// each log the offsets of its wall clock: when, and by how many nanoseconds. With `causal` nothing is received
    /// before it was sent.
    #[new]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (logs, merge, follow, order, named, drop, damage, shifts=Vec::new(), causal=false))]
    fn new(
        py: Python<'_>, logs: Vec<Input>, merge: bool, follow: bool, order: &str, named: bool, drop: Py<PyAny>,
        damage: Py<PyAny>, shifts: Vec<Vec<(i64, i64)>>, causal: bool,
    ) -> PyResult<LogMerge> {
        let shift = |points: Vec<(i64, i64)>| {
            Shift::new(points.into_iter().map(|(when, offset)| (when.into(), offset.into())).collect())
        };
        let shifts = shifts.into_iter().map(shift).collect();
        let order = match order {
            "follow" => Order::Follow,
            "inviso" => Order::Inviso,
            _ => return Err(PyValueError::new_err(format!("no order {order}"))),
        };
        let state = py.detach(|| -> PyResult<MergeState> {
            let (mut labels, mut places, mut aliases) = (Vec::new(), Vec::new(), Vec::new());
            for (label, files, ti) in logs {
                labels.push(label);
                places.push(files);
                let mut read = Aliases::default();
                for ti in ti {
                    read.read(&fs::read(&ti).map_err(|error| of_system(&error, Some(&ti)))?);
                }
                aliases.push(read);
            }
            let own = if merge { places.iter().map(|files| first_tracee(files)).collect() } else { Vec::new() };
            let from = match causal {
                true => Logs::causal(places, shifts)?,
                false => Logs::of(places, follow, merge.then_some(order), shifts)?,
            };
            let has_labels = labels.iter().any(Option::is_some);
            let nodes = Nodes::new(labels.iter().map(|label| label.as_deref().unwrap_or("")));
            let counts = vec![Count::default(); labels.len()];
            let mut about = About { nodes, is_named: named, has_labels, aliases, counts, damage: Vec::new() };
            own.iter().enumerate().for_each(|(log, payload)| about.learn(log, payload));
            Ok(MergeState { from, ended: None, order, follow, about, lines: None, known: MadeObjects::default() })
        })?;
        Ok(LogMerge { state: Mutex::new(state), drop, damage })
    }

    /// Up to `n` lines in UTF-8, each with its end; None at the end, empty bytes if there are none for now.
    fn text<'py>(&self, py: Python<'py>, form: &str, colour: bool, n: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let style = style(form)?;
        let mut out = String::new();
        let more = py.detach(|| {
            let mut state = self.lock();
            let more = state.text(style, colour, n, &mut out)?;
            Ok::<_, PyErr>(more || state.follow)
        })?;
        Ok((more || !out.is_empty()).then(|| PyBytes::new(py, out.as_bytes())))
    }

    /// Writes all lines to a file.
    fn write_text(&self, py: Python<'_>, out: PathBuf, form: &str) -> PyResult<()> {
        let style = style(form)?;
        let to = |error: io::Error| of_system(&error, Some(&out));
        let mut file = py.detach(|| private(&out, false)).map_err(to)?;
        let mut text = String::with_capacity(PART + (PART >> 2));
        loop {
            let more = py.detach(|| -> PyResult<bool> {
                text.clear();
                let more = self.lock().text(style, false, usize::MAX, &mut text)?;
                file.write_all(text.as_bytes()).map_err(to)?;
                Ok(more)
            })?;
            py.check_signals()?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Writes all records to a log in Erlang's form or in blocks.
    fn write(&self, py: Python<'_>, out: PathBuf, blocks: bool) -> PyResult<()> {
        let form = if blocks { Form::Blocks } else { Form::Erlang };
        let room = if blocks { BLOCK } else { PART / 4 };
        let to = |error: io::Error| of_system(&error, Some(&out));
        let mut log = py.detach(|| FileLog::create(&out, Options { form, room, ..Options::default() })).map_err(to)?;
        loop {
            let more = py.detach(|| -> PyResult<bool> {
                let (mut state, mut named) = (self.lock(), Vec::new());
                state.read(STEP, Some(&out), |about, at, item| {
                    match item {
                        MergeItem::Term(_, payload, _) if about.is_named => {
                            named.clear();
                            about.nodes.put(at, payload, &mut named);
                            log.copy(Record::Term(&named))?;
                        }
                        MergeItem::Term(_, payload, _) => log.copy(Record::Term(payload))?,
                        MergeItem::Dropped(n) => log.copy(Record::Dropped(n))?,
                        MergeItem::Damage(_) => {}
                    }
                    Ok(true)
                })
            })?;
            py.check_signals()?;
            if !more {
                return py.detach(|| log.close()).map_err(to);
            }
        }
    }

    /// Up to `n` messages, or the objects in their place, each as (number of the log, names of the tracee, time stamp,
    /// object).
    fn batch(&self, py: Python<'_>, n: usize) -> PyResult<Option<Py<PyList>>> {
        let (batch, mut known) = py.detach(|| self.taken(n))?;
        let Batch { items, names, more } = batch;
        if items.is_empty() && !more {
            return Ok(None);
        }
        // nothing is locked while objects are made: code of the program may run
        let makers = Cached { classes: terms::classes(py)?, cache: &known.cache };
        for (key, term) in names {
            if let Ok(name) = etf::message(py, &term, &makers)? {
                known.names.insert(key, name.unbind());
            }
        }
        let (made, mut unread) = (PyList::empty(py), Vec::new());
        for (log, names, stamp, item) in items {
            let object = match item {
                RawObject::Dropped(n) => call(self.drop.bind(py), (n,))?,
                RawObject::Damage((at, kind, what, path)) => call(self.damage.bind(py), (at, kind, what, path))?,
                RawObject::Term(at, payload) => match etf::message(py, &payload, &makers)? {
                    Ok(message) => message,
                    Err(why) => {
                        unread.push((log, (at, "term".to_owned(), why.clone(), None)));
                        call(self.damage.bind(py), (at, "term", why, py.None()))?
                    }
                },
            };
            let names: Vec<_> = names.iter().filter_map(|name| known.names.get(&(log, *name))).collect();
            made.append((log, PyList::new(py, names)?, stamp_object(py, stamp)?, object))?;
        }
        let before = {
            let mut state = self.lock();
            unread.into_iter().for_each(|(log, told)| state.about.note(log, told));
            std::mem::replace(&mut state.known, known)
        };
        drop(before);
        Ok(Some(made.unbind()))
    }

    /// Counts of the part that was read. For each log: records, lost messages and damage. Then the first damage, with
    /// the number of its log; time stamps of another clock; errors of trace information files. For each log whose
    /// receipts were moved after their sendings: their number, the farthest move in nanoseconds, and the first ones
    /// with their times. Last, the number that could not be moved.
    fn told<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let state = self.lock();
        let about = &state.about;
        let counts: Vec<_> = about.counts.iter().map(|count| (count.records, count.lost, count.damaged)).collect();
        let now;
        let Placed { other_clock, moved, unordered } = match &state.ended {
            Some(ended) => ended,
            None => {
                now = Placed::of(&state.from);
                &now
            }
        };
        let moved = moved.iter().enumerate().filter(|(_, moved)| moved.receipts > 0);
        let moved: Vec<_> = moved.map(|(log, moved)| (log, moved.receipts, moved.most, moved.first.clone())).collect();
        let of_ti = |(log, aliases): (usize, &Aliases)| (log, aliases.damage.len());
        let ti: Vec<_> = about.aliases.iter().enumerate().map(of_ti).filter(|(_, n)| *n > 0).collect();
        (counts, about.damage.clone(), other_clock, ti, moved, unordered).into_pyobject(py)
    }

    /// Writes the trace information of all logs to a file, by time, each process by the name of its node. Returns the
    /// number of entries. If there are no entries, it writes no file.
    fn write_ti(&self, py: Python<'_>, out: PathBuf) -> PyResult<usize> {
        py.detach(|| {
            let state = self.lock();
            let about = &state.about;
            let named = |(log, aliases): (usize, &Aliases)| aliases.named(&about.nodes, log);
            let mut all: Vec<_> = about.aliases.iter().enumerate().flat_map(named).collect();
            all.sort();
            if all.is_empty() {
                return Ok(0);
            }
            let bytes: Vec<u8> = all.iter().flat_map(|(_, entry)| entry.iter().copied()).collect();
            private(&out, false)
                .and_then(|mut file| file.write_all(&bytes))
                .map_err(|error| of_system(&error, Some(&out)))?;
            Ok(all.len())
        })
    }

    /// Closes the files.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let mut state = self.lock();
            state.follow = false;
            let from = std::mem::replace(&mut state.from, Logs::Chain(Vec::new(), 0));
            state.ended.get_or_insert_with(|| Placed::of(&from));
            std::mem::drop(from);
        });
    }
}

impl LogMerge {
    /// Gives up to `n` records to an export, with the names of nodes in their pids, until that has enough; returns
    /// whether there may be more.
    pub fn give<T: Take>(&self, to: &mut T, n: usize, enough: impl Fn(&T) -> bool) -> PyResult<bool> {
        let (mut state, mut named) = (self.lock(), Vec::new());
        state.read(n, None, |about, log, item| {
            match item {
                MergeItem::Term(_, payload, _) => {
                    named.clear();
                    about.nodes.put(log, payload, &mut named);
                    to.term(&named);
                }
                MergeItem::Dropped(n) => to.dropped(n.into()),
                MergeItem::Damage((at, _, what, path)) => {
                    let path = path.as_ref().map_or(String::new(), |path| format!("{}, ", path.display()));
                    to.damage(&format!("{path}at byte {at}: {what}"));
                }
            }
            Ok(!enough(to))
        })
    }

    /// Up to `n` items, with the terms of names that have no object yet, and the objects that exist.
    fn taken(&self, n: usize) -> PyResult<(Batch, MadeObjects)> {
        let (mut state, mut items) = (self.lock(), Vec::new());
        let more = state.read(n, None, |about, log, item| {
            let names = match &item {
                MergeItem::Term(_, payload, stamp) => aliases_of(about, log, payload, *stamp).to_vec(),
                _ => Vec::new(),
            };
            items.push(match item {
                MergeItem::Term(at, payload, stamp) => (log, names, stamp, RawObject::Term(at, payload.to_vec())),
                MergeItem::Dropped(n) => (log, names, None, RawObject::Dropped(n)),
                MergeItem::Damage(told) => (log, names, None, RawObject::Damage(told.clone())),
            });
            Ok(true)
        })?;
        let mut names = FxHashMap::default();
        for (log, of, ..) in &items {
            for name in of {
                let term = || state.about.aliases.get(*log)?.name(*name).map(format::encode);
                if !state.known.names.contains_key(&(*log, *name)) {
                    names.extend(term().map(|term| ((*log, *name), term)));
                }
            }
        }
        Ok((Batch { items, names, more }, std::mem::take(&mut state.known)))
    }

    fn lock(&self) -> MutexGuard<'_, MergeState> {
        self.state.lock().unpoisoned()
    }
}

/// A term in the external term format as Erlang's `~w` prints it; ValueError if the bytes are not one.
#[pyfunction]
pub fn text(data: &[u8]) -> PyResult<String> {
    Record::Term(data).check().map_err(|e| PyValueError::new_err(e.to_string()))?;
    let mut out = String::new();
    let place = &mut |of: &Identity<'_>| if of.is_own() { 0 } else { u64::from(of.creation.max(1)) };
    erlang::message(data, place, &mut out);
    Ok(out)
}

/// The contents of logs, one after the other: messages, other ones, token messages; tags, functions and processes with
/// their counts; drop records, dropped messages; the first damage, and the number of all; bytes; clock, first and last
/// time.
#[pyfunction]
pub fn stats<'py>(py: Python<'py>, logs: Vec<Named>) -> PyResult<Bound<'py, PyTuple>> {
    let mut counts = Counts::default();
    let (mut drops, mut dropped, mut damaged, mut bytes) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut damage: Vec<Told> = Vec::new();
    let mut from = py.detach(|| Logs::open(logs, false, false))?;
    loop {
        let more = py.detach(|| -> PyResult<bool> {
            for _ in 0..STEP {
                let mut found = None;
                let read = from.read_stamped(false, |_, event, _| match event {
                    Event::Record { at, record: Record::Term(payload) } => {
                        bytes += (inviso_log::frame::HEADER + payload.len()) as u64;
                        if let Err(e) = counts.message(payload) {
                            found = Some(Damage { at, what: What::Term(e) });
                        }
                    }
                    Event::Record { record: Record::Dropped(n), .. } => {
                        bytes += inviso_log::frame::HEADER as u64;
                        drops += 1;
                        dropped += u64::from(n);
                    }
                    Event::Damage(damage) => found = Some(damage),
                });
                let read = read.map_err(|error| of_system(&error, from.path().as_deref()))?;
                if let Some(Damage { at, what }) = found {
                    damaged += 1;
                    if damage.len() < TOLD {
                        damage.push((at, what.name().to_owned(), what.to_string(), from.path()));
                    }
                }
                if matches!(read, Read::None) {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        py.check_signals()?;
        if !more {
            break;
        }
    }
    let cache = Cache::default();
    let makers = Cached { classes: terms::classes(py)?, cache: &cache };
    let processes = PyList::empty(py);
    for (process, count) in counts.processes() {
        if let Ok(process) = etf::message(py, process, &makers)? {
            processes.append((process, count))?;
        }
    }
    let clock = counts.clock().map(|clock| if clock == Clock::Wall { "wall" } else { "monotonic" });
    let (first, last) = match counts.times {
        Some((first, last)) => (Some(first.ns), Some(last.ns)),
        None => (None, None),
    };
    let numbers = (counts.messages, counts.other, counts.seq, drops, dropped, damaged, bytes);
    (numbers, counts.tags(), counts.functions(), processes, damage, clock, first, last).into_pyobject(py)
}
