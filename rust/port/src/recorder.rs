//! The flight recorder: writes the contents of a session's rings to a log on request.
//!
//! # Roles
//!
//! The *recorder* is a thread that waits for its [`bell`] while a session uses it. A traced thread (at a match spec's `dump`, an
//! exception, a slow call) sets its session's flag and rings if the flag was clear. A signal handler sets the signal's flag and
//! rings ([`signals`]). Only the recorder serves these requests. It never attaches to the interpreter. A caller of
//! [`dump_to_file`] or of a port's `dump` drains on its own thread.
//!
//! # States
//!
//! | `Recorder` | is |
//! | --- | --- |
//! | no recording | no thread |
//! | recordings, a thread | requests are served |
//! | recordings, no thread | `stopping`, or stopped for a fork; requests wait |
//!
//! # Orderings
//!
//! `STOP` is set (`Release`) before the ring and read (`Acquire`) after the wait. The other state is under its lock: `RECORDER`,
//! then a recording's `serving`, then its `state`.
//!
//! # Checked by
//!
//! `tests/python/test_flight_recorder.py`.
//!
//! # Forks
//!
//! The thread stops as those of [`crate::ports`] do. A request during the fork is served when the thread has started again. The
//! child has no session, and the signal handlers from before.
//!
//! Only other crates of the workspace use it.

