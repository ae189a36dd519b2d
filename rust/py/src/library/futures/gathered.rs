//! Futures that the library sets with the results of other futures: those of `asyncio.gather` and `asyncio.shield`, and
//! those that follow a future of `concurrent.futures`. A result that was sent to the inner future reaches the process
//! that waits for the outer one.

use super::asyncio_results::{self, DEPTH, GATHERS};
use crate::{
    door,
    instrument::{message_view, tokens},
    library::{
        inner_callbacks::{self, COPIES},
        results::{is_in_state, outcome, record},
    },
    state::{host::Host, thread::ThreadState, untraced::untraced},
};
use inviso_core::host::{messages::About, tracee::Tracee};
use inviso_cpython::{
    capture,
    frames::frame::{code_qualname, Frame},
    hooks::awaited::Awaited,
    interpreter::{calling, generic::attribute},
};
use pyo3::{ffi, prelude::*, types::*};

/// The `await` slot of the class of the futures that `gather` returns, wrapped.
static GATHERING: Awaited = Awaited::new();

/// The program has imported `asyncio.tasks`.
///
/// # Errors
/// An error that the interpreter raises.
pub fn adopt(_py: Python<'_>, _host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    let class = module.getattr("_GatheringFuture")?.cast_into::<PyType>()?;
    // SAFETY: one more reference keeps the class for ever; the wrapper calls the original.
    unsafe { GATHERING.take(class.into_ptr().cast(), awaiting) };
    Ok(())
}

/// Restores the original.
pub fn give_back() {
    GATHERING.give_back(awaiting);
}

/// Whether a future was returned by `gather`.
#[inline]
pub fn is(future: *mut ffi::PyObject) -> bool {
    // SAFETY: the callers' future stands.
    unsafe { GATHERING.is_class_of(future) }
}

/// Whether the library reads the futures that it gathers, in this frame, to set the outer one. No process takes a
/// result then.
///
/// # Safety
/// The frame runs; attached.
pub unsafe fn looks(frame: Option<Frame>) -> bool {
    // SAFETY: the caller promises that the frame runs and the thread is attached; a frame holds its code.
    unsafe {
        frame.is_some_and(|frame| {
            capture::is_text(code_qualname(frame.code()), GATHERS) && message_view::is_library(frame)
        })
    }
}

/// `await` of such a future: if it is done, the running process takes the results.
///
/// # Safety
/// To be called by the interpreter only.
unsafe extern "C" fn awaiting(future: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this attached, with a future that stands.
    unsafe {
        door::enter(|state| {
            if is(future) {
                take(state, About::Current, future);
            }
        });
        GATHERING.original()(future)
    }
}

/// The running process, or a task that the future wakes, takes the results of the futures that are gathered in this
/// one. Nothing happens if it is not done. If it has failed, only the result that made it fail is taken.
///
/// # Safety
/// Attached, with no exception set; the future stands.
pub unsafe fn take(state: &mut ThreadState, at: About<'_>, gathering: *mut ffi::PyObject) {
    // SAFETY: the caller promises that the future stands, and the thread is attached and has no exception set.
    unsafe {
        if untraced(state, |py, _| is_in_state(py, gathering, &["FINISHED"])) {
            if matches!(at, About::Current) {
                state.running.identify(state.host, &mut state.thread);
            }
            each(state, gathering, None, DEPTH, &mut |state, future, known| {
                asyncio_results::take_known(state, at, known, future)
            });
        }
    }
}

/// The library sets a result that one or several other futures hold. The result goes on with this future.
///
/// # Safety
/// The future and the value stand; attached, with no exception set.
pub unsafe fn passed_on(
    state: &mut ThreadState, frame: Frame, future: *mut ffi::PyObject, value: *mut ffi::PyObject, is_error: bool,
) {
    // SAFETY: the future and the value stand, attached, no exception is set. A function's first parameter stands while
    // the function runs.
    unsafe {
        let function = code_qualname(frame.code());
        if COPIES.iter().any(|known| capture::is_text(function, known)) {
            let source = frame.local(0);
            if source.is_null() || source == future {
                return;
            }
            if is(source) {
                return told_all(state, source, future, None);
            }
            if let Some(source) = state.host.directory.known(source as usize) {
                copied(state, &source, future, value, is_error);
            }
        } else if capture::is_text(function, GATHERS) && is(future) {
            told_all(state, future, future, is_error.then_some(value));
        }
    }
}

