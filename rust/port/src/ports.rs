//! Trace ports: write the events of sessions' rings to a file, a wrap set or a socket, without Python.
//!
//! # Roles
//!
//! The *pump* is a thread of each port that has a session. A timer wakes it, sooner the fuller the rings were. It drains the
//! rings, writes and flushes. A caller of `flush`, `delivered` or the end does the same on its own thread. The holder of `inner`
//! is the only one at a time.
//!
//! # States
//!
//! | state | is |
//! | --- | --- |
//! | open | accepts sessions; the pump runs while there is one |
//! | shut | `open` is false, the sink is still there: it is written to the end |
//! | closed | no sink; `ended` has its counts |
//!
//! A port that reaches a limit writes nothing more. The pump closes it, and its sessions then have a dead tracer.
//!
//! # Orderings
//!
//! `open` changes under `feeders`, so that no session is attached after the last look at the list. Locks are taken in the order
//! `pump`, `inner`, `feeders`; none of them is held while the pump is joined. The counts are `Relaxed`: they are written under
//! `inner` and publish nothing.
//!
//! # Checked by
//!
//! `tests/port.rs`, `tests/python/test_trace_ports.py`.
//!
//! # Forks
//!
//! Before a fork the pump is joined, the rings are written, and the sink has no thread. In the parent both start again. The child
//! abandons every port: it closes the files and sockets and never writes. Rules: dbg.md, `trace_port/2`.

use inviso_core::host::{
    drain::{self, Losses, Mark, Record, What},
    message::Messages,
    node::Node,
    session::Session,
    sync::Unpoisoned,
};
use inviso_log::sink::Sink;
use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Arc, Condvar, Mutex, Weak,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    about::Described,
    fork_safe_lock::ForkSafeLock,
    limits::{Limits, Why},
    node as own,
    origin::Origin,
};

/// The name of the pumps. The name of a sink's own thread begins with the second one, too.
const THREAD: &str = "inviso-port";
const THREADS: &str = "inviso-";

/// How many records one drain takes.
const BATCH: usize = 1 << 16;

/// The pump's shortest and longest sleep.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(16);

/// What a port writes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A wrap set.
    Wrap,
    /// A socket.
    Ip,
}

/// A trace port.
pub struct LogPort {
    /// Unique in the process.
    pub number: u64,
    /// What it writes to.
    pub kind: Kind,
    /// The address where it listens.
    pub address: Option<SocketAddr>,
    /// The file, or the prefix of the file names.
    pub path: Option<PathBuf>,
    /// How long written messages may wait before they are handed to the system.
    patience: Duration,
    node: Arc<Node>,
    open: AtomicBool,
    inner: Mutex<Inner>,
    /// Sessions whose tracer is this port, newest last.
    feeders: Mutex<Vec<Arc<Session>>>,
    pump: Mutex<Pump>,
    /// Notified when the pump has to end.
    stopped: Condvar,
    written: AtomicU64,
    dropped: AtomicU64,
    errors: AtomicU64,
}

/// The counts of a port.
pub struct Counts {
    /// Messages that were written or wait in the sink.
    pub written: u64,
    /// Messages that were lost, in the rings or in the sink.
    pub dropped: u64,
    /// Bytes that the system accepted.
    pub bytes: u64,
    /// System calls that failed.
    pub errors: u64,
}

struct Inner {
    sink: Option<Box<dyn Sink + Send>>,
    messages: Messages,
    limits: Limits,
    described: Described,
    /// The message that is being encoded.
    out: Vec<u8>,
    /// The latest error of the system.
    error: Option<String>,
    flushed: Instant,
    /// Bytes and losses of a closed sink.
    ended: (u64, u64),
}

#[derive(Default)]
struct Pump {
    thread: Option<JoinHandle<()>>,
    stop: bool,
    /// How many threads wait for the pump's end. Nobody starts a pump meanwhile: the ending one would continue in its place.
    stopping: usize,
}

static PORTS: ForkSafeLock<Vec<Weak<LogPort>>> = ForkSafeLock::new([const { Mutex::new(Vec::new()) }; 16]);

fn all_ports() -> Vec<Arc<LogPort>> {
    PORTS.lock().iter().filter_map(Weak::upgrade).collect()
}

/// An encoder of messages with this node's present name.
pub fn messages() -> Messages {
    Messages::new(&own::name(), Origin::own().creation() as u32)
}

