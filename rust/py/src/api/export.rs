//! Exports for Python: a format's bytes, piece by piece, and tables for readers of Arrow.
//!
//! # Roles
//! One thread at a time uses an exporter. A table's stream is read by one thread at a time, which may be detached; any
//! thread may ask for its summary and its error.
//!
//! # States
//! An exporter is used until it ends. A table's rows are there until they are taken for a stream or for tuples.
//!
//! # Orderings
//! Mutexes order everything. None of them is locked while code of the program runs.
//!
//! # Checked by
//! `tests/python/test_export.py`, `tests/python/test_export_tables.py`.

use super::{match_spec, merge::LogMerge};
use crate::convert::{
    arrow::{self, Batches},
    errors::of_system,
};
use inviso_core::host::sync::Unpoisoned;
use inviso_cpython::interpreter::calling;
use inviso_export::{
    analysis::{Analysis, Options},
    chrome::Chrome,
    collapsed::Collapsed,
    export::{Export, Input, Summary, Take, Write},
    perfetto::Perfetto,
    pieces::{Piece, Pieces},
    places::Titles,
    pstats::Pstats,
    speedscope::Speedscope,
    steps::Steps,
    table::{self, Table, Type, Values},
};
use inviso_port::origin::Origin;
use inviso_term::etf;
use pyo3::{
    exceptions::{PyBaseException, PyRuntimeError, PyTypeError, PyValueError},
    prelude::*,
    sync::PyOnceLock,
    types::{PyBytes, PyCapsule, PyDict, PyList, PyTuple, PyType},
};
use std::{
    cell::Cell,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

/// Bytes of output that are made at a time.
const PART: usize = 1 << 20;

fn bytes_of(message: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = message.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    Ok(etf::encode(&match_spec::snapshot_of(message)?))
}

/// The names of processes. With `is_log`, pids without a creation belong to other operating system processes.
fn titles(names: &Bound<'_, PyDict>, is_log: bool) -> PyResult<Titles> {
    let mut titles = Titles::new(Origin::own().creation() as u32, is_log);
    for (pid, name) in names {
        titles.insert(&bytes_of(&pid)?, name.extract()?);
    }
    Ok(titles)
}

/// An element of an iterable of messages.
enum Element {
    /// A message, in the external term format.
    Term(Vec<u8>),
    /// The description of damage, as readers of logs report it.
    Damage(String),
}

static DAMAGE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

impl Element {
    fn of(message: &Bound<'_, PyAny>) -> PyResult<Element> {
        let py = message.py();
        match bytes_of(message) {
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                let class = DAMAGE.import(py, "inviso.log", "Damage")?;
                match message.is_instance(class)? {
                    true => Ok(Element::Damage(message.str()?.to_string_lossy().into_owned())),
                    false => Err(error),
                }
            }
            bytes => bytes.map(Element::Term),
        }
    }

    fn give<T: Take + ?Sized>(&self, take: &mut T) {
        match self {
            Element::Term(bytes) => take.term(bytes),
            Element::Damage(text) => take.damage(text),
        }
    }
}

/// Opens a log, or a wrap set.
fn opened(path: &Path, suffix: Option<&str>) -> io::Result<Input> {
    match suffix {
        Some(suffix) => Input::set(path, suffix),
        None => Input::file(path),
    }
}

fn told<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyTuple>> {
    let Summary { messages, dropped, untimed, unknown, damaged, damage } = summary;
    (*messages, *dropped, *untimed, *unknown, *damaged, damage.clone()).into_pyobject(py)
}

struct ExportState {
    export: Export,
    input: Option<Input>,
}

/// An export in the making.
#[pyclass(frozen, module = "inviso._native.export")]
pub struct Exporter(Mutex<ExportState>);

impl Exporter {
    fn lock(&self) -> MutexGuard<'_, ExportState> {
        self.0.lock().unpoisoned()
    }
}

