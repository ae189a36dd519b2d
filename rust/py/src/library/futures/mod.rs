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
//! [`Outcome`]: asked for, then set, then taken.
//!
//! # Orderings
//! The mutex around the [`Outcome`] orders everything. It is held for single reads and writes only; no Python code runs
//! under it.
//!
//! # Checked by
//! `tests/python/test_futures.py`, `tests/python/test_message_numbers.py`.

pub mod asyncio_futures;
pub mod executors;
pub mod gathered;
#[cfg(not(Py_3_12))]
pub mod wait_for;

use super::multiprocess::pickles;
use crate::{
    control::originals,
    instrument::{
        message_view::{self, Message},
        modules, sent_values, tokens, watch,
    },
    state::{
        host::Host,
        instrument::{Ended, Handler, Instrument, Module},
        origin::{Origin, Sender},
        outcome::Outcome,
        process,
        thread::ThreadState,
        untraced::{self, untraced},
    },
};
use inviso_core::{
    flags::Flags,
    messages::{self, About},
    tracee::{Kind, Tracee},
};
use inviso_cpython::{
    capture,
    frames::frame::{code_qualname, Frame},
    interpreter::generic::attribute,
    object::held::Held,
};
use inviso_term::record::numbered::MessageKind;
use pyo3::{ffi, prelude::*, types::*};
use std::{
    cell::RefCell,
    sync::{Arc, MutexGuard},
};

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

/// The known state of a future's result.
pub fn outcome(future: &Tracee) -> MutexGuard<'_, Outcome> {
    process::process(future).result.lock().unwrap_or_else(|e| e.into_inner())
}

/// The record of an object that a message goes through; made at first sight.
///
/// # Safety
/// The object stands; callbacks run attached on this thread.
pub unsafe fn record(state: &mut ThreadState, object: *mut ffi::PyObject) -> Arc<Tracee> {
    state.host.directory.object_process(state.host, Kind::Queue, object as usize, None)
}

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

