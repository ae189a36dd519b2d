//! Callbacks and coroutines that other threads hand to an event loop. Each is a message to the loop's thread, received
//! when it begins.
//!
//! # Roles
//! The thread that schedules a callback or coroutine adds its sender. The loop's thread takes it out. A forked child
//! drops both tables.
//!
//! # States
//! A table is null before its first use and after a fork. An entry lives from the scheduling until the callback or
//! coroutine begins, or until another object gets its address.
//!
//! # Orderings
//! The mutex of a table orders its entries. The pointer to a table is set with `AcqRel` and read with `Acquire`.
//! `THREADSAFE` is set with `Release` and read with `Acquire`.
//!
//! # Checked by
//! `tests/python/test_futures.py`, `tests/python/test_seq_carriers.py`, `tests/python/test_host_fork.py`.

pub mod loop_callbacks;
pub mod loop_lag;
pub mod loop_tokens;
pub mod uv_loops;
#[cfg(not(Py_3_12))]
pub mod wait_for;

use super::{
    inner_callbacks,
    results::{closed_over, outcome, record},
};
use crate::{
    control::originals,
    instrument::{
        callback_tokens::{self, CallbackToken},
        message_view, modules, sent_values, tokens, watch,
    },
    state::{
        host::Host,
        instrument::{Ended, Handler, Instrument, Module},
        origin::{Origin, Sender},
        thread::ThreadState,
        untraced::{self, untraced},
    },
};
use inviso_core::host::{flags::Flags, messages::About, seq::Carried, sync::Unpoisoned};
use inviso_cpython::{
    capture,
    frames::frame::{code_qualname, Frame},
    interpreter::{calling::attached, generic::attribute},
    object::{held::Held, interned::Interned},
    tasks::steps,
};
use inviso_term::record::numbered::MessageKind;
use pyo3::{ffi, prelude::*, types::*};
use rustc_hash::FxHashMap;
use std::sync::{
    atomic::{AtomicPtr, AtomicUsize, Ordering},
    Mutex, MutexGuard,
};

/// The instrument of event loops.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.messages(),
    |py, host| modules::want(py, host, &MODULES),
    |py, host| {
        watch::remove(py, host, &[&HANDLE, &RUN, &SUBMIT, &BEGUN])?;
        for of in [&HANDLES, &COROUTINES] {
            drop(std::mem::take(&mut *senders(of)));
        }
        modules::leave(py, host, &MODULES)
    },
    |_| {
        forget_all();
        modules::forget(&MODULES);
    },
);

/// `Handle.__init__`: a callback is scheduled, and can't have run yet.
pub static HANDLE: Handler = Handler { begin: Some(on_handle), ..Handler::NONE };

/// `Handle._run`: the callback runs.
pub static RUN: Handler = Handler { begin: Some(on_run), ..Handler::NONE };

/// `run_coroutine_threadsafe`.
pub static SUBMIT: Handler =
    Handler { begin: Some(on_submit), end: Some(on_submitted), raises_only: true, ..Handler::NONE };

/// The function inside `run_coroutine_threadsafe` that the loop runs.
pub static BEGUN: Handler = Handler { begin: Some(on_begun), ..Handler::NONE };

/// The modules that define them.
pub static MODULES: [Module; 3] = [
    Module::new("asyncio.events", adopt_events),
    Module::new("asyncio.tasks", adopt_tasks),
    Module::new("asyncio.base_events", adopt_loops),
];

/// The code of `BaseEventLoop.call_soon_threadsafe`.
static THREADSAFE: AtomicUsize = AtomicUsize::new(0);

/// The senders of callbacks and coroutines that are on their way, by the address of the handle or coroutine. If the
/// object of an entry is gone, the next object at its address overwrites the entry: each object that is looked up here
/// was added before.
type CallbackSenders = Mutex<FxHashMap<usize, ScheduledCall>>;

/// A callback or coroutine on its way to an event loop.
struct ScheduledCall {
    by: u64,
    /// The message's number, or 0.
    number: u64,
    /// Its token.
    carried: Carried,
}

impl ScheduledCall {
    /// Scheduled by the library for itself: the callback sets a future.
    const INNER: ScheduledCall = ScheduledCall { by: u64::MAX, number: 0, carried: Carried::Nothing };
    /// The `by` of a callback that was scheduled in the loop's own thread, which sends no message.
    const SCHEDULED: u64 = 0;

    fn is_inner(&self) -> bool {
        self.by == u64::MAX
    }
}

