//! The flight recorder: what the rings of a session hold is written to a log when somebody asks for it.
//!
//! # Roles
//!
//! The *recorder* is a thread that waits for its [`bell`] as long as some session asked for it. A traced thread (by a match
//! spec's `dump`, an exception, a slow call) sets a flag of its session, and rings if it wasn't set; a signal's handler sets a
//! flag of the signal, and rings ([`signals`]). The recorder alone opens files and drains rings. It never attaches to the
//! interpreter.
//!
//! # Forks
//!
//! As in [`crate::ports`]: the thread rests meanwhile; what is asked for then is written when it goes on. The child has no
//! session, and the handlers that were there before.

use crate::{
    about::Told as About,
    bell::{self, ring},
    inherited::Inherited,
    ports::messages,
    signals::{self, SIGNALS},
};
use inviso_core::{
    drain::{self, Losses, Mark, What},
    node::Node,
    session::Session,
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
        Arc, Mutex, MutexGuard, PoisonError,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const THREAD: &str = "inviso-recorder";

/// Between the bell and the dump: what happens just then is wanted, too.
const SETTLE: Duration = Duration::from_millis(5);

/// A drain that somebody else has under way is waited for so long.
const BUSY: Duration = Duration::from_secs(5);

/// How often is looked whether the program has put a signal's default in place of our handler.
const KEEP: Duration = Duration::from_secs(1);

/// What one dump wrote.
pub struct Dump {
    /// Messages.
    pub written: u64,
    /// Messages that were lost or overwritten before, since the last dump.
    pub lost: u64,
}

/// Writes what the rings of a session hold now, oldest first; what was overwritten stands in front as one drop record. With it
/// comes what the system said first; the rest was tried all the same, and the sink counts what it could not write.
pub fn dump(node: &Node, session: &Session, sink: &mut dyn Sink) -> (Dump, io::Result<()>) {
    node.clock.follow();
    let (mut messages, mut about) = (messages(), About::default());
    let (mut done, mut told, mut lost, mut out) = (Ok(()), Dump { written: 0, lost: 0 }, 0, Vec::new());
    let mut note = |result: io::Result<()>| {
        if done.is_ok() {
            done = result;
        }
    };
    let mark = Mark::of(session);
    let begun = Instant::now();
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
                        told.lost += std::mem::take(&mut lost);
                    }
                    about.see(node, event, sink);
                    note(sink.term(&out));
                    told.written += 1;
                }
            }
        });
        // also where nothing is left, losses may have to be told
        if drained.is_ok() && mark.passed() || begun.elapsed() >= BUSY {
            break;
        }
        if drained.is_err() {
            thread::yield_now();
        }
    }
    note(sink.dropped(lost));
    told.lost += lost;
    note(sink.flush());
    (told, done)
}

/// As [`dump`], to a file of its own. What that lacks, the next drain of the session tells of.
///
/// # Errors
/// The file could not be made; nothing was taken.
pub fn dump_to_file(node: &Node, session: &Session, path: &Path, blocks: bool) -> io::Result<(Dump, io::Result<()>)> {
    let form = if blocks { Form::Blocks } else { Form::Erlang };
    Ok(dump_to_log(node, session, FileLog::create(path, Options { form, ..Options::default() })?))
}

fn dump_to_log(node: &Node, session: &Session, mut log: FileLog) -> (Dump, io::Result<()>) {
    let (told, done) = dump(node, session, &mut log);
    let closed = log.close();
    session.give_up(log.lost(), log.untold());
    (told, done.and(closed))
}

/// What a session asked the recorder for.
pub struct Recording {
    node: Arc<Node>,
    session: Arc<Session>,
    /// The dumps' files, `{n}` standing for their number.
    template: OsString,
    /// The shortest time between two dumps.
    every: Duration,
    signal: i32,
    /// Held by the one who looks whether a dump is asked for, and writes it.
    looking: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    dumps: u64,
    /// The number of the last file that was begun.
    files: u64,
    last: Option<Instant>,
    path: Option<PathBuf>,
    error: Option<String>,
    /// A request came too early, and is forgotten when the time is over.
    early: bool,
}

struct Recorder {
    recordings: Vec<Arc<Recording>>,
    thread: Option<JoinHandle<()>>,
    /// How many wait for the end of one.
    stopping: usize,
}

const NOTHING: Recorder = Recorder { recordings: Vec::new(), thread: None, stopping: 0 };

static RECORDER: Inherited<Recorder> = Inherited::new([const { Mutex::new(NOTHING) }; 16]);
static STOP: AtomicBool = AtomicBool::new(false);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the recorder write a session's dumps from now on.
///
/// # Errors
/// What the system says of the thread, or the signal (0 for none).
pub fn begin(
    node: Arc<Node>, session: Arc<Session>, template: OsString, every: Duration, signal: i32,
) -> io::Result<()> {
    let mut recorder = RECORDER.lock();
    if signal != 0 {
        let taken = signals::take(signal);
        if taken.is_err() && recorder.recordings.iter().all(|recording| recording.signal != signal) {
            signals::give(signal);
        }
        taken?;
    }
    recorder.recordings.push(Arc::new(Recording {
        node,
        session,
        template,
        every,
        signal,
        looking: Mutex::default(),
        state: Mutex::default(),
    }));
    start(&mut recorder)
}

