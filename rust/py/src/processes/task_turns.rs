//! When a task runs and when it waits: each step of its coroutine is a turn.
//!
//! Steps serve another purpose: they show the end of a task whose coroutine has no code that could be watched, see
//! [`watch_ends`].
//!
//! # Roles
//! Instruments switch this on and off, attached. Each thread runs the steps of its own event loop, attached.
//!
//! # States
//! `WATCHES_ENDS`: steps look for the ends of tasks. `TAKEN_FOR` has a bit for each user; steps are replaced while a bit
//! is set.
//!
//! # Orderings
//! `TAKEN_FOR` is locked while steps are replaced and given back. `WATCHES_ENDS` is set after the replacement and
//! cleared before steps are given back. Steps read it `Relaxed`: a step near the switch may be missed.
//!
//! # Checked by
//! `tests/python/test_scheduling.py`, `tests/python/test_uvloop.py`.

use super::{
    relations, task_init,
    turns::{alarm, between, turn_of_running, unwatch, ASKED, ON, RUNNING},
};
use crate::{
    door,
    state::{
        above::above,
        places::{PlaceName, NOWHERE},
        thread::{self, KnownTask},
        wants,
    },
};
use inviso_core::host::{
    flags::Flags,
    messages::About,
    monitor::LimitEvent,
    process_events::Turn,
    sync::Unpoisoned,
    tracee::{Kind, Tracee},
};
use inviso_cpython::{
    object::{held::Held, interned::Interned},
    tasks::steps,
};
use pyo3::{ffi, prelude::*};
use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc, Mutex,
};

/// The users of steps, a bit each. It is locked while steps are replaced and given back, which runs no Python code.
static TAKEN_FOR: Mutex<u8> = Mutex::new(0);

/// For `in` and `out`.
pub(super) const TURNS: u8 = 1;

/// For the ends of tasks.
const ENDS: u8 = 2;

pub(super) fn take_steps(py: Python<'_>, user: u8) -> PyResult<()> {
    steps::learn(py)?;
    let mut taken = TAKEN_FOR.lock().unpoisoned();
    *taken |= user;
    // SAFETY: the functions are of these kinds, and call the originals.
    unsafe { steps::take(py, step, wakeup) }
}

