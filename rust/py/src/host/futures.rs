//! Futures as messages: whoever sets a result sends it, and the process that waits for it, or takes it, receives it.
//!
//! A future whose result somebody is known to wait for delivers to that process, at once, as a mailbox does. Any other is a queue
//! with one message, which is received by the first process that takes it.

use super::{
    directory,
    here::Here,
    instruments::Instrument,
    loops,
    modules::{self, Module},
    parcels::{self, quietly},
    passing::{self, Message, Sender},
    pickles,
    spawning::attribute,
    tokens,
    watch::{self, Ended, Handler},
    Host,
};
use crate::{
    capture,
    ffi::{
        frame::{code_qualname, module_of, Frame},
        held::Held,
        method::{Method, Wrapper},
    },
};
use inviso_core::{
    flags::Flags,
    messages::{self, About},
    seq::Carried,
    tracee::{Kind, Tracee},
};
use pyo3::{ffi, prelude::*, types::*};
use std::{
    cell::RefCell,
    sync::{
        atomic::{AtomicPtr, Ordering},
        Arc, MutexGuard,
    },
};

/// Futures of both kinds.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.messages(),
    |py, host| modules::want(py, host, &MODULES),
    end,
    |_| {
        modules::forget(&MODULES);
        give_back();
    },
);

/// `set_result` of a future that is written in Python.
pub static SET_RESULT: Handler = Handler { begin: Some(|here, frame| on_set(here, frame, false)), ..Handler::NONE };

/// `set_exception`, likewise.
pub static SET_EXCEPTION: Handler = Handler { begin: Some(|here, frame| on_set(here, frame, true)), ..Handler::NONE };

/// `result` of `concurrent.futures.Future`.
pub static RESULT: Handler =
    Handler { begin: Some(on_take), end: Some(|here, frame, how| on_taken(here, frame, how, false)), ..Handler::NONE };

/// `exception`, likewise.
pub static EXCEPTION: Handler =
    Handler { begin: Some(on_take), end: Some(|here, frame, how| on_taken(here, frame, how, true)), ..Handler::NONE };

/// Where they are defined.
pub static MODULES: [Module; 2] =
    [Module::new("concurrent.futures._base", adopt_concurrent), Module::new("_asyncio", adopt_asyncio)];

/// What becomes of a future's result, as far as that is known.
#[derive(Default, Clone, Copy, Debug)]
pub struct Outcome {
    /// Who gets the result by whatever is set: the process that asked for it. 0: nobody asked.
    pub reply_to: u64,
    /// Whether it comes from another operating system process, by a thread that has nothing to do with it.
    pub comes_from_afar: bool,
    /// Whether the library asked for it for itself: no message.
    pub is_inner: bool,
    /// Whether it has been set.
    pub is_set: bool,
    /// By whom, 0 where that is not known.
    by: u64,
    /// Whether it has been received.
    is_taken: bool,
    /// The process that waits for it, and how many do.
    waiter: u64,
    waiters: u32,
}

/// What is known of a future.
pub fn outcome(future: &Tracee) -> MutexGuard<'_, Outcome> {
    directory::process(future).result.lock().unwrap_or_else(|e| e.into_inner())
}

/// The record of an object that a message goes through; made at first sight.
///
/// # Safety
/// The object stands; callbacks run attached on this thread.
pub unsafe fn record(here: &mut Here, object: *mut ffi::PyObject) -> Arc<Tracee> {
    let was = std::mem::replace(&mut here.thread.busy, true);
    let record = here.host.directory.object_process(here.host, Kind::Queue, object as usize, None);
    here.thread.busy = was;
    record
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
        ],
    )
}

fn end(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    give_back();
    watch::remove(py, host, &[&SET_RESULT, &SET_EXCEPTION, &RESULT, &EXCEPTION])?;
    modules::leave(py, host, &MODULES)
}

/// The plain attribute of an object, if it is a str among these.
///
/// # Safety
/// As [`attribute`].
pub unsafe fn is_in_state(py: Python<'_>, object: *mut ffi::PyObject, states: &[&str]) -> bool {
    // SAFETY: the caller's promise; held while it is looked at.
    unsafe {
        attribute(py, object, "_state").is_some_and(|now| states.iter().any(|s| capture::is_text(now.as_ptr(), s)))
    }
}