/// Handles of callbacks, and coroutines, that are on their way. Replaced after a fork, because a thread that no longer
/// exists may hold the lock.
static HANDLES: AtomicPtr<CallbackSenders> = AtomicPtr::new(std::ptr::null_mut());
static COROUTINES: AtomicPtr<CallbackSenders> = AtomicPtr::new(std::ptr::null_mut());

fn senders(of: &'static AtomicPtr<CallbackSenders>) -> MutexGuard<'static, FxHashMap<usize, ScheduledCall>> {
    let mut there = of.load(Ordering::Acquire);
    if there.is_null() {
        let fresh = Box::into_raw(Box::default());
        there = match of.compare_exchange(there, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(other) => other,
        };
    }
    // SAFETY: the pointer comes from `Box::into_raw` and is never freed.
    unsafe { &*there }.lock().unpoisoned()
}

fn forget_all() {
    // a thread that does not exist in the child may hold the lock
    HANDLES.store(std::ptr::null_mut(), Ordering::Release);
    COROUTINES.store(std::ptr::null_mut(), Ordering::Release);
}

fn adopt_events(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    modules::watch_all(
        py,
        host,
        module,
        &[
            ("Handle.__init__", &["self", "callback", "args", "loop", "context"], &HANDLE),
            ("Handle._run", &["self"], &RUN),
        ],
    )
}

fn adopt_loops(_py: Python<'_>, _host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    let threadsafe = modules::code(module, "BaseEventLoop.call_soon_threadsafe", &["self", "callback"])?;
    // kept for ever, so no other code gets its address
    THREADSAFE.store(threadsafe.into_ptr() as usize, Ordering::Release);
    Ok(())
}

fn adopt_tasks(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    let submit = modules::code(module, "run_coroutine_threadsafe", &["coro", "loop"])?;
    watch::add(py, host, &SUBMIT, std::slice::from_ref(&submit))?;
    for constant in submit.getattr("co_consts")?.try_iter()? {
        let constant = constant?;
        // SAFETY: the object is held.
        if unsafe { ffi::PyCode_Check(constant.as_ptr()) } != 0 {
            watch::add(py, host, &BEGUN, &[constant])?;
        }
    }
    Ok(())
}

/// The process that runs an event loop, or the loop as a queue while no process runs it.
///
/// # Safety
/// The event loop stands; callbacks run attached on this thread.
unsafe fn process_of(state: &mut ThreadState, event_loop: *mut ffi::PyObject) -> u64 {
    let running = untraced(state, |py, state| {
        // SAFETY: the event loop stands, and no exception is set inside `untraced`.
        let ident = unsafe { attribute(py, event_loop, "_thread_id") }.filter(|ident| !ident.is_none())?;
        state.host.directory.of_ident(py, state.host, &ident).map(|thread| thread.pid)
    });
    // SAFETY: the event loop stands; callbacks run attached on this thread.
    running.unwrap_or_else(|| unsafe { message_view::queue(state, event_loop) })
}

/// The frame that called the loop's method that makes a handle, and whether that method schedules a callback once.
/// `frame` is that of the handle's initialiser.
///
/// # Safety
/// The frame belongs to the current event and begins; attached.
unsafe fn scheduler(frame: Frame) -> (Option<Frame>, bool) {
    // SAFETY: the event's frame begins, so its callers run; attached.
    unsafe {
        let mut caller = message_view::caller(frame);
        let mut once = false;
        while let Some(within) = caller {
            let name = code_qualname(within.code());
            let is_loop = capture::text_is(name, |name| {
                name.starts_with("BaseEventLoop.call_")
                    || matches!(
                        name,
                        "BaseEventLoop._call_soon" | "TimerHandle.__init__" | "_ThreadSafeHandle.__init__"
                    )
            });
            if !is_loop {
                break;
            }
            once |= capture::text_is(name, |name| name.starts_with("BaseEventLoop.call_"));
            caller = originals::caller(within);
        }
        (caller, once)
    }
}

/// A callback is scheduled, perhaps by the program from another thread.
fn on_handle(state: &mut ThreadState, frame: Frame) {
    // SAFETY: callbacks run attached. The event's frame begins, so it has its parameters; its callers run.
    unsafe {
        let handle = frame.local(0) as usize;
        senders(&HANDLES).remove(&handle);
        if inner_callbacks::is_method(frame.local(1)) && message_view::is_inner(scheduler(frame).0) {
            senders(&HANDLES).insert(handle, ScheduledCall::INNER);
            return;
        }
        // one function lies between; it differs by version
        let between = message_view::caller(frame);
        let threadsafe = between
            .and_then(|f| originals::caller(f))
            .filter(|f| f.code() as usize == THREADSAFE.load(Ordering::Acquire));
        let Some(threadsafe) = threadsafe.filter(|frame| !message_view::is_inner(originals::caller(*frame))) else {
            return schedule(state, frame);
        };
        if attached(|py| loop_lag::is_probe(py, frame.local(1))) {
            return;
        }
        state.running.identify(state.host, &mut state.thread);
        let by = state.thread.current().pid;
        let (callback, args) = (frame.local(1), frame.local(2));
        let (number, carried) = if callback.is_null() || args.is_null() {
            (0, Carried::Empty)
        } else {
            send(state, threadsafe.local(0), |py| call(py, callback, args))
        };
        senders(&HANDLES).insert(handle, ScheduledCall { by, number, carried });
    }
}

/// The running process hands a callback or coroutine to an event loop. Returns the message's number and its token.
///
/// # Safety
/// The event loop stands; callbacks run attached on this thread.
pub unsafe fn send(
    state: &mut ThreadState, event_loop: *mut ffi::PyObject, make: impl FnOnce(Python<'_>) -> Option<Bound<'_, PyAny>>,
) -> (u64, Carried) {
    let asked = sent_values::is_asked(state, Flags::SEND);
    if !asked && !tokens::has(state) {
        return (0, Carried::Empty);
    }
    // SAFETY: the caller promises that the event loop stands and callbacks run attached on this thread; the message is
    // held.
    unsafe {
        let to = process_of(state, event_loop);
        let message = untraced::build_untraced(state, make);
        let number = if asked { sent_values::send(state, to, &message, MessageKind::Call) } else { 0 };
        let write = tokens::writing(message.as_ptr());
        (number, state.host.node.seq_send(&mut state.thread, About::Current, to, write))
    }
}

/// A callback is scheduled on the loop's own thread, which sends no message. It gets the running process's token if the
/// program scheduled it, and the token of the result if the library passes a result on. Otherwise it gets no token, nor
/// does a callback that is called more than once, such as a reader.
///
/// # Safety
/// The frame belongs to the current event and begins; attached.
unsafe fn schedule(state: &mut ThreadState, frame: Frame) {
    // SAFETY: the event's frame begins, so its callers run; attached.
    unsafe {
        if !state.host.node.seq_in_use() || steps::is_step(frame.local(1)) {
            return;
        }
        let (caller, once) = scheduler(frame);
        if !once {
            return;
        }
        let carried = match caller.filter(|caller| message_view::is_inner(Some(*caller))) {
            None => {
                state.running.identify(state.host, &mut state.thread);
                Some(state.host.node.seq_copy(state.thread.current()))
            }
            Some(library) => inner_callbacks::carried(state, library),
        };
        if let Some(carried) = carried {
            senders(&HANDLES)
                .insert(frame.local(0) as usize, ScheduledCall { by: ScheduledCall::SCHEDULED, number: 0, carried });
        }
    }
}

/// # Safety
/// Both stand; the calling thread is attached and has no exception set.
pub unsafe fn call(py: Python<'_>, callback: *mut ffi::PyObject, args: *mut ffi::PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: both stand, the thread is attached and no exception is set.
    unsafe {
        (ffi::PyTuple_Check(args) != 0).then(|| sent_values::of_call(py, callback, args, std::ptr::null_mut()).ok())?
    }
}

/// A callback is about to run.
fn on_run(state: &mut ThreadState, frame: Frame) {
    // SAFETY: callbacks run attached, and the event's frame begins.
    unsafe {
        let handle = frame.local(0);
        let sent = senders(&HANDLES).remove(&(handle as usize));
        let inner = sent.as_ref().is_some_and(ScheduledCall::is_inner);
        inner_callbacks::run(if inner { handle as usize } else { 0 });
        let way = match sent.filter(|_| !inner) {
            None => CallbackToken::None,
            Some(ScheduledCall { by: ScheduledCall::SCHEDULED, carried, .. }) => CallbackToken::Unseen(carried),
            Some(ScheduledCall { by, number, carried }) => {
                state.running.identify(state.host, &mut state.thread);
                if sent_values::is_asked(state, Flags::RECEIVE) {
                    let message = message_of(state, handle);
                    sent_values::receive(state, Origin::new(Sender::Process(by), number), &message);
                }
                CallbackToken::Message(carried)
            }
        };
        callback_tokens::begin(state, frame.address(), way, |state| message_of(state, handle));
    }
}

/// The message of a handle.
///
/// # Safety
/// The handle stands; callbacks run attached on this thread.
unsafe fn message_of(state: &mut ThreadState, handle: *mut ffi::PyObject) -> Held {
    untraced::build_untraced(state, |py| {
        // SAFETY: the handle stands; no exception is set while the message is made.
        unsafe {
            let (callback, args) = (attribute(py, handle, "_callback")?, attribute(py, handle, "_args")?);
            call(py, callback.as_ptr(), args.as_ptr())
        }
    })
}

/// The value of a variable that an inner function uses, too: its cell's value, or null.
///
/// # Safety
/// `variable` lives throughout, and the calling thread is attached to the interpreter.
unsafe fn shared(variable: *mut ffi::PyObject) -> Held {
    // SAFETY: attached, and the variable's cell or value stands; the type is checked.
    unsafe {
        if variable.is_null() || ffi::Py_TYPE(variable) != &raw mut ffi::PyCell_Type {
            return Held::borrowed(variable);
        }
        Held::owned(ffi::PyCell_Get(variable))
    }
}

/// A coroutine is handed to a loop.
fn on_submit(state: &mut ThreadState, frame: Frame) {
    // SAFETY: callbacks run attached, and the event's frame begins.
    unsafe {
        let (coroutine, event_loop) = (shared(frame.local(0)), shared(frame.local(1)));
        if coroutine.is_null() || event_loop.is_null() || !steps::is_coroutine(coroutine.as_ptr()) {
            return;
        }
        let closed = untraced(state, |py, _| {
            attribute(py, event_loop.as_ptr(), "_closed").is_some_and(|c| c.is(PyBool::new(py, true)))
        });
        if closed {
            return; // the call is going to raise
        }
        state.running.identify(state.host, &mut state.thread);
        let by = state.thread.current().pid;
        let (number, carried) =
            send(state, event_loop.as_ptr(), |py| sent_values::of_coroutine(py, coroutine.as_ptr()).ok().flatten());
        senders(&COROUTINES).insert(coroutine.as_ptr() as usize, ScheduledCall { by, number, carried });
    }
}

/// The coroutine could not be handed over.
fn on_submitted(_here: &mut ThreadState, frame: Frame, _how: Ended) {
    // SAFETY: the event's frame stands until the event ends.
    let coroutine = unsafe { shared(frame.local(0)) };
    senders(&COROUTINES).remove(&(coroutine.as_ptr() as usize));
}

/// The loop is about to make a task of a coroutine that another thread has handed to it.
fn on_begun(state: &mut ThreadState, frame: Frame) {
    // SAFETY: callbacks run attached, and the event's frame begins.
    unsafe {
        let Some([coroutine, future]) = untraced(state, |py, _| captured(py, frame)) else { return };
        let sender = senders(&COROUTINES).remove(&(coroutine.as_ptr() as usize));
        let Some(ScheduledCall { by, number, carried }) = sender else { return };
        state.running.identify(state.host, &mut state.thread);
        let record = record(state, future.as_ptr());
        outcome(&record).reply_to = by;
        let make = |state: &mut ThreadState| {
            untraced::build_untraced(state, |py| sent_values::of_coroutine(py, coroutine.as_ptr()).ok()?)
        };
        if sent_values::is_asked(state, Flags::RECEIVE) {
            let message = make(state);
            sent_values::receive(state, Origin::new(Sender::Process(by), number), &message);
        }
        if state.host.node.seq_in_use() {
            let message = tokens::message_for(state, &carried, make);
            let write = tokens::writing(message.as_ptr());
            state.host.node.seq_receive(&mut state.thread, About::Current, carried, write);
        }
    }
}

static CORO: Interned = Interned::new(c"coro");
static FUTURE: Interned = Interned::new(c"future");

/// The coroutine and the future of a running `callback`, from its function's closure: its own variables are not set
/// before its first instruction.
///
/// # Safety
/// The frame belongs to the current event and begins; attached, with no exception set.
unsafe fn captured(py: Python<'_>, frame: Frame) -> Option<[Held; 2]> {
    // SAFETY: the frame begins, attached, no exception is set; the function's type is checked.
    unsafe {
        let function = frame.function();
        if function.is_null() || ffi::PyFunction_Check(function) == 0 {
            let both = [&CORO, &FUTURE].map(|name| frame.free(name));
            return Some(both).filter(|both| !both.iter().any(Held::is_null));
        }
        Some([closed_over(py, function, "coro")?, closed_over(py, function, "future")?])
    }
}
