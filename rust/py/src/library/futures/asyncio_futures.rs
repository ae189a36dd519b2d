//! asyncio's futures that are written in C. Their methods are wrapped at their definitions, `await` at the class's
//! slot.
//!
//! # Roles
//! [`adopt`] fills the words when the program has imported `_asyncio`. Any attached thread reads them.
//!
//! # States
//! Each word is null until [`adopt`], and then an object that is held for ever. [`give_back`] keeps the words.
//!
//! # Orderings
//! [`adopt`] stores the words with `Release`. Readers load them with `Acquire` and so see the
//! object behind the pointer.
//!
//! # Checked by
//! `tests/python/test_futures.py`.

use super::{
    asyncio_results::{take_known, waiter, CALLBACKS, EXCEPTION_FIELD, RESULT_FIELD, TASK},
    gathered,
};
use crate::{
    door,
    instrument::{message_view, tokens},
    library::{
        inner_callbacks::{self, is, CLASS},
        results::{outcome, receive, record, send},
    },
    state::{host::Host, thread::ThreadState},
};
use inviso_core::host::{messages::About, tracee::Kind};
use inviso_cpython::{
    capture,
    frames::frame::{code_qualname, module_of, Frame},
    hooks::{
        awaited::Awaited,
        method::{Method, Wrapper},
    },
};
use pyo3::{ffi, prelude::*};
use std::sync::atomic::Ordering;

static C_SET_RESULT: Method = Method::new();
static C_SET_EXCEPTION: Method = Method::new();
static C_RESULT: Method = Method::new();
static C_EXCEPTION: Method = Method::new();

/// The `await` slot of the class, wrapped.
static AWAITED: Awaited = Awaited::new();

const SETTERS: [[Wrapper; 2]; 2] = [
    [Wrapper::Plain(set_result), Wrapper::OfClass(set_result_of)],
    [Wrapper::Plain(set_exception), Wrapper::OfClass(set_exception_of)],
];
const GETTERS: [[Wrapper; 2]; 2] = [
    [Wrapper::Plain(result), Wrapper::OfClass(result_of)],
    [Wrapper::Plain(exception), Wrapper::OfClass(exception_of)],
];

/// The program has imported `_asyncio`.
///
/// # Errors
/// What the interpreter raises.
pub fn adopt(_py: Python<'_>, _host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    let (class, task) = (module.getattr("Future")?, module.getattr("Task")?);
    let fields = class.getattr("__dict__")?;
    for (place, name) in [(&CALLBACKS, "_callbacks"), (&RESULT_FIELD, "_result"), (&EXCEPTION_FIELD, "_exception")] {
        place.store(fields.get_item(name)?.into_ptr(), Ordering::Release);
    }
    // SAFETY: the wrappers follow the contracts of their kinds and call the originals. The class and the objects in its
    // dict belong to a module that is never unloaded; one more reference makes sure of that.
    unsafe {
        TASK.store(task.into_ptr().cast(), Ordering::Release);
        CLASS.store(class.clone().into_ptr().cast(), Ordering::Release);
        AWAITED.take(CLASS.load(Ordering::Acquire), awaiting);
        C_SET_RESULT.take(&class, "set_result", &SETTERS[0])?;
        C_SET_EXCEPTION.take(&class, "set_exception", &SETTERS[1])?;
        C_RESULT.take(&class, "result", &GETTERS[0])?;
        C_EXCEPTION.take(&class, "exception", &GETTERS[1])
    }
}

/// `await future`: if the result is already set, the running process receives it. Subclasses keep the original.
///
/// # Safety
/// To be called by the interpreter only.
unsafe extern "C" fn awaiting(future: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this attached, with a future that stands.
    unsafe {
        door::enter(|state| {
            if let Some(record) = state.host.directory.known(future as usize) {
                take_known(state, About::Current, &record, future);
            }
        });
        AWAITED.original()(future)
    }
}

/// A task is about to resume with the result of a future that it waited for.
///
/// # Safety
/// Attached, with no exception set; both stand.
pub unsafe fn woken(state: &mut ThreadState, task: *mut ffi::PyObject, future: *mut ffi::PyObject) {
    let known = state.host.directory.known(future as usize);
    // SAFETY: the caller promises that task and future stand, and the thread is attached and has no exception set.
    unsafe {
        if known.is_none() && !gathered::is(future) || !is(future) {
            return;
        }
        let tracee = state.running.process(state.host, task as usize);
        match known {
            Some(record) => take_known(state, About::Other(&tracee), &record, future),
            None => gathered::take(state, About::Other(&tracee), future),
        }
    }
}

