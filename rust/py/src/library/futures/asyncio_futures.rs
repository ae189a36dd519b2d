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

use super::{as_message, gathered, outcome, receive, record, send, tell};
use crate::{
    door,
    instrument::{message_view, sent_values, tokens},
    library::loops,
    state::{host::Host, thread::ThreadState, untraced::untraced},
};
use inviso_core::{
    messages::About,
    tracee::{Kind, Tracee},
};
use inviso_cpython::{
    capture,
    frames::frame::{code_qualname, module_of, Frame},
    hooks::{
        awaited::Awaited,
        method::{Method, Wrapper},
    },
    interpreter::generic::attribute,
    object::held::Held,
};
use pyo3::{ffi, prelude::*, types::*};
use std::sync::{
    atomic::{AtomicPtr, Ordering},
    Arc,
};

static C_SET_RESULT: Method = Method::new();
static C_SET_EXCEPTION: Method = Method::new();
static C_RESULT: Method = Method::new();
static C_EXCEPTION: Method = Method::new();

/// A descriptor of the class that reads a field of its instances.
type Field = AtomicPtr<ffi::PyObject>;

/// The fields of a future: waiting callbacks, value, exception.
static CALLBACKS: Field = AtomicPtr::new(std::ptr::null_mut());
static RESULT_FIELD: Field = AtomicPtr::new(std::ptr::null_mut());
static EXCEPTION_FIELD: Field = AtomicPtr::new(std::ptr::null_mut());
/// The future class.
static CLASS: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());
/// The `await` slot of the class, wrapped.
static AWAITED: Awaited = Awaited::new();
/// The task class.
static TASK: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());

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

/// The running process, or a task that the future wakes, takes the result of a future. Nothing happens if the result
/// was already taken and carries no token.
///
/// # Safety
/// Attached, with no exception set; the future, one of asyncio's, stands.
pub unsafe fn take_known(state: &mut ThreadState, at: About<'_>, record: &Tracee, future: *mut ffi::PyObject) {
    let now = *outcome(record);
    let own = matches!(at, About::Current);
    if now.is_set && (own && !now.is_taken || tokens::waits(state, record)) {
        // SAFETY: the pool and the result stand; callbacks run attached on this thread.
        unsafe {
            if own {
                state.running.identify(state.host, &mut state.thread);
            }
            take_set(state, at, record, future);
        }
    }
}

/// A process takes the result of a future that is done: `await` is about to take it, or the future wakes a task that
/// waits for it.
///
/// # Safety
/// Attached, with no exception set; the future, one of asyncio's, stands.
unsafe fn take_set(state: &mut ThreadState, at: About<'_>, record: &Tracee, future: *mut ffi::PyObject) {
    // SAFETY: the pool and the result stand; callbacks run attached on this thread.
    unsafe {
        let Some((value, is_error)) = held(state, future) else { return };
        match at {
            About::Current => receive(state, record, value.as_ptr(), is_error),
            // the trace message was emitted when the result was set
            About::Other(_) => {
                tokens::receive_by(state, at, record, |state| as_message(state, value.as_ptr(), is_error));
            }
        }
    }
}

/// The value that a done future holds, and whether it is an exception.
///
/// # Safety
/// As [`take_set`].
pub unsafe fn held(state: &mut ThreadState, future: *mut ffi::PyObject) -> Option<(Held, bool)> {
    // SAFETY: attached, no exception is set, and the future stands. Each result is a new reference.
    unsafe {
        untraced(state, |py, _| {
            let error = error(py, future)?;
            if error.is_none() {
                return Some((Held::owned(field(py, &RESULT_FIELD, future)?.into_ptr()), false));
            }
            Some((Held::owned(error.into_ptr()), true))
        })
    }
}

/// The exception that a future holds, or None.
///
/// # Safety
/// As [`take_set`].
pub unsafe fn error(py: Python<'_>, future: *mut ffi::PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: attached, no exception is set, and the future stands.
    unsafe { field(py, &EXCEPTION_FIELD, future) }
}

/// Whether an object is an asyncio future of the class written in C or of a subclass.
///
/// # Safety
/// The object stands; attached.
pub unsafe fn is(object: *mut ffi::PyObject) -> bool {
    let class = CLASS.load(Ordering::Acquire);
    // SAFETY: the class is null or lives for ever.
    unsafe { !class.is_null() && ffi::PyType_IsSubtype(ffi::Py_TYPE(object), class) != 0 }
}

/// A result that was sent to one future has reached a task that waits for another.
///
/// # Safety
/// The value stands; callbacks run attached on this thread.
pub unsafe fn reach(
    state: &mut ThreadState, waiter: &Tracee, from: &Tracee, value: *mut ffi::PyObject, is_error: bool,
) {
    let was = {
        let mut outcome = outcome(from);
        let was = *outcome;
        outcome.is_taken = true;
        was
    };
    if !was.is_taken && sent_values::is_asked_of(state, waiter) {
        // SAFETY: the pool and the result stand; callbacks run attached on this thread.
        unsafe {
            tell(state, value, is_error, |state, message| {
                message_view::arrived(state.host, &mut state.thread, waiter, was.origin(), message);
            });
        }
    }
}

