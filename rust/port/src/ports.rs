//! Trace ports: from the rings of sessions to a file, a wrap set or a socket, by a thread that knows no Python.
//!
//! # Roles
//!
//! The *pump* is a thread of each port that has a session: it wakes by a timer, which is faster the fuller the rings were, takes
//! what is there, writes it, and flushes. Whoever asks for `flush`, `delivered` or the end does the same on its own thread. One at
//! a time: whoever holds `inner`.
//!
//! # Limits
//!
//! A port that has had enough writes nothing more, and the pump closes it: its sessions then have a dead tracer.
//!
//! # Forks
//!
//! Before a fork the pump is joined, what waits is written, and the sink has no thread; in the parent both start again. The child
//! abandons every port: it closes the files and sockets and never writes. Rules: dbg.md, `trace_port/2`.

use inviso_core::{
    drain::{self, Losses, Mark, Record, What},
    message::Messages,
    node::Node,
    session::Session,
};
use inviso_log::sink::Sink;
use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    about::Told,
    inherited::Inherited,
    limits::{Limits, Why},
    node as own,
    origin::Origin,
};

/// The name of the threads; that of a sink's own begins so, too.
const THREAD: &str = "inviso-port";
const THREADS: &str = "inviso-";

/// Records that are taken at a time.
const BATCH: usize = 1 << 16;

/// The pump's shortest and longest sleep.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(16);

/// What a port was opened as.
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
    /// Never used twice in a process.
    pub number: u64,
    /// What it was opened as.
    pub kind: Kind,
    /// Where it listens.
    pub address: Option<SocketAddr>,
    /// The file, or what the names of the files begin with.
    pub path: Option<PathBuf>,
    /// How long what is written may wait until it is handed to the system.
    patience: Duration,
    node: Arc<Node>,
    open: AtomicBool,
    inner: Mutex<Inner>,
    /// Sessions that it is the tracer of, newest last.
    feeders: Mutex<Vec<Arc<Session>>>,
    pump: Mutex<Pump>,
    /// The pump is to end.
    stopped: Condvar,
    written: AtomicU64,
    dropped: AtomicU64,
    errors: AtomicU64,
}

/// What a port has counted.
pub struct Counts {
    /// Messages that were written, or wait to be.
    pub written: u64,
    /// Messages that were lost, before they came here or here.
    pub dropped: u64,
    /// Bytes that the system has taken.
    pub bytes: u64,
    /// Calls of the system that failed.
    pub errors: u64,
}

struct Inner {
    sink: Option<Box<dyn Sink + Send>>,
    messages: Messages,
    limits: Limits,
    about: Told,
    /// The message that is being made.
    out: Vec<u8>,
    /// What the system said last.
    error: Option<String>,
    flushed: Instant,
    /// Bytes and losses of a sink that is closed.
    ended: (u64, u64),
}

#[derive(Default)]
struct Pump {
    thread: Option<JoinHandle<()>>,
    stop: bool,
    /// How many wait for the end of one. None begins meanwhile: that one would go on in its place.
    stopping: usize,
}

static PORTS: Inherited<Vec<Weak<LogPort>>> = Inherited::new([const { Mutex::new(Vec::new()) }; 16]);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn every() -> Vec<Arc<LogPort>> {
    PORTS.lock().iter().filter_map(Weak::upgrade).collect()
}

/// Messages of this node, as it is called now.
pub fn messages() -> Messages {
    Messages::new(&own::name(), Origin::here().creation() as u32)
}

impl Inner {
    /// What the system says is remembered; the sink counts what it could not write, and tells of it where writing works again.
    fn noted(&mut self, done: io::Result<()>, errors: &AtomicU64) {
        if let Err(error) = done {
            errors.fetch_add(1, Ordering::Relaxed);
            self.error = Some(error.to_string());
        }
    }
}