/// A result is about to be set.
fn on_set(here: &mut Here, frame: Frame, is_error: bool) {
    // SAFETY: the first two parameters, at the beginning; the caller's frame runs.
    let (object, value, inner) = unsafe { (frame.local(0), frame.local(1), passing::is_inner(passing::caller(frame))) };
    let known = here.host.directory.known(object as usize);
    let now = known.as_ref().map_or_else(Outcome::default, |known| *outcome(known));
    let reply = now.reply_to != 0;
    if known.is_none() && inner || now.is_inner || object.is_null() || value.is_null() {
        return;
    }
    // SAFETY: callbacks run attached on this thread; both objects stand.
    unsafe {
        here.running.identify(here.host, &mut here.thread);
        if !quietly(here, |py, _| is_in_state(py, object, &["PENDING", "RUNNING"])) {
            return; // the call is going to raise
        }
        let future = known.unwrap_or_else(|| record(here, object));
        match (reply, inner) {
            (true, _) => {
                let setter = finished_task(here, frame);
                reply_with(here, &future, setter.as_deref(), value, is_error);
            }
            (false, false) => {
                let now = *outcome(&future);
                let waiter = match now.waiters {
                    0 => quietly(here, |py, here| {
                        let task = chained_task(py, object)?;
                        Some(here.host.directory.task(here.host, task.as_ptr() as usize, None))
                    }),
                    1 => here.host.node.tracee(now.waiter),
                    _ => None,
                };
                send(here, &future, None, waiter.as_deref(), value, is_error);
            }
            (false, true) => outcome(&future).is_set = true,
        }
    }
}

/// The task whose result is being set by the event loop, for whoever handed its coroutine to the loop; seen from the setting
/// method's frame.
///
/// # Safety
/// The frame is that of the event that is being taken, which begins; attached.
unsafe fn finished_task(here: &mut Here, frame: Frame) -> Option<Arc<Tracee>> {
    // SAFETY: the callers': the event's frame begins, its caller runs; that one's second parameter stands.
    unsafe {
        let caller = passing::caller(frame).filter(|_| here.host.node.seq_in_use())?;
        if !capture::is_text(code_qualname(caller.code()), "_set_concurrent_future_state") {
            return None;
        }
        here.host.directory.known(caller.local(1) as usize).filter(|known| known.kind == Kind::Task)
    }
}

/// Who asked, unless it has ended: a task may have done so unseen.
pub fn living(here: &mut Here, asker: u64) -> Option<Arc<Tracee>> {
    quietly(here, |py, here| here.host.directory.living(py, here.host, asker))
}

/// The result of a call that somebody asked for goes back to them: from the running process, though its token may be that of
/// `setter`.
///
/// # Safety
/// The value stands; callbacks run attached on this thread.
pub unsafe fn reply_with(
    here: &mut Here, future: &Tracee, setter: Option<&Tracee>, value: *mut ffi::PyObject, is_error: bool,
) {
    let now = *outcome(future);
    let asker = living(here, now.reply_to);
    // SAFETY: the caller's: callbacks run attached on this thread, and the value stands.
    unsafe {
        if !now.comes_from_afar {
            return send(here, future, setter, asker.as_deref(), value, is_error);
        }
        if let Some(carried) = pickles::waiting() {
            tokens::keep(future, carried);
        }
        if let Some(asker) = &asker {
            tell(here, value, is_error, |here, message| {
                passing::arrived(here.host, &mut here.thread, asker, Sender::Unknown, message);
            });
        }
    }
    let mut outcome = outcome(future);
    (outcome.is_set, outcome.is_taken) = (true, asker.is_some());
}

