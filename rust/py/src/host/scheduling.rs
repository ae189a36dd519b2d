//! The times at which processes run: the steps of tasks, and the beginning and end of threads.
//!
//! The instrument replaces the step of asyncio's own task class (see [`steps`]), whatever event loop runs it. The first
//! step of an eager task is seen around its initialiser. A step emits `in` and `out` of the task, and is timed while a
//! session watches for `long_schedule`. Tasks written in Python are not seen.
//!
//! The interpreter doesn't show when it runs a thread. So a thread emits `in` when it begins and `out` when it ends,
//! and nothing between.
//!
//! Steps serve another purpose: they show the end of a task whose coroutine has no code that could be watched, see
//! [`watch_ends`]. Rules: trace.md, `process/4`, `system/3`.
//!
//! # Roles
//! Instruments switch this on and off, attached. Each thread runs the steps of its own event loop, attached.
//!
//! # States
//! `ON`: steps emit `in` and `out`. `WATCHES_ENDS`: steps look for the ends of tasks. `TAKEN_FOR` has a bit for each of
//! the two; steps are replaced while a bit is set.
//!
//! # Orderings
//! `TAKEN_FOR` is locked while steps are replaced and given back. `WATCHES_ENDS` is set after the replacement; both
//! flags are cleared before steps are given back. Steps read them `Relaxed`: a step near the switch may be missed.
//!
//! # Checked by
//! `tests/python/test_scheduling.py`, `tests/python/test_uvloop.py`, `tests/python/test_system.py`.

use super::{
    asyncio_futures, directory, door,
    here::{self, Known},
    instruments::{self, Instrument},
    modules::{self, Module},
    originals,
    places::{Place, Places, NOWHERE},
    spawning, task_init,
    watch::{self, Ended, Handler},
    Host,
};
use crate::{
    capture,
    ffi::{calling, frame::Frame, held::Held, interned::Interned, steps},
};
use inviso_core::{
    flags::Flags,
    happening::Turn,
    messages::About,
    monitor::Event,
    tracee::{Kind, Tracee},
};
use inviso_term::{
    etf::{self, Encoder, Full},
    term::Term,
};
use pyo3::{ffi, prelude::*, types::PyDict};
use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc, Mutex,
};

static ON: AtomicBool = AtomicBool::new(false);

/// The flags that trace `in` and `out` of processes.
pub const RUNNING: Flags = Flags(Flags::RUNNING.0 | Flags::RUNNING_PROCS.0);
/// The same with the flag for those that end.
const ASKED: Flags = Flags(RUNNING.0 | Flags::EXITING.0);

/// The times at which processes run.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.processes.has(ASKED) || wants.watches(Event::LongSchedule) || wants.tokens,
    begin,
    end,
    forget,
);

/// The module that tasks come from.
pub static MODULES: [Module; 1] = [Module::new("asyncio", |py, host, _| adopt_asyncio(py, host))];

/// `threading.Thread._bootstrap_inner`: a thread's life.
pub static THREAD: Handler = Handler { begin: Some(on_thread), end: Some(on_thread_end), ..Handler::NONE };

/// The coroutine of the task that was in a step when the instrument began. The beginning of that step was not seen.
pub static STEP: Handler = Handler { pause: Some(on_pause), end: Some(on_coroutine_end), ..Handler::NONE };

/// A thread's record of what it runs.
#[derive(Default)]
pub struct Here {
    /// Ticks at which the running process was scheduled in; valid while that is timed.
    pub since: u64,
    /// The names of places that the thread has met.
    pub places: Places,
    /// The task that was in a step here when the instrument began, until that step ends; else 0.
    unseen: u64,
    /// Whether that task's coroutine is watched.
    watching: bool,
    /// Whether the thread is known to have ended, or its end emits nothing.
    pub told: bool,
    /// The callbacks that its event loop runs besides tasks.
    pub callbacks: Vec<super::loop_callbacks::Running>,
}

fn begin(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    let bootstrap =
        originals::codes(crate::ffi::standard::module(py, "threading")?.as_any(), &["Thread._bootstrap_inner"])?;
    watch::add(py, host, &THREAD, &bootstrap)?;
    ON.store(true, Ordering::Release);
    modules::need(py, host, &MODULES)
}

