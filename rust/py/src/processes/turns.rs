//! What the turns of tasks, threads and callbacks have in common: whether they are traced, and their reports.
//!
//! # Roles
//! The instrument of scheduling switches `ON`, attached. Each thread reads it.
//!
//! # States
//! `ON`: steps emit `in` and `out`.
//!
//! # Orderings
//! `ON` is read `Relaxed`: a step near the switch may be missed.
//!
//! # Checked by
//! `tests/python/test_scheduling.py`, `tests/python/test_uvloop.py`, `tests/python/test_system.py`.

use crate::{
    instrument::watch,
    state::{
        instrument::{Ended, Handler},
        places::NOWHERE,
        process,
        thread::ThreadState,
    },
};
use inviso_core::host::{flags::Flags, messages::About, monitor::LimitEvent, process_events::Turn, tracee::Tracee};
use inviso_cpython::{frames::frame::Frame, interpreter::calling};
use inviso_term::{etf, term::Term};
use std::sync::atomic::{AtomicBool, Ordering};

pub static ON: AtomicBool = AtomicBool::new(false);

/// The flags that trace `in` and `out` of processes.
pub const RUNNING: Flags = Flags(Flags::RUNNING.0 | Flags::RUNNING_PROCS.0);

/// The same with the flag for those that end.
pub const ASKED: Flags = Flags(RUNNING.0 | Flags::EXITING.0);

/// The coroutine of the task that was in a step when the instrument began. The beginning of that step was not seen.
pub static STEP: Handler = Handler { pause: Some(on_pause), end: Some(on_coroutine_end), ..Handler::NONE };

/// That step has ended. Later steps are seen without watching the coroutine.
#[cold]
#[inline(never)]
pub fn unwatch(state: &mut ThreadState) {
    state.turn.watching = false;
    calling::attached(|py| {
        if let Err(error) = watch::remove(py, state.host, &[&STEP]) {
            error.write_unraisable(py, None);
        }
    });
}

/// Reports a run since [`ThreadState::since`] to sessions for which it is long; `said` adds elements to the report.
pub fn alarm(state: &mut ThreadState, about: u64, said: impl Fn() -> Vec<Term>) {
    let clock = &state.host.node.clock;
    let spent = clock.monotonic(clock.ticks()).saturating_sub(clock.monotonic(state.turn.since)) / 1_000_000;
    if state.host.node.watched(LimitEvent::LongSchedule).is_none_or(|limit| spent < limit) {
        return;
    }
    state.host.node.alarm(&mut state.thread, about, LimitEvent::LongSchedule, |_, limit| {
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

/// The running task waits for the first step of a task that it makes, or continues after it.
///
/// # Safety
/// The thread is attached and has no exception set; the tracee's task stands.
pub unsafe fn turn_of_running(state: &mut ThreadState, tracee: &Tracee, turn: Turn) {
    // SAFETY: attached; the frame runs.
    let at = unsafe {
        Frame::current_python(inviso_cpython::interpreter::tstate()).map(|frame| state.turn.places.of(frame))
    };
    let at = at.as_deref().unwrap_or(NOWHERE);
    state.host.node.on_turn(&mut state.thread, About::Other(tracee), turn, RUNNING, at);
}

/// The task that was running when the instrument began is suspended.
fn on_pause(state: &mut ThreadState, frame: Frame) {
    first_out(state, frame, Turn::Out);
}

/// That task ends.
fn on_coroutine_end(state: &mut ThreadState, frame: Frame, _how: Ended) {
    first_out(state, frame, Turn::Exited);
}

fn first_out(state: &mut ThreadState, frame: Frame, turn: Turn) {
    // SAFETY: the thread is attached; the event's frame still stands.
    let generator = unsafe {
        state.running.identify(state.host, &mut state.thread);
        frame.generator() as usize
    };
    let current = state.thread.current().clone();
    let process = process::process(&current);
    if state.turn.unseen != current.pid || process.coroutine.load(Ordering::Acquire) != generator {
        return;
    }
    state.turn.unseen = 0;
    if current.set_in(false) {
        let at = process.place.get().map_or(NOWHERE, |place| place);
        state.host.node.on_turn(&mut state.thread, About::Other(&current), turn, RUNNING, at);
    }
}

/// A thread ends; the first observer reports it. The thread may be detached.
pub fn thread_ended(state: &mut ThreadState) {
    if !ON.load(Ordering::Relaxed) || std::mem::replace(&mut state.turn.told, true) {
        return;
    }
    let own = state.thread.own().clone();
    let at = process::process(&own).place.get().map_or(NOWHERE, |place| place);
    state.host.node.on_turn(&mut state.thread, About::Other(&own), Turn::Exited, RUNNING, at);
}