impl LogPort {
    /// A port that writes into a sink.
    pub fn open(
        node: Arc<Node>, kind: Kind, path: Option<PathBuf>, address: Option<SocketAddr>, patience: Duration,
        sink: Box<dyn Sink + Send>,
    ) -> Arc<LogPort> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let inner = Inner {
            sink: Some(sink),
            messages: messages(),
            limits: Limits::default(),
            about: Told::default(),
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

    /// Whether it takes messages.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (bytes, lost) = if self.is_open() {
            let inner = lock(&self.inner);
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

    /// What the system said last that could not be written.
    pub fn error(&self) -> Option<String> {
        self.inner.try_lock().ok()?.error.clone()
    }

    /// It closes by itself when it has had enough; what is `None` stays as it is.
    pub fn limit(&self, limit: Option<u64>, rate: Option<(u64, u64)>, lost: Option<u64>) {
        self.locked(|inner| inner.limits.change(limit, rate, lost));
    }

    /// Whether it has a limit or a rate.
    pub fn is_limited(&self) -> bool {
        self.locked(|inner| inner.limits.is_set())
    }

    /// Why it closes, or closed, by itself.
    pub fn ended(&self) -> Option<Why> {
        self.locked(|inner| inner.limits.why())
    }

    /// It is the tracer of one more session; false if it is closed.
    pub fn attach(self: &Arc<Self>, session: Arc<Session>) -> bool {
        let mut feeders = lock(&self.feeders);
        if !self.is_open() {
            return false;
        }
        feeders.push(session);
        drop(feeders);
        self.start();
        true
    }

    /// A session has ended: what it told is written and flushed. The last one closes the port.
    pub fn detach(self: &Arc<Self>, session: &Session) {
        self.write_to(&Mark::of(session));
        let mut feeders = lock(&self.feeders);
        feeders.retain(|feeder| feeder.id != session.id);
        let last = feeders.is_empty();
        drop(feeders);
        if last {
            self.close();
        }
    }

    /// Writes what a session's rings hold, which has another tracer or none, behind everything else.
    ///
    /// # Errors
    /// It is closed; what the system says.
    pub fn dump(&self, session: &Session) -> io::Result<crate::recorder::Dump> {
        self.locked(|inner| {
            let Some(sink) = inner.sink.as_deref_mut() else {
                return Err(io::Error::new(io::ErrorKind::NotConnected, "the trace port is closed"));
            };
            let (told, done) = crate::recorder::dump(&self.node, session, sink);
            self.written.fetch_add(told.written, Ordering::Relaxed);
            self.dropped.fetch_add(told.lost, Ordering::Relaxed);
            done.map(|()| told)
        })
    }

    /// Writes everything that the sessions told before, and hands it to the system.
    pub fn flush(&self) {
        let marks: Vec<Mark> = lock(&self.feeders).iter().map(|session| Mark::of(session)).collect();
        for mark in &marks {
            self.write_to(mark);
        }
        self.locked(|inner| self.hand_over(inner));
    }

    /// Writes everything before a mark, and hands it to the system.
    pub fn write_to(&self, mark: &Mark) {
        while self.is_open() {
            let passed = self.locked(|inner| {
                self.take(inner);
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

    /// Writes what there is and takes nothing more; the sessions that it is the tracer of have none.
    pub fn close(&self) {
        let was_open = self.shut();
        self.stop();
        if was_open {
            self.close_sink();
        }
    }

    /// Takes nothing more; whether it did until now, and its sink is the caller's to close.
    fn shut(&self) -> bool {
        let orphan = |sessions: &[Arc<Session>]| {
            sessions.iter().filter(|session| session.is_alive()).for_each(|session| self.node.lose_tracer(session));
        };
        let feeders = lock(&self.feeders).clone();
        orphan(&feeders);
        self.flush();
        let (was_open, all) = {
            let mut feeders = lock(&self.feeders);
            (self.open.swap(false, Ordering::AcqRel), std::mem::take(&mut *feeders))
        };
        // one may have come meanwhile
        orphan(&all);
        was_open
    }

    fn close_sink(&self) {
        let mut inner = lock(&self.inner);
        if let Some(mut sink) = inner.sink.take() {
            let closed = sink.close();
            inner.ended = (sink.bytes(), sink.lost());
            inner.noted(closed, &self.errors);
        }
    }

    fn locked<R>(&self, with: impl FnOnce(&mut Inner) -> R) -> R {
        with(&mut lock(&self.inner))
    }

    /// Takes what is in the rings; how full the fullest session's may have been, in 16ths.
    fn take(&self, inner: &mut Inner) -> u64 {
        let feeders = lock(&self.feeders).clone();
        self.node.clock.follow();
        inner.messages.identify(&own::name(), Origin::here().creation() as u32);
        let sessions: Vec<_> = feeders.iter().map(|session| &**session).collect();
        let mut bytes = vec![0; sessions.len()];
        // busy is nobody else: all drains of these rings hold `inner`
        drain::drain_all(&sessions, BATCH, Losses::Between, |at, record| bytes[at] += self.write(inner, record));
        let full = |(session, bytes): (&&Session, &u64)| bytes * 16 / (session.options.ring_bytes as u64).max(1);
        sessions.iter().zip(&bytes).map(full).max().unwrap_or(0)
    }

    /// Writes one record; how many bytes it took in its ring.
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
            inner.limits.lost(lost);
            sink.dropped(lost)
        } else {
            count(&self.written, 1);
            inner.limits.saw();
            if let What::Event(event) = &record.what {
                inner.about.see(&self.node, event, sink.as_mut());
            }
            sink.term(&inner.out)
        };
        inner.noted(done, &self.errors);
        size(record)
    }

    fn hand_over(&self, inner: &mut Inner) {
        if let Some(sink) = inner.sink.as_mut() {
            let flushed = sink.flush();
            inner.flushed = Instant::now();
            inner.noted(flushed, &self.errors);
        }
    }

    fn start(self: &Arc<Self>) {
        let mut pump = lock(&self.pump);
        if pump.thread.is_some() || pump.stopping > 0 || !self.is_open() {
            return; // whoever stops one for a fork starts one afterwards
        }
        pump.stop = false;
        let port = self.clone();
        match thread::Builder::new().name(THREAD.into()).spawn(move || port.run()) {
            Ok(thread) => pump.thread = Some(thread),
            // without a thread what waits is written when somebody asks for it, and at the end
            Err(error) => self.locked(|inner| inner.noted(Err(error), &self.errors)),
        }
    }

    fn stop(&self) {
        let thread = {
            let mut pump = lock(&self.pump);
            pump.stop = true;
            pump.stopping += usize::from(pump.thread.is_some());
            pump.thread.take()
        };
        self.stopped.notify_all();
        if let Some(thread) = thread {
            let _ = thread.join();
            lock(&self.pump).stopping -= 1;
        }
    }

    fn run(&self) {
        let mut period = SHORTEST * 4;
        loop {
            let pump = lock(&self.pump);
            if pump.stop {
                return;
            }
            let (pump, _) = self.stopped.wait_timeout(pump, period).unwrap_or_else(PoisonError::into_inner);
            if pump.stop {
                return;
            }
            drop(pump);
            let (full, is_enough) = self.locked(|inner| {
                let full = self.take(inner);
                let now = Instant::now();
                if let Some(sink) = inner.sink.as_mut() {
                    let ticked = sink.tick(now);
                    inner.noted(ticked, &self.errors);
                }
                if now.saturating_duration_since(inner.flushed) >= self.patience {
                    self.hand_over(inner);
                }
                (full, inner.limits.why().is_some())
            });
            if is_enough {
                if self.shut() {
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
        What::Event(event) => (inviso_core::ring::HEADER_BYTES + event.payload.len() + event.extra.len()) as u64,
    }
}

impl Drop for LogPort {
    fn drop(&mut self) {
        // nobody uses it: its sink closes itself, if this is not a child that has been let go of
        if !self.is_open() {
            let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let Some(sink) = &mut inner.sink {
                sink.abandon();
            }
        }
    }
}

/// Before a fork: writes what there is, and ends the threads.
pub fn pause() {
    let all = every();
    let recorded = crate::recorder::is_on();
    crate::recorder::pause();
    for port in all.iter().filter(|port| port.is_open()) {
        port.stop();
        port.flush();
        port.locked(|inner| {
            if let Some(sink) = &mut inner.sink {
                sink.pause();
            }
        });
    }
    if recorded || !all.is_empty() {
        await_threads();
    }
}

/// A thread that was joined may still be there for the system, and a fork looks at that.
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

/// Whether a thread of ours rests.
pub fn rest() -> bool {
    crate::recorder::is_on() || every().iter().any(|port| port.is_open())
}

/// In the parent, after a fork.
pub fn resume() {
    crate::recorder::resume();
    for port in every().iter().filter(|port| port.is_open()) {
        port.locked(|inner| {
            if let Some(sink) = &mut inner.sink {
                let resumed = sink.resume();
                inner.noted(resumed, &port.errors);
            }
        });
        if !lock(&port.feeders).is_empty() {
            port.start();
        }
    }
}

/// In the child of a fork: closes what the parent writes to, and writes nothing. Its locks may be held by threads that don't exist
/// here.
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

/// At the interpreter's end: what there is is written, and every port closed.
pub fn end() {
    crate::recorder::finish();
    every().iter().for_each(|port| port.close());
}