/// The program has imported asyncio.
fn adopt_asyncio(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    if !(modules::is_there(py, "asyncio")? && modules::is_there(py, "_asyncio")?) {
        return Ok(()); // a file of the program has this name
    }
    door::untraced(|| take_steps(py, TURNS))?;
    task_init::take(py, task_init::EAGER, spawning::initialise)?;
    watch_running(py, host)
}

fn end(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    forget(py);
    watch::remove(py, host, &[&THREAD, &STEP])?;
    modules::leave(py, host, &MODULES)
}

fn forget(py: Python<'_>) {
    ON.store(false, Ordering::Release);
    modules::forget(&MODULES);
    leave_steps(TURNS);
    task_init::give_back(py, task_init::EAGER, spawning::initialise);
}

/// The users of steps, a bit each. It is locked while steps are replaced and given back, which runs no Python code.
static TAKEN_FOR: Mutex<u8> = Mutex::new(0);
/// For `in` and `out`.
const TURNS: u8 = 1;
/// For the ends of tasks.
const ENDS: u8 = 2;

fn take_steps(py: Python<'_>, user: u8) -> PyResult<()> {
    steps::learn(py)?;
    let mut taken = TAKEN_FOR.lock().unwrap_or_else(|e| e.into_inner());
    *taken |= user;
    // SAFETY: the functions are of these kinds, and call the originals.
    unsafe { steps::take(py, step, wakeup) }
}

fn leave_steps(user: u8) {
    let mut taken = TAKEN_FOR.lock().unwrap_or_else(|e| e.into_inner());
    *taken &= !user;
    if *taken == 0 {
        steps::give_back(step, wakeup);
    }
}

/// Whether there may be tasks whose ends only their steps show.
static WATCHES_ENDS: AtomicBool = AtomicBool::new(false);

/// From now on each step of a task looks whether it was the last one: there is a task whose coroutine has no Python
/// code.
///
/// # Errors
/// RuntimeError if asyncio is not as expected.
pub fn watch_ends(py: Python<'_>) -> PyResult<()> {
    if !WATCHES_ENDS.load(Ordering::Relaxed) {
        take_steps(py, ENDS)?;
        WATCHES_ENDS.store(true, Ordering::Release);
    }
    Ok(())
}

/// The ends of tasks are traced no longer.
pub fn leave_ends() {
    if WATCHES_ENDS.swap(false, Ordering::AcqRel) {
        leave_steps(ENDS);
    }
}

/// A step has ended, perhaps with an exception set. Emits the task's end if the task is done and nothing else has seen
/// its end.
///
/// # Safety
/// The thread is attached; the task stands.
#[inline(always)]
pub unsafe fn tell_end(task: *mut ffi::PyObject) {
    if WATCHES_ENDS.load(Ordering::Relaxed) {
        // SAFETY: the caller promises that the thread is attached and the task stands.
        unsafe { look_for_end(task) };
    }
}

/// # Safety
/// As [`tell_end`].
#[inline(never)]
unsafe fn look_for_end(task: *mut ffi::PyObject) {
    // SAFETY: the caller promises that the thread is attached and the task stands.
    unsafe {
        door::enter(|here| spawning::step_ended(here, task));
    }
}

/// The task that is running here counts as `in`, and will be `out` although the beginning of its step was not seen.
fn watch_running(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    // SAFETY: the thread is attached.
    unsafe { door::call(|here| watch_running_of(py, host, here)) }.unwrap_or(Ok(()))
}

fn watch_running_of(py: Python<'_>, host: &'static Host, here: &mut here::Here) -> PyResult<()> {
    // SAFETY: the thread is attached, with its own state; the running task stands, and so does its coroutine, an exact
    // one.
    let code = unsafe {
        here.running.identify(host, &mut here.thread);
        let current = here.thread.current().clone();
        let task = current.object.load(Ordering::Acquire) as *mut ffi::PyObject;
        if current.kind != Kind::Task || task.is_null() {
            return Ok(());
        }
        let Some(coroutine) = Bound::from_owned_ptr_or_opt(py, steps::coroutine_of(task)) else { return Ok(()) };
        let Some(frame) = steps::frame_of(coroutine.as_ptr()) else { return Ok(()) };
        let process = directory::process(&current);
        process.coroutine.store(coroutine.as_ptr() as usize, Ordering::Release);
        current.set_in(true);
        here.turn.unseen = current.pid;
        process.place.get_or_init(|| here.turn.places.of(frame)[..].into());
        Bound::from_borrowed_ptr(py, frame.code())
    };
    here.turn.watching = true;
    watch::add(py, host, &STEP, &[code])
}