/// Restores all originals.
pub fn give_back() {
    AWAITED.give_back(awaiting);
    gathered::give_back();
    C_SET_RESULT.give_back(&SETTERS[0]);
    C_SET_EXCEPTION.give_back(&SETTERS[1]);
    C_RESULT.give_back(&GETTERS[0]);
    C_EXCEPTION.give_back(&GETTERS[1]);
}

/// Whether the program, and not the library, calls a method of a future in this frame.
///
/// # Safety
/// The frame runs; attached.
unsafe fn is_program(frame: Option<Frame>) -> bool {
    // SAFETY: the frame runs; attached.
    unsafe {
        !message_view::is_inner(frame)
            && !frame.is_some_and(|frame| inner_callbacks::runs_inner(frame) || is_wake_up(frame))
    }
}

/// Whether a widely used library wakes a waiter of its locks, tasks or connections. Such a call is no message of the
/// program.
///
/// # Safety
/// The frame runs; attached.
unsafe fn is_wake_up(frame: Frame) -> bool {
    const LOCKS: [&str; 6] = ["Lock.", "Semaphore.", "CapacityLimiter.", "Condition.", "Event.", "TaskGroup."];
    // SAFETY: the caller promises that the frame runs and the thread is attached; the names are held while they are
    // read.
    unsafe {
        let module = module_of(frame.globals());
        if module.is_null() {
            return false;
        }
        let of = |package: &str| capture::text_is(module.as_ptr(), |name| name.split('.').next() == Some(package));
        let a_lock = |name: &str| LOCKS.iter().any(|class| name.starts_with(class));
        of("aiohttp") || of("anyio") && capture::text_is(code_qualname(frame.code()), a_lock)
    }
}

/// Runs the original. If it succeeds, emits the message.
///
/// # Safety
/// `future` lives throughout, as does `value` unless it is null, and the calling thread is attached to the interpreter.
unsafe fn setting(
    future: *mut ffi::PyObject, value: *mut ffi::PyObject, is_error: bool,
    original: impl FnOnce() -> *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the wrappers are called attached, and their caller holds the arguments.
    unsafe {
        if value.is_null() {
            return original();
        }
        let waiter = door::enter(|state| {
            let frame = Frame::current_python(inviso_cpython::interpreter::tstate());
            if is_program(frame) {
                state.running.identify(state.host, &mut state.thread);
                return Some(waiter(state, future));
            }
            if let Some(frame) = frame {
                gathered::passed_on(state, frame, future, value, is_error);
            }
            None
        });
        let Some(waiter) = waiter.flatten() else { return original() };
        let done = original();
        if !done.is_null() {
            door::enter(|state| {
                state.running.identify(state.host, &mut state.thread);
                let record = record(state, future);
                send(state, &record, None, waiter.as_deref(), value, is_error);
            });
        }
        done
    }
}

/// Runs the original. The running process receives the result if it was not received before.
///
/// # Safety
/// `future` lives throughout, and the calling thread is attached to the interpreter.
unsafe fn getting(
    future: *mut ffi::PyObject, shows_error: bool, original: impl FnOnce() -> *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let done = original();
    // SAFETY: the caller promises that the future stands and the thread is attached; this function holds the result.
    unsafe {
        // an exception that the original raised is its answer
        let py = Python::assume_attached();
        let raised = if done.is_null() { PyErr::take(py) } else { None };
        let answer = raised.as_ref().map_or(done, |error| error.value(py).as_ptr());
        door::enter(|state| {
            got(state, future, shows_error, answer, raised.is_some());
            if ffi::Py_TYPE(future) != CLASS.load(Ordering::Acquire) {
                // a waking task calls this before its step begins
                state.running.look_again();
            }
        });
        if let Some(error) = raised {
            error.restore(py);
        }
        done
    }
}

