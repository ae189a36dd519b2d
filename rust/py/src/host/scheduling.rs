//! Which process runs when: the steps of tasks, and the beginning and end of threads.
//!
//! A task's step is taken where asyncio's own task class takes it (see [`steps`]), whatever event loop runs it, and the first
//! step of an eager task around its initialiser. What happens at a step is told as `in` and `out` of the task; while somebody
//! watches for `long_schedule` it is timed, too. Tasks written in Python are not seen.
//!
//! Which thread runs when is the interpreter's secret. A thread is told to be `in` when it begins and `out` when it ends, and
//! nothing between.
//!
//! Steps are taken for one thing more: the end of a task whose coroutine has no code that could be watched, see [`watch_ends`].
//! Rules: trace.md, `process/4`, `system/3`.

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
use inviso_core::{
    flags::Flags,
    happening::Turn,
    messages::About,
    monitor::Event,
    tracee::{Kind, Tracee},
};
use inviso_cpython::{
    capture,
    frames::frame::Frame,
    interpreter::calling,
    object::{held::Held, interned::Interned},
    tasks::steps,
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

/// What asks for `in` and `out` of processes.
pub const RUNNING: Flags = Flags(Flags::RUNNING.0 | Flags::RUNNING_PROCS.0);
/// The same with those that end.
const ASKED: Flags = Flags(RUNNING.0 | Flags::EXITING.0);

/// Which process runs when.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.processes.has(ASKED) || wants.watches(Event::LongSchedule) || wants.tokens,
    begin,
    end,
    forget,
);

/// Where tasks come from.
pub static MODULES: [Module; 1] = [Module::new("asyncio", |py, host, _| adopt_asyncio(py, host))];

/// `threading.Thread._bootstrap_inner`: a thread's life.
pub static THREAD: Handler = Handler { begin: Some(on_thread), end: Some(on_thread_end), ..Handler::NONE };

/// The coroutine of the task in whose step all this began: that step is not seen from its beginning.
pub static STEP: Handler = Handler { pause: Some(on_pause), end: Some(on_coroutine_end), ..Handler::NONE };

/// What a thread keeps about what it runs.
#[derive(Default)]
pub struct Here {
    /// Ticks at which what runs was scheduled in; of meaning where that is timed.
    pub since: u64,
    /// The names of places that it has met.
    pub places: Places,
    /// The task whose step began here before all this, until it ends; else 0.
    unseen: u64,
    /// Whether that task's coroutine is watched.
    watching: bool,
    /// Whether the thread is known to have ended, or is one whose end is not told.
    pub told: bool,
    /// What its event loop runs besides tasks.
    pub callbacks: Vec<super::loop_callbacks::Running>,
}

fn begin(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    let bootstrap = originals::codes(
        inviso_cpython::interpreter::standard::module(py, "threading")?.as_any(),
        &["Thread._bootstrap_inner"],
    )?;
    watch::add(py, host, &THREAD, &bootstrap)?;
    ON.store(true, Ordering::Release);
    modules::need(py, host, &MODULES)
}