/// That step has ended. Later steps are seen without watching the coroutine.
#[cold]
#[inline(never)]
fn unwatch(here: &mut here::Here) {
    here.turn.watching = false;
    calling::attached(|py| {
        if let Err(error) = watch::remove(py, here.host, &[&STEP]) {
            error.write_unraisable(py, None);
        }
    });
}

/// A task's step, in place of asyncio's own.
///
/// # Safety
/// Only the interpreter calls it.
unsafe extern "C" fn step(
    this: *mut ffi::PyObject, args: *mut ffi::PyObject, keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called as the slot of steps, attached; the step holds its task.
    unsafe {
        let mut run = Run::default();
        let task = steps::task_of(this);
        let seen = run.begin(task);
        let result = steps::original_step()(this, args, keywords);
        tell_end(task);
        if seen {
            run.end();
        }
        result
    }
}

/// The wakeup of a task whose awaited future is done, in place of asyncio's own.
///
/// # Safety
/// Only the interpreter calls it.
unsafe extern "C" fn wakeup(task: *mut ffi::PyObject, future: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called as the method, attached; its caller holds the task and the future.
    unsafe {
        if super::try_host().is_some_and(|host| host.node.seq_in_use()) {
            door::enter(|here| asyncio_futures::woken(here, task, future));
        }
        let mut run = Run::default();
        let seen = run.begin(task);
        let result = steps::original_wakeup()(task, future);
        tell_end(task);
        if seen {
            run.end();
        }
        result
    }
}

/// A step. It is filled in where it stands, since moving one costs as much as a message.
#[derive(Default)]
struct Run {
    /// The task's address.
    task: usize,
    exiting: bool,
    /// The place where it began and the value of `since` before it, while a session watches for long steps.
    timed: Option<(Place, u64)>,
}

impl Run {
    /// Whether the step is to be seen. If so, [`Run::end`] follows.
    ///
    /// # Safety
    /// The thread is attached and has no exception set; the task stands until the end.
    #[inline]
    unsafe fn begin(&mut self, task: *mut ffi::PyObject) -> bool {
        if !ON.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: the thread is attached; the state is not used beyond this function, and nothing called here takes it
        // again.
        unsafe {
            let seen = door::enter(|here| {
                if here.turn.watching && here.turn.unseen == 0 {
                    unwatch(here);
                }
                let known = here.running.take(here.host, task as usize);
                let coroutine = steps::coroutine_of(task);
                let seen = self.begin_of(here, known, coroutine);
                ffi::Py_XDECREF(coroutine);
                seen
            });
            seen.unwrap_or(false)
        }
    }

    /// The same for a task whose process and coroutine are known.
    ///
    /// # Safety
    /// As [`Run::begin`]; the coroutine is null or stands.
    #[inline(always)]
    unsafe fn begin_of(&mut self, here: &mut here::Here, mut known: Known, coroutine: *mut ffi::PyObject) -> bool {
        self.task = known.task;
        // SAFETY: the caller promises that the thread is attached and has no exception set, the task stands until the
        // end, and the coroutine is null or stands.
        let seen = unsafe { self.tell_begin(here, &mut known, coroutine) };
        if seen {
            here.running.begin_step(known);
        } else {
            here.running.keep(known);
        }
        seen
    }

    /// Emits the beginning.
    ///
    /// # Safety
    /// As [`Run::begin_of`].
    #[inline(always)]
    unsafe fn tell_begin(&mut self, here: &mut here::Here, known: &mut Known, coroutine: *mut ffi::PyObject) -> bool {
        let Known { tracee, place, .. } = known;
        let timed = instruments::monitored(Event::LongSchedule);
        let asked = here.host.node.is_asked(&here.thread, About::Other(tracee), ASKED);
        if tracee.set_in(true) {
            // the end of the step in which the instrument began may stay unseen (3.11)
            if here.turn.unseen != tracee.pid {
                return false;
            }
            here.turn.unseen = 0;
        }
        if !asked && !timed {
            return true;
        }
        // SAFETY: the caller promises that the thread is attached and has no exception set, the task stands until the
        // end, and the coroutine is null or stands.
        let (own, inner) = unsafe {
            self.exiting = instruments::wanted(Flags::EXITING) && steps::is_cancelling(self.task as *mut ffi::PyObject);
            (place.get_or_insert_with(|| outermost(here, coroutine)), whereabouts(here, coroutine))
        };
        let at = inner.as_ref().unwrap_or(own);
        if asked {
            let turn = if self.exiting { Turn::InExiting } else { Turn::In };
            here.host.node.on_turn(&mut here.thread, About::Other(tracee), turn, RUNNING, at);
        }
        if timed {
            let now = here.host.node.clock.ticks();
            self.timed = Some((at.clone(), std::mem::replace(&mut here.turn.since, now)));
        }
        true
    }