/// A session ends: what it has asked for is written first.
pub fn end(session: &Session) {
    let mut recorder = RECORDER.lock();
    let Some(at) = recorder.recordings.iter().position(|recording| recording.session.id == session.id) else { return };
    let gone = recorder.recordings.remove(at);
    let alone = gone.signal != 0 && recorder.recordings.iter().all(|recording| recording.signal != gone.signal);
    if alone {
        signals::give(gone.signal);
    }
    // for others that wait for the signal, too, both stay
    let due = alone && signals::is_due(gone.signal);
    let raised = signals::has_come(gone.signal);
    let last = recorder.recordings.is_empty();
    drop(recorder);
    if last {
        stop();
    }
    gone.look(raised);
    if due {
        signals::follow(gone.signal);
    }
}

/// At the interpreter's end: what was asked for is written. From now on nobody would see to a signal's default action.
pub fn finish() {
    for recording in &RECORDER.lock().recordings {
        if signals::has_default(recording.signal) {
            signals::give(recording.signal);
        }
    }
    stop();
    look_at_all();
}

/// How many dumps of a session were written, where the last one is, and what went wrong with one.
pub fn state(session: &Session) -> (u64, Option<PathBuf>, Option<String>) {
    let recorder = RECORDER.lock();
    let known = recorder.recordings.iter().find(|recording| recording.session.id == session.id);
    known.map_or((0, None, None), |recording| {
        let state = lock(&recording.state);
        (state.dumps, state.path.clone(), state.error.clone())
    })
}

fn start(recorder: &mut Recorder) -> io::Result<()> {
    // none begins while one stops for a fork: that one would go on in its place. After the fork one is started
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
    // what was asked for while no thread was there, or when the last one ended, may ring no more
    let mut next = Some(Duration::ZERO);
    loop {
        bell::wait(next);
        if STOP.load(Ordering::Acquire) {
            return;
        }
        next = look_at_all();
    }
}

/// Looks at every session, then has the default actions of signals follow; when to look again.
fn look_at_all() -> Option<Duration> {
    let (recordings, raised, due) = taken();
    let next = recordings.iter().filter_map(|recording| recording.look(raised[recording.signal as usize])).min();
    (0..).zip(due).filter(|(_, due)| *due).for_each(|(number, _)| signals::follow(number));
    let keep = recordings.iter().any(|recording| recording.signal != 0).then_some(KEEP);
    [next, keep].into_iter().flatten().min()
}

/// Who may want a dump, which signals have come, and whose default action is due; at one time, so that a session that ends
/// misses none.
fn taken() -> (Vec<Arc<Recording>>, [bool; SIGNALS], [bool; SIGNALS]) {
    let recorder = RECORDER.lock();
    for recording in recorder.recordings.iter().filter(|recording| recording.signal != 0) {
        signals::keep(recording.signal);
    }
    let (raised, due) = signals::taken();
    (recorder.recordings.clone(), raised, due)
}

impl Recording {
    /// Dumps if it is asked to; when it wants to be looked at again.
    fn look(&self, raised: bool) -> Option<Duration> {
        let _one = lock(&self.looking);
        if !raised && !self.session.is_dump_asked() {
            return None;
        }
        let mut state = lock(&self.state);
        let left = state.last.map_or(Duration::ZERO, |last| self.every.saturating_sub(last.elapsed()));
        if !left.is_zero() {
            // the flag stays, so that nobody rings meanwhile
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
        let mut state = lock(&self.state);
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

    /// The next file whose number is free: what is there stays, also what another session or an earlier run has written.
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

/// A path with a number in the place of each `{n}`.
fn numbered(template: &OsString, number: u64) -> PathBuf {
    let (mut rest, mut path) = (template.as_bytes(), Vec::new());
    while let Some((first, behind)) = rest.split_first() {
        if let Some(behind) = rest.strip_prefix(b"{n}") {
            path.extend_from_slice(number.to_string().as_bytes());
            rest = behind;
        } else {
            path.push(*first);
            rest = behind;
        }
    }
    OsString::from_vec(path).into()
}

/// Before a fork.
pub fn pause() {
    stop();
}

/// Whether some session asked for it.
pub fn is_on() -> bool {
    !RECORDER.lock().recordings.is_empty()
}

/// In the parent, after a fork. Where no thread can be made, the next session that asks for it tries again.
pub fn resume() {
    let mut recorder = RECORDER.lock();
    if !recorder.recordings.is_empty() {
        let _ = start(&mut recorder);
    }
}

/// In the child of a fork.
pub fn abandon() {
    let Some(mut recorder) = RECORDER.in_child() else { return };
    // it doesn't exist here
    std::mem::forget(recorder.thread.take());
    recorder.stopping = 0;
    for recording in recorder.recordings.drain(..).filter(|recording| recording.signal != 0) {
        signals::give(recording.signal);
    }
    drop(recorder);
    let (_, due) = signals::taken();
    (0..).zip(due).filter(|(_, due)| *due).for_each(|(number, _)| signals::follow(number));
}
