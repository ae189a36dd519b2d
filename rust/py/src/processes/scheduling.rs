//! The times at which processes run: the steps of tasks, and the beginning and end of threads.
//!
//! The instrument replaces the step of asyncio's own task class (see [`steps`]), whatever event loop runs it. The first
//! step of an eager task is seen around its initialiser. A step emits `in` and `out` of the task, and is timed while a
//! session watches for `long_schedule`. Tasks written in Python are not seen.
//!
//! The interpreter doesn't show when it runs a thread. So a thread emits `in` when it begins and `out` when it ends,
//! and nothing between.
//!
//! Rules: trace.md, `process/4`, `system/3`.
//!
//! # Roles
//! Instruments switch this on and off, attached. Each thread runs the steps of its own event loop, attached.
//!
//! # States
//! [`ON`]: steps emit `in` and `out`.
//!
//! # Orderings
//! `ON` is stored `Release` after threads are watched. It is read `Relaxed`: a step near the switch may be missed.
//!
//! # Checked by
//! `tests/python/test_scheduling.py`, `tests/python/test_uvloop.py`, `tests/python/test_system.py`.

use super::{
    task_init, task_made,
    task_turns::{leave_steps, take_steps, TURNS},
    turns::{thread_ended, ASKED, ON, RUNNING, STEP},
};
use crate::{
    control::originals,
    door,
    instrument::{modules, watch},
    state::{
        host::Host,
        instrument::{Ended, Handler, Instrument, Module},
        process, thread,
    },
};
use inviso_core::host::{messages::About, monitor::LimitEvent, process_events::Turn, tracee::Kind};
use inviso_cpython::{
    capture,
    frames::frame::Frame,
    interpreter::{calling, generic},
    tasks::steps,
};
use inviso_term::etf::{Encoder, Full};
use pyo3::{ffi, prelude::*, types::PyDict};
use std::sync::atomic::Ordering;

/// The times at which processes run.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.processes.has(ASKED) || wants.watches(LimitEvent::LongSchedule) || wants.tokens,
    begin,
    end,
    forget,
);

/// The module that tasks come from.
pub static MODULES: [Module; 1] = [Module::new("asyncio", |py, host, _| adopt_asyncio(py, host))];

/// `threading.Thread._bootstrap_inner`: a thread's life.
pub static THREAD: Handler = Handler { begin: Some(on_thread), end: Some(on_thread_end), ..Handler::NONE };

pub(super) fn begin(py: Python<'_>, host: &'static Host) -> PyResult<()> {
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
    task_init::take(py, task_init::EAGER, task_made::initialise)?;
    watch_running(py, host)
}

pub(super) fn end(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    forget(py);
    watch::remove(py, host, &[&THREAD, &STEP])?;
    modules::leave(py, host, &MODULES)
}

fn forget(py: Python<'_>) {
    ON.store(false, Ordering::Release);
    modules::forget(&MODULES);
    leave_steps(TURNS);
    task_init::give_back(py, task_init::EAGER, task_made::initialise);
}

/// The task that is running here counts as `in`, and will be `out` although the beginning of its step was not seen.
fn watch_running(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    // SAFETY: the thread is attached.
    unsafe { door::call(|state| watch_running_of(py, host, state)) }.unwrap_or(Ok(()))
}

fn watch_running_of(py: Python<'_>, host: &'static Host, state: &mut thread::ThreadState) -> PyResult<()> {
    // SAFETY: the thread is attached, with its own state; the running task stands, and so does its coroutine, an exact
    // one.
    let code = unsafe {
        state.running.identify(host, &mut state.thread);
        let current = state.thread.current().clone();
        let task = current.object.load(Ordering::Acquire) as *mut ffi::PyObject;
        if current.kind != Kind::Task || task.is_null() {
            return Ok(());
        }
        let Some(coroutine) = Bound::from_owned_ptr_or_opt(py, steps::coroutine_of(task)) else { return Ok(()) };
        let Some(frame) = steps::frame_of(coroutine.as_ptr()) else { return Ok(()) };
        let process = process::process(&current);
        process.coroutine.store(coroutine.as_ptr() as usize, Ordering::Release);
        current.set_in(true);
        state.turn.unseen = current.pid;
        process.place.get_or_init(|| state.turn.places.of(frame)[..].into());
        Bound::from_borrowed_ptr(py, frame.code())
    };
    state.turn.watching = true;
    watch::add(py, host, &STEP, &[code])
}

/// A thread begins.
fn on_thread(state: &mut thread::ThreadState, frame: Frame) {
    state.thread.switch_to_own();
    let own = state.thread.own().clone();
    if !state.host.node.is_asked(&state.thread, About::Other(&own), ASKED) {
        return;
    }
    // SAFETY: the frame of the method is about to run, so its first argument is there.
    let at = state.turn.places.written(|out| unsafe { place_of_thread(frame.local(0), out) });
    state.host.node.on_turn(&mut state.thread, About::Other(&own), Turn::In, RUNNING, at);
    let _ = process::process(&own).place.set(at.into());
}

/// Writes the place of a thread object's target.
///
/// # Safety
/// `thread` stands throughout; the calling thread is attached.
unsafe fn place_of_thread(thread: *mut ffi::PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: the thread is attached; the thread object stands, and its attributes are held.
    calling::attached(|py| unsafe {
        match generic::attribute(py, thread, "_target").filter(|target| !target.is_none()) {
            Some(target) => {
                let arguments = generic::attribute(py, thread, "_args").and_then(|args| args.len().ok());
                let named = generic::attribute(py, thread, "_kwargs")
                    .is_some_and(|all| all.cast::<PyDict>().is_ok_and(|all| !all.is_empty()));
                capture::place_of_callable(target.as_ptr(), arguments.unwrap_or(0), named, out)
            }
            None => capture::place_of_run(thread, out),
        }
    })
}

/// A thread ends.
fn on_thread_end(state: &mut thread::ThreadState, _frame: Frame, _how: Ended) {
    state.thread.switch_to_own();
    thread_ended(state);
}