impl Inner {
    /// Remembers an error of the system. The sink counts the messages that it could not write, and reports them when writing
    /// works again.
    fn note_result(&mut self, done: io::Result<()>, errors: &AtomicU64) {
        if let Err(error) = done {
            errors.fetch_add(1, Ordering::Relaxed);
            self.error = Some(error.to_string());
        }
    }
}

impl LogPort {
    /// Creates a port that writes to a sink.
    pub fn open(
        node: Arc<Node>, kind: Kind, path: Option<PathBuf>, address: Option<SocketAddr>, patience: Duration,
        sink: Box<dyn Sink + Send>,
    ) -> Arc<LogPort> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let inner = Inner {
            sink: Some(sink),
            messages: messages(),
            limits: Limits::default(),
            described: Described::default(),
            out: Vec::new(),
            error: None,
            flushed: Instant::now(),
            ended: (0, 0),
        };
        let port = Arc::new(LogPort {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            kind,
            address,
            path,
            patience,
            node,
            open: AtomicBool::new(true),
            inner: Mutex::new(inner),
            feeders: Mutex::default(),
            pump: Mutex::default(),
            stopped: Condvar::new(),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        });
        let mut all = PORTS.lock();
        all.retain(|port| port.strong_count() > 0);
        all.push(Arc::downgrade(&port));
        port
    }

    /// Whether it accepts messages.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (bytes, lost) = if self.is_open() {
            let inner = self.inner.lock().unpoisoned();
            inner.sink.as_ref().map_or(inner.ended, |sink| (sink.bytes(), sink.lost()))
        } else {
            self.inner.try_lock().map_or((0, 0), |inner| inner.ended)
        };
        Counts {
            written: load(&self.written).saturating_sub(lost),
            dropped: load(&self.dropped) + lost,
            bytes,
            errors: load(&self.errors),
        }
    }

    /// The latest error of the system.
    pub fn error(&self) -> Option<String> {
        self.inner.try_lock().ok()?.error.clone()
    }

    /// Sets the limits that are not `None`. The port closes by itself when it reaches one.
    pub fn limit(&self, limit: Option<u64>, rate: Option<(u64, u64)>, lost: Option<u64>) {
        self.with_inner(|inner| inner.limits.change(limit, rate, lost));
    }

    /// Whether it has a limit or a rate.
    pub fn is_limited(&self) -> bool {
        self.with_inner(|inner| inner.limits.is_set())
    }

    /// Why it closes, or closed, by itself.
    pub fn ended(&self) -> Option<Why> {
        self.with_inner(|inner| inner.limits.why())
    }

    /// Makes this port the tracer of one more session; false if it is closed.
    pub fn attach(self: &Arc<Self>, session: Arc<Session>) -> bool {
        let mut feeders = self.feeders.lock().unpoisoned();
        if !self.is_open() {
            return false;
        }
        feeders.push(session);
        drop(feeders);
        self.start_pump();
        true
    }

    /// Writes and flushes the events of a session that has ended. The last session closes the port.
    pub fn detach(self: &Arc<Self>, session: &Session) {
        self.write_to(&Mark::of(session));
        let mut feeders = self.feeders.lock().unpoisoned();
        feeders.retain(|feeder| feeder.id != session.id);
        let last = feeders.is_empty();
        drop(feeders);
        if last {
            self.close();
        }
    }

    /// Writes the contents of a session's rings after everything else. The session has another tracer or none.
    ///
    /// # Errors
    /// The port is closed, or the system reports an error.
    pub fn dump(&self, session: &Session) -> io::Result<crate::recorder::Dump> {
        self.with_inner(|inner| {
            let Some(sink) = inner.sink.as_deref_mut() else {
                return Err(io::Error::new(io::ErrorKind::NotConnected, "the trace port is closed"));
            };
            let (dump, done) = crate::recorder::dump(&self.node, session, sink);
            self.written.fetch_add(dump.written, Ordering::Relaxed);
            self.dropped.fetch_add(dump.lost, Ordering::Relaxed);
            done.map(|()| dump)
        })
    }

    /// Writes every earlier event of the sessions and hands it to the system.
    pub fn flush(&self) {
        let marks: Vec<Mark> = self.feeders.lock().unpoisoned().iter().map(|session| Mark::of(session)).collect();
        for mark in &marks {
            self.write_to(mark);
        }
        self.with_inner(|inner| self.hand_over(inner));
    }

    /// Writes everything before a mark and hands it to the system.
    pub fn write_to(&self, mark: &Mark) {
        while self.is_open() {
            let passed = self.with_inner(|inner| {
                self.drain(inner);
                let passed = mark.passed();
                if passed {
                    self.hand_over(inner);
                }
                passed
            });
            if passed {
                return;
            }
            thread::yield_now();
        }
    }

    /// Writes the rings and closes the port. Its sessions have no tracer then.
    pub fn close(&self) {
        let was_open = self.stop_accepting();
        self.stop_pump();
        if was_open {
            self.close_sink();
        }
    }

    /// Ends the acceptance of messages. Answers whether this call ended it: then the caller closes the sink.
    fn stop_accepting(&self) -> bool {
        let orphan = |sessions: &[Arc<Session>]| {
            sessions.iter().filter(|session| session.is_alive()).for_each(|session| self.node.lose_tracer(session));
        };
        let feeders = self.feeders.lock().unpoisoned().clone();
        orphan(&feeders);
        self.flush();
        let (was_open, all) = {
            let mut feeders = self.feeders.lock().unpoisoned();
            (self.open.swap(false, Ordering::AcqRel), std::mem::take(&mut *feeders))
        };
        // a session may have been attached meanwhile
        orphan(&all);
        was_open
    }

    fn close_sink(&self) {
        let mut inner = self.inner.lock().unpoisoned();
        if let Some(mut sink) = inner.sink.take() {
            let closed = sink.close();
            inner.ended = (sink.bytes(), sink.lost());
            inner.note_result(closed, &self.errors);
        }
    }

    fn with_inner<R>(&self, with: impl FnOnce(&mut Inner) -> R) -> R {
        with(&mut self.inner.lock().unpoisoned())
    }

    /// Writes the contents of the rings. Answers how full the fullest session's rings may have been, in 16ths.
    fn drain(&self, inner: &mut Inner) -> u64 {
        let feeders = self.feeders.lock().unpoisoned().clone();
        self.node.clock.follow();
        inner.messages.identify(&own::name(), Origin::own().creation() as u32);
        let sessions: Vec<_> = feeders.iter().map(|session| &**session).collect();
        let mut bytes = vec![0; sessions.len()];
        // never busy: all drains of these rings hold `inner`
        drain::drain_all(&sessions, BATCH, Losses::Between, |at, record| bytes[at] += self.write(inner, record));
        let full = |(session, bytes): (&&Session, &u64)| bytes * 16 / (session.options.ring_bytes as u64).max(1);
        sessions.iter().zip(&bytes).map(full).max().unwrap_or(0)
    }

    /// Writes one record. Answers how many bytes it had in its ring.
    fn write(&self, inner: &mut Inner, record: &Record<&[u8]>) -> u64 {
        if inner.limits.why().is_some() {
            return size(record);
        }
        inner.out.clear();
        let count = |counter: &AtomicU64, n: u64| counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        let lost = match &record.what {
            What::Lost(n) => *n,
            What::Event(event) => match inner.messages.put(&self.node, record.ticks, event, &mut inner.out) {
                Ok(()) => 0,
                Err(_) => 1,
            },
        };
        let Some(sink) = inner.sink.as_mut() else { return 0 };
        let done = if lost > 0 {
            count(&self.dropped, lost);
            inner.limits.count_lost(lost);
            sink.dropped(lost)
        } else {
            count(&self.written, 1);
            inner.limits.count_message();
            if let What::Event(event) = &record.what {
                inner.described.before_event(&self.node, event, sink.as_mut());
            }
            sink.term(&inner.out)
        };
        inner.note_result(done, &self.errors);
        size(record)
    }

    fn hand_over(&self, inner: &mut Inner) {
        if let Some(sink) = inner.sink.as_mut() {
            let flushed = sink.flush();
            inner.flushed = Instant::now();
            inner.note_result(flushed, &self.errors);
        }
    }

    fn start_pump(self: &Arc<Self>) {
        let mut pump = self.pump.lock().unpoisoned();
        if pump.thread.is_some() || pump.stopping > 0 || !self.is_open() {
            return; // the thread that stops a pump for a fork starts one after it
        }
        pump.stop = false;
        let port = self.clone();
        match thread::Builder::new().name(THREAD.into()).spawn(move || port.run_pump()) {
            Ok(thread) => pump.thread = Some(thread),
            // without a pump, events are written on request and at the end
            Err(error) => self.with_inner(|inner| inner.note_result(Err(error), &self.errors)),
        }
    }

    fn stop_pump(&self) {
        let thread = {
            let mut pump = self.pump.lock().unpoisoned();
            pump.stop = true;
            pump.stopping += usize::from(pump.thread.is_some());
            pump.thread.take()
        };
        self.stopped.notify_all();
        if let Some(thread) = thread {
            let _ = thread.join();
            self.pump.lock().unpoisoned().stopping -= 1;
        }
    }

    fn run_pump(&self) {
        let mut period = SHORTEST * 4;
        loop {
            let pump = self.pump.lock().unpoisoned();
            if pump.stop {
                return;
            }
            let (pump, _) = self.stopped.wait_timeout(pump, period).unpoisoned();
            if pump.stop {
                return;
            }
            drop(pump);
            let (full, is_enough) = self.with_inner(|inner| {
                let full = self.drain(inner);
                let now = Instant::now();
                if let Some(sink) = inner.sink.as_mut() {
                    let ticked = sink.tick(now);
                    inner.note_result(ticked, &self.errors);
                }
                if now.saturating_duration_since(inner.flushed) >= self.patience {
                    self.hand_over(inner);
                }
                (full, inner.limits.why().is_some())
            });
            if is_enough {
                if self.stop_accepting() {
                    self.close_sink();
                }
                return;
            }
            period = match full {
                4.. => (period / 2).max(SHORTEST),
                0 => (period * 2).min(LONGEST),
                _ => period,
            };
        }
    }
}