/// The running process sends a result: to the process that waits for it, or to the future.
///
/// # Safety
/// The value stands; callbacks run attached on this thread.
unsafe fn send(
    here: &mut Here, future: &Tracee, setter: Option<&Tracee>, waiter: Option<&Tracee>, value: *mut ffi::PyObject,
    is_error: bool,
) {
    let from = setter.map_or(About::Current, About::Other);
    let own = here.thread.current().pid;
    {
        let mut outcome = outcome(future);
        (outcome.is_set, outcome.by, outcome.is_taken) = (true, own, waiter.is_some());
    }
    let asked = parcels::is_asked(here, Flags::SEND) || waiter.is_some_and(|waiter| parcels::is_asked_of(here, waiter));
    let to = waiter.map_or(future.pid, |waiter| waiter.pid);
    if !asked && !setter.map_or_else(|| tokens::has(here), |setter| here.host.node.seq_may_have(setter)) {
        // SAFETY: attached.
        return unsafe { tokens::send_by(here, from, future, to, std::ptr::null_mut()) };
    }
    // SAFETY: the caller's promise.
    unsafe {
        tell(here, value, is_error, |here, message| {
            let parcel = Message::to(message, to);
            messages::on_send(&here.host.node, &mut here.thread, About::Current, true, &parcel);
            if let Some(waiter) = waiter {
                passing::arrived(here.host, &mut here.thread, waiter, Sender::Process(own), message);
            }
            tokens::send_by(here, from, future, to, message);
        });
    }
}

/// Calls `with` with the message that a value or an exception is.
///
/// # Safety
/// The value stands; callbacks run attached on this thread.
pub unsafe fn tell(
    here: &mut Here, value: *mut ffi::PyObject, is_error: bool, with: impl FnOnce(&mut Here, *mut ffi::PyObject),
) {
    if !is_error {
        return with(here, value);
    }
    // SAFETY: the caller's promise; nothing is set while it is made.
    let message = parcels::made(here, |py| unsafe { parcels::of_exception(py, value).ok() });
    if !message.is_null() {
        with(here, message.as_ptr());
    }
}

/// The message that a value or an exception is, held.
///
/// # Safety
/// As [`tell`].
unsafe fn as_message(here: &mut Here, value: *mut ffi::PyObject, is_error: bool) -> Held {
    let mut message = Held::borrowed(std::ptr::null_mut());
    // SAFETY: the caller's promise; a reference more, which `Held` gives back.
    unsafe {
        tell(here, value, is_error, |_, object| {
            ffi::Py_INCREF(object);
            message = Held::owned(object);
        });
    }
    message
}

thread_local! {
    /// Calls of this thread that take a result: the frame, and the future, whose variable is gone when they end.
    static TAKING: RefCell<Vec<(usize, Arc<Tracee>)>> = const { RefCell::new(Vec::new()) };
}

/// The program asks for a result.
fn on_take(here: &mut Here, frame: Frame) {
    // SAFETY: the first parameter, at the beginning; the caller's frame runs.
    let (object, inner) = unsafe { (frame.local(0), passing::is_inner(passing::caller(frame))) };
    if inner || object.is_null() {
        return;
    }
    // SAFETY: callbacks run attached on this thread.
    let future = unsafe {
        here.running.identify(here.host, &mut here.thread);
        record(here, object)
    };
    let own = here.thread.current().pid;
    // SAFETY: as above.
    let is_set = quietly(here, |py, _| unsafe { is_in_state(py, object, &["FINISHED"]) });
    {
        let mut outcome = outcome(&future);
        outcome.is_set |= is_set;
        outcome.waiters += 1;
        outcome.waiter = own;
    }
    TAKING.with_borrow_mut(|taking| {
        // a call that was not seen to end
        taking.retain(|(address, _)| *address != frame.address());
        taking.push((frame.address(), future));
    });
}

/// It gets one, or none.
fn on_taken(here: &mut Here, frame: Frame, how: Ended, shows_error: bool) {
    let future = TAKING.with_borrow_mut(|taking| {
        let at = taking.iter().rposition(|(address, _)| *address == frame.address())?;
        Some(taking.swap_remove(at).1)
    });
    let Some(future) = future else { return };
    let now = {
        let mut outcome = outcome(&future);
        outcome.waiters = outcome.waiters.saturating_sub(1);
        *outcome
    };
    // SAFETY: what ends the call is held by the interpreter; attached.
    let (value, is_error) = unsafe {
        match how {
            Ended::Returned(value) => (value, shows_error),
            Ended::Raised(error) => (error.object(), true),
        }
    };
    // SAFETY: as above; the classes live for ever.
    unsafe {
        here.running.identify(here.host, &mut here.thread);
        if let (Ended::Raised(error), false) = (how, now.is_set) {
            if error.is_a(ffi::PyExc_TimeoutError) {
                passing::timed_out(here);
            }
            return;
        }
        // no exception: the result is still to be taken
        if shows_error && value == ffi::Py_None() {
            return;
        }
        if shows_error && matches!(how, Ended::Raised(_)) {
            return;
        }
        receive(here, &future, value, is_error);
    }
}

