//! Callbacks that an event loop runs besides the steps of tasks: those of timers and sockets, and those of callers of
//! `call_soon`.
//!
//! They belong to the loop's thread. With the flag `running_procs` the thread emits `in` and `out` around each of them.
//! While a session watches for `long_schedule` they are timed, and those of a transport belong to its port. They are
//! seen on asyncio's own event loops, whose handles are written in Python; for uvloop see
//! [`uv_loops`](super::uv_loops).

use super::loop_lag;
use crate::{
    control::originals,
    instrument::{modules, watch},
    processes::turns::{alarm, between, pair},
    state::{
        above::above,
        host::Host,
        instrument::{Ended, Handler, Instrument, Module},
        thread::{RunningCallback, Served, ThreadState},
        untraced::untraced,
        wants,
    },
};
use inviso_core::host::{flags::Flags, messages::About, monitor::LimitEvent, process_events::Turn};
use inviso_cpython::{capture, frames::frame::Frame, interpreter::generic::attribute, tasks::steps};
use inviso_term::term::Term;
use pyo3::{ffi::PyObject, prelude::*, types::PyTuple};

/// The instrument of callbacks of event loops.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.processes.has(Flags::RUNNING_PROCS) || wants.watches(LimitEvent::LongSchedule),
    |py, host| modules::want(py, host, &MODULES),
    |py, host| {
        watch::remove(py, host, &[&RUN])?;
        modules::leave(py, host, &MODULES)
    },
    |_| modules::forget(&MODULES),
);

/// The module that defines handles.
pub static MODULES: [Module; 1] = [Module::new("asyncio", |py, host, _| adopt(py, host))];

/// `asyncio.Handle._run`.
pub static RUN: Handler = Handler { begin: Some(on_run), end: Some(on_ran), ..Handler::NONE };

/// How many callbacks may run inside each other on one thread.
const DEPTH: usize = 64;

fn adopt(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    if !(modules::is_there(py, "asyncio")? && modules::is_there(py, "asyncio.events")?) {
        return Ok(());
    }
    // imported modules are found by name; a subclass that overrides the method has a method of its own
    for name in ["Handle", "TimerHandle", "_ThreadSafeHandle"] {
        let Ok(class) = py.import("asyncio.events")?.getattr(name) else { continue };
        if class.getattr("__dict__")?.contains("_run")? {
            watch::add(py, host, &RUN, &originals::codes(&class, &["_run"])?)?;
        }
    }
    Ok(())
}

/// A handle is about to call.
fn on_run(state: &mut ThreadState, frame: Frame) {
    // SAFETY: the frame of the method is about to run, so its first argument is there.
    if let Some((place, serves)) = untraced(state, |py, state| unsafe { callback(py, state, frame) }) {
        enter(state, frame.address(), place, serves);
    }
}

/// The handle has called.
fn on_ran(state: &mut ThreadState, frame: Frame, _how: Ended) {
    leave(state, frame.address());
}

/// A callback begins at `place`, perhaps for a port. No other callback on this thread has the same `key`; for example,
/// it is the address of a handle's frame.
pub fn enter(state: &mut ThreadState, key: usize, place: Box<[u8]>, serves: Option<Served>) {
    state.thread.switch_to_own();
    let own = state.thread.own().clone();
    state.host.node.on_turn(&mut state.thread, About::Other(&own), Turn::In, Flags::RUNNING_PROCS, &place);
    // removes the entry of a frame whose end was not seen
    state.turn.callbacks.retain(|running| running.key != key);
    if state.turn.callbacks.len() < DEPTH {
        let since = std::mem::replace(&mut state.turn.since, state.host.node.clock.ticks());
        state.turn.callbacks.push(RunningCallback { key, place, serves, since });
    }
}

/// The callback of this key has run.
pub fn leave(state: &mut ThreadState, key: usize) {
    let found = state.turn.callbacks.iter().rposition(|running| running.key == key);
    let Some(running) = found.and_then(|at| state.turn.callbacks.drain(at..).next()) else { return };
    let own = state.thread.own().clone();
    state.host.node.on_turn(&mut state.thread, About::Other(&own), Turn::Out, Flags::RUNNING_PROCS, &running.place);
    if wants::monitored(LimitEvent::LongSchedule) {
        match &running.serves {
            Some((port, what)) => alarm(state, port.pid, || vec![pair("port_op", Term::atom(what))]),
            None => alarm(state, own.pid, || between(&running.place, &running.place)),
        }
    }
    state.turn.since = running.since;
}

/// The function that a handle calls, as a term, and the port that it is called for; `None` for a task's step.
///
/// # Safety
/// The frame belongs to a handle's method and is about to run. No events are handled meanwhile, whatever the handle's
/// class does for its fields.
unsafe fn callback(py: Python<'_>, state: &mut ThreadState, frame: Frame) -> Option<(Box<[u8]>, Option<Served>)> {
    // SAFETY: the frame of a handle's method is about to run, so its first argument is the handle. The values that are
    // read are held.
    unsafe {
        let handle = frame.local(0);
        let callback = attribute(py, handle, "_callback")?;
        if callback.is_none() || steps::is_step(callback.as_ptr()) || loop_lag::is_probe(py, callback.as_ptr()) {
            return None;
        }
        let arguments = attribute(py, handle, "_args").and_then(|args| args.cast_into::<PyTuple>().ok());
        let place = place_of(state, callback.as_ptr(), arguments.as_ref().map_or(0, |args| args.len()));
        let timed = wants::monitored(LimitEvent::LongSchedule);
        Some((place, if timed { (above().served)(state, &callback, arguments.as_ref()) } else { None }))
    }
}

/// A callable with this number of arguments, as a term.
///
/// # Safety
/// The callable stands; attached, and no events are handled meanwhile.
pub unsafe fn place_of(state: &mut ThreadState, callback: *mut PyObject, number: usize) -> Box<[u8]> {
    // SAFETY: the callable stands; attached, and no events are handled.
    state.turn.places.written(|out| unsafe { capture::place_of_callable(callback, number, false, out) }).into()
}
