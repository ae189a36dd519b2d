//! Results that one process sets and another takes: of futures, and of calls of pools.
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

use crate::{
    instrument::{
        message_view::{self, Message},
        sent_values, tokens,
    },
    state::{
        origin::{Origin, Sender},
        outcome::Outcome,
        process,
        thread::ThreadState,
        untraced::{build_untraced, untraced},
    },
};
use inviso_core::host::{
    flags::Flags,
    messages::{self, About},
    seq::Carried,
    sync::Unpoisoned,
    tracee::{Kind, Tracee},
};
use inviso_cpython::{capture, interpreter::generic::attribute, object::held::Held};
use inviso_term::record::numbered::MessageKind;
use pyo3::{ffi, prelude::*, types::*};
use std::{
    cell::RefCell,
    sync::{Arc, MutexGuard},
};

/// The known state of a future's result.
pub fn outcome(future: &Tracee) -> MutexGuard<'_, Outcome> {
    process::process(future).result.lock().unpoisoned()
}

/// The record of an object that a message goes through; made at first sight.
///
/// # Safety
/// The object stands; callbacks run attached on this thread.
pub unsafe fn record(state: &mut ThreadState, object: *mut ffi::PyObject) -> Arc<Tracee> {
    state.host.directory.object_process(state.host, Kind::Queue, object as usize, None)
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
        if let Some(carried) = waiting_token() {
            tokens::keep(future, carried);
        }
        if let Some(asker) = &asker {
            emit(state, value, is_error, |state, message| {
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
        // SAFETY: the thread is attached.
        return unsafe { tokens::send_by(state, from, future, to, std::ptr::null_mut()) };
    }
    // SAFETY: the caller promises that the thread is attached, and this interpreter is ours.
    unsafe {
        emit(state, value, is_error, |state, message| {
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
pub unsafe fn emit(
    state: &mut ThreadState, value: *mut ffi::PyObject, is_error: bool,
    with: impl FnOnce(&mut ThreadState, *mut ffi::PyObject),
) {
    if !is_error {
        return with(state, value);
    }
    // SAFETY: the value stands; attached. No exception is set while the message is made.
    let message = build_untraced(state, |py| unsafe { sent_values::of_exception(py, value).ok() });
    if !message.is_null() {
        with(state, message.as_ptr());
    }
}

/// The message for a value or an exception, held.
///
/// # Safety
/// As [`emit`].
pub unsafe fn as_message(state: &mut ThreadState, value: *mut ffi::PyObject, is_error: bool) -> Held {
    let mut message = Held::borrowed(std::ptr::null_mut());
    // SAFETY: the value stands; attached. `Held` gives the extra reference back.
    unsafe {
        emit(state, value, is_error, |_, object| {
            ffi::Py_INCREF(object);
            message = Held::owned(object);
        });
    }
    message
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
        emit(state, value, is_error, |state, message| {
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
    // SAFETY: the caller promises a Python function that stands, and an attached thread without an exception. The
    // closure may be null; the types are checked.
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

thread_local! {
    /// The token of a result that this thread of the library is about to pass on.
    static WAITING: RefCell<Option<Carried>> = const { RefCell::new(None) };
}

/// Keeps the token of a result that has arrived and that another process waits for.
pub fn leave_token(carried: Carried) {
    WAITING.set(Some(carried));
}

/// Takes the token of the result that this thread passes on now.
pub fn waiting_token() -> Option<Carried> {
    WAITING.take()
}