use crate::{
    about::Described,
    bell::{self, ring},
    fork_safe_lock::ForkSafeLock,
    ports::messages,
    signals::{self, SIGNALS},
};
use inviso_core::host::{
    drain::{self, Losses, Mark, What},
    node::Node,
    session::Session,
    sync::Unpoisoned,
};
use inviso_log::{
    file::{FileLog, Form, Options},
    sink::Sink,
};
use std::{
    ffi::OsString,
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const THREAD: &str = "inviso-recorder";

/// The pause between the bell and the dump, so that the dump has the events just after the request, too.
const SETTLE: Duration = Duration::from_millis(5);

/// How long a dump waits for another thread's drain.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How often the recorder checks whether the program has put a signal's default in place of our handler.
const CHECK_HANDLERS: Duration = Duration::from_secs(1);

/// The counts of one dump.
pub struct Dump {
    /// Messages.
    pub written: u64,
    /// Messages that were lost or overwritten since the last dump.
    pub lost: u64,
}

/// Writes the contents of a session's rings, oldest first. Overwritten messages are reported first, in one drop record. Answers
/// the counts and the first error of the system. Writing goes on after an error, and the sink counts the messages that it could
/// not write.
pub fn dump(node: &Node, session: &Session, sink: &mut dyn Sink) -> (Dump, io::Result<()>) {
    node.clock.follow();
    let (mut messages, mut described) = (messages(), Described::default());
    let (mut done, mut dump, mut lost, mut out) = (Ok(()), Dump { written: 0, lost: 0 }, 0, Vec::new());
    let mut note = |result: io::Result<()>| {
        if done.is_ok() {
            done = result;
        }
    };
    let mark = Mark::of(session);
    let began = Instant::now();
    loop {
        let drained = drain::drain_borrowed(session, usize::MAX, Losses::First, |record| {
            out.clear();
            match &record.what {
                What::Lost(n) => lost += n,
                What::Event(event) => {
                    if messages.put(node, record.ticks, event, &mut out).is_err() {
                        lost += 1;
                        return;
                    }
                    if lost > 0 {
                        note(sink.dropped(lost));
                        dump.lost += std::mem::take(&mut lost);
                    }
                    described.before_event(node, event, sink);
                    note(sink.term(&out));
                    dump.written += 1;
                }
            }
        });
        // an empty drain may still report losses
        if drained.is_ok() && mark.passed() || began.elapsed() >= LONGEST_WAIT {
            break;
        }
        if drained.is_err() {
            thread::yield_now();
        }
    }
    note(sink.dropped(lost));
    dump.lost += lost;
    note(sink.flush());
    (dump, done)
}

/// As [`dump`], to a new file. The session's next drain reports the messages that could not be written.
///
/// # Errors
/// The file could not be created. Then nothing was drained.
pub fn dump_to_file(node: &Node, session: &Session, path: &Path, blocks: bool) -> io::Result<(Dump, io::Result<()>)> {
    let form = if blocks { Form::Blocks } else { Form::Erlang };
    Ok(dump_to_log(node, session, FileLog::create(path, Options { form, ..Options::default() })?))
}

fn dump_to_log(node: &Node, session: &Session, mut log: FileLog) -> (Dump, io::Result<()>) {
    let (dump, done) = dump(node, session, &mut log);
    let closed = log.close();
    session.give_up(log.lost(), log.unreported());
    (dump, done.and(closed))
}

/// A session's use of the recorder.
pub struct Recording {
    node: Arc<Node>,
    session: Arc<Session>,
    /// The path of the dumps; `{n}` stands for the dump's number.
    template: OsString,
    /// The shortest time between two dumps.
    every: Duration,
    signal: i32,
    /// Held while a request is checked and its dump is written.
    serving: Mutex<()>,
    state: Mutex<RecordingState>,
}

#[derive(Default)]
struct RecordingState {
    dumps: u64,
    /// The number of the file that was created last.
    files: u64,
    last: Option<Instant>,
    path: Option<PathBuf>,
    error: Option<String>,
    /// The request came before `every` was over. It is dropped when that time is over.
    early: bool,
}

struct Recorder {
    recordings: Vec<Arc<Recording>>,
    thread: Option<JoinHandle<()>>,
    /// How many threads wait for the recorder's end.
    stopping: usize,
}

const NOTHING: Recorder = Recorder { recordings: Vec::new(), thread: None, stopping: 0 };

static RECORDER: ForkSafeLock<Recorder> = ForkSafeLock::new([const { Mutex::new(NOTHING) }; 16]);
static STOP: AtomicBool = AtomicBool::new(false);

/// Registers a session: the recorder writes its dumps.
///
/// # Errors
/// The system refuses the thread or the signal (0 for no signal).
pub fn begin(
    node: Arc<Node>, session: Arc<Session>, template: OsString, every: Duration, signal: i32,
) -> io::Result<()> {
    let mut recorder = RECORDER.lock();
    if signal != 0 {
        let installed = signals::install(signal);
        if installed.is_err() && recorder.recordings.iter().all(|recording| recording.signal != signal) {
            signals::uninstall(signal);
        }
        installed?;
    }
    recorder.recordings.push(Arc::new(Recording {
        node,
        session,
        template,
        every,
        signal,
        serving: Mutex::default(),
        state: Mutex::default(),
    }));
    start(&mut recorder)
}

/// Unregisters a session that ends, after its pending request is served.
pub fn end(session: &Session) {
    let mut recorder = RECORDER.lock();
    let Some(at) = recorder.recordings.iter().position(|recording| recording.session.id == session.id) else { return };
    let ended = recorder.recordings.remove(at);
    let is_last_of_signal =
        ended.signal != 0 && recorder.recordings.iter().all(|recording| recording.signal != ended.signal);
    if is_last_of_signal {
        signals::uninstall(ended.signal);
    }
    // other sessions of this signal still need both flags
    let due = is_last_of_signal && signals::is_due(ended.signal);
    let raised = signals::has_come(ended.signal);
    let last = recorder.recordings.is_empty();
    drop(recorder);
    if last {
        stop();
    }
    ended.serve(raised);
    if due {
        signals::follow(ended.signal);
    }
}

/// At the interpreter's end: serves the pending requests. Later nothing would run a signal's default action, so those signals get
/// their former handlers back.
pub fn finish() {
    for recording in &RECORDER.lock().recordings {
        if signals::has_default(recording.signal) {
            signals::uninstall(recording.signal);
        }
    }
    stop();
    serve_all();
}

/// The number of a session's dumps, the path of the last one, and the latest error.
pub fn state(session: &Session) -> (u64, Option<PathBuf>, Option<String>) {
    let recorder = RECORDER.lock();
    let known = recorder.recordings.iter().find(|recording| recording.session.id == session.id);
    known.map_or((0, None, None), |recording| {
        let state = recording.state.lock().unpoisoned();
        (state.dumps, state.path.clone(), state.error.clone())
    })
}

fn start(recorder: &mut Recorder) -> io::Result<()> {
    // no thread starts while another stops for a fork: the stopping one would continue in its place. One starts after the fork
    if recorder.thread.is_some() || recorder.stopping > 0 {
        return Ok(());
    }
    STOP.store(false, Ordering::Release);
    recorder.thread = Some(thread::Builder::new().name(THREAD.into()).spawn(run)?);
    Ok(())
}

fn stop() {
    let thread = {
        let mut recorder = RECORDER.lock();
        recorder.stopping += usize::from(recorder.thread.is_some());
        recorder.thread.take()
    };
    if let Some(thread) = thread {
        STOP.store(true, Ordering::Release);
        ring();
        let _ = thread.join();
        RECORDER.lock().stopping -= 1;
    }
}

fn run() {
    // a request that came without a thread, or while the last one ended, may never ring again
    let mut next = Some(Duration::ZERO);
    loop {
        bell::wait(next);
        if STOP.load(Ordering::Acquire) {
            return;
        }
        next = serve_all();
    }
}

/// Serves every session, then runs the default actions of signals. Answers when to look again.
fn serve_all() -> Option<Duration> {
    let (recordings, raised, due) = take_requests();
    let next = recordings.iter().filter_map(|recording| recording.serve(raised[recording.signal as usize])).min();
    (0..).zip(due).filter(|(_, due)| *due).for_each(|(number, _)| signals::follow(number));
    let check = recordings.iter().any(|recording| recording.signal != 0).then_some(CHECK_HANDLERS);
    [next, check].into_iter().flatten().min()
}

/// The recordings, the raised signals and the due default actions, all read under one lock, so that an ending session misses no
/// signal.
fn take_requests() -> (Vec<Arc<Recording>>, [bool; SIGNALS], [bool; SIGNALS]) {
    let recorder = RECORDER.lock();
    for recording in recorder.recordings.iter().filter(|recording| recording.signal != 0) {
        signals::reinstall(recording.signal);
    }
    let (raised, due) = signals::take_raised();
    (recorder.recordings.clone(), raised, due)
}

impl Recording {
    /// Writes a dump if one is requested. Answers when to look again.
    fn serve(&self, raised: bool) -> Option<Duration> {
        let _serving = self.serving.lock().unpoisoned();
        if !raised && !self.session.is_dump_asked() {
            return None;
        }
        let mut state = self.state.lock().unpoisoned();
        let left = state.last.map_or(Duration::ZERO, |last| self.every.saturating_sub(last.elapsed()));
        if !left.is_zero() {
            // the flag stays set, so that traced threads do not ring meanwhile
            state.early = self.session.is_dump_asked();
            return state.early.then_some(left);
        }
        if std::mem::take(&mut state.early) && !raised {
            self.session.take_dump();
            return None;
        }
        let last = state.files;
        drop(state);
        thread::sleep(SETTLE);
        self.session.take_dump();
        let (number, path, log) = self.create_after(last);
        let done = log.map(|log| dump_to_log(&self.node, &self.session, log));
        let mut state = self.state.lock().unpoisoned();
        state.last = Some(Instant::now());
        if done.is_ok() {
            state.files = number;
        }
        match done.and_then(|(_, written)| written) {
            Ok(()) => (state.dumps, state.path) = (state.dumps + 1, Some(path)),
            Err(error) => state.error = Some(format!("{}: {error}", path.display())),
        }
        None
    }

    /// Creates the file of the next free number. A file of another session or of an earlier run stays as it is.
    fn create_after(&self, last: u64) -> (u64, PathBuf, io::Result<FileLog>) {
        let mut number = last;
        loop {
            number += 1;
            let path = numbered(&self.template, number);
            match FileLog::create(&path, Options { new: true, ..Options::default() }) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                log => return (number, path, log),
            }
        }
    }
}