fn size(record: &Record<&[u8]>) -> u64 {
    match &record.what {
        What::Lost(_) => 0,
        What::Event(event) => (inviso_core::host::ring::HEADER_BYTES + event.payload.len() + event.extra.len()) as u64,
    }
}

impl Drop for LogPort {
    fn drop(&mut self) {
        // nobody uses the port any more. The sink of an open one closes itself; a forked child abandons its copy
        if !self.is_open() {
            let inner = self.inner.get_mut().unpoisoned();
            if let Some(sink) = &mut inner.sink {
                sink.abandon();
            }
        }
    }
}

/// Before a fork: writes the rings and ends the threads.
pub fn pause() {
    let all = all_ports();
    let recorded = crate::recorder::is_on();
    crate::recorder::pause();
    for port in all.iter().filter(|port| port.is_open()) {
        port.stop_pump();
        port.flush();
        port.with_inner(|inner| {
            if let Some(sink) = &mut inner.sink {
                sink.pause();
            }
        });
    }
    if recorded || !all.is_empty() {
        await_threads();
    }
}

/// Waits until the joined threads are gone. The system may still list them for a moment, and a fork looks at that list.
fn await_threads() {
    let ours = |task: io::Result<std::fs::DirEntry>| {
        task.and_then(|task| std::fs::read_to_string(task.path().join("comm")))
            .is_ok_and(|name| name.starts_with(THREADS))
    };
    for _ in 0..1000 {
        let Ok(mut tasks) = std::fs::read_dir("/proc/self/task") else { return };
        if !tasks.any(ours) {
            return;
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Whether a thread of this crate is stopped for the fork.
/// Only other crates of the workspace use it.
pub fn rest() -> bool {
    crate::recorder::is_on() || all_ports().iter().any(|port| port.is_open())
}

/// In the parent, after a fork.
pub fn resume() {
    crate::recorder::resume();
    for port in all_ports().iter().filter(|port| port.is_open()) {
        port.with_inner(|inner| {
            if let Some(sink) = &mut inner.sink {
                let resumed = sink.resume();
                inner.note_result(resumed, &port.errors);
            }
        });
        if !port.feeders.lock().unpoisoned().is_empty() {
            port.start_pump();
        }
    }
}

/// In the child of a fork: closes the sinks without writing. Threads that do not exist here may hold the locks.
pub fn abandon() {
    let Some(mut all) = PORTS.in_child() else { return };
    for port in all.drain(..).filter_map(|port| port.upgrade()) {
        port.open.store(false, Ordering::Release);
        if let Ok(mut inner) = port.inner.try_lock() {
            if let Some(mut sink) = inner.sink.take() {
                inner.ended = (sink.bytes(), sink.lost());
                sink.abandon();
            }
        };
    }
}

/// At the interpreter's end: writes the rings and closes every port.
/// Only other crates of the workspace use it.
pub fn end() {
    crate::recorder::finish();
    all_ports().iter().for_each(|port| port.close());
}