/// The running process takes a result, if nobody has before.
///
/// # Safety
/// The value stands; callbacks run attached on this thread.
unsafe fn receive(here: &mut Here, future: &Tracee, value: *mut ffi::PyObject, is_error: bool) {
    // SAFETY: the callers' promise.
    unsafe { tokens::receive_by(here, About::Current, future, |here| as_message(here, value, is_error)) };
    let was = {
        let mut outcome = outcome(future);
        let was = *outcome;
        outcome.is_taken = true;
        was
    };
    if was.is_taken || !parcels::is_asked(here, Flags::RECEIVE) {
        return;
    }
    let sender = if was.by == 0 { Sender::Unknown } else { Sender::Process(was.by) };
    // SAFETY: the caller's: the value stands, and callbacks run attached on this thread.
    unsafe {
        tell(here, value, is_error, |here, message| {
            let parcel = Message::from(message, sender);
            messages::on_receive(&here.host.node, &mut here.thread, About::Current, &parcel);
        });
    }
}

// asyncio's futures, which are written in C

static C_SET_RESULT: Method = Method::new();
static C_SET_EXCEPTION: Method = Method::new();
static C_RESULT: Method = Method::new();
static C_EXCEPTION: Method = Method::new();

/// A descriptor of the class, which reads a field of its instances.
type Field = AtomicPtr<ffi::PyObject>;

/// The callbacks that wait, the value, the exception.
static CALLBACKS: Field = AtomicPtr::new(std::ptr::null_mut());
static RESULT_FIELD: Field = AtomicPtr::new(std::ptr::null_mut());
static EXCEPTION_FIELD: Field = AtomicPtr::new(std::ptr::null_mut());
/// The future class.
static CLASS: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());
/// What its `am_await` was.
static AWAIT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
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

fn adopt_asyncio(_py: Python<'_>, _host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    let (class, task) = (module.getattr("Future")?, module.getattr("Task")?);
    let fields = class.getattr("__dict__")?;
    for (place, name) in [(&CALLBACKS, "_callbacks"), (&RESULT_FIELD, "_result"), (&EXCEPTION_FIELD, "_exception")] {
        place.store(fields.get_item(name)?.into_ptr(), Ordering::Release);
    }
    // SAFETY: the wrappers keep to their kinds' contracts and call the originals on. The class, and what is in its dict, belongs to
    // a module that is never unloaded; one more reference makes sure of that.
    unsafe {
        TASK.store(task.into_ptr().cast(), Ordering::Release);
        CLASS.store(class.clone().into_ptr().cast(), Ordering::Release);
        if let Some(word) = await_slot() {
            let there = word.load(Ordering::Acquire);
            if !std::ptr::eq(there, awaiting as *const ()) {
                AWAIT.store(there, Ordering::Release);
                word.store(awaiting as *mut (), Ordering::Release);
            }
        }
        C_SET_RESULT.take(&class, "set_result", &SETTERS[0])?;
        C_SET_EXCEPTION.take(&class, "set_exception", &SETTERS[1])?;
        C_RESULT.take(&class, "result", &GETTERS[0])?;
        C_EXCEPTION.take(&class, "exception", &GETTERS[1])
    }
}

/// The word that says what `await` does with an asyncio future.
fn await_slot() -> Option<&'static AtomicPtr<()>> {
    let class = CLASS.load(Ordering::Acquire);
    // SAFETY: null or a class that lives for ever; the slot is read by the interpreter as one word, and written here as one.
    unsafe {
        let methods = class.as_ref()?.tp_as_async;
        (!methods.is_null()).then(|| AtomicPtr::from_ptr((&raw mut (*methods).am_await).cast()))
    }
}