#[pymethods]
impl Exporter {
    /// `names` are the names of pids, `threads` their numbers in the operating system. `own` is the number of this
    /// operating system process and its program; `programs` are those of other nodes, by name. With `is_log`, pids
    /// without a creation belong to other operating system processes. `temporary` is a path where no file is.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        format: &str, names: &Bound<'_, PyDict>, threads: Vec<(Bound<'_, PyAny>, u64)>, own: (u64, String),
        programs: Vec<(String, u64, String)>, is_log: bool, erlang: bool, most: usize, temporary: PathBuf,
    ) -> PyResult<Exporter> {
        let writer: Box<dyn Write> = match format {
            "perfetto" => Box::new(Perfetto::new(most)),
            "chrome" => Box::new(Chrome::new(most)),
            "steps" => Box::new(Steps::new(most)),
            "speedscope" => Box::new(Speedscope::new(temporary)),
            "collapsed" => Box::new(Collapsed::default()),
            "pstats" => Box::new(Pstats::default()),
            _ => return Err(PyValueError::new_err(format!("no format {format}"))),
        };
        let mut titles = titles(names, is_log)?;
        for (pid, number) in threads {
            titles.insert_thread(&bytes_of(&pid)?, number);
        }
        titles.set_own_program(own.0, own.1);
        programs.into_iter().for_each(|(node, pid, name)| titles.give_program(&node, pid, name));
        Ok(Exporter(Mutex::new(ExportState { export: Export::new(writer, titles, erlang), input: None })))
    }

    /// Sets the input: a file, or a wrap set.
    #[pyo3(signature = (path, suffix=None))]
    fn open(&self, path: PathBuf, suffix: Option<&str>) -> PyResult<()> {
        let input = opened(&path, suffix).map_err(|error| of_system(&error, Some(&path)))?;
        self.lock().input = Some(input);
        Ok(())
    }

    /// Reads a part of the input; False when there is no more.
    fn read(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| {
            let making = &mut *self.lock();
            let Some(input) = &mut making.input else { return Ok(false) };
            // messages without output count, too, so that an interrupt is noticed
            let (end, left) = (making.export.out.len() + PART, Cell::new(1 << 18));
            let more = input.read(&mut making.export, |export| {
                left.set(left.get() - 1);
                left.get() == 0 || export.out.len() >= end
            });
            let more = more.and_then(|more| making.export.check().map(|()| more));
            more.map_err(|error| of_system(&error, None))
        })
    }

    /// Reads a part of merged logs; False when there is no more.
    fn read_merged(&self, py: Python<'_>, logs: &LogMerge) -> PyResult<bool> {
        py.detach(|| {
            let making = &mut *self.lock();
            let end = making.export.out.len() + PART;
            let more = logs.give(&mut making.export, 1 << 16, |export| export.out.len() >= end)?;
            making.export.check().map_err(|error| of_system(&error, None))?;
            Ok(more)
        })
    }

    /// Adds messages, or their bytes, and damage.
    fn push(&self, messages: &Bound<'_, PyList>) -> PyResult<()> {
        // before the lock: code of the program may run
        let messages = messages.iter().map(|message| Element::of(&message)).collect::<PyResult<Vec<_>>>()?;
        let making = &mut *self.lock();
        messages.iter().for_each(|given| given.give(&mut making.export));
        making.export.check().map_err(|error| of_system(&error, None))
    }

    /// Makes a part of the end; True when that was all.
    fn end(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.lock().export.end()).map_err(|error| of_system(&error, None))
    }

    /// Takes the output made so far.
    fn take<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let out = std::mem::take(&mut self.lock().export.out);
        PyBytes::new(py, &out)
    }

    /// Messages, dropped, untimed, unknown, damaged, and the first damage.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let summary = self.lock().export.summary.clone();
        told(py, &summary)
    }
}

/// Some logs, one after another.
#[derive(Default)]
struct LogSequence {
    /// The logs that have not been read, the next one last.
    left: Vec<(PathBuf, Option<String>)>,
    input: Option<Input>,
    /// The log that could not be opened, for the exception's text.
    closed: Closed,
}

type Closed = Arc<Mutex<Option<PathBuf>>>;

