//! Futures as messages: the caller that sets a result sends it. The process that waits for it, or that takes it,
//! receives it.
//!
//! If a process is known to wait for a future's result, the result is delivered to it at once, as to a mailbox. Any
//! other future is a queue with one message. The first process that takes the message receives it.
//!
//! # Roles
//! The thread that sets a result and the threads that wait for it or take it.
//!
//! # States
//! Those of `library::results`.
//!
//! # Orderings
//! Those of `library::results`.
//!
//! # Checked by
//! `tests/python/test_futures.py`, `tests/python/test_message_numbers.py`.

pub mod asyncio_futures;
pub mod asyncio_results;
pub mod executors;
pub mod gathered;

use super::results::{is_in_state, outcome, receive, record, reply_with, send};
use crate::{
    control::originals,
    instrument::{message_view, modules, watch},
    state::{
        host::Host,
        instrument::{Ended, Handler, Instrument, Module},
        outcome::Outcome,
        thread::ThreadState,
        untraced::untraced,
    },
};
use inviso_core::host::tracee::{Kind, Tracee};
use inviso_cpython::{
    capture,
    frames::frame::{code_qualname, Frame},
};
use pyo3::{ffi, prelude::*};
use std::{cell::RefCell, sync::Arc};

/// Futures of both kinds.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.messages(),
    |py, host| modules::want(py, host, &MODULES),
    end,
    |_| {
        modules::forget(&MODULES);
        asyncio_futures::give_back();
    },
);

/// `set_result` of a future written in Python.
pub static SET_RESULT: Handler = Handler { begin: Some(|state, frame| on_set(state, frame, false)), ..Handler::NONE };

/// `set_exception`, likewise.
pub static SET_EXCEPTION: Handler = Handler { begin: Some(|state, frame| on_set(state, frame, true)), ..Handler::NONE };

/// `result` of `concurrent.futures.Future`, and the method that takes the result for it; also for a call that waits
/// already.
pub static RESULT: Handler = Handler {
    begin: Some(on_take),
    end: Some(|state, frame, how| on_taken(state, frame, how, false)),
    ..Handler::NONE
};

/// `exception`, likewise.
pub static EXCEPTION: Handler =
    Handler { begin: Some(on_take), end: Some(|state, frame, how| on_taken(state, frame, how, true)), ..Handler::NONE };

/// The modules that define them.
pub static MODULES: [Module; 3] = [
    Module::new("concurrent.futures._base", adopt_concurrent),
    Module::new("_asyncio", asyncio_futures::adopt),
    Module::new("asyncio.tasks", gathered::adopt),
];

fn adopt_concurrent(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    modules::watch_all(
        py,
        host,
        module,
        &[
            ("Future.set_result", &["self", "result"], &SET_RESULT),
            ("Future.set_exception", &["self", "exception"], &SET_EXCEPTION),
            ("Future.result", &["self", "timeout"], &RESULT),
            ("Future.exception", &["self", "timeout"], &EXCEPTION),
            ("Future._Future__get_result", &["self"], &RESULT),
        ],
    )
}

fn end(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    asyncio_futures::give_back();
    watch::remove(py, host, &[&SET_RESULT, &SET_EXCEPTION, &RESULT, &EXCEPTION])?;
    modules::leave(py, host, &MODULES)
}

/// A result is about to be set.
fn on_set(state: &mut ThreadState, frame: Frame, is_error: bool) {
    // SAFETY: the frame begins, so its first two parameters are there; the caller's frame runs.
    let (object, value, inner) =
        unsafe { (frame.local(0), frame.local(1), message_view::is_inner(message_view::caller(frame))) };
    let known = state.host.directory.known(object as usize);
    let now = known.as_ref().map_or_else(Outcome::default, |known| *outcome(known));
    let reply = now.reply_to != 0;
    if known.is_none() && inner || now.is_inner || object.is_null() || value.is_null() {
        return;
    }
    // SAFETY: callbacks run attached on this thread; both objects stand.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        if !untraced(state, |py, _| is_in_state(py, object, &["PENDING", "RUNNING"])) {
            return; // the call is going to raise
        }
        let future = known.unwrap_or_else(|| record(state, object));
        match (reply, inner) {
            (true, _) => {
                let setter = finished_task(state, frame);
                reply_with(state, &future, setter.as_deref(), value, is_error);
            }
            (false, false) => {
                let now = *outcome(&future);
                let waiter = match now.waiters {
                    0 => untraced(state, |py, state| {
                        let task = asyncio_results::chained_task(py, object)?;
                        Some(state.host.directory.task(state.host, task.as_ptr() as usize, None))
                    }),
                    1 => state.host.node.tracee(now.waiter),
                    _ => None,
                };
                send(state, &future, None, waiter.as_deref(), value, is_error);
            }
            (false, true) => outcome(&future).is_set = true,
        }
    }
}