/// Replaces each `{n}` of the path by the number.
fn numbered(template: &OsString, number: u64) -> PathBuf {
    let (mut rest, mut path) = (template.as_bytes(), Vec::new());
    while let Some((first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"{n}") {
            path.extend_from_slice(number.to_string().as_bytes());
            rest = after;
        } else {
            path.push(*first);
            rest = after;
        }
    }
    OsString::from_vec(path).into()
}

/// Before a fork.
pub fn pause() {
    stop();
}

/// Whether a session uses the recorder.
pub fn is_on() -> bool {
    !RECORDER.lock().recordings.is_empty()
}

/// In the parent, after a fork. If the system refuses a thread, the next session that registers tries again.
pub fn resume() {
    let mut recorder = RECORDER.lock();
    if !recorder.recordings.is_empty() {
        let _ = start(&mut recorder);
    }
}

/// In the child of a fork.
pub fn abandon() {
    let Some(mut recorder) = RECORDER.in_child() else { return };
    // the thread doesn't exist here
    std::mem::forget(recorder.thread.take());
    recorder.stopping = 0;
    for recording in recorder.recordings.drain(..).filter(|recording| recording.signal != 0) {
        signals::uninstall(recording.signal);
    }
    drop(recorder);
    let (_, due) = signals::take_raised();
    (0..).zip(due).filter(|(_, due)| *due).for_each(|(number, _)| signals::follow(number));
}