impl LogSequence {
    /// Gives records to `take` until that has enough; returns whether there may be more.
    fn read<T: Take + ?Sized>(&mut self, take: &mut T, enough: impl Fn(&T) -> bool) -> io::Result<bool> {
        while !enough(take) {
            let input = match &mut self.input {
                Some(input) => input,
                none => {
                    let Some((path, suffix)) = self.left.pop() else { return Ok(false) };
                    none.insert(opened(&path, suffix.as_deref()).inspect_err(|_| {
                        *self.closed.lock().unpoisoned() = Some(path);
                    })?)
                }
            };
            if !input.read(take, &enough)? {
                self.input = None;
            }
        }
        Ok(true)
    }
}

/// The source of a table's rows.
enum Source {
    /// Logs.
    LogSequence(LogSequence),
    /// Logs after the first batch, if there is more than one processor.
    Pieces(Pieces),
    /// A callable that returns lists of messages, and None at the end; a callable that makes the error of a message
    /// that is not a term; the current list, and the number of messages taken from it.
    Messages((Py<PyAny>, Py<PyAny>), Option<Py<PyList>>, usize),
}

type Raised = Arc<Mutex<Option<PyErr>>>;

/// Makes rows of messages.
pub trait Maker: Take + Send + 'static {
    /// Whether there are enough for a batch.
    fn is_full(&self) -> bool;
    /// The rows made so far.
    fn batch(&mut self) -> Option<table::Batch>;
    /// There are no more messages.
    fn end(&mut self) {}
    /// Counts of the messages read.
    fn summary(&self) -> &Summary;
    /// The form of values, if two threads may make the rows.
    fn parted(&self) -> Option<Values> {
        None
    }
}

struct Events(Values, Table);

impl Take for Events {
    #[inline]
    fn term(&mut self, bytes: &[u8]) {
        self.1.term(bytes);
    }
    fn dropped(&mut self, count: u64) {
        self.1.dropped(count);
    }
    fn damage(&mut self, text: &str) {
        self.1.damage(text);
    }
}

impl Maker for Events {
    fn is_full(&self) -> bool {
        self.1.is_full()
    }
    fn batch(&mut self) -> Option<table::Batch> {
        self.1.batch()
    }
    fn summary(&self) -> &Summary {
        &self.1.summary
    }
    fn parted(&self) -> Option<Values> {
        Some(self.0)
    }
}

impl Maker for Analysis {
    fn is_full(&self) -> bool {
        Analysis::is_full(self)
    }
    fn batch(&mut self) -> Option<table::Batch> {
        Analysis::batch(self)
    }
    fn end(&mut self) {
        Analysis::end(self);
    }
    fn summary(&self) -> &Summary {
        &self.summary
    }
}

struct Rows {
    table: Box<dyn Maker>,
    /// The counts, for the summary.
    told: Arc<Mutex<Summary>>,
    /// The exception of reading, for [`ArrowRows::error`]; the stream's reader gets only its text.
    error: Raised,
    source: Source,
    /// The counts of the threads.
    counted: Summary,
    /// The error of reading that comes after the rows of the table.
    failed: Option<PyErr>,
    closed: Closed,
    ended: bool,
}

impl Rows {
    /// The next batch; None at the end.
    fn batch(&mut self) -> PyResult<Option<table::Batch>> {
        while !self.ended && !self.table.is_full() {
            match &mut self.source {
                Source::LogSequence(logs) => {
                    let read = logs.read(&mut *self.table, |table| table.is_full());
                    self.ended = !matches!(read, Ok(true));
                    self.failed = read.err().map(|error| of_log(&error, &self.closed));
                }
                Source::Pieces(pieces) => {
                    let batch = pieces.next();
                    self.ended = !matches!(batch, Ok(Some(_)));
                    self.counted.clone_from(pieces.summary());
                    return batch.map_err(|error| of_log(&error, &self.closed));
                }
                Source::Messages((more, refuse), list, taken) => {
                    self.ended = !Python::attach(|py| messages(py, &mut *self.table, (more, refuse), list, taken))?;
                }
            }
            if self.ended {
                self.table.end();
            }
        }
        match (self.table.batch(), self.failed.take()) {
            (None, Some(error)) => Err(error),
            (batch, failed) => {
                self.failed = failed;
                self.part()?;
                Ok(batch)
            }
        }
    }