/// `await future`: if the result is there already, the running process takes it. Subclasses have the original.
///
/// # Safety
/// To be called by the interpreter only.
unsafe extern "C" fn awaiting(future: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: in place only after the original was stored, a function of that type.
    let original: ffi::unaryfunc = unsafe { std::mem::transmute(AWAIT.load(Ordering::Acquire)) };
    // SAFETY: called attached, with a future that stands.
    unsafe {
        let there = super::try_host().and_then(|host| host.directory.known(future as usize));
        if let Some(record) = there {
            let now = *outcome(&record);
            let here = super::here::here().filter(|here| now.is_set && !here.thread.busy);
            if let Some(here) = here.filter(|here| !now.is_taken || tokens::waits(here, &record)) {
                here.running.identify(here.host, &mut here.thread);
                take_set(here, About::Current, &record, future);
            }
        }
        original(future)
    }
}

/// A process takes the result of a future that is done, as `await` is about to, or as the task is woken that waits for it.
///
/// # Safety
/// Attached, with no exception set; the future, one of asyncio's, stands.
unsafe fn take_set(here: &mut Here, at: About<'_>, record: &Tracee, future: *mut ffi::PyObject) {
    // SAFETY: the caller's promise.
    unsafe {
        let taken = quietly(here, |py, _| {
            let error = field(py, &EXCEPTION_FIELD, future)?;
            if error.is_none() {
                return Some((field(py, &RESULT_FIELD, future)?.into_ptr(), false));
            }
            Some((error.into_ptr(), true))
        });
        let Some((value, is_error)) = taken else { return };
        let value = Held::owned(value);
        match at {
            About::Current => receive(here, record, value.as_ptr(), is_error),
            // its trace message came when the result was set
            About::Other(_) => {
                tokens::receive_by(here, at, record, |here| as_message(here, value.as_ptr(), is_error));
            }
        }
    }
}

/// A task is about to go on with the result of a future that it has waited for.
///
/// # Safety
/// Attached, with no exception set; both stand.
pub unsafe fn woken(here: &mut Here, task: *mut ffi::PyObject, future: *mut ffi::PyObject) {
    let Some(record) = here.host.directory.known(future as usize) else { return };
    let class = CLASS.load(Ordering::Acquire);
    // SAFETY: the caller's promise; the type is checked, and null or lives for ever.
    unsafe {
        if class.is_null() || !tokens::waits(here, &record) || ffi::PyType_IsSubtype(ffi::Py_TYPE(future), class) == 0 {
            return;
        }
        let tracee = here.running.process(here.host, &mut here.thread, task as usize);
        take_set(here, About::Other(&tracee), &record, future);
    }
}

fn give_back() {
    if let Some(word) = await_slot() {
        let original = AWAIT.load(Ordering::Acquire);
        if !original.is_null() {
            let _ = word.compare_exchange(awaiting as *mut (), original, Ordering::AcqRel, Ordering::Acquire);
        }
    }
    C_SET_RESULT.give_back(&SETTERS[0]);
    C_SET_EXCEPTION.give_back(&SETTERS[1]);
    C_RESULT.give_back(&GETTERS[0]);
    C_EXCEPTION.give_back(&GETTERS[1]);
}

/// This thread's state, if the program calls a method, and not the library.
///
/// # Safety
/// The calling thread is attached. As [`here`](super::here::here) for what it answers.
unsafe fn program() -> Option<&'static mut Here> {
    // SAFETY: the wrappers are called attached.
    unsafe {
        let here = super::here::here().filter(|here| !here.thread.busy)?;
        let frame = Frame::current_python(crate::ffi::tstate());
        let inner =
            passing::is_inner(frame) || frame.is_some_and(|frame| loops::runs_inner(frame) || is_wake_up(frame));
        (!inner).then_some(here)
    }
}

