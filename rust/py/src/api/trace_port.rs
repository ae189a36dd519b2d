//! `LogPort`: convert, call the host, convert back.

use crate::{
    convert::{errors::of_system, pid::Pid},
    state::{host, start},
};
use inviso_core::host::session::Session;
use inviso_log::{
    file::{FileLog, Form, Options},
    ip::IpPort,
    names::Names,
    sink::Sink,
    wrap::{Limit, WrapLog},
};
use inviso_port::{
    about,
    limits::Why,
    ports::{self, Kind},
    recorder,
};
use pyo3::prelude::*;
use std::{
    ffi::OsString,
    io,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// The longest time that records wait to be compressed together: small blocks are long.
const TOGETHER: Duration = Duration::from_millis(100);

/// A trace port.
#[pyclass(frozen, module = "inviso._native.trace_port")]
pub struct LogPort(pub Arc<ports::LogPort>);

fn opened<S: Sink + Send + 'static>(
    py: Python<'_>, kind: Kind, path: Option<&PathBuf>, patience: Duration,
    open: impl FnOnce() -> io::Result<(S, Option<SocketAddr>)> + Send,
) -> PyResult<LogPort> {
    let host = start::host(py)?;
    begin_log(py)?;
    let node = host.node.clone();
    let made = py.detach(|| {
        let (sink, address) = open()?;
        Ok(ports::LogPort::open(node, kind, path.cloned(), address, patience, Box::new(sink)))
    });
    made.map(LogPort).map_err(|error: io::Error| of_system(&error, path.map(PathBuf::as_path)))
}

/// Lets the log that begins now find threads by name.
fn begin_log(py: Python<'_>) -> PyResult<()> {
    let host = start::host(py)?;
    about::set_threads(|pid| {
        let host = host::try_host()?;
        host.directory.number(host, pid)
    });
    host.directory.name_threads(py, host)
}

/// Sets the program's name in logs that begin from now on.
#[pyfunction]
pub fn set_program(name: &str) {
    about::set_program(name);
}

/// The operating system's numbers of threads of this process, including those that ended lately.
#[pyfunction]
pub fn thread_numbers() -> Vec<(Pid, u64)> {
    let numbers = host::try_host().map_or_else(Vec::new, |host| host.directory.numbers());
    numbers.into_iter().map(|(pid, number)| (Pid::new(pid), number)).collect()
}

/// Opens a file, in Erlang's form or in blocks.
#[pyfunction]
pub fn port_to_file(py: Python<'_>, path: PathBuf, blocks: bool) -> PyResult<LogPort> {
    let (form, patience) = if blocks { (Form::Blocks, TOGETHER) } else { (Form::Erlang, Duration::ZERO) };
    let options = Options { form, ..Options::default() };
    opened(py, Kind::File, Some(&path), patience, || Ok((FileLog::create(&path, options)?, None)))
}

/// Opens a wrap set. A file is closed when it has `bytes` bytes, or after `milliseconds`.
#[pyfunction]
pub fn port_to_set(
    py: Python<'_>, path: PathBuf, suffix: &str, bytes: Option<u64>, milliseconds: Option<u64>, files: u32,
) -> PyResult<LogPort> {
    let limit = match (bytes, milliseconds) {
        (_, Some(time)) => Limit::Time(Duration::from_millis(time)),
        (Some(bytes), None) => Limit::Bytes(bytes),
        (None, None) => Limit::default(),
    };
    opened(py, Kind::Wrap, Some(&path), Duration::ZERO, || {
        Ok((WrapLog::create(Names::new(&path, suffix)?, limit, files, Instant::now())?, None))
    })
}