    /// Lets two threads make rows of the rest of logs, if there is more than a batch and more than one processor.
    fn part(&mut self) -> PyResult<()> {
        let alone = || std::thread::available_parallelism().map_or(true, |processors| processors.get() < 2);
        let Some(values) = self.table.parted() else { return Ok(()) };
        if self.ended || !matches!(self.source, Source::LogSequence(_)) || alone() {
            return Ok(());
        }
        if let Source::LogSequence(logs) = &mut self.source {
            let mut logs = std::mem::take(logs);
            let feed = Box::new(move |piece: &mut Piece| logs.read(piece, Piece::is_full));
            let pieces = Pieces::new(values, feed).map_err(|error| of_system(&error, None))?;
            self.source = Source::Pieces(pieces);
        }
        Ok(())
    }
}

/// Gives messages to `table` until it is full; returns whether there may be more.
fn messages(
    py: Python<'_>, table: &mut dyn Maker, (more, refuse): (&Py<PyAny>, &Py<PyAny>), list: &mut Option<Py<PyList>>,
    taken: &mut usize,
) -> PyResult<bool> {
    let messages = match list.take() {
        Some(messages) => messages.into_bound(py),
        None => {
            let messages = calling::call(more.bind(py), ())?;
            if messages.is_none() {
                return Ok(false);
            }
            *taken = 0;
            messages.cast_into::<PyList>()?
        }
    };
    while *taken < messages.len() {
        if table.is_full() {
            *list = Some(messages.unbind());
            break;
        }
        let given = Element::of(&messages.get_item(*taken)?);
        given.map_err(|error| refused(py, refuse, error))?.give(table);
        *taken += 1;
    }
    Ok(true)
}

/// The error of reading a log.
fn of_log(error: &io::Error, closed: &Closed) -> PyErr {
    let path = closed.lock().unpoisoned().take();
    of_system(error, path.as_deref())
}

/// A TypeError in the words of the callable that made the source.
fn refused(py: Python<'_>, refuse: &Py<PyAny>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyTypeError>(py) {
        return error;
    }
    calling::call(refuse.bind(py), (error.into_value(py),)).map_or_else(|raised| raised, PyErr::from_value)
}

impl Batches for Rows {
    fn next(&mut self) -> Result<Option<table::Batch>, String> {
        let batch = self.batch().map_err(|error| {
            let text = error.to_string();
            let before = self.error.lock().unpoisoned().replace(error);
            drop(before); // outside of the lock
            text
        });
        let mut told = self.table.summary().clone();
        told.add(self.counted.clone());
        *self.told.lock().unpoisoned() = told;
        batch
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        let source = std::mem::replace(&mut self.source, Source::LogSequence(LogSequence::default()));
        if let Source::Messages((more, refuse), list, _) = source {
            // the releasing thread may be attached or not; after the interpreter's end nothing is dropped
            Python::try_attach(|py| {
                drop((more.into_bound(py), refuse.into_bound(py)));
                drop(list.map(|list| list.into_bound(py)));
            });
        }
    }
}