/// Whether a widely used library wakes one who waits for its locks, tasks or connections: no message of the program's.
///
/// # Safety
/// The frame runs; attached.
unsafe fn is_wake_up(frame: Frame) -> bool {
    const LOCKS: [&str; 6] = ["Lock.", "Semaphore.", "CapacityLimiter.", "Condition.", "Event.", "TaskGroup."];
    // SAFETY: the caller's promise; the name is held while it is looked at.
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
/// It stands; the calling thread is attached.
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
    // SAFETY: the descriptor lives for ever; it reads a field of the object, whose class it belongs to, and answers a new
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

/// The task that an asyncio future wakes first of those that wait for it: it gets the result. `None` if none does.
///
/// # Safety
/// `future` lives throughout, and the calling thread is attached to the interpreter.
unsafe fn waiting_task(py: Python<'_>, future: *mut ffi::PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: each type is checked before its layout is read.
    unsafe {
        for entry in field(py, &CALLBACKS, future)?.cast::<PyList>().ok()?.iter() {
            let callback = entry.cast::<PyTuple>().ok()?.get_item(0).ok()?;
            if ffi::PyCFunction_CheckExact(callback.as_ptr()) == 0 {
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

/// The first task that waits for a future of `concurrent.futures` through an asyncio future (`asyncio.wrap_future`).
///
/// # Safety
/// `future` lives throughout, and the calling thread is attached to the interpreter.
unsafe fn chained_task(py: Python<'_>, future: *mut ffi::PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the callers': the object stands, attached, nothing set; types are checked before layouts are read.
    unsafe {
        let callbacks = attribute(py, future, "_done_callbacks")?.cast_into::<PyList>().ok()?;
        let class = CLASS.load(Ordering::Acquire);
        for callback in callbacks.iter() {
            if ffi::PyFunction_Check(callback.as_ptr()) == 0 {
                continue;
            }
            let code = ffi::PyFunction_GetCode(callback.as_ptr());
            if !capture::is_text(code_qualname(code), "_chain_future.<locals>._call_set_state") {
                continue;
            }
            let Some(destination) = closed_over(py, callback.as_ptr(), "destination") else { continue };
            let plain = !class.is_null() && ffi::PyType_IsSubtype(ffi::Py_TYPE(destination.as_ptr()), class) != 0;
            if let Some(task) = plain.then(|| waiting_task(py, destination.as_ptr())).flatten() {
                return Some(task);
            }
        }
        None
    }
}

/// What a function that is written inside another has of that one's variables; null if nothing.
///
/// # Safety
/// A Python function, which stands; the calling thread is attached and has no exception set.
pub unsafe fn closed_over(py: Python<'_>, function: *mut ffi::PyObject, name: &str) -> Option<Held> {
    // SAFETY: the caller's promise; the types are checked.
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

/// What goes with the result that the library passes on to an asyncio future by this frame, where it does.
///
/// # Safety
/// The frame runs; attached.
pub unsafe fn passed_on(here: &mut Here, frame: Frame) -> Option<Carried> {
    // SAFETY: the caller's promise; the function's second parameter.
    unsafe {
        if !capture::is_text(code_qualname(frame.code()), "_copy_future_state") {
            return None;
        }
        let target = here.host.directory.known(frame.local(1) as usize)?;
        tokens::shown_by(&target)
    }
}

/// The library sets a future: if with another one's result, that goes on by this one.
///
/// # Safety
/// It stands; the calling thread is attached.
unsafe fn forward(future: *mut ffi::PyObject) {
    // SAFETY: attached; the function's first two variables are its parameters, which stand while it runs.
    unsafe {
        let Some(here) = super::here::here().filter(|here| !here.thread.busy && here.host.node.seq_in_use()) else {
            return;
        };
        let Some(frame) = Frame::current_python(crate::ffi::tstate()) else { return };
        if !capture::is_text(code_qualname(frame.code()), "_copy_future_state") || frame.local(1) != future {
            return;
        }
        let Some(source) = here.host.directory.known(frame.local(0) as usize) else { return };
        let target = record(here, future);
        tokens::forward(&source, &target);
        outcome(&target).is_set = true;
        outcome(&target).is_taken = true; // of trace messages, where it was set
    }
}

/// Runs the original with the message told of where it succeeds.
///
/// # Safety
/// `future` lives throughout, as does `value` unless it is null, and the calling thread is attached to the interpreter.
unsafe fn setting(
    future: *mut ffi::PyObject, value: *mut ffi::PyObject, is_error: bool,
    original: impl FnOnce() -> *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the wrappers are called attached, with arguments that their caller holds.
    unsafe {
        let Some(here) = program() else {
            forward(future);
            return original();
        };
        if value.is_null() {
            return original();
        }
        here.running.identify(here.host, &mut here.thread);
        let waiter = quietly(here, |py, here| {
            let task = waiting_task(py, future)?;
            Some(here.host.directory.task(here.host, task.as_ptr() as usize, None))
        });
        let done = original();
        if !done.is_null() {
            if let Some(here) = super::here::here().filter(|here| !here.thread.busy) {
                here.running.identify(here.host, &mut here.thread);
                let record = record(here, future);
                send(here, &record, None, waiter.as_deref(), value, is_error);
            }
        }
        done
    }
}

/// Runs the original, whose result is received unless somebody has before.
///
/// # Safety
/// `future` lives throughout, and the calling thread is attached to the interpreter.
unsafe fn getting(
    future: *mut ffi::PyObject, shows_error: bool, original: impl FnOnce() -> *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let done = original();
    // SAFETY: as in `setting`; the result is held here.
    unsafe {
        let Some(here) = super::here::here().filter(|here| !here.thread.busy) else { return done };
        let Some(record) = here.host.directory.known(future as usize) else { return done };
        let now = *outcome(&record);
        let nothing = shows_error && (done.is_null() || done == ffi::Py_None());
        if !now.is_set || now.is_taken && !tokens::waits(here, &record) || nothing {
            return done;
        }
        here.running.identify(here.host, &mut here.thread);
        // the library's own coroutines take a result for the task that runs them; its callbacks only look at it
        let inner = passing::is_inner(Frame::current_python(crate::ffi::tstate()));
        if inner && here.thread.current().kind != Kind::Task {
            return done;
        }
        if !done.is_null() {
            receive(here, &record, done, shows_error);
            return done;
        }
        Python::attach(|py| {
            if let Some(error) = PyErr::take(py) {
                receive(here, &record, error.value(py).as_ptr(), true);
                error.restore(py);
            }
        });
        done
    }
}

macro_rules! setter {
    ($method:ident, $plain:ident, $of_class:ident, $is_error:expr) => {
        /// # Safety
        /// To be called by the interpreter only.
        // SAFETY: `Method::take` puts it in the place of a method that is called so, and nobody else has it.
        unsafe extern "C" fn $plain(this: *mut ffi::PyObject, value: *mut ffi::PyObject) -> *mut ffi::PyObject {
            // SAFETY: `take` has looked at the flags: METH_O.
            unsafe {
                let original = $method.original::<crate::ffi::method::Plain>();
                setting(this, value, $is_error, || original(this, value))
            }
        }

        /// # Safety
        /// To be called by the interpreter only.
        // SAFETY: as above.
        unsafe extern "C" fn $of_class(
            this: *mut ffi::PyObject, class: *mut ffi::PyTypeObject, args: *const *mut ffi::PyObject,
            count: ffi::Py_ssize_t, names: *mut ffi::PyObject,
        ) -> *mut ffi::PyObject {
            // SAFETY: `take` has looked at the flags: METH_METHOD | METH_FASTCALL | METH_KEYWORDS. The one parameter can't be named.
            unsafe {
                let original = $method.original::<crate::ffi::method::OfClass>();
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
        // SAFETY: `Method::take` puts it in the place of a method that is called so, and nobody else has it.
        unsafe extern "C" fn $plain(this: *mut ffi::PyObject, none: *mut ffi::PyObject) -> *mut ffi::PyObject {
            // SAFETY: `take` has looked at the flags: METH_NOARGS.
            unsafe {
                let original = $method.original::<crate::ffi::method::Plain>();
                getting(this, $shows_error, || original(this, none))
            }
        }

        /// # Safety
        /// To be called by the interpreter only.
        // SAFETY: as above.
        unsafe extern "C" fn $of_class(
            this: *mut ffi::PyObject, class: *mut ffi::PyTypeObject, args: *const *mut ffi::PyObject,
            count: ffi::Py_ssize_t, names: *mut ffi::PyObject,
        ) -> *mut ffi::PyObject {
            // SAFETY: `take` has looked at the flags: METH_METHOD | METH_FASTCALL | METH_KEYWORDS.
            unsafe {
                let original = $method.original::<crate::ffi::method::OfClass>();
                getting(this, $shows_error, || original(this, class, args, count, names))
            }
        }
    };
}

setter!(C_SET_RESULT, set_result, set_result_of, false);
setter!(C_SET_EXCEPTION, set_exception, set_exception_of, true);
getter!(C_RESULT, result, result_of, false);
getter!(C_EXCEPTION, exception, exception_of, true);
