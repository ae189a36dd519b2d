//! The flight recorder: what the rings of a session hold is written to a log when somebody asks for it.
//!
//! # Roles
//!
//! The *recorder* is a thread that waits for its bell, a pipe, as long as some session asked for it. A traced thread (by a match
//! spec's `dump`, an exception, a slow call) sets a flag of its session, and rings if it wasn't set; a signal's handler sets a
//! flag of the signal, and rings. The recorder alone opens files and drains rings. It never attaches to the interpreter.
//!
//! # Forks
//!
//! As in [`super::log_ports`]: the thread rests meanwhile; what is asked for then is written when it goes on. The child has no
//! session, another pipe, and the handlers that were there before.

use super::{inherited::Inherited, log_ports::messages};
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
    io,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering},
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
    let mut messages = messages();
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
    let mut log = FileLog::create(path, Options { form, ..Options::default() })?;
    let (told, done) = dump(node, session, &mut log);
    let closed = log.close();
    session.give_up(log.lost(), log.untold());
    Ok((told, done.and(closed)))
}

/// What a session asked the recorder for.
pub struct Recording {
    node: Arc<Node>,
    session: Arc<Session>,
    /// The dumps' files, `{n}` standing for their number.
    template: String,
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
    /// Files that were begun.
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
    /// The pipe's end that is read.
    bell: i32,
}

const NOTHING: Recorder = Recorder { recordings: Vec::new(), thread: None, stopping: 0, bell: -1 };

static RECORDER: Inherited<Recorder> = Inherited::new([const { Mutex::new(NOTHING) }; 16]);
static RING: AtomicI32 = AtomicI32::new(-1);
static STOP: AtomicBool = AtomicBool::new(false);

const SIGNALS: usize = 65;
static RAISED: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];
/// The action that was there before ours; null where ours isn't.
static BEFORE: [AtomicPtr<libc::sigaction>; SIGNALS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; SIGNALS];

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes the recorder. May be called in a signal's handler.
pub fn ring() {
    let fd = RING.load(Ordering::Relaxed);
    if fd >= 0 {
        // SAFETY: one byte that stands; a full pipe has woken it already, a closed one refuses.
        unsafe { libc::write(fd, [0_u8].as_ptr().cast(), 1) };
    }
}

extern "C" fn on_signal(number: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: this thread's own, and put back.
    let errno = unsafe { *libc::__errno_location() };
    let place = number as usize;
    if let Some(raised) = RAISED.get(place) {
        raised.fetch_add(1, Ordering::Relaxed);
        ring();
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    let before = BEFORE.get(place).map_or(std::ptr::null_mut(), |before| before.load(Ordering::Acquire));
    // SAFETY: null, or leaked when our handler was put in place.
    let Some(before) = (unsafe { before.as_ref() }) else { return };
    if before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
        return;
    }
    if before.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the flag says that it is a function of three arguments; they are ours.
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
            unsafe { std::mem::transmute(before.sa_sigaction) };
        handler(number, info, context);
    } else {
        // SAFETY: without the flag it is a function of one argument.
        let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(before.sa_sigaction) };
        handler(number);
    }
}