/// A table that is read once, by any reader of Arrow.
#[pyclass(frozen, module = "inviso._native.export")]
pub struct ArrowRows {
    fields: Vec<(&'static str, Type)>,
    told: Arc<Mutex<Summary>>,
    error: Raised,
    rows: Mutex<Option<Rows>>,
}

impl ArrowRows {
    fn of(
        table: Box<dyn Maker>, fields: Vec<(&'static str, Type)>, mut logs: Vec<(PathBuf, Option<String>)>,
        messages: Option<(Py<PyAny>, Py<PyAny>)>,
    ) -> ArrowRows {
        logs.reverse();
        let closed = Closed::default();
        let source = match messages {
            Some(messages) => Source::Messages(messages, None, 0),
            None => Source::LogSequence(LogSequence { left: logs, input: None, closed: closed.clone() }),
        };
        let (told, error) = (Arc::<Mutex<Summary>>::default(), Raised::default());
        let rows = Rows {
            table,
            told: told.clone(),
            error: error.clone(),
            source,
            counted: Summary::default(),
            failed: None,
            closed,
            ended: false,
        };
        ArrowRows { fields, told, error, rows: Mutex::new(Some(rows)) }
    }
}

#[pymethods]
impl ArrowRows {
    /// `logs` are paths, each with the suffix of a wrap set or None. `messages` are a callable that returns lists of
    /// messages, and one that makes the error to raise from the TypeError of a message that is not a term.
    #[new]
    #[pyo3(signature = (values, logs, messages=None))]
    fn new(
        values: &str, logs: Vec<(PathBuf, Option<String>)>, messages: Option<(Py<PyAny>, Py<PyAny>)>,
    ) -> PyResult<ArrowRows> {
        let values = match values {
            "text" => Values::Text,
            "binary" => Values::Binary,
            "none" => Values::None,
            _ => return Err(PyValueError::new_err(format!("no values {values}"))),
        };
        let events = Box::new(Events(values, Table::new(values)));
        Ok(ArrowRows::of(events, table::fields(values), logs, messages))
    }

    /// A table of [`inviso_export::analysis`]. `names` are the names of pids; with `is_log`, pids without a creation
    /// belong to other operating system processes.
    #[staticmethod]
    #[pyo3(signature = (table, logs, messages, names, is_log, erlang, values, wall=None, label=None, of=None, shortest=0))]
    #[allow(clippy::too_many_arguments)]
    fn analysis(
        table: &str, logs: Vec<(PathBuf, Option<String>)>, messages: Option<(Py<PyAny>, Py<PyAny>)>,
        names: &Bound<'_, PyDict>, is_log: bool, erlang: bool, values: usize, wall: Option<i64>, label: Option<String>,
        of: Option<i64>, shortest: i64,
    ) -> PyResult<ArrowRows> {
        let titles = titles(names, is_log)?;
        let options = Options { values, erlang, wall, label, of, shortest };
        let Some(made) = Analysis::new(table, titles, options) else {
            return Err(PyValueError::new_err(format!("no table {table}")));
        };
        let fields = made.fields().to_vec();
        Ok(ArrowRows::of(Box::new(made), fields, logs, messages))
    }

    /// The columns' names.
    fn columns(&self) -> Vec<&'static str> {
        self.fields.iter().map(|(name, _)| *name).collect()
    }

    /// The columns' names and types, without rows.
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::schema_capsule(py, &self.fields)
    }

    /// The stream, once; a second time RuntimeError.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::stream_capsule(py, self.fields.clone(), Box::new(self.taken()?))
    }

    /// The rows as tuples, at most `most`; once, as the stream.
    fn tuples(&self, py: Python<'_>, most: usize) -> PyResult<Vec<Py<PyTuple>>> {
        let (mut rows, mut all) = (self.taken()?, Vec::new());
        while all.len() < most {
            let batch = py.detach(|| rows.batch())?;
            *self.told.lock().unpoisoned() = rows.table.summary().clone();
            let Some(batch) = batch else { break };
            for row in 0..batch.rows.min(most - all.len()) {
                let cells =
                    batch.columns.iter().map(|column| arrow::cell(py, column, row)).collect::<PyResult<Vec<_>>>()?;
                all.push(PyTuple::new(py, cells)?.unbind());
            }
        }
        Ok(all)
    }

    /// The exception of reading, if there was one.
    fn error(&self, py: Python<'_>) -> Option<Py<PyBaseException>> {
        let error = self.error.lock().unpoisoned().take()?;
        let value = error.clone_ref(py).into_value(py);
        let before = self.error.lock().unpoisoned().replace(error);
        drop(before);
        Some(value)
    }

    /// The summary of an exporter, of the part that was read.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let summary = self.told.lock().unpoisoned().clone();
        told(py, &summary)
    }
}

impl ArrowRows {
    fn taken(&self) -> PyResult<Rows> {
        let rows = self.rows.lock().unpoisoned().take();
        rows.ok_or_else(|| PyRuntimeError::new_err("it has been read"))
    }
}