/// The task whose result the event loop is setting, for the caller that handed its coroutine to the loop. `frame` is
/// that of the setting method.
///
/// # Safety
/// The frame belongs to the current event and begins; attached.
unsafe fn finished_task(state: &mut ThreadState, frame: Frame) -> Option<Arc<Tracee>> {
    // SAFETY: the event's frame begins and its caller runs; the caller's second parameter stands.
    unsafe {
        let caller = message_view::caller(frame).filter(|_| state.host.node.seq_in_use())?;
        if !capture::is_text(code_qualname(caller.code()), "_set_concurrent_future_state") {
            return None;
        }
        state.host.directory.known(caller.local(1) as usize).filter(|known| known.kind == Kind::Task)
    }
}

thread_local! {
    /// Calls of this thread that take a result: the frame, and the future, whose variable is gone when the call ends.
    static TAKING: RefCell<Vec<(usize, Arc<Tracee>)>> = const { RefCell::new(Vec::new()) };
}

/// The program asks for a result. Or a result arrives that it asked for, perhaps before tracing began.
fn on_take(state: &mut ThreadState, frame: Frame) {
    // SAFETY: the event's frame begins; its callers run.
    unsafe {
        let asked = message_view::caller(frame);
        if !capture::is_text(code_qualname(frame.code()), "Future.__get_result") {
            return taking(state, frame, asked);
        }
        let Some(asked) = asked else { return };
        let seen = TAKING.with_borrow(|taking| taking.iter().any(|(address, _)| *address == asked.address()));
        if !seen && capture::is_text(code_qualname(asked.code()), "Future.result") {
            taking(state, frame, originals::caller(asked));
        }
    }
}

/// A method begins that returns the result of its future to `caller`.
///
/// # Safety
/// The frame belongs to the current event and begins; the caller's frame runs.
unsafe fn taking(state: &mut ThreadState, frame: Frame, caller: Option<Frame>) {
    // SAFETY: the frame begins, so its first parameter is there. The caller's frame runs, and callbacks run attached on
    // this thread.
    unsafe {
        let object = frame.local(0);
        if object.is_null() || message_view::is_inner(caller) {
            return;
        }
        state.running.identify(state.host, &mut state.thread);
        let future = record(state, object);
        let own = state.thread.current().pid;
        let is_set = untraced(state, |py, _| is_in_state(py, object, &["FINISHED"]));
        {
            let mut outcome = outcome(&future);
            outcome.is_set |= is_set;
            outcome.waiters += 1;
            outcome.waiter = own;
        }
        TAKING.with_borrow_mut(|taking| {
            // the entry of a call whose end was not seen
            taking.retain(|(address, _)| *address != frame.address());
            taking.push((frame.address(), future));
        });
    }
}

/// The method has returned or raised.
fn on_taken(state: &mut ThreadState, frame: Frame, how: Ended, shows_error: bool) {
    let taken = || {
        TAKING.with_borrow_mut(|taking| {
            let at = taking.iter().rposition(|(address, _)| *address == frame.address())?;
            Some(taking.swap_remove(at).1)
        })
    };
    let future = taken().or_else(|| {
        // the call may have begun before tracing; `result` has no first variable any more, see `on_take`
        if shows_error {
            // SAFETY: the event's frame runs, and so does its caller.
            unsafe { taking(state, frame, message_view::caller(frame)) };
        }
        taken()
    });
    let Some(future) = future else { return };
    let now = {
        let mut outcome = outcome(&future);
        outcome.waiters = outcome.waiters.saturating_sub(1);
        *outcome
    };
    // SAFETY: the interpreter holds the value or exception that ends the call; attached.
    let (value, is_error) = unsafe {
        match how {
            Ended::Returned(value) => (value, shows_error),
            Ended::Raised(error) => (error.object(), true),
        }
    };
    // SAFETY: the value or exception stands, and the exception classes live for ever; attached.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        if let (Ended::Raised(error), false) = (how, now.is_set) {
            if error.is_a(ffi::PyExc_TimeoutError) {
                message_view::timed_out(state);
            }
            return;
        }
        // no exception: the result was not taken
        if shows_error && value == ffi::Py_None() {
            return;
        }
        if shows_error && matches!(how, Ended::Raised(_)) {
            return;
        }
        receive(state, &future, value, is_error);
    }
}