fn handle(number: i32) -> io::Result<()> {
    let Some(before) = BEFORE.get(number as usize) else { return Err(io::Error::from_raw_os_error(libc::EINVAL)) };
    if !before.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    if let Some(raised) = RAISED.get(number as usize) {
        raised.store(0, Ordering::Release);
    }
    // SAFETY: plain structures of the system's, which are valid as zeroes; `on_signal` does only what a handler may.
    unsafe {
        let was: &mut libc::sigaction = Box::leak(Box::new(std::mem::zeroed()));
        if libc::sigaction(number, std::ptr::null(), was) != 0 {
            return Err(io::Error::last_os_error());
        }
        before.store(was, Ordering::Release);
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = on_signal as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut ours.sa_mask);
        if libc::sigaction(number, &raw const ours, std::ptr::null_mut()) != 0 {
            before.store(std::ptr::null_mut(), Ordering::Release);
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Puts back what was there before, unless somebody has put something else in place of ours meanwhile.
fn unhandle(number: i32) {
    let Some(place) = BEFORE.get(number as usize) else { return };
    let before = place.load(Ordering::Acquire);
    if before.is_null() {
        return;
    }
    // SAFETY: as in `handle`; `before` was leaked there.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(number, std::ptr::null(), &raw mut now) == 0
            && now.sa_sigaction == on_signal as *const () as usize
        {
            libc::sigaction(number, before, std::ptr::null_mut());
            place.store(std::ptr::null_mut(), Ordering::Release);
        }
    }
}

/// Has the recorder write a session's dumps from now on.
///
/// # Errors
/// What the system says of the pipe, the thread, or the signal (0 for none).
pub fn begin(node: Arc<Node>, session: Arc<Session>, template: String, every: Duration, signal: i32) -> io::Result<()> {
    let mut recorder = RECORDER.lock();
    open(&mut recorder)?;
    if signal != 0 {
        handle(signal)?;
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
    if gone.signal != 0 && recorder.recordings.iter().all(|recording| recording.signal != gone.signal) {
        unhandle(gone.signal);
    }
    // for others that wait for the signal, too, it stays
    let raised = RAISED.get(gone.signal as usize).is_some_and(|raised| raised.load(Ordering::Acquire) != 0);
    let last = recorder.recordings.is_empty();
    drop(recorder);
    if last {
        stop();
    }
    gone.look(raised);
}

/// At the interpreter's end: what was asked for is written.
pub fn finish() {
    stop();
    let recordings = RECORDER.lock().recordings.clone();
    for recording in recordings {
        let raised = RAISED.get(recording.signal as usize).is_some_and(|raised| raised.swap(0, Ordering::AcqRel) != 0);
        recording.look(raised);
    }
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

fn open(recorder: &mut Recorder) -> io::Result<()> {
    if recorder.bell >= 0 {
        return Ok(());
    }
    let mut ends = [-1; 2];
    // SAFETY: two places for two numbers.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    recorder.bell = ends[0];
    RING.store(ends[1], Ordering::Release);
    Ok(())
}

fn start(recorder: &mut Recorder) -> io::Result<()> {
    // none begins while one stops for a fork: that one would go on in its place. After the fork one is started
    if recorder.thread.is_some() || recorder.stopping > 0 {
        return Ok(());
    }
    STOP.store(false, Ordering::Release);
    let bell = recorder.bell;
    recorder.thread = Some(thread::Builder::new().name(THREAD.into()).spawn(move || run(bell))?);
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

fn run(bell: i32) {
    // what was asked for while no thread was there, or when the last one ended, may have no byte in the pipe any more
    let mut next = Some(Duration::ZERO);
    loop {
        let wait = next.map_or(-1, |next| i32::try_from(next.as_millis() + 1).unwrap_or(i32::MAX));
        let mut poll = libc::pollfd { fd: bell, events: libc::POLLIN, revents: 0 };
        let mut bytes = [0_u8; 64];
        // SAFETY: one structure, and a buffer of its length; the pipe is open as long as this thread runs.
        unsafe {
            libc::poll(&raw mut poll, 1, wait);
            while libc::read(bell, bytes.as_mut_ptr().cast(), bytes.len()) > 0 {}
        }
        if STOP.load(Ordering::Acquire) {
            return;
        }
        let (recordings, raised) = taken();
        next = recordings.iter().filter_map(|recording| recording.look(raised[recording.signal as usize])).min();
    }
}

/// Who may want a dump, and which signals have come; at one time, so that a session that ends misses none.
fn taken() -> (Vec<Arc<Recording>>, [bool; SIGNALS]) {
    let recorder = RECORDER.lock();
    let mut raised = [false; SIGNALS];
    for (at, raised) in raised.iter_mut().enumerate() {
        *raised = RAISED[at].swap(0, Ordering::AcqRel) != 0;
    }
    (recorder.recordings.clone(), raised)
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
        let number = state.files + 1;
        let path = PathBuf::from(self.template.replace("{n}", &number.to_string()));
        drop(state);
        thread::sleep(SETTLE);
        self.session.take_dump();
        let done = dump_to_file(&self.node, &self.session, &path, false);
        let mut state = lock(&self.state);
        state.last = Some(Instant::now());
        state.files += u64::from(done.is_ok());
        match done.and_then(|(_, written)| written) {
            Ok(()) => (state.dumps, state.path) = (state.dumps + 1, Some(path)),
            Err(error) => state.error = Some(format!("{}: {error}", path.display())),
        }
        None
    }
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

/// In the child of a fork: the pipe is the parent's.
pub fn abandon() {
    let ring = RING.swap(-1, Ordering::AcqRel);
    let Some(mut recorder) = RECORDER.in_child() else { return };
    // it doesn't exist here
    std::mem::forget(recorder.thread.take());
    recorder.stopping = 0;
    RAISED.iter().for_each(|raised| raised.store(0, Ordering::Relaxed));
    for recording in recorder.recordings.drain(..).filter(|recording| recording.signal != 0) {
        unhandle(recording.signal);
    }
    for end in [ring, std::mem::replace(&mut recorder.bell, -1)] {
        if end >= 0 {
            // SAFETY: this process's copy of an end that nobody here uses any more.
            unsafe { libc::close(end) };
        }
    }
}