    /// The step has ended, perhaps with an exception set.
    ///
    /// # Safety
    /// As [`Run::begin`].
    #[inline]
    unsafe fn end(&self) {
        let end = |here: &mut here::Here| {
            let Some(known) = here.running.end_step(self.task) else { return };
            let was_in = known.tracee.set_in(false);
            // SAFETY: the caller promises that the thread is attached and has no exception set, and the task stands
            // until the end.
            let done = unsafe { self.tell_end(here, &known, was_in) };
            if !done {
                here.running.keep(known);
            }
        };
        // SAFETY: the thread is attached.
        unsafe { door::enter(end) };
    }

    /// Emits the end; returns whether the task is known to be done.
    ///
    /// # Safety
    /// As [`Run::begin`].
    #[inline]
    unsafe fn tell_end(&self, here: &mut here::Here, known: &Known, was_in: bool) -> bool {
        let (tracee, mut is_done) = (&known.tracee, false);
        let asked = here.host.node.is_asked(&here.thread, About::Other(tracee), ASKED);
        if was_in && ON.load(Ordering::Relaxed) && (asked || self.timed.is_some()) {
            // SAFETY: the task stands.
            let (done, at) = unsafe {
                let task = self.task as *mut ffi::PyObject;
                let (done, place) = (steps::is_done(task), known.place.clone());
                (done, place.filter(|_| done).unwrap_or_else(|| waiting(here, task, known)))
            };
            is_done = done;
            if asked {
                let turn = match (done, self.exiting) {
                    (true, _) => Turn::Exited,
                    (_, true) => Turn::OutExiting,
                    _ => Turn::Out,
                };
                here.host.node.on_turn(&mut here.thread, About::Other(tracee), turn, RUNNING, &at);
            }
            if let Some((began, _)) = &self.timed {
                alarm(here, tracee.pid, || between(began, &at));
            }
        }
        if let Some((_, outer)) = &self.timed {
            here.turn.since = *outer;
        }
        is_done
    }
}

/// Reports a run since [`Here::since`] to sessions for which it is long; `said` adds elements to the report.
pub fn alarm(here: &mut here::Here, about: u64, said: impl Fn() -> Vec<Term>) {
    let clock = &here.host.node.clock;
    let spent = clock.monotonic(clock.ticks()).saturating_sub(clock.monotonic(here.turn.since)) / 1_000_000;
    if here.host.node.watched(Event::LongSchedule).is_none_or(|limit| spent < limit) {
        return;
    }
    here.host.node.alarm(&mut here.thread, about, Event::LongSchedule, |_, limit| {
        (spent >= limit).then(|| {
            let mut all = vec![pair("timeout", Term::from(spent as i64))];
            all.extend(said());
            Term::List(all)
        })
    });
}

/// An element of a list of properties.
pub fn pair(key: &str, value: Term) -> Term {
    Term::Tuple(vec![Term::atom(key), value])
}

/// The places where a run was scheduled in and out, as terms.
pub fn between(began: &[u8], ended: &[u8]) -> Vec<Term> {
    let place = |at: &[u8]| match etf::decode(at) {
        Ok(place @ Term::Tuple(_)) => place,
        _ => Term::atom("undefined"),
    };
    vec![pair("in", place(began)), pair("out", place(ended))]
}

/// The place where a task that does not run waits, inside its outermost coroutine: `(module, function, arity)` as a
/// term. `None` for that coroutine itself, and for any other object.
///
/// # Safety
/// `coroutine` is null or stands throughout; the calling thread is attached.
#[inline(always)]
unsafe fn whereabouts(here: &mut here::Here, coroutine: *mut ffi::PyObject) -> Option<Place> {
    // SAFETY: null or an object that is held; its type is checked first.
    unsafe {
        let waits = !coroutine.is_null() && steps::is_coroutine(coroutine) && steps::waits(coroutine);
        waits.then(|| inside(here, coroutine)).flatten()
    }
}