/// The result of one future goes on with another.
///
/// # Safety
/// As [`passed_on`].
unsafe fn copied(
    state: &mut ThreadState, source: &Tracee, future: *mut ffi::PyObject, value: *mut ffi::PyObject, is_error: bool,
) {
    let (was, carries) = (*outcome(source), tokens::waits(state, source));
    if !carries && (was.is_taken || !was.is_set) {
        return;
    }
    // SAFETY: the caller promises that the future and the value stand, and the thread is attached and has no exception
    // set.
    unsafe {
        let waiter = if was.is_taken { None } else { asyncio_results::waiter(state, future) };
        let target = record(state, future);
        tokens::forward(source, &target);
        if let Some(waiter) = &waiter {
            asyncio_results::reach(state, waiter, source, value, is_error);
        }
        let is_taken = std::mem::replace(&mut outcome(source).is_taken, true);
        let mut outcome = outcome(&target);
        (outcome.is_set, outcome.by, outcome.is_taken) = (true, was.by, is_taken);
    }
}

/// The results of the futures that are gathered in one reach the task that waits for another, if there is one.
///
/// # Safety
/// As [`passed_on`].
unsafe fn told_all(
    state: &mut ThreadState, gathering: *mut ffi::PyObject, future: *mut ffi::PyObject,
    failed: Option<*mut ffi::PyObject>,
) {
    // SAFETY: the caller promises that the future stands, and the thread is attached and has no exception set; the
    // value of an inner future is held.
    unsafe {
        let Some(waiter) = asyncio_results::waiter(state, future) else { return };
        each(state, gathering, failed, DEPTH, &mut |state, inner, known| {
            if gathering != future {
                // the task is woken by a future that has no link to these
                asyncio_results::take_known(state, About::Other(&waiter), known, inner);
            }
            if let Some((value, is_error)) = asyncio_results::held(state, inner) {
                asyncio_results::reach(state, &waiter, known, value.as_ptr(), is_error);
            }
        });
    }
}

/// Calls `with` for the futures that are gathered in one and hold a message. If the future has failed, or fails now
/// with `failed`, only for those that failed with the same exception.
///
/// # Safety
/// As [`take`].
unsafe fn each(
    state: &mut ThreadState, gathering: *mut ffi::PyObject, failed: Option<*mut ffi::PyObject>, depth: u32,
    with: &mut dyn FnMut(&mut ThreadState, *mut ffi::PyObject, &Tracee),
) {
    // SAFETY: attached, no exception is set, and the future stands. The list is held, and it holds its items.
    unsafe {
        let Some((children, error)) = untraced(state, |py, _| {
            let children = attribute(py, gathering, "_children")?.cast_into::<PyList>().ok()?;
            let error = match failed {
                Some(error) => Bound::from_borrowed_ptr(py, error),
                None => asyncio_results::error(py, gathering)?,
            };
            Some((children.unbind(), error.unbind()))
        }) else {
            return;
        };
        calling::attach(|py| {
            for child in children.bind(py).iter() {
                let failed_otherwise = || {
                    let fails =
                        |error: &Py<PyAny>| asyncio_results::error(py, child.as_ptr()).is_some_and(|e| e.is(error));
                    !error.is_none(py) && !fails(&error)
                };
                if is(child.as_ptr()) {
                    if depth > 0 {
                        each(state, child.as_ptr(), None, depth - 1, with);
                    }
                } else if inner_callbacks::is(child.as_ptr()) {
                    let known = state.host.directory.known(child.as_ptr() as usize);
                    if let Some(known) = known.filter(|known| outcome(known).is_set && !failed_otherwise()) {
                        with(state, child.as_ptr(), &known);
                    }
                }
            }
        });
    }
}