/// Listens on a port of an interface. One client is served at a time; at most `queue` messages wait for it.
#[pyfunction]
pub fn port_to_socket(py: Python<'_>, host: &str, port: u16, queue: usize) -> PyResult<LogPort> {
    opened(py, Kind::Ip, None, Duration::ZERO, || {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "no such host");
        for address in (host, port).to_socket_addrs()? {
            match IpPort::listen(address, queue) {
                Ok(sink) => {
                    let address = sink.address();
                    return Ok((sink, Some(address)));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    })
}

#[pymethods]
impl LogPort {
    /// Its number, never used twice in a process.
    #[getter]
    fn number(&self) -> u64 {
        self.0.number
    }

    /// The kind that it was opened as.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.kind {
            Kind::File => "file",
            Kind::Wrap => "wrap",
            Kind::Ip => "ip",
        }
    }

    /// The file, or the beginning of the files' names.
    #[getter]
    fn path(&self) -> Option<&std::path::Path> {
        self.0.path.as_deref()
    }

    /// The address where it listens.
    #[getter]
    fn address(&self) -> Option<(String, u16)> {
        self.0.address.map(|address| (address.ip().to_string(), address.port()))
    }

    /// Whether it takes messages.
    fn is_open(&self) -> bool {
        self.0.is_open()
    }

    /// Sets limits at which it closes by itself: a number of messages, a number of messages in some milliseconds, a
    /// number of lost messages. None leaves a limit as it is.
    #[pyo3(signature = (limit, rate, lost))]
    fn limit(&self, py: Python<'_>, limit: Option<u64>, rate: Option<(u64, u64)>, lost: Option<u64>) {
        py.detach(|| self.0.limit(limit, rate, lost));
    }

    /// Whether it has a limit or a rate.
    fn is_limited(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.is_limited())
    }

    /// The reason why it closed by itself: the limit that was passed, and its numbers.
    fn ended(&self, py: Python<'_>) -> Option<(&'static str, u64, u64)> {
        py.detach(|| self.0.ended()).map(|why| match why {
            Why::Limit(limit) => ("limit", limit, 0),
            Why::Rate(most, milliseconds) => ("rate", most, milliseconds),
            Why::Lost(number) => ("lost", number, 0),
        })
    }

    /// Messages written and lost, bytes, failed calls of the system.
    fn counts(&self, py: Python<'_>) -> (u64, u64, u64, u64) {
        let counts = py.detach(|| self.0.counts());
        (counts.written, counts.dropped, counts.bytes, counts.errors)
    }

    /// The system's error of the last failed write.
    #[getter]
    fn error(&self) -> Option<String> {
        self.0.error()
    }

    /// Writes all messages that were sent before.
    fn flush(&self, py: Python<'_>) {
        py.detach(|| self.0.flush());
    }

    /// Writes the waiting messages and closes.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

/// Writes the contents of a session's rings to a file; returns the messages written and lost.
pub fn dump_file(py: Python<'_>, session: &Arc<Session>, path: PathBuf, blocks: bool) -> PyResult<(u64, u64)> {
    begin_log(py)?;
    let node = start::host(py)?.node.clone();
    let done = py.detach(|| recorder::dump_to_file(&node, session, &path, blocks));
    let done = done.and_then(|(told, written)| written.map(|()| (told.written, told.lost)));
    done.map_err(|error| of_system(&error, Some(&path)))
}

/// Writes them to a trace port.
pub fn dump_port(py: Python<'_>, session: &Arc<Session>, port: &LogPort) -> PyResult<(u64, u64)> {
    let done = py.detach(|| port.0.dump(session));
    done.map(|done| (done.written, done.lost)).map_err(|error| of_system(&error, None))
}

/// Has a session's dumps written on request.
pub fn record(py: Python<'_>, session: &Arc<Session>, template: OsString, every: f64, signal: i32) -> PyResult<()> {
    begin_log(py)?;
    let node = start::host(py)?.node.clone();
    let every = Duration::try_from_secs_f64(every.max(0.0)).unwrap_or(Duration::MAX);
    let done = py.detach(|| recorder::begin(node, session.clone(), template, every, signal));
    done.map_err(|error| of_system(&error, None))
}

/// Before a fork.
#[pyfunction]
pub fn ports_pause(py: Python<'_>) {
    py.detach(ports::pause);
}

/// Whether some port is paused for a fork.
#[pyfunction]
pub fn ports_rest() -> bool {
    ports::rest()
}

/// In the parent, after a fork.
#[pyfunction]
pub fn ports_resume(py: Python<'_>) {
    py.detach(ports::resume);
}

/// At the interpreter's end.
#[pyfunction]
pub fn ports_end(py: Python<'_>) {
    py.detach(ports::end);
}