/// The same for an exact coroutine that waits.
///
/// # Safety
/// As [`whereabouts`].
unsafe fn inside(here: &mut here::Here, coroutine: *mut ffi::PyObject) -> Option<Place> {
    // SAFETY: the caller promises that `coroutine` is null or stands throughout and the calling thread is attached; the
    // innermost coroutine is held.
    unsafe {
        let inner = steps::innermost(coroutine);
        let frame = steps::frame_of(inner).filter(|_| inner != coroutine);
        let at = frame.map(|frame| here.turn.places.of(frame));
        ffi::Py_DECREF(inner);
        at
    }
}

/// The place where a task waits: inside its outermost coroutine, or in that itself.
///
/// # Safety
/// The thread is attached and has no exception set; the task stands.
unsafe fn waiting(here: &mut here::Here, task: *mut ffi::PyObject, known: &Known) -> Place {
    // SAFETY: the caller promises that the thread is attached and has no exception set, and the task stands; the
    // coroutine is held.
    unsafe {
        let coroutine = Held::owned(steps::coroutine_of(task));
        let at = whereabouts(here, coroutine.as_ptr()).or_else(|| known.place.clone());
        // or a session has begun to trace in the middle of the step
        at.unwrap_or_else(|| outermost(here, coroutine.as_ptr()))
    }
}

/// The name of a task's outermost coroutine, as a term; 0 for an object that is not an exact coroutine, or has ended.
///
/// # Safety
/// `coroutine` is null or stands throughout; the calling thread is attached.
unsafe fn outermost(here: &mut here::Here, coroutine: *mut ffi::PyObject) -> Place {
    // SAFETY: null or an object that is held, whose frame waits or runs.
    unsafe {
        let frame = if coroutine.is_null() { None } else { steps::frame_of(coroutine) };
        frame.map_or_else(|| NOWHERE.into(), |frame| here.turn.places.of(frame))
    }
}

/// The first step of an eager task, and the task that is scheduled out for it.
pub struct Eager {
    run: Run,
    parent: Option<Arc<Tracee>>,
}

/// A task is about to be made; `None` if making it doesn't run its first step.
///
/// # Safety
/// The thread is attached and has no exception set; the initialiser of tasks calls this, with its arguments.
pub unsafe fn begin_eager(
    task: *mut ffi::PyObject, coroutine: *mut ffi::PyObject, keywords: *mut ffi::PyObject,
) -> Option<Eager> {
    // SAFETY: the caller promises that the thread is attached and has no exception set, and the initialiser of tasks
    // calls this, with its arguments; the state is not used beyond this function.
    unsafe {
        static EAGER_START: Interned = Interned::new(c"eager_start");
        static LOOP: Interned = Interned::new(c"loop");
        if !ON.load(Ordering::Relaxed) || coroutine.is_null() {
            return None;
        }
        if spawning::keyword(keywords, &EAGER_START) != ffi::Py_True() {
            return None;
        }
        let event_loop = spawning::keyword(keywords, &LOOP);
        if !crate::ffi::tasks::runs_here(event_loop) {
            return None;
        }
        door::enter(|here| begin_eager_of(here, task, coroutine)).flatten()
    }
}

/// # Safety
/// As [`begin_eager`].
unsafe fn begin_eager_of(
    here: &mut here::Here, task: *mut ffi::PyObject, coroutine: *mut ffi::PyObject,
) -> Option<Eager> {
    // SAFETY: the caller promises that the thread is attached and has no exception set, and the initialiser of tasks
    // calls this, with its arguments.
    unsafe {
        here.running.identify(here.host, &mut here.thread);
        let parent = here.thread.current().clone();
        let tracee = here.host.directory.task(here.host, task as usize, Some(&parent));
        let is_in = parent.kind == Kind::Task && parent.is_in.load(Ordering::Acquire) != 0;
        let parent = Some(parent).filter(|_| is_in);
        if let Some(parent) = &parent {
            turn_of_running(here, parent, Turn::Out);
        }
        let mut run = Run::default();
        if run.begin_of(here, Known::new(task as usize, tracee), coroutine) {
            return Some(Eager { run, parent });
        }
        if let Some(parent) = &parent {
            turn_of_running(here, parent, Turn::In);
        }
        None
    }
}