/// Whether an object's plain attribute `_state` is a str among `states`.
///
/// # Safety
/// As [`attribute`].
pub unsafe fn is_in_state(py: Python<'_>, object: *mut ffi::PyObject, states: &[&str]) -> bool {
    // SAFETY: the object stands, attached, no exception is set; the value is held while it is compared.
    unsafe {
        attribute(py, object, "_state").is_some_and(|now| states.iter().any(|s| capture::is_text(now.as_ptr(), s)))
    }
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
                        let task = asyncio_futures::chained_task(py, object)?;
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

/// The process that asked, unless it has ended. A task may have ended unseen.
pub fn living(state: &mut ThreadState, asker: u64) -> Option<Arc<Tracee>> {
    untraced(state, |py, state| state.host.directory.living(py, state.host, asker))
}

/// The result of a call goes back to the process that asked for it. It comes from the running process, but its token
/// may be that of `setter`.
///
/// # Safety
/// The value stands; callbacks run attached on this thread.
pub unsafe fn reply_with(
    state: &mut ThreadState, future: &Tracee, setter: Option<&Tracee>, value: *mut ffi::PyObject, is_error: bool,
) {
    let now = *outcome(future);
    let asker = living(state, now.reply_to);
    // SAFETY: callbacks run attached on this thread, and the value stands.
    unsafe {
        if !now.comes_from_afar {
            return send(state, future, setter, asker.as_deref(), value, is_error);
        }
        if let Some(carried) = pickles::waiting() {
            tokens::keep(future, carried);
        }
        if let Some(asker) = &asker {
            tell(state, value, is_error, |state, message| {
                message_view::arrived(state.host, &mut state.thread, asker, Sender::Unknown, message);
            });
        }
    }
    let mut outcome = outcome(future);
    (outcome.is_set, outcome.is_taken) = (true, asker.is_some());
}

/// The running process sends a result: to the process that waits for it, or else to the future.
///
/// # Safety
/// The value stands; callbacks run attached on this thread.
pub unsafe fn send(
    state: &mut ThreadState, future: &Tracee, setter: Option<&Tracee>, waiter: Option<&Tracee>,
    value: *mut ffi::PyObject, is_error: bool,
) {
    let from = setter.map_or(About::Current, About::Other);
    let own = state.thread.current().pid;
    {
        let mut outcome = outcome(future);
        (outcome.is_set, outcome.by, outcome.is_taken, outcome.number) = (true, own, waiter.is_some(), 0);
    }
    let asked = sent_values::is_asked(state, Flags::SEND)
        || waiter.is_some_and(|waiter| sent_values::is_asked_of(state, waiter));
    let to = waiter.map_or(future.pid, |waiter| waiter.pid);
    if !asked && !setter.map_or_else(|| tokens::has(state), |setter| state.host.node.seq_may_have(setter)) {
        // SAFETY: attached.
        return unsafe { tokens::send_by(state, from, future, to, std::ptr::null_mut()) };
    }
    // SAFETY: the pool and the result stand; callbacks run attached on this thread.
    unsafe {
        tell(state, value, is_error, |state, message| {
            let kind = if is_error { MessageKind::Exception } else { MessageKind::Result };
            let parcel = Message::to(message, to).of_kind(kind);
            let number = messages::on_send(&state.host.node, &mut state.thread, About::Current, true, &parcel);
            match waiter {
                Some(waiter) => {
                    let origin = Origin::new(Sender::Process(own), number);
                    message_view::arrived(state.host, &mut state.thread, waiter, origin, message);
                }
                None => outcome(future).number = number,
            }
            tokens::send_by(state, from, future, to, message);
        });
    }
}

/// Calls `with` with the message for a value or an exception.
///
/// # Safety
/// The value stands; callbacks run attached on this thread.
pub unsafe fn tell(
    state: &mut ThreadState, value: *mut ffi::PyObject, is_error: bool,
    with: impl FnOnce(&mut ThreadState, *mut ffi::PyObject),
) {
    if !is_error {
        return with(state, value);
    }
    // SAFETY: the value stands; attached. No exception is set while the message is made.
    let message = untraced::build_untraced(state, |py| unsafe { sent_values::of_exception(py, value).ok() });
    if !message.is_null() {
        with(state, message.as_ptr());
    }
}

/// The message for a value or an exception, held.
///
/// # Safety
/// As [`tell`].
pub unsafe fn as_message(state: &mut ThreadState, value: *mut ffi::PyObject, is_error: bool) -> Held {
    let mut message = Held::borrowed(std::ptr::null_mut());
    // SAFETY: the value stands; attached. `Held` gives the extra reference back.
    unsafe {
        tell(state, value, is_error, |_, object| {
            ffi::Py_INCREF(object);
            message = Held::owned(object);
        });
    }
    message
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

/// The running process receives a result, unless it was received before.
///
/// # Safety
/// The value stands; callbacks run attached on this thread.
pub unsafe fn receive(state: &mut ThreadState, future: &Tracee, value: *mut ffi::PyObject, is_error: bool) {
    // SAFETY: the value stands, and callbacks run attached on this thread.
    unsafe { tokens::receive_by(state, About::Current, future, |state| as_message(state, value, is_error)) };
    let was = {
        let mut outcome = outcome(future);
        let was = *outcome;
        outcome.is_taken = true;
        was
    };
    if was.is_taken || !sent_values::is_asked(state, Flags::RECEIVE) {
        return;
    }
    // SAFETY: the value stands, and callbacks run attached on this thread.
    unsafe {
        tell(state, value, is_error, |state, message| {
            let parcel = Message::from(message, was.origin());
            messages::on_receive(&state.host.node, &mut state.thread, About::Current, &parcel);
        });
    }
}

/// The value of a variable that an inner function takes from its outer function; `None` if it has no value.
///
/// # Safety
/// `function` is a Python function that stands; the calling thread is attached and has no exception set.
pub unsafe fn closed_over(py: Python<'_>, function: *mut ffi::PyObject, name: &str) -> Option<Held> {
    // SAFETY: both are null or stand; attached. The types are checked.
    unsafe {
        let cells = Bound::from_borrowed_ptr_or_opt(py, ffi::PyFunction_GetClosure(function))?;
        let cells = cells.cast_into::<PyTuple>().ok()?;
        let code = Bound::from_borrowed_ptr(py, ffi::PyFunction_GetCode(function));
        let names = code.getattr("co_freevars").ok()?.cast_into::<PyTuple>().ok()?;
        let at = names.iter().position(|known| capture::is_text(known.as_ptr(), name))?;
        let value = Held::owned(ffi::PyCell_Get(cells.get_item(at).ok()?.as_ptr()));
        (!value.is_null()).then_some(value)
    }
}