pub(super) fn leave_steps(user: u8) {
    let mut taken = TAKEN_FOR.lock().unpoisoned();
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
pub unsafe fn emit_end(task: *mut ffi::PyObject) {
    if WATCHES_ENDS.load(Ordering::Relaxed) {
        // SAFETY: the caller promises that the thread is attached and the task stands.
        unsafe { look_for_end(task) };
    }
}

/// # Safety
/// As [`emit_end`].
#[inline(never)]
unsafe fn look_for_end(task: *mut ffi::PyObject) {
    // SAFETY: the caller promises that the thread is attached and the task stands.
    unsafe {
        door::enter(|state| relations::step_ended(state, task));
    }
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
        emit_end(task);
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
        if crate::state::host::try_host().is_some_and(|host| host.node.seq_in_use()) {
            door::enter(|state| (above().woken)(state, task, future));
        }
        let mut run = Run::default();
        let seen = run.begin(task);
        let result = steps::original_wakeup()(task, future);
        emit_end(task);
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
    timed: Option<(PlaceName, u64)>,
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
            let seen = door::enter(|state| {
                if state.turn.watching && state.turn.unseen == 0 {
                    unwatch(state);
                }
                let known = state.running.take(state.host, task as usize);
                let coroutine = steps::coroutine_of(task);
                let seen = self.begin_of(state, known, coroutine);
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
    unsafe fn begin_of(
        &mut self, state: &mut thread::ThreadState, mut known: KnownTask, coroutine: *mut ffi::PyObject,
    ) -> bool {
        self.task = known.task;
        // SAFETY: the caller promises that the thread is attached and has no exception set, the task stands until the
        // end, and the coroutine is null or stands.
        let seen = unsafe { self.emit_begin(state, &mut known, coroutine) };
        if seen {
            state.running.begin_step(known);
        } else {
            state.running.keep(known);
        }
        seen
    }

    /// Emits the beginning.
    ///
    /// # Safety
    /// As [`Run::begin_of`].
    #[inline(always)]
    unsafe fn emit_begin(
        &mut self, state: &mut thread::ThreadState, known: &mut KnownTask, coroutine: *mut ffi::PyObject,
    ) -> bool {
        let KnownTask { tracee, place, .. } = known;
        let timed = wants::monitored(LimitEvent::LongSchedule);
        let asked = state.host.node.is_asked(&state.thread, About::Other(tracee), ASKED);
        if tracee.set_in(true) {
            // the end of the step in which the instrument began may stay unseen (3.11)
            if state.turn.unseen != tracee.pid {
                return false;
            }
            state.turn.unseen = 0;
        }
        if !asked && !timed {
            return true;
        }
        // SAFETY: the caller promises that the thread is attached and has no exception set, the task stands until the
        // end, and the coroutine is null or stands.
        let (own, inner) = unsafe {
            self.exiting = wants::wanted(Flags::EXITING) && steps::is_cancelling(self.task as *mut ffi::PyObject);
            (place.get_or_insert_with(|| outermost(state, coroutine)), whereabouts(state, coroutine))
        };
        let at = inner.as_ref().unwrap_or(own);
        if asked {
            let turn = if self.exiting { Turn::InExiting } else { Turn::In };
            state.host.node.on_turn(&mut state.thread, About::Other(tracee), turn, RUNNING, at);
        }
        if timed {
            let now = state.host.node.clock.ticks();
            self.timed = Some((at.clone(), std::mem::replace(&mut state.turn.since, now)));
        }
        true
    }

    /// The step has ended, perhaps with an exception set.
    ///
    /// # Safety
    /// As [`Run::begin`].
    #[inline]
    unsafe fn end(&self) {
        let end = |state: &mut thread::ThreadState| {
            let Some(known) = state.running.end_step(self.task) else { return };
            let was_in = known.tracee.set_in(false);
            // SAFETY: the caller promises that the thread is attached and has no exception set, and the task stands
            // until the end.
            let done = unsafe { self.emit_end(state, &known, was_in) };
            if !done {
                state.running.keep(known);
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
    unsafe fn emit_end(&self, state: &mut thread::ThreadState, known: &KnownTask, was_in: bool) -> bool {
        let (tracee, mut is_done) = (&known.tracee, false);
        let asked = state.host.node.is_asked(&state.thread, About::Other(tracee), ASKED);
        if was_in && ON.load(Ordering::Relaxed) && (asked || self.timed.is_some()) {
            // SAFETY: the task stands.
            let (done, at) = unsafe {
                let task = self.task as *mut ffi::PyObject;
                let (done, place) = (steps::is_done(task), known.place.clone());
                (done, place.filter(|_| done).unwrap_or_else(|| waiting(state, task, known)))
            };
            is_done = done;
            if asked {
                let turn = match (done, self.exiting) {
                    (true, _) => Turn::Exited,
                    (_, true) => Turn::OutExiting,
                    _ => Turn::Out,
                };
                state.host.node.on_turn(&mut state.thread, About::Other(tracee), turn, RUNNING, &at);
            }
            if let Some((began, _)) = &self.timed {
                alarm(state, tracee.pid, || between(began, &at));
            }
        }
        if let Some((_, outer)) = &self.timed {
            state.turn.since = *outer;
        }
        is_done
    }
}

/// The place where a task that does not run waits, inside its outermost coroutine: `(module, function, arity)` as a
/// term. `None` for that coroutine itself, and for any other object.
///
/// # Safety
/// `coroutine` is null or stands throughout; the calling thread is attached.
#[inline(always)]
unsafe fn whereabouts(state: &mut thread::ThreadState, coroutine: *mut ffi::PyObject) -> Option<PlaceName> {
    // SAFETY: null or an object that is held; its type is checked first.
    unsafe {
        let waits = !coroutine.is_null() && steps::is_coroutine(coroutine) && steps::waits(coroutine);
        waits.then(|| inside(state, coroutine)).flatten()
    }
}

/// The same for an exact coroutine that waits.
///
/// # Safety
/// As [`whereabouts`].
unsafe fn inside(state: &mut thread::ThreadState, coroutine: *mut ffi::PyObject) -> Option<PlaceName> {
    // SAFETY: the caller promises that `coroutine` is null or stands throughout and the calling thread is attached; the
    // innermost coroutine is held.
    unsafe {
        let inner = steps::innermost(coroutine);
        let frame = steps::frame_of(inner).filter(|_| inner != coroutine);
        let at = frame.map(|frame| state.turn.places.of(frame));
        ffi::Py_DECREF(inner);
        at
    }
}

/// The place where a task waits: inside its outermost coroutine, or in that itself.
///
/// # Safety
/// The thread is attached and has no exception set; the task stands.
unsafe fn waiting(state: &mut thread::ThreadState, task: *mut ffi::PyObject, known: &KnownTask) -> PlaceName {
    // SAFETY: the caller promises that the thread is attached and has no exception set, and the task stands; the
    // coroutine is held.
    unsafe {
        let coroutine = Held::owned(steps::coroutine_of(task));
        let at = whereabouts(state, coroutine.as_ptr()).or_else(|| known.place.clone());
        // or a session has begun to trace in the middle of the step
        at.unwrap_or_else(|| outermost(state, coroutine.as_ptr()))
    }
}

/// The name of a task's outermost coroutine, as a term; 0 for an object that is not an exact coroutine, or has ended.
///
/// # Safety
/// `coroutine` is null or stands throughout; the calling thread is attached.
unsafe fn outermost(state: &mut thread::ThreadState, coroutine: *mut ffi::PyObject) -> PlaceName {
    // SAFETY: null or an object that is held, whose frame waits or runs.
    unsafe {
        let frame = if coroutine.is_null() { None } else { steps::frame_of(coroutine) };
        frame.map_or_else(|| NOWHERE.into(), |frame| state.turn.places.of(frame))
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
        if task_init::keyword(keywords, &EAGER_START) != ffi::Py_True() {
            return None;
        }
        let event_loop = task_init::keyword(keywords, &LOOP);
        if !inviso_cpython::tasks::running::runs_here(event_loop) {
            return None;
        }
        door::enter(|state| begin_eager_of(state, task, coroutine)).flatten()
    }
}

/// # Safety
/// As [`begin_eager`].
unsafe fn begin_eager_of(
    state: &mut thread::ThreadState, task: *mut ffi::PyObject, coroutine: *mut ffi::PyObject,
) -> Option<Eager> {
    // SAFETY: the caller promises that the thread is attached and has no exception set, and the initialiser of tasks
    // calls this, with its arguments.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        let parent = state.thread.current().clone();
        let tracee = state.host.directory.task(state.host, task as usize, Some(&parent));
        let is_in = parent.kind == Kind::Task && parent.is_in.load(Ordering::Acquire) != 0;
        let parent = Some(parent).filter(|_| is_in);
        if let Some(parent) = &parent {
            turn_of_running(state, parent, Turn::Out);
        }
        let mut run = Run::default();
        if run.begin_of(state, KnownTask::new(task as usize, tracee), coroutine) {
            return Some(Eager { run, parent });
        }
        if let Some(parent) = &parent {
            turn_of_running(state, parent, Turn::In);
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
        // SAFETY: the caller promises that the thread is attached; an exception that is set is put aside and restored.
        unsafe {
            let timed = self.run.timed.is_some();
            self.run.end();
            door::enter(|state| {
                if let Some(parent) = &self.parent {
                    turn_of_running(state, parent, Turn::In);
                }
                if timed {
                    state.turn.since = state.host.node.clock.ticks();
                }
            });
        }
    }
}