/// A task is about to resume with the result of a future that it waited for.
///
/// # Safety
/// Attached, with no exception set; both stand.
pub unsafe fn woken(state: &mut ThreadState, task: *mut ffi::PyObject, future: *mut ffi::PyObject) {
    let known = state.host.directory.known(future as usize);
    // SAFETY: the pool and the result stand; callbacks run attached on this thread.
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
        !message_view::is_inner(frame) && !frame.is_some_and(|frame| loops::runs_inner(frame) || is_wake_up(frame))
    }
}

/// Whether a widely used library wakes a waiter of its locks, tasks or connections. Such a call is no message of the
/// program.
///
/// # Safety
/// The frame runs; attached.
unsafe fn is_wake_up(frame: Frame) -> bool {
    const LOCKS: [&str; 6] = ["Lock.", "Semaphore.", "CapacityLimiter.", "Condition.", "Event.", "TaskGroup."];
    // SAFETY: the caller promises that the frame runs, or is about to end, and is no shim, and the calling thread is
    // attached; the name is held while it is read.
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

/// Whether a callback is a method of an asyncio future.
///
/// # Safety
/// The object stands; the calling thread is attached.
pub unsafe fn is_method(callback: *mut ffi::PyObject) -> bool {
    // SAFETY: the type is checked before the layout is read; both classes are null or live for ever.
    unsafe {
        if callback.is_null() || ffi::PyCFunction_Check(callback) == 0 {
            return false;
        }
        let function: *mut ffi::PyCFunctionObject = callback.cast();
        let owner = (*function).m_self;
        !owner.is_null() && ffi::Py_TYPE(owner) == CLASS.load(Ordering::Acquire)
    }
}

/// A field of an asyncio future.
///
/// # Safety
/// `future` lives throughout, and the calling thread is attached to the interpreter.
unsafe fn field<'py>(py: Python<'py>, field: &Field, future: *mut ffi::PyObject) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the descriptor lives for ever. It reads a field of an object of its own class, and returns a new
    // reference or null.
    unsafe {
        let descriptor = field.load(Ordering::Acquire);
        let get = (*ffi::Py_TYPE(descriptor)).tp_descr_get?;
        let value = Bound::from_owned_ptr_or_opt(py, get(descriptor, future, ffi::Py_TYPE(future).cast()));
        if value.is_none() {
            ffi::PyErr_Clear();
        }
        value
    }
}

/// The first task that an asyncio future wakes and that gets its result. The task waits for this future or for one that
/// the library sets with this one's result. `None` if there is no such task.
///
/// # Safety
/// `future` lives throughout, and the calling thread is attached to the interpreter, with no exception set.
pub unsafe fn waiting_task(py: Python<'_>, future: *mut ffi::PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the future lives throughout, attached, no exception is set.
    unsafe { waiting_outside(py, future, gathered::DEPTH) }
}

/// # Safety
/// As [`waiting_task`].
unsafe fn waiting_outside(py: Python<'_>, future: *mut ffi::PyObject, depth: u32) -> Option<Bound<'_, PyAny>> {
    // SAFETY: each type is checked before its layout is read.
    unsafe {
        for entry in field(py, &CALLBACKS, future)?.cast::<PyList>().ok()?.iter() {
            let callback = entry.cast::<PyTuple>().ok()?.get_item(0).ok()?;
            if ffi::PyCFunction_CheckExact(callback.as_ptr()) == 0 {
                let outer = gathered::outside(py, callback.as_ptr()).filter(|_| depth > 0);
                if let Some(task) = outer.and_then(|outer| waiting_outside(py, outer.as_ptr(), depth - 1)) {
                    return Some(task);
                }
                continue;
            }
            let owner = ffi::PyCFunction_GetSelf(callback.as_ptr());
            let task =
                !owner.is_null() && ffi::PyType_IsSubtype(ffi::Py_TYPE(owner), TASK.load(Ordering::Acquire)) != 0;
            if task {
                return Some(Bound::from_borrowed_ptr(py, owner));
            }
            ffi::PyErr_Clear();
        }
        None
    }
}

/// The process of that task.
///
/// # Safety
/// As [`waiting_task`].
pub unsafe fn waiter(state: &mut ThreadState, future: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    // SAFETY: the future lives throughout, attached, no exception is set.
    untraced(state, |py, state| unsafe {
        let task = waiting_task(py, future)?;
        Some(state.host.directory.task(state.host, task.as_ptr() as usize, None))
    })
}

/// The first task that waits for a future of `concurrent.futures` through an asyncio future (`asyncio.wrap_future`).
///
/// # Safety
/// As [`waiting_task`].
pub unsafe fn chained_task(py: Python<'_>, future: *mut ffi::PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the future lives throughout, attached, no exception is set.
    unsafe {
        let callbacks = attribute(py, future, "_done_callbacks")?.cast_into::<PyList>().ok()?;
        callbacks.iter().find_map(|callback| {
            let outer = gathered::outside(py, callback.as_ptr())?;
            waiting_task(py, outer.as_ptr())
        })
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
    // SAFETY: as in `setting`; this function holds the result.
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
    // SAFETY: the pool and the result stand; callbacks run attached on this thread.
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