impl Eager {
    /// The task is made, or an exception is set.
    ///
    /// # Safety
    /// As [`begin_eager`].
    pub unsafe fn end(self) {
        // SAFETY: as above.
        unsafe {
            let timed = self.run.timed.is_some();
            self.run.end();
            door::enter(|here| {
                if let Some(parent) = &self.parent {
                    turn_of_running(here, parent, Turn::In);
                }
                if timed {
                    here.turn.since = here.host.node.clock.ticks();
                }
            });
        }
    }
}

/// The running task waits for the first step of a task that it makes, or continues after it.
///
/// # Safety
/// The thread is attached and has no exception set; the tracee's task stands.
unsafe fn turn_of_running(here: &mut here::Here, tracee: &Tracee, turn: Turn) {
    // SAFETY: the thread is attached; the frame runs.
    let at = unsafe { Frame::current_python(crate::ffi::tstate()).map(|frame| here.turn.places.of(frame)) };
    let at = at.as_deref().unwrap_or(NOWHERE);
    here.host.node.on_turn(&mut here.thread, About::Other(tracee), turn, RUNNING, at);
}

/// The task that was running when the instrument began is suspended.
fn on_pause(here: &mut here::Here, frame: Frame) {
    first_out(here, frame, Turn::Out);
}

/// That task ends.
fn on_coroutine_end(here: &mut here::Here, frame: Frame, _how: Ended) {
    first_out(here, frame, Turn::Exited);
}

fn first_out(here: &mut here::Here, frame: Frame, turn: Turn) {
    // SAFETY: the thread is attached; the event's frame still stands.
    let generator = unsafe {
        here.running.identify(here.host, &mut here.thread);
        frame.generator() as usize
    };
    let current = here.thread.current().clone();
    let process = directory::process(&current);
    if here.turn.unseen != current.pid || process.coroutine.load(Ordering::Acquire) != generator {
        return;
    }
    here.turn.unseen = 0;
    if current.set_in(false) {
        let at = process.place.get().map_or(NOWHERE, |place| place);
        here.host.node.on_turn(&mut here.thread, About::Other(&current), turn, RUNNING, at);
    }
}

/// A thread begins.
fn on_thread(here: &mut here::Here, frame: Frame) {
    here.thread.switch_to_own();
    let own = here.thread.own().clone();
    if !here.host.node.is_asked(&here.thread, About::Other(&own), ASKED) {
        return;
    }
    // SAFETY: the first argument of a method whose frame is about to run.
    let at = here.turn.places.written(|out| unsafe { place_of_thread(frame.local(0), out) });
    here.host.node.on_turn(&mut here.thread, About::Other(&own), Turn::In, RUNNING, at);
    let _ = directory::process(&own).place.set(at.into());
}

/// Writes the place of a thread object's target.
///
/// # Safety
/// `thread` stands throughout; the calling thread is attached.
unsafe fn place_of_thread(thread: *mut ffi::PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: the thread is attached; the thread object stands, and its attributes are held.
    calling::attached(|py| unsafe {
        match spawning::attribute(py, thread, "_target").filter(|target| !target.is_none()) {
            Some(target) => {
                let arguments = spawning::attribute(py, thread, "_args").and_then(|args| args.len().ok());
                let named = spawning::attribute(py, thread, "_kwargs")
                    .is_some_and(|all| all.cast::<PyDict>().is_ok_and(|all| !all.is_empty()));
                capture::place_of_callable(target.as_ptr(), arguments.unwrap_or(0), named, out)
            }
            None => capture::place_of_run(thread, out),
        }
    })
}

/// A thread ends.
fn on_thread_end(here: &mut here::Here, _frame: Frame, _how: Ended) {
    here.thread.switch_to_own();
    thread_ended(here);
}

/// A thread ends; the first observer reports it. The thread may be detached.
pub fn thread_ended(here: &mut here::Here) {
    if !ON.load(Ordering::Relaxed) || std::mem::replace(&mut here.turn.told, true) {
        return;
    }
    let own = here.thread.own().clone();
    let at = directory::process(&own).place.get().map_or(NOWHERE, |place| place);
    here.host.node.on_turn(&mut here.thread, About::Other(&own), Turn::Exited, RUNNING, at);
}