/// The program has imported asyncio.
fn adopt_asyncio(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    if !(modules::is_there(py, "asyncio")? && modules::is_there(py, "_asyncio")?) {
        return Ok(()); // a file of the program's has this name
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

/// Who needs steps to be taken, a bit each. Held while they are taken and given back, which runs no Python code.
static TAKEN_FOR: Mutex<u8> = Mutex::new(0);
/// For `in` and `out`.
const TURNS: u8 = 1;
/// For the ends of tasks.
const ENDS: u8 = 2;

fn take_steps(py: Python<'_>, user: u8) -> PyResult<()> {
    steps::learn(py)?;
    let mut taken = TAKEN_FOR.lock().unwrap_or_else(|e| e.into_inner());
    *taken |= user;
    // SAFETY: the functions are of these kinds, and call on.
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

/// From now on each step of a task is asked whether it was the last one: there is a task whose coroutine has no code of Python's.
///
/// # Errors
/// RuntimeError if asyncio is not as it is known.
pub fn watch_ends(py: Python<'_>) -> PyResult<()> {
    if !WATCHES_ENDS.load(Ordering::Relaxed) {
        take_steps(py, ENDS)?;
        WATCHES_ENDS.store(true, Ordering::Release);
    }
    Ok(())
}

/// Nobody wants to know the ends of tasks any more.
pub fn leave_ends() {
    if WATCHES_ENDS.swap(false, Ordering::AcqRel) {
        leave_steps(ENDS);
    }
}

/// A step has ended, maybe by an exception, which is set: the task's end is told if it is done and nothing else
/// has seen it end.
///
/// # Safety
/// Attached; the task stands.
#[inline(always)]
pub unsafe fn tell_end(task: *mut ffi::PyObject) {
    if WATCHES_ENDS.load(Ordering::Relaxed) {
        // SAFETY: the caller's promise.
        unsafe { look_for_end(task) };
    }
}

/// # Safety
/// As [`tell_end`].
#[inline(never)]
unsafe fn look_for_end(task: *mut ffi::PyObject) {
    // SAFETY: the caller's promise.
    unsafe {
        door::enter(|here| spawning::step_ended(here, task));
    }
}

/// The task that is running here is `in`, and will be `out` though its step began before all this.
fn watch_running(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    // SAFETY: attached.
    unsafe { door::call(|here| watch_running_of(py, host, here)) }.unwrap_or(Ok(()))
}

fn watch_running_of(py: Python<'_>, host: &'static Host, here: &mut here::Here) -> PyResult<()> {
    // SAFETY: attached, this thread's own; the running task stands, and so does its coroutine, an exact one.
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

/// That step has ended: later ones are seen without its coroutine being watched.
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
/// To be called by the interpreter only.
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

/// A future is done that a task waits for, in place of asyncio's own.
///
/// # Safety
/// To be called by the interpreter only.
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

/// A step. Filled in where it stands: to move one costs as much as a message.
#[derive(Default)]
struct Run {
    /// The task's address.
    task: usize,
    exiting: bool,
    /// Where it began, and what was timed before, while somebody watches for long ones.
    timed: Option<(Place, u64)>,
}

impl Run {
    /// Whether it is to be seen; then [`Run::end`] follows.
    ///
    /// # Safety
    /// Attached, without an exception; the task stands until the end.
    #[inline]
    unsafe fn begin(&mut self, task: *mut ffi::PyObject) -> bool {
        if !ON.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: attached; not used beyond this function, and what is called here does not ask for it again.
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

    /// The same where the task's process and coroutine are known.
    ///
    /// # Safety
    /// As [`Run::begin`]; the coroutine is null or stands.
    #[inline(always)]
    unsafe fn begin_of(&mut self, here: &mut here::Here, mut known: Known, coroutine: *mut ffi::PyObject) -> bool {
        self.task = known.task;
        // SAFETY: the caller's promise.
        let seen = unsafe { self.tell_begin(here, &mut known, coroutine) };
        if seen {
            here.running.begin_step(known);
        } else {
            here.running.keep(known);
        }
        seen
    }

    /// Tells of the beginning.
    ///
    /// # Safety
    /// As [`Run::begin_of`].
    #[inline(always)]
    unsafe fn tell_begin(&mut self, here: &mut here::Here, known: &mut Known, coroutine: *mut ffi::PyObject) -> bool {
        let Known { tracee, place, .. } = known;
        let timed = instruments::monitored(Event::LongSchedule);
        let asked = here.host.node.is_asked(&here.thread, About::Other(tracee), ASKED);
        if tracee.set_in(true) {
            // the end of the step in which all this began may stay unseen (3.11)
            if here.turn.unseen != tracee.pid {
                return false;
            }
            here.turn.unseen = 0;
        }
        if !asked && !timed {
            return true;
        }
        // SAFETY: the caller's promise; the task stands.
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

    /// The step has ended, maybe by an exception, which is set.
    ///
    /// # Safety
    /// As [`Run::begin`].
    #[inline]
    unsafe fn end(&self) {
        let end = |here: &mut here::Here| {
            let Some(known) = here.running.end_step(self.task) else { return };
            let was_in = known.tracee.set_in(false);
            // SAFETY: the caller's promise.
            let done = unsafe { self.tell_end(here, &known, was_in) };
            if !done {
                here.running.keep(known);
            }
        };
        // SAFETY: attached.
        unsafe { door::enter(end) };
    }

    /// Tells of the end, and answers whether the task is known to be done.
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

/// Reports what has run since [`Here::since`] to those for whom that is long; `said` says what more there is to say of it.
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

/// Where what has run was scheduled in and out; the places are terms.
pub fn between(began: &[u8], ended: &[u8]) -> Vec<Term> {
    let place = |at: &[u8]| match etf::decode(at) {
        Ok(place @ Term::Tuple(_)) => place,
        _ => Term::atom("undefined"),
    };
    vec![pair("in", place(began)), pair("out", place(ended))]
}

/// Where inside its outermost coroutine a task that does not run waits: `(module, function, arity)` as a term. `None` for
/// that coroutine itself, and where it is no exact one.
///
/// # Safety
/// `coroutine` lives throughout unless it is null, and the calling thread is attached to the interpreter.
#[inline(always)]
unsafe fn whereabouts(here: &mut here::Here, coroutine: *mut ffi::PyObject) -> Option<Place> {
    // SAFETY: null or an object that is held; its type is looked at first.
    unsafe {
        let waits = !coroutine.is_null() && steps::is_coroutine(coroutine) && steps::waits(coroutine);
        waits.then(|| inside(here, coroutine)).flatten()
    }
}

/// The same of an exact coroutine that waits.
///
/// # Safety
/// As [`whereabouts`].
unsafe fn inside(here: &mut here::Here, coroutine: *mut ffi::PyObject) -> Option<Place> {
    // SAFETY: the caller's promise; what is found is held.
    unsafe {
        let inner = steps::innermost(coroutine);
        let frame = steps::frame_of(inner).filter(|_| inner != coroutine);
        let at = frame.map(|frame| here.turn.places.of(frame));
        ffi::Py_DECREF(inner);
        at
    }
}

/// Where a task waits: inside its outermost coroutine, or there.
///
/// # Safety
/// Attached, with no exception set; the task stands.
unsafe fn waiting(here: &mut here::Here, task: *mut ffi::PyObject, known: &Known) -> Place {
    // SAFETY: the caller's promise; the coroutine is held.
    unsafe {
        let coroutine = Held::owned(steps::coroutine_of(task));
        let at = whereabouts(here, coroutine.as_ptr()).or_else(|| known.place.clone());
        // or somebody has begun to ask in the midst of the step
        at.unwrap_or_else(|| outermost(here, coroutine.as_ptr()))
    }
}

/// The name of a task's outermost coroutine, as a term, or 0: it is no exact coroutine, or has ended.
///
/// # Safety
/// `coroutine` lives throughout unless it is null, and the calling thread is attached to the interpreter.
unsafe fn outermost(here: &mut here::Here, coroutine: *mut ffi::PyObject) -> Place {
    // SAFETY: null or an object that is held, whose frame waits or runs.
    unsafe {
        let frame = if coroutine.is_null() { None } else { steps::frame_of(coroutine) };
        frame.map_or_else(|| NOWHERE.into(), |frame| here.turn.places.of(frame))
    }
}

/// The first step of an eager task, and who is scheduled out for it.
pub struct Eager {
    run: Run,
    parent: Option<Arc<Tracee>>,
}

/// A task is about to be made; `None` if that doesn't run its first step.
///
/// # Safety
/// Attached, without an exception: called by the initialiser of tasks, with its arguments.
pub unsafe fn begin_eager(
    task: *mut ffi::PyObject, coroutine: *mut ffi::PyObject, keywords: *mut ffi::PyObject,
) -> Option<Eager> {
    // SAFETY: the caller's promise; what is asked for here is not used beyond this function.
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
        if !inviso_cpython::tasks::running::runs_here(event_loop) {
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
    // SAFETY: the caller's promise.
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

/// The running task waits for the first step of one that it makes, or goes on after it.
///
/// # Safety
/// Attached, with no exception set; the tracee's task stands.
unsafe fn turn_of_running(here: &mut here::Here, tracee: &Tracee, turn: Turn) {
    // SAFETY: attached; the frame runs.
    let at =
        unsafe { Frame::current_python(inviso_cpython::interpreter::tstate()).map(|frame| here.turn.places.of(frame)) };
    let at = at.as_deref().unwrap_or(NOWHERE);
    here.host.node.on_turn(&mut here.thread, About::Other(tracee), turn, RUNNING, at);
}

/// A task that was running when all this began is suspended.
fn on_pause(here: &mut here::Here, frame: Frame) {
    first_out(here, frame, Turn::Out);
}

/// It ends.
fn on_coroutine_end(here: &mut here::Here, frame: Frame, _how: Ended) {
    first_out(here, frame, Turn::Exited);
}

fn first_out(here: &mut here::Here, frame: Frame, turn: Turn) {
    // SAFETY: attached; the event's frame still stands.
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

/// What a thread object runs.
///
/// # Safety
/// `thread` lives throughout, and the calling thread is attached to the interpreter.
unsafe fn place_of_thread(thread: *mut ffi::PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: attached; the thread object stands, and what is read of it is held.
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

/// The same, seen by whoever comes first. Maybe not attached.
pub fn thread_ended(here: &mut here::Here) {
    if !ON.load(Ordering::Relaxed) || std::mem::replace(&mut here.turn.told, true) {
        return;
    }
    let own = here.thread.own().clone();
    let at = directory::process(&own).place.get().map_or(NOWHERE, |place| place);
    here.host.node.on_turn(&mut here.thread, About::Other(&own), Turn::Exited, RUNNING, at);
}