/// A method has returned the result of a future, or `raised` it.
///
/// # Safety
/// As [`getting`], with no exception set; the answer is null or stands.
unsafe fn got(
    state: &mut ThreadState, future: *mut ffi::PyObject, shows_error: bool, answer: *mut ffi::PyObject, raised: bool,
) {
    // SAFETY: the caller promises that the future stands, and the thread is attached and has no exception set; the
    // answer is null or stands.
    unsafe {
        let frame = Frame::current_python(inviso_cpython::interpreter::tstate());
        let known = state.host.directory.known(future as usize);
        let waits = known.as_ref().is_some_and(|record| {
            let now = *outcome(record);
            now.is_set && (!now.is_taken || tokens::waits(state, record))
        });
        let nothing = answer.is_null() || shows_error && (raised || answer == ffi::Py_None());
        let whole = gathered::is(future);
        if !waits && !whole || nothing || gathered::looks(frame) {
            return;
        }
        state.running.identify(state.host, &mut state.thread);
        // the library's own coroutines take a result for the task that runs them; its callbacks only read it
        if message_view::is_inner(frame) && state.thread.current().kind != Kind::Task {
            return;
        }
        match known.filter(|_| waits) {
            None => gathered::take(state, About::Current, future),
            Some(record) => receive(state, &record, answer, shows_error || raised),
        }
    }
}

macro_rules! setter {
    ($method:ident, $plain:ident, $of_class:ident, $is_error:expr) => {
        /// # Safety
        /// To be called by the interpreter only.
        // SAFETY: `Method::take` installs it in place of a method with this calling convention; no other code has a
        // pointer to it.
        unsafe extern "C" fn $plain(this: *mut ffi::PyObject, value: *mut ffi::PyObject) -> *mut ffi::PyObject {
            // SAFETY: `take` has checked the flags: METH_O.
            unsafe {
                let original = $method.original::<inviso_cpython::hooks::method::Plain>();
                setting(this, value, $is_error, || original(this, value))
            }
        }

        /// # Safety
        /// To be called by the interpreter only.
        // SAFETY: `Method::take` installs it in place of a method with this calling convention.
        unsafe extern "C" fn $of_class(
            this: *mut ffi::PyObject, class: *mut ffi::PyTypeObject, args: *const *mut ffi::PyObject,
            count: ffi::Py_ssize_t, names: *mut ffi::PyObject,
        ) -> *mut ffi::PyObject {
            // SAFETY: `take` has checked the flags: METH_METHOD | METH_FASTCALL | METH_KEYWORDS. The one parameter is
            // positional only.
            unsafe {
                let original = $method.original::<inviso_cpython::hooks::method::OfClass>();
                let value = if count == 1 && names.is_null() { *args } else { std::ptr::null_mut() };
                setting(this, value, $is_error, || original(this, class, args, count, names))
            }
        }
    };
}

macro_rules! getter {
    ($method:ident, $plain:ident, $of_class:ident, $shows_error:expr) => {
        /// # Safety
        /// To be called by the interpreter only.
        // SAFETY: `Method::take` installs it in place of a method with this calling convention; no other code has a
        // pointer to it.
        unsafe extern "C" fn $plain(this: *mut ffi::PyObject, none: *mut ffi::PyObject) -> *mut ffi::PyObject {
            // SAFETY: `take` has checked the flags: METH_NOARGS.
            unsafe {
                let original = $method.original::<inviso_cpython::hooks::method::Plain>();
                getting(this, $shows_error, || original(this, none))
            }
        }

        /// # Safety
        /// To be called by the interpreter only.
        // SAFETY: `Method::take` installs it in place of a method with this calling convention.
        unsafe extern "C" fn $of_class(
            this: *mut ffi::PyObject, class: *mut ffi::PyTypeObject, args: *const *mut ffi::PyObject,
            count: ffi::Py_ssize_t, names: *mut ffi::PyObject,
        ) -> *mut ffi::PyObject {
            // SAFETY: `take` has checked the flags: METH_METHOD | METH_FASTCALL | METH_KEYWORDS.
            unsafe {
                let original = $method.original::<inviso_cpython::hooks::method::OfClass>();
                getting(this, $shows_error, || original(this, class, args, count, names))
            }
        }
    };
}

setter!(C_SET_RESULT, set_result, set_result_of, false);
setter!(C_SET_EXCEPTION, set_exception, set_exception_of, true);
getter!(C_RESULT, result, result_of, false);
getter!(C_EXCEPTION, exception, exception_of, true);
